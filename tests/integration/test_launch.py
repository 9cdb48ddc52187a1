"""srt-launch from outside and inside: command line, exit status, signals, terminal, way out, and that
nothing outlives it. Cases N*, U* and F23-F28 of the launcher."""
import array
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
import unittest

from fence import LAUNCH, Fence, both
from lab.serve import serve


def until(condition, seconds=20):
    """Waits for a condition; a test that only needs patience is no test of speed."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def poll_of(connection):
    poll = select.poll()
    poll.register(connection, 0)
    return poll


def alive(marker):
    """Processes anywhere whose command line holds the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if marker.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class FakeGateway:
    """Speaks include/srt/attach.h from a script: what it answers to an attach message is its argument."""

    def __init__(self, path, answer):
        self.answer = answer
        self.seen = []
        self.listeners = []
        self.connections = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        os.chmod(path, 0o777)
        self.socket.listen()
        serve(self.socket, self.talk, self.came)

    def came(self, connection):
        self.connections.append(connection)
        return ()

    def talk(self, connection):
        try:
            while True:
                head, control, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(64))
                for level, kind, data in control:
                    fds = array.array("i")
                    fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
                    self.listeners += [socket.socket(fileno=fd) for fd in fds]
                if not head:
                    connection.shutdown(socket.SHUT_WR)  # the launcher waits for the last words
                    return
                length = struct.unpack(">I", head)[0]
                body = b""
                while len(body) < length:
                    body += connection.recv(length - len(body))
                self.seen.append(json.loads(body))
                if self.answer is None:
                    continue
                if self.seen[-1]["type"] == "attach":
                    self.send(connection, self.answer)
                elif self.seen[-1]["type"] == "update":
                    self.send(connection, {"type": "updated", "serial": self.seen[-1]["serial"],
                                           "generation": 7 + self.seen[-1]["serial"]})
        except OSError:
            pass

    @staticmethod
    def send(connection, message):
        body = json.dumps(message).encode()
        connection.sendall(struct.pack(">I", len(body)) + body)

    def close(self):
        for s in [self.socket] + self.connections:
            try:
                s.shutdown(socket.SHUT_RDWR)  # a thread may still be waiting in it
            except OSError:
                pass
        for s in [self.socket] + self.connections + self.listeners:
            s.close()


ATTACHED = {"type": "attached", "sandbox": "x", "policy": "p", "generation": 1}


class Launch(Fence):
    def start(self, *words, settings=True, **args):
        options = ["-s", self.settings(), "--egress", "none"] if settings else []
        self.own()
        args = {"cwd": self.work, "env": self.environment(), "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **self.popen_args(), **args}
        process = subprocess.Popen([self.launch, *options, *words], **args)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process


class CommandLine(Launch):
    def test_U01_exit_status_is_the_commands(self):
        for status in (0, 1, 77, 255):
            self.assertEqual(self.sh(f"exit {status}").returncode, status)
        for number in (signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            self.assertEqual(self.sh(f"kill -{int(number)} $$").returncode, 128 + number)
        self.assertEqual(self.run_in("/no/such/program").returncode, 127)
        self.assertEqual(self.run_in("no-such-program").returncode, 127)
        self.assertEqual(self.run_in(self.write("not-executable")).returncode, 126)
        self.write("bin/there")
        closed = os.path.join(self.top, "closed")
        os.mkdir(closed)
        os.chmod(closed, 0 if self.account else 0o755)
        for word, status in (("no-such-program", 127), ("there", 126), ("true", 0)):  # a directory that cannot be searched is none
            env = self.environment(PATH=f"{closed}:{self.work}/bin::/usr/bin:/bin")
            self.assertEqual(self.run_in(word, env=env).returncode, status, word)
        self.assertEqual(self.run_in(self.work).returncode, 126)

    def test_U02_arguments_arrive_as_they_are(self):
        words = ["a b", "$(x)", ";", "", "*", "\n", "'", '"', "\\", "-s", "--", ">", "/outside"]
        self.assertEqual(self.run_in("/usr/bin/printf", "%s\\0", *words).stdout.split("\0")[:-1], words)

    def test_options_end_at_the_first_word(self):
        result = self.run_plain("-s", self.settings(), "--egress=none", "echo", "-s", "URL", "-v", "--help")
        self.assertEqual(result.stdout, "-s URL -v --help\n")

    def test_U19_strings_for_a_shell(self):
        result = self.run_plain("-s", self.settings(), "--egress", "none", "-c", "echo a && echo $1 | tr b c", "n", "b")
        self.assertEqual(result.stdout, "a\nc\n")
        result = self.run_in("echo", "a", "&&", "b")
        self.assertEqual(result.stdout, "a && b\n")
        result = self.run_in("echo a && echo b")
        self.assertEqual(result.returncode, 127)
        self.assertIn("-c", result.stderr)

    def test_faults_are_125_and_nothing_runs(self):
        good = self.settings()
        for words, text in [
            (["--bogus", "touch", "ran"], "--bogus"),
            (["-s"], "-s"),
            (["--settings=", "touch", "ran"], "settings"),
            (["-s", "/nonexistent", "touch", "ran"], "/nonexistent"),
            (["-s", good, "--egress", "sideways", "touch", "ran"], "sideways"),
            (["-s", good, "--gateway", "tcp:1.2.3.4", "touch", "ran"], "tcp:1.2.3.4"),
            (["-s", good, "--gateway", "unix:/nonexistent", "touch", "ran"], "/nonexistent"),
            (["-s", good, "--control-fd", "99", "touch", "ran"], "99"),
            (["-s", good, "--control-fd", "x", "touch", "ran"], "control-fd"),
            (["-s", good, "--policy", "p", "touch", "ran"], "--policy"),
            (["-s", good], "no command"),
        ]:
            result = self.run_plain(*words)
            self.assertEqual(result.returncode, 125, words)
            self.assertIn(text, result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def test_settings_at_fault_have_a_place(self):
        path = os.path.join(self.top, "settings.json")
        for text in ("", "{", "[]", '{"filesystem": {"denyReads": []}}', '{"a":1,"a":2}'):
            with open(path, "w") as f:
                f.write(text)
            result = self.run_plain("-s", path, "touch", "ran")
            self.assertEqual(result.returncode, 125, text)
            self.assertRegex(result.stderr, "^" + re.escape(path) + r":\d+:\d+: ")
        os.chmod(path, 0)
        for unreadable in (path, self.top):
            result = self.run_plain("-s", unreadable, "touch", "ran")
            self.assertEqual(result.returncode, 125)
            self.assertRegex(result.stderr, "^" + re.escape(unreadable) + r":1:1: ")
        self.assertEqual(os.listdir(self.work), [])

    def test_default_settings_that_lead_nowhere_are_not_absent_ones(self):
        self.assertRan(self.run_plain("--egress", "none", "true"))
        os.symlink("gone", os.path.join(self.home, ".srt-settings.json"))
        result = self.run_plain("--egress", "none", "touch", "ran")
        self.assertEqual(result.returncode, 125)
        self.assertIn(".srt-settings.json:1:1: No such file or directory", result.stderr)
        self.assertIn("no other settings are used instead", result.stderr)

    def test_verbose_says_what_is_done(self):
        self.filesystem["denyRead"] = ["hidden"]
        result = self.assertRan(self.run_in("sh", "-c", "exit 3", options=("-v",)), 3)
        for text in ("settings: " + self.top, "1 places writable", "temporary files: ", "way out: none",
                     "ended with status 3"):
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_settings_may_come_through_a_pipe(self):
        """As `srt --settings <(jq ...)`; a parent proxy's password in them is no file to be hidden then."""
        text = json.dumps({"filesystem": {"allowWrite": ["."], "denyRead": ["secret"]},
                           "network": {"parentProxy": {"http": "http://u:p@127.0.0.1:9"}}})
        self.write("secret")
        self.own()
        for script, status, out in ((f"echo '{text}' | {self.launch} -s /dev/stdin --egress none "
                                     "sh -c 'touch x && echo ran; cat secret'", 1, "ran\n"),
                                    (f"{self.launch} -s <(echo '{text}') --egress none sh -c 'cat secret || echo ran'", 0, "ran\n"),
                                    (f"{self.launch} -s <(echo '{{') --egress none echo ran", 125, ""),
                                    (f"{self.launch} -s <(:) --egress none echo ran", 125, "")):
            done = subprocess.run(["/bin/bash", "-c", script], cwd=self.work, env=self.environment(), capture_output=True,
                                  text=True, timeout=60, **self.popen_args())
            self.assertEqual((done.returncode, done.stdout), (status, out), done.stderr)

    def test_launch_settings_at_fault_have_a_place(self):
        path = os.path.join(self.top, "settings.json")
        for text, said in (('{"gateway": "unix:relative"}', ':1:24: launch.gateway must be private or unix:/PATH'),
                           ('{"protect": ["nothing"]}', ':1:25: launch.protect knows no "nothing"'),
                           ('{"protect": [3]}', ":1:25: launch.protect[0] must be a string")):
            with open(path, "w") as f:
                f.write('{"launch": ' + text + "}")
            result = self.run_plain("-s", path, "true")
            self.assertEqual(result.returncode, 125)
            self.assertIn(path + said, result.stderr)

    def test_output_that_cannot_be_written_is_no_success(self):
        self.own()
        for redirected, why in ((">/dev/full", b"No space left on device"), (">&-", b"Bad file descriptor")):
            for words in (["--egress", "none", "--dry-run", "true"], ["explain-path", "x"], ["--version"], ["--help"], ["doctor", "--help"]):
                done = subprocess.run(["/bin/sh", "-c", f'exec "$0" "$@" {redirected}', self.launch, *words], cwd=self.work,
                                      stderr=subprocess.PIPE, env=self.environment(), **self.popen_args())
                self.assertEqual((done.returncode, done.stderr), (125, b"srt-launch: standard output: " + why + b"\n"), words)

    def test_U10_without_bwrap_nothing_runs(self):
        result = self.run_in("/usr/bin/touch", "ran", env=self.environment(PATH="/nonexistent"))
        self.assertEqual(result.returncode, 125)
        self.assertIn("apt install bubblewrap", result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def test_fake_bwrap_is_found_out(self):
        fakes = os.path.join(self.top, "bin")
        os.mkdir(fakes)
        path = os.path.join(fakes, "bwrap")
        env = self.environment(PATH=fakes + ":/usr/bin:/bin")
        for text in ('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n', "#!/bin/sh\nexit 0\n",
                     "#!/bin/sh\necho no uid map for you >&2; exit 1\n"):
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)
            result = self.run_in("/usr/bin/touch", "ran", env=env)
            self.assertEqual(result.returncode, 125, text)
        self.assertIn("user.max_user_namespaces", result.stderr)
        os.chmod(path, 0o777)
        self.assertIn("replaced by other users", self.run_in("true", env=env).stderr)
        os.chmod(path, 0o755)
        self.filesystem["allowWrite"] = [self.top]
        self.assertIn("may write to", self.run_in("true", env=env).stderr)
        self.assertEqual(os.listdir(self.work), [])

    def test_dry_run_runs_nothing(self):
        self.write("s/x")
        self.filesystem["denyRead"] = ["s"]
        result = self.run_in("touch", "ran", options=["--dry-run"])
        self.assertRan(result)
        for text in (f"hidden {self.work}/s (filesystem.denyRead[0])", "SANDBOX_RUNTIME=1", "io_uring_setup"):
            self.assertIn(text, result.stdout)
        self.assertEqual(os.listdir(self.work), ["s"])

    def test_doctor(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        result = self.run_plain("doctor")
        self.assertRan(result)
        self.assertGreater(result.stdout.count("ok: "), 14)
        self.assertNotIn("BROKEN", result.stdout)
        self.assertIn("ok: with --egress transparent the gateway answers at every address\n", result.stdout)
        result = self.run_plain("doctor", env=self.environment(PATH="/nonexistent"))
        self.assertEqual(result.returncode, 125)
        self.assertIn("BROKEN: a sandbox cannot be started", result.stdout)
        self.assertIn("apt install bubblewrap", result.stderr)

    def test_doctor_where_another_bubblewrap_comes_first(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        programs = os.path.join(self.top, "bin")
        os.mkdir(programs)
        shutil.copy("/usr/bin/bwrap", programs)
        env = self.environment(PATH=programs + ":/usr/bin:/bin")
        result = self.assertRan(self.run_plain("doctor", env=env))
        self.assertGreater(result.stdout.count("ok: "), 14)
        self.assertNotIn("BROKEN", result.stdout)
        self.settings()
        result = self.assertRan(self.run_in("/bin/cat", "/proc/1/cmdline", env=env))
        self.assertIn("--last-stage", result.stdout)

    def test_process_1_does_not_tell_what_was_asked_of_it(self):
        result = self.assertRan(self.run_in("/bin/cat", "/proc/1/cmdline"))
        self.assertEqual(result.stdout.rstrip("\0"), "srt-launch")

    def test_help_and_version(self):
        usage = self.assertRan(self.run_plain("--help")).stdout
        self.assertIn("usage:", usage)
        for words in (("-h",), ("doctor", "--help"), ("explain-path", "-h"), ("connect", "--help")):
            self.assertEqual(self.assertRan(self.run_plain(*words)).stdout, usage, words)
        self.assertIn("srt-launch", self.assertRan(self.run_plain("-V")).stdout)

    def test_what_settings_ask_for_in_vain_is_said_once(self):
        """By whoever reads them first, although a gateway reads their network, too; what only it knows it says."""
        self.network.update(allowLocalBinding=True, allowMachLookup=["a"], allowedDomains=["*.github.io"])
        result = self.assertRan(self.run_plain("-v", "-s", self.settings(), "/bin/true"))
        for said in ("network.allowLocalBinding has no effect", "network.allowMachLookup has no effect", "github.io"):
            self.assertEqual(sum("warning: " in line and said in line for line in result.stderr.splitlines()), 1, result.stderr)

    def test_a_bubblewrap_that_the_settings_name_and_that_is_not_there(self):
        self.more["bwrapPath"] = os.path.join(self.top, "none", "bwrap")
        result = self.run_in("/bin/true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("bwrapPath " + self.more["bwrapPath"], result.stderr)
        self.assertNotIn("apt install", result.stderr)

    def test_F41_working_directory_that_is_gone(self):
        self.settings()
        result = self.run_plain("--egress", "none", "true", cwd="/")
        self.assertRan(result)
        gone = os.path.join(self.top, "gone")
        os.mkdir(gone)
        self.own()
        result = subprocess.run(["/bin/sh", "-c", f"cd {gone} && rmdir {gone} && {self.launch} --egress none true"],
                                env=self.environment(), capture_output=True, text=True, **self.popen_args())
        self.assertEqual(result.returncode, 125)
        self.assertIn("working directory", result.stderr)


class Inside(Launch):
    def test_F26_no_capabilities_and_no_way_to_more(self):
        result = self.sh("grep -E '^(Cap|NoNewPrivs|Seccomp):' /proc/self/status; grep -h Cap /proc/self/status;"
                         "mount -t tmpfs x /mnt; mount -o remount,bind,rw /; umount /proc; mknod n c 1 3; chroot / true;"
                         "unshare -Ur true; unshare -m true; nsenter -t 1 -m true; hostname x; date -s 2001-01-01; true")
        self.assertNotRegex(result.stdout, r"Cap\w+:\s*0*[1-9a-f]")
        self.assertIn("NoNewPrivs:\t1", result.stdout)
        self.assertIn("Seccomp:\t2", result.stdout)
        self.assertGreaterEqual(len(result.stderr.strip().splitlines()), 10, result.stderr)

    def test_proc_sys_is_read_only_also_for_root(self):
        result = self.sh("for f in kernel/hostname kernel/core_pattern vm/swappiness net/ipv4/ip_forward; do"
                         " [ -e /proc/sys/$f ] || continue; echo x > /proc/sys/$f && echo WROTE $f; done;"
                         "for f in /proc/sysrq-trigger /proc/mtrr /proc/irq/default_smp_affinity; do"
                         " [ -e $f ] && echo x > $f && echo WROTE $f; done; true")
        self.assertEqual(result.stdout, "")

    # Where a machine has files, and who knows how many: what is denied need not be searched for protected names.
    FILES = [f"/{name}" for name in os.listdir("/") if name not in ("dev", "proc", "sys")]

    def test_proc_sys_is_read_only_whatever_is_allowed(self):
        for allowed in ("/proc", "/proc/*", "/proc/sys/**", "/*", "/p*"):
            self.filesystem.update(allowWrite=[allowed], denyWrite=self.FILES)
            result = self.sh("for f in /proc/sys/vm/swappiness /sys/kernel/profiling; do (: >> $f) && echo OPENED $f; done;"
                             "grep -E ' (/proc/[a-z]+|/sys) ' /proc/self/mounts | grep -c ' rw,'")
            self.assertEqual(result.stdout, "0\n", (allowed, result.stderr))

    def test_nodes_of_the_host_keep_their_modes(self):
        for more, allowed in (({}, []), ({"bwrapPath": "/usr/bin/bwrap"}, []), ({}, ["/dev"]), ({}, ["/dev/null", "/dev/t*"]),
                              ({}, ["/*"]), ({"bwrapPath": "/usr/bin/bwrap"}, ["/d*"])):
            self.more = more
            self.filesystem.update(allowWrite=[".", *allowed], denyWrite=self.FILES if "/*" in allowed else [])
            # The mode that they have: nothing is changed on the host, should it come through.
            result = self.assertRan(self.sh(
                "for n in null zero full random urandom tty; do chmod 666 /dev/$n && echo CHANGED $n; done;"
                "echo x > /dev/null && head -c 1 /dev/zero | wc -c"))
            self.assertEqual(result.stdout, "1\n")
            self.assertEqual(result.stderr.count("Read-only file system"), 6, result.stderr)

    def test_nodes_of_the_host_keep_their_modes_also_as_streams(self):
        for more in ({}, {"bwrapPath": "/usr/bin/bwrap"}):
            self.more = more
            self.settings()
            self.own()
            with open("/dev/null", "r+b", buffering=0) as null, open("/dev/zero", "rb") as zero:
                program = ("import os\nfor fd in (0, 1):\n"
                           "    try: os.fchmod(fd, 0o666); print('CHANGED')\n"
                           "    except OSError as e: print(e.errno, file=os.fdopen(2, 'w', closefd=False))\n"
                           "os.write(1, os.read(0, 5)); os._exit(4)\n")
                result = subprocess.run([self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none",
                                         "--", "/usr/bin/env", "python3", "-I", "-c", program],
                                        stdin=zero, stdout=null, stderr=subprocess.PIPE, text=True, cwd=self.work,
                                        env=self.environment(), **self.popen_args())
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertRegex(result.stderr, r"^(30|1)\n(30|1)\n")

    def test_namespaces_are_its_own(self):
        kinds = ["user", "pid", "ipc", "uts", "cgroup", "mnt", "net"]
        result = self.sh("cd /proc/self/ns; for n in " + " ".join(kinds) + "; do readlink $n; done")
        for kind, inside in zip(kinds, result.stdout.split()):
            self.assertNotEqual(inside, os.readlink(f"/proc/self/ns/{kind}"))

    def test_F28_processes_inside_show_nothing(self):
        env = self.environment(SRT_GATEWAY="", MARKER="m4rk3r-outside")
        self.more["launch"] = {"envDeny": ["MARKER"]}
        result = self.sh("ls /proc | grep -c '^[0-9]'; cat /proc/1/environ /proc/1/maps /proc/1/mem; ls -l /proc/1/fd/;"
                         "ls /proc/1/root/ /proc/1/cwd/; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep m4rk3r; true",
                         env=env)
        self.assertLessEqual(int(result.stdout.split()[0]), 6)
        self.assertNotIn("m4rk3r", result.stdout)
        self.assertNotIn("->", result.stdout)

    def test_F28_process_1_cannot_be_written_to_or_traced(self):
        program = ("import ctypes, os\n"
                   "c = ctypes.CDLL(None, use_errno=True)\n"
                   "print(c.ptrace(16, 1, 0, 0), c.ptrace(0x4206, 1, 0, 0))\n"
                   "try: open('/proc/1/mem', 'r+b'); print('OPEN')\n"
                   "except OSError as e: print(e.errno)\n"
                   "for number in (9, 15, 19):\n"
                   "    try: os.kill(1, number)\n"
                   "    except PermissionError: pass\n"
                   "print('still here')\n")
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertEqual(result.stdout, "-1 -1\n13\nstill here\n", result.stderr)

    def test_F25_inherited_descriptors_are_closed(self):
        folder = os.open(self.home, os.O_RDONLY)
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen()
        client = socket.create_connection(server.getsockname())
        program = ("import os\nfor fd in range(3, 200):\n"
                   "    try: os.fstat(fd); print(fd)\n    except OSError: pass\n")
        result = self.run_in("/usr/bin/env", "python3", "-I", "-c", program, pass_fds=(folder, client.fileno()))
        for s in (server, client):
            s.close()
        os.close(folder)
        self.assertEqual(result.stdout, "", result.stderr)

    def test_N10_socket_families(self):
        program = ("import socket\n"
                   "for f in range(64):\n"
                   "    for t in (1, 2, 3, 5, 10):\n"
                   "        try: socket.socket(f, t); print(f, t)\n        except OSError: pass\n"
                   "for f in (2, 10):\n"
                   "    for p in (1, 58, 255):\n"
                   "        try: socket.socket(f, 2, p); print('ping', f, p)\n        except OSError: pass\n"
                   "for t in (1, 2, 5):\n"
                   "    try: socket.socketpair(1, t); print('pair', t)\n    except OSError: pass\n"
                   "for p in range(32):\n"
                   "    try: socket.socket(16, 3, p); print('netlink', p)\n    except OSError: pass\n")
        lines = self.run_in("/usr/bin/env", "python3", "-c", program).stdout.splitlines()
        # Python's pairs are closed on exec: see test_N09_pairs_lead_to_nobody_else.
        allowed = {"2 1", "2 2", "10 1", "10 2", "16 2", "16 3", "netlink 0", "pair 1", "pair 5"}
        self.assertLessEqual(set(lines), allowed | {"ping 2 1", "ping 10 58"})
        self.assertLessEqual({"2 1", "2 2", "10 1", "10 2", "pair 1"}, set(lines))

    def test_N07_path_sockets_of_the_host(self):
        path = os.path.join(self.work, "s.sock")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen()
        program = f"import socket\ns = socket.socket(1, 1)\ns.connect({path!r})\nprint('connected')\n"
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertNotIn("connected", result.stdout)
        self.assertIn("Operation not permitted", result.stderr)
        self.network["allowAllUnixSockets"] = True
        self.assertEqual(self.run_in("/usr/bin/env", "python3", "-c", program).stdout, "connected\n")
        server.close()

    def test_N08_named_sockets(self):
        servers = []
        for name in ("ok.sock", "no.sock", "folder/deep.sock"):
            os.makedirs(os.path.join(self.work, "folder"), exist_ok=True)
            server = socket.socket(socket.AF_UNIX)
            server.bind(os.path.join(self.work, name))
            os.chmod(os.path.join(self.work, name), 0o777)
            server.listen()
            servers.append(server)
        os.symlink("no.sock", os.path.join(self.work, "link.sock"))
        self.network["allowUnixSockets"] = ["ok.sock", "folder", "/run/docker.sock"]
        program = """
import os, socket, threading
def go(path, kind=socket.SOCK_STREAM, timeout=None):
    try:
        s = socket.socket(socket.AF_UNIX, kind)
        s.settimeout(timeout)
        s.connect(path)
        return 'yes'
    except OSError as e:
        return str(e.errno)
print(go('ok.sock'), go(os.path.abspath('ok.sock')), go('ok.sock', timeout=5), go('folder/deep.sock'))
print(go('no.sock'), go('link.sock'), go('folder/../no.sock'), go('/proc/self/cwd/no.sock'), go('gone.sock'))
print(go('no.sock', socket.SOCK_DGRAM), go('\\0abstract'))
own = socket.socket(socket.AF_UNIX)
own.bind(os.environ['TMPDIR'] + '/own')
own.listen()
print(go(os.environ['TMPDIR'] + '/own'))
tcp = socket.create_server(('127.0.0.1', 0))
print(socket.create_connection(tcp.getsockname()).getpeername() == tcp.getsockname())
try: socket.create_connection(('127.0.0.1', 1))
except OSError as e: print(e.errno)
a, b = socket.socketpair()
a.send(b'x'); print(b.recv(1))
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertRan(result)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "yes yes yes yes", result.stderr)
        self.assertEqual(lines[1].split()[:3], ["1", "1", "1"])
        self.assertNotIn("yes", lines[1])
        self.assertEqual(lines[2].split()[0], "1")
        self.assertEqual(lines[3:], ["yes", "True", "111", "b'x'"])
        self.assertIn("docker.sock", result.stderr)
        for server in servers:
            server.close()

    def test_N08_a_socket_has_the_very_name_that_it_was_given(self):
        """Who listens tells others by getsockname() where; a datagram is answered to the name that it came from."""
        host = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(host.close)
        host.bind(os.path.join(self.work, "datagrams"))
        self.network["allowUnixSockets"] = [".", "datagrams"]
        program = """
import multiprocessing, os, socket
os.makedirs('a/b'); os.symlink('a', 'link')
for name in ('plain', 'a/one', './a/../a/b/two', os.path.abspath('a/three'), 'link/four', os.environ['TMPDIR'] + '/five'):
    server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect(server.getsockname())
    print(server.getsockname() == name == client.getpeername(), server.accept()[1] == '')
asked, asking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
asked.bind(os.path.abspath('a/asked')); asking.bind('a/asking'); asking.sendto(b'?', 'a/asked')
asked.sendto(b'!', asked.recvfrom(9)[1]); print(asking.recv(9))
os.chdir('a/b'); server = socket.socket(socket.AF_UNIX); server.bind('../six'); print(server.getsockname(), os.path.exists('../six'))
print(multiprocessing.Manager().list([1]))
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertRan(result)
        self.assertEqual(result.stdout, "True True\n" * 6 + "b'!'\n../six True\n[1]\n", result.stderr)

    def test_N08_no_name_is_bound_past_the_fence_by_exchanging_directories(self):
        """Two threads: one binds where it may, one exchanges the directory for a link to where it may not."""
        self.network["allowUnixSockets"] = ["."]
        self.filesystem["denyWrite"] = ["kept"]
        os.mkdir(os.path.join(self.work, "kept"))
        program = """
import os, socket, threading, time
os.makedirs('real'); os.symlink('real', 'way'); end = time.monotonic() + 1
def exchange():
    for to in iter(lambda: 'kept' if os.readlink('way') == 'real' else 'real', None):
        if time.monotonic() > end: return
        os.symlink(to, 'next'); os.rename('next', 'way')
thread = threading.Thread(target=exchange); thread.start()
bound = number = 0
while thread.is_alive():
    number += 1
    try: socket.socket(socket.AF_UNIX).bind(f'way/{number}'); bound += 1
    except OSError: pass
print(bound > 0, os.listdir('kept'), bound == len(os.listdir('real')))
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertRan(result)
        self.assertEqual(result.stdout, "True [] True\n", result.stderr)

    def test_N09_system_calls_that_lead_around_the_filter(self):
        program = ("import ctypes, os\n"
                   "c = ctypes.CDLL(None, use_errno=True)\n"
                   "def call(name, n, *args):\n"
                   "    ctypes.set_errno(0)\n"
                   "    r = c.syscall(ctypes.c_long(n), *[ctypes.c_ulong(a) for a in args])\n"
                   "    print(name, r, ctypes.get_errno())\n"
                   "import platform\n"
                   "x = platform.machine() == 'x86_64'\n"
                   "call('io_uring_setup', 425, 8, 0)\n"
                   "if x:\n"
                   "    call('x32 socket', 0x40000000 | 41, 1, 1, 0)\n"
                   "    call('socket upper half', 41, (1 << 32) | 1, 1, 0)\n"
                   "    call('socket type upper half', 41, 2, (1 << 32) | 3, 1)\n"
                   "    call('ioctl upper half', 16, 0, (1 << 32) | 0x5412, 0)\n"
                   "    call('unshare', 272, 0x10000000)\n"
                   "    call('unshare upper half', 272, (1 << 32) | 0x10000000)\n"
                   "    call('clone', 56, 0x10000000, 0, 0, 0, 0)\n"
                   "    call('keyctl', 250, 0, 0)\n"
                   "    call('bpf', 321, 0, 0, 0)\n"
                   "    call('perf', 298, 0, 0, 0, 0, 0)\n"
                   "    call('userfaultfd', 323, 0)\n"
                   "    call('process_vm_readv', 310, 1, 0, 0, 0, 0, 0)\n"
                   "    call('setns', 308, 0, 0)\n"
                   "call('clone3', 435, 0, 0)\n"
                   "call('open_tree', 428, 0, 0, 0)\n"
                   "call('mount_setattr', 442, 0, 0, 0, 0, 0)\n"
                   "call('pidfd_getfd', 438, 0, 0, 0)\n")
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertRan(result)
        for line in result.stdout.splitlines():
            self.assertIn(line.split()[-2:], (["-1", "1"], ["-1", "38"]), line)

    def test_N09_pairs_lead_to_nobody_else(self):
        """Of pairs only those that cannot be used to reach others: streams, and packets in order that no other program is handed."""
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            listener = socket.socket(socket.AF_UNIX, kind)
            self.addCleanup(listener.close)
            listener.bind(os.path.join(self.work, f"listener{int(kind)}"))
            listener.listen()
            listener.setblocking(False)
        result = self.run_in("/usr/bin/env", "python3", "-c",
                             "import ctypes, socket\n"
                             "c, pair = ctypes.CDLL(None, use_errno=True), (ctypes.c_int * 2)()\n"
                             "CLOEXEC = 0o2000000\n"
                             "for kind in (2, 3, 5, 2 | CLOEXEC, 3 | CLOEXEC): print(c.socketpair(1, kind, 0, pair), ctypes.get_errno())\n"
                             "for kind in (1, 1 | CLOEXEC, 5 | CLOEXEC): print(c.socketpair(1, kind, 0, pair))\n"
                             "for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):\n"
                             "    for what in ('connect', 'sendto', 'listen'):\n"
                             "        end = socket.socketpair(socket.AF_UNIX, kind)[0]\n"
                             "        name = f'listener{int(kind)}'\n"
                             "        try:\n"
                             "            end.listen() if what == 'listen' else end.connect(name) if what == 'connect' else end.sendto(b'x', name)\n"
                             "            print(what, 'WORKED')\n"
                             "        except OSError: pass\n")
        self.assertRan(result)
        self.assertEqual(result.stdout, "-1 1\n" * 5 + "0\n" * 3)
        self.assertRaises(BlockingIOError, listener.accept)
        # Who may have some Unix sockets may hand packets in order on; datagrams, if none of these takes them, not even then.
        self.network["allowUnixSockets"] = ["profile"]
        result = self.run_in("/usr/bin/env", "python3", "-c",
                             "import ctypes\nc, pair = ctypes.CDLL(None), (ctypes.c_int * 2)()\nfor kind in (5, 2, 3): print(c.socketpair(1, kind, 0, pair))")
        self.assertEqual(result.stdout, "0\n-1\n-1\n", result.stderr)

    @unittest.skipUnless(os.uname().machine == "x86_64", "there is no such entry on other machines")
    def test_N09_the_32_bit_entry_leads_nowhere(self):
        """getpid and socketcall by int 0x80, from machine code of our own: ENOSYS, or a kernel that has no such entry."""
        program = ("import ctypes, mmap, os\n"
                   "def call(number):\n"
                   "    code = b'\\x53\\xb8' + number.to_bytes(4, 'little') + b'\\xbb\\x01\\x00\\x00\\x00\\x31\\xc9\\xcd\\x80\\x5b\\xc3'\n"
                   "    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
                   "    page.write(code)\n"
                   "    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()\n"
                   "for number in (20, 102, 359):\n"
                   "    pid = os.fork()\n"
                   "    if pid == 0: os._exit(38 if call(number) == -38 else 1)\n"
                   "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
        result = self.assertRan(self.run_in("/usr/bin/env", "python3", "-c", program))
        for status in result.stdout.split():
            self.assertIn(status, ("38", "-11"), result)
        self.assertEqual(len(result.stdout.split()), 3)

    def test_U17_same_user_and_files_of_his(self):
        result = self.sh("id -u; id -g; touch f; stat -c %u f")
        me = self.account.pw_uid if self.account else os.getuid()
        self.assertEqual(result.stdout.split()[0], str(me))
        self.assertEqual(os.stat(os.path.join(self.work, "f")).st_uid, me)

    def test_umask_and_ignored_signals_are_kept(self):
        def before():
            os.umask(0o027)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        result = self.sh("umask; grep SigIgn /proc/self/status; touch f; stat -c %a f", preexec_fn=before)
        self.assertEqual(result.stdout.split()[0], "0027")
        self.assertEqual(int(result.stdout.split()[2], 16) & 1, 1)
        self.assertIn("640", result.stdout)

    def test_U11_environment(self):
        env = self.environment(SECRET_A="1", SECRET_B="2", KEEP="3", NOTIFY_SOCKET="/x", http_proxy="http://host:1")
        self.more["launch"] = {"envDeny": ["SECRET_*"]}
        out = self.run_in("env", env=env).stdout
        self.assertNotIn("SECRET", out)
        self.assertNotIn("NOTIFY_SOCKET", out)
        self.assertNotIn("host:1", out)
        self.assertIn("KEEP=3", out)
        self.more["launch"] = {"envAllow": ["KEEP", "PATH"]}
        out = self.run_in("env", env=env).stdout
        self.assertNotIn("HOME=", out)
        self.assertIn("KEEP=3", out)

    def test_preloads_of_the_caller_reach_only_the_command(self):
        env = self.environment(LD_PRELOAD="/nonexistent.so", BASH_ENV="/nonexistent")
        self.assertEqual(self.run_in("/usr/bin/printenv", "LD_PRELOAD", env=env).stdout, "/nonexistent.so\n")


class Life(Launch):
    def marker(self):
        return f"86{os.getpid()}{id(self) % 100000}"

    def test_U08_what_the_command_leaves_behind_ends(self):
        m = self.marker()
        self.assertEqual(self.sh(f"sleep {m} & (trap '' TERM; sleep {m}0) & exit 5").returncode, 5)
        self.assertTrue(until(lambda: not alive(m)))

    def test_U08_wait_is_for_everything(self):
        m = self.marker()
        process = self.start("-s", self.settings(), "--egress", "none", "--wait", "/bin/sh", "-c",
                             "setsid sh -c 'while [ ! -e go ]; do sleep 0.05; done; echo last > out; exit 7' & echo first; exit 5",
                             settings=False)
        self.assertEqual(process.stdout.readline(), "first\n")
        self.assertIsNone(process.poll())
        self.write("go")
        self.assertEqual(process.wait(20), 5)
        with open(os.path.join(self.work, "out")) as file:
            self.assertEqual(file.read(), "last\n")
        process = self.start("-s", self.settings(), "--egress", "none", "--wait", "/bin/sh", "-c",
                             f"sleep {m} & setsid sleep {m}1 & echo up; exit 5", settings=False)
        self.assertEqual(process.stdout.readline(), "up\n")
        self.assertTrue(until(lambda: not any(comm(pid) == "sh" for pid in descendants(process.pid))))
        process.send_signal(signal.SIGTERM)  # reaches those who are left
        self.assertEqual(process.wait(20), 5)
        self.assertTrue(until(lambda: not alive(m)))

    def test_a_caller_that_ignores_SIGCHLD_gets_the_status(self):
        for more in ({}, {"bwrapPath": "/usr/bin/bwrap"}):
            self.more = more
            result = self.sh("grep SigIgn /proc/self/status; exit 5",
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertEqual(int(result.stdout.split()[1], 16) & 1 << (signal.SIGCHLD - 1), 0)

    def test_zombies_are_reaped_inside(self):
        script = ("for i in 1 2 3 4 5; do (sh -c 'sh -c \"exit 3\" & exit 4' &) & done; wait;"
                  "for i in 1 2 3 4 5 6 7 8 9 10; do grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null || exit 0; sleep 0.2; done; exit 1")
        self.assertRan(self.sh(script))

    def test_N25_many_runs_leave_nothing(self):
        """Every fourth of them killed at some moment of its life."""
        m = self.marker()

        for number in range(40 if self.account else 12):
            process = self.start("/bin/sh", "-c", f"sleep {m} & exit 3", stdin=subprocess.DEVNULL)
            if number % 4 == 0:
                time.sleep(number / 500)  # the moment, not a wait
                process.kill()
                process.wait()
            else:
                self.assertEqual(process.wait(30), 3)
            process.communicate()
        self.assertTrue(until(lambda: not alive(m) and not alive(self.programs)))

    def test_N25_kill_of_the_launcher_ends_everything(self):
        m = self.marker()
        for delay in (0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2, None):
            process = self.start("/bin/sh", "-c", f"sleep {m} & setsid sleep {m}1 & echo up; wait")
            if delay is None:
                self.assertEqual(process.stdout.readline(), "up\n")
            else:
                time.sleep(delay)
            process.kill()
            process.wait()
            self.assertTrue(until(lambda: not alive(m)), f"after {delay}")

    def test_N25_a_sandbox_that_is_stopped_ends_with_its_launcher(self):
        for more in ({}, {"bwrapPath": "/usr/bin/bwrap"}):
            self.more = more
            m = self.marker()
            process = self.start("/bin/sh", "-c", f"sleep {m} & echo up; wait")
            self.assertEqual(process.stdout.readline(), "up\n")
            inside = [pid for pid in descendants(process.pid) if comm(pid) in ("srt-launch", "sh")]
            for pid in inside:
                os.kill(pid, signal.SIGSTOP)
            self.assertTrue(until(lambda: "T" in state(inside[0])))
            process.kill()
            process.wait()
            self.assertTrue(until(lambda: not alive(m)), more)

    def test_kill_before_the_gateway_has_answered_starts_nothing(self):
        gateway = FakeGateway(os.path.join(self.top, "g"), None)
        self.addCleanup(gateway.close)
        process = self.start("-s", self.settings(), "--gateway", f"unix:{self.top}/g", "/usr/bin/touch", "ran",
                             settings=False)
        self.assertTrue(until(lambda: gateway.seen))
        process.kill()
        process.wait()
        self.assertTrue(until(lambda: not alive(self.programs)))
        self.assertEqual(os.listdir(self.work), [])

    def test_signals_reach_the_command(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "WINCH", "CONT"):
            process = self.start("/bin/bash", "-c",
                                 f"trap 'echo got; exit 9' {name}; echo up; while :; do sleep 0.05; done")
            self.assertEqual(process.stdout.readline(), "up\n")
            process.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(process.stdout.readline(), "got\n", name)
            self.assertEqual(process.wait(20), 9)

    def test_untouched_signals_end_the_command_with_its_status(self):
        m = self.marker()
        process = self.start("/bin/sleep", m)
        self.assertTrue(until(lambda: any(comm(pid) == "sleep" for pid in alive(m))))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 143)

    def test_TERM_that_is_ignored_kills_after_five_seconds(self):
        process = self.start("/bin/bash", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
        self.assertEqual(process.stdout.readline(), "up\n")
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 137)
        self.assertGreater(time.monotonic() - started, 4)

    def test_TSTP_and_CONT(self):
        # A group of its own below ours, as a shell's job: the kernel lets no TSTP stop an orphaned group.
        process = self.start("/bin/bash", "-c", "echo up; read line; echo $line", preexec_fn=os.setpgrp)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGTSTP)

        def stopped():
            return any(state(pid) == "T" for pid in descendants(process.pid))

        self.assertTrue(until(stopped))
        process.send_signal(signal.SIGCONT)
        self.assertTrue(until(lambda: not stopped()))
        self.assertEqual(process.communicate("hello\n", timeout=20)[0], "hello\n")

    def test_what_the_command_does_to_its_streams_loses_no_summary(self):
        """They are shared with the caller: a full pipe that nobody waits for would swallow what is said at the end."""
        command = """
import fcntl, os
try: open("/etc/zz", "w")
except OSError: pass
for fd in 1, 2:
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND)
try:
    while os.write(2, b"x" * 512): pass
except BlockingIOError: pass
os._exit(3)
"""
        settings, log = self.settings(), open(os.path.join(self.top, "log"), "w+b")
        self.own()
        read, write = os.pipe()
        with log, subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", "python3", "-c", command], cwd=self.work,
                                   env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=write, **self.popen_args()) as process:
            self.addCleanup(process.kill)
            flags = lambda: [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (log, write)]  # noqa: E731
            before, size = flags(), fcntl.fcntl(read, fcntl.F_GETPIPE_SZ)
            filled = lambda: struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, bytes(4)))[0]  # noqa: E731
            until(lambda: process.poll() is not None or (filled() > size - 512 and flags() == before))
            held = flags()
            os.close(write)
            with open(read, "rb") as said:
                self.assertIn(b"deny create /etc/zz", said.read())
            self.assertEqual((process.wait(timeout=60), held), (3, before))

    def test_U07_streams(self):
        self.assertEqual(self.run_in("/bin/cat", stdin="hi").stdout, "hi")
        process = self.start("/bin/sh", "-c", "cat <&0; echo $?", stdin=subprocess.DEVNULL)
        self.assertEqual(process.communicate(timeout=20)[0], "0\n")
        result = subprocess.run(["/bin/sh", "-c", f"{self.launch} --egress none /bin/sh -c 'ls -l /proc/self/fd' <&- 2>&-"],
                                env=self.environment(), cwd=self.work, capture_output=True, text=True,
                                **self.popen_args())
        self.assertNotRegex(result.stdout, r" 2 -> ")
        size = 50_000_000
        process = self.start("/bin/cat", text=False)
        threading.Thread(target=lambda: (process.stdin.write(b"x" * size), process.stdin.close()), daemon=True).start()
        got = 0
        while True:
            chunk = process.stdout.read(1 << 20)
            if not chunk:
                break
            got += len(chunk)
        process.stdin = None
        self.assertEqual((got, process.wait(30)), (size, 0))

    def test_closed_output_is_SIGPIPE(self):
        self.settings()
        self.own()
        result = subprocess.run(["/bin/bash", "-c",
                                 f"{self.launch} -s {self.top}/settings.json --egress none yes | head -1; echo ${{PIPESTATUS[0]}}"],
                                env=self.environment(), cwd=self.work, capture_output=True, text=True, timeout=30,
                                **self.popen_args())
        self.assertEqual(result.stdout, "y\n141\n", result.stderr)


def descendants(pid):
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
        except OSError:
            pass
    found, todo = [], [pid]
    while todo:
        found += children.get(todo[-1], [])
        todo += children.get(todo.pop(), [])
    return found


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


class Terminal(Launch):
    """A real terminal: the test is the user at the other end of a pty."""

    def spawn(self, command):
        self.settings()
        self.own()
        words = [self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none"]
        line = " ".join(words) + " " + command if command else ""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            if self.account:
                os.setgroups([])
                os.setgid(self.account.pw_gid)
                os.setuid(self.account.pw_uid)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"],
                      self.environment(PS1="OUT$ ", HISTFILE=None))
        self.fd, self.seen = fd, ""
        self.addCleanup(os.close, fd)
        self.addCleanup(lambda: os.waitpid(pid, 0))
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.expect("OUT$ ")
        self.type(line + "\n")

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=20):
        end = time.monotonic() + seconds
        while text not in self.seen:
            if time.monotonic() > end or not select.select([self.fd], [], [], end - time.monotonic())[0]:
                self.fail(f"{text!r} did not come, but {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def wait_asleep(self, marker):
        """A shell handles a Ctrl-C between two commands itself, in its own way: wait for the second one."""
        self.assertTrue(until(lambda: any(comm(pid) == "sleep" and state(pid) == "S" for pid in alive(marker))))

    def wait_in_front(self, marker):
        """bash names the job that `fg` continues before it gives it the terminal: a Ctrl-C between the two is bash's."""
        def in_front(pid):
            with open(f"/proc/{pid}/stat") as f:
                of = f.read().rsplit(")", 1)[1].split()
            return of[0] == "S" and of[2] == of[5]  # its group is the terminal's
        self.assertTrue(until(lambda: any(comm(pid) == "sleep" and in_front(pid) for pid in alive(marker))))

    def test_U05_ctrl_c_ends_the_command_and_the_shell_lives(self):
        self.spawn("/bin/sh -c 'sleep 77530; exit 0'; echo status $?")
        self.wait_asleep("77530")
        self.type("\x03")
        self.expect("status 130")
        self.expect("OUT$ ")

    def start_behind_srt_launch(self, marker):
        """A command in the moment before the terminal is its own, when what is typed goes to srt-launch: another process of the
        session gives the terminal back to that."""
        os.mkfifo(os.path.join(self.work, "group"))
        self.spawn("")
        self.type("python3 -c \"import os, signal; signal.signal(signal.SIGTTOU, signal.SIG_IGN);"
                  " os.tcsetpgrp(0, int(open('group').read())); print('ta' + 'ken')\" &\n")
        self.type(f"{self.launch} -s ../settings.json --egress none /bin/sh -c 'sleep {marker}; exit 0'; echo status $?\n")
        self.wait_asleep(marker)
        group = next(os.getpgid(pid) for pid in alive(marker) if comm(pid) == "srt-launch")
        with open(os.path.join(self.work, "group"), "w") as f:
            f.write(str(group))
        self.expect("taken")

    def test_U05_a_ctrl_c_of_a_moment_before_ends_all_of_the_command(self):
        self.start_behind_srt_launch("77533")
        self.type("\x03")
        self.expect("status 130")

    def test_U05_a_ctrl_z_of_a_moment_before_stops_all_of_the_command_once(self):
        self.start_behind_srt_launch("77534")
        self.type("\x1a")
        self.expect("Stopped")
        self.expect("OUT$ ")
        self.type("fg\n")
        self.wait_in_front("77534")
        self.type("\x03")
        self.assertNotIn("Stopped", self.expect("OUT$ "))
        self.assertTrue(until(lambda: alive("77534") == []))

    def test_U05_ctrl_z_and_fg(self):
        self.spawn("/bin/sh -c 'echo u\"\"p; read x; echo got $x'; echo status $?")
        self.expect("up")
        self.type("\x1a")
        self.expect("Stopped")
        self.expect("OUT$ ")
        self.type("fg\n")
        self.type("hello\n")
        self.expect("got hello")
        self.expect("OUT$ ")

    def test_U05_interactive_shell_with_job_control(self):
        self.spawn("/bin/bash --norc --noprofile -i")
        self.type("PS1='IN''$ '\n")
        self.expect("IN$ ")
        self.type("sleep 77531\n")
        self.wait_asleep("77531")
        self.type("\x1a")
        self.expect("Stopped")
        self.expect("IN$ ")
        self.type("fg\n")
        self.expect("sleep 77531")
        self.wait_in_front("77531")
        self.type("\x03")
        self.expect("IN$ ")
        self.assertNotIn("no job control", self.seen)
        self.type("exit 4\n")
        self.expect("OUT$ ")
        self.type("echo status $?; sleep 77532\n")
        self.expect("status 4")
        self.wait_asleep("77532")
        self.type("\x03")
        self.expect("OUT$ ")

    def test_U05_a_resize_reaches_the_command(self):
        program = ("import os,signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH]); print('u' + 'p', flush=True);"
                   " signal.sigwait([signal.SIGWINCH]); print(os.get_terminal_size(), flush=True); signal.pause()")
        self.spawn(f'/usr/bin/env python3 -c "{program}"')
        self.expect("up")
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        self.expect("columns=111, lines=33")
        self.type("\x03")
        self.expect("OUT$ ")

    def test_U05_a_raw_mode_that_was_not_undone_is(self):
        """As an editor that is killed: the shell outside finds its terminal as it was."""
        self.spawn("/bin/bash -c 'stty raw -echo; echo r\"\"aw; kill -9 $$'")
        self.expect("raw")
        self.expect("OUT$ ")
        self.type("stty -a | tr ';' '\\n' | grep -cwE 'echo|icanon|isig|opost'; echo do\"\"ne\n")
        self.assertRegex(self.expect("done"), r"\n[1-9]\d*\r\n$")

    def test_pipeline_keeps_the_terminal_of_its_other_end(self):
        self.spawn("/bin/echo one | (read a; read b < /dev/tty; echo $a $b)")
        self.type("two\n")
        self.expect("one two")
        self.expect("OUT$ ")

    def test_the_terminals_node_keeps_its_mode(self):
        self.spawn("/bin/sh -c 'chmod 600 /dev/console; echo here > /dev/console; echo end'")
        before = self.expect("end\r\n")
        self.assertIn("Read-only file system", before)
        if not self.account:  # whose terminal it is not
            self.assertIn("here\r\n", before)

    def test_U04_nothing_can_be_typed_into_the_terminal(self):
        program = ("import fcntl,termios\nfor c in (termios.TIOCSTI, termios.TIOCSTI | 1 << 32, 0x541C):\n"
                   "    try: fcntl.ioctl(0, c, b'x'); print('TYP''ED')\n"
                   "    except (OSError, OverflowError) as e: print('no', e)\n")
        self.spawn("python3 -c \"" + program.replace("\n", "\\n").replace('"', '\\"') + "\"; echo do\"\"ne")
        self.assertNotIn("TYPED", self.expect("done"))


class WayOut(Launch):
    def setUp(self):
        super().setUp()
        self.socket_path = os.path.join(self.top, "g")

    def attached(self, *command, answer=ATTACHED, options=(), **args):
        gateway = FakeGateway(self.socket_path, answer)
        self.addCleanup(gateway.close)
        result = self.run_plain("-s", self.settings(), "--gateway", "unix:" + self.socket_path, *options, "--",
                                *command, **args)
        return gateway, result

    def test_attach_message(self):
        self.network["allowedDomains"] = ["good.test"]
        gateway, result = self.attached("/bin/true", options=["--name", "mine", "--policy", "build"])
        self.assertRan(result)
        message = gateway.seen[0]
        self.assertEqual((message["type"], message["version"], message["name"], message["policy"]),
                         ("attach", 1, "mine", "build"))
        self.assertEqual(message["listeners"], ["proxy"])
        self.assertEqual(message["network"]["allowedDomains"], ["good.test"])
        self.assertEqual(len(gateway.listeners), 1)
        self.assertEqual(gateway.listeners[0].getsockname(), ("127.0.0.1", 3128))

    def test_gateway_that_refuses(self):
        _, result = self.attached("/usr/bin/touch", "ran", answer={"type": "refused", "message": "no policy build"})
        self.assertEqual(result.returncode, 125)
        self.assertIn("no policy build", result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def server(self, speak):
        """At the gateway's place: `speak` is called with the one connection that is made."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket_path)
        os.chmod(self.socket_path, 0o777)
        listener.listen()

        def serve():
            with listener, listener.accept()[0] as connection:
                speak(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 20)

    def refused_by(self, speak):
        self.server(speak)
        result = self.run_plain("-s", self.settings(), "--gateway", "unix:" + self.socket_path, "--", "/usr/bin/touch", "ran")
        self.assertEqual((result.returncode, os.listdir(self.work)), (125, []), result.stderr)
        return result.stderr

    def test_something_else_at_the_gateways_place(self):
        """An admin socket, or another program's: whoever named it is told what it should have been."""
        def http(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        self.assertIn("is it the `control` socket", self.refused_by(http))

    def test_a_refusal_counts_also_where_the_message_was_not_read(self):
        def refuse(connection):
            said = json.dumps({"type": "refused", "message": "not today"}).encode()
            connection.recv(1)  # what is left unread is more than any socket takes
            connection.sendall(struct.pack(">I", len(said)) + said)
            connection.shutdown(socket.SHUT_RD)  # the launcher's write fails, and nothing that was said is lost
            until(lambda: any(events & select.POLLHUP for _, events in poll_of(connection).poll(1000)))

        self.network["allowedDomains"] = [f"host{number}.good.test" for number in range(50000)]
        self.assertIn("refuses this sandbox: not today", self.refused_by(refuse))

    def test_gateway_that_is_missing(self):
        lonely = os.path.join(self.top, "lonely")
        os.mkdir(lonely)
        launch = os.path.join(lonely, "srt-launch")
        os.link(self.launch, launch) if os.stat(self.launch).st_dev == os.stat(lonely).st_dev else None
        self.own()
        result = subprocess.run([launch, "-s", self.settings(), "/usr/bin/touch", "ran"], cwd=self.work,
                                env=self.environment(), capture_output=True, text=True, **self.popen_args())
        self.assertEqual(result.returncode, 125)
        self.assertIn("srt-gateway", result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def test_it_loads_no_library_that_only_the_gateway_needs(self):
        """Each costs every start, and every fork of it."""
        loaded = subprocess.run(["ldd", LAUNCH], capture_output=True, text=True, check=True).stdout
        self.assertIn("libjansson", loaded)
        for library in ("idn2", "unistring", "crypto", "ssl", "cares", "libev", "seccomp", "inih"):
            self.assertNotIn(library, loaded)

    def test_N01_N02_no_other_way_out(self):
        servers = []
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            server = socket.socket(family)
            server.bind((address, 0))
            server.listen()
            server.setblocking(False)
            servers.append(server)
        program = ("import socket, sys\n"
                   "for f, a, p in [(2, '127.0.0.1', sys.argv[1]), (10, '::1', sys.argv[2]), (2, '192.0.2.1', 80),"
                   " (10, '2001:db8::1', 80)]:\n"
                   "    s = socket.socket(f); s.settimeout(5)\n"
                   "    try: s.connect((a, int(p))); print('CONNECTED', a)\n    except OSError as e: print(e.errno)\n"
                   "    try: socket.socket(f, 2).sendto(b'x', (a, 53))\n    except OSError as e: pass\n"
                   "try: socket.getaddrinfo('good.test', 80); print('RESOLVED')\nexcept OSError: pass\n")
        _, result = self.attached("/usr/bin/env", "python3", "-c", program,
                                  *(str(s.getsockname()[1]) for s in servers))
        self.assertRan(result)
        self.assertNotIn("CONNECTED", result.stdout)
        self.assertNotIn("RESOLVED", result.stdout)
        for server in servers:
            with self.assertRaises(BlockingIOError):
                server.accept()
            server.close()

    def test_N03_N04_loopback_is_inside_unless_it_is_allowed(self):
        _, result = self.attached("/usr/bin/printenv", "NO_PROXY", "no_proxy")
        self.assertRan(result)
        self.assertEqual(result.stdout.split(), ["localhost,127.0.0.1,::1"] * 2)
        os.unlink(self.socket_path)
        for entry in ("127.0.0.2:3002", "localhost", "[::1]:80"):
            self.network["allowedDomains"] = [entry]
            _, result = self.attached("/usr/bin/printenv", "NO_PROXY", "no_proxy")
            self.assertEqual(result.stdout, "\n\n", entry)
            os.unlink(self.socket_path)

    def test_N11_N13_N14_environment(self):
        env = self.environment(JAVA_TOOL_OPTIONS="-Dmine=1", https_proxy="http://corporate:8080")
        _, result = self.attached("/usr/bin/env", env=env)
        inside = dict(line.split("=", 1) for line in result.stdout.splitlines())
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            self.assertEqual(inside[name], "http://127.0.0.1:3128")
        self.assertEqual(inside["NODE_USE_ENV_PROXY"], "1")
        self.assertEqual(inside["SANDBOX_RUNTIME"], "1")
        self.assertTrue(inside["JAVA_TOOL_OPTIONS"].startswith("-Dmine=1 -Dhttp.proxyHost=127.0.0.1 "))
        self.assertIn("srt-launch'\\'' connect %h %p'", inside["GIT_SSH_COMMAND"])
        os.unlink(self.socket_path)
        _, result = self.attached("/usr/bin/printenv", "GIT_SSH_COMMAND", env=self.environment(GIT_SSH_COMMAND="mine"))
        self.assertEqual(result.stdout, "mine\n")

    def test_N16_names_fail_fast(self):
        _, result = self.attached("/bin/sh", "-c", "date +%s%N; getent hosts good.test; date +%s%N")
        before, after = map(int, result.stdout.split())
        self.assertLess(after - before, 4_000_000_000)  # a resolver that waits for an answer waits 5 s

    def test_N19_gateway_that_comes_back_gets_the_listener_again(self):
        gateway = FakeGateway(self.socket_path, ATTACHED)
        process = self.start("-s", self.settings(), "--gateway", "unix:" + self.socket_path, "/bin/sh", "-c",
                             "echo up; read go", settings=False)
        self.assertEqual(process.stdout.readline(), "up\n")
        gateway.close()
        os.unlink(self.socket_path)
        second = FakeGateway(self.socket_path, ATTACHED)
        self.addCleanup(second.close)
        self.assertTrue(until(lambda: second.seen))
        self.assertTrue(second.listeners)
        self.assertEqual(second.seen[0]["name"], gateway.seen[0]["name"])
        out, err = process.communicate("go\n", timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertIn("the gateway is back", err)

    def test_N22_live_policy(self):
        read, write = os.pipe()
        gateway = FakeGateway(self.socket_path, ATTACHED)
        self.addCleanup(gateway.close)
        process = self.start("-s", self.settings(), "--gateway", "unix:" + self.socket_path, "--control-fd", str(read),
                             "/bin/sh", "-c", "echo up; read go", settings=False, pass_fds=(read,))
        os.close(read)
        self.assertEqual(process.stdout.readline(), "up\n")

        def update(*names):
            return json.dumps({"network": {"allowedDomains": list(names), "deniedDomains": []},
                               "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}) + "\n"
        os.write(write, (update("one.test") + "garbage\n\n" + update("two.test") + '{"half').encode())
        os.close(write)
        self.assertTrue(until(lambda: len(gateway.seen) >= 3))
        self.assertEqual([m["network"]["allowedDomains"] for m in gateway.seen[1:]], [["one.test"], ["two.test"]])
        self.assertEqual([m["serial"] for m in gateway.seen[1:]], [1, 2])
        out, err = process.communicate("go\n", timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertIn("line 2 is ignored", err)
        self.assertIn("generation 9", err)

    def test_N22_policy_that_is_there_already_is_the_first(self):
        read, write = os.pipe()
        os.write(write, json.dumps({"network": {"allowedDomains": ["first.test"], "deniedDomains": []}}).encode() + b"\n")
        os.close(write)
        gateway, result = self.attached("/bin/true", options=["--control-fd", str(read)], pass_fds=(read,))
        os.close(read)
        if gateway.seen:
            self.assertRan(result)
            self.assertEqual([m["network"]["allowedDomains"] for m in gateway.seen], [[], ["first.test"]])
            self.assertIn("network policy 1 is in force, generation 8", result.stderr)

    def test_denials_become_violations(self):
        denial = {"type": "denial", "ts": "x", "host": "evil.test", "port": 443, "front": "connect",
                  "reason": "not-allowed", "rule": None, "policy": "p", "message": "evil.test:443 is not on the list",
                  "next_step": "ask for it", "request_id": "1"}
        gateway = FakeGateway(self.socket_path, ATTACHED)
        self.addCleanup(gateway.close)
        for status, extra in ((3, []), (0, ["--violations", os.path.join(self.top, "v")])):
            process = self.start("-s", self.settings(), "--gateway", "unix:" + self.socket_path, *extra, "/bin/sh",
                                 "-c", f"echo up; read go; exit {status}", settings=False)
            line = process.stdout.readline()
            self.assertEqual(line, "up\n", line or process.communicate())
            gateway.send(gateway.connections[-1], denial)
            gateway.send(gateway.connections[-1], denial)
            out, err = process.communicate("go\n", timeout=20)
            self.assertEqual(process.returncode, status)
            if status:
                self.assertIn("<sandbox_violations>\ndeny network-outbound evil.test:443 (not-allowed)", err)
                self.assertIn("(2 times)", err)
                self.assertLessEqual(len(err.strip().splitlines()), 10)
            else:
                self.assertEqual(err, "")
        with open(os.path.join(self.top, "v")) as f:
            record = json.loads(f.readline())
        self.assertEqual((record["schema"], record["kind"], record["host"], record["port"], record["reason"]),
                         ("srt.violation/1", "network", "evil.test", 443, "not-allowed"))

    def test_a_gateway_in_PATH_that_a_sandbox_may_have_made_is_not_run(self):
        """Beside srt-launch, where it is installed, it is as good as srt-launch itself."""
        alone = os.path.join(self.top, "alone")
        os.mkdir(alone)
        launch = shutil.copy(self.launch, alone)
        planted = "#!/bin/sh\ntouch ../ran\n"
        bin_dir, linked = os.path.join(self.work, "bin"), os.path.join(self.top, "linked")
        os.mkdir(linked)
        os.chmod(self.write("bin/srt-gateway", planted), 0o755)
        os.symlink(os.path.join(bin_dir, "srt-gateway"), os.path.join(linked, "srt-gateway"))
        os.mkdir(os.path.join(self.work, "links"))
        elsewhere = os.path.join(self.top, "elsewhere")
        shutil.copy(os.path.join(bin_dir, "srt-gateway"), elsewhere)
        os.symlink(elsewhere, os.path.join(self.work, "links", "srt-gateway"))
        settings = self.settings()
        self.own()
        for folder in bin_dir, linked, os.path.join(self.work, "links"):
            result = subprocess.run([launch, "-s", settings, "--", "true"], cwd=self.work, capture_output=True, text=True, timeout=60,
                                    env=self.environment(PATH=f"{folder}:/usr/bin:/bin"), **self.popen_args())
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertIn("lies in a directory that the sandbox may write to (filesystem.allowWrite[0])", result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.top, "ran")))
        os.mkdir(os.path.join(self.top, "there"))
        shutil.move(elsewhere, os.path.join(self.top, "there", "srt-gateway"))
        self.own()
        subprocess.run([launch, "-s", settings, "--", "true"], cwd=self.work, capture_output=True, timeout=60,
                       env=self.environment(PATH=f"{self.top}/there:/usr/bin:/bin"), **self.popen_args())
        self.assertTrue(os.path.exists(os.path.join(self.top, "ran")))  # such a one is run

    def test_private_gateway_end_to_end(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        # Else the thread waits on, and once a signal restarts its accept(), it takes what comes in at the descriptor's
        # next owner.
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)

        def answer(connection):
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        serve(server, answer)
        port = server.getsockname()[1]
        self.network["allowedDomains"] = [f"127.0.0.1:{port}"]
        program = ("import urllib.request, urllib.error, sys\n"
                   "print(urllib.request.urlopen(sys.argv[1]).read().decode())\n"
                   "try: urllib.request.urlopen('http://evil.test/')\n"
                   "except urllib.error.HTTPError as e: print(e.code)\n"
                   "sys.exit(6)\n")
        result = self.run_plain("-s", self.settings(), "/usr/bin/env", "python3", "-c", program,
                                f"http://127.0.0.1:{port}/")
        self.assertEqual(result.stdout, "hello\n403\n", result.stderr)
        self.assertEqual(result.returncode, 6)
        self.assertIn("evil.test:80", result.stderr)
        self.assertTrue(until(lambda: not alive(self.programs)))
        for target, status, text in ((f"127.0.0.1 {port}", 0, "hello"), ("evil.test 22", 1, "")):
            result = self.run_plain("-s", self.settings(), "/bin/sh", "-c",
                                    f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {self.launch} connect {target}")
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(text, result.stdout)
        self.assertIn("evil.test:22", result.stderr)

    def test_patterns_at_fault_have_a_place(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        path = os.path.join(self.top, "settings.json")
        with open(path, "w") as f:
            f.write('{"network": {\n  "allowedDomains": ["good.test",\n    "*.com", "a b"],\n'
                    '  "deniedDomains": ["http://x/"]}}\n')
        result = self.run_plain("-s", path, "touch", "ran")
        self.assertEqual(result.returncode, 125)
        places = [line.split(" rule ")[0] for line in result.stderr.splitlines()[:-1]]
        self.assertEqual(places, [f"{path}:3:5: network.allowedDomains[1]:", f"{path}:3:14: network.allowedDomains[2]:",
                                  f"{path}:4:21: network.deniedDomains[0]:"], result.stderr)
        self.assertIn("no other settings are used instead", result.stderr)
        self.assertEqual(os.listdir(self.work), [])
        with open(path, "w") as f:
            f.write('{"network": {"allowedDomains": ["*.github.io"]}}\n')
        self.assertEqual(self.assertRan(self.run_plain("-s", path, "true")).stderr, "")
        result = self.assertRan(self.run_plain("-v", "-s", path, "true"))
        self.assertIn(f"{path}:1:33: warning: network.allowedDomains[0]: rule `*.github.io`", result.stderr)


class Changing(FakeGateway):
    """A gateway that attaches when the tree is planned and not mounted yet, and changes it then."""

    def __init__(self, path, change):
        self.change = change
        self.attached = 0
        super().__init__(path, ATTACHED)

    def send(self, connection, message):
        if message is ATTACHED:
            self.attached += 1
            self.change(self.attached)
        super().send(connection, message)


class TreeThatChanges(Launch):
    """What somebody else does to the tree between the plan and the mounts."""

    def run_while(self, change, *command, options=(), **args):
        path = os.path.join(self.top, "g")
        if os.path.exists(path):
            os.unlink(path)
        gateway = Changing(path, change)
        self.addCleanup(gateway.close)
        result = self.run_plain("-s", self.settings(), "--gateway", "unix:" + path, *options, "--", "/bin/sh", "-c", *command, **args)
        return gateway, result

    def place(self, *names):
        path = os.path.join(self.top, *names)
        os.makedirs(path, exist_ok=True)
        self.own()
        return path

    def test_what_has_gone_needs_no_mount(self):
        gone = os.path.join(self.work, "gone")
        for filesystem in ({"allowWrite": [".", self.top + "/others/*"]},
                           {"allowWrite": [self.top + "/*"]},
                           {"allowWrite": ["gone*", "stays*"]},
                           {"denyWrite": ["gone*"]},
                           {"denyRead": ["gone*", "secret"]},
                           {"denyRead": ["gone"], "allowRead": ["gone/in*"]},
                           {"denyRead": [self.work], "allowWrite": ["gone", "stays"], "allowRead": ["stays"]},
                           {}):
            with self.subTest(filesystem):
                self.filesystem = {"denyRead": [], "allowWrite": ["."], "denyWrite": [], **filesystem}
                other = self.place("others", "one")
                for name in ("gone/.git/hooks", "gone/inside", "gone/.claude/commands", "stays"):
                    self.place("work", name)
                self.write("gone-file")
                self.write("secret")

                def change(_):
                    for path in (other, gone):
                        shutil.rmtree(path)
                    os.unlink(gone + "-file")
                gateway, result = self.run_while(change, "echo ran; echo x > stays/written", cwd=self.top if "denyRead" in filesystem else None)
                self.assertRan(result, 2 if "denyRead" in filesystem else 0)
                self.assertEqual((result.stdout, gateway.attached), ("ran\n", 1), result.stderr)

    def test_what_comes_in_its_place_is_guarded(self):
        self.filesystem.update(denyWrite=["kept*"], denyRead=["secret*"])
        for name in ("kept-dir/x", "repo/.git/hooks"):
            self.place("work", name)
        for name in ("kept", "secret", "secret-too"):
            self.write(name)

        def change(_):
            for name in ("kept-dir", "repo"):
                shutil.rmtree(os.path.join(self.work, name))
            for name in ("kept", "secret", "secret-too"):
                os.unlink(os.path.join(self.work, name))
            self.write("secret", "SECRET\n")  # before the mounts of which none lies on it
            self.write("repo/.git/hooks/there")
            self.own()
        gateway, result = self.run_while(change, "cat secret; touch kept; mkdir kept-dir; echo x > secret-too; mkdir -p new/.git/hooks repo/.git/hooks;"
                                         "echo x > repo/.git/hooks/there; echo x > repo/.git/hooks/new; mv secret other; cat other; ls -R")
        self.assertNotIn("SECRET", result.stdout)
        with open(os.path.join(self.work, "repo/.git/hooks/there")) as f:
            self.assertEqual(f.read(), "x\n")
        self.assertEqual(sorted(os.listdir(self.work)), ["new", "repo", "secret"], result.stderr)
        self.assertEqual(os.listdir(os.path.join(self.work, "repo/.git/hooks")), ["there"])
        self.assertEqual(gateway.attached, 1)

    def test_what_has_become_something_else_is_planned_anew(self):
        self.filesystem["denyRead"] = ["gone"]
        self.place("work", "gone")

        def change(attached):
            if attached == 1:
                os.rmdir(os.path.join(self.work, "gone"))
                self.write("gone", "SECRET\n")
                self.own()
        gateway, result = self.run_while(change, "echo ran; cat gone", options=["-v", "--publish", "0:80"])
        self.assertEqual((result.returncode, result.stdout, gateway.attached), (1, "ran\n", 2), result.stderr)
        self.assertIn("filesystem.denyRead[0]: " + self.work + "/gone cannot be made hidden: it changed while the sandbox was being built, so "
                      "it is planned anew", result.stderr)
        self.assertEqual(result.stderr.count("srt-launch: published"), 1, result.stderr)

    def test_without_a_warden_it_is_planned_anew(self):
        if not self.account:
            self.skipTest("root makes no user namespaces in a sandbox")
        self.more["allowNestedUserNamespaces"] = True
        self.filesystem["denyWrite"] = ["kept*", "stays"]
        self.write("kept")
        self.write("stays")
        gateway, result = self.run_while(lambda attached: attached == 1 and os.unlink(os.path.join(self.work, "kept")),
                                         "echo ran; echo x > stays")
        self.assertEqual((result.stdout, gateway.attached), ("ran\n", 2), result.stderr)
        self.assertIn("Read-only", result.stderr)

    def test_what_never_settles_is_refused(self):
        self.filesystem["denyRead"] = ["gone"]
        self.place("work", "gone")
        gone = os.path.join(self.work, "gone")

        def change(attached):
            if attached % 2:
                os.rmdir(gone)
                self.write("gone")
            else:
                os.unlink(gone)
                os.mkdir(gone)
            self.own()
        gateway, result = self.run_while(change, "echo ran")
        self.assertEqual((result.returncode, result.stdout, gateway.attached), (125, "", 3), result.stderr)
        self.assertIn("it changed while the sandbox was being built, 3 times in a row", result.stderr)

    def test_a_real_gateway_takes_it_again_under_its_name(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        self.filesystem["denyRead"] = ["gone"]
        self.place("work", "gone")
        bwrap = os.path.join(self.top, "bwrap")
        with open(bwrap, "w") as f:
            f.write(f"#!/bin/sh\n[ -f {self.work}/gone ] || {{ rmdir {self.work}/gone; touch {self.work}/gone; }}\nexec /usr/bin/bwrap \"$@\"\n")
        os.chmod(bwrap, 0o755)
        self.more["bwrapPath"] = bwrap
        config = os.path.join(self.top, "gateway.ini")
        path = os.path.join(self.top, "g")
        with open(config, "w") as f:
            f.write(f"[gateway]\ncontrol = {path}\nadmin = none\naudit-log = none\n[policy p]\nallow = a.test\n")
        self.own()
        gateway = subprocess.Popen([self.gateway, "-c", config], stderr=subprocess.PIPE, env=self.environment(), **self.popen_args())
        self.addCleanup(gateway.communicate)
        self.addCleanup(gateway.terminate)
        self.assertTrue(until(lambda: os.path.exists(path)))
        for options in (["--gateway", "unix:" + path, "--name", "mine"], ["--gateway", "private"]):
            os.path.isfile(os.path.join(self.work, "gone")) and os.unlink(os.path.join(self.work, "gone"))
            self.place("work", "gone")
            result = self.run_plain("-v", "-s", self.settings(), *options, "--", "/bin/echo", "ran")
            self.assertEqual((result.returncode, result.stdout), (0, "ran\n"), result.stderr)
            self.assertIn("planned anew", result.stderr)


both(globals(), CommandLine, Inside, Life, Terminal, WayOut, TreeThatChanges)

if __name__ == "__main__":
    unittest.main()
