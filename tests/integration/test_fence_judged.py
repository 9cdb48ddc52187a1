"""What the warden judges is what is opened or moved: not what a link leads to a moment later, not what it could
not look into, and nothing whose path is too long to be told."""
import unittest

from fence import Fence, both, unheard

# A configuration that was vetted, as git makes one.
MAKE = r"""
import os, stat, sys, threading, time
def make(git):
    os.makedirs(git, exist_ok=True)
    with open(git + "/config.lock", "w") as f:
        f.write("[core]\n\tbare = false\n")
    os.rename(git + "/config.lock", git + "/config")
"""

LINKS = r"""
make("new/.git")
os.mkfifo("fifo")
fifo, config = os.open("fifo", os.O_RDWR), os.open("new/.git/config", os.O_RDONLY)
aim = os.dup(fifo)
over = False
def swap():
    while not over:
        os.dup2(fifo, aim)
        os.dup2(config, aim)
swapper = threading.Thread(target=swap)
swapper.start()
end, fifos, regular = time.monotonic() + 3, 0, 0
while time.monotonic() < end:
    try:
        fd = os.open(f"/proc/self/fd/{aim}", os.O_WRONLY)
    except OSError:
        continue
    if stat.S_ISREG(os.fstat(fd).st_mode):
        regular += 1
    else:
        fifos += 1
    os.close(fd)
over = True
swapper.join()
print(fifos > 0, regular)
"""

UNREADABLE = r"""
for hidden, inner in (("modules", "modules/m/config"), ("worktrees", "worktrees/w/config.worktree"), ("info", "info/attributes")):
    os.makedirs(os.path.dirname("prepared/" + inner))
    with open("prepared/" + inner, "w") as f:
        f.write("[core]\n\tfsmonitor = evil\n")
    for mode in (0o700, 0o000, 0o300):
        os.chmod("prepared/" + hidden, mode)
        try:
            os.rename("prepared", ".git")
            print("moved", hidden, oct(mode))
            os.rename(".git", "prepared")
        except OSError as e:
            pass
        os.chmod("prepared/" + hidden, 0o700)
    os.rename("prepared/" + hidden, "kept-" + hidden)
os.rename("prepared", ".git")
print("plain moves", os.path.isdir(".git"))
"""

LONG = r"""
os.mkdir("deep")
os.chdir("deep")
def fill(size):
    while len(os.getcwd()) < size - 256:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.mkdir("e" * (size - len(os.getcwd()) - 1))
    os.chdir(os.listdir(".")[0])
fill(4094 - len("/.git"))
os.mkdir(".git")
os.chdir(".git")
assert len(os.getcwd()) == 4094
make(".")
os.chdir("..")
kept, name = 0, ".git/config"
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREAT):
    try:
        fd = os.open(name, flags)
        os.write(fd, b"[core]\n\tfsmonitor = evil\n")
        print("written", flags)
    except OSError:
        kept += 1
try:
    os.truncate(name, 0)
    print("cut")
except OSError:
    kept += 1
print("kept", kept)
"""

class Judged(Fence):
    def inside(self, script):
        self.own()
        result = self.run_in("python3", "-c", MAKE + script, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_link_that_leads_elsewhere_meanwhile_opens_nothing_guarded(self):
        self.assertEqual(self.inside(LINKS), "True 0\n")

    def test_a_directory_that_cannot_be_listed_brings_nothing_along(self):
        self.assertEqual(self.inside(UNREADABLE), "plain moves True\n")

    def test_a_name_beyond_the_longest_path_is_guarded_too(self):
        self.assertEqual(self.inside(LONG), "kept 6\n")


both(globals(), Judged)
unheard(globals(), Judged)

if __name__ == "__main__":
    unittest.main()
