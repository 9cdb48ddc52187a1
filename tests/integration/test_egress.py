"""The way out as a Unix socket instead of a port (`--egress socket`)."""
import json
import os
import shutil
import signal
import socket
import subprocess
import unittest

from lab import main
from lab.gateway import environment
from lab.launch import LaunchCase, binary
from lab.talk import PATIENCE_S

ASK = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(os.environ['SRT_EGRESS_SOCKET'])
"""
GET = ASK + """
sock.sendall(b'GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % ((sys.argv[1].encode(),) * 2))
while data := sock.recv(65536):
    sys.stdout.write(data.decode('latin-1'))
"""
SOCKS = ASK + """
host, port = sys.argv[1].rsplit(':', 1)
sock.sendall(b'\\5\\1\\0')
assert sock.recv(2) == b'\\5\\0'
sock.sendall(b'\\5\\1\\0\\1' + socket.inet_aton(host) + int(port).to_bytes(2, 'big'))
print(sock.recv(10)[1])
"""
# Each line is one word and a target: `ask` says how a tunnel is answered, `open` keeps it, `end` waits for the end of what was kept.
TALK = """
import os, socket, sys
kept = None
for line in sys.stdin:
    word, where = line.split()
    if word == 'end':
        print(repr(kept.recv(1)), flush=True)
        continue
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ['SRT_EGRESS_SOCKET'])
    sock.sendall(f'CONNECT {where} HTTP/1.1\\r\\nHost: {where}\\r\\n\\r\\n'.encode())
    print(sock.recv(65536).split()[1].decode(), flush=True)
    if word == 'open':
        kept = sock
"""


class Socket(LaunchCase):
    def inside(self, script, *words, options=(), allow=(), **settings):
        return self.launch("-s", self.settings(allow=allow, **settings), "--egress", "socket", *options, "--", "python3", "-c", script, *words)

    def authority(self):
        origin = self.origin()
        return f"{origin.address}:{origin.port}"

    def test_http_and_socks_over_the_socket(self):
        where = self.authority()
        self.assertIn("HTTP/1.1 200", self.inside(GET, where, allow=[where]).out)
        self.assertEqual(self.inside(SOCKS, where, allow=[where]).out, "0\n")

    def test_curl_as_documented(self):
        where = self.authority()

        def ask(**settings):
            return self.launch("-s", self.settings(**settings), "--egress", "socket", "--", "sh", "-c",
                               'exec curl -sS -o /dev/null -w "%{http_code}" -x "socks5h://localhost$SRT_EGRESS_SOCKET" "$0"', f"http://{where}/")
        self.assertEqual(ask(allow=[where]).out, "200")
        self.assertIn("Can't complete SOCKS5 connection", ask().err)

    def test_what_is_not_allowed_is_refused(self):
        where = self.authority()
        self.assertIn("HTTP/1.1 403", self.inside(GET, where).out)
        self.assertEqual(self.inside(SOCKS, where).out, "2\n")

    def test_through_a_running_gateway_by_the_name_of_the_sandbox(self):
        where = self.authority()
        gateway = self.shared_gateway(allow=[where])
        answer = self.inside(GET, where, allow=[where], options=("--gateway", gateway.control, "--name", "box"))
        self.assertIn("HTTP/1.1 200", answer.out)
        self.assertEqual(gateway.decision()["sandbox"], "box")

    def test_connect_uses_it(self):
        where = self.authority()
        host, port = where.rsplit(":", 1)
        done = self.launch("-s", self.settings(), "--egress", "socket", "--", binary(), "connect", host, port)
        self.assertEqual(done.status, 1, done)
        self.assertIn(where, done.err)
        self.launch("-s", self.settings(allow=[where]), "--egress", "socket", "--", binary(), "connect", host, port, status=0)

    @unittest.skipUnless(os.getuid() == 0, "/run can be another one for root only")
    def test_what_the_host_has_at_that_name_is_not_the_way_out_of_a_port(self):
        where = self.authority()
        script = 'mount -t tmpfs run /run && mkdir /run/srt && touch /run/srt/egress.sock && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", binary(), "-s", self.settings(allow=[where]), "--", binary(),
                               "connect", *where.rsplit(":", 1)], cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_way_out_is_said(self):
        done = self.launch("-s", self.settings(), "--egress", "none", "--", binary(), "connect", "a.test", "80", status=125)
        self.assertIn("there is no way out, neither at 127.0.0.1:3128 nor at /run/srt/egress.sock\n", done.err)

    def test_nothing_listens_on_loopback_and_no_variable_says_so(self):
        done = self.inside("import os, socket; print(socket.socket().connect_ex(('127.0.0.1', 3128)));"
                           "print([n for n in os.environ if 'proxy' in n.lower()])")
        self.assertEqual(done.out, "111\n[]\n", done)

    def test_no_other_unix_socket_may_be_connected_to(self):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.join(self.work, "other"))
            server.listen()
            done = self.inside("import socket; print(socket.socket(socket.AF_UNIX).connect_ex('other'))")
        self.assertEqual(done.out, "1\n", done)

    def test_the_socket_stays_where_it_is(self):
        done = self.inside("""
import os
for act in (lambda: os.unlink('/run/srt/egress.sock'), lambda: os.rename('/run/srt', '/run/x'), lambda: open('/run/srt/x', 'w'),
            lambda: os.chmod('/run/srt/egress.sock', 0), lambda: os.mkdir('/run/y')):
    try:
        act()
        print('done')
    except OSError as error:
        print('refused')
""", write=("/run",) if os.getuid() == 0 else (".",))
        self.assertEqual(done.out, "refused\n" * 5, done)

    def test_what_is_in_run_is_there_and_nothing_is_left_on_the_host(self):
        before = sorted(os.listdir("/run"))
        done = self.inside("import os; print(*sorted(os.listdir('/run')), sep='\\n')")
        self.assertEqual(done.out.split("\n")[:-1], sorted({*before, "srt"}), done)
        self.assertEqual(sorted(os.listdir("/run")), before)

    def test_a_hidden_run_still_has_the_socket(self):
        where = self.authority()
        self.assertIn("HTTP/1.1 200", self.inside(GET, where, allow=[where], filesystem={"denyRead": ["/run"]}).out)

    def test_built_by_bubblewrap(self):
        where = self.authority()
        self.assertIn("HTTP/1.1 200", self.inside(GET, where, allow=[where], bwrapPath=shutil.which("bwrap")).out)

    def test_dry_run_says_where_it_is(self):
        done = self.launch("-s", self.settings(), "--egress", "socket", "--dry-run", "true", status=0)
        self.assertIn("way out: /run/srt/egress.sock, a private gateway\n", done.out)
        self.assertIn("SRT_EGRESS_SOCKET=/run/srt/egress.sock\n", done.out)
        self.assertIn("  own /run (--egress socket)\n", done.out)

    def test_not_with_nested_namespaces(self):
        done = self.launch("-s", self.settings(allowNestedUserNamespaces=True), "--egress", "socket", "true", status=125)
        self.assertIn("exclude each other", done.err)

    def test_what_the_gateway_says_of_itself_there_is_nothing_of_the_host(self):
        done = self.inside(ASK + """
import fcntl, struct
print(struct.unpack('3i', sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
try:
    pidfd = struct.unpack('i', sock.getsockopt(socket.SOL_SOCKET, 77, 4))[0]  # SO_PEERPIDFD
    with open(f'/proc/self/fdinfo/{pidfd}') as file:
        print(*[line.split()[1] for line in file if line.startswith('Pid:')])
except OSError:
    print(-1)
""")
        self.assertEqual(done.out.split(), ["0", "-1"], done)

    def test_no_descriptor_is_passed_to_the_gateway(self):
        """Closing it may take long, which would be the worker's time. Linux lets nobody say so before 6.16."""
        done = self.inside(ASK + """
import array
try:
    sock.sendmsg([b'GET'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
    print('passed', os.uname().release)
except PermissionError:
    print('refused')
""")
        release = tuple(int(number) for number in os.uname().release.split("-")[0].split(".")[:2])
        self.assertEqual(done.out.split()[0], "refused" if release >= (6, 16) else "passed", done)


class Life(LaunchCase):
    """The socket stays the sandbox's way out whatever becomes of the gateway behind it."""

    def setUp(self):
        super().setUp()
        self.target = self.upstream()
        self.where = f"{self.target.address}:{self.target.port}"

    def shared(self):
        return self.shared_gateway(allow=[self.where], operated=True)

    def start(self, *options):
        self.command = subprocess.Popen([binary(), "-s", self.settings(allow=[self.where]), "--egress", "socket", *options, "--", "python3",
                                         "-c", TALK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.work,
                                        text=True, bufsize=1, env={**environment(), "HOME": self.home})
        self.addCleanup(self.command.communicate)
        self.addCleanup(self.command.kill)

    def say(self, word, where):
        self.command.stdin.write(f"{word} {where}\n")

    def hear(self):
        return self.command.stdout.readline().strip()

    def ask(self, word="ask", where=None):
        self.say(word, where or self.where)
        return self.hear()

    def told(self, text):
        for line in self.command.stderr:
            if text in line:
                return
        self.fail(f"{text} was not said")

    def finish(self):
        out, err = self.command.communicate(timeout=PATIENCE_S)
        self.assertEqual((self.command.returncode, out), (0, ""), err)

    def children(self, name):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    before, after = file.read().rsplit(")", 1)
            except OSError:
                continue
            if before.split("(", 1)[1] == name and int(after.split()[1]) == self.command.pid:
                found.append(int(pid))
        return found

    def test_a_private_gateway_that_dies_is_followed_by_another_until_it_has_no_more(self):
        self.start()
        self.assertEqual(self.ask("open"), "200")
        for number in range(5):
            (gateway,) = self.children("srt-gateway")
            os.kill(gateway, signal.SIGKILL)
            self.told("the gateway is gone")
            if number == 0:
                self.assertEqual(self.ask("end"), "b''")
            if number < 4:
                self.told("the gateway is back")
                self.assertEqual((self.ask(), self.ask(where="evil.test:80")), ("200", "403"))
        self.told("has no way out any more")
        self.say("ask", self.where)
        self.assertNotEqual(self.command.wait(PATIENCE_S), 0)
        self.assertIn("ConnectionRefusedError", self.command.stderr.read())

    def test_a_shared_gateway_that_starts_anew_is_given_the_socket_again(self):
        gateway = self.shared()
        self.start("--gateway", gateway.control, "--name", "box")
        self.assertEqual(self.ask("open"), "200")
        gateway.stop()
        self.assertEqual(self.ask("end"), "b''")
        self.say("ask", self.where)  # waits in the socket's queue, and is judged by who takes it over
        with open(gateway.config_path, encoding="utf-8") as file:
            again = self.gateway(file.read())
        self.assertEqual((self.hear(), self.ask(where="evil.test:80")), ("200", "403"))
        self.assertEqual(again.decision(host="evil.test")["sandbox"], "box")
        self.finish()

    def test_another_process_takes_it_over_and_what_is_open_stays(self):
        gateway = self.shared()
        self.start("--gateway", gateway.control)
        self.assertEqual(self.ask("open"), "200")
        for _ in range(2):
            gateway.hand_over()
            self.assertEqual((self.ask(), self.ask(where="evil.test:80")), ("200", "403"))
        first = gateway.records("decision")[0]
        gateway.operate(f"/tunnels/{first['id']}/cut", "POST")
        self.assertEqual(self.ask("end"), "b''")
        self.assertEqual(gateway.close_record(first["id"])["cause"], "cut")
        self.assertEqual(self.ask(), "200")
        self.finish()
        self.assertEqual(len({entry["sandbox"] for entry in gateway.records("decision")}), 1)

    def test_a_tunnel_that_is_cut_ends_and_others_may_be_opened(self):
        gateway = self.shared()
        self.start("--gateway", gateway.control)
        self.assertEqual(self.ask("open"), "200")
        (tunnel,) = json.loads(gateway.operate("/tunnels"))
        gateway.operate(f"/tunnels/{tunnel['id']}/cut", "POST")
        self.assertEqual(self.ask("end"), "b''")
        self.assertEqual(gateway.close_record(tunnel["id"])["cause"], "cut")
        self.assertEqual(self.ask(), "200")
        self.finish()

    def test_what_is_open_ends_with_the_command_and_is_recorded(self):
        gateway = self.shared()
        self.start("--gateway", gateway.control)
        self.assertEqual(self.ask("open"), "200")
        self.command.kill()
        gateway.wait_for_record(lambda entry: entry["kind"] == "detach")
        self.assertEqual(gateway.close_record(gateway.decision()["id"])["host"], self.target.address)
        self.assertEqual(json.loads(gateway.operate("/tunnels")), [])


if __name__ == "__main__":
    main()
