"""Modules in other processes: what they are asked, what becomes of every answer and of none."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from lab import LabCase, main
from lab.launcher import Launcher
from lab.module import Module, denying, passing

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "packaging", "examples", "remote")


class RemoteCase(LabCase):
    def setUp(self):
        super().setUp()
        self.good = self.origin("good.test")
        self.url = f"http://good.test:{self.good.port}/"
        self.socket = self.path("module.sock")

    def module(self, answer=passing, **options):
        """A module on the socket; whatever was there before is gone."""
        module = Module(self.socket, answer, **options)
        self.addCleanup(module.close)
        self.addCleanup(lambda: self.assertEqual(module.failures, []))
        return module

    def asking(self, section="", workers=1, control=False, **parts):
        """A gateway whose policy `main` asks the module, beside a policy `free` that asks nobody."""
        if "timeout" not in section:
            section += "\ntimeout = 30s"
        free = (f"[policy free]\nallow = good.test:{self.good.port}\nallow-addresses = 127.0.0.0/8\n"
                "[listen free]\naddress = 127.0.0.1:0\npolicy = free\n")
        config = self.config(allow=[f"good.test:{self.good.port}", "*.good.test:1-65535"], hosts=[self.good], workers=workers,
                             policy="filters = remote", more=f"[filter remote]\nmodule = unix:{self.socket}\n{section}\n{free}", **parts)
        if control:
            config = config.replace("control = none", f"control = {self.path('control.sock')}")
        return self.gateway(config.replace("admin = none", f"admin = {self.path('admin.sock')}"))

    def launcher(self, name):
        launcher = Launcher(self.path("control.sock"))
        self.addCleanup(launcher.close)
        self.assertEqual(launcher.attach(name, policy="main")["type"], "attached")
        return launcher

    def start(self, *arguments, **options):
        """A program of its own as the module; returns once its socket is there."""
        process = subprocess.Popen(arguments, **options)
        self.addCleanup(self.end, process)
        deadline = time.monotonic() + 30
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.socket)
                return process
            except OSError:
                self.assertIsNone(process.poll(), "the module ended")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def send(self, gw, url=None, headers=()):
        """A request that is under way."""
        client = gw.client()
        client.request(f"GET {url or self.url} HTTP/1.1", [("Host", "good.test"), *headers])
        return client

    def assert_denied(self, gw, response, why, reason="module-error"):
        body = self.assert_refused(response, 403, reason)
        self.assertIn(why, body["message"])
        record = gw.decision(id=body["request_id"])
        self.assertEqual((record["verdict"], record["reason"], record["filter"], record["rule"]), ("deny", reason, "remote", None))

    def assert_others_go_on(self, gw):
        self.assertEqual(gw.get(self.url, listener="free").status, 200)

    @staticmethod
    def has_answer(client, seconds):
        return bool(select.select([client.sock], [], [], seconds)[0])

    def states(self, gw):
        return json.loads(gw.operate("/status"))["filters"].get("remote", {})

    def wait_for_state(self, gw, word):
        deadline = time.monotonic() + 30
        while word not in self.states(gw):
            self.assertLess(time.monotonic(), deadline, self.states(gw))
            time.sleep(0.01)


class Examples(RemoteCase):
    def assert_limits(self):
        gw = self.asking()
        self.assertEqual(gw.get(self.url).status, 200)
        long = f"http://s3cret.a.b.good.test:{self.good.port}/"
        self.assert_denied(gw, gw.get(long), "a name has at most 4 labels", reason="filter")
        self.assertEqual(gw.get(self.url).status, 200)
        self.assertEqual(len(self.good.requests), 2)

    def test_python(self):
        self.start(sys.executable, os.path.join(EXAMPLES, "label_limit.py"), self.socket, "4")
        self.assert_limits()

    def test_node(self):
        try:
            self.start("node", os.path.join(EXAMPLES, "label_limit.js"), self.socket, "4")
        except FileNotFoundError:
            self.skipTest("node is not installed")
        self.assert_limits()

    def test_a_person_approves_in_any_order(self):
        person = self.start(sys.executable, os.path.join(EXAMPLES, "approve.py"), self.socket,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        gw = self.asking("timeout = 10m\nbreaker-failures = 0\nconcurrency = 1000")
        clients, numbers = [], []
        for _ in range(3):
            clients.append(self.send(gw))
            number, sandbox, target = person.stdout.readline().split()
            self.assertEqual((sandbox, target), ("-", f"good.test:{self.good.port}"))
            numbers.append(number)
        for client in clients:
            client.expect_silence()
        person.stdin.write(f"no {numbers[2]}\nyes {numbers[0]}\n")
        self.assert_denied(gw, clients[2].response(), "a person said no", reason="filter")
        self.assertEqual(clients[0].response().status, 200)
        clients[1].reset()
        self.assertEqual(person.stdout.readline(), f"{numbers[1]} is not waited for any more\n")
        self.assertEqual(len(self.good.requests), 1)


class Approving(RemoteCase):
    """Where the rules ask for an approval, a module can give it."""

    def asked(self, verdict, seen=None):
        def answer(message, say, _):
            if seen is not None:
                seen.append(message["request"]["asks"])
            say({"id": message["id"], "verdict": verdict, "ttl": 60})

        self.module(answer, hello={"protocol": 1, "phases": ["request"], "fields": ["host", "asks"]})
        config = self.config(hosts=[self.good], workers=1, policy="default = ask\nfilters = remote", allow=["ruled.test"],
                             more=f"[filter remote]\nmodule = unix:{self.socket}\ncache-ttl = 60s\n")
        return self.gateway(config)

    def test_allow_is_an_approval_each_time(self):
        seen = []
        gw = self.asked("allow", seen)
        for number in (1, 2):
            self.assertEqual(self.send(gw).response().status, 200)
            self.assertEqual(gw.decision("good.test", number=number)["message"], "approved by a filter")
        gw.refused_connect("ruled.test:443")
        self.assertEqual(seen, [True, True, False])

    def test_pass_leaves_the_question_to_people(self):
        gw = self.asked("pass")
        body = self.assert_refused(self.send(gw).response(), 403, "ask-refused")
        self.assertIn("nobody can be asked for it", body["message"])


class Asked(RemoteCase):
    def test_what_a_module_sees(self):
        fields = ["sandbox", "client", "policy", "front", "host", "port", "method", "path", "body", "headers"]
        module = self.module(hello={"protocol": 1, "phases": ["request", "end"], "fields": fields})
        gw = self.asking("timeout = 3s")
        client = gw.client()
        client.request(f"POST {self.url}x?q=1 HTTP/1.1", [("Host", "good.test"), ("X-Odd", "caf\xe9")], b"hello")
        self.assertEqual(client.response().status, 200)
        [asked] = module.asked()
        record = gw.decision("good.test")
        headers = dict(asked.pop("headers"))
        self.assertEqual(asked, {"record": record["id"], "timeout_ms": 3000, "sandbox": None, "client": None, "policy": "main",
                                 "front": "http", "host": "good.test", "port": self.good.port, "method": "POST", "path": "/x?q=1", "body": 5})
        self.assertEqual(headers["X-Odd"], "caf\xe9")
        module.wait_for(lambda: any("end" in message for message in module.messages))
        [end] = module.asked("end")
        self.assertEqual((end["record"], end["host"], end["bytes_up"]), (record["id"], "good.test", 5))
        gw.tunnel(f"good.test:{self.good.port}").close()
        asked = module.asked()[1]
        self.assertEqual((asked["front"], asked["method"], asked["path"], asked["body"], asked["headers"]), ("connect", None, None, None, None))

    def test_a_no_has_its_words(self):
        self.module(denying)
        gw = self.asking()
        self.assert_denied(gw, gw.get(self.url), "denied by filter remote of policy main: not today", reason="filter")
        self.assertEqual(gw.socks_code("good.test", self.good.port), 2)
        self.assert_others_go_on(gw)

    def test_answers_in_any_order_and_at_most_so_many_at_once(self):
        held = []

        def hold(message, say, module):
            held.append((message["id"], say))
            if len(held) == 3:
                for number, (id, tell) in reversed(list(enumerate(held))):
                    tell({"id": id, "verdict": "deny", "reason": f"number {number}"})

        module = self.module(hold)
        gw = self.asking("timeout = 30s\nconcurrency = 5\nqueue = 6")  # of which one asker may have as much as it leaves
        clients = []
        for count in range(3):
            clients.append(self.send(gw))
            module.wait_for(lambda count=count: len(module.messages) >= count + 2)
        for number, client in enumerate(clients):
            self.assert_denied(gw, client.response(), f"number {number}", reason="filter")

        clients = [self.send(gw) for _ in range(7)]
        select.select([client.sock for client in clients], [], [], 30)
        said = [client for client in clients if self.has_answer(client, 0.05)]
        self.assertEqual(len(said), 1)
        self.assert_denied(gw, said[0].response(), "3 requests are asked and 3 wait already")
        self.assertEqual(len(module.asked()), 6)
        for client in clients:
            client.reset()

    def test_a_client_that_leaves_keeps_its_place_until_it_is_answered(self):
        held = []
        module = self.module(lambda message, say, module: held.append((message, say)),
                             hello={"protocol": 1, "phases": ["request", "abandon"]})
        gw = self.asking("timeout = 30s\nconcurrency = 1")
        first = self.send(gw)
        module.wait_for(lambda: len(module.asked()) == 1)
        second = self.send(gw)
        first.reset()
        module.wait_for(lambda: len(module.asked("abandon")) == 1)
        self.assertEqual(len(module.asked()), 1)
        message, say = held[0]
        say({"id": message["id"], "verdict": "pass"})
        module.wait_for(lambda: len(module.asked()) == 2)
        passing(held[-1][0], held[-1][1], module)
        self.assertEqual(second.response().status, 200)
        self.assertEqual(len(self.good.requests), 1)

    def test_sandboxes_take_turns_and_leave_each_other_room(self):
        """However many requests of one wait, another's are next; and one that has asked nothing yet has room."""
        held = []

        def hold(message, say, module):
            with module.heard:
                held.append((message["id"], say))
                module.heard.notify_all()

        module = self.module(hold, hello={"protocol": 1, "phases": ["request"], "fields": ["sandbox"]})
        gw = self.asking("timeout = 30s\nconcurrency = 5\nqueue = 11", control=True)
        module.wait_for(lambda: module.messages)
        clients, order = [], ""

        def asked():
            return "".join(request["sandbox"] for request in module.asked())

        for name, kept, asked_at_once in (("f", 8, "fff"), ("s", 4, "s"), ("t", 2, "t")):
            launcher = self.launcher(name)
            sent = [launcher.client() for _ in range(kept + 1)]
            for client in sent:
                client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
            refused = select.select([client.sock for client in sent], [], [], 30)[0]
            self.assertEqual(len(refused), 1)
            for client in sent:
                if client.sock in refused:
                    self.assert_denied(gw, client.response(), "requests are asked and")
                else:
                    clients.append(client)
            order += asked_at_once
            module.wait_for(lambda order=order: len(asked()) >= len(order))
            self.assertEqual(asked(), order)
        for number in range(len(clients)):
            module.wait_for(lambda number=number: len(held) > number)
            id, say = held[number]
            say({"id": id, "verdict": "pass"})
        self.assertEqual({client.response().status for client in clients}, {200})
        self.assertEqual(asked(), order + "fstfsfsff")

    def test_verdicts_are_kept_for_what_they_depend_on(self):
        module = self.module(hello={"protocol": 1, "phases": ["request"], "fields": ["host", "headers"]})
        gw = self.asking("cache-ttl = 1h")
        for path in ("", "x", "y"):
            self.assertEqual(gw.get(self.url + path).status, 200)
        self.assertEqual(len(module.asked()), 1)  # it cannot depend on the path
        self.assertEqual(gw.get(self.url, [("X-Other", "1")]).status, 200)
        self.assertEqual(len(module.asked()), 2)
        self.assertEqual(len(self.good.requests), 4)
        # Another process may think otherwise.
        module.close()
        self.module(denying)
        gw.wait_for_stderr(lambda line: "no connection" in line)
        self.assert_denied(gw, gw.get(self.url), "not today", reason="filter")

    def test_a_verdict_that_is_not_to_be_kept_is_asked_again(self):
        verdicts = [{"verdict": "pass", "ttl": 0}, {"verdict": "error"}, {"verdict": "deny", "reason": "kept"}, {"verdict": "pass"}]
        module = self.module(lambda message, say, module: say({"id": message["id"], **verdicts[len(module.asked()) - 1]}))
        gw = self.asking("cache-ttl = 1h")
        self.assertEqual(gw.get(self.url).status, 200)
        self.assert_denied(gw, gw.get(self.url), "what it answered is no verdict")
        for _ in range(3):
            self.assert_denied(gw, gw.get(self.url), "kept", reason="filter")
        self.assertEqual(len(module.asked()), 3)

    def test_a_reload_takes_up_what_the_section_says_now(self):
        module = self.module()
        gw = self.asking("timeout = 10m", workers=2)
        self.assertEqual(gw.get(self.url).status, 200)
        other = Module(self.path("other.sock"), denying)
        self.addCleanup(other.close)
        with open(gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.assertEqual(gw.reload(config.replace("module.sock", "other.sock"))["result"], "ok")
        self.assert_denied(gw, gw.get(self.url), "not today", reason="filter")
        self.assertEqual((module.connections, other.connections), (2, 2))

    def test_one_that_only_listens_is_not_asked(self):
        module = self.module(hello={"protocol": 1, "phases": ["end"]})
        gw = self.asking()
        for _ in range(2):
            self.assertEqual(gw.get(self.url).status, 200)
        module.wait_for(lambda: len(module.asked("end")) == 2)
        self.assertEqual(module.asked(), [])


class Hostile(RemoteCase):
    """Whatever it says that is not a proper yes to what was asked: no."""

    def assert_never_allows(self, answer, why, **options):
        self.module(answer, **options)
        gw = self.asking("breaker-failures = 0\nbreaker-pause = 100ms")
        before = len(self.good.requests)
        for _ in range(3):
            body = self.assert_refused(gw.get(self.url), 403, "module-error")
            self.assertRegex(body["message"], why)
        self.assertEqual(len(self.good.requests), before)
        self.assert_others_go_on(gw)
        gw.stop()

    def test_answers_that_mean_nothing(self):
        for answer, why in (
                ({"verdict": "yes"}, "none of pass, allow, deny and error"),
                ({"verdict": True}, "none of pass, allow, deny and error"),
                ({"verdict": ["pass"]}, "none of pass, allow, deny and error"),
                ({"verdict": "pass\0"}, "not JSON|none of"),
                ({}, "none of pass, allow, deny and error"),
                ({"verdict": "pass", "unless": "monday"}, "'unless' is not known"),
                ({"verdict": "pass", "reason": 5}, "its reason is no text"),
                ({"verdict": "pass", "ttl": "1h"}, "its ttl is no number"),
                ({"verdict": "pass", "ttl": -1}, "its ttl is no number"),
                ({"verdict": "error", "reason": "my disk is full"}, "my disk is full")):
            with self.subTest(answer=answer):
                self.assert_never_allows(lambda message, say, _, answer=answer: say({"id": message["id"], **answer}), why)

    def test_lines_that_mean_nothing(self):
        for line, why in (
                (b"42\n", "not a JSON object|not JSON"),
                (b"pass\n", "not JSON"),
                (b"\n", "not JSON"),
                (b'{"verdict":"pass"}\n', "without the id"),
                (b'{"id":"1","verdict":"pass"}\n', "without the id"),
                (b'{"id":1.5,"verdict":"pass"}\n', "without the id"),
                (b'{"id":-1,"verdict":"pass"}\n', "without the id"),
                (b'{"id":0,"verdict":"pass"}\n', "without the id"),
                (b'{"id":123456789,"verdict":"pass"}\n', "what it was not asked"),
                (b'{"id":ID,"id":ID,"verdict":"pass"}\n', "not JSON"),
                (b'{"id":ID,"verdict":"deny","verdict":"pass"}\n', "not JSON"),
                (b'{"id":ID,"verdict":"pass"}{"id":ID,"verdict":"pass"}\n', "not JSON"),
                (b'{"id":ID,"verdict":"pass","reason":"\xff\xfe"}\n', "not JSON"),
                (b'{"id":ID,"verdict":"pass","reason":"\xed\xa0\x80"}\n', "not JSON"),
                (b'{"id":ID,"verdict":"pass","reason":"a\\u0000b"}\n', "not JSON"),
                (b'[{"id":ID,"verdict":"pass"}]\n', "not a JSON object"),
                (b"[" * 60000 + b"\n", "not JSON"),
                (b'{"id":ID,"verdict":"pass","reason":"' + b"x" * 70000 + b'"}\n', "more than 65536 bytes"),
                (b"x" * 200000, "more than 65536 bytes")):
            with self.subTest(line=line[:60]):
                self.assert_never_allows(
                    lambda message, say, _, line=line: say(line.replace(b"ID", b"%d" % message["id"])), why)

    def test_hellos_that_mean_nothing(self):
        for hello, why in (
                (b"hello\n", "not JSON"),
                (b'{"id":0,"verdict":"pass"}\n', "not known|no hello"),
                (b'{"id":1,"hello":{"protocol":1,"phases":["request"]}}\n', "no hello"),
                (b'{"id":0,"hello":{"protocol":2,"phases":["request"]}}\n', '"protocol":1'),
                (b'{"id":0,"hello":{"protocol":1}}\n', "no list 'phases'"),
                (b'{"id":0,"hello":{"protocol":1,"phases":[]}}\n', "no phase"),
                (b'{"id":0,"hello":{"protocol":1,"phases":["connect"]}}\n', "'connect'"),
                (b'{"id":0,"hello":{"protocol":1,"phases":["request"],"fields":["mood"]}}\n', "'mood'"),
                (b'{"id":0,"hello":{"protocol":1,"phases":["request"],"mood":1}}\n', "'mood'"),
                (b"x" * 200000, "more than 65536 bytes")):
            with self.subTest(hello=hello[:60]):
                self.module(hello=hello)
                gw = self.asking("timeout = 10s\nbreaker-failures = 1\nbreaker-pause = 1h")
                self.assertRegex(gw.wait_for_stderr(lambda line: "no connection" in line), why)
                self.assert_denied(gw, gw.get(self.url), "it is not asked after what went wrong")
                self.assert_others_go_on(gw)
                gw.stop()
        self.assertEqual(len(self.good.requests), 10)

    def test_an_answer_after_the_time_or_a_second_one_finds_nothing(self):
        late = []

        def answer(message, say, module):
            if len(module.asked()) == 1:
                late.append((message["id"], say))
            else:
                id, tell = late[0]
                tell({"id": id, "verdict": "pass"})  # late
                say({"id": message["id"], "verdict": "deny", "reason": "the first word counts"})
                say({"id": message["id"], "verdict": "pass"})

        self.module(answer)
        gw = self.asking("timeout = 1s")
        client = self.send(gw)
        self.assert_denied(gw, client.response(), "it did not answer within 1000 ms")
        for _ in range(2):
            client.request(f"GET {self.url} HTTP/1.1", [("Host", "good.test")])
            self.assert_denied(gw, client.response(), "the first word counts", reason="filter")
        self.assertEqual(self.good.requests, [])

    def test_one_that_does_not_read(self):
        def stop_reading(_message, _say, module):
            with module.heard:
                module.heard.wait(30)

        module = self.module(stop_reading, hello={"protocol": 1, "phases": ["request"], "fields": ["headers"]})
        gw = self.asking("timeout = 30s\nconcurrency = 1000", gateway="max-header-bytes = 64k")
        clients = [self.send(gw, headers=[("X-Big", "x" * 60000)]) for _ in range(40)]
        select.select([client.sock for client in clients], [], [], 30)
        told = [client for client in clients if self.has_answer(client, 0.05)]
        self.assertNotEqual(told, [])
        for client in told:
            self.assert_denied(gw, client.response(), "it does not read what it is asked")
        self.assert_others_go_on(gw)
        for client in clients:
            client.reset()
        with module.heard:
            module.heard.notify_all()


    def test_big_questions_are_held_for_so_many_bytes(self):
        # Nobody is there yet, so each is kept with all its fields: 16 MiB of them, half of that from one asker.
        gw = self.asking("breaker-failures = 0", gateway="max-header-bytes = 256k")
        clients = []
        for _ in range(50):
            clients.append(self.send(gw, headers=[("X-Big", "x" * 200000)]))
        select.select([client.sock for client in clients], [], [], 30)
        told = [client for client in clients if self.has_answer(client, 0.05)]
        self.assertTrue(0 < len(told) < 20, len(told))
        for client in told:
            self.assert_denied(gw, client.response(), "0 requests are asked and 4")
        self.module(hello={"protocol": 1, "phases": ["request"], "fields": ["host"]})
        for client in clients:
            if client not in told:
                self.assertEqual(client.response().status, 200)


SLEEPER = """
import json, os, socket, sys
path, what = sys.argv[1:]
os.umask(0o077)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(16)
def serve(sock):
    for line in sock.makefile("rb"):
        message = json.loads(line)
        if "hello" in message:
            sock.sendall(b'{"id":0,"hello":{"protocol":1,"phases":["request"]}}\\n')
        elif what == "sleep":
            import time
            time.sleep(60)
        elif what == "abort":
            os.abort()
        elif what == "42":
            sock.sendall(b"42\\n")
        elif what == "verdict 42":
            sock.sendall(b'{"id":%d,"verdict":42}\\n' % message["id"])
        elif what == "garbage":
            sock.sendall(os.urandom(1000) + b"\\n")
        else:
            sock.sendall(b'{"id":%d,"verdict":"pass"}\\n' % message["id"])
import threading
while True:
    sock, _ = listener.accept()
    threading.Thread(target=serve, args=(sock,), daemon=True).start()
"""


class Broken(RemoteCase):
    def run_module(self, what):
        if os.path.exists(self.socket):
            os.remove(self.socket)
        return self.start(sys.executable, "-c", SLEEPER, self.socket, what, stderr=subprocess.DEVNULL)

    def test_P22_a_module_that_sleeps_aborts_or_returns_garbage(self):
        for what, why in (("sleep", "it did not answer within 500 ms"), ("abort", "closed the connection|Connection reset"),
                          ("42", "not JSON|not a JSON object"), ("verdict 42", "none of pass, allow, deny and error"), ("garbage", "not JSON")):
            with self.subTest(what=what):
                process = self.run_module(what)
                gw = self.asking("timeout = 500ms" if what == "sleep" else "", workers=2)
                began = time.monotonic()
                body = self.assert_refused(gw.get(self.url), 403, "module-error")
                self.assertRegex(body["message"], why)
                self.assertLess(time.monotonic() - began, 10)
                self.assertEqual(gw.decision(id=body["request_id"])["reason"], "module-error")
                self.assertEqual(gw.socks_code("good.test", self.good.port), 2)
                self.assert_others_go_on(gw)
                self.assertTrue(gw.alive())
                gw.stop()
                self.end(process)
        self.assertEqual(len(self.good.requests), 5)  # of the policy that asks nobody

    def test_kill_9_under_load(self):
        process = self.run_module("pass")
        gw = self.asking("timeout = 2s\nbreaker-failures = 3\nbreaker-pause = 300ms", workers=2)
        self.assertEqual(gw.get(self.url).status, 200)
        self.assertEqual(self.states(gw), {"closed": 2})
        tunnels = [gw.tunnel(f"good.test:{self.good.port}", listener="free") for _ in range(3)]
        stop, answers, slowest = threading.Event(), [], [0.0]

        def load():
            while not stop.is_set():
                began = time.monotonic()
                response = gw.get(self.url)
                slowest[0] = max(slowest[0], time.monotonic() - began)
                answers.append(response.status if response.status == 200 else json.loads(response.body)["reason"])

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            while len(answers) < 20:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            self.wait_for_state(gw, "open")
            while 'srt_gateway_filter_workers{filter="remote",state="open"}' not in gw.operate("/metrics"):
                time.sleep(0.01)
            denied = answers.count("module-error")
            while answers.count("module-error") < denied + 20:
                time.sleep(0.01)
            self.run_module("pass")
            allowed = answers.count(200)
            deadline = time.monotonic() + 30
            while answers.count(200) < allowed + 20 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.wait_for_state(gw, "closed")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertGreaterEqual(answers.count(200), allowed + 20)
        self.assertEqual(set(answers), {200, "module-error"})
        self.assertLess(slowest[0], 10)
        for tunnel in tunnels:  # nobody of another policy noticed
            self.assertEqual(tunnel.get("/").status, 200)
        text = gw.operate("/metrics")
        self.assertRegex(text, r'srt_gateway_module_seconds_count\{result="pass"\} [1-9]')
        self.assertRegex(text, r'srt_gateway_filter_failures_total\{result="deny"\} [1-9]')

    def test_one_that_comes_later_is_waited_for(self):
        gw = self.asking("timeout = 30s\nbreaker-failures = 1000")
        client = self.send(gw)
        gw.wait_for_stderr(lambda line: "no connection" in line and "No such file" in line)
        client.expect_silence()
        module = self.module(hello={"protocol": 1, "phases": ["request"], "fields": ["port"]})
        self.assertEqual(client.response().status, 200)
        [asked] = module.asked()
        self.assertEqual(set(asked), {"record", "timeout_ms", "port"})

    def test_one_that_answers_again_after_its_breaker_was_open(self):
        module = self.module(lambda message, say, module: passing(message, say, module) if module.well else None)
        module.well = False
        gw = self.asking("timeout = 1s\nbreaker-failures = 2\nbreaker-pause = 2s")
        for _ in range(2):
            self.assert_denied(gw, gw.get(self.url), "it did not answer within 1000 ms")
        self.assertEqual(self.states(gw), {"open": 1})
        self.assert_denied(gw, gw.get(self.url), "it is not asked after what went wrong: it did not answer in time")
        self.wait_for_state(gw, "half-open")
        self.assert_denied(gw, gw.get(self.url), "it did not answer within 1000 ms")  # the probe
        self.assertEqual(self.states(gw), {"open": 1})
        self.wait_for_state(gw, "half-open")
        module.well = True
        self.assertEqual(gw.get(self.url).status, 200)
        self.assertEqual(self.states(gw), {"closed": 1})
        self.assertEqual(module.connections, 1)
        self.assert_others_go_on(gw)

    def test_fail_open_is_what_is_written(self):
        gw = self.asking("timeout = 1s\nbreaker-failures = 1\nbreaker-pause = 1h\nfail = open")
        self.assertEqual(gw.get(self.url).status, 200)
        record = gw.decision("good.test")
        self.assertEqual((record["verdict"], record["filter"], record["would"]), ("allow", "remote", None))
        self.assertIn("gave no verdict and has fail = open", record["message"])
        self.assertIn('srt_gateway_filter_failures_total{result="allow"} 1\n', gw.operate("/metrics"))


class Section(RemoteCase):
    def check_section(self, text):
        return self.check(self.config(more=f"[filter f]\n{text}\n"), status=78)

    def test_what_a_section_may_not_say(self):
        for text, said in (
                ("module = unix:run/m.sock", "module: `unix:run/m.sock` is not a built-in module"),
                (f"module = unix:/{'x' * 108}", "at most 107 bytes"),
                ("module = remote", "it has no socket"),
                ("module = unix:/run/m.sock\nsocket = /run/n.sock", "stands on line"),
                ("module = unix:/run/m.sock\nconcurrency = 0", "concurrency: '0' is not a number from 1"),
                ("module = unix:/run/m.sock\nbreaker-pause = 1ms", "breaker-pause: '1ms' is not a duration from 100ms"),
                ("module = unix:/run/m.sock\ncache-tll = 1s", "cache-tll: unknown key; did you mean cache-ttl"),
                ("module = unix:/run/m.sock\nfail = half", "fail")):
            with self.subTest(text=text):
                self.assertRegex(self.check_section(text), said)
        self.assertEqual(self.check(self.config(more=f"[filter f]\nmodule = unix:{self.socket}\n")), "")

    def test_a_socket_that_others_could_have_put_there(self):
        self.module()
        section = f"module = unix:{self.socket}"
        os.chmod(self.socket, 0o666)
        self.assertRegex(self.check_section(section), r"checked\.ini:\d+: \[filter f\] socket: .*writable by others \(mode 0666\)")
        os.chmod(self.socket, 0o700)
        os.chmod(self.directory, 0o777)
        self.assertIn("writable by others (mode 0777)", self.check_section(section))
        os.chmod(self.directory, 0o755)
        if os.getuid() == 0:
            os.chown(self.socket, 65534, 65534)
            self.assertIn("belongs to uid 65534", self.check_section(section))
            os.chown(self.socket, 0, 0)
        os.symlink(self.socket, self.path("link.sock"))
        self.assertIn("write that path", self.check_section(f"module = unix:{self.path('link.sock')}"))
        self.write("plain.sock", "")
        self.assertIn("is not a socket", self.check_section(f"module = unix:{self.path('plain.sock')}"))

    def test_one_that_became_untrusted_is_not_connected_to(self):
        gw = self.asking("timeout = 2s\nbreaker-failures = 1\nbreaker-pause = 1h")
        gw.stop()
        module = Module(self.socket, passing)
        self.addCleanup(module.close)
        config = gw.config_path
        os.chmod(self.socket, 0o777)
        with open(config, encoding="utf-8") as file:
            text = file.read()
        os.remove(gw.audit_path)
        self.assertIn("writable by others", self.check(text, status=78))
        os.rename(self.socket, self.path("aside"))  # not there at the start, and bad when it is connected to
        gw = self.gateway(text.replace("breaker-failures = 1", "breaker-failures = 1000"))
        client = self.send(gw)
        os.rename(self.path("aside"), self.socket)
        self.assert_denied(gw, client.response(), "it did not answer within 2000 ms")
        self.assertEqual(module.connections, 0)
        gw.stop()


if __name__ == "__main__":
    main()
