// Tokens, good and bad, through the endpoint: every bad one is a 403, whatever it is.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const http = require('node:http');
const { Agent, request } = require('undici');
const { Endpoint, listen } = require('./support');

let endpoint, app, port, dispatcher;

before(async () => {
  app = http.createServer((req, res) => res.end('in'));
  port = await listen(app);
  endpoint = await Endpoint.start('--hook-port', String(port + 1));
  dispatcher = new Agent({ connect: { ca: endpoint.ca }, maxHeaderSize: 1 << 20 });
});
after(async () => {
  await dispatcher.close();
  app.closeAllConnections();
  app.close();
  assert.equal(await endpoint.stop(), 0);
});

async function ask(headers, path = '/') {
  const answer = await request(endpoint.base + path, { dispatcher, headers });
  return { status: answer.statusCode, text: await answer.body.text(), headers: answer.headers };
}
const withToken = (token, more = {}) => ask({ 'x-aws-proxy-auth': token, 'x-aws-proxy-port': String(port), ...more });

async function refused(token, why) {
  const answer = await withToken(token);
  assert.equal(answer.status, 403, why);
  assert.equal(answer.text, 'Request missing authentication', why);
  assert.equal(answer.headers['cache-control'], 'private, no-store');
  assert.ok(answer.headers['x-amzn-requestid']);
}

test('ports: one, a list, a range, all', async () => {
  for (const ports of [`${port}`, `1,${port}`, `${port - 5}-${port + 5}`, '*']) {
    const answer = await withToken(await endpoint.token(ports));
    assert.deepEqual([answer.status, answer.text], [200, 'in'], ports);
  }
  for (const ports of [`${port - 1}`, `1-${port - 1}`, '1,2,3']) {
    const answer = await withToken(await endpoint.token(ports));
    assert.deepEqual([answer.status, answer.text], [403, 'Access to port denied'], ports);
  }
});

test('no token at all', async () => {
  const answer = await ask({});
  assert.deepEqual([answer.status, answer.text], [403, 'Request missing authentication']);
});

test('tampered in every part', async () => {
  const token = await endpoint.token('*');
  const parts = token.split('.');
  assert.equal(parts.length, 5);
  assert.deepEqual(Object.keys(JSON.parse(Buffer.from(parts[0], 'base64url'))).sort(), ['alg', 'enc', 'kid']);
  for (const i of [0, 2, 3, 4]) {
    const changed = [...parts];
    changed[i] = (changed[i][0] === 'A' ? 'B' : 'A') + changed[i].slice(1);
    await refused(changed.join('.'), `part ${i}`);
  }
  await refused(token.slice(0, -1));
  await refused(token + 'A');
  await refused(token + '=');
  await refused(parts.slice(0, 4).join('.'));
});

test('other algorithms, keys and kinds of token', async () => {
  const [head, , ...rest] = (await endpoint.token('*')).split('.');
  const header = JSON.parse(Buffer.from(head, 'base64url'));
  for (const other of [
    { ...header, alg: 'none' }, { ...header, alg: 'A256KW' }, { ...header, alg: 'RSA-OAEP' }, { ...header, enc: 'A128GCM' },
    { ...header, kid: 'other' }, { ...header, kid: '../../../etc/passwd' }, { ...header, zip: 'DEF' }, { ...header, crit: ['x'] },
    { alg: 'none' }, {},
  ]) await refused([Buffer.from(JSON.stringify(other)).toString('base64url'), '', ...rest].join('.'), JSON.stringify(other));
  await refused(Buffer.from('{"alg":"none"}').toString('base64url') + '.' + Buffer.from('{"sub":"x"}').toString('base64url') + '.');
  await refused('Bearer x');
});

test('expired, of another microVM, revoked', async () => {
  await refused(await endpoint.token('*', { seconds: -1 }));
  await refused(await endpoint.token('*', { whose: 'OTHER' }));
  const token = await endpoint.token('*', { id: 'gone' });
  assert.equal((await withToken(token)).status, 200);
  await endpoint.ask('revoke gone');
  await refused(token);
  assert.equal((await withToken(await endpoint.token('*', { id: 'other' }))).status, 200);
});

test('a token that expires while it is used is refused from then on', async () => {
  const token = await endpoint.token('*', { seconds: 1, id: 'short' });
  assert.equal((await withToken(token)).status, 200);
  for (let i = 0; i < 100 && (await withToken(token)).status === 200; ++i) await new Promise((resolve) => setTimeout(resolve, 50));
  await refused(token);
});

test('oversized', async () => {
  await refused('A'.repeat(9000));
  await refused('.'.repeat(8000));
  // Beyond what a head may have.
  const answer = await ask({ 'x-aws-proxy-auth': 'A'.repeat(100_000) });
  assert.equal(answer.status, 431);
});

test('malformed ports are a bad request', async () => {
  const token = await endpoint.token('*');
  for (const bad of ['0', '65536', 'x', '80,81', '-1', '8080 ']) {
    const answer = await ask({ 'x-aws-proxy-auth': token, 'x-aws-proxy-port': bad });
    // A header's outer blanks are not its value.
    assert.equal(answer.status, bad === '8080 ' ? 502 : 400, bad);
  }
});

test('the port of the hooks is closed to all', async () => {
  for (const ports of ['*', `${port + 1}`]) {
    const answer = await ask({ 'x-aws-proxy-auth': await endpoint.token(ports), 'x-aws-proxy-port': String(port + 1) }, '/aws/lambda-microvms/runtime/v1/run');
    assert.deepEqual([answer.status, answer.text], [403, 'Access to port denied']);
  }
});

test('a shell token opens no port, and needs a WebSocket', async () => {
  const shell = await endpoint.token('8022', { kind: 'shell' });
  assert.equal((await withToken(shell)).status, 403);
  const answer = await ask({ 'x-aws-proxy-auth': shell }, '/shell');
  assert.deepEqual([answer.status, answer.text], [502, '']);
});

test('limits by size, when they are on', async () => {
  const limited = await Endpoint.start('--limits');
  const agent = new Agent({ connect: { ca: limited.ca } });
  const headers = { 'x-aws-proxy-auth': await limited.token('*'), 'x-aws-proxy-port': String(port) };
  const statuses = [];
  for (let i = 0; i < 40; ++i) {
    const answer = await request(limited.base + '/', { dispatcher: agent, headers });
    await answer.body.dump();
    statuses.push(answer.statusCode);
  }
  assert.equal(statuses[0], 200);
  assert.ok(statuses.includes(429), statuses.join());
  await agent.close();
  assert.equal(await limited.stop(), 0);
});
