"""A crowd that does anything at all at once: random clients, servers and launchers, while the gateway is reloaded and replaced.

Nothing of it may end the gateway (assertions and sanitizers say so), keep it from answering, or leave its log with gaps or
with tunnels that never closed. What it is made from is printed where a test fails: SRT_CROWD=SEED:SECONDS does it again.
"""

import os
import random
import select
import socket
import struct
import threading
import time

from lab import hello, main
from lab.case import LabCase
from lab.launcher import Launcher
from lab.talk import PATIENCE_S

SEED, SECONDS = (int(part) for part in os.environ.get("SRT_CROWD", f"{random.randrange(1 << 32)}:8").split(":"))

ANSWERS = (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(50000),
           b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
           b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n" + bytes(70000), b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
           b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 300, b"what is this", b"",
           b"HTTP/1.1 200 OK\r\nX: half of a he", b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst words")
KINDS = ["proxy", "transparent", "dns-tcp"]
NETWORKS = (None, {"allowedDomains": ["good.test"]}, {"allowedDomains": ["*.good.test"], "deniedDomains": ["good.test"]},
            {"allowedDomains": ["good.test"], "deniedDomains": ["evil.test"], "deniedDomainReasons": {"evil.test": "no"}})


class Crowd(LabCase):
    def setUp(self):
        super().setUp()
        self.until, self.doors, self.lock = time.monotonic() + SECONDS, [], threading.Lock()
        server = socket.create_server(("127.0.0.2", 0), backlog=500)
        self.addCleanup(server.close)
        threading.Thread(target=self.serve_all, args=(server,), daemon=True).start()
        self.port = server.getsockname()[1]
        config = self.config(allow=[f"good.test:{self.port}", "*.good.test:*", f"odd.test:{self.port} path=/a/* method=GET,POST"],
                             hosts={name: "127.0.0.2" for name in ("good.test", "odd.test", "a.good.test")},
                             gateway="header-timeout = 2s\nidle-timeout = 3s\nmax-header-bytes = 4k\nmax-sandbox-connections = 60\nmax-connections = 300")
        self.configured = config.replace("control = none", f"control = {self.path('control.sock')}")
        self.gw = self.gateway(self.configured)
        host, port = self.gw.address().rsplit(":", 1)
        self.doors.append((host, int(port)))

    # -- servers

    def serve_all(self, server):
        chance = random.Random(SEED)
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection, random.Random(chance.random())), daemon=True).start()

    @staticmethod
    def serve(connection, chance):
        """Echoes, answers something, or breaks off."""
        with connection:
            try:
                connection.settimeout(chance.choice((0.05, 3)))
                while data := connection.recv(chance.choice((1, 100, 65536))):
                    if b"HTTP/1.1\r\n" in data or chance.random() < 0.3:
                        connection.sendall(chance.choice(ANSWERS))
                    elif chance.random() < 0.1:
                        connection.shutdown(socket.SHUT_WR)
                    else:
                        connection.sendall(data)
                    if chance.random() < 0.3:
                        break
                if chance.random() < 0.3:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass

    # -- clients

    def words(self, chance):
        """Something that a client might say, or not."""
        host = chance.choice((b"good.test:%d", b"odd.test:%d", b"a.good.test:%d", b"GOOD.test.:%d", b"127.0.0.1:%d", b"a..b:%d", b"[::1]:%d")) % self.port
        name = chance.choice((b"good.test", b"evil.test"))
        tls = hello.records(hello.handshake([hello.server_name(name)]), chance.choice((1, 7, 500)))
        head = b" HTTP/1.1\r\nHost: x\r\n"
        question = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\x04good\x04test\0" + struct.pack("!HH", chance.choice((1, 28, 12, 15)), 1)
        said = chance.choice((
            (struct.pack("!H", len(question)) + question) * chance.choice((1, 50)),
            b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (host, host) + chance.choice((tls, b"plain words", b"")),
            b"GET http://%s/a/b?q" % host + head + b"\r\n", b"GET http://%s/a/ HTTP/1.0\r\n\r\n" % host, b"GET http://evil.test/" + head + b"\r\n",
            b"POST http://%s/a/" % host + head + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
            b"POST http://%s/a/" % host + head + b"Content-Length: 300000\r\n\r\n" + bytes(chance.choice((0, 10, 300000))),
            b"POST http://%s/a/" % host + head + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n",
            b"GET http://%s/a/" % host + head + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"OPTIONS *" + head + b"\r\n",
            b"HEAD http://%s/a/" % host + head + b"Connection: close\r\n\r\n", b"\x05\x01\x00\x05\x01\x00\x03\x09good.test" + struct.pack("!H", self.port) + tls,
            b"\x05\x02\x00\x02\x05\x01\x00\x01\x7f\x00\x00\x02" + struct.pack("!H", self.port), chance.randbytes(chance.randrange(1, 300))))
        if chance.random() < 0.2:
            at = chance.randrange(len(said))
            said = said[:at] + chance.randbytes(1) + said[at + 1:]
        return said

    def be_client(self, chance):
        while time.monotonic() < self.until:
            with self.lock:
                door = chance.choice(self.doors)
            try:
                with socket.create_connection(door, 1) as sock:
                    sock.settimeout(chance.choice((0.01, 0.2, 1)))
                    for _ in range(chance.choice((1, 1, 2, 5))):
                        said = self.words(chance)
                        cut = chance.randrange(len(said) + 1)
                        sock.sendall(said[:cut])
                        sock.sendall(said[cut:])
                        if chance.random() < 0.5:
                            sock.recv(65536)
                    how = chance.random()
                    if how < 0.2:
                        sock.shutdown(socket.SHUT_WR)
                    elif how < 0.4:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    while how < 0.6 and sock.recv(65536):
                        pass
            except OSError:
                pass

    # -- launchers and operators

    def be_launcher(self, chance):
        number = 0
        while time.monotonic() < self.until:
            number += 1
            try:
                self.run_sandbox(chance, f"box-{threading.get_ident()}-{number}")
            except (OSError, EOFError):
                pass

    def run_sandbox(self, chance, name):
        launcher, doors = Launcher(self.path("control.sock")), []
        try:
            launcher.attach(name, [launcher.listen() for _ in KINDS], listeners=KINDS, network=chance.choice(NETWORKS), ask=chance.random() < 0.3)
            doors = [listener.getsockname() for listener in launcher.listeners]
            with self.lock:
                self.doors += doors
            end = time.monotonic() + chance.choice((0.1, 1))
            while time.monotonic() < min(end, self.until):
                launcher.send({"type": "update", "serial": 1, "network": chance.choice(NETWORKS[1:])})
                launcher.sock.recv(65536 if chance.random() < 0.5 else 1)
            if chance.random() < 0.3:
                chance.choice(launcher.listeners).shutdown(socket.SHUT_RDWR)
            if chance.random() < 0.3:
                launcher.sock.shutdown(socket.SHUT_WR)
        finally:
            with self.lock:
                for door in doors:
                    self.doors.remove(door)
            launcher.close()

    def test_a_crowd_ends_nothing_and_leaves_no_gap(self):
        chance = random.Random(SEED)
        crowd = [threading.Thread(target=work, args=(random.Random(chance.random()),), daemon=True)
                 for work in [self.be_client] * 16 + [self.be_launcher] * 4]
        with self.subTest(SRT_CROWD=f"{SEED}:{SECONDS}"):
            for member in crowd:
                member.start()
            while time.monotonic() < self.until:
                if chance.random() < 0.3:
                    self.gw.hand_over()
                else:
                    self.gw.reload(f"{self.configured}\n; {chance.random()}\n")
            for member in crowd:
                member.join()
            self.assert_refused(self.gw.get("http://evil.test/"), 403, "not-allowed")
            self.assert_all_closed()

    def still_open(self):
        """The records, and those of what was let through and has no end."""
        records = self.gw.records()
        begun = {entry["id"] for entry in records if entry["kind"] == "decision" and entry["verdict"] == "allow"}
        return records, begun - {entry["id"] for entry in records if entry["kind"] == "close"}

    def assert_all_closed(self):
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.still_open())[1]:
            self.assertLess(time.monotonic(), deadline, f"never closed: {found[1]}")
            select.select([], [], [], 0.1)
        records = found[0]
        self.assertEqual([entry["seq"] for entry in records], list(range(len(records))))
        # Everybody was there, and nothing was lost.
        self.assertEqual({entry["kind"] for entry in records}, {"decision", "close", "attach", "detach", "reload", "admin"})


if __name__ == "__main__":
    main()
