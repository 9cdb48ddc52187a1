"""Upstream proxies: what goes by them and what does not, the handshakes, and what a client is told when
one fails (case N17, and docs/addresses.md "Upstream proxies")."""

import base64
import ipaddress
import json
import os
import select
import socket
import struct
import ssl
import subprocess
import threading
import warnings

from lab import hello, main, reply, whole_and_dribbled
from lab import gateway as lab_gateway
from lab.launch import LaunchCase
from lab.tls_front import TlsFront
from lab.upstream import echo

SECRET = "corp-user:p:ss word"
BASIC = "Basic " + base64.b64encode(SECRET.encode()).decode()


def connect_proxy(answer=b"HTTP/1.1 200 OK\r\n\r\n", how="send", then=echo, log=None):
    """Answers each CONNECT so, and then is the target itself; answers other requests with a body."""

    def script(talk):
        while True:
            request = talk.incoming()
            if request is None:
                return
            if log is not None:
                log.append(request)
            if request.method == "CONNECT":
                getattr(talk, how)(answer)
                if b" 2" in answer and answer.endswith((b"\r\n\r\n", b"banner")):
                    then(talk)
                return
            talk.send(reply(body=f"fetched {request.target}"))

    return script


def socks_proxy(log, code=0, credentials=None, how="send", then=echo):
    """SOCKS5 that wants these credentials, or none; then is the target itself."""

    def script(talk):
        say = getattr(talk, how)
        _, count = talk.read_exactly(2)
        methods = talk.read_exactly(count)
        if credentials is None:
            say(b"\x05\x00")
        elif 2 in methods:
            say(b"\x05\x02")
            _, length = talk.read_exactly(2)
            user = talk.read_exactly(length)
            password = talk.read_exactly(talk.read_exactly(1)[0])
            good = user + b":" + password == credentials.encode()
            say(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        else:
            say(b"\x05\xff")
            return
        _, command, _, kind = talk.read_exactly(4)
        if kind == 3:
            host = talk.read_exactly(talk.read_exactly(1)[0]).decode()
        else:
            host = str(ipaddress.ip_address(talk.read_exactly(4 if kind == 1 else 16)))
        log.append((command, kind, host, struct.unpack("!H", talk.read_exactly(2))[0]))
        say(bytes([5, code, 0, 3, 4]) + b"here" + b"\x00\x50")  # a bound address may be a name
        if code == 0:
            then(talk)

    return script


class UpstreamCase(LaunchCase):
    def lab(self, proxy, allow=("far.test:*", "*.far.test:*"), scheme="http", policy="upstream = corp\n",
            credentials=None, **parts):
        """`far.test` is a name that nobody here can resolve: what reaches it went by the proxy."""
        if os.path.exists(self.path("audit.jsonl")):
            os.remove(self.path("audit.jsonl"))  # of an earlier gateway of this test
        section = f"[upstream corp]\naddress = {scheme}://{proxy.literal}\n"
        if credentials is not None:
            section += f"credentials-file = {self.write('corp.secret', credentials)}\n"
        self.gw = self.gateway(allow=list(allow), policy=policy, more=section + parts.pop("more", ""), **parts)
        return self.gw

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def decision(self, reason=None, verdict="allow", count=1):
        return self.gw.wait_for_record(
            lambda entry: entry["kind"] == "decision" and entry["verdict"] == verdict and entry["reason"] == reason, count)


class Carried(UpstreamCase):
    def test_a_tunnel_by_an_http_proxy(self):
        for how in whole_and_dribbled(self):
            log = []
            proxy = self.upstream(connect_proxy(b"HTTP/1.0 299 Fine\r\nContent-Length: 7\r\n\r\nbanner", how, log=log))
            gateway = self.lab(proxy, credentials=SECRET + "\n")
            client = gateway.client().connect_to("FAR.test:7000", [("Proxy-Authorization", "Basic Y2xpZW50Og==")])
            client.expect(b"banner")
            client.send(b"hello").expect(b"hello")
            client.finish().expect_eof()
            self.assertEqual(len(log), 1)
            self.assertEqual(log[0].first_line, "CONNECT far.test:7000 HTTP/1.1")
            self.assertEqual(log[0].get("Host"), "far.test:7000")
            self.assertEqual(log[0].all("Proxy-Authorization"), [BASIC])
            record = self.decision()
            self.assertEqual((record["host"], record["addr"]), ("far.test", proxy.address))
            self.assertEqual(record["message"], "by the upstream proxy corp")
            self.assertEqual(gateway.close_record(record["id"])["bytes_down"], len(b"bannerhello"))
            gateway.stop()

    def test_a_tunnel_by_a_socks_proxy(self):
        for how in whole_and_dribbled(self):
            for credentials in (None, SECRET):
                log = []
                proxy = self.upstream(socks_proxy(log, credentials=credentials, how=how))
                gateway = self.lab(proxy, scheme="socks5", credentials=credentials)
                gateway.client().connect_to("far.test:7000").send(b"hello").expect(b"hello")
                self.assertEqual(log, [(1, 3, "far.test", 7000)])
                gateway.stop()

    def test_a_socks_client_goes_the_same_ways(self):
        log = []
        for scheme, script in (("http", connect_proxy()), ("socks5", socks_proxy(log))):
            gateway = self.lab(self.upstream(script), scheme=scheme)
            client = gateway.client()
            self.assertEqual(client.socks(b"far.test", 22)[0], 0)
            client.send(b"hello").expect(b"hello")
            gateway.stop()
        self.assertEqual(log, [(1, 3, "far.test", 22)])

    def test_a_plain_request_is_asked_for_by_url(self):
        log = []
        proxy = self.upstream(connect_proxy(log=log))
        client = self.lab(proxy, credentials=SECRET).client()
        for path in ("/a?b=c", "", "/d"):
            response = client.get(f"http://far.test:80{path}", [("Proxy-Authorization", "Bearer x"), ("X-Own", "1")])
            self.assertEqual(response.body, f"fetched http://far.test{path or '/'}".encode())
        for request in log:
            self.assertEqual(request.all("Proxy-Authorization"), [BASIC])
            self.assertEqual(request.get("X-Own"), "1")
        self.assertEqual(client.get("http://www.far.test:8080/").body, b"fetched http://www.far.test:8080/")
        self.assertEqual(proxy.connections, 2)  # one for each target

    def test_a_plain_request_with_a_body(self):
        log = []
        client = self.lab(self.upstream(connect_proxy(log=log))).client()
        client.request("POST http://far.test/form HTTP/1.1", body=b"x" * 100000)
        self.assertEqual(client.response().status, 200)
        self.assertEqual(log[0].body, b"x" * 100000)
        self.assertEqual(log[0].first_line, "POST http://far.test/form HTTP/1.1")

    def test_a_refusal_of_an_upstream_gateway_stays_one(self):
        refusal = reply(403, "no", headers=[("Proxy-Status", "srt-gateway; error=http_request_denied"), ("X-Proxy-Error", "x")])
        proxy = self.upstream(lambda talk: (talk.incoming(), talk.send(refusal)))
        response = self.lab(proxy).client().get("http://far.test/")
        self.assertEqual((response.status, response.get("X-Proxy-Error")), (403, "x"))
        self.assertEqual(response.all("Proxy-Status"), ["srt-gateway; error=http_request_denied"])

    def test_options_of_a_server_as_a_whole(self):
        log = []
        client = self.lab(self.upstream(connect_proxy(log=log))).client()
        client.request("OPTIONS http://far.test HTTP/1.1")
        self.assertEqual(client.response().status, 200)
        self.assertEqual(log[0].first_line, "OPTIONS http://far.test HTTP/1.1")

    def test_a_plain_request_by_a_socks_proxy_is_as_for_a_server(self):
        targets, requests = [], []

        def server(talk):
            while (request := talk.incoming()) is not None:
                requests.append(request)
                talk.send(reply(body="ok"))

        proxy = self.upstream(socks_proxy(targets, then=server))
        client = self.lab(proxy, scheme="socks5").client()
        for _ in range(2):
            self.assertEqual(client.get("http://far.test/a").body, b"ok")
        self.assertEqual(targets, [(1, 3, "far.test", 80)])
        self.assertEqual([request.first_line for request in requests], ["GET /a HTTP/1.1"] * 2)
        self.assertEqual(requests[0].get("Proxy-Authorization"), None)

    def test_a_kept_connection_that_died_is_made_again(self):
        def once(talk):
            talk.incoming()
            talk.send(reply(body="ok"))

        targets = []
        for scheme, script in (("http", once), ("socks5", socks_proxy(targets, then=once))):
            proxy = self.upstream(script)
            client = self.lab(proxy, scheme=scheme).client()
            for _ in range(3):
                self.assertEqual(client.get("http://far.test/").body, b"ok")
            self.assertEqual(proxy.connections, 3)
            self.gw.stop()

    def test_a_proxy_with_a_name(self):
        proxy = self.upstream(connect_proxy(), "proxy.test")
        more = f"[upstream named]\naddress = http://proxy.test:{proxy.port}\n"
        self.lab(proxy, policy="upstream = named\n", hosts=[proxy], more=more)
        self.gw.client().connect_to("far.test:7000").send(b"x").expect(b"x")

    def test_server_names_are_judged_all_the_same(self):
        proxy = self.upstream(connect_proxy(then=lambda talk: talk.read_all()))
        self.lab(proxy)
        good, evil = hello.recorded("far.test"), hello.recorded("evil.test")
        self.gw.client().connect_to("far.test:443").send(good)
        proxy.wait(lambda: proxy.received.endswith(good), "the hello")
        client = self.gw.client().connect_to("far.test:443").send(evil)
        self.assertTrue(hello.is_alert(client.read_all()))
        self.decision("sni-mismatch", "deny")
        self.assertNotIn(evil, proxy.received)


class OverTls(UpstreamCase):
    """The same with https://: every HTTP proxy is behind TLS."""

    def front(self, proxy, context=None, **how):
        context = context or self.authority().server("127.0.0.2", "127.0.0.3", "127.0.0.4")
        return self._own(TlsFront(proxy, context, **how))

    def lab(self, proxy, scheme="http", **parts):
        if scheme != "http":
            return super().lab(proxy, scheme=scheme, **parts)
        self.fronted = proxy if isinstance(proxy, TlsFront) else self.front(proxy)
        parts["policy"] = parts.get("policy", "upstream = secure\n")
        more = f"[upstream secure]\naddress = https://{self.fronted.literal}\nca-file = {self.authority().certificate}\n"
        if parts.get("credentials") is not None:
            more += f"credentials-file = {self.write('corp.secret', parts['credentials'])}\n"
        return super().lab(proxy, more=more + parts.pop("more", ""), **parts)

    def decision(self, *arguments, **named):
        record = super().decision(*arguments, **named)
        record["message"] = record["message"].replace("secure", "corp")
        return record


class CarriedOverTls(OverTls, Carried):
    def test_a_proxy_with_a_name(self):
        proxy = self.upstream(connect_proxy(), "proxy.test")
        front = self.front(proxy, self.authority().server("proxy.test"))
        self.lab(front, policy="upstream = named\n", hosts=[proxy],
                 more=f"[upstream named]\naddress = https://proxy.test:{front.port}\nca-file = {self.authority().certificate}\n")
        self.gw.client().connect_to("far.test:7000").send(b"x").expect(b"x")
        self.assertEqual((front.names, front.protocols), (["proxy.test"], ["http/1.1"]))

    def test_half_close_either_way(self):
        for late in (b"", b"late"):
            def reply_late(talk, late=late):
                heard = talk.read_all()
                talk.send(heard + late)

            self.lab(self.upstream(connect_proxy(then=reply_late)))
            client = self.gw.client().connect_to("far.test:7000").send(b"all of it").finish()
            client.expect(b"all of it" + late)
            client.expect_eof()
            self.gw.stop()
        heard = []

        def first(talk):
            talk.send(b"bye").finish()
            heard.append(talk.read_all())

        proxy = self.upstream(connect_proxy(then=first))
        self.lab(proxy)
        client = self.gw.client().connect_to("far.test:7000")
        client.expect(b"bye")
        client.expect_eof()
        client.send(b"still here").finish()
        proxy.wait(lambda: heard, "what was said afterwards")
        self.assertEqual(heard, [b"still here"])

    def test_an_end_without_close_notify_is_no_end(self):
        proxy = self.upstream(connect_proxy(then=lambda talk: talk.send(b"half")))
        self.lab(self.front(proxy, cuts=True))
        client = self.gw.client().connect_to("far.test:7000")
        client.expect(b"half")
        with self.assertRaises(OSError):
            client.sock.recv(1)

    def test_20_mb_both_ways_by_a_slow_reader(self):
        size = 20 << 20
        sent = (b"clear" + os.urandom((1 << 20) - 5)) * (size >> 20)  # no TLS hello
        self.lab(self.upstream(connect_proxy()))
        client = self.gw.client().connect_to("far.test:7000")

        def write():
            client.sock.sendall(sent)
            client.sock.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        heard = bytearray(client.buffer)
        while step := client.sock.recv(1 << 12 if len(heard) < 1 << 19 else 1 << 16):
            heard += step
        writer.join()
        self.assertEqual(len(heard), size)
        self.assertTrue(heard == sent, "other bytes than were sent")

    def test_a_download_nobody_reads_is_held_back(self):
        sent = [0]

        def flood(talk):
            while True:
                talk.send(b"x" * (64 << 10))
                sent[0] += 64 << 10

        self.lab(self.upstream(connect_proxy(then=flood)))
        client = self.gw.client().connect_to("far.test:7000")
        client.sock.recv(1)
        before, seen = self.gw.rss_kib(), -1
        while seen != sent[0]:
            seen = sent[0]
            select.select([], [], [], 0.3)
        self.assertLess(sent[0], 64 << 20)
        self.assertLess(self.gw.rss_kib() - before, 16 << 10)

    def test_abandoned_in_every_state_everything_comes_back(self):
        deaf = self.upstream(lambda talk: talk.read_all())  # takes the hello and says nothing
        proxy = self.upstream(connect_proxy())
        mute = self.upstream(connect_proxy(b""))
        ca = f"ca-file = {self.authority().certificate}\n"
        self.lab(proxy, allow=["far.test:*", "deaf.test:* via=deaf", "mute.test:* via=mute"],
                 more=f"[upstream deaf]\naddress = https://{deaf.literal}\n{ca}"
                      f"[upstream mute]\naddress = https://{self.front(mute).literal}\n{ca}")
        self.gw.client().connect_to("far.test:7000").send(b"x").expect(b"x").close()
        self.gw.wait_for_descriptors(before := self.gw.descriptors())
        for round_number in range(10):
            clients = []
            for host in ("deaf", "mute"):
                client = self.gw.client()
                client.request(f"CONNECT {host}.test:1 HTTP/1.1")
                clients.append(client)
            for last in (lambda client: client.finish(), lambda client: client.send(b"y" * 300000), lambda client: None,
                         lambda client: client.reset()):
                client = self.gw.client().connect_to("far.test:7000")
                last(client)
                clients.append(client)
            deaf.wait_for_connections(round_number + 1)
            mute.wait_for_connections(round_number + 1)
            for number, client in enumerate(clients):
                (client.reset if number % 2 and client.sock.fileno() >= 0 else client.close)()
        self.gw.wait_for_descriptors(before)


class Certificates(OverTls):
    def refused(self, words, context=None, ca=True, name="proxy.test"):
        proxy = self.upstream(connect_proxy(), name)
        front = self.front(proxy, context) if context is not None else proxy
        if os.path.exists(self.path("audit.jsonl")):
            os.remove(self.path("audit.jsonl"))
        more = f"[upstream corp]\naddress = https://{name}:{front.port}\n"
        if ca:
            more += f"ca-file = {self.authority().certificate}\n"
        self.gw = self.gateway(allow=["far.test:*"], policy="upstream = corp\n", hosts=[proxy], more=more)
        for ask in (lambda client: (client.request("CONNECT far.test:443 HTTP/1.1"), client.response())[1],
                    lambda client: client.get("http://far.test/")):
            body = self.assert_refused(ask(self.gw.client()), 502, "bad-response")
            self.assertIn("upstream proxy corp, which failed the TLS handshake: ", body["message"])
            self.assertIn(words, body["message"])
        if context is not None:
            self.assertEqual(proxy.connections, 0)
        self.gw.stop()

    def test_who_is_not_believed_hears_nothing(self):
        authority = self.authority()
        self.refused("unable to get local issuer", authority.server("proxy.test"), ca=False)
        self.refused("hostname mismatch", authority.server("other.test"))
        self.refused("hostname mismatch", authority.server("*.proxy.test"))
        self.refused("expired", authority.server("proxy.test", days=-1))
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(*authority.self_signed("proxy.test"))
        self.refused("self-signed", own)

    def test_an_address_has_to_be_in_the_certificate(self):
        proxy = self.upstream(connect_proxy())
        self.lab(self.front(proxy, self.authority().server("proxy.test")))
        client = self.gw.client()
        client.request("CONNECT far.test:443 HTTP/1.1")
        self.assertIn("IP address mismatch", self.assert_refused(client.response(), 502, "bad-response")["message"])
        self.assert_untouched(proxy)

    def test_old_versions_are_not_spoken(self):
        old = self.authority().server("proxy.test")
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # python's own, that one should not
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        self.refused("version", old)

    def test_1_2_is_spoken(self):
        context = self.authority().server("127.0.0.2")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.lab(self.front(self.upstream(connect_proxy()), context))
        self.gw.client().connect_to("far.test:7000").send(b"x" * 100000).expect(b"x" * 100000)

    def test_one_who_speaks_no_tls(self):
        proxy = self.upstream(lambda talk: talk.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        self.lab_in_clear(proxy, "wrong version number")
        self.lab_in_clear(self.upstream(lambda talk: talk.read_exactly(1)), "")

    def lab_in_clear(self, proxy, words):
        gateway = UpstreamCase.lab(self, proxy, scheme="https")
        client = gateway.client()
        client.request("CONNECT far.test:443 HTTP/1.1")
        body = self.assert_refused(client.response(), 502, "bad-response")
        self.assertIn("failed the TLS handshake: " + words, body["message"])
        gateway.stop()

    def test_a_silent_one(self):
        UpstreamCase.lab(self, self.upstream(lambda talk: talk.read_all()), scheme="https", gateway="connect-timeout = 1s")
        client = self.gw.client()
        client.request("CONNECT far.test:443 HTTP/1.1")
        body = self.assert_refused(client.response(), 504, "connect-timeout")
        self.assertIn("upstream proxy corp, which did not answer in time", body["message"])


class Routes(UpstreamCase):
    def test_what_is_denied_never_gets_there(self):
        proxy = self.upstream(connect_proxy())
        gateway = self.lab(proxy, deny=["bad.far.test"])
        for target in ("evil.test:443", "bad.far.test:443"):
            client = gateway.client()
            client.request(f"CONNECT {target} HTTP/1.1")
            self.assertEqual(client.response().status, 403)
            self.assertEqual(gateway.client().get(f"http://{target}/").status, 403)
        self.assert_untouched(proxy)

    def test_rules_choose(self):
        near = self.origin("near.test", reply(body="near"))
        corp, other = self.upstream(connect_proxy()), self.upstream(connect_proxy())
        gateway = self.lab(
            corp, allow=[f"{near.authority} via=direct", "a.far.test via=other", "b.far.test"], hosts=[near],
            more=f"[upstream other]\naddress = http://{other.literal}\n")
        self.assertEqual(gateway.client().get(f"http://{near.authority}/").body, b"near")
        self.assert_untouched(corp, other)
        gateway.client().connect_to("a.far.test:443")
        self.assertEqual((corp.connections, other.connections), (0, 1))
        gateway.client().connect_to("b.far.test:443")
        self.assertEqual((corp.connections, other.connections), (1, 1))

    def test_loopback_is_never_asked_for_upstream(self):
        proxy = self.upstream(connect_proxy())
        here = self.origin(None, reply(body="here"))
        gateway = self.lab(proxy, allow=[here.literal, "localhost:*"])
        self.assertEqual(gateway.client().get(f"http://{here.literal}/").body, b"here")
        client = gateway.client()
        client.request("CONNECT localhost:1 HTTP/1.1")
        self.assertEqual(client.response().status, 502)
        self.assert_untouched(proxy)

    def test_literals_are_vetted_here(self):
        log = []
        proxy = self.upstream(socks_proxy(log))
        self.lab(proxy, scheme="socks5", allow=["10.0.0.0/8:80", "169.254.169.254/31:80", "[2606:4700::1]:443", "8.8.8.8:443"])
        for literal in ("10.1.2.3:80", "169.254.169.254:80"):
            client = self.gw.client()
            client.request(f"CONNECT {literal} HTTP/1.1")
            self.assert_refused(client.response(), 403, "address-denied")
        self.assert_untouched(proxy)
        self.gw.client().connect_to("8.8.8.8:443").send(b"x").expect(b"x")
        self.gw.client().connect_to("[2606:4700::1]:443").send(b"x").expect(b"x")
        self.assertEqual(log, [(1, 1, "8.8.8.8", 443), (1, 4, "2606:4700::1", 443)])

    def test_it_is_not_us(self):
        gateway = self.gateway(allow=["far.test:*"], policy="upstream = us\n",
                               more="[upstream us]\naddress = http://127.0.0.1:1\n")
        bound = gateway.addresses["main"]
        gateway.reload(self.read(gateway.config_path).replace("127.0.0.1:1\n", bound + "\n"))
        client = gateway.client()
        client.request("CONNECT far.test:443 HTTP/1.1")
        body = self.assert_refused(client.response(), 403, "loop")
        self.assertIn("us", body["message"])

    def test_a_reload_counts_for_the_next_request(self):
        one, two = self.upstream(connect_proxy()), self.upstream(connect_proxy())
        gateway = self.lab(one)
        tunnel = gateway.client().connect_to("far.test:7000")
        client = gateway.client()
        self.assertEqual(client.get("http://far.test/").status, 200)
        gateway.reload(self.read(gateway.config_path).replace(one.literal, two.literal))
        self.assertEqual(client.get("http://far.test/").status, 200)
        self.assertEqual((one.connections, two.connections), (2, 1))
        tunnel.send(b"still").expect(b"still")


class Failures(UpstreamCase):
    def fails(self, proxy_script, status, reason, words, scheme="http", credentials=None, front="connect"):
        near = self.origin("far.test", reply(body="never"))
        proxy = self.upstream(proxy_script)
        self.lab(proxy, scheme=scheme, hosts=[near], credentials=credentials, gateway="connect-timeout = 1s")
        client = self.gw.client()
        if front == "connect":
            client.request(f"CONNECT far.test:{near.port} HTTP/1.1")
        else:
            client.request(f"GET http://far.test:{near.port}/ HTTP/1.1")
        body = self.assert_refused(client.response(), status, reason)
        self.assertIn("corp", body["message"])
        self.assertIn(words, body["message"])
        self.assertEqual(self.decision(reason, "deny")["message"], body["message"])
        self.assert_untouched(near)
        self.gw.stop()

    def test_an_http_proxy_that_says_no(self):
        for status in (301, 400, 403, 407, 500, 502, 503):
            for how in whole_and_dribbled(self):
                answer = f"HTTP/1.1 {status} No\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno".encode()
                self.fails(connect_proxy(answer, how), 502, "bad-response", f"answered {status}")

    def test_an_http_proxy_that_talks_nonsense(self):
        for answer in (b"SSH-2.0-x\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4000 + b"\r\n", b"\x05\x00"):
            self.fails(connect_proxy(answer), 502, "bad-response", "not proper HTTP")

    def test_a_proxy_that_ends(self):
        for answer in (b"", b"HTTP/1.1 20"):
            self.fails(connect_proxy(answer), 502, "bad-response", "closed the connection")
        self.fails(lambda talk: talk.read_exactly(1), 502, "bad-response", "closed", scheme="socks5")

    def test_a_proxy_that_is_silent(self):
        self.fails(lambda talk: talk.read_all(), 504, "connect-timeout", "did not answer in time")
        self.fails(lambda talk: talk.read_all(), 504, "connect-timeout", "did not answer in time", scheme="socks5")

    def test_a_proxy_that_is_not_there(self):
        near = self.origin("far.test", reply(body="never"))
        port = self.closed_port()
        gateway = self.gateway(allow=["far.test:*"], hosts=[near], policy="upstream = corp\n",
                               more=f"[upstream corp]\naddress = http://127.0.0.2:{port}\n")
        client = gateway.client()
        client.request(f"CONNECT {near.authority} HTTP/1.1")
        body = self.assert_refused(client.response(), 502, "connect-refused")
        self.assertIn("corp", body["message"])
        body = self.assert_refused(gateway.client().get(f"http://{near.authority}/"), 502, "connect-refused")
        self.assertIn("corp", body["message"])
        self.assertEqual(gateway.client().socks(b"far.test", near.port)[0], 5)
        self.assert_untouched(near)

    def test_a_proxy_whose_name_is_unknown(self):
        gateway = self.gateway(allow=["far.test:*"], policy="upstream = corp\n", dns="timeout = 200ms\ntries = 1\n",
                               more="[upstream corp]\naddress = http://proxy.test:3128\n")
        client = gateway.client()
        client.request("CONNECT far.test:443 HTTP/1.1")
        response = client.response()
        self.assertIn(response.status, (502, 504))
        self.assertIn(b"corp", response.body)

    def test_socks_replies(self):
        for code, status, reason, words in ((1, 502, "bad-response", "did not open"), (2, 502, "bad-response", "not allow"),
                                            (4, 502, "connect-unreachable", "unreachable"),
                                            (5, 502, "connect-refused", "refused"), (6, 504, "connect-timeout", "did not answer")):
            self.fails(socks_proxy([], code), status, reason, words, scheme="socks5")
        self.fails(socks_proxy([], credentials="a:b"), 502, "bad-response", "wants credentials", scheme="socks5")
        self.fails(socks_proxy([], credentials="a:b"), 502, "bad-response", "our credentials", scheme="socks5", credentials="a:c")
        self.fails(lambda talk: talk.send(b"HTTP/1.1 400 no\r\n\r\n"), 502, "bad-response", "not SOCKS5", scheme="socks5")

    def test_407_to_a_plain_request_is_not_the_clients(self):
        self.fails(lambda talk: (talk.incoming(), talk.send(reply(407))),
                   502, "bad-response", "answered 407", front="http")


class Configuration(UpstreamCase):
    def test_explain_names_the_upstream(self):
        path = self.write("explained.ini", self.config(
            allow=["far.test:*", "near.test via=direct", "10.0.0.1:80", "localhost:80"], policy="upstream = corp\n",
            more="[upstream corp]\naddress = http://proxy.test:3128\n"))
        for target, message in (("far.test:443", "by the upstream proxy corp"), ("http://far.test/x", "by the upstream proxy corp"),
                                ("10.0.0.1:80", "by the upstream proxy corp"), ("near.test:443", None), ("localhost:80", None)):
            said = json.loads(self.tool("explain", "-c", path, "--json", target)[0])
            self.assertEqual((said["verdict"], said["message"]), ("allow", message), target)
        # A name that is resolved upstream has no address here that could be judged.
        said = json.loads(self.tool("explain", "-c", path, "--json", "--addr", "169.254.169.254", "far.test:443")[0])
        self.assertEqual((said["verdict"], said["addr"]), ("allow", None))
        said = json.loads(self.tool("explain", "-c", path, "--json", "--addr", "169.254.169.254", "near.test:443", status=1)[0])
        self.assertEqual(said["reason"], "address-denied")
        pretty, slave = os.openpty()
        subprocess.run([lab_gateway.binary(), "explain", "-c", path, "far.test:443"], stdout=slave, check=True,
                       env=lab_gateway.environment(), timeout=60)
        os.close(slave)
        self.assertRegex(os.read(pretty, 4096).decode(), r"(?m)^upstream +corp\r?$")
        os.close(pretty)

    def test_check_warns_of_denials_that_cannot_be_kept(self):
        path = self.write("warned.ini", "[policy p]\nupstream = corp\ndeny-addresses = 10.0.0.0/8\nallow = far.test\n"
                                        "[upstream corp]\naddress = http://proxy.test:3128\n")
        self.assertIn("[policy p] goes by the upstream corp", self.tool("check", "-c", path)[1])

    def test_faults_have_a_place(self):
        good = "[upstream corp]\naddress = http://proxy.test:3128\n"
        for text, said in (
            ("[policy p]\nallow = a.test via=crop\n" + good, "there is no [upstream crop]; did you mean `corp`?"),
            ("[policy p]\nupstream = crop\n" + good, "upstream: there is no [upstream crop]; did you mean `corp`?"),
            ("[policy p]\nallow = a.test via=corp to=10.0.0.0/8\n" + good, "to= cannot be kept"),
            ("[policy p]\nupstream = corp\nallow = a.test to=10.0.0.0/8\n" + good, "add via=direct"),
            ("[policy p]\ndeny = a.test via=corp\n" + good, "via= has no meaning in a deny rule"),
            ("[upstream corp]\n", "[upstream corp] has no address"),
            ("[upstream direct]\naddress = http://a.test:1\n", "via=direct"),
            ("[upstream corp]\naddress = https://a.test\n", "the port is missing"),
            ("[upstream corp]\naddress = https://a.test:1\nca-file = bad.ini\n", "no certificate"),
            (good + "ca-file = bad.ini\n", "only an https:// upstream"),
            ("[upstream corp]\naddress = http://a.test\n", "the port is missing"),
            ("[upstream corp]\naddress = http://user:hunter2@a.test:1\n", "credentials-file"),
        ):
            with self.subTest(text=text):
                path = self.write("bad.ini", text)
                err = self.tool_says("check", "-c", path)
                self.assertIn(said, err)
                self.assertRegex(err, r"bad\.ini:\d+: ")
                self.assertNotIn("hunter2", err)

    def tool_says(self, *arguments):
        done = subprocess.run([lab_gateway.binary(), *arguments], capture_output=True, env=lab_gateway.environment(),
                              cwd=self.directory, timeout=60, check=False)
        self.assertEqual(done.returncode, 78)
        return done.stderr.decode()


ASK = """
import http.client, sys
for url in sys.argv[1:]:
    scheme, host = url.split("://")
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
    if scheme == "tunnel":
        host, port = host.split(":")
        connection.set_tunnel(host, int(port))
        path = "/"
    else:
        path = "http://" + host + "/"
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        print(url, response.status, response.read().decode().strip())
    except OSError as error:
        print(url, error)
"""


class PrivateGateway(LaunchCase):
    """What `srt` does with HTTP_PROXY and network.parentProxy."""

    def serve(self, log):
        def fetch(talk):
            while (request := talk.incoming()) is not None:
                talk.send(reply(body="by tunnel"))

        return self.upstream(connect_proxy(then=fetch, log=log))

    def ask(self, *urls, env=None, allow=("far.test",), **network):
        script = self.write("work/ask.py", ASK)
        settings = self.settings(allow=list(allow), network=network)
        done = self.launch("-s", settings, "--", "/usr/bin/env", "HTTPS_PROXY=http://127.0.0.1:9", "python3", script, *urls, env=env)
        self.assertEqual(done.status, 0, done)
        return dict(line.split(" ", 1) for line in done.out.splitlines())

    def test_N17_allowed_goes_by_the_parent_and_denied_never(self):
        log = []
        parent = self.serve(log)
        url = f"http://me:s%40cret@{parent.literal}"
        said = self.ask("tunnel://far.test:443", "http://far.test", "tunnel://evil.test:443", "http://evil.test",
                        env={"HTTPS_PROXY": url, "HTTP_PROXY": url})
        self.assertEqual(said["tunnel://far.test:443"], "200 by tunnel")
        self.assertEqual(said["http://far.test"], "200 fetched http://far.test/")
        self.assertIn("403", said["tunnel://evil.test:443"])
        self.assertTrue(said["http://evil.test"].startswith("403"), said)
        self.assertEqual([request.first_line for request in log],
                         ["CONNECT far.test:443 HTTP/1.1", "GET http://far.test/ HTTP/1.1"])
        for request in log:
            self.assertEqual(request.get("Proxy-Authorization"), "Basic " + base64.b64encode(b"me:s@cret").decode())

    def test_N17_the_parent_may_speak_tls(self):
        log = []
        parent = self._own(TlsFront(self.serve(log), self.authority().server("127.0.0.2")))
        said = self.ask("tunnel://far.test:443", env={"HTTPS_PROXY": f"https://{parent.literal}",
                                                      "SSL_CERT_FILE": self.authority().certificate})
        self.assertEqual((said["tunnel://far.test:443"], len(log)), ("200 by tunnel", 1))
        said = self.ask("tunnel://far.test:443", env={"HTTPS_PROXY": f"https://{parent.literal}"})
        self.assertIn("502", said["tunnel://far.test:443"])
        self.assertEqual(len(log), 1)

    def test_N17_settings_beat_the_environment(self):
        log, wrong = [], []
        parent, other = self.serve(log), self.serve(wrong)
        said = self.ask("tunnel://far.test:443", env={"HTTPS_PROXY": f"http://{other.literal}"},
                        parentProxy={"http": f"http://{parent.literal}", "https": parent.literal})
        self.assertEqual(said["tunnel://far.test:443"], "200 by tunnel")
        self.assert_untouched(other)

    def test_N17_https_falls_back_to_http_but_not_the_other_way(self):
        log = []
        parent = self.serve(log)
        self.ask("tunnel://far.test:443", env={"http_proxy": f"http://{parent.literal}"})
        self.assertEqual(len(log), 1)
        said = self.ask("http://far.test", env={"https_proxy": f"http://{parent.literal}"})
        self.assertEqual(len(log), 1)
        self.assertTrue(said["http://far.test"].startswith("50"), said)

    def test_N17_no_proxy_and_loopback_are_dialled(self):
        log = []
        parent = self.serve(log)
        here = self.origin(None, reply(body="here"))
        for no_proxy in ("*", "other.test,.far.test", "far.test:443"):
            said = self.ask("http://far.test", f"http://{here.literal}", allow=["far.test", here.literal],
                            env={"HTTP_PROXY": f"http://{parent.literal}", "NO_PROXY": no_proxy})
            self.assertTrue(said["http://far.test"].startswith("50"), said)
            self.assertEqual(said[f"http://{here.literal}"], "200 here")
        self.assert_untouched(parent)

    def test_what_is_no_proxy_address_is_an_error_not_a_direct_way(self):
        for env, network, said in (({"HTTPS_PROXY": "ftp://user:hunter2@a.test"}, {}, "HTTPS_PROXY"),
                                   ({}, {"parentProxy": {"http": "ftp://hunter2@a.test"}}, "parentProxy.http")):
            settings = self.settings(allow=["far.test"], network=network)
            done = self.launch("-s", settings, "--", "true", env=env)
            self.assertEqual(done.status, 125, done)
            self.assertIn(said, done.err)
            self.assertNotIn("hunter2", done.err)

    def test_a_password_in_the_settings_stays_outside(self):
        for url, readable in (("http://a.test:1", True), ("http://me:hunter2@a.test:1", False)):
            settings = self.settings(allow=["far.test"], network={"parentProxy": {"https": url}})
            done = self.launch("-s", settings, "--", "sh", "-c", 'cat "$1"; env', "sh", settings,
                               env={"ALL_PROXY": "http://me:hunter2@b.test:1"})
            self.assertEqual("parentProxy" in done.out, readable, done)
            self.assertNotIn("hunter2", done.out)

    def test_on_a_shared_gateway_the_operator_chooses(self):
        parent = self.serve([])
        gateway = self.shared_gateway(allow=["far.test"])
        settings = self.settings(allow=["far.test"], network={"parentProxy": {"http": f"http://{parent.literal}"}})
        done = self.launch("-s", settings, "--gateway", gateway.control, "--", "true")
        self.assertEqual(done.status, 125, done)
        self.assertIn("parentProxy", done.err)


if __name__ == "__main__":
    main()
