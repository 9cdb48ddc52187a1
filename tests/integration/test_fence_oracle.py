"""F16: random trees, links and rules; what every path must be is worked out here, independently, and tried
from inside. One seed makes one tree; SRT_ORACLE_TREES and SRT_ORACLE_SEED choose how many and which."""
import json
import os
import random
import subprocess
import unittest

from fence import Fence, both

TREES = int(os.environ.get("SRT_ORACLE_TREES", "60"))
SEED = int(os.environ.get("SRT_ORACLE_SEED", "1"))

PROBE = """
import json, os, sys
for line in sys.stdin:
    path = json.loads(line)
    if os.path.isdir(path):
        readable = bool(os.listdir(path))
        probe = os.path.join(path, 'probe')
    else:
        try: os.close(os.open(path, os.O_RDONLY)); readable = True
        except OSError: readable = False
        probe = None
    try:
        if probe:
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY)); os.unlink(probe)
        else:
            os.close(os.open(path, os.O_WRONLY))
        writable = True
    except OSError:
        writable = False
    print(json.dumps([readable, writable]), flush=True)
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


class Oracle(Fence):
    def plant(self, chance):
        """A tree of directories that all hold a file, and some links between them."""
        dirs, files, links = [self.work], [], []
        for i in range(chance.randint(4, 14)):
            path = os.path.join(chance.choice(dirs), chance.choice("abcdef") + str(i))
            os.mkdir(path)
            dirs.append(path)
        for path in dirs:
            files.append(os.path.join(path, "file"))
            with open(files[-1], "w") as f:
                f.write("x")
        for i in range(chance.randint(0, 3)):
            link = os.path.join(chance.choice(dirs), f"link{i}")
            os.symlink(chance.choice(dirs[1:] + files), link)
            links.append(link)
        return dirs, files, links

    def rules(self, chance, dirs, files, links):
        settings = {}
        for key, most in (("denyRead", 4), ("allowRead", 3), ("allowWrite", 4), ("denyWrite", 3)):
            places = chance.choices(dirs[1:] + files + links, k=chance.randint(0, most))
            # The directory to work in stays visible: it has to be.
            settings[key] = [chance.choice([p, os.path.relpath(p, self.work), p + "/", p.replace("/", "//", 2)])
                             if os.path.isdir(p) else p for p in places]
        return settings

    def meant(self, settings):
        """Rules by the places where they land. A link in a writable root that leads out of it gives nothing."""
        def land(entry):
            return os.path.realpath(os.path.join(self.work, entry))

        def within(path, root):
            return path == root or path.startswith(root + "/")

        def link_of(entry):
            path = os.path.normpath(os.path.join(self.work, entry))
            return path if os.path.islink(path) else None
        meant = {key: {land(e) for e in settings[key]} for key in ("denyRead", "denyWrite")}
        plain = {land(e) for e in settings["allowWrite"] if not link_of(e)}
        meant["allowWrite"] = set(plain)
        for key in ("allowWrite", "allowRead"):
            kept = {land(e) for e in settings[key] if not link_of(e)}
            for entry in settings[key]:
                link = link_of(entry)
                roots = meant["allowWrite"] if key == "allowRead" else meant["allowWrite"] | kept
                if link and not any(within(link, r) and not within(land(entry), r) for r in roots):
                    kept.add(land(entry))
                    if key == "allowWrite":
                        meant["allowWrite"].add(land(entry))
            meant[key] = kept
        return meant

    def test_F16_random_trees(self):
        for seed in range(SEED, SEED + TREES):
            with self.subTest(seed=seed):
                self.one(random.Random(seed))
            subprocess.run(["rm", "-rf", self.work], check=True)
            os.mkdir(self.work)

    def one(self, chance):
        dirs, files, links = self.plant(chance)
        self.filesystem = self.rules(chance, dirs, files, links)
        reference = Reference(self.meant(self.filesystem))
        if not reference.readable(self.work):
            return
        paths = dirs + files
        result = self.run_in("/usr/bin/env", "python3", "-I", "-c", PROBE, stdin="\n".join(map(json.dumps, paths)))
        self.assertEqual(result.returncode, 0, result.stderr)
        for path, line in zip(paths, result.stdout.splitlines()):
            readable, writable = json.loads(line)
            # A hidden directory may show the way to what is visible inside it.
            way = path in dirs and any(reference.readable(p) and p.startswith(path + "/") for p in paths)
            wanted = reference.readable(path)
            if wanted or not way:
                self.assertEqual(readable, wanted, (path, self.filesystem))
            self.assertEqual(writable, reference.writable(path), (path, self.filesystem))


both(globals(), Oracle)

if __name__ == "__main__":
    unittest.main()
