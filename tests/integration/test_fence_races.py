"""Protected names do not come to be, however fast a path changes while a call is on its way.

SRT_RACE_SECONDS says for how long (a few seconds when it is not set; .ci/run races takes a minute)."""
import ctypes
import os
import struct
import subprocess
import threading
import unittest

from fence import Fence, both, unheard

SECONDS = int(os.environ.get("SRT_RACE_SECONDS", "4"))
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools")
CREATE, MOVED_TO, NONBLOCK = 0x100, 0x80, 0o4000


class Witness(threading.Thread):
    """Hears of every name that comes to be in some directories, by inotify, and looks for paths meanwhile."""

    def __init__(self, directories, names, paths):
        super().__init__(daemon=True)
        self.names, self.paths, self.seen, self.events, self.over = names, paths, set(), 0, False
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(NONBLOCK)
        for directory in directories:
            if libc.inotify_add_watch(self.fd, directory.encode(), CREATE | MOVED_TO) < 0:
                raise OSError(ctypes.get_errno(), directory)

    def drain(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                return
            while data:
                _, mask, _, length = struct.unpack_from("iIII", data)
                name = data[16:16 + length].rstrip(b"\0").decode()
                data = data[16 + length:]
                self.events += 1
                if name in self.names:
                    self.seen.add(name)

    def run(self):
        while not self.over:
            self.drain()
            self.seen.update(path for path in self.paths if os.path.lexists(path))

    def stop(self):
        self.over = True
        self.join()
        self.drain()
        os.close(self.fd)


class Races(Fence):
    def test_no_protected_name_ever_appears(self):
        binary = os.path.join(self.top, "races")
        if subprocess.run(["cc", "-O1", "-w", "-D_GNU_SOURCE", "-pthread", "-o", binary,
                           os.path.join(TOOLS, "races.c")]).returncode != 0:
            self.skipTest("no compiler")
        self.network["allowAllUnixSockets"] = True
        self.write("f")
        for name in ("a", "b", "q"):
            os.mkdir(os.path.join(self.work, name))
        self.own()
        claude = os.path.join(self.work, ".claude")
        witness = Witness([self.work] + [os.path.join(self.work, name) for name in ("a", "b", "q")],
                          {".bashrc", ".zshrc", ".vscode"},
                          [os.path.join(claude, name) for name in ("settings.json", "settings.local.json", "commands", "hooks")])
        witness.start()
        result = self.run_in(binary, str(SECONDS), timeout=SECONDS + 120)
        witness.stop()
        self.assertRan(result)
        self.assertEqual(witness.seen, set())
        self.assertGreater(int(result.stdout), 20 * SECONDS, "next to nothing was made")
        self.assertGreater(witness.events, 20 * SECONDS)
        for folder, dirs, files in os.walk(self.work):
            self.assertEqual({".bashrc", ".zshrc", ".vscode"} & set(dirs + files), set(), folder)


both(globals(), Races)
unheard(globals(), Races)

if __name__ == "__main__":
    unittest.main()
