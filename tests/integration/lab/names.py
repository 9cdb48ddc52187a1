"""A scripted name server on UDP and TCP, with a log of what was asked."""

import socket
import struct
import threading

from lab.serve import serve
from lab.talk import PATIENCE_S

A, NS, CNAME, SOA, AAAA, OPT = 1, 2, 5, 6, 28, 41
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, REFUSED = 0, 1, 2, 3, 5
TYPE_WORDS = {A: "A", CNAME: "CNAME", AAAA: "AAAA"}


def encode_name(name):
    labels = [label for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in labels) + b"\x00"


def record(name, data, ttl=60):
    """A, AAAA or CNAME, by what `data` looks like."""
    for family, kind in ((socket.AF_INET, A), (socket.AF_INET6, AAAA)):
        try:
            return raw_record(name, kind, ttl, socket.inet_pton(family, data))
        except OSError:
            pass
    return raw_record(name, CNAME, ttl, encode_name(data))


def raw_record(name, kind, ttl, data):
    return encode_name(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


class Question:
    """What one datagram or TCP message asked."""

    def __init__(self, wire, transport):
        self.wire, self.transport = wire, transport
        self.id, self.flags = struct.unpack("!HH", wire[:4])
        at, labels = 12, []
        while wire[at]:
            labels.append(wire[at + 1:at + 1 + wire[at]].decode("latin-1"))
            at += 1 + wire[at]
        self.spelled = ".".join(labels)  # as on the wire, where 0x20 may mix the case
        self.name = self.spelled.lower()
        self.kind = struct.unpack("!H", wire[at + 1:at + 3])[0]
        self.type = TYPE_WORDS.get(self.kind, str(self.kind))
        self.section = wire[12:at + 5]

    def __repr__(self):
        return f"<{self.transport} {self.type} {self.name}>"


class Answer:
    """What to say. `delay` in seconds; `raw` replaces everything; `truncated` only concerns UDP."""

    def __init__(self, records=(), rcode=NOERROR, truncated=False, delay=0.0, raw=None, id=None,
                 section=None):
        self.records, self.rcode, self.truncated = list(records), rcode, truncated
        self.delay, self.raw, self.id, self.section = delay, raw, id, section

    def wire(self, question):
        if self.raw is not None:
            return self.raw
        truncated = self.truncated and question.transport == "udp"
        records = [] if truncated else self.records
        flags = 0x8180 | (0x0200 if truncated else 0) | self.rcode
        section = question.section if self.section is None else self.section
        return struct.pack("!HHHHHH", question.id if self.id is None else self.id, flags, 1,
                           len(records), 0, 0) + section + b"".join(records)


class NameServer:
    """`answers`: a function of the Question that returns an Answer, a list of Answers (all are sent), or None
    for silence; or a table {name: addresses}, where a name outside the table is NXDOMAIN. In a table a value may
    also be an Answer or such a function. The table may be changed while it serves."""

    def __init__(self, answers, address="127.0.0.1", port=0):
        self.answers = answers
        self.questions = []
        self.failures = []
        self.changed = threading.Condition()
        self._bind(address, port)
        self.servers = f"{self.address}:{self.port}"
        threading.Thread(target=self._serve_udp, daemon=True).start()
        serve(self._tcp, self._serve_stream)

    def _bind(self, address, port):
        for _ in range(50):  # the same port has to be free for both
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._udp.bind((address, port))
            self.address, self.port = self._udp.getsockname()
            self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                self._tcp.bind((address, self.port))
                self._tcp.listen(64)
                return
            except OSError:
                self._udp.close()
                self._tcp.close()
        raise OSError("no port is free for both UDP and TCP")

    def _look_up(self, question):
        found = self.answers
        if not callable(found):
            found = found.get(question.name, Answer(rcode=NXDOMAIN))
        if callable(found):
            found = found(question)
        if found is None:
            return []
        if isinstance(found, Answer):
            return [found]
        if found and all(isinstance(item, Answer) for item in found):
            return found
        records = [record(question.spelled, data) for data in found]
        kind = A if question.kind == A else AAAA
        return [Answer([wire for wire, data in zip(records, found)
                        if question.kind in (A, AAAA) and (":" in data) == (kind == AAAA)])]

    def _answer(self, wire, transport, say):
        try:
            question = Question(wire, transport)
            with self.changed:
                self.questions.append(question)
                self.changed.notify_all()
            for answer in self._look_up(question):
                if answer.delay:
                    threading.Timer(answer.delay, self._say, (say, answer.wire(question))).start()
                else:
                    self._say(say, answer.wire(question))
        except Exception as error:  # reported by LabCase when the test ends
            self.failures.append(error)

    @staticmethod
    def _say(say, wire):
        try:
            say(wire)
        except OSError:
            pass

    def _serve_udp(self):
        while True:
            try:
                wire, peer = self._udp.recvfrom(65536)
            except OSError:
                return
            if not wire:  # close() wakes us so
                return
            self._answer(wire, "udp", lambda answer, peer=peer: self._udp.sendto(answer, peer))

    def _serve_stream(self, sock):
        with sock, sock.makefile("rb") as stream:
            try:
                while True:
                    size = stream.read(2)
                    if len(size) < 2:
                        return
                    wire = stream.read(struct.unpack("!H", size)[0])
                    self._answer(wire, "tcp",
                                 lambda answer: sock.sendall(struct.pack("!H", len(answer)) + answer))
            except OSError:
                pass

    def asked(self, name=None, type=None, transport=None):
        """The questions so far, narrowed by what is given."""
        with self.changed:
            return [question for question in self.questions
                    if name in (None, question.name) and type in (None, question.type)
                    and transport in (None, question.transport)]

    def wait_until_asked(self, name, count=1):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.asked_unlocked(name)) >= count, PATIENCE_S):
                raise AssertionError(f"{name} was not asked for; asked: {self.questions}")

    def asked_unlocked(self, name):
        return [question for question in self.questions if question.name == name]

    def close(self):
        for sock in (self._udp, self._tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()
