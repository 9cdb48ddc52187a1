"""What ships beside the programs is true: examples are valid, units name what exists."""

import configparser
import functools
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest.mock

from lab import LabCase, main
from lab.gateway import NotReady

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def packaging(*parts):
    return os.path.join(ROOT, "packaging", *parts)


class Examples(LabCase):
    def test_configurations_pass_check_without_a_word(self):
        paths = sorted(glob.glob(packaging("examples", "*.ini")))
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            with self.subTest(path=os.path.basename(path)):
                _, said = self.tool("check", "-c", path, "--strict")
                self.assertEqual(said, "")

    def test_the_demonstrations_configuration(self):
        with open(packaging("examples", "demo", "gateway.ini"), encoding="utf-8") as file:
            text = file.read()
        for mark, value in (("@DIR@", self.directory), ("@PORT@", "8080"), ("@UID@", "1000")):
            self.assertIn(mark, text)
            text = text.replace(mark, value)
        self.write("hosts", "")
        self.assertEqual(self.check(text), "")

    def test_settings_are_json_with_the_keys_of_srt(self):
        paths = sorted(glob.glob(packaging("examples", "**", "*.json"), recursive=True))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path=os.path.basename(path)), open(path, encoding="utf-8") as file:
                settings = json.load(file)
                self.assertLessEqual({"network", "filesystem"}, set(settings))

    def test_examples_do_what_they_say(self):
        path = packaging("examples", "fleet.ini")
        for policy, target, status in (("build", "pypi.org:443", 0), ("build", "pypi.org:80", 1), ("build", "203.0.113.9:443", 1),
                                       ("watch", "other.example:443", 0)):
            with self.subTest(target=target):
                self.tool("explain", "-c", path, "--policy", policy, target, status=status)
        # Denials of the company hold in what inherits it, also for names, and also where a team only watches.
        for address, status in (("198.51.100.7", 1), ("203.0.113.7", 1), ("151.101.0.223", 0)):
            out, _ = self.tool("explain", "--json", "-c", path, "--policy", "build", "--addr", address, "pypi.org:443", status=status)
            if status:
                self.assertRegex(json.loads(out)["rule"], r"^company:\d+$")
        self.tool("explain", "-c", path, "--policy", "build", "--addr", "10.20.1.1", "artifacts.corp.example:443")
        self.tool("explain", "-c", path, "--policy", "build", "--addr", "10.21.1.1", "artifacts.corp.example:443", status=1)


class Units(LabCase):
    def unit(self):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.optionxform = str
        parser.read(packaging("systemd", "srt-gateway.service"))
        return parser

    def test_the_service_says_ready_and_reloads_by_hup(self):
        service = self.unit()["Service"]
        self.assertEqual(service["Type"], "notify")
        self.assertIn("-HUP", service["ExecReload"])
        self.assertRegex(service["ExecStart"], r"srt-gateway run -c ")

    def calls_allowed(self):
        """What SystemCallFilter= leaves, as systemd reads it: line by line, with its own sets."""
        def expand(word):
            if not word.startswith("@"):
                return {word}
            lines = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True).stdout.splitlines()
            names = [line.strip() for line in lines[1:] if line.strip() and not line.strip().startswith("#")]
            return set().union(*map(expand, names))

        allowed = set()
        with open(packaging("systemd", "srt-gateway.service"), encoding="utf-8") as file:
            for words in re.findall(r"(?m)^SystemCallFilter=(.*)", file.read()):
                named = set().union(*map(expand, words.lstrip("~").split()))
                allowed = allowed - named if words.startswith("~") else allowed | named
        return allowed

    def test_its_filter_leaves_what_the_keys_need(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd here")
        allowed = self.calls_allowed()
        # A Unix listener with `mode` and `group`; another process for USR2; upstreams from an interface; io of workers.
        needed = {"bind", "lchown", "chmod", "execve", "clone3", "pidfd_open", "setsockopt", "splice", "epoll_wait", "inotify_add_watch", "prctl"}
        self.assertEqual(needed - allowed, set())
        self.assertEqual(allowed & {"ptrace", "mount", "setuid", "bpf", "kexec_load", "reboot"}, set())

    def test_it_waits_for_the_addresses_that_it_is_to_bind(self):
        unit = self.unit()["Unit"]
        self.assertIn("network-online.target", unit["After"].split())
        self.assertIn("network-online.target", unit["Wants"].split())

    def test_its_directories_are_those_of_the_examples(self):
        service = self.unit()["Service"]
        with open(packaging("examples", "developer.ini"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"/run/{service['RuntimeDirectory']}/control.sock", text)
        self.assertIn(f"/var/log/{service['LogsDirectory']}/audit.jsonl", text)

    def test_ready_is_said_to_whoever_waits(self):
        path = self.path("notify")
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(waiting.close)
        waiting.bind(path)
        waiting.settimeout(20)
        self.gateway(allow=["good.test"], wrapper=["env", f"NOTIFY_SOCKET={path}"])
        self.assertIn(b"READY=1", waiting.recv(1000))

    def listen(self, *names):
        path = self.path("notify")
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(waiting.close)
        waiting.bind(path)
        waiting.settimeout(20)
        return waiting, ["env", f"NOTIFY_SOCKET={path}", *names]

    def test_a_life_as_the_service_manager_hears_it(self):
        waiting, wrapper = self.listen("WATCHDOG_USEC=200000")
        gw = self.gateway(allow=["good.test"], wrapper=wrapper)

        def hear(wanted):
            while True:
                said = dict(line.split("=", 1) for line in waiting.recv(1000).decode().split("\n"))
                if wanted in said:
                    return said

        hear("READY")
        for _ in range(3):  # at least twice in each 200 ms, and with the state
            self.assertRegex(hear("WATCHDOG")["STATUS"], r"^serving generation 1: 0 connections, 0 tunnels, 0 sandboxes$")
        gw.reload(self.config(allow=["good.test", "more.test"]))
        said = hear("RELOADING")
        self.assertEqual(said["RELOADING"], "1")
        self.assertLessEqual(int(said["MONOTONIC_USEC"]), time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
        self.assertEqual(hear("READY")["READY"], "1")
        gw.send_signal(signal.SIGTERM)
        self.assertEqual(hear("STOPPING")["STOPPING"], "1")
        self.assertEqual(gw.process.wait(20), 0)
        gw.expect_end()

    def test_a_watchdog_of_another_process_is_none_of_ours(self):
        waiting, wrapper = self.listen("WATCHDOG_USEC=200000", "WATCHDOG_PID=1")
        self.gateway(allow=["good.test"], wrapper=wrapper)
        waiting.recv(1000)
        self.assertNotIn(b"WATCHDOG", waiting.recv(1000))

    def test_a_stopped_gateway_keeps_silent(self):
        waiting, wrapper = self.listen("WATCHDOG_USEC=100000")
        gw = self.gateway(allow=["good.test"], wrapper=wrapper)
        gw.send_signal(signal.SIGSTOP)
        waiting.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            while True:
                waiting.recv(1000)
        gw.send_signal(signal.SIGCONT)
        waiting.settimeout(20)
        self.assertTrue(waiting.recv(1000))


class Activation(LabCase):
    def hand_over(self, names, *sockets):
        """A wrapper that puts the sockets at 3 and on, as the service manager does."""
        self.kept = sockets
        for sock in sockets:
            sock.set_inheritable(True)
        code = ("import os, sys\n"
                "for at, fd in enumerate(map(int, sys.argv[1].split(','))): os.dup2(fd, 100 + at)\n"
                "count = len(sys.argv[1].split(','))\n"
                "for at in range(count): os.dup2(100 + at, 3 + at); os.close(100 + at)\n"
                "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES=sys.argv[2])\n"
                "os.execv(sys.argv[3], sys.argv[3:])\n")
        return [sys.executable, "-c", code, ",".join(str(sock.fileno()) for sock in sockets), names]

    def tcp(self):
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.bind(("127.0.0.1", 0))
        sock.listen(16)
        return sock

    def start(self, listen, wrapper):
        with unittest.mock.patch("subprocess.Popen", functools.partial(subprocess.Popen, close_fds=False)):
            return self.gateway(self.config(listen=listen, allow=["good.test"]), wrapper=wrapper)

    def test_a_socket_is_matched_by_its_address_or_its_name(self):
        for names, port in (("srt-gateway.socket", None), ("main", 0)):
            with self.subTest(names=names):
                sock = self.tcp()
                bound = sock.getsockname()[1]
                gw = self.start(f"address = 127.0.0.1:{bound if port is None else port}\npolicy = main",
                                self.hand_over(names, sock))
                self.assertEqual(gw.address(), f"127.0.0.1:{bound}")
                self.assertEqual(gw.get("http://evil.test/").status, 403)
                generation = gw.reload(self.config(listen=f"address = 127.0.0.1:{bound if port is None else port}\npolicy = main",
                                                   allow=["good.test", "more.test"]))
                self.assertEqual(gw.get("http://evil.test/").status, 403, generation)
                gw.stop()

    def test_the_path_of_a_unix_socket_stays(self):
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.bind(self.path("in.sock"))
        sock.listen(16)
        gw = self.start(f"address = unix:{self.path('in.sock')}\npolicy = main", self.hand_over("x", sock))
        gw.stop()
        self.assertTrue(os.path.exists(self.path("in.sock")))

    def unix(self, name):
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.bind(self.path(name))
        sock.listen(16)
        return sock

    def test_control_and_admin_are_matched_too(self):
        """By their own names, or by their addresses alone."""
        for names in ("control:admin", "srt-gateway.socket:srt-gateway.socket"):
            with self.subTest(names=names):
                sockets = [self.unix("control.sock"), self.unix("admin.sock")]
                config = self.config(allow=["good.test"])
                for key in ("control", "admin"):
                    config = config.replace(f"{key} = none", f"{key} = {self.path(key + '.sock')}")
                wrapper = self.hand_over(names, *sockets)
                with unittest.mock.patch("subprocess.Popen", functools.partial(subprocess.Popen, close_fds=False)):
                    gw = self.gateway(config, wrapper=wrapper)
                self.assertEqual(gw.operate("/readyz"), "ready\n")
                with socket.socket(socket.AF_UNIX) as launcher:
                    launcher.settimeout(20)
                    launcher.connect(self.path("control.sock"))
                    launcher.sendall(b"\0\0\0\2{}")
                    self.assertIn(b"refused", launcher.recv(4096))
                gw.stop()
                for key in ("control", "admin"):
                    self.assertTrue(os.path.exists(self.path(key + ".sock")))
                    os.unlink(self.path(key + ".sock"))

    def test_one_that_belongs_nowhere_is_refused(self):
        with self.assertRaises(NotReady) as ended:
            self.start("address = 127.0.0.1:0\npolicy = main", self.hand_over("other", self.tcp()))
        self.assertEqual(ended.exception.status, 71)
        self.assertIn("(other) was handed over", ended.exception.stderr)


if __name__ == "__main__":
    main()
