// A real server for a test file: the program itself on a free port, in a directory of its own, with its own cgroup and uids.
// As in tests/server: it finds the image python that was made once for all, unless the file says something about that image;
// guests trust no certificates of this host, and no clones are parked, unless the file says otherwise.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const build = process.env.FIREBREAK_BUILD_DIR;
const guest = process.env.FIREBREAK_GUEST_DIR ?? join(build, 'guest');

export class Server {
  static async start(options = [], uid = 770000) {
    const server = new Server();
    server.dir = mkdtempSync(join(tmpdir(), 'fb-conformance-'));
    const unsaid = (name, ...words) => options.some((word) => word.startsWith(name)) ? [] : words;
    server.options = ['--uid-first', String(uid), ...unsaid('--guest-ca', '--guest-ca', 'none'),
      ...unsaid('--pool-', '--pool-least', '0', '--pool-most', '0'), ...options];
    if (!options.some((word) => word.startsWith('--python-image')))
      execFileSync(join(build, 'tests/server/prepared_data'), [server.dir], { env: { ...process.env, FIREBREAK_GUEST_DIR: guest } });
    server.log = '';
    await server.launch(server.options);
    server.credentials = JSON.parse(readFileSync(join(server.dir, 'credentials.json')));
    server.account = server.credentials.accountId;
    return server;
  }

  async launch(options) {
    const name = this.dir.split('-').pop();
    const listen = options.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
    const words = ['serve', '--data-dir', this.dir, ...listen, '--endpoint-listen', '127.0.0.1:0', '--guest-dir', guest,
      '--cgroup', `fb-${name}`, '--uid-count', '256', '--tick-ms', '100', ...options];
    // Settings of the one who tests are not the server's.
    const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith('FIREBREAK_')));
    this.child = spawn(join(build, 'firebreak'), words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stderr.on('data', (bytes) => { this.log += bytes; });
    await new Promise((resolve, reject) => {
      this.child.stdout.on('data', (bytes) => { if (String(bytes).includes('listening on')) resolve(); });
      this.ended.then(() => reject(new Error(`the server ended: ${this.log}`)));
    });
    const written = JSON.parse(readFileSync(join(this.dir, 'server.json')));
    this.url = written.url;
    this.ca = readFileSync(written.caFile);
  }

  // With these options beside those of the start; microVMs run on meanwhile.
  async restart(options) {
    this.child.kill('SIGTERM');
    await this.ended;
    await this.launch([...this.options, ...options]);
  }

  // A call of the native API.
  async native(method, path, body, key = this.credentials.apiKey) {
    const answer = await fetch(this.url + path, {
      method, body: body && JSON.stringify(body), headers: { authorization: `Bearer ${key}` },
    });
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(json)}`);
    return json;
  }

  // The status a microVM's endpoint answers with.
  endpointStatus(endpoint, token) {
    return new Promise((resolve, reject) => {
      get(`https://${endpoint}/`, { agent: false, ca: this.ca, headers: { 'x-aws-proxy-auth': token } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      }).once('error', reject);
    });
  }

  async waitForPython() {
    for (;;) {
      const { items } = await this.native('GET', '/v1/images');
      const state = items.find((image) => image.name === 'python')?.state;
      if (state === 'CREATED') return;
      if (state?.endsWith('FAILED')) throw new Error(this.log);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  // What a client of AWS is made with.
  config(extra = {}) {
    return {
      endpoint: this.url,
      region: 'eu-local-1',
      credentials: {
        accessKeyId: this.credentials.accessKeyId, secretAccessKey: this.credentials.secretAccessKey,
      },
      ...extra,
    };
  }

  async tenant(name) {
    const made = await this.native('POST', '/v1/tenants', { name });
    const { accessKeyId, secretAccessKey } = made.key;
    return { account: made.accountId, apiKey: made.key.apiKey, keyId: accessKeyId, credentials: { accessKeyId, secretAccessKey } };
  }

  async stop() {
    // MicroVMs outlive a server: they are ended first.
    const { items: tenants } = await this.native('GET', '/v1/tenants');
    if (tenants.length > 0) {
      const { items } = await this.native('GET', '/v1/microvms?pageSize=1000');
      const live = items.filter((microvm) => microvm.state !== 'TERMINATED');
      await Promise.all(live.map((microvm) => this.native('DELETE', `/v1/microvms/${microvm.id}`)));
    }
    this.child.kill('SIGTERM');
    await this.ended;
    // Holders of snapshots outlive it, too.
    const snapshots = join(this.dir, 'snapshots');
    for (const name of existsSync(snapshots) ? readdirSync(snapshots) : []) {
      const record = join(snapshots, name, 'holder.json');
      if (existsSync(record)) process.kill(JSON.parse(readFileSync(record)).pid, 'SIGKILL');
    }
    if (existsSync(this.dir)) rmSync(this.dir, { recursive: true, force: true });
  }
}

export const until = async (probe, most = 60_000) => {
  const end = Date.now() + most;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > end) throw new Error('waited too long');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
