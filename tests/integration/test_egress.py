"""The way out as a Unix socket instead of a port (`--egress socket`)."""
import os
import shutil
import socket
import subprocess
import unittest

from lab import main
from lab.launch import LaunchCase, binary

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

    def test_not_with_nested_namespaces(self):
        done = self.launch("-s", self.settings(allowNestedUserNamespaces=True), "--egress", "socket", "true", status=125)
        self.assertIn("exclude each other", done.err)

    def test_transparent_is_refused_by_name(self):
        self.assertIn("transparent", self.launch("-s", self.settings(), "--egress", "transparent", "true", status=125).err)


if __name__ == "__main__":
    main()
