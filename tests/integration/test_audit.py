"""The audit log: complete, parseable, honest about what it could not write (area logging)."""

import json
import os
import signal
import select
import time

from test_attach import Launcher
from lab import LabCase, main, reply


class AuditCase(LabCase):
    def lab(self, answer=None, **more):
        self.good = self.origin("good.test", answer)
        parts = {"allow": [self.good.authority], "hosts": [self.good]}
        parts.update(more)
        self.gw = self.gateway(**parts)
        self.url = f"http://{self.good.authority}"
        return self.gw


class Audit(AuditCase):
    def test_L01_client_text_cannot_forge_a_line(self):
        self.lab()
        paths = ['/"},{"verdict":"allow"}', "/\\u001b[31m", "/\u00e2\u0080\u00a8", "/{}\\n"]
        for path in paths:
            self.gw.get(f"http://evil.test{path}")
        with self.gw.client() as client:
            client.send(b"GET http://evil.test/\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response().status, 400)
        with self.gw.client() as client:
            client.send(b'CONNECT evil\n{"verdict":"allow"}:443 HTTP/1.1\r\nHost: x\r\n\r\n')
            self.assertEqual(client.response("CONNECT").status, 400)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=len(paths) + 2)
        self.gw.stop()
        with open(self.gw.audit_path, "rb") as file:
            lines = file.read().split(b"\n")
        self.assertEqual(lines.pop(), b"")
        decisions = [entry for entry in map(json.loads, lines) if entry["kind"] == "decision"]
        self.assertEqual(len(decisions), len(paths) + 2)
        self.assertEqual({entry["verdict"] for entry in decisions}, {"deny"})
        for line in lines:
            self.assertFalse([byte for byte in line if byte < 32 or byte == 127], line)
            self.assertNotIn("\u2028".encode(), line)
        self.assertNotIn(b"\x1b", self.gw.stderr().encode())

    def test_L10_bytes_that_are_not_utf8_are_escaped(self):
        self.lab()
        with self.gw.client() as client:
            client.send(b"CONNECT \xff\xfe.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(client.response("CONNECT").status, 400)
        self.assertIn(self.gw.socks_code(b"\xff\xfe.test", 443), (1, 8))
        self.gw.get(f"{self.url}/\u00e4\u00ff")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=3)
        self.gw.stop()
        with open(self.gw.audit_path, "rb") as file:
            file.read().decode("utf-8")

    def test_L02_queries_and_credentials_stay_out(self):
        self.lab()
        for url in (f"{self.url}/x?sig=SECRET1", "http://evil.test/x?sig=SECRET2", "http://user:SECRET3@evil.test/"):
            self.gw.get(url, [("Authorization", "Bearer SECRET4"), ("Cookie", "SECRET5"), ("Proxy-Authorization", "Basic U0VDUkVUNg==")])
        self.assertEqual(self.gw.decision("good.test")["path"], "/x")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=3)
        self.gw.stop()
        with open(self.gw.audit_path, encoding="utf-8") as file:
            everything = file.read() + self.gw.stderr()
        self.assertNotIn("SECRET", everything)
        self.assertNotIn("U0VDUkVU", everything)
        self.assertIn("?sig=SECRET1", self.good.requests[0].target)

    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def ask_until(self, condition):
        while not condition():
            self.assertEqual(self.gw.get(f"{self.url}/more").status, 200)

    def test_L04_every_way_in_which_a_log_is_taken_away(self):
        """Renamed with HUP, copied and truncated, deleted: only what was truncated is not in the log any more."""
        self.lab()
        path = self.gw.audit_path
        self.ask_until(lambda: os.stat(path).st_size > 2000)
        os.rename(path, path + ".1")
        self.gw.send_signal(signal.SIGHUP)
        self.ask_until(lambda: os.path.exists(path) and os.stat(path).st_size > 2000)
        os.truncate(path, 0)
        self.ask_until(lambda: os.stat(path).st_size > 2000)
        self.assertEqual(self.lines(path)[0]["schema"], "srt.audit/1")  # and no hole before it
        truncated = self.lines(path)[0]["seq"]
        os.rename(path, path + ".2")
        os.unlink(path + ".2")  # without a word to anybody
        self.ask_until(lambda: os.path.exists(path) and os.stat(path).st_size > 2000)
        self.gw.stop()
        first, last = self.lines(path + ".1"), self.lines(path)
        self.assertEqual([entry["seq"] for entry in first], list(range(len(first))))
        self.assertGreater(truncated, first[-1]["seq"])
        self.assertEqual([entry["seq"] for entry in last], list(range(last[0]["seq"], last[0]["seq"] + len(last))))
        asked = len(self.good.requests)
        self.assertEqual([entry for entry in last if entry["kind"] == "lost"], [])
        self.assertLessEqual(len([entry for entry in first + last if entry["kind"] == "decision"]), asked)

    def test_L04_a_directory_that_is_gone_is_reported_and_the_old_file_stays_in_use(self):
        os.mkdir(self.path("log"))
        self.good = self.origin("good.test")
        config = self.config(allow=[self.good.authority], hosts=[self.good])
        self.gw = self.gateway(config.replace(self.path("audit.jsonl"), self.path("log/audit.jsonl")))
        os.rename(self.path("log"), self.path("old"))
        self.gw.send_signal(signal.SIGUSR1)
        self.gw.wait_for_stderr(lambda line: "its directory must exist" in line and "stays in use" in line)
        self.assertEqual(self.gw.get(f"http://{self.good.authority}/").status, 200)
        self.gw.stop()
        self.assertEqual(self.lines(self.path("old/audit.jsonl"))[0]["seq"], 0)

    def test_L04_usr1_reopens_the_file_and_no_line_is_lost(self):
        self.lab()
        aside = self.gw.audit_path + ".1"
        with self.gw.client() as client:
            for number in range(10):
                self.assertEqual(client.get(f"{self.url}/{number}").status, 200)
            os.rename(self.gw.audit_path, aside)
            self.gw.send_signal(signal.SIGUSR1)
            while not os.path.exists(self.gw.audit_path):
                client.get(f"{self.url}/more")
            for number in range(10):
                self.assertEqual(client.get(f"{self.url}/{number}").status, 200)
        self.gw.stop()
        entries = []
        for path in (aside, self.gw.audit_path):
            with open(path, encoding="utf-8") as file:
                entries += [json.loads(line) for line in file]
        sequence = [entry["seq"] for entry in entries]
        self.assertEqual(sequence, list(range(sequence[0], sequence[0] + len(sequence))))
        self.assertEqual(len([entry for entry in entries if entry["kind"] == "decision"]), len(self.good.requests))

    def test_L05_a_full_disk_refuses_new_requests_where_the_log_is_required(self):
        self.good = self.origin("good.test")
        config = self.config(allow=[self.good.authority], hosts=[self.good])
        gw = self.gateway(config.replace(self.path("audit.jsonl"), "/dev/full"))
        with gw.client() as client:
            answers = [client.get(f"http://{self.good.authority}/{number}") for number in range(3)]
        self.assert_refused(answers[-1], 503, "audit-failure")
        self.assertLessEqual(len(self.good.requests), 1)
        self.assertEqual(gw.socks_code("good.test", self.good.port), 1)
        gw.wait_for_stderr(lambda line: "No space left" in line or "/dev/full" in line)

    def test_L05_or_goes_on_and_says_so_where_it_is_not(self):
        self.good = self.origin("good.test")
        config = self.config(allow=[self.good.authority], hosts=[self.good], gateway="audit-required = no")
        gw = self.gateway(config.replace(self.path("audit.jsonl"), "/dev/full"))
        with gw.client() as client:
            for number in range(5):
                self.assertEqual(client.get(f"http://{self.good.authority}/{number}").status, 200)
        gw.wait_for_stderr(lambda line: "No space left" in line or "/dev/full" in line)

    def test_L11_a_reader_that_stops_does_not_stall_traffic(self):
        self.good = self.origin("good.test")
        fifo = self.path("audit.fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        config = self.config(allow=[self.good.authority], hosts=[self.good], gateway="audit-required = no")
        gw = self.gateway(config.replace(self.path("audit.jsonl"), fifo))
        with gw.client() as client:
            for number in range(400):  # more than a pipe holds
                self.assertEqual(client.get(f"http://{self.good.authority}/{number}").status, 200)
        self.assertEqual(len(self.good.requests), 400)
        # Once read again, the log goes on, and either all is there or a `lost` record counts the rest.
        data, lines = b"", []
        gw.send_signal(signal.SIGTERM)
        while True:
            ready, _, _ = select.select([reader], [], [], 10)
            self.assertTrue(ready)
            try:
                piece = os.read(reader, 65536)
            except BlockingIOError:
                continue
            if not piece:
                break
            data += piece
        gw.process.wait(10)
        gw.expect_end()
        lines = [json.loads(line) for line in data.decode("utf-8").splitlines()]
        written = len([entry for entry in lines if entry["kind"] in ("decision", "close")])
        lost = sum(entry["count"] for entry in lines if entry["kind"] == "lost")
        self.assertEqual(written + lost, 800)

    def test_L08_what_never_became_a_request_leaves_a_trace(self):
        self.lab()
        for data in (b"garbage\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x05\x01\x00\x07"):
            client = self.gw.client()
            client.send(data).finish()
            try:
                client.read_all()
            except ConnectionResetError:
                pass
        entries = [self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number) for number in range(1, 5)]
        for entry in entries:
            self.assertEqual((entry["verdict"], entry["host"]), ("deny", None))
            self.assertIn(entry["reason"], ("bad-request", "unsupported"))

    def test_L13_the_fields_of_every_kind(self):
        self.lab()
        self.gw.get(self.url + "/")
        self.gw.get("http://evil.test/")
        self.gw.reload(self.config(allow=[self.good.authority, "more.test"], hosts=[self.good]))
        self.gw.close_record()
        for entry in self.gw.records():
            self.assertEqual(entry["schema"], "srt.audit/1")
            self.assertRegex(entry["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        kinds = {entry["kind"]: list(entry) for entry in self.gw.records()}
        self.assertEqual(kinds["decision"][:4], ["schema", "ts", "seq", "kind"])
        allow, deny = self.gw.decision("good.test"), self.gw.decision("evil.test")
        self.assertEqual((allow["generation"], allow["listener"], allow["policy"]), (1, "main", "main"))
        self.assertEqual((deny["addr"], deny["rule"], deny["reason"], deny["path"], deny["method"]), (None, None, "not-allowed", "/", "GET"))
        self.assertTrue(deny["message"])

    FIELDS = {
        "decision": "id sandbox client listener policy generation peer front method path host port addr verdict mode would reason "
                    "rule filter message",
        "close": "id sandbox client listener policy generation front host port addr sni bytes_up bytes_down duration_ms cause",
        "attach": "sandbox client policy generation peer command narrowed",
        "detach": "sandbox client policy generation peer duration_ms",
        "reload": "result generation sha256 added removed faults",
        "admin": "action target peer result message by for name policy request grant until waiting",
    }

    def test_L13_every_field_of_every_kind_is_there_whatever_happened(self):
        """INTERFACE 1.6 for each kind; `lost` is with the full disk (test_operating.py)."""
        self.good = self.origin("good.test")
        tunnels = self.upstream(name="echo.test")
        config = self.config(allow=[self.good.authority, tunnels.authority], hosts=[self.good, tunnels])
        for key in ("control", "admin"):
            config = config.replace(f"{key} = none", f"{key} = {self.path(key + '.sock')}")
        self.gw = self.gateway(config)
        launcher = Launcher(self.path("control.sock"))
        self.addCleanup(launcher.close)
        launcher.attach("box")
        launcher.connect("evil.test:443")
        self.gw.get(f"http://{self.good.authority}/x?y")
        self.gw.tunnel(tunnels.authority).send("x").expect("x").close()
        self.gw.socks_code("evil.test", 443)
        self.gw.client().send("garbage\r\n\r\n").read_all()
        for body in (config + "; other\n", "[gateway]\nworkres = 1\n"):
            self.gw.reload(body)
        self.gw.operate("/tunnels/01M8MPFKGWJPENFTJEZABCH46W/cut", "POST")
        launcher.sock.close()
        self.gw.close_record(number=2)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assertEqual({entry["kind"] for entry in self.gw.records()}, set(self.FIELDS))
        for entry in self.gw.records():
            self.assertEqual(list(entry)[:4], ["schema", "ts", "seq", "kind"])
            if entry["kind"] in self.FIELDS:
                self.assertEqual(set(list(entry)[4:]), set(self.FIELDS[entry["kind"]].split()), entry)

    def test_the_decision_is_written_before_the_first_byte_flows(self):
        seen = []

        def look(talk):
            talk.incoming()
            with open(self.gw.audit_path, encoding="utf-8") as file:
                seen.append(file.read())
            talk.send(reply())

        self.good = self.upstream(look, "good.test")
        self.gw = self.gateway(allow=[self.good.authority], hosts=[self.good])
        self.assertEqual(self.gw.get(f"http://{self.good.authority}/").status, 200)
        self.gw.tunnel(self.good.authority).request("GET / HTTP/1.1", [("Host", "x")]).response()
        self.assertIn('"good.test"', seen[0])
        self.assertEqual(seen[1].count('"kind":"decision"'), 2)

    def test_squid_format_is_one_line_for_each_request(self):
        self.lab(gateway="audit-format = squid")
        port = self.good.port
        self.gw.get(self.url + "/x?q=SECRET")
        self.gw.get("http://evil.test/")
        self.gw.socks_code("evil.test", 443)
        tunnel = self.gw.tunnel(self.good.authority)
        tunnel.request("GET /y HTTP/1.1", [("Host", "x")]).response()
        tunnel.close()
        with self.gw.client() as client:
            client.send(b"garbage\r\n\r\n").finish()
            client.read_all()
        self.gw.stop()
        with open(self.gw.audit_path, encoding="utf-8") as file:
            lines = [line.split() for line in file.read().splitlines()]
        for line in lines:
            self.assertEqual(len(line), 10, line)
            self.assertRegex(line[0], r"^\d{10}\.\d{3}$")
            self.assertEqual(line[2], "127.0.0.1")
        wanted = [
            ["TCP_MISS/200", "GET", f"http://good.test:{port}/x", f"HIER_DIRECT/{self.good.address}"],
            ["TCP_DENIED/403", "GET", "http://evil.test/", "HIER_NONE/-"],
            ["TCP_DENIED/403", "CONNECT", "evil.test:443", "HIER_NONE/-"],
            ["TCP_TUNNEL/200", "CONNECT", f"good.test:{port}", f"HIER_DIRECT/{self.good.address}"],
            ["NONE/400", "NONE", "error:invalid-request", "HIER_NONE/-"]]
        self.assertCountEqual([[line[3], line[5], line[6], line[8]] for line in lines], wanted)
        sizes = {line[6]: int(line[4]) for line in lines}
        self.assertGreater(sizes[f"good.test:{port}"], 0)
        self.assertEqual(sizes["evil.test:443"], 0)

    def test_squid_format_still_shows_json_to_operators(self):
        self.good = self.origin("good.test")
        config = self.config(allow=[self.good.authority], hosts=[self.good], gateway="audit-format = squid")
        self.gw = self.gateway(config.replace("admin = none", f"admin = {self.path('admin.sock')}"))
        self.gw.get("http://evil.test/")
        decisions, end = [], time.monotonic() + 20
        while not decisions and time.monotonic() < end:  # a refusal does not wait for its record
            decisions = json.loads(self.gw.operate("/decisions"))
        self.assertEqual([entry["host"] for entry in decisions], ["evil.test"])


if __name__ == "__main__":
    main()
