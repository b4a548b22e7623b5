// The whole surface of the TypeScript SDK against a real server.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import * as sdk from './world.mjs';

const { Client, Sandbox, collect, sleeps, until } = sdk;
let client, box, server, address, scratch;

before(async () => {
  ({ server, address } = await sdk.start());
  client = new Client(address);
  box = await client.run('python', { tags: { test: 'surface' }, env: { FROM_RUN: 'yes' } });
  scratch = mkdtempSync(join(tmpdir(), 'fb-sdk-'));
});
after(async () => {
  await sdk.stop();
  rmSync(scratch, { recursive: true, force: true });
});

describe('microVMs', () => {
  test('list, get, update', async () => {
    const found = await collect(client.list({ tag: ['test', 'surface'], state: 'RUNNING', pageSize: 1 }));
    assert.deepEqual(found.map((each) => each.id), [box.id]);
    await box.update({ name: 'ts-box', idle: { maxIdleSeconds: 600 }, maxDurationSeconds: 7200 });
    const again = await client.get('ts-box');
    assert.equal(again.id, box.id);
    assert.equal(again.info.idle.maxIdleSeconds, 600);
    assert.equal((await box.update({ name: null, idle: null, maxDurationSeconds: null })).idle, null);
    assert.equal((await box.refresh()).name, undefined);
  });

  test('suspend, resume, fork, terminate; disposal ends what was made', async () => {
    const other = new Sandbox('python', { client });
    assert.throws(() => other.id, /not there yet/);
    await other.run('kept = 41');
    assert.equal((await other.suspend()).state, 'SUSPENDED');
    assert.equal((await other.resume()).state, 'RUNNING');
    const [copy] = await other.fork(1);
    assert.equal(copy.info.parent, other.id);
    assert.equal((await copy.run('kept + 1')).text, '42');
    await copy[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    assert.deepEqual([(await copy.refresh()).state, (await other.refresh()).state], ['TERMINATED', 'TERMINATED']);
    assert.equal((await other.terminate()).state, 'TERMINATED');
    await (await client.get(box.id))[Symbol.asyncDispose]();
    assert.equal((await box.refresh()).state, 'RUNNING', "somebody's microVM goes on");
  });

  test('events and usage', async () => {
    const events = await collect(client.events({ after: 0, microvm: box.id, follow: false }));
    assert.ok(events.some((event) => event.to === 'RUNNING'));
    for await (const event of client.events({ after: 0 })) {
      assert.ok(event.sequence > 0);
      break;
    }
    const usage = await client.usage({ since: 0 });
    assert.ok(usage.items.some((item) => item.microvm === box.id));
  });
});

describe('commands', () => {
  test('exec', async () => {
    const done = await box.exec(['sh', '-c', 'cat; echo $A $(pwd) >&2; exit 3'], { env: { A: 'b' }, cwd: '/tmp', stdin: new Uint8Array([255, 0]), user: 'root' });
    assert.deepEqual([[...done.stdoutBytes], done.stderr, done.exitCode, done.ok], [[255, 0], 'b /tmp\n', 3, false]);
    assert.throws(() => done.check(), /exit status 3/);
    assert.equal((await box.exec('echo $FROM_RUN')).check().stdout, 'yes\n');
    assert.equal((await box.exec('sleep 100', { timeoutMs: 200 })).timedOut, true);
  });

  test('stream', async () => {
    const stream = box.stream("printf 'a\\342\\200\\250b\\n'; echo err >&2; exit 4");
    const events = await collect(stream);
    assert.deepEqual(new Set(events.map((event) => `${event.type} ${event.text}`)), new Set(['stdout a\u2028b\n', 'stderr err\n']));
    assert.deepEqual([stream.result.exitCode, stream.result.stderr, !!stream.id], [4, 'err\n', true]);
    assert.equal((await box.stream('echo x').wait()).stdout, 'x\n');
  });

  test('processes outlive connections', async () => {
    const process = await box.spawn('echo began; cat; exit 5', { openStdin: true });
    for await (const event of process.output()) {
      assert.equal(event.text, 'began\n');
      break;
    }
    const again = (await client.get(box.id)).process(process.id);
    assert.equal((await again.status()).running, true);
    await process.write('one ');
    await process.write(new TextEncoder().encode('two\n'));
    await process.closeStdin();
    const result = await again.wait();
    assert.deepEqual([result.stdout, result.exitCode], ['began\none two\n', 5]);
    assert.equal((await collect(again.output({ offset: 6, follow: false })))[0].text, 'one two\n');
    assert.ok((await box.processes()).some((each) => each.id === process.id));
    await again.kill();
    assert.ok(!(await box.processes()).some((each) => each.id === process.id));
  });

  test('terminals and signals', async () => {
    const process = await box.spawn('stty size; read line; stty size; sleep 1000', { openStdin: true, pty: { cols: 100, rows: 30 } });
    let seen = '';
    for await (const event of process.output()) {
      seen += event.text;
      if (seen.includes('20 90')) break;
      if (seen.includes('30 100') && !seen.includes('\r\n\r\n')) {
        await process.resize(90, 20);
        await process.write('\n');
      }
    }
    await process.signal(15);
    assert.equal((await process.wait()).signal, 15);
  });

  test('logs', async () => assert.deepEqual(await collect(box.logs()), []));
});

describe('files', () => {
  test('one by one', async () => {
    const { files } = box;
    await files.write('/srv/ts/a ü.txt', 'hello', { mode: 0o640, parents: true });
    await files.write('/srv/ts/a ü.txt', ' world', { append: true });
    await files.write('/srv/ts/a ü.txt', new Blob(['J']), { offset: 0 });
    assert.equal(await files.readText('/srv/ts/a ü.txt'), 'Jello world');
    assert.equal(new TextDecoder().decode(await files.read('/srv/ts/a ü.txt', { offset: 1, length: 4 })), 'ello');
    assert.equal((await files.stat('/srv/ts/a ü.txt')).mode & 0o777, 0o640);
    await files.mkdir('/srv/ts/deep/er', { parents: true });
    await files.rename('/srv/ts/a ü.txt', '/srv/ts/deep/b');
    assert.deepEqual((await files.list('/srv/ts')).map((each) => [each.name, each.type]), [['deep', 'dir']]);
    assert.deepEqual([await files.exists('/srv/ts/deep/b'), await files.exists('/no')], [true, false]);
    await files.remove('/srv/ts', { recursive: true });
    const big = new ReadableStream({ start(c) { for (let i = 0; i < 30; i++) c.enqueue(new Uint8Array(100_000)); c.close(); } });
    await files.write('/tmp/big', big);
    let size = 0;
    for await (const piece of files.stream('/tmp/big')) size += piece.length;
    assert.equal(size, 3_000_000);
  });

  test('directories', async () => {
    const long = 'a'.repeat(120);
    mkdirSync(join(scratch, `source/${long}`), { recursive: true });
    writeFileSync(join(scratch, `source/${long}/file`), 'content');
    symlinkSync('/etc/passwd', join(scratch, 'source/link'));
    await box.files.upload(join(scratch, 'source'), '/srv/up');
    await box.files.upload(join(scratch, `source/${long}/file`), '/srv/up/single');
    await box.exec('ln -s /etc/passwd /srv/up/link');
    assert.deepEqual(await box.files.download('/srv/up', join(scratch, 'back')), ['link']);
    assert.equal(readFileSync(join(scratch, `back/${long}/file`), 'utf8'), 'content');
    const archive = Buffer.concat(await collect(box.files.tar(`/srv/up/${long}`)));
    await box.files.mkdir('/srv/again');
    await box.files.untar('/srv/again', archive);
    assert.equal(await box.files.readText('/srv/again/file'), 'content');
  });
});

describe('contexts', () => {
  test('state, errors, time limits', async () => {
    const context = await box.contexts.create('python', { id: 'mine', cwd: '/tmp', env: { A: '1' } });
    assert.equal((await context.run("import os, time\nos.environ['A'], os.getcwd()")).text, "('1', '/tmp')");
    assert.equal((await context.status()).language, 'python');
    await context.restart();
    const failed = await context.run('os');
    assert.deepEqual([failed.status, failed.error.name], ['error', 'NameError']);
    assert.throws(() => failed.check(), /NameError/);
    assert.equal((await context.run('while True: pass', { timeoutMs: 500 })).status, 'timeout');
    assert.equal(await context.interrupt(), false);
    await context.delete();
    assert.ok(!(await box.contexts.list()).some((each) => each.id === 'mine'));
  });

  test('run, rich results, streams', async () => {
    const seen = [];
    const result = await box.run("print('one')\n'two'", { onOutput: (event) => seen.push(event.type) });
    assert.deepEqual([result.stdout, result.text, seen], ['one\n', "'two'", ['stdout', 'result']]);
    assert.equal((await box.run('A=5; echo $A', { language: 'bash' })).stdout, '5\n');
    const picture = await box.run("class P:\n  def _repr_png_(self): return b'\\x89PNG'\nP()");
    assert.deepEqual([...picture.png], [0x89, 0x50, 0x4e, 0x47]);
    const context = await box.interpreter();
    await context.run('import time; time.sleep(0.01)');
    const stream = context.stream("print('began')\ntime.sleep(1000)");
    assert.equal((await stream[Symbol.asyncIterator]().next()).value.text, 'began\n');
    assert.equal(await context.interrupt(stream.run), true);
    assert.equal((await stream.wait()).status, 'interrupted');
  });
});

describe('ports and egress', () => {
  test('endpoint', async () => {
    await box.exec('mkdir -p /srv/www && echo page >/srv/www/index.html && cd /srv/www && nohup python3 -m http.server 8080 >/dev/null 2>&1 &');
    const { url, headers } = await box.endpoint(8080, { expiresSeconds: 600 });
    const program = 'const [u, h] = process.argv.slice(1); const r = await fetch(u + "/index.html", { headers: JSON.parse(h) }); console.log(r.status, await r.text());';
    const caFile = join(server.dir, 'ca-for-test.pem');
    writeFileSync(caFile, server.ca);
    await until(async () => {
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: caFile };
      return execFileSync('node', ['--input-type=module', '-e', program, url, JSON.stringify(headers)], { env, encoding: 'utf8' }) === '200 page\n\n';
    });
    const token = await box.tokens.create('8080,9000-9010', { expiresSeconds: 60 });
    await box.tokens.revoke(token.id);
    assert.ok((await box.tokens.list()).find((each) => each.id === token.id).revokedAt);
  });

  test('policies', async () => {
    const policy = await client.egressPolicies.put('ts-docs', { rules: [{ action: 'allow', domain: 'example.com', ports: [443] }] });
    assert.equal(policy.rules[0].domain, 'example.com');
    assert.equal((await client.egressPolicies.get('ts-docs')).name, 'ts-docs');
    assert.ok((await client.egressPolicies.list()).some((each) => each.name === 'ts-docs'));
    assert.equal((await box.egress({ limit: 10, suggest: true })).policy, box.info.egress);
    await client.egressPolicies.delete('ts-docs');
  });
});

describe('images', () => {
  test('build with progress, cancel, prune', { timeout: 120_000 }, async () => {
    mkdirSync(join(scratch, 'context'));
    writeFileSync(join(scratch, 'context/Dockerfile'), 'FROM firebreak/python:3.11\nARG WHO\nRUN --mount=type=secret,id=key echo $WHO >/who && cat /run/secrets/key >>/who\n');
    const seen = [];
    const options = { args: { WHO: 'me' }, env: { B: '2' }, memoryMib: 512, secrets: { key: new TextEncoder().encode('hush') }, progress: (each) => seen.push(each) };
    const made = await client.images.build('ts-built', join(scratch, 'context'), options);
    assert.equal((await client.images.build('ts-built', join(scratch, 'context'), options)).version, made.version, 'nothing changed');
    assert.ok(seen.some((each) => each.total && each.done === each.total) && seen.at(-1).finished);
    assert.match((await collect(client.images.log('ts-built'))).join(''), /RUN/);
    const built = await client.run('ts-built');
    assert.equal((await built.exec('cat /who')).stdout, 'me\nhush');
    await built.terminate();
    writeFileSync(join(scratch, 'context/Dockerfile'), 'FROM firebreak/python:3.11\nRUN sleep 1000\n');
    const slow = await client.images.build('ts-built', join(scratch, 'context'), { wait: false });
    await client.images.cancel('ts-built', slow.version);
    await collect(client.images.log('ts-built', slow.version, { follow: true }));
    assert.equal((await client.images.version('ts-built', slow.version)).state, 'FAILED');
    await client.images.deleteVersion('ts-built', slow.version);
    assert.deepEqual((await client.images.prune('ts-built')).removed, []);
    assert.deepEqual((await client.images.get('ts-built')).versions.map((each) => each.version), ['1.0']);
    await client.images.delete('ts-built');
    assert.ok((await client.images.buildCache()).layers >= 0);
    assert.ok((await client.images.bases()).some((each) => each.name === 'firebreak/python:3.11'));
    assert.ok((await collect(client.images.list({ name: 'python' })))[0].system);
  });

  test('create', { timeout: 120_000 }, async () => {
    assert.equal((await client.images.create({ name: 'ts-plain', env: { A: '1' } })).active, true);
    await client.images.delete('ts-plain');
  });
});

test('tenants, keys, roles, check', async () => {
  assert.ok((await client.tenant()).limits.microvms > 0);
  const key = await client.keys.create({ name: 'ts' });
  assert.ok((await client.keys.list()).some((each) => each.accessKeyId === key.accessKeyId));
  await client.keys.revoke(key.accessKeyId);
  const made = await client.tenants.create({ name: 'ts-tenant', limits: { microvms: 1 } });
  assert.equal((await client.tenants.setLimits(made.accountId, { images: 3 })).limits.images, 3);
  assert.equal((await client.tenants.setEgress(made.accountId, { default: 'NO_EGRESS' })).default, 'NO_EGRESS');
  assert.ok((await client.tenants.list()).some((each) => each.accountId === made.accountId));
  await client.tenants.delete(made.accountId);
  await client.roles.put('ts-role', { Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource: '*' }] });
  assert.equal((await client.roles.get('ts-role')).name, 'ts-role');
  assert.ok((await client.roles.list()).some((each) => each.name === 'ts-role'));
  await client.roles.delete('ts-role');
  await client.secrets.put('ts-secret', 'ts-hunter2!');
  assert.ok((await client.secrets.list()).some((each) => each.name === 'ts-secret'));
  await client.secrets.delete('ts-secret');
  assert.equal((await client.check()).ok, true);
});

describe('code of agents', () => {
  test('a turn keeps its state, and every call is recorded', async () => {
    const first = await client.executeCode("x = 41; print('kept')", { agentId: 'ts-agent', turnId: 't1' });
    let seen = '';
    const second = await client.executeCode('print(x + 1)', { agentId: 'ts-agent', turnId: 't1', onOutput: (event) => { seen += event.text; } });
    assert.deepEqual([first.ok, second.stdout, second.session_id, seen], [true, '42\n', first.session_id, '42\n']);
    const records = await collect(client.invocations.list({ agentId: 'ts-agent', limit: 1 }));
    assert.deepEqual(records.map((each) => each.invocation_id), [second.invocation_id, first.invocation_id]);
    assert.equal((await client.invocations.get(first.invocation_id)).agent_id, 'ts-agent');
    assert.equal((await client.invocations.output(first.invocation_id)).stdout, 'kept\n');
    assert.deepEqual([await client.endTurn('t1', { agentId: 'ts-agent' }), await client.endTurn('t1', { agentId: 'ts-agent' })], [true, false]);
  });

  test('sessions, templates, policy, caps', async () => {
    assert.equal((await client.templates.put({ name: 'ts-inner', environment: 'internal-only', callSeconds: 30 })).callSeconds, 30);
    assert.equal((await client.templates.change('ts-inner', { callSeconds: 20, cpuSeconds: null })).callSeconds, 20);
    assert.equal((await client.templates.get('ts-inner')).environment, 'internal-only');
    assert.ok((await client.templates.list()).some((each) => each.name === 'ts-inner'));
    const session = await client.sessions.create({ agentId: 'ts-agent', template: 'ts-inner' });
    assert.equal((await session.execute('print(6*7)')).stdout, '42\n');
    assert.equal((await session.exec(['sh', '-c', 'exit 3'])).exit_code, 3);
    await session.files.write('/tmp/f', 'hello');
    assert.equal(await session.files.readText('/tmp/f'), 'hello');
    assert.equal((await session.refresh()).state, 'LIVE');
    assert.ok((await client.sessions.list()).some((each) => each.id === session.id));
    await session[Symbol.asyncDispose]();
    assert.equal((await client.sessions.get(session.id)).info.state, 'ENDED');
    await client.templates.delete('ts-inner');
    const tenant = await client.tenants.create({ name: 'ts-agents' });
    assert.equal((await client.tenants.setPolicy(tenant.accountId, { enabled: false })).enabled, false);
    assert.equal((await client.tenants.setLimits(tenant.accountId, { agent_hourly: null })).limits.agent_hourly, null);
    assert.equal((await client.policy()).enabled, true);
    assert.ok((await client.caps()).some((each) => each.dimension === 'tenant_daily'));
  });
});

describe('trouble', () => {
  test('codes are classes', async () => {
    await assert.rejects(client.get('microvm-00000000-0000-0000-0000-000000000000'), (error) => error instanceof sdk.NotFoundError && error.status === 404);
    await assert.rejects(client.run('python', { name: 'Not A Name' }), sdk.InvalidError);
    await assert.rejects(new Client({ ...address, apiKey: 'nobody' }).tenant(), sdk.UnauthenticatedError);
    await assert.rejects(box.exec(['/no/such/program']), sdk.NotFoundError);
    await assert.rejects(box.files.read('/etc'), sdk.ConflictError);
    await assert.rejects(new Client({ url: 'http://127.0.0.1:9', apiKey: 'k', retry: { retries: 1, firstWaitMs: 1 } }).tenant(), /firebreak serve/);
    await assert.rejects(new Client({ dataDir: '/nowhere' }).tenant(), sdk.ConfigurationError);
    const limit = sdk.errorOf(429, { code: 'exhausted', message: 'm', reason: 'agent_hourly', repair: 'wait', resetsAt: 1794803644000, dimension: 'agent' });
    assert.ok(limit instanceof sdk.ExhaustedError);
    assert.deepEqual([limit.reason, limit.repair, limit.resetsAt.getTime(), limit.data], ['agent_hourly', 'wait', 1794803644000, { dimension: 'agent' }]);
  });

  test('aborting and leaving kill in the guest', async () => {
    const abort = new AbortController();
    const call = box.exec('sleep 1241', { signal: abort.signal });
    await until(() => sleeps(box, 1241));
    abort.abort();
    await assert.rejects(call, { name: 'AbortError' });
    await until(async () => !(await sleeps(box, 1241)));
    for await (const event of box.stream('echo began; sleep 1242')) {
      assert.equal(event.text, 'began\n');
      break;
    }
    await until(async () => !(await sleeps(box, 1242)));
    const open = box.stream('echo began; sleep 1243');
    await open[Symbol.asyncIterator]().next();
    await until(() => sleeps(box, 1243));
    await open[Symbol.asyncDispose]();
    await until(async () => !(await sleeps(box, 1243)));
  });

  test('a launch whose answer is lost makes one microVM', async () => {
    let cuts = 2;
    const proxy = createServer((from) => {
      const to = connect(Number(new URL(server.url).port), '127.0.0.1');
      from.pipe(to);
      to.on('data', (data) => (cuts-- > 0 ? from.destroy() : from.write(data)));
      for (const side of [from, to]) side.on('error', () => {}).on('close', () => { from.destroy(); to.destroy(); });
    });
    await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const shaky = new Client({ ...address, url: `http://127.0.0.1:${proxy.address().port}`, retry: { firstWaitMs: 1 } });
    const made = await shaky.run('python', { tags: { test: 'lost' } });
    assert.deepEqual((await collect(client.list({ tag: ['test', 'lost'] }))).map((each) => each.id), [made.id]);
    cuts = 1;
    await assert.rejects(made.exec('echo once >>/tmp/count'), sdk.UnavailableError);
    assert.equal(await box.client.get(made.id).then((same) => same.files.readText('/tmp/count')), 'once\n');
    await made.terminate();
    proxy.close();
  });

  test('what is tried again', () => {
    const policy = { retries: 2, firstWaitMs: 100, longestWaitMs: 5000 };
    const limit = new sdk.ExhaustedError('limit');
    assert.equal(sdk.waitBefore(policy, 0, limit, true), undefined);
    assert.ok(sdk.waitBefore(policy, 0, limit, false, 2000) >= 2000);
    assert.equal(sdk.waitBefore(policy, 0, limit, false, 3_600_000), undefined);
    assert.equal(sdk.waitBefore(policy, 0, new sdk.UnavailableError('gone'), false), undefined);
    assert.ok(sdk.waitBefore(policy, 0, new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }), false) > 0);
    assert.equal(sdk.waitBefore(policy, 0, new TypeError('fetch failed', { cause: { code: 'ECONNRESET' } }), false), undefined);
  });

  test('a bar shows steps and no control characters', () => {
    let out = '';
    const bar = sdk.bar((text) => { out += text; });
    bar({ what: 'building', line: '[1/2] RUN \x1b[31mx', done: 1, total: 2 });
    bar({ what: 'building', line: 'done', done: 2, total: 2, finished: true });
    assert.match(out, /\[#{15} {15}\] 1 of 2/);
    assert.ok(!out.includes('\x1b[31m') && out.endsWith('\n'));
  });
});
