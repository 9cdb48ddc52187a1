"""One connection to the proxy for requests to many hosts, as real clients keep it."""

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


if __name__ == "__main__":
    main()
