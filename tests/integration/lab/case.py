"""LabCase: makes the parts of a test, names them, and takes them down in the right order."""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from lab import gateway as gateway_module
from lab.names import NameServer
from lab.origin import Origin
from lab.pki import Authority
from lab.upstream import Upstream, echo


def lines_of(key, values):
    return "".join(f"{key} = {value}\n" for value in ([values] if isinstance(values, str) else values))


class LabCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="srt-lab-")
        os.chmod(self.directory, 0o755)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self._next_address = 2
        self._authority = None
        self._no_server = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
        os.replace(path + ".new", path)  # whoever reads it sees all or nothing
        return path

    # -- what can be reached

    def fresh_address(self):
        """127.0.0.2, 127.0.0.3, ...: each part of a test has its own."""
        address = f"127.0.0.{self._next_address}"
        self._next_address += 1
        return address

    def _own(self, part):
        self.addCleanup(self._judge, part)
        self.addCleanup(part.close)
        return part

    def _judge(self, part):
        for failure in part.failures:
            raise failure

    def origin(self, name=None, answer=None, address=None, tls=False):
        """An HTTP origin. `answer`: bytes or a function of the request."""
        return self._own(Origin(name, address or self.fresh_address(), answer, self._context(tls, name)))

    def upstream(self, script=echo, name=None, address=None, tls=False, backlog=128):
        """A TCP server that runs `script(talk)` for each connection."""
        return self._own(Upstream(name, address or self.fresh_address(), script, self._context(tls, name),
                                  backlog))

    def _context(self, tls, name):
        return self.authority().server(name or "127.0.0.2") if tls else None

    def name_server(self, answers, **where):
        return self._own(NameServer(answers, **where))

    def authority(self):
        if self._authority is None:
            os.makedirs(self.path("ca"), exist_ok=True)
            self._authority = Authority(self.path("ca"))
        return self._authority

    def closed_port(self, address="127.0.0.2"):
        """A port where nobody listens: bound, but never listening, so nobody else gets it."""
        sock = socket.socket()
        sock.bind((address, 0))
        self.addCleanup(sock.close)
        return sock.getsockname()[1]

    # -- the gateway

    def config(self, allow=(), deny=(), hosts=None, names=None, policy="", gateway="", dns="", listen=None,
               more="", allow_addresses="127.0.0.0/8", workers=2):
        """A configuration with one listener and one policy, both called `main`. `hosts`: servers or
        a table {name: addresses} for the hosts file; `names`: a NameServer; the rest is INI text for its section
        (`listen` replaces what the listener has).
        Loopback is excepted from the address guard unless `allow_addresses` says otherwise."""
        table = []
        if isinstance(hosts, dict):
            for name, addresses in hosts.items():
                table += [(address, name) for address in ([addresses] if isinstance(addresses, str) else addresses)]
        else:
            table = [(server.address, server.name) for server in hosts or ()]
        hosts_file = self.write("hosts", "".join(f"{address} {name}\n" for address, name in table))
        # A resolver nobody runs: a test without a name server never asks the machine's own.
        if names is None and self._no_server is None:
            self._no_server = f"127.0.0.1:{self.closed_port('127.0.0.1')}"
        servers = names.servers if names else self._no_server
        excepted = lines_of("allow-addresses", allow_addresses) if allow_addresses else ""
        listener = listen if listen is not None else "address = 127.0.0.1:0\npolicy = main"
        return (f"[gateway]\nworkers = {workers}\naudit-log = {self.path('audit.jsonl')}\n"
                f"control = none\nadmin = none\ndrain-timeout = 2s\n{gateway}\n"
                f"[dns]\nservers = {servers}\nhosts-file = {hosts_file}\n{dns}\n"
                f"[listen main]\n{listener}\n"
                f"[policy main]\n{lines_of('allow', allow)}{lines_of('deny', deny)}{excepted}{policy}\n"
                f"{more}\n")

    def gateway(self, config=None, user=None, wrapper=(), program=None, **parts):
        """A running gateway, from a whole configuration or from the parts of config()."""
        made = gateway_module.Gateway(self.directory, config if config is not None else self.config(**parts),
                                      user=user, wrapper=wrapper, program=program)
        self.addCleanup(made.stop)
        try:
            return made.start()
        except gateway_module.NotReady as ended:
            self.skip_unavailable(ended.stderr)
            raise

    def skip_unavailable(self, said):
        """What the contract names and this version refuses by name is skipped, visibly."""
        if "not available in this version" in said:
            self.skipTest(said.strip().split("\n")[-1])

    def tool(self, *arguments, stdin=None, status=0):
        """Runs `srt-gateway ARGUMENTS` to its end; the status must be as said. Returns (stdout, stderr)."""
        done = subprocess.run([gateway_module.binary(), *arguments], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=gateway_module.environment(), cwd=self.directory,
                              timeout=60, check=False)
        out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        self.assertIsNone(gateway_module.SANITIZER.search(err), err)
        if done.returncode != status:
            self.skip_unavailable(err)
        self.assertEqual(done.returncode, status, f"{arguments}: {out}{err}")
        return out, err

    def check(self, config, status=0, strict=False):
        """`srt-gateway check` on a configuration; returns what it said on stderr."""
        path = self.write("checked.ini", config)
        return self.tool("check", "-c", path, *(["--strict"] if strict else []), status=status)[1]

    def ordinary_user(self):
        """The uid of an ordinary user: ours, or nobody's when the tests run as root."""
        return os.getuid() or pwd.getpwnam("nobody").pw_uid

    # -- assertions

    def assert_refused(self, response, status, reason):
        """An HTTP refusal of ours, with everything that such an answer must carry. Returns the body."""
        self.assertEqual(response.status, status, response)
        self.assertRegex(response.get("Proxy-Status") or "", r'^srt-gateway; error=[a-z_]+; details="[^"\r\n]+"')
        self.assertEqual(response.get("Content-Type"), "application/json")
        body = json.loads(response.body.decode("utf-8"))
        self.assertEqual(body["reason"], reason, body)
        self.assertEqual(set(body), {"error", "reason", "host", "port", "policy", "rule", "request_id",
                                     "message", "next_step", "docs"})
        return body

    def processor_time(self):
        with open(f"/proc/{self.gw.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def assert_still(self):
        """It waits in the kernel. A loop that turns for nothing takes what it gets of a second, also on a busy machine."""
        time.sleep(0.1)  # what was just said is still being worked on
        before = self.processor_time()
        time.sleep(0.8)
        self.assertLess(self.processor_time() - before, 0.06, "the gateway turns round for nothing")

    def assert_untouched(self, *servers):
        """Nothing ever reached these servers."""
        for server in servers:
            self.assertEqual((server.connections, server.received), (0, b""), server.literal)


def main():
    """Runs the file as a program: `test_x.py [-v] [Class.test ...]`."""
    unittest.main(module=sys.modules["__main__"])
