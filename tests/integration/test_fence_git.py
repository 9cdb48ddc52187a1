"""git inside the fence: what it does works, and nothing that git outside would run or obey comes to be."""
import json
import os
import shutil
import subprocess
import unittest

from fence import Fence, both

GIT = "/usr/bin/git"


class Git(Fence):
    def setUp(self):
        super().setUp()
        if not os.path.exists(GIT):
            self.skipTest("no git")

    def environment(self, **changes):
        people = {f"GIT_{who}_{what}": "a@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return super().environment(**{**people, **changes})

    def git(self, *words, cwd=None):
        """As somebody outside."""
        self.own()
        return subprocess.run([GIT, *words], cwd=cwd or self.work, env=self.environment(), check=True,
                              capture_output=True, text=True, **self.popen_args()).stdout

    def repository(self, name):
        path = os.path.join(self.work, name)
        os.makedirs(path, exist_ok=True)
        self.git("init", "-q", cwd=path)
        self.write(f"{name}/f", "1\n")
        self.git("add", "f", cwd=path)
        self.git("commit", "-qm", "one", cwd=path)
        return path

    def read(self, name):
        with open(os.path.join(self.work, name)) as f:
            return f.read()

    def assert_holds_against(self, program, name):
        """The C program races what it may do and says "held"; git's own door is only for callers named git."""
        source, binary = os.path.join(self.top, "race.c"), os.path.join(self.top, name)
        with open(source, "w") as f:
            f.write(program)
        if subprocess.run(["cc", "-O1", "-w", "-pthread", "-o", binary, source]).returncode != 0:
            self.skipTest("no compiler")
        result = self.run_in(binary)
        self.assertEqual(result.stdout, "held\n", result.stderr[-500:])


class NewRepositories(Git):
    def test_F03_init_and_clone_make_whole_repositories(self):
        result = self.sh("set -e; git init -q a; cd a; git config user.name me; echo 1 > f; git add f;"
                         "git commit -qm one; git remote add up https://h.test/x.git; cd ..; git clone -q a b; cd b;"
                         "git pull -q; git branch -q --track two origin/HEAD; git checkout -q two; git gc -q;"
                         "git status --short; ls .git/hooks | grep -vc sample || :")
        self.assertRan(result)
        self.assertEqual((result.stdout, result.stderr), ("0\n", ""))
        # As git makes them without a fence.
        plain = os.path.join(self.top, "plain")
        self.git("clone", "-q", "a", plain)
        self.assertEqual(self.read("b/.git/config").replace("two", "master").count("[branch"), 2)
        for key in ("core.filemode", "core.bare", "remote.origin.fetch", "core.logallrefupdates"):
            self.assertEqual(self.git("config", key, cwd=os.path.join(self.work, "b")), self.git("config", key, cwd=plain))
        self.assertEqual(sorted(os.listdir(os.path.join(self.work, "b/.git/hooks"))),
                         sorted(os.listdir(os.path.join(plain, ".git/hooks"))))
        self.assertFalse(os.path.exists(os.path.join(self.work, "b/.git/config.lock")))
        self.assertEqual(self.git("config", "remote.up.url", cwd=os.path.join(self.work, "a")), "https://h.test/x.git\n")

    def test_new_repositories_can_be_moved_and_removed(self):
        self.assertRan(self.sh("set -e; git init -q a; mv a b; git -C b status; mkdir c; mv b/.git c; rm -rf b c; git init -q d"))
        self.assertEqual(os.listdir(self.work), ["d"])

    def test_F03_what_git_would_run_is_refused_by_name(self):
        result = self.sh("git init -q a; cd a; for k in core.hooksPath core.fsmonitor core.sshCommand alias.x core.pager"
                         " filter.x.clean include.path credential.helper core.worktree remote.o.uploadpack"
                         " url.x.insteadOf; do git config $k /tmp/x 2>/dev/null && echo SET $k; done;"
                         "git remote add o 'ext::sh -c x' 2>/dev/null && echo EXT;"
                         "for f in config hooks/pre-commit config.worktree commondir info/attributes hooks/x.sample/y"
                         " .srt-new-1; do echo '[core] fsmonitor = x' >> .git/$f && echo WROTE $f;"
                         " cp /etc/passwd .git/$f && echo COPIED $f; ln -s /etc/passwd .git/$f && echo LINKED $f;"
                         " mkdir .git/$f && echo MADE $f; done 2>/dev/null;"
                         "mv .git/hooks/update.sample .git/hooks/update; ln .git/hooks/update.sample .git/hooks/update;"
                         "mv .git/hooks h && mv .git/config c && echo MOVED; cat .git/config; exit 1")
        self.assertEqual(result.stdout, self.read("a/.git/config"), result.stderr)
        self.assertNotIn("fsmonitor", result.stdout)
        self.assertFalse([n for n in os.listdir(os.path.join(self.work, "a/.git/hooks")) if not n.endswith(".sample")])
        for text in ("protected: git configuration: core.hookspath)", "core.fsmonitor)", "alias.x)"):
            self.assertIn(text, result.stderr)

    def test_repositories_prepared_elsewhere_are_not_moved_in(self):
        result = self.sh("prepare() { rm -rf $1; mkdir -p $1/objects $1/refs $1/hooks; echo ref: refs/heads/m > $1/HEAD;"
                         " printf '[core]\\n fsmonitor=x\\n' > $1/config; echo x > $1/hooks/pre-commit; };"
                         "prepare evil; mkdir a; rn evil a/.git && echo MOVED; rm evil/config; rn evil a/.git && echo HOOKS;"
                         "prepare evil; rm -r evil/hooks; rn evil a/.git && echo CONFIG;"
                         "prepare evil; echo ../evil > a/.git/commondir; echo 'gitdir: ../evil' > a/.git && echo FILE;"
                         "ln -s ../evil a/.git && echo LINK; mkdir a/.git; rn evil/config a/.git/config && echo RENAMED;"
                         "ln evil/config a/.git/config && echo HARD; rn evil/hooks a/.git/hooks && echo MOVED HOOKS;"
                         # Out, changed and in again.
                         "git init -q b; mv b/.git x && echo x > x/hooks/pre-commit && rn x b/.git && echo AGAIN;"
                         "printf '[core]\\n fsmonitor=x\\n' > x/config; rm x/hooks/pre-commit; rn x b/.git && echo CHANGED;"
                         "git init -q c; rn x c/.git/modules && echo MODULES; git -C c status --short; true")
        self.assertEqual(result.stdout, "", result.stderr)

    def test_cargos_empty_configuration_stays_empty(self):
        """Who calls itself cargo may make one where there is none; to write into it is not for anybody."""
        result = self.sh("mkdir -p new/.git old/.git; cp /bin/dd cargo; printf '[core]\\nfsmonitor = x\\n' > in; chmod 755 cargo;"
                         "for i in 1 2; do ./cargo if=in of=new/.git/config 2>/dev/null && echo WROTE; done;"
                         "dd if=in of=other/.git/config 2>/dev/null && echo WROTE; mkdir -p other/.git; dd if=in of=other/.git/config 2>/dev/null && echo WROTE;"
                         "./cargo if=in of=other/.git/hooks 2>/dev/null && echo WROTE; cat new/.git/config; ls -A other/.git; echo done")
        self.assertEqual(result.stdout, "done\n", result.stderr)

    def test_existing_repositories_stay_as_they_are(self):
        self.repository("old")
        before = self.read("old/.git/config")
        os.rename(os.path.join(self.work, "old/.git/hooks"), os.path.join(self.top, "hooks"))
        result = self.sh("cd old; git config user.name x && echo SET; mkdir .git/hooks && echo HOOKS;"
                         "mkdir -p ../evil/objects ../evil/refs; cp .git/HEAD ../evil; echo '[core]' > ../evil/config;"
                         "echo ../../evil > .git/commondir && echo COMMON; rn .git/config x && echo MOVED; git status --short")
        self.assertEqual(result.stdout, "", result.stderr)
        self.assertEqual(self.read("old/.git/config"), before)

    def test_racing_threads_never_change_a_judged_configuration(self):
        """Swapped strings, links, FIFOs, held descriptors and hard links of the file that is renamed."""
        program = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static const char good[] = "[core]\n\tbare = false\n", evil[] = "[core]\n\tfsmonitor = x\n";
static const char *const pair[2] = {"/dev/null", "r/.git/config"};
static char name[32] = "/dev/null";
static volatile int stop;
static int held = -1;
static char *map;
static void *strings(void *x) {
    for (unsigned i = 0; !stop; i++) memcpy(name, pair[i & 1], strlen(pair[i & 1]) + 1);
    return x;
}
static void *links(void *x) {
    while (!stop) {
        unlink("way"); mkfifo("way", 0644); unlink("way"); symlink("r/.git/config", "way");
        unlink("way"); symlink("/dev/null", "way");
    }
    return x;
}
static void *writers(void *x) {
    while (!stop) { pwrite(held, evil, sizeof(evil) - 1, 0); memcpy(map, evil, sizeof(evil) - 1);
                    pwrite(held, good, sizeof(good) - 1, 0); ftruncate(held, sizeof(good) - 1); }
    return x;
}
static void *locks(void *x) {
    while (!stop) {
        int fd = open("lock", O_CREAT | O_RDWR | O_TRUNC, 0644);
        write(fd, good, sizeof(good) - 1);
        link("lock", "other"); 
        rename("lock", "r/.git/config");
        pwrite(fd, evil, sizeof(evil) - 1, 0); close(fd);
        fd = open("other", O_WRONLY); pwrite(fd, evil, sizeof(evil) - 1, 0); close(fd);
        unlink("other"); link("held", "lock2"); rename("lock2", "r/.git/config");
        rename("evil", "r/.git/config"); unlink("r/.git/.srt-new-1");
        fd = open("r/.git/.srt-new-1", O_CREAT | O_WRONLY, 0644); write(fd, evil, sizeof(evil) - 1); close(fd);
    }
    return x;
}
int main(void) {
    void *(*const all[])(void *) = {strings, links, writers, locks};
    pthread_t t[4];
    mkdir("r", 0755); mkdir("r/.git", 0755);
    int fd = open("evil", O_CREAT | O_WRONLY, 0644);
    write(fd, evil, sizeof(evil) - 1); close(fd);
    held = open("held", O_CREAT | O_RDWR, 0644);
    write(held, evil, sizeof(evil));
    map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, held, 0);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, all[i], 0);
    time_t end = time(0) + 4;
    long seen = 0;
    char text[256];
    while (time(0) < end) {
        static const char *const paths[] = {name, "way"};
        for (int i = 0; i < 2; i++) {
            int out = open(paths[i], O_WRONLY | O_NONBLOCK);
            if (out >= 0) { write(out, evil, sizeof(evil) - 1); close(out); }
            out = open(paths[i], O_RDWR | O_CREAT | O_NONBLOCK, 0644);
            if (out >= 0) { pwrite(out, evil, sizeof(evil) - 1, 0); close(out); }
            truncate(paths[i], 7);
        }
        int in = open("r/.git/config", O_RDONLY);
        ssize_t len = in < 0 ? -1 : read(in, text, sizeof(text) - 1);
        if (len >= 0) {
            text[len] = 0; seen++;
            if (strstr(text, "fsmonitor") != NULL) { puts(text); break; }
            if (len < 20) { puts("cut"); break; }
        }
        if (in >= 0) close(in);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    puts(seen > 0 ? "held" : "never there");
    return 0;
}
"""
        self.assert_holds_against(program, "race")

    def test_look_alikes_are_reported_when_git_would_obey_them(self):
        result = self.sh("git init -q --bare fine.git; mkdir -p x/objects x/refs; echo ref: refs/heads/m > x/HEAD;"
                         "printf '[core]\\n fsmonitor=x\\n' > x/config;"
                         "git init -q --bare y.git; echo x > y.git/hooks/post-update")
        self.assertRan(result)
        self.assertIn(f"{self.work}/x ", result.stderr)
        self.assertIn("core.fsmonitor", result.stderr)
        self.assertIn(f"{self.work}/y.git ", result.stderr)
        self.assertNotIn("fine.git", result.stderr)


class Configured(Git):
    """What the configuration of repositories that are there already names."""

    def test_core_hooksPath_is_guarded_wherever_it_leads(self):
        top = self.repository("r")
        absolute, own = os.path.join(self.work, "absolute"), os.path.join(self.home, "own")
        for name in ("r/tools/hooks/pre-commit", "absolute/pre-commit", "../home/own/pre-commit"):
            self.write(name)
        # The last one that is set is in force, and which one that is depends on conditions.
        for value in ("tools/hooks", absolute, "~/own", "absent"):
            self.git("config", "--add", "core.hooksPath", value, cwd=top)
        self.filesystem["allowWrite"] = [".", self.home]
        result = self.attack(f"for d in r/tools/hooks {absolute} {own} r/absent; do mkdir -p $d; echo x > $d/pre-push;"
                             " echo x >> $d/pre-commit; rm -f $d/pre-commit; rn $d $d.old; done; rn r/tools t;true")
        self.assertEqual(result.stdout, "")
        result = self.run_plain("explain-path", "--settings", self.settings(), "r/tools/hooks/x")
        self.assertIn("writable: no (protected: git hooks)", result.stdout)

    def test_core_hooksPath_of_the_user_counts_in_every_repository(self):
        for name in ("a/.githooks/pre-commit", "deep/down/b/.githooks/pre-commit"):
            self.write(name)
        self.repository("a")
        self.repository("deep/down/b")
        self.write("../home/.gitconfig", "[include]\n\tpath = more.inc\n")
        self.write("../home/more.inc", "[core]\n\thooksPath = .githooks\n")
        self.attack("echo x >> a/.githooks/pre-commit; echo x > deep/down/b/.githooks/pre-push; rn a/.githooks x; true")

    def test_files_that_are_included_are_guarded(self):
        self.repository("r")
        self.write("r/team.inc", "[core]\n\thooksPath = team-hooks\n[include]\n\tpath = ../r/again.inc\n")
        self.write("r/team-hooks/x")
        self.git("config", "include.path", "../team.inc", cwd=os.path.join(self.work, "r"))
        self.git("config", "includeIf.gitdir:/nowhere/.path", "../if.inc", cwd=os.path.join(self.work, "r"))
        self.attack("cd r; for f in team.inc if.inc again.inc team-hooks/x team-hooks/y; do echo x >> $f; rm -f $f;"
                    " echo x > new; rn new $f; rm -f new; done; true")

    def test_repository_above_the_writable_root(self):
        self.repository("r")
        self.write("r/sub/hooks/x")
        self.git("config", "core.hooksPath", "sub/hooks", cwd=os.path.join(self.work, "r"))
        self.filesystem["allowWrite"] = ["r/sub"]
        self.attack("echo x >> r/sub/hooks/x; rn r/sub/hooks r/sub/h; true")

    def test_configurations_that_are_no_files_stop_nothing(self):
        self.repository("r")
        config = os.path.join(self.work, "r/.git/config")
        os.unlink(config)
        os.mkfifo(config)
        self.write("s/.git/HEAD")
        self.write("s/.git/config", "[core\n" + "x" * 100000)
        self.write("t/.git", "gitdir: ../t/.git\n")
        self.write("u/.git", "gitdir: " + "a/" * 5000)
        self.assertRan(self.sh("echo x > new"))

    def linked(self):
        """A repository outside the writable root, and a linked worktree of it that is the root."""
        main, tree = os.path.join(self.top, "main"), os.path.join(self.work, "tree")
        os.rename(self.repository("m"), main)
        self.git("worktree", "add", "-q", tree, "-b", "b", cwd=main)
        self.filesystem["allowWrite"] = ["."]
        return main, tree

    def test_F10_linked_worktree_says_what_it_needs(self):
        main, tree = self.linked()
        result = self.sh("echo 2 > f; git commit -qam two", cwd=tree)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f'the repository of the work tree {tree}; {{"filesystem": {{"allowWrite": ["{main}/.git"]}}}}',
                      result.stderr)

    def test_F10_directory_in_a_work_tree_says_what_it_needs(self):
        main, _ = self.linked()
        inner = os.path.join(main, "packages/one")
        os.makedirs(inner)
        self.own()
        result = self.sh("touch f; git add f", cwd=inner)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f'the repository of the work tree {main}; {{"filesystem": {{"allowWrite": ["{main}/.git"]}}}}', result.stderr)
        self.filesystem["allowWrite"] = [".", f"{main}/.git"]
        self.assertRan(self.sh("git add f; git commit -qm two; echo x 2>/dev/null > ../../.git/hooks/pre-commit && exit 7; true", cwd=inner))

    def test_F10_linked_worktree_works_when_its_repository_is_allowed(self):
        main, tree = self.linked()
        self.filesystem["allowWrite"] = [".", f"{main}/.git"]
        result = self.sh("set -e; echo 2 > f; git add f; git commit -qm two; git log --oneline | wc -l; git status --short;"
                         "git gc -q; git branch more", cwd=tree)
        self.assertRan(result)
        self.assertEqual(result.stdout, "2\n")
        self.own()
        self.git("config", "--file", f"{main}/.git/info/attributes", "a.b", "c")
        before = {n: open(f"{main}/.git/{n}", "rb").read() for n in ("config", "info/attributes")}
        result = self.sh(f"cd {main}/.git; for f in config info/attributes hooks/pre-commit config.worktree commondir"
                         " worktrees/tree/config.worktree worktrees/tree/commondir worktrees/tree/hooks/x; do"
                         "  echo x >> $f && echo WROTE $f; rm -f $f; echo x > new; rn new $f && echo MOVED $f; done;"
                         f" rn hooks h && echo HOOKS; rm -f new; git config core.fsmonitor x && echo SET; cd {tree};"
                         " echo 'gitdir: x' > .git && echo LINK; git status --short", cwd=tree)
        self.assertEqual(result.stdout, "", result.stderr)
        self.assertEqual(before, {n: open(f"{main}/.git/{n}", "rb").read() for n in before})
        self.assertFalse([n for n in os.listdir(f"{main}/.git/hooks") if not n.endswith(".sample")])

    def test_git_directory_elsewhere_in_the_root(self):
        self.git("init", "-q", "--separate-git-dir", "store", "r")
        self.git("commit", "-qm", "x", "--allow-empty", cwd=os.path.join(self.work, "r"))
        self.git("worktree", "add", "-q", "../w", cwd=os.path.join(self.work, "r"))
        self.attack("for d in store store/worktrees/w; do for f in config hooks/pre-commit commondir config.worktree"
                    " info/attributes; do echo x >> $d/$f; rn $d/$f x; done; rn $d y; done; true")

    def test_F11_config_of_a_worktree(self):
        self.repository("r")
        self.git("config", "extensions.worktreeConfig", "true", cwd=os.path.join(self.work, "r"))
        for there in (False, True):
            if there:
                self.git("config", "--worktree", "user.name", "me", cwd=os.path.join(self.work, "r"))
            result = self.sh("cd r; git status --short && git config user.name; git config --worktree user.name evil"
                             " && echo SET; true")
            self.assertEqual(result.stdout, "me\n" if there else "", result.stderr)
            self.assertEqual(os.path.exists(os.path.join(self.work, "r/.git/config.worktree")), there)

    def test_worktrees_and_submodules_with_allowGitConfig(self):
        self.repository("r")
        self.repository("lib")
        self.filesystem["allowGitConfig"] = True
        result = self.sh("set -e; cd r; git worktree add -q ../w; cd ../w; echo 2 > f; git commit -qam two; cd ../r;"
                         "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm sub;"
                         "cd ..; git -c protocol.file.allow=always clone -q --recurse-submodules r c; cat c/lib/f;"
                         "echo x > c/.git/hooks/pre-commit || echo refused;"
                         "echo x > c/.git/modules/lib/hooks/pre-commit || echo refused")
        self.assertRan(result)
        self.assertEqual(result.stdout, "1\nrefused\nrefused\n")


class Door(Git):
    """Linked worktrees and submodules without allowGitConfig: git's own writes, and nobody else's."""

    FILES = "git -c protocol.file.allow=always"

    def test_worktrees_of_old_and_new_repositories(self):
        self.repository("old")
        result = self.sh("set -e; git init -q new; cd new; echo 1 > f; git add f; git commit -qm one; cd ..;"
                         "for r in old new; do cd $r; git worktree add -q ../$r-w -b b; cd ../$r-w; echo 2 > f;"
                         " git commit -qam two; git status --short; git log --oneline | wc -l;"
                         " git worktree lock .; git worktree unlock .; cd ../$r; git worktree move ../$r-w ../$r-x;"
                         " git -C ../$r-x status --short; mv ../$r-x ../$r-y; git worktree repair ../$r-y >/dev/null 2>&1;"
                         " git -C ../$r-y log --oneline | wc -l; git worktree add -q ../$r-z; git worktree remove ../$r-z;"
                         " git worktree prune; git worktree list | wc -l; cd ..; done")
        self.assertRan(result)
        self.assertEqual((result.stdout, result.stderr), ("2\n2\n2\n" * 2, ""))
        for name in ("old", "new"):
            gitdir = f"gitdir: {self.work}/{name}/.git/worktrees/{name}-w\n"
            self.assertEqual(self.read(f"{name}-y/.git"), gitdir)
            self.assertEqual(self.read(f"{name}/.git/worktrees/{name}-w/commondir"), "../..\n")
            # git outside goes on with it.
            self.assertEqual(self.git("status", "--short", cwd=os.path.join(self.work, f"{name}-y")), "")
            self.assertEqual(self.git("log", "--format=%s", cwd=os.path.join(self.work, f"{name}-y")), "two\none\n")

    def test_submodules_of_old_and_new_repositories(self):
        self.repository("old")
        self.repository("lib")
        mode = os.stat(os.path.join(self.work, "old/.git/config")).st_mode
        result = self.sh(f"set -e; git init -q new; for r in old new; do cd $r; {self.FILES} submodule --quiet add ../lib lib;"
                         " git commit -qm sub; git submodule status | cut -c1,43-; cd ..; done;"
                         f"{self.FILES} clone -q --recurse-submodules old c; cat c/lib/f; git -C c status --short;"
                         f"git clone -q new d; cd d; {self.FILES} submodule --quiet update --init; cat lib/f;"
                         f"git submodule --quiet deinit -f lib; {self.FILES} submodule --quiet update --init; cd lib;"
                         "git checkout -q -b own; echo 2 > f; git commit -qam two; cd ..; git add lib; git commit -qm moved;"
                         f"git worktree add -q ../dw; cd ../dw; {self.FILES} submodule --quiet update --init 2>&1 || true;"
                         "cd ../d/lib; git worktree add -q ../../libw; git -C ../../libw log --oneline | wc -l")
        self.assertRan(result)
        self.assertEqual(result.stdout.count("lib (heads/master)"), 2, result.stdout)
        self.assertEqual(self.git("config", "submodule.lib.url", cwd=os.path.join(self.work, "old")), f"{self.work}/lib\n")
        self.assertEqual(os.stat(os.path.join(self.work, "old/.git/config")).st_mode, mode)
        for name in ("old", "new", "c", "d"):
            top = os.path.join(self.work, name)
            self.assertEqual(self.read(f"{name}/lib/.git"), "gitdir: ../.git/modules/lib\n")
            self.assertNotIn("worktree", self.read(f"{name}/.git/modules/lib/config"))
            self.assertEqual(self.git("status", "--short", cwd=top), "")
            self.assertEqual(self.git("-C", "lib", "rev-parse", "--show-toplevel", cwd=top), f"{top}/lib\n")
            self.assertFalse([n for n in os.listdir(f"{top}/.git/modules/lib/hooks") if not n.endswith(".sample")])
        self.assertFalse([n for folder, _, names in os.walk(self.work) for n in names if n.startswith(".srt-new")])

    def test_submodules_in_submodules_and_their_changes(self):
        for name in ("inner", "lib"):
            self.repository(name)
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "in/ner",
                 cwd=os.path.join(self.work, "lib"))
        self.git("commit", "-qm", "sub", cwd=os.path.join(self.work, "lib"))
        self.repository("old")
        self.git("branch", "plain", cwd=os.path.join(self.work, "old"))
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../lib", "lib",
                 cwd=os.path.join(self.work, "old"))
        self.git("commit", "-qm", "sub", cwd=os.path.join(self.work, "old"))
        result = self.sh(f"set -e; {self.FILES} clone -q --recurse-submodules old c; cat c/lib/in/ner/f;"
                         # `.gitmodules` that was there at the start goes, comes back, and is changed.
                         "cd old; git checkout -q plain 2>/dev/null; test ! -e .gitmodules; git checkout -q master;"
                         "cat .gitmodules | wc -l; git config -f .gitmodules submodule.lib.branch main; cat .gitmodules | tail -1;"
                         "git checkout -q .gitmodules; git status --short; cd ../c; git mv lib lob 2>&1; cat lob/.git; git status --short;"
                         "git -C lob/in/ner log --oneline | wc -l")
        self.assertRan(result)
        self.assertEqual(result.stdout, "1\n3\n\tbranch = main\ngitdir: ../.git/modules/lib\n"
                                        "M  .gitmodules\nR  lib -> lob\n1\n", result.stderr)

    def test_branches_of_old_repositories_follow_their_remotes(self):
        self.repository("up")
        self.git("branch", "feature", cwd=os.path.join(self.work, "up"))
        self.git("clone", "-q", "up", "r")
        result = self.sh("cd r; git checkout -q feature && git branch -q --track other origin/master &&"
                         " git push -q -u origin HEAD:refs/heads/more && git branch -qD other && git config branch.master.rebase true;"
                         "for k in user.name core.hooksPath core.fsmonitor alias.x remote.o.url remote.origin.url"
                         " remote.origin.pushurl include.path; do git config $k ../up/.git && echo SET $k; done;"
                         "git config branch.feature.remote ../up && echo REMOTE; git config branch.feature.remote nowhere && echo NOWHERE;"
                         "git config --unset remote.origin.fetch && echo UNSET; git remote rename origin x && echo RENAMED;"
                         "cp .git/config new; git config -f new branch.feature.rebase true; rn new .git/config && echo STRANGER;"
                         "echo >> .git/config && echo WROTE; rm -f .git/config && echo GONE; rn .git/config x && echo MOVED;"
                         "ln .git/config x && echo LINKED; chmod 600 .git/config && echo MODE; git status --short | grep -v new; exit 1")
        self.assertEqual(result.stdout, "", result.stderr)
        top = os.path.join(self.work, "r")
        self.assertEqual(self.git("config", "branch.feature.merge", cwd=top), "refs/heads/more\n")
        self.assertEqual(self.git("config", "branch.master.rebase", cwd=top), "true\n")
        self.assertEqual(self.git("config", "--get-regexp", "^(remote|user|core|alias|include)", cwd=top),
                         "core.repositoryformatversion 0\ncore.filemode true\ncore.bare false\ncore.logallrefupdates true\n"
                         f"remote.origin.url {self.work}/up\nremote.origin.fetch +refs/heads/*:refs/remotes/origin/*\n")
        self.assertIn("protected: git configuration: remote.o.url)", result.stderr)

    def test_what_an_old_repository_does_not_take_has_another_way(self):
        """The hint of a refusal names what git does without a change that stays, and that works."""
        self.repository("up")
        self.repository("old")
        result = self.run_in("/bin/sh", "-c", "cd old; for k in remote.o.url user.name core.pager; do git config $k x; done; git config --global user.name x;"
                             "(export GIT_CONFIG_GLOBAL=$TMPDIR/gitconfig; git config --global user.name them && git config user.name);"
                             "unset GIT_AUTHOR_NAME; git fetch -q ../up master && git -c user.name=me -c user.email=m@x -c core.pager=cat commit -q --allow-empty -m m;"
                             "git push -q ../up HEAD:refs/heads/more && git log --format=%an -1",
                             options=("--violations", os.path.join(self.top, "v")))
        self.assertEqual(self.assertRan(result).stdout, "them\nme\n")
        with open(os.path.join(self.top, "v")) as file:
            seen = [json.loads(line) for line in file]
        setting = '{"filesystem": {"allowGitConfig": true}} in the settings'
        for violation, key, ways in zip(seen, ("remote.o.url", "user.name", "core.pager", None),
                                        (("take an address", setting), ("git -c user.name=", "GIT_AUTHOR_NAME", setting), ("git -c KEY=VALUE", setting),
                                         ("git -c KEY=VALUE", "GIT_CONFIG_GLOBAL="))):
            self.assertEqual([way in violation["hint"] for way in ways], [True] * len(ways), violation)
            if key:
                self.assertEqual(violation["message"], f"setting {key} in {self.work}/old/.git/config is not allowed in this sandbox")
        self.assertEqual(len(seen), 4)

    def test_other_programs_get_no_door(self):
        self.repository("old")
        self.write("w/f")
        result = self.attack("D='gitdir: ../old/.git/modules/a'; echo \"$D\" > w/.git && echo SHELL; echo \"$D\" | tee w/.git && echo TEE;"
                             "echo \"$D\" > l; cp l w/.git && echo CP; mv l w/.git && echo MV; ln l w/.git && echo LN; rm -f l;"
                             "echo > .gitmodules && echo MODULES; : > m; rn m .gitmodules && echo MODULES; rm m;"
                             "mkdir -p old/.git/worktrees/a; echo ../.. > old/.git/worktrees/a/commondir && echo COMMON;"
                             "rm -r old/.git/worktrees; true")
        self.assertEqual(result.stdout, "gitdir: ../old/.git/modules/a\n", result.stderr)

    def test_a_link_that_git_made_is_nobodys_to_change(self):
        self.repository("old")
        result = self.sh("cd old; git worktree add -q ../w; cd ../w; F=\"$(cat .git)\"; D=../old/.git/worktrees/w;"
                         "for f in .git $D/commondir; do echo x > $f; echo x >> $f; perl -e 'truncate($ARGV[0], 0)' $f;"
                         " perl -e 'open(F, \"+<\", $ARGV[0]) and print \"OPEN\\n\"' $f; echo x > n; rn n $f; ln -f n $f; cp n $f;"
                         " ln $f other && echo LINKED; done 2>/dev/null;"
                         "for f in config hooks hooks/x.sample config.worktree info/attributes modules/a/config; do"
                         "  mkdir -p $(dirname $D/$f); echo x > $D/$f; done 2>/dev/null;"
                         "rm -f n; test \"$F\" = \"$(cat .git)\" && cat $D/commondir; git status --short")
        self.assertEqual(result.stdout, "../..\n", result.stderr)
        admin = os.path.join(self.work, "old/.git/worktrees/w")
        for name in ("config", "hooks", "config.worktree", "info/attributes", "modules/a/config"):
            self.assertFalse(os.path.exists(os.path.join(admin, name)), name)

    def test_separate_git_directories_are_refused_by_name(self):
        self.repository("old")
        result = self.sh("git init -q --separate-git-dir store r && echo INIT; git clone -q --separate-git-dir at old c && echo CLONE; exit 1")
        self.assertEqual(result.stdout, "")
        self.assertFalse(os.path.exists(os.path.join(self.work, "r/.git")))
        self.assertRegex(result.stderr, "deny create .*/r/.git .protected: git configuration: gitdir has to be")

    def test_modules_of_a_checkout_are_judged(self):
        top = self.repository("up")
        self.write("up/.gitmodules", '[submodule "a"]\n\tpath = a\n\turl = https://h.test/a\n\tbranch = .\n\tother = 1\n')
        self.git("add", ".gitmodules", cwd=top)
        self.git("commit", "-qm", "modules", cwd=top)
        self.assertRan(self.sh("git clone -q up c; git -C c status --short"))
        self.assertEqual(self.read("c/.gitmodules"), self.read("up/.gitmodules"))
        for key, value in (("update", "!x"), ("url", "ext::sh -c x"), ("path", "../a")):
            self.git("config", "-f", ".gitmodules", "submodule.a." + key, value, cwd=top)
            self.git("commit", "-qam", "evil", cwd=top)
            result = self.sh("git clone -q up d; test ! -e d/.gitmodules && exit 1")
            self.assertIn(f"submodule.a.{key})", result.stderr)
            self.git("reset", "-q", "--hard", "HEAD^", cwd=top)
            subprocess.run(["rm", "-rf", os.path.join(self.work, "d")], check=True)

    def test_denyWrite_closes_the_door(self):
        self.repository("old")
        self.write("w/f")
        self.filesystem["denyWrite"] = ["old/.git", "w/.git", "**/.gitmodules"]
        result = self.sh("cd old; git worktree add -q ../x 2>/dev/null && echo ADDED; cd ..; git init -q new; cd new;"
                         f" {self.FILES} submodule add -q ../old lib 2>/dev/null; test ! -e .gitmodules && echo NONE")
        self.assertEqual(result.stdout, "NONE\n", result.stderr)

    def test_few_descriptors(self):
        self.repository("old")
        result = self.sh("ulimit -n 256; cd old; git worktree add -q ../w && echo ADDED; exit 1")
        self.assertEqual(result.stdout, "")
        self.assertIn("descriptors up to 1023 have to be allowed", result.stderr)

    def test_a_pretender_gets_nothing_but_what_is_judged(self):
        """A program called git: descriptors kept, copied, mapped and written to by other threads."""
        self.repository("old")
        program = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static const char good[] = "gitdir: ../old/.git/modules/a\n", evil[] = "gitdir: ../evil/.//.////modules/a\n";
static volatile int stop, shared = -1;
static void *writer(void *x) {
    while (!stop) {
        int fd = shared;
        if (fd < 0) continue;
        pwrite(fd, evil, sizeof(evil) - 1, 0); pwrite(fd, good, sizeof(good) - 1, 0); ftruncate(fd, sizeof(good) - 1);
    }
    return x;
}
static void *mover(void *x) {
    while (!stop) { rename("w", "v"); rename("v", "deep/w"); rename("deep/w", "w"); }
    return x;
}
static void *linker(void *x) {
    while (!stop) {
        link("w/.git", "other"); int fd = open("other", O_WRONLY); write(fd, evil, sizeof(evil) - 1); close(fd); unlink("other");
        fd = open("w/.git", O_WRONLY); if (fd >= 0) { puts("opened"); stop = 1; }
        rename("evil.txt", "w/.git"); truncate("w/.git", 0); fd = open("w/.srt-new-1", O_CREAT | O_WRONLY, 0644); close(fd);
    }
    return x;
}
static int check(const char *path) {
    char text[200];
    int in = open(path, O_RDONLY);
    ssize_t len = in < 0 ? -1 : read(in, text, sizeof(text));
    close(in);
    if (len < 0) return 0;
    if (len != sizeof(good) - 1 || memcmp(text, good, sizeof(good) - 1) != 0) { printf("%.*s", (int)len, text); stop = 1; }
    return 1;
}
static void attempt(unsigned i) {
    int fd = open("w/.git", O_WRONLY | O_CREAT | (i & 1 ? O_TRUNC : O_EXCL), 0644);
    if (fd < 0) { unlink("w/.git"); return; }
    int copy = dup(fd);
    void *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    write(fd, i % 3 ? good : evil, i % 3 ? sizeof(good) - 1 : sizeof(evil) - 1);
    if (i % 5 == 0 && fork() == 0) { close(fd); write(copy, evil, 10); _exit(0); }
    shared = i % 7 == 0 ? copy : -1;
    if (close(fd) != 0) close(fd);
    pwrite(copy, evil, sizeof(evil) - 1, 0);
    if (map != MAP_FAILED) { memcpy(map, evil, sizeof(evil) - 1); munmap(map, 4096); }
    shared = -1;
    close(copy);
    while (waitpid(-1, 0, WNOHANG) > 0) ;
}
int main(void) {
    pthread_t t[3];
    mkdir("w", 0755); mkdir("deep", 0755);
    int fd = open("evil.txt", O_CREAT | O_WRONLY, 0644); write(fd, evil, sizeof(evil) - 1); close(fd);
    pthread_create(&t[0], 0, writer, 0); pthread_create(&t[1], 0, mover, 0); pthread_create(&t[2], 0, linker, 0);
    time_t end = time(0) + 4;
    long seen = 0;
    for (unsigned i = 0; !stop && time(0) < end; i++) { attempt(i); seen += check("w/.git") + check("deep/w/.git"); }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    check("w/.git");
    puts(seen > 0 ? "held" : "never there");
    return 0;
}
"""
        self.assert_holds_against(program, "git")
        for folder, _, names in os.walk(self.work):
            self.assertFalse([n for n in names if n.startswith(".srt-new")], folder)

    def test_a_strategy_that_is_a_program_is_reported(self):
        """git runs git-merge-NAME, which may lead to a file of the tree; other names are git's own."""
        self.repository("old")
        result = self.sh("cd old/.git; mkdir rebase-merge sequencer; echo ort > rebase-merge/strategy;"
                         " printf '[options]\\n\\tstrategy = ours\\n' > sequencer/opts")
        self.assertNotIn("is to run", result.stderr)
        result = self.sh("cd old/.git; echo d/../evil > rebase-merge/strategy;"
                         " printf '[options]\\n\\tstrategy = d/../worse\\n' > sequencer/opts")
        self.assertRegex(result.stderr, "a rebase that was begun in the sandbox is to run: git-merge-d/../evil;")
        self.assertRegex(result.stderr, "a cherry-pick or revert .* is to run: git-merge-d/../worse;")
        result = self.sh("cd old/.git; rm -r rebase-merge sequencer; mkdir refs/x; echo d/../evil > refs/x/strategy;"
                         " ln -s refs/x rebase-merge")
        self.assertRegex(result.stderr, "is to run: git-merge-d/../evil;")

    def test_no_protected_name_comes_to_be_in_a_submodule_by_another(self):
        """Links to a name beside them; but for the one that git makes to see whether there are links."""
        result = self.sh("git init -q a; cd a; m=.git/modules/x; mkdir -p $m/real; echo '* filter=x' > $m/real/attributes;"
                         " for n in info hooks modules worktrees remotes branches; do ln -s real $m/$n && echo LINKED $n; done;"
                         " ln -s testing $m/config && echo CONFIG; ln -s testing $m/../tabcdef && echo ABOVE; ln -s . $m/tabcdef && echo SELF;"
                         " ln -s testing $m/tabcdef && rm $m/tabcdef")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def test_a_rebase_that_would_run_something_is_reported(self):
        self.repository("old")
        steps = "echo 2 > f; git commit -qam two; git rebase -q"
        result = self.sh(f"cd old; {steps} -x false -x 'touch evil' HEAD~1 2>/dev/null; true")
        self.assertIn(f"{self.work}/old/.git/rebase-merge/git-rebase-todo", result.stderr)
        self.assertRegex(result.stderr, "is to run: touch evil; .*git rebase --abort")
        self.git("rebase", "--abort", cwd=os.path.join(self.work, "old"))
        result = self.sh(f"cd old; {steps} -x true HEAD~1; mkdir x; echo 'x evil' > x/git-rebase-todo; ln -s ../x .git/rebase-merge;"
                         " mv x .git/refs/x; ln -sfn refs/x .git/rebase-merge; true")
        self.assertRegex(result.stderr, "rebase-merge/git-rebase-todo .*is to run: evil;")
        os.unlink(os.path.join(self.work, "old/.git/rebase-merge"))
        self.assertNotIn("is to run", self.sh("cd old; echo 3 > g; git add g; git commit -qm three; git rebase -q -x true HEAD~1").stderr)

    def test_an_index_that_would_have_git_write_elsewhere_is_reported(self):
        """git believes the names in it: the next `git checkout -- .` outside would write them."""
        self.repository("old")
        program = """
import hashlib, struct, subprocess, sys
blob = subprocess.run(["git", "hash-object", "-w", "--stdin"], input=b"true", capture_output=True, check=True).stdout.strip()
name = sys.argv[1].encode()
entry = bytes(24) + struct.pack(">I", 0o100755) + bytes(12) + bytes.fromhex(blob.decode()) + struct.pack(">H", len(name)) + name
entry += bytes(8 - len(entry) % 8)
body = b"DIRC" + struct.pack(">II", 2, 1) + entry
with open(sys.argv[2], "wb") as f: f.write(body + hashlib.sha1(body).digest())
"""
        self.write("make.py", program)
        for name in ".git/hooks/post-checkout", "../escaped":
            for index in ".git/index", ".git/sharedindex.0123", ".git/worktrees/w/index", ".git/modules/m/index", ".git/logs/i":
                result = self.sh(f"cd old; mkdir -p $(dirname {index}); python3 ../make.py {name} {index}; "
                                 + ("rm -f .git/index; ln -s logs/i .git/index" if index.endswith("/i") else "true"))
                told = ".git/index" if index.endswith("/i") else index
                self.assertIn(f"{self.work}/old/{told} (protected: git hooks): by this index git outside would write to {name}; remove it", result.stderr)
                self.assertNotIn("by this index", self.sh(f"cd old; rm -f .git/index {index}; git reset -q").stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "escaped")))

    def test_an_index_of_gits_own_is_not_reported(self):
        steps = ("git init -q $f r; cd r; mkdir d; echo a > d/a; echo b > .gitignore; git add .; git commit -qm one; echo c > new; git add -N new;",
                 "cd r; git update-index --index-version 4; git status -s;", "cd r; git update-index --split-index; echo d > d/d; git add d/d;",
                 "cd r; git update-index --no-split-index; git -c index.threads=4 read-tree HEAD; git sparse-checkout set --sparse-index d; git ls-files > /dev/null;")
        for form in "sha1", "sha256":
            for step in steps:
                result = self.sh(step.replace("$f", f"--object-format={form}"))
                self.assertEqual((result.returncode, "index" in result.stderr.replace("sparse index", "")), (0, False), (step, result.stderr))
            shutil.rmtree(os.path.join(self.work, "r"))

    def test_a_git_am_that_would_write_elsewhere_is_reported(self):
        self.repository("old")
        plain = "mkdir -p old/.git/rebase-apply; echo \" '-p1' '--whitespace=fix'\" > old/.git/rebase-apply/apply-opt"
        self.assertNotIn("is to run", self.sh(plain).stderr)
        result = self.sh(plain.replace("-p1", "--build-fake-ancestor=/x"))
        self.assertRegex(result.stderr, "a git am or rebase that was begun in the sandbox is to run: git apply '--build-fake-ancestor=/x'")

    def test_a_fifo_by_a_name_that_is_read_at_start_or_end_holds_nobody_up(self):
        """Nor a link to one, at the end of the run that made it and at the start of the next."""
        names = ["HEAD", "config", "index", "commondir", "hooks/x.sample", "rebase-merge/git-rebase-todo", "rebase-merge/strategy", "sequencer/opts"]
        make = "mkdir -p $d/hooks $d/objects $d/refs $d/rebase-merge $d/sequencer; for n in $names; do %s $d/$n 2>/dev/null; done;"
        script = f"names='{' '.join(names)}'; mkfifo way; for d in x/.git bare; do {make % 'mkfifo'} done;"
        script += f"for d in y/.git linked; do {make % 'ln -s ../../../way'} done; ls -d $(find . -name 'git-rebase-todo')"
        for _ in "made", "there":
            result = self.sh(script, timeout=30)
            self.assertEqual((result.returncode, len(result.stdout.split())), (0, 4), result)
        self.assertEqual(self.run_in("true", timeout=30).returncode, 0)

    def test_without_a_warden_links_are_reported(self):
        self.repository("old")
        self.more = {"allowNestedUserNamespaces": True}
        result = self.sh("mkdir w evil; echo 'gitdir: ../evil' > w/.git; true")
        if os.path.exists(os.path.join(self.work, "w/.git")):
            self.assertRegex(result.stderr, "w/.git .protected: git link.: a protected name was created")


class Hints(Fence):
    def test_F17_an_entry_that_was_missing_at_the_start_is_named(self):
        self.filesystem["allowWrite"] = ["build/out", "there"]
        os.mkdir(os.path.join(self.work, "there"))
        for what in ("mkdir -p build/out", "mkdir build", "mkdir -p build/out/x"):
            result = self.sh(what)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"filesystem.allowWrite[0] names {self.work}/build/out, which was not there", result.stderr)
        self.assertNotIn("was not there", self.sh("mkdir other; mkdir there/d; false").stderr)

    def test_what_is_deeper_than_paths_are_long_keeps_no_run_from_starting(self):
        """One run makes it; the next ones take the last directory that has a path for one that cannot be searched."""
        deep = """
import os, sys
for length in 200, 20, 1:
    try:
        while True:
            os.mkdir("d" * length)
            os.chdir("d" * length)
    except OSError: pass
"""
        self.filesystem.update(denyRead=["**/secret*"], denyWrite=["**/*.key"])
        self.assertEqual(self.run_in("python3", "-c", deep).returncode, 0)
        longest = max(subprocess.run(["find", self.work], capture_output=True, text=True, check=True).stdout.splitlines(), key=len)
        self.assertGreater(len(longest), 4095)
        self.write("d" * 200 + "/.envrc")
        for _ in range(2):
            result = self.sh(f"echo x > here && cd {'d' * 200} && echo y > there; echo z > .envrc")
            self.assertIn(".envrc: Read-only file system", result.stderr)
            self.assertEqual(self.sh("cat here d*/there d*/.envrc").stdout, "x\ny\nx\n")

    def test_F17_a_working_directory_that_is_too_deep_is_said_so(self):
        name = "d" * 200
        program = f"import os, sys\nfor i in range(25): os.mkdir({name!r}); os.chdir({name!r})\nos.execv(sys.argv[1], sys.argv[1:])"
        settings = self.settings()
        self.own()
        result = subprocess.run(["python3", "-c", program, self.launch, "-s", settings, "--egress", "none", "true"], cwd=self.work,
                                env=self.environment(), capture_output=True, text=True, **self.popen_args())
        self.assertEqual(result.returncode, 125)
        self.assertIn("longer than 4095 bytes", result.stderr)

    def test_F38_caches_of_tools_get_a_line_for_the_settings(self):
        os.makedirs(os.path.join(self.home, ".cache/go-build"))
        os.makedirs(os.path.join(self.home, ".cargo"))
        result = self.sh("mkdir ~/.cache/go-build/00; echo x > ~/.cargo/registry; mkdir ~/.npm; exit 1")
        for path, name, more in ((".cache/go-build/00", ".cache/go-build", "\n"), (".cargo/registry", ".cargo/registry", ", once that directory is there"),
                                 (".npm", ".npm", ", once that directory is there")):
            self.assertRegex(result.stderr, f'{self.home}/{path} .*{{"filesystem": {{"allowWrite": \\["~/{name}"\\]}}}}'
                                            f" in the settings allows it{more}")
        self.filesystem["allowWrite"] = ["~/.cache/go-build", "~/.cargo"]
        self.assertRan(self.sh("mkdir ~/.cache/go-build/00; echo x > ~/.cargo/registry"))

    def test_nobody_is_told_to_ask_for_the_home_directory(self):
        os.mkdir(os.path.join(self.home, "notes"))
        result = self.sh("echo x > ~/.toolrc; echo x > ~/notes/x; exit 1")
        self.assertRegex(result.stderr, f"{self.home}/.toolrc is not .*, or ask the user to make the change; the home directory")
        self.assertRegex(result.stderr, f"{self.home}/notes/x is not .*, or ask for its directory in filesystem.allowWrite")


both(globals(), NewRepositories, Configured, Door, Hints)

if __name__ == "__main__":
    unittest.main()
