"""The filesystem fence of srt-launch, from inside: cases F* of the launcher."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from fence import Fence, both, snapshot


class Reads(Fence):
    def test_without_settings_reads_are_open_and_writes_are_not(self):
        self.write("f", "content")
        result = self.run_plain("--egress", "none", "/bin/sh", "-c", "cat f; touch g || echo refused")
        self.assertRan(result)
        self.assertEqual(result.stdout, "contentrefused\n")
        self.assertIn("Read-only file system", result.stderr)

    def test_denied_directory_is_empty_and_read_only(self):
        self.write("s/x")
        self.filesystem["denyRead"] = ["s"]
        result = self.attack("ls -A s; cat s/x; touch s/y; mkdir s/z; rmdir s; rn s t; chmod 777 s; true")
        self.assertEqual(result.stdout, "")
        self.assertIn("No such file or directory", result.stderr)
        self.assertEqual(result.stderr.count("Read-only file system"), 3)
        self.assertEqual(result.stderr.count("busy"), 2)

    def test_denied_file_is_eacces(self):
        self.write("k")
        self.filesystem["denyRead"] = ["k"]
        result = self.attack("cat k; cp k c; echo y > k; rm -f k; rn k l; chmod 644 k; ln k m; true")
        self.assertEqual(result.stdout, "")
        self.assertIn("cat: k: Permission denied", result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "c")))

    def test_denied_through_every_name(self):
        self.write("s/x")
        os.symlink("s", os.path.join(self.work, "direct"))
        os.symlink("direct/x", os.path.join(self.work, "twice"))
        self.filesystem["denyRead"] = ["direct"]
        result = self.attack("cat s/x direct/x twice /proc/self/root$PWD/s/x /proc/self/cwd/s/x; true")
        self.assertEqual(result.stdout, "")

    def test_F13_writable_inside_visible_inside_hidden_in_any_order(self):
        self.write("D/x")
        self.write("D/ws/a")
        self.write("D/ws/p/b")
        script = "cat D/x; cat D/ws/a D/ws/p/b; touch D/ws/n; touch D/ws/p/n && ls D D/ws"
        for turn in (1, -1):
            self.filesystem = {"denyRead": ["D"], "allowRead": ["D/ws", "D/ws/p"][::turn],
                               "allowWrite": ["D/ws/p", "elsewhere"][::turn], "denyWrite": []}
            result = self.sh(script)
            self.assertEqual(result.stdout, "x\nx\nD:\nws\n\nD/ws:\na\np\n", result.stderr)
            self.assertIn("D/ws/n", result.stderr)

    def test_F14_denied_file_inside_allowed_directory(self):
        self.write("H/W/a", "a")
        self.write("H/W/.env", "secret")
        self.filesystem.update(denyRead=["H", "H/W/.env"], allowRead=["H/W"])
        result = self.sh("cat H/W/a; cat H/W/.env; true")
        self.assertEqual(result.stdout, "a")
        self.assertIn("Permission denied", result.stderr)

    def test_F14_alternating_denials(self):
        for name in ("a", "d/a", "d/e/a", "d/e/f/a", "d/e/f/g/a"):
            self.write(f"H/{name}", name)
        os.chmod(self.write("H/d/.env", "secret"), 0o644)
        for write in ([], ["H/d"]):
            for turn in (1, -1):
                self.filesystem.update(denyRead=["H", "H/d/e", "H/d/e/f/g", "H/d/.env"][::turn],
                                       allowRead=["H/d", "H/d/e/f"][::turn], allowWrite=write)
                result = self.sh("cat H/a; cat H/d/a H/d/.env; cat H/d/e/a; cat H/d/e/f/a; cat H/d/e/f/g/a; echo x > H/d/new")
                self.assertEqual(result.stdout, "d/ad/e/f/a", result.stderr)
                self.assertEqual(os.path.exists(os.path.join(self.work, "H/d/new")), bool(write))

    def test_F15_denied_read_below_denied_write(self):
        self.write("s/f", "secret")
        for writes in (["."], [".", "s"], []):
            for denied in (["s"], ["s", "."]):
                self.filesystem.update(denyRead=["s/f"], allowWrite=writes, denyWrite=denied)
                self.assertEqual(self.sh("cat s/f").stdout, "")

    def test_F04_globs_cover_what_exists(self):
        self.write("a/.env", "secret")
        self.write("a/b/.env", "secret")
        self.write("a/b/key.pem", "secret")
        self.write("a/env", "open")
        self.filesystem["denyRead"] = ["**/.env", "a/*/*.pem"]
        result = self.attack("cat a/.env a/b/.env a/b/key.pem; cat a/env; rn a z; rn a/b z; true")
        self.assertEqual(result.stdout, "open")

    def test_F04_everything_in_a_directory_is_hidden_though_that_may_be_written_to(self):
        self.write("s/a", "secret")
        self.write("s/d/b", "secret")
        self.write("open", "open")
        for entry in ("s/**", "./s/**", os.path.join(self.work, "s", "**")):
            self.filesystem.update(denyRead=[entry], allowWrite=[".", "s"])
            result = self.sh("cat s/a s/d/b; ls s/d; touch s/new && cat open; rm s/new; rn s/d z; rn s/a z; true")
            self.assertEqual(result.stdout, "open", entry)
        self.filesystem.update(denyRead=["**"], allowRead=["open"], allowWrite=["."])
        self.assertEqual(self.sh("cat s/a s/d/b; cat open; touch new").stdout, "open")

    def test_F04_directory_that_cannot_be_searched_is_taken_whole(self):
        if not self.as_user:
            self.skipTest("root can search everything")
        os.chmod(os.path.dirname(self.write("shut/.env", "secret")), 0o300)
        self.addCleanup(os.chmod, os.path.join(self.work, "shut"), 0o700)
        self.filesystem["denyRead"] = ["**/.env"]
        result = self.sh("cat shut/.env; chmod 700 shut; cat shut/.env; touch shut/x; ls -A shut")
        self.assertEqual(result.stdout, "", result.stderr)

    def closed_directories(self, modes):
        """Another user's where root makes them, with all that is guarded or hidden anywhere else."""
        for mode in modes:
            for name in (".bashrc", "secret", "repo/.git/hooks/pre-commit", "d/e/.envrc"):
                self.write(f"closed{mode:o}/{name}", "inner\n")
            self.addCleanup(os.chmod, os.path.join(self.work, f"closed{mode:o}"), 0o700)
        self.settings()
        self.own()
        self.own = lambda *paths: None
        for mode in modes:
            closed = os.path.join(self.work, f"closed{mode:o}")
            if os.geteuid() == 0:
                subprocess.run(["chown", "-R", "1:1", closed], check=True)
            os.chmod(closed, mode)

    def test_F04_directories_that_cannot_be_entered_stop_nothing_and_stay_as_they_are(self):
        """Root looks at the tree as it will inside, where it has no capabilities."""
        modes = (0o700, 0o744, 0o600, 0o300, 0o100, 0) if os.geteuid() == 0 else (0o400, 0o644, 0o300, 0)
        self.closed_directories(modes)
        inner = [f"closed{mode:o}/{name}" for mode in modes for name in ("secret", ".bashrc", "repo", "absent")]
        for filesystem in ({}, {"denyRead": ["**/secret"]}, {"denyRead": inner}, {"denyWrite": inner}, {"allowRead": inner, "denyRead": ["closed*"]},
                           {"allowWrite": [".", *inner]}, {"allowWrite": ["*"]}):
            with self.subTest(filesystem=str(filesystem)[:40]):
                self.filesystem = {"denyRead": [], "allowWrite": ["."], "denyWrite": [], **filesystem}
                before = snapshot(self.work)
                result = self.sh("for c in closed*; do chmod 755 $c; cat $c/secret; touch $c/.bashrc $c/new; rn $c z; done; echo done",
                                 options=("--violations", os.path.join(self.top, "told")))
                self.assertRan(result)
                self.assertEqual(result.stdout, "done\n", result.stderr)
                self.assertEqual(snapshot(self.work), before)
                for setting in ("allowRead", "allowWrite"):
                    given = any("secret" in entry for entry in filesystem.get(setting, ()))
                    self.assertEqual("cannot be looked into, so the entry gives nothing" in result.stderr and setting in result.stderr,
                                     given, result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root can give files away")
    def test_F24_a_TMPDIR_that_is_writable_by_a_capability_alone_is_none(self):
        other = os.path.join(self.work, "other")
        os.mkdir(other, 0o755)
        self.own()
        self.own = lambda *paths: None
        os.chown(other, 1, 1)
        self.filesystem["allowWrite"] = [".", "other"]
        result = self.assertRan(self.sh("echo $TMPDIR; mktemp", env=self.environment(TMPDIR=other)))
        self.assertEqual(result.stdout.splitlines()[0], "/dev/shm/tmp")
        root_alone = f"warning: filesystem.allowWrite[1]: the owner and mode of {other} let root write to it by a capability alone"
        self.assertEqual(root_alone in result.stderr, not self.account, result.stderr)

    def test_F20_patterns_are_searched_for_no_deeper_than_they_reach(self):
        for i in range(300):
            os.makedirs(os.path.join(self.work, f"deep/{i}/a/b"))
        self.write("key.pem", "secret")
        self.write("deep/7/a/other.pem", "other\n")
        closed = os.path.join(self.work, "deep/closed")
        os.mkdir(closed)
        self.filesystem["denyRead"] = ["*.pem", "deep/*/key"]
        self.own()
        if os.geteuid() == 0:
            os.chown(closed, 1, 1)
        os.chmod(closed, 0o700)
        self.own = lambda *paths: None
        os.chmod(self.settings(), 0o644)
        result = self.sh("cat key.pem; cat deep/7/a/other.pem; ls -d deep/closed", options=("-v",))
        self.assertEqual(result.stdout, "other\ndeep/closed\n", result.stderr)
        result = self.run_plain("-s", os.path.join(self.top, "settings.json"), "--dry-run", "true")
        hidden = [line.split()[1] for line in result.stdout.splitlines() if line.startswith(f"  hidden {self.work}/")]
        # What cannot be looked into is hidden where the pattern goes on below it, and only there.
        self.assertEqual(hidden, [closed, f"{self.work}/key.pem"] if os.geteuid() == 0 else [f"{self.work}/key.pem"], result.stderr)

    def test_F04_new_names_that_match(self):
        """What is written in the sandbox it may read; what may not be written is refused at once."""
        self.filesystem.update(denyRead=["**/.env"], denyWrite=["**/*.lock"])
        result = self.sh("mkdir new; echo mine > new/.env; cat new/.env; echo x > new/a.lock; ls -A new; exit 1")
        self.assertEqual(result.stdout, "mine\n.env\n")
        self.assertIn("new/a.lock (filesystem.denyWrite[0])", result.stderr)

    def test_F22_older_hard_link_is_warned_about(self):
        os.link(self.write("x"), os.path.join(self.work, "y"))
        self.filesystem["denyRead"] = ["x"]
        self.assertIn("hard links", self.sh("true").stderr)

    def test_F22_a_store_of_packages_does_not_fill_the_screen(self):
        for i in range(30):
            os.link(self.write(f"store/{i}.js"), os.path.join(self.work, f"{i}.js"))
        for setting in ("denyRead", "denyWrite"):
            self.filesystem.update({"denyRead": [], "denyWrite": [], setting: ["*.js"]})
            lines = self.sh("true").stderr.splitlines()
            self.assertEqual(len(lines), 9)
            self.assertIn("warning: 22 more guarded files have hard links", lines[-1])
            lines = self.sh("true", options=("-v",)).stderr.splitlines()
            self.assertEqual(len([line for line in lines if f"(filesystem.{setting}[0]) has 2 hard links" in line]), 30)

    def test_F34_link_in_the_path_of_a_rule(self):
        self.write("real/s", "secret")
        os.symlink("real", os.path.join(self.work, "lnk"))
        for name in ("lnk/s", "real/s"):
            self.filesystem["denyRead"] = [name]
            self.assertEqual(self.sh("cat real/s lnk/s").stdout, "")

    def test_F34_what_is_allowed_is_there_by_the_names_of_its_links_where_they_are_hidden(self):
        self.write("far/project/f", "far\n")
        self.write("hidden/real/f", "near\n")
        self.write("hidden/real/in/f", "deep\n")
        self.write("hidden/other", "secret\n")
        for name, target in (("one", "real"), ("two", "one"), ("project", "../far/project"), ("file", "real/f"), ("unnamed", "other"),
                             ("real/up", "in"), ("leads-to-secret", "other"), ("nowhere", "absent")):
            os.symlink(target, os.path.join(self.work, "hidden", name))
        self.filesystem.update(denyRead=["hidden", "hidden/real/in", "hidden/other"], allowWrite=["hidden/project"],
                               allowRead=["hidden/two", "hidden/file", "hidden/real/up/f", "hidden/nowhere"])
        self.own()
        before = snapshot(self.work)
        result = self.sh("cat hidden/one/f hidden/two/f hidden/file hidden/project/f hidden/real/up/f; cat hidden/unnamed hidden/leads-to-secret;"
                         "rm hidden/project hidden/two; ln -sfn /etc hidden/project; rn hidden/one hidden/z; ls hidden; ls -A hidden/real/in")
        self.assertEqual(result.stdout.split(), ["near", "near", "near", "far", "deep", "file", "one", "project", "real", "two", "f"],
                         result.stderr)
        self.assertEqual(snapshot(self.work), before)
        self.sh("echo new > hidden/project/f")
        with open(os.path.join(self.work, "far/project/f")) as f:
            self.assertEqual(f.read(), "new\n")
        # Not what an earlier run could have left, nor in what nothing lifts.
        self.filesystem.update(denyRead=["hidden"], allowRead=["hidden/project"], allowWrite=["."])
        os.remove(os.path.join(self.work, "hidden/project"))
        os.symlink(self.home, os.path.join(self.work, "hidden/project"))
        self.assertEqual(self.sh("ls -A hidden").stdout, "")
        self.filesystem.update(denyRead=[], allowRead=["hidden/two"], allowWrite=[])
        self.more["credentials"] = {"files": [{"path": "hidden", "mode": "deny"}]}
        self.assertEqual(self.sh("ls -A hidden").stdout, "")

    @unittest.skipIf(os.geteuid() != 0, "mounts need root")
    def test_F34_machine_whose_directories_are_links(self):
        """As on machines whose system is read-only: /home, /opt and /tmp lead into /var."""
        root = os.path.join(self.top, "root")
        os.mkdir(root)
        uid = self.account.pw_uid if self.account else 0
        self.filesystem = {"denyRead": ["~/.ssh", "/var/home/u/key", "/opt/secret"], "denyWrite": ["/tmp/kept", "/home/u/tree/no"],
                           "allowRead": ["/var/opt/secret/shown"], "allowWrite": ["/home/u/tree", "/var/opt/tool", "/tmp"]}
        settings = self.settings()
        seen = " ".join(f"{where}/u/.ssh/id {where}/u/key" for where in ("/home", "/var/home"))
        inside = f"""
            cat {seen}; for o in /opt /var/opt; do cat $o/secret/file; cat $o/secret/shown; echo x > $o/tool/f && echo wrote; echo x > $o/f; done
            for h in /home /var/home; do echo x > $h/u/tree/f && echo wrote; echo x > $h/u/tree/no/f; echo x > $h/u/f; echo x > $h/u/tree/.bashrc; done
            for t in /tmp /var/tmp; do echo x > $t/f && echo wrote; echo x > $t/kept/f; done
            echo x > $TMPDIR/f && echo wrote; rm /home; mv /var/home/u/tree /var/home/u/other; echo end"""
        script = f"""
            mount --make-rprivate / && mount -t tmpfs x {root} && cd {root} && mkdir -p usr etc dev proc sys run old programs var/home/u/tree/no \
                var/home/u/.ssh var/opt/secret var/opt/tool var/tmp/kept && ln -s var/home home && ln -s var/opt opt && ln -s var/tmp tmp &&
            for d in bin sbin lib lib64 lib32; do [ -L /$d ] && ln -s usr/$d $d; done
            for f in var/home/u/.ssh/id var/home/u/key var/opt/secret/file var/opt/secret/shown; do echo "secret $f" > $f; done
            mount --bind /usr usr && mount --bind /etc etc && mount --rbind /dev dev && mount --rbind /proc proc && mount --rbind /sys sys &&
            mount --bind {self.programs} programs && cp {settings} settings.json && chmod 1777 var/tmp && chown -R {uid}:{uid} var/home/u var/opt/tool var/tmp/kept
            pivot_root . old && cd /home/u/tree && umount -l /old && exec setpriv --reuid {uid} --regid {uid} --clear-groups \
                /programs/srt-launch -s /settings.json --egress none -- /bin/sh -c "$INSIDE" 2>/programs/said"""
        result = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script], cwd="/", capture_output=True, text=True, timeout=60,
                                env=self.environment(INSIDE=inside, HOME="/home/u"))
        with open(os.path.join(self.programs, "said")) as f:
            said = f.read()
        self.assertEqual(result.stdout.splitlines(), [*["secret var/opt/secret/shown", "wrote"] * 2, *["wrote"] * 5, "end"],
                         result.stderr + said)

    def test_F35_links_into_what_is_hidden(self):
        self.write("run/x/stub", "nameserver 192.0.2.1\n")
        self.write("run/y", "secret")
        os.makedirs(os.path.join(self.work, "etc"))
        os.symlink("../run/x/stub", os.path.join(self.work, "etc/resolv.conf"))
        os.makedirs(os.path.join(self.work, "var"))
        os.symlink("../run", os.path.join(self.work, "var/run"))
        self.filesystem["denyRead"] = ["var/run"]
        result = self.sh("cat etc/resolv.conf; ls -A var/run run; cat run/y")
        self.assertEqual(result.stdout, "run:\n\nvar/run:\n")
        for name in ("run/x", "var/run/x", "etc/resolv.conf"):
            self.filesystem["allowRead"] = [name]
            result = self.sh("cat etc/resolv.conf; cat run/y; ls -A var/run")
            self.assertEqual(result.stdout, "nameserver 192.0.2.1\nx\n", result.stderr)

    def test_F35_run_of_the_machine_can_be_hidden(self):
        self.filesystem["denyRead"] = ["/run"]
        self.assertEqual(self.assertRan(self.sh("ls -A /run/ /var/run/ | wc -w; cat f 2>/dev/null; true")).stdout, "2\n")

    def test_F37_any_bytes_in_paths(self):
        for name in ("a b", "q'\"", "new\nline", "back\\slash", "-dash", "$HOME", "~user", "dots..", "*"):
            path = self.write(name + "/f", "secret")
            self.filesystem["denyRead"] = [{"path": os.path.dirname(path) + "//./", "literal": True}]
            result = self.run_in("/bin/cat", "--", path)
            self.assertEqual((result.stdout, result.returncode), ("", 1), repr(name) + result.stderr)
            self.filesystem.update(denyRead=[], denyWrite=[], allowWrite=[{"path": os.path.dirname(path), "literal": True}])
            self.assertRan(self.run_in("/usr/bin/touch", "--", path + "2"))
            self.filesystem.update(allowWrite=["."], denyWrite=[{"path": path, "literal": True}])
            self.assertEqual(self.run_in("/bin/rm", "--", path).returncode, 1)
            self.filesystem["denyWrite"] = []

    def test_root_can_be_denied_and_parts_given_back(self):
        self.write("f", "content")
        self.filesystem.update(denyRead=["/"], allowRead=["/usr", "/lib", "/lib64", "/bin", "."],
                               allowWrite=[])
        result = self.sh("cat f; ls /etc /home; ls /usr/bin/env")
        self.assertEqual(result.stdout, "content/etc:\n\n/home:\n/usr/bin/env\n", result.stderr)


class Writes(Fence):
    def test_only_what_is_allowed(self):
        outside = os.path.join(self.top, "outside")
        os.mkdir(outside)
        result = self.sh(f"touch a; touch {outside}/b; touch /tmp/b; touch $HOME/b; ls; true")
        self.assertEqual(result.stdout, "a\n")
        self.assertEqual(result.stderr.count("Read-only file system"), 3)

    def test_link_that_leads_out_gives_nothing(self):
        os.symlink(self.home, os.path.join(self.work, "out"))
        result = self.attack("touch out/f; ln -s $HOME/g h; echo x > h; rm h; true")
        self.assertEqual(result.stderr.count("Read-only file system"), 2)

    def test_link_left_by_an_earlier_run_does_not_widen_the_next(self):
        os.symlink(self.home, os.path.join(self.work, "build"))
        self.filesystem["allowWrite"] = [".", "build"]
        result = self.sh("touch build/f; touch $HOME/f; true")
        self.assertEqual(os.listdir(self.home), [])
        self.assertIn("leads out", result.stderr)

    def test_F05_F06_ancestor_of_a_guard_cannot_be_moved(self):
        self.write(".git/hooks/pre-commit.sample")
        self.write(".git/HEAD")
        self.write("a/b/.env")
        self.filesystem.update(denyRead=["a/b/.env"], denyWrite=["c/d"])
        self.write("c/d/f")
        self.attack("rn .git g2; rn .git/hooks h; rm -rf .git/hooks; rn a z; rn a/b z; rn c z; rn c/d z;"
                    "mkdir q && rn q .git/hooks; rmdir q; echo x > .git/hooks/pre-commit; true")

    def test_F02_absent_deny_path_leaves_nothing(self):
        self.filesystem["denyWrite"] = [".x/y/z"]
        self.attack("true")
        self.attack("mkdir -p .x/y/z && touch .x/y/z/f && echo MADE; rmdir .x/y .x")
        self.assertRan(self.sh("true"))

    def test_F01_protected_names_that_are_absent_leave_nothing(self):
        for command in ("true", "exit 1", "kill -9 $$"):
            self.attack(command)

    def test_F01_ends_from_outside_leave_nothing(self):
        settings = self.settings()
        self.own()
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "/bin/sh", "-c", "echo up; sleep 60"],
                                  cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, **self.popen_args()) as process:
                self.assertEqual(process.stdout.readline(), b"up\n")
                process.send_signal(number)
                process.stdout.read()  # until nobody is left
            self.assertEqual(os.listdir(self.work), [], number)

    def test_existing_protected_names(self):
        names = [".bashrc", ".profile", ".zshrc", ".gitconfig", ".gitmodules", ".mcp.json", ".ripgreprc",
                 ".envrc", ".npmrc", ".git/config", ".git/hooks/pre-commit", ".git/info/attributes",
                 ".git/modules/sub/config", ".git/modules/sub/hooks/post-checkout", ".vscode/settings.json",
                 ".idea/workspace.xml", ".claude/commands/x", ".claude/agents/x", ".claude/settings.json",
                 ".cursor/rules", ".husky/pre-commit", "very/deep/down/.bashrc", "deep/repo/.git/hooks/x"]
        for name in names:
            self.write(name)
        result = self.attack("\n".join(f"echo bad >> {n}; rm -f {n}; rn {n} {n}.old; ln -sf /dev/null {n}"
                                       for n in names) + "\ntrue")
        self.assertEqual(result.stderr.count("cannot create"), len(names))

    def test_neighbours_of_protected_names_are_free(self):
        self.write(".git/HEAD")
        self.write(".git/config")
        self.write(".claude/settings.json")
        names = [".git/objects/x", ".git/refs/heads/main", ".git/index", ".claude/notes", "bashrc", ".env"]
        result = self.sh("\n".join(f"mkdir -p $(dirname {n}) && echo ok > {n}" for n in names))
        self.assertRan(result)
        self.assertEqual(result.stderr, "")

    def test_allow_git_config_opens_config_and_not_hooks(self):
        self.write(".git/config")
        for name in ("hooks/x", "HEAD", "objects/x", "refs/x"):
            self.write(".git/" + name)
        self.filesystem["allowGitConfig"] = True
        result = self.sh("echo a >> .git/config; echo b >> .git/hooks/x; cat .git/config .git/hooks/x")
        self.assertEqual(result.stdout, "x\na\nx\n")

    def test_F07_hooks_that_are_a_link(self):
        self.write(".git/HEAD")
        self.write("tracked/pre-commit")
        os.symlink("../tracked", os.path.join(self.work, ".git/hooks"))
        self.attack("echo x > tracked/pre-commit; touch tracked/n; rm .git/hooks; ln -sfn /tmp .git/hooks;"
                    "rn .git/hooks h; rn tracked t; true")

    def test_F08_protected_link_that_leads_out_or_nowhere(self):
        os.symlink("/etc/passwd", os.path.join(self.work, ".bashrc"))
        os.symlink("/nonexistent/x", os.path.join(self.work, ".zshrc"))
        self.attack("for f in .bashrc .zshrc; do ln -sf /tmp/evil $f; rm $f; rn $f x; echo x > $f; done; true")

    def test_F07_directories_of_protected_names_that_are_links(self):
        for name in ("dot/claude/settings.json", "dot/claude/settings.local.json", "dot/claude/commands/x", "store/HEAD",
                     "store/config", "store/hooks/x", "store/modules/m/config", "store/modules/m/hooks/x", "dot/config/git/config"):
            self.write(name)
        for link, target in ((".claude", "dot/claude"), (".git", "store"), (".config", "dot/config")):
            os.symlink(target, os.path.join(self.work, link))
        self.attack("for f in dot/claude/settings.json dot/claude/settings.local.json dot/claude/settings.new.json"
                    " dot/claude/commands/x dot/claude/commands/y dot/claude/agents/x dot/config/git/config store/config"
                    " store/hooks/x store/hooks/y store/modules/m/config store/modules/m/hooks/x store/commondir; do"
                    " mkdir -p $(dirname $f) 2>/dev/null && echo x >> $f; rm -f $f; echo x > new; rn new $f; rm -f new; done;"
                    " for l in .claude .git .config; do rm -f $l; rn $l x; ln -sfn /tmp $l; done; rn dot d; rn dot/claude c;"
                    " rn store s; true")

    def test_F17_single_file(self):
        self.write("f")
        self.write("g")
        self.filesystem["allowWrite"] = ["f", "missing"]
        result = self.sh("echo more >> f; echo more >> g; touch missing; touch t; cat f")
        self.assertEqual(result.stdout, "x\nmore\n")
        self.assertEqual(sorted(os.listdir(self.work)), ["f", "g"])
        self.filesystem["allowWrite"] = ["f", "d"]
        os.mkdir(os.path.join(self.work, "d"))
        result = self.sh("echo y > d/t; rn d/t f || mv d/t f; cat f")
        self.assertIn("rename: ", result.stderr)  # a mount point is not replaced; mv says so, too
        self.assertEqual(result.stdout, "x\nmore\n")

    def test_F29_every_writable_root_is_guarded(self):
        self.write("../home/.bashrc")
        self.write("../home/repo/.git/hooks/x")
        self.filesystem["allowWrite"] = [self.home]
        self.attack("echo x >> $HOME/.bashrc; echo x >> $HOME/repo/.git/hooks/x; rn $HOME/repo $HOME/r; true")

    def test_bare_repository(self):
        for name in ("HEAD", "objects/x", "refs/x", "hooks/x", "config"):
            self.write("mirror.git/" + name)
        self.attack("cd mirror.git; echo x > hooks/y; echo x > config; rn hooks h; true")

    def test_settings_file_is_out_of_reach(self):
        self.filesystem["allowWrite"] = [self.top]
        self.write("../home/.srt-settings.json", "{}")
        path = self.settings()
        self.attack(f"echo x > {path}; rm -f {path}; rn {path} x; echo x > $HOME/.srt-settings.json; true")

    def test_everything_denied_again(self):
        self.filesystem.update(allowWrite=["/", "."], denyWrite=["/"])
        self.attack("touch f; touch /tmp/f; true")

    def test_root_as_writable(self):
        self.filesystem["allowWrite"] = ["/"]
        self.filesystem["denyWrite"] = [self.home]
        self.more["launch"] = {"protect": ["-shell", "-direnv", "-git-hooks", "-git-config", "-editor",
                                           "-agent", "-tools"]}
        result = self.sh(f"touch {self.work}/f && touch {self.home}/f; echo 1 > /proc/sys/vm/swappiness; ls")
        self.assertEqual(result.stdout, "f\n")
        self.assertEqual(os.listdir(self.home), [])

    def test_disabled_opens_files_and_nothing_else(self):
        self.filesystem["disabled"] = True
        self.write(".bashrc")
        result = self.sh("echo y >> .bashrc; cat .bashrc; echo 1 > /proc/sys/vm/swappiness")
        self.assertEqual(result.stdout, "x\ny\n")
        self.assertIn("/proc/sys", result.stderr)
        self.assertIn("warning: filesystem.disabled: there is no fence around files", result.stderr)  # U20
        self.assertNotIn("searched for new protected names", result.stderr)  # nor is there anything to look for

    def test_F22_new_hard_links_over_the_wall_fail(self):
        self.write(".bashrc")
        self.write("../home/f")
        result = self.attack("ln .bashrc l; ln $HOME/f l; true")
        self.assertEqual(result.stderr.count("Invalid cross-device link"), 2)

    def test_F31_removing_a_repository_spares_what_is_protected_and_nothing_else(self):
        for name in ("HEAD", "config", "hooks/pre-commit", "objects/aa/bb", "refs/heads/main"):
            self.write(".git/" + name)
        self.assertEqual(self.sh("rm -rf .git").returncode, 1)
        left = [os.path.relpath(os.path.join(d, f), self.work) for d, _, fs in os.walk(self.work) for f in fs]
        self.assertEqual(sorted(left), [".git/config", ".git/hooks/pre-commit"])
        self.write(".git/refs/heads/main")
        self.filesystem["denyWrite"] = [".git"]
        self.attack("rm -rf .git; echo x > .git/refs/heads/main; true")

    def test_F32_rules_begin_where_srt_launch_was_started(self):
        other = os.path.join(self.top, "other")
        os.mkdir(other)
        self.attack(f"cd {other} && touch f; mkdir d; cd / && touch f; true")
        for words in (["--chdir", other], [f"--chdir={other}"], ["-C", other]):
            result = self.run_plain("-s", self.settings(), *words, "--", "/bin/pwd")
            self.assertEqual((result.returncode, result.stdout), (125, ""), words)

    def test_F40_what_the_host_writes_meanwhile_stays(self):
        names = (".bashrc", ".claude/settings.json", "no/such/file")
        self.filesystem["denyWrite"] = ["no/such/file"]
        settings = self.settings()
        self.own()
        for end in ("exit 0", "kill -9 $PPID; sleep 9"):
            with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "/bin/sh", "-c",
                                   f"echo up; read go; for f in {' '.join(names)}; do cat $f; echo x >> $f; done; {end}"],
                                  cwd=self.work, env=self.environment(), text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.popen_args()) as process:
                self.assertEqual(process.stdout.readline(), "up\n")
                for name in names:
                    self.write(name, "of the host\n")
                self.own()
                if "PPID" in end:
                    process.kill()
                out, err = process.communicate("go\n", timeout=60)
                if "PPID" not in end:
                    self.assertEqual(out, "of the host\n" * 3, err)
            for name in names:
                with open(os.path.join(self.work, name)) as f:
                    self.assertEqual(f.read(), "of the host\n")
                os.unlink(os.path.join(self.work, name))

    def test_overlapping_runs_keep_their_walls(self):
        self.write(".bashrc")
        settings = self.settings()
        self.own()
        words = [self.launch, "-s", settings, "--egress", "none", "/bin/sh", "-c"]
        args = dict(cwd=self.work, env=self.environment(), text=True, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.popen_args())
        with subprocess.Popen([*words, "read go; echo bad >> .bashrc; rn .bashrc x"], **args) as second:
            self.run_in("true")
            self.run_in("/bin/sh", "-c", "kill -9 $$")
            second.communicate("go\n", timeout=30)
        with open(os.path.join(self.work, ".bashrc")) as f:
            self.assertEqual(f.read(), "x\n")


class Creation(Fence):
    """Names that do not exist yet: no mount can cover them, the warden does what may be done."""

    PROTECTED = (".bashrc", ".vscode", ".claude/settings.json", ".git/hooks", ".git/config", "deep/down/.zshrc",
                 "no/such/file", "x.lock")

    def setUp(self):
        super().setUp()
        self.filesystem["denyWrite"] = ["no/such/file", "**/*.lock"]
        for name in (".claude", ".git", "deep/down", "no/such"):
            os.makedirs(os.path.join(self.work, name))
        self.write("f")
        self.write("g/hooks/x")

    def test_F03_every_call_that_could_make_a_protected_name(self):
        program = """
import ctypes, os, sys
c = ctypes.CDLL(None, use_errno=True)
open('tmp', 'w').close()
here = os.open('.', os.O_RDONLY)
unnamed = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
def tries(n):
    b = n.encode()
    parent, last = os.path.split(n)
    folder = os.open(parent or '.', os.O_RDONLY)
    yield 'open', lambda: os.open(n, os.O_CREAT | os.O_WRONLY)
    yield 'open excl', lambda: os.open(n, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    yield 'open absolute', lambda: os.open(os.path.abspath(n), os.O_CREAT)
    yield 'open dots', lambda: os.open('deep/../' + n, os.O_CREAT | os.O_WRONLY)
    yield 'open slashes', lambda: os.open('.//' + n.replace('/', '//./'), os.O_CREAT | os.O_WRONLY)
    yield 'openat', lambda: os.open(last, os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    yield 'through fd', lambda: os.open('/proc/self/fd/%d/%s' % (here, n), os.O_CREAT | os.O_WRONLY)
    yield 'through cwd', lambda: os.open('/proc/self/cwd/' + n, os.O_CREAT | os.O_WRONLY)
    yield 'through root', lambda: os.open('/proc/thread-self/root/' + os.path.abspath(n), os.O_CREAT)
    yield 'through dev', lambda: os.open('/dev/fd/%d/%s' % (here, n), os.O_CREAT | os.O_WRONLY)
    yield 'creat', lambda: call(c.creat(b, 0o644))
    yield 'mkdir', lambda: os.mkdir(n)
    yield 'mkdir slash', lambda: os.mkdir(n + '/')
    yield 'mkdirat', lambda: os.mkdir(last, dir_fd=folder)
    yield 'mkfifo', lambda: os.mkfifo(n)
    yield 'mknod', lambda: os.mknod(n)
    yield 'symlink', lambda: os.symlink('/etc/passwd', n)
    yield 'symlinkat', lambda: os.symlink('f', last, dir_fd=folder)
    yield 'link', lambda: os.link('f', n)
    yield 'linkat', lambda: os.link('f', last, src_dir_fd=here, dst_dir_fd=folder)
    yield 'link unnamed', lambda: os.link('/proc/self/fd/%d' % unnamed, n, src_dir_fd=here, follow_symlinks=True)
    yield 'rename', lambda: os.rename('tmp', n)
    yield 'renameat', lambda: os.rename('tmp', last, src_dir_fd=here, dst_dir_fd=folder)
    yield 'exchange', lambda: call(c.renameat2(here, b'tmp', here, b, 2))
    yield 'rename dir', lambda: os.rename('g', n)
    yield 'through link', through(n)
    yield 'openat2', lambda: call(c.syscall(437, here, b, ctypes.byref((ctypes.c_uint64 * 3)(0o101, 0o644, 0)), 24))
def through(n):
    def run():
        os.symlink(os.path.abspath(n), 'way')
        try: os.open('way', os.O_CREAT | os.O_WRONLY)
        finally: os.unlink('way')
    return run
def call(r):
    if r < 0: raise OSError(ctypes.get_errno(), 'x')
for n in sys.argv[1:]:
    for what, run in tries(n):
        try:
            run()
            print('MADE', n, what)
        except OSError as e:
            if e.errno not in (30, 2, 38, 22):
                print('ODD', n, what, e)
        if os.path.lexists(n): print('THERE', n, what)
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program, *self.PROTECTED)
        self.assertRan(result)
        self.assertEqual(result.stdout, "")
        for name in self.PROTECTED:
            self.assertFalse(os.path.lexists(os.path.join(self.work, name)), name)

    def test_directories_that_become_protected_by_their_name(self):
        result = self.sh("rmdir .git; rn g q && rn q .git; mkdir -p c/commands && rn c q && rn q .claude2 && rn .claude2 .claude;"
                         "mkdir h; rn h .idea; ls -A")
        self.assertFalse(os.path.exists(os.path.join(self.work, ".git/hooks")), result.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.work, ".claude/commands")))
        self.assertFalse(os.path.exists(os.path.join(self.work, ".idea")))

    def test_allowed_names_come_out_as_without_a_warden(self):
        script = ("umask 027; echo a > n; echo b >> n; mkdir -m 2750 d; mkdir e; ln n l; ln -s n s; echo c >> s; rn l m;"
                  "mkfifo p; (echo through > p &); cat p; ln -s absent t; echo x > t; cat absent; echo d > /dev/null;"
                  "echo e > /dev/stdout; echo f > /proc/self/fd/1; set -C; echo no > n 2>/dev/null || echo excl; set +C;"
                  "mkdir e 2>/dev/null || echo exists; mkdir a/b/c 2>/dev/null || echo enoent;"
                  "echo x > e 2>/dev/null || echo isdir; touch n/x 2>/dev/null || echo notdir;"
                  "cd e; echo r > ../r; cd ..; : > cwd/ 2>/dev/null; stat -c '%a %F %h' n d e s m p absent r; cat n")
        plain = os.path.join(self.top, "plain")
        os.mkdir(plain)
        self.own()
        rn = """rn() { perl -e 'rename($ARGV[0], $ARGV[1]) or die' "$1" "$2"; }\n"""
        wanted = subprocess.run(["/bin/sh", "-c", rn + script], cwd=plain, env=self.environment(), text=True,
                                capture_output=True, **self.popen_args())
        got = self.sh(script)
        self.assertEqual(got.stdout, wanted.stdout)
        self.assertEqual(got.returncode, wanted.returncode)

    def test_a_umask_holds_from_the_next_name_on_whoever_of_the_threads_changed_it(self):
        """The warden knows masks from before. One thread, then two in turns, then several processes, whose changes overlap."""
        program = """
import os, random, sys, threading
choice, mask, turn, made = random.Random(sys.argv[1]), [os.umask(0o022)], [threading.Semaphore(0) for _ in sys.argv[2:]], []
def act(own, other):
    for i in range(100):
        turn[own].acquire()
        for _ in range(choice.randrange(3)):
            mask[0] = choice.randrange(0o1000)
            os.umask(mask[0])
        for _ in range(choice.randrange(3)):
            name, wanted = f'{sys.argv[1]}.{len(made)}', 0o666 & ~mask[0]
            made.append(os.stat(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)).st_mode & 0o777 == wanted)
        turn[other].release()
mask[0] = 0o022
turn[0].release()
threads = [threading.Thread(target=act, args=(own, own - 1)) for own in range(1, len(turn))]
for thread in threads: thread.start()
act(0, -1)
for thread in threads: thread.join()
print(len(made) > 0, all(made))
"""
        self.write("program.py", program)
        result = self.sh("python3 program.py 0 one; python3 program.py 1 one two; for i in 2 3 4; do python3 program.py $i one two & done; wait")
        self.assertRan(result)
        self.assertEqual(result.stdout, "True True\n" * 5, result.stderr)

    def test_racing_threads_make_no_protected_name(self):
        program = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static char name[16] = "harmless";
static volatile int stop;
static void *swap(void *x) { while (!stop) { memcpy(name, ".bashrc\0", 8); memcpy(name, "harmless", 8); } return x; }
static void *links(void *x) {
    while (!stop) { unlink("way"); symlink("harmless", "way"); unlink("way"); symlink(".zshrc", "way"); } return x; }
static void *dirs(void *x) {
    while (!stop) { rename("a", "b"); mkdir("a", 0755); rmdir("a"); rename("b", "a"); } return x; }
int main(void) {
    pthread_t t[3];
    pthread_create(&t[0], 0, swap, 0); pthread_create(&t[1], 0, links, 0); pthread_create(&t[2], 0, dirs, 0);
    mkdir("a", 0755);
    time_t end = time(0) + 4;
    long made = 0;
    while (time(0) < end) {
        int fd = open(name, O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) { close(fd); made++; }
        fd = open("way", O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) close(fd);
        fd = open("a/.bashrc", O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) close(fd);
        mkdir(name, 0755); rmdir("harmless"); unlink("harmless"); link("f", name); symlink("f", name); rename("tmp", name);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("%d\n", made > 0);
    return 0;
}
"""
        with open(os.path.join(self.top, "race.c"), "w") as f:
            f.write(program)
        binary = os.path.join(self.top, "race")
        built = subprocess.run(["cc", "-O1", "-w", "-pthread", "-o", binary, os.path.join(self.top, "race.c")])
        if built.returncode != 0:
            self.skipTest("no compiler")
        result = self.run_in(binary)
        self.assertRan(result)
        self.assertEqual(result.stdout, "1\n")
        for folder, dirs, files in os.walk(self.work):
            for name in dirs + files:
                self.assertNotIn(name, (".bashrc", ".zshrc"), folder)

    def test_refusals_are_told(self):
        result = self.sh("echo x > .bashrc; echo x > /etc/passwd; rm /etc/hostname; exit 3")
        self.assertEqual(result.returncode, 3)
        self.assertIn("<sandbox_violations>\n", result.stderr)
        for text in (f"deny create {self.work}/.bashrc (protected: shell start-up file)", "deny write /etc/passwd (default)",
                     "deny unlink /etc/hostname (default)"):
            self.assertIn(text, result.stderr)
        path = os.path.join(self.top, "v.jsonl")
        result = self.sh("echo x > .bashrc; exit 3", options=["--violations", path])
        self.assertNotIn("<sandbox", result.stderr)
        with open(path) as f:
            record = json.loads(f.readline())
        self.assertEqual(record["schema"], "srt.violation/1")
        self.assertEqual((record["kind"], record["operation"], record["errno"], record["rule"], record["setting"]),
                         ("file", "create", "EROFS", "protected: shell start-up file", "filesystem.denyWrite"))
        self.assertEqual((record["path"], record["comm"]), (f"{self.work}/.bashrc", "sh"))
        self.assertTrue(0 < record["pid"] < 100)

    def test_ignored_violations_are_silent(self):
        self.more["ignoreViolations"] = {"*": ["/etc/"], "no-such-command": [".bashrc"]}
        result = self.sh("echo x > .bashrc; echo x > /etc/passwd; exit 3")
        self.assertIn(".bashrc", result.stderr.split("<sandbox_violations>")[1])
        self.assertNotIn("/etc/", result.stderr.split("<sandbox_violations>")[1])

    def test_a_flood_of_refusals_is_counted(self):
        program = """
import os
for i in range(20000):
    try: os.mkdir('.vscode')
    except OSError: pass
raise SystemExit(3)
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, r"\.vscode.*\(\d{4,} times\)")

    def test_death_of_the_warden_ends_the_sandbox(self):
        settings = self.settings()
        self.own()
        with subprocess.Popen([self.launch, "-s", settings, "--egress", "none", "/bin/sh", "-c",
                               "mkdir one; echo up; sleep 60"], cwd=self.work, env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              **self.popen_args()) as process:
            self.assertEqual(process.stdout.readline(), "up\n")
            wardens = [int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))
                       if parent_and_comm(pid) == (process.pid, "srt-warden")]
            self.assertEqual(len(wardens), 1)
            os.kill(wardens[0], signal.SIGKILL)
            self.assertEqual(process.wait(20), 125)


def parent_and_comm(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            text = f.read()
        return int(text.rsplit(")", 1)[1].split()[1]), text[text.index("(") + 1:text.rindex(")")]
    except OSError:
        return None


class Work(Fence):
    """Programs that use all this hard, with the warden on."""

    def test_git(self):
        if not os.path.exists("/usr/bin/git"):
            self.skipTest("no git")
        self.own()
        env = self.environment(GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@x", GIT_COMMITTER_NAME="a",
                               GIT_COMMITTER_EMAIL="a@x")
        subprocess.run(["git", "init", "-q", "."], cwd=self.work, env=env, check=True, **self.popen_args())
        result = self.sh("set -e; echo 1 > a; git add a; git commit -qm one; git checkout -q -b two; echo 2 > a;"
                         "git commit -qam two; git checkout -q -; git merge -q two; git log --oneline | wc -l;"
                         "git gc -q; git stash list; rm a; git checkout a; cat a; git status --short", env=env)
        self.assertRan(result)
        self.assertEqual(result.stdout, "2\n2\n")
        self.assertNotEqual(self.sh("git config user.name evil", env=env).returncode, 0)

    def test_sqlite(self):
        program = """
import sqlite3
d = sqlite3.connect('x.db')
d.execute('pragma journal_mode=wal')
d.execute('create table t(a)')
for i in range(200):
    d.execute('insert into t values(?)', (i,))
    d.commit()
print(sqlite3.connect('x.db').execute('select count(*) from t').fetchone())
"""
        result = self.run_in("/usr/bin/env", "python3", "-c", program)
        self.assertEqual(result.stdout, "(200,)\n", result.stderr)

    def test_parallel_make(self):
        self.write("Makefile", ".PHONY: all\nall: $(addsuffix .o,$(shell seq 40))\n\t@true\n%.o:\n\t@echo $* > $@.tmp; mv $@.tmp $@\n")
        self.assertRan(self.run_in("make", "-j8"))
        self.assertEqual(len([n for n in os.listdir(self.work) if n.endswith(".o")]), 40)

    def test_python_venv(self):
        result = self.run_in("/usr/bin/python3", "-m", "venv", "--without-pip", "v")
        self.assertRan(result)
        self.assertTrue(os.path.exists(os.path.join(self.work, "v/bin/python")))


class Places(Fence):
    def test_F24_tmpdir(self):
        for given in (None, "/nonexistent", "/etc"):
            result = self.sh("echo $TMPDIR $TMP $TEMP; stat -c %a $TMPDIR; mktemp; python3 -c "
                             "'import tempfile; print(tempfile.mkdtemp())'", env=self.environment(TMPDIR=given))
            self.assertRan(result)
            lines = result.stdout.split()
            self.assertEqual(lines[0:3], [lines[0]] * 3)
            self.assertEqual(lines[3], "700")
            self.assertFalse(os.path.exists(lines[0]))
            self.assertTrue(lines[4].startswith(lines[0]) and lines[5].startswith(lines[0]), lines)

    def test_F24_own_tmpdir_is_kept_where_it_is_writable(self):
        os.mkdir(os.path.join(self.work, "t"))
        env = self.environment(TMPDIR=os.path.join(self.work, "t"))
        self.assertEqual(self.sh("dirname $(mktemp)", env=env).stdout.strip(), env["TMPDIR"])

    def test_F41_working_directories(self):
        hidden = os.path.join(self.top, "hidden")
        os.mkdir(hidden)
        self.filesystem.update(denyRead=[hidden], allowWrite=[])
        for cwd in ("/", self.home, self.work):
            self.assertEqual(self.run_in("/bin/pwd", cwd=cwd).stdout.strip(), cwd)
        result = self.run_in("/bin/pwd", cwd=hidden)
        self.assertEqual(result.returncode, 125)
        self.assertIn("filesystem.denyRead[0]", result.stderr)

    def test_F41_a_working_directory_that_the_sandbox_has_none_of(self):
        outside = tempfile.mkdtemp(prefix="srt-", dir="/dev/shm")
        self.addCleanup(os.rmdir, outside)
        self.own(outside)
        for options in ((), ("--dry-run",)):
            result = self.run_in("/bin/pwd", options=options, cwd=outside)
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn(f"the working directory {outside} is not in the sandbox, which has a /dev of its own",
                          result.stderr)

    def test_entries_for_what_the_sandboxs_dev_has_not_are_said(self):
        outside = tempfile.mkdtemp(prefix="srt-", dir="/dev/shm")
        self.addCleanup(os.rmdir, outside)
        self.own(outside)
        self.filesystem.update(allowWrite=["/dev/null", "/dev/shm", outside, "/dev/stderr"], allowRead=[outside])
        result = self.assertRan(self.sh(f"test ! -e {outside} && touch /dev/shm/x && echo > /dev/null && mktemp",
                                        env=self.environment(TMPDIR=outside)))
        self.assertEqual(result.stderr.count("the sandbox has a /dev of its own, so the entry gives nothing"), 2)
        for entry in ("filesystem.allowWrite[2]", "filesystem.allowRead[0]"):
            self.assertIn(f"{entry}: the sandbox has a /dev", result.stderr)
        self.assertNotIn(outside, self.run_in("true", options=("--dry-run",)).stdout)

    def test_U14_explain_path_knows_the_sandboxs_dev(self):
        said = self.run_plain("explain-path", "--settings", self.settings(), "/dev/null", "/dev/shm/x", "/dev/kmsg",
                              "/dev/ptmx", "/dev/new").stdout.splitlines()
        there = "readable: yes (default: the sandbox's own /dev); writable: yes (default: the sandbox's own /dev)"
        for line in (said[0], said[1], said[3]):
            self.assertIn(there, line)
        for line in (said[2], said[4]):
            self.assertRegex(line, r"readable: no \(default: not in .*; writable: no \(default: not in ")
        self.filesystem.update(denyRead=["/dev/zero"], denyWrite=["/dev/null"])
        said = self.run_plain("explain-path", "--settings", self.settings(), "/dev/zero", "/dev/null").stdout
        self.assertIn("/dev/zero: readable: no (filesystem.denyRead[0])", said)
        self.assertIn("/dev/null: readable: yes (default); writable: no (filesystem.denyWrite[0])", said)

    def test_F23_small_dev(self):
        result = self.sh(": > /dev/null; head -c1 /dev/urandom | wc -c; find /dev -type b; touch /dev/x;"
                         "python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'; ls /dev")
        lines = result.stdout.split()
        self.assertEqual(lines[0], "1")
        self.assertTrue(lines[1].startswith("/dev/pts/"))
        self.assertTrue({"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "fd"} <= set(lines))
        self.assertNotIn("x", lines)

    def test_terminals_made_inside_are_those_of_their_sessions(self):
        result = self.run_in("python3", "-c", "import pty; pty.spawn(['/bin/sh', '-c', 'echo one > /dev/tty;"
                             " exec 3<>/dev/tty; echo two >&3; echo three > /dev/stdout; tty'])")
        self.assertEqual(result.stdout.split(), ["one", "two", "three", "/dev/pts/0"], result.stderr)
        result = self.run_in("setsid", "-w", "/bin/sh", "-c", "true > /dev/tty || echo none")
        self.assertEqual(result.stdout, "none\n")

    def test_F19_many_masks(self):
        for i in range(1000):
            self.write(f"d/{i}.env", "secret")
        for i in range(60):
            self.write(f"repos/{i}/.git/hooks/x")
            self.write(f"repos/{i}/.git/config")
        self.filesystem["denyRead"] = ["d/*.env"]
        result = self.sh("cat d/7.env d/999.env; echo x >> repos/59/.git/config; true")
        self.assertRan(result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("Permission denied"), 2)

    def test_F19_three_hundred_repositories_and_hundreds_of_hidden_files(self):
        for i in range(300):
            self.write(f"repos/{i}/.git/hooks/pre-commit", "old")
            self.write(f"repos/{i}/.git/config", "old")
            self.write(f"repos/{i}/.git/HEAD", "ref: refs/heads/main\n")
            self.write(f"repos/{i}/.env", "secret")
        self.filesystem["denyRead"] = ["**/.env", *[f"~/secrets/{i}" for i in range(400)]]
        for i in range(0, 400, 2):
            os.makedirs(os.path.join(self.home, f"secrets/{i}"))
            self.own(self.home)
        with open(os.path.join(self.home, "secrets/398/key"), "w") as f:
            f.write("secret")
        result = self.attack("for i in 0 7 299; do cat repos/$i/.env; echo x >> repos/$i/.git/config; echo x > repos/$i/.git/hooks/pre-commit;"
                             " rn repos/$i/.git repos/$i/git; done; cat ~/secrets/398/key; ls ~/secrets/398; echo x > ~/secrets/399; echo end")
        self.assertEqual(result.stdout, "end\n", result.stderr)
        self.assertEqual(self.assertRan(self.run_in("/bin/true")).stderr, "")

    def test_F20_very_many_directories(self):
        for i in range(40):
            for j in range(500):
                os.makedirs(os.path.join(self.work, f"{i}/{j}"))
        self.write("39/499/.bashrc")
        began = time.monotonic()
        result = self.sh("echo x >> 39/499/.bashrc; rn 39 y; true")
        self.assertLess(time.monotonic() - began, 30)  # a machine may be busy; bench/fence has the figures
        self.assertRan(result)
        self.assertEqual(result.stderr.count("annot create") + result.stderr.count("busy"), 2, result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "mounts need root")
    def test_F27_container_that_covers_parts_of_proc(self):
        """As docker does, in a mount namespace of its own."""
        settings = self.settings()
        self.own()
        secret = subprocess.Popen(["sleep", "60"], env={"SECRET": "of-the-host"}, **self.popen_args())
        self.addCleanup(secret.wait)
        self.addCleanup(secret.kill)
        drop = f"setpriv --reuid {self.account.pw_uid} --regid {self.account.pw_gid} --clear-groups" \
            if self.account else "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
        look = (f"kill -0 {secret.pid} && echo KILLED; cat /proc/{secret.pid}/environ && echo READ;"
                f"ls /proc/{secret.pid}/root/ && echo ROOT; echo end")

        def contained(path, *options):
            return subprocess.run(
                ["unshare", "-m", "/bin/sh", "-c", "mount -t tmpfs -o ro x /proc/acpi || mount -t tmpfs -o ro x /proc/scsi"
                 f" || mount -t tmpfs -o ro x /proc/irq; {drop} {self.launch} -s {path} --egress none {' '.join(options)}"
                 f" -- /bin/sh -c '{look}'"], cwd=self.work, env=self.environment(), capture_output=True, text=True,
                timeout=60)
        result = contained(settings)
        if result.returncode == 125:
            self.assertIn("systempaths=unconfined", result.stderr)
            self.assertEqual(result.stdout, "")
        self.more = {"enableWeakerNestedSandbox": True}
        weaker = contained(self.settings())
        self.assertIn("enableWeakerNestedSandbox", weaker.stderr)
        for run in (result, weaker):
            self.assertIn(run.stdout, ("", "end\n"), run.stderr)
        self.assertEqual(weaker.stdout, "end\n", weaker.stderr)

    def test_setup_fault_names_the_setting(self):
        os.symlink("loop2", os.path.join(self.work, "loop1"))
        os.symlink("loop1", os.path.join(self.work, "loop2"))
        self.filesystem["denyRead"] = ["fine", "loop1"]
        result = self.run_in("/usr/bin/touch", "ran")
        self.assertEqual(result.returncode, 125)
        self.assertIn("filesystem.denyRead[1]", result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "ran")))

    def test_U14_explain_path_answers_as_the_kernel_does(self):
        for name in ("a", "s/x", "s/ok/y", "r/z", ".bashrc", "d/.git/hooks/h"):
            self.write(name)
        self.filesystem.update(denyRead=["s"], allowRead=["s/ok"], denyWrite=["r"])
        paths = ["a", "s/x", "s/ok/y", "r/z", ".bashrc", "d/.git/hooks/h", "/etc/passwd"]
        said = self.run_plain("explain-path", "--settings", self.settings(), *paths).stdout.splitlines()
        self.assertEqual(len(said), len(paths))
        for path, line in zip(paths, said):
            real = self.sh(f"cat {path} >/dev/null && echo r; true >> {path} && echo w").stdout.split()
            self.assertTrue(line.startswith(f"{path}: readable: {'yes' if 'r' in real else 'no'} ("), line)
            self.assertIn(f"; writable: {'yes' if 'w' in real else 'no'} (", line)
        self.assertIn("readable: no (filesystem.denyRead[0])", said[1])
        self.assertIn("writable: no (filesystem.denyWrite[0])", said[3])
        self.assertIn("writable: no (protected: shell start-up file)", said[4])
        self.assertIn("readable: yes (default); writable: no (default)", said[6])

    def test_where_nothing_can_be_written_nothing_is_searched_for_protected_names(self):
        """As allowWrite may match much and denyWrite take most of it away: what decides about a protected name there is the denial."""
        self.filesystem = {"allowWrite": ["denied", "in/denied", "open"], "denyWrite": ["denied", "in"], "denyRead": []}
        paths = [self.write(f"{name}/.bashrc") for name in ("denied", "in/denied", "open")]
        said = self.run_plain("explain-path", "--settings", self.settings(), *paths).stdout.splitlines()
        self.assertEqual([line.split("writable: ")[1] for line in said],
                         ["no (filesystem.denyWrite[0])", "no (filesystem.denyWrite[1])", "no (protected: shell start-up file)"])
        self.sh("for d in denied in/denied open; do echo x >> $d/.bashrc; mkdir $d/.git; done")
        for path in paths:
            with open(path) as file:
                self.assertEqual(file.read(), "x\n")
        self.assertEqual([os.path.isdir(os.path.join(os.path.dirname(path), ".git")) for path in paths], [False, False, True])

    def test_U14_explain_path_has_a_line_for_every_path_and_changes_nothing(self):
        os.symlink("loop", os.path.join(self.work, "loop"))
        self.filesystem.update(denyRead=["."], allowWrite=[])
        self.more["launch"] = {"violations": "violations.jsonl"}
        paths = ["loop", "loop/x", "", "new\nline", "x" * 300, "tab\there"]
        settings = self.settings()
        result = self.run_plain("explain-path", "--settings", settings, *paths)
        said = self.assertRan(result).stdout.splitlines()
        self.assertEqual(len(said), len(paths), said)
        self.assertEqual(result.stderr, "")
        self.assertRegex(said[0], r"loop: readable: no \(.*too many symbolic links\); writable: no \(.*links\)$")
        self.assertTrue(said[2].startswith(": readable: no (the path is empty); writable: no ("), said[2])
        self.assertTrue(said[3].startswith(r"new\x0aline: readable: no (filesystem.denyRead[0])"), said[3])
        self.assertTrue(said[5].startswith(r"tab\x09here: "), said[5])
        self.assertEqual(os.listdir(self.work), ["loop"])


both(globals(), Reads, Writes, Creation, Work, Places)

if __name__ == "__main__":
    unittest.main()
