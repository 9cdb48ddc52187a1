"""One connection to the proxy for requests to many hosts, as real clients keep it; and a WebSocket by npm's `ws`."""

import os
import shutil
import subprocess

from lab import LabCase, main

HOSTS = [f"h{number}.test" for number in range(5)]

NODE = """
const http = require('http');
const agent = new http.Agent({keepAlive: true, maxSockets: 1});
const [proxy, ...urls] = process.argv.slice(2);
const {hostname, port} = new URL(proxy);
(function next() {
    if (urls.length === 0) return agent.destroy();
    const url = new URL(urls.shift());
    http.get({agent, hostname, port, path: url.href, headers: {Host: url.host}}, response => {
        let body = '';
        const local = response.socket.localPort;
        response.on('data', piece => body += piece).on('end', () => { console.log(response.statusCode, body.trim() + `\\nport ${local}`); next(); });
    });
})();
"""

PYTHON = """
import http.client, sys, urllib.parse
proxy = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=30)
for url in sys.argv[2:]:
    connection.request("GET", url)
    local = connection.sock.getsockname()[1]
    response = connection.getresponse()
    print(response.status, response.read().decode().strip())
    print("port", local)
"""

# Each side sends texts and binaries of every length coding; the server says back what it hears.
WEBSOCKET = """
const {WebSocket, WebSocketServer} = require('ws');
const http = require('http'), net = require('net');
const proxy = new URL(process.argv[2]), sizes = [0, 1, 125, 126, 65535, 65536, 1 << 20];
const server = new WebSocketServer({host: process.argv[3], port: 0}, () => {
    const target = `${process.argv[4]}:${server.address().port}`;
    let left = 2;
    const talk = options => {
        const client = new WebSocket(`ws://${target}/`, {perMessageDeflate: false, ...options});
        let number = 0;
        const send = () => client.send(Buffer.alloc(sizes[number], number));
        client.on('open', send);
        client.on('message', data => {
            if (!Buffer.alloc(sizes[number], number).equals(data)) process.exit(2);
            if (++number < sizes.length) send(); else client.close(1000);
        });
        client.on('close', code => {
            if (code !== 1000 || number !== sizes.length) process.exit(3);
            console.log('echoed');
            if (--left === 0) process.exit(0);
        });
        client.on('error', error => { console.log(String(error)); process.exit(4); });
    };
    const connect = http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: target});
    connect.on('connect', (response, socket) => talk({createConnection: () => socket}));
    connect.end();
    talk({createConnection: () => net.connect(proxy.port, proxy.hostname), finishRequest: request => {
        request.path = `http://${target}/`; request.end();
    }});
});
server.on('connection', socket => socket.on('message', (data, binary) => socket.send(data, {binary})));
"""


class KeepAlive(LabCase):
    def ask(self, *command, urls, program=None):
        client = [*command, self.write("client", program)] if program else list(command)
        done = subprocess.run([*client, f"http://{self.gw.addresses['main']}", *urls], capture_output=True, cwd=self.directory,
                              timeout=60, check=False, env={"PATH": os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def test_many_hosts_over_one_connection(self):
        origins = [self.origin(host) for host in HOSTS]
        urls = [f"http://{origin.authority}/{number}" for number in range(3) for origin in origins]
        urls.insert(7, "http://evil.test/x")
        for client in (dict(program=NODE, command=["node"]), dict(program=PYTHON, command=["python3"]),
                       dict(program=None, command=["curl", "-sS", "--http1.1", "-w", "\\nport %{local_port}\\n", "--proxy"])):
            with self.subTest(client=client["command"][0]):
                if os.path.exists(self.path("audit.jsonl")):
                    os.remove(self.path("audit.jsonl"))
                self.gw = self.gateway(allow=[origin.authority for origin in origins], hosts=origins)
                said = self.ask(*client["command"], urls=urls, program=client["program"])
                self.assertEqual(said.count("GET /"), 15, said)
                self.assertIn("evil.test", said)
                self.gw.wait_for_record(lambda entry: entry["kind"] == "decision", number=16)
                ports = [line for line in said.splitlines() if line.startswith("port ")]
                self.assertEqual((len(ports), len(set(ports))), (16, 1), said)
                self.gw.stop()


class WebSockets(LabCase):
    def test_ws_both_ways(self):
        npm = shutil.which("npm")
        if npm is None or shutil.which("node") is None:
            self.skipTest("there is no npm")
        done = subprocess.run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "ws@8"],
                              cwd=self.directory, capture_output=True, timeout=120, check=False)
        if done.returncode != 0:
            self.skipTest("npm cannot get ws here")
        gateway = self.gateway(allow=["ws.test:*"], hosts={"ws.test": "127.0.0.2"})
        program = self.write("client.js", WEBSOCKET)
        done = subprocess.run(["node", program, f"http://{gateway.addresses['main']}", "127.0.0.2", "ws.test"], cwd=self.directory,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "echoed\n" * 2), done.stderr.decode())


if __name__ == "__main__":
    main()
