#!/usr/bin/env python3
"""An external approver: a person says yes or no to each request, in any order, while its client waits.

    approve.py SOCKET

prints a line `NUMBER SANDBOX HOST:PORT` for each request and reads `yes NUMBER` or `no NUMBER` from its standard input.

    [filter person]
    module           = unix:/run/srt-filters/approve.sock
    timeout          = 10m         ; how long a client waits for the person
    concurrency      = 1000
    breaker-failures = 0           ; a person who does not answer is not a module that is broken

A yes is also the approval that a policy with `default = ask` waits for.
"""

import asyncio
import itertools
import json
import os
import sys

PENDING = {}  # number: how to answer
NUMBERS = itertools.count(1)


def show(text):
    print(text, flush=True)


async def serve(reader, writer):
    """One worker of the gateway."""
    mine = {}  # id: number

    def answer(id, verdict):
        PENDING.pop(mine.pop(id), None)
        writer.write(json.dumps({"id": id, **verdict}).encode() + b"\n")

    def ask(id, request):
        number = mine[id] = next(NUMBERS)
        PENDING[number] = lambda verdict: answer(id, verdict)
        show(f"{number} {request['sandbox'] or '-'} {request['host']}:{request['port']}")

    async for line in reader:
        message = json.loads(line)
        if "hello" in message:
            hello = {"protocol": 1, "phases": ["request", "abandon"], "fields": ["sandbox", "host", "port"]}
            writer.write(json.dumps({"id": 0, "hello": hello}).encode() + b"\n")
        elif "request" in message:
            ask(message["id"], message["request"])
        elif "abandon" in message and message["id"] in mine:
            number = mine.pop(message["id"])
            PENDING.pop(number)
            show(f"{number} is not waited for any more")
    for number in mine.values():
        PENDING.pop(number, None)
    writer.close()


def hear(line):
    """One line of the person's."""
    word, _, number = line.strip().partition(" ")
    waiting = PENDING.get(int(number)) if number.isdigit() else None
    if waiting is None or word not in ("yes", "no"):
        show("say `yes NUMBER` or `no NUMBER`")
    else:
        waiting({"verdict": "allow"} if word == "yes" else {"verdict": "deny", "reason": "a person said no"})


async def main(path):
    if os.path.exists(path):
        os.remove(path)  # of the one before
    os.umask(0o077)  # the gateway asks nobody whose socket others may write to
    server = await asyncio.start_unix_server(serve, path)
    person = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(person), sys.stdin)
    async for line in person:
        hear(line.decode())
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
