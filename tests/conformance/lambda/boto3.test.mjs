// Debian's boto3 and botocore's signer, each case of boto3_test.py as one of ours.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Server } from './server.mjs';

let server;
before(async () => { server = await Server.start(['--python-image', 'false'], 774000); });
after(() => server?.stop());

test('boto3', { timeout: 120_000 }, async (t) => {
  const done = spawnSync('/usr/bin/python3', ['-W', 'ignore', 'boto3_test.py', server.dir], { encoding: 'utf8', timeout: 110_000 });
  const cases = [...done.stderr.matchAll(/^test_(\w+) \(__main__\.(\w+)[^)]*\)\s*(?:\n[^\n]*)?\.\.\. (\w+)/gm)];
  assert.ok(cases.length >= 10, done.stderr);
  for (const [, name, suite, outcome] of cases)
    await t.test(`boto3 ${suite} ${name}`, () => assert.equal(outcome, 'ok', done.stderr));
  assert.equal(done.status, 0, done.stderr);
});
