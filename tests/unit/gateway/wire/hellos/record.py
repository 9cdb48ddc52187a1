#!/usr/bin/env python3
"""Records the ClientHello that each TLS client of this machine sends for good.test.

usage: record.py FOLDER

Every client is pointed at a CONNECT proxy on loopback that answers 200, keeps the first flight of the
tunnel in FOLDER/CLIENT.bin and hangs up. chromium-like.bin and go-like.bin are built here from what
those clients are known to send (GREASE, an ECH decoy, a post-quantum key share), since neither is at
hand as a package that a test could need.
"""
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

JAVA = """
public class Hello {
    public static void main(String[] args) throws Exception {
        new java.net.URL("https://good.test/").openStream();
    }
}
"""
PYTHON = """
import http.client, sys
c = http.client.HTTPSConnection("127.0.0.1", int(sys.argv[1]))
c.set_tunnel("good.test", 443)
c.request("GET", "/")
"""
NODE = """
const net = require('net'), tls = require('tls');
const s = net.connect(+process.argv[1], '127.0.0.1', () => s.write('CONNECT good.test:443 HTTP/1.1\\r\\n\\r\\n'));
s.once('data', () => tls.connect({socket: s, servername: 'good.test', ALPNProtocols: ['h2', 'http/1.1']})
    .on('error', () => process.exit()));
"""


def read_hello(conn):
    """One record is enough for these clients: its header says how long it is."""
    data = b""
    while len(data) < 5 or len(data) < 5 + struct.unpack(">H", data[3:5])[0]:
        piece = conn.recv(65536)
        if not piece:
            break
        data += piece
    return data


def record(command, port_of):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    hello = []

    def serve():
        conn, _ = listener.accept()
        with conn:
            head = b""
            while b"\r\n\r\n" not in head:
                head += conn.recv(4096)
            conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            hello.append(read_hello(conn))

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    client = subprocess.Popen([part.replace("PORT", str(port)) for part in command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={**os.environ, **port_of(port)})
    server.join(30)
    client.kill()
    client.wait()
    return hello[0]


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data):
    return struct.pack(">H", kind) + vector(2, data)


def build(suites, extensions, rng):
    body = (b"\x03\x03" + rng.randbytes(32) + vector(1, rng.randbytes(32))
            + vector(2, b"".join(struct.pack(">H", suite) for suite in suites)) + vector(1, b"\0")
            + vector(2, b"".join(extensions)))
    return b"\x16\x03\x01" + vector(2, b"\x01" + vector(3, body))


def server_name(name):
    return extension(0, vector(2, b"\0" + vector(2, name)))


def chromium_like(rng):
    shares = [(0xCACA, b"\0"), (0x11EC, rng.randbytes(1216)), (29, rng.randbytes(32))]
    return build(
        [0x3A3A, 0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030],
        [extension(0x4A4A, b""), extension(0x0010, vector(2, b"\x02h2\x08http/1.1")),
         extension(0xFE0D, b"\0\0\1\0\1" + b"\x2a" + vector(2, rng.randbytes(32))
                   + vector(2, rng.randbytes(208))),
         extension(0x000A, vector(2, b"\xca\xca\x11\xec\x00\x1d\x00\x17\x00\x18")),
         server_name(b"good.test"),
         extension(0x0033, vector(2, b"".join(struct.pack(">H", group) + vector(2, key)
                                              for group, key in shares))),
         extension(0x002B, b"\x06\xba\xba\x03\x04\x03\x03"), extension(0x1A1A, b"\0")], rng)


def go_like(rng):
    return build(
        [0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0x1301, 0x1302, 0x1303],
        [server_name(b"good.test"), extension(5, b"\1\0\0\0\0"),
         extension(10, vector(2, b"\0\x1d\0\x17\0\x18\0\x19")), extension(11, b"\1\0"),
         extension(0xFF01, b"\0"), extension(18, b""),
         extension(43, b"\x04\x03\x04\x03\x03"),
         extension(51, vector(2, b"\0\x1d" + vector(2, rng.randbytes(32))))], rng)


def main():
    folder = pathlib.Path(sys.argv[1])
    rng = random.Random(1)
    (folder / "chromium-like.bin").write_bytes(chromium_like(rng))
    (folder / "go-like.bin").write_bytes(go_like(rng))
    with tempfile.TemporaryDirectory() as scratch:
        java = pathlib.Path(scratch, "Hello.java")
        java.write_text(JAVA)
        clients = {
            "openssl": ["openssl", "s_client", "-proxy", "127.0.0.1:PORT", "-connect",
                        "good.test:443", "-servername", "good.test"],
            "openssl-tls12": ["openssl", "s_client", "-proxy", "127.0.0.1:PORT", "-connect",
                              "good.test:443", "-servername", "good.test", "-tls1_2"],
            "curl": ["curl", "-x", "http://127.0.0.1:PORT", "https://good.test/"],
            "wget": ["wget", "-t1", "-O-", "https://good.test/"],
            "node": ["node", "-e", NODE, "PORT"],
            "python": [sys.executable, "-c", PYTHON, "PORT"],
            "java": ["java", "-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=PORT", str(java)],
        }
        for name, command in clients.items():
            if shutil.which(command[0]) is None:
                print(f"{name}: not on this machine")
                continue
            hello = record(command, lambda port: {"https_proxy": f"http://127.0.0.1:{port}"})
            (folder / f"{name}.bin").write_bytes(hello)
            print(f"{name}: {len(hello)} bytes")


if __name__ == "__main__":
    main()
