"""SOCKS5 through the gateway (area gateway-socks)."""

import hashlib
import os

from lab import LabCase, main, whole_and_dribbled
from lab import hello
from lab.talk import socks_request

PATTERN = b"clear" + os.urandom(1 << 20)  # what begins at random is now and then a TLS hello


class SocksCase(LabCase):
    def lab(self, script=None, **more):
        self.good = self.upstream(script, "good.test") if script else self.upstream(name="good.test")
        parts = {"allow": [self.good.authority, self.good.literal], "hosts": [self.good]}
        parts.update(more)
        self.gw = self.gateway(**parts)
        return self.gw


class Socks(SocksCase):
    def test_S01_a_name_with_a_nul_is_no_name(self):
        names = self.name_server({})
        gw = self.gateway(allow=["good.test", "*.good.test"], names=names)
        for how in whole_and_dribbled(self):
            for host in (b"evil.test\x00.good.test", b"good.test\x00", b"\x00.good.test"):
                client = gw.client()
                self.assertIn(client.socks(host, 443, how=how)[0], (1, 2, 8))
                client.expect_eof()
        for host in ("evil.test\x00.good.test", "good.test\x00"):
            with gw.client() as client:
                client.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: good.test\r\n\r\n")
                self.assertEqual(client.response("CONNECT").status, 400)
        self.assertEqual(names.questions, [])
        # Each has its record, and the name in it is escaped: the file is still one object a line.
        records = [gw.wait_for_record(lambda entry: entry["kind"] == "decision", number) for number in range(1, 9)]
        self.assertEqual({(entry["verdict"], entry["reason"]) for entry in records}, {("deny", "bad-request")})
        self.assertTrue(records[0]["message"].endswith(': "evil.test\\x00.good.test"'), records[0]["message"])

    def test_S02_exactly_ldh_underscore_and_dot_are_in_names(self):
        names = self.name_server({})
        gw = self.gateway(allow=["*.good.test:1-65535"], names=names)
        letters = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
        accepted = set()
        for byte in range(256):
            code = gw.socks_code(b"a" + bytes([byte]) + b"b.good.test", 443)
            self.assertIn(code, (1, 2, 4, 8))
            if code == 4:  # resolved, and does not exist
                accepted.add(byte)
        self.assertEqual(accepted, letters | {ord(".")})
        asked = {question.spelled.lower().encode("latin-1")[1:2] for question in names.questions}
        self.assertEqual(asked, {bytes([byte]).lower() for byte in letters | {ord(".")}})

    def test_S04_every_message_in_single_bytes(self):
        self.lab()
        for host in ("good.test", "127.0.0.2"):
            for how in whole_and_dribbled(self):
                with self.gw.client() as client:
                    code, address, port = client.socks(host, self.good.port, how=how)
                    self.assertEqual(code, 0)
                    self.assertNotEqual((address, port), ("0.0.0.0", 0))
                    client.send("ping").expect("ping")

    def test_S04_an_ipv6_literal(self):
        six = self.upstream(address="::1")
        gw = self.gateway(allow=[six.literal])
        for how in whole_and_dribbled(self):
            with gw.client() as client:
                self.assertEqual(client.socks("::1", six.port, how=how)[0], 0)
                client.send("ping").expect("ping")

    def test_S04_several_methods_offered(self):
        self.lab()
        for methods in (b"\x02\x00", b"\x00\x01\x02", b"\x01\x02\x03\x00", bytes(range(255))):
            with self.gw.client() as client:
                client.send(b"\x05" + bytes([len(methods)]) + methods).expect(b"\x05\x00")
                client.send(socks_request("good.test", self.good.port))
                self.assertEqual(client.socks_reply()[0], 0)
        client = self.gw.client()
        client.send(b"\x05\x01\x01").expect(b"\x05\xff").expect_eof()
        client = self.gw.client()
        client.send(b"\x05\x00").expect(b"\x05\xff").expect_eof()

    def test_S05_everything_in_one_write(self):
        self.lab(lambda talk: talk.send(hashlib.sha256(talk.read_exactly(65536)).hexdigest()))
        client = self.gw.client()
        client.send(b"\x05\x01\x00" + socks_request("good.test", self.good.port) + PATTERN[:65536])
        client.expect(b"\x05\x00")
        self.assertEqual(client.socks_reply()[0], 0)
        client.expect(hashlib.sha256(PATTERN[:65536]).hexdigest())
        self.assertEqual(self.good.received, PATTERN[:65536])

    def test_S05_bytes_behind_a_refused_request_go_nowhere(self):
        self.lab()
        client = self.gw.client()
        client.send(b"\x05\x01\x00" + socks_request("evil.test", 443) + socks_request("good.test", self.good.port)
                    + b"some data")
        client.expect(b"\x05\x00")
        self.assertEqual(client.socks_reply()[0], 2)
        client.expect_eof()
        self.assert_untouched(self.good)

    def test_S07_commands_and_address_types_we_do_not_have(self):
        self.lab()
        for how in whole_and_dribbled(self):
            for command in (2, 3, 0, 4, 255):
                client = self.gw.client()
                self.assertEqual(client.socks("good.test", self.good.port, how=how, command=command)[0], 7)
                client.expect_eof()
            self.gw.decision("good.test", port=self.good.port, reason="unsupported", verdict="deny", number=5)
            for kind in (0, 2, 5, 255):
                client = self.gw.client()
                getattr(client, how)(b"\x05\x01\x00" + bytes([5, 1, 0, kind]) + b"\x00" * 30)
                client.expect(b"\x05\x00")
                self.assertEqual(client.socks_reply()[0], 8)
                client.expect_eof()
        self.assert_untouched(self.good)

    def test_S08_each_failure_has_its_code(self):
        names = self.name_server({"private.test": ["10.0.0.1"], "dead.test": ["127.0.0.2"],
                                  "silent.test": lambda question: None})
        closed = self.closed_port()
        gw = self.gateway(allow=["*.test:1-65535"], deny=["denied.test"], names=names,
                          dns="timeout = 300ms\ntries = 1")
        expected = {"denied.test": (2, "denied-by-rule"), "private.test": (2, "address-denied"),
                    "missing.test": (4, "dns-nxdomain"), "silent.test": (4, "dns-timeout"),
                    "dead.test": (5, "connect-refused"), "elsewhere.example": (2, "not-allowed")}
        for host, (code, reason) in expected.items():
            for how in whole_and_dribbled(self):
                with self.subTest(host=host):
                    self.assertEqual(gw.socks_code(host, closed, how=how), code)
                    decision = gw.decision(host)
                    self.assertEqual((decision["reason"], decision["front"], decision["verdict"]),
                                     (reason, "socks5", "deny"))

    def test_S11_other_protocols_are_answered_or_closed_at_once(self):
        self.lab()
        for data in (b"\x04\x01\x01\xbb\x7f\x00\x00\x02user\x00", b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00good.test\x00",
                     hello.recorded("good.test"), b"\x00\x01\x02\x03", b"\xff" * 100, b"\x80\x2e\x01\x00\x02"):
            with self.subTest(data=data[:10]):
                client = self.gw.client()
                client.send(data)
                try:
                    answer = client.read_all()
                except ConnectionResetError:
                    answer = b""
                if data[0] == 4:
                    self.assertEqual(answer[:2], b"\x00\x5b")
                elif answer:
                    self.assertIn(answer[:9], (b"HTTP/1.1 ", b"HTTP/1.0 ", b"\x15\x03"))
        self.assert_untouched(self.good)
        for reason, number in (("unsupported", 2), ("bad-request", 4)):
            self.gw.wait_for_record(lambda entry: entry["kind"] == "decision" and entry["reason"] == reason, number)

    def test_S11_a_listener_of_one_protocol_refuses_the_other(self):
        good = self.origin("good.test")
        gw = self.gateway(allow=[good.authority], hosts=[good],
                          more="[listen socks]\naddress = 127.0.0.1:0\nprotocol = socks5\npolicy = main\n"
                               "[listen http]\naddress = 127.0.0.1:0\nprotocol = http\npolicy = main\n")
        client = gw.client("socks")
        client.send(f"GET http://{good.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            self.assertNotIn(b" 200 ", client.read_all())
        except ConnectionResetError:
            pass
        client = gw.client("http")
        client.send(b"\x05\x01\x00")
        try:
            self.assertNotEqual(client.read_all()[:2], b"\x05\x00")
        except ConnectionResetError:
            pass
        self.assertEqual(gw.get(f"http://{good.authority}/", listener="http").status, 200)
        self.assertEqual(gw.socks_code("good.test", good.port, listener="socks"), 0)

    def test_S14_half_close_through_socks(self):
        def answer_after_the_end(talk):
            self.assertEqual(talk.read_all(), b"ask")
            talk.send(PATTERN).finish()

        self.lab(answer_after_the_end)
        with self.gw.client() as client:
            self.assertEqual(client.socks("good.test", self.good.port)[0], 0)
            client.send("ask").finish()
            self.assertEqual(hashlib.sha256(client.read_all()).digest(), hashlib.sha256(PATTERN).digest())

    def test_a_literal_in_the_domain_type_is_a_literal(self):
        names = self.name_server({})
        self.good = self.upstream()
        gw = self.gateway(allow=[self.good.literal], names=names)
        self.assertEqual(gw.socks_code(b"127.0.0.2", self.good.port), 0)
        self.assertEqual(gw.socks_code(b"127.0.0.3", self.good.port), 2)
        for host in (b"127.2", b"0x7f.0.0.2", b"2130706434", b"0177.0.0.2", b"127.0.0.2.", b"", b".", b"a..b"):
            with self.subTest(host=host):
                self.assertIn(gw.socks_code(host, self.good.port), (1, 2, 8))
        self.assertEqual(self.good.connections, 1)
        self.assertEqual(names.questions, [])

    def test_port_zero_is_malformed(self):
        self.lab()
        self.assertIn(self.gw.socks_code("good.test", 0), (1, 2))

    def test_a_reserved_byte_and_a_wrong_version_are_refused(self):
        self.lab()
        for request in (b"\x04\x01\x00\x01\x7f\x00\x00\x02\x00\x50", b"\x05\x01\x01\x01\x7f\x00\x00\x02\x00\x50"):
            client = self.gw.client()
            client.send(b"\x05\x01\x00").expect(b"\x05\x00").send(request)
            answer = client.read_all()
            self.assertTrue(answer == b"" or answer[1] != 0, answer)
        self.assert_untouched(self.good)

    def test_the_handshake_is_bounded_by_header_timeout(self):
        self.lab(gateway="header-timeout = 1s")
        for data in (b"\x05", b"\x05\x01\x00", b"\x05\x01\x00\x05\x01"):
            client = self.gw.client()
            client.send(data)
            client.read_all()  # ends; how much was answered before does not matter
        self.assert_untouched(self.good)

    def test_the_record_names_the_front(self):
        self.lab()
        with self.gw.client() as client:
            self.assertEqual(client.socks("GOOD.test.", self.good.port)[0], 0)
            client.send("ping").expect("ping")
        decision = self.gw.decision("good.test")
        self.assertEqual((decision["front"], decision["method"], decision["path"], decision["addr"]),
                         ("socks5", None, None, "127.0.0.2"))
        close = self.gw.close_record(decision["id"])
        self.assertEqual((close["bytes_up"], close["bytes_down"], close["cause"]), (4, 4, "client"))


if __name__ == "__main__":
    main()
