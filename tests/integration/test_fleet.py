"""Who is asking: listeners, tokens, peer credentials, PROXY headers, budgets (areas fleet and gateway-http H43)."""

import base64
import hashlib
import os
import signal
import socket
import struct
import threading
import time

from lab import Closed, LabCase, main, reply, whole_and_dribbled


def basic(secret, user="any"):
    return ("Proxy-Authorization", "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode())


def sha256(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


class FleetCase(LabCase):
    TOKENS = {"a": "secret-of-a", "b": "secret-of-b"}

    def lab(self, listen="address = 127.0.0.1:0\nauth = token", a="", b="", more="", gateway=""):
        """Two clients with tokens; a may reach a.test, b may reach b.test."""
        self.a, self.b = self.origin("a.test"), self.origin("b.test")
        self.gw = self.gateway(hosts=[self.a, self.b], listen=listen, gateway=gateway, more=(
            f"[client alice]\npolicy = pa\ntoken-sha256 = {sha256(self.TOKENS['a'])}\n{a}\n"
            f"[client bob]\npolicy = pb\ntoken-file = {self.write('bob.token', self.TOKENS['b'] + chr(10))}\n{b}\n"
            f"[policy pa]\nallow = {self.a.authority}\nallow-addresses = 127.0.0.0/8\n"
            f"[policy pb]\nallow = {self.b.authority}\nallow-addresses = 127.0.0.0/8\n{more}\n"))
        return self.gw


class Tokens(FleetCase):
    def test_H43_no_credentials_is_a_challenge_and_the_connection_lives_on(self):
        self.lab()
        url = f"http://{self.a.authority}/"
        for how in whole_and_dribbled(self):
            with self.gw.client() as client:
                response = client.get(url, how=how)
                self.assert_refused(response, 407, "auth-required")
                self.assertTrue(any(value.lower().startswith("basic ") for value in response.all("Proxy-Authenticate")))
                self.assert_refused(client.get(url, [basic("wrong")], how=how), 407, "auth-failed")
                self.assertEqual(client.get(url, [basic(self.TOKENS["a"])], how=how).status, 200)
        for request in self.a.requests:
            self.assertEqual(request.all("Proxy-Authorization"), [])
        self.gw.stop()
        everything = open(self.gw.audit_path, encoding="utf-8").read() + self.gw.stderr()
        for secret in ("wrong", self.TOKENS["a"], base64.b64encode(b"any:wrong").decode()):
            self.assertNotIn(secret, everything)

    def test_H43_connect_may_be_tried_again_on_the_same_connection(self):
        self.lab()
        with self.gw.client() as client:
            client.request(f"CONNECT {self.a.authority} HTTP/1.1")
            response = client.response()
            self.assertEqual(response.status, 407)
            if (response.get("Connection") or "").lower() != "close":
                client.connect_to(self.a.authority, [basic(self.TOKENS["a"])])
                self.assertEqual(client.get("/x", [("Host", self.a.authority)]).status, 200)
        self.gw.tunnel(self.a.authority, headers=[basic(self.TOKENS["a"])])

    def test_bearer_and_socks_passwords_are_the_same_secret(self):
        self.lab()
        bearer = ("Proxy-Authorization", f"Bearer {self.TOKENS['b']}")
        self.assertEqual(self.gw.get(f"http://{self.b.authority}/", [bearer]).status, 200)
        for how in whole_and_dribbled(self):
            with self.gw.client() as client:
                self.assertEqual(client.socks("b.test", self.b.port, "who", self.TOKENS["b"], how)[0], 0)
            with self.gw.client() as client:
                self.assertEqual(client.socks("b.test", self.b.port, "who", self.TOKENS["a"], how)[0], 2)
            with self.assertRaisesRegex(Closed, "password refused"):
                self.gw.client().socks("b.test", self.b.port, "who", "wrong", how)
        client = self.gw.client()
        client.send(b"\x05\x01\x00").expect(b"\x05\xff").expect_eof()
        self.assertEqual(self.gw.decision("b.test")["client"], "bob")

    def test_a_socks_client_without_credentials_is_told_of_in_the_log_what_was_missing(self):
        self.lab()
        for login, reason, words in ((b"\x05\x01\x00", "auth-required", "credentials are needed"),
                                     (b"\x05\x01\x02\x01\x01u\x01x", "auth-failed", "the credentials given")):
            with self.gw.client() as client:
                client.send(login).read_all()
            self.assertIn(words, self.gw.wait_for_record(lambda entry: entry.get("reason") == reason)["message"])

    def test_credentials_that_are_none(self):
        self.lab()
        for value in ("", "Basic", "Basic !!!!", "Basic " + base64.b64encode(b"nocolon").decode(), "Digest x=y",
                      "Basic " + "A" * 8000, "Bearer", "Bearer  ", "Basic " + base64.b64encode(b"\x00:\x00").decode()):
            with self.subTest(value=value[:40]):
                self.assertIn(self.gw.get(f"http://{self.a.authority}/", [("Proxy-Authorization", value)]).status, (400, 407))
        twice = [basic("wrong"), basic(self.TOKENS["a"])]
        self.assertIn(self.gw.get(f"http://{self.a.authority}/", twice).status, (400, 407))
        self.assert_untouched(self.a)

    def test_M01_credentials_move_nobody_whom_the_listener_identifies(self):
        self.lab(listen="address = 127.0.0.1:0\npolicy = pa")
        for headers in ([], [basic(self.TOKENS["b"])], [("X-Sandbox", "b"), ("X-Policy", "pb")]):
            self.assertEqual(self.gw.get(f"http://{self.a.authority}/", headers).status, 200)
            self.assert_refused(self.gw.get(f"http://{self.b.authority}/", headers), 403, "not-allowed")
        self.assert_untouched(self.b)
        self.assertEqual({entry["policy"] for entry in self.gw.records("decision")}, {"pa"})

    def test_M02_one_clients_failures_are_not_the_others(self):
        self.lab(a="connect-rate = 2/s")
        for _ in range(30):
            self.assertEqual(self.gw.get(f"http://{self.a.authority}/", [basic("wrong")]).status, 407)
        statuses = [self.gw.get(f"http://{self.a.authority}/", [basic(self.TOKENS["a"])]).status for _ in range(10)]
        self.assertIn(429, statuses)
        self.assertEqual([self.gw.get(f"http://{self.b.authority}/", [basic(self.TOKENS["b"])]).status for _ in range(10)], [200] * 10)


class Peers(FleetCase):
    def test_a_unix_peer_is_known_by_its_uid(self):
        path = self.path("proxy.sock")
        good = self.origin("good.test")
        gw = self.gateway(allow=[good.authority], hosts=[good], listen=f"address = unix:{path}\nmode = 0666",
                          more=f"[client me]\nuid = {os.getuid()}\npolicy = main\n")
        self.assertEqual(gw.get(f"http://{good.authority}/").status, 200)
        decision = gw.decision("good.test")
        self.assertEqual((decision["client"], decision["peer"]), ("me", f"uid={os.getuid()},pid={os.getpid()}"))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o666)
        gw.stop()
        self.assertFalse(os.path.exists(path))

    def test_another_uid_is_nobody(self):
        path = self.path("proxy.sock")
        gw = self.gateway(allow=["good.test"], listen=f"address = unix:{path}",
                          more=f"[client other]\nuid = {os.getuid() + 1}\npolicy = main\n")
        self.assert_refused(gw.refused_connect("good.test:443"), 407, "auth-required")

    def test_a_tcp_peer_is_known_by_its_source(self):
        good = self.origin("good.test")
        gw = self.gateway(allow=[good.authority], hosts=[good], listen="address = 127.0.0.1:0", more=(
            "[client near]\nsource = 127.0.0.64/26\npolicy = main\n[client far]\nsource = 127.0.0.0/25\npolicy = nothing\n"
            "[policy nothing]\n"))
        for source, status in (("127.0.0.65", 200), ("127.0.0.5", 403), ("127.0.0.200", 407)):
            with gw.client(source=source) as client:
                self.assertEqual(client.get(f"http://{good.authority}/").status, status)
        self.assertEqual([entry["client"] for entry in gw.records("decision")], ["near", "far", None])

    def proxied(self, header):
        client = self.gw.client()
        client.send(header)
        return client

    def lab_proxied(self):
        self.good = self.origin("good.test")
        self.gw = self.gateway(allow=[self.good.authority], hosts=[self.good], gateway="header-timeout = 2s",
                               listen="address = 127.0.0.1:0\nproxy-protocol = yes",
                               more="[client ten]\nsource = 10.1.0.0/16\npolicy = main\n[client six]\nsource = 2001:db8::/32\npolicy = main\n")
        self.url = f"http://{self.good.authority}/"

    def test_proxy_header_names_the_source(self):
        self.lab_proxied()
        v2 = b"\r\n\r\n\x00\r\nQUIT\n"
        four = v2 + b"\x21\x11" + struct.pack("!H", 12) + socket.inet_aton("10.1.2.3") + socket.inet_aton("10.0.0.1") + struct.pack("!HH", 5, 6)
        six = (v2 + b"\x21\x21" + struct.pack("!H", 36 + 7) + socket.inet_pton(socket.AF_INET6, "2001:db8::5")
               + bytes(16) + struct.pack("!HH", 5, 6) + b"\x04\x00\x04abcd")
        for header, client_name, peer in ((b"PROXY TCP4 10.1.2.3 10.0.0.1 5 6\r\n", "ten", "10.1.2.3:5"),
                                          (b"PROXY TCP6 2001:db8::5 ::1 5 6\r\n", "six", "[2001:db8::5]:5"),
                                          (four, "ten", "10.1.2.3:5"), (six, "six", "[2001:db8::5]:5")):
            for how in whole_and_dribbled(self):
                with self.subTest(header=header), self.gw.client() as client:
                    getattr(client, how)(header)
                    self.assertEqual(client.get(self.url, how=how).status, 200)
                    client_record = self.gw.records("decision")[-1]
                    self.assertEqual((client_record["client"], client_record["peer"]), (client_name, peer))
        with self.gw.client() as client:
            client.send("PROXY TCP4 10.2.0.1 10.0.0.1 5 6\r\n")
            self.assertEqual(client.get(self.url).status, 407)

    def test_without_or_with_a_broken_proxy_header_nothing_is_served(self):
        self.lab_proxied()
        for header in (b"", b"PROXY TCP4 10.1.2.3 10.0.0.1 5\r\n", b"PROXY TCP4 10.1.2.3.4 10.0.0.1 5 6\r\n", b"PROXY TCP4 10.1.2.3 10.0.0.1 5 6\n",
                       b"PROXY " + b"A" * 200 + b"\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c" + bytes(12),
                       b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x02" + bytes(2), b"PROXY TCP4 10.1.2.3 10.0.0.1 5 65536\r\n"):
            with self.subTest(header=header):
                client = self.gw.client()
                client.send(header + f"GET {self.url} HTTP/1.1\r\nHost: {self.good.authority}\r\n\r\n".encode())
                try:
                    self.assertNotIn(b" 200 ", client.read_all())
                except ConnectionResetError:
                    pass
        self.assert_untouched(self.good)


class Budgets(FleetCase):
    def test_max_tunnels_is_per_client(self):
        self.lab(a="max-tunnels = 2")
        mine, theirs = [basic(self.TOKENS["a"])], [basic(self.TOKENS["b"])]
        first = self.gw.tunnel(self.a.authority, headers=mine)
        self.gw.tunnel(self.a.authority, headers=mine)
        response = self.gw.refused_connect(self.a.authority, headers=mine)
        self.assertIn("(max-tunnels)", self.assert_refused(response, 429, "limit")["message"])
        self.assertRegex(response.get("Retry-After"), r"^\d+$")
        with self.assertRaises(AssertionError):
            self.gw.tunnel(self.a.authority, headers=mine)
        for _ in range(4):
            self.gw.tunnel(self.b.authority, headers=theirs)
        first.close()
        self.gw.close_record()
        self.gw.tunnel(self.a.authority, headers=mine)

    def test_connect_rate_is_a_bucket(self):
        self.lab(a="connect-rate = 3/m")
        mine = [basic(self.TOKENS["a"])]
        answers = [self.gw.get(f"http://{self.a.authority}/{n}", mine) for n in range(6)]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 429, 429, 429])
        self.assertIn("(connect-rate)", self.assert_refused(answers[-1], 429, "limit")["message"])
        self.assertLessEqual(int(answers[-1].get("Retry-After")), 60)
        self.assertEqual(len(self.a.requests), 3)

    def test_bytes_up_end_a_tunnel_and_refuse_the_next(self):
        sink = self.upstream(lambda talk: talk.read_all(), "sink.test")
        gw = self.gateway(allow=[], hosts=[sink], listen="address = 127.0.0.1:0", more=(
            f"[client near]\nsource = 127.0.0.0/8\npolicy = sink\nbytes-up = 100k/h\n[policy sink]\nallow = {sink.authority}\n"
            "allow-addresses = 127.0.0.0/8\n"))
        client = gw.tunnel(sink.authority)
        try:
            client.send(bytes(1 << 20))
            client.read_all()
        except (BrokenPipeError, ConnectionResetError):
            pass
        close = gw.close_record()
        self.assertEqual(close["cause"], "limit")
        self.assertLess(close["bytes_up"], 400_000)
        refused = self.assert_refused(gw.refused_connect(sink.authority), 429, "limit")
        self.assertIn("(bytes-up)", refused["message"])

    def test_bytes_up_end_an_exchange_with_an_answer(self):
        def late(request):
            return reply(body="thanks") if len(request.body) < 1000 else None

        good = self.origin("good.test", late)
        gw = self.gateway(hosts=[good], listen="address = 127.0.0.1:0", more=(
            "[client near]\nsource = 127.0.0.0/8\npolicy = near\nbytes-up = 100k/h\n"
            f"[policy near]\nallow = {good.authority}\nallow-addresses = 127.0.0.0/8\n"))
        url = f"http://{good.authority}/"
        with gw.client() as client:
            client.request(f"POST {url} HTTP/1.1", body="small")
            self.assertEqual(client.response().body, b"thanks")
            client.request(f"POST {url} HTTP/1.1", [("Content-Length", "1000000"), ("Connection", "close")])
            client.send(b"x" * 200_000)
            response = client.response()
            self.assertIn("(bytes-up)", self.assert_refused(response, 429, "limit")["message"])
            self.assertGreater(int(response.get("Retry-After")), 1)
        refused = gw.decision("good.test", verdict="deny")
        self.assertEqual(gw.close_record(refused["id"])["cause"], "limit")
        self.assert_refused(gw.get(url), 429, "limit")


class Exhaustion(FleetCase):
    def test_M04_without_descriptors_existing_traffic_flows_and_new_waits_or_is_told(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=[good.authority], hosts=[good], wrapper=["prlimit", "--nofile=64:64"])
        old = gw.tunnel(good.authority)
        crowd, began = [], time.monotonic()
        for _ in range(80):
            client = gw.client()
            client.request(f"CONNECT {good.authority} HTTP/1.1")
            crowd.append(client)
        for _ in range(20):
            old.send("still here").expect("still here")
        cpu = self.cpu(gw)
        old.expect_silence(0.5)
        self.assertLess(self.cpu(gw) - cpu, 0.3)
        said = [line for line in gw.stderr().splitlines() if "accepting pauses" in line]
        self.assertTrue(said)
        self.assertLessEqual(len(said), time.monotonic() - began + 2)  # one a second
        for client in crowd:
            client.reset()
        gw.wait_for_record(lambda entry: entry["kind"] == "close")
        while True:  # the pause ends by itself
            response = gw.refused_connect(good.authority)
            if response.status == 200:
                break
            self.assertEqual(response.status, 503)

    @staticmethod
    def cpu(gw):
        with open(f"/proc/{gw.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_M11_own_doors_are_closed_even_with_everything_allowed(self):
        token = self.write("admin.token", "secret\n")
        gw = self.gateway(self.config(policy="default = allow", allow_addresses="127.0.0.0/8, ::1/128, ::ffff:127.0.0.1/128", more=(
            "[listen other]\naddress = 127.0.0.1:0\npolicy = main\n"), hosts={"alias.test": "127.0.0.1"}).replace(
                "admin = none", f"admin = 127.0.0.1:0\nadmin-token-file = {token}"))
        doors = [gw.port(name) for name in ("main", "other", "admin")]
        for port in doors:
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "alias.test", "LOCALHOST."):
                with self.subTest(host=host, port=port):
                    self.assert_refused(gw.refused_connect(f"{host}:{port}"), 403, "loop")
                    self.assertEqual(gw.get(f"http://{host}:{port}/metrics").status, 403)
        self.assertEqual(gw.socks_code("127.0.0.1", doors[2]), 2)
        for host in ("169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"):
            self.assert_refused(gw.refused_connect(f"{host}:80"), 403, "address-denied")
        self.assertEqual([entry["verdict"] for entry in gw.records("decision") if entry["verdict"] != "deny"], [])

    def test_M13_one_bulk_flow_does_not_starve_the_others(self):
        block = bytes(1 << 16)
        stop = threading.Event()

        def pour(talk):
            try:
                while not stop.is_set():
                    talk.send(block)
            except OSError:
                pass

        bulk, small = self.upstream(pour, "bulk.test"), self.origin("small.test")
        gw = self.gateway(allow=[bulk.authority, small.authority], hosts=[bulk, small], workers=1)
        drain = gw.tunnel(bulk.authority)
        reader = threading.Thread(target=self.swallow, args=(drain, stop))
        reader.start()
        try:
            for number in range(50):
                self.assertEqual(gw.get(f"http://{small.authority}/{number}").status, 200)
        finally:
            stop.set()
            reader.join()

    @staticmethod
    def swallow(talk, stop):
        while not stop.is_set():
            talk.sock.recv(1 << 16)


class Processes(FleetCase):
    def test_a_second_instance_never_shares_a_port(self):
        gw = self.gateway(allow=["good.test"])
        second = gw.config_path + ".second"
        with open(gw.config_path, encoding="utf-8") as file:
            text = file.read().replace("127.0.0.1:0\npolicy", f"{gw.address()}\npolicy").replace("audit.jsonl", "audit2.jsonl")
        self.write("gateway.ini.second", text)
        out, err = self.tool("run", "-c", second, status=71)
        self.assertIn(gw.address(), out + err)

    def test_drain_lets_an_answer_finish_and_says_that_it_is_the_last(self):
        asked, told = threading.Event(), threading.Event()

        def answer(_request):
            asked.set()
            told.wait(20)
            return reply(body="whole")

        good = self.origin("good.test", answer)
        gw = self.gateway(self.config(allow=[good.authority], hosts=[good], workers=1).replace("drain-timeout = 2s", "drain-timeout = 20s"))
        client = gw.client().request(f"GET http://{good.authority}/ HTTP/1.1")
        asked.wait(20)
        gw.send_signal(signal.SIGTERM)
        while gw.get("http://evil.test/").status == 403:
            pass
        told.set()
        response = client.response()
        self.assertEqual((response.status, response.body, response.get("Connection")), (200, b"whole", "close"))
        client.expect_eof()
        self.assertEqual(gw.process.wait(10), 0)
        gw.expect_end()

    def test_drain_lets_tunnels_finish_and_refuses_new_ones(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(self.config(allow=[good.authority], hosts=[good]).replace("drain-timeout = 2s", "drain-timeout = 20s"))
        tunnel, idle = gw.tunnel(good.authority), gw.client()
        self.assertEqual(idle.get("http://evil.test/").status, 403)
        gw.send_signal(signal.SIGTERM)
        idle.expect_eof()
        while (answer := gw.get("http://evil.test/")).status == 403:
            pass  # one worker may know before the other
        self.assert_refused(answer, 503, "draining")
        tunnel.send("still").expect("still")
        tunnel.close()
        self.assertEqual(gw.process.wait(10), 0)
        gw.expect_end()

    def test_a_second_term_or_int_stops_now(self):
        good = self.upstream(name="good.test")
        for signals in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT,)):
            gw = self.gateway(self.config(allow=[good.authority], hosts=[good]).replace("drain-timeout = 2s", "drain-timeout = 1h"))
            tunnel = gw.tunnel(good.authority)
            for number in signals:
                gw.send_signal(number)
                if number is signal.SIGTERM:  # two of them at once would be one
                    gw.wait_for_stderr(lambda line: "draining" in line)
            gw.process.wait(10)
            self.assertEqual(gw.close_record()["cause"], "drain")
            gw.expect_end()

    def test_what_operators_ask_while_it_stops_leaves_nothing(self):
        """Questions that are still with the workers at the end; the sanitizer would tell what became of them."""
        good = self.upstream(name="good.test")
        config = self.config(allow=[good.authority], hosts=[good]).replace("admin = none", f"admin = {self.path('admin.sock')}")
        for _ in range(5):
            gw = self.gateway(config)
            for _ in range(3):
                gw.tunnel(good.authority)
            id = gw.decision()["id"]
            asking = []
            for number in range(40):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(self.path("admin.sock"))
                line = "GET /tunnels" if number % 2 else f"POST /tunnels/{id}/cut"
                sock.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
                asking.append(sock)
            gw.stop(signal.SIGINT)
            for sock in asking:
                sock.close()
            os.remove(gw.audit_path)

    def test_runs_as_an_ordinary_user(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=[good.authority], hosts=[good], user=self.ordinary_user())
        gw.tunnel(good.authority).send("x").expect("x")


if __name__ == "__main__":
    main()
