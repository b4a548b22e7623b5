// The endpoint as a child process, and what tests ask of it. "Ports of the guest" are ports of this host.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');

class Endpoint {
  static async start(...options) {
    const program = path.join(process.env.FIREBREAK_BUILD_DIR, 'firebreak-endpoint-fixture');
    const endpoint = new Endpoint();
    endpoint.child = spawn(program, options, { stdio: ['pipe', 'pipe', 'inherit'] });
    endpoint.lines = readline.createInterface({ input: endpoint.child.stdout })[Symbol.asyncIterator]();
    Object.assign(endpoint, JSON.parse(await endpoint.line()));
    endpoint.ca = endpoint.url.startsWith('https') ? fs.readFileSync(endpoint.caFile) : undefined;
    endpoint.authority = endpoint.url.slice(endpoint.url.indexOf('//') + 2);
    endpoint.base = `${endpoint.url}/vm/${endpoint.endpointId}`;
    return endpoint;
  }
  async line() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('the endpoint ended');
    return value;
  }
  // One question at a time.
  ask(question) {
    this.asked = (this.asked ?? Promise.resolve()).then(() => {
      this.child.stdin.write(question + '\n');
      return this.line();
    });
    return this.asked;
  }
  token(ports, { seconds = 3600, kind = 'endpoint', whose = 'OWN', id = 't' } = {}) {
    return this.ask(`token ${ports} ${seconds} ${kind} ${whose} ${id}`);
  }
  async usage() {
    return JSON.parse(await this.ask('usage'));
  }
  async stop() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stdin.end();
    return ended;
  }
}

function listen(server) {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
}

// A promise and its resolver.
function signal() {
  let resolve;
  const promise = new Promise((r) => { resolve = r; });
  return { promise, resolve };
}

module.exports = { Endpoint, listen, signal };
