"""What a hostile command tries against the fence of srt-launch, each test named after what must hold."""
import fcntl
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
import unittest

from fence import Fence, both, unheard

CAS = "/etc/ssl/certs/ca-certificates.crt"


class SharedGateway(Fence):
    """A shared gateway that keeps everything it lives on in a directory where the sandbox may write."""

    def setUp(self):
        super().setUp()
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        self.dir = os.path.join(self.work, "gw")
        uid = self.account.pw_uid if self.account else os.getuid()
        self.write("gw/lists/rules.txt", "good.test\n")
        self.write("gw/secrets/token", "an-operator-token-of-some-length\n")
        self.write("gw/secrets/alice", "a-client-token-of-some-length\n")
        self.write("gw/secrets/up", "user:password\n")
        os.symlink("secrets", os.path.join(self.dir, "linked"))
        self.write("gw/conf.d/policy.ini",
                   "[policy main]\nallow-file = ../lists/rules.txt\nupstream = up\n"
                   f"[upstream up]\naddress = {'https' if os.path.exists(CAS) else 'http'}://127.0.0.1:9\n"
                   "credentials-file = ../secrets/up\n" + (f"ca-file = {CAS}\n" if os.path.exists(CAS) else ""))
        self.config = self.write(
            "gw/gateway.ini",
            f"[gateway]\nworkers = 1\naudit-log = {self.dir}/audit.jsonl\ncontrol = {self.dir}/control.sock\n"
            f"admin = unix:{self.dir}/admin.sock\nadmin-token-file = linked/token\ninclude = conf.d/*.ini\n"
            f"[listen main]\naddress = unix:{self.dir}/proxy.sock\npolicy = main\n"
            f"[client me]\nuid = {uid}\npolicy = main\n"
            "[client alice]\ntoken-file = secrets/alice\npolicy = main\n" + self.modules())
        self.own()
        self.process = subprocess.Popen([self.gateway, "run", "-c", self.config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, cwd=self.dir, env=self.environment(),
                                        **self.popen_args())
        self.addCleanup(self.end)
        self.said = ""
        while "ready" not in self.said:
            line = self.process.stderr.readline()
            self.assertTrue(line, self.said)
            self.said += line
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def modules(self):
        return ""

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stderr.close()

    def inside(self, script, **settings):
        self.network = {"allowedDomains": ["good.test"], "deniedDomains": [], "allowAllUnixSockets": True}
        self.filesystem.update(allowWrite=[".", "gw"], denyRead=[], allowRead=["gw"], **settings)
        return self.run_plain("-s", self.settings(), "--gateway", f"unix:{self.dir}/control.sock", "--",
                              "/bin/sh", "-c", script)

    def audit_log(self):
        with open(f"{self.dir}/audit.jsonl", "rb") as f:
            return f.read()

    def gateway_answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.dir}/admin.sock")
            s.sendall(b"GET /config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      b"Authorization: Bearer an-operator-token-of-some-length\r\n\r\n")
            return b" 200 " in s.recv(100)


class GatewayInReach(SharedGateway):
    def test_secrets_of_the_gateway_cannot_be_read(self):
        for disabled in ({}, {"disabled": True}):
            result = self.inside("cd gw; for f in gateway.ini conf.d/policy.ini secrets/* linked/token audit.jsonl; do"
                                 " cat $f && echo READ $f; cp -l $f ../c && cat ../c && echo LINKED $f; done; true",
                                 **disabled)
            self.assertRan(result)
            self.assertEqual(result.stdout, "", result.stderr)

    def test_what_the_gateway_lives_on_cannot_be_changed(self):
        files = ("gateway.ini conf.d/policy.ini secrets/token secrets/alice secrets/up lists/rules.txt audit.jsonl"
                 " admin.sock control.sock proxy.sock linked")
        before = {name: os.lstat(os.path.join(self.dir, name)).st_ino for name in files.split()}
        for disabled in ({}, {"disabled": True}):
            result = self.inside(
                f"cd gw; for f in {files}; do for do in 'echo x >>$f' 'rm -f $f' 'mv -f $f ../moved' 'ln -sfn /x $f'"
                " 'ln -f ../settings.json $f' 'chmod 777 $f'; do eval \"$do\" 2>/dev/null && echo \"DONE $do $f\"; done;"
                " done; for d in conf.d secrets lists ../gw; do"
                "  perl -e 'rename($ARGV[0], \"../away\") and print \"RENAMED $ARGV[0]\\n\"' $d; done;"
                " echo '[policy evil]' > conf.d/evil.ini && echo INCLUDED; true", **disabled)
            self.assertRan(result)
            # Through the link: a directory that is the sandbox's own to change.
            self.assertEqual(result.stdout.replace("DONE chmod 777 $f linked\n", ""), "", result.stderr)
        self.assertEqual(before, {name: os.lstat(os.path.join(self.dir, name)).st_ino for name in before})
        self.assertTrue(self.gateway_answers())

    def test_what_is_no_secret_can_be_read(self):
        self.filesystem["disabled"] = True
        result = self.inside(f"cat gw/lists/rules.txt; [ ! -e {CAS} ] || head -c 1 {CAS} >/dev/null && echo fine")
        self.assertEqual(result.stdout, "good.test\nfine\n", result.stderr)

    def test_operators_sockets_cannot_be_reached(self):
        program = ("import socket\nfor name in ('admin', 'control'):\n"
                   "    s = socket.socket(socket.AF_UNIX)\n"
                   "    try: s.connect(f'gw/{name}.sock'); print('CONNECTED', name)\n"
                   "    except OSError as e: print('no', name)\n")
        result = self.inside(f"python3 -c \"{program}\"")
        self.assertEqual(result.stdout, "no admin\nno control\n", result.stderr)
        self.assertTrue(self.gateway_answers())

    def test_gateway_notices_what_the_operator_changes_meanwhile(self):
        result = self.inside("echo through; touch gw/own && echo wrote")
        self.assertEqual(result.stdout, "through\nwrote\n", result.stderr)
        with open(self.config, "a") as f:
            f.write("# more\n")
        self.process.send_signal(1)
        end = time.monotonic() + 30
        while b'"reload"' not in self.audit_log():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertTrue(self.gateway_answers())


class ProgramAndModulesInReach(SharedGateway):
    """What the gateway runs anew at a hand-over, and whom it asks, lies where the sandbox may write, too."""

    def setUp(self):
        if hasattr(self, "gateway"):
            self.original = self.gateway
        super().setUp()

    def modules(self):
        self.gateway = shutil.copy(self.original, self.dir)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(f"{self.dir}/module.sock")
        listener.listen()
        return f"[filter far]\nmodule = unix:{self.dir}/module.sock\n"

    def test_program_and_modules_cannot_be_exchanged(self):
        for disabled in ({}, {"disabled": True}):
            result = self.inside("cd gw; for f in srt-gateway module.sock; do for do in 'echo x >>$f' 'rm -f $f'"
                                 " 'mv -f $f ../moved' 'ln -sfn /x $f' 'chmod 777 $f'; do"
                                 " eval \"$do\" 2>/dev/null && echo \"DONE $do $f\"; done; done; true", **disabled)
            self.assertRan(result)
            self.assertEqual(result.stdout, "", result.stderr)


class Warden(Fence):
    def test_nothing_is_opened_with_more_rights_than_the_caller_has(self):
        result = self.run_in("python3", "-c", """
import os
names = ["mem", "maps", "environ", "auxv", "fd/0", "fd/3", "cwd/x", "root/x"]
held = {n: os.open("/proc/1/" + n, os.O_PATH) for n in names[:4]}
paths = ["/proc/1/" + n for n in names] + ["/proc/1/task/1/mem"] + [f"/proc/self/fd/{f}" for f in held.values()]
for path in paths:
    for flags in (os.O_RDONLY, os.O_RDWR):
        for more in (0, os.O_CREAT, os.O_CREAT | os.O_NOFOLLOW):
            try:
                os.open(path, flags | more)
                print("OPENED", path, flags, more)
            except OSError:
                pass
own = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
print("own", os.write(own, b"500"))
""")
        self.assertEqual(result.stdout, "own 3\n", result.stderr)

    def while_running(self, script, change):
        """Runs the script; `change` is what somebody outside does after it has said go."""
        self.write("ready", "")
        os.unlink(os.path.join(self.work, "ready"))
        self.settings()
        self.own()
        process = subprocess.Popen(
            [self.launch, "-s", os.path.join(self.top, "settings.json"), "--egress", "none", "--", "/bin/sh", "-c",
             f"echo > ready; read go; {script}"], cwd=self.work, env=self.environment(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **self.popen_args())
        end = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.work, "ready")) and time.monotonic() < end:
            time.sleep(0.01)
        change()
        self.own()
        out, err = process.communicate("go\n", timeout=60)
        return out, err

    def test_guards_hold_for_files_that_are_replaced_outside_meanwhile(self):
        names = [".git/config", ".bashrc", "no", ".git/hooks/pre-commit"]
        self.filesystem["denyWrite"] = ["no"]
        for name in names:
            self.write(name, "old\n")

        def change():
            for name in names[:3]:
                os.replace(self.write(name + ".lock", "new\n"), os.path.join(self.work, name))
            os.rename(os.path.join(self.work, ".git/hooks"), os.path.join(self.top, "hooks"))
            self.write(names[3], "new\n")

        out, err = self.while_running(
            f"for f in {' '.join(names)}; do for do in 'echo x >>$f' ': >$f' ': <>$f && perl -e \"open(F,q(+<),q($f))"
            " and truncate(F,0) or die\"' 'rm -f $f' 'mv $f moved' 'ln $f linked' 'truncate -s0 $f' 'chmod 777 $f'"
            " 'ln -sfn /x $f' 'perl -e \"truncate(q($f),0) or die\"' 'mv -T .git/hooks away'"
            " 'exec 3<$f && echo x >/proc/self/fd/3'; do (eval \"$do\") 2>/dev/null && echo \"DONE $do $f\"; done; done;"
            " echo end", change)
        self.assertEqual(out, "end\n", err)
        for name in names:
            with open(os.path.join(self.work, name)) as f:
                self.assertEqual(f.read(), "new\n")

    def test_flags_of_guarded_files_stay_as_they_are(self):
        """To change these takes a descriptor that is open for reading, and no name."""
        GET, SET, GETX, SETX, NODUMP = 0x80086601, 0x40086602, 0x801c581f, 0x401c5820, 0x40
        guarded = [".bashrc", "no", ".git/hooks"]
        self.filesystem["denyWrite"] = ["no"]
        for name in (*guarded[:2], ".git/hooks/pre-commit", "plain"):
            self.write(name)

        def flags_of(name):
            fd = os.open(os.path.join(self.work, name), os.O_RDONLY)
            try:
                return struct.unpack("ii", fcntl.ioctl(fd, GET, bytes(8)))[0], fcntl.ioctl(fd, GETX, bytes(28))[:4]
            except OSError as error:
                self.skipTest(f"this file system has no flags: {error}")
            finally:
                os.close(fd)

        def change():
            for name in guarded[:2]:
                os.replace(self.write(name + ".lock"), os.path.join(self.work, name))
            os.rename(os.path.join(self.work, ".git/hooks"), os.path.join(self.top, "hooks"))
            self.write(".git/hooks/pre-commit")

        before = [flags_of(name) for name in guarded]
        out, err = self.while_running(f"""python3 - <<'E'
import ctypes, fcntl, os, struct
c = ctypes.CDLL(None, use_errno=True)
for name in {guarded + ["plain"]}:
    fd = os.open(name, os.O_RDONLY)
    flags = struct.unpack("ii", fcntl.ioctl(fd, {GET}, bytes(8)))[0]
    more = bytearray(fcntl.ioctl(fd, {GETX}, bytes(28)))
    more[0] |= 0x80  # no dump, too
    for number, value in (({SET}, struct.pack("ii", flags | {NODUMP}, -1)), ({SETX}, bytes(more))):
        for number in (number, number | 1 << 40):
            print(name, c.ioctl(fd, ctypes.c_ulong(number), value), ctypes.get_errno())
            ctypes.set_errno(0)
E""", change)
        self.assertEqual(out.splitlines(), [f"{name} -1 30" for name in guarded for _ in range(4)] + ["plain 0 0"] * 4, err)
        self.assertEqual([flags_of(name) for name in guarded], before)
        self.assertEqual(flags_of("plain")[0] & NODUMP, NODUMP)

    def test_what_the_host_makes_is_not_freed_by_moving_the_directory_above_it(self):
        """No mount keeps a directory in place that was not there: the warden does."""
        self.filesystem["denyWrite"] = ["keep/a/no", "swap/no"]
        self.filesystem["denyRead"] = ["hide/a/key", "swap/key"]
        names = ["keep/a/no", "hide/a/key", "swap/no", "swap/key"]
        os.makedirs(os.path.join(self.work, "other"))

        def change():
            for name in names:
                self.write(name, "secret\n")

        out, err = self.while_running(
            "for d in keep/a keep hide/a hide swap; do mkdir to; mv -T $d to 2>/dev/null && echo MOVED $d && cat $(find to -type f);"
            " mkdir -p to; python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, b\"to\", 2) != 0)' $d"
            " && echo EXCHANGED $d; rm -rf to; done; mv -T other fine; echo end",
            change)
        self.assertEqual(out, "end\n", err)
        for name in names:
            with open(os.path.join(self.work, name)) as f:
                self.assertEqual(f.read(), "secret\n")

    def test_what_is_hidden_stays_so_when_it_is_replaced_outside_meanwhile(self):
        names = ["key", "dir/deep/key", "whole/key", "absent", "later/key"]
        self.filesystem["denyRead"] = ["key", "dir/deep/key", "whole", "absent", "later"]
        for name in names[:3]:
            self.write(name, "old secret\n")
        self.write("open", "open\n")

        def change():
            for name in ("key", "dir/deep/key"):
                os.replace(self.write(name + ".new", "new secret\n"), os.path.join(self.work, name))
            os.rename(os.path.join(self.work, "whole"), os.path.join(self.top, "whole"))
            for name in ("whole/key", "absent", "later/key"):
                self.write(name, "new secret\n")

        out, err = self.while_running(
            f"for f in {' '.join(names)}; do for do in 'cat $f' 'cat <$f' 'dd if=$f' 'ln -s $PWD/$f way; cat way; rm way' 'ln $f linked; cat linked'"
            " 'mv $f moved; cat moved' 'cp $f copied; cat copied' 'perl -e \"open F,q(+<),q($f) and print <F>\"' 'cd $(dirname $f); cat $(basename $f)'"
            " 'cat /proc/self/cwd/$f' 'cat /proc/self/root$PWD/$f' 'python3 -c \"import os; d = os.open(\\\"$f\\\", os.O_PATH);"
            " print(open(\\\"/proc/self/fd/%d\\\" % d).read())\"' 'python3 -c \"import os; print(os.read(os.open(\\\"$f\\\","
            " os.O_CREAT), 99))\"' 'tar cf - $f'; do (eval \"$do\") 2>/dev/null; done; done; cat open", change)
        self.assertEqual((out.count("secret"), out[-5:]), (0, "open\n"), err)

    def test_what_is_hidden_stays_so_for_who_holds_its_path_when_it_is_replaced_again(self):
        self.filesystem["denyRead"] = ["key"]
        self.write("key", "old secret\n")

        def change():
            os.replace(self.write("key.new", "new secret\n"), os.path.join(self.work, "key"))

        ready, again = os.path.join(self.work, "held"), os.path.join(self.work, "again")
        other = threading.Thread(target=lambda: (wait_for(ready), change(), self.write("again", "")))
        other.start()
        self.addCleanup(other.join)
        out, err = self.while_running("exec python3 -c '"
                                      "import os, time\nfd = os.open(\"key\", os.O_PATH)\nopen(\"held\", \"w\")\n"
                                      "while not os.path.exists(\"again\"): time.sleep(0.01)\n"
                                      "try: print(open(f\"/proc/self/fd/{fd}\").read())\nexcept OSError as e: print(e.errno)'", change)
        self.assertEqual(out, "13\n", err)

    def test_threads_that_swap_a_path_read_nothing_hidden(self):
        self.filesystem["denyRead"] = ["key"]
        self.write("key", "old secret\n")
        self.write("kez", "open\n")
        os.symlink("kez", os.path.join(self.work, "way"))

        def change():
            os.replace(self.write("key.new", "new secret\n"), os.path.join(self.work, "key"))

        out, err = self.while_running("""exec python3 -c '
import ctypes, os, threading, time
c = ctypes.CDLL(None)
name = ctypes.create_string_buffer(b"kez")
stop = time.monotonic() + 4
def swap():
    while time.monotonic() < stop:
        name[2] = b"y"; name[2] = b"z"
        try: os.symlink("key", "new"); os.rename("new", "way"); os.symlink("kez", "new"); os.rename("new", "way")
        except OSError: pass
threading.Thread(target=swap).start()
seen = set(); tries = 0
while time.monotonic() < stop:
    for what in (name, b"way"):
        fd = c.open(what, 0)
        if fd >= 0:
            seen.add(os.read(fd, 99)); os.close(fd); tries += 1
print(seen, tries > 20)'""", change)
        self.assertEqual(out, "{b'open\\n'} True\n", err)

    def test_opens_for_reading_come_out_as_without_a_hidden_file(self):
        self.write("key", "secret\n")
        self.write("open", "open\n")
        self.write("d/e/f", "deep\n")
        script = self.write("opens.py", OPENS)
        answers = []
        for denied in ([], ["key"]):
            self.filesystem["denyRead"] = denied
            answers.append(self.assertRan(self.run_in("python3", script)).stdout.splitlines())
        self.assertGreater(len(answers[0]), 60)
        self.assertEqual([pair for pair in zip(*answers) if pair[0] != pair[1]], [])
        self.assertEqual(len(answers[0]), len(answers[1]))


# Every kind of thing that is opened for reading, and what comes of it.
OPENS = """
import ctypes, os, pty, socket, stat, subprocess, sys, threading
libc = ctypes.CDLL(None)
def show(name, flags=os.O_RDONLY, dir_fd=None, content=True):
    try:
        fd = os.open(name, flags, dir_fd=dir_fd)
    except OSError as e:
        print(name, flags, e.errno); return
    st = os.fstat(fd)
    text = ""
    if content and stat.S_ISREG(st.st_mode):
        try: text = os.read(fd, 60)
        except OSError as e: text = e.errno
    elif stat.S_ISDIR(st.st_mode):
        text = len(os.listdir(fd)) if "proc" not in str(name) and "pts" not in str(name) else "listed"
    import fcntl
    print(name, flags, oct(st.st_mode), text, oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOFOLLOW), fcntl.fcntl(fd, fcntl.F_GETFD))
    os.close(fd)
os.makedirs("made", exist_ok=True)
for n, t in (("l", "open"), ("dangling", "nowhere"), ("loop", "loop"), ("ld", "d"), ("lf", "/proc/self/fd"), ("lc", "/proc/self/cwd/open"),
             ("up", ".."), ("ldev", "/dev/null")):
    os.symlink(t, "made/" + n) if not os.path.lexists("made/" + n) else None
if not os.path.exists("made/fifo"): os.mkfifo("made/fifo")
if not os.path.exists("made/none"): os.close(os.open("made/none", os.O_CREAT, 0))
d = os.open("d", os.O_RDONLY)
top = os.open(".", os.O_PATH)
for name in ("open", "./open", "d", "d/", "d/.", "d/..", "open/", "open/x", "nowhere", "d/nowhere", "nowhere/x", "made/l", "made/dangling", "made/loop",
             "made/ld", "made/ld/e/f", "made/ldev", "made/none", "", "made/up/../" + os.path.basename(os.getcwd()) + "/open", "/etc/hostname", "/etc/passwd", "/etc/shadow", "/", ".", "..",
             "/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/fd", "/dev/shm", "/sys/kernel/mm", "x" * 256, "x/" * 2047, "x/" * 2048 + "x",
             "/proc", "/proc/self", "/proc/self/", "/proc/self/fd", "/proc/self/fd/", "/proc/self/task", "/proc/self/ns/net", "/proc/self/root/etc/hostname",
             "/proc/self/exe", "/proc/1/environ", "/proc/1/maps", "/proc/1/status", "/proc/1/stat", "/proc/1/cmdline", "/proc/1/auxv", "/proc/1/fd", "/proc/1/root/etc", "/proc/self/nothing",
             "/proc/uptime", "/proc/mounts", "/proc/net/dev", "/proc/sys/net/core/somaxconn", "/proc/sys/kernel/ostype", "/proc/cpuinfo", "/proc/kmsg"):
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_NOFOLLOW, os.O_DIRECTORY, os.O_NONBLOCK | os.O_CLOEXEC, os.O_CREAT, os.O_NOATIME):
        if flags == os.O_CREAT and not os.path.exists(name): continue
        show(name, flags, content=name not in ("/proc/uptime", "/proc/kmsg", "/proc/1/status", "/proc/1/stat", "/proc/net/dev"))
for name in ("e/f", "e", "../open", "nowhere", ""):
    show(name, dir_fd=d); show(name, dir_fd=top)
show("x", dir_fd=os.open("open", os.O_RDONLY))
try: os.open("x", os.O_RDONLY, dir_fd=999)
except OSError as e: print(e.errno)
print(libc.syscall(257, -100, 1, 0, 0), libc.open(ctypes.c_void_p(8), 0))
f = os.open("open", os.O_RDONLY); os.dup2(f, 60)
for name in ("/proc/self/fd/60", "/dev/fd/60", "/proc/thread-self/fd/60", "made/lf/60", "made/lc", "/proc/%d/fd/60" % os.getpid(),
             "/proc/%d/fd/60" % os.getppid(), "/proc/self/task/%d/fd/60" % os.getpid()):
    show(name); show(name, os.O_NOFOLLOW)
m = os.memfd_create("m"); os.write(m, b"memory"); os.dup2(m, 61)
show("/proc/self/fd/61"); show("/dev/fd/61", os.O_RDWR)
u = os.open(".", os.O_TMPFILE | os.O_RDWR); os.dup2(u, 62); show("/proc/self/fd/62")
r, w = os.pipe(); os.dup2(r, 63); os.write(w, b"pipe\\n")
p = os.open("/dev/fd/63", os.O_RDONLY); print(os.read(p, 9))
a, b = socket.socketpair(); os.dup2(a.fileno(), 64); show("/proc/self/fd/64")
print(subprocess.run("cat /dev/stdin; cat <<E\\nhere\\nE\\ncat /dev/fd/3 3<open; . /dev/stdin </dev/null; diff <(echo a) <(echo b)", shell=True,
                     executable="/bin/bash", input="input\\n", capture_output=True, text=True))
writer = threading.Thread(target=lambda: open("made/fifo", "w").write("fifo\\n")); writer.start()
print(open("made/fifo").read()); writer.join()
show("made/fifo", os.O_NONBLOCK)
pid, master = pty.fork()
if pid == 0:
    print(os.ttyname(os.open("/dev/tty", os.O_RDONLY)) == os.ttyname(0), os.isatty(os.open("/dev/stdin", os.O_RDONLY))); os._exit(0)
try: print(os.read(master, 99))
except OSError as e: print(e.errno)
os.waitpid(pid, 0)
libc.prctl(4, 0, 0, 0, 0)
for name in ("maps", "status", "stat", "cmdline", "exe", "environ", "task", "mounts"):
    show("/proc/self/" + name, content=False)
libc.prctl(4, 1, 0, 0, 0)
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); show("open")
"""


def wait_for(path):
    end = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)


class ProtectedNames(Fence):
    def test_no_link_or_file_stands_in_for_the_way_to_a_protected_name(self):
        self.write("repo/.git/HEAD")
        self.write("evil/hooks/pre-commit")
        self.write("evil/x/hooks/pre-commit")
        self.write("evil/commands/x")
        result = self.attack(
            "cd repo; for n in .git .claude .config .GIT .git/modules .git/worktrees .git/info .git/modules/a; do"
            " for d in . sub; do mkdir -p $d 2>/dev/null; [ $d/$n = ./.git ] && continue;"
            "  ln -s ../evil $d/$n && echo LINK $d/$n; ln -s ../evil $d/l && mv -T $d/l $d/$n && echo MOVED $d/$n;"
            "  rm -f $d/l; done; done;"
            "echo 'gitdir: ../evil' > sub/.git && echo FILE; echo x > sub/f; mv sub/f sub/.git && echo MOVED FILE;"
            "ln sub/f sub/.git && echo LINKED FILE; perl -e 'exit(0 == system(\"mknod\", \"sub/.git\", \"p\"))' || echo MKNOD;"
            "mkdir g; ln -s ../evil g/modules; mv -T g sub/.git && echo MOVED AROUND A LINK;"
            "mv -T ../evil .git/modules && echo MOVED BELOW; rm -rf sub g; true", env=self.environment())
        self.assertEqual(result.stdout, "", result.stderr)

    def test_git_links_can_be_made_where_git_configuration_may_be_changed(self):
        self.filesystem["allowGitConfig"] = True
        self.assertRan(self.sh("mkdir sub; echo 'gitdir: ../x' > sub/.git; ln -s x link; ln -s y .dotfile; ls -A"))

    def test_file_systems_make_no_names_unseen(self):
        result = self.run_in("python3", "-c", """
import fcntl, os
fd = os.open(".", os.O_RDONLY)
for request in (0x5000940e, 0x50009418, 0x50009401, 0x50009417, 0x40186f04, 0x4020bc10):
    try: fcntl.ioctl(fd, request, 0)
    except OSError as e: print(e.errno, end=" ")
""")
        self.assertEqual(result.stdout.split(), ["1"] * 6, result.stderr)

    def test_file_systems_change_no_files_unseen(self):
        """Seals and versions, by numbers of ext4, f2fs, btrfs and FAT, on a descriptor that is open for reading."""
        result = self.run_in("/usr/bin/python3", "-c", """
import fcntl, os
fd = os.open(".", os.O_RDONLY)
for request in (0x40806685, 0x800c6613, 0x40087602, 0x40086604, 0x40047211, 0x4008941a):
    try: fcntl.ioctl(fd, request, bytes(128))
    except OSError as e: print(e.errno, end=" ")
""")
        self.assertEqual(result.stdout.split(), ["1"] * 6, result.stderr)


class Streams(Fence):
    def setUp(self):
        super().setUp()
        self.given = os.path.join(self.top, "given")
        with open(self.given, "w") as f:
            f.write("one\ntwo\nthree\n")
        os.chmod(self.given, 0o644)

    def test_input_file_stays_as_it_is(self):
        with open(self.given) as stdin:
            self.settings()
            self.own()
            result = subprocess.run(
                [self.launch, "-s", self.settings(), "--egress", "none", "--", "/bin/sh", "-c",
                 "echo x >>/proc/self/fd/0; echo x >/dev/stdin; echo x >&0; truncate -s0 /proc/self/fd/0;"
                 " chmod 777 /proc/self/fd/0; ln -L /proc/self/fd/0 linked; perl -e 'truncate(STDIN,0)'; cat"],
                cwd=self.work, env=self.environment(), stdin=stdin, capture_output=True, text=True, **self.popen_args())
        self.assertEqual(result.stdout, "one\ntwo\nthree\n", result.stderr)
        with open(self.given) as f:
            self.assertEqual(f.read(), "one\ntwo\nthree\n")
        self.assertEqual(os.stat(self.given).st_mode & 0o777, 0o644)
        self.assertEqual(os.stat(self.given).st_nlink, 1)

    def test_reading_goes_on_where_the_command_stopped(self):
        with open(self.given) as stdin:
            self.settings()
            self.own()
            os.lseek(stdin.fileno(), 4, os.SEEK_SET)
            result = subprocess.run([self.launch, "--egress", "none", "--", "/bin/sh", "-c", "read x; echo $x"],
                                    cwd=self.work, env=self.environment(), stdin=stdin, capture_output=True, text=True,
                                    **self.popen_args())
            self.assertEqual(result.stdout, "two\n", result.stderr)
            self.assertEqual(os.read(stdin.fileno(), 100), b"three\n")

    def test_input_that_is_hidden_or_has_no_name_can_be_read(self):
        self.filesystem["denyRead"] = [self.given]
        with open(self.given) as stdin:
            settings = self.settings()
            self.own()
            run = [self.launch, "-s", settings, "--egress", "none", "--", "/bin/cat"]
            args = {"cwd": self.work, "env": self.environment(), "capture_output": True, "text": True,
                    **self.popen_args()}
            self.assertEqual(subprocess.run(run, stdin=stdin, **args).stdout, "one\ntwo\nthree\n")
            os.unlink(self.given)
            stdin.seek(0)
            self.filesystem["denyRead"] = []
            self.settings()
            self.assertEqual(subprocess.run(run, stdin=stdin, **args).stdout, "one\ntwo\nthree\n")

    def test_directory_as_a_stream_is_refused(self):
        for flags in (os.O_RDONLY, os.O_PATH):
            fd = os.open(self.home, flags)
            self.addCleanup(os.close, fd)
            self.own()
            result = subprocess.run([self.launch, "--egress", "none", "--", "/bin/sh", "-c", "ls /proc/self/fd/0/.."],
                                    cwd=self.work, env=self.environment(), stdin=fd, capture_output=True, text=True,
                                    **self.popen_args())
            self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
            self.assertIn("directory", result.stderr)

    def run_on(self, stream, script, as_what="stdin"):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, as_what: stream}
        self.own()
        return subprocess.run([self.launch, "-s", self.settings(), "--egress", "none", "--", "/usr/bin/python3", "-c", script],
                              cwd=self.work, env=self.environment(), timeout=60, text=True, **streams,
                              **self.popen_args())

    def test_stream_that_can_be_connected_elsewhere_is_refused(self):
        """A socket is of the network that it was made in, wherever it is used."""
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        path = os.path.join(self.top, "service")
        service = socket.socket(socket.AF_UNIX)
        service.bind(path)
        service.listen()
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        kinds = {"connected": client, "listening": server, "datagrams": socket.socket(type=socket.SOCK_DGRAM),
                 "IPv6": socket.socket(socket.AF_INET6), "netlink": socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
                 "Unix": socket.socket(socket.AF_UNIX), "Unix, listening": service, "Unix, datagrams": pair[0],
                 "Unix, packets": socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)}
        for end in (*kinds.values(), pair[1]):
            self.addCleanup(end.close)
        for kind, stream in kinds.items():
            for as_what in ("stdin", "stdout", "stderr"):
                with self.subTest(kind, as_what=as_what):
                    ran = os.path.join(self.work, "ran")
                    result = self.run_on(stream, "open('ran', 'w')", as_what)
                    self.assertFalse(os.path.exists(ran))
                    if as_what == "stdin":
                        self.assertEqual(result.returncode, 125, result.stderr)
                        self.assertIn("standard input is a socket", result.stderr)

    def test_stream_that_is_a_handle_of_the_kernels_is_refused(self):
        event, poll = os.eventfd(0), select.epoll()
        self.addCleanup(os.close, event)
        self.addCleanup(poll.close)
        for handle in (event, poll):
            result = self.run_on(handle, "print('ran')")
            self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
            self.assertIn("standard input is no file", result.stderr)

    def test_connected_pair_as_a_stream_stays_with_its_peer(self):
        """What makes other programs' streams (node, sshd, cargo): nobody can lead it elsewhere."""
        path = os.path.join(self.top, "service")
        service = socket.socket(socket.AF_UNIX)
        self.addCleanup(service.close)
        service.bind(path)
        service.listen()
        service.setblocking(False)
        os.chmod(path, 0o777)
        script = f"""
import ctypes, os, socket, struct
c = ctypes.CDLL(None, use_errno=True)
data = os.read(0, 100)
for name in (struct.pack("H", socket.AF_UNIX) + {path!r}.encode() + bytes(1), bytes(16),
             struct.pack("H", socket.AF_INET) + bytes(14)):
    print(c.connect(0, name, len(name)), c.listen(0, 1), c.accept(0, None, None), end=" ")
    c.sendto(0, b"", 0, 0x4040, name, len(name))
print(data)
"""
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            for gone in (False, True):
                ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
                with ours, theirs:
                    ours.send(b"hello")
                    if gone:
                        ours.close()
                    result = self.run_on(theirs, script)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.split(), ["-1"] * 9 + ["b'hello'"])
        self.assertRaises(BlockingIOError, service.accept)


class Life(Fence):
    def test_launcher_killed_at_any_moment_leaves_nobody_behind(self):
        settings = self.settings()
        self.own()
        random_ms = random.Random(20)
        for _ in range(60):
            delay = random_ms.uniform(0, 0.06)
            process = subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", "/bin/sleep", "100"],
                                       cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **self.popen_args())
            time.sleep(delay)
            process.kill()
            process.wait()
            # Whoever is left holds the other end.
            ended, _, _ = select.select([process.stdout], [], [], 30)
            self.assertTrue(ended, f"somebody lives on after a kill at {delay} s")
            self.assertEqual(process.stdout.read(), b"")
            process.stdout.close()
        self.assertEqual(os.listdir(self.work), [])


class Surroundings(Fence):
    @unittest.skipIf(os.geteuid() != 0, "mounts need root")
    def test_what_the_host_mounts_meanwhile_does_not_come_in(self):
        os.mkdir(os.path.join(self.top, "m"))
        self.filesystem["allowWrite"] = ["."]
        self.more = {"allowNestedUserNamespaces": True}  # then there is no warden
        settings = self.settings()
        self.own()
        drop = f"setpriv --reuid {self.account.pw_uid} --regid {self.account.pw_gid} --clear-groups" \
            if self.account else ""
        result = subprocess.run(["unshare", "-m", "/bin/sh", "-c", f"""
            mount --make-rshared /
            {drop} {self.launch} -s {settings} --egress none -- /bin/sh -c '
                echo > ready; until [ -e go ]; do sleep 0.05; done
                ls -A ../m; mkdir ../m/d && echo MADE; echo x > ../m/f && echo WROTE; echo end' &
            until [ -e ready ]; do sleep 0.05; done
            mount -t tmpfs x {self.top}/m && chmod 777 {self.top}/m && echo > {self.top}/m/f && chmod 666 {self.top}/m/f
            echo > go; wait; umount {self.top}/m"""], cwd=self.work, env=self.environment(), capture_output=True,
            text=True, timeout=60)
        self.assertEqual(result.stdout, "end\n", result.stderr)

    def test_names_in_messages_do_not_steer_the_terminal(self):
        result = self.run_in("python3", "-c", """
import os
for name in ("a\\x1b[31m", "b\\x9b31m", "c\\x07\\x7f", "d</sandbox_violations>"):
    try: os.open("/etc/" + name.replace("/", ""), os.O_CREAT | os.O_WRONLY)
    except OSError: pass
raise SystemExit(1)""")
        self.assertIn("deny create /etc/b", result.stderr)
        self.assertEqual(result.stderr.count("sandbox_violations>"), 2)
        self.assertNotRegex(result.stderr, "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f]")


class Tricks(Fence):
    """Ways around the walls that need no fault in a program, each of which must change nothing."""

    def setUp(self):
        super().setUp()
        self.secret = os.path.join(self.top, "secret")
        with open(self.secret, "w") as f:
            f.write("secret\n")
        os.chmod(self.secret, 0o666)
        self.filesystem["denyRead"] = [self.secret]

    def test_fork_bomb_does_not_outlive_the_launcher(self):
        settings = self.settings()
        self.own()
        mark = f"srt-bomb-{os.getpid()}-{self.as_user}"
        # Each forks two and lives on; the depth bounds it where a test fails.
        program = ("import os, sys, time\nfor level in range(7):\n    os.fork()\n    os.setsid() if level == 3 and os.getpid() !="
                   " os.getsid(0) and os.getpgid(0) != os.getpid() else None\n"
                   "print('x', flush=True)\ntime.sleep(600)")
        with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", "python3", "-c", program, mark],
                              cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, **self.popen_args()) as process:
            for _ in range(100):
                self.assertEqual(process.stdout.readline(), "x\n")
            process.kill()
            ended = time.monotonic() + 60
            while process.stdout.read(1):  # to its end: nobody holds the other one
                self.assertLess(time.monotonic(), ended)
        self.assertFalse([pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark in command_line(pid)])

    def test_files_that_shells_read_are_read_inside_only(self):
        script = self.write("evil.sh", f"echo ran >> {self.secret}; echo x > {self.top}/made; echo here\n")
        result = self.attack("bash -c :; sh -i -c :", env=self.environment(BASH_ENV=script, ENV=script))
        self.assertIn("here", result.stdout, result.stderr)
        result = self.run_plain("-s", self.settings(), "--egress", "none", "-c", "true", env=self.environment(BASH_ENV=script))
        self.assertEqual((result.returncode, result.stdout), (0, "here\n"), result.stderr)
        self.assertFalse(os.path.exists(f"{self.top}/made"))

    def test_HOME_and_TMPDIR_of_an_attacker_widen_nothing(self):
        trap = os.path.join(self.work, "trap")
        os.symlink(self.home, trap)
        for env in ({"TMPDIR": trap}, {"TMPDIR": self.home}, {"TMPDIR": "."}, {"TMPDIR": f"{self.work}/../home"},
                    {"HOME": trap, "TMPDIR": ""}, {"HOME": "/", "TMPDIR": "/"}, {"HOME": "relative"}, {"HOME": ""}):
            result = self.attack("test -w $TMPDIR && echo x > $TMPDIR/x && rm $TMPDIR/x; touch $HOME/x; touch "
                                 f"{self.home}/x; true", env=self.environment(**env))
            self.assertEqual(result.returncode, 0, env)

    def test_settings_in_a_home_of_the_sandbox_are_protected(self):
        self.filesystem["allowWrite"] = [self.home]
        self.attack("echo '{}' > $HOME/.srt-settings.json; mkdir $HOME/.srt-settings.json; true")

    def test_core_dumps_go_nowhere_new(self):
        with open("/proc/sys/kernel/core_pattern") as f:
            pattern = f.read()
        result = self.attack("echo '|/tmp/evil' > /proc/sys/kernel/core_pattern; ulimit -c unlimited; cd /etc;"
                             "sh -c 'kill -SEGV $$'; echo $?", env=self.environment())
        self.assertIn("139", result.stdout)
        self.assertFalse(os.path.exists("/etc/core"))
        with open("/proc/sys/kernel/core_pattern") as f:
            self.assertEqual(f.read(), pattern)

    @unittest.skipIf(os.geteuid() != 0, "only root makes a program that changes its user")
    def test_nothing_is_done_to_a_terminal_that_would_outlast_the_command(self):
        """To type into it, to keep it, to change what it is; a console's screen, keyboard and switching."""
        result = self.run_in("python3", "-c", """
import fcntl, os, termios
there = os.openpty()[1]
for request in (termios.TIOCSTI, 0x541c, termios.TIOCEXCL, termios.TIOCSETD, 0x4b3a, 0x4b45, 0x4b51, 0x5602):
    try: print(fcntl.ioctl(there, request, bytes(64)))
    except OSError as e: print(e.errno, end=" ")
""")
        self.assertEqual(result.stdout.split(), ["1"] * 8, result.stderr)

    def test_programs_that_change_their_user_do_not(self):
        program = os.path.join(self.programs, "whoami")
        shutil.copy("/usr/bin/id", program)
        os.chown(program, 0, 0)
        os.chmod(program, 0o6755)
        self.addCleanup(os.unlink, program)
        uid = self.account.pw_uid if self.account else 0
        result = self.run_in("/bin/sh", "-c", f"{program} -u; {program} -ru; grep -c '^CapEff:.0*$' /proc/self/status;"
                                              "grep NoNewPrivs /proc/self/status")
        self.assertEqual(result.stdout.split(), [str(uid), str(uid), "1", "NoNewPrivs:", "1"], result.stderr)
        result = self.attack("cp /bin/sh own; chmod 6755 own; chown root own 2>/dev/null; ./own -p -c 'cat ../secret;"
                             " echo x > ../x'; rm -f own; true")
        self.assertEqual(result.stdout, "")

    def test_programs_in_memory_are_in_the_same_fence(self):
        program = ("import os, sys\nfd = os.memfd_create('x', 0)\nwith open('/bin/sh', 'rb') as f: os.write(fd, f.read())\n"
                   "os.execve(fd, ['sh', '-c', sys.argv[1]], os.environ)")
        self.settings()
        self.own()
        result = self.run_in("python3", "-c", program, "echo ran; cat ../secret; echo x > .bashrc; echo x > ../x; mkdir .vscode")
        self.assertEqual(result.stdout, "ran\n", result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def test_what_is_hidden_has_no_other_way_in(self):
        result = self.attack(
            f"s={self.secret}; for p in /proc/self/root /proc/self/cwd/.. /proc/thread-self/root /proc/1/root /proc/1/cwd"
            " /dev/fd/../../.. /proc/self/task/$$/root; do cat $p/secret $p$s 2>/dev/null; done;"
            "exec 7</ 8<..; cat /proc/self/fd/7$s /proc/self/fd/8/secret /dev/fd/8/secret; ln $s l; ln -L $s l; cp $s c;"
            "perl -e 'use POSIX; print while <F> if open(F, \"<\", $ARGV[0])' $s; dd if=$s; tar cf - $s 2>/dev/null | tail -c +513"
            " | head -c 6; find / -xdev -maxdepth 3 -samefile $s -name nothing; true")
        self.assertNotIn("secret\n", result.stdout)

    def test_processes_of_the_launcher_are_not_to_be_seen(self):
        settings = self.settings()
        self.own()
        look = ("for p in /proc/[0-9]*; do cat $p/comm; done; kill -0 $1 && echo KILL; cat /proc/$1/environ && echo READ;"
                "ls /proc/$1/root && echo ROOT; python3 -c 'import ctypes, sys; c = ctypes.CDLL(None);"
                " print(c.ptrace(16, int(sys.argv[1]), 0, 0), c.ptrace(0x4206, int(sys.argv[1]), 0, 0))' $1; echo end")
        with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", "/bin/sh", "-c",
                               f"read pid; set -- $pid; {look}"], cwd=self.work, env=self.environment(SECRET="x"), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              **self.popen_args()) as process:
            out, _ = process.communicate(f"{process.pid}\n", timeout=60)
        names = out.split()
        self.assertEqual(names[-3:], ["-1", "-1", "end"], out)
        self.assertNotIn("srt-warden", names)
        for word in ("KILL", "READ", "ROOT"):
            self.assertNotIn(word, names)

    def test_a_fence_of_their_own_holds_for_programs_or_is_not_to_be_had(self):
        """Landlock binds who asks for it, not those that act for it."""
        script = """
import ctypes, errno, os, struct
c = ctypes.CDLL(None, use_errno=True)
version = c.syscall(444, None, 0, 1)
rules = c.syscall(444, struct.pack("Q", 0x1ffe), 8, 0)  # everything but to run programs
c.prctl(38, 1, 0, 0, 0)
print(version > 0, rules >= 0, c.syscall(446, rules, 0), errno.errorcode.get(ctypes.get_errno()))
for what in (lambda: open("made", "w"), lambda: os.mkdir("dir"), lambda: os.symlink("a", "b"), lambda: open("there", "a"),
             lambda: os.unlink("there"), lambda: os.rename("there", "elsewhere")):
    try: what(); print("WORKED")
    except OSError: print("refused")
"""
        self.write("there")
        version = int(subprocess.run(["/usr/bin/python3", "-c", "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))"],
                                     capture_output=True, text=True).stdout)
        result = self.run_in("/usr/bin/python3", "-c", script)
        self.assertEqual(result.stdout.splitlines()[0], "False False -1 ENOSYS", result.stderr)
        if version > 0:
            self.more = {"allowNestedUserNamespaces": True}
            self.write("there")
            result = self.run_in("/usr/bin/python3", "-c", script)
            self.assertEqual(result.stdout.splitlines(), ["True True 0 None"] + ["refused"] * 6, result.stderr)

    def test_names_with_a_meaning_for_the_kernel_are_names(self):
        self.attack("for n in .bashrc .git/config; do python3 - $n <<'E'\n"
                    "import ctypes, os, sys\nc = ctypes.CDLL(None, use_errno=True); b = sys.argv[1].encode()\n"
                    "here = os.open('.', os.O_RDONLY); made = os.open('t', os.O_CREAT | os.O_RDWR)\n"
                    "for call in (lambda: c.bind(0, b, 3), lambda: c.swapon(b, 0), lambda: c.acct(b), lambda: c.mount(b, b, b, 0, 0),\n"
                    "             lambda: c.syscall(304, here, b, 0), lambda: c.syscall(265, made, b'', here, b, 0x1000),\n"
                    "             lambda: c.syscall(426, 1, 0, 0), lambda: c.uselib(b) if hasattr(c, 'uselib') else 0):\n"
                    "    call()\nos.unlink('t')\nE\ndone; true")


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


both(globals(), Life, Surroundings, GatewayInReach, ProgramAndModulesInReach, Warden, ProtectedNames, Streams, Tricks)
unheard(globals(), Warden)

if __name__ == "__main__":
    unittest.main()
