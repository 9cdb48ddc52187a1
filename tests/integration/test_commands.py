"""The command line of srt-gateway: check, explain, options, replay, learn and the operator's doors."""

import http.client
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import unittest

from lab import LabCase, main
from lab.gateway import binary, environment


class Judging(LabCase):
    CONFIG = dict(allow=["good.test", "*.wild.test:8443", "api.test method=GET path=/v1/*", "10.1.2.3:22"],
                  deny=["bad.wild.test id=no-bad reason=\"not this one\""], allow_addresses=None)

    def explain(self, target, *options, status=0):
        path = self.write("explained.ini", self.config(**self.CONFIG))
        out, _ = self.tool("explain", "-c", path, "--json", *options, target, status=status)
        return json.loads(out) if status in (0, 1) else out

    def test_explain_answers_as_live_traffic_does(self):
        gw = self.gateway(**self.CONFIG)
        for target in ("good.test:443", "good.test:444", "GOOD.test.:80", "a.wild.test:8443", "bad.wild.test:8443", "wild.test:8443",
                       "api.test:443", "other.test:443", "10.1.2.4:22", "127.0.0.1:443", "[::1]:443"):
            with self.subTest(target=target):
                live = json.loads(gw.refused_connect(target).body)
                allowed = live["reason"].startswith(("connect-", "dns-"))
                said = self.explain(target, status=0 if allowed else 1)
                self.assertEqual(said["verdict"], "allow" if allowed else "deny")
                if not allowed:
                    self.assertEqual((said["reason"], said["rule"], said["host"], said["port"]),
                                     (live["reason"], live["rule"], live["host"], live["port"]))

    def test_explain_judges_what_is_given(self):
        self.assertEqual(self.explain("http://api.test/v1/x")["verdict"], "allow")
        self.assertEqual(self.explain("http://api.test/v2/x", status=1)["reason"], "not-allowed")
        self.assertEqual(self.explain("api.test:80", "--method", "GET", "--path", "/v1/x")["verdict"], "allow")
        self.assertEqual(self.explain("api.test:80", "--method", "POST", "--path", "/v1/x", status=1)["reason"], "method-not-allowed")
        self.assertEqual(self.explain("good.test:443", "--addr", "10.0.0.1", status=1)["reason"], "address-denied")
        self.assertEqual(self.explain("good.test:443", "--addr", "93.184.216.34")["addr"], "93.184.216.34")
        self.assertEqual(self.explain("good.test:443", "--sni", "evil.test", status=1)["reason"], "sni-mismatch")
        self.assertEqual(self.explain("https://good.test/x")["port"], 443)
        self.assertEqual(self.explain("bad.wild.test:8443", status=1)["rule"], "no-bad")

    def test_options_before_the_command_are_told_where_they_belong(self):
        _, said = self.tool("--admin", "/nowhere", "status", status=64)
        self.assertIn("Other commands stand before their options", said)
        _, said = self.tool("status", "--nonsense", status=64)
        self.assertNotIn("stand before", said)

    def test_explain_is_readable_too(self):
        path = self.write("explained.ini", self.config(**self.CONFIG))
        out, _ = self.tool("explain", "-c", path, "bad.wild.test:8443", status=1)
        self.assertIn("no-bad", out)

    def test_an_answer_that_cannot_be_written_is_no_success(self):
        path = self.write("explained.ini", self.config(**self.CONFIG))
        for arguments in (("options",), ("check", "-c", path), ("explain", "-c", path, "good.test:443")):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([binary(), *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
                self.assertEqual(done.returncode, 71)
                self.assertIn("standard output cannot be written", done.stderr)

    @staticmethod
    def sanitizers_told(more):
        return environment() | {name: f"{environment()[name]}:{more}" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}

    def test_memory_that_cannot_be_had_is_said_and_is_no_bug(self):
        """More than is allowed; a sanitizer, which needs more than that for itself, has to be told how much."""
        with open(binary(), "rb") as file:
            program = file.read()
        sanitized = b"__asan_init" in program or b"__tsan_init" in program
        most = resource.RLIM_INFINITY if sanitized else 48 << 20
        self.write("long.list", "good.test\n" * (6 << 20))
        path = self.write("long.ini", self.config(policy="allow-file = long.list"))
        done = subprocess.run([binary(), "check", "-c", path], stderr=subprocess.PIPE, text=True, check=False,
                              env=self.sanitizers_told("allocator_may_return_null=1:max_allocation_size_mb=8"),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertIn("srt-gateway: out of memory, or more than the limits on it allow (ulimit -d, ulimit -v)", done.stderr)

    def test_a_bug_has_a_status_and_leaves_a_core_where_one_is_wanted(self):
        """As abort() ends it, which a failed assertion calls. A core of one byte is none, but somebody wants it."""
        path = self.write("buggy.ini", self.config(allow=["good.test"]))
        for core, status in ((0, 70), (1, -signal.SIGABRT)):
            with self.subTest(core=core), subprocess.Popen(
                    [binary(), "-c", path], stderr=subprocess.PIPE, text=True, cwd=self.directory,
                    env=self.sanitizers_told("disable_coredump=0"),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (core, core))) as gateway:
                while "srt-gateway: ready" not in gateway.stderr.readline():
                    self.assertIsNone(gateway.poll())
                gateway.send_signal(signal.SIGABRT)
                said = gateway.stderr.read()
                self.assertEqual(gateway.wait(), status, said)
                self.assertEqual("that is a bug; please report it" in said, core == 0, said)

    def test_malformed_targets_are_usage(self):
        path = self.write("explained.ini", self.config(**self.CONFIG))
        for target in ("good.test", "good.test:0", "127.1:80", "a b:80", "http://u@good.test/", ""):
            with self.subTest(target=target):
                self.tool("explain", "-c", path, target, status=64)
        self.tool("explain", "-c", path, "--policy", "nowhere", "good.test:443", status=64)
        self.tool("explain", "-c", path, status=64)

    def test_check_is_silent_about_what_is_right(self):
        self.assertEqual(self.check(self.config(allow=["good.test"])).strip(), "")

    def test_check_warns_and_strict_turns_warnings_into_faults(self):
        cases = {"default = allow": "default", "allow = old.test until=2001-01-01T00:00:00Z": "until", "allow = *.github.io": "github.io"}
        for text, word in cases.items():
            config = self.config(policy=text)
            with self.subTest(text=text):
                self.assertRegex(self.check(config), rf"checked\.ini:\d+: .*{re.escape(word)}")
                self.check(config, status=78, strict=True)
        shadowed = self.config(allow=["x.evil.test"], deny=["*.evil.test"])
        self.assertRegex(self.check(shadowed), r"checked\.ini:\d+: ")
        unused = self.config(more="[policy unused]\nallow = good.test\n")
        self.assertRegex(self.check(unused), "unused")

    def test_options_names_every_key(self):
        out, _ = self.tool("options")
        for key in ("workers", "audit-log", "audit-format", "audit-required", "control", "admin", "admin-token-file", "header-timeout",
                    "connect-timeout", "idle-timeout", "tunnel-lifetime", "drain-timeout", "max-connections", "max-sandbox-connections", "max-header-bytes",
                    "reload-tunnels", "include", "servers", "hosts-file", "timeout", "tries", "cache-entries", "min-ttl", "max-ttl",
                    "negative-ttl", "address", "mode", "group", "protocol", "policy", "auth", "proxy-protocol", "token-sha256", "token-file",
                    "uid", "source", "max-tunnels", "connect-rate", "bytes-up", "inherit", "default", "allow", "deny", "allow-file",
                    "deny-file", "private-addresses", "deny-addresses", "allow-addresses", "sni", "filters", "docs"):
            self.assertRegex(out, rf"(?m)(^|\s){key}\b", key)

    def test_usage(self):
        for arguments in (["nonsense"], ["run", "--bogus"], ["check", "-c"], ["explain"], ["run", "extra"]):
            with self.subTest(arguments=arguments):
                self.tool(*arguments, status=64)
        for option in ("-h", "--help", "-V", "--version"):
            out, _ = self.tool(option)
            self.assertIn("srt-gateway", out)
        self.tool("status", "--admin", self.path("nobody.sock"), status=69)


class Replaying(LabCase):
    def recorded(self):
        gw = self.gateway(allow=["good.test", "old.test"], deny=["bad.test"])
        for authority in ("good.test:443", "old.test:443", "a.cdn.test:443", "b.cdn.test:443", "other.test:8443", "bad.test:443"):
            gw.refused_connect(authority)
        gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=6)
        gw.stop()
        return gw.audit_path

    def test_replay_shows_what_would_change(self):
        audit = self.recorded()
        same = self.write("same.ini", self.config(allow=["good.test", "old.test"], deny=["bad.test"]))
        other = self.write("other.ini", self.config(allow=["good.test", "*.cdn.test"], deny=["bad.test"]))
        self.tool("replay", "-c", same, audit)
        out, _ = self.tool("replay", "-c", other, audit, status=1)
        for host in ("old.test", "a.cdn.test", "b.cdn.test"):
            self.assertIn(host, out)
        for host in ("good.test", "other.test", "bad.test"):
            self.assertNotIn(host, out)

    def test_learn_prints_rules_that_check_accepts(self):
        audit = self.recorded()
        out, _ = self.tool("learn", audit)
        rules = [line for line in out.splitlines() if line.startswith("allow = ")]
        self.assertTrue(any("other.test:8443" in rule for rule in rules), out)
        self.assertNotIn("good.test", out)
        config = self.config(allow=["good.test", "old.test"]) + "[policy learned]\n" + "\n".join(rules) + "\n"
        self.check(config)


class Operating(LabCase):
    def lab(self):
        self.good = self.upstream(name="good.test")
        self.token = "operator-secret"
        token = self.write("admin.token", self.token + "\r\n")
        config = self.config(allow=[self.good.authority], hosts=[self.good]).replace(
            "admin = none", f"admin = {self.path('admin.sock')}\nadmin = 127.0.0.1:0\nadmin-token-file = {token}")
        self.gw = self.gateway(config)

    def ask(self, method, path, token=None, tcp=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port(), timeout=20)
        if not tcp:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.path("admin.sock"))
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def admin_port(self):
        return int([address for address in self.gw.bound if address.startswith("127.0.0.1:")
                    and address != self.gw.address()][0].rsplit(":", 1)[1])

    def test_C17_status_tells_which_policy_is_live(self):
        self.lab()
        before = json.loads(self.ask("GET", "/status")[1])
        self.assertLessEqual({"generation", "sha256", "loaded", "last_error"}, set(before))
        with open(self.gw.config_path, encoding="utf-8") as file:
            text = file.read()
        self.gw.reload(text + "[policy extra]\nallow = x.test\n")
        after = json.loads(self.ask("GET", "/status")[1])
        self.assertEqual(after["generation"], before["generation"] + 1)
        self.assertNotEqual(after["sha256"], before["sha256"])
        self.gw.reload(text + "[policy extra]\nallow = *.com\n")
        broken = json.loads(self.ask("GET", "/status")[1])
        self.assertEqual((broken["generation"], broken["sha256"]), (after["generation"], after["sha256"]))
        self.assertTrue(broken["last_error"])
        self.gw.reload(text + "[policy other]\nallow = x.test\n")
        mended = json.loads(self.ask("GET", "/status")[1])
        self.assertEqual((mended["generation"], mended["last_error"]), (after["generation"] + 1, None))
        for status in (before, after, broken, mended):
            self.assertRegex(status["loaded"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((broken["loaded"], sorted([before["loaded"], after["loaded"], mended["loaded"]])),
                         (after["loaded"], [before["loaded"], after["loaded"], mended["loaded"]]))

    def test_health_readiness_and_metrics(self):
        self.lab()
        self.gw.tunnel(self.good.authority).close()
        self.gw.refused_connect("evil.test:443")
        self.gw.close_record()
        for path in ("/healthz", "/readyz", "/version", "/config"):
            self.assertEqual(self.ask("GET", path)[0], 200, path)
        status, body = self.ask("GET", "/metrics")
        text = body.decode()
        self.assertEqual(status, 200)
        for name in ("srt_gateway_build_info", "srt_gateway_config_generation", "srt_gateway_config_last_reload_successful"):
            self.assertRegex(text, rf"(?m)^{name}\b")
        self.assertNotIn("good.test", text)
        self.assertNotIn(self.token, self.ask("GET", "/config")[1].decode())

    def test_mutations_need_the_token_and_the_right_verb(self):
        self.lab()
        self.assertEqual(self.ask("POST", "/reload")[0], 401)
        self.assertEqual(self.ask("POST", "/reload", "wrong")[0], 401)
        self.assertEqual(self.ask("POST", "/reload", self.token)[0], 200)
        self.assertEqual(self.ask("POST", "/reload", tcp=False)[0], 200)
        self.assertEqual(self.ask("GET", "/reload", self.token)[0], 405)
        self.assertEqual(self.ask("POST", "/healthz", self.token)[0], 405)
        self.assertEqual(self.ask("GET", "/nowhere")[0], 404)

    def test_a_faulty_reload_is_422_with_its_faults(self):
        self.lab()
        self.gw.write_config("[gateway]\nworkres = 2\n")
        status, body = self.ask("POST", "/reload", self.token)
        self.assertEqual(status, 422)
        self.assertIn("workers", body.decode())

    def test_tunnels_are_listed_and_cut(self):
        self.lab()
        tunnel = self.gw.tunnel(self.good.authority).send("x").expect("x")
        listed = json.loads(self.ask("GET", "/tunnels")[1])
        self.assertEqual([entry["host"] for entry in listed], ["good.test"])
        self.assertEqual(listed[0]["id"], self.gw.decision("good.test")["id"])
        self.assertEqual(self.ask("POST", f"/tunnels/{listed[0]['id']}/cut", self.token)[0], 200)
        tunnel.expect_eof()
        self.assertEqual(self.gw.close_record()["cause"], "cut")
        self.assertEqual(self.ask("POST", "/tunnels/nothing/cut", self.token)[0], 404)
        admin = self.gw.wait_for_record(lambda entry: entry["kind"] == "admin" and "cut" in entry["action"])
        self.assertTrue(admin)

    def test_decisions_are_the_last_ones(self):
        self.lab()
        for number in range(5):
            self.gw.refused_connect(f"evil{number}.test:443")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=5)
        last = json.loads(self.ask("GET", "/decisions?last=2")[1])
        self.assertEqual(sorted(entry["host"] for entry in last), ["evil3.test", "evil4.test"])

    def test_a_client_that_has_said_all_gets_the_whole_of_a_large_answer(self):
        """It closes its half at once, as `nc -N` and `socat` do; the answer is more than a socket holds."""
        self.lab()
        with self.gw.client() as client:
            for number in range(1000):
                client.get(f"http://evil{number}.test/")
        self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=1000)
        whole = self.ask("GET", "/decisions?last=1000")[1]
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(self.path("admin.sock"))
            sock.sendall(b"GET /decisions?last=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
            with sock.makefile("rb") as answer:
                self.assertEqual(answer.read().partition(b"\r\n\r\n")[2], whole)
        self.assertGreater(len(whole), 400000)

    def test_head_is_get_without_the_content(self):
        self.lab()
        for path in ("/healthz", "/readyz", "/status", "/config", "/metrics", "/tunnels", "/decisions", "/version", "/nowhere", "/reload"):
            got = self.ask("GET", path)
            self.assertEqual(self.ask("HEAD", path), (got[0], b""), path)
        self.assertEqual(self.ask("HEAD", "/events"), (200, b""))

    def test_every_page_has_its_verb_and_no_other(self):
        self.lab()
        pages = {"GET": ["/healthz", "/readyz", "/metrics", "/status", "/config", "/tunnels", "/decisions", "/version", "/events"],
                 "POST": ["/reload", "/drain", "/tunnels/01J8ZQ4Y5W6K7M8N9P0Q1R2S3T/cut"]}
        for verb, paths in pages.items():
            for path in paths:
                for other in {"GET", "POST", "PUT", "DELETE", "OPTIONS"} - {verb}:
                    self.assertEqual(self.ask(other, path, self.token)[0], 405, (other, path))
        self.assertEqual(self.ask("GET", "/readyz"), (200, b"ready\n"))

    def test_readiness_ends_with_draining_and_health_does_not(self):
        self.lab()
        tunnel = self.gw.tunnel(self.good.authority).send("x").expect("x")
        self.assertEqual(json.loads(self.ask("POST", "/drain", self.token)[1]), {"draining": True})
        self.gw.expect_end()
        self.assertEqual((self.ask("GET", "/healthz")[0], self.ask("GET", "/readyz")[0]), (200, 503))
        self.assertEqual(self.ask("POST", "/reload", self.token)[0], 503)
        self.assertTrue(json.loads(self.ask("GET", "/status")[1])["draining"])
        tunnel.close()
        self.assertEqual(self.gw.process.wait(20), 0)
        entry = self.gw.records("admin")[0]
        self.assertEqual((entry["action"], entry["result"], entry["peer"].split(":")[0]), ("drain", "ok", "127.0.0.1"))

    def test_config_is_what_is_in_force_with_every_default_and_without_secrets(self):
        self.lab()
        secret, digest = "client-secret", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        with open(self.gw.config_path, encoding="utf-8") as file:
            text = file.read()
        self.gw.reload(text + f"[client one]\ntoken-sha256 = {digest}\npolicy = main\n"
                              f"[client two]\ntoken-file = {self.write('two.token', secret)}\npolicy = main\n[policy other]\nallow = x.test\n")
        shown = self.ask("GET", "/config")[1].decode()
        for line in ("drain-timeout = 2s", "idle-timeout = 900s", "[policy other]", "allow = x.test", "[client two]", f"allow = {self.good.authority}"):
            self.assertIn(line + "\n", shown)
        for hidden in (secret, digest, self.token):
            self.assertNotIn(hidden, shown)
        self.gw.reload(text + "[gateway]\nidle-timeout = 77s\n")
        self.assertIn("idle-timeout = 77s\n", self.ask("GET", "/config")[1].decode())

    def test_events_are_the_audit_log_as_it_is_written(self):
        self.lab()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(self.path("admin.sock"))
            sock.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with sock.makefile("rb") as stream:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += stream.readline()
                self.assertIn(b"text/event-stream", head)
                self.gw.refused_connect("evil.test:443")
                tunnel = self.gw.tunnel(self.good.authority)
                tunnel.send("x").expect("x").close()
                self.gw.close_record()
                heard = []
                while len(heard) < 3:
                    line = stream.readline().rstrip(b"\n")
                    if line.startswith(b"data: "):
                        heard.append(json.loads(line[6:]))
                    else:
                        self.assertIn(line[:1], (b"", b":"))
        self.assertEqual(heard, self.gw.records())

    def test_who_operates_is_recorded(self):
        self.lab()
        self.ask("POST", "/reload", self.token)
        self.ask("POST", "/reload", tcp=False)
        self.gw.wait_for_record(lambda entry: entry["kind"] == "admin", number=2)
        peers = [entry["peer"] for entry in self.gw.records("admin")]
        self.assertRegex(peers[0], r"^127\.0\.0\.1:\d+$")
        self.assertEqual(peers[1], f"uid={os.getuid()},pid={os.getpid()}")

    def on_terminal(self, *arguments):
        """What a person sees, and the exit status."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([binary(), *arguments], stdout=theirs, stderr=theirs, env=environment()) as process:
            os.close(theirs)
            seen = b""
            try:
                while True:
                    piece = os.read(ours, 65536)
                    if not piece:
                        break
                    seen += piece
            except OSError:
                pass  # the end of a terminal
            os.close(ours)
            return seen.decode("utf-8").replace("\r\n", "\n").splitlines(), process.wait(20)

    def test_terminals_get_tables_and_scripts_json(self):
        self.lab()
        admin = ["--admin", self.path("admin.sock")]
        tunnel = self.gw.tunnel(self.good.authority).send("x").expect("x")
        self.gw.refused_connect("evil.test:443")
        entry = self.gw.decision("good.test")
        lines, status = self.on_terminal("status", *admin)
        self.assertEqual(status, 0)
        self.assertIn(["generation", "1"], [line.split() for line in lines])
        lines, _ = self.on_terminal("tunnels", *admin)
        self.assertEqual((lines[0].split()[0], lines[1].split()[0]), ("id", entry["id"]))
        lines, _ = self.on_terminal("tail", *admin)
        self.assertEqual([line.split()[1:3] for line in lines[1:]], [["allow", "-"], ["deny", "not-allowed"]])
        lines, _ = self.on_terminal("reload", *admin)
        self.assertIn(["result", "unchanged"], [line.split() for line in lines])
        for command in ("status", "tunnels", "tail", "reload"):
            lines, _ = self.on_terminal(command, "--json", *admin)
            self.assertEqual(len(lines), 1)
            json.loads(lines[0])
        lines, status = self.on_terminal("cut", "01J8ZQ4Y5W6K7M8N9P0Q1R2S3T", *admin)
        self.assertEqual((status, lines), (1, ["srt-gateway: there is no tunnel 01J8ZQ4Y5W6K7M8N9P0Q1R2S3T"]))
        tunnel.close()

    def test_where_the_gateway_is_found(self):
        self.lab()
        port, config, token = self.admin_port(), self.gw.config_path, self.path("admin.token")
        for where in (["-c", config], ["--admin", f"unix:{self.path('admin.sock')}"], ["--admin", self.path("admin.sock")],
                      ["--admin", "./admin.sock"], ["--admin", f"127.0.0.1:{port}"], ["--admin", f"localhost:{port}"]):
            self.assertEqual(json.loads(self.tool("status", "--json", *where)[0])["generation"], 1, where)
        self.assertIn("a path has a slash in it", self.tool("status", "--admin", "admin.sock", status=64)[1])
        self.tool("reload", "--admin", f"127.0.0.1:{port}", status=1)
        self.tool("reload", "--admin", f"127.0.0.1:{port}", "--token-file", token)
        over_tcp = self.write("tcp.ini", f"[gateway]\nadmin = 127.0.0.1:{port}\nadmin-token-file = {token}\n")
        self.tool("reload", "-c", over_tcp)
        # A file that is named gives its token to an address that is named beside it, and its faults count.
        self.tool("reload", "-c", over_tcp, "--admin", f"localhost:{port}")
        self.tool("reload", "-c", self.write("token.ini", f"[gateway]\nadmin-token-file = {token}\n"), "--admin", f"127.0.0.1:{port}")
        self.tool("reload", "-c", self.path("none-such.ini"), "--admin", f"127.0.0.1:{port}", status=78)
        for where in (["--admin", self.path("nobody.sock")], ["--admin", f"127.0.0.1:{self.closed_port('127.0.0.1')}"]):
            self.tool("status", *where, status=69)
        self.tool("status", "--admin", "gateway.test:80", status=64)
        self.tool("status", "-c", self.write("none.ini", "[gateway]\nworkers = 1\n"), status=64)
        self.tool("status", "-c", self.write("bad.ini", "[gateway]\nworkres = 1\n"), status=78)

    @unittest.skipUnless(os.geteuid() == 0, "becomes an ordinary user")
    def test_an_ordinary_users_own_configuration_says_where_it_is(self):
        self.lab()
        os.makedirs(self.path("home/srt-gateway"))
        self.write("home/srt-gateway/gateway.ini", f"[gateway]\nadmin = 127.0.0.1:{self.admin_port()}\n")
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", shutil.copy(binary(), self.path("srt-gateway")), "status", "--json"],
                              env=dict(environment(), XDG_CONFIG_HOME=self.path("home")), capture_output=True, check=False)
        self.assertEqual((done.returncode, json.loads(done.stdout)["generation"]), (0, 1), done.stderr)

    def test_tail_follows_from_one_process_to_the_next(self):
        self.lab()
        with subprocess.Popen([binary(), "tail", "-f", "--admin", self.path("admin.sock")], stdout=subprocess.PIPE,
                              env=environment(), text=True) as tail:
            for number in range(3):
                host = f"evil{number}.test"
                # It may still be on its way to the (new) process.
                seen = None
                while seen is None:
                    self.gw.refused_connect(f"{host}:443")
                    if select.select([tail.stdout], [], [], 0.05)[0]:
                        seen = json.loads(tail.stdout.readline())
                while seen.get("host") != host:
                    seen = json.loads(tail.stdout.readline())
                self.assertEqual(seen["kind"], "decision")
                self.gw.hand_over()
            self.gw.stop()
            tail.stdout.read()
            self.assertEqual(tail.wait(20), 69)

    def test_commands_talk_to_it(self):
        self.lab()
        address = self.path("admin.sock")
        out, _ = self.tool("status", "--admin", address)
        self.assertIn("generation", out)
        tunnel = self.gw.tunnel(self.good.authority).send("x").expect("x")
        out, _ = self.tool("tunnels", "--admin", address)
        self.assertIn("good.test", out)
        self.tool("cut", self.gw.decision("good.test")["id"], "--admin", address)
        tunnel.expect_eof()
        self.tool("cut", "01J8ZQ4Y5W6K7M8N9P0Q1R2S3T", "--admin", address, status=1)
        self.tool("reload", "--admin", address)
        self.gw.write_config("[gateway]\nworkres = 2\n")
        out, err = self.tool("reload", "--admin", address, status=1)
        self.assertIn("workers", out + err)
        self.tool("drain", "--admin", address)
        self.assertEqual(self.gw.process.wait(20), 0)
        self.gw.expect_end()


if __name__ == "__main__":
    main()
