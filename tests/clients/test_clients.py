"""Real clients inside the fence: each is allowed once and refused once, by a gateway that is shared and by one
of its own."""

import os
import shutil
import subprocess

from lab import main, reply
from lab.launch import LaunchCase
from lab.origin import Origin

NODE = """
const http = require('http'), tls = require('tls');
const [url, ca] = [new URL(process.argv[2]), process.argv[3]];
const proxy = new URL(process.env.HTTP_PROXY);
function done(response) {
    response.setEncoding('utf8');
    let body = '';
    response.on('data', piece => body += piece);
    response.on('end', () => { console.log(response.statusCode, body); });
}
if (url.protocol === 'http:') {
    http.get({host: proxy.hostname, port: proxy.port, path: url.href, headers: {Host: url.host}}, done);
} else {
    const connect = http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT',
                                  path: `${url.hostname}:${url.port || 443}`});
    connect.on('connect', (response, socket) => {
        if (response.statusCode !== 200) { console.log(response.statusCode); process.exit(1); }
        const servername = /^[0-9.]+$/.test(url.hostname) ? '' : url.hostname;
        const secure = tls.connect({socket, servername, host: url.hostname, ca: require('fs').readFileSync(ca)}, () => {
            http.get({createConnection: () => secure, host: url.hostname, path: url.pathname,
                      headers: {Connection: 'close'}}, done);
        });
    });
    connect.end();
}
"""

PYTHON = """
import ssl, sys, urllib.request, urllib.error
context = ssl.create_default_context(cafile=sys.argv[2]) if len(sys.argv) > 2 else None
try:
    with urllib.request.urlopen(sys.argv[1], context=context, timeout=30) as response:
        print(response.status, response.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
    sys.exit(1)
except urllib.error.URLError as error:
    print(error.reason)
    sys.exit(1)
"""


# `java Client.java URL CA`: what a build tool of the JVM does, told of the proxy by two properties.
JAVA = """
import java.io.InputStream;
import java.net.URL;
import java.nio.file.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

public class Client {
    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream pem = Files.newInputStream(Path.of(arguments[1]))) {
            store.setCertificateEntry("lab", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        HttpsURLConnection connection = (HttpsURLConnection) new URL(arguments[0]).openConnection();
        connection.setSSLSocketFactory(context.getSocketFactory());
        System.out.println(connection.getResponseCode() + " " + new String(connection.getInputStream().readAllBytes()));
    }
}
"""

# The head that Java 17 sends: no credentials, and a Host without a port where that is 443.
LIKE_JAVA = """
import socket, ssl, sys
host, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sock = socket.create_connection(("127.0.0.1", 3128), 30)
sock.sendall((f"CONNECT {host}:{port} HTTP/1.1\\r\\nUser-Agent: Java/17.0.15\\r\\nHost: {host}{'' if port == 443 else f':{port}'}\\r\\n"
              "Accept: text/html, image/gif, image/jpeg, */*; q=0.2\\r\\nProxy-Connection: keep-alive\\r\\n\\r\\n").encode())
head = b""
while not head.endswith(b"\\r\\n\\r\\n"):
    head += sock.recv(1)
print(head.decode().splitlines()[0])
if b" 200 " not in head:
    sys.exit(1)
secure = ssl.create_default_context(cafile=ca).wrap_socket(sock, server_hostname=host)
secure.sendall(f"GET /x HTTP/1.1\\r\\nUser-Agent: Java/17.0.15\\r\\nHost: {host}:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
answer = b""
while b" at " not in answer and (more := secure.recv(4096)):
    answer += more
print(answer.decode())
"""


class Clients:
    """The conversations; the classes below say through which gateway, and under which name `host` is known."""

    def start(self, tls=False, answer=None):
        """An allowed origin, and its URL as seen from inside."""
        context = self.authority().server(self.host) if tls else None
        self.good = self._own(Origin(self.host, self.address, answer, context))
        self.prepare(f"{self.host}:{self.good.port}")
        return f"{'https' if tls else 'http'}://{self.host}:{self.good.port}"

    def allowed(self, *command, contains=None, **options):
        finished = self.inside(*command, **options)
        self.assertEqual(finished.status, 0, finished)
        self.assertIn(contains or "GET /x at", finished.out, finished)
        self.assertGreaterEqual(self.good.connections, 1)

    def refused(self, *command, says, **options):
        before = self.good.connections
        finished = self.inside(*command, **options)
        self.assertIn(says, finished.out + finished.err, finished)
        self.assertEqual(self.good.connections, before)
        return finished

    def test_curl_http(self):
        url = self.start()
        self.allowed("curl", "-sS", f"{url}/x")
        self.refused("curl", "-sS", "http://evil.test/x", says="evil.test")
        finished = self.refused("curl", "-sSf", "http://evil.test/x", says="403")
        self.assertEqual(finished.status, 22)

    def test_curl_https(self):
        url = self.start(tls=True)
        ca = self.authority().certificate
        self.allowed("curl", "-sS", "--cacert", ca, f"{url}/x")
        finished = self.refused("curl", "-sS", "--cacert", ca, "https://evil.test/x", says="403")
        self.assertEqual(finished.status, 56)

    def test_curl_socks5h(self):
        url = self.start()
        proxy = ["--proxy", "socks5h://127.0.0.1:3128"]
        self.allowed("curl", "-sS", *proxy, f"{url}/x")
        finished = self.refused("curl", "-sS", *proxy, "http://evil.test/x", says="evil.test")
        self.assertEqual(finished.status, 97)

    def test_N01_curl_has_no_other_way(self):
        url = self.start()
        for options in (["--noproxy", "*"], ["--noproxy", "*", "-6"], ["--proxy", f"http://{self.address}:{self.good.port}"]):
            finished = self.refused("env", "-i", shutil.which("curl"), "-sS", "--max-time", "20", *options, f"{url}/x", says="curl: (")
            self.assertNotEqual(finished.status, 0)

    def test_wget(self):
        url = self.start()
        self.allowed("wget", "-q", "-O", "-", f"{url}/x")
        finished = self.refused("wget", "-nv", "-O", "-", "http://evil.test/x", says="403")
        self.assertEqual(finished.status, 8)

    def test_wget_https(self):
        url = self.start(tls=True)
        ca = "--ca-certificate=" + self.authority().certificate
        self.allowed("wget", "-q", ca, "-O", "-", f"{url}/x")
        finished = self.refused("wget", "-nv", "-t", "1", ca, "-O", "-", "https://evil.test/x", says="Blocked by policy")
        self.assertNotEqual(finished.status, 0)

    def test_git_clone(self):
        bare = self.repository()

        def serve(request):
            path = os.path.normpath(bare + request.target.split("?")[0][len("/repo.git"):])
            if not path.startswith(bare) or not os.path.isfile(path):
                return reply(404, phrase="Not here")
            with open(path, "rb") as file:
                return reply(body=file.read())

        url = self.start(answer=serve)
        # Hooks and configuration are protected names: a clone brings no hooks, and its settings let it configure itself.
        finished = self.inside("git", "clone", "-q", "--template=", f"{url}/repo.git", "cloned")
        self.assertEqual(finished.status, 0, finished)
        with open(os.path.join(self.work, "cloned", "file.txt"), encoding="ascii") as file:
            self.assertEqual(file.read(), "from the repository\n")
        finished = self.refused("git", "clone", "-q", "--template=", "http://evil.test/repo.git", "stolen", says="403")
        self.assertEqual(finished.status, 128)

    def repository(self):
        """A bare repository that any file server can serve."""
        source, bare = self.path("source"), self.path("repo.git")
        os.makedirs(source)
        with open(os.path.join(source, "file.txt"), "w", encoding="ascii") as file:
            file.write("from the repository\n")
        env = {**os.environ, "HOME": self.home, "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=Lab", "-c", "user.email=lab@good.test"]
        for command in (["git", "init", "-q"], ["git", "add", "."], ["git", *who, "commit", "-q", "-m", "one file"],
                        ["git", "clone", "-q", "--bare", source, bare], ["git", "-C", bare, "update-server-info"]):
            subprocess.run(command, cwd=source, env=env, check=True)
        return bare

    def test_node(self):
        url = self.start()
        program = self.write("work/client.js", NODE)
        self.allowed("node", program, f"{url}/x", contains="200 GET /x at")
        self.refused("node", program, "http://evil.test/x", says="not on the allow list")

    def test_node_https(self):
        url = self.start(tls=True)
        program = self.write("work/client.js", NODE)
        ca = self.authority().certificate
        self.allowed("node", program, f"{url}/x", ca, contains="200 GET /x at")
        finished = self.refused("node", program, "https://evil.test:443/x", ca, says="403")
        self.assertEqual(finished.status, 1)

    def test_python(self):
        url = self.start()
        program = self.write("work/client.py", PYTHON)
        self.allowed("python3", program, f"{url}/x", contains="200 GET /x at")
        finished = self.refused("python3", program, "http://evil.test/x", says="not on the allow list")
        self.assertEqual(finished.status, 1)

    def test_python_https(self):
        url = self.start(tls=True)
        program = self.write("work/client.py", PYTHON)
        ca = self.authority().certificate
        self.allowed("python3", program, f"{url}/x", ca, contains="200 GET /x at")
        finished = self.refused("python3", program, "https://evil.test/x", ca, says="403")
        self.assertEqual(finished.status, 1)

    def test_S10_ssh_by_netcat_and_socks(self):
        """Helpers that cannot send a password: inside, the listener says who it is."""
        def greet(talk):
            talk.send("SSH-2.0-Lab_1.0\r\n").read_until("\r\n")
            talk.reset()  # netcat does not pass a mere end on

        self.banners = self.upstream(greet, self.host, self.address)
        self.prepare(self.banners.authority)
        ssh = ["ssh", "-v", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
               "-o", "ConnectTimeout=20", "-o", "ProxyCommand=nc -X 5 -x 127.0.0.1:3128 %h %p"]
        finished = self.inside(*ssh, "-p", str(self.banners.port), f"user@{self.host}", "true")
        self.assertIn("remote software version Lab_1.0", finished.err, finished)
        self.banners.wait(lambda: self.banners.received.startswith(b"SSH-2.0-OpenSSH"), "the client's own banner")
        finished = self.inside(*ssh, "user@evil.test", "true")
        self.assertNotIn("remote software version", finished.err, finished)
        self.assertIn("onnection not allowed by ruleset", finished.err, finished)  # all that SOCKS can say

    def test_ssh_says_why(self):
        self.start()
        finished = self.refused("sh", "-c", 'eval "$GIT_SSH_COMMAND -F none -o BatchMode=yes user@evil.test true"', says="evil.test:22 is not on the allow list")
        self.assertEqual(finished.status, 255)

    def test_N04_a_server_inside_is_reached_inside(self):
        self.start()
        script = ("import http.server, threading, urllib.request\n"
                  "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
                  "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
                  "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
                  "print(opener.open('http://127.0.0.1:%d/' % server.server_port).status)\n")
        finished = self.inside("python3", "-c", script)
        self.assertEqual((finished.status, finished.out.strip()), (0, "200"), finished)


class WithASharedGateway(Clients, LaunchCase):
    address, host = "127.0.0.2", "good.test"

    def prepare(self, authority):
        self.gw = self.shared_gateway(allow=[authority], hosts={"good.test": self.address})
        self.chosen = self.settings(allow=["good.test", "evil.test"], filesystem={"allowGitConfig": True})

    def inside(self, *command, **options):
        return self.launch("--settings", self.chosen, "--gateway", self.gw.control, "--policy", "main", "--name", "client", "--",
                           *command, **options)

    def test_the_record_names_the_sandbox(self):
        url = self.start()
        self.allowed("curl", "-sS", f"{url}/x")
        decision = self.gw.decision("good.test")
        self.assertEqual((decision["sandbox"], decision["client"], decision["policy"], decision["verdict"]),
                         ("client", "me", "main", "allow"))
        kinds = [self.gw.wait_for_record(lambda entry, kind=kind: entry["kind"] == kind)["kind"] for kind in ("attach", "detach")]
        self.assertEqual(kinds, ["attach", "detach"])

    def test_H44_java_with_two_properties_needs_no_credentials(self):
        if shutil.which("java") is None:
            self.skipTest("java is not installed (default-jdk-headless)")
        url = self.start(tls=True)
        properties = ["-XX:-UsePerfData", "-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128"]
        command = ["env", "-u", "JAVA_TOOL_OPTIONS", "java", *properties, self.write("work/Client.java", JAVA)]
        ca = self.authority().certificate
        self.allowed(*command, f"{url}/x", ca, contains="200 GET /x at")
        finished = self.refused(*command, "https://evil.test/x", ca, says="403")
        self.assertNotEqual(finished.status, 0)

    def test_H44_what_java_sends_needs_no_credentials(self):
        self.start(tls=True)
        program, ca = self.write("work/like_java.py", LIKE_JAVA), self.authority().certificate
        self.allowed("python3", program, "good.test", str(self.good.port), ca, contains="GET /x at")
        self.refused("python3", program, "evil.test", "443", ca, says="HTTP/1.1 403 ")
        # The same name and port in both places, the one by default: not a contradiction.
        self.chosen = self.settings(allow=["good.test"])
        self.gw.reload(self.config(allow=["good.test:443"], hosts={"good.test": self.address},
                                   more=f"[client me]\nuid = {os.getuid()}\npolicy = main\n").replace("control = none", f"control = {self.gw.control[5:]}"))
        finished = self.inside("python3", program, "good.test", "443", ca)
        self.assertIn("HTTP/1.1 502 ", finished.out, finished)

    def test_settings_only_narrow(self):
        self.start()
        self.chosen = self.settings(allow=["other.test"])
        self.refused("curl", "-sS", f"http://good.test:{self.good.port}/x", says="not on the allow list")

    def test_N19_no_gateway_no_run(self):
        self.start()
        self.gw.stop()
        finished = self.inside("touch", "ran")
        self.assertEqual(finished.status, 125, finished)
        self.assertFalse(os.path.exists(os.path.join(self.work, "ran")))


class WithAPrivateGateway(Clients, LaunchCase):
    address = host = "127.0.0.2"

    def prepare(self, authority):
        self.chosen = self.settings(allow=[authority], filesystem={"allowGitConfig": True})

    def inside(self, *command, **options):
        return self.launch("--settings", self.chosen, "--", *command, **options)


if __name__ == "__main__":
    main()
