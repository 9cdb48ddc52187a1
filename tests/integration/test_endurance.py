"""What only shows after a while: a thousand reloads, a thousand launches, ten thousand abandoned tunnels, a slow gigabyte."""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

from lab.case import LabCase
from lab.launch import LaunchCase
from lab.talk import PATIENCE_S, Closed

KIB = 1024


def bench(program):
    return os.path.join(os.environ["SRT_BENCH_DIR"], f"bench-{program}")


class Endurance(LabCase):
    def setUp(self):
        super().setUp()
        # What a sanitizer keeps of freed memory would pass for a leak.
        before = os.environ.get("ASAN_OPTIONS")
        os.environ["ASAN_OPTIONS"] = "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
        self.addCleanup(os.environ.pop if before is None else os.environ.__setitem__, "ASAN_OPTIONS",
                        *([None] if before is None else [before]))

    def bench_origin(self, address):
        """The origin of the benchmarks, which is fast; its port."""
        origin = subprocess.Popen([bench("origin"), f"{address}:0"], stdout=subprocess.PIPE)
        self.addCleanup(origin.stdout.close)
        self.addCleanup(origin.wait)
        self.addCleanup(origin.terminate)
        return int(origin.stdout.readline().removeprefix(b"ready "))

    def assert_not_grown(self, early):
        """Within 2 % and what an allocator rounds to. A sanitizer's own bookkeeping grows for a while, so
        there only the order of magnitude is judged (and leaks at the end)."""
        with open(f"/proc/{self.gw.process.pid}/maps", encoding="ascii") as maps:
            sanitized = "san.so" in maps.read()
        bound = early * 1.5 if sanitized else early * 1.02 + 512
        self.assertLess(self.gw.rss_kib(), bound, f"memory grows from {early} KiB")

    def wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"waited in vain: {what}")
            select.select([], [], [], 0.01)  # the state of another process has no event


class Reloads(Endurance):
    COUNT, REQUESTS = 1000, 200_000

    def policies(self, number):
        mine, other = ("a.test", "b.test") if number % 2 else ("b.test", "a.test")
        return self.text + f"allow = common.test:*\nallow = {mine}:*\ndeny = {other}\n; {number}\n"

    BROKEN = ("", "[gateway", "[policy main]\nallow = *.com\n", "[gateway]\nworkers = 2\n[listen main]\naddr",
              "[policy main]\nallow = \x00\n")

    def reload(self, text):
        """The answer of POST /reload: 200 with the new generation, or 422."""
        self.gw.write_config(text)
        admin = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        admin.sock = socket.socket(socket.AF_UNIX)
        admin.sock.connect(self.path("admin.sock"))
        with contextlib.closing(admin):
            admin.request("POST", "/reload")
            response = admin.getresponse()
            return response.status, json.loads(response.read())

    def test_a_thousand_reloads_lose_no_request_and_no_memory(self):
        port = self.bench_origin("127.0.0.2")
        self.text = self.config(hosts={name: "127.0.0.2" for name in ("common.test", "a.test", "b.test")})
        self.text = self.text.replace("admin = none", f"admin = {self.path('admin.sock')}")
        self.gw = self.gateway(self.policies(0))
        allowed = {1: "b.test"}
        tunnel = self.gw.tunnel(f"common.test:{port}")
        tunnel.send("E")
        stop, odd = threading.Event(), []

        def alternate():
            while not stop.is_set():
                try:
                    with self.gw.client() as client:
                        for name in ("a.test", "b.test") * 20:
                            status = client.get(f"http://{name}:{port}/").status
                            if status not in (200, 403):
                                odd.append((name, status))
                except (Closed, OSError) as failure:
                    odd.append(failure)

        side = threading.Thread(target=alternate)
        side.start()
        load = subprocess.Popen([bench("load"), "get", self.gw.address(), f"common.test:{port}", "-c", "32",
                                 "-n", str(self.REQUESTS)], stdout=subprocess.PIPE)
        try:
            for number in range(1, self.COUNT + 1):
                if number % 20 == 0:
                    status, answer = self.reload(self.BROKEN[number // 20 % len(self.BROKEN)])
                    self.assertEqual(status, 422, answer)
                status, answer = self.reload(self.policies(number))
                self.assertEqual(status, 200, answer)
                allowed[answer["generation"]] = "a.test" if number % 2 else "b.test"
                tunnel.send(f"{number:08}").expect(f"{number:08}")
                if number == self.COUNT // 2:
                    early = self.gw.rss_kib()
        finally:
            stop.set()
            side.join()
        done = json.loads(load.communicate()[0])
        self.assertEqual(done["failed"], 0, done)
        self.assertEqual(odd, [])
        self.assert_not_grown(early)
        self.assertEqual(len(allowed), self.COUNT + 1)
        mixed = [entry for entry in self.gw.records("decision") if entry["host"] != "common.test"
                 and (entry["verdict"] == "allow") != (allowed[entry["generation"]] == entry["host"])]
        self.assertEqual(mixed, [])


class Signals(Endurance):
    COUNT = 500

    def policies(self, *names):
        return self.text + "".join(f"allow = {name}:*\n" for name in ("common.test", *names))

    def storm(self):
        """As fast as they can be sent, in the middle of writing and after it; what was asked for last must win."""
        for number in range(self.COUNT):
            if number % 2:
                self.gw.write_config(self.policies("ab"[number // 2 % 2] + ".test"))
            self.gw.send_signal(signal.SIGHUP)
        self.gw.reload(self.policies("a.test", "b.test"))
        self.wait(lambda: self.statuses() == [200, 200], "the last content is in force")
        self.gw.wait_for_descriptors(self.descriptors)

    def statuses(self):
        return [self.gw.refused_connect(f"{name}.test:{self.port}").status for name in "ab"]

    def test_C16_five_hundred_signals_and_the_last_content_wins(self):
        self.port = self.bench_origin("127.0.0.2")
        self.text = self.config(hosts={name: "127.0.0.2" for name in ("common.test", "a.test", "b.test")})
        self.gw = self.gateway(self.policies("b.test"))
        tunnel = self.gw.tunnel(f"common.test:{self.port}")
        tunnel.send("E")
        self.gw.reload(self.policies("a.test", "b.test"))
        self.descriptors = self.gw.descriptors()
        self.storm()  # what a process that has seen a storm needs, once
        early = self.gw.rss_kib()
        for _ in range(2):
            self.storm()
        self.assert_not_grown(early)
        tunnel.send("x" * 8).expect("x" * 8)
        reloads = self.gw.records("reload")
        self.assertEqual([entry for entry in reloads if entry["faults"]], [])
        generations = [entry["generation"] for entry in reloads]
        self.assertEqual(generations, sorted(generations))
        self.assertLessEqual(len(reloads), 3 * self.COUNT + 20)  # never more than were asked for


class Abandoned(Endurance):
    COUNT = 2000  # in each of five states

    def abandon(self, sock):
        """Half by FIN, half by RST, as real clients go."""
        self.left = getattr(self, "left", 0) + 1
        if self.left % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def connect(self):
        host, port = self.gw.address().rsplit(":", 1)
        return socket.create_connection((host, int(port)))

    def before_the_head(self):
        sock = self.connect()
        sock.sendall(b"CONNECT good.test:4")
        return sock

    def in_the_dial(self):
        sock = self.connect()
        sock.sendall(f"CONNECT 127.0.0.9:{self.hole} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return sock

    def open_tunnel(self):
        sock = self.connect()
        sock.sendall(f"CONNECT good.test:{self.sink} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self.assertIn(b" 200 ", sock.recv(100))
        return sock

    def half_open(self):
        sock = self.open_tunnel()
        sock.sendall(b"K")
        sock.shutdown(socket.SHUT_WR)
        return sock

    def mid_transfer(self):
        sock = self.open_tunnel()
        sock.sendall(b"K" * 20_000)
        return sock

    def test_ten_thousand_abandoned_tunnels_leave_nothing(self):
        self.sink = self.bench_origin("127.0.0.2")
        full = socket.socket()  # a listener whose queue is full: a dial to it neither ends nor fails
        self.addCleanup(full.close)
        full.bind(("127.0.0.9", 0))
        full.listen(0)
        self.hole = full.getsockname()[1]
        for _ in range(3):
            plug = socket.socket()
            plug.setblocking(False)
            plug.connect_ex(("127.0.0.9", self.hole))
            self.addCleanup(plug.close)
        self.gw = self.gateway(allow=["good.test:*", "127.0.0.9:*"], hosts={"good.test": "127.0.0.2"},
                               gateway="connect-timeout = 2s\nheader-timeout = 2s")
        states = (self.before_the_head, self.in_the_dial, self.open_tunnel, self.half_open, self.mid_transfer)

        def round_of(count):
            for _ in range(count // 50):
                for state in states:
                    for sock in [state() for _ in range(50)]:
                        self.abandon(sock)
            self.wait(lambda: self.gw.descriptors() <= baseline, "descriptors return to the start")

        baseline = self.gw.descriptors()
        for number in range(4):  # alike, so that the peak of one is the peak of all
            round_of(self.COUNT // 4)
            if number == 1:
                early = self.gw.rss_kib()
        self.assert_not_grown(early)


class Launches(Endurance, LaunchCase):
    COUNT = int(os.environ.get("SRT_LAUNCHES", "60"))
    ASKS = ("exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT denied.test:443 HTTP/1.1\\r\\nHost: denied.test:443\\r\\n\\r\\n' >&3;"
            "read -r line <&3; [[ $line == *403* ]]")

    def processes(self):
        """Everything that was started here and what descends from it, by a word in its environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                if f"SRT_TEST_MARK={self.work}".encode() in file.read():
                    found.append(pid)
        return found

    def traces(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line for line in file if self.work in line]
        return mounts, sorted(os.listdir(self.work)), sorted(os.listdir(self.path("tmp"))), self.processes()

    def one(self, number):
        """Every fifth asks for what is refused, the last thing that it does; every seventh has a gateway of its own."""
        way = "private" if number % 7 == 0 else self.gw.control
        words = ("/bin/bash", "-c", self.ASKS) if number % 5 == 0 else ("/bin/true",)
        self.launch("-s", self.file, "--gateway", way, "--violations", self.path("violations"), *words, status=0, env=self.env)
        return number % 5 == 0

    def test_launches_leave_nothing_and_lose_no_denial(self):
        os.mkdir(self.path("tmp"))
        self.env = {"SRT_TEST_MARK": self.work, "TMPDIR": self.path("tmp")}
        self.file = self.settings(allow=("good.test",))
        self.gw = self.shared_gateway(allow="good.test")
        before = self.traces()
        self.one(0)
        descriptors, refused = self.gw.descriptors(), 1
        for number in range(1, self.COUNT + 1):
            refused += self.one(number)
            if number == self.COUNT // 2:
                early = self.gw.rss_kib()
        self.gw.wait_for_descriptors(descriptors)
        self.assert_not_grown(early)
        self.assertEqual(self.traces(), before)
        with open(self.path("violations"), encoding="utf-8") as file:
            told = [json.loads(line) for line in file]
        self.assertEqual([told_of for told_of in told if told_of["kind"] == "network"], told)
        self.assertEqual(sum(one.get("count", 1) for one in told), refused)


class SlowGigabyte(Endurance):
    BYTES = 1 << 30
    GROWTH_KIB = 4 * KIB

    def lab(self):
        port = self.bench_origin("127.0.0.2")
        self.gw = self.gateway(allow="good.test:*", hosts={"good.test": "127.0.0.2"})
        warm = self.gw.tunnel(f"good.test:{port}")  # what the first tunnel of a process brings along
        warm.send("E0").expect("0")
        warm.close()
        self.before = self.gw.rss_kib()
        return self.gw.tunnel(f"good.test:{port}").sock

    def assert_small(self):
        self.assertLess(self.gw.rss_kib(), self.before + self.GROWTH_KIB)

    def test_H38_a_gigabyte_down_to_a_slow_reader(self):
        sock = self.lab()
        sock.sendall(f"S{self.BYTES}\n".encode())
        left, looked = self.BYTES, 0
        while left > 0:
            got = len(sock.recv(16 * KIB))  # the origin is faster: all queues are full all the time
            self.assertGreater(got, 0)
            left -= got
            if (self.BYTES - left) >> 26 != looked:
                looked = (self.BYTES - left) >> 26
                self.assert_small()
        self.assertEqual(sock.recv(1), b"")

    def test_H38_a_gigabyte_up_to_a_slow_reader(self):
        sock = self.lab()
        sock.sendall(b"K")
        block = bytes(1 << 20)
        for number in range(self.BYTES // len(block)):
            sock.sendall(block)
            if number % 64 == 0:
                self.assert_small()
        sock.shutdown(socket.SHUT_WR)
        self.assertEqual(sock.makefile("rb").read(), str(self.BYTES).encode())
        self.assert_small()


if __name__ == "__main__":
    unittest.main()
