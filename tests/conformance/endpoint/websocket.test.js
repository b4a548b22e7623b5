// ws through the endpoint: subprotocols, frames both ways, many at once, abrupt ends, the shell's frames.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const http = require('node:http');
const { once } = require('node:events');
const WebSocket = require('ws');
const { Endpoint, listen, signal } = require('./support');

let endpoint, app, sockets, port, token;
let offered;
const cut = signal();

before(async () => {
  endpoint = await Endpoint.start();
  app = http.createServer();
  sockets = new WebSocket.Server({
    server: app,
    handleProtocols: (set, req) => { offered = req.headers['sec-websocket-protocol']; return set.has('chat.v2') ? 'chat.v2' : false; },
  });
  sockets.on('connection', (socket, req) => {
    if (req.headers['sec-websocket-protocol'] === undefined) offered = undefined;
    socket.on('error', () => {});
    if (req.url === '/cut') socket.on('close', () => cut.resolve());
    if (req.url === '/die') setTimeout(() => socket.terminate(), 20);
    if (req.url === '/close') socket.close(4001, 'because');
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
  port = await listen(app);
  token = await endpoint.token(`${port},8022`);
});
after(async () => {
  for (const socket of sockets.clients) socket.terminate();
  app.close();
  assert.equal(await endpoint.stop(), 0);
});

const url = (path) => endpoint.base.replace('https', 'wss') + path;
const protocols = (...more) => ['lambda-microvms', `lambda-microvms.authentication.${token}`, `lambda-microvms.port.${port}`, ...more];
async function open(path, list, options = {}) {
  const socket = new WebSocket(url(path), list, { ca: endpoint.ca, ...options });
  await once(socket, 'open');
  return socket;
}
async function statusOf(list, options = {}) {
  const socket = new WebSocket(url('/'), list, { ca: endpoint.ca, ...options });
  const [, answer] = await once(socket, 'unexpected-response');
  socket.on('error', () => {});
  socket.terminate();
  return answer.statusCode;
}

test('subprotocols as a browser sends them', async () => {
  const socket = await open('/', protocols());
  assert.equal(socket.protocol, 'lambda-microvms');
  assert.equal(offered, undefined);
  socket.close();
  const chat = await open('/', protocols('chat.v2', 'other'));
  assert.equal(chat.protocol, 'chat.v2');
  assert.equal(offered, 'chat.v2, other');
  chat.close();
});

test('token and port as headers', async () => {
  const socket = await open('/', [], { headers: { 'x-aws-proxy-auth': token, 'x-aws-proxy-port': String(port) } });
  assert.equal(socket.protocol, '');
  socket.send('hello');
  assert.equal(String((await once(socket, 'message'))[0]), 'hello');
  socket.close();
});

test('handshakes that are refused', async () => {
  assert.equal(await statusOf([]), 403);
  assert.equal(await statusOf([`lambda-microvms.authentication.${token}`, `lambda-microvms.port.${port}`]), 403);
  assert.equal(await statusOf(['lambda-microvms', 'lambda-microvms.authentication.nonsense', `lambda-microvms.port.${port}`]), 403);
  assert.equal(await statusOf(['lambda-microvms', `lambda-microvms.authentication.${token}`, 'lambda-microvms.port.1']), 403);
  assert.equal(await statusOf(['lambda-microvms', `lambda-microvms.authentication.${token}`, 'lambda-microvms.port.x']), 400);
});

test('messages of many sizes, text and binary', async () => {
  const socket = await open('/', protocols(), { perMessageDeflate: false });
  for (const size of [0, 1, 125, 126, 65535, 65536, 1 << 20]) {
    const data = Buffer.alloc(size, 7);
    socket.send(data);
    const [back, binary] = await once(socket, 'message');
    assert.ok(binary && back.equals(data), String(size));
  }
  socket.send('grüße');
  assert.equal(String((await once(socket, 'message'))[0]), 'grüße');
  socket.ping('p');
  assert.equal(String((await once(socket, 'pong'))[0]), 'p');
  socket.close(1000, 'done');
  const [code, reason] = await once(socket, 'close');
  assert.deepEqual([code, String(reason)], [1000, 'done']);
});

test('an extension is between client and application', async () => {
  const compressed = new WebSocket.Server({ port: 0, host: '127.0.0.1', perMessageDeflate: true });
  await once(compressed, 'listening');
  compressed.on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
  const number = compressed.address().port;
  const socket = await open('/', [], { perMessageDeflate: true, headers: { 'x-aws-proxy-auth': await endpoint.token(number), 'x-aws-proxy-port': String(number) } });
  assert.match(socket.extensions, /permessage-deflate/);
  socket.send(Buffer.alloc(100_000, 'a'));
  assert.equal((await once(socket, 'message'))[0].length, 100_000);
  socket.terminate();
  compressed.close();
});

test('the application closes with its own code', async () => {
  const socket = new WebSocket(url('/close'), protocols(), { ca: endpoint.ca });
  const [code, reason] = await once(socket, 'close');
  assert.deepEqual([code, String(reason)], [4001, 'because']);
});

test('abrupt ends on both sides', async () => {
  const socket = await open('/cut', protocols());
  socket.terminate();
  await cut.promise;
  const other = new WebSocket(url('/die'), protocols(), { ca: endpoint.ca });
  other.on('error', () => {});
  assert.equal((await once(other, 'close'))[0], 1006);
});

test('200 at once', async () => {
  const all = await Promise.all(Array.from({ length: 200 }, () => open('/', protocols())));
  const answers = await Promise.all(all.map(async (socket, i) => {
    socket.send(`n${i}`);
    return String((await once(socket, 'message'))[0]);
  }));
  assert.deepEqual(answers, all.map((_, i) => `n${i}`));
  await Promise.all(all.map((socket) => { socket.close(); return once(socket, 'close'); }));
});

test('the shell', async () => {
  const shell = await endpoint.token('8022', { kind: 'shell' });
  const socket = new WebSocket(url('/shell'), ['lambda-microvms', `lambda-microvms.authentication.${shell}`, 'lambda-microvms.port.8022'], { ca: endpoint.ca });
  const messages = [];
  const closed = once(socket, 'close');
  let screen = '';
  const shown = signal();
  socket.on('message', (data, binary) => {
    messages.push(binary);
    if (!binary) assert.deepEqual(Object.keys(JSON.parse(String(data))), ['type', 'session_id']);
    else screen += data;
    if (screen.includes('is 6*7=42')) shown.resolve();
  });
  await once(socket, 'open');
  assert.equal(socket.protocol, 'lambda-microvms');
  socket.send(JSON.stringify({ type: 'resize', cols: 111, rows: 33 }));
  socket.send('echo $TERM $(stty size) is 6*7=$((6*7))\n'); // as text
  await shown.promise;
  assert.match(screen, /xterm 33 111 is 6\*7=42/);
  assert.equal(messages[0], false);
  assert.ok(messages.slice(1).every((binary) => binary));
  socket.send(Buffer.from('exit 3\n')); // as bytes
  const [code, reason] = await closed;
  assert.deepEqual([code, String(reason)], [1000, 'shell exited']);
});
