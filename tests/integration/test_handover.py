"""A new process takes the place of a running gateway (USR2), and nobody notices."""

import functools
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import unittest
import unittest.mock

import test_packaging
from lab import LabCase, main
from lab.gateway import binary, environment
from lab.launch import LaunchCase, binary as launch_binary
from lab.launcher import Launcher
from lab.talk import PATIENCE_S


def bench(program):
    return os.path.join(os.environ["SRT_BENCH_DIR"], f"bench-{program}")


class HandoverCase(LabCase):
    def lab(self, allow=(), hosts=(), listen=None, program=None, wrapper=(), **parts):
        self.good = self.upstream(name="good.test")
        self.configured = self.config(allow=[self.good.authority, *allow], hosts=[self.good, *hosts], listen=listen, **parts)
        for key in ("control", "admin"):
            self.configured = self.configured.replace(f"{key} = none", f"{key} = {self.path(key + '.sock')}")
        self.gw = self.gateway(self.configured, program=program, wrapper=wrapper)
        return self.gw

    def status(self):
        return json.loads(self.gw.operate("/status"))

    def tunnel(self):
        return self.gw.tunnel(self.good.authority).send("x").expect("x")

    def launcher(self):
        launcher = Launcher(self.path("control.sock"))
        self.addCleanup(launcher.close)
        return launcher

    def numbers(self):
        return [entry["seq"] for entry in self.gw.records()]

    def expect_failure(self, pattern):
        """USR2 comes to nothing, and the same process serves on."""
        after, pid = self.gw.stderr_lines(), self.gw.process.pid
        self.gw.send_signal(signal.SIGUSR2)
        said = self.gw.wait_for_stderr(lambda line: "hand-over failed" in line, after)
        self.assertRegex(said, pattern)
        entry = self.gw.wait_for_record(lambda entry: entry["kind"] == "admin" and entry["result"] == "failed")
        self.assertEqual(entry["action"], "hand-over")
        self.assertEqual(self.gw.process.pid, pid)
        self.tunnel()


class Asking(HandoverCase):
    def test_who_waits_for_an_approval_is_told_to_come_again_and_a_launcher_that_answers_still_does(self):
        self.lab(policy="default = ask", hosts=[])
        launcher = self.launcher()
        launcher.attach(ask=True)
        client = launcher.client()
        client.request("CONNECT x.test:443 HTTP/1.1")
        first = launcher.read()
        self.assertEqual((first["type"], first["host"]), ("ask", "x.test"))
        self.gw.hand_over()
        answer = client.response(to_method="CONNECT")
        self.assert_refused(answer, 503, "draining")
        self.assertTrue(answer.get("Retry-After"))
        client = launcher.client()
        client.request("CONNECT y.test:443 HTTP/1.1")
        message = launcher.read()
        while message["type"] != "ask":
            message = launcher.read()
        self.assertEqual(message["host"], "y.test")
        launcher.send({"type": "answer", "id": first["id"], "verdict": "approve", "for": "once"})
        launcher.send({"type": "answer", "id": message["id"], "verdict": "refuse", "for": "once"})
        self.assert_refused(client.response(to_method="CONNECT"), 403, "ask-refused")


class Place(HandoverCase):
    def test_everything_is_served_by_the_new_process_and_the_old_one_ends(self):
        listen = "address = 127.0.0.1:0\npolicy = main\n[listen second]\naddress = unix:in.sock\npolicy = main"
        self.lab(listen=listen.replace("in.sock", self.path("in.sock")))
        self.gw.refused_connect("evil.test:443")
        before = self.status()
        old = self.gw.hand_over()
        self.assertEqual(old.wait(PATIENCE_S), 0)
        after = self.status()
        for key in ("generation", "sha256", "listeners"):
            self.assertEqual(after[key], before[key], key)
        self.assertEqual((before["denied_total"], after["denied_total"]), (1, 0))
        for listener in ("main", "second"):
            self.assertEqual(self.gw.refused_connect("evil.test:443", listener=listener).status, 403)
        self.assertEqual(self.launcher().attach("box")["type"], "attached")
        paths = [self.path(name) for name in ("in.sock", "control.sock", "admin.sock")]
        self.assertTrue(all(map(os.path.exists, paths)))
        self.gw.stop()
        self.assertFalse(any(map(os.path.exists, paths)))
        self.assertEqual(self.numbers(), list(range(len(self.numbers()))))
        self.assertEqual([(entry["action"], entry["result"]) for entry in self.gw.records("admin")], [("hand-over", "ok")])

    def test_what_is_open_lives_on_in_the_old_process(self):
        self.lab()
        tunnels = []
        for _ in range(3):
            tunnels.append(self.tunnel())
            self.gw.hand_over()
        for tunnel in tunnels:
            tunnel.send("still").expect("still")
        self.assertEqual([process.poll() for process in self.gw.predecessors], [None] * 3)
        for tunnel in tunnels:
            tunnel.close()
        for process in self.gw.predecessors:
            self.assertEqual(process.wait(PATIENCE_S), 0)
        self.gw.close_record(number=3)
        self.assertEqual(self.numbers(), list(range(len(self.numbers()))))
        self.assertEqual({entry["cause"] for entry in self.gw.records("close")}, {"client"})

    def test_operators_see_and_cut_what_is_open_in_each_process(self):
        self.lab()
        tunnels = []
        for _ in range(3):
            tunnels.append(self.tunnel())
            self.gw.hand_over()
        tunnels.append(self.tunnel())
        ids = [self.gw.decision("good.test", number)["id"] for number in (1, 2, 3, 4)]
        listed = json.loads(self.gw.operate("/tunnels"))
        self.assertEqual(sorted(entry["id"] for entry in listed), sorted(ids))
        self.assertEqual({entry["host"] for entry in listed}, {"good.test"})
        self.assertEqual(self.status()["predecessors"], 3)
        for number in (1, 3):
            self.assertEqual(json.loads(self.gw.operate(f"/tunnels/{ids[number]}/cut", "POST")), {"cut": ids[number]})
            tunnels[number].expect_eof()
            self.assertEqual(self.gw.close_record(ids[number])["cause"], "cut")
        self.assertEqual(self.gw.predecessors[1].wait(PATIENCE_S), 0)
        self.assertIn("error", self.gw.operate(f"/tunnels/{ids[1]}/cut", "POST"))
        self.assertEqual(sorted(entry["id"] for entry in json.loads(self.gw.operate("/tunnels"))), sorted([ids[0], ids[2]]))
        tunnels[0].send("still").expect("still")
        self.assertEqual(self.status()["predecessors"], 2)

    def test_a_kept_connection_gets_its_answer_and_is_told_that_it_was_the_last(self):
        good = self.origin("web.test")
        self.lab(allow=[good.authority], allow_addresses="127.0.0.0/8")
        url = f"http://{good.address}:{good.authority.rsplit(':', 1)[1]}/"
        with self.gw.client() as client:
            self.assertEqual(client.get("http://evil.test/").status, 403)
            self.gw.hand_over()
            answer = client.get("http://evil.test/")
            self.assertEqual((answer.status, answer.get("Connection")), (403, "close"))
            client.expect_eof()
        self.assertEqual(self.gw.get(url).status, 403)

    def test_an_idle_kept_connection_does_not_hold_the_old_process(self):
        self.lab(gateway="")
        with self.gw.client() as client:
            client.get("http://evil.test/")
            old = self.gw.hand_over()
            client.expect_eof()  # after drain-timeout
            self.assertEqual(old.wait(PATIENCE_S), 0)

    def test_the_new_configuration_is_in_force_for_what_is_open_too(self):
        other = self.upstream(name="other.test")
        self.lab(allow=[other.authority], hosts=[other])
        kept = self.tunnel()
        cut = self.gw.tunnel(other.authority).send("x").expect("x")
        self.gw.hand_over()
        self.gw.reload(self.config(allow=[self.good.authority], hosts=[self.good, other])
                       .replace("admin = none", f"admin = {self.path('admin.sock')}")
                       .replace("control = none", f"control = {self.path('control.sock')}"))
        cut.expect_eof()
        kept.send("still").expect("still")
        self.assertEqual(self.gw.close_record()["cause"], "policy")

    def test_a_listener_that_the_new_configuration_has_not_is_gone(self):
        path = self.path("in.sock")
        self.lab(listen=f"address = 127.0.0.1:0\npolicy = main\n[listen second]\naddress = unix:{path}\npolicy = main")
        text = self.configured.replace(f"[listen second]\naddress = unix:{path}\npolicy = main", "")
        self.gw.send_signal(signal.SIGSTOP)  # so that nobody reloads it before
        self.gw.write_config(text)
        threading.Timer(0, self.gw.send_signal, [signal.SIGCONT]).start()
        self.gw.hand_over()
        self.gw.refused_connect("evil.test:443")
        self.assertFalse(os.path.exists(path))

    def test_the_service_managers_sockets_go_along_and_stay_its_own(self):
        path = self.path("in.sock")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)
            sock.listen(16)
            wrapper = test_packaging.Activation.hand_over(self, "second", sock)
            with unittest.mock.patch("subprocess.Popen", functools.partial(subprocess.Popen, close_fds=False)):
                self.lab(listen=f"address = 127.0.0.1:0\npolicy = main\n[listen second]\naddress = unix:{path}\npolicy = main",
                         wrapper=wrapper)
        for _ in range(2):
            self.gw.hand_over()
            self.assertEqual(self.gw.refused_connect("evil.test:443", listener="second").status, 403)
        self.gw.stop()
        self.assertTrue(os.path.exists(path))

    def closes(self, path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().rpartition("\n")[0].split("\n")
        return sum('"kind":"close"' in line for line in lines)

    def test_rotation_reaches_both(self):
        """The old process hears of it from the new one, soon: what ends before that is in the old file."""
        self.lab()
        path, aside = self.gw.audit_path, self.gw.audit_path + ".1"
        tunnels = [self.tunnel() for _ in range(30)]
        self.gw.hand_over()
        os.rename(path, aside)
        self.gw.send_signal(signal.SIGUSR1)
        while not os.path.exists(path):
            self.gw.refused_connect("evil.test:443")
        closed = 0
        while self.closes(path) == 0:
            tunnels.pop().close()
            closed += 1
            while self.closes(path) + self.closes(aside) < closed:
                pass
        self.gw.stop()
        numbers = []
        for name in (aside, path):
            with open(name, encoding="utf-8") as file:
                numbers += [json.loads(line)["seq"] for line in file]
        self.assertEqual(sorted(numbers), list(range(len(numbers))))

    def test_the_service_manager_hears_whose_turn_it_is(self):
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(waiting.close)
        waiting.bind(self.path("notify"))
        waiting.settimeout(PATIENCE_S)
        code = ("import os, sys; os.environ.update(WATCHDOG_PID=str(os.getpid()), WATCHDOG_USEC='200000'); "
                "os.execv(sys.argv[1], sys.argv[1:])")
        self.lab(wrapper=["env", f"NOTIFY_SOCKET={self.path('notify')}", "python3", "-c", code])

        def hear(wanted):
            while True:
                said = waiting.recv(1000).decode()
                self.assertNotIn("STOPPING", said)
                if said.startswith(wanted):
                    return said

        hear("WATCHDOG=1")
        tunnel = self.tunnel()
        self.gw.hand_over()
        self.assertEqual(hear("MAINPID="), f"MAINPID={self.gw.process.pid}")
        hear("READY=1")
        hear("WATCHDOG=1")  # the watchdog of the first process is the second's
        tunnel.close()
        self.assertEqual(self.gw.predecessors[0].wait(PATIENCE_S), 0)

    def test_the_end_of_the_new_process_ends_the_old_one(self):
        self.lab()
        tunnel = self.tunnel()
        old = self.gw.hand_over()
        self.gw.send_signal(signal.SIGTERM)
        self.gw.expect_end()
        tunnel.expect_eof()
        self.assertEqual(old.wait(PATIENCE_S), 0)


class Failing(HandoverCase):
    def test_a_configuration_that_is_none_changes_nothing(self):
        self.lab()
        self.gw.write_config("[gateway]\nworkres = 2\n")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload")
        self.expect_failure("the new process ended with 78")
        self.gw.write_config(self.configured)
        self.gw.hand_over()
        self.tunnel()

    def test_a_program_that_is_none_changes_nothing(self):
        program = shutil.copy(binary(), self.path("srt-gateway"))
        self.lab(program=program)
        scripts = (("#!/bin/sh\nexit 7\n", "ended with 7"), ("#!/bin/sh\nkill -9 $$\n", "signal 9"), ("not a program", "ended with 71"))
        for text, said in scripts:
            with self.subTest(text=text):
                os.rename(program, program + ".old")
                self.write("srt-gateway", text)
                os.chmod(program, 0o755)
                self.expect_failure(said)
                os.rename(program + ".old", program)
        self.gw.hand_over()
        self.tunnel()

    def test_a_program_that_never_gets_ready_is_waited_for_and_a_second_signal_says_so(self):
        program = shutil.copy(binary(), self.path("srt-gateway"))
        self.lab(program=program)
        os.unlink(program)
        os.mkfifo(self.path("gate"))
        self.write("srt-gateway", f"#!/bin/sh\nread x <{self.path('gate')}\nexit 3\n")
        os.chmod(program, 0o755)
        self.gw.send_signal(signal.SIGUSR2)
        self.gw.wait_for_stderr(lambda line: "handing over" in line)
        self.gw.send_signal(signal.SIGUSR2)
        self.gw.wait_for_stderr(lambda line: "under way already" in line)
        self.tunnel()
        with open(self.path("gate"), "w", encoding="ascii"):
            pass
        self.gw.wait_for_stderr(lambda line: "hand-over failed" in line and "ended with 3" in line)
        self.tunnel()

    def test_a_new_process_that_is_killed_at_any_moment_changes_nothing(self):
        """A little later each time, until one lives long enough to serve; that is the end of both."""
        program = shutil.copy(binary(), self.path("srt-gateway"))
        self.lab(program=program)
        launcher = self.launcher()
        launcher.attach("box", [launcher.listen(), launcher.datagrams()], listeners=["proxy", "dns-udp"],
                        network={"allowedDomains": ["good.test"], "deniedDomains": []})
        addresses = {"good.test": launcher.look_up("good.test")}
        tunnel, _ = launcher.connect(self.good.authority)
        os.rename(program, self.path("real"))
        moment, failures, said = 0.01, 0, ""
        while "handed over" not in said:
            self.write("srt-gateway", f'#!/bin/sh\nexec timeout -s KILL {moment} {self.path("real")} "$@"\n')
            os.chmod(program, 0o755)
            after = self.gw.stderr_lines()
            self.gw.send_signal(signal.SIGUSR2)
            said = self.gw.wait_for_stderr(lambda line: "hand-over failed" in line or "handed over to process" in line, after)
            if "failed" in said:
                failures += 1
                addresses[f"{failures}.test"] = launcher.look_up(f"{failures}.test")
                tunnel.send(f"{failures};").expect(f"{failures};")
                self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
                self.assertEqual(launcher.connect("evil.test:443")[1].status, 403)
                self.assertEqual(launcher.read()["host"], "evil.test")
                launcher.send({"type": "update", "serial": failures, "network": {"allowedDomains": ["good.test"], "deniedDomains": []}})
                self.assertEqual(launcher.read()["serial"], failures)
                self.assertEqual(self.status()["sandboxes"], 1)
            moment *= 1.3
        self.assertGreater(failures, 2)
        self.assertEqual(len(set(addresses.values())), failures + 1)
        self.gw.expect_end()
        tunnel.expect_eof()
        self.assertEqual(self.gw.process.wait(PATIENCE_S), 0)

    def test_an_address_that_cannot_be_had_changes_nothing(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        self.lab()
        self.gw.write_config(self.configured + f"[listen more]\naddress = 127.0.0.1:{taken.getsockname()[1]}\npolicy = main\n")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "reload" and entry["result"] == "failed")
        self.expect_failure("ended with 71")

    @unittest.skipUnless(os.geteuid() == 0, "a process tree of its own needs root")
    def test_the_first_process_of_a_container_hands_nothing_over(self):
        self.lab(wrapper=["unshare", "--pid", "--fork", "--kill-child"])
        with open(f"/proc/{self.gw.process.pid}/task/{self.gw.process.pid}/children", encoding="ascii") as file:
            first = int(file.read().split()[0])
        os.kill(first, signal.SIGUSR2)
        self.gw.wait_for_stderr(lambda line: "this is process 1" in line)
        self.tunnel().close()
        os.kill(first, signal.SIGTERM)
        self.gw.expect_end()
        self.assertEqual(self.gw.process.wait(PATIENCE_S), 0)

    def test_a_draining_process_hands_nothing_over(self):
        self.lab()
        tunnel = self.tunnel()
        self.gw.send_signal(signal.SIGTERM)
        self.gw.expect_end()
        self.gw.wait_for_stderr(lambda line: "draining:" in line)
        self.gw.send_signal(signal.SIGUSR2)
        self.gw.wait_for_stderr(lambda line: "hands nothing over" in line)
        tunnel.close()
        self.assertEqual(self.gw.process.wait(PATIENCE_S), 0)


class Sandboxes(HandoverCase):
    def test_a_sandbox_goes_along_and_what_is_open_of_it_stays_its_own(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach("box")
        tunnel, _ = launcher.connect(self.good.authority)
        self.gw.hand_over()
        tunnel.send("still").expect("still")
        second, answer = launcher.connect(self.good.authority)
        self.assertEqual(answer.status, 200)
        self.assertEqual({entry["sandbox"] for entry in self.gw.records("decision")}, {"box"})
        self.assertEqual(self.status()["sandboxes"], 1)
        launcher.connect("evil.test:443")
        denial = launcher.read()
        self.assertEqual((denial["type"], denial["host"]), ("denial", "evil.test"))
        launcher.sock.close()
        for talk in (tunnel, second):
            talk.expect_eof()
        self.gw.close_record(number=2)
        self.assertEqual({entry["cause"] for entry in self.gw.records("close")}, {"detach"})
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assertEqual(self.gw.predecessors[0].wait(PATIENCE_S), 0)
        self.gw.stop()
        self.assertEqual(len(self.gw.records("attach")), 1)
        self.assertEqual(len(self.gw.records("detach")), 1)

    def test_what_narrows_it_goes_along_and_can_be_changed_everywhere(self):
        self.lab()
        launcher = self.launcher()
        host = "good.test"
        launcher.attach("box", network={"allowedDomains": [host], "deniedDomains": []})
        tunnels = []
        for _ in range(3):
            tunnels.append(launcher.connect(self.good.authority)[0])
            self.gw.hand_over()
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)
        self.assertEqual(launcher.connect("other.test:443")[1].status, 403)
        self.assertEqual(launcher.read()["type"], "denial")
        launcher.send({"type": "update", "serial": 5, "network": {"allowedDomains": ["other.test"], "deniedDomains": []}})
        self.assertEqual(launcher.read(), {"type": "updated", "serial": 5, "generation": 1})
        for tunnel in tunnels:
            tunnel.expect_eof()
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 403)

    def test_what_a_launcher_says_or_does_keeps_nobody_from_handing_over(self):
        self.lab()
        honest = self.launcher()
        honest.attach("honest")
        odd = self.launcher()
        odd.attach("odd", network={"allowedDomains": [" good.test\t"], "deniedDomains": ["\tx.test", "B\u00fccher.test."],
                                   "deniedDomainReasons": {"\tx.test": "\x1b[31m\u2028", "B\u00fccher.test.": "\\"}})
        deaf = self.launcher()
        deaf.attach("deaf", descriptors=[deaf.listen(), deaf.listen()])
        deaf.listeners[0].shutdown(socket.SHUT_RDWR)
        elsewhere = self.launcher()
        elsewhere.attach("elsewhere")
        elsewhere.listeners[0].shutdown(socket.SHUT_RDWR)
        elsewhere.listeners[0].connect_ex((self.good.address, self.good.port))
        for _ in range(2):
            self.gw.hand_over()
            self.assertEqual(honest.connect(self.good.authority)[1].status, 200)
            self.assertEqual(odd.connect(self.good.authority)[1].status, 200)
            self.assertEqual(deaf.client(1).get("http://other.test/").status, 403)

    def test_a_denial_in_the_old_process_is_told_to_the_launcher(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach("box")
        talk = launcher.client()
        talk.get("http://evil.test/")
        self.assertEqual(launcher.read()["host"], "evil.test")
        self.gw.hand_over()
        self.assertEqual(talk.get("http://bad.test/").get("Connection"), "close")
        self.assertEqual(launcher.read()["host"], "bad.test")

    def test_half_an_attach_message_goes_along(self):
        self.lab()
        launcher = self.launcher()
        listener = launcher.listen()
        whole = launcher.frame({"type": "attach", "version": 1, "name": "box", "policy": None, "command": "make",
                                "listeners": ["proxy"], "network": None})
        socket.send_fds(launcher.sock, [whole[:9]], [listener.fileno()])
        self.tunnel().close()  # the control thread has had its turn
        self.status()
        self.gw.hand_over()
        launcher.sock.sendall(whole[9:])
        self.assertEqual(launcher.read()["type"], "attached")
        self.assertEqual(launcher.connect(self.good.authority)[1].status, 200)

    def test_without_the_new_process_its_sandboxes_end_in_the_old_one(self):
        self.lab()
        launcher = self.launcher()
        launcher.attach("box")
        tunnel, _ = launcher.connect(self.good.authority)
        old = self.gw.hand_over()
        self.gw.process.send_signal(signal.SIGKILL)
        self.gw.expected_status = -signal.SIGKILL
        tunnel.expect_eof()
        self.assertEqual(old.wait(PATIENCE_S), 0)


class Inside(LaunchCase):
    def test_a_command_in_the_fence_notices_nothing(self):
        good = self.origin("good.test")
        gw = self.shared_gateway(allow=[good.authority], hosts=[good])
        loop = ('while read url; do curl -s -o /dev/null -w "%{http_code}\\n" "$url"; done')
        with subprocess.Popen([launch_binary(), "-s", self.settings(allow=["good.test"]), "--gateway", gw.control, "--policy", "main",
                               "-c", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.work, text=True, bufsize=1,
                              env=dict(environment(), HOME=self.home)) as command:
            for _ in range(3):
                for url, status in ((f"http://{good.authority}/", "200"), ("http://evil.test/", "403")):
                    command.stdin.write(url + "\n")
                    self.assertEqual(command.stdout.readline(), status + "\n")
                gw.hand_over()
            command.stdin.close()
            self.assertEqual(command.wait(PATIENCE_S), 0)
        gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assertEqual(len({entry["sandbox"] for entry in gw.records("decision")}), 1)


class Load(HandoverCase):
    """As many hand-overs as SRT_HANDOVERS says, while clients of all kinds are at it."""

    TIMES = int(os.environ.get("SRT_HANDOVERS", "5"))

    def serve(self):
        origin = subprocess.Popen([bench("origin"), "127.0.0.2:0"], stdout=subprocess.PIPE)
        self.addCleanup(origin.stdout.close)
        self.addCleanup(origin.wait)
        self.addCleanup(origin.terminate)
        return int(origin.stdout.readline().removeprefix(b"ready "))

    def until_over(self, work):
        def run():
            try:
                while not self.over.is_set():
                    work()
                    self.done[work.__name__] = self.done.get(work.__name__, 0) + 1
            except Exception as problem:  # pylint: disable=broad-except
                self.problems.append((work.__name__, repr(problem)))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def load(self, mode, target):
        out = subprocess.run([bench("load"), mode, self.gw.address(), target, "-c", "4", "-n", "200"],
                             stdout=subprocess.PIPE, check=True).stdout
        if json.loads(out)["failed"] != 0:
            raise AssertionError(out)

    def test_no_request_fails(self):
        port = self.serve()
        self.over, self.problems, self.done = threading.Event(), [], {}
        self.lab(allow=[f"127.0.0.2:{port}"])
        launcher = self.launcher()
        launcher.attach("box")
        inside = "%s:%d" % launcher.listeners[0].getsockname()

        def tunnels():
            self.load("tunnel", f"127.0.0.2:{port}")

        def refusals():
            self.load("refuse", "evil.test:443")

        def sandbox():
            subprocess.run([bench("load"), "tunnel", inside, f"127.0.0.2:{port}", "-c", "4", "-n", "100"],
                           stdout=subprocess.PIPE, check=True)

        host, own = self.gw.address().rsplit(":", 1)
        kept = http.client.HTTPConnection(host, int(own), timeout=PATIENCE_S)
        self.addCleanup(kept.close)

        def requests():
            kept.request("GET", f"http://127.0.0.2:{port}/")
            answer = kept.getresponse()
            answer.read()
            if answer.status != 200:
                raise AssertionError(answer.status)

        bulk = self.tunnel()
        threads = [self.until_over(work) for work in (tunnels, refusals, requests, sandbox)]
        try:
            for number in range(self.TIMES):
                self.gw.hand_over()
                bulk.send(f"{number};").expect(f"{number};")
                if self.problems:
                    break
                at = dict(self.done)
                while not self.problems and self.done.get("requests", 0) < at.get("requests", 0) + 20:
                    self.over.wait(0.01)
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.problems, [])
        self.assertEqual(set(self.done), {"tunnels", "refusals", "requests", "sandbox"})
        bulk.close()
        for process in self.gw.predecessors:
            self.assertEqual(process.wait(PATIENCE_S), 0)
        kept.close()
        launcher.close()
        self.gw.stop()
        entries = self.gw.records()
        self.assertEqual([entry["seq"] for entry in entries], list(range(len(entries))))
        self.assertEqual([entry for entry in entries if entry["kind"] == "lost"], [])
        allowed = [entry["id"] for entry in entries if entry["kind"] == "decision" and entry["verdict"] == "allow"]
        closed = [entry["id"] for entry in entries if entry["kind"] == "close"]
        self.assertEqual(sorted(allowed), sorted(closed))
        self.assertEqual({entry["reason"] for entry in entries if entry["kind"] == "decision" and entry["verdict"] == "deny"},
                         {"not-allowed"})


if __name__ == "__main__":
    main()
