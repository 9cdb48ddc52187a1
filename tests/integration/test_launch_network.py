"""What a sandbox's network is to the programs inside, and what nobody inside can make of it. Cases N*."""
import hashlib
import http.server
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import unittest
import zipfile

from fence import both
from lab.serve import serve
from test_launch import ATTACHED, FakeGateway, Launch, alive, comm, descendants, until

ECHO = """
import socket, sys, threading
server = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
server.bind((sys.argv[1], int(sys.argv[2])))
server.listen()
print('up', flush=True)
def serve(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b'END')
    connection.close()
while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""


def served(answer):
    """A server on the host that answers each connection's first bytes; (socket, what came, first of each)."""
    server = socket.create_server(("127.0.0.1", 0))
    seen = []

    def talk(connection):
        with connection:
            if answer.startswith(b"SSH-"):
                connection.sendall(answer)
            seen.append(connection.recv(65536))
            if not answer.startswith(b"SSH-"):
                connection.sendall(answer)
    serve(server, talk)
    return server, seen


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


class Publish(Launch):
    def echo(self, *words, address="127.0.0.1"):
        """An echo server inside on port 8000, published by these words; (process, addresses on the host)."""
        process = self.start("-s", self.settings(), "--egress", "none", *[w for word in words for w in ("--publish", word)],
                             "/usr/bin/env", "python3", "-c", ECHO, address, "8000", settings=False)
        told = [process.stderr.readline() for _ in words]
        self.assertEqual(process.stdout.readline(), "up\n")
        return process, [re.fullmatch(r"srt-launch: published: (\S+):(\d+) is port 8000 inside\n", line).groups() for line in told]

    def exchange(self, address, data=b"x"):
        with socket.create_connection((address[0].strip("[]"), int(address[1])), 20) as connection:
            connection.settimeout(20)
            threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)), daemon=True).start()
            got = b""
            while more := connection.recv(1 << 16):
                got += more
        return got

    def closed(self, address):
        try:
            socket.create_connection((address[0].strip("[]"), int(address[1])), 5).close()
        except ConnectionRefusedError:
            return True
        return False

    def test_N05_a_port_inside_is_seen_on_the_host_while_the_command_runs(self):
        process, addresses = self.echo("127.0.0.1:0:8000", "[::1]:0:8000", "0:8000")
        self.assertEqual([host for host, _ in addresses], ["127.0.0.1", "[::1]", "127.0.0.1"])
        data = os.urandom(3_000_000)
        for address in addresses:
            got = self.exchange(address, data)  # back-pressure, and half-close in its order
            self.assertEqual(hashlib.sha256(got).digest(), hashlib.sha256(data + b"END").digest())
        many = [socket.create_connection(("127.0.0.1", int(addresses[0][1])), 20) for _ in range(100)]
        for connection in many:
            connection.settimeout(20)
            connection.sendall(b"one")
        for connection in many:
            self.assertEqual(connection.recv(10), b"one")
            connection.close()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 143)
        for address in addresses:
            self.assertTrue(self.closed(address))

    def test_N05_it_ends_with_a_launcher_that_is_killed(self):
        process, (address,) = self.echo("0:8000")
        process.kill()
        process.wait()
        self.assertTrue(until(lambda: self.closed(address)))
        self.assertTrue(until(lambda: not alive(self.programs)))

    def test_N05_a_server_on_the_other_loopback_is_found(self):
        _, (address,) = self.echo("0:8000", address="::1")
        self.assertEqual(self.exchange(address, b"six"), b"sixEND")

    def test_N05_where_nobody_listens_inside_the_connection_ends(self):
        process = self.start("-s", self.settings(), "--egress", "none", "--publish", "0:8000", "/bin/sleep", "60", settings=False)
        port = int(re.search(r":(\d+) is port", process.stderr.readline())[1])
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.settimeout(20)
            try:
                self.assertEqual(connection.recv(1), b"")
            except ConnectionResetError:
                pass

    def test_N05_loopback_only_and_mistakes_are_named(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        for word, text in (("0.0.0.0:0:8000", "only on loopback"), ("[::]:0:8000", "only on loopback"), ("192.0.2.1:0:80", "only on loopback"),
                           ("localhost:0:80", "HOSTPORT"), ("::1:0:80", "HOSTPORT"), ("[127.0.0.1]:0:80", "HOSTPORT"), ("80:0", "HOSTPORT"),
                           ("0", "HOSTPORT"), ("65536", "HOSTPORT"), ("x", "HOSTPORT"), ("1:2:3:4", "HOSTPORT"), (":80", "HOSTPORT"),
                           (f"{taken.getsockname()[1]}:80", "in use")):
            result = self.run_plain("-s", self.settings(), "--egress", "none", "--publish", word, "/usr/bin/touch", "ran")
            self.assertEqual(result.returncode, 125, word)
            self.assertIn(text, result.stderr)
        self.assertEqual(os.listdir(self.work), [])


class Served(Launch):
    """With a gateway of ours, and a server."""

    def setUp(self):
        super().setUp()
        if not hasattr(self, "gateway"):
            self.skipTest("no gateway was built")
        self.server, self.seen = served(HELLO)
        self.addCleanup(self.server.close)
        self.port = self.server.getsockname()[1]
        self.target = f"127.0.0.1:{self.port}"


class Programs(Served):
    """What real programs make of the way out."""

    def setUp(self):
        super().setUp()
        self.network["allowedDomains"] = [self.target]

    def run_out(self, *command, options=(), **args):
        return self.run_plain("-s", self.settings(), *options, "--", *command, **args)

    def have(self, program):
        if subprocess.run(["/bin/sh", "-c", f"command -v {program}"], capture_output=True, env=self.environment()).returncode != 0:
            self.skipTest(f"no {program} here")

    def index(self):
        """A package index with one wheel, served from the host; its port."""
        root = os.path.join(self.top, "index")
        os.makedirs(os.path.join(root, "simple", "hello"))
        with zipfile.ZipFile(os.path.join(root, "hello-1.0-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("hello.py", "words = 'hello from a wheel'\n")
            wheel.writestr("hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
            wheel.writestr("hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\n"
                                                         "hello-1.0.dist-info/RECORD,,\n")
        with open(os.path.join(root, "simple", "hello", "index.html"), "w") as page:
            page.write('<a href="/hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>')

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=root)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1]

    def test_N11_pip(self):
        """pip and what it is made of (requests, urllib3) with every proxy variable of ours set, ALL_PROXY too."""
        if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
            self.skipTest("no pip here")
        if not self.account and os.geteuid() == 0:
            self.skipTest("it takes its time; it is tried as a user")
        port = self.index()
        self.network["allowedDomains"] = [f"127.0.0.1:{port}"]
        pip = "/usr/bin/python3 -m pip --disable-pip-version-check --no-cache-dir --isolated"
        result = self.run_out("/bin/sh", "-ec", f"{pip} download --index-url http://127.0.0.1:{port}/simple --no-deps -d out hello;"
                              f" {pip} install --quiet --no-index --target lib out/*.whl; PYTHONPATH=lib /usr/bin/python3 -c"
                              " 'import hello; print(hello.words)'")
        self.assertTrue(self.assertRan(result).stdout.endswith("hello from a wheel\n"), result.stdout)
        result = self.run_out("/bin/sh", "-c", f"{pip} --retries 0 download --trusted-host denied.test --index-url http://denied.test/simple --no-deps -d out hello")
        self.assertEqual(result.returncode, 1)
        self.assertIn("denied.test:80 (not-allowed)", result.stderr)

    def test_N11_python_urllib_and_requests(self):
        program = ("import sys, urllib.request\n"
                   "print(urllib.request.urlopen(sys.argv[1]).read().decode())\n"
                   "try: import requests\n"
                   "except ImportError: sys.exit()\n"
                   "print(requests.get(sys.argv[1]).text, requests.get('http://denied.test/').status_code)\n")
        result = self.assertRan(self.run_out("/usr/bin/env", "python3", "-c", program, f"http://127.0.0.1:{self.port}/"))
        self.assertIn(result.stdout, ("hello\n", "hello\nhello 403\n"))

    def test_N12_node(self):
        """A node that knows NODE_USE_ENV_PROXY fetches; an older one fails at once, and so does any for a name."""
        self.have("node")
        program = ("const t = Date.now(); fetch(process.argv[1]).then(r => r.text()).catch(e => 'failed')"
                   ".then(text => console.log(text, Date.now() - t))")
        new = subprocess.run(["node", "--help"], capture_output=True, text=True, env=self.environment()).stdout
        text, ms = self.assertRan(self.run_out("node", "-e", program, f"http://127.0.0.1:{self.port}/")).stdout.split()
        self.assertEqual(text, "hello" if "--use-env-proxy" in new else "failed")
        text, ms = self.assertRan(self.run_out("node", "-e", program, "http://denied.test/")).stdout.split()
        if "--use-env-proxy" not in new:
            self.assertEqual(text, "failed")
        self.assertLess(int(ms), 5000)  # no resolver to wait for

    def test_N12_node_through_an_agent(self):
        self.have("node")
        program = ("const http = require('http'), proxy = new URL(process.env.http_proxy);"
                   "http.get({host: proxy.hostname, port: proxy.port, path: process.argv[1]},"
                   " r => { r.on('data', d => process.stdout.write(d)) })")
        self.assertEqual(self.run_out("node", "-e", program, f"http://127.0.0.1:{self.port}/").stdout, "hello")

    def test_N13_java(self):
        """A user's own JAVA_TOOL_OPTIONS stand before ours; a JVM that is there uses them."""
        env = self.environment(JAVA_TOOL_OPTIONS="-Dmine=1")
        words = self.run_out("/usr/bin/printenv", "JAVA_TOOL_OPTIONS", env=env).stdout.split()
        self.assertEqual(words[0], "-Dmine=1")
        for word in ("-Dhttp.proxyHost=127.0.0.1", "-Dhttp.proxyPort=3128", "-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128"):
            self.assertIn(word, words)
        self.have("javac")
        if self.account:
            self.skipTest("a JVM takes its time; it was tried as root")
        self.write("Get.java", "import java.net.*; public class Get { public static void main(String[] a) throws Exception {"
                               " System.out.println(System.getProperty(\"mine\"));"
                               " System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }")
        result = self.run_out("java", "Get.java", f"http://127.0.0.1:{self.port}/", env=env)
        self.assertEqual(result.stdout, "1\nhello\n", result.stderr)

    def test_N14_git_over_ssh(self):
        """ssh speaks to the host through our helper; a denied host is one readable line."""
        for program in ("git", "ssh"):
            self.have(program)
        server, seen = served(b"SSH-2.0-none\r\n")
        self.addCleanup(server.close)
        port = server.getsockname()[1]
        self.network["allowedDomains"] = [f"127.0.0.1:{port}"]
        result = self.run_out("git", "ls-remote", f"ssh://git@127.0.0.1:{port}/x.git")
        self.assertNotEqual(result.returncode, 0)
        self.assertTrue(until(lambda: seen))
        self.assertRegex(seen[0], rb"^SSH-2\.0-")
        result = self.run_out("git", "ls-remote", "ssh://git@denied.test/x.git")
        self.assertRegex(result.stderr, r"srt-launch connect: denied\.test:22: .* not on the allow list")
        self.assertIn("allow", result.stderr)
        env = self.environment(GIT_SSH_COMMAND="echo mine >&2; false")
        self.assertIn("mine", self.run_out("git", "ls-remote", "ssh://git@denied.test/x.git", env=env).stderr)
        for odd in ("sp ace", "quo'te", 'dou"ble', "per%cent%h", "$HOME`id`", "back\\slash", "semi;colon #"):
            folder = os.path.join(self.top, odd)
            os.mkdir(folder)
            for program in (self.launch, self.gateway):
                shutil.copy(program, folder)
            self.own()
            script = "git ls-remote ssh://git@denied.test/x.git 2>&1 | grep -o 'connect: denied.test:22'"
            result = subprocess.run([os.path.join(folder, "srt-launch"), "-s", self.settings(), "-c", script], cwd=self.work,
                                    env=self.environment(), capture_output=True, text=True, timeout=60, **self.popen_args())
            self.assertEqual(result.stdout, "connect: denied.test:22\n", odd + result.stderr)

    def test_N02_both_families_have_loopback_and_nothing_else(self):
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        server.setblocking(False)
        self.addCleanup(server.close)
        program = ("import socket, sys\n"
                   "for line in open('/proc/net/if_inet6'): print('address', line.split()[0].lstrip('0'), line.split()[5])\n"
                   "for line in open('/proc/net/dev').readlines()[2:]: print('device', line.split(':')[0].strip())\n"
                   "for line in open('/proc/net/ipv6_route'):\n"
                   "    if line.split()[9] != 'lo': print('route', line)\n"
                   "for line in open('/proc/net/route').readlines()[1:]: print('route', line)\n"
                   "for to in (('::1', int(sys.argv[1])), ('2001:db8::1', 443), ('fe80::1', 443), ('ff02::1', 443)):\n"
                   "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                   "        s = socket.socket(socket.AF_INET6, kind)\n"
                   "        s.settimeout(5)\n"
                   "        try:\n"
                   "            s.connect(to); s.send(b'x'); s.recv(1); print('REACHED', to)\n"
                   "        except OSError: pass\n")
        result = self.assertRan(self.run_out("/usr/bin/env", "python3", "-c", program, str(server.getsockname()[1])))
        self.assertEqual(sorted(result.stdout.split("\n")), ["", "address 1 lo", "device lo"], result.stderr)
        with self.assertRaises(BlockingIOError):
            server.accept()

    def test_N26_a_long_TMPDIR(self):
        long = os.path.join(self.work, "d" * 100, "e" * 100)
        os.makedirs(long)
        self.own()
        env = self.environment(TMPDIR=long)
        result = self.run_out("/bin/sh", "-c", "echo $TMPDIR; mktemp > /dev/null && curl -s $0", f"http://127.0.0.1:{self.port}/", env=env)
        self.assertEqual(result.stdout, f"{long}\nhello", result.stderr)
        far = os.path.join(self.top, "f" * 150)
        os.mkdir(far)
        self.own()
        result = self.run_out("/bin/sh", "-c", "cd $TMPDIR && mktemp > /dev/null && curl -s $0", f"http://127.0.0.1:{self.port}/",
                              env=self.environment(TMPDIR=far))
        self.assertEqual(result.stdout, "hello", result.stderr)


# Does what it is told, a line at a time: get (a status, or the error), open (a tunnel), tunnel (is it alive).
INSIDE = """
import socket, sys
host, port = sys.argv[1].split(':')
def connect():
    s = socket.create_connection(('127.0.0.1', 3128), 30)
    s.settimeout(30)
    return s
def head(s):
    got = b''
    while b'\\r\\n\\r\\n' not in got:
        more = s.recv(65536)
        if not more: raise EOFError
        got += more
    return got.split()[1].decode()
tunnel = None
print('up', flush=True)
for line in sys.stdin:
    word = line.strip()
    try:
        if word == 'get':
            s = connect()
            s.sendall(f'GET http://{host}:{port}/ HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
            answer = head(s)
        elif word == 'open':
            tunnel = connect()
            tunnel.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
            answer = head(tunnel)
        else:
            answer = 'ended' if tunnel.recv(1) == b'' else 'bytes'
    except (OSError, EOFError) as error:
        answer = type(error).__name__
    print(answer, flush=True)
"""


class Live(Served):
    """The whole of it: srt-launch, a private gateway of ours, a program inside, and a policy that changes."""

    def live(self, *options, **args):
        self.process = self.start("-s", self.settings(), *options, "/usr/bin/env", "python3", "-c", INSIDE, self.target,
                                  settings=False, **args)
        patience = threading.Timer(120, self.process.kill)  # what waits for a word from it then fails
        patience.start()
        self.addCleanup(patience.cancel)
        self.assertEqual(self.process.stdout.readline(), "up\n")

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def told(self, pattern):
        """Reads standard error until a line matches."""
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if re.search(pattern, line):
                return line
        self.fail(f"{pattern} was not said, but {lines}")

    @staticmethod
    def policy(*names):
        return json.dumps({"network": {"allowedDomains": list(names), "deniedDomains": []}}) + "\n"

    def test_N22_a_policy_that_changes_under_a_running_program(self):
        read, write = os.pipe()
        self.live("--control-fd", str(read), pass_fds=(read,))
        os.close(read)
        control = open(write, "w")
        self.addCleanup(control.close)

        def say(text):
            control.write(text)
            control.flush()

        self.assertEqual(self.ask("get"), "403")
        say(self.policy(self.target))
        self.told("network policy 1 is in force, generation")
        self.assertEqual((self.ask("get"), self.ask("open")), ("200", "200"))
        say(self.policy("other.test"))
        self.told("network policy 2 is in force")
        self.assertEqual((self.ask("get"), self.ask("tunnel")), ("403", "ended"))
        say("{bad}\n" + self.policy("*.com") + self.policy(7))
        self.told("line 3 is ignored")
        self.told("line 5 is ignored")
        self.told("network policy 3 is rejected.*\\*\\.com")
        self.assertEqual(self.ask("get"), "403")
        large = self.policy(self.target, *(f"{'x' * 40}.n{number}.test" for number in range(20_000)))
        self.assertGreater(len(large), 1_000_000)
        say(large)
        self.told("network policy 4 is in force")
        self.assertEqual(self.ask("get"), "200")
        threading.Thread(target=say, args=("".join(self.policy(*names) for _ in range(500) for names in ((), (self.target,))),)).start()
        self.told("network policy 1004 is in force")
        self.assertEqual(self.ask("get"), "200")
        say(self.policy()[:-5])  # half a line, and the end
        control.close()
        self.told("line 1007 is ignored and the policy stays as it was: .*not valid JSON")
        self.assertEqual(self.ask("get"), "200")

    def test_N22_lines_that_are_there_at_the_start_are_judged_like_later_ones(self):
        self.network["allowedDomains"] = [self.target]
        for lines, answer, said in ((self.policy("*"), "200", "network policy 1 is rejected, the one before stays: "
                                     "network.allowedDomains[0]: rule `*`"),
                                    (self.policy() + self.policy("*.com"), "403", "network policy 1 is in force"),
                                    ("{}\ngarbage\n" + self.policy(), "403", "line 2 is ignored"),
                                    (self.policy().rstrip(), "403", "network policy 1 is in force")):
            read, write = os.pipe()
            os.write(write, lines.encode())
            self.live("--control-fd", str(read), pass_fds=(read,))
            os.close(read)
            os.close(write)
            self.assertEqual(self.ask("get"), answer)
            _, err = self.process.communicate(timeout=20)
            self.assertIn(said, err)

    def test_N22_a_gateway_that_comes_back_hears_what_was_in_force(self):
        """Not what the one before it has rejected, and also what nobody has answered."""
        read, write = os.pipe()
        self.addCleanup(os.close, write)
        self.live("--control-fd", str(read), pass_fds=(read,))
        os.close(read)
        os.write(write, (self.policy(self.target) + self.policy("*.com")).encode())
        self.told("network policy 2 is rejected")
        for update, answer in (("", "200"), (self.policy(), "403")):
            (gateway,) = self.gateways()
            os.kill(gateway, signal.SIGSTOP)
            os.write(write, update.encode())
            os.kill(gateway, signal.SIGKILL)
            self.told("the gateway is back")
            if update:
                self.told("network policy 3 is in force")
            self.assertEqual(self.ask("get"), answer)

    def gateways(self):
        return [pid for pid in descendants(self.process.pid) if comm(pid) == "srt-gateway"]

    def test_N19_a_private_gateway_that_dies_comes_back_and_at_last_does_not(self):
        self.network["allowedDomains"] = [self.target]
        self.live()
        self.assertEqual(self.ask("get"), "200")
        for number in range(5):
            (gateway,) = self.gateways()
            os.kill(gateway, signal.SIGKILL)
            self.told("the gateway is gone; the sandbox has no way out")
            if number < 4:
                self.told("the gateway is back")
                self.assertEqual(self.ask("get"), "200")
        self.told("has ended 5 times; the sandbox has no way out any more")
        connections = len(self.seen)
        self.assertEqual(self.ask("get"), "ConnectionRefusedError")  # at once
        self.assertEqual(len(self.seen), connections)
        self.assertEqual(self.gateways(), [])
        self.process.communicate(timeout=20)
        self.assertEqual(self.process.returncode, 0)


class Descriptors(Launch):
    def test_N23_what_the_launcher_holds_is_not_to_be_had_inside(self):
        """No descriptor of ours is in any process inside, and nothing that is written there is policy."""
        path = os.path.join(self.top, "g")
        gateway = FakeGateway(path, ATTACHED)
        self.addCleanup(gateway.close)
        control, write = os.pipe()
        read, violations = os.pipe()
        for fd in (control, write, read, violations):
            self.addCleanup(os.close, fd)
        policy = json.dumps({"network": {"allowedDomains": ["evil.test"], "deniedDomains": []}}) + "\n"
        program = ("import os, socket, sys\n"
                   "policy = sys.argv[1].encode()\n"
                   "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
                   "    try: fds = os.listdir(f'/proc/{pid}/fd')\n"
                   "    except OSError: continue\n"
                   "    for fd in fds:\n"
                   "        if int(fd) <= 2: continue\n"
                   "        try: print(pid, fd, os.readlink(f'/proc/{pid}/fd/{fd}'))\n"
                   "        except OSError: pass\n"
                   "        try: os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY), policy)\n"
                   "        except OSError: pass\n"
                   "for fd in range(3, 1024):\n"
                   "    try: os.write(fd, policy); print('WROTE', fd)\n"
                   "    except OSError: pass\n"
                   "s = socket.create_connection(('127.0.0.1', 3128))\n"
                   "s.sendall(len(policy).to_bytes(4, 'big') + policy)\n")
        result = self.run_plain("-s", self.settings(), "--gateway", "unix:" + path, "--control-fd", str(control), "--violations-fd",
                                str(violations), "--publish", "0:9", "/usr/bin/env", "python3", "-I", "-c", program, policy,
                                pass_fds=(control, violations))
        self.assertRan(result)
        # What the program opens itself to look is in its own list, and nothing else.
        mine = [line for line in result.stdout.splitlines() if not re.search(r" /proc/\d+/fd$", line)]
        self.assertEqual(mine, [], result.stdout)
        self.assertEqual([message["type"] for message in gateway.seen], ["attach"])
        self.assertFalse(select.select([read], [], [], 0)[0], "a violation of our own making")


both(globals(), Publish, Programs, Live, Descriptors)

if __name__ == "__main__":
    unittest.main()
