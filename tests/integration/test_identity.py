"""Who is asking, where several answers would be possible (INTERFACE 1.4 step 1 and 1.9), and what each may spend."""

import os
import socket

from lab import Closed, LabCase, main
from test_attach import AttachCase
from test_fleet import basic, sha256


class Order(LabCase):
    """Every client has a policy of its own, which allows the one name that the client is called by."""

    def lab(self, clients, listen="address = 127.0.0.1:0", more=""):
        self.origins = {name: self.origin(f"{name}.test") for name in ("fixed", *[client for client, _ in clients])}
        sections = "".join(f"[policy {name}]\nallow = {origin.authority}\nallow-addresses = 127.0.0.0/8\n"
                           for name, origin in self.origins.items())
        sections += "".join(f"[client {name}]\npolicy = {name}\n{lines}\n" for name, lines in clients)
        self.gw = self.gateway(hosts=list(self.origins.values()), listen=listen, more=sections + more)
        return self.gw

    def who(self, secret=None, listener="main", source=None):
        """The client, or the policy where there is none, that a request is judged for; else the reason."""
        headers = [basic(secret)] if secret is not None else []
        number = len(self.gw.records("decision"))
        with self.gw.client(listener, source) as client:
            status = client.get("http://nowhere.test/", headers).status
        record = self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number + 1)
        self.assertEqual(status, 407 if record["reason"].startswith("auth-") else 403)
        return record["client"] or record["policy"] or record["reason"]

    def test_several_of_one_kind_are_tried_in_file_order(self):
        token = f"token-sha256 = {sha256('one')}"
        self.lab([("near", "source = 127.0.0.1/32"), ("first", token), ("second", token), ("far", "source = 127.0.0.0/8"),
                  ("nearer", "source = 127.0.0.64/26")])
        self.assertEqual(self.who("one"), "first")
        self.assertEqual(self.who(), "near")
        self.assertEqual(self.who(source="127.0.0.65"), "far")

    def test_a_token_comes_before_a_source(self):
        self.lab([("any", "source = 127.0.0.0/8"), ("bearer", f"token-sha256 = {sha256('one')}")])
        self.assertEqual(self.who("one"), "bearer")
        self.assertEqual(self.who(), "any")
        self.assertEqual(self.who("another"), "any")

    def test_a_uid_comes_before_a_token_and_a_source_is_none_on_a_unix_socket(self):
        self.lab([("far", "source = 0.0.0.0/0"), ("bearer", f"token-sha256 = {sha256('one')}"), ("me", f"uid = {os.getuid()}")],
                 listen=f"address = unix:{self.path('door.sock')}")
        self.assertEqual(self.who("one"), "me")
        with open(self.gw.config_path, encoding="utf-8") as file:
            self.gw.reload(file.read().replace(f"uid = {os.getuid()}", f"uid = {os.getuid() + 1}"))
        self.assertEqual(self.who("one"), "bearer")
        self.assertEqual(self.who(), "auth-required")

    def test_a_client_on_a_unix_socket_passes_no_descriptors(self):
        """The last close() of a socket that lingers would wait, and be ours."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.setsockopt(socket.SOL_SOCKET, 83, 0)  # SO_PASSRIGHTS
            except OSError:
                self.skipTest("this kernel (before 6.16) has no Unix sockets that take no descriptors")
        self.lab([], listen=f"address = unix:{self.path('door.sock')}\npolicy = fixed")
        with self.gw.client() as client:
            with self.assertRaises(PermissionError):
                socket.send_fds(client.sock, [b"GET"], [client.sock.fileno()])
            self.assertEqual(client.get("http://nowhere.test/").status, 403)

    def test_all_that_a_client_asks_for_must_be_true(self):
        self.lab([("both", f"token-sha256 = {sha256('one')}\nsource = 127.0.0.64/26")])
        self.assertEqual(self.who("one", source="127.0.0.65"), "both")
        self.assertEqual(self.who("one"), "auth-failed")
        self.assertEqual(self.who(source="127.0.0.65"), "auth-required")

    def test_a_listeners_policy_is_final_and_says_nothing_of_clients(self):
        self.lab([("any", "source = 127.0.0.0/8\nmax-tunnels = 1"), ("bearer", f"token-sha256 = {sha256('one')}")],
                 listen="address = 127.0.0.1:0\npolicy = fixed")
        for secret in (None, "one", "wrong"):
            self.assertEqual(self.who(secret), "fixed")
        self.assertEqual(self.gw.get(f"http://{self.origins['fixed'].authority}/", [basic("wrong")]).status, 200)
        self.assertEqual(self.origins["fixed"].requests[0].all("Proxy-Authorization"), [])

    def test_with_auth_token_the_listener_asks_for_one_and_its_policy_holds(self):
        self.lab([("any", "source = 127.0.0.0/8"), ("bearer", f"token-sha256 = {sha256('one')}")],
                 listen="address = 127.0.0.1:0\npolicy = fixed\nauth = token")
        self.assertEqual((self.who(), self.who("wrong")), ("auth-required", "auth-failed"))
        fixed, own = self.origins["fixed"], self.origins["bearer"]
        self.assertEqual(self.gw.get(f"http://{fixed.authority}/", [basic("one")]).status, 200)
        self.assert_refused(self.gw.get(f"http://{own.authority}/", [basic("one")]), 403, "not-allowed")
        self.assertEqual({(entry["client"], entry["policy"]) for entry in self.gw.records("decision") if entry["client"]},
                         {("bearer", "fixed")})
        with self.gw.client() as client:
            client.send(b"\x05\x01\x00").expect(b"\x05\xff").expect_eof()
        with self.gw.client() as client, self.assertRaises(Closed):
            client.socks("fixed.test", fixed.port, "x", "wrong")
        with self.gw.client() as client:
            self.assertEqual(client.socks("fixed.test", fixed.port, "x", "one")[0], 0)

    def test_a_token_file_ends_with_one_newline_that_is_not_part_of_it(self):
        files = {"bare": "s1", "line": "s2\n", "dos": "s3\r\n", "lines": "s4\n\n"}
        self.lab([(name, f"token-file = {self.write(name + '.token', text)}") for name, text in files.items()])
        said = {secret: self.who(secret) for secret in ("s1", "s1\n", "s2", "s2\n", "s3", "s3\r", "s4", "s4\n")}
        self.assertEqual((said["s1"], said["s2"], said["s4\n"], said["s4"]), ("bare", "line", "lines", "auth-failed"))
        self.assertEqual((said["s1\n"], said["s2\n"]), ("auth-failed", "auth-failed"))
        self.assertEqual((said["s3"], said["s3\r"]), ("dos", "auth-failed"))

    def test_the_user_name_is_free(self):
        self.lab([("bearer", f"token-sha256 = {sha256('one:two')}")])
        for user in ("", "x", "bearer", "someone else"):
            self.assertEqual(self.gw.get("http://nowhere.test/", [basic("one:two", user)]).status, 403)
        self.assertEqual(self.gw.get("http://nowhere.test/", [("Proxy-Authorization", "Bearer one:two")]).status, 403)
        self.assertEqual(self.gw.get("http://nowhere.test/", [("Proxy-Authorization", "bearer one:two")]).status, 403)


class Budgets(LabCase):
    def lab(self, **budgets):
        self.good = self.upstream(name="good.test")
        lines = "".join(f"{key.replace('_', '-')} = {value}\n" for key, value in budgets.items())
        self.gw = self.gateway(hosts=[self.good], allow=[self.good.authority], listen="address = 127.0.0.1:0",
                               more=f"[client near]\nsource = 127.0.0.0/8\npolicy = main\n{lines}")
        return self.gw

    def test_socks_is_told_of_a_limit_in_its_own_words(self):
        self.lab(max_tunnels=1)
        self.gw.tunnel(self.good.authority)
        self.assertEqual(self.gw.socks_code("good.test", self.good.port), 1)
        self.assertEqual(self.gw.decision("good.test", front="socks5")["reason"], "limit")

    def test_a_rate_says_when_to_come_back_and_keeps_its_word_over_a_reload(self):
        self.lab(connect_rate="2/h")
        for _ in range(2):
            self.gw.tunnel(self.good.authority)
        response = self.gw.refused_connect(self.good.authority)
        self.assert_refused(response, 429, "limit")
        self.assertTrue(1 <= int(response.get("Retry-After")) <= 1800, response)
        with open(self.gw.config_path, encoding="utf-8") as file:
            self.gw.reload(file.read() + "[policy another]\nallow = x.test\n")
        self.assert_refused(self.gw.refused_connect(self.good.authority), 429, "limit")

    def test_a_refused_request_takes_no_tunnel(self):
        self.lab(max_tunnels=1)
        for _ in range(5):
            self.assert_refused(self.gw.refused_connect("evil.test:443"), 403, "not-allowed")
        self.gw.tunnel(self.good.authority).send("x").expect("x")


class Sandboxes(AttachCase):
    def test_a_sandbox_spends_what_its_launchers_uid_may(self):
        self.lab(more=f"[client me]\nuid = {os.getuid()}\npolicy = main\nmax-tunnels = 2\n")
        first, second = self.launcher(), self.launcher()
        first.attach("first")
        second.attach("second")
        self.assertEqual(first.connect(self.good.authority)[1].status, 200)
        tunnel, answer = second.connect(self.good.authority)
        self.assertEqual(answer.status, 200)
        for launcher in (first, second):
            self.assert_refused(launcher.connect(self.good.authority)[1], 429, "limit")
        tunnel.close()
        self.gw.close_record()
        self.assertEqual(first.connect(self.good.authority)[1].status, 200)

    def test_credentials_in_a_sandbox_move_nobody(self):
        self.lab(more=f"[policy wide]\ndefault = allow\n[client other]\ntoken-sha256 = {sha256('one')}\npolicy = wide\n"
                      f"[client me]\nuid = {os.getuid()}\npolicy = main\n")
        launcher = self.launcher()
        launcher.attach()
        for headers in ([basic("one")], [("Proxy-Authorization", "Bearer one")]):
            talk = launcher.client()
            talk.request("CONNECT wide.test:443 HTTP/1.1", headers)
            self.assert_refused(talk.response(to_method="CONNECT"), 403, "not-allowed")
        self.assertEqual({entry["client"] for entry in self.gw.records("decision")}, {"me"})


class Tenants(AttachCase):
    def test_M08_every_byte_has_its_sandbox(self):
        self.lab()
        sums, launchers = {}, [self.launcher() for _ in range(10)]
        for number, launcher in enumerate(launchers):
            launcher.attach(f"box-{number}")
            sent = 0
            for turn in range(3):
                data = bytes(100 * (number + 1) + turn)
                tunnel, _ = launcher.connect(self.good.authority)
                tunnel.send(data)
                tunnel.read_exactly(len(data))
                tunnel.close()
                sent += len(data)
            self.assertEqual(launcher.connect("evil.test:443")[1].status, 403)
            sums[f"box-{number}"] = sent
        self.gw.wait_for_record(lambda entry: entry["kind"] == "close", 30)
        for name, sent in sums.items():
            closes = [entry for entry in self.gw.records("close") if entry["sandbox"] == name]
            self.assertEqual((sum(entry["bytes_up"] for entry in closes), sum(entry["bytes_down"] for entry in closes)), (sent, sent))
            decisions = [entry for entry in self.gw.records("decision") if entry["sandbox"] == name]
            self.assertEqual(sorted(entry["verdict"] for entry in decisions), ["allow"] * 3 + ["deny"])
            attach = [entry for entry in self.gw.records("attach") if entry["sandbox"] == name]
            self.assertEqual([(entry["command"], bool(entry["ts"])) for entry in attach], [("make", True)])

    def test_M10_nothing_leaks_through_what_is_shared(self):
        names = self.name_server({"warm.test": ["127.0.0.9"]})
        origin = self.origin("warm.test", address="127.0.0.9")
        url = f"http://warm.test:{origin.port}/"
        self.control = self.path("control.sock")
        self.good = origin
        config = self.config(allow=[origin.authority], names=names, workers=1)
        self.gw = self.gateway(config.replace("control = none", f"control = {self.control}"))
        first, denied, allowed = self.launcher(), self.launcher(), self.launcher()
        first.attach("first")
        denied.attach("denied", network={"allowedDomains": ["other.test"], "deniedDomains": []})
        allowed.attach("allowed")
        warm = first.client()
        self.assertEqual(warm.get(url).status, 200)
        connections, questions = origin.connections, len(names.questions)
        self.assert_refused(denied.client().get(url), 403, "not-allowed")
        self.assertEqual((origin.connections, len(names.questions)), (connections, questions))
        self.assertEqual(allowed.client().get(url).status, 200)
        self.assertEqual(origin.connections, connections + 1)  # its own, although the first one's is idle
        self.assertEqual(warm.get(url).status, 200)
        self.assertEqual([entry["sandbox"] for entry in self.gw.records("decision")], ["first", "denied", "allowed", "first"])

    def test_M07_a_restart_lets_nothing_through_and_everybody_back(self):
        self.lab()
        fleet = [self.launcher() for _ in range(50)]
        for number, launcher in enumerate(fleet):
            launcher.attach(f"box-{number}", network={"allowedDomains": ["good.test"], "deniedDomains": []})
        tunnel, _ = fleet[0].connect(self.good.authority)
        self.gw.stop()
        tunnel.expect_eof()
        # The listeners live on in the launchers: who connects meanwhile waits, and is judged by whoever takes them over.
        waiting = [(launcher.client(), launcher.client()) for launcher in fleet]
        for good, evil in waiting:
            good.request(f"CONNECT {self.good.authority} HTTP/1.1")
            evil.request(f"CONNECT {self.other.authority} HTTP/1.1")
        with open(self.gw.config_path, encoding="utf-8") as file:
            self.gw = self.gateway(file.read())
        for number, launcher in enumerate(fleet):
            launcher.sock.close()
            launcher.sock = socket.socket(socket.AF_UNIX)
            launcher.sock.settimeout(20)
            launcher.sock.connect(self.control)
            answer = launcher.attach(f"box-{number}", launcher.listeners,
                                     network={"allowedDomains": ["good.test"], "deniedDomains": []})
            self.assertEqual(answer["type"], "attached", answer)
        for good, evil in waiting:
            self.assertEqual(good.response(to_method="CONNECT").status, 200)
            self.assertEqual(evil.response(to_method="CONNECT").status, 403)
        self.assert_untouched(self.other)
        decisions = self.gw.records("decision")
        self.assertEqual([entry for entry in decisions if entry["sandbox"] is None], [])
        seqs = [entry["seq"] for entry in self.gw.records()]
        self.assertEqual(seqs.count(min(seqs)), 2)  # each process counts its own: the log shows where the gap is


if __name__ == "__main__":
    main()
