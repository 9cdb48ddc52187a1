// Reads byte streams, each behind its length in four bytes (big-endian), and prints a line of JSON
// for each: the requests that node's http server (llhttp, strict) finds on a connection with these
// bytes, and its complaint. With ADDRESS PORT it serves there instead and prints a line for each request
// or complaint, before it answers. For test_http_differential.py.
'use strict';

const http = require('http');
const { Duplex } = require('stream');

// Holds what would be a socket: hands out `bytes`, swallows the answers.
class Connection extends Duplex {
  constructor(bytes) {
    super();
    this.push(bytes);
    this.push(null);
  }
  _read() {}
  _write(chunk, encoding, done) { done(); }
  setTimeout() { return this; }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
}

function found(request, length) {
  const hosts = [];
  for (let i = 0; i < request.rawHeaders.length; i += 2)
    if (request.rawHeaders[i].toLowerCase() === 'host') hosts.push(request.rawHeaders[i + 1]);
  const upgrade = 'upgrade' in request.headers;
  return { method: request.method, url: request.url, hosts, length, upgrade };
}

// Calls `on_request` when a request has been read to its end, `on_error` when node finds it malformed.
function strict_server(on_request, on_error) {
  const server = http.createServer({ insecureHTTPParser: false, requireHostHeader: false });
  const begin = (request, response) => {
    const report = on_request(request);
    let length = 0;
    request.on('data', (data) => { length += data.length; });
    request.on('end', () => {
      report(found(request, length));
      response.end();
    });
  };
  server.on('request', begin);
  server.on('checkContinue', begin);
  server.on('checkExpectation', begin);
  server.on('connect', (request, socket) => {
    on_request(request)(found(request, 0));
    socket.destroy();
  });
  server.on('clientError', (fault, socket) => {
    on_error(fault.code || String(fault));
    socket.destroy();
  });
  return server;
}

function read(bytes) {
  return new Promise((resolve) => {
    const requests = [];
    let error = null;
    const server = strict_server(() => {
      const at = requests.push(null) - 1;
      return (request) => { requests[at] = request; };
    }, (fault) => { error = error || fault; });
    const connection = new Connection(bytes);
    connection.on('error', () => {});
    connection.on('close', () => resolve({ requests, error }));
    server.emit('connection', connection);
    // A connection that node neither ends nor faults (an upgrade) has said all by now.
    setTimeout(() => connection.destroy(), 200).unref();
  });
}

function serve(address, port) {
  const say = (value) => process.stdout.write(JSON.stringify(value) + '\n');
  const server = strict_server(() => say, (error) => say({ error }));
  server.on('error', (error) => say({ error: error.code }));
  server.listen(port, address, () => say({ listening: true }));
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const input = Buffer.concat(chunks);
  const streams = [];
  for (let at = 0; at < input.length;) {
    const size = input.readUInt32BE(at);
    streams.push(input.subarray(at + 4, at + 4 + size));
    at += 4 + size;
  }
  for (let at = 0; at < streams.length; at += 64) {
    const answers = await Promise.all(streams.slice(at, at + 64).map(read));
    for (const answer of answers) process.stdout.write(JSON.stringify(answer) + '\n');
  }
}

if (process.argv.length > 2) serve(process.argv[2], Number(process.argv[3]));
else main();
