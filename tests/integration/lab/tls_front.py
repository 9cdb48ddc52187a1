"""TLS in front of a server of the laboratory that speaks in clear."""

import select
import socket
import ssl

from lab.serve import serve

STEP = 64 << 10


class TlsFront:
    """Listens at the server's address, on a port of its own, and carries what is inside to it.

    Half-closes as TLS has it: a close_notify for a FIN, both ways (python's SSLSocket cannot). `cuts`: the
    server's end becomes that of the connection, without a close_notify. `opened` counts handshakes that were
    completed, `names` has the server names, `protocols` what ALPN chose."""

    def __init__(self, server, context, cuts=False):
        self.server = server
        self.context = context
        self.cuts = cuts
        self.opened = 0
        self.names, self.protocols, self.failures = [], [], []
        context.sni_callback = lambda _, name, __: self.names.append(name)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self._listener = socket.create_server((server.address, 0))
        self.address, self.port = self._listener.getsockname()
        self.literal = f"{self.address}:{self.port}"
        serve(self._listener, self._serve)

    def _serve(self, sock):
        try:
            with sock:
                self._carry(sock, Session(sock, self.context))
        except OSError:
            pass  # the other side went away (ssl.SSLError is one): the test looks at what it said

    def _carry(self, sock, session):
        while not session.handshake():
            if not session.more():
                return
        self.opened += 1
        self.protocols.append(session.tls.selected_alpn_protocol())
        with socket.create_connection((self.server.address, self.server.port)) as plain:
            waiting = {sock, plain}
            if not self._deliver(session, plain):  # came with the end of the handshake
                waiting.discard(sock)
            while waiting:
                for ready in select.select(list(waiting), [], [])[0]:
                    if not (self._inwards(session, plain) if ready is sock else self._outwards(session, plain)):
                        waiting.discard(ready)

    def _inwards(self, session, plain):
        if not session.more():
            raise OSError("ended without close_notify")
        return self._deliver(session, plain)

    def _deliver(self, session, plain):
        data, ended = session.read()
        plain.sendall(data)
        if ended:
            plain.shutdown(socket.SHUT_WR)
        return not ended

    def _outwards(self, session, plain):
        data = plain.recv(STEP)
        if data:
            session.write(data)
        elif self.cuts:
            session.sock.shutdown(socket.SHUT_WR)
        else:
            session.finish()
        return bool(data)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Session:
    def __init__(self, sock, context):
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def more(self):
        data = self.sock.recv(STEP)
        self.incoming.write(data)
        return bool(data)

    def _flush(self):
        self.sock.sendall(self.outgoing.read())

    def handshake(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()

    def read(self):
        """What there is, and whether that was all."""
        data = b""
        while True:
            try:
                step = self.tls.read(STEP)
            except ssl.SSLWantReadError:
                return data, False
            except ssl.SSLZeroReturnError:
                step = b""
            if not step:
                return data, True
            data += step

    def write(self, data):
        self.tls.write(data)
        self._flush()

    def finish(self):
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass  # our close_notify is out; theirs comes when it comes
        self._flush()
        self.sock.shutdown(socket.SHUT_WR)
