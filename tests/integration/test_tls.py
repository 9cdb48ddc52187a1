"""The server name inside a tunnel (area tls, and the SOCKS case S13)."""

import json
import pathlib
import random
import shutil
import ssl

from lab import LabCase, main, reply, whole_and_dribbled
from lab import hello
from lab.upstream import echo


class HelloCase(LabCase):
    def lab(self, rule="{authority}", script=None, **more):
        self.good = self.upstream(script, "good.test") if script else self.upstream(lambda talk: talk.read_all(), "good.test")
        allow = [rule.format(authority=self.good.authority, port=self.good.port)]
        self.gw = self.gateway(allow=allow + more.pop("allow", []), hosts=[self.good], **more)
        return self.gw

    def connect(self, front="connect", host="good.test"):
        client = self.gw.client()
        if front == "socks5":
            self.assertEqual(client.socks(host, self.good.port)[0], 0)
        else:
            client.connect_to(f"{host}:{self.good.port}")
        return client

    def passes(self, data, how="send", front="connect", host="good.test"):
        """The same bytes reach the upstream."""
        before = len(self.good.received)
        with self.connect(front, host) as client:
            getattr(client, how)(data)
            self.good.wait(lambda: len(self.good.received) >= before + len(data), f"{len(data)} bytes at the upstream")
        self.assertEqual(self.good.received[before:], data)

    def mismatch(self, data, how="send", front="connect", sni=None, host="good.test"):
        """A TLS alert and the end; nothing reaches the upstream; the record says why."""
        before = self.good.received
        number = len([entry for entry in self.gw.records("decision") if entry["reason"] == "sni-mismatch"]) + 1
        client = self.connect(front, host)
        getattr(client, how)(data)
        try:
            answer = client.read_all()
            self.assertTrue(hello.is_alert(answer), answer)
        except ConnectionResetError:
            self.fail("reset before the alert was read")
        decision = self.gw.wait_for_record(
            lambda entry: entry["kind"] == "decision" and entry["reason"] == "sni-mismatch", number)
        self.assertEqual((decision["verdict"], decision["host"], decision["front"]), ("deny", host, front))
        close = self.gw.close_record(decision["id"])
        self.assertEqual((close["cause"], close["sni"]), ("policy", sni))
        self.assertIn(f"in the tunnel to {host}:", decision["message"])
        self.assertEqual(f"(it named {sni})" in decision["message"], sni is not None, decision)
        allowed = self.gw.wait_for_record(
            lambda entry: entry["kind"] == "decision" and entry["id"] == decision["id"])
        self.assertEqual(allowed["verdict"], "allow")
        self.assertEqual(self.good.received, before)


class ServerNames(HelloCase):
    def test_T01_and_S13_another_name_inside_is_closed(self):
        self.lab()
        for front in ("connect", "socks5"):
            for how in whole_and_dribbled(self):
                self.mismatch(hello.recorded("evil.test"), how, front, sni="evil.test")

    def test_the_same_name_passes_byte_for_byte(self):
        self.lab()
        for front in ("connect", "socks5"):
            for how in whole_and_dribbled(self):
                for data in (hello.recorded("good.test"), hello.recorded("good.test", alpn=["h2", "http/1.1"]),
                             hello.crafted(b"good.test"), hello.crafted(b"GOOD.test")):
                    self.passes(data, how, front)

    def test_a_hello_cut_into_records_of_any_size(self):
        self.lab()
        for size in (1, 2, 3, 5, 16, 100):
            for name, seen in ((b"good.test", True), (b"evil.test", False)):
                data = hello.records(hello.handshake([hello.extension(0xfe0d - 1, bytes(300)), hello.server_name(name)]), size)
                with self.subTest(size=size, name=name):
                    if seen:
                        self.passes(data)
                    else:
                        self.mismatch(data, sni="evil.test")

    def test_a_large_hello_with_post_quantum_shares(self):
        self.lab()
        share = hello.extension(51, b"\x04\xc4\x63\x99\x04\xc0" + bytes(1216))
        self.passes(hello.records(hello.handshake([share, hello.extension(0x4469, bytes(20000)), hello.server_name(b"good.test")])))
        self.mismatch(hello.records(hello.handshake([share, hello.extension(0x4469, bytes(20000)), hello.server_name(b"evil.test")])),
                      sni="evil.test")

    def test_another_name_that_the_policy_allows_on_that_port_passes(self):
        self.lab(allow=["other.test:1-65535", "elsewhere.test:443"], deny=["denied.test"])
        self.passes(hello.crafted(b"other.test"))
        self.mismatch(hello.crafted(b"elsewhere.test"), sni="elsewhere.test")
        self.mismatch(hello.crafted(b"denied.test"), sni="denied.test")

    def test_T02_no_name_inside_a_name(self):
        self.lab()
        self.mismatch(hello.recorded(None))
        self.mismatch(hello.records(hello.handshake(None)))

    def test_T02_no_name_inside_an_address(self):
        self.lab(rule="127.0.0.2:{port}", allow=["other.test:1-65535"])
        self.passes(hello.recorded(None), host="127.0.0.2")
        self.passes(hello.crafted(b"other.test"), host="127.0.0.2")
        self.mismatch(hello.crafted(b"evil.test"), sni="evil.test", host="127.0.0.2")

    def test_an_address_needs_a_rule_of_its_own(self):
        self.lab()
        self.assert_refused(self.gw.refused_connect(f"127.0.0.2:{self.good.port}"), 403, "not-allowed")

    def test_sni_off_in_the_rule_or_the_policy(self):
        self.lab(rule="{authority} sni=off")
        self.passes(hello.recorded(None))
        self.passes(hello.crafted(b"evil.test"))
        self.gw.stop()
        self.lab(policy="sni = off")
        self.passes(hello.crafted(b"evil.test"))

    def test_T07_names_that_are_none(self):
        self.lab()
        for names in ((b"good.test\x00.evil.test",), (b"good.test\x00",), (b"",), (b"127.0.0.1",), (b"good.test", b"evil.test"),
                      (b"evil.test", b"good.test"), (b"good test",), (b"*.test",), ("bücher.test".encode(),), (b"a" * 64 + b".test",),
                      (b"x." * 200,), (b"good..test",)):
            with self.subTest(names=names):
                client = self.connect()
                client.send(hello.crafted(*names))
                self.assertTrue(hello.is_alert(client.read_all()))
        self.assertEqual(self.good.received, b"")

    def test_T07_lengths_that_lie(self):
        self.lab()
        whole = hello.crafted(b"good.test")
        message = hello.handshake([hello.server_name(b"good.test")])
        for at in range(43, len(message)):
            for value in (0, 1, 0x7f, 0xff):
                bent = message[:at] + bytes([value]) + message[at + 1:]
                if bent == message:
                    continue
                client = self.connect()
                client.send(hello.records(bent)).finish()
                try:
                    client.read_all()
                except ConnectionResetError:
                    pass
                client.close()
        # Whatever was let through named good.test, or nothing at all could be understood otherwise.
        self.assertNotIn(b"evil.test", self.good.received)
        self.passes(whole)

    def test_T20_mutated_hellos_do_no_harm(self):
        self.lab(allow_addresses="127.0.0.0/8")
        source = random.Random(20)
        base = hello.recorded("evil.test")
        for _ in range(300):
            data = bytearray(base[:source.randrange(1, len(base) + 1)])
            for _ in range(source.randrange(1, 6)):
                data[source.randrange(len(data))] = source.randrange(256)
            client = self.connect()
            client.send(bytes(data)).finish()
            try:
                client.read_all()
            except ConnectionResetError:
                pass
            client.close()
        self.passes(hello.crafted(b"good.test"))

    def test_T20_old_and_foreign_first_bytes(self):
        self.lab(rule="{authority} sni=match")
        for data in (b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10", b"\x15\x03\x01\x00\x02\x02\x46", b"\x17\x03\x03\x00\x05hello",
                     b"\x16\x02\x00\x00\x05hello", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\xff\xff" + bytes(200), bytes(100)):
            with self.subTest(data=data[:12]):
                client = self.connect()
                client.send(data).finish()
                try:
                    client.read_all()
                except ConnectionResetError:
                    pass
        self.assertEqual(self.good.received, b"")


CHANGE_CIPHER_SPEC = b"\x14\x03\x03\x00\x01\x01"


class Report(HelloCase):
    """A policy that only reports: what would end a tunnel is recorded, once, and goes on."""

    def on_trial(self, rule="{authority}"):
        return self.lab(rule=rule, policy="mode = report")

    def found(self):
        return [entry for entry in self.gw.records("decision") if "in the tunnel to" in (entry["message"] or "")]

    def reported(self, data, words, host="good.test"):
        number = len(self.found()) + 1
        self.passes(data, host=host)
        entry = self.gw.wait_for_record(
            lambda record: record["kind"] == "decision" and "in the tunnel to" in (record["message"] or ""), number)
        self.assertEqual([entry[key] for key in ("verdict", "mode", "would", "reason", "host")],
                         ["allow", "report", "deny", None, host])
        self.assertIn(words, entry["message"])
        self.assertEqual(self.gw.close_record(entry["id"])["cause"], "client")
        self.assertEqual(len(self.found()), number)

    def test_what_is_inside_is_recorded_and_passes(self):
        self.on_trial()
        for data, words in ((hello.crafted(b"evil.test"), "(it named evil.test)"), (hello.crafted(), "names no server"),
                            (hello.crafted(b"evil test"), "is no host name"), (b"\x16\x03\x01\xff\xff", "is no TLS hello")):
            with self.subTest(words=words):
                self.reported(data, words)

    def test_plain_bytes_where_the_rule_wants_tls(self):
        self.on_trial("{authority} sni=match")
        self.reported(b"SSH-2.0-x\r\n", "wants TLS")

    def test_a_rule_that_only_reports_the_name_inside(self):
        self.lab(rule="*.test:{port}", deny=["evil.test mode=report"])
        self.reported(hello.crafted(b"evil.test"), "(it named evil.test)")

    def test_a_tunnel_is_reported_once(self):
        """The name that was asked for would be denied already, and a second hello says nothing new."""
        self.lab(rule="other.test", policy="mode = report")
        self.passes(hello.crafted(b"evil.test"))
        self.gw.close_record()
        self.assertEqual([(entry["would"], entry["message"].split()[0]) for entry in self.gw.records("decision")],
                         [("deny", f"{self.good.authority}")])

    def test_what_is_right_is_not_mentioned(self):
        self.on_trial()
        self.passes(hello.crafted(b"good.test"))
        self.passes(b"SSH-2.0-x\r\n")
        self.gw.close_record(number=2)
        self.assertEqual([entry["would"] for entry in self.gw.records("decision")], [None, None])

    def test_it_is_no_request_of_its_own_to_those_who_read_the_log(self):
        self.on_trial()
        self.reported(hello.crafted(b"evil.test"), "(it named evil.test)")
        summary = json.loads(self.tool("summary", "--json", self.gw.audit_path)[0])
        self.assertEqual((summary["requests"], summary["denied"], summary["would_deny"]), (1, 0, 1))
        self.assertEqual(self.tool("learn", self.gw.audit_path)[0], "")
        self.tool("replay", "-c", self.gw.config_path, self.gw.audit_path)

    def test_enforced_names_are_cut_when_they_are_no_longer_only_reported(self):
        self.on_trial()
        client = self.connect()
        client.send(hello.crafted(b"evil.test"))
        self.good.wait(lambda: b"evil.test" in self.good.received, "the hello at the upstream")
        with open(self.gw.config_path, encoding="utf-8") as file:
            trial = file.read()
        self.gw.reload(trial + "; nothing else\n")
        self.gw.tunnel(self.good.authority).close()
        client.send("more")
        self.good.wait(lambda: self.good.received.endswith(b"more"), "what came after a reload that changes nothing")
        self.gw.reload(trial.replace("mode = report", "mode = enforce"))
        client.expect_eof()


class SecondHello(HelloCase):
    """After a HelloRetryRequest a client sends its hello again, and servers take the name of that one."""

    def test_T01_another_name_in_the_second_hello_is_closed(self):
        self.lab()
        first = hello.crafted(b"good.test")
        for between in (b"", CHANGE_CIPHER_SPEC):
            for how in whole_and_dribbled(self):
                before = len(self.good.received)
                number = len([entry for entry in self.gw.records("close") if entry["cause"] == "policy"]) + 1
                with self.connect() as client:
                    getattr(client, how)(first + between + hello.recorded("evil.test"))
                    self.assertTrue(hello.is_alert(client.read_all()))
                close = self.gw.wait_for_record(
                    lambda entry: entry["kind"] == "close" and entry["cause"] == "policy", number)
                self.assertEqual(close["sni"], "evil.test")
                self.good.wait(lambda: len(self.good.received) >= before + len(first + between), "the first hello")
                self.assertEqual(self.good.received[before:], first + between)

    def test_the_same_name_again_passes(self):
        self.lab()
        data = hello.crafted(b"good.test") + CHANGE_CIPHER_SPEC + hello.recorded("good.test")
        for how in whole_and_dribbled(self):
            self.passes(data + b"\x17\x03\x03\x00\x05hello" + b"anything", how)

    def test_handshakes_of_every_kind_come_through(self):
        """TLS 1.3 at once and after a HelloRetryRequest, TLS 1.2, and each resumed."""
        for curve in ("X25519", "prime256v1"):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with self.subTest(curve=curve, version=version):
                    origin = self.origin("good.test", answer=reply(body=b"done"), tls=True)
                    origin.context.set_ecdh_curve(curve)
                    origin.context.maximum_version = version
                    gateway = self.gateway(allow=[origin.authority], hosts=[origin])
                    trust, session = self.authority().client(), None
                    for _ in range(2):
                        with gateway.client() as client:
                            client.connect_to(origin.authority)
                            client.sock = trust.wrap_socket(client.sock, server_hostname="good.test", session=session)
                            self.assertEqual(client.get("/").body, b"done")
                            session = client.sock.session
                    gateway.stop()


class RecordedClients(HelloCase):
    """What openssl, curl, wget, node, python, java, Go and Chromium send (see record.py beside the recordings), cut at
    every byte. All of them name good.test."""

    HELLOS = {path.stem: path.read_bytes() for path in sorted(
        (pathlib.Path(__file__).parent.parent / "unit/gateway/wire/hellos").glob("*.bin"))}
    TOGETHER = 64

    def in_pieces(self, client_name, pieces_of, judge):
        """Many tunnels at a time: first pieces on all, second ones on all, and so on; so the gateway reads them apart."""
        for at in range(0, len(pieces_of), self.TOGETHER):
            part = pieces_of[at:at + self.TOGETHER]
            clients = [self.connect() for _ in part]
            for number in range(max(len(pieces) for pieces in part)):
                for client, pieces in zip(clients, part):
                    if number < len(pieces):
                        try:
                            client.send(pieces[number])
                        except (BrokenPipeError, ConnectionResetError):
                            pass  # judged already
            for client, pieces in zip(clients, part):
                with self.subTest(client=client_name, cuts=[len(piece) for piece in pieces][:4]):
                    judge(client, b"".join(pieces))
                client.close()

    @staticmethod
    def cut_everywhere(data):
        return [[data[:at], data[at:]] for at in range(1, len(data))]

    @staticmethod
    def cut_into_records(data):
        """The same handshake message in records of other sizes, each sent by itself."""
        message, version = data[5:], int.from_bytes(data[1:3], "big")
        return [[hello.records(message[start:start + size], size, version) for start in range(0, len(message), size)]
                for size in (1 + len(message) // 40, 100, 256, len(message) - 1)]

    def echoes(self, client, data):
        self.assertEqual(client.read_exactly(len(data)), data)

    def closes(self, client, data):
        try:
            self.assertTrue(hello.is_alert(client.read_all()))
        except ConnectionResetError:
            pass  # it was still sending

    def test_the_right_name_passes_byte_for_byte_however_it_is_cut(self):
        self.assertGreaterEqual(set(self.HELLOS), {"openssl", "curl", "node", "python", "go-like", "chromium-like"})
        self.lab(script=echo)
        for client, data in self.HELLOS.items():
            self.in_pieces(client, self.cut_everywhere(data) + self.cut_into_records(data), self.echoes)

    def test_T01_another_name_is_closed_however_it_is_cut(self):
        self.lab(script=echo)
        for client, data in self.HELLOS.items():
            self.assertEqual(data.count(b"good.test"), 1)
            data = data.replace(b"good.test", b"evil.test")
            self.in_pieces(client, self.cut_everywhere(data)[::7] + self.cut_into_records(data), self.closes)
        self.assertEqual(self.good.received, b"")

    def test_a_post_quantum_hello_does_not_fit_one_segment(self):
        """The recording is as large as what makes other proxies wait or give up."""
        data = self.HELLOS["chromium-like"]
        self.assertGreater(len(data), 1460)
        self.assertIn(b"\x11\xec\x04\xc0", data)  # X25519MLKEM768, 1216 bytes


class InTheSameTurn(HelloCase):
    def test_a_hello_goes_on_before_the_loop_waits_again(self):
        if shutil.which("strace") is None:
            self.skipTest("needs strace")
        trace = self.path("trace")
        # A leak check cannot run in a process that is traced.
        self.lab(script=echo, workers=1, wrapper=["env", "ASAN_OPTIONS=detect_leaks=0", "strace", "-D", "-f", "-o", trace, "-e",
                                                  "trace=recvfrom,sendto,epoll_wait,epoll_pwait"])
        data = hello.recorded("good.test")
        with self.connect() as client:
            client.send(data)
            client.read_exactly(len(data))
        self.gw.stop()
        with open(trace, encoding="latin-1") as file:
            calls = [line.split(None, 1) for line in file]
        thread, heard = next(call for call in calls if '"\\26\\3\\1' in call[1])
        own = [call for number, call in calls if number == thread]
        self.assertRegex(heard, r"^recvfrom\(")
        said = own[own.index(heard) + 1]
        self.assertRegex(said, r"^sendto\(")
        self.assertEqual(said.split('"')[1], heard.split('"')[1])


class PlainText(HelloCase):
    def test_T05_a_server_that_speaks_first(self):
        self.lab(script=lambda talk: talk.send("SSH-2.0-server\r\n").expect("SSH-2.0-client\r\n").send("ok"))
        with self.connect() as client:
            client.expect("SSH-2.0-server\r\n").send("SSH-2.0-client\r\n").expect("ok")

    def test_T05_plain_first_bytes_pass_unless_the_rule_says_match(self):
        self.lab()
        self.passes(b"SSH-2.0-client\r\n")
        self.gw.stop()
        self.lab(rule="{authority} sni=match")
        client = self.connect()
        client.send("SSH-2.0-client\r\n").expect_eof()
        self.assertEqual(self.good.received, b"")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision" and entry["reason"] == "sni-mismatch")

    def test_T04_a_hello_that_never_completes_ends_in_time(self):
        self.lab(gateway="header-timeout = 1s")
        data = hello.recorded("good.test")
        clients = [self.connect() for _ in range(20)]
        for number, client in enumerate(clients):
            client.send(data[:5 + number])
        for client in clients:
            try:
                answer = client.read_all()
                self.assertTrue(answer == b"" or hello.is_alert(answer), answer)
            except ConnectionResetError:
                pass
        self.assertEqual(self.good.received, b"")

    def test_T04_500_unfinished_hellos_do_not_hurt_others(self):
        self.lab(script=echo, gateway="header-timeout = 2s")
        before = self.gw.rss_kib()
        data = hello.recorded("good.test")
        clients = [self.connect() for _ in range(500)]
        for client in clients:
            client.send(data[:5])
        with self.connect() as other:
            other.send(data)
            self.assertEqual(other.read_exactly(len(data)), data)
        self.assertLess(self.gw.rss_kib() - before, 500 * 160)  # twice what it is under ASan
        for client in clients:
            try:
                self.assertTrue(hello.is_alert(client.read_all()))
            except ConnectionResetError:
                pass
        self.assertEqual(self.gw.decision("good.test", reason="timeout")["verdict"], "deny")

    def test_T04_an_endless_hello_ends(self):
        self.lab()
        client = self.connect()
        message = b"\x01\xff\xff\xff" + bytes(200_000)
        try:
            client.send(hello.records(message))
            client.read_all()
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.assertEqual(self.good.received, b"")

    def test_a_client_that_leaves_before_its_hello_is_whole(self):
        self.lab()
        client = self.connect()
        client.send(hello.recorded("evil.test")[:40]).finish()
        try:
            client.read_all()
        except ConnectionResetError:
            pass
        self.assertNotIn(b"evil", self.good.received)
        self.gw.close_record()


if __name__ == "__main__":
    main()
