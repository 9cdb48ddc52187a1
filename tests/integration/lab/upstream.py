"""A scripted TCP server: a function of a Talk, run once for every connection."""

import socket
import threading

from lab.serve import serve
from lab.talk import PATIENCE_S, Closed, Talk, TimedOut


class RecordingTalk(Talk):
    """The server's end; every byte that arrives is kept in the upstream's `received`."""

    def __init__(self, sock, upstream, number):
        super().__init__(sock)
        self.upstream = upstream
        self.number = number

    def _more(self):
        before = len(self.buffer)
        more = super()._more()
        with self.upstream.changed:
            self.upstream.received += self.buffer[before:]
            if not more:
                self.upstream.ended += 1
            self.upstream.changed.notify_all()
        return more


class Upstream:
    """Listens on `address` (127.0.0.2 and up) and a port of the kernel's choice.

    `connections` counts what was accepted, `received` has every byte read, `ended` counts streams seen
    to their end. An exception in the script fails the test that owns the upstream (see `failures`)."""

    def __init__(self, name, address, script, context=None, backlog=128, port=0):
        self.name = name
        self.script = script
        self.context = context
        self.connections = 0
        self.ended = 0
        self.received = b""
        self.failures = []
        self.changed = threading.Condition()
        self._closing = False
        self._open = set()
        self._listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((address, port))
        self._listener.listen(backlog)
        self.address, self.port = self._listener.getsockname()[:2]
        host = f"[{self.address}]" if ":" in self.address else self.address
        self.authority = f"{name or host}:{self.port}"
        self.literal = f"{host}:{self.port}"
        serve(self._listener, self._serve, self._came)

    def _came(self, sock):
        with self.changed:
            self.connections += 1
            self._open.add(sock)
            self.changed.notify_all()
            return (self.connections,)

    def _serve(self, sock, number):
        talk = None
        try:
            served = self.context.wrap_socket(sock, server_side=True) if self.context else sock
            talk = RecordingTalk(served, self, number)
            self.script(talk)
        except (Closed, OSError):
            pass  # the other side went away; whether that is right is the test's question
        except TimedOut as error:
            if not self._closing:
                self.failures.append(error)
        except Exception as error:  # reported by LabCase when the test ends
            self.failures.append(error)
        finally:
            if talk is not None:
                talk.close()
            sock.close()
            with self.changed:
                self._open.discard(sock)
                self.changed.notify_all()

    def wait(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE_S):
                raise AssertionError(f"waited in vain for {what}")

    def wait_for_connections(self, count):
        self.wait(lambda: self.connections >= count, f"{count} connections at {self.literal}")

    def wait_until_ended(self, count=1):
        """Until that many streams were seen to end."""
        self.wait(lambda: self.ended >= count, f"{count} ends at {self.literal}")

    def close_listener(self):
        """Nobody gets in any more; what is open stays."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def close(self):
        self._closing = True
        self.close_listener()
        with self.changed:
            for sock in self._open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def echo(talk):
    """Says back what it hears, and finishes when the other side does."""
    while True:
        data = talk.read_some()
        if not data:
            talk.finish()
            return
        talk.send(data)


def swallow(talk):
    """Hears everything, says nothing."""
    talk.read_all()
