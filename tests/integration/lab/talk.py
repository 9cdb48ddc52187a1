"""One end of a TCP or Unix connection, with what a conversation needs: say, read until, expect."""

import re
import socket
import ssl
import struct
import time

PATIENCE_S = 20.0  # a failure, not a pause: nothing in a passing test waits this long


class Closed(AssertionError):
    """The other side ended the conversation earlier than expected."""


class TimedOut(AssertionError):
    """The other side stayed silent."""


class Message:
    """An HTTP message as it was on the wire, and what it means."""

    def __init__(self, raw_head):
        self.raw_head = raw_head
        lines = raw_head.decode("latin-1").split("\r\n")
        self.first_line = lines[0]
        self.headers = []
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                self.headers.append((name, value.strip(" \t")))
        self.body = b""
        self.trailers = []

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.all(name)
        return values[0] if values else default

    def __repr__(self):
        return f"<{self.first_line!r} {self.headers} {self.body[:60]!r}>"


class Response(Message):
    def __init__(self, raw_head):
        super().__init__(raw_head)
        match = re.fullmatch(r"HTTP/(\d\.\d) (\d{3})(?: (.*))?", self.first_line)
        if match is None:
            raise AssertionError(f"not a status line: {self.first_line!r}")
        self.version, self.status, self.phrase = match[1], int(match[2]), match[3] or ""


class Request(Message):
    def __init__(self, raw_head):
        super().__init__(raw_head)
        self.method, self.target, self.version = self.first_line.split(" ")


def as_bytes(data):
    return data.encode("latin-1") if isinstance(data, str) else data


class Talk:
    def __init__(self, sock, timeout=PATIENCE_S):
        self.sock = sock
        self.sock.settimeout(timeout)
        self.buffer = b""
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # -- saying

    def send(self, data):
        self.sock.sendall(as_bytes(data))
        return self

    def dribble(self, data):
        """One write a byte; a reader that assumes whole messages breaks here."""
        for byte in as_bytes(data):
            try:
                self.sock.sendall(bytes([byte]))
            except (BrokenPipeError, ConnectionResetError):
                break  # an early refusal; what it says is still to be read
            time.sleep(0)  # yields, so that the other side usually reads the byte alone
        return self

    def request(self, line, headers=(), body=b"", how="send"):
        """A request whose Host is taken from an absolute target unless `headers` has one."""
        headers = list(headers)
        if not any(name.lower() == "host" for name, _ in headers):
            target = line.split(" ")[1]
            host = re.split("[/?]", target.split("://", 1)[1], maxsplit=1)[0] if "://" in target else target
            headers.insert(0, ("Host", host))
        body = as_bytes(body)
        if body and not any(name.lower() in ("content-length", "transfer-encoding")
                            for name, _ in headers):
            headers.append(("Content-Length", str(len(body))))
        head = line + "\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
        getattr(self, how)(head.encode("latin-1") + body)
        return self

    def get(self, url, headers=(), how="send"):
        self.request(f"GET {url} HTTP/1.1", headers, how=how)
        return self.response()

    def finish(self):
        """Half-close: nothing more will be said, but the answer is awaited."""
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        """Ends the connection with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    # -- hearing

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except (socket.timeout, TimeoutError):
            raise TimedOut(f"silence after {self.buffer[-200:]!r}") from None
        except ssl.SSLZeroReturnError:
            data = b""
        self.buffer += data
        return bool(data)

    def read_until(self, end):
        end = as_bytes(end)
        while end not in self.buffer:
            if not self._more():
                raise Closed(f"closed before {end!r}, after {self.buffer[-300:]!r}")
        at = self.buffer.index(end) + len(end)
        data, self.buffer = self.buffer[:at], self.buffer[at:]
        return data

    def read_exactly(self, count):
        parts, have = [self.buffer], len(self.buffer)
        self.buffer = b""
        while have < count:
            if not self._more():
                raise Closed(f"closed after {have} of {count} bytes")
            parts.append(self.buffer)
            have += len(self.buffer)
            self.buffer = b""
        data = b"".join(parts)
        self.buffer = data[count:]
        return data[:count]

    def read_all(self):
        """Everything up to the end of the stream."""
        parts = []
        while True:
            parts.append(self.buffer)
            self.buffer = b""
            if not self._more():
                return b"".join(parts)

    def read_some(self):
        """Whatever comes next; b"" at the end of the stream."""
        if not self.buffer:
            self._more()
        data, self.buffer = self.buffer, b""
        return data

    def expect(self, data):
        data = as_bytes(data)
        got = self.read_exactly(len(data))
        if got != data:
            raise AssertionError(f"expected {data!r}, got {got!r}")
        return self

    def expect_eof(self):
        """The other side says nothing more and ends: by FIN, or by RST where it had to."""
        try:
            rest = self.read_all()
        except (ConnectionResetError, ssl.SSLError):
            rest = b""
        if rest:
            raise AssertionError(f"expected the end, got {rest[:300]!r}")
        return self

    def expect_silence(self, seconds=0.2):
        """Nothing arrives for a moment. The one place that needs time: absence has no event."""
        if self.buffer:
            raise AssertionError(f"expected silence, got {self.buffer[:300]!r}")
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(65536)
        except (socket.timeout, TimeoutError):
            return self
        finally:
            self.sock.settimeout(PATIENCE_S)
        raise AssertionError(f"expected silence, got {data[:300]!r}" if data else "expected silence, got the end")

    def head(self, kind):
        return kind(self.read_until(b"\r\n\r\n"))

    def response(self, to_method="GET", interim=False):
        """The next final response with its body; with `interim` also a 1xx."""
        while True:
            response = self.head(Response)
            if 100 <= response.status < 200 and response.status != 101:
                if interim:
                    return response
                continue
            break
        bodiless = to_method == "HEAD" or response.status in (101, 204, 304) or (
            to_method == "CONNECT" and response.status // 100 == 2)
        if not bodiless:
            self._read_body(response, closes=True)
        return response

    def incoming(self):
        """The next request, with its body; None when the other side has finished."""
        try:
            request = self.head(Request)
        except (Closed, ConnectionResetError):
            return None
        if (request.get("Expect") or "").lower() != "100-continue":
            self._read_body(request, closes=False)
        return request

    def _read_body(self, message, closes):
        codings = message.get("Transfer-Encoding")
        if codings is not None:
            message.body = self.read_chunks(message)
        elif message.get("Content-Length") is not None:
            message.body = self.read_exactly(int(message.get("Content-Length")))
        elif closes:
            message.body = self.read_all()

    def read_chunks(self, message=None):
        body = b""
        while True:
            size = int(self.read_until(b"\r\n")[:-2].split(b";")[0], 16)
            if size == 0:
                break
            body += self.read_exactly(size)
            self.expect(b"\r\n")
        while True:
            line = self.read_until(b"\r\n")[:-2]
            if not line:
                return body
            if message is not None:
                name, _, value = line.decode("latin-1").partition(":")
                message.trailers.append((name, value.strip()))

    # -- longer conversations

    def connect_to(self, authority, headers=()):
        """CONNECT and the 200; afterwards this is the tunnel."""
        self.request(f"CONNECT {authority} HTTP/1.1", headers)
        response = self.response(to_method="CONNECT")
        if response.status != 200:
            raise AssertionError(f"CONNECT {authority}: {response.status} {response.body!r}")
        return self

    def socks(self, host, port, user=None, password=None, how="send", command=1):
        """SOCKS5 up to the reply, which is returned as (code, bound address, bound port)."""
        say = getattr(self, how)
        say(b"\x05\x01" + (b"\x00" if user is None else b"\x02"))
        choice = self.read_exactly(2)
        if choice != (b"\x05\x00" if user is None else b"\x05\x02"):
            raise Closed(f"SOCKS method refused: {choice!r}")
        if user is not None:
            user, password = as_bytes(user), as_bytes(password)
            say(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
            status = self.read_exactly(2)
            if status != b"\x01\x00":
                raise Closed(f"SOCKS password refused: {status!r}")
        say(socks_request(host, port, command))
        return self.socks_reply()

    def socks_reply(self):
        version, code, reserved, kind = self.read_exactly(4)
        if version != 5 or reserved != 0 or kind not in (1, 4):
            raise AssertionError(f"malformed SOCKS reply: {version} {code} {reserved} {kind}")
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        address = socket.inet_ntop(family, self.read_exactly(size))
        return code, address, struct.unpack("!H", self.read_exactly(2))[0]

    def start_tls(self, context, server_name):
        """Becomes a TLS client over what there is."""
        if self.buffer:
            raise AssertionError(f"unread before TLS: {self.buffer!r}")
        self.sock = context.wrap_socket(self.sock, server_hostname=server_name)
        return self

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def socks_request(host, port, command=1):
    """The third SOCKS5 message. `host`: bytes for the domain type as they are, or text; an address in
    text is sent as an address."""
    if isinstance(host, str):
        for family, kind in ((socket.AF_INET, b"\x01"), (socket.AF_INET6, b"\x04")):
            try:
                return bytes([5, command, 0]) + kind + socket.inet_pton(family, host) + struct.pack("!H", port)
            except OSError:
                pass
        host = host.encode("latin-1")
    return bytes([5, command, 0, 3, len(host)]) + host + struct.pack("!H", port)


def whole_and_dribbled(case):
    """for how in whole_and_dribbled(self): the body runs with `send` and with `dribble`."""
    for how in ("send", "dribble"):
        with case.subTest(how=how):
            yield how
