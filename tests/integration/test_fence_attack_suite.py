"""Every attack of tools/attacks.c is refused inside the fence, changes nothing on the host, and works where there is no fence."""
import ctypes
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import unittest

from fence import Fence, both, content_of, unheard

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools")
SEGMENT, QUEUE = 0x5A7A77AC, "/srt-attacks"


def fingerprint(root, free):
    """Names, inodes, modes, owners, links, times, sizes and bytes below `root`, but for what is in the directory `free`."""
    seen = {}
    for folder, dirs, files in os.walk(root):
        if folder == free:
            dirs.clear()
            continue
        for name in [".", *dirs, *files]:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = content_of(path, st)
            times = (st.st_mtime_ns, st.st_ctime_ns) if os.path.normpath(path) != free else ()
            links = st.st_nlink if os.path.normpath(path) != free else 0
            attributes = {} if stat.S_ISLNK(st.st_mode) else {x: os.getxattr(path, x) for x in os.listxattr(path)}
            seen[path] = (st.st_ino, st.st_mode, st.st_uid, st.st_gid, links, times, content, attributes)
    return seen


def machine():
    """What an attack may have left outside any tree."""
    seen = {}
    for name in ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"):
        with open(name) as f:
            seen[name] = [line.split()[:2] for line in f]
    for name in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/core_pattern"):
        with open(name) as f:
            seen[name] = f.read()
    return seen


class Attacks(Fence):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.binary = os.path.join(cls.programs, "attacks")
        built = subprocess.run(["cc", "-O1", "-w", "-D_GNU_SOURCE", "-pthread", "-o", cls.binary, os.path.join(TOOLS, "attacks.c")],
                               capture_output=True, text=True)
        if built.returncode != 0:
            cls.tearDownClass()
            raise unittest.SkipTest(f"attacks.c cannot be built here: {built.stderr[:300]}")
        listed = subprocess.run([cls.binary, "list"], capture_output=True, text=True, check=True).stdout
        cls.attacks = [line.split("\t") for line in listed.splitlines()]

    def setUp(self):
        super().setUp()
        self.lay(self.top)
        self.filesystem = {"denyRead": ["key", "../hidden"], "allowWrite": ["."], "denyWrite": ["locked"]}
        self.serve_on_the_host()

    def lay(self, top):
        """The place that attacks.c describes."""
        work = os.path.join(top, "work")
        for name in ("work/.git/hooks", "work/.git/objects", "work/.git/refs", "work/locked", "work/scratch", "hidden", "outside"):
            os.makedirs(os.path.join(top, name), exist_ok=True)
        for name, text in {"work/.git/HEAD": "ref: refs/heads/main\n", "work/.git/config": "[core]\n\tbare = false\n",
                           "work/.bashrc": "# mine\n", "work/key": "a secret\n", "work/locked/file": "locked\n",
                           "hidden/secret": "a secret\n", "outside/victim": "a victim\n", "outside/foreign": "a secret\n"}.items():
            with open(os.path.join(top, name), "w") as f:
                f.write(text)
        for folder in ("work/locked", "outside"):
            if not os.path.exists(os.path.join(top, folder, "fifo")):
                os.mkfifo(os.path.join(top, folder, "fifo"))
        self.own(top)
        if os.geteuid() == 0:
            os.chown(os.path.join(top, "outside/foreign"), 1, 1)
        os.chmod(os.path.join(top, "outside/foreign"), 0o600)
        return work

    def serve_on_the_host(self):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        outside = os.path.join(self.top, "outside")
        listeners = []
        for family, kind, address in ((socket.AF_UNIX, socket.SOCK_STREAM, f"{outside}/sock"),
                                      (socket.AF_UNIX, socket.SOCK_DGRAM, f"{outside}/datagrams"),
                                      (socket.AF_UNIX, socket.SOCK_STREAM, f"\0srt-attacks-{os.getpid()}"),
                                      (socket.AF_INET, socket.SOCK_STREAM, ("", 0))):
            sock = socket.socket(family, kind)
            self.addCleanup(sock.close)
            sock.bind(address)
            if kind == socket.SOCK_STREAM:
                sock.listen(64)
            listeners.append(sock)
        for name in ("sock", "datagrams"):
            os.chmod(f"{outside}/{name}", 0o777)
        shm = tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="srt-attacks-")
        self.addCleanup(shm.close)
        shm.write(b"a secret\n")
        shm.flush()
        os.chmod(shm.name, 0o644)
        segment = libc.shmget(SEGMENT, 4096, 0o1000 | 0o666)
        self.addCleanup(libc.shmctl, segment, 0, None)
        ctypes.memmove(libc.shmat(segment, None, 0), b"secret", 6)
        queue = libc.mq_open(QUEUE.encode(), os.O_CREAT | os.O_RDWR, 0o644, None)
        if queue >= 0:
            self.addCleanup(libc.mq_unlink, QUEUE.encode())
        self.served = {"ABSTRACT": f"srt-attacks-{os.getpid()}", "PORT": str(listeners[3].getsockname()[1]),
                       "SHM": os.path.basename(shm.name), "SEGMENT": str(SEGMENT), "QUEUE": QUEUE}

    def test_each_is_refused_and_leaves_no_trace(self):
        settings = self.settings()
        os.chmod(settings, 0o644)
        scratch = os.path.join(self.work, "scratch")
        with open(os.path.join(self.programs, "told"), "w+") as told, \
             subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "--", self.binary, "serve"], cwd=self.work, text=True,
                              env=self.environment(TARGET="1", **self.served), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=told, **self.popen_args()) as process:
            self.addCleanup(process.kill)
            before, elsewhere = fingerprint(self.top, scratch), machine()
            for name, _, what in self.attacks:
                with self.subTest(attack=name, what=what):
                    process.stdin.write(f"{name}\n")
                    process.stdin.flush()
                    answer = process.stdout.readline().strip()
                    after, before_it = fingerprint(self.top, scratch), before
                    before = after
                    self.assertRegex(answer, "^(E[A-Z0-9]+|nothing)$" if "int80" not in name else "^(E[A-Z]+|nothing|killed by .*)$")
                    self.assertEqual({path: seen for path, seen in after.items() if before_it.get(path) != seen}, {})
                    self.assertEqual(before_it.keys() - after.keys(), set())
                for path in before.keys() - before_it.keys():  # or the next ones would fail, too
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                shutil.rmtree(scratch)
                os.mkdir(scratch)
                self.own(scratch)
                before = fingerprint(self.top, scratch)
            process.stdin.close()
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertEqual(machine(), elsewhere)

    @unittest.skipIf(os.geteuid() != 0, "a place where an attack may have its way is made by root")
    def test_each_works_where_there_is_no_fence(self):
        drop = ["setpriv", "--reuid", str(self.account.pw_uid), "--regid", str(self.account.pw_gid), "--clear-groups"] \
            if self.account else []
        unproved = []
        for name, who, what in self.attacks:
            if who == "root" and self.account:
                continue
            with self.subTest(attack=name, what=what), tempfile.TemporaryDirectory(prefix="srt-") as top:
                os.chmod(top, 0o755)
                work = self.lay(top)
                for sock in ("sock", "datagrams"):
                    os.link(os.path.join(self.top, "outside", sock), os.path.join(top, "outside", sock))
                self.own(top)
                os.chown(os.path.join(top, "outside/foreign"), 1, 1)
                done = subprocess.run(["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", *drop, self.binary, "run", name],
                                      cwd=work, env=self.environment(**self.served), stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=60, start_new_session=True)
                if who == "kernel" and done.stdout.strip() != "reached":
                    unproved.append(f"{name}: {done.stdout.strip()}")
                else:
                    self.assertEqual(done.stdout.strip(), "reached", done.stderr)
        if unproved:
            print("not proved on this kernel:", "; ".join(unproved))


both(globals(), Attacks)
unheard(globals(), Attacks)

if __name__ == "__main__":
    unittest.main()
