// With packages of the lock file: the library in the tree is what the source says, it installs, so does the skill, and the examples of the
// page run.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import * as sdk from './world.mjs';

const root = resolve('../../..');
const modules = process.env.FIREBREAK_NODE_MODULES;
const lib = join(root, 'sdk/typescript/lib');
let scratch;
before(() => { scratch = mkdtempSync(join(tmpdir(), 'fb-sdk-')); });
after(async () => {
  await sdk.stop();
  rmSync(scratch, { recursive: true, force: true });
});

test('the library in the tree is what the source says', () => {
  execFileSync(join(root, 'tools/sdk-build-typescript'), [join(scratch, 'lib')], { stdio: 'inherit' });
  assert.deepEqual(readdirSync(join(scratch, 'lib')).sort(), readdirSync(lib).sort());
  for (const name of readdirSync(lib)) assert.equal(readFileSync(join(lib, name), 'utf8'), readFileSync(join(scratch, 'lib', name), 'utf8'), name);
});

test('it installs from the tree, and only the library is in the package', () => {
  const project = join(scratch, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{"type":"module"}');
  const options = { cwd: project, encoding: 'utf8' };
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', join(root, 'sdk/typescript')], options);
  assert.equal(execFileSync('node', ['-e', "import('firebreak-sdk').then((m) => console.log(typeof m.Sandbox))"], options), 'function\n');
  const packed = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', join(root, 'sdk/typescript')], options));
  const files = packed[0].files.map((file) => file.path);
  assert.ok(files.includes('lib/index.js') && !files.some((path) => path.startsWith('src/')), files.join());
});

test('the skill is one for those who install skills', () => {
  const project = join(scratch, 'assistant');
  mkdirSync(project);
  const command = [join(modules, 'skills/bin/cli.mjs'), 'add', join(root, 'skills/firebreak'), '--yes', '--copy', '--agent', 'claude-code'];
  // Nothing leaves this host: the installer would count installations elsewhere.
  const env = { ...process.env, HOME: join(scratch, 'home'), DO_NOT_TRACK: '1', DISABLE_TELEMETRY: '1' };
  execFileSync('node', command, { cwd: project, env, stdio: 'ignore', timeout: 60_000 });
  assert.equal(readFileSync(join(project, '.claude/skills/firebreak/SKILL.md'), 'utf8'), readFileSync(join(root, 'skills/firebreak/SKILL.md'), 'utf8'));
});

// The blocks of the page, in order, are one program.
test('the examples of the page compile strictly and run', { timeout: 240_000 }, async () => {
  const page = readFileSync(join(root, 'docs/sdk-typescript.md'), 'utf8');
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1]);
  const folder = join(scratch, 'page');
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  symlinkSync(join(root, 'sdk/typescript'), join(folder, 'node_modules/firebreak-sdk'));
  symlinkSync(join(modules, '@types'), join(folder, 'node_modules/@types'));
  const imports = (text) => text.match(/^import .*$/gm) ?? [];
  const program = [...blocks.flatMap(imports), ...blocks.map((text) => text.replace(/^import .*$/gm, ''))].join('\n');
  writeFileSync(join(folder, 'page.ts'), `${program}\nexport {};\n`);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const compiler = [join(modules, 'typescript/bin/tsc'), 'page.ts', '--strict', '--target', 'ES2022', '--module', 'NodeNext', '--lib',
    'ES2022,ESNext.Disposable,DOM', '--types', 'node'];
  const compiled = spawnSync('node', compiler, { cwd: folder, encoding: 'utf8' });
  assert.equal(compiled.status, 0, compiled.stdout);
  const { server } = await sdk.start();
  const ran = spawnSync('node', ['page.js'], { cwd: folder, encoding: 'utf8', env: { ...process.env, FIREBREAK_DATA_DIR: server.dir } });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  let position = 0;
  for (const [, text] of blocks.join('').matchAll(/\/\/ => (.*)$/gm)) {
    const at = ran.stdout.indexOf(text, position);
    assert.ok(at >= 0, `the page does not print ${text}:\n${ran.stdout}`);
    position = at;
  }
  // What `await using` made is gone.
  const { items } = await server.native('GET', '/v1/microvms');
  assert.deepEqual([...new Set(items.map((each) => each.state))], ['TERMINATED']);
});
