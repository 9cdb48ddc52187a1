// Reads byte streams, each behind its length in four bytes (big-endian), and prints a line of JSON for
// each: the responses that node's client parser (llhttp, strict) finds in it when it is read to its end,
// and its complaint. The first byte of a stream says whether the first request was HEAD (`H`).
// For test_response_differential.py.
'use strict';

const { HTTPParser } = process.binding('http_parser');

// What node's http client answers to the parser (lib/_http_client.js, parserOnIncomingClient).
const READ_BODY = 0, SKIP_BODY = 1, UPGRADE = 2;

function read(stream) {
  const is_head = stream[0] === 'H'.charCodeAt(0);
  const responses = [];
  let error = null, finals = 0;
  const parser = new HTTPParser();
  parser.initialize(HTTPParser.RESPONSE, {}, 0, 0);
  parser[HTTPParser.kOnHeaders] = () => {};
  parser[HTTPParser.kOnHeadersComplete] = (major, minor, headers, method, url, status) => {
    responses.push({ status, body: '', complete: false });
    if (status === 101) return UPGRADE;
    if (status < 200) return SKIP_BODY;
    return ++finals === 1 && is_head ? SKIP_BODY : READ_BODY;
  };
  parser[HTTPParser.kOnBody] = (data, offset, length) => {
    const piece = offset === undefined ? data : data.subarray(offset, offset + length);
    responses[responses.length - 1].body += Buffer.from(piece).toString('hex');
  };
  parser[HTTPParser.kOnMessageComplete] = () => { responses[responses.length - 1].complete = true; };
  for (const result of [parser.execute(stream.subarray(1)), parser.finish()])
    if (result instanceof Error && error === null) error = result.code || String(result);
  return { responses, error };
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const input = Buffer.concat(chunks);
  for (let at = 0; at < input.length;) {
    const size = input.readUInt32BE(at);
    process.stdout.write(JSON.stringify(read(input.subarray(at + 4, at + 4 + size))) + '\n');
    at += 4 + size;
  }
}

main();
