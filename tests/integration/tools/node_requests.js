// Reads byte streams, each behind its length in four bytes (big-endian), and prints a line of JSON
// for each: the requests that node's http server (llhttp, strict) finds on a connection with these
// bytes, and its complaint. For test_http_differential.py.
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

function read(bytes) {
  return new Promise((resolve) => {
    const requests = [];
    let error = null;
    const server = http.createServer({ insecureHTTPParser: false, requireHostHeader: false });
    const on_request = (request, response) => {
      const at = requests.push(null) - 1;
      let length = 0;
      request.on('data', (data) => { length += data.length; });
      request.on('end', () => {
        requests[at] = found(request, length);
        response.end();
      });
    };
    server.on('request', on_request);
    server.on('checkContinue', on_request);
    server.on('checkExpectation', on_request);
    server.on('connect', (request, socket) => {
      requests.push(found(request, 0));
      socket.destroy();
    });
    server.on('clientError', (fault, socket) => {
      error = error || fault.code || String(fault);
      socket.destroy();
    });
    const connection = new Connection(bytes);
    connection.on('error', () => {});
    connection.on('close', () => resolve({ requests, error }));
    server.emit('connection', connection);
    // A connection that node neither ends nor faults (an upgrade, a body cut short) has said all by now.
    setTimeout(() => connection.destroy(), 200).unref();
  });
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

main();
