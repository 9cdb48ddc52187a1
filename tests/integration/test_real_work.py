"""Real programs at work inside the fence, as people use them: nothing of what they need is missing, nothing is left behind."""
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
import unittest

from fence import both
from test_launch import Launch

PROJECT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


class Registry(http.server.BaseHTTPRequestHandler):
    """One npm package with a script that runs when it is installed."""

    FILES = {"package.json": json.dumps({"name": "hello", "version": "1.0.0", "main": "index.js", "bin": {"hello": "index.js"},
                                         "scripts": {"install": "node -e \"require('fs').writeFileSync('built', process.env.npm_lifecycle_event)\""}}),
             "index.js": "#!/usr/bin/env node\nmodule.exports = () => 'hello'; if (require.main === module) console.log('hello from bin');\n"}
    asked = []

    @classmethod
    def tarball(cls):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name, text in cls.FILES.items():
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size, entry.mode = len(text), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
        return out.getvalue()

    def do_GET(self):
        self.asked.append(self.path)
        base, tarball = f"http://{self.headers['Host']}", self.server.tarball
        if self.path == "/hello":
            version = {**json.loads(self.FILES["package.json"]), "hasInstallScript": True,
                       "dist": {"tarball": f"{base}/hello.tgz", "shasum": hashlib.sha1(tarball).hexdigest()}}
            body = json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        elif self.path == "/hello.tgz":
            body = tarball
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Work(Launch):
    def need(self, *programs):
        for program in programs:
            if shutil.which(program, path=self.environment()["PATH"]) is None:
                self.skipTest(f"no {program} here")

    def with_rust(self):
        """An environment with cargo in it. Where rustup brought it, with what its shims lead to, as these look into the home directory."""
        env = self.environment()
        if shutil.which("cargo", path=env["PATH"]) is None and self.account is None and shutil.which("rustc"):
            sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False).stdout.strip()
            env["PATH"] = f"{sysroot}/bin:{env['PATH']}"
        if shutil.which("cargo", path=env["PATH"]) is None:
            self.skipTest("no cargo here")
        return env

    def work_in(self, script, leads_out="no violation at all", **args):
        """A shell script in the working directory, which is all that may be written. Violations may only be about links
        that lead to `leads_out`."""
        result = self.run_in("/bin/bash", "-euc", script, timeout=500, **args)
        self.assertRan(result)
        for line in re.findall(r"(?m)^deny .*", result.stderr):
            self.assertIn(leads_out, line)
        self.assertEqual(os.listdir(self.home), [])
        return result.stdout

    def test_npm_install_from_a_registry(self):
        self.need("npm", "node")
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        server.tarball, Registry.asked = Registry.tarball(), []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        port = server.server_address[1]
        self.network["allowedDomains"] = [f"127.0.0.1:{port}"]
        self.write("package.json", json.dumps({"name": "mine", "version": "1.0.0"}))
        env = self.environment(npm_config_registry=f"http://127.0.0.1:{port}/", npm_config_update_notifier="false",
                               npm_config_audit="false", npm_config_fund="false")
        script = ("export npm_config_cache=$TMPDIR/npm; npm install hello; node -e \"console.log(require('hello')())\";"
                  " npx hello; cat node_modules/hello/built; ls")
        result = self.run_plain("-s", self.settings(), "--", "/bin/bash", "-euc", script, env=env, timeout=200)
        self.assertRan(result)
        for text in ("added 1 package", "\nhello\n", "hello from bin\n", "install"):
            self.assertIn(text, result.stdout)
        self.assertIn("/hello.tgz", Registry.asked)
        self.assertEqual(sorted(os.listdir(self.work)), ["node_modules", "package-lock.json", "package.json"])
        with open(os.path.join(self.work, "package.json")) as file:
            self.assertEqual(json.load(file)["dependencies"], {"hello": "^1.0.0"})
        result = self.run_plain("-s", self.settings(), "--", "/bin/bash", "-c", "npm_config_cache=$TMPDIR/npm npm install --fetch-retries=0 other",
                                env={**env, "npm_config_registry": "http://denied.test/"}, timeout=200)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("denied.test:80", result.stderr)

    def test_this_project_is_built(self):
        self.need("cmake", "gcc", "pkg-config")
        if self.account:
            self.skipTest("it takes its time; it was tried as root")
        env = self.environment(CCACHE_DISABLE="1")
        out = self.work_in(f"cmake -S {PROJECT} -B build -G 'Unix Makefiles' -DBUILD_TESTING=OFF > log && make -C build -j4 >> log &&"
                           " build/launcher/srt-launch --version && build/gateway/srt-gateway --version", env=env)
        self.assertRegex(out, r"(?s)srt-launch \d.*srt-gateway \d")

    def test_cargo(self):
        """Built, tested and run without a network; its own directory is not writable, as nobody has allowed that."""
        self.need("cc", "git")
        env = self.with_rust()
        self.write("src/main.rs", "mod answer;\nfn main() { println!(\"{}\", answer::answer()); }\n")
        self.write("src/answer.rs", "pub fn answer() -> u32 { 42 }\n#[test]\nfn right() { assert_eq!(answer(), 42); }\n")
        self.write("Cargo.toml", "[package]\nname = \"asked\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
        self.write("build.rs", "fn main() { std::fs::write(std::path::Path::new(&std::env::var(\"OUT_DIR\").unwrap()).join(\"made\"), \"x\").unwrap(); }\n")
        out = self.work_in("cargo build --offline -q && cargo test --offline -q && cargo run --offline -q && cargo new --offline -q --vcs none other &&"
                           " cd other && cargo run --offline -q && ls -A && rm -rf ../target && cargo clean", env=env)
        self.assertIn("1 passed", out)
        self.assertIn("42\nHello, world!\n", out)

    def test_cargo_makes_repositories(self):
        """Its library writes an empty configuration first, which git never does."""
        self.need("git")
        out = self.work_in("cargo new --offline -q one; cd one; git add .; git -c user.name=a -c user.email=a@x commit -qm one; git status --short;"
                           "git config core.bare; ls -A .git/hooks | grep -v sample || true; mkdir ../two; cd ../two; cargo init --offline -q --lib; git status --short",
                           env=self.with_rust())
        self.assertEqual(out, "false\n?? .gitignore\n?? Cargo.toml\n?? src/\n")

    def test_a_days_work_with_git(self):
        self.need("git")
        env = self.environment(**{f"GIT_{who}_{what}": "a@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")})
        out = self.work_in(
            "git init -q lib; cd lib; echo 1 > f; git add f; git commit -qm one; cd ..; git clone -q lib app; cd app;"
            "git checkout -q -b topic; echo 2 > f; git commit -qam two; git rebase -q master; git push -q -u origin topic;"
            "git worktree add -q ../fix -b fix origin/master; cd ../fix; echo 3 > g; git add g; git commit -qm three; git stash list;"
            "cd ../app; git merge -q -m merged fix; git -c protocol.file.allow=always submodule --quiet add ../lib lib;"
            "git commit -qm sub; git push -q; cd ..; git -c protocol.file.allow=always clone -q --recurse-submodules -b topic lib all;"
            "cat all/g all/lib/f; git -C all status --short; git -C app worktree remove ../fix; git -C app gc -q; git -C app fsck", env=env)
        self.assertEqual(out, "3\n1\n")

    def test_java_has_temporary_files(self):
        """A JVM goes to /tmp, whatever TMPDIR is; that is not writable."""
        self.need("java", "javac")
        self.write("Temp.java", "import java.nio.file.*; public class Temp { public static void main(String[] a) throws Exception {"
                                " System.out.println(Files.createTempFile(\"a\", \"b\").getParent()); } }")
        out = self.work_in("java -XX:-UsePerfData Temp.java; echo $TMPDIR")
        self.assertEqual(len(set(out.split())), 1, out)

    def test_a_sanitized_program_is_told_how_to_go_without_the_search_for_leaks(self):
        self.need("gcc")
        self.write("a.c", "int main(void) { return 0; }\n")
        build = "gcc -fsanitize=address a.c -o a"
        env = {key: value for key, value in self.environment().items() if "SAN_OPTIONS" not in key}
        result = self.run_in("/bin/sh", "-c", f"{build} && ./a", env=env)
        if result.returncode != 0:
            self.assertIn("ASAN_OPTIONS=detect_leaks=0", result.stderr)
        self.work_in(f"{build} && ASAN_OPTIONS=detect_leaks=0 ./a", env=env)

    def test_a_venv_with_pip(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], capture_output=True).returncode != 0:
            self.skipTest("python3 here makes no environments with pip")
        if self.account:
            self.skipTest("it takes its time; it was tried as root")
        out = self.work_in("/usr/bin/python3 -m venv v && . v/bin/activate && pip --disable-pip-version-check --version &&"
                           " python -c 'import sys; print(sys.prefix)'", leads_out=f"symlink {self.work}/v/bin/python")
        self.assertIn(f"{self.work}/v/lib", out)
        self.assertTrue(out.endswith(f"{self.work}/v\n"), out)

    def test_make_with_many_jobs(self):
        self.need("make", "gcc")
        names = [f"m{number}" for number in range(60)]
        for name in names:
            self.write(f"{name}.c", f"int {name}(void) {{ return 1; }}\n")
        self.write("main.c", "".join(f"int {name}(void);\n" for name in names) + "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", "
                   + " + ".join(f"{name}()" for name in names) + "); return 0; }\n")
        self.write("Makefile", "objects = $(patsubst %.c,%.o,$(wildcard *.c))\nall: out/sum\n\nout/sum: $(objects)\n\t@mkdir -p out\n"
                               "\t@gcc -o $@.tmp $^ && mv $@.tmp $@\n%.o: %.c\n\t@gcc -c -o $@ $<\nclean:\n\t@rm -rf out *.o\n")
        self.assertEqual(self.work_in("make -j8 && out/sum && make clean && ls | wc -l"), "60\n62\n")

    def test_sqlite(self):
        """Write-ahead logging needs shared memory and locks; several processes write at a time."""
        program = ("import sqlite3, sys\n"
                   "db = sqlite3.connect('data.db', timeout=60)\n"
                   "print(db.execute('pragma journal_mode = wal').fetchone()[0])\n"
                   "db.execute('create table if not exists t (who, n)')\n"
                   "for n in range(50):\n"
                   "    with db: db.execute('insert into t values (?, ?)', (sys.argv[1], n))\n")
        self.write("writer.py", program)
        out = self.work_in("for who in a b c d; do /usr/bin/env python3 writer.py $who & done; wait; python3 - <<'E'\n"
                           "import sqlite3\ndb = sqlite3.connect('data.db')\n"
                           "print(db.execute('select count(*), count(distinct who) from t').fetchone(), db.execute('pragma integrity_check').fetchone())\nE")
        self.assertEqual(out, "wal\n" * 4 + "(200, 4) ('ok',)\n")
        self.assertEqual(sorted(os.listdir(self.work)), ["data.db", "writer.py"])
        if shutil.which("sqlite3"):
            self.assertEqual(self.work_in("sqlite3 data.db 'select max(n) from t; pragma journal_mode=delete; delete from t; vacuum; select 7'"),
                             "49\ndelete\n7\n")

    def test_a_terminal_of_its_own(self):
        """What an agent does that drives an interactive shell: a new pty inside, its size, job control on it."""
        program = r"""
import fcntl, os, pty, re, select, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(PS1='> ', HISTFILE='')
    os.execv('/bin/bash', ['bash', '--norc', '--noprofile', '-i'])
seen = ''
def expect(pattern):
    global seen
    end = time.monotonic() + 60
    while not re.search(pattern, seen):
        if not select.select([fd], [], [], end - time.monotonic())[0]:
            sys.exit(f'{pattern} did not come: {seen!r}')
        seen += os.read(fd, 65536).decode()
    seen = seen[re.search(pattern, seen).end():]
def say(text):
    os.write(fd, text.encode())
def asleep(name):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for entry in filter(str.isdigit, os.listdir('/proc')):
            try: stat = open(f'/proc/{entry}/stat').read()
            except OSError: continue
            if f'({name}) S' in stat: return
        time.sleep(0.01)
    sys.exit(f'{name} does not run')
expect('> $')
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 111, 0, 0))
say('stty size\n'); expect('33 111')
say("trap 'echo re''sized' WINCH; echo se''t\n"); expect('set\r')
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 44, 122, 0, 0))
say('\n'); expect('resized')
expect('> $')
say('sleep 1000\n'); asleep('sleep')
say('\x1a'); expect('Stopped'); expect('> $')
say('jobs; kill %1; wait; echo do""ne\n'); expect('done'); expect('> $')
say('cat\n'); asleep('cat')
say('\x03'); expect('> $')
say('tty; exit 5\n'); expect('/dev/pts/')
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
        self.write("drive.py", program)
        self.assertEqual(self.work_in("/usr/bin/env python3 drive.py"), "5\n")

    def test_what_programs_ask_about_the_machine(self):
        """getifaddrs(), processors, memory, users, time zone, limits: an error here ends many a program at its start."""
        program = ("import os, pwd, socket, time, resource, multiprocessing, tempfile\n"
                   "print(socket.if_nameindex(), os.cpu_count() > 0, pwd.getpwuid(os.getuid()).pw_uid == os.getuid(), len(os.sched_getaffinity(0)) > 0)\n"
                   "print(socket.gethostname() != '', time.localtime().tm_year > 2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0)\n"
                   "with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n"
                   "with tempfile.TemporaryFile() as file: print(file.write(b'x'))\n"
                   "print(open('/proc/meminfo').readline().split()[0], open('/proc/self/comm').read().strip() != '')\n")
        self.write("ask.py", program)
        self.assertEqual(self.work_in("/usr/bin/env python3 ask.py").splitlines(),
                         ["[(1, 'lo')] True True True", "True True True", "[1, 2]", "1", "MemTotal: True"])
        if shutil.which("node"):
            out = self.work_in("node -e \"const os = require('os'); console.log(Object.keys(os.networkInterfaces()), os.cpus().length > 0,"
                               " os.userInfo().uid, os.freemem() > 0)\"")
            self.assertRegex(out, r"^\[ 'lo' \] true \d+ true\n$")
        if shutil.which("ip"):
            self.assertTrue(re.search(r"1: lo: <LOOPBACK,UP", self.work_in("ip -o link")))


both(globals(), Work)

if __name__ == "__main__":
    unittest.main()
