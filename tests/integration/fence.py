"""A directory, settings and a command under the real srt-launch, as root and as an ordinary user.

Test classes derive from Fence and are listed through `both()`, which makes one class for whoever runs
the tests and, when that is root, one more that starts everything as an ordinary user.
"""
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

LAUNCH = os.environ.get("SRT_LAUNCH_BIN", "")
GATEWAY = os.environ.get("SRT_GATEWAY_BIN", "")
USER = "srt-test"


def ordinary_user():
    """An account without rights, made when root runs the tests on a machine that lacks it."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        made = subprocess.run(["useradd", "--system", "--create-home", USER], capture_output=True)
        return pwd.getpwnam(USER) if made.returncode == 0 else None


def content_of(path, st):
    """The bytes of a file, where a link leads, None of all else."""
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            return f.read()
    return os.readlink(path) if stat.S_ISLNK(st.st_mode) else None


def snapshot(root):
    """Everything a host could notice below a directory."""
    seen = {}
    for folder, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = content_of(path, st)
            seen[os.path.relpath(path, root)] = (st.st_ino, st.st_mode, st.st_uid, st.st_nlink,
                                                 st.st_mtime_ns if content is not None else 0, content)
    return seen


class Fence(unittest.TestCase):
    as_user = False
    unheard = False
    programs = None

    @classmethod
    def setUpClass(cls):
        if not LAUNCH:
            raise unittest.SkipTest("SRT_LAUNCH_BIN is not set")
        cls.account = ordinary_user() if cls.as_user else None
        if cls.as_user and cls.account is None:
            raise unittest.SkipTest("an ordinary user can only be tried as root, with useradd")
        # The build may lie where an ordinary user cannot look.
        cls.programs = tempfile.mkdtemp(prefix="srt-bin-")
        os.chmod(cls.programs, 0o755)
        cls.launch = shutil.copy(LAUNCH, cls.programs)
        if GATEWAY and os.path.exists(GATEWAY):
            cls.gateway = shutil.copy(GATEWAY, cls.programs)

    @classmethod
    def tearDownClass(cls):
        if cls.programs:
            shutil.rmtree(cls.programs)

    def setUp(self):
        # Resolved, as messages name resolved paths; short, as sockets are made in it.
        self.top = os.path.realpath(tempfile.mkdtemp(prefix="srt-"))
        self.addCleanup(shutil.rmtree, self.top, True)
        self.home = os.path.join(self.top, "home")
        self.work = os.path.join(self.top, "work")
        os.mkdir(self.home)
        os.mkdir(self.work)
        self.filesystem = {"denyRead": [], "allowWrite": ["."], "denyWrite": []}
        self.network = {"allowedDomains": [], "deniedDomains": []}
        self.more = {"ignoreViolations": {"*": ["deny "]}} if self.unheard else {}
        self.own(self.top)

    def own(self, *paths):
        """Gives what a test has made to the user who will run srt-launch."""
        if self.account:
            for path in paths or (self.top,):
                subprocess.run(["chown", "-R", "-h", f"{self.account.pw_uid}:{self.account.pw_gid}", path],
                               check=True)

    def write(self, name, content="x\n"):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(content)
        return path

    def settings(self):
        path = os.path.join(self.top, "settings.json")
        with open(path, "w") as f:
            json.dump({"network": self.network, "filesystem": self.filesystem, **self.more}, f)
        return path

    def environment(self, **changes):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home, "LANG": "C.UTF-8"}
        for key in list(os.environ):
            if "SAN_OPTIONS" in key:
                env[key] = os.environ[key]
        env.update(changes)
        return {k: v for k, v in env.items() if v is not None}

    def popen_args(self):
        if not self.account:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def run_plain(self, *words, env=None, cwd=None, timeout=60, stdin="", **args):
        """srt-launch with exactly these words."""
        self.own()
        return subprocess.run([self.launch, *words], cwd=cwd or self.work, env=env or self.environment(),
                              input=stdin, capture_output=True, text=True, timeout=timeout,
                              **self.popen_args(), **args)

    def run_in(self, *command, options=(), **args):
        return self.run_plain("-s", self.settings(), "--egress", "none", *options, "--", *command, **args)

    def sh(self, script, **args):
        """`rn` is rename(2) and nothing else; mv copies where it cannot rename."""
        rn = """rn() { perl -e 'rename($ARGV[0], $ARGV[1]) or die "rename: $!\\n"' "$1" "$2"; }\n"""
        return self.run_in("/bin/sh", "-c", (rn if "rn " in script else "") + script, **args)

    def attack(self, script, **args):
        """Runs a script that must change nothing at all below the test's directory."""
        self.settings()
        self.own()
        before = snapshot(self.top)
        result = self.sh(script, **args)
        after = snapshot(self.top)
        self.maxDiff = None
        before.pop("settings.json", None)
        after.pop("settings.json", None)
        self.assertEqual(before, after, result.stderr)
        return result

    def assertRan(self, result, status=0):
        self.assertEqual(result.returncode, status, result.stderr)
        return result


def add_twins(namespace, classes, suffix, **changes):
    for cls in classes:
        twin = type(cls.__name__ + suffix, (cls,), changes)
        twin.__module__ = cls.__module__
        namespace[twin.__name__] = twin


def both(namespace, *classes):
    """Adds AsUser twins of the classes to the module."""
    add_twins(namespace, classes, "AsUser", as_user=True)


def unheard(namespace, *classes):
    """Adds twins whose settings ignore every violation: then the fence only enforces, and must do that all the same."""
    add_twins(namespace, classes, "Unheard", unheard=True)
