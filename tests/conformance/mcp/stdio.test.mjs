// `firebreak mcp`: the same server on standard input and output, with the official clients and by hand.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { rpc, stdioV1, stdioV2 } from './clients.mjs';
import { Server, until } from './server.mjs';

const program = join(process.env.FIREBREAK_BUILD_DIR, 'firebreak');
const guest = process.env.FIREBREAK_GUEST_DIR ?? join(process.env.FIREBREAK_BUILD_DIR, 'guest');
let server, words;
before(async () => {
  server = await Server.start([], 782000);
  words = ['--data-dir', server.dir, 'mcp'];
});
after(() => server.stop());

const running = async () => (await server.native('GET', '/v1/microvms?state=RUNNING')).items;

// The program with pipes: lines that it printed, parsed; every line must be a message.
class Bridge {
  constructor(args = words) {
    this.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.lines = [];
    this.errors = '';
    let held = '';
    this.child.stdout.setEncoding('utf8');
    this.child.stdout.on('data', (text) => {
      held += text;
      const parts = held.split('\n');
      held = parts.pop();
      for (const part of parts) this.lines.push(JSON.parse(part));
    });
    this.child.stderr.on('data', (text) => { this.errors += text; });
    this.ended = new Promise((resolve) => this.child.once('close', (code) => { assert.equal(held, ''); resolve(code); }));
  }
  send(message) { this.child.stdin.write((typeof message === 'string' ? message : JSON.stringify(message)) + '\n'); }
  answer(id) { return until(() => this.lines.find((line) => line.id === id && !line.method)); }
  async hello(version = '2025-11-25') {
    this.send(rpc('initialize', { protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }, 'hello'));
    await this.answer('hello');
    this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }
  async end() { this.child.stdin.end(); return this.ended; }
}
const call = (id, name, args, meta) => rpc('tools/call', { name, arguments: args, ...(meta ? { _meta: meta } : {}) }, id);

for (const [name, connect] of Object.entries({
  'sdk 1.x': () => stdioV1(program, words), 'client 2.x legacy': () => stdioV2(program, words, 'legacy'),
  'client 2.x auto': () => stdioV2(program, words, 'auto'), 'client 2.x pinned': () => stdioV2(program, words, 'pinned'),
})) {
  test(`stdio, ${name}: lists, calls, tells progress, cancels`, async () => {
    const { client } = await connect();
    const v1 = name.startsWith('sdk');
    const use = (tool, args, options) => client.callTool({ name: tool, arguments: args }, ...(v1 ? [undefined, options] : [options]));
    assert.equal((await client.listTools()).tools.length, 13);
    const heard = [];
    const result = await use('execute_code', { code: 'print("zwölf", flush=True)\n2 + 2' }, { onprogress: ({ message }) => heard.push(message) });
    assert.equal(result.structuredContent?.result, '4', JSON.stringify(result));
    await until(() => heard.filter(Boolean).length > 0);
    assert.deepEqual(heard.filter(Boolean), ['zwölf\n']);
    const controller = new AbortController();
    await assert.rejects(use('run_command', { command: 'echo in; exec sleep 5432' }, { signal: controller.signal, onprogress: () => controller.abort('enough') }));
    await until(async () => (await use('run_command', { command: 'pgrep -f "sleep 543[2]" -c || true' })).structuredContent.stdout.trim() === '0');
    const home = result.structuredContent.sandbox_id;
    await client.close();
    // The session of a legacy client ends with its program, and its sandbox with it.
    const legacy = v1 || name.endsWith('legacy');
    if (legacy) await until(async () => !(await running()).some((each) => each.id === home));
    else assert.ok((await running()).some((each) => each.id === home));
  });
}

test('stdio: garbage and messages of any size are answered, and nothing but messages is printed', async () => {
  const bridge = new Bridge();
  await bridge.hello();
  bridge.send('garbage');
  bridge.send('{"jsonrpc":"2.0","id":3,"method":5}');
  bridge.send('');
  bridge.send(JSON.stringify(rpc('ping', { a: 'x'.repeat(17 << 20) }, 4)));
  bridge.send(JSON.stringify(rpc('ping', { a: 'x'.repeat(15 << 20) }, 5)));
  bridge.send(rpc('prompts/list', undefined, 6));
  assert.deepEqual((await bridge.answer(5)).result, {});
  assert.equal((await bridge.answer(6)).error.code, -32601);
  assert.equal((await bridge.answer(3)).error.code, -32600);
  assert.deepEqual(bridge.lines.filter((line) => line.id === null).map((line) => line.error.code), [-32700, -32600]);
  assert.equal(await bridge.end(), 0);
  assert.equal(bridge.errors, '');
});

test('stdio: a call under way when standard input closes is cancelled', async () => {
  const bridge = new Bridge();
  const meta = (token) => ({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}, progressToken: token });
  bridge.send(call(1, 'run_command', { command: 'echo in; exec sleep 6543', wait_s: 600 }, meta('t')));
  await until(() => bridge.lines.some((line) => line.params?.message === 'in\n'));
  assert.equal(await bridge.end(), 0);
  assert.ok(!bridge.lines.some((line) => line.id === 1));
  const next = new Bridge();
  for (let id = 1; ; ++id) {
    next.send(call(id, 'run_command', { command: 'pgrep -f "sleep 654[3]" -c || true' }, meta(id)));
    const { result } = await next.answer(id);
    if (result.structuredContent.stdout.trim() === '0') break;
  }
  await next.end();
});

test('stdio: a killed server is an error, and the next call finds its successor', async () => {
  const bridge = new Bridge();
  await bridge.hello();
  bridge.send(call(1, 'run_command', { command: 'echo in; sleep 1000' }, { progressToken: 1 }));
  await until(() => bridge.lines.some((line) => line.params?.message === 'in\n'));
  server.child.kill('SIGKILL');
  await server.ended;
  assert.match((await bridge.answer(1)).error.message, /./);
  bridge.send(rpc('ping', undefined, 2));
  assert.match((await bridge.answer(2)).error.message, /cannot reach the server/);
  await server.launch([...server.options, '--listen', new URL(server.url).host]);
  bridge.send(call(3, 'execute_code', { code: '40 + 2' }));
  assert.equal((await bridge.answer(3)).result.structuredContent.result, '42');
  assert.equal(await bridge.end(), 0);
});

test('stdio: standalone, a server is there as long as somebody uses it', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'fb-standalone-'));
  try {
    execFileSync(join(process.env.FIREBREAK_BUILD_DIR, 'tests/server/prepared_data'), [dir], { env: { ...process.env, FIREBREAK_GUEST_DIR: guest } });
    const args = ['--data-dir', dir, 'mcp', '--standalone', '--guest-dir', guest];
    const env = { FIREBREAK_GUEST_CA: 'none', FIREBREAK_POOL_LEAST: '0', FIREBREAK_POOL_MOST: '0', FIREBREAK_UID_COUNT: '256' };
    const one = await stdioV1(program, args, env);
    const two = await stdioV2(program, args, 'pinned', env);
    const { pid } = JSON.parse(readFileSync(join(dir, 'server.json')));
    for (const { client } of [one, two]) {
      const { structuredContent } = await client.callTool({ name: 'execute_code', arguments: { code: '6 * 7' } });
      assert.equal(structuredContent.result, '42');
    }
    const gone = ({ transport }) => until(() => transport.pid === null || !existsSync(`/proc/${transport.pid}`));
    await one.client.close();
    await gone(one);
    assert.ok(existsSync(`/proc/${pid}`));
    assert.equal((await two.client.callTool({ name: 'execute_code', arguments: { code: '1 + 1' } })).structuredContent.result, '2');
    await two.client.close();
    await gone(two);
    await until(() => !existsSync(`/proc/${pid}`) || /State:\s+Z/.test(readFileSync(`/proc/${pid}/status`)));
    await until(() => !existsSync(join(dir, 'server.json')));
  } finally {
    for (const name of existsSync(join(dir, 'snapshots')) ? readdirSync(join(dir, 'snapshots')) : []) {
      const record = join(dir, 'snapshots', name, 'holder.json');
      if (existsSync(record)) process.kill(JSON.parse(readFileSync(record)).pid, 'SIGKILL');
    }
    rmSync(dir, { recursive: true, force: true });
  }
});
