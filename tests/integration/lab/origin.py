"""A small HTTP origin that records what reached it, byte by byte."""

from lab.upstream import Upstream


def reply(status=200, body=b"", headers=(), phrase="Fine", length=True):
    """Bytes of a response. `length`: with a Content-Length."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} {phrase}"] + [f"{name}: {value}" for name, value in headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Origin(Upstream):
    """Answers requests by `answer`: bytes, or a function of the request that returns bytes (None ends the
    connection). Records whole requests in `requests`; `received` has every byte, whole request or not."""

    def __init__(self, name, address, answer=None, context=None):
        self.answer = answer if answer is not None else self.say_who
        self.requests = []
        super().__init__(name, address, self.serve, context)

    def say_who(self, request):
        body = f"{request.method} {request.target} at {self.name}"
        return reply(body=b"" if request.method == "HEAD" else body,
                     headers=[("Content-Type", "text/plain")])

    def serve(self, talk):
        while True:
            request = talk.incoming()
            if request is None:
                return
            request.connection = talk.number
            with self.changed:
                self.requests.append(request)
                self.changed.notify_all()
            answer = self.answer(request) if callable(self.answer) else self.answer
            if answer is None:
                return
            talk.send(answer)

    def wait_for_requests(self, count):
        self.wait(lambda: len(self.requests) >= count, f"{count} requests at {self.name}")
        return self.requests
