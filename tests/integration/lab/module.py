"""A rule module in another process, as the gateway sees it: a Unix socket, one JSON object a line."""

import json
import os
import socket
import threading

from lab.serve import serve
from lab.talk import PATIENCE_S

HELLO = {"protocol": 1, "phases": ["request"]}


class Module:
    """`answer(message, say, module)` is called for each line but the hello, on the connection's own thread; `say` takes a
    message or raw bytes. `hello`: what is said to the gateway's hello; bytes are said as they are; None: nothing."""

    def __init__(self, path, answer, hello=None, silent=False):
        self.path, self.answer = path, answer
        self.hello = None if silent else hello if isinstance(hello, bytes) else {"id": 0, "hello": hello or HELLO}
        self.failures = []
        self.heard = threading.Condition()
        self.messages = []
        self.connections = 0
        self._sockets = []
        if os.path.exists(path):
            os.remove(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o700)
        self.listener.listen(128)
        serve(self.listener, self._serve, self._came)

    def _came(self, sock):
        with self.heard:
            self._sockets.append(sock)
            self.connections += 1
            self.heard.notify_all()
        return ()

    def _serve(self, sock):
        lock = threading.Lock()

        def say(message):
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            with lock:
                try:
                    sock.sendall(data)
                except OSError:
                    pass  # the gateway has left

        try:
            for line in sock.makefile("rb"):
                message = json.loads(line)
                with self.heard:
                    self.messages.append(message)
                    self.heard.notify_all()
                if "hello" in message:
                    if self.hello is not None:
                        say(self.hello)
                else:
                    self.answer(message, say, self)
        except OSError:
            pass
        except Exception as failure:  # pylint: disable=broad-except
            self.failures.append(failure)
        finally:
            sock.close()

    def asked(self, kind="request"):
        with self.heard:
            return [message[kind] for message in self.messages if kind in message]

    def wait_for(self, condition):
        """Until condition() holds; it is looked at whenever something is heard."""
        with self.heard:
            if not self.heard.wait_for(condition, PATIENCE_S):
                raise AssertionError(f"waited in vain; heard: {self.messages[-10:]}")

    def close(self):
        """As when its process ends."""
        self.listener.close()
        with self.heard:
            for sock in self._sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        try:
            os.remove(self.path)
        except FileNotFoundError:
            pass


def passing(message, say, _module):
    if "request" in message:
        say({"id": message["id"], "verdict": "pass"})


def denying(message, say, _module):
    if "request" in message:
        say({"id": message["id"], "verdict": "deny", "reason": "not today"})
