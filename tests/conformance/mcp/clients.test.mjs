// The official clients, unmodified, against sandboxes that run: 1.x, and 2.x in its three modes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connectV1, connectV2, rpc } from './clients.mjs';
import { Server, until } from './server.mjs';

let server, key;
before(async () => {
  server = await Server.start([], 781000);
  key = server.credentials.apiKey;
});
after(() => server.stop());

const kinds = {
  'sdk 1.x': () => connectV1(server.url, key),
  'client 2.x legacy': () => connectV2(server.url, key, 'legacy'),
  'client 2.x auto': () => connectV2(server.url, key, 'auto'),
  'client 2.x pinned': () => connectV2(server.url, key, 'pinned'),
};
const running = async () => (await server.native('GET', '/v1/microvms?state=RUNNING')).items;

for (const [name, connect] of Object.entries(kinds)) {
  test(`${name}: lists tools, keeps state, checks schemas, reads resources`, async () => {
    const { client, transport } = await connect();
    const { tools } = await client.listTools();
    assert.equal(tools.length, 13);
    // After listTools the client checks structuredContent against the output schema.
    const first = await client.callTool({ name: 'execute_code', arguments: { code: 'x = 20\nprint("hi")\nx + 1' } });
    assert.equal(first.isError, false, first.content[0].text);
    assert.equal(first.structuredContent.stdout, 'hi\n');
    assert.equal(first.structuredContent.result, '21');
    assert.deepEqual(JSON.parse(first.content[0].text), first.structuredContent);
    const second = await client.callTool({ name: 'execute_code', arguments: { code: 'x * 2' } });
    assert.equal(second.structuredContent.result, '40');
    assert.equal(second.structuredContent.sandbox_id, first.structuredContent.sandbox_id);
    const failed = await client.callTool({ name: 'execute_code', arguments: { code: '1 / 0' } });
    assert.equal(failed.isError, true);
    assert.equal(failed.structuredContent.error.name, 'ZeroDivisionError');
    const command = await client.callTool({ name: 'run_command', arguments: { command: 'cat; echo err >&2; exit 3', stdin: 'in' } });
    assert.equal(command.isError, false);
    assert.equal(command.structuredContent.stdout, 'in');
    assert.equal(command.structuredContent.stderr, 'err\n');
    assert.equal(command.structuredContent.exit_code, 3);
    const written = await client.callTool({ name: 'write_file', arguments: { path: '/srv/a file.txt', text: 'zwölf\n' } });
    const { resources } = await client.listResources();
    assert.ok(resources.some((each) => each.uri === written.structuredContent.uri), JSON.stringify(resources));
    const read = await client.readResource({ uri: written.structuredContent.uri });
    assert.equal(read.contents[0].text, 'zwölf\n');
    await assert.rejects(client.readResource({ uri: 'sandbox://nothing/x' }), /there is no/);
    assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);
    await transport.terminateSession?.();
    await client.close();
  });
}

test('pictures and files come back as blocks', async () => {
  const { client, transport } = await connectV1(server.url, key);
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const shown = await client.callTool({ name: 'execute_code', arguments: {
    code: `import base64\nclass P:\n  def _repr_png_(self): return base64.b64decode("${png}")\nopen("/tmp/p.png","wb").write(P()._repr_png_())\nP()`,
  } });
  const image = shown.content.find((block) => block.type === 'image');
  assert.equal(image?.data, png, JSON.stringify(shown));
  assert.equal(image.mimeType, 'image/png');
  const read = await client.callTool({ name: 'read_file', arguments: { path: '/tmp/p.png' } });
  assert.deepEqual(read.content[1], { type: 'image', data: png, mimeType: 'image/png' });
  const blob = Buffer.from([0, 1, 2, 255]).toString('base64');
  await client.callTool({ name: 'write_file', arguments: { path: 'made/by/me.bin', blob, mode: '600' } });
  const binary = await client.callTool({ name: 'read_file', arguments: { path: '/made/by/me.bin' } });
  assert.equal(binary.content[1].resource.blob, blob);
  assert.equal(binary.structuredContent.encoding, 'base64');
  const text = await client.callTool({ name: 'read_file', arguments: { path: '/etc/os-release', offset: 4, length: 6 } });
  assert.equal(text.structuredContent.text.length, 6);
  assert.equal(text.structuredContent.next_offset, 10);
  assert.equal(text.content[1].resource.text, text.structuredContent.text);
  const listed = await client.callTool({ name: 'list_files', arguments: { path: '/made/by' } });
  assert.deepEqual(listed.structuredContent.entries.map((each) => [each.name, each.type, each.size]), [['me.bin', 'file', 4]]);
  const missing = await client.callTool({ name: 'read_file', arguments: { path: '/no/such' } });
  assert.equal(missing.isError, true);
  await transport.terminateSession();
});

test('output comes as progress while the command runs', async () => {
  for (const connect of [kinds['sdk 1.x'], kinds['client 2.x pinned']]) {
    const { client, transport } = await connect();
    const heard = [];
    let go;
    const heardFirst = new Promise((resolve) => { go = resolve; });
    const onprogress = (progress) => { heard.push(progress); if (progress.message?.includes('one')) go(); };
    const args = { command: 'echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two' };
    const options = { onprogress, resetTimeoutOnProgress: true };
    const v1 = connect === kinds['sdk 1.x'];
    const result = client.callTool({ name: 'run_command', arguments: args }, ...(v1 ? [undefined, options] : [options]));
    await heardFirst;
    await client.callTool({ name: 'write_file', arguments: { path: '/tmp/go', text: '' } });
    assert.equal((await result).structuredContent.stdout, 'one\ntwo\n');
    for (let i = 1; i < heard.length; ++i) assert.ok(heard[i].progress > heard[i - 1].progress);
    await client.callTool({ name: 'run_command', arguments: { command: 'rm /tmp/go' } });
    await transport.terminateSession?.();
    await client.close();
  }
});

test('a call that is cancelled ends what runs', async () => {
  for (const connect of [kinds['sdk 1.x'], kinds['client 2.x legacy'], kinds['client 2.x pinned']]) {
    const { client, transport } = await connect();
    const alive = async () => (await client.callTool({ name: 'run_command', arguments: { command: 'pgrep -x -c sleep || true' } })).structuredContent.stdout.trim();
    const controller = new AbortController();
    let begun;
    const started = new Promise((resolve) => { begun = resolve; });
    const options = { signal: controller.signal, onprogress: () => begun() };
    const v1 = connect === kinds['sdk 1.x'];
    const result = client.callTool({ name: 'run_command', arguments: { command: 'echo begun; sleep 1000' } }, ...(v1 ? [undefined, options] : [options]));
    await started;
    assert.equal(await alive(), '1');
    controller.abort('enough');
    await assert.rejects(result);
    await until(async () => await alive() === '0');
    const code = new AbortController();
    const loop = client.callTool({ name: 'execute_code', arguments: { code: 'print("in", flush=True)\nwhile True: pass' } },
      ...(v1 ? [undefined, { signal: code.signal, onprogress: () => code.abort('enough') }] : [{ signal: code.signal, onprogress: () => code.abort('enough') }]));
    await assert.rejects(loop);
    const next = await client.callTool({ name: 'execute_code', arguments: { code: '1 + 1' } });
    assert.equal(next.structuredContent?.result, '2', JSON.stringify(next));
    await transport.terminateSession?.();
    await client.close();
  }
});

test('long work goes on in the background', async () => {
  const { client, transport } = await connectV1(server.url, key);
  const use = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
  const command = await use('run_command', { command: 'echo a; sleep 2; echo b; exit 4', wait_s: 1 });
  assert.equal(command.running, true);
  assert.equal(command.stdout, 'a\n');
  const rest = await use('process', { action: 'read', process_id: command.process_id, cursor: command.cursor, wait_s: 40 });
  assert.deepEqual([rest.running, rest.stdout, rest.exit_code], [false, 'b\n', 4]);
  const code = await use('execute_code', { code: 'import time\nprint("a", flush=True)\ntime.sleep(3)\nprint("b")\n6 * 7', wait_s: 1 });
  assert.equal(code.status, 'running');
  const busy = await client.callTool({ name: 'execute_code', arguments: { code: '1' } });
  assert.match(busy.content[0].text, /busy.*process/);
  const { processes } = await use('process', { action: 'list' });
  assert.ok(processes.some((each) => each.process_id === code.process_id && each.running));
  const end = await use('process', { action: 'read', process_id: code.process_id, cursor: code.cursor, wait_s: 40 });
  assert.deepEqual([end.running, end.status, code.stdout + end.stdout], [false, 'ok', 'a\nb\n']);
  const cat = await use('run_command', { command: 'cat', background: true });
  await use('process', { action: 'write', process_id: cat.process_id, input: 'one\n' });
  await use('process', { action: 'write', process_id: cat.process_id, input: 'two\n', end_input: true });
  const said = await use('process', { action: 'read', process_id: cat.process_id, wait_s: 40 });
  assert.deepEqual([said.running, said.stdout, said.exit_code], [false, 'one\ntwo\n', 0]);
  const sleep = await use('run_command', { command: 'sleep 1000', background: true });
  await use('process', { action: 'kill', process_id: sleep.process_id });
  const killed = await use('process', { action: 'read', process_id: sleep.process_id, wait_s: 40 });
  assert.deepEqual([killed.running, killed.signal], [false, 9]);
  await transport.terminateSession();
});

test('calls of one interpreter are served in turn', async () => {
  const { client, transport } = await connectV1(server.url, key);
  const results = await Promise.all([1, 2, 3, 4].map((n) => client.callTool({ name: 'execute_code', arguments: { code: `import time\ntime.sleep(0.2)\n${n}` } })));
  assert.deepEqual(results.map((each) => each.structuredContent.result), ['1', '2', '3', '4']);
  await transport.terminateSession();
});

test('sandboxes are made, paused, resumed, forked, exposed and ended', async () => {
  const { client, transport } = await connectV1(server.url, key);
  const use = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    assert.equal(result.isError, false, result.content[0].text);
    return result.structuredContent;
  };
  const made = await use('sandbox_create', { name: 'made-here', timeout_s: 3600, metadata: { a: 'b' }, env: { A: 'set' } });
  assert.equal(made.state, 'RUNNING');
  assert.equal(made.expires_at - made.created_at, 3600_000);
  const sandbox_id = made.sandbox_id;
  assert.equal((await use('run_command', { command: 'echo $A', sandbox_id: 'made-here' })).stdout, 'set\n');
  await use('execute_code', { code: 'y = 5', sandbox_id });
  assert.equal((await use('sandbox_pause', { sandbox_id })).state, 'SUSPENDED');
  assert.equal((await use('sandbox_resume', { sandbox_id })).state, 'RUNNING');
  const { sandboxes: [fork] } = await use('sandbox_fork', { sandbox_id });
  assert.equal((await use('execute_code', { code: 'y', sandbox_id: fork.sandbox_id })).result, '5');
  await use('run_command', { command: 'mkdir -p /srv/www && echo served > /srv/www/index.html && cd /srv/www && exec python3 -m http.server 8000', background: true, sandbox_id });
  const port = await use('expose_port', { port: 8000, sandbox_id });
  const { get } = await import('node:https');
  const page = () => new Promise((resolve, reject) => {
    get(port.url, { agent: false, ca: server.ca, headers: port.headers }, (answer) => {
      let text = '';
      answer.on('data', (bytes) => { text += bytes; });
      answer.on('end', () => resolve(text));
    }).once('error', reject);
  });
  await until(async () => await page() === 'served\n');
  const { sandboxes } = await use('sandbox_list', {});
  const ids = sandboxes.map((each) => each.sandbox_id);
  assert.ok(ids.includes(sandbox_id) && ids.includes(fork.sandbox_id));
  for (const id of [sandbox_id, fork.sandbox_id]) assert.equal((await use('sandbox_kill', { sandbox_id: id })).state, 'TERMINATED');
  await transport.terminateSession();
});

test('sessions and keys have sandboxes of their own, which end with the session', async () => {
  const one = await connectV1(server.url, key);
  const two = await connectV1(server.url, key);
  const other = await server.tenant('stranger');
  const three = await connectV2(server.url, other.apiKey, 'pinned');
  const use = async ({ client }, name, args) => (await client.callTool({ name, arguments: args }));
  const homes = [];
  for (const each of [one, two, three]) homes.push((await use(each, 'execute_code', { code: 'secret = 1' })).structuredContent.sandbox_id);
  assert.equal(new Set(homes).size, 3);
  for (const [who, whose] of [[two, homes[0]], [three, homes[0]], [one, homes[2]]]) {
    for (const [name, args] of [['execute_code', { code: 'secret' }], ['read_file', { path: '/etc/hosts' }], ['sandbox_kill', {}], ['sandbox_fork', {}]]) {
      const refused = await use(who, name, { ...args, sandbox_id: whose });
      assert.equal(refused.isError, true);
      assert.match(refused.content[0].text, /there is no microVM/);
    }
    const { sandboxes } = (await use(who, 'sandbox_list', {})).structuredContent;
    assert.ok(!sandboxes.some((each) => each.sandbox_id === whose));
    await assert.rejects(who.client.readResource({ uri: `sandbox://${whose}/etc/hosts` }));
  }
  await one.transport.terminateSession();
  assert.ok(!(await running()).some((each) => each.id === homes[0]));
  assert.ok((await running()).some((each) => each.id === homes[1]));
  await two.transport.terminateSession();
  // Another key of the same tenant has another default sandbox.
  const second = await server.native('POST', '/v1/keys', { name: 'second' });
  const four = await connectV2(server.url, second.apiKey, 'pinned');
  const five = await connectV2(server.url, key, 'pinned');
  const a = (await use(four, 'execute_code', { code: '1' })).structuredContent.sandbox_id;
  const b = (await use(five, 'execute_code', { code: '1' })).structuredContent.sandbox_id;
  assert.notEqual(a, b);
  assert.match((await use(five, 'run_command', { command: 'id', sandbox_id: a })).content[0].text, /there is no microVM/);
  await use(four, 'sandbox_kill', {});
  await use(three, 'sandbox_kill', {});
});

test('a server that was killed during a call comes back, and so do its clients', async () => {
  const modern = await connectV2(server.url, key, 'pinned');
  const legacy = await connectV1(server.url, key);
  const home = (await modern.client.callTool({ name: 'execute_code', arguments: { code: 'kept = 7' } })).structuredContent.sandbox_id;
  let begun;
  const started = new Promise((resolve) => { begun = resolve; });
  const cut = modern.client.callTool({ name: 'run_command', arguments: { command: 'echo begun; sleep 1000' } }, { onprogress: () => begun(), timeout: 30_000 });
  cut.catch(() => {});
  await started;
  server.child.kill('SIGKILL');
  await server.ended;
  await assert.rejects(cut);
  const port = new URL(server.url).port;
  await server.launch([...server.options, '--listen', `127.0.0.1:${port}`]);
  const after = await modern.client.callTool({ name: 'execute_code', arguments: { code: 'kept' } });
  assert.equal(after.structuredContent.result, '7', JSON.stringify(after));
  assert.equal(after.structuredContent.sandbox_id, home);
  // Sessions are gone: the client is told so, and opens another.
  await assert.rejects(legacy.client.callTool({ name: 'sandbox_list', arguments: {} }), /404|unknown or over/);
  const again = await connectV1(server.url, key);
  assert.equal((await again.client.callTool({ name: 'sandbox_list', arguments: {} })).isError, false);
  await again.transport.terminateSession();
});

test('a client that hangs up ends its call', async () => {
  const controller = new AbortController();
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}, progressToken: 1 };
  const answer = await fetch(`${server.url}/mcp`, {
    method: 'POST', signal: controller.signal,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${key}`,
      'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'run_command' },
    body: JSON.stringify(rpc('tools/call', { name: 'run_command', arguments: { command: 'echo in; exec sleep 4321' }, _meta: meta })),
  });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  assert.equal(answer.headers.get('x-accel-buffering'), 'no');
  const reader = answer.body.getReader();
  assert.match(Buffer.from((await reader.read()).value).toString(), /^event: message\ndata: \{.*"message":"in\\n"/);
  controller.abort();
  const { client } = await connectV2(server.url, key, 'pinned');
  await until(async () => (await client.callTool({ name: 'run_command', arguments: { command: 'pgrep -f "sleep 432[1]" -c || true' } })).structuredContent.stdout.trim() === '0');
  await client.callTool({ name: 'sandbox_kill', arguments: {} });
});
