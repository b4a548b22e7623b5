// The listener is everybody's: what one tenant, or one who was never let in, may hold of it. And how many requests wait for one microVM.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const http = require('node:http');
const http2 = require('node:http2');
const tls = require('node:tls');
const { once } = require('node:events');
const WebSocket = require('ws');
const { Endpoint, listen } = require('./support');

const share = 3;
let endpoint, app, port, token, neighbour;

before(async () => {
  endpoint = await Endpoint.start('--connections-of-tenant', String(share));
  app = http.createServer((req, res) => { if (req.url !== '/never') res.end('here'); });
  new WebSocket.Server({ server: app }).on('connection', (socket) => socket.on('error', () => {}));
  port = await listen(app);
  token = await endpoint.token(port);
  neighbour = await endpoint.token(port, { whose: 'NEIGHBOUR' });
});
after(async () => {
  app.closeAllConnections();
  app.close();
  assert.equal(await endpoint.stop(), 0);
});

const auth = (by) => ({ ...(by && { 'x-aws-proxy-auth': by }), 'x-aws-proxy-port': String(port) });

// One HTTP/1.1 connection, and requests through it.
class Line {
  constructor() {
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const [host, number] = endpoint.authority.split(':');
    this.socket = tls.connect({ host, port: Number(number), ca: endpoint.ca, ALPNProtocols: ['http/1.1'] });
    this.closed = once(this.socket, 'close');
    this.agent.createConnection = () => this.socket;
  }
  get(by) {
    return new Promise((resolve, reject) => {
      http.get(endpoint.base.replace('https', 'http') + '/', { agent: this.agent, headers: auth(by) }, async (answer) => {
        let text = '';
        for await (const piece of answer) text += piece;
        resolve([answer.statusCode, text, answer.headers.connection]);
      }).once('error', reject);
    });
  }
  async close() {
    this.socket.destroy();
    await this.closed;
  }
}

// The same over HTTP/2.
class Session {
  constructor() {
    this.session = http2.connect(endpoint.url, { ca: endpoint.ca });
    this.session.on('error', () => {});
    this.closed = once(this.session, 'close');
    this.goaway = once(this.session, 'goaway');
  }
  async get(by, path = '/') {
    const stream = this.session.request({ ':path': `/vm/${endpoint.endpointId}${path}`, ...auth(by) });
    const [head] = await once(stream, 'response');
    let text = '';
    for await (const piece of stream) text += piece;
    return [head[':status'], text];
  }
  async close() {
    this.session.destroy();
    await this.closed;
  }
}

// The endpoint hears of a connection's end a moment after its client.
async function servedAgain() {
  for (;;) {
    const line = new Line();
    const [status] = await line.get(token);
    if (status === 200) return line;
    assert.equal(status, 429);
    await line.closed;
  }
}

test('a tenant has its share of connections, and its neighbour the rest', async () => {
  const lines = Array.from({ length: share }, () => new Line());
  for (const line of lines) assert.deepEqual(await line.get(token), [200, 'here', undefined]);

  const beyond = new Line();
  assert.deepEqual(await beyond.get(token), [429, 'Too many connections', 'close']);
  await beyond.closed;
  const other = new Session();
  assert.deepEqual(await other.get(token), [429, 'Too many connections']);
  await Promise.all([other.goaway, other.closed]);
  const socket = new WebSocket(endpoint.base.replace('https', 'wss'), { ca: endpoint.ca, headers: auth(token) });
  assert.match((await once(socket, 'error'))[0].message, /429/);

  const theirs = [new Line(), new Session()];
  for (const one of theirs) assert.deepEqual((await one.get(neighbour)).slice(0, 2), [200, 'here']);
  // What is let in stays so, whoever comes through it.
  assert.deepEqual(await lines[0].get(token), [200, 'here', undefined]);
  assert.deepEqual(await theirs[0].get(token), [200, 'here', undefined]);

  await lines[0].close();
  lines[0] = await servedAgain();
  for (const one of [...lines, ...theirs]) await one.close();
});

test('WebSockets count as long as they are open', async () => {
  (await servedAgain()).close();
  const open = [];
  while (open.length < share) {
    const socket = new WebSocket(endpoint.base.replace('https', 'wss'), { ca: endpoint.ca, headers: auth(token) });
    if (await new Promise((resolve) => socket.once('open', () => resolve(true)).once('error', () => resolve(false)))) open.push(socket);
  }
  const beyond = new Line();
  assert.equal((await beyond.get(token))[0], 429);
  await beyond.closed;
  open.pop().terminate();
  await (await servedAgain()).close();
  for (const socket of open) socket.terminate();
});

test('who is not let in keeps no connection', async () => {
  const line = new Line();
  assert.deepEqual(await line.get(), [403, 'Request missing authentication', 'close']);
  await line.closed;
  const session = new Session();
  assert.deepEqual(await session.get('nonsense'), [403, 'Request missing authentication']);
  await Promise.all([session.goaway, session.closed]);
  // Once let in, a mistake does not cost the connection. A second one in a row does.
  const known = await servedAgain();
  assert.deepEqual(await known.get('nonsense'), [403, 'Request missing authentication', undefined]);
  assert.deepEqual(await known.get(token), [200, 'here', undefined]);
  assert.deepEqual(await known.get('nonsense'), [403, 'Request missing authentication', undefined]);
  assert.deepEqual(await known.get('nonsense'), [403, 'Request missing authentication', 'close']);
  await known.closed;
});

test('1024 requests of one microVM wait, the next is told so', async () => {
  const wide = await Endpoint.start();
  const by = await wide.token(port);
  const sessions = Array.from({ length: 9 }, () => http2.connect(wide.url, { ca: wide.ca }));
  await Promise.all(sessions.map((session) => once(session, 'remoteSettings')));
  const statuses = [];
  await new Promise((resolve) => {
    for (let i = 0; i < 1024 + 9; ++i) {
      const stream = sessions[i % 9].request({ ':path': `/vm/${wide.endpointId}/never`, ...auth(by) });
      stream.on('error', () => {});
      stream.once('response', (head) => { if (statuses.push(head[':status']) === 9) resolve(); });
    }
  });
  assert.deepEqual(statuses, Array(9).fill(429));
  const free = http2.connect(wide.url, { ca: wide.ca });
  const ask = async () => {
    const stream = free.request({ ':path': `/vm/${wide.endpointId}/`, ...auth(by) });
    stream.resume();
    return (await once(stream, 'response'))[0][':status'];
  };
  assert.equal(await ask(), 429);
  assert.equal(statuses.length, 9);
  for (const session of sessions) session.destroy();
  let status;
  while ((status = await ask()) === 429);
  assert.equal(status, 200);
  free.destroy();
  assert.equal(await wide.stop(), 0);
});
