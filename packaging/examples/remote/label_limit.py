#!/usr/bin/env python3
"""A rule module in a process of its own: a name has at most so many labels, so that nobody carries data out in names.

    label_limit.py SOCKET LABELS

    [filter short-names]
    module = unix:/run/srt-filters/label-limit.sock
"""

import json
import os
import socketserver
import sys


def decide(request):
    host = request["host"]
    if host.count(".") + 1 > LABELS and not host.replace(".", "").isdigit():
        return {"verdict": "deny", "reason": f"a name has at most {LABELS} labels"}
    return {"verdict": "pass"}


class Connection(socketserver.StreamRequestHandler):
    """One worker of the gateway: a line is one JSON object, each answer has the id of its question."""

    def say(self, message):
        self.request.sendall(json.dumps(message).encode() + b"\n")

    def handle(self):
        for line in self.rfile:
            message = json.loads(line)
            if "hello" in message:
                self.say({"id": 0, "hello": {"protocol": 1, "phases": ["request"], "fields": ["host"]}})
            elif "request" in message:
                self.say({"id": message["id"], **decide(message["request"])})


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    PATH, LABELS = sys.argv[1], int(sys.argv[2])
    if os.path.exists(PATH):
        os.remove(PATH)  # of the one before
    os.umask(0o077)  # the gateway asks nobody whose socket others may write to
    with Server(PATH, Connection) as server:
        server.serve_forever()
