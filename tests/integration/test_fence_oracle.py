"""F16: random trees, links and rules; what every path must be is worked out here, independently, and tried
from inside. One seed makes one tree with its rules; SRT_ORACLE_TREES and SRT_ORACLE_SEED choose how many and
which. Many trees lie side by side in one sandbox, as nothing in one bears upon another."""
import os
import random
import subprocess
import unittest

from fence import Fence, both

TREES = int(os.environ.get("SRT_ORACLE_TREES", "2000"))
SEED = int(os.environ.get("SRT_ORACLE_SEED", "1"))
TOGETHER = 40

# For each path: can it be read, and written or made?
PROBE = """
import os, sys
def can(path, flags):
    try: os.close(os.open(path, flags))
    except OSError: return False
    return True
def made(path):
    if not can(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY): return False
    os.unlink(path)
    return True
for path in sys.stdin.buffer.read().split(b'\\0'):
    if os.path.isdir(path):
        readable, writable = bool(os.listdir(path)), made(path + b'/probe')
    elif os.path.exists(path):
        readable, writable = can(path, os.O_RDONLY), can(path, os.O_WRONLY)
    else:
        readable, writable = False, made(path)
    sys.stdout.write('-r'[readable] + '-w'[writable])
"""


class Reference:
    """The words of the contract, done by hand: nearest rule for reads, any denial for writes."""

    def __init__(self, rules):
        self.rules = rules

    @staticmethod
    def above(path):
        while True:
            yield path
            if path == "/":
                return
            path = os.path.dirname(path)

    def readable(self, path):
        for place in self.above(path):
            if place in self.rules["allowRead"] or place in self.rules["allowWrite"]:
                return True
            if place in self.rules["denyRead"]:
                return False
        return True

    def writable(self, path):
        places = set(self.above(path))
        return bool(places & self.rules["allowWrite"]) and not places & self.rules["denyWrite"] and self.readable(path)


class Tree:
    """Directories that all hold a file, some links between them, names that are absent, and rules for all that."""

    def __init__(self, seed, top):
        self.seed, self.top = seed, top
        chance = random.Random(seed)
        os.mkdir(top)
        self.dirs, self.files, self.links, self.absent = [top], [], [], []
        for i in range(chance.randint(4, 14)):
            path = os.path.join(chance.choice(self.dirs), chance.choice("abcdef") + str(i))
            os.mkdir(path)
            self.dirs.append(path)
        for path in self.dirs:
            self.files.append(os.path.join(path, "file"))
            with open(self.files[-1], "w") as f:
                f.write("x")
        for i in range(chance.randint(0, 3)):
            link = os.path.join(chance.choice(self.dirs), f"link{i}")
            os.symlink(chance.choice(self.dirs[1:] + self.files), link)
            self.links.append(link)
        for i in range(chance.randint(0, 3)):
            self.absent.append(os.path.join(chance.choice(self.dirs), f"absent{i}"))
        self.settings = self.rules(chance)
        self.reference = Reference(self.meant())

    def rules(self, chance):
        settings = {}
        for key, most in (("denyRead", 4), ("allowRead", 3), ("allowWrite", 4), ("denyWrite", 3)):
            known = self.dirs + self.files + self.links + (self.absent if key.startswith("deny") else [])
            places = chance.choices(known, k=chance.randint(0, most))
            # Seen from the directory above the trees.
            settings[key] = [chance.choice([p, os.path.relpath(p, os.path.dirname(self.top)), p + "/", p.replace("/", "//", 2)])
                             if os.path.isdir(p) else p for p in places]
        for key in ("denyRead", "denyWrite"):
            if chance.random() < 0.15:
                settings[key].append(f"{self.top}/**/{chance.choice('abcdef')}*")
        return settings

    def matches(self, pattern):
        """A pattern says `below the top, at any depth, a name that begins with this letter`."""
        found = []
        for folder, dirs, files in os.walk(self.top):
            found += [os.path.join(folder, n) for n in dirs + files if n[0] == pattern[-2]]
            dirs[:] = [n for n in dirs if n[0] != pattern[-2]]
        return found

    def meant(self):
        """Rules by the places where they land. A link in a writable root that leads out of it gives nothing."""
        def land(entry):
            return os.path.realpath(os.path.join(os.path.dirname(self.top), entry))

        def within(path, root):
            return path == root or path.startswith(root + "/")

        def link_of(entry):
            path = os.path.normpath(os.path.join(os.path.dirname(self.top), entry)).replace("//", "/")
            return path if os.path.islink(path) else None
        meant = {key: {land(e) for entry in self.settings[key]
                       for e in (self.matches(entry) if entry.endswith("*") else [entry])}
                 for key in ("denyRead", "denyWrite")}
        # A pattern that denies writing also means names that come to be.
        meant["denyWrite"] |= {path for path in self.absent for entry in self.settings["denyWrite"]
                               if entry.endswith("*") and os.path.basename(path)[0] == entry[-2]}
        self.named = set()  # the links by which something is allowed
        plain = {land(e) for e in self.settings["allowWrite"] if not link_of(e)}
        meant["allowWrite"] = set(plain)
        for key in ("allowWrite", "allowRead"):
            kept = {land(e) for e in self.settings[key] if not link_of(e)}
            for entry in self.settings[key]:
                link = link_of(entry)
                roots = meant["allowWrite"] if key == "allowRead" else meant["allowWrite"] | kept
                if link and not any(within(link, r) and not within(land(entry), r) for r in roots):
                    kept.add(land(entry))
                    self.named.add(link)
                    if key == "allowWrite":
                        meant["allowWrite"].add(land(entry))
            meant[key] = kept
        return meant

    def paths(self):
        return self.dirs + self.files + self.absent + sorted(self.named)

    def check(self, path, answer):
        """None, or what is wrong."""
        reference = self.reference
        path = os.path.realpath(path)
        readable, writable = answer[0] == "r", answer[1] == "w"
        wanted = reference.readable(path)
        # A hidden directory may show the way to what is visible inside it, or by the name of a link in it.
        shown = {p for p in self.dirs + self.files if reference.readable(p)} | self.named
        way = path in self.dirs and any(p.startswith(path + "/") for p in shown)
        if path not in self.absent and (wanted or not way) and readable != wanted:
            return f"readable: {readable}"
        if writable != reference.writable(path):
            return f"writable: {writable}"
        return None


class Oracle(Fence):
    def test_F16_random_trees(self):
        # Root tries one half, an ordinary user the other.
        share = (TREES + 1) // 2 if os.geteuid() == 0 else TREES
        first = SEED + TREES - share if self.as_user else SEED
        for start in range(first, first + share, TOGETHER):
            self.some(range(start, min(start + TOGETHER, first + share)))
            subprocess.run(["rm", "-rf", self.work], check=True)
            os.mkdir(self.work)

    def some(self, seeds):
        trees = [Tree(seed, os.path.join(self.work, f"t{seed}")) for seed in seeds]
        self.filesystem = {key: [entry for tree in trees for entry in tree.settings[key]]
                           for key in ("denyRead", "allowRead", "allowWrite", "denyWrite")}
        tried = [(tree, path) for tree in trees for path in tree.paths()]
        result = self.run_in("/usr/bin/env", "python3", "-I", "-c", PROBE, stdin="\0".join(path for _, path in tried))
        self.assertEqual((result.returncode, len(result.stdout)), (0, 2 * len(tried)), result.stderr)
        for i, (tree, path) in enumerate(tried):
            wrong = tree.check(path, result.stdout[2 * i:2 * i + 2])
            self.assertIsNone(wrong, f"SRT_ORACLE_SEED={tree.seed} SRT_ORACLE_TREES=1: {path} {tree.settings}")


both(globals(), Oracle)

if __name__ == "__main__":
    unittest.main()
