"""srt-launch where it cannot work, and in the hands of people: what it says, and that it then runs nothing. Cases N20, U13, U16, U20."""
import json
import os
import platform
import resource
import shutil
import subprocess
import unittest

from fence import both
from lab.seccomp import under_filter
from test_launch import ATTACHED, FakeGateway, Launch

# Runs a program under a system call filter, as kernels and containers have them: no user namespaces (as AppArmor or
# a container's filter), no netlink (where loopback is brought up, as AppArmor on Ubuntu refuses it), no clone3(), no Landlock;
# and no memory to be shared, or for a file that is mapped to be read, as under a limit that is met just there.
REFUSE = under_filter(r"""
enomem = error(12)
clone, unshare, sock, mmap = {"x86_64": (56, 272, 41, 9), "aarch64": (220, 97, 198, 222)}[os.uname().machine]
if sys.argv[1] == "namespaces":
    code = [op(load, 0, 0, 0), op(equal, 3, 0, clone), op(equal, 2, 0, unshare), op(equal, 4, 0, 435), allow,
            op(load, 0, 0, 16), op(bits, 0, 2, 0x10000000), eperm, enosys, allow]
elif sys.argv[1] == "clone3":
    code = [op(load, 0, 0, 0), op(equal, 0, 1, 435), enosys, allow]
elif sys.argv[1] == "shared memory":
    code = [op(load, 0, 0, 0), op(equal, 0, 2, mmap), op(load, 0, 0, 40), op(equal, 1, 0, 0x21), allow, enomem]
elif sys.argv[1] == "mapped file":
    code = [op(load, 0, 0, 0), op(equal, 0, 4, mmap), op(load, 0, 0, 40), op(equal, 0, 2, 2), op(load, 0, 0, 32), op(equal, 1, 0, 1), allow, enomem]
elif sys.argv[1] == "landlock":
    code = [op(load, 0, 0, 0), op(equal, 0, 1, 444), eperm, allow]
else:
    code = [op(load, 0, 0, 0), op(equal, 0, 2, sock), op(load, 0, 0, 16), op(equal, 1, 0, 16), allow, eperm]
""")


class Machines(Launch):
    def run_where(self, *before, words=("/usr/bin/touch", "ran")):
        """srt-launch run by another program."""
        settings = self.settings()
        self.own()
        return subprocess.run([*before, self.launch, "-s", settings, "--egress", "none", *words], cwd=self.work, text=True,
                              env=self.environment(), capture_output=True, timeout=60, **self.popen_args())

    def assert_refused(self, result, *texts):
        self.assertEqual(result.returncode, 125, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "the numbers of its system calls are not known here")
    def test_N20_where_user_namespaces_are_refused(self):
        for what in ("namespaces", "netlink"):
            with self.subTest(what=what):
                result = self.run_where("/usr/bin/env", "python3", "-c", REFUSE, what)
                self.assert_refused(result, "srt-launch: bubblewrap could not build the sandbox: bwrap: ", "user.max_user_namespaces",
                                    "kernel.apparmor_restrict_unprivileged_userns", "a system call filter is in force",
                                    "--security-opt seccomp=")

    @unittest.skipIf(os.geteuid() != 0, "a chroot needs root")
    def test_N20_in_a_chroot(self):
        root = os.path.join(self.top, "root")
        os.mkdir(root)
        settings = self.settings()
        self.own()
        uid, gid = (self.account.pw_uid, self.account.pw_gid) if self.account else (0, 0)
        script = f'mount --rbind / {root} && exec chroot --userspec {uid}:{gid} {root} /bin/sh -c \'cd {self.work} && exec "$@"\' - "$@"'
        result = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script, "-", self.launch, "-s", settings, "--egress", "none",
                                 "/usr/bin/touch", "ran"], text=True, env=self.environment(), capture_output=True, timeout=60)
        self.assert_refused(result, "in a chroot nobody may make one")

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "the numbers of its system calls are not known here")
    def test_bubblewrap_is_asked_where_namespaces_are_not_for_us_to_make(self):
        result = self.run_where("/usr/bin/env", "python3", "-c", REFUSE, "clone3",
                                words=("--verbose", "/bin/sh", "-c", "touch ran; tr '\\0' ' ' </proc/1/cmdline"))
        self.assertRan(result)
        self.assertIn("srt-launch: bubblewrap is asked to build the sandbox, since no namespaces can be made: ", result.stderr)
        self.assertIn("--last-stage", result.stdout)
        self.assertEqual(os.listdir(self.work), ["ran"])

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "the numbers of its system calls are not known here")
    def test_it_is_told_where_landlock_cannot_stand_behind_the_mounts(self):
        result = self.assertRan(self.run_where("/usr/bin/env", "python3", "-c", REFUSE, "landlock", words=("--verbose", "true")))
        text = "there is no Landlock behind the mounts: a system call filter refuses it, as in a container"
        self.assertIn(f"srt-launch: {text}", result.stderr)
        if hasattr(self, "gateway"):
            result = subprocess.run(["/usr/bin/env", "python3", "-c", REFUSE, "landlock", self.launch, "doctor"], text=True,
                                    env=self.environment(), capture_output=True, timeout=60, **self.popen_args())
            self.assertRan(result)
            self.assertIn(f"note: {text}", result.stdout)

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "the numbers of its system calls are not known here")
    def test_memory_that_cannot_be_mapped_is_said_with_its_limit(self):
        for what in ("shared memory", "mapped file"):
            with self.subTest(what=what):
                self.assert_refused(self.run_where("/usr/bin/env", "python3", "-c", REFUSE, what), "srt-launch: ", "(ulimit -d, ulimit -v)")

    def test_N20_where_no_user_namespace_is_left(self):
        """Made for real: the limit of a user namespace around it, as in a container without root."""
        switch = "/proc/sys/user/max_user_namespaces"
        around = ["unshare", "-r", "/bin/sh", "-c"]
        if subprocess.run([*around, f"echo 0 > {switch}"], capture_output=True, **self.popen_args()).returncode != 0:
            self.skipTest("no user namespace to be had around it")
        result = self.run_where(*around, f"echo 0 > {switch}; exec \"$0\" \"$@\"")
        self.assert_refused(result, "no user namespace may be made here", "sysctl -w user.max_user_namespaces=")

    def test_read_only_mounts_of_the_host_take_nothing_from_the_writable_beside_them(self):
        if self.account or os.geteuid() != 0:
            self.skipTest("only root may mount")
        for name in ("rw/deep", "ro", "rw/ro"):
            os.makedirs(os.path.join(self.work, name))
        mounts = "; ".join(f"mount -t tmpfs {options} x {self.work}/{name} && mkdir -p {self.work}/rw/ro"
                           for name, options in (("rw", ""), ("ro", "-o ro"), ("rw/ro", "-o ro")))
        result = self.run_where("unshare", "-m", "/bin/sh", "-c", mounts + "; exec \"$0\" \"$@\"", words=(
            "/bin/sh", "-c", "for d in . rw ro rw/ro; do touch $d/f && echo $d; done; mkdir -p rw/.git/hooks; echo x > rw/.git/hooks/pre-commit"))
        self.assertEqual(result.stdout.split(), [".", "rw"], result.stderr)
        self.assertNotEqual(result.returncode, 0)  # a protected name stays one in there

    def test_it_works_in_a_user_namespace_of_a_container(self):
        result = self.run_where("unshare", "-r")
        if "uid map" in result.stderr:
            self.skipTest("this kernel lets root of a user namespace make no further one")
        self.assertRan(result)
        self.assertEqual(os.listdir(self.work), ["ran"])


    def test_ssh_works_where_the_machine_has_configuration_for_it(self):
        """Files that belong to nobody it knows would make it refuse to work."""
        if not self.account or not shutil.which("ssh") or not os.path.isdir("/etc/ssh/ssh_config.d"):
            self.skipTest("an ordinary user with ssh is needed")
        settings = self.settings()
        self.own()
        own = os.path.join(self.programs, "ssh_config.d")
        os.mkdir(own)
        with open(os.path.join(own, "20-host.conf"), "w") as f:
            f.write("Host *\n  Port 2222\n")
        self.addCleanup(shutil.rmtree, own)
        for path, status, answer in (("ssh -G a.test | grep '^port '", 0, "port 22\n"), ("ls /etc/ssh/ssh_config.d", 0, ""),
                                     ("ssh -G a.test | grep -c '^port 2222'", 1, "0\n")):
            result = subprocess.run(["unshare", "-m", "/bin/sh", "-c", f"mount --bind {own} /etc/ssh/ssh_config.d && exec setpriv --reuid"
                                     f" {self.account.pw_uid} --regid {self.account.pw_gid} --clear-groups \"$0\" \"$@\"", self.launch, "-s",
                                     settings, "--egress", "none", "--", "/bin/sh", "-c", path], cwd=self.work, env=self.environment(), text=True,
                                    capture_output=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout), (status, answer), result.stderr)
            self.assertNotIn("ssh_config.d", result.stderr)  # nothing that anybody should be asked for

    def test_group_of_a_shared_directory_is_kept_and_cannot_be_given(self):
        if not self.account:
            self.skipTest("groups are given by root")
        shared = os.path.join(self.work, "shared")
        os.mkdir(shared)
        settings = self.settings()
        self.own()
        os.chown(shared, 0, 12345)
        os.chmod(shared, 0o2770)
        result = subprocess.run([self.launch, "-s", settings, "--egress", "none", "--", "python3", "-c", """
import os
os.chdir("shared")
open("f", "w").close(); os.mkdir("d"); os.mkdir("d/e"); os.symlink("f", "l")
for call in (lambda: os.chown("f", -1, os.stat("f").st_gid), lambda: os.chown("f", 0, 0), lambda: os.lchown("l", 1, -1),
             lambda: os.chown(os.open("f", 0), -1, 12345), lambda: os.chown("nothing", 5, 5), lambda: os.chown("f", os.getuid(), -1)):
    try: call(); print("done")
    except OSError as e: print(e.strerror)
"""], cwd=self.work, env=self.environment(), capture_output=True, text=True, timeout=60,
                                user=self.account.pw_uid, group=self.account.pw_gid, extra_groups=[12345])
        self.assertEqual(result.stdout.splitlines(), ["Operation not permitted"] * 4 + ["No such file or directory", "done"], result.stderr)
        for name, mode in (("f", 0o100644), ("d", 0o42755), ("d/e", 0o42755)):
            st = os.stat(os.path.join(shared, name))
            self.assertEqual((st.st_gid, oct(st.st_mode)), (12345, oct(mode)), name)


class Faults(Launch):
    def test_U13_what_cannot_be_set_up_is_said_by_its_setting(self):
        os.symlink("loop", os.path.join(self.work, "loop"))
        os.mkdir(os.path.join(self.work, "locked"))
        long = "x" * 300
        rows = [({"allowWrite": [".", "loop"]}, "filesystem.allowWrite[1]", "too many symbolic links"),
                ({"denyRead": ["loop"]}, "filesystem.denyRead[0]", "too many symbolic links"),
                ({"denyWrite": ["a", "b", "loop/x"]}, "filesystem.denyWrite[2]", "too many symbolic links"),
                ({"denyRead": ["locked"], "allowRead": ["loop"]}, "filesystem.allowRead[0]", "too many symbolic links"),
                ({"allowWrite": [long]}, "filesystem.allowWrite[0]", "File name too long"),
                ({"denyRead": ["."], "allowWrite": []}, "filesystem.denyRead[0]", "the working directory"),
                ({"denyRead": ["no", "/proc/self/environ"]}, "filesystem.denyRead[1]", "of a process outside"),
                ({"denyRead": ["/proc/*/environ"]}, "filesystem.denyRead[0]", "of a process outside"),
                ({"denyWrite": ["loop/*.c"]}, "filesystem.denyWrite[0]", "too many symbolic links"),
                ({"allowWrite": [""]}, "filesystem.allowWrite[0]", "must not be empty"),
                ({"allowWrite": [7]}, "filesystem.allowWrite[0]", "must be")]
        for filesystem, setting, text in rows:
            self.filesystem = {"denyRead": [], "allowWrite": ["."], "denyWrite": [], **filesystem}
            with self.subTest(filesystem=str(filesystem)[:80]):
                result = self.run_in("/usr/bin/touch", "ran")
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assertIn(setting, result.stderr)
                self.assertIn(text, result.stderr)
                self.assertNotIn("bwrap:", result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "ran")))

    def test_limits_of_the_caller_are_met_or_named(self):
        """Whatever limit a caller is under, either the command runs or it is said why it did not. Under some that are
        too low for any program the kernel or the loader ends it before it begins, which is tried first."""
        kib, mib = 1 << 10, 1 << 20
        small = (0, 1, 4 * kib, 64 * kib, 256 * kib, 512 * kib, mib, 2 * mib, 4 * mib, 8 * mib, 12 * mib, 16 * mib, 64 * mib)
        root = os.geteuid() == 0 and not self.account
        limits = {resource.RLIMIT_FSIZE: (small[:4], "ulimit -f"), resource.RLIMIT_NOFILE: (range(0, 30), "ulimit -n"),
                  resource.RLIMIT_NPROC: ((*range(0, 9), 4096), "" if root else "ulimit -u"),
                  resource.RLIMIT_STACK: ((0, 4 * kib, 16 * kib, 20 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib), "ulimit -s"),
                  resource.RLIMIT_DATA: (small, "ulimit -d"), resource.RLIMIT_AS: (small, "ulimit -v"),
                  **{limit: ((0,), "") for limit in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_SIGPENDING, resource.RLIMIT_CORE, resource.RLIMIT_RSS,
                                                     resource.RLIMIT_MSGQUEUE, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO, 10, 15)}}
        with open(self.launch, "rb") as program:
            if b"__asan_init" in program.read():  # which maps terabytes before it begins, and needs more of the stack
                del limits[resource.RLIMIT_DATA], limits[resource.RLIMIT_AS]
                limits[resource.RLIMIT_STACK] = ((128 * kib, 256 * kib), "ulimit -s")
        env = self.environment(ASAN_OPTIONS="detect_leaks=0")

        def begins(limited):
            try:
                loaded = subprocess.run([self.launch], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, preexec_fn=limited)
                return loaded.returncode == 0 and subprocess.run(["/bin/true"], capture_output=True, preexec_fn=limited).returncode == 0
            except OSError:
                return False

        own = "(the private gateway|srt-gateway: |out of memory)"  # another program's words
        gateway = FakeGateway(os.path.join(self.top, "gateway"), ATTACHED)  # which has no limit
        self.addCleanup(gateway.close)
        more = [["--egress", "socket"], ["--gateway", "unix:" + os.path.join(self.top, "gateway")]]
        if self.run_plain("--egress", "transparent", "true").returncode == 0:
            more += [["--egress", "transparent"], [*more[1], "--egress", "transparent"]]
        for limit, (values, remedy) in limits.items():
            ran = 0
            for value in values:
                def limited():
                    resource.setrlimit(limit, (value, value))
                if not begins(limited):
                    continue
                for options in (["--egress", "none"], [], *(more if limit == resource.RLIMIT_NOFILE else ())):
                    with self.subTest(limit=limit, value=value, options=options):
                        result = self.run_plain("-s", self.settings(), *options, "/bin/echo", "ran", env=env, preexec_fn=limited)
                        ran += result.returncode == 0
                        if result.returncode == 0:
                            self.assertEqual(result.stdout, "ran\n")
                        else:
                            self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
                            self.assertRegex(result.stderr, "(^|\n)srt-launch: ")
                            self.assertRegex(result.stderr, f"{remedy}|{own}" if remedy else "")
                            self.assertNotIn("bug", result.stderr)
            self.assertTrue(ran, f"limit {limit}: nothing ever ran")

    def test_what_other_processes_pass_on_counts_against_the_limit_on_files(self):
        """A user who has many descriptors on their way is told of it, and of the limit."""
        program = """
import array, resource, socket, subprocess, sys
ends = socket.socketpair()
files = array.array("i", [0] * 20)
for _ in range(5):
    ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
done = subprocess.run(sys.argv[1:], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
sys.exit(done.returncode)
"""
        settings = self.settings()
        self.own()
        result = subprocess.run(["python3", "-c", program, self.launch, "-s", settings, "--egress", "none", "true"], cwd=self.work,
                                env=self.environment(), capture_output=True, text=True, timeout=60, **self.popen_args())
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn("ulimit -n", result.stderr)

    def test_a_limit_on_open_files_is_no_limit_on_directories_and_processes(self):
        """The warden keeps some of both open from call to call, and has to do with what the limit leaves."""
        script = ("for i in $(seq 150); do mkdir -p t/$i && /bin/sh -c \"echo x >t/$i/f; chmod 600 t/$i/f; mv t/$i/f t/$i/g\" || echo $i; done;"
                  "cat t/*/g | wc -l; rm -rf t; ls")
        for files in (24, 64, 128, 1024):
            with self.subTest(files=files):
                result = self.run_in("/bin/sh", "-c", script, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
                self.assertEqual((result.stdout, result.stderr), ("150\n", ""))

    def test_a_limit_on_files_is_the_commands_as_without_a_fence(self):
        """srt-launch ignores SIGXFSZ, the command does not; the warden, which cuts files for it, lives on."""
        self.write("f")
        result = self.run_in("/bin/sh", "-c", "head -c 100000 /dev/zero > big; echo $?;"
                             "perl -e 'truncate(q(f), 100000) or print qq($!\\n)'; echo x > new && cat new",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
        self.assertEqual(result.stdout.splitlines(), ["153", "File too large", "x"], result.stderr)

    def test_U13_entries_that_give_nothing_are_said_by_their_setting(self):
        own = "has a /proc of its own"
        for filesystem, setting, text in (
                ({"allowWrite": [".", "/proc"]}, "filesystem.allowWrite[1]", own),
                ({"allowWrite": [".", "/proc/sys/kernel"]}, "filesystem.allowWrite[1]", own),
                ({"allowWrite": [".", "/proc/self"]}, "filesystem.allowWrite[1]", own),
                ({"allowWrite": [".", "/dev/n*"]}, "filesystem.allowWrite[1]", "matches nothing"),
                ({"allowWrite": [".", "*.d"]}, "filesystem.allowWrite[1]", "matches nothing"),
                ({"denyRead": ["~root/.ssh"]}, "filesystem.denyRead[0]", "no meaning in settings"),
                ({"denyRead": ["a", "$HOME/.ssh"]}, "filesystem.denyRead[1]", "no meaning in settings"),
                ({"denyWrite": ["{a,b}"]}, "filesystem.denyWrite[0]", "no meaning in settings")):
            self.filesystem = {"denyRead": [], "allowWrite": ["."], "denyWrite": [], **filesystem}
            with self.subTest(filesystem=str(filesystem)):
                result = self.assertRan(self.run_in("/bin/sh", "-c", "(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo OPENED; touch ran"))
                self.assertIn(f"warning: {setting}: ", result.stderr)
                self.assertIn(text, result.stderr)
                self.assertNotIn("OPENED", result.stdout)
        self.write("$HOME", "")
        self.filesystem = {"denyRead": ["$HOME", {"path": "{a,b}", "literal": True}, "/dev/tty*", "/dev/kvm"],
                           "allowWrite": [".", "/dev/null", "/dev/stdout"], "denyWrite": ["/proc/**"]}
        self.assertEqual(self.assertRan(self.run_in("/bin/true")).stderr, "")

    def test_U13_a_program_that_is_hidden_is_not_just_without_permission(self):
        path = self.write("tool", "#!/bin/sh\n")
        os.chmod(path, 0o755)
        self.filesystem["denyRead"] = ["tool"]
        result = self.assertRan(self.run_in("./tool"), 126)
        self.assertIn(f"srt-launch: {path} is hidden by filesystem.denyRead[0]", result.stderr)

    def test_U13_a_program_that_is_hidden_is_not_just_missing(self):
        self.write("bin/tool", "#!/nowhere/sh\n")
        os.chmod(os.path.join(self.work, "bin/tool"), 0o755)
        for hidden, word, text in ((["/usr/bin", "/bin"], "env", "is hidden by filesystem.denyRead[0]"),
                                   (["bin"], "bin/tool", "/bin/tool is hidden by filesystem.denyRead[0]"),
                                   ([], "bin/tool", "is there, but not what runs it")):
            self.filesystem["denyRead"] = hidden
            result = self.run_in(word)
            self.assertEqual(result.returncode, 127, result.stderr)
            self.assertIn(f"{word}: command not found\n", result.stderr)
            self.assertIn(text, result.stderr)

    def test_U20_a_project_cannot_give_itself_rights(self):
        """Only the file that is named, or the user's own, counts; no variable of the environment switches the fence off."""
        wide = {"filesystem": {"denyRead": [], "allowWrite": ["/"], "denyWrite": [], "disabled": True}, "allowNestedUserNamespaces": True,
                "network": {"allowedDomains": ["evil.test"], "deniedDomains": [], "allowAllUnixSockets": True}}
        for name in (".srt-settings.json", "srt-settings.json", ".claude/settings.json"):
            self.write(name, json.dumps(wide))
        outside = os.path.join(self.top, "outside")
        os.mkdir(outside)
        self.own()
        off = {name: value for name in ("SRT_DISABLE", "SRT_SANDBOX", "SANDBOX", "SANDBOX_RUNTIME", "SRT_SETTINGS", "NO_SANDBOX",
                                        "SRT_LAUNCH_DISABLE", "DANGEROUSLY_DISABLE_SANDBOX") for value in ("0",)}
        env = self.environment(**off)
        result = self.run_plain("--egress", "none", "/bin/sh", "-c", f"touch here {outside}/there; mount; grep ^Seccomp: /proc/self/status", env=env)
        self.assertFalse(os.path.exists(os.path.join(outside, "there")))
        self.assertFalse(os.path.exists(os.path.join(self.work, "here")))  # without settings nothing may be written
        self.assertIn("Seccomp:\t2", result.stdout)
        self.write_home(".srt-settings.json", {"filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
                                               "network": {"allowedDomains": [], "deniedDomains": []}})
        self.run_plain("--egress", "none", "/bin/sh", "-c", f"touch here {outside}/there", env=env)
        self.assertTrue(os.path.exists(os.path.join(self.work, "here")))
        self.assertFalse(os.path.exists(os.path.join(outside, "there")))
        result = self.run_plain("--egress", "none", "/bin/sh", "-c", "echo '{}' > .srt-settings.json; echo '{}' > ~/.srt-settings.json", env=env)
        self.assertEqual(result.stderr.count("Read-only file system"), 2, result.stderr)

    def write_home(self, name, settings):
        with open(os.path.join(self.home, name), "w") as file:
            json.dump(settings, file)
        self.own()


class Nested(Launch):
    """A sandbox inside a sandbox. The leak checker of a sanitized build cannot work in there."""

    def environment(self, **changes):
        options = os.environ.get("ASAN_OPTIONS", "")
        return super().environment(**{"ASAN_OPTIONS": f"{options}:detect_leaks=0", **changes})

    def inner(self, **settings):
        """A settings file for the inner one."""
        path = os.path.join(self.work, "inner.json")
        everything = {"filesystem": {"denyRead": [], "allowWrite": [self.top], "denyWrite": []}, "enableWeakerNestedSandbox": True,
                      "network": {"allowedDomains": ["*.test", "127.0.0.1"], "deniedDomains": []}, **settings}
        with open(path, "w") as file:
            json.dump(everything, file)
        return path

    def test_U16_it_is_said_that_the_outer_one_must_allow_it(self):
        result = self.run_in(self.launch, "--egress", "none", "/usr/bin/touch", "ran")
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn("this runs inside a sandbox of srt-launch", result.stderr)
        self.assertIn("allowNestedUserNamespaces", result.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def nested(self, *command, options=()):
        self.more["allowNestedUserNamespaces"] = True
        inner = self.inner()
        result = self.run_plain("-s", self.settings(), *options, "--", self.launch, "-s", inner, *options, "--", *command)
        if "setting up uid map" in result.stderr:
            self.assertEqual(result.returncode, 125)
            self.assertIn("a user other than root", result.stderr)
            self.skipTest("the kernel lets nobody map root a second time without CAP_SETFCAP; it was said")
        return result

    def test_U16_an_inner_one_works_and_widens_nothing(self):
        result = self.nested("/bin/sh", "-c", f"touch in; touch {self.top}/out; echo $?; id -u; grep -c . /proc/net/dev; exit 3",
                             options=("--egress", "none"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(result.stdout.split(), ["1", str(self.account.pw_uid if self.account else os.getuid()), "3"])
        self.assertTrue(os.path.exists(os.path.join(self.work, "in")))
        self.assertFalse(os.path.exists(os.path.join(self.top, "out")))

    def test_U16_the_inner_one_goes_out_through_the_outer_one(self):
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        self.network["allowedDomains"] = ["local.test"]
        result = self.nested("/bin/sh", "-c", "for name in denied.test local.test; do curl -s -o /dev/null -w '%{http_code} ' http://$name/; done; exit 4")
        # Both are allowed inside; the outer one denies the first, and knows no address of the second.
        self.assertEqual(result.stdout.split(), ["403", "502"], result.stderr)
        self.assertIn("denied.test:80", result.stderr)


both(globals(), Machines, Faults, Nested)

if __name__ == "__main__":
    unittest.main()
