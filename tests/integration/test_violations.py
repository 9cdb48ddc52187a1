"""What an agent is told when the fence says no: every system call, who made it, how often, and where it goes."""
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import time
import unittest

from fence import Fence, both

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools")
WAYS = ("relative", "absolute", "dots", "fd", "at", "inside", "thread", "apart")


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s*(\d+)", f.read())[1])


class Told(Fence):
    def build(self, name):
        binary = os.path.join(self.top, name)
        built = subprocess.run(["cc", "-O1", "-w", "-D_GNU_SOURCE", "-pthread", "-o", binary,
                                os.path.join(TOOLS, name + ".c")])
        if built.returncode != 0:
            self.skipTest("no compiler")
        return binary

    def told(self, *command, options=(), **args):
        """The result, and the violations as JSON says them, the last word on each."""
        path = os.path.join(self.top, "violations.jsonl")
        if os.path.exists(path):
            os.unlink(path)
        result = self.run_in(*command, options=["--violations", path, *options], **args)
        with open(path) as f:
            self.lines = [json.loads(line) for line in f]
        last = {}
        for record in self.lines:
            last[record["kind"], record["operation"], record.get("path"), record["rule"]] = record
        return result, list(last.values())

    def told_python(self, program, **args):
        return self.told("/usr/bin/env", "python3", "-c", program, **args)

    def pairs(self, violations):
        return {(v["operation"], v["path"]) for v in violations}


class Calls(Told):
    def test_every_variant_of_every_call_in_every_way(self):
        program = self.build("tree_calls")
        outside = os.path.join(self.top, "outside")
        os.mkdir(outside)
        rows = [line.split() for line in subprocess.run([program, "list"], capture_output=True,
                                                        text=True).stdout.splitlines()]
        self.assertGreater(len(rows), 30)
        script, wanted = [], set()
        for name, operation, kind in rows:
            for way in WAYS:
                if kind != "at" and way == "at":
                    continue  # there is no descriptor for it
                target = f"{name}-{way}"
                if name.endswith("_dir"):
                    os.mkdir(os.path.join(outside, target))
                elif not name.endswith("_new") and name != "openat_excl":
                    with open(os.path.join(outside, target), "w") as f:
                        f.write("kept\n")
                wanted.add((operation, os.path.join(outside, target)))
                script.append(f"{program} {name} {way} {outside} {target} {self.work}/own")
        self.write("own")
        self.own()
        before = {n: os.stat(os.path.join(outside, n))[:7] for n in os.listdir(outside)}
        result, violations = self.told("/bin/sh", stdin="\n".join(script) + "\n", timeout=300)
        answers = dict(re.findall(r"^(\S+ \S+) (\d+)$", result.stdout, re.M))
        self.assertEqual(len(answers), len(script), result.stderr)
        # 38: a call that is younger than this kernel; 18: link() is not between two mounts.
        missing = {line.split()[0] for line in answers if answers[line] == "38"}
        for line, answer in answers.items():
            if line.split()[0] not in missing:
                self.assertIn(answer, ("30", "18"), line)
        told = self.pairs(violations)
        young = {pair for pair in wanted if os.path.basename(pair[1]).split("-")[0] in missing}
        self.maxDiff = None
        self.assertEqual(sorted(wanted - told - young), [])
        self.assertEqual(sorted(told - wanted), [])
        self.assertEqual({n: os.stat(os.path.join(outside, n))[:7] for n in os.listdir(outside)}, before)
        for violation in violations:
            self.assertEqual((violation["kind"], violation["errno"], violation["rule"], violation["setting"]),
                             ("file", "EROFS", "default", "filesystem.allowWrite"))

    def test_allowed_changes_of_every_kind_are_made_and_not_told(self):
        program = self.build("tree_calls")
        rows = [line.split() for line in subprocess.run([program, "list"], capture_output=True,
                                                        text=True).stdout.splitlines()]
        script = []
        for name, _, kind in rows:
            new = name.endswith("_new") or name == "openat_excl"
            script.append(f"mkdir {name}; cd {name}; : > own; " + ("" if new else "mkdir it; " if name.endswith("_dir") else ": > it; ") +
                          f"{program} {name} absolute {self.work}/{name} it {self.work}/{name}/own; cd ..")
        result, violations = self.told("/bin/sh", stdin="\n".join(script) + "\n", timeout=120)
        self.assertEqual(violations, [])
        answers = re.findall(r"^(\S+) \S+ (\d+)$", result.stdout, re.M)
        self.assertEqual(len(answers), len(rows), result.stderr)
        for name, answer in answers:
            # 61: there is no such attribute; 95: no attributes here; 22: openat2's flags; 38: too young.
            self.assertIn(answer, ("0", "38", "95") + (("61",) if "removexattr" in name else ()), name)

    def test_denied_reads(self):
        self.filesystem["denyRead"] = ["hidden", "key"]
        self.write("hidden/deep/secret")
        self.write("key")
        self.write("open")
        os.symlink("hidden", os.path.join(self.work, "way"))
        result, violations = self.told("/bin/sh", "-c", "cat hidden/deep/secret; cat key; ls hidden; cat way/secret2; cd hidden;"
                                       " cat ../key; cat other; cd ..; cat open < open; read x < key; read x < open; echo y > new;"
                                       " cd /; cat open /etc/hostname; exit 3")
        self.assertEqual(result.returncode, 3)
        with open(os.path.join(self.work, "new")) as f:
            self.assertEqual(f.read(), "y\n")
        hidden = os.path.join(self.work, "hidden")
        self.assertEqual(self.pairs(violations), {("read", p) for p in (
            hidden, f"{hidden}/deep/secret", f"{self.work}/key", f"{hidden}/secret2", f"{hidden}/other")})
        for violation in violations:
            self.assertEqual(violation["setting"], "filesystem.denyRead")
            self.assertRegex(violation["rule"], r"filesystem\.denyRead\[[01]\]")
            self.assertIn("allowRead", violation["hint"])
            self.assertEqual(violation["errno"], "EACCES" if violation["path"].endswith("key") else
                             None if violation["path"] == hidden else "ENOENT")

    def test_denied_reads_openat_and_openat2_and_links_in_proc(self):
        self.filesystem["denyRead"] = ["key"]
        self.write("key")
        _, violations = self.told_python("""
import os
d = os.open('.', os.O_RDONLY)
for p, k in (('key', {'dir_fd': d}), ('/proc/self/cwd/key', {})):
    try: os.open(p, os.O_RDONLY, **k)
    except OSError: pass
""")
        self.assertIn(("read", f"{self.work}/key"), self.pairs(violations))

    def test_refused_system_calls(self):
        result, violations = self.told_python("""
import ctypes, os, socket
c = ctypes.CDLL(None, use_errno=True)
def make(*a):
    try: socket.socket(*a); print('MADE', a)
    except OSError as e: print(*a[:1], e.errno)
make(socket.AF_UNIX); make(socket.AF_INET, socket.SOCK_RAW); make(socket.AF_PACKET); make(38)
for name, args in (('unshare', (0x10000000,)), ('mount', (b'a', b'/mnt', b'tmpfs', 0, 0)), ('chroot', (b'/',)),
                   ('setns', (0, 0)), ('personality', (0x400000,))):
    if getattr(c, name)(*args) != -1: print('DONE', name)
if c.ptrace(16, 1, 0, 0) != -1: print('DONE ptrace')
""")
        self.assertRan(result)
        self.assertNotIn("MADE", result.stdout)
        self.assertNotIn("DONE", result.stdout)
        told = {(v["operation"], v["path"]): v for v in violations}
        self.assertEqual(told["socket", "AF_UNIX"]["kind"], "unix-socket")
        self.assertEqual(told["socket", "AF_UNIX"]["setting"], "network.allowUnixSockets")
        self.assertEqual(told["socket", "SOCK_RAW"]["kind"], "syscall")
        self.assertIn("proxy", told["socket", "SOCK_RAW"]["hint"])
        self.assertEqual(told["unshare", "CLONE_NEWUSER"]["setting"], "allowNestedUserNamespaces")
        for key in (("mount", None), ("chroot", None), ("setns", None), ("ptrace", "PTRACE_ATTACH"),
                    ("personality", "READ_IMPLIES_EXEC"), ("socket", None)):
            self.assertIn(key, told)
            self.assertIn(told[key]["errno"], ("EPERM", "EAFNOSUPPORT"))

    @unittest.skipUnless(os.uname().machine == "x86_64", "elsewhere the C library cannot be told from its user")
    def test_questions_to_nscd_are_not_told_but_those_of_programs_are(self):
        self.assertEqual(self.told("/usr/bin/id", "-un")[1], [])
        _, violations = self.told_python("""
import socket
try: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
except OSError: pass
""")
        self.assertEqual(self.pairs(violations), {("socket", "AF_UNIX")})

    def test_calls_that_seem_not_to_exist_are_not_told(self):
        result, violations = self.told_python("""
import ctypes
c = ctypes.CDLL(None, use_errno=True)
print(c.syscall(425, 8, 0), ctypes.get_errno())
""")
        self.assertEqual(result.stdout, "-1 38\n")
        self.assertEqual(violations, [])

    def test_a_socket_gets_no_protected_name(self):
        self.network["allowAllUnixSockets"] = True
        program = """
import os, socket, sys
os.umask(0o027)
for name in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.bind(name)
        print(name, oct(os.stat(name).st_mode & 0o777))
    except OSError as e: print(name, e.errno)
s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[0])
s = socket.socket(socket.AF_UNIX); s.bind(b'\\0abstract'); print(s.getsockname())
"""
        result, violations = self.told("/usr/bin/env", "python3", "-c", program, "s", ".vscode", "../x", "s", "no/s")
        self.assertEqual(result.stdout, "s 0o750\n.vscode 30\n../x 30\ns 98\nno/s 2\n127.0.0.1\nb'\\x00abstract'\n",
                         result.stderr)
        self.assertEqual(self.pairs(violations), {("bind", f"{self.work}/.vscode"), ("bind", f"{self.top}/x")})
        for name in (".vscode", "../x"):
            self.assertFalse(os.path.lexists(os.path.join(self.work, name)))


class Lines(Told):
    def test_who_it_was(self):
        _, violations = self.told("/bin/sh", "-c", "mkdir .vscode 'a\nb' '\033[2J' /etc/x; true")
        record, = [v for v in violations if v["path"].endswith(".vscode")]
        self.assertEqual(record["comm"], "mkdir")
        self.assertEqual(record["command"], "mkdir .vscode a?b ?[2J /etc/x")
        self.assertEqual((record["operation"], record["count"], record["errno"]), ("mkdir", 1, "EROFS"))
        self.assertTrue(1 < record["pid"] < 100)
        _, violations = self.told_python("import os, sys, subprocess\n"
                                         "subprocess.run(['/bin/mkdir', '.vscode', 'x' * 5000])")
        self.assertLess(len(violations[0]["command"]), 256)

    def test_equal_ones_are_counted(self):
        _, violations = self.told("/bin/sh", "-c", "for i in 1 2 3 4 5; do mkdir .vscode; done; mkdir .idea")
        self.assertEqual({os.path.basename(v["path"]): v["count"] for v in violations}, {".vscode": 5, ".idea": 1})
        self.assertEqual([v["count"] for v in self.lines], [1, 1, 5])

    def test_a_flood_loses_no_count_and_takes_no_memory(self):
        program = """
import ctypes, os, sys, time
c = ctypes.CDLL(None)
for i in range(100000):
    c.mkdir(b'.vscode', 0o755)
    if i % 1000 == 0:
        start = time.monotonic(); open('other', 'w').close(); slow = time.monotonic() - start
        print(slow, flush=True)
print('memory', flush=True); sys.stdin.readline()
"""
        path = os.path.join(self.top, "v.jsonl")
        self.settings()
        self.own()
        run = subprocess.Popen([self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none",
                                "--violations", path, "--", "/usr/bin/env", "python3", "-c", program],
                               cwd=self.work, env=self.environment(), text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, **self.popen_args())
        def memory():
            seen = [run.pid] + [int(p) for p in subprocess.run(["pgrep", "-P", str(run.pid), "srt-warden"],
                                                              capture_output=True, text=True).stdout.split()]
            self.assertEqual(len(seen), 2)
            return [rss_kib(pid) for pid in seen]
        slow = [float(run.stdout.readline())]
        before = memory()
        for line in run.stdout:
            if line == "memory\n":
                break
            slow.append(float(line))
        after = memory()
        run.communicate("\n")
        self.assertEqual(len(slow), 100)
        self.assertLess(sorted(slow)[90], 1, slow)
        with open(self.launch, "rb") as f:
            keeps_books = b"__asan_init" in f.read()
        for b, a in zip(before, after):
            self.assertTrue(keeps_books or a - b < 2000, (before, after))
        with open(path) as f:
            last = json.loads(f.read().splitlines()[-1])
        self.assertEqual(last["count"], 100000)

    def test_many_different_ones_are_bounded_and_counted(self):
        result = self.run_in("/usr/bin/env", "python3", "-c", """
import os
for i in range(3000):
    try: os.mkdir('/etc/no%d' % i)
    except OSError: pass
raise SystemExit(3)""")
        text = result.stderr.split("<sandbox_violations>\n")[1]
        self.assertLessEqual(len(text.splitlines()), 9)
        self.assertIn("and 993 more, and 2000 refusals that are only counted", text)

    def test_a_credential_is_not_said_to_be_had_by_allowRead(self):
        self.write("key")
        self.more["credentials"] = {"files": [{"path": "key", "mode": "deny"}]}
        path = os.path.join(self.top, "v.jsonl")
        result = self.run_in("sh", "-c", "cat key; mount -t tmpfs x /mnt; exit 1")
        self.assertRegex(result.stderr, r"deny read \S+/key \(credentials.files\[0\]\): .*; it is a credential, which no")
        self.assertIn("\ndeny mount (mounts are the fence): ", result.stderr)
        self.run_in("cat", "key", options=("--violations", path))
        with open(path) as f:
            said = json.loads(f.readline())
        self.assertEqual((said["setting"], said["rule"]), ("credentials.files", "credentials.files[0]"))

    def test_where_they_cannot_be_written_they_are_told_and_cost_nothing(self):
        """Such a descriptor is always ready: it must not be tried over and over."""
        read, closed = os.pipe()
        os.close(read)
        self.addCleanup(os.close, closed)
        for options, args in ((("--violations", "/dev/full"), {}),
                              (("--violations-fd", str(closed)), {"pass_fds": (closed,)})):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = self.run_in("sh", "-c", "touch /etc/zz; sleep 2; exit 1", options=options, **args)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("violations could not be written down", result.stderr)
            self.assertIn("deny create /etc/zz", result.stderr)
            self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1.5)

    def test_a_pipe_in_the_tree_waits_for_no_reader(self):
        pipe = os.path.join(self.work, "pipe")
        os.mkfifo(pipe)
        self.own()
        self.assertRan(self.run_in("touch", "/etc/zz", options=("--violations", pipe), timeout=30), 1)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        self.addCleanup(reader.kill)
        self.assertRan(self.run_in("touch", "/etc/zz", options=("--violations", pipe), timeout=30), 1)
        out, _ = reader.communicate(timeout=30)
        self.assertEqual(json.loads(out)["path"], "/etc/zz")

    def test_a_link_that_a_sandbox_has_left_does_not_lead_to_another_file(self):
        """What is appended has names in it that the command has chosen: `$(...)` in a start-up file."""
        victim = os.path.join(self.home, ".bashrc")
        with open(victim, "w") as f:
            f.write("# mine\n")
        self.sh("ln -s ../home/.bashrc file; ln -s ../home logs; ln -s file again; ln -s ../home/new new")
        for name in "file", "logs/new", "logs/.bashrc", "again", "new":
            result = self.run_in("touch", "/$(touch pwned)", options=("--violations", name))
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertRegex(result.stderr, r"is a symbolic link in a directory that the sandbox may write to \(filesystem.allowWrite\[0\]\)")
        self.assertEqual(os.listdir(self.home), [".bashrc"])
        with open(victim) as f:
            self.assertEqual(f.read(), "# mine\n")
        there, real = os.path.join(self.top, "link"), os.path.join(self.work, "real")
        os.symlink(real, there)
        for _ in "made", "there":
            result = self.run_in("sh", "-c", "touch /zz; echo x >> real", options=("--violations", there))
            self.assertIn("real: ", result.stderr)
            self.assertNotEqual(result.returncode, 125, result.stderr)
        with open(real) as f:
            self.assertEqual([json.loads(line)["path"] for line in f], ["/zz", real] * 2)

    UNSHOWN = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

    def test_names_that_one_run_has_chosen_do_not_write_on_the_terminal_of_the_next(self):
        """What is said at the start names files: no control character of theirs, and no line of their own."""
        self.filesystem["denyRead"] = ["**/*.key"]
        names = ["\x1b]0;title\x07\x1b[2J.key", "\nsrt-launch: all is well\n.key", "\x9b31m\x7f.key", "\u202egnp.\u2066\u2028.key", "plain.key"]
        program = f"import os\nfor i, n in enumerate({names!r}):\n    open(n, 'w'); os.link(n, str(i))\n    os.mkdir(n + '.d')"
        self.assertEqual(self.run_in("python3", "-c", program).returncode, 0)
        for options in (), ("-v",):
            said = self.run_in("true", options=options).stderr
            self.assertEqual(said.count("has 2 hard links"), len(names), said)
            self.assertNotRegex(said, self.UNSHOWN)
            self.assertNotIn("srt-launch: all is well", said.split("\n"))
            self.assertIn(r"\x1b]0;title\x07\x1b[2J.key (filesystem.denyRead[0]) has 2 hard links", said)

    def test_descriptors_that_cannot_be_used_are_refused(self):
        read, write = os.pipe()
        folder = os.open(self.work, os.O_RDONLY)
        for fd in (read, write, folder):
            self.addCleanup(os.close, fd)
        for option, fd, said in (("--violations-fd", read, "cannot be written to"), ("--control-fd", write, "cannot be read"),
                                 ("--violations-fd", folder, "cannot be written to"), ("--control-fd", folder, "cannot be read")):
            result = self.run_in("true", options=(option, str(fd)), pass_fds=(fd,))
            self.assertEqual(result.returncode, 125)
            self.assertIn(f"{option} {fd}: this descriptor {said}", result.stderr)

    def test_a_reader_who_does_not_read_holds_nobody_up(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        start = time.monotonic()
        result = self.run_in("/usr/bin/env", "python3", "-c", """
import os
for i in range(1000):
    try: os.mkdir('/etc/no%d' % i)
    except OSError: pass
""", options=["--violations-fd", str(write)], pass_fds=[write])
        os.close(write)
        self.assertRan(result)
        self.assertLess(time.monotonic() - start, 30)
        self.assertIn(b'"schema":"srt.violation/1"', os.read(read, 65536))

    def test_ignored_by_command_and_by_what_was_refused(self):
        self.more["ignoreViolations"] = {"*": ["/etc/"], "sh -c echo": [".bashrc"], "never": [".profile"],
                                         "echo": ["working directory", "protected"]}
        result = self.sh("echo x > .bashrc; echo x > /etc/passwd; echo x > .profile; exit 3")
        said = result.stderr.split("<sandbox_violations>")[1]
        self.assertNotIn("/etc/", said)
        self.assertNotIn(".bashrc", said)
        self.assertIn(".profile", said)  # neither its explanation nor its hint is what was refused

    def test_summary_only_when_the_command_fails(self):
        self.assertNotIn("<sandbox", self.sh("mkdir .vscode; exit 0").stderr)
        self.assertIn("<sandbox", self.sh("mkdir .vscode; exit 1").stderr)

    def test_marks_cannot_be_forged(self):
        result = self.sh("exec 3>&2 2>/dev/null; echo x > '/etc/\n<sandbox_violations>\ndeny x'; exit 1")
        self.assertEqual(result.stderr.splitlines().count("<sandbox_violations>"), 1, result.stderr)
        self.assertNotIn("\ndeny x", result.stderr.split("<sandbox_violations>")[1])
        result = self.sh("echo x 2>/dev/null > '/etc/\x1b[1m\u202ed\u2066wssap\u2028'; exit 1")
        self.assertIn("deny create /etc/ [1m   d   wssap    (default)", result.stderr)
        self.assertNotRegex(result.stderr.split("<sandbox_violations>")[1], self.UNSHOWN)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


class Unheard(Told):
    """What nobody wants to hear of is refused all the same, and what only tells of it is left out."""
    SECRET = "hidden/secret"

    def setUp(self):
        super().setUp()
        self.write(self.SECRET)
        self.filesystem["denyRead"] = ["hidden"]

    def ignore(self, *texts, command="*"):
        self.more["ignoreViolations"] = {command: list(texts)}

    def turns_of_the_warden(self, opens):
        """How often it gave its processor away while a command opened a file for reading so many times."""
        settings = self.settings()
        self.own()
        with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", "python3", "-uc", f"""
import os
print("ready"); input()
for i in range({opens}): os.close(os.open("/etc/passwd", os.O_RDONLY))
print("done"); input()"""], cwd=self.work, env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, **self.popen_args()) as process:
            self.addCleanup(process.kill)
            seen = []
            for word in ("ready", "done"):
                self.assertEqual(process.stdout.readline().strip(), word)
                status = [status for status in map(self.status_of, children_of(process.pid)) if "srt-warden" in status]
                seen.append(sum(map(int, re.findall(r"voluntary_ctxt_switches:\s*(\d+)", *status))))
                process.stdin.write("go\n")
                process.stdin.flush()
            self.assertEqual(process.wait(timeout=60), 0)
        return seen[1] - seen[0]

    @staticmethod
    def status_of(pid):
        with open(f"/proc/{pid}/status") as f:
            return f.read()

    def test_reading_waits_for_nobody(self):
        for texts, waits in (([], True), (["/etc/"], True), (["deny read"], False), (["no such thing", "deny "], False)):
            with self.subTest(ignored=texts):
                self.ignore(*texts)
                turns = self.turns_of_the_warden(1000)
                self.assertTrue(turns > 500 if waits else turns < 100, turns)

    def test_what_could_be_replaced_is_watched_all_the_same(self):
        self.ignore("deny ")
        self.filesystem["denyRead"] = [self.SECRET]
        self.assertGreater(self.turns_of_the_warden(1000), 500)

    def test_only_the_command_that_is_meant(self):
        for command, operations in (("mkdir .vscode", set()), ("another command", {"mkdir", "read", "unshare"})):
            with self.subTest(command=command):
                self.ignore("deny ", command=command)
                result, violations = self.told("/bin/sh", "-c", "mkdir .vscode; cat hidden/secret; unshare -U true; exit 0")
                self.assertRan(result)
                self.assertEqual({violation["operation"] for violation in violations}, operations)

    def test_everything_is_refused_and_nothing_told(self):
        self.ignore("deny ")
        result, violations = self.told("/bin/sh", "-c", """
exec 2>/dev/null
mkdir .vscode && echo made
echo x > .bashrc && echo written
cat hidden/secret && echo read
mkdir a; mv a .vscode && echo moved
unshare -Ur true && echo unshared
exit 3""")
        self.assertEqual((result.returncode, result.stdout, result.stderr, violations), (3, "", "", []))
        self.assertEqual(sorted(os.listdir(self.work)), ["a", "hidden"])


class Sockets(Told):
    def agent(self):
        """An ssh agent of the user's, with one key."""
        path = os.path.join(self.top, "agent.sock")
        key = os.path.join(self.top, "key")
        self.own()
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, **self.popen_args())
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "of the test", "-f", key], check=True,
                       stdin=subprocess.DEVNULL, **self.popen_args())
        end = time.monotonic() + 20
        add = {"args": ["ssh-add", "-q", key], "env": self.environment(SSH_AUTH_SOCK=path), **self.popen_args()}
        while subprocess.run(**add, stderr=subprocess.DEVNULL).returncode != 0:  # nobody listens there yet
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return path

    def test_ssh_agent_that_is_named_and_one_that_is_not(self):
        path = self.agent()
        self.network["allowUnixSockets"] = [path]
        result, violations = self.told("ssh-add", "-l", env=self.environment(SSH_AUTH_SOCK=path))
        self.assertRan(result)
        self.assertIn("of the test", result.stdout)
        self.assertEqual(violations, [])
        self.network["allowUnixSockets"] = [os.path.join(self.top, "other.sock")]
        result, violations = self.told("ssh-add", "-l", env=self.environment(SSH_AUTH_SOCK=path))
        self.assertNotEqual(result.returncode, 0)
        record, = violations
        self.assertEqual((record["kind"], record["operation"], record["path"], record["errno"], record["setting"], record["comm"]),
                         ("unix-socket", "connect", path, "EPERM", "network.allowUnixSockets", "ssh-add"))

    def test_no_pair_sends_to_a_socket_outside(self):
        """Of raw and of datagram sockets each message may name its receiver, connected or not. Packets in order go to the other end,
        whatever is named."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            path = os.path.join(self.top, "log.sock")
            server.bind(path)
            server.settimeout(0)
            os.chmod(path, 0o777)
            for names in ([], [os.path.join(self.top, "other.sock")]):
                self.network["allowUnixSockets"] = names
                result = self.run_in("/usr/bin/env", "python3", "-c", f"""
import socket
for kind in (*range(1, 16), 3 | 1 << 11, 3 | 1 << 19):
    try: a, b = socket.socketpair(socket.AF_UNIX, kind)
    except OSError: continue
    b.settimeout(0)
    try: a.sendto(b'x', {path!r}); b.recv(10)
    except BlockingIOError: print('SENT ELSEWHERE', kind)
    except OSError: pass
""")
                self.assertRan(result)
                self.assertEqual(result.stdout, "")
                self.assertRaises(BlockingIOError, server.recv, 10)

    def test_container_engine_beside_a_named_socket(self):
        engine = os.path.join(self.top, "docker.sock")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(engine)
            os.chmod(engine, 0o777)
            server.listen()
            self.network["allowUnixSockets"] = [os.path.join(self.top, "agent.sock")]
            result, violations = self.told("curl", "-sS", "--unix-socket", engine, "http://localhost/info")
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(self.pairs(violations), {("connect", engine)})
            self.network["allowUnixSockets"] = [engine]
            result, violations = self.told_python(
                f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({engine!r}); print('in')")
            self.assertEqual(result.stdout, "in\n")
            self.assertEqual(violations, [])
            self.assertIn("docker.sock", result.stderr)  # the warning: whoever has it has the machine

    def test_address_that_is_swapped_while_it_is_judged(self):
        servers = []
        for name in ("yes.sock", "no!.sock"):
            server = socket.socket(socket.AF_UNIX)
            server.bind(os.path.join(self.work, name))
            os.chmod(os.path.join(self.work, name), 0o777)
            server.listen(4096)
            server.setblocking(False)
            servers.append(server)
            self.addCleanup(server.close)
        self.network["allowUnixSockets"] = ["yes.sock"]
        result = self.run_in("/usr/bin/env", "python3", "-c", """
import ctypes, socket, threading, time
libc = ctypes.CDLL(None)
address = ctypes.create_string_buffer(b'\\1\\0yes.sock\\0', 110)
over, won = False, 0
def swap():
    while not over:
        ctypes.memmove(ctypes.addressof(address) + 2, b'no!', 3); ctypes.memmove(ctypes.addressof(address) + 2, b'yes', 3)
threading.Thread(target=swap).start()
end = time.monotonic() + 3
while time.monotonic() < end:
    s = socket.socket(socket.AF_UNIX); s.setblocking(False)
    won += libc.connect(s.fileno(), address, 110) == 0
    s.close()
over = True
print(won > 0)
""")
        self.assertEqual(result.stdout, "True\n", result.stderr)
        with self.assertRaises(BlockingIOError):
            servers[1].accept()


# A socket `s` that waits, whose receiver has taken none of the `sent` messages and has room for no more.
FULL = """
import os, signal, socket, sys, threading
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setblocking(False)
sent = 0
try:
    while True: s.sendto(b'%d' % sent, sys.argv[1]); sent += 1
except BlockingIOError: s.setblocking(True)
"""

# sendmmsg(), which Python does not know: `many` sends over `s` and prints what came of it.
SENDMMSG = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_char_p), ('len', ctypes.c_size_t)]
class mmsghdr(ctypes.Structure): _fields_ = [(n, t) for n, t in (('name', ctypes.c_char_p), ('namelen', ctypes.c_uint), ('iov', ctypes.POINTER(iovec)),
    ('iovlen', ctypes.c_size_t), ('control', ctypes.c_char_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_long), ('len', ctypes.c_uint))]
def many(*messages):
    all = (mmsghdr * len(messages))()
    for one, (to, text) in zip(all, messages):
        name = b'\\1\\0' + to.encode() + b'\\0'
        one.name, one.namelen, one.iovlen = name, len(name), 1
        one.iov = ctypes.pointer(iovec(text, len(text)))
    print(libc.sendmmsg(s.fileno(), all, len(all), 0), [one.len for one in all])
"""


class Datagrams(Told):
    """Messages that name their receiver, where the settings name a socket that takes datagrams."""

    def listen(self, name="log.sock", kind=socket.SOCK_DGRAM, within=None):
        server = socket.socket(socket.AF_UNIX, kind)
        self.addCleanup(server.close)
        path = os.path.join(within or self.top, name)
        server.bind(path)
        os.chmod(path, 0o777)
        server.settimeout(20)
        return server, path

    def setUp(self):
        super().setUp()
        self.server, self.path = self.listen()
        self.network["allowUnixSockets"] = [self.path]

    def start(self, program):
        self.settings()
        self.own()
        run = subprocess.Popen([self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none", "--",
                                "/usr/bin/env", "python3", "-c", program, self.path], cwd=self.work, env=self.environment(),
                               text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **self.popen_args())
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def await_waiting(self, run, count):
        """Until so many calls wait."""
        def children(pid, *name):
            return subprocess.run(["pgrep", "-P", str(pid), *name], capture_output=True, text=True).stdout.split()
        warden, = children(run.pid, "srt-warden")
        end = time.monotonic() + 30
        while len(children(warden)) != count and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(len(children(warden)), count)

    def test_logging_as_programs_do_it(self):
        result, violations = self.told_python(f"""
import logging.handlers, subprocess
log = logging.getLogger()
log.addHandler(logging.handlers.SysLogHandler(address={self.path!r}))
log.error('from python')
subprocess.run(['logger', '-u', {self.path!r}, 'from logger'], check=True)
subprocess.run(['logger', '-d', '-i', '-u', {self.path!r}, 'again'], check=True)
""")
        self.assertRan(result)
        self.assertEqual(violations, [])
        self.assertIn(b"from python", self.server.recv(1000))
        self.assertIn(b"from logger", self.server.recv(1000))
        self.assertIn(b"again", self.server.recv(1000))

    def test_what_is_named_gets_messages_of_every_kind_and_nothing_else_does(self):
        other, elsewhere = self.listen("other.sock")
        self.write("carried", "what goes along")
        os.symlink(elsewhere, os.path.join(self.work, "way"))
        result, violations = self.told_python(f"""
import array, ctypes, os, socket, struct
path, elsewhere = {self.path!r}, {elsewhere!r}
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def told(*a):
    try: print(a[0](*a[1:]))
    except OSError as e: print(e.strerror)
told(s.sendto, b'one', path)
told(s.sendmsg, [b'two', b'', b' halves'], [], 0, path)
told(s.sendto, b'', path)
with open('carried') as f:
    told(s.sendmsg, [b'fd'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f.fileno(), 0])),
                              (socket.SOL_SOCKET, 2, struct.pack('3i', os.getpid(), os.getuid(), os.getgid()))], 0, path)
told(s.sendto, b'x' * 100000, path)
told(s.sendto, b'x' * 10000000, path)
told(s.sendmsg, [b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [999]))], 0, path)
{SENDMMSG}
many((path, b'm1'), (path, b'm22')); many((path, b'm3'), (elsewhere, b'no'), (path, b'no'))
told(s.sendto, b'no', elsewhere); told(s.sendmsg, [b'no'], [], 0, elsewhere); many((elsewhere, b'no'))
told(s.sendto, b'no', 'nothing'); told(s.sendto, b'no', b'\\0nobody')
told(s.sendto, b'no', 'way')
t = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); t.bind(b'\\0mine'); told(s.sendto, b'in', b'\\0mine'); print(t.recv(9))
s.connect(path); told(s.send, b'connected'); told(s.sendto, b'no', elsewhere); told(s.connect, elsewhere)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); told(a.send, b'pair'); print(b.recv(9)); told(a.sendto, b'no', elsewhere)
told(libc.sendmsg, s.fileno(), 1, 0); print(ctypes.get_errno())
""")
        self.assertRan(result)
        got = []
        for _ in range(9):
            data, control, _, _ = self.server.recvmsg(200000, 1000)
            got.append(data)
            for level, kind, value in control:
                self.assertEqual((level, kind, len(value)), (socket.SOL_SOCKET, socket.SCM_RIGHTS, 8))
                fds = [int.from_bytes(value[i:i + 4], "little") for i in (0, 4)]
                self.assertEqual(os.pread(fds[0], 100, 0), b"what goes along")
                for fd in fds:
                    os.close(fd)
        self.assertEqual(got, [b"one", b"two halves", b"", b"fd", b"x" * 100000, b"m1", b"m22", b"m3", b"connected"])
        for server in (self.server, other):
            server.settimeout(0)
            self.assertRaises(BlockingIOError, server.recv, 10)
        no = "Operation not permitted"
        self.assertEqual(result.stdout.splitlines(), [
            "3", "10", "0", "2", "100000", "Message too long", "Bad file descriptor", "2 [2, 3]", "1 [2, 0, 0]", no, no, "-1 [0]",
            "No such file or directory", "Connection refused", no, "2", "b'in'", "9", no, no, "4", "b'pair'", no, "-1", "14"])
        self.assertEqual(self.pairs(violations), {(o, elsewhere) for o in ("sendto", "sendmsg", "sendmmsg", "connect")} |
                         {("sendto", "@nobody")})
        for violation in violations:
            self.assertEqual((violation["kind"], violation["setting"]), ("unix-socket", "network.allowUnixSockets"))
            doing = "connecting to" if violation["operation"] == "connect" else "sending to"
            self.assertEqual(violation["message"], f"{doing} the Unix socket {violation['path']} is not allowed in this sandbox")
            self.assertIn("such names end at the sandbox" if violation["path"] == "@nobody" else "ask the user to name this path",
                          violation["hint"])

    def test_a_full_queue_stops_its_sender_and_nobody_else(self):
        run = self.start(FULL + """
print('full', flush=True)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, (300000).to_bytes(16, 'little')[8:] and b'\\0' * 8 + (300000).to_bytes(8, 'little'))
try: s.sendto(b'no', sys.argv[1])
except BlockingIOError: print('in time', flush=True)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b'\\0' * 16)
child = os.fork()
if child == 0:
    s.sendto(b'never', sys.argv[1]); os._exit(0)
def wait(): s.sendto(b'last', sys.argv[1]); print('sent', flush=True)
t = threading.Thread(target=wait); t.start()
for i in range(100): open('f%d' % i, 'w').close()
print('others went on', flush=True)
os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
print(sent, flush=True)
t.join()
""")
        said = [run.stdout.readline() for _ in range(4)]
        self.assertEqual(said[:3], ["full\n", "in time\n", "others went on\n"])
        self.await_waiting(run, 1)  # the killed child's has gone
        for i in range(int(said[3])):
            self.assertEqual(self.server.recv(100), b"%d" % i)
        self.assertEqual(self.server.recv(100), b"last")
        self.assertEqual(run.stdout.readline(), "sent\n")
        self.assertEqual(run.wait(), 0)

    def test_of_many_messages_one_that_waits_is_counted_as_others_are(self):
        run = self.start(FULL + "print(sent, flush=True)\n" + SENDMMSG + """
many((sys.argv[1], b'waits'), (sys.argv[1], b'no more'))
""")
        sent = int(run.stdout.readline())
        self.await_waiting(run, 1)
        for i in range(sent):
            self.assertEqual(self.server.recv(100), b"%d" % i)
        self.assertEqual(self.server.recv(100), b"waits")
        self.assertEqual(run.stdout.readline(), "1 [5, 0]\n")
        self.assertEqual(run.wait(), 0)

    def test_a_full_backlog_stops_its_caller_and_nobody_else(self):
        server, path = self.listen("stream.sock", socket.SOCK_STREAM)
        server.listen(0)
        self.network["allowUnixSockets"].append(path)
        run = self.start(f"""
import os, signal, socket, threading
path = {path!r}
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(path); return s
first = connect()
child = os.fork()
if child == 0: connect(); os._exit(0)
done = []
t = threading.Thread(target=lambda: done.append(connect())); t.start()
for i in range(100): open('f%d' % i, 'w').close()
print('others went on', bool(done), flush=True)
os.kill(child, signal.SIGKILL); os.waitpid(child, 0); print('killed', flush=True)
t.join(); print('in', flush=True)
""")
        self.assertEqual(run.stdout.readline(), "others went on False\n")
        self.assertEqual(run.stdout.readline(), "killed\n")
        for _ in range(2):
            server.accept()[0].close()
        said = run.stdout.readline()
        while said == "":
            server.accept()[0].close()
        self.assertEqual(said, "in\n")
        self.assertEqual(run.wait(), 0)

    def test_receiver_that_is_swapped_while_it_is_judged(self):
        servers = [self.listen(name, within=self.work)[0] for name in ("yes.sock", "no!.sock")]
        for server in servers:
            server.settimeout(0)
        self.network["allowUnixSockets"] = ["yes.sock"]
        result = self.run_in("/usr/bin/env", "python3", "-c", """
import ctypes, socket, threading, time
libc = ctypes.CDLL(None)
address = ctypes.create_string_buffer(b'\\1\\0yes.sock\\0', 110)
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_char_p), ('len', ctypes.c_size_t)]
class msghdr(ctypes.Structure): _fields_ = [(n, t) for n, t in (('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.POINTER(iovec)),
    ('iovlen', ctypes.c_size_t), ('control', ctypes.c_char_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int))]
message = msghdr(ctypes.addressof(address), 110, ctypes.pointer(iovec(b'x', 1)), 1)
none = socket.socket(); one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
over, won = False, 0
def swap():
    while not over:
        ctypes.memmove(ctypes.addressof(address) + 2, b'no!', 3); ctypes.memmove(ctypes.addressof(address) + 2, b'yes', 3)
def swap_socket():
    spare = 100
    while not over: libc.dup2(none.fileno(), spare); libc.dup2(one.fileno(), spare)
for f in (swap, swap_socket): threading.Thread(target=f).start()
end = time.monotonic() + 3
while time.monotonic() < end:
    won += libc.sendmsg(one.fileno(), ctypes.byref(message), 0x40) >= 0
    libc.sendmsg(100, ctypes.byref(message), 0x40); libc.sendto(100, b'x', 1, 0x40, address, 110)
over = True
print(won > 0)
""")
        self.assertEqual(result.stdout, "True\n", result.stderr)
        self.assertRaises(BlockingIOError, servers[1].recv, 10)

    def test_other_sockets_send_what_they_sent(self):
        """sendmsg() of any socket is done by the warden then: big ones, with descriptors, and none that waits stops another."""
        result, violations = self.told_python("""
import hashlib, os, random, signal, socket, threading
data = random.Random(1).randbytes(5000000)
def through(a, b, send):
    got = []
    def read():
        while True:
            part = b.recv(1 << 16)
            if not part: break
            got.append(part)
    t = threading.Thread(target=read); t.start(); send(a); a.shutdown(socket.SHUT_WR); t.join()
    return b''.join(got) == data
def whole(a): assert a.sendmsg([data[:1000], data[1000:3000000], data[3000000:]]) == len(data)
def parts(a):
    a.setblocking(False); at = 0
    while at < len(data):
        try: at += a.sendmsg([data[at:at + 7], data[at + 7:]])
        except BlockingIOError: os.sched_yield()
def tcp():
    s = socket.create_server(('127.0.0.1', 0)); a = socket.create_connection(s.getsockname()); return a, s.accept()[0]
for make in (tcp, lambda: socket.socketpair()):
    for send in (whole, parts): print(through(*make(), send))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0))
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(v.sendto(b'udp', u.getsockname()), v.sendmsg([b'udp2'], [], 0, u.getsockname()), u.recv(9), u.recv(9))
a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [0, 1]); print(len(socket.recv_fds(b, 9, 9)[1]))
b.close(); hit = []
signal.signal(signal.SIGPIPE, lambda *_: hit.append(1))
try: a.sendmsg([b'x'])
except BrokenPipeError: print('pipe', hit)
try: a.sendmsg([b'x'], [], socket.MSG_NOSIGNAL)
except BrokenPipeError: print('pipe', hit)
try: socket.socket().sendmsg([b'x'])
except OSError as e: print(e.errno in (32, 107))  # with a signal, too
def leave_early(b):
    for _ in range(10): b.recv(1 << 16)
    b.close()
for make in (tcp, lambda: socket.socketpair()):
    a, b = make(); t = threading.Thread(target=leave_early, args=(b,)); t.start()
    print(0 < a.sendmsg([data]) < len(data), hit); t.join()
""", timeout=120)
        self.assertRan(result)
        self.assertEqual(result.stdout, "True\n" * 4 + "3 4 b'udp' b'udp2'\n2\npipe [1]\npipe [1]\nTrue\n" + "True [1, 1]\n" * 2)
        self.assertEqual(violations, [])

    def test_without_a_socket_that_takes_them_there_are_none(self):
        self.network["allowUnixSockets"] = [self.listen("stream.sock", socket.SOCK_STREAM)[1]]
        program = """
import socket
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); print('made')
except OSError as e: print(e.errno)
"""
        result, violations = self.told_python(program)
        self.assertEqual(result.stdout, "1\n", result.stderr)
        record, = violations
        self.assertEqual((record["kind"], record["operation"], record["path"], record["setting"], record["rule"]),
                         ("unix-socket", "socket", "AF_UNIX, SOCK_DGRAM", "network.allowUnixSockets",
                          "none of network.allowUnixSockets takes datagrams"))
        self.network["allowUnixSockets"] = [self.top]  # a directory that has one
        self.assertEqual(self.told_python(program)[0].stdout, "made\n")


class Loads(Told):
    def test_renames_and_links_by_many_processes(self):
        """As `stress-ng --rename --link --dir --chmod` does, and the tree is what it would be without a fence."""
        program = """
import os, sys
def work(n):
    os.mkdir(str(n)); os.chdir(str(n))
    for i in range(400):
        with open('a', 'w') as f: f.write('%d\\n' % i)
        os.link('a', 'l%d' % (i % 7)); os.rename('a', 'b'); os.chmod('b', 0o600 | i % 8); os.symlink('b', 's')
        os.mkdir('d'); os.rename('b', 'd/c'); os.rename('d', 'e'); os.truncate('e/c', 1); os.utime('e/c', (i, i))
        os.rename('e/c', 'last'); os.rmdir('e'); os.unlink('s'); os.unlink('l%d' % (i % 7))
children = []
for n in range(4):
    pid = os.fork()
    if pid == 0:
        work(n); os._exit(0)
    children.append(pid)
sys.exit(any(os.waitpid(pid, 0)[1] for pid in children))
"""
        result, violations = self.told_python(program, timeout=300)
        self.assertRan(result)
        self.assertEqual(violations, [])
        for n in range(4):
            folder = os.path.join(self.work, str(n))
            self.assertEqual(os.listdir(folder), ["last"])
            st = os.stat(os.path.join(folder, "last"))
            self.assertEqual((st.st_size, st.st_mode & 0o777, st.st_mtime, st.st_nlink), (1, 0o607, 399, 1))


class Stress(Told):
    @unittest.skipIf(shutil.which("stress-ng") is None, "no stress-ng")
    def test_stress_ng(self):
        """One --link or --symlink is 8192 of them: without a fence, too, --symlink takes a disk up to half a minute,
        as each of its links is too long for an inode."""
        loads = {"rename": (2, 500), "link": (1, 1), "symlink": (1, 1), "dentry": (1, 200), "chmod": (1, 5), "dir": (1, 50),
                 "utime": (1, 50)}
        words = [word for load, (n, ops) in loads.items() for word in (f"--{load}", str(n), f"--{load}-ops", str(ops))]
        result, violations = self.told("stress-ng", "--temp-path", ".", "--dentries", "200", *words, timeout=600)
        self.assertRan(result)
        self.assertIn("successful run completed", result.stderr + result.stdout)
        # --link tries each of its links across file systems, too: to one name in /tmp.
        self.assertEqual([v for v in violations if v["kind"] == "file" and not
                          (v["operation"] == "link" and re.fullmatch(r"/tmp/stress-ng-link-[-\d]+-link", v["path"]))], [])
        self.assertEqual(os.listdir(self.work), [])


class Directories(Told):
    """The warden keeps directories open from call to call; what a path means is what it means now."""

    def made(self, program, **args):
        result, violations = self.told_python(program, **args)
        self.assertRan(result)
        self.assertEqual(violations, [])
        return {os.path.relpath(os.path.join(folder, name), self.work)
                for folder, _, files in os.walk(self.work) for name in files}

    def test_another_directory_of_the_same_name(self):
        names = self.made("""
import os
for i in range(100):
    os.mkdir('a'); open('a/first', 'w').close()
    os.rename('a', 'b%d' % i)
    os.mkdir('a'); open('a/second', 'w').close(); os.link('a/second', 'a/third'); os.rename('a/third', 'b%d/third' % i)
    os.unlink('a/second'); os.rmdir('a')
""")
        self.assertEqual(names, {f"b{i}/{name}" for i in range(100) for name in ("first", "third")})

    def test_a_link_to_another_directory(self):
        names = self.made("""
import os
os.mkdir('one'); os.mkdir('two'); os.symlink('one', 'way')
for i in range(50):
    open('way/%d' % i, 'w').close()
    os.symlink(('two', 'one')[i % 2], 'next'); os.rename('next', 'way')
""")
        self.assertEqual(names, {f"{('one', 'two')[i % 2]}/{i}" for i in range(50)})

    def test_working_directories_descriptors_and_threads_with_a_directory_of_their_own(self):
        names = self.made("""
import ctypes, os, threading
libc = ctypes.CDLL(None)
for n in range(200): os.mkdir(str(n))
ends = [os.open(n, os.O_PATH) for n in ('0', '1')]
for i in range(200):
    os.chdir(str(i)); open('here', 'w').close(); os.chdir('..')
    os.close(os.open('at%d' % i, os.O_CREAT | os.O_WRONLY, dir_fd=ends[i % 2]))
def work(n):
    libc.unshare(0x200); os.chdir(n)
    for i in range(50): open('%s-%d' % (n, i), 'w').close(); os.mkdir('d'); open('d/x', 'w').close(); os.unlink('d/x'); os.rmdir('d')
threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""")
        self.assertEqual(names, {f"{n}/here" for n in range(200)} | {f"{i % 2}/at{i}" for i in range(200)} |
                         {f"{n}/{n}-{i}" for n in range(4) for i in range(50)})

    def test_errors_are_those_of_the_kernel(self):
        """What takes fewer looks than it did says the same as without a warden, also directly after it was otherwise."""
        program = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def say(call, *args):
    result = getattr(libc, call)(*(a.encode() if isinstance(a, str) else a for a in args))
    print(call, args[:1], 'done' if result >= 0 else errno.errorcode[ctypes.get_errno()])
    return result
made = ('d', 'd/in', './d/in', 'd//in/', 'd/in/.', 'd/in/..', 'd/.', '/', '.', '..', '', 'f', 'f/', 'f/x', 'none/x', 'link', 'link/',
        'link/in', 'dangling', 'dangling/', os.path.abspath('d/in'), os.path.abspath('link'), '/proc/self/cwd/d/in',
        'd/' + 'n' * 255, 'd/' + 'n' * 256, 'x' * 300 + '/y', '/proc/self', '/proc/self/fd/0')
removed = ('none', 'none/x', 'f/', 'f/x', 'd', 'd/', 'd/.', 'link/', '.', '', 'dangling/', 'dangling', 'f')
def set_up():
    os.makedirs('d/in', exist_ok=True)
    for name in ('f', 'd/in/file'): open(name, 'w').close()
    for name, to in (('link', 'd'), ('dangling', 'nothing')):
        if not os.path.lexists(name): os.symlink(to, name)
set_up()
for _ in range(2):
    for name in made: say('mkdir', name, 0o755)
    os.rename('d', 'e'); say('mkdir', 'd/in', 0o755); say('mkdir', 'e/in', 0o755); os.rename('e', 'd')
    os.unlink('d/in/file'); say('mkdir', 'd/in', 0o755); os.rmdir('d/in'); say('mkdir', 'd/in', 0o755); say('mkdir', 'd/in', 0o755)
    os.chdir('d'); say('mkdir', 'in', 0o755); say('mkdir', 'd', 0o755); say('rmdir', 'd'); os.chdir('..')
    at = os.open('d', os.O_PATH)
    for name in ('in', 'f', 'f', ''): say('mkdirat', at, name, 0o755)
    os.rmdir('d/f'); os.close(at); say('mkdirat', at, 'in', 0o755)
    for name in os.listdir('d'):
        if name[0] == 'n': os.rmdir('d/' + name)
    set_up()
    for name in removed: say('unlink', name)
    set_up()
    for name in removed: say('rmdir', name)
    for one in made[:20]: # where two things are wrong it may be the other one that is told
        for other in ('d', 'd/', 'f', 'none', 'link', 'dangling', 'd/in', 'f/y') if one not in ('', 'f/x') else ('none',):
            set_up()
            print('rename', one, other, end=' ')
            if say('rename', one, other) == 0 and one != other: os.rename(other, one) if os.path.lexists(other) else None
# Strings whose last byte is the last one that can be read, longer and shorter than is read at once.
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, 8192, 3, 0x22, -1, 0)
libc.munmap(ctypes.c_void_p(page + 4096), 4096)
for name, other in (('d/in', 'e'), ('./' * 200 + 'e', './' * 150 + 'd/in2'), ('d/in2', './' * 300 + 'd/in')):
    place = page + 4096 - len(name) - 1
    ctypes.memmove(place, name.encode(), len(name) + 1)
    print(name[-5:], say('rename', ctypes.c_void_p(place), other), sorted(os.listdir('d')))
ctypes.memset(page + 4000, 120, 96)
say('rename', ctypes.c_void_p(page + 4000), 'e'); say('rename', 'd', ctypes.c_void_p(page + 4000)); say('mkdir', ctypes.c_void_p(page + 4000), 0o755)
"""
        said = []
        for words in (("/usr/bin/env", "python3", "-c", program),) * 2:
            shutil.rmtree(self.work)
            os.mkdir(self.work)
            if said:
                result = self.run_in(*words)
            else:
                self.own()
                result = subprocess.run(words, cwd=self.work, capture_output=True, text=True, timeout=60, **self.popen_args())
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            said.append(re.sub(r"c_void_p\(\d+\)|/tmp/[^']*/", "", result.stdout).splitlines())
        self.assertEqual([pair for pair in zip(*said, strict=True) if pair[0] != pair[1]], [])

    def test_a_directory_that_comes_to_be_called_otherwise_is_judged_by_that_name(self):
        """What is held says nothing about where it is."""
        os.makedirs(os.path.join(self.work, "free"))
        self.filesystem["denyWrite"] = ["guarded"]
        self.settings()
        self.own()
        program = """
import os, sys
def make(name):
    try: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)); print('made', flush=True)
    except OSError as e: print(e.errno, flush=True)
d = os.open('free', os.O_PATH)
make('free/a'); sys.stdin.readline(); make('guarded/b')
for name in ('c', 'd'):
    try: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=d)); print('made', flush=True)
    except OSError as e: print(e.errno, flush=True)
"""
        run = subprocess.Popen([self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none", "--",
                                "/usr/bin/env", "python3", "-c", program], cwd=self.work, env=self.environment(), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **self.popen_args())
        self.assertEqual(run.stdout.readline(), "made\n")
        os.rename(os.path.join(self.work, "free"), os.path.join(self.work, "guarded"))
        said, _ = run.communicate("\n")
        self.assertEqual(said, "30\n30\n30\n")
        self.assertEqual(os.listdir(os.path.join(self.work, "guarded")), ["a"])

    def test_who_watches_a_directory_hears_that_it_is_gone(self):
        self.made("""
import ctypes, os, select
libc = ctypes.CDLL(None)
for i in range(20):
    os.mkdir('d'); open('d/x', 'w').close(); os.unlink('d/x')
    watch = libc.inotify_init1(0o4000)
    assert libc.inotify_add_watch(watch, b'd', 0x400) > 0
    os.rmdir('d')
    assert select.select([watch], [], [], 20)[0], i
    os.close(watch)
""")

    def test_a_program_can_be_started_as_soon_as_it_is_written(self):
        """Nobody else has it open for writing then."""
        result, violations = self.told_python("""
import os, subprocess
with open('/bin/true', 'rb') as f: code = f.read()
for i in range(150):
    name = './p%d' % (i % 3)
    if i % 2 and os.path.exists(name): os.unlink(name)
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o755); os.write(fd, code); os.close(fd)
    subprocess.run([name], check=True)
""", timeout=300)
        self.assertRan(result)
        self.assertEqual(violations, [])


class Strays(Told):
    """What went past the way out: nobody judged it, and whoever tried hears why it came to nothing all the same."""

    TRIES = {"tcp": 'socket.create_connection(("192.0.2.1", 443))',
             "tcp6": 'socket.create_connection(("2001:db8::1", 443))',
             "udp": 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))'}
    STUB = ('s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.53", 5355)); '
            's.send(b"x"); s.settimeout(20); s.recv(1)')

    def strays(self, program, egress):
        _, violations = self.told_python("import socket\n" + program, options=["--egress", egress])
        return [v for v in violations if v["setting"] == "launch.egress"]

    def test_without_a_route_each_way_of_trying_is_told(self):
        for egress, hint in (("port", "HTTP_PROXY"), ("none", "without the network"), ("socket", "SRT_EGRESS_SOCKET")):
            for name, program in self.TRIES.items():
                with self.subTest(egress=egress, tried=name):
                    if name == "tcp6" and not os.path.exists("/proc/net/if_inet6"):
                        self.skipTest("this kernel has no IPv6")
                    stray, = self.strays(program, egress)
                    self.assertEqual((stray["kind"], stray["operation"], stray["path"], stray["errno"], stray["rule"]),
                                     ("syscall", "connect", None, "ENETUNREACH", "default: no route"))
                    self.assertIn(hint, stray["hint"])

    def test_a_look_up_is_told_wherever_this_machines_resolver_is(self):
        """Somewhere else, where no route leads, or a stub on loopback, of which there is none inside."""
        told = self.strays('socket.getaddrinfo("evil.test", 443)', "port")
        self.assertIn(told[0]["rule"], ("default: no route", "default: no datagrams"))

    def test_datagrams_to_nobody(self):
        for egress, hint in (("port", "HTTP_PROXY"), ("transparent", "use TCP")):
            with self.subTest(egress=egress):
                stray, = self.strays(self.STUB, egress)
                self.assertEqual((stray["operation"], stray["errno"]), ("sendto", "ECONNREFUSED"))
                self.assertIn(hint, stray["hint"])

    def test_who_asks_the_proxy_and_who_asks_nobody_is_told_of_nothing(self):
        ask = ('import urllib.request\n'
               'try: urllib.request.urlopen("http://evil.test/", timeout=20)\n'
               'except urllib.error.HTTPError as e: print(e.code)')
        self.assertEqual(self.strays(ask, "port"), [])
        self.assertEqual(self.strays("socket.socketpair", "port"), [])

    def test_in_the_summary_of_a_command_that_fails_and_only_there(self):
        failing = self.run_in("/usr/bin/env", "python3", "-c", "import socket\n" + self.TRIES["tcp"])
        self.assertIn("\ndeny connect (default: no route): ", failing.stderr)
        silent = self.run_in("/usr/bin/env", "python3", "-c", "import socket\ntry: " + self.TRIES["tcp"] + "\nexcept OSError: pass")
        self.assertEqual(silent.stderr, "")

    def test_ignored_like_every_other(self):
        self.more["ignoreViolations"] = {"*": ["deny connect"]}
        self.assertEqual(self.strays(self.TRIES["tcp"], "none"), [])


class Places(Told):
    """Where a write is refused, the places that are named can be written to."""

    def hint(self, path, write=(".",), cwd=None):
        self.filesystem["allowWrite"] = list(write)
        _, violations = self.told("/bin/sh", "-c", f"echo x > {path}", cwd=cwd)
        violation, = violations
        self.assertEqual(violation["rule"], "default")
        return violation["hint"]

    def test_a_working_directory_that_can_be_written_to(self):
        self.assertRegex(self.hint("/srt-elsewhere"), "^write inside the working directory or .TMPDIR, or ask for its directory")

    def test_one_that_cannot(self):
        elsewhere = self.hint("/srt-elsewhere", write=())
        self.assertRegex(elsewhere, "^write below .TMPDIR, or ask for its directory")
        inside = self.hint(os.path.join(self.work, "file"), write=())
        self.assertIn('{"filesystem": {"allowWrite": ["."]}}', inside)
        self.assertNotIn("inside the working directory", inside)

    def test_no_directory_of_programs_that_the_user_runs_is_taken_for_a_cache(self):
        for name in ("bin", ".local/bin", ".cargo/bin", "go/bin"):
            with self.subTest(name=name):
                os.makedirs(os.path.join(self.home, name))
                self.own()
                hint = self.hint(os.path.join(self.home, name, "tool"))
                self.assertIn("run outside the sandbox", hint)
                self.assertNotIn("allowWrite", hint)
        for name, directory in ((".cargo/registry/index", "~/.cargo/registry"), ("go/pkg/mod", "~/go/pkg")):
            with self.subTest(name=name):
                os.makedirs(os.path.join(self.home, name))
                self.own()
                self.assertIn(f'"{directory}"', self.hint(os.path.join(self.home, name, "file")))

    def test_nobody_is_told_to_open_the_home_directory_whole(self):
        for cwd in (self.home, self.top):
            hint = self.hint(os.path.join(self.home, "file"), write=(), cwd=cwd)
            self.assertNotIn('["."]', hint)
            self.assertIn("the home directory should not be allowed whole", hint)


class Documented(Told):
    def test_transcripts_come_out_as_they_are_printed(self):
        script = os.path.join(os.path.dirname(os.path.dirname(TOOLS)), "..", "docs", "transcripts")
        done = subprocess.run(["python3", "-B", script, self.launch], capture_output=True, text=True,
                              env={k: v for k, v in os.environ.items() if not k.lower().endswith("proxy")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


both(globals(), Calls, Lines, Unheard, Sockets, Datagrams, Loads, Directories, Strays, Places)

if __name__ == "__main__":
    unittest.main()
