"""Two parsers, one meaning: odd request heads through ours and through node's (llhttp, strict).

Whatever ours would forward, node must read with the same method, target, Host and body length; and where
node reads the client's own bytes at all, it must not read them differently. Each stream ends with a
second request, which a difference about the body's length would swallow or split. First by the parser
alone, then through a running gateway with node for an origin.
"""

import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import unittest

from lab import LabCase

NODE = shutil.which("node")
TOOLS = os.environ.get("SRT_TOOLS_DIR", "")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools", "node_requests.js")

SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: sentinel\r\n\r\n"
CHUNKED_BODY = b"5\r\nhello\r\n0\r\n\r\n"
LONGEST_BODY = 4096

BASES = [
    b"GET http://good.test/a HTTP/1.1\r\nHost: good.test\r\nX: y\r\n\r\n",
    b"POST http://good.test/a?b HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5\r\n\r\n",
    b"PUT http://good.test/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: good.test\r\n\r\n",
    b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n",
    b"GET http://good.test:8080/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
]

LINES = [
    b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 3, 5", b"Content-Length: 5, 5",
    b"Content-Length: +5", b"Content-Length: -5", b"Content-Length: 0x5", b"Content-Length: 5 5",
    b"Content-Length: 05", b"Content-Length:", b"Content-Length: 5;", b"Content-Length:5\t",
    b"Content-Length : 5", b"Content-Length\t: 5", b" Content-Length: 5", b"content-length: 7",
    b"Content-Length: 99999999999999999999999999", b"Content_Length: 5", b"Content-Length\0: 5",
    b"Content-Length: 5\0", b"Content-Length: 5\x0b", b"Content-Length: \x0c5", b"Content-Length: \xb25",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked", b"Transfer-Encoding: chunked,",
    b"Transfer-Encoding: , chunked", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: x chunked", b"Transfer-Encoding: chunked\t", b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding\t: chunked", b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding: \"chunked\"", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding\r\n: chunked",
    b"Transfer-Encoding: chu\r\n nked", b"Transfer_Encoding: chunked", b"transfer-encoding:CHUNKED",
    b"Host: evil.test", b"Host:", b"Host: a b", b"Host: u@good.test", b"Host: good.test:99999",
    b"Host : evil.test", b"Host\0: evil.test", b"hOST: good.test",
    b": x", b":", b"x", b"x y: z", b"x\xe9: z", b"(x): z", b"x: \x01", b"x: \x7f", b"x: \x00", b"x: \xe9\xff",
    b"x: a\r\n b", b"x: a\r\n\tb", b"x: a\nContent-Length: 5", b"x: a\rContent-Length: 5", b"x: a\r\r\n",
    b"x:", b"x: \t ", b"x:y:z", b"x: \"a\\", b"\tx: y", b"x: y\r", b"\n", b"\r",
    b"Connection: close", b"Connection: keep-alive, close", b"Connection: host, content-length",
    b"Connection: transfer-encoding", b"Connection: x, close, keep-alive", b"Connection: upgrade",
    b"Connection: upgrade\r\nUpgrade: websocket", b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA",
    b"Upgrade: websocket", b"Proxy-Connection: close", b"Expect: 100-continue", b"Expect: tea", b"TE: trailers",
    b"Trailer: Content-Length", b"Via: 1.1 x", b"Keep-Alive: 5", b"Proxy-Authorization: Basic eDp5",
]

TARGETS = [
    b"http://good.test", b"http://good.test?x", b"http://good.test/?", b"http://good.test//", b"HTTP://GOOD.test/",
    b"http://good.test./", b"http://good.test:/", b"http://good.test:080/", b"http://good.test:0/",
    b"http://good.test:65536/", b"http://good.test@evil.test/", b"http://good.test#@evil.test/",
    b"http://good.test\\@evil.test/", b"http://good.test/\\", b"http://good.test/#x", b"http://good.test/a b",
    b"http://good.test/\x01", b"http://good.test/\x7f", b"http://good.test/\xe9", b"http://g\xc3\xb6.test/",
    b"http://good.test%2f.evil.test/", b"http://good.test/%00", b"http://good.test/%zz", b"http://[::1]/",
    b"http://[::1]:80/", b"http://[::ffff:127.0.0.1]/", b"http://[::1/", b"http://[good.test]/", b"http://::1/",
    b"http://127.0.0.1/", b"http://127.1/", b"http://0x7f000001/", b"http:///a", b"http:/good.test/",
    b"http:good.test/", b"https://good.test/", b"ftp://good.test/", b"good.test/", b"good.test:80", b"/a", b"//a",
    b"*", b"?", b"", b"\t", b"http://good.test/\t", b"http://good.test/{}|^`\"<>", b"http://good.test,evil.test/",
    b"http://good_test/", b"http://-good.test/", b"http://good.test;x/", b"http://good.test&evil.test/",
]

METHODS = [b"get", b"GET ", b" GET", b"G\xe9T", b"G(T", b"OPTIONS", b"TRACE", b"HEAD", b"DELETE", b"X", b"connect", b"",
           b"\r\nGET", b"\r\n\r\nGET", b"\nGET", b"PRI", b"GET\x0b", b"M-SEARCH", b"QUERY"]

VERSIONS = [b"HTTP/1.1 ", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b"HTTP/01.1",
            b"HTTP/1", b"HTTP/", b"", b"HTTPS/1.1", b" HTTP/1.1", b"HTTP/1.1\t", b"ICE/1.0", b"HTTP/1.1\r", b"RTSP/1.0"]

BYTES = [bytes([value]) for value in b"\0\t\n\x0b\r !\"#%&'(),-./0159:;<=>?@ACPX[\\]_`ae{|}~\x7f\x80\xe9\xff"]


def odd_heads():
    heads = list(BASES)
    for base in BASES:
        method, target, rest = base.split(b" ", 2)
        version, fields = rest.split(b"\r\n", 1)
        for line in LINES:
            heads.append(base[:-2] + line + b"\r\n\r\n")
            heads.append(b" ".join([method, target, version]) + b"\r\n" + line + b"\r\n" + fields)
        heads += [b" ".join([method, other, rest]) for other in TARGETS]
        heads += [b" ".join([other, target, rest]) for other in METHODS]
        heads += [b" ".join([method, target, other]) + b"\r\n" + fields for other in VERSIONS]
        heads += [base.replace(b"\r\n", b"\n"), base.replace(b"\r\n", b"\r"), base.replace(b"\r\n", b"\n\r")]
    rng = random.Random(4)
    for _ in range(1500):
        head = bytearray(rng.choice(BASES))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = rng.randrange(len(head))
            head[at:at + rng.choice([0, 1])] = rng.choice(BYTES + [b""])
        heads.append(bytes(head))
    return heads


def run(command, streams):
    data = b"".join(struct.pack(">I", len(stream)) + stream for stream in streams)
    answers = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, timeout=300).stdout
    answers = [json.loads(line) for line in answers.decode().split("\n") if line]
    assert len(answers) == len(streams), (command, len(answers), len(streams))
    return answers


def body_for(ours):
    if ours["body"] == "length":
        return b"b" * ours["length"], ours["length"]
    return (CHUNKED_BODY, 5) if ours["body"] == "chunked" else (b"", 0)


def node_methods():
    return json.loads(subprocess.check_output([NODE, "-p", "JSON.stringify(require('http').METHODS)"]))


@unittest.skipUnless(NODE, "node is not installed")
class ByTheParser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.heads = odd_heads()
        cls.ours = run([os.path.join(TOOLS, "http_heads")], cls.heads)
        cls.methods = node_methods()

    def accepted(self):
        """Ours took it, its size is the whole head, and its body is short enough to send."""
        for head, ours in zip(self.heads, self.ours):
            if ours["result"] == "parsed" and ours["length"] <= LONGEST_BODY:
                yield head, ours

    def test_the_corpus_is_worth_its_name(self):
        counts = {result: sum(ours["result"] == result for ours in self.ours)
                  for result in ("parsed", "more", "refused")}
        self.assertGreater(len(self.heads), 2000)
        self.assertGreater(counts["parsed"], 300, counts)
        self.assertGreater(counts["refused"], 1000, counts)

    def test_node_reads_what_is_forwarded_as_it_was_judged(self):
        forwards = [(head, ours) for head, ours in self.accepted()
                    if ours["form"] == "absolute" and ours["method"] in self.methods]
        self.assertGreater(len(forwards), 200)
        streams = [bytes.fromhex(ours["forwarded"]) + body_for(ours)[0] + SENTINEL for _, ours in forwards]
        for (head, ours), stream, node in zip(forwards, streams, run([NODE, SCRIPT], streams)):
            with self.subTest(head=head, stream=stream):
                self.assertIsNone(node["error"])
                self.assertEqual(len(node["requests"]), 2, node)
                request, sentinel = node["requests"]
                self.assertEqual(request, {"method": ours["method"], "url": ours["path"] + ours["query"],
                                           "hosts": [ours["host"]], "length": body_for(ours)[1],
                                           "upgrade": False})
                self.assertEqual(sentinel["url"], "/sentinel")

    def test_node_never_reads_the_clients_bytes_differently(self):
        taken = list(self.accepted())
        streams = [head[:ours["size"]] + body_for(ours)[0] + (SENTINEL if ours["keep_alive"] else b"")
                   for head, ours in taken]
        agreed = 0
        for (head, ours), node in zip(taken, run([NODE, SCRIPT], streams)):
            if node["error"] is not None and node["requests"] in ([], [None]):
                continue  # refused, maybe only at its body: no second meaning
            with self.subTest(head=head, ours=ours, node=node):
                request = node["requests"][0]
                self.assertEqual(request["method"], ours["method"])
                self.assertEqual(request["url"], ours["target"])
                self.assertEqual(request["length"], body_for(ours)[1])
                behind = [other["url"] for other in node["requests"][1:]]
                if request["upgrade"]:  # node may read no further, whatever becomes of the upgrade
                    self.assertIn(behind, [[], ["/sentinel"]])
                else:
                    is_followed = ours["keep_alive"] and ours["form"] != "authority"
                    self.assertEqual(behind, ["/sentinel"] if is_followed else [])
                agreed += 1
        self.assertGreater(agreed, 200)


class Origin:
    """Node on a port where heads without one lead, and what it has read so far."""

    def __init__(self, address):
        self.address = address
        self.process = subprocess.Popen([NODE, SCRIPT, address, "80"], stdout=subprocess.PIPE)
        self.error = json.loads(self.process.stdout.readline()).get("error")

    def ask(self, path):
        with socket.create_connection((self.address, 80), 20) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: mark\r\nConnection: close\r\n\r\n".encode())
            while sock.recv(4096):
                pass

    def read_up_to(self, path):
        """What came before the request for `path`, which is asked for here."""
        self.ask(path)
        seen = []
        while True:
            said = json.loads(self.process.stdout.readline())
            if said.get("url") == path:
                return seen
            seen.append(said)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


@unittest.skipUnless(NODE, "node is not installed")
class ThroughTheGateway(LabCase):
    def setUp(self):
        super().setUp()
        self.node = Origin(self.fresh_address())
        self.addCleanup(self.node.close)
        if self.node.error:
            self.skipTest(f"port 80 of {self.node.address}: {self.node.error}")
        self.running = self.gateway(allow=["good.test", "*.test"], hosts={"good.test": self.node.address})

    def say(self, data):
        """One connection that says this and no more; the answers."""
        client = self.running.client()
        answers = b""
        try:
            client.sock.sendall(data)
            client.sock.shutdown(socket.SHUT_WR)
            while more := client.sock.recv(65536):
                answers += more
        except ConnectionError:
            pass  # refused and closed with our bytes unread
        finally:
            client.sock.close()
        return answers

    def test_node_gets_what_was_judged_and_nothing_else(self):
        heads = [head for head in odd_heads() if not head.startswith(b"CONNECT")]
        methods = node_methods()
        forwarded = 0
        for number, (head, ours) in enumerate(zip(heads, run([os.path.join(TOOLS, "http_heads")], heads))):
            is_parsed = ours["result"] == "parsed"
            if is_parsed and (ours["length"] > LONGEST_BODY or ours["method"] not in methods):
                continue
            body, length = body_for(ours) if is_parsed else (b"", 0)
            answers = self.say(head + body + b"GET http://good.test/behind HTTP/1.1\r\nHost: good.test\r\n\r\n")
            seen = self.node.read_up_to(f"/mark-{number}")
            with self.subTest(head=head, ours=ours, seen=seen, answers=answers):
                self.assertFalse([said for said in seen if "error" in said])
                if seen and seen[-1]["url"] == "/behind":
                    self.assertTrue(is_parsed)
                    seen.pop()
                if not is_parsed:
                    self.assertNotIn(b" 200 OK", answers.split(b"\r\n")[0])
                if not is_parsed or ours.get("host") != "good.test:80" or ours["method"] == "TRACE":
                    self.assertEqual(seen, [])
                    continue
                self.assertEqual(seen, [{"method": ours["method"], "url": ours["path"] + ours["query"],
                                         "hosts": ["good.test"], "length": length,
                                         "upgrade": bool(seen) and seen[0]["upgrade"]}])
                forwarded += 1
        self.assertGreater(forwarded, 100)


if __name__ == "__main__":
    if NODE is None:
        print("node is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
