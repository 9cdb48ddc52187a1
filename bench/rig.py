"""What bench/run and bench/compare share: processes whose CPU time and memory are read, the load, the gateway."""
import atexit
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import platform
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time


CPUCLOCK_SCHED = 2  # of the clock ids that clock_getcpuclockid(3) makes: all threads, the ended ones too


LOAD_SECONDS = 300  # that no load takes


def fail(message):
    sys.exit(f"bench: {message}")


class Process:
    """A program under test or at one end of it. What it started itself is counted with it."""

    def __init__(self, *command, stream=None, said=subprocess.DEVNULL, env=None):
        self.name = pathlib.Path(command[0]).name
        streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
        if stream is not None:
            streams[stream] = subprocess.PIPE
        self.child = subprocess.Popen([str(word) for word in command], text=True, start_new_session=True,
                                      env=env, **streams)
        put_before_others(self.child.pid)
        atexit.register(self.stop)
        if stream is None:
            return
        said = ""
        for line in getattr(self.child, stream):
            said += line
            if "ready" in line:
                self.listeners = dict(re.findall(r"(\w+)=(127\.0\.0\.1:\d+)", line))
                port = re.search(r"ready.*?(?:127\.0\.0\.1:| )(\d+)", line)
                self.address = f"127.0.0.1:{port[1]}" if port else None
                return
        fail(f"{self.name} did not start: {said}")

    def tree(self):
        """The process and what descends from it."""
        parents = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
        found = [self.child.pid]
        for pid in found:
            found += parents.get(pid, [])
        return found

    def cpu(self):
        """Seconds of user and system time, of what has ended too: in nanoseconds, ended processes in ticks."""
        total = 0.0
        for pid in self.tree():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
            total += ended + process_seconds(pid)
        return total

    def threads(self, name):
        """Those whose name begins so, as their folders in /proc."""
        return [task for task in sorted(pathlib.Path(f"/proc/{self.child.pid}/task").iterdir())
                if (task / "comm").read_text().startswith(name)]

    def thread_cpu(self, name):
        return sum(map(thread_seconds, self.threads(name)))

    def memory_kib(self, what="Rss"):
        total = 0
        for pid in self.tree():
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            except ProcessLookupError:
                continue  # one that has ended and is not waited for
            total += int(re.search(rf"^{what}:\s+(\d+)", text, re.M)[1])
        return total

    def settled_kib(self):
        """Once it stays: who asked is done before the connections that he closed are."""
        before, now = None, self.memory_kib()
        while now != before:
            time.sleep(.1)
            before, now = now, self.memory_kib()
        return now

    def stop(self):
        if self.child.returncode is not None:
            return
        try:
            os.killpg(self.child.pid, 15)
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, 9)
            self.child.wait()
        except ProcessLookupError:
            self.child.wait()


def process_seconds(pid):
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def thread_seconds(task):
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def put_before_others(pid):
    """Whoever leads a session of his own gets the processor before other work on the machine, and shares it with the rest
    of the bench as ordinary processes do: what is measured on a busy machine is then nearly what a quiet one says.
    Needs root, and a kernel that groups sessions (sched(7)); without, it is as usual."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text("-20")


def run_first(pid, priority=1):
    """Before every ordinary thread of the machine; false without the right to."""
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(priority))
        return True
    except PermissionError:
        return False


def run_as_usual(pid):
    os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def processors():
    """Two of those that may be used, or nothing where there is but one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[:2] if len(usable) > 1 else None


CLONE_NEWNET = 0x40000000  # unshare(2)
SIOCSIFFLAGS, IFF_UP = 0x8914, 1  # netdevice(7)
CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")


def own_network():
    """Moves the bench, and all that it starts from now on, into a network of its own where every socket has the reno
    congestion control, whoever made it: the system's choice may be bbr, which paces even loopback. Without the right to,
    the machine's stays, and each figure says so (`congestion`)."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        return
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    with contextlib.suppress(OSError):  # where /proc/sys is read only
        CONGESTION.write_text("reno")


class Quota:
    """Threads that get no more than their share of a processor each in every 10 ms, until closed. Needs root and the
    cpu controller of cgroups, version 1; without, `works` is false and nothing is limited."""
    controller = pathlib.Path("/sys/fs/cgroup/cpu")

    def __init__(self, threads, share):
        self.threads, self.groups, self.works = threads, [], True
        atexit.register(self.close)
        try:
            for thread in threads:
                group = self.controller / f"bench-{thread.name}"
                group.mkdir()
                self.groups.append(group)
                (group / "cpu.cfs_period_us").write_text("10000")
                (group / "cpu.cfs_quota_us").write_text(str(int(share * 10000)))
                (group / "tasks").write_text(thread.name)
        except OSError:
            self.works = False
            self.close()

    def close(self):
        groups, self.groups = self.groups, []
        for group in groups:
            self.remove(group)

    def remove(self, group):
        """With whatever the thread has started there (the gateway's threads for foreign sockets)."""
        deadline = time.monotonic() + LOAD_SECONDS
        while True:
            for task in (group / "tasks").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (self.controller / "tasks").write_text(task)
            try:
                return group.rmdir()
            except OSError as error:  # one has come meanwhile
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise


class Heap:
    """Counts the allocations of a process that is started with its environment (load/heap.c)."""

    def __init__(self, programs, file):
        self.library = programs / "bench-heap.so"
        self.file = file
        file.write_bytes(bytes(16))
        self.env = {**os.environ, "LD_PRELOAD": str(self.library), "BENCH_HEAP": str(file)}

    @classmethod
    def of(cls, programs, file):
        """None in a build whose sanitizer has a heap of its own."""
        return cls(programs, file) if (programs / "bench-heap.so").exists() else None

    def counts(self):
        return struct.unpack("=QQ", self.file.read_bytes())


# What a relay may call, by the kernel's names. Every tracepoint takes a while to be switched on, so not all of them.
CALLS = ("accept4", "close", "connect", "epoll_ctl", "epoll_wait", "fcntl", "futex", "getrandom", "getsockname", "getsockopt",
         "ioctl", "newfstatat", "pipe2", "poll", "read", "recvfrom", "sendto", "setsockopt", "shutdown", "socket", "splice",
         "write")
COUNTED = ",".join(("raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in CALLS)))


class Calls:
    """Counts the system calls of a process by name, in the kernel, which slows it by a fifth and lets it behave as it does
    (strace slows it so much that whatever it reads is there already). Needs perf, and the right to use tracepoints."""

    def __init__(self, process, file):
        self.file = file
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        command = ["perf", "stat", "--delay=-1", f"--control=fd:{orders},{answers}", "-x,", "-o", file, "-e", COUNTED,
                   "-p", str(process.child.pid)]
        self.perf = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(orders, answers))
        for fd in (orders, answers):
            os.close(fd)
        self.order("enable")

    @staticmethod
    def why_not():
        """None where calls can be counted."""
        try:
            tried = subprocess.run(["perf", "stat", "-e", COUNTED, "true"], text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError:
            return "perf is not installed"
        return None if tried.returncode == 0 else " ".join(tried.stderr.split())[:200]

    def order(self, word):
        os.write(self.orders, f"{word}\n".encode())
        if not os.read(self.answers, 64).startswith(b"ack"):
            fail(f"perf does not {word}")

    def stop(self):
        self.order("disable")
        self.perf.send_signal(signal.SIGINT)
        self.perf.wait()
        os.close(self.orders)
        os.close(self.answers)
        rows = (line.split(",") for line in self.file.read_text().splitlines())
        counts = {row[2].split("sys_enter")[1].lstrip("_"): int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit()}
        total = counts.pop("")
        counts["others"] = total - sum(counts.values())
        return {name: count for name, count in counts.items() if count > 0}


CONFIG = """
[gateway]
workers = {workers}
audit-log = {folder}/audit.jsonl
audit-required = yes
control = {folder}/control.sock
admin = none
[dns]
servers = 127.0.0.1:1
hosts-file = {folder}/hosts
[listen main]
address = 127.0.0.1:0
policy = bench
[policy bench]
allow = origin.test:{port}
allow = 127.0.0.1:{port}
deny = denied.test
allow-file = {folder}/rules.txt
allow-addresses = 127.0.0.1/32
"""


class Gateway(Process):
    """With everything on: rules, guard, cached resolution, hello check, JSON audit that is waited for."""

    def __init__(self, build, folder, origin, workers=1, rules=1000, more="", env=None):
        self.folder, self.more = folder, more
        self.port = origin.address.split(":")[1]
        self.named = f"origin.test:{self.port}"
        folder.mkdir()
        (folder / "hosts").write_text("127.0.0.1 origin.test\n")
        self.configure(workers, rules)
        super().__init__(build / "gateway" / "srt-gateway", "run", "-c", folder / "gateway.ini", stream="stderr",
                         env=env)

    def configure(self, workers, rules):
        with open(self.folder / "rules.txt", "w", encoding="ascii") as file:
            file.writelines(f"host{number}.zone{number % 1000}.example.test\n" for number in range(rules))
        (self.folder / "gateway.ini").write_text(
            CONFIG.format(folder=self.folder, port=self.port, workers=workers) + self.more)

    def records(self, kind):
        text = f'"kind":"{kind}"'
        with open(self.folder / "audit.jsonl", encoding="utf-8") as file:
            return sum(text in line for line in file)

    def reload(self):
        """Until the record of it is in the log; the gateway sees by itself that its files have changed."""
        before = self.records("reload")
        self.child.send_signal(signal.SIGHUP)
        while self.records("reload") == before:
            time.sleep(.05)


class Sandbox:
    """An attached sandbox; the bench plays its launcher (include/srt/attach.h)."""

    def __init__(self, gateway, name, network=None):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = "127.0.0.1:%u" % self.listener.getsockname()[1]
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(str(gateway.folder / "control.sock"))
        text = json.dumps({"type": "attach", "version": 1, "name": name, "policy": "bench", "command": "bench",
                           "listeners": ["proxy"], "network": network}).encode()
        data = struct.pack(">I", len(text)) + text
        sent = socket.send_fds(self.control, [data], [self.listener.fileno()])
        self.control.sendall(data[sent:])
        answer = json.loads(self.read(struct.unpack(">I", self.read(4))[0]))
        if answer["type"] != "attached":
            fail(f"attach: {answer}")

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.control.recv(count - len(data))
            if not more:
                fail("the gateway has closed a control connection")
            data += more
        return data

    def close(self):
        self.control.close()
        self.listener.close()


def start_load(programs, mode, proxy, target, clients, units=1, size=1):
    load = subprocess.Popen([str(programs / "bench-load"), mode, proxy, target, "-c", str(clients), "-n", str(units),
                             "-b", str(size)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    put_before_others(load.pid)
    return load


def finish_load(load):
    try:
        text = load.communicate(timeout=LOAD_SECONDS)[0]
    except subprocess.TimeoutExpired:
        load.kill()
        text = f"not done after {LOAD_SECONDS} s: {load.communicate()[0]}"
    if load.returncode != 0:
        fail(f"{load.args[1]} through {load.args[2]} failed: {text}")
    return json.loads(text) if text.startswith("{") else None


def run_load(*arguments):
    return finish_load(start_load(*arguments))


def load_now():
    """How busy the machine is, the bench itself included."""
    return {"load": round(os.getloadavg()[0], 1)}


def versions(build):
    gateway = subprocess.run([str(build / "gateway" / "srt-gateway"), "--version"], text=True, stdout=subprocess.PIPE)
    return {"version": gateway.stdout.strip(), "machine": f"{platform.machine()} {os.cpu_count()} cpus",
            "kernel": platform.release(), "congestion": CONGESTION.read_text().strip()}


BWRAP = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true")
SET_CHILD_SUBREAPER = 36  # prctl(2)


def start_costs(words, cwd):
    """Wall time in ms of a program that is started and ends, and CPU time of all its processes, which run before
    everything else where that is allowed: a start is short, and waiting for a processor is not its own. bwrap does not
    wait for those that it leaves, so a process of its own gets them here."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.chdir(cwd)
        null = os.open("/dev/null", os.O_RDONLY)
        run_first(0)
        began = time.perf_counter()
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 0)])
        status = os.waitpid(pid, 0)[1]
        wall = time.perf_counter() - began
        try:
            while True:
                os.wait()
        except ChildProcessError:
            pass
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(theirs, struct.pack("dd", wall * 1000, (used.ru_utime + used.ru_stime) * 1000))
        os._exit(0 if status == 0 else 1)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        fail(f"{' '.join(words)} failed")
    return struct.unpack("dd", said)
