"""The filesystem fence of srt-launch, from inside: cases F* of the launcher."""
import os
import subprocess
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

    def test_F22_older_hard_link_is_warned_about(self):
        os.link(self.write("x"), os.path.join(self.work, "y"))
        self.filesystem["denyRead"] = ["x"]
        self.assertIn("hard links", self.sh("true").stderr)

    def test_F34_link_in_the_path_of_a_rule(self):
        self.write("real/s", "secret")
        os.symlink("real", os.path.join(self.work, "lnk"))
        for name in ("lnk/s", "real/s"):
            self.filesystem["denyRead"] = [name]
            self.assertEqual(self.sh("cat real/s lnk/s").stdout, "")

    def test_F37_any_bytes_in_paths(self):
        for name in ("a b", "q'\"", "new\nline", "back\\slash", "-dash", "$HOME", "~user", "dots..", "*"):
            path = self.write(name + "/f", "secret")
            self.filesystem["denyRead"] = [{"path": os.path.dirname(path) + "//./", "literal": True}]
            result = self.run_in("/bin/cat", "--", path)
            self.assertEqual((result.stdout, result.returncode), ("", 1), repr(name) + result.stderr)

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

    def test_F05_ancestor_of_a_guard_cannot_be_moved(self):
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
        self.assertRan(self.sh("true"))

    def test_F01_protected_names_that_are_absent_leave_nothing(self):
        for command in ("true", "exit 1", "kill -9 $$"):
            self.attack(command)

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
        self.write(".git/hooks/x")
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

    def test_F17_single_file(self):
        self.write("f")
        self.write("g")
        self.filesystem["allowWrite"] = ["f", "missing"]
        result = self.sh("echo more >> f; echo more >> g; touch missing; touch t; cat f")
        self.assertEqual(result.stdout, "x\nmore\n")
        self.assertEqual(sorted(os.listdir(self.work)), ["f", "g"])

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

    def test_F03_new_protected_names_do_not_pass_unseen(self):
        result = self.sh("mkdir -p n/.git/hooks; echo x > n/.git/hooks/pre-commit; echo x > .bashrc; true")
        left = [n for n in (".bashrc", "n/.git/hooks") if os.path.exists(os.path.join(self.work, n))]
        for name in left:
            self.assertIn(os.path.join(self.work, name), result.stderr)

    def test_F22_new_hard_links_over_the_wall_fail(self):
        self.write(".bashrc")
        self.write("../home/f")
        result = self.attack("ln .bashrc l; ln $HOME/f l; true")
        self.assertEqual(result.stderr.count("Invalid cross-device link"), 2)

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

    def test_F23_small_dev(self):
        result = self.sh(": > /dev/null; head -c1 /dev/urandom | wc -c; find /dev -type b; touch /dev/x;"
                         "python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'; ls /dev")
        lines = result.stdout.split()
        self.assertEqual(lines[0], "1")
        self.assertTrue(lines[1].startswith("/dev/pts/"))
        self.assertTrue({"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "fd"} <= set(lines))
        self.assertNotIn("x", lines)

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


both(globals(), Reads, Writes, Places)

if __name__ == "__main__":
    unittest.main()
