// undici and fetch through the endpoint: bodies, streams, headers, the endpoint's own answers, attacks on framing.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const crypto = require('node:crypto');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const { Readable } = require('node:stream');
const tls = require('node:tls');
const { Agent, request, fetch } = require('undici');
const { Endpoint, listen, signal } = require('./support');

let endpoint, app, port, token, dispatcher;
const seen = [];       // requests as the application saw them
const gone = signal(); // an application's client has left

// A body of so many MiB in pieces of 64 KiB, no two of them equal.
function* pieces(mib) {
  for (let i = 0; i < mib * 16; ++i) {
    const piece = Buffer.alloc(1 << 16, 'firebreak');
    piece.writeUInt32LE(i);
    yield piece;
  }
}
function sumOf(mib) {
  const hash = crypto.createHash('sha256');
  for (const piece of pieces(mib)) hash.update(piece);
  return hash.digest('hex');
}

function serve(req, res) {
  seen.push({ method: req.method, url: req.url, headers: req.headers, raw: req.rawHeaders });
  const url = new URL(req.url, 'http://x');
  switch (url.pathname) {
    case '/echo':
      res.setHeader('x-method', req.method);
      return req.pipe(res);
    case '/sum': {
      const hash = crypto.createHash('sha256');
      req.on('data', (piece) => hash.update(piece));
      return req.on('end', () => res.end(hash.digest('hex')));
    }
    case '/big':
      return Readable.from(pieces(Number(url.searchParams.get('mib')))).on('error', () => {}).pipe(res);
    case '/events':
      res.setHeader('content-type', 'text/event-stream');
      res.write('data: one\n\n');
      return seen.release.promise.then(() => res.end('data: two\n\n'));
    case '/early':
      return res.end('no thanks');
    case '/cut':
      res.setHeader('content-length', '100');
      res.write('half');
      return setTimeout(() => res.destroy(), 20);
    case '/never':
      return req.on('close', () => gone.resolve());
    case '/cookie':
      res.setHeader('set-cookie', ['a=1; Path=/; Domain=127.0.0.1', 'b=2']);
      res.setHeader('clear-site-data', '"*"');
      res.writeHead(302, { location: '/next' });
      return res.end();
    case '/trailers':
      res.setHeader('trailer', 'x-sum');
      res.write('body');
      res.addTrailers({ 'x-sum': '42' });
      return res.end();
    default:
      res.statusCode = Number(url.searchParams.get('status') ?? 200);
      return res.end(res.statusCode === 204 || res.statusCode === 304 ? undefined : `${req.method} ${req.url}`);
  }
}

before(async () => {
  endpoint = await Endpoint.start();
  app = http.createServer(serve);
  port = await listen(app);
  token = await endpoint.token(port);
  dispatcher = new Agent({ connect: { ca: endpoint.ca }, allowH2: false });
});
after(async () => {
  await dispatcher.close();
  app.closeAllConnections();
  app.close();
  assert.equal(await endpoint.stop(), 0);
});

const auth = (more = {}) => ({ 'x-aws-proxy-auth': token, 'x-aws-proxy-port': String(port), ...more });
const call = (path, options = {}) =>
  request(endpoint.base + path, { dispatcher, ...options, headers: auth(options.headers) });

test('undici: methods, paths, queries, statuses', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const answer = await call('/a%20b/c?d=e%2Ff', { method });
    assert.equal(answer.statusCode, 200);
    assert.equal(await answer.body.text(), `${method} /a%20b/c?d=e%2Ff`);
  }
  for (const status of [201, 204, 304, 404, 500, 503]) {
    const answer = await call(`/?status=${status}`);
    assert.equal(answer.statusCode, status);
    await answer.body.dump();
  }
  const head = await call('/', { method: 'HEAD' });
  assert.equal(head.statusCode, 200);
  assert.equal(await head.body.text(), '');
});

test('undici: bodies both ways, with and without a length', async () => {
  const body = Buffer.alloc(300_000, 'abc');
  for (const sent of [body, (function* pieces() { for (let i = 0; i < 3; ++i) yield body; })()]) {
    const answer = await call('/echo', { method: 'POST', body: sent });
    const got = Buffer.from(await answer.body.arrayBuffer());
    assert.equal(got.length, sent === body ? body.length : 3 * body.length);
    assert.ok(got.subarray(0, body.length).equals(body));
  }
});

test('fetch over HTTP/2', async () => {
  const h2 = new Agent({ connect: { ca: endpoint.ca }, allowH2: true });
  const answer = await fetch(endpoint.base + '/echo', { dispatcher: h2, method: 'POST', body: 'over two', headers: auth() });
  assert.equal(answer.headers.get('x-method'), 'POST');
  assert.equal(await answer.text(), 'over two');
  await h2.destroy();
});

test('what the application sees', async () => {
  seen.length = 0;
  await (await call('/h', { headers: { 'x-aws-proxy-other': '1', 'x-custom': 'kept', te: 'trailers', 'x-amzn-requestid': 'forged' } })).body.dump();
  const { headers } = seen[0];
  assert.equal(headers.host, endpoint.authority);
  assert.equal(headers['x-custom'], 'kept');
  assert.match(headers['x-amzn-requestid'], /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  for (const name of Object.keys(headers)) {
    assert.ok(!name.startsWith('x-aws-proxy-'), name);
    assert.ok(!['te', 'x-forwarded-for', 'expect'].includes(name), name);
  }
  assert.ok(!JSON.stringify(seen).includes(token));
});

test('path, host and token style', async () => {
  const cases = [
    [endpoint.base + '/p', {}, '/p'],
    [endpoint.base, {}, '/'],
    [endpoint.url + '/any/path', {}, '/any/path'],
    [endpoint.url + '/vm/x', { host: `${endpoint.endpointId}.box.test` }, '/vm/x'],
  ];
  for (const [url, headers, path] of cases) {
    const answer = await request(url, { dispatcher, headers: auth(headers) });
    assert.equal(await answer.body.text(), `GET ${path}`);
  }
  for (const [url, headers] of [
    [`${endpoint.url}/vm/${crypto.randomUUID()}/p`, {}],
    [`${endpoint.url}/vm//p`, {}],
    [`${endpoint.url}/`, { host: `${crypto.randomUUID()}.box.test` }],
  ]) {
    const answer = await request(url, { dispatcher, headers: auth(headers) });
    assert.equal(answer.statusCode, 403);
    assert.equal(await answer.body.text(), 'Request missing authentication');
  }
});

test('answers of a shared origin are confined; those of an own host are not', async () => {
  const answer = await call('/cookie');
  await answer.body.dump();
  assert.deepEqual(answer.headers['set-cookie'],
    [`a=1; Path=/vm/${endpoint.endpointId}`, `b=2; Path=/vm/${endpoint.endpointId}`]);
  assert.equal(answer.headers.location, `/vm/${endpoint.endpointId}/next`);
  assert.match(answer.headers['content-security-policy'], /^sandbox /);
  assert.equal(answer.headers['clear-site-data'], undefined);
  const own = await request(endpoint.url + '/cookie', { dispatcher, headers: auth({ host: `${endpoint.endpointId}.box.test` }) });
  await own.body.dump();
  assert.equal(own.headers.location, '/next');
  assert.equal(own.headers['content-security-policy'], undefined);
});

test('server-sent events arrive as they are sent', async () => {
  seen.release = signal();
  const answer = await call('/events');
  const pieces = answer.body[Symbol.asyncIterator]();
  assert.equal(String((await pieces.next()).value), 'data: one\n\n');
  seen.release.resolve();
  assert.equal(String((await pieces.next()).value), 'data: two\n\n');
  assert.ok((await pieces.next()).done);
});

test('trailers', async () => {
  const answer = await call('/trailers');
  assert.equal(await answer.body.text(), 'body');
  assert.equal(answer.trailers['x-sum'], '42');
});

test('an answer that comes before the request has ended', async () => {
  const answer = await call('/early', { method: 'POST', body: Buffer.alloc(100_000) });
  assert.equal(answer.statusCode, 200);
  assert.equal(await answer.body.text(), 'no thanks');
});

const mib = process.env.FIREBREAK_LONG ? 1024 : 64;
test(`${mib} MiB each way with flat memory`, async () => {
  const before = (await endpoint.usage()).rssKib;
  const sum = sumOf(mib);
  const down = await call(`/big?mib=${mib}`);
  const hash = crypto.createHash('sha256');
  let size = 0;
  let most = 0;
  for await (const piece of down.body) {
    hash.update(piece);
    size += piece.length;
    if (size % (8 << 20) < piece.length) most = Math.max(most, (await endpoint.usage()).rssKib);
  }
  assert.equal(hash.digest('hex'), sum);
  const up = await call('/sum', { method: 'POST', body: pieces(mib) });
  assert.equal(await up.body.text(), sum);
  most = Math.max(most, (await endpoint.usage()).rssKib);
  assert.ok(most - before < 16 << 10, `grew by ${most - before} KiB`);
});

test('a slow reader holds the application back', async () => {
  const before = (await endpoint.usage()).out;
  const answer = await call('/big?mib=64');
  await new Promise((resolve) => setTimeout(resolve, 500));
  const taken = (await endpoint.usage()).out - before;
  assert.ok(taken < 32 << 20, `${taken} bytes went through unread`);
  answer.body.destroy();
  await new Promise((resolve) => answer.body.once('close', resolve));
});

test('an application that breaks off is a broken answer, not a short one', async () => {
  await assert.rejects(async () => (await call('/cut')).body.text());
});

test('a client that leaves frees the application', async () => {
  const leaving = new AbortController();
  const asked = call('/never', { signal: leaving.signal });
  setTimeout(() => leaving.abort(), 50);
  await assert.rejects(asked);
  await gone.promise;
});

test('nothing listens: 502 without a body', async () => {
  const free = http.createServer();
  const closed = await listen(free);
  await new Promise((resolve) => free.close(resolve));
  const answer = await request(endpoint.base + '/', { dispatcher, headers: { 'x-aws-proxy-auth': await endpoint.token('*'), 'x-aws-proxy-port': String(closed) } });
  assert.equal(answer.statusCode, 502);
  assert.equal(await answer.body.text(), '');
  assert.ok(answer.headers['x-amzn-requestid']);
  assert.equal(answer.headers['cache-control'], 'private, no-store');
});

test('an application on ::1 alone is found, and gets the whole request', async () => {
  const six = http.createServer((req, res) => { res.setHeader('x-url', req.url); req.pipe(res); });
  await new Promise((resolve, reject) => six.on('error', reject).listen(0, '::1', resolve));
  const at = six.address().port;
  const headers = { 'x-aws-proxy-auth': await endpoint.token(at), 'x-aws-proxy-port': String(at) };
  const answer = await request(endpoint.base + '/six?a=1', { dispatcher, method: 'POST', body: 'x'.repeat(300000), headers });
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['x-url'], '/six?a=1');
  assert.equal((await answer.body.text()).length, 300000);
  six.closeAllConnections();
  six.close();
});

test('force-h2 speaks HTTP/2 to the application, and fails with one that cannot', async () => {
  const plain = await call('/', { headers: { 'x-aws-proxy-force-h2': 'true' } });
  assert.equal(plain.statusCode, 502);
  await plain.body.dump();
  const two = http2.createServer((req, res) => { res.setHeader('x-version', req.httpVersion); req.pipe(res); });
  const h2port = await listen(two);
  const headers = { 'x-aws-proxy-auth': await endpoint.token(h2port), 'x-aws-proxy-port': String(h2port), 'x-aws-proxy-force-h2': 'true' };
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) =>
    request(endpoint.base + '/', { dispatcher, method: 'POST', body: `n${i}`, headers })));
  for (const [i, answer] of answers.entries()) {
    assert.equal(answer.headers['x-version'], '2.0');
    assert.equal(await answer.body.text(), `n${i}`);
  }
  two.close();
});

// Sends bytes as they are; all that comes back until the end.
function raw(bytes) {
  return new Promise((resolve, reject) => {
    const [host, number] = endpoint.authority.split(':');
    const socket = tls.connect({ host, port: Number(number), ca: endpoint.ca, ALPNProtocols: ['http/1.1'] }, () => socket.write(bytes));
    let text = '';
    socket.on('data', (piece) => { text += piece.toString('latin1'); });
    socket.on('end', () => resolve(text));
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
    socket.setTimeout(10_000, () => socket.destroy());
  });
}

test('framing that could be read in two ways never reaches the application', async () => {
  const path = `/vm/${endpoint.endpointId}`;
  const base = `Host: x\r\nX-Aws-Proxy-Auth: ${token}\r\nX-Aws-Proxy-Port: ${port}\r\n`;
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const head of [
    'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n',
    'Content-Length: 5\r\nContent-Length: 6\r\n',
    'Content-Length: 5, 6\r\n',
    'Content-Length: +5\r\n',
    'Content-Length: 0x5\r\n',
    'Transfer-Encoding: chunked, identity\r\n',
    'Transfer-Encoding: xchunked\r\n',
    'Transfer-Encoding : chunked\r\n',
    'Transfer-Encoding:\x0bchunked\r\n',
    ' Transfer-Encoding: chunked\r\n',
    'X: a\nTransfer-Encoding: chunked\r\n',
    'X: a\r\n b\r\n',
    'X: a\x00b\r\n',
  ]) {
    seen.length = 0;
    const answer = await raw(`POST ${path}/ HTTP/1.1\r\n${base}${head}\r\n0\r\n\r\n${smuggled}`);
    assert.match(answer, /^HTTP\/1\.1 (400|501) /, JSON.stringify(head));
    assert.equal(seen.length, 0, JSON.stringify(head));
  }
  // The body's own bytes stay a body.
  seen.length = 0;
  const answer = await raw(`POST ${path}/echo HTTP/1.1\r\n${base}Connection: close, X-Aws-Proxy-Auth\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`);
  assert.ok(answer.includes(smuggled));
  assert.equal(seen.length, 1);
});

test('HTTP/2 by prior knowledge, without ALPN', async () => {
  const [host, number] = endpoint.authority.split(':');
  const socket = tls.connect({ host, port: Number(number), ca: endpoint.ca });
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + '\0\0\0\x04\0\0\0\0\0', 'latin1');
  const first = await new Promise((resolve, reject) => { socket.once('data', resolve); socket.once('error', reject); });
  assert.equal(first[3], 4); // SETTINGS
  socket.destroy();
});

test('pipelined requests are answered in order', async () => {
  const one = (n, more = '') => `GET /vm/${endpoint.endpointId}/${n} HTTP/1.1\r\nHost: x\r\nX-Aws-Proxy-Auth: ${token}\r\nX-Aws-Proxy-Port: ${port}\r\n${more}\r\n`;
  const answer = await raw(one(1) + one(2) + one(3, 'Connection: close\r\n'));
  assert.deepEqual([...answer.matchAll(/GET \/(\d)/g)].map((m) => m[1]), ['1', '2', '3']);
});

test('an application cannot inject headers or a second answer', async () => {
  const answers = [
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil',
    'HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\nokXX',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\nConnection: upgrade\r\n\r\n',
    `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(1 << 20)}\r\n\r\n`,
    'SSH-2.0-OpenSSH_9.2\r\n',
  ];
  for (const text of answers) {
    const bad = net.createServer((socket) => { socket.on('error', () => {}); socket.once('data', () => socket.end(text, 'latin1')); });
    const badPort = await listen(bad);
    const headers = { 'x-aws-proxy-auth': await endpoint.token(badPort), 'x-aws-proxy-port': String(badPort) };
    const both = [];
    for (let i = 0; i < 2; ++i) {
      const answer = await request(endpoint.base + '/', { dispatcher, headers });
      both.push([answer.statusCode, await answer.body.text()]);
    }
    for (const [status, body] of both) assert.ok((status === 200 && body === 'ok') || (status === 502 && body === ''), `${text.slice(0, 60)} -> ${status} ${body}`);
    bad.close();
  }
});
