// A real server, an image with app.js in it built by the server itself, and a microVM of it. Node comes from this host: the program
// and all it is linked with, started by its own loader, so that the build needs no network.
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { Agent, request } = require('undici');

const dockerfile = `FROM debian:12
COPY . /srv/
EXPOSE 8080
CMD ["/srv/node/ld-linux-x86-64.so.2", "--library-path", "/srv/node", "/srv/node/node", "/srv/app.js"]
`;

// A build's context, as a tar archive; `fill` puts more into it.
function archive(dockerfile, fill = () => {}) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'fb-context-'));
  fs.writeFileSync(path.join(dir, 'Dockerfile'), dockerfile);
  fill((from, name) => fs.cpSync(from, path.join(dir, name), { recursive: true, dereference: true }));
  const bytes = execFileSync('tar', ['-c', '-C', dir, '.'], { maxBuffer: 1 << 30 });
  fs.rmSync(dir, { recursive: true });
  return bytes;
}

const context = () => archive(dockerfile, (put) => {
  for (const name of ['app.js', 'bytes.js', '../grpc_echo.js', '../echo.proto']) put(path.join(__dirname, name), path.basename(name));
  put(process.execPath, 'node/node');
  for (const [library] of String(execFileSync('ldd', [process.execPath])).matchAll(/\/\S+/g)) put(library, `node/${path.basename(library)}`);
  for (const name of fs.readdirSync(process.env.NODE_PATH))
    if (!['playwright-core', 'undici'].includes(name) && !name.startsWith('.')) put(path.join(process.env.NODE_PATH, name), `node_modules/${name}`);
});

class Guest {
  async start() {
    const { Server, until } = await import('../../lambda/server.mjs');
    this.until = until;
    this.server = await Server.start(['--python-image=0'], 780000);
    Object.assign(this, await this.run(context(), this.server.credentials.apiKey));
    await this.find();
  }
  // A microVM of an image that is made from the context, by the one whose key it is.
  async run(body, key) {
    const headers = { authorization: `Bearer ${key}` };
    const made = await fetch(`${this.server.url}/v1/images/app/builds?memoryMib=512`, { method: 'POST', body, headers });
    if (made.status !== 202) throw new Error(await made.text());
    // Ends with the build.
    const log = await (await fetch(`${this.server.url}/v1/images/app/versions/latest/log?follow=1`, { headers })).text();
    if (!log.includes('SUCCESSFUL')) throw new Error(log);
    const { id } = await this.server.native('POST', '/v1/microvms', { image: 'app', idle: { maxIdleSeconds: 3600 } }, key);
    const { token } = await this.server.native('POST', `/v1/microvms/${id}/tokens`, { ports: '8080,50051' }, key);
    return { id, token };
  }
  async find() {
    const { endpoint } = await this.server.native('GET', `/v1/microvms/${this.id}`);
    this.base = `https://${endpoint}`;
    this.authority = endpoint.split('/')[0];
    this.ca = this.server.ca;
    await this.dispatcher?.destroy();
    this.dispatcher = new Agent({ connect: { ca: this.ca }, allowH2: false });
  }
  // The same microVM behind a server with other options.
  async restart(options) {
    await this.server.restart(options);
    await this.find();
  }
  auth(more = {}) {
    return { 'x-aws-proxy-auth': this.token, ...more };
  }
  call(path, options = {}) {
    return request(this.base + path, { dispatcher: this.dispatcher, ...options, headers: this.auth(options.headers) });
  }
  async text(path, options) {
    const answer = await this.call(path, options);
    return [answer.statusCode, await answer.body.text()];
  }
  async seen() {
    return (await this.call('/seen')).body.json();
  }
  suspend() {
    return this.server.native('POST', `/v1/microvms/${this.id}/suspend`);
  }
  async resumes() {
    const text = await (await fetch(`${this.server.url}/metrics`)).text();
    return Number(/^firebreak_resume_seconds_count (\d+)/m.exec(text)?.[1] ?? 0);
  }
  async stop() {
    await this.dispatcher?.destroy();
    await this.server?.stop();
  }
}

// One for all files: what takes longest is to build it.
module.exports = { archive, guest: new Guest() };
