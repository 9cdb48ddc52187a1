"""A name is allowed, a name is guarded; the command has another thing stand there, or the name change on its way."""
import os
import socket
import subprocess
import unittest

from fence import Fence, both, unheard

REMOVE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile char name[32];
static const char *other;
static void put(const char *text) { for (int i = (int)strlen(text); i >= 0; i--) name[i] = text[i]; }
static void *flip(void *x) { for (;;) { put(".git/config"); put(other); } return x; }
int main(void) {
    static const char *const others[] = {".git/nothing", "no/such/dir", "/proc/self/x"};
    struct stat st;
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        other = others[i];
        if (i == 0) pthread_create(&thread, NULL, flip, NULL);
        for (time_t end = time(NULL) + 2; time(NULL) < end;) {
            syscall(SYS_unlink, name);
            syscall(SYS_unlinkat, AT_FDCWD, name, 0);
            if (stat(".git/config", &st) != 0) { printf("REMOVED beside %s\n", other); return 1; }
        }
    }
    return 0;
}
"""


class Swaps(Fence):
    def test_a_guarded_file_that_has_no_mount_is_not_removed(self):
        """Without its configuration `git push origin` means a directory of that name, and runs its hooks."""
        subprocess.run(["git", "init", "-q", "-b", "main", self.work], check=True)
        with open(os.path.join(self.work, ".git/config"), "a") as f:
            f.write('[remote "origin"]\n\turl = https://example.com/x.git\n')
        binary = os.path.join(self.top, "remove")
        subprocess.run(["cc", "-O1", "-w", "-pthread", "-x", "c", "-o", binary, "-"], input=REMOVE, text=True, check=True)
        # A change that git may make has the file replaced, and the mount that lay on it goes.
        result = self.sh(f"git config branch.main.description text && exec {binary}")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        with open(os.path.join(self.work, ".git/config")) as f:
            config = f.read()
        self.assertIn("description", config)
        self.assertIn("https://example.com/x.git", config)

    def test_removing_fails_as_it_does_outside(self):
        program = """
import errno, os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
def tell(call, *args, **more):
    try: call(*args, **more); print(call.__name__, args[0], 'done')
    except OSError as e: print(call.__name__, args[0], errno.errorcode[e.errno])
os.makedirs('d/e'); open('d/f', 'w').close(); os.symlink('d', 'l')
for path in ('d/f/', 'd', 'd/', 'l/', '.', 'd/..', '/', '', 'no', 'no/', 'no/x', 'd/f/x', 'x' * 256, 'x/' * 2500):
    tell(os.unlink, path)
for path in ('d/f', 'd', 'l', 'l/', '.', 'd/e/..', '/', '', 'no'):
    tell(os.rmdir, path)
here = os.open('d', os.O_RDONLY)
tell(os.unlink, 'f', dir_fd=here); tell(os.rmdir, 'e/', dir_fd=here); tell(os.unlink, 'f', dir_fd=99)
os.chdir('d'); tell(os.rmdir, '../d'); tell(os.unlink, 'x')
os.chdir('..'); tell(os.unlink, 'l')
"""
        words = ["python3", "-c", program]
        outside = subprocess.run([*words, "outside"], cwd=self.work, capture_output=True, text=True)
        inside = self.run_in("/usr/bin/env", *words, "inside")
        self.assertEqual(inside.stdout, outside.stdout, inside.stderr)
        self.assertIn("rmdir ../d done", outside.stdout)
        self.assertEqual(os.listdir(os.path.join(self.work, "inside")), [])

    def test_trees_beyond_the_longest_path_can_be_removed(self):
        result = self.run_in("/usr/bin/env", "python3", "-c", """
import os, shutil
top = os.getcwd()
for name in ('a', 'b'):
    os.chdir(top); os.mkdir(name); os.chdir(name)
    for i in range(15): os.mkdir('d' * 200); os.chdir('d' * 200)
    open('file', 'w').close()
    if name == 'a': deep = os.open('.', os.O_RDONLY)
os.chdir(top); os.rename('b', 'b', dst_dir_fd=deep)
shutil.rmtree('a')
""")
        self.assertEqual((result.returncode, os.listdir(self.work)), (0, []), result.stderr)

    def listen(self, path):
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen(16)
        server.settimeout(0)
        return server

    def test_no_other_socket_comes_to_stand_at_a_name_that_is_allowed(self):
        """Links, renamed and linked sockets, directories that bring one along, exchanged ones."""
        for name in ("folder", "holds", "sub"):
            os.mkdir(os.path.join(self.work, name))
        places = [os.path.join(self.top, "outside.sock"), os.path.join(self.work, "other.sock"),
                  os.path.join(self.work, "holds/h.sock")]
        strangers = [self.listen(place) for place in places]
        named = self.listen(os.path.join(self.work, "named.sock"))
        self.network["allowUnixSockets"] = ["named.sock", "later.sock", "folder", "sub/s.sock"]
        result = self.run_in("/usr/bin/env", "python3", "-c", f"""
import ctypes, os, socket
libc = ctypes.CDLL(None)
exchange = lambda a, b: libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
def go(path):
    with socket.socket(socket.AF_UNIX) as s:
        try: s.connect(path); print('REACHED', path)
        except OSError: pass
def tried(call, *args, at):
    try: call(*args)
    except OSError: pass
    for path in at: go(path)
go('named.sock')
outside = {places[0]!r}
tried(os.symlink, outside, 'later.sock', at=['later.sock'])
tried(os.symlink, outside, 'folder/l.sock', at=['folder/l.sock'])
tried(os.rename, 'other.sock', 'folder/o.sock', at=['folder/o.sock'])
tried(os.link, 'other.sock', 'folder/k.sock', at=['folder/k.sock'])
tried(os.rename, 'holds', 'folder/holds', at=['folder/holds/h.sock'])
os.mkdir('folder/empty')
tried(exchange, 'holds', 'folder/empty', at=['folder/empty/h.sock'])
tried(exchange, 'other.sock', 'named.sock', at=['named.sock'])
os.rename('named.sock', 'was.sock')
tried(os.rename, 'other.sock', 'named.sock', at=['named.sock'])
tried(os.symlink, outside, 'named.sock', at=['named.sock'])
os.rmdir('sub'); tried(os.symlink, 'holds', 'sub', at=['sub/s.sock'])
os.rename('folder', 'old'); tried(os.rename, 'holds', 'folder', at=['folder/h.sock'])
tried(os.symlink, os.path.dirname(outside), 'folder', at=['folder/outside.sock'])
os.unlink('folder'); os.mkdir('folder')
# Its own it makes and moves as it likes.
with socket.socket(socket.AF_UNIX) as own:
    own.bind('folder/own'); own.listen(); os.rename('folder/own', 'folder/again'); go('folder/again')
""")
        # The exchange, which is refused, leaves the named one where it was.
        self.assertEqual(result.stdout, "REACHED named.sock\nREACHED named.sock\nREACHED folder/again\n", result.stderr)
        for place, server in zip(places, strangers):
            with self.assertRaises(BlockingIOError, msg=place):
                server.accept()
        for _ in range(2):
            named.accept()[0].close()


both(globals(), Swaps)
unheard(globals(), Swaps)

if __name__ == "__main__":
    unittest.main()
