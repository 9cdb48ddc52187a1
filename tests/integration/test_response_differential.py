"""Two parsers, one meaning, the other way: odd responses by way of the gateway to node's client parser (llhttp, strict).

Whatever is forwarded, node reads with the status and the body that it would have read from the server itself; what
is cut short never looks whole; what is malformed is a 502; and the answer to the next request is where it belongs.
"""

import os
import random
import sys
import unittest

from lab import LabCase
from lab.talk import Request
from test_http_differential import LINES, NODE, run

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools", "node_responses.js")
SENTINEL = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nsentinel"

BASES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello",
    b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.0 404 No\r\nContent-Length: 5\r\n\r\nhello",
]

STATUS_LINES = [
    b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.1  200 OK", b"HTTP/1.1 200  OK", b" HTTP/1.1 200 OK", b"HTTP/1.1\t200 OK",
    b"HTTP/1.1 2000 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 099 OK", b"HTTP/1.1 600 OK", b"HTTP/1.1 999 OK", b"HTTP/1.1 -20 OK",
    b"HTTP/1.1 2e2 OK", b"HTTP/1.1 200OK", b"HTTP/1.1 200 O\x00K", b"HTTP/1.1 200 O\x01K", b"HTTP/1.1 200 \xe9", b"HTTP/1.1 200 O\tK",
    b"HTTP/1.1 200 OK\r", b"HTTP/1.2 200 OK", b"HTTP/2.0 200 OK", b"HTTP/0.9 200 OK", b"http/1.1 200 OK", b"HTTP/1.10 200 OK",
    b"HTTP/11 200 OK", b"HTTP/1 200 OK", b"HTTP 200 OK", b"ICY 200 OK", b"RTSP/1.0 200 OK", b"", b"\r\nHTTP/1.1 200 OK", b"\nHTTP/1.1 200 OK",
    b"HTTP/1.1 205 Reset", b"HTTP/1.1 206 Part", b"HTTP/1.1 301 Moved", b"HTTP/1.1 407 No", b"HTTP/1.1 500 No", b"HTTP/1.1 100 Continue",
    b"HTTP/1.1 101 Switching Protocols", b"HTTP/1.1 102 Processing", b"HTTP/1.1 103 Early Hints", b"HTTP/1.1 199 What",
]

CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

CHUNKS = [
    b"5\r\nhello\r\n0\r\n\r\n", b"05\r\nhello\r\n0\r\n\r\n", b"5;x=y\r\nhello\r\n0\r\n\r\n", b"5;x=\"a;b\"\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhello\r\n0\r\n", b"5\r\nhello\r\n", b"5\r\nhel",
    b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n", b"5\r\nhello\r\n0\r\nX y\r\n\r\n", b"5\r\nhello\r\n0\r\n X: y\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX: \x00\r\n\r\n", b"5\r\nhello\r\n0;last\r\n\r\n", b"5\r\nhello\r\n000\r\n\r\n", b"A\r\nhellohello\r\n0\r\n\r\n", b"a\r\nhellohello\r\n0\r\n\r\n",
    b"g\r\nhello\r\n0\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"6\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"FFFFFFFFFFFFFFFF\r\nhello", b"10000000000000005\r\nhello\r\n0\r\n\r\n", b"5\r\r\nhello\r\n0\r\n\r\n", b"5;\r\nhello\r\n0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    b"5;a\x00b\r\nhello\r\n0\r\n\r\n", b"1\r\nh\r\n1\r\ne\r\n3\r\nllo\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n\r\n",
]

# Node takes neither from a server. We do: trailers and extensions are not passed on, and what goes out is chunked anew.
TAKEN_BY_US = [CHUNKED_HEAD + b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n", CHUNKED_HEAD + b"5;\r\nhello\r\n0\r\n\r\n"]

INTERIM = [
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 3,
    b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 102 Processing\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 100\r\n\r\n",
    b"HTTP/1.1 199 Odd\r\nX: y\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n", b"\r\n", b"\r\n\r\n", b"x", b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.1 099 Odd\r\n\r\n",
]

BYTES = [bytes([value]) for value in b"\0\t\n\x0b\r !\",-./0159:;=ACHPTX\\_ae\x7f\x80\xff"]


def odd_responses():
    """Pairs (method, bytes): what a server says to a request with that method, and then it finishes."""
    responses = []
    for base in BASES:
        start, rest = base.split(b"\r\n", 1)
        head, body = base.split(b"\r\n\r\n", 1)
        for line in LINES:
            responses.append(head + b"\r\n" + line + b"\r\n\r\n" + body)
            responses.append(start + b"\r\n" + line + b"\r\n" + rest)
        responses += [line + b"\r\n" + rest for line in STATUS_LINES]
        responses += [interim + base for interim in INTERIM]
        responses += [head + b"\n\n" + body, base.replace(b"\r\n", b"\n"), head + b"\r\n\r\n", base + b"more", base[:-2], head]
    responses += [CHUNKED_HEAD + body for body in CHUNKS]
    rng = random.Random(5)
    for _ in range(300):
        response = bytearray(rng.choice(BASES))
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(response))
            response[at:at + rng.choice([0, 1])] = rng.choice(BYTES + [b""])
        responses.append(bytes(response))
    return [("GET", response) for response in responses] + [("HEAD", response) for response in BASES + responses[::9]]


@unittest.skipUnless(NODE, "node is not installed")
class Responses(LabCase):
    def serve(self, talk):
        request = talk.head(Request)
        if request.target == "/sentinel":
            talk.send(SENTINEL)
        else:
            talk.send(self.odd[int(request.target[1:])][1])
        talk.finish()
        try:
            talk.read_all()
        except OSError:
            pass

    def forwarded(self, number, method):
        """Everything that a client hears to the odd request and one behind it; and whether it ended by a reset."""
        client = self.gw.client()
        client.send(f"{method} {self.url}/{number} HTTP/1.1\r\nHost: good.test\r\n\r\n"
                    f"GET {self.url}/sentinel HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")
        heard = b""
        try:
            while more := client.sock.recv(65536):
                heard += more
        except ConnectionResetError:
            return heard, True
        finally:
            client.close()
        return heard, False

    def read_by_node(self, heard):
        return run([NODE, SCRIPT], [method[:1].encode() + data for (method, _), data in zip(self.odd, heard)])

    @staticmethod
    def final(responses):
        """The first that is not interim, and what comes behind it."""
        for at, response in enumerate(responses):
            if response["status"] >= 200 or response["status"] == 101:
                return response, responses[at + 1:]
        return None, []

    def judge(self, original, heard, was_reset, directly, by_us):
        """Returns how it was taken: forwarded, refused or cut."""
        self.assertIn(by_us["error"], [None, "HPE_INVALID_EOF_STATE"], "what goes out is well formed as far as it goes")
        response, behind = self.final(by_us["responses"])
        if response is None or not response["complete"]:
            self.assertTrue(was_reset or by_us["error"], "it is cut and looks whole")
            if directly["error"] is None and original.startswith(b"HTTP/1.1 ") and self.final(directly["responses"])[0] is not None:
                self.assertFalse(self.final(directly["responses"])[0]["complete"], "node would have taken it whole")
            return "cut"
        self.assertIn([other["body"] for other in behind], [[], [b"sentinel".hex()]])
        if response["status"] == 502 and b"Proxy-Status: srt-gateway" in heard:
            return "refused"
        served, _ = self.final(directly["responses"])
        if served is None or not served["complete"]:
            self.assertIn(original, TAKEN_BY_US, "node would not have taken this response from the server")
            self.assertEqual(response["body"], b"hello".hex())
            return "forwarded"
        self.assertEqual((response["status"], response["body"]), (served["status"], served["body"]))
        return "forwarded"

    def test_node_reads_what_is_forwarded_as_the_server_said_it(self):
        self.odd = odd_responses()
        server = self.upstream(self.serve, "good.test")
        self.url = f"http://{server.authority}"
        self.gw = self.gateway(allow=[server.authority], hosts=[server])
        heard = [self.forwarded(number, method) for number, (method, _) in enumerate(self.odd)]
        counts = {"forwarded": 0, "refused": 0, "cut": 0}
        directly = self.read_by_node([response for _, response in self.odd])
        by_us = self.read_by_node([data for data, _ in heard])
        for (method, original), (data, was_reset), theirs, ours in zip(self.odd, heard, directly, by_us):
            with self.subTest(method=method, original=original, heard=data, directly=theirs, by_us=ours):
                counts[self.judge(original, data, was_reset, theirs, ours)] += 1
        self.assertGreater(len(self.odd), 1000, counts)
        self.assertGreater(counts["forwarded"], 200, counts)
        self.assertGreater(counts["refused"], 200, counts)
        self.assertGreater(counts["cut"], 5, counts)


if __name__ == "__main__":
    if NODE is None:
        print("node is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
