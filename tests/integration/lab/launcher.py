"""A launcher (include/srt/attach.h) that the test plays, honest or hostile."""

import json
import socket
import struct

from lab.names import encode_name
from lab.talk import PATIENCE_S, Talk


class Launcher:
    """One control connection and the listeners that go with it."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(path)
        self.listeners, self.talks = [], []

    def listen(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.listeners.append(listener)
        return listener

    def datagrams(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        self.listeners.append(sock)
        return sock

    @staticmethod
    def frame(message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        return struct.pack(">I", len(text)) + text

    def send(self, message, descriptors=()):
        data = self.frame(message)
        sent = socket.send_fds(self.sock, [data], [sock.fileno() for sock in descriptors])
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def attach(self, name="box", descriptors=None, **more):
        if descriptors is None:
            descriptors = [self.listen()]
        message = {"type": "attach", "version": 1, "name": name, "policy": None, "command": "make",
                   "listeners": ["proxy"] * len(descriptors), "network": None, **more}
        self.send(message, descriptors)
        return self.read()

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise EOFError(f"ended after {data!r}")
            data += more
        return data

    def read(self):
        return json.loads(self.read_exactly(struct.unpack(">I", self.read_exactly(4))[0]))

    def at_end(self):
        """Whether the gateway has closed the connection; what still comes is thrown away."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def client(self, number=0):
        talk = Talk(socket.create_connection(self.listeners[number].getsockname(), PATIENCE_S))
        self.talks.append(talk)
        return talk

    def look_up(self, name, number=1):
        """The address that the resolver at that socket gives for it."""
        question = b"\0\7\1\0\0\1" + bytes(6) + encode_name(name) + b"\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(self.listeners[number].getsockname())
            sock.send(question)
            return socket.inet_ntoa(sock.recv(4096)[-4:])

    def connect(self, authority):
        talk = self.client()
        talk.request(f"CONNECT {authority} HTTP/1.1", ())
        return talk, talk.response(to_method="CONNECT")

    def close(self):
        self.sock.close()
        for talk in self.talks:
            talk.close()
        for listener in self.listeners:
            listener.close()
