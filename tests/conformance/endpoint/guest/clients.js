// Unmodified clients into an application in a real guest: what they send and get, how they leave, what a suspend does to them.
'use strict';
const { test, after } = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { promisify } = require('node:util');
const { Agent, fetch } = require('undici');
const WebSocket = require('ws');
const { callEcho, echoCases, statusWhenCut, codes } = require('../grpc_echo');
const { pieces, sha256 } = require('./bytes');
const { guest } = require('./support');

const run = promisify(execFile);
let made; // by the first who calls
const rpc = () => (made ??= callEcho(guest.authority, guest.ca, guest.token, 50051));
after(() => made?.client.close());

const seenToBe = (holds) => guest.until(async () => holds(await guest.seen()));

test('undici: methods, bodies, trailers', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'DELETE']) assert.deepEqual(await guest.text('/a%20b?c=d', { method }), [200, `${method} /a%20b?c=d`]);
  const body = Buffer.alloc(300_000, 'abc').toString();
  assert.deepEqual(await guest.text('/echo', { method: 'POST', body }), [200, body]);
  const answer = await guest.call('/trailers');
  assert.equal(await answer.body.text(), 'body');
  assert.equal(answer.trailers['x-sum'], '42');
});

test('undici: 8 MiB each way', async () => {
  const sum = await sha256(pieces(8));
  assert.equal(await sha256((await guest.call('/big?mib=8')).body), sum);
  assert.deepEqual(await guest.text('/sum', { method: 'POST', body: pieces(8) }), [200, sum]);
});

test('fetch over HTTP/1.1 and HTTP/2', async () => {
  for (const allowH2 of [false, true]) {
    const dispatcher = new Agent({ connect: { ca: guest.ca }, allowH2 });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) =>
      fetch(`${guest.base}/echo`, { dispatcher, method: 'POST', body: `n${i}`, headers: guest.auth() })));
    for (const [i, answer] of answers.entries()) assert.equal(await answer.text(), `n${i}`);
    await dispatcher.destroy();
  }
});

test('curl, nghttp and h2load', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'fb-curl-'));
  const [ca, body] = [path.join(dir, 'ca.pem'), path.join(dir, 'body')];
  fs.writeFileSync(ca, guest.ca);
  fs.writeFileSync(body, Buffer.alloc(200_000, 'x'));
  const auth = ['-H', `x-aws-proxy-auth: ${guest.token}`];
  const curl = async (...words) => (await run('curl', ['-sS', '--fail', '--cacert', ca, ...auth, ...words])).stdout;
  for (const version of ['--http1.1', '--http2']) {
    assert.equal(await curl(version, `${guest.base}/a?b`), 'GET /a?b');
    assert.equal((await curl(version, '-H', 'Expect: 100-continue', '--data-binary', `@${body}`, `${guest.base}/echo`)).length, 200_000);
  }
  fs.rmSync(dir, { recursive: true });
  assert.match((await run('nghttp', ['-v', ...auth, `${guest.base}/n`])).stdout, /:status: 200/);
  const load = async (...words) => (await run('h2load', [...words, ...auth, `${guest.base}/l`])).stdout;
  assert.match(await load('-n', '600', '-c', '4', '-m', '10'), /600 succeeded, 0 failed, 0 errored/);
  assert.match(await load('--h1', '-n', '300', '-c', '8'), /300 succeeded, 0 failed, 0 errored/);
});

echoCases((name, body) => test(`grpc: ${name}`, body), rpc);

test('grpc: a suspend ends a stream as UNAVAILABLE', async () => {
  assert.equal(await statusWhenCut(rpc(), () => guest.suspend()), codes.UNAVAILABLE);
});

test('a reader that takes nothing holds the application in the guest back, and nobody else', async () => {
  const mib = 48;
  const answer = await guest.call(`/big?mib=${mib}`);
  // What is on its way comes to rest, while other requests are served.
  let taken = -1;
  let same = 0;
  await guest.until(async () => {
    const now = await guest.seen();
    same = now.held && now.pieces === taken ? same + 1 : 0;
    taken = now.pieces;
    return same === 10;
  });
  assert.ok(taken < mib * 16 / 2, `${taken} pieces of ${mib * 16} were taken`);
  assert.equal(await sha256(answer.body), await sha256(pieces(mib)));
});

test('clients that leave are gone in the application', async () => {
  const { never, left, cutShort } = await guest.seen();
  const leaving = new AbortController();
  const asked = assert.rejects(guest.call('/never', { signal: leaving.signal }));
  await seenToBe((now) => now.never === never + 1);
  leaving.abort();
  await asked;
  await seenToBe((now) => now.left === left + 1);

  const half = https.request(`${guest.base}/sum`, { method: 'POST', agent: false, ca: guest.ca, headers: guest.auth({ 'content-length': 1 << 20 }) });
  half.on('error', () => {});
  await new Promise((resolve) => half.write(Buffer.alloc(1 << 19), resolve));
  half.destroy();
  await seenToBe((now) => now.cutShort === cutShort + 1);
});

test('an application that leaves: 502 before its answer, a broken one within', async () => {
  assert.deepEqual(await guest.text('/die'), [502, '']);
  await assert.rejects(guest.text('/cut'));
  const socket = await open('/die');
  socket.send('now');
  assert.equal((await once(socket, 'close'))[0], 1006);
  assert.deepEqual(await guest.text('/still'), [200, 'GET /still']);
});

async function open(where = '/') {
  const list = ['lambda-microvms', `lambda-microvms.authentication.${guest.token}`];
  const socket = new WebSocket(guest.base.replace('https', 'wss') + where, list, { ca: guest.ca });
  socket.on('error', () => {});
  await Promise.race([once(socket, 'open'), once(socket, 'close').then(([code]) => assert.fail(`closed with ${code}`))]);
  return socket;
}
async function echoes(socket, text) {
  socket.send(text);
  return String((await once(socket, 'message'))[0]) === text;
}

test('200 WebSockets at once, cut by a suspend; 200 new ones wake the microVM', { timeout: 240_000 }, async () => {
  const { sockets } = await guest.seen();
  const resumes = await guest.resumes();
  const many = () => Promise.all(Array.from({ length: 200 }, () => open()));
  const all = await many();
  for (const echoed of await Promise.all(all.map((socket, i) => echoes(socket, `n${i}`)))) assert.ok(echoed);
  // The end of a connection is no close frame of anybody.
  const closed = Promise.all(all.map((socket) => once(socket, 'close')));
  await guest.suspend();
  assert.deepEqual((await closed).map(([code]) => code), Array(200).fill(1006));

  const again = await many();
  for (const echoed of await Promise.all(again.map((socket, i) => echoes(socket, `m${i}`)))) assert.ok(echoed);
  assert.equal(await guest.resumes(), resumes + 1);
  for (const socket of again) socket.terminate();
  // It is the same application, and all have left it.
  await seenToBe((now) => now.sockets === sockets + 400 && now.socketsLeft === now.sockets);
});

test('a suspend answers a request in flight with 502, cuts an answer under way, and ends calls', async () => {
  const { never } = await guest.seen();
  const h2 = new Agent({ connect: { ca: guest.ca }, allowH2: true });
  const waiting = [guest.call('/never', { method: 'POST', body: 'once' }), guest.call('/never'),
    fetch(`${guest.base}/never`, { dispatcher: h2, headers: guest.auth() })];
  const begun = await Promise.all([guest.call('/begun'), guest.call('/begun', { dispatcher: h2 })]);
  const readers = begun.map((answer) => answer.body[Symbol.asyncIterator]());
  for (const reader of readers) assert.equal(String((await reader.next()).value), 'begun');
  const { client, metadata } = rpc();
  const call = client.Both(metadata);
  call.write({ text: 'a', count: 1 });
  await once(call, 'data');
  const status = new Promise((resolve) => call.once('status', resolve));
  call.on('error', () => {});
  await seenToBe((now) => now.never === never + 3);

  const cut = readers.map((reader) => assert.rejects(reader.next()));
  await guest.suspend();
  for (const asked of waiting) {
    const answer = await asked;
    assert.equal(answer.statusCode ?? answer.status, 502);
    assert.equal(await (answer.text?.() ?? answer.body.text()), '');
  }
  await Promise.all(cut);
  assert.notEqual((await status).code, 0);

  // It is awake again by the next call, and what was in flight was not sent twice.
  const note = await new Promise((resolve, reject) => client.One({ text: 'awake', count: 1 }, metadata, (error, got) => (error ? reject(error) : resolve(got))));
  assert.equal(note.text, 'awake');
  assert.equal((await guest.seen()).never, never + 3);
  await h2.destroy();
});
