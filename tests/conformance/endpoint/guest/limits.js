// The limits by size, of the smallest one, against the same microVM without them; and the share of the listener that one tenant has.
'use strict';
const { test } = require('node:test');
const assert = require('node:assert');
const http2 = require('node:http2');
const tls = require('node:tls');
const { once } = require('node:events');
const { pieces, sha256 } = require('./bytes');
const { archive, guest } = require('./support');

const atOnce = 8;
const perSecond = 10;
const mib = 6; // six times what passes in the first second
const free = {}; // how long transfers took without limits

// So many that are never answered, begun in their order over one connection.
function hold(count) {
  const session = http2.connect(`https://${guest.authority}`, { ca: guest.ca });
  session.on('error', () => {});
  const streams = Array.from({ length: count }, () => {
    const stream = session.request({ ':path': `${new URL(guest.base).pathname}/never`, ...guest.auth() });
    stream.on('error', () => {});
    return stream;
  });
  return { session, streams };
}
const statusOf = async (stream) => (await once(stream, 'response'))[0][':status'];

// Few at once, until one is refused or so many are served.
async function requests(most) {
  const statuses = [];
  const some = async () => {
    while (statuses.length < most && !statuses.includes(429)) statuses.push((await guest.text('/'))[0]);
  };
  await Promise.all(Array.from({ length: atOnce / 2 }, some));
  return statuses;
}
const served = () => guest.until(async () => (await guest.text('/'))[0] === 200);

// How long a request takes; the first that the rate of requests lets pass.
async function timed(path, options = () => ({})) {
  for (;;) {
    const began = performance.now();
    const answer = await guest.call(path, options());
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    if (answer.statusCode === 200) return { bytes, took: performance.now() - began };
    assert.equal(answer.statusCode, 429);
  }
}
async function times() {
  const sum = await sha256(pieces(mib));
  const down = await timed(`/big?mib=${mib}`);
  assert.equal(await sha256([down.bytes]), sum);
  const up = await timed('/sum', () => ({ method: 'POST', body: pieces(mib) }));
  assert.equal(String(up.bytes), sum);
  return { down: down.took, up: up.took };
}

test('without limits all of it passes', async () => {
  const { never } = await guest.seen();
  const { session } = hold(3 * atOnce);
  await guest.until(async () => (await guest.seen()).never === never + 3 * atOnce);
  session.destroy();
  assert.ok(!(await requests(20 * perSecond)).includes(429));
  Object.assign(free, await times());
});

test('more requests at once than the size has are refused, until one ends', async () => {
  await guest.restart(['--endpoint-limits', 'true']);
  const { session, streams } = hold(atOnce + 1);
  assert.equal(await statusOf(streams.at(-1)), 429);
  // Longer than the rate of requests alone would refuse them.
  for (const until = performance.now() + 2000; performance.now() < until;) assert.deepEqual(await guest.text('/'), [429, 'Too many requests']);
  streams[0].close(http2.constants.NGHTTP2_CANCEL);
  await served();
  session.destroy();
});

test('more requests a second than the size has are refused, for a while', async () => {
  await served();
  assert.ok((await requests(2000)).includes(429));
  await served();
});

test('more bytes a second than the size has are slowed, both ways', async () => {
  await served();
  const { down, up } = await times();
  assert.ok(down > 2 * free.down, `${down} ms down, ${free.down} without`);
  assert.ok(up > 2 * free.up, `${up} ms up, ${free.up} without`);
});

// A connection that has asked once, and what it was answered; left open.
async function connection(token) {
  const [host, port] = guest.authority.split(':');
  const socket = tls.connect({ host, port: Number(port), ca: guest.ca, ALPNProtocols: ['http/1.1'] });
  socket.on('error', () => {});
  socket.write(`GET / HTTP/1.1\r\nhost: x\r\nx-aws-proxy-auth: ${token}\r\n\r\n`);
  const [bytes] = await once(socket, 'data');
  return { socket, answer: String(bytes) };
}

test('a tenant has a quarter of the connections, and another tenant is served', async (t) => {
  // Without an application: a 502 is from within.
  const { apiKey } = await guest.server.tenant('neighbour');
  const { id, token } = await guest.run(archive('FROM debian:12\n'), apiKey);
  t.after(() => guest.server.native('DELETE', `/v1/microvms/${id}`, undefined, apiKey));
  await guest.dispatcher.destroy();
  const open = [];
  let refused;
  while (!refused) {
    const some = await Promise.all(Array.from({ length: 32 }, () => connection(guest.token)));
    open.push(...some);
    refused = some.find(({ answer }) => answer.includes('Too many connections'));
    assert.ok(open.length < 2048, 'none is refused');
  }
  assert.match(refused.answer, /^HTTP\/1\.1 429 /);
  assert.equal(open.filter(({ answer }) => !answer.includes('Too many connections')).length, 1024);
  const neighbour = await connection(token);
  assert.match(neighbour.answer, /^HTTP\/1\.1 502 /);
  for (const { socket } of [...open, neighbour]) socket.destroy();
});
