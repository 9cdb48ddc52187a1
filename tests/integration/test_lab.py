"""The laboratory tested by itself: a test bench that cannot fail proves nothing."""

import os
import socket
import struct
import threading
import unittest
from unittest import mock

from lab import Answer, Closed, GatewayDied, LabCase, NotReady, Talk, main, record, reply, whole_and_dribbled
from lab import hello
from lab.names import AAAA, SERVFAIL, A, encode_name

# A gateway that does what its configuration's first line says.
PRETENDER = """#!/usr/bin/env python3
import json, signal, socket, sys, time
config = open(sys.argv[3]).read()
mode = config.split("\\n")[0].strip("; ")
audit = [line.split("=")[1].strip() for line in config.split("\\n") if line.startswith("audit-log")][0]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3 if mode == "bad-status" else 0))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "faulty":
    print("gateway.ini:3: unknown key", file=sys.stderr)
    sys.exit(78)
listener = socket.create_server(("127.0.0.1", 0))
other = socket.create_server(("127.0.0.1", 0))
if mode == "sanitizer":
    print("==1==ERROR: AddressSanitizer: heap-use-after-free", file=sys.stderr)
print("srt-gateway: ready main=127.0.0.1:%d other=127.0.0.1:%d admin=unix:/run/x.sock"
      % (listener.getsockname()[1], other.getsockname()[1]), file=sys.stderr, flush=True)
while True:
    sock, _ = listener.accept()
    if mode == "crash":
        sys.exit(1)
    with open(audit, "a") as log:
        log.write(json.dumps({"kind": "decision", "host": "good.test", "id": "1", "verdict": "allow"}) + "\\n")
        log.write('{"kind": "clo')
        log.flush()
        log.write('se", "id": "1"}\\n')
    sock.recv(100)
    sock.sendall(b"HTTP/1.1 403 No\\r\\nContent-Length: 2\\r\\n\\r\\nno")
    sock.close()
"""


class Pretender(LabCase):
    def setUp(self):
        super().setUp()
        program = self.write("pretender", PRETENDER)
        os.chmod(program, 0o755)
        patch = mock.patch.dict(os.environ, {"SRT_GATEWAY_BIN": program})
        patch.start()
        self.addCleanup(patch.stop)

    def pretend(self, mode="well"):
        return self.gateway("; " + mode + "\n" + self.config())

    def ends_badly(self, gateway):
        """stop() must complain, once; the clean-up then has nothing more to say."""
        with self.assertRaises(GatewayDied) as complaint:
            gateway.stop()
        return str(complaint.exception)


class GatewayUnderTest(Pretender):
    def test_ready_line_names_the_listeners(self):
        gateway = self.pretend()
        self.assertEqual(set(gateway.addresses), {"main", "other", "admin"})
        self.assertNotEqual(gateway.port(), gateway.port("other"))
        self.assertEqual(gateway.address("admin"), "unix:/run/x.sock")

    def test_client_and_records(self):
        gateway = self.pretend()
        self.assertEqual(gateway.get("http://good.test/").status, 403)
        self.assertEqual(gateway.decision("good.test")["verdict"], "allow")
        self.assertEqual(gateway.close_record("1")["kind"], "close")

    def test_faults_before_ready_are_reported(self):
        with self.assertRaises(NotReady) as ended:
            self.pretend("faulty")
        self.assertEqual(ended.exception.status, 78)
        self.assertIn("gateway.ini:3: unknown key", ended.exception.stderr)

    def test_a_record_that_never_comes_fails(self):
        gateway = self.pretend("crash")
        with self.assertRaises((AssertionError, Closed, ConnectionResetError)):
            gateway.get("http://good.test/")
        with self.assertRaisesRegex(AssertionError, "the gateway ended"):
            gateway.decision("good.test")
        self.assertIn("died by itself", self.ends_badly(gateway))

    def test_sanitizer_report_fails(self):
        self.assertIn("heap-use-after-free", self.ends_badly(self.pretend("sanitizer")))

    def test_bad_status_fails(self):
        self.assertIn("ended with 3", self.ends_badly(self.pretend("bad-status")))

    def test_stubborn_gateway_fails(self):
        gateway = self.pretend("stubborn")
        with mock.patch("lab.gateway.PATIENCE_S", 0.2):
            self.assertIn("did not end after signal", self.ends_badly(gateway))

    def test_runs_as_an_ordinary_user(self):
        if os.getuid() != 0:
            self.skipTest("we are one already")
        gateway = self.gateway("; well\n" + self.config(), user=self.ordinary_user())
        self.assertEqual(os.stat(f"/proc/{gateway.process.pid}").st_uid, self.ordinary_user())


def direct(server):
    return Talk(socket.create_connection((server.address, server.port)))


class Servers(LabCase):
    def test_origin_records_requests_and_bytes(self):
        origin = self.origin("good.test", answer=lambda request: reply(body=request.body.upper()))
        for how in whole_and_dribbled(self):
            with direct(origin) as client:
                client.request("POST /x HTTP/1.1", [("Host", "h")], b"hello", how=how)
                self.assertEqual(client.response().body, b"HELLO")
                client.request("GET /y HTTP/1.1", [("Host", "h"), ("Host", "i")], how=how)
                self.assertEqual(client.response().body, b"")
        self.assertEqual([request.target for request in origin.requests], ["/x", "/y", "/x", "/y"])
        self.assertEqual(origin.requests[1].all("host"), ["h", "i"])
        self.assertTrue(origin.received.startswith(b"POST /x HTTP/1.1\r\nHost: h\r\n"))
        self.assertEqual(origin.connections, 2)

    def test_origin_reads_chunks_and_trailers(self):
        origin = self.origin()
        with direct(origin) as client:
            client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3;x=y\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")
            self.assertEqual(client.response().status, 200)
        self.assertEqual(origin.requests[0].body, b"abc")
        self.assertEqual(origin.requests[0].trailers, [("X-Sum", "1")])

    def test_upstream_scripts(self):
        def banner_first(talk):
            talk.send("220 hello\r\n")
            talk.expect("QUIT\r\n")
            talk.reset()

        upstream = self.upstream(banner_first)
        with direct(upstream) as client:
            client.expect("220 hello\r\n").send("QUIT\r\n").expect_eof()

    def test_a_failing_script_fails_the_test(self):
        upstream = self.upstream(lambda talk: talk.expect("this"))
        with direct(upstream) as client:
            client.send("that").expect_eof()
        with self.assertRaisesRegex(AssertionError, "expected b'this'"):
            self._judge(upstream)
        upstream.failures.clear()

    def test_half_close_through_echo(self):
        upstream = self.upstream()
        with direct(upstream) as client:
            client.send("ask").finish()
            self.assertEqual(client.read_all(), b"ask")
        upstream.wait_until_ended()
        self.assertEqual(upstream.received, b"ask")

    def test_tls_origin(self):
        origin = self.origin("good.test", tls=True)
        with direct(origin) as client:
            client.start_tls(self.authority().client(), "good.test")
            self.assertEqual(client.request("GET / HTTP/1.1", [("Host", "good.test")]).response().status, 200)

    def test_expectations_fail_when_unmet(self):
        ours, theirs = socket.socketpair()
        with Talk(ours) as talk:
            theirs.send(b"x")
            with self.assertRaises(AssertionError):
                talk.expect("y")
            theirs.send(b"x")
            with self.assertRaises(AssertionError):
                talk.expect_silence(5)
            talk.expect_silence(0.01)
            theirs.close()
            with self.assertRaises(Closed):
                talk.read_until("z")


class Names(LabCase):
    def ask(self, server, name, kind=A, transport="udp", number=7):
        wire = (struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + encode_name(name)
                + struct.pack("!HH", kind, 1))
        if transport == "tcp":
            with direct(server) as talk:
                talk.send(struct.pack("!H", len(wire)) + wire)
                return talk.read_exactly(struct.unpack("!H", talk.read_exactly(2))[0])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(10)
            sock.sendto(wire, (server.address, server.port))
            return sock.recv(4096)

    @staticmethod
    def addresses(wire):
        return struct.unpack("!H", wire[6:8])[0]

    def test_table(self):
        server = self.name_server({"good.test": ["127.0.0.2", "127.0.0.3", "::1"]})
        for transport in ("udp", "tcp"):
            self.assertEqual(self.addresses(self.ask(server, "good.test", transport=transport)), 2)
            self.assertEqual(self.addresses(self.ask(server, "GOOD.test", AAAA, transport=transport)), 1)
            self.assertEqual(self.ask(server, "evil.test", transport=transport)[3] & 15, 3)
        self.assertEqual([question.type for question in server.asked("good.test", transport="udp")], ["A", "AAAA"])
        self.assertEqual(len(server.asked("evil.test")), 2)

    def test_scripted_answers(self):
        second = threading.Event()

        def answers(question):
            if question.transport == "udp":
                return Answer(truncated=True)
            second.set()
            return [Answer(id=question.id ^ 1), Answer([record("good.test", "alias.test", ttl=1)], SERVFAIL)]

        server = self.name_server(answers)
        self.assertEqual(self.ask(server, "good.test")[2] & 2, 2)
        self.assertEqual(self.ask(server, "good.test", transport="tcp")[:2], struct.pack("!H", 6))
        self.assertTrue(second.is_set())

    def test_silence_and_delay(self):
        server = self.name_server(lambda question: Answer(delay=0.01) if question.name == "late.test" else None)
        self.assertEqual(self.addresses(self.ask(server, "late.test")), 0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.05)
            sock.sendto(struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + encode_name("x") + b"\0\1\0\1",
                        (server.address, server.port))
            self.assertRaises((socket.timeout, TimeoutError), sock.recv, 4096)


class Hellos(unittest.TestCase):
    def test_recorded_hello_names_the_server(self):
        self.assertIn(b"good.test", hello.recorded("good.test"))
        self.assertNotIn(b"good.test", hello.recorded(None))

    def test_crafted_hello_is_read_by_openssl(self):
        from lab.pki import Authority
        import ssl
        import tempfile
        with tempfile.TemporaryDirectory() as directory:
            context = Authority(directory).server("good.test")
            seen = []
            context.sni_callback = lambda tls, name, _: seen.append(name)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            server = context.wrap_bio(incoming, outgoing, server_side=True)
            incoming.write(hello.records(hello.handshake([hello.server_name(b"good.test")]), size=7))
            with self.assertRaises((ssl.SSLError, ssl.SSLWantReadError)):
                server.do_handshake()
            self.assertEqual(seen, ["good.test"])


if __name__ == "__main__":
    main()
