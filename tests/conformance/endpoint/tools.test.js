// curl, nghttp and h2load through the endpoint.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');
const { Endpoint, listen } = require('./support');

const run = promisify(execFile);
let endpoint, app, port, token;

before(async () => {
  endpoint = await Endpoint.start();
  app = http.createServer((req, res) => {
    let size = 0;
    req.on('data', (piece) => { size += piece.length; });
    req.on('end', () => res.end(`${req.method} ${req.url} ${size}`));
  });
  port = await listen(app);
  token = await endpoint.token(port);
});
after(async () => {
  app.closeAllConnections();
  app.close();
  assert.equal(await endpoint.stop(), 0);
});

const curl = async (...words) => (await run('curl', ['-sS', '--fail', '--cacert', endpoint.caFile, '-H', `X-aws-proxy-auth: ${token}`, '-H', `X-aws-proxy-port: ${port}`, ...words])).stdout;

test('curl: HTTP/1.1, HTTP/2, with a body that waits for a 100', async () => {
  assert.equal(await curl('--http1.1', endpoint.base + '/a?b'), 'GET /a?b 0');
  assert.equal(await curl('--http2', endpoint.base + '/a?b'), 'GET /a?b 0');
  const file = path.join(os.tmpdir(), `fb-body-${process.pid}`);
  fs.writeFileSync(file, Buffer.alloc(200_000, 'x'));
  for (const version of ['--http1.1', '--http2'])
    assert.equal(await curl(version, '-H', 'Expect: 100-continue', '--data-binary', `@${file}`, endpoint.base + '/up'), 'POST /up 200000');
  assert.equal(await curl('-T', file, endpoint.base + '/put'), 'PUT /put 200000');
  fs.unlinkSync(file);
});

test('curl: host style', async () => {
  const host = `${endpoint.endpointId}.box.test`;
  const [ip, number] = endpoint.authority.split(':');
  assert.equal(await curl('--resolve', `${host}:${number}:${ip}`, `https://${host}:${number}/x`), 'GET /x 0');
});

test('nghttp and h2load', async () => {
  const headers = ['-H', `x-aws-proxy-auth: ${token}`, '-H', `x-aws-proxy-port: ${port}`];
  const one = await run('nghttp', ['-v', ...headers, endpoint.base + '/n']);
  assert.match(one.stdout, /:status: 200/);
  const { stdout } = await run('h2load', ['-n', '2000', '-c', '4', '-m', '25', ...headers, endpoint.base + '/l']);
  assert.match(stdout, /2000 succeeded, 0 failed, 0 errored/);
  // More at once than one would think; closing connections must not exhaust anything.
  const wide = await run('h2load', ['-n', '5000', '-c', '1', '-m', '100', ...headers, endpoint.base + '/l']);
  assert.match(wide.stdout, /5000 succeeded, 0 failed, 0 errored/);
  const plain = await run('h2load', ['--h1', '-n', '1000', '-c', '8', ...headers, endpoint.base + '/l']);
  assert.match(plain.stdout, /1000 succeeded, 0 failed, 0 errored/);
});
