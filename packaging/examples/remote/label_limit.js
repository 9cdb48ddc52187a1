#!/usr/bin/env node
// A rule module in a process of its own: a name has at most so many labels, so that nobody carries data out in names.
//
//     label_limit.js SOCKET LABELS
//
//     [filter short-names]
//     module = unix:/run/srt-filters/label-limit.sock
'use strict';

const fs = require('fs');
const net = require('net');
const readline = require('readline');

const [path, labels] = [process.argv[2], Number(process.argv[3])];

function decide(request) {
  const tooLong = request.host.split('.').length > labels && net.isIP(request.host) === 0;
  return tooLong ? { verdict: 'deny', reason: `a name has at most ${labels} labels` } : { verdict: 'pass' };
}

// One worker of the gateway: a line is one JSON object, each answer has the id of its question.
function serve(socket) {
  const say = (message) => socket.write(JSON.stringify(message) + '\n');
  socket.on('error', () => {});
  readline.createInterface({ input: socket, crlfDelay: Infinity }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.hello) {
      say({ id: 0, hello: { protocol: 1, phases: ['request'], fields: ['host'] } });
    } else if (message.request) {
      say({ id: message.id, ...decide(message.request) });
    }
  });
}

fs.rmSync(path, { force: true }); // of the one before
process.umask(0o077); // the gateway asks nobody whose socket others may write to
net.createServer(serve).listen(path);
