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


# Each call by a name that is another one at times, and by a descriptor that is.
ATTRIBUTES = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>
static volatile char name[32], proc[32];
static int aim, mine, guarded;
static void put(volatile char *to, const char *text) { for (int i = (int)strlen(text); i >= 0; i--) to[i] = text[i]; }
static void *flip(void *x) {
    for (;;) {
        put(name, ".git/config"); dup2(guarded, aim);
        put(name, "mine/config"); dup2(mine, aim);
    }
    return x;
}
static unsigned worked;
static void try(long result) { worked += result == 0; }
int main(void) {
    static const struct timespec first[2] = {{1, 0}, {1, 0}};
    static const struct timeval second[2] = {{2, 0}, {2, 0}};
    static const struct utimbuf third = {3, 3};
    struct stat before, now;
    pthread_t thread;
    const char *path = (const char *)name;
    guarded = open(".git/config", O_RDONLY); mine = open("mine/config", O_RDONLY); aim = dup(mine);
    if (guarded < 0 || mine < 0 || fstat(guarded, &before) != 0) return 2;
    snprintf((char *)proc, sizeof(proc), "/proc/self/fd/%d", aim);
    put(name, "mine/config");
    pthread_create(&thread, NULL, flip, NULL);
    for (time_t end = time(NULL) + 3; time(NULL) < end;) {
        for (int i = 0; i < 2; i++) {
            const char *by = i == 0 ? path : (const char *)proc;
            try(chmod(by, 0640)); try(syscall(SYS_fchmodat, AT_FDCWD, by, 0600)); try(syscall(452, AT_FDCWD, by, 0644, 0));
            try(chown(by, getuid(), getgid())); try(fchownat(AT_FDCWD, by, getuid(), getgid(), 0));
            try(utimensat(AT_FDCWD, by, first, 0)); try(utimes(by, second)); try(utime(by, &third)); try(futimesat(AT_FDCWD, by, NULL));
            try(setxattr(by, "user.x", "x", 1, 0)); try(removexattr(by, "user.x"));
        }
        try(lchown(path, getuid(), getgid())); lsetxattr(path, "user.x", "x", 1, 0); lremovexattr(path, "user.x");
        try(fchmod(aim, 0640)); try(fchown(aim, getuid(), getgid())); try(futimens(aim, first)); try(futimesat(aim, NULL, NULL));
        try(fsetxattr(aim, "user.x", "x", 1, 0)); try(fremovexattr(aim, "user.x"));
        try(fchownat(aim, "", getuid(), getgid(), AT_EMPTY_PATH)); try(syscall(452, aim, "", 0600, AT_EMPTY_PATH));
        fstat(guarded, &now);
        if (now.st_ctim.tv_sec != before.st_ctim.tv_sec || now.st_ctim.tv_nsec != before.st_ctim.tv_nsec) { puts("CHANGED"); return 1; }
    }
    puts(worked > 100 ? "worked" : "nothing worked");
    return 0;
}
"""

# Whatever these calls say, they say it to anybody.
ANSWERS = r"""
import ctypes, errno, os, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
os.mkdir('d'); open('d/f', 'w').close(); os.symlink('d/f', 'l'); os.symlink('d', 'ld'); os.symlink('no', 'broken'); os.mkfifo('p')
os.mkdir('t'); os.chmod('t', 0o1777)
def tell(name, *args):
    result = libc.syscall(*args) if name.isdigit() else getattr(libc, name)(*args)
    print(name, args, 'done' if result == 0 else errno.errorcode[ctypes.get_errno()])
def times(*values): return ctypes.create_string_buffer(struct.pack('%dq' % len(values), *values))
uid, gid, here, no = os.getuid(), os.getgid(), -100, None
for path in (b'd/f', b'd', b'd/', b'd/f/', b'l', b'ld/', b'ld/f', b'broken', b'p', b't', b'.', b'd/..', b'', b'no', b'd/no', b'd/f/x', b'x' * 256, b'x/' * 2500, no):
    short = path if path is None or len(path) < 20 else path[:9] + b'...'
    def named(name, *args):
        ctypes.set_errno(0)
        result = getattr(libc, name)(*args)
        print(name, short, 'done' if result == 0 else errno.errorcode[ctypes.get_errno()])
    for mode in (0o755, 0o2755, 0o4711, 0o700): named('chmod', path, mode)
    named('chown', path, uid, gid); named('lchown', path, uid, gid); named('chown', path, -1, -1)
    if path is not None:
        named('utimes', path, times(5, 6, 7, 8)); named('utimes', path, times(5, 1000000, 7, 8)); named('utime', path, times(5, 7))
    named('utimensat', here, path, times(5, 6, 7, 8), 0); named('utimensat', here, path, no, 0x100); named('utimensat', here, path, times(1, 0x3ffffffe, 1, 0x3ffffffe), 0)
    named('utimensat', here, path, times(5, -6, 7, 8), 0); named('fchownat', here, path, uid, gid, 0x1000); named('fchownat', here, path, uid, gid, 0x40)
    named('setxattr', path, b'user.x', b'abc', 3, 0); named('setxattr', path, b'user.x', b'abc', 3, 1); named('lsetxattr', path, b'user.y', b'', 0, 0)
    named('setxattr', path, b'nothing', b'abc', 3, 0); named('setxattr', path, b'user.' + b'x' * 300, b'abc', 3, 0)
    named('setxattr', path, b'', b'abc', 3, 0); named('setxattr', path, b'user.x', b'abc', 70000, 0); named('setxattr', path, b'user.x', no, 5, 0)
    named('removexattr', path, b'user.x'); named('removexattr', path, b'user.x'); named('lremovexattr', path, b'user.no')
for name in ('d/f', 'd', 'l', 'p'):
    for flags in (os.O_RDONLY | os.O_NONBLOCK, os.O_PATH, os.O_PATH | os.O_NOFOLLOW):
        fd = os.open(name, flags)
        for call, args in (('fchmod', (0o755,)), ('fchown', (uid, gid)), ('futimens', (no,)), ('fsetxattr', (b'user.x', b'x', 1, 0)), ('fremovexattr', (b'user.x',)),
                           ('fchownat', (b'', uid, gid, 0x1000)), ('fchownat', (b'', uid, gid, 0)), ('utimensat', (b'', no, 0x1000))):
            ctypes.set_errno(0)
            print(name, flags, call, getattr(libc, call)(fd, *args), errno.errorcode.get(ctypes.get_errno()))
        os.close(fd)
for fd in (99, -1, -100):
    for call, args in (('fchmod', (0o755,)), ('fchown', (uid, gid)), ('futimens', (no,)), ('fchownat', (b'', uid, gid, 0x1000)), ('fchownat', (b'd', uid, gid, 0))):
        ctypes.set_errno(0)
        print(fd, call, getattr(libc, call)(fd, *args), errno.errorcode.get(ctypes.get_errno()))
here = os.open('d', os.O_RDONLY)
os.chmod('f', 0o640, dir_fd=here); os.utime('f', ns=(1, 2), dir_fd=here); os.chown('f', uid, gid, dir_fd=here)
a, b = os.pipe(); memory = os.memfd_create('m')
for fd in (a, memory): print(libc.fchmod(fd, 0o600), libc.futimens(fd, no))
os.chmod('/proc/self/fd/%d' % here, 0o711); os.setxattr('/proc/thread-self/fd/%d' % here, 'user.z', b'z')
for path in ('d', 'd/f', 'p', 'l', 't'):
    st = os.lstat(path)
    print(path, oct(st.st_mode), st.st_mtime_ns if path == 'd/f' else '', os.listxattr(path, follow_symlinks=False))
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

    def test_a_guarded_file_that_has_no_mount_keeps_its_attributes(self):
        subprocess.run(["git", "init", "-q", "-b", "main", self.work], check=True)
        self.write("mine/config")
        binary = os.path.join(self.top, "attributes")
        subprocess.run(["cc", "-O1", "-w", "-pthread", "-x", "c", "-o", binary, "-"], input=ATTRIBUTES, text=True, check=True)
        result = self.sh(f"git config branch.main.description text && exec {binary}")
        self.assertEqual((result.returncode, result.stdout), (0, "worked\n"), result.stderr)

    def test_attributes_are_changed_as_they_are_outside(self):
        words = ["python3", "-c", ANSWERS]
        outside = subprocess.run([*words, "outside"], cwd=self.work, capture_output=True, text=True, **self.popen_args())
        inside = self.run_in("/usr/bin/env", *words, "inside")
        self.maxDiff = None
        self.assertEqual(inside.stdout, outside.stdout, inside.stderr)
        self.assertIn("0o100640 2", outside.stdout)
        self.assertEqual((outside.returncode, inside.returncode), (0, 0), outside.stderr + inside.stderr)

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
