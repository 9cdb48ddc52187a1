"""WebSockets by `ws`, the library that node programs use: in clear by an absolute-form request, in clear and in TLS by CONNECT."""

import os
import shutil
import subprocess

from lab import LabCase, main

# Each side sends binaries of every length coding; the server says back what it hears.
TALK = """
const {WebSocket, WebSocketServer} = require('ws');
const http = require('http'), https = require('https'), tls = require('tls'), net = require('net'), fs = require('fs');
const [how, address, name, proxyUrl, key, certificate, ca] = process.argv.slice(2);
const proxy = new URL(proxyUrl), sizes = [0, 1, 125, 126, 65535, 65536, 1 << 20];
const server = how === 'wss' ? https.createServer({key: fs.readFileSync(key), cert: fs.readFileSync(certificate)}) : http.createServer();
new WebSocketServer({server}).on('connection', socket => socket.on('message', (data, binary) => socket.send(data, {binary})));
server.listen(0, address, () => {
    const target = `${name}:${server.address().port}`;
    const talk = options => {
        const client = new WebSocket(`${how === 'wss' ? 'wss' : 'ws'}://${target}/`, {perMessageDeflate: false, ...options});
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
            process.exit(0);
        });
        client.on('error', error => { console.log(String(error)); process.exit(4); });
    };
    /* An agent that uses this connection, and may change a request before its head is written. */
    const agentOf = (kind, createConnection, change = () => {}) => {
        const agent = Object.assign(new kind.Agent(), {createConnection});
        const addRequest = agent.addRequest;
        agent.addRequest = function (request, options) { change(request); return addRequest.call(this, request, options); };
        return agent;
    };
    if (how === 'absolute') {
        talk({agent: agentOf(http, () => net.connect(proxy.port, proxy.hostname), request => { request.path = `http://${target}/`; })});
        return;
    }
    const connect = http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: target});
    connect.on('connect', (response, socket) => {
        if (response.statusCode !== 200) { console.log(response.statusCode); process.exit(5); }
        talk({agent: how === 'wss' ? agentOf(https, () => tls.connect({socket, servername: name, ca: fs.readFileSync(ca)}))
                                   : agentOf(http, () => socket)});
    });
    connect.end();
});
"""


class WebSockets(LabCase):
    def library(self):
        """Where node finds `ws`: Debian's package, or npm's."""
        if shutil.which("node") is None:
            self.skipTest("there is no node")
        if os.path.isdir("/usr/share/nodejs/ws"):
            return "/usr/share/nodejs"
        npm = shutil.which("npm")
        if npm is None or subprocess.run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "ws@8"],
                                         cwd=self.directory, capture_output=True, timeout=120, check=False).returncode != 0:
            self.skipTest("node-ws is not installed, and npm cannot get ws")
        return self.path("node_modules")

    def talk(self, how):
        library = self.library()
        gateway = self.gateway(allow=["ws.test:*"], hosts={"ws.test": "127.0.0.2"})
        certificate, key = self.authority().issue("ws.test")
        done = subprocess.run(["node", self.write("talk.js", TALK), how, "127.0.0.2", "ws.test", f"http://{gateway.addresses['main']}",
                               key, certificate, self.authority().certificate], cwd=self.directory, capture_output=True,
                              timeout=60, check=False, env={"PATH": os.environ["PATH"], "NODE_PATH": library})
        self.assertEqual((done.returncode, done.stdout.decode()), (0, "echoed\n"), done.stderr.decode())
        close = gateway.close_record()
        self.assertGreater(min(close["bytes_up"], close["bytes_down"]), 1 << 20)
        return gateway.decision("ws.test"), close

    def test_ws_by_an_absolute_form_request(self):
        decision, _ = self.talk("absolute")
        self.assertEqual((decision["front"], decision["method"], decision["path"]), ("http", "GET", "/"))

    def test_ws_by_connect(self):
        decision, close = self.talk("connect")
        self.assertEqual((decision["front"], close["sni"]), ("connect", None))

    def test_wss_by_connect(self):
        decision, close = self.talk("wss")
        self.assertEqual((decision["front"], close["sni"]), ("connect", "ws.test"))


if __name__ == "__main__":
    main()
