// Each rule of Streamable HTTP in both eras, by raw requests. No microVM is started.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { post, rpc } from './clients.mjs';
import { Server } from './server.mjs';

const modernVersion = '2026-07-28';
let server, key;
before(async () => {
  server = await Server.start([], 780000);
  key = server.credentials.apiKey;
});
after(() => server.stop());

const meta = (version = modernVersion) => ({
  'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientCapabilities': {},
});
const modern = (method, params = {}, more = {}) => post(server.url, key, rpc(method, { ...params, _meta: meta() }), {
  'mcp-protocol-version': modernVersion, 'mcp-method': method, ...(params.name ? { 'mcp-name': params.name } : {}), ...more,
});
async function initialize(version = '2025-11-25', of = key) {
  const answer = await post(server.url, of, rpc('initialize', {
    protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' },
  }));
  return { answer, body: await answer.json(), session: answer.headers.get('mcp-session-id') };
}
const codeOf = async (answer) => (await answer.json()).error?.code;

test('a request without a key is refused with a plain challenge', async () => {
  for (const wrong of [undefined, 'nobody']) {
    const answer = await post(server.url, wrong, rpc('ping'));
    assert.equal(answer.status, 401);
    assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
  }
});

test('the narrow kinds of keys do not get in here', async () => {
  for (const kind of ['auditor', 'approver', 'agent']) {
    const made = await fetch(`${server.url}/v1/keys`, {
      method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: kind, kind, ...(kind === 'agent' ? { agentId: 'a' } : {}) }),
    });
    assert.equal(made.status, 201);
    assert.equal((await post(server.url, (await made.json()).apiKey, rpc('ping'))).status, 403, kind);
  }
});

test('a page of another site is refused, a page of this host is not', async () => {
  for (const origin of ['http://evil.example', 'null', 'http://localhost.evil.example', 'http://127.0.0.1.evil.example:80'])
    assert.equal((await post(server.url, key, rpc('ping'), { origin })).status, 403, origin);
  for (const origin of ['http://localhost:6274', 'https://127.0.0.1', 'http://[::1]:80'])
    assert.notEqual((await post(server.url, key, rpc('ping'), { origin })).status, 403, origin);
});

test('initialize gives the version that was asked for, or our newest', async () => {
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const { answer, body, session } = await initialize(version);
    assert.equal(answer.status, 200);
    assert.equal(body.result.protocolVersion, version);
    assert.match(session, /^[\x21-\x7e]+$/);
    assert.equal(body.result.serverInfo.name, 'firebreak');
    assert.deepEqual(Object.keys(body.result.capabilities), ['tools', 'resources']);
  }
  assert.equal((await initialize('1999-01-01')).body.result.protocolVersion, '2025-11-25');
});

test('legacy: a session is required, must be known, and is its key\'s alone', async () => {
  const list = rpc('tools/list');
  assert.equal((await post(server.url, key, list)).status, 400);
  assert.equal((await post(server.url, key, list, { 'mcp-session-id': 'unknown' })).status, 404);
  const { session } = await initialize();
  assert.equal((await post(server.url, key, list, { 'mcp-session-id': session })).status, 200);
  const other = await server.tenant('other');
  assert.equal((await post(server.url, other.apiKey, list, { 'mcp-session-id': session })).status, 404);
});

test('legacy: DELETE ends a session', async () => {
  const { session } = await initialize();
  const remove = (id) => fetch(`${server.url}/mcp`, { method: 'DELETE', headers: { authorization: `Bearer ${key}`, ...(id ? { 'mcp-session-id': id } : {}) } });
  assert.equal((await remove()).status, 400);
  assert.equal((await remove(session)).status, 200);
  assert.equal((await remove(session)).status, 404);
  assert.equal((await post(server.url, key, rpc('ping'), { 'mcp-session-id': session })).status, 404);
});

test('legacy: the version header must be one that is spoken', async () => {
  const { session } = await initialize();
  const ask = (version) => post(server.url, key, rpc('ping'), { 'mcp-session-id': session, ...(version ? { 'mcp-protocol-version': version } : {}) });
  assert.equal((await ask('2025-11-25')).status, 200);
  assert.equal((await ask()).status, 200);
  assert.equal((await ask('1999-01-01')).status, 400);
});

test('legacy: notifications and responses are accepted without an answer', async () => {
  const { session } = await initialize();
  for (const message of [{ jsonrpc: '2.0', method: 'notifications/initialized' }, { jsonrpc: '2.0', id: 4, result: {} }]) {
    const answer = await post(server.url, key, message, { 'mcp-session-id': session });
    assert.equal(answer.status, 202);
    assert.equal(await answer.text(), '');
  }
});

test('legacy: methods, unknown ones and unknown tools', async () => {
  const { session } = await initialize();
  const ask = async (message) => {
    const answer = await post(server.url, key, message, { 'mcp-session-id': session });
    return { status: answer.status, body: await answer.json() };
  };
  assert.deepEqual((await ask(rpc('ping'))).body.result, {});
  const unknown = await ask(rpc('prompts/list'));
  assert.equal(unknown.status, 200);
  assert.equal(unknown.body.error.code, -32601);
  assert.equal((await ask(rpc('server/discover'))).body.error.code, -32601);
  assert.equal((await ask(rpc('tools/call', { name: 'no_such_tool' }))).body.error.code, -32602);
  assert.equal((await ask(rpc('resources/read', { uri: 'sandbox://nothing/x' }))).body.error.code, -32002);
});

test('legacy: only 2025-03-26 and before have batches', async () => {
  const messages = [rpc('ping', undefined, 1), { jsonrpc: '2.0', method: 'notifications/initialized' }, rpc('nothing', undefined, 2)];
  const older = await initialize('2025-03-26');
  const answer = await post(server.url, key, messages, { 'mcp-session-id': older.session });
  const answers = await answer.json();
  assert.deepEqual(answers.map((each) => each.id), [1, 2]);
  assert.equal(answers[1].error.code, -32601);
  const only = await post(server.url, key, [messages[1]], { 'mcp-session-id': older.session });
  assert.equal(only.status, 202);
  const newer = await initialize();
  assert.equal((await post(server.url, key, messages, { 'mcp-session-id': newer.session })).status, 400);
});

test('GET is answered with 405 in both eras, DELETE in the modern one', async () => {
  const ask = (method, more = {}) => fetch(`${server.url}/mcp`, { method, headers: { authorization: `Bearer ${key}`, ...more } });
  for (const answer of [await ask('GET'), await ask('GET', { 'mcp-protocol-version': modernVersion }), await ask('DELETE', { 'mcp-protocol-version': modernVersion }), await ask('PUT')]) {
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.get('allow'), 'POST, DELETE');
  }
});

test('both kinds of answer must be acceptable, and the body must be JSON', async () => {
  assert.equal((await post(server.url, key, rpc('ping'), { accept: 'application/json' })).status, 406);
  assert.equal((await post(server.url, key, rpc('ping'), { accept: 'text/event-stream' })).status, 406);
  assert.notEqual((await post(server.url, key, rpc('ping'), { accept: '*/*' })).status, 406);
  assert.equal((await post(server.url, key, rpc('ping'), { 'content-type': 'text/plain' })).status, 415);
});

test('modern: discover, lists and their members', async () => {
  const discover = await modern('server/discover');
  assert.equal(discover.status, 200);
  assert.equal(discover.headers.get('mcp-session-id'), null);
  const { result } = await discover.json();
  assert.deepEqual(result.supportedVersions, [modernVersion]);
  assert.equal(result.resultType, 'complete');
  assert.equal(result._meta['io.modelcontextprotocol/serverInfo'].name, 'firebreak');
  const lists = [await modern('tools/list'), await modern('tools/list', {}, { 'mcp-session-id': 'ignored' })];
  const texts = await Promise.all(lists.map((each) => each.text()));
  assert.equal(texts[0], texts[1]);
  const listed = JSON.parse(texts[0]).result;
  assert.equal(listed.cacheScope, 'public');
  assert.ok(listed.ttlMs > 0);
  assert.equal((await (await modern('resources/list')).json()).result.cacheScope, 'private');
});

test('modern: what is gone, or was never there, is 404', async () => {
  for (const method of ['initialize', 'ping', 'logging/setLevel', 'prompts/list', 'subscriptions/listen', 'x']) {
    const answer = await modern(method);
    assert.equal(answer.status, 404, method);
    assert.equal(await codeOf(answer), -32601);
  }
});

test('modern: a request must describe itself', async () => {
  const headers = { 'mcp-protocol-version': modernVersion, 'mcp-method': 'tools/list' };
  for (const params of [undefined, {}, { _meta: {} }, { _meta: { 'io.modelcontextprotocol/protocolVersion': modernVersion } }]) {
    const answer = await post(server.url, key, rpc('tools/list', params), headers);
    assert.equal(answer.status, 400);
    assert.equal(await codeOf(answer), -32602);
  }
  const other = await post(server.url, key, rpc('tools/list', { _meta: meta('2031-01-01') }), { ...headers, 'mcp-protocol-version': '2031-01-01' });
  assert.equal(other.status, 400);
  const { error } = await other.json();
  assert.equal(error.code, -32022);
  assert.deepEqual(error.data, { supported: [modernVersion], requested: '2031-01-01' });
});

test('modern: headers must say what the body says', async () => {
  const body = rpc('tools/call', { name: 'no_such_tool', _meta: meta() });
  const right = { 'mcp-protocol-version': modernVersion, 'mcp-method': 'tools/call', 'mcp-name': 'no_such_tool' };
  const without = (name) => Object.fromEntries(Object.entries(right).filter(([each]) => each !== name));
  assert.equal(await codeOf(await post(server.url, key, body, right)), -32602);
  assert.equal(await codeOf(await post(server.url, key, body, { ...right, 'mcp-name': '=?base64?bm9fc3VjaF90b29s?=' })), -32602);
  for (const wrong of [without('mcp-protocol-version'), without('mcp-method'), without('mcp-name'),
    { ...right, 'mcp-method': 'tools/list' }, { ...right, 'mcp-name': 'execute_code' }, { ...right, 'mcp-protocol-version': '2025-11-25' }]) {
    const answer = await post(server.url, key, body, wrong);
    assert.equal(answer.status, 400);
    assert.equal(await codeOf(answer), -32020);
  }
});

test('modern: a notification is accepted, a batch is not', async () => {
  const headers = { 'mcp-protocol-version': modernVersion };
  assert.equal((await post(server.url, key, { jsonrpc: '2.0', method: 'notifications/x' }, headers)).status, 202);
  assert.equal((await post(server.url, key, [rpc('tools/list', { _meta: meta() })], headers)).status, 400);
});

test('garbage is refused and harms nothing', async () => {
  const refused = async (body, status, code) => {
    const answer = await post(server.url, key, body);
    assert.equal(answer.status, status);
    assert.equal(await codeOf(answer), code);
  };
  await refused('', 400, -32700);
  await refused('{"jsonrpc":"2.0","id":1,', 400, -32700);
  await refused('\u0000\u0001\u0002', 400, -32700);
  await refused('[]', 400, -32600);
  await refused('"text"', 400, -32600);
  await refused('{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600);
  await refused(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${'['.repeat(50)}${']'.repeat(50)}}}`, 400, -32700);
  await refused(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[${'0,'.repeat(200_000)}0]}}`, 400, -32600);
  assert.equal((await initialize()).answer.status, 200);
});

test('a message of 16 MiB is taken, a larger one is not', async () => {
  const { session } = await initialize();
  const shell = JSON.stringify(rpc('ping', { a: '' }));
  const sized = (size) => JSON.stringify(rpc('ping', { a: 'x'.repeat(size - shell.length) }));
  const fits = await post(server.url, key, sized(16 << 20), { 'mcp-session-id': session });
  assert.equal(fits.status, 200);
  assert.deepEqual((await fits.json()).result, {});
  const large = await post(server.url, key, sized((16 << 20) + 1), { 'mcp-session-id': session });
  assert.equal(large.status, 413);
});

test('a failing tool tells the model what to do', async () => {
  const call = async (name, args) => (await (await modern('tools/call', { name, arguments: args })).json()).result;
  for (const [name, args, text] of [
    ['execute_code', {}, /code/], ['execute_code', { code: 1 }, /code/], ['execute_code', { code: '1', colour: 'red' }, /colour.*it takes code/],
    ['execute_code', { code: '1', language: 'cobol' }, /python, bash or node/], ['run_command', { command: 'true', wait_s: 1e6 }, /wait_s/],
    ['read_file', { path: '/etc/hosts', sandbox_id: 'nobody-has-it' }, /there is no microVM nobody-has-it/],
    ['write_file', { path: '/x' }, /either text or blob/], ['sandbox_pause', {}, /no default sandbox yet/], ['process', { action: 'read' }, /process_id is missing/],
    ['sandbox_create', { template: 'no-such-image' }, /there is no image/], ['expose_port', { port: 0 }, /port/],
    ['sandbox_create', { metadata: { 'firebreak-default-of': 'me' } }, /server's own/]]) {
    const result = await call(name, args);
    assert.equal(result.isError, true, name);
    assert.match(result.content[0].text, text);
  }
});

test('every tool is described: name, schemas, hints', async () => {
  const { tools } = (await (await modern('tools/list')).json()).result;
  assert.deepEqual(tools.map((tool) => tool.name), ['execute_code', 'run_command', 'process', 'read_file', 'write_file', 'list_files', 'expose_port',
    'sandbox_create', 'sandbox_list', 'sandbox_pause', 'sandbox_resume', 'sandbox_fork', 'sandbox_kill']);
  for (const tool of tools) {
    assert.ok(tool.title && tool.description.length > 20, tool.name);
    for (const schema of [tool.inputSchema, tool.outputSchema]) {
      assert.equal(schema.type, 'object');
      for (const name of schema.required) assert.ok(schema.properties[name], `${tool.name}: ${name}`);
    }
    assert.deepEqual(Object.keys(tool.annotations), ['title', 'readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']);
  }
});
