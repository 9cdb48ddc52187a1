"""The gateway under test: a real process with a configuration of its own."""

import ctypes
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

from lab.talk import PATIENCE_S, Talk

SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|MemorySanitizer|runtime error:"
                       r"|Assertion .* failed|libev: ")
BOUND = re.compile(r"(?:([A-Za-z0-9_.-]+)=)?(unix:/\S+|\[[0-9a-fA-F:.%]+\]:\d+|\d+\.\d+\.\d+\.\d+:\d+)")


class GatewayDied(AssertionError):
    pass


class NotReady(AssertionError):
    """It ended before it was ready; `status` and `stderr` say how."""

    def __init__(self, status, stderr):
        super().__init__(f"srt-gateway ended with {status} before it was ready:\n{stderr}")
        self.status, self.stderr = status, stderr


def binary():
    path = os.environ.get("SRT_GATEWAY_BIN")
    if not path:
        raise RuntimeError("SRT_GATEWAY_BIN names no srt-gateway: run tests/run, or ctest in a build tree")
    return path


def environment():
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", "second_deadlock_stack=1")
    return env


class Successor:
    """A gateway that another one started (USR2): nobody's child but ours, since we are its subreaper.
    As much of Popen as is needed here."""

    def __init__(self, pid, stderr):
        self.pid, self.stderr, self.returncode = pid, stderr, None

    def _ended(self, options):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def poll(self):
        return self._ended(os.WNOHANG)

    def wait(self, timeout):
        if self.returncode is not None:
            return self.returncode
        fd = os.pidfd_open(self.pid)
        try:
            if not select.select([fd], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.pid, timeout)
        finally:
            os.close(fd)
        return self._ended(0)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


def adopt_orphans():
    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Gateway:
    """Started by start(); `addresses` maps a listener's name to what it was bound to.

    stop() is part of every test: it fails when the process died earlier, does not end after TERM, ends
    with a status other than 0, or a sanitizer had something to say."""

    def __init__(self, directory, config, user=None, wrapper=(), arguments=(), program=None):
        self.program = program
        self.predecessors = []
        self.directory = str(directory)
        self.config_path = os.path.join(self.directory, "gateway.ini")
        self.audit_path = os.path.join(self.directory, "audit.jsonl")
        self.write_config(config)
        self.user, self.wrapper, self.arguments = user, list(wrapper), list(arguments)
        self.process = None
        self.addresses = {}
        self.bound = []
        self.ready_line = None
        self.expected_status = 0
        self._stderr = []
        self._heard = threading.Condition()
        self._audit_at = 0
        self._records = []
        self._talks = []
        self._judged = False
        self.ended_as_told = False

    # -- life

    def write_config(self, config):
        """By rename, as careful editors do."""
        fresh = self.config_path + ".new"
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(config)
        os.replace(fresh, self.config_path)

    def start(self):
        program = self.program or binary()
        options = {}
        if self.user is not None:
            # The build tree may be out of an ordinary user's reach.
            program = shutil.copy(program, os.path.join(self.directory, "srt-gateway"))
            os.chmod(program, 0o755)
            for root, _, files in os.walk(self.directory):
                for path in [root] + [os.path.join(root, file) for file in files]:
                    os.chown(path, self.user, self.user)
            options = {"user": self.user, "group": self.user, "extra_groups": []}
        self.process = subprocess.Popen(
            self.wrapper + [program, "run", "-c", self.config_path] + self.arguments,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            cwd=self.directory, env=environment(), **options)
        threading.Thread(target=self._listen_to_stderr, daemon=True).start()
        self.wait_for_stderr(lambda line: "srt-gateway: ready" in line)
        self.ready_line = next(line for line in self._stderr if "srt-gateway: ready" in line)
        for name, address in BOUND.findall(self.ready_line):
            self.bound.append(address)
            if name:
                self.addresses[name] = address
        return self

    def _listen_to_stderr(self):
        for line in self.process.stderr:
            with self._heard:
                self._stderr.append(line.decode("utf-8", "replace").rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._stderr.append(None)
            self._heard.notify_all()

    def stderr(self):
        with self._heard:
            return "\n".join(line for line in self._stderr if line is not None)

    def wait_for_stderr(self, condition, after=0):
        """Until a line (from number `after` on) satisfies the condition; returns the line."""

        def found():
            return [line for line in self._stderr[after:] if line is not None and condition(line)]

        with self._heard:
            self._heard.wait_for(lambda: found() or None in self._stderr, PATIENCE_S)
            lines = found()
            ended = None in self._stderr
        if lines:
            return lines[0]
        if ended and self.ready_line is None:
            self._judged = True
            raise NotReady(self.process.wait(PATIENCE_S), self.stderr())
        raise AssertionError(f"waited in vain for a message; there were:\n{self.stderr()}")

    def stderr_lines(self):
        with self._heard:
            return len(self._stderr)

    def send_signal(self, number):
        self.process.send_signal(number)

    def hand_over(self):
        """USR2: from here on the new process is meant. The old one is in `predecessors`."""
        adopt_orphans()
        after = self.stderr_lines()
        self.send_signal(signal.SIGUSR2)
        said = self.wait_for_stderr(lambda line: "handed over to process" in line
                                    or "hand-over failed" in line, after)
        found = re.search(r"handed over to process (\d+)", said)
        if found is None:
            raise AssertionError(said)
        self.predecessors.append(self.process)
        self.process = Successor(int(found[1]), self.process.stderr)
        return self.predecessors[-1]

    def _stop_predecessors(self):
        for process in self.predecessors:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                process.wait(PATIENCE_S)
                raise GatewayDied(f"a predecessor did not end:\n{self.stderr()}") from None
            if status != 0:
                raise GatewayDied(f"a predecessor ended with {status}:\n{self.stderr()}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, number=signal.SIGTERM):
        """Ends it, and judges how it lived and ended."""
        for talk in self._talks:
            talk.close()
        if self.process is None or self._judged:
            return
        self._judged = True
        died = self.process.poll() is not None
        if not died:
            self.send_signal(number)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(PATIENCE_S)
            raise GatewayDied(f"did not end after signal {number}:\n{self.stderr()}") from None
        self._stop_predecessors()
        with self._heard:
            self._heard.wait_for(lambda: None in self._stderr, PATIENCE_S)
        self.process.stderr.close()
        if SANITIZER.search(self.stderr()):
            raise GatewayDied(f"a sanitizer or assertion spoke:\n{self.stderr()}")
        if died and self.expected_status == 0 and not self.ended_as_told:
            raise GatewayDied(f"died by itself with {status}:\n{self.stderr()}")
        if status != self.expected_status:
            raise GatewayDied(f"ended with {status}, not {self.expected_status}:\n{self.stderr()}")

    def expect_end(self):
        """It was told to end by the test itself; stop() then asks for the status only."""
        self.ended_as_told = True

    def reload(self, config=None):
        """HUP, and the reload record that answers it."""
        before = len([entry for entry in self.records() if entry["kind"] == "reload"])
        if config is not None:
            self.write_config(config)
        self.send_signal(signal.SIGHUP)
        return self.wait_for_record(lambda entry: entry["kind"] == "reload", number=before + 1)

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def wait_for_descriptors(self, most):
        """Until no more than that many are open: what was closed by others is noticed a turn later."""
        deadline = time.monotonic() + PATIENCE_S
        while self.descriptors() > most:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.descriptors()} descriptors are open, not {most}")
            select.select([], [], [], 0.01)

    def thread_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def wait_for_threads(self, least):
        deadline = time.monotonic() + PATIENCE_S
        while self.thread_count() < least:
            if time.monotonic() > deadline:
                raise AssertionError(f"there are fewer than {least} threads")
            select.select([], [], [], 0.01)

    # -- talking to it

    def address(self, listener="main"):
        if listener in self.addresses:
            return self.addresses[listener]
        return self.bound[0]

    def port(self, listener="main"):
        return int(self.address(listener).rsplit(":", 1)[1])

    def client(self, listener="main", source=None, context=None):
        """A connection to a listener."""
        address = self.address(listener)
        if address.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(address[len("unix:"):])
        else:
            host, port = address.rsplit(":", 1)
            sock = socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S,
                                            source_address=(source, 0) if source else None)
        talk = Talk(sock)
        self._talks.append(talk)
        return talk

    def get(self, url, headers=(), listener="main"):
        """One request on a connection of its own."""
        with self.client(listener) as client:
            return client.get(url, headers)

    def tunnel(self, authority, listener="main", headers=()):
        return self.client(listener).connect_to(authority, headers)

    def refused_connect(self, authority, listener="main", headers=()):
        """A CONNECT whose answer, whatever it is, is returned."""
        with self.client(listener) as client:
            client.request(f"CONNECT {authority} HTTP/1.1", headers)
            return client.response(to_method="CONNECT")

    def socks_code(self, host, port, listener="main", how="send"):
        """The reply code of one SOCKS5 request."""
        with self.client(listener) as client:
            return client.socks(host, port, how=how)[0]

    def operate(self, path, method="GET"):
        """The body of an answer of the admin socket `admin.sock`, which the configuration must name."""
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(os.path.join(self.directory, "admin.sock"))
        connection.request(method, path)
        body = connection.getresponse().read().decode("utf-8")
        connection.close()
        return body

    # -- what it recorded

    def records(self, kind=None):
        """Every audit record so far."""
        try:
            with open(self.audit_path, "rb") as file:
                file.seek(self._audit_at)
                fresh = file.read()
        except FileNotFoundError:
            fresh = b""
        whole = fresh[:fresh.rfind(b"\n") + 1]
        self._audit_at += len(whole)
        for line in whole.split(b"\n"):
            if line:
                self._records.append(json.loads(line.decode("utf-8")))
        return [entry for entry in self._records if kind in (None, entry["kind"])]

    def wait_for_record(self, condition, number=1):
        """The `number`-th record that satisfies the condition, waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            ended = not self.alive()
            matching = [entry for entry in self.records() if condition(entry)]
            if len(matching) >= number:
                return matching[number - 1]
            if ended or time.monotonic() > deadline:
                state = "the gateway ended" if ended else "waited in vain"
                shown = "\n".join(json.dumps(entry) for entry in self.records()[-12:])
                raise AssertionError(f"{state}; the last records:\n{shown}\nstderr:\n{self.stderr()}")
            select.select([], [], [], 0.005)  # a file has no event that says "one more line"

    def decision(self, host=None, number=1, **fields):
        """The decision about a host, waited for."""
        return self.wait_for_record(
            lambda entry: entry["kind"] == "decision" and host in (None, entry["host"])
            and all(entry.get(key) == value for key, value in fields.items()), number)

    def close_record(self, id=None, number=1):
        return self.wait_for_record(
            lambda entry: entry["kind"] == "close" and id in (None, entry["id"]), number)
