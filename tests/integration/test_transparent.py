"""Programs that know no proxy (`--egress transparent`): what they connect to is judged all the same, by name."""
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from fence import both
from lab import main
from lab.gateway import environment
from lab.launch import LaunchCase, binary
from lab.origin import reply
from lab.seccomp import under_filter
from test_launch import Launch

# What the scripts inside share. Nobody in them looks at a variable that names a proxy.
INSIDE = r"""
import os, select, socket, ssl, struct, sys, threading, time
V4, V6 = socket.AF_INET, socket.AF_INET6
def look_up(name, family=V4): return socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)[0][4][0]
def dial(host, port, family=V4):
    sock = socket.socket(V6 if ':' in host else family)
    sock.settimeout(30)
    sock.connect((host, int(port)))
    return sock
def rest(sock):
    data = b''
    try:
        while more := sock.recv(65536): data += more
    except ConnectionResetError:
        return data + b'RESET'
    return data
def fetch(sock, name):
    # One answer, as long as it says it is; a server of the laboratory does not end the connection.
    sock.sendall(b'GET / HTTP/1.1\r\nHost: %s\r\n\r\n' % name.encode())
    stream = sock.makefile('rb')
    head = b''.join(iter(stream.readline, b'\r\n'))
    length = [int(line[15:]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length:')]
    return (head + b'\r\n' + stream.read(*length)).decode('latin-1')
def get(host, port, family=V4, name=None):
    return fetch(dial(look_up(host, family), port, family), name or host)
def wire(name): return b''.join(bytes([len(l)]) + l.encode('latin-1') for l in name.split('.') if l) + b'\0'
def question(name, kind=1, flags=0x100, id=7, klass=1, more=b'', additional=0):
    return struct.pack('>6H', id, flags, 1, 0, 0, additional) + wire(name) + struct.pack('>2H', kind, klass) + more
def ask(message, server='127.0.0.1', timeout=20):
    sock = socket.socket(V6 if ':' in server else V4, socket.SOCK_DGRAM)
    sock.settimeout(timeout)
    sock.connect((server, 53))
    sock.send(message)
    return sock.recv(65536)
def rcode(answer): return answer[3] & 15
def count(answer): return struct.unpack('>H', answer[6:8])[0]
def address(answer): return socket.inet_ntop(V4, answer[-4:])
"""


class Transparent(LaunchCase):
    def words(self, script, *words, options=(), **settings):
        return ["-s", self.settings(**settings), "--egress", "transparent", *options, "--", "python3", "-c", INSIDE + script, *map(str, words)]

    def inside(self, script, *words, allow=("good.test",), gateway=None, options=(), status=0, **settings):
        """What the script says, in a sandbox whose way out is `gateway`."""
        gateway = gateway or self.gw
        return self.launch(*self.words(script, *words, allow=allow, options=("--gateway", gateway.control, *options), **settings), status=status)

    def lab(self, allow=("good.test",), hosts=None, server=None, **parts):
        """A gateway that knows good.test, an origin; every port of it is allowed unless `allow` says otherwise."""
        self.server = server or self.origin("good.test")
        allow = [f"{name}:*" if ":" not in name else name for name in allow]
        self.gw = self.shared_gateway(allow=allow, hosts=hosts or [self.server], **parts)
        return self.server


class Programs(Transparent):
    def test_a_program_that_knows_no_proxy(self):
        origin = self.lab()
        for family in ("V4", "V6"):
            with self.subTest(family=family):
                self.assertIn("GET / at good.test", self.inside(f"print(get('good.test', sys.argv[1], {family}))", origin.port).out)
        decision = self.gw.decision("good.test")
        self.assertEqual((decision["front"], decision["host"], decision["port"], decision["verdict"], decision["rule"], decision["addr"]),
                         ("transparent", "good.test", origin.port, "allow", decision["rule"], origin.address))
        closed = self.gw.close_record(decision["id"])
        self.assertEqual((closed["front"], closed["host"], closed["bytes_down"] > 0), ("transparent", "good.test", True))

    def test_curl_and_wget_and_node(self):
        origin = self.lab()
        url = f"http://good.test:{origin.port}/"
        for words in (["curl", "-sS", "--noproxy", "*", url], ["wget", "-q", "--no-proxy", "-O", "-", url],
                      ["node", "-e", f"require('http').get({url!r}, {{agent: new (require('http').Agent)()}}, a => a.pipe(process.stdout))"]):
            if shutil.which(words[0]) is None:
                continue
            done = self.launch("-s", self.settings(allow=["good.test"]), "--egress", "transparent", "--gateway", self.gw.control, "--",
                               "env", "-u", "NODE_USE_ENV_PROXY", *words)
            self.assertEqual((done.status, done.out), (0, "GET / at good.test"), done)
        self.assertEqual({self.gw.decision("good.test", n)["front"] for n in (1, 2)}, {"transparent"})

    def test_https(self):
        origin = self.lab(server=self.origin("good.test", tls=True))
        script = """
context = ssl.create_default_context(cafile=sys.argv[2])
sock = context.wrap_socket(dial(look_up('good.test'), sys.argv[1]), server_hostname='good.test')
print(fetch(sock, 'good.test'))
"""
        self.assertIn("GET / at good.test", self.inside(script, origin.port, self.authority().certificate).out)
        self.assertEqual(self.gw.close_record()["sni"], "good.test")

    def test_a_server_that_speaks_first(self):
        server = self.lab(server=self.upstream(lambda talk: talk.send(b"220 ready\r\n"), name="good.test"))
        self.assertEqual(self.inside("print(rest(dial(look_up('good.test'), sys.argv[1])))", server.port).out, "b'220 ready\\r\\n'\n")

    def test_much_both_ways_and_half_closed(self):
        server = self.lab(server=self.upstream(name="good.test"))
        script = """
sock = dial(look_up('good.test'), sys.argv[1])
data = b'clear' + os.urandom(3_000_000)  # no TLS hello
threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)), daemon=True).start()
print(rest(sock) == data)
"""
        self.assertEqual(self.inside(script, server.port).out, "True\n")

    def test_resolvers_that_are_not_the_c_librarys(self):
        """c-ares, which node has, reads resolv.conf itself and asks for both families at once."""
        if shutil.which("node") is None:
            self.skipTest("node is not installed")
        self.lab()
        script = "const d = require('dns').promises; Promise.all([d.resolve4('good.test'), d.resolve6('good.test'), d.lookup('good.test')])" \
                 ".then(([a, b, c]) => console.log(a[0] == c.address || b[0] == c.address, a[0].slice(0, 7)))"
        done = self.launch("-s", self.settings(), "--egress", "transparent", "--gateway", self.gw.control, "--", "node", "-e", script, status=0)
        self.assertRegex(done.out, r"^true 198\.1[89]\.\n$")

    def test_connect_goes_by_the_proxy(self):
        server = self.lab(server=self.upstream(name="good.test"))
        done = self.launch("-s", self.settings(allow=["good.test"]), "--egress", "transparent", "--gateway", self.gw.control, "--",
                           binary(), "connect", "good.test", str(server.port), stdin=b"there and back", status=0)
        self.assertEqual(done.out, "there and back")
        self.assertEqual(self.gw.decision("good.test")["front"], "connect")

    def test_the_proxy_and_its_variables_are_there_as_ever(self):
        origin = self.lab()
        url = f"http://good.test:{origin.port}/"
        done = self.launch("-s", self.settings(allow=["good.test"]), "--egress", "transparent", "--gateway", self.gw.control, "--",
                           "sh", "-c", f"curl -sS {url} && curl -sS -p -x socks5h://127.0.0.1:3128 {url} && echo $HTTPS_PROXY", status=0)
        self.assertEqual(done.out, "GET / at good.test" * 2 + "http://127.0.0.1:3128\n")
        self.assertEqual([self.gw.decision("good.test", n)["front"] for n in (1, 2)], ["http", "socks5"])

    def test_a_proxied_client_that_looks_names_up_itself(self):
        """`socks5://` resolves at the client: what it brings is an address that stands for the name."""
        origin = self.lab()
        done = self.launch("-s", self.settings(allow=["good.test"]), "--egress", "transparent", "--gateway", self.gw.control, "--",
                           "curl", "-sS", "-x", "socks5://127.0.0.1:3128", f"http://good.test:{origin.port}/", status=0)
        self.assertEqual(done.out, "GET / at good.test")
        self.assertEqual(self.gw.decision("good.test")["host"], "good.test")

    def test_many_at_once_each_reach_what_they_named(self):
        origins = [self.origin(f"h{n}.test") for n in range(8)]
        self.lab(allow=["*.test"], hosts=origins, server=origins[0])
        script = """
wrong = []
def one(n):
    name, port = f'h{n % 8}.test', sys.argv[1 + n % 8]
    if f'at {name}' not in get(name, port, V6 if n % 3 else V4): wrong.append(n)
threads = [threading.Thread(target=one, args=(n,)) for n in range(160)]
for t in threads: t.start()
for t in threads: t.join()
print(wrong)
"""
        self.assertEqual(self.inside(script, *[origin.port for origin in origins], allow=["*.test"]).out, "[]\n")

    def test_servers_inside_are_reached_on_loopback(self):
        self.lab()
        script = """
for host in ('127.0.0.1', '127.1.2.3', '::1'):
    server = socket.create_server((host, 8080), family=V6 if ':' in host else V4)
    client = dial(host, 8080)
    client.sendall(b'x')
    print(server.accept()[0].recv(1))
print(look_up('localhost'), look_up(socket.gethostname()), look_up('a.localhost'))
"""
        self.assertEqual(self.inside(script).out, "b'x'\n" * 3 + "127.0.0.1 127.0.0.1 127.0.0.1\n")
        self.assertEqual(self.gw.records("decision"), [])

    def test_servers_inside_are_reached_from_any_address(self):
        """Every address is the sandbox's own, so clients may say that they come from one."""
        self.lab()
        done = self.inside("""
data = os.urandom(300_000)
def answer(server):
    while True:
        sock = server.accept()[0]
        sock.sendall(rest(sock))
        sock.close()
for here, there, family in (('127.0.0.1', '198.18.0.1', V4), ('127.0.0.1', '192.0.2.1', V4), ('127.0.0.1', '127.0.0.2', V4),
                            ('::1', 'fd3c:5e1a:77d2::c612:1', V6)):
    server = socket.create_server((here, 0), family=family)
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    sock = socket.socket(family)
    sock.settimeout(20)
    sock.bind((there, 0))
    sock.connect(server.getsockname()[:2])
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    print(rest(sock) == data)
""")
        self.assertEqual(done.out, "True\n" * 4)

    def test_where_nobody_listens_on_loopback_nothing_answers(self):
        self.lab()
        for host in ("127.0.0.1", "0.0.0.0"):
            self.assertEqual(self.inside("print(socket.socket().connect_ex((sys.argv[1], 8080)))", host).out, "111\n")

    def test_addresses_of_ipv6_are_of_a_range_of_their_own(self):
        self.lab()
        self.assertRegex(self.inside("print(look_up('good.test', V6))").out, r"^fd3c:5e1a:77d2::c61[23]:[0-9a-f]+\n$")


class Refused(Transparent):
    def test_in_clear_the_refusal_is_explained(self):
        names = self.name_server({})
        self.lab(names=names)
        done = self.inside("print(get('evil.test', 80))")
        self.assertIn("HTTP/1.1 403 Blocked by policy\r\nProxy-Status: srt-gateway; error=http_request_denied;", done.out)
        body = json.loads(done.out.split("\r\n\r\n", 1)[1])
        self.assertEqual((body["reason"], body["host"], body["port"], body["message"]),
                         ("not-allowed", "evil.test", 80, "evil.test:80 is not on the allow list of policy main"))
        self.assertEqual(self.gw.decision("evil.test")["front"], "transparent")
        self.assertEqual(names.questions, [], "a denied name was resolved")

    def test_to_head_without_a_body(self):
        self.lab()
        done = self.inside("s = dial(look_up('evil.test'), 80); s.sendall(b'HEAD / HTTP/1.1\\r\\n\\r\\n'); print(rest(s))")
        self.assertRegex(done.out, r"^b'HTTP/1.1 403 .*\\r\\n\\r\\n'\n$")

    def test_in_tls_by_an_alert(self):
        names = self.name_server({})
        self.lab(names=names)
        done = self.inside("""
try:
    ssl.create_default_context().wrap_socket(dial(look_up('evil.test'), 443), server_hostname='evil.test')
except ssl.SSLError as error:
    print(error.reason)
""")
        self.assertEqual(done.out, "TLSV1_ALERT_ACCESS_DENIED\n")
        self.assertEqual(names.questions, [])

    def test_in_any_other_language_by_a_reset(self):
        self.lab()
        done = self.inside("""
for words in (b'SSH-2.0-x\\r\\n', b'', b'EHLO\\r\\n', b'get /\\r\\n', b'\\0\\0', b'GET'):
    sock = dial(look_up('evil.test'), 22)
    sock.sendall(words)
    print(rest(sock))
""")
        self.assertEqual(done.out, "b'RESET'\n" * 6)

    def test_the_launcher_says_what_was_denied(self):
        self.lab()
        done = self.inside("get('evil.test', 8443); sys.exit(1)", status=1)
        self.assertIn("evil.test:8443 is not on the allow list of policy main", done.err)

    def test_addresses_are_judged_as_addresses(self):
        origin = self.lab(allow=["good.test", "192.0.2.7:80"])
        for host in ("192.0.2.1", "2001:db8::1", "169.254.169.254", origin.address):
            with self.subTest(host=host):
                if host.startswith("127."):
                    continue
                done = self.inside("print(fetch(dial(sys.argv[1], 80), 'x'))", host)
                self.assertIn("HTTP/1.1 403", done.out)
                self.assertEqual(self.gw.decision(host)["reason"], "not-allowed")

    def test_a_literal_that_is_allowed_is_dialled(self):
        """Where it leads is the gateway's to say: here its guard, as TEST-NET is nobody's."""
        self.lab(allow=["192.0.2.7"])
        self.inside("fetch(dial('192.0.2.7', 80), 'x')", allow=["192.0.2.7"])
        decision = self.gw.decision("192.0.2.7")
        self.assertIn(decision["reason"], ("connect-unreachable", "connect-timeout", "address-denied", "connect-refused"), decision)

    def test_ports_are_judged(self):
        origin = self.lab(allow=["good.test:1"])
        self.assertIn("allows this host on other ports only",
                      self.inside("print(get('good.test', sys.argv[1]))", origin.port).out)

    def test_the_guard_holds(self):
        for policy in ("deny-addresses = 127.0.0.0/8", ""):
            with self.subTest(policy=policy):
                origin = self.origin("good.test")
                self.lab(server=origin, policy=policy, allow_addresses=() if not policy else ("127.0.0.0/8",))
                self.assertIn("HTTP/1.1 403", self.inside("print(get('good.test', sys.argv[1]))", origin.port).out)
                self.assertEqual(self.gw.decision("good.test")["reason"], "address-denied")
                self.assert_untouched(origin)
                self.gw.stop()

    def test_the_server_name_is_the_one_that_was_looked_up(self):
        origin = self.lab(server=self.origin("good.test", tls=True))
        done = self.inside("""
context = ssl.create_default_context(cafile=sys.argv[2])
context.check_hostname = False
try:
    context.wrap_socket(dial(look_up('good.test'), sys.argv[1]), server_hostname='evil.test')
except ssl.SSLError as error:
    print(error.reason)
""", origin.port, self.authority().certificate)
        self.assertEqual(done.out, "TLSV1_UNRECOGNIZED_NAME\n")
        self.assertEqual(self.gw.decision("good.test", number=2)["reason"], "sni-mismatch")
        self.assertEqual(self.gw.close_record()["cause"], "policy")

    def test_what_cannot_be_reached_is_not_there(self):
        port = self.closed_port()
        self.lab(allow=["*.test:*"], hosts={"good.test": "127.0.0.2"}, names=self.name_server({}))
        done = self.inside("""
for name, port in (('good.test', int(sys.argv[1])), ('gone.test', 443)):
    sock = dial(look_up(name), port)
    sock.sendall(b'\\x16\\x03\\x01')
    print(rest(sock))
print(get('gone.test', 80))
""", port, allow=["*.test"])
        self.assertEqual(done.out[:18], "b'RESET'\nb'RESET'\n")
        self.assertIn("HTTP/1.1 502 Bad Gateway", done.out)
        self.assertEqual([self.gw.decision("good.test")["reason"], self.gw.decision("gone.test")["reason"]], ["connect-refused", "dns-nxdomain"])

    def test_the_listener_itself_is_no_way_to_anything(self):
        self.lab()
        done = self.inside("""
for host in ('127.0.0.1', '::1') * 20:
    print(fetch(dial(host, 54), 'good.test'))
""")
        self.assertEqual(done.out.count("nothing says where this connection was meant to go"), 2 * 40, done)

    def test_the_listener_itself_leads_nowhere_from_any_address(self):
        """Its answers to an address that is not loopback are all that the kernel sees: not the question."""
        self.lab()
        done = self.inside("""
for host, own, family in (('127.0.0.1', '192.0.2.1', V4), ('127.0.0.1', '198.18.0.1', V4), ('::1', 'fd3c:5e1a:77d2::c612:1', V6)) * 40:
    sock = socket.socket(family)
    sock.settimeout(30)
    sock.bind((own, 0))
    sock.connect((host, 54))
    print(fetch(sock, 'good.test'))
""")
        self.assertEqual(done.out.count("nothing says where this connection was meant to go"), 2 * 120, done)

    def test_an_address_that_stands_for_nothing(self):
        self.lab(policy="default = allow", allow=())
        for host in ("198.18.77.77", "198.19.255.255", "fd3c:5e1a:77d2::c612:101"):
            done = self.inside("print(fetch(dial(sys.argv[1], 80), 'x'))", host, allow=["*.test"])
            self.assertIn("is an address that stood for a name which is not known here any more", done.out)
            self.assertIn("Look the name up again", done.out)
            self.assertEqual(self.gw.decision(host)["reason"], "address-denied")

    def test_beyond_its_connections_a_sandbox_is_told_so(self):
        server = self.upstream(name="good.test")
        self.lab(server=server, gateway="max-sandbox-connections = 5")
        done = self.inside("""
address = look_up('good.test')
kept = [dial(address, sys.argv[1]) for _ in range(5)]
for sock in kept:
    sock.sendall(b'x')
    sock.recv(1)
print(fetch(dial(address, sys.argv[1]), 'good.test')[:12])
sock = dial(address, sys.argv[1])
sock.sendall(b'\\x16')
print(rest(sock))
""", server.port)
        self.assertEqual(done.out, "HTTP/1.1 429\nb'RESET'\n")
        self.assertEqual(self.gw.decision("good.test", number=6)["reason"], "limit")

    def test_a_client_that_is_gone_before_it_is_told(self):
        self.lab()
        self.inside("for _ in range(50): dial(look_up('evil.test'), 80).close()")
        self.gw.decision("evil.test", number=50)
        self.gw.wait_for_descriptors(60)


class Names(Transparent):
    def test_the_resolver_is_at_port_53_of_every_address(self):
        self.lab()
        done = self.inside("""
print(len({ask(question('good.test'), server) for server in ('127.0.0.1', '127.0.0.53', '8.8.8.8', '10.1.2.3', '::1', '2001:4860:4860::8888')}))
""")
        self.assertEqual(done.out, "1\n")

    def test_what_is_answered(self):
        self.lab()
        done = self.inside("""
for name, kind in (('good.test', 1), ('GOOD.test', 1), ('evil.test', 1), ('good.test', 28), ('good.test', 65), ('good.test', 64), ('good.test', 15),
                   ('good.test', 16), ('good.test', 255), ('', 2), ('a b', 1), ('1.2.3.4', 1)):
    answer = ask(question(name, kind))
    print(name, kind, rcode(answer), count(answer), answer[:2] == b'\\0\\7')
print(rcode(ask(question('version.bind', 16, klass=3))), rcode(ask(question('good.test', flags=0x2800))))
print(address(ask(question('good.test'))) == address(ask(question('gOOd.test'))) != address(ask(question('other.test'))))
""")
        self.assertEqual(done.out, "good.test 1 0 1 True\nGOOD.test 1 0 1 True\nevil.test 1 0 1 True\ngood.test 28 0 1 True\n"
                         + "".join(f"good.test {kind} 0 0 True\n" for kind in (65, 64, 15, 16, 255))
                         + " 2 0 0 True\na b 1 3 0 True\n1.2.3.4 1 3 0 True\n5 4\nTrue\n")

    def test_an_address_has_its_name(self):
        self.lab()
        done = self.inside("""
for family in (V4, V6):
    print(socket.gethostbyaddr(look_up('good.test', family))[0])
try:
    socket.gethostbyaddr('192.0.2.1')
except OSError as error:
    print(error)
""")
        self.assertRegex(done.out, r"^good.test\ngood.test\n\[Errno \d\] Unknown host\n$")

    def test_over_tcp_also_many_at_once_and_in_pieces(self):
        self.lab()
        done = self.inside("""
sock = dial('9.9.9.9', 53)
data = b''.join(struct.pack('>H', len(q)) + q for q in (question('good.test', id=n) for n in range(3000)))
threading.Thread(target=sock.sendall, args=(data,)).start()
stream = sock.makefile('rb')
def read(): return stream.read(*struct.unpack('>H', stream.read(2)))
print([struct.unpack('>H', read()[:2])[0] for _ in range(3000)] == list(range(3000)))
message = question('good.test', id=9)
for byte in struct.pack('>H', len(message)) + message:
    sock.sendall(bytes([byte]))
print(read()[:2])
""")
        self.assertEqual(done.out, "True\nb'\\x00\\t'\n")

    def test_garbage_gets_nothing_or_an_error_and_the_resolver_lives_on(self):
        self.lab()
        done = self.inside("""
import random
chance = random.Random(1)
sock = socket.socket(V4, socket.SOCK_DGRAM)
sock.connect(('127.0.0.1', 53))
good = question('good.test')
for n in range(3000):
    data = bytearray(good if n % 2 else chance.randbytes(chance.randrange(600)))
    if data: data[chance.randrange(len(data))] = chance.randrange(256)
    sock.send(data[:chance.randrange(len(data) + 1)])
sock.send(b'x' * 60000)
for data in (b'\\0\\0', b'\\0\\1x', b'\\xff\\xff' + b'x' * 70000, b'\\0\\14' + question('x')[:12]):
    stream = dial('127.0.0.1', 53)
    try:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    rest(stream)
print(rcode(ask(good)))
""")
        self.assertEqual(done.out, "0\n")
        self.assertEqual(self.gw.records("decision"), [])

    def test_looking_up_is_not_recorded_and_asks_nobody(self):
        names = self.name_server({})
        self.lab(names=names)
        self.inside("for n in range(100): look_up(f'h{n}.test')")
        self.assertEqual((names.questions, self.gw.records("decision")), ([], []))

    def test_a_flood_of_names_takes_nothing_from_those_in_use(self):
        origin = self.lab()
        before = self.gw.rss_kib()
        done = self.inside("""
good = look_up('good.test')
answers = [ask(question(f'h{n}.{"x" * 60}.{"y" * 60}.test')) for n in range(9000)]
given = [address(a) for a in answers if count(a) == 1]
print(len(given), len(set(given)), {rcode(a) for a in answers}, good in given)
print(fetch(dial(good, sys.argv[1]), 'good.test')[-18:])
print(rcode(ask(question('good.test'))))
""", origin.port)
        self.assertEqual(done.out, "4095 4095 {0, 2} False\nGET / at good.test\n0\n")
        self.assertLess(self.gw.rss_kib() - before, 30_000)

    def test_files_of_the_host_about_names_are_not_shown(self):
        self.lab()
        done = self.inside("print(open('/etc/resolv.conf').read() + open('/etc/hosts').read()); open('/etc/hosts', 'w')", status=1)
        self.assertRegex(done.out, r"^nameserver 127.0.0.1\n127.0.0.1 localhost( \S+)?\n::1 localhost ip6-localhost\n\n$")
        self.assertIn("OSError", done.err)

    def test_hidden_ones_stay_hidden_and_names_are_found(self):
        origin = self.lab()
        done = self.inside("""
for path in ('/etc/resolv.conf', '/etc/hosts'):
    try: open(path)
    except PermissionError: print('closed')
print(get('good.test', sys.argv[1])[-18:])
""", origin.port, filesystem={"denyRead": ["/etc/resolv.conf", "/etc/hosts"]})
        self.assertEqual(done.out, "closed\nclosed\nGET / at good.test\n")


class Fence(Transparent):
    def test_nothing_but_tcp_and_names_leaves(self):
        self.lab()
        done = self.inside("""
for host in ('192.0.2.1', '8.8.8.8', look_up('good.test'), '2001:db8::1'):
    sock = socket.socket(V6 if ':' in host else V4, socket.SOCK_DGRAM)
    sock.settimeout(20)
    sock.connect((host, 443))
    sock.send(b'x')
    try: print(sock.recv(10))
    except ConnectionRefusedError: print('refused')
""")
        self.assertEqual(done.out, "refused\n" * 4)

    def test_connections_that_have_ended_are_forgotten(self):
        """So that a sandbox can make as many as it likes, one after the other."""
        self.lab()
        name = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait"
        self.assertEqual(self.inside(f"print(open('{name}').read())").out, "1\n\n")
        if os.path.exists(name):
            with open(name, encoding="ascii") as file:
                self.assertNotEqual(file.read(), "1\n", "that was the host's")

    def test_datagrams_are_not_kept_in_mind(self):
        """There is room for so many connections in the kernel's memory, and each datagram to or from elsewhere would be one."""
        origin = self.lab()
        done = self.inside("""
for n in range(300):
    for host in ('192.0.2.1', '2001:db8::1', '127.0.0.1'):
        for port in (53, 443):
            with socket.socket(V6 if ':' in host else V4, socket.SOCK_DGRAM) as sock:
                sock.sendto(question('x.test'), (host, port))
print(ask(question('x.test'), '192.0.2.1')[:2], ask(question('x.test'), '2001:db8::1')[:2])
print(get('good.test', sys.argv[1])[-18:])
print(int(open('/proc/sys/net/netfilter/nf_conntrack_count').read()) < 10)
""", origin.port)
        self.assertEqual(done.out, "b'\\x00\\x07' b'\\x00\\x07'\nGET / at good.test\nTrue\n")

    def test_nobody_inside_can_change_the_rules(self):
        for nested in (False, True):
            with self.subTest(nested=nested):
                self.lab()
                done = self.inside("""
import subprocess
for words in (['nft', 'flush', 'ruleset'], ['ip', 'route', 'flush', 'table', 'local'], ['ip', 'link', 'set', 'lo', 'down'],
              ['unshare', '-Ur', 'nft', 'flush', 'ruleset'], ['unshare', '-Ur', 'ip', 'link', 'set', 'lo', 'down']):
    print(subprocess.run(words, capture_output=True).returncode != 0)
for port in (53, 54):
    try: socket.create_server(('192.0.2.1', port))
    except OSError as error: print(error.errno in (1, 13, 98))
print(get('evil.test', 80)[:12])
""", **({"allowNestedUserNamespaces": True} if nested else {}))
                self.assertEqual(done.out, "True\n" * 7 + "HTTP/1.1 403\n", done)
                self.gw.stop()

    def test_built_by_bubblewrap(self):
        origin = self.lab()
        done = self.inside("print(get('good.test', sys.argv[1])); print(get('evil.test', 80))", origin.port, bwrapPath=shutil.which("bwrap"))
        self.assertIn("GET / at good.test", done.out)
        self.assertIn("HTTP/1.1 403", done.out)

    def test_in_settings_and_in_a_dry_run(self):
        origin = self.lab()
        settings = self.settings(allow=["good.test"], launch={"egress": "transparent"})
        done = self.launch("-s", settings, "--gateway", self.gw.control, "--", "python3", "-c", INSIDE + "print(get('good.test', sys.argv[1]))",
                           str(origin.port), status=0)
        self.assertIn("GET / at good.test", done.out)
        done = self.launch("-s", settings, "--dry-run", "true", status=0)
        self.assertIn("way out: 127.0.0.1:3128 and every other TCP address, a private gateway\n", done.out)
        self.assertIn("HTTPS_PROXY=http://127.0.0.1:3128\n", done.out)
        self.assertIn("  own /etc/resolv.conf and /etc/hosts (--egress transparent)\n", done.out)

    def test_what_it_is_called_when_it_is_misspelt(self):
        done = self.launch("-s", self.settings(), "--egress", "transparently", "true", status=125)
        self.assertIn("--egress knows port, transparent, socket and none", done.err)


class Life(Transparent):
    """What happens to those who are inside meanwhile."""

    def begin(self, script, *words, options=(), allow=("good.test",)):
        """The script runs on; it is told to go on by a line, and what it says is read by lines."""
        process = subprocess.Popen([binary(), *self.words(script, *words, allow=allow, options=("--gateway", self.gw.control, *options))],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work,
                                   env={**environment(), "HOME": self.home})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def go(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    TUNNEL = """
address = look_up('good.test')
sock = dial(address, sys.argv[1])
sock.sendall(b'one')
print(sock.recv(3), flush=True)
input()
"""

    def test_a_gateway_that_comes_back_knows_names_when_they_are_asked_for_again(self):
        origin = self.lab()
        process = self.begin("""
address = look_up('good.test')
def get_there(): return fetch(dial(address, sys.argv[1]), 'good.test')
print('at good.test' in get_there(), flush=True)
input()
print('stood for a name' in get_there())
print(get('good.test', sys.argv[1])[-18:])
print(get('evil.test', 80)[:12], flush=True)
""", origin.port)
        self.assertEqual(process.stdout.readline(), "True\n")
        self.gw.stop()
        self.again()
        self.go(process)
        self.assertEqual([process.stdout.readline() for _ in range(3)], ["True\n", "GET / at good.test\n", "HTTP/1.1 403\n"])

    def again(self):
        """Another gateway at the same socket."""
        before = self.gw
        with open(before.config_path, encoding="utf-8") as file:
            self.gw = self.gateway(file.read())
        self.gw.control = before.control
        self.gw.wait_for_record(lambda record: record["kind"] == "attach", 2)

    def test_a_hand_over_goes_unnoticed(self):
        server = self.lab(server=self.upstream(name="good.test"))
        process = self.begin("address, other = look_up('good.test'), look_up('other.test')\n" + self.TUNNEL + """
sock.sendall(b'two')
print(sock.recv(3))
for _ in range(2):
    sock = dial(address, sys.argv[1])
    sock.sendall(b'six')
    print(sock.recv(3), look_up('good.test') == address, look_up('new.test') in (address, other),
          rcode(ask(question('good.test'), '::1')), flush=True)
    input()
print(look_up('other.test') == other, flush=True)
""", server.port)
        self.assertEqual(process.stdout.readline(), "b'one'\n")
        self.gw.hand_over()
        self.go(process)
        self.assertEqual([process.stdout.readline() for _ in range(2)], ["b'two'\n", "b'six' True False 0\n"])
        self.gw.hand_over()
        self.go(process)
        self.assertEqual(process.stdout.readline(), "b'six' True False 0\n")
        self.go(process)
        self.assertEqual(process.stdout.readline(), "True\n")

    def test_an_update_of_the_settings_cuts_and_refuses(self):
        server = self.lab(server=self.upstream(name="good.test"))
        out, into = os.pipe()
        self.addCleanup(os.close, into)
        process = subprocess.Popen([binary(), *self.words(self.TUNNEL + "print(rest(sock)); print(get('good.test', 80)[:12], flush=True)", server.port,
                                                          allow=["good.test"], options=("--gateway", self.gw.control, "--control-fd", str(out)))],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work,
                                   env={**environment(), "HOME": self.home}, pass_fds=[out])
        os.close(out)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "b'one'\n")
        with open(self.settings(allow=["other.test"]), "rb") as file:
            os.write(into, json.dumps(json.loads(file.read())).encode() + b"\n")
        self.assertEqual(self.gw.close_record()["cause"], "policy")
        self.go(process)
        self.assertIn(process.stdout.readline(), ("b''\n", "b'RESET'\n"))
        self.assertEqual(process.stdout.readline(), "HTTP/1.1 403\n")

    def test_an_operator_sees_and_cuts(self):
        server = self.upstream(name="good.test")
        self.lab(server=server, operated=True)
        process = self.begin(self.TUNNEL + "print(rest(sock), flush=True)", server.port)
        self.assertEqual(process.stdout.readline(), "b'one'\n")
        tunnel, = json.loads(self.gw.operate("/tunnels"))
        self.assertEqual((tunnel["front"], tunnel["host"], tunnel["port"]), ("transparent", "good.test", server.port))
        self.gw.operate(f"/tunnels/{tunnel['id']}/cut", "POST")
        self.assertEqual(self.gw.close_record()["cause"], "cut")
        self.go(process)
        self.assertIn(process.stdout.readline(), ("b''\n", "b'RESET'\n"))

    def test_a_reload_that_denies_cuts(self):
        server = self.lab(server=self.upstream(name="good.test"))
        process = self.begin(self.TUNNEL + "print(rest(sock), flush=True)", server.port)
        self.assertEqual(process.stdout.readline(), "b'one'\n")
        with open(self.gw.config_path, encoding="utf-8") as file:
            config = file.read()
        self.gw.reload(config.replace("allow = good.test:*", "allow = good.test:1"))
        self.assertEqual(self.gw.close_record()["cause"], "policy")
        self.go(process)
        self.assertIn(process.stdout.readline(), ("b''\n", "b'RESET'\n"))

    def test_the_end_of_the_sandbox_ends_its_tunnels(self):
        server = self.lab(server=self.upstream(name="good.test"))
        before = self.gw.descriptors()
        process = self.begin(self.TUNNEL, server.port)
        self.assertEqual(process.stdout.readline(), "b'one'\n")
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        self.assertIn(self.gw.close_record()["cause"], ("detach", "client"))
        self.gw.wait_for_record(lambda record: record["kind"] == "detach")
        self.gw.wait_for_descriptors(before)


class Alone(Launch):
    """With a gateway of its own, as root and as an ordinary user."""

    def run_transparent(self, script, *words, before=(), **args):
        self.own()
        return subprocess.run([*before, self.launch, "-s", self.settings(), "--egress", "transparent", "--", "/usr/bin/env", "python3", "-c",
                               INSIDE + script, *map(str, words)], cwd=self.work, env=self.environment(), capture_output=True, text=True, timeout=120,
                              check=False, **args)

    def test_what_is_denied_is_explained(self):
        result = self.assertRan(self.run_transparent("print(get('evil.test', 80)); print(get('localhost.evil.test', 1, V6)[:12])", **self.popen_args()))
        self.assertIn("evil.test:80 is not on the allow list of policy settings", result.stdout)
        self.assertTrue(result.stdout.endswith("HTTP/1.1 403\n"), result)

    @unittest.skipUnless(os.geteuid() == 0, "/etc/hosts can be another one for root only")
    def test_what_is_allowed_is_reached_by_the_names_of_the_host(self):
        def serve():
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(reply(body="hello"))

        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(60)
            port = server.getsockname()[1]
            with open(os.path.join(self.top, "hosts"), "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost good.test\n")
            self.network["allowedDomains"] = ["good.test", "127.0.0.1"]
            script = 'mount --bind "$0" /etc/hosts && exec "$@"'
            drop = ["setpriv", f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups"] if self.account else []
            threading.Thread(target=serve, daemon=True).start()
            result = self.run_transparent("print(get('good.test', sys.argv[1])[-5:])", port,
                                          before=["unshare", "-m", "sh", "-c", script, os.path.join(self.top, "hosts"), *drop])
            self.assertRan(result)
            self.assertEqual(result.stdout, "hello\n")


class Machines(Launch):
    """Where the kernel lacks something, which a system call filter plays."""

    # The first argument is the call's second and third, as they have to be for it to fail with the error.
    REFUSE = under_filter(r"""
place, value, number = (int(word) for word in sys.argv[1].split(","))
sock = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
code = [op(load, 0, 0, 0), op(equal, 0, 2, sock), op(load, 0, 0, place), op(equal, 1, 0, value), allow, error(number)]
""")
    NO_IPV6 = f"16,{socket.AF_INET6},97"
    NO_NETFILTER = "32,12,93"

    def where(self, what, *words):
        settings = self.settings()
        self.own()
        return subprocess.run(["/usr/bin/env", "python3", "-c", self.REFUSE, what, self.launch, *[settings if word == "S" else word for word in words]],
                              cwd=self.work, text=True, env=self.environment(), capture_output=True, timeout=120, check=False, **self.popen_args())

    def test_without_ipv6(self):
        result = self.where(self.NO_IPV6, "-s", "S", "--egress", "transparent", "--", "/usr/bin/env", "python3", "-c", INSIDE + """
print(get('evil.test', 80)[:12])
print(count(ask(question('evil.test', 28))), count(ask(question('evil.test', 1))), address(ask(question('evil.test'), '8.8.8.8')) == look_up('evil.test'))
""")
        self.assertRan(result)
        self.assertEqual(result.stdout, "HTTP/1.1 403\n0 1 True\n")

    def test_without_nftables_it_is_refused_with_a_remedy(self):
        result = self.where(self.NO_NETFILTER, "-s", "S", "--egress", "transparent", "--", "true")
        self.assertEqual(result.returncode, 125)
        for text in ("needs a kernel that redirects connections (nftables: Protocol not supported)", "nft_redir", "--egress port"):
            self.assertIn(text, result.stderr)
        result = self.where(self.NO_NETFILTER, "doctor")
        self.assertRan(result)
        self.assertIn("note: --egress transparent is not to be had here (the reason is on standard error)", result.stdout)


both(globals(), Alone, Machines)

if __name__ == "__main__":
    main()
