"""HTTP/1.1 through the gateway: framing, forwarding, refusals (area gateway-http)."""

import hashlib
import json
import os
import select
import signal
import socket
import threading

from lab import Closed, LabCase, main, reply, whole_and_dribbled
from lab.talk import PATIENCE_S

# AddressSanitizer keeps what was freed; where memory is measured it must not be taken for a leak.
SMALL_QUARANTINE = ["env", "ASAN_OPTIONS=quarantine_size_mb=1:thread_local_quarantine_size_kb=64"]
PATTERN = (b"clear" + os.urandom(4091)) * 256  # 1 MiB that no shift maps onto itself, and that is no TLS hello


class HttpCase(LabCase):
    def lab(self, answer=None, **more):
        """One allowed origin `good.test`, and a gateway in front of it."""
        self.good = self.origin("good.test", answer)
        self.gw = self.gateway(allow=[self.good.authority], hosts=[self.good], **more)
        self.url = f"http://{self.good.authority}"
        return self.gw

    def lab_upstream(self, script, **more):
        """The same with a scripted upstream."""
        self.good = self.upstream(script, "good.test")
        self.gw = self.gateway(allow=[self.good.authority], hosts=[self.good], **more)
        self.url = f"http://{self.good.authority}"
        return self.gw

    def answer_to(self, data, how="send", to_method="GET"):
        client = self.gw.client()
        getattr(client, how)(data)
        return client.response(to_method)

    def refused_each(self, requests, statuses=(400,)):
        """Each of these is refused, whole and byte by byte, and nothing of it reaches the origin."""
        for data in requests:
            for how in whole_and_dribbled(self):
                with self.subTest(data=data[:120]):
                    response = self.answer_to(data, how)
                    self.assertIn(response.status, statuses, response)
        self.assert_untouched(self.good)

    def head(self, *lines, method="POST", body=""):
        authority = self.good.authority
        return "\r\n".join([f"{method} http://{authority}/x HTTP/1.1", f"Host: {authority}", *lines]) + "\r\n\r\n" + body


class Requests(HttpCase):
    def test_H01_each_request_on_one_connection_is_judged_by_itself(self):
        a, b = self.origin("a.test"), self.origin("b.test")
        gw = self.gateway(allow=[a.authority, b.authority], hosts=[a, b])
        with gw.client() as client:
            first = client.get(f"http://{a.authority}/1")
            self.assertEqual(first.body, b"GET /1 at a.test")
            self.assert_refused(client.get("http://evil.test/2"), 403, "not-allowed")
            self.assertEqual(client.get(f"http://{b.authority}/3").body, b"GET /3 at b.test")
        self.assertEqual([request.target for request in a.requests], ["/1"])
        self.assertEqual([request.target for request in b.requests], ["/3"])
        for host, verdict in (("a.test", "allow"), ("evil.test", "deny"), ("b.test", "allow")):
            self.assertEqual(gw.decision(host)["verdict"], verdict)
        self.assertEqual(len(gw.records("decision")), 3)

    def test_H02_the_target_decides_and_the_clients_host_never_reaches_the_origin(self):
        self.lab()
        for how in whole_and_dribbled(self):
            with self.gw.client() as client:
                response = client.get(self.url + "/", [("Host", "evil.test")], how=how)
            if response.status == 200:
                self.assertEqual(self.good.requests[-1].all("Host"), [self.good.authority])
                self.assertEqual(self.gw.decision()["host"], "good.test")
            else:
                self.assertEqual(response.status, 400)
        seen = len(self.good.requests)
        denied = self.gw.get("http://evil.test/", [("Host", self.good.authority)])
        self.assert_refused(denied, 403, "not-allowed")
        self.assertEqual(len(self.good.requests), seen)

    def test_H04_content_length_beside_transfer_encoding_is_refused(self):
        self.lab()
        smuggled = f"0\r\n\r\nGET http://{self.good.authority}/smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
        self.refused_each([self.head("Content-Length: 5", "Transfer-Encoding: chunked", body=smuggled),
                           self.head("Transfer-Encoding: chunked", "Content-Length: 5", body=smuggled)])

    def test_H04_the_connection_ends_after_an_unclear_frame(self):
        self.lab()
        client = self.gw.client()
        client.send(self.head("Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"))
        client.send(self.head(method="GET"))
        self.assertEqual(client.response().status, 400)
        client.expect_eof()
        self.assert_untouched(self.good)

    def test_H05_different_lengths_are_refused(self):
        self.lab()
        self.refused_each([self.head("Content-Length: 3", "Content-Length: 10", body="abcdefghij"),
                           self.head("Content-Length: 3, 10", body="abcdefghij"),
                           self.head("Content-Length: 3", "content-length: 4", body="abcd")])

    def test_H05_equal_lengths_are_one_or_none(self):
        self.lab()
        for lines in (["Content-Length: 3, 3"], ["Content-Length: 3", "Content-Length: 3"]):
            response = self.answer_to(self.head(*lines, body="abc"))
            self.assertIn(response.status, (200, 400))
        for request in self.good.requests:
            self.assertEqual((request.all("Content-Length"), request.body), (["3"], b"abc"))

    def test_H06_space_before_the_colon_is_refused(self):
        self.lab()
        self.refused_each([self.head("Content-Length : 5", "Content-Length: 0", body="abcde"),
                           self.head("Content-Length : 5", body="abcde"),
                           self.head("Transfer-Encoding\t: chunked", "Content-Length: 5", body="0\r\n\r\n")])

    def test_H07_only_chunked_itself_is_a_transfer_coding(self):
        self.lab()
        body = "3\r\nabc\r\n0\r\n\r\n"
        for coding in ("chunked", "Chunked", "CHUNKED"):
            self.assertEqual(self.answer_to(self.head(f"Transfer-Encoding: {coding}", body=body)).status, 200)
        self.assertEqual([request.body for request in self.good.requests], [b"abc"] * 3)
        smuggled = body + self.head(method="GET")
        for coding in ("chunked,", "chunked, gzip", "gzip, chunked", "x chunked", "chunked;q=1", "xchunked",
                       "identity", "", "chunked, chunked", "\"chunked\"", "chunk\x0bed", "chunked\x00"):
            with self.subTest(coding=coding):
                response = self.answer_to(self.head(f"Transfer-Encoding: {coding}", body=smuggled))
                self.assertIn(response.status, (400, 501))
        twice = self.head("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", body=smuggled)
        self.assertIn(self.answer_to(twice).status, (400, 501))
        self.assertEqual(len(self.good.requests), 3)

    def test_H08_an_empty_header_name_is_refused(self):
        self.lab()
        self.refused_each([self.head(": x", "Content-Length: 5", body="abcde"),
                           self.head(":", method="GET")])

    def test_H09_lengths_that_are_no_plain_number_are_refused(self):
        self.lab()
        self.refused_each([self.head(f"Content-Length: {value}", body="abcde") for value in
                           ("", "+5", "-1", "0x5", "5 5", "5,", ",5", "9" * 30, "18446744073709551621", "5\x0b",
                            "5;", "５".encode().decode("latin-1"))])

    def test_H10_odd_chunks_of_a_request_never_reach_the_origin_whole(self):
        self.lab()
        for chunks in ("3\nabc\n0\n\n", "0x3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "-1\r\nabc\r\n0\r\n\r\n",
                       "00000000000000003\r\nabc\r\n0\r\n\r\n", "10000000000000003\r\nabc\r\n0\r\n\r\n",
                       "ffffffffffffffff\r\nabc\r\n0\r\n\r\n", "8000000000000003\r\nabc\r\n0\r\n\r\n",
                       " 3\r\nabc\r\n0\r\n\r\n", "3;a\n=b\r\nabc\r\n0\r\n\r\n", "3\r\nabc0\r\n\r\n",
                       "3\r\nabcX\r\n0\r\n\r\n", "\r\n3\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\nz\r\n\r\n",
                       "3;\x00\r\nabc\r\n0\r\n\r\n"):
            for how in whole_and_dribbled(self):
                with self.subTest(chunks=chunks):
                    before = len(self.good.requests)
                    response = self.answer_to(self.head("Transfer-Encoding: chunked", body=chunks), how)
                    if chunks.startswith("0000") and response.status == 200:
                        self.assertEqual(self.good.requests[-1].body, b"abc")
                        continue  # leading zeros have one meaning only
                    self.assertEqual((response.status, response.get("Connection")), (400, "close"), response)
                    self.assertEqual(len(self.good.requests), before)

    def test_H10_odd_chunks_of_a_response_never_look_complete(self):
        odd = iter(["3\nabc\n0\n\n", "0x3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", " 3\r\nabc\r\n0\r\n\r\n",
                    "10000000000000003\r\nabc\r\n0\r\n\r\n", "3\r\nabcX\r\n0\r\n\r\n", "3\r\nabc"])
        current = []

        def answer(_):
            current[:] = [next(odd)]
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + current[0].encode()

        def answer_and_end(talk):
            if talk.incoming():
                talk.send(answer(None))

        self.lab_upstream(answer_and_end)
        for _ in range(7):
            with self.gw.client() as client:
                client.request(f"GET {self.url}/ HTTP/1.1")
                try:
                    response = client.response()
                except (Closed, ConnectionResetError):
                    continue  # cut short: the client can tell
                with self.subTest(chunks=current[0]):
                    self.assertEqual(response.status, 502, response)

    def test_H11_connection_cannot_nominate_framing_or_host_away(self):
        self.lab()
        response = self.answer_to(self.head(
            "Connection: connection, proxy-connection, host, content-length, x-a, , transfer-encoding",
            "Proxy-Connection: keep-alive", "X-A: 1", "X-B: 2", "Content-Length: 3", "Keep-Alive: timeout=5",
            "TE: trailers", "Proxy-Authorization: Basic c2VjcmV0OnNlY3JldA==", body="abc"))
        if response.status == 400:
            self.assert_untouched(self.good)
            return
        self.assertEqual(response.status, 200)
        request = self.good.requests[0]
        self.assertEqual(request.all("Host"), [self.good.authority])
        self.assertEqual((request.get("Content-Length"), request.body), ("3", b"abc"))
        self.assertEqual(request.get("X-B"), "2")
        for name in ("X-A", "Proxy-Connection", "Keep-Alive", "Proxy-Authorization"):
            self.assertEqual(request.all(name), [], name)

    def test_hop_by_hop_fields_of_a_response_stay_here(self):
        self.lab(lambda request: reply(body="x", headers=[
            ("Connection", "x-hop, keep-alive"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"),
            ("Proxy-Authenticate", "Basic realm=x"), ("X-End", "2")]))
        response = self.gw.get(self.url + "/")
        self.assertEqual((response.status, response.get("X-End"), response.body), (200, "2", b"x"))
        for name in ("X-Hop", "Keep-Alive"):
            self.assertEqual(response.all(name), [], name)

    def test_H13_request_lines_that_are_none(self):
        self.lab()
        self.refused_each([" http://x/ HTTP/1.1\r\n\r\n", "GET\r\n\r\n", " " * 8192 + "\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                           "GET http://good.test/\r\n\r\n", "G@T http://good.test/ HTTP/1.1\r\n\r\n",
                           "GET http://good.test/ HTTP/1.1 x\r\nHost: good.test\r\n\r\n",
                           "GET http://good.test/ http/1.1\r\nHost: good.test\r\n\r\n",
                           "GET\thttp://good.test/\tHTTP/1.1\r\nHost: good.test\r\n\r\n"], (400, 505))

    def test_H13_a_refusal_echoes_nothing_that_was_not_parsed(self):
        self.lab()
        response = self.answer_to(" SECRETMARKER http://x/ HTTP/1.1\r\n\r\n")
        body = self.assert_refused(response, 400, "bad-request")
        self.assertEqual(body["error"], "failed")
        self.assertNotIn("SECRETMARKER", response.body.decode() + response.raw_head.decode("latin-1"))
        self.assertIsNone(response.get("X-Proxy-Error"))

    def test_an_empty_line_before_a_request_is_forgiven_or_refused(self):
        self.lab()
        self.assertIn(self.answer_to("\r\n" + self.head(method="GET")).status, (200, 400))

    def test_odd_bytes_in_a_head_are_refused(self):
        self.lab()
        self.refused_each([self.head("X: a\x00b", method="GET"), self.head("X: a\rb", method="GET"),
                           self.head("X: a\r\n folded", method="GET"), self.head("X a", method="GET"),
                           self.head("X\x00: a", method="GET"), self.head("X(: a", method="GET"),
                           self.head("X: a\x7fb", method="GET").replace("\x7f", "\x01")])

    def test_hosts_that_are_several_or_invalid_are_refused(self):
        self.lab()
        authority = self.good.authority
        line = f"GET http://{authority}/ HTTP/1.1\r\n"
        self.refused_each([line + f"Host: {authority}\r\nHost: {authority}\r\n\r\n",
                           line + "Host: a b\r\n\r\n", line + "Host: user@good.test\r\n\r\n", line + "\r\n"])

    def test_H28_http2_is_refused_by_status(self):
        self.lab()
        for how in whole_and_dribbled(self):
            client = self.gw.client()
            getattr(client, how)("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            self.assertIn(client.response().status, (400, 505))
            client.expect_eof()

    def test_H28_an_upgrade_to_h2c_is_not_passed_on(self):
        self.lab()
        response = self.answer_to(self.head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                                            "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", method="GET"))
        self.assertEqual(response.status, 200)
        self.assertEqual(self.good.requests[0].all("HTTP2-Settings"), [])
        self.assertEqual(self.good.requests[0].all("Upgrade"), [])

    def test_H29_https_in_clear_is_not_carried(self):
        self.lab()
        response = self.gw.get(f"https://{self.good.authority}/")
        body = self.assert_refused(response, 501, "unsupported")
        self.assertIn("CONNECT", body["message"] + body["next_step"])
        self.assert_untouched(self.good)

    def test_H31_userinfo_and_look_alikes_are_refused_before_any_look_up(self):
        names = self.name_server({})
        self.good = self.origin("good.test")
        self.gw = self.gateway(allow=["good.test", "*.test"], names=names)
        targets = ["http://good.test@evil.test/", "http://evil.test@good.test/", "http://evil.test#@good.test/",
                   "http://good.test\\@evil.test/", "http://good.test\\.evil.test/", "http://good.test:80:80/",
                   "http://good.test%00.evil.test/", "http://good%2etest/", "http:///x", "http://good.test:x/",
                   "http://:80/", "http://good.test;evil.test/", "http:/good.test/", "ftp://good.test/",
                   "http://[good.test]/", "http://good.test/#fragment", "//good.test/", "http://us:er@good.test/",
                   "http://good..test/", "http://-/\x7f"]
        for target in targets:
            for how in whole_and_dribbled(self):
                with self.subTest(target=target):
                    response = self.answer_to(f"GET {target} HTTP/1.1\r\nHost: good.test\r\n\r\n", how)
                    self.assertIn(response.status, (400, 501) if target.startswith("ftp") else (400,), response)
        self.assertEqual(names.questions, [])

    def test_origin_form_to_the_proxy_is_no_request_for_anybody(self):
        self.lab()
        response = self.answer_to(f"GET /x HTTP/1.1\r\nHost: {self.good.authority}\r\n\r\n")
        self.assertEqual(response.status, 400)
        self.assert_untouched(self.good)

    def test_H32_options_and_trace_for_the_proxy_itself(self):
        self.lab()
        response = self.answer_to("OPTIONS * HTTP/1.1\r\nHost: good.test\r\n\r\n", to_method="OPTIONS")
        self.assertEqual(response.status, 200)
        self.assertIn("CONNECT", response.get("Allow"))
        for method, status in (("TRACE", 501), ("OPTIONS", 200)):
            response = self.answer_to(self.head("Max-Forwards: 0", method=method))
            self.assertEqual(response.status, status)
        self.assert_untouched(self.good)

    def test_H32_max_forwards_counts_down(self):
        self.lab()
        for came, goes_on in (("5", "4"), ("1234567", "1234566"), ("many", "many"), ("", "")):
            self.assertEqual(self.answer_to(self.head(f"Max-Forwards: {came}", method="OPTIONS")).status, 200)
            self.assertEqual(self.good.requests[-1].get("Max-Forwards"), goes_on)

    def test_any_method_token_is_forwarded(self):
        self.lab()
        for method in ("PATCH", "PROPFIND", "X-Own!", "delete"):
            self.assertEqual(self.answer_to(self.head("Content-Length: 2", method=method, body="ab")).status, 200)
        self.assertEqual([(request.method, request.body) for request in self.good.requests],
                         [("PATCH", b"ab"), ("PROPFIND", b"ab"), ("X-Own!", b"ab"), ("delete", b"ab")])

    def test_query_and_path_reach_the_origin_as_they_were(self):
        self.lab()
        for path in ("/a/../b//c/./%2e%2E/%20x?q=1&r=%0a", "/?a?b", "?q", ""):
            with self.subTest(path=path):
                self.assertEqual(self.gw.get(self.url + path).status, 200)
        self.assertEqual([request.target for request in self.good.requests],
                         ["/a/../b//c/./%2e%2E/%20x?q=1&r=%0a", "/?a?b", "/?q", "/"])

    def test_H37_trailers_of_a_request(self):
        self.lab()
        with self.gw.client() as client:
            client.send(self.head("Transfer-Encoding: chunked", "Trailer: X-Sum",
                                  body="3\r\nabc\r\n0\r\nX-Sum: 7\r\nContent-Length: 99\r\nHost: evil.test\r\n\r\n"))
            status = client.response().status
            if status == 400:
                self.assertEqual(len(self.good.requests), 0)
                return
            self.assertEqual(status, 200)
            self.assertEqual(client.get(self.url + "/next").status, 200)
        first, second = self.good.requests
        self.assertEqual((first.body, second.target), (b"abc", "/next"))
        self.assertIn(first.trailers, ([], [("X-Sum", "7")]))

    def test_H46_connect_with_a_body_is_refused(self):
        self.lab()
        line = f"CONNECT {self.good.authority} HTTP/1.1\r\nHost: {self.good.authority}\r\n"
        self.refused_each([line + "Content-Length: 5\r\n\r\nabcde",
                           line + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])

    def test_H49_http10_without_host_gets_its_body_without_chunks(self):
        self.lab(lambda request: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        for how in whole_and_dribbled(self):
            client = self.gw.client()
            getattr(client, how)(f"GET {self.url}/ HTTP/1.0\r\n\r\n")
            response = client.response()
            self.assertEqual((response.status, response.body), (200, b"abcdefg"))
            self.assertIsNone(response.get("Transfer-Encoding"))
            client.expect_eof()
        self.assertEqual(self.good.requests[0].all("Host"), [self.good.authority])

    def test_H50_a_denial_in_the_middle_of_a_pipeline(self):
        self.lab()
        one = f"GET {self.url}/%d HTTP/1.1\r\nHost: {self.good.authority}\r\n\r\n"
        evil = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        for how in whole_and_dribbled(self):
            with self.gw.client() as client:
                getattr(client, how)(one % 1 + one % 2 + evil + one % 4 + one % 5)
                answers = [client.response() for _ in range(5)]
            self.assertEqual([answer.status for answer in answers], [200, 200, 403, 200, 200])
            self.assertEqual([answers[index].body for index in (0, 1, 3, 4)],
                             [f"GET /{index} at good.test".encode() for index in (1, 2, 4, 5)])


class Responses(HttpCase):
    def test_H26_interim_answers_reach_11_and_not_10(self):
        self.lab_upstream(lambda talk: talk.incoming() and talk.send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + reply(body="end")))
        with self.gw.client() as client:
            client.request(f"GET {self.url}/ HTTP/1.1")
            self.assertEqual([client.response(interim=True).status for _ in range(3)], [103, 100, 200])
        with self.gw.client() as client:
            client.send(f"GET {self.url}/ HTTP/1.0\r\n\r\n")
            self.assertEqual(client.response(interim=True).status, 200)

    def test_H25_expect_continue_is_answered_by_the_origin(self):
        def accept_or_refuse(talk):
            request = talk.incoming()
            if request.target == "/refuse":
                talk.send(reply(401, "no", [("Connection", "close")]))
                return
            talk.send("HTTP/1.1 100 Continue\r\n\r\n")
            talk.send(reply(body=hashlib.sha256(talk.read_exactly(len(PATTERN))).hexdigest()))

        self.lab_upstream(accept_or_refuse)
        headers = [("Expect", "100-continue"), ("Content-Length", str(len(PATTERN)))]
        with self.gw.client() as client:
            client.request(f"PUT {self.url}/accept HTTP/1.1", headers)
            self.assertEqual(client.response(interim=True).status, 100)
            client.send(PATTERN)
            self.assertEqual(client.response().body.decode(), hashlib.sha256(PATTERN).hexdigest())
        with self.gw.client() as client:
            client.request(f"PUT {self.url}/refuse HTTP/1.1", headers)
            response = client.response(interim=True)
            self.assertEqual((response.status, response.body), (401, b"no"))

    def test_other_expectations_are_the_origins_business(self):
        self.lab()
        for version, seen in (("1.1", ["magic"]), ("1.0", [])):
            with self.gw.client() as client:
                client.request(f"PUT {self.url}/ HTTP/{version}", [("Expect", "magic")], body="x")
                self.assertEqual(client.response().status, 200)
            self.assertEqual(self.good.requests[-1].all("Expect"), seen)

    def test_H34_heads_that_are_none_become_502(self):
        heads = [b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nno",
                 b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nno!",
                 b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 2\r\n\r\nno",
                 b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nno",
                 b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nno",
                 b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nno",
                 b"HTTP/1.1 20 OK\r\n\r\n", b"HTP/1.1 200 OK\r\n\r\n", b"SSH-2.0-x\r\n", b"\x15\x03\x01\x00\x02\x02\x46",
                 b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", b"HTTP/1.1 101 Switching\r\n\r\n", b""]
        left = list(heads)

        def answer(talk):
            if talk.incoming():
                talk.send(left.pop(0))

        self.lab_upstream(answer)
        for head in heads:
            with self.subTest(head=head):
                response = self.gw.get(self.url + "/")
                self.assert_refused(response, 502, "bad-response")
                self.assertIsNone(response.get("X-Proxy-Error"))

    def test_H35_an_unasked_response_is_nobodys(self):
        self.a = self.origin("a.test", lambda request: reply(body="a" + request.target)
                             + (reply(body="poison") if request.target == "/1" else b""))
        self.b = self.origin("b.test")
        gw = self.gateway(allow=[self.a.authority, self.b.authority], hosts=[self.a, self.b])
        with gw.client() as client:
            self.assertEqual(client.get(f"http://{self.a.authority}/1").body, b"a/1")
            self.assertEqual(client.get(f"http://{self.a.authority}/2").body, b"a/2")
            self.assertEqual(client.get(f"http://{self.b.authority}/3").body, b"GET /3 at b.test")
        self.assertEqual(gw.get(f"http://{self.a.authority}/4").body, b"a/4")

    def test_H37_trailers_of_a_response_end_it_right(self):
        self.lab(lambda request: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                                 b"3\r\nabc\r\n0\r\nX-Sum: 7\r\nContent-Length: 99\r\n\r\n")
        with self.gw.client() as client:
            for _ in range(2):
                response = client.get(self.url + "/")
                self.assertEqual(response.body, b"abc")
                self.assertIn(response.trailers, ([], [("X-Sum", "7")]))

    def test_bodiless_answers_keep_the_connection_in_step(self):
        def answer(request):
            if request.method == "HEAD":
                return b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
            return {"/204": b"HTTP/1.1 204 None\r\n\r\n",
                    "/304": b"HTTP/1.1 304 Same\r\nContent-Length: 1000\r\n\r\n",
                    "/0": reply()}.get(request.target, reply(body="full"))

        self.lab(answer)
        with self.gw.client() as client:
            client.request(f"HEAD {self.url}/ HTTP/1.1")
            self.assertEqual(client.response("HEAD").get("Content-Length"), "1000")
            for path, status, body in (("/204", 204, b""), ("/304", 304, b""), ("/0", 200, b""), ("/x", 200, b"full")):
                response = client.get(self.url + path)
                self.assertEqual((response.status, response.body), (status, body))

    def test_a_body_that_ends_with_the_connection(self):
        self.lab_upstream(lambda talk: talk.incoming() and talk.send(b"HTTP/1.1 200 OK\r\n\r\n" + PATTERN))
        for version in ("1.1", "1.0"):
            with self.gw.client() as client:
                client.request(f"GET {self.url}/ HTTP/{version}")
                self.assertEqual(hashlib.sha256(client.response().body).digest(), hashlib.sha256(PATTERN).digest())

    def test_a_body_cut_short_is_seen_as_cut_short(self):
        self.lab_upstream(lambda talk: talk.incoming() and talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"))
        with self.gw.client() as client:
            client.request(f"GET {self.url}/ HTTP/1.1")
            with self.assertRaises((Closed, ConnectionResetError)):
                client.response()

    def test_a_body_that_ends_with_the_connection_never_looks_whole_when_it_is_cut(self):
        def stall(talk):
            talk.incoming()
            talk.send(b"HTTP/1.1 200 OK\r\n\r\nhalf").read_all()

        self.lab_upstream(stall, gateway="idle-timeout = 1s")

        def begin(version):
            client = self.gw.client()
            client.request(f"GET {self.url}/ HTTP/{version}")
            client.read_until(b"half")
            return client

        def deny(_client):
            self.gw.reload(self.config(allow=["else.test"], hosts=[self.good], gateway="idle-timeout = 1s"))

        for cut, cause in ((lambda client: None, "idle"), (deny, "policy")):
            clients = [begin("1.0"), begin("1.1")]
            cut(clients[0])
            with self.subTest(cause=cause):
                with self.assertRaises(ConnectionResetError):
                    clients[0].read_all()
                self.assertNotIn(b"0\r\n\r\n", self.rest_of(clients[1]))
                self.gw.wait_for_record(lambda entry: entry["kind"] == "close" and entry["cause"] == cause, 2)

    def test_a_server_that_cuts_its_answer_cuts_it_for_old_clients_too(self):
        """To those who know no chunks it does not look whole, and nobody else is harmed."""
        seen = threading.Semaphore(0)

        def cut(talk):
            how = talk.incoming().target
            if how == "/reset":
                talk.send(reply(body="half", length=False))
            else:
                talk.send(reply(body="8\r\nhalf", headers=[("Transfer-Encoding", "chunked")], length=False))
            seen.acquire(timeout=PATIENCE_S)
            if how == "/broken":
                talk.send("half and no end of a chunk").read_all()
            elif how == "/reset":
                talk.reset()

        self.lab_upstream(cut)
        for number, (how, cause) in enumerate((("reset", "upstream"), ("end", "upstream"), ("broken", "error"))):
            with self.subTest(how=how), self.gw.client() as client:
                client.send(f"GET {self.url}/{how} HTTP/1.0\r\n\r\n")
                client.read_until("half")
                seen.release()
                with self.assertRaises(ConnectionResetError):
                    client.read_all()
                self.assertEqual(self.gw.close_record(number=number + 1)["cause"], cause)
                self.assert_refused(self.gw.get("http://evil.test/"), 403, "not-allowed")

    @staticmethod
    def rest_of(client):
        try:
            return client.read_all()
        except ConnectionResetError:
            return client.buffer

    def test_whoever_keeps_an_exchange_waiting_is_the_one_who_is_late(self):
        self.lab_upstream(lambda talk: talk.read_all(), gateway="idle-timeout = 1s")
        for headers, body, status in (([("Content-Length", "10")], "half", 408), ([("Transfer-Encoding", "chunked")], "4\r\nhal", 408),
                                      ([("Content-Length", "10"), ("Expect", "100-continue")], "", 504),
                                      ([("Content-Length", "4")], "full", 504), ([], "", 504)):
            with self.subTest(status=status, headers=headers), self.gw.client() as client:
                client.request(f"POST {self.url}/ HTTP/1.1", headers)
                client.send(body)
                response = client.response()
                self.assert_refused(response, status, "timeout")
                if status == 408:
                    self.assertEqual(response.get("Connection"), "close")
                    client.expect_eof()

    def test_a_head_that_never_came_whole_is_no_part_of_the_next_request(self):
        """The client stays, and what it asks next is read from its first byte, however far the answer had come."""
        begun = b"HTTP/1.1 200 OK\r\nX: " + b"a" * 3000
        sizes = (4, 15, 16, 18, len(begun))

        def stall(talk):
            talk.send(begun[:int(talk.incoming().target[1:])]).read_all()

        self.lab_upstream(stall, gateway="idle-timeout = 1s")
        evil, rest = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n", b"c: " + b"d" * 3000 + b"\r\n\r\n"
        for following, status in ((evil + b"\r\n", 403), (evil + b"a: b\r\n" * 480 + rest, 431), (b"\r\n" * 2000, 400),
                                  (evil + b"a\0\n: b\r\n" + rest, 400)):
            clients = [self.gw.client() for _ in sizes]
            for size, client in zip(sizes, clients):
                client.request(f"GET {self.url}/{size} HTTP/1.1")
            for size, client in zip(sizes, clients):
                with self.subTest(size=size, following=following[:80]), client:
                    self.assert_refused(client.response(), 504, "timeout")
                    client.send(following)
                    self.assertEqual(client.response().status, status)

    def test_L07_a_403_of_the_origin_is_the_origins(self):
        self.lab(reply(403, "mine"))
        response = self.gw.get(self.url + "/")
        self.assertEqual((response.status, response.body), (403, b"mine"))
        for name in ("Proxy-Status", "X-Proxy-Error"):
            self.assertIsNone(response.get(name))
        decision = self.gw.decision("good.test")
        self.assertEqual((decision["verdict"], decision["reason"]), ("allow", None))

    def test_a_server_does_not_refuse_in_the_gateways_name(self):
        self.lab(reply(403, "ask for a rule", headers=[
            ("Proxy-Status", "cdn.example; error=http_request_denied"), ("X-Proxy-Error", "blocked-by-allowlist"),
            ("Proxy-Status", 'srt-gateway; error=http_request_denied; details="x"'), ("x-proxy-error", "y"),
            ("PROXY-STATUS", 'cdn.example, "srt-gateway"'), ("X-Other", "srt-gateway")]))
        response = self.gw.get(self.url + "/")
        self.assertEqual((response.status, response.body), (403, b"ask for a rule"))
        self.assertEqual(response.all("Proxy-Status"), ["cdn.example; error=http_request_denied"])
        self.assertEqual((response.all("X-Proxy-Error"), response.all("X-Other")), ([], ["srt-gateway"]))

    def test_a_status_that_means_nothing_is_the_origins(self):
        """Some sites answer 999 to programs; a client takes that for a 5xx (RFC 9110 15)."""
        self.lab(b"HTTP/1.1 999 Request denied\r\nContent-Length: 4\r\n\r\nmine")
        for _ in range(2):
            response = self.gw.get(self.url + "/")
            self.assertEqual((response.status, response.phrase, response.body), (999, "Request denied", b"mine"))

    def test_P23_a_redirect_is_passed_on_and_its_target_judged_anew(self):
        self.lab(reply(302, headers=[("Location", "http://127.0.0.9/")]))
        with self.gw.client() as client:
            response = client.get(self.url + "/")
            self.assertEqual((response.status, response.get("Location")), (302, "http://127.0.0.9/"))
            self.assert_refused(client.get(response.get("Location")), 403, "not-allowed")

    def test_upgrade_to_websocket_carries_frames_behind_the_101(self):
        def serve(talk):
            request = talk.incoming()
            self.assertEqual((request.get("Upgrade"), request.get("Connection").lower()), ("websocket", "upgrade"))
            talk.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      b"Sec-WebSocket-Accept: x\r\n\r\n" + b"\x81\x05first")
            talk.expect(b"\x81\x83\x00\x00\x00\x00abc")
            talk.send(b"\x81\x03end").finish()

        self.lab_upstream(serve)
        with self.gw.client() as client:
            client.request(f"GET {self.url}/ws HTTP/1.1", [("Connection", "Upgrade"), ("Upgrade", "websocket"),
                                                          ("Sec-WebSocket-Key", "eA=="), ("Sec-WebSocket-Version", "13")])
            response = client.response()
            self.assertEqual((response.status, response.get("Upgrade")), (101, "websocket"))
            client.expect(b"\x81\x05first").send(b"\x81\x83\x00\x00\x00\x00abc").expect(b"\x81\x03end").expect_eof()

    def test_an_upgrade_that_the_origin_ignores_is_a_plain_exchange(self):
        self.lab()
        with self.gw.client() as client:
            headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
            self.assertEqual(client.get(self.url + "/1", headers).status, 200)
            self.assertEqual(client.get(self.url + "/2").body, b"GET /2 at good.test")

    def test_connection_close_is_kept(self):
        self.lab()
        client = self.gw.client()
        self.assertEqual(client.get(self.url + "/", [("Connection", "close")]).status, 200)
        client.expect_eof()

    def test_connections_of_one_client_are_reused_and_counted_once(self):
        self.lab()
        with self.gw.client() as client:
            for number in range(20):
                self.assertEqual(client.get(f"{self.url}/{number}").status, 200)
        self.assertEqual((len(self.good.requests), self.good.connections), (20, 1))
        self.gw.close_record(number=20)
        self.assertEqual(len(self.gw.records("decision")), 20)

    def test_a_kept_connection_is_one_clients_and_nobody_elses(self):
        self.lab(lambda request: reply(body=request.target), workers=1)
        clients = [self.gw.client() for _ in range(5)]
        for turn in range(3):
            for number, client in enumerate(clients):
                client.request(f"GET {self.url}/{number}-{turn} HTTP/1.1")
            for number, client in reversed(list(enumerate(clients))):
                self.assertEqual(client.response().body.decode(), f"/{number}-{turn}")
        self.assertEqual(self.good.connections, len(clients))
        for connection in range(1, len(clients) + 1):
            whose = {request.target[1] for request in self.good.requests if request.connection == connection}
            self.assertEqual(len(whose), 1)

    def test_via_is_written_both_ways_and_what_comes_round_is_a_loop(self):
        self.lab(lambda request: reply(body="x", headers=[("Via", "1.0 inner")]))
        response = self.gw.get(self.url + "/", [("Via", "1.0 fred, 1.1 p.example.net"), ("Via", "2 third")])
        self.assertEqual(response.all("Via"), ["1.0 inner, 1.1 srt-gateway"])
        via = self.good.requests[0].all("Via")
        self.assertEqual(len(via), 1, via)
        self.assertRegex(via[0], r"^1\.0 fred, 1\.1 p\.example\.net, 2 third, 1\.1 srt-gateway \([0-9a-f]{16}\)$")
        self.assert_refused(self.gw.get(self.url + "/", [("Via", via[0])]), 403, "loop")
        another = via[0].replace(via[0][-5:-1], "0000" if via[0][-5:-1] != "0000" else "1111")
        self.assertEqual(self.gw.get(self.url + "/", [("Via", another)]).status, 200)  # another gateway is none
        self.assertEqual(len(self.good.requests), 2)

    def test_H38_a_download_nobody_reads_is_held_back(self):
        blocked = threading.Event()

        def pour(talk):
            talk.incoming()
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
            talk.sock.settimeout(1.0)
            sent = 0
            try:
                while sent < 1 << 30:
                    sent += talk.sock.send(PATTERN)
            except (TimeoutError, socket.timeout):
                blocked.set()
                self.sent = sent

        self.lab_upstream(pour, wrapper=SMALL_QUARANTINE)
        self.gw.get("http://evil.test/")
        before = self.gw.rss_kib()
        with self.gw.client() as client:
            client.request(f"GET {self.url}/ HTTP/1.1")
            client.read_exactly(1024)
            self.assertTrue(blocked.wait(20))
            self.assertLess(self.gw.rss_kib() - before, 8 * 1024)
            self.assertLess(self.sent, 64 << 20)

    def test_an_upload_that_the_origin_does_not_read_is_held_back(self):
        release = threading.Event()
        self.lab_upstream(lambda talk: (talk.head(lambda raw: raw), release.wait(20)), wrapper=SMALL_QUARANTINE)
        with self.gw.client() as client:
            client.send(f"POST {self.url}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\n\r\n")
            self.good.wait_for_connections(1)
            before = self.gw.rss_kib()
            client.sock.settimeout(1.0)
            with self.assertRaises((TimeoutError, socket.timeout)):
                for _ in range(64):
                    client.sock.sendall(PATTERN)
            self.assertLess(self.gw.rss_kib() - before, 8 * 1024)
        release.set()


class Tunnels(HttpCase):
    def test_H14_bytes_behind_the_connect_head_arrive_once_and_in_order(self):
        self.lab_upstream(lambda talk: talk.send(hashlib.sha256(talk.read_exactly(65536)).hexdigest()))
        client = self.gw.client()
        head = f"CONNECT {self.good.authority} HTTP/1.1\r\nHost: {self.good.authority}\r\n\r\n".encode()
        client.send(head + PATTERN[:65536])
        self.assertEqual(client.response("CONNECT").status, 200)
        client.expect(hashlib.sha256(PATTERN[:65536]).hexdigest())
        self.assertEqual(self.good.received, PATTERN[:65536])

    def test_H16_the_answer_to_connect_is_a_head_and_nothing_else(self):
        self.lab_upstream(lambda talk: talk.send("220 banner\r\n") and talk.read_all())
        for how in whole_and_dribbled(self):
            client = self.gw.client()
            client.request(f"CONNECT {self.good.authority} HTTP/1.1", how=how)
            response = client.response("CONNECT")
            self.assertEqual(response.status, 200)
            for name in ("Content-Length", "Transfer-Encoding"):
                self.assertIsNone(response.get(name))
            client.expect("220 banner\r\n")

    def test_H16_tls_through_the_tunnel(self):
        good = self.origin("good.test", tls=True)
        gw = self.gateway(allow=[good.authority], hosts=[good])
        with gw.tunnel(good.authority) as client:
            client.start_tls(self.authority().client(), "good.test")
            client.request("GET /x HTTP/1.1", [("Host", good.authority)])
            self.assertEqual(client.response().body, b"GET /x at good.test")

    def test_H17_refused_connect_never_parses_what_followed(self):
        self.lab()
        inner = f"GET {self.url}/x HTTP/1.1\r\nHost: {self.good.authority}\r\n\r\n"
        for how in whole_and_dribbled(self):
            client = self.gw.client()
            getattr(client, how)(f"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n{inner}")
            self.assert_refused(client.response("CONNECT"), 403, "not-allowed")
            client.expect_eof()
        self.assert_untouched(self.good)

    def test_H19_half_close_either_way(self):
        def answer_after_the_end(talk):
            self.assertEqual(talk.read_all(), b"ask")
            talk.send(PATTERN).finish()

        self.lab_upstream(answer_after_the_end)
        with self.gw.tunnel(self.good.authority) as client:
            client.send("ask").finish()
            self.assertEqual(hashlib.sha256(client.read_all()).digest(), hashlib.sha256(PATTERN).digest())

        def finish_first(talk):
            talk.send("hello").finish()
            self.assertEqual(len(talk.read_all()), len(PATTERN))

        self.other = self.upstream(finish_first, "good.test", address=self.good.address)
        gw = self.gateway_two(self.other)
        with gw.tunnel(self.other.authority) as client:
            self.assertEqual(client.read_all(), b"hello")
            client.send(PATTERN).finish()
            self.other.wait_until_ended()
        self.assertEqual(self.other.received, PATTERN)

    def gateway_two(self, server):
        self.gw.stop()
        return self.gateway(allow=[server.authority], hosts=[server])

    def test_H20_the_tail_is_delivered_to_a_slow_reader(self):
        def pour_and_close(talk):
            talk.send(PATTERN * 4)

        self.lab_upstream(pour_and_close)
        with self.gw.tunnel(self.good.authority) as client:
            digest, count = hashlib.sha256(bytes(client.buffer)), len(client.buffer)
            while data := client.sock.recv(4096):
                digest.update(data)
                count += len(data)
                if count % (1 << 18) < 4096:
                    select.select([], [], [], 0.01)  # slower than the upstream; that is the case
            self.assertEqual((count, digest.digest()), (len(PATTERN) * 4, hashlib.sha256(PATTERN * 4).digest()))

    def test_H20_after_a_reset_what_arrived_is_delivered_and_right(self):
        def pour_and_reset(talk):
            talk.expect("go")
            talk.sock.sendall(PATTERN)
            talk.reset()

        self.lab_upstream(pour_and_reset)
        with self.gw.tunnel(self.good.authority).send("go") as client:
            got = bytes(client.buffer)  # what came together with the head
            try:
                while data := client.sock.recv(65536):
                    got += data
            except ConnectionResetError:
                pass
            self.assertTrue(PATTERN.startswith(got))

    def test_a_reset_of_the_client_is_seen_by_the_upstream(self):
        self.lab_upstream(lambda talk: talk.read_all())
        client = self.gw.tunnel(self.good.authority)
        client.send("x")
        self.good.wait_for_connections(1)
        client.reset()
        self.good.wait(lambda: not self.good._open, "the upstream connection to end")
        close = self.gw.close_record()
        self.assertEqual((close["cause"], close["bytes_up"]), ("client", 1))

    def test_H22_idle_tunnels_are_reaped_with_their_descriptors(self):
        self.lab_upstream(lambda talk: talk.read_all(), gateway="idle-timeout = 1s")
        self.assertEqual(self.gw.get("http://evil.test/").status, 403)
        before = self.gw.descriptors()
        clients = [self.gw.tunnel(self.good.authority) for _ in range(50)]
        self.gw.close_record(number=50)
        self.assertEqual({entry["cause"] for entry in self.gw.records("close")}, {"idle"})
        for client in clients:
            client.expect_eof()
        self.gw.wait_for_descriptors(before + 1)

    def test_traffic_in_one_direction_keeps_a_tunnel(self):
        def tick(talk):
            for _ in range(12):
                talk.send(".")
                select.select([], [], [], 0.2)  # 2.4 s in all: longer than the idle time, never silent that long

        self.lab_upstream(tick, gateway="idle-timeout = 1s")
        with self.gw.tunnel(self.good.authority) as client:
            self.assertEqual(client.read_all(), b"." * 12)

    def test_tunnel_lifetime_ends_even_busy_ones(self):
        def tick(talk):
            try:
                while True:
                    talk.send(".")
                    select.select([], [], [], 0.02)
            except OSError:
                pass

        self.lab_upstream(tick, gateway="tunnel-lifetime = 1s")
        with self.gw.tunnel(self.good.authority) as client:
            try:
                client.read_all()
            except ConnectionResetError:
                pass
        self.assertEqual(self.gw.close_record()["cause"], "lifetime")

    def test_H23_a_client_that_gives_up_takes_the_upstream_along(self):
        self.lab_upstream(lambda talk: (talk.incoming(), talk.read_all()))
        for number, leave in enumerate(("reset", "close") * 3, 1):
            client = self.gw.client()
            client.request(f"GET {self.url}/ HTTP/1.1")
            self.good.wait_for_connections(number)
            getattr(client, leave)()
        self.good.wait(lambda: not self.good._open, "six upstream connections to end")

    def test_H41_malformed_connect_targets(self):
        names = self.name_server({})
        gw = self.gateway(allow=["good.test:1-65535"], names=names)
        for target in ("good.test", "good.test:", "good.test:0", "good.test:65536", "good.test:443abc", "good.test:+443",
                       "good.test:443/path", "http://good.test:443", "good.test: 443", ":443", "good.test:443:443",
                       "user@good.test:443", "good.test:99999999999999999999", "[good.test:443", "good.test]:443"):
            for how in whole_and_dribbled(self):
                with self.subTest(target=target), gw.client() as client:
                    getattr(client, how)(f"CONNECT {target} HTTP/1.1\r\nHost: good.test\r\n\r\n")
                    self.assertEqual(client.response("CONNECT").status, 400)
        self.assertEqual(names.questions, [])

    def test_what_is_no_target_is_told_without_what_may_be_secret(self):
        gw = self.gateway(allow=["good.test"])
        long = "a" * 150
        rows = (("CONNECT 127.1:443", '"127.1:443"'), ("CONNECT 0x7f.1:443", '"0x7f.1:443"'), ("CONNECT good.test", '"good.test"'),
                ("CONNECT good.test:443/x?key=SECRET", '"good.test:443/x"'), ("CONNECT good.test:443#SECRET", None),
                ("CONNECT a\udc80b.test:443", None), ("CONNECT a%41.test:443", '"a%41.test:443"'),
                (f"CONNECT {long}:443", f'"{long[:100]}..."'), ("CONNECT SECRET:SECRET@good.test:443", None),
                ("CONNECT http://u:SECRET@good.test/?a@SECRET", None), ("GET http://127.1/p?key=SECRET", '"127.1"'),
                ("GET http://me:SECRET@2130706433/", None), ("GET http://[::1/SECRET", '"[::1"'))
        for count, (line, quoted) in enumerate(rows, 1):
            with self.subTest(line=line):
                with gw.client() as client:
                    client.send(line.encode("utf-8", "surrogateescape") + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                    answer = client.response(line.split()[0])
                record = gw.wait_for_record(lambda entry: entry["kind"] == "decision", count)
                message = record["message"]
                self.assertEqual((answer.status, record["reason"], record["host"]), (400, "bad-request", None))
                self.assertEqual(message, json.loads(answer.body)["message"])
                self.assertNotIn("SECRET", json.dumps(record) + str(answer.body))
                self.assertEqual('"' in message, quoted is not None, message)
                self.assertTrue(quoted is None or message.endswith(": " + quoted), message)

    def test_H42_an_allowed_host_is_allowed_on_80_and_443_or_where_it_says(self):
        good = self.upstream(name="good.test")
        gw = self.gateway(allow=["good.test", f"other.test:{good.port}"],
                          hosts={"good.test": good.address, "other.test": good.address})
        self.assert_refused(gw.refused_connect(f"good.test:{good.port}"), 403, "not-allowed")
        self.assertEqual(gw.socks_code("good.test", good.port), 2)
        for port in (80, 443):  # nobody is there, which is not the policy's doing
            self.assert_refused(gw.refused_connect(f"good.test:{port}"), 502, "connect-refused")
        self.assert_untouched(good)
        gw.tunnel(f"other.test:{good.port}").send("x").expect("x")
        self.assertEqual(gw.socks_code("other.test", good.port), 0)
        self.assert_refused(gw.refused_connect("other.test:443"), 403, "not-allowed")

    def test_H40_the_gateway_is_never_a_destination(self):
        gw = self.gateway(
            allow=["127.0.0.0/8:1-65535", "[::1]:1-65535", "localhost:1-65535", "self.test:1-65535"],
            hosts={"self.test": "127.0.0.1"},
            more="[listen second]\naddress = 127.0.0.1:0\npolicy = main\nprotocol = socks5\n"
                 "[listen everywhere]\naddress = 0.0.0.0:0\npolicy = main\n")
        second, everywhere = gw.port("second"), gw.port("everywhere")
        for authority in (f"127.0.0.1:{gw.port()}", f"self.test:{gw.port()}",
                          f"127.0.0.1:{second}", f"self.test:{second}", f"127.0.0.1:{everywhere}",
                          f"127.0.0.77:{everywhere}", f"[::ffff:127.0.0.1]:{second}"):
            with self.subTest(authority=authority):
                self.assert_refused(gw.refused_connect(authority), 403, "loop")
                host, port = authority.rsplit(":", 1)
                self.assertEqual(gw.socks_code(host.strip("[]"), int(port)), 2)
        self.assert_refused(gw.get(f"http://self.test:{gw.port()}/"), 403, "loop")
        # localhost is ::1 as well, where we do not listen; a name that leads to us at all is a loop.
        self.assert_refused(gw.refused_connect(f"localhost:{second}"), 403, "loop")

    def test_abandoned_connections_in_every_state_give_everything_back(self):
        deaf = self.upstream(lambda talk: talk.read_all(), "deaf.test")
        good = self.origin("good.test")
        gw = self.gateway(allow=[deaf.authority, good.authority], hosts=[deaf, good])
        self.assertEqual(gw.get("http://evil.test/").status, 403)
        before = gw.descriptors()
        for leave in ("reset", "close") * 10:
            for say in ("", "GET http://goo", f"CONNECT {deaf.authority} HTTP/1.1\r\nHost: x\r\n\r\n",
                        f"CONNECT {deaf.authority} HTTP/1.1\r\nHost: x\r\n\r\nsome bytes", "\x05", "\x05\x01\x00",
                        f"GET http://{good.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n",
                        f"POST http://{good.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
                        f"CONNECT {deaf.authority} HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01\x02\x00"):
                getattr(gw.client().send(say), leave)()
        deaf.wait(lambda: not deaf._open, "all upstream connections to end")
        good.wait(lambda: not good._open, "all origin connections to end")
        gw.wait_for_descriptors(before + 1)


class Limits(HttpCase):
    def test_H52_a_burst_of_tunnels_is_served_without_resets(self):
        self.lab_upstream(lambda talk: talk.send(PATTERN[:20000]))
        failures = []

        def fetch():
            try:
                with self.gw.tunnel(self.good.authority) as client:
                    if client.read_all() != PATTERN[:20000]:
                        failures.append("short")
            except (OSError, AssertionError) as error:
                failures.append(repr(error))

        for _ in range(2):
            threads = [threading.Thread(target=fetch) for _ in range(150)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])

    def test_H52_over_the_limit_is_503(self):
        self.lab_upstream(lambda talk: talk.read_all(), gateway="max-connections = 4")
        tunnels = [self.gw.tunnel(self.good.authority) for _ in range(4)]
        response = self.gw.refused_connect(self.good.authority)
        self.assert_refused(response, 503, "overload")
        self.assertIsNone(response.get("X-Proxy-Error"))
        tunnels[0].close()
        self.gw.close_record()
        # Who was refused and is gone may hold a place until the worker that refused looks again.
        while (answer := self.gw.refused_connect(self.good.authority)).status != 200:
            self.assert_refused(answer, 503, "overload")

    def test_who_queued_for_a_busy_worker_is_served_whatever_was_sent_meanwhile(self):
        """More than are accepted in one turn: some have sent all of it and more, some a part, some nothing."""
        self.lab(workers=1)
        ask = "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"
        sent = [ask + "for the tunnel", ask[:30], ""] * 14
        self.gw.send_signal(signal.SIGSTOP)
        clients = [self.gw.client() for _ in sent]
        for client, start in zip(clients, sent):
            client.send(start)
        self.gw.send_signal(signal.SIGCONT)
        for client, start in reversed(list(zip(clients, sent))):
            client.send(ask[len(start):])
            self.assert_refused(client.response("CONNECT"), 403, "not-allowed")
            client.expect_eof()

    def test_what_lingers_after_a_refusal_still_counts(self):
        """A client that does not close after a refusal keeps a descriptor for two seconds: it keeps its place as well."""
        self.lab(gateway="max-connections = 4")
        lingering = [self.gw.client() for _ in range(4)]
        for client in lingering:
            client.send("nonsense\r\n\r\n")
            self.assertEqual(client.response().status, 400)
        self.assert_refused(self.gw.refused_connect(self.good.authority), 503, "overload")
        for client in lingering:
            client.close()
        while (answer := self.gw.refused_connect(self.good.authority)).status != 200:  # until that is noticed
            self.assert_refused(answer, 503, "overload")

    def test_a_head_that_is_too_large_is_431_and_the_status_is_read(self):
        self.lab(gateway="max-header-bytes = 4k")
        for line in ("X: " + "a" * 20000, "\r\n".join(f"X-{n}: {'b' * 50}" for n in range(200))):
            client = self.gw.client()
            client.send(self.head(line, method="GET"))
            self.assertEqual(client.response().status, 431)
            client.expect_eof()
        client = self.gw.client()
        client.send(f"GET {self.url}/{'c' * 20000} HTTP/1.1\r\nHost: h\r\n\r\n")
        self.assertIn(client.response().status, (414, 431))
        self.assert_untouched(self.good)

    def test_header_timeout_bounds_the_whole_head(self):
        self.lab(gateway="header-timeout = 1s")
        client = self.gw.client()
        client.sock.settimeout(0.1)
        for byte in "GET http://good.test/ HTTP/1.1\r\nX: " + "a" * 200:
            try:
                client.sock.send(byte.encode())
                if client.sock.recv(1, socket.MSG_PEEK):
                    break
            except (TimeoutError, socket.timeout):
                continue  # still listening to us; a byte every 100 ms is not silence
            except (BrokenPipeError, ConnectionResetError):
                break
        else:
            self.fail("20 s of one head were listened to")
        client.sock.settimeout(10)
        self.assert_refused(client.response(), 408, "timeout")
        self.assert_untouched(self.good)

    def test_a_silent_connection_ends_without_a_word_or_with_408(self):
        self.lab(gateway="header-timeout = 1s\nidle-timeout = 2s")
        client = self.gw.client()
        data = client.read_all()
        self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 408 "), data)

    def test_an_upstream_that_never_connects_times_out(self):
        fillers = []
        self.addCleanup(lambda: [sock.close() for sock in fillers])
        stuck = socket.socket()
        stuck.bind((self.fresh_address(), 0))
        stuck.listen(0)
        self.addCleanup(stuck.close)
        for _ in range(3):  # fills the backlog: the next SYN gets no answer
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(stuck.getsockname())
            fillers.append(sock)
        address, port = stuck.getsockname()
        gw = self.gateway(allow=[f"slow.test:{port}"], hosts={"slow.test": address}, gateway="connect-timeout = 1s")
        self.assert_refused(gw.refused_connect(f"slow.test:{port}"), 504, "connect-timeout")
        self.assertEqual(gw.decision("slow.test")["reason"], "connect-timeout")
        self.assertEqual(gw.socks_code("slow.test", port), 6)


class Answers(HttpCase):
    def test_H47_a_refusal_says_what_why_and_what_next(self):
        self.lab(policy="docs = https://wiki.example/egress",
                 deny=["bad.test reason=\"use the mirror\" id=no-bad"])
        for response in (self.gw.refused_connect("evil.test:443"), self.gw.get("http://evil.test:443/")):
            body = self.assert_refused(response, 403, "not-allowed")
            self.assertEqual(response.get("X-Proxy-Error"), "blocked-by-allowlist")
            self.assertEqual((body["error"], body["host"], body["port"], body["policy"], body["rule"], body["docs"]),
                             ("blocked", "evil.test", 443, "main", None, "https://wiki.example/egress"))
            self.assertIn("evil.test:443", body["message"])
            self.assertTrue(body["next_step"])
            self.assertEqual(self.gw.decision("evil.test", id=body["request_id"])["reason"], "not-allowed")
        body = self.assert_refused(self.gw.refused_connect("bad.test:443"), 403, "denied-by-rule")
        self.assertEqual(body["rule"], "no-bad")
        self.assertIn("use the mirror", body["message"])

    def test_a_reason_is_a_quoted_string_in_the_head_whatever_stands_where_in_it(self):
        odd = ("\\", "~\\", "\u00fc", "x\\y\u00fcz")
        reasons = ["a" * before + what + "b" * behind for what in odd for before in (0, 3, 9, 17) for behind in (0, 16)]
        self.lab(deny=[f'bad{number}.test reason="{reason}"' for number, reason in enumerate(reasons)])
        for number, reason in enumerate(reasons):
            response = self.gw.refused_connect(f"bad{number}.test:443")
            body = self.assert_refused(response, 403, "denied-by-rule")
            self.assertIn(reason, body["message"])
            shown = "".join("?" * len(c.encode()) if c > "~" else c.replace("\\", "\\\\").replace('"', '\\"') for c in body["message"])
            self.assertTrue(response.get("Proxy-Status").endswith(f'; details="{shown}"'), response.get("Proxy-Status"))

    def test_H47_a_dead_upstream_is_not_a_refusal(self):
        port = self.closed_port()
        gw = self.gateway(allow=[f"good.test:{port}"], hosts={"good.test": "127.0.0.2"})
        response = gw.refused_connect(f"good.test:{port}")
        body = self.assert_refused(response, 502, "connect-refused")
        self.assertEqual(body["error"], "failed")
        self.assertIsNone(response.get("X-Proxy-Error"))
        self.assertIn("connection_refused", response.get("Proxy-Status"))
        decision = gw.decision("good.test")
        self.assertEqual((decision["verdict"], decision["reason"]), ("deny", "connect-refused"))
        self.assertEqual(gw.records("close"), [])

    def test_a_refusal_in_plain_text_for_those_who_prefer_it(self):
        self.lab()
        response = self.gw.get("http://evil.test/", [("Accept", "text/plain")])
        self.assertEqual((response.status, (response.get("Content-Type") or "").split(";")[0]), (403, "text/plain"))
        self.assertIn(b"evil.test", response.body)
        for accept in ("*/*", "text/html, */*;q=0.1", "application/json, text/plain;q=0.5"):
            self.assertEqual(self.gw.get("http://evil.test/", [("Accept", accept)]).get("Content-Type"), "application/json")

    def test_a_refusal_to_head_has_no_body(self):
        self.lab()
        with self.gw.client() as client:
            client.request("HEAD http://evil.test/ HTTP/1.1")
            self.assertEqual(client.response("HEAD").status, 403)
            self.assertEqual(client.get(self.url + "/").status, 200)

    def test_the_body_of_a_refused_post_does_not_become_a_request(self):
        self.lab()
        inner = f"GET {self.url}/smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
        with self.gw.client() as client:
            client.request("POST http://evil.test/ HTTP/1.1", body=inner)
            self.assert_refused(client.response(), 403, "not-allowed")
            client.request("POST http://evil.test/ HTTP/1.1", [("Transfer-Encoding", "chunked")])
            client.send(f"{len(inner):x}\r\n{inner}\r\n0\r\n\r\n")
            self.assert_refused(client.response(), 403, "not-allowed")
        self.assert_untouched(self.good)

    def test_the_audit_record_of_an_exchange_has_every_field(self):
        self.lab(lambda request: reply(body="four"))
        self.assertEqual(self.answer_to(self.head("Content-Length: 3", body="abc")).status, 200)
        decision = self.gw.decision("good.test")
        self.assertEqual(set(decision), {
            "schema", "ts", "seq", "kind", "id", "sandbox", "client", "listener", "policy", "generation", "peer",
            "front", "method", "path", "host", "port", "addr", "verdict", "mode", "would", "reason", "rule", "filter",
            "message"})
        expected = {"schema": "srt.audit/1", "kind": "decision", "sandbox": None, "client": None, "listener": "main",
                    "policy": "main", "front": "http", "method": "POST", "path": "/x", "host": "good.test",
                    "port": self.good.port, "addr": "127.0.0.2", "verdict": "allow", "mode": "enforce",
                    "reason": None, "filter": None}
        self.assertEqual({key: decision[key] for key in expected}, expected)
        self.assertRegex(decision["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertRegex(decision["peer"], r"^127\.0\.0\.1:\d+$")
        self.assertRegex(decision["rule"], r"^main:\d+$")
        close = self.gw.close_record(decision["id"])
        self.assertEqual(set(close), {
            "schema", "ts", "seq", "kind", "id", "sandbox", "client", "listener", "policy", "generation", "front", "host",
            "port", "addr", "sni", "bytes_up", "bytes_down", "duration_ms", "cause"})
        self.assertEqual((close["bytes_up"], close["bytes_down"], close["front"]), (3, 4, "http"))
        self.assertEqual([entry["seq"] for entry in self.gw.records()], list(range(
            self.gw.records()[0]["seq"], self.gw.records()[0]["seq"] + len(self.gw.records()))))


if __name__ == "__main__":
    main()
