// Images from Dockerfiles through the official SDKs of AWS, unmodified: the zip in S3, the build, the application in a clone,
// called through its endpoint; and how builds fail.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import * as sdk from '@aws-sdk/client-lambda-microvms';
import { CloudWatchLogsClient, DescribeLogStreamsCommand, GetLogEventsCommand } from '@aws-sdk/client-cloudwatch-logs';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Server, until } from './server.mjs';

let server;
let outside; // another server, which is the S3 service elsewhere of the first
let outsideKeys;
let client;
let s3;
const base = { baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:debian-12', buildRoleArn: 'arn:aws:iam::123456789012:role/build' };

before(async () => {
  outside = await Server.start(['--python-image=0'], 776000);
  outsideKeys = join(mkdtempSync(join(tmpdir(), 'fb-keys-')), 'credentials');
  writeOutsideKeys(outside.credentials.secretAccessKey);
  // The mirror of packages may have a certificate that only this host trusts.
  server = await Server.start(['--python-image=0', '--guest-ca=host',
    '--s3-endpoint', outside.url, '--s3-credentials', outsideKeys, '--s3-buckets', '*=outside/{account},*=nowhere-{account}']);
  client = new sdk.LambdaMicrovmsClient(server.config());
  s3 = new S3Client(server.config({ forcePathStyle: true }));
  await s3.send(new CreateBucketCommand({ Bucket: 'artifacts' }));
}, { timeout: 240_000 });
after(async () => {
  await server?.stop();
  await outside?.stop();
  if (outsideKeys) rmSync(dirname(outsideKeys), { recursive: true });
});

const send = (name, input, by = client) => by.send(new sdk[`${name}Command`](input));
const writeOutsideKeys = (secret) => writeFileSync(
  outsideKeys, `[default]\naws_access_key_id = ${outside.credentials.accessKeyId}\naws_secret_access_key = ${secret}\n`, { mode: 0o600 });

// A zip of files, made by Python's standard library.
const zip = (files) => {
  const dir = mkdtempSync(join(tmpdir(), 'fb-zip-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const names = Object.keys(files);
  execFileSync('python3', ['-m', 'zipfile', '-c', 'out.zip', ...names], { cwd: dir });
  const bytes = readFileSync(join(dir, 'out.zip'));
  rmSync(dir, { recursive: true });
  return bytes;
};
const upload = (key, files, to = s3) => to.send(new PutObjectCommand({ Bucket: 'artifacts', Key: key, Body: zip(files) }));
const settled = (name, by = client) => until(async () => {
  const image = await send('GetMicrovmImage', { imageIdentifier: name }, by);
  return !['CREATING', 'UPDATING'].includes(image.state) && image;
}, 600_000);
const call = (endpoint, token, path, body) => new Promise((resolve, reject) => {
  const sent = request(`https://${endpoint}${path}`, {
    agent: false, ca: server.ca, method: 'POST', headers: { 'x-aws-proxy-auth': token, 'content-type': 'application/json' },
  }, (answer) => {
    let text = '';
    answer.on('data', (bytes) => { text += bytes; });
    answer.on('end', () => resolve({ status: answer.statusCode, text }));
  });
  sent.once('error', reject);
  sent.end(JSON.stringify(body));
});
const tokenFor = async ({ microvmId }, by = client) => {
  const { authToken } = await send('CreateMicrovmAuthToken', {
    microvmIdentifier: microvmId, expirationInMinutes: 5, allowedPorts: [{ port: 8080 }],
  }, by);
  return authToken['X-aws-proxy-auth'];
};

// With what the base has: packages take a minute to install in an emulated machine.
const plain = {
  Dockerfile: `FROM python:3.11-slim
WORKDIR /sandbox
COPY executor.py .
EXPOSE 8080
CMD ["python3", "executor.py"]
`,
  'executor.py': `import contextlib, http.server, io, json, os, subprocess
hooks = "/aws/lambda-microvms/runtime/v1"
seen = []
kept = {}

def answer(path, asked):
    if path == hooks + "/run":
        seen.append(asked)
    if path == "/execute":
        done = subprocess.run(["python3", "-c", asked["code"]], capture_output=True, text=True)
        return {"stdout": done.stdout, "exit_code": done.returncode, "payload": seen[0]["runHookPayload"], "mode": os.environ["MODE"]}
    out = io.StringIO()
    if path == "/session":
        with contextlib.redirect_stdout(out):
            exec(asked["code"], kept)
    return {"stdout": out.getvalue()}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers.get("content-length", 0)))
        text = json.dumps(answer(self.path, json.loads(asked or b"{}"))).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
`,
};
// The same for one test, with a framework that the build installs.
const flask = {
  Dockerfile: plain.Dockerfile.replace('WORKDIR', 'RUN apt-get update && apt-get install -y --no-install-recommends python3-flask\nWORKDIR'),
  'executor.py': `import os, subprocess
from flask import Flask, jsonify, request
app = Flask(__name__)
hooks = "/aws/lambda-microvms/runtime/v1"
seen = []

@app.route(hooks + "/ready", methods=["POST"])
def ready():
    return "", 200

@app.route(hooks + "/run", methods=["POST"])
def run():
    seen.append(request.get_json(force=True))
    return "", 200

@app.route("/execute", methods=["POST"])
def execute():
    done = subprocess.run(["python3", "-c", request.json["code"]], capture_output=True, text=True)
    return jsonify({"stdout": done.stdout, "exit_code": done.returncode, "payload": seen[0]["runHookPayload"], "mode": os.environ["MODE"]})

app.run(host="0.0.0.0", port=8080)
`,
};
const hooks = {
  port: 8080,
  microvmImageHooks: { ready: 'ENABLED', readyTimeoutInSeconds: 300 },
  microvmHooks: { run: 'ENABLED', runTimeoutInSeconds: 30 },
};

test('an application from a zip in S3 is built, run and called', async () => {
  await upload('code.zip', process.env.FIREBREAK_LONG ? flask : plain);
  const made = await send('CreateMicrovmImage', {
    name: 'sandbox', ...base, codeArtifact: { uri: 's3://artifacts/code.zip' },
    resources: [{ minimumMemoryInMiB: 512 }], environmentVariables: { MODE: 'sandbox' }, tags: { team: 'agents' },
    description: 'runs code', logging: { cloudWatch: { logGroup: 'builds' } }, additionalOsCapabilities: [], cpuConfigurations: [{ architecture: 'X86_64' }],
    hooks,
  });
  assert.equal(made.state, 'CREATING');
  assert.equal(made.imageVersion, '1.0');
  await assert.rejects(send('DeleteMicrovmImage', { imageIdentifier: 'sandbox' }), { name: 'ConflictException' });
  const image = await settled('sandbox');
  assert.equal(image.state, 'CREATED', JSON.stringify(await send('GetMicrovmImageVersion', { imageIdentifier: 'sandbox', imageVersion: '1.0' })));

  const version = await send('GetMicrovmImageVersion', { imageIdentifier: 'sandbox', imageVersion: '1.0' });
  assert.equal(version.state, 'SUCCESSFUL');
  assert.equal(version.status, 'ACTIVE');
  assert.deepEqual(version.codeArtifact, { uri: 's3://artifacts/code.zip' });
  for (const [member, value] of Object.entries({
    description: 'runs code', logging: { cloudWatch: { logGroup: 'builds' } }, cpuConfigurations: [{ architecture: 'X86_64' }], resources: [{ minimumMemoryInMiB: 512 }],
    environmentVariables: { MODE: 'sandbox' }, baseImageArn: base.baseImageArn, baseImageVersion: '1.0', buildRoleArn: base.buildRoleArn, tags: { team: 'agents' },
  })) assert.deepEqual(version[member], value, member);
  assert.equal(version.hooks.port, 8080);
  assert.equal(version.hooks.microvmImageHooks.readyTimeoutInSeconds, 300);
  assert.equal(version.hooks.microvmHooks.suspend, 'DISABLED');
  const builds = await send('ListMicrovmImageBuilds', { imageIdentifier: 'sandbox', imageVersion: '1.0' });
  assert.equal(builds.items.length, 1);
  const build = await send('GetMicrovmImageBuild', {
    imageIdentifier: 'sandbox', imageVersion: '1.0', buildId: builds.items[0].buildId,
  });
  assert.equal(build.buildState, 'SUCCESSFUL');
  assert.equal(build.architecture, 'X86_64');

  const microvm = await send('RunMicrovm', { imageIdentifier: 'sandbox', runHookPayload: 'for this one' });
  await until(async () => (await send('GetMicrovm', { microvmIdentifier: microvm.microvmId })).state === 'RUNNING');
  const token = await tokenFor(microvm);
  const answer = await call(microvm.endpoint, token, '/execute', { code: 'print(6 * 7)' });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(JSON.parse(answer.text), { stdout: '42\n', exit_code: 0, payload: 'for this one', mode: 'sandbox' });
  const names = ['AWS_REGION', 'AWS_LAMBDA_MICROVM_IMAGE_NAME', 'AWS_LAMBDA_MICROVM_IMAGE_ARN', 'AWS_LAMBDA_MICROVM_IMAGE_VERSION'];
  const told = await call(microvm.endpoint, token, '/execute', { code: `import os\nfor name in ${JSON.stringify(names)}: print(os.environ[name])` });
  assert.deepEqual(JSON.parse(told.text).stdout.trim().split('\n'), ['eu-local-1', 'sandbox', image.imageArn, '1.0'], told.text);
  await send('TerminateMicrovm', { microvmIdentifier: microvm.microvmId });
}, { timeout: 900_000 });

// From the zip to the end, as a tenant does it; the idle time is the shortest that AWS allows.
const walk = async (by, to, secret) => {
  await upload('walk.zip', plain, to);
  await send('CreateMicrovmImage', {
    name: 'walk', ...base, codeArtifact: { uri: 's3://artifacts/walk.zip' }, resources: [{ minimumMemoryInMiB: 512 }], hooks,
  }, by);
  assert.equal((await settled('walk', by)).state, 'CREATED');
  const microvm = await send('RunMicrovm', {
    imageIdentifier: 'walk', idlePolicy: { maxIdleDurationSeconds: 60, suspendedDurationSeconds: 3600, autoResumeEnabled: true },
  }, by);
  const state = async () => (await send('GetMicrovm', { microvmIdentifier: microvm.microvmId }, by)).state;
  await until(async () => await state() === 'RUNNING');
  const token = await tokenFor(microvm, by);
  const session = async (code) => {
    const answer = await call(microvm.endpoint, token, '/session', { code });
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(answer.text).stdout;
  };
  assert.equal(await session(`secret = ${JSON.stringify(secret)}; calls = 1`), '');
  assert.equal(await session('calls += 1; print(secret, calls)'), `${secret} 2\n`);
  await until(async () => await state() === 'SUSPENDED', 300_000);
  assert.equal(await session('calls += 1; print(secret, calls)'), `${secret} 3\n`);
  assert.equal(await state(), 'RUNNING');
  await send('TerminateMicrovm', { microvmIdentifier: microvm.microvmId }, by);
  await until(async () => await state() === 'TERMINATED');
};

test('two tenants walk the whole way at the same time, each with a state of its own that outlives a sleep', async () => {
  const { credentials } = await server.tenant('second');
  const theirs = server.config({ credentials });
  const theirS3 = new S3Client({ ...theirs, forcePathStyle: true });
  await theirS3.send(new CreateBucketCommand({ Bucket: 'artifacts' }));
  await Promise.all([walk(client, s3, 'the first'), walk(new sdk.LambdaMicrovmsClient(theirs), theirS3, 'the second')]);
}, { timeout: 1_200_000 });

test('an update makes the next version, and a failed one leaves the older to be run', async () => {
  const quick = 'FROM debian:bookworm\nRUN echo one > /made\n';
  await upload('quick.zip', { Dockerfile: quick });
  await send('CreateMicrovmImage', { name: 'quick', ...base, codeArtifact: { uri: 's3://artifacts/quick.zip' }, resources: [{ minimumMemoryInMiB: 512 }] });
  assert.equal((await settled('quick')).state, 'CREATED');
  await upload('quick.zip', { Dockerfile: `${quick}RUN echo why >&2; exit 4\n` });
  const updated = await send('UpdateMicrovmImage', { imageIdentifier: 'quick', ...base, codeArtifact: { uri: 's3://artifacts/quick.zip' }, resources: [{ minimumMemoryInMiB: 512 }] });
  assert.equal(updated.state, 'UPDATING');
  assert.equal(updated.imageVersion, '2.0');
  assert.equal((await settled('quick')).state, 'UPDATE_FAILED');
  const failed = await send('GetMicrovmImageVersion', { imageIdentifier: 'quick', imageVersion: '2.0' });
  assert.equal(failed.state, 'FAILED');
  assert.match(failed.stateReason, /^CONTAINER_BUILD_FAILED: line 3.*exit status 4: why/);
  const logs = new CloudWatchLogsClient(server.config());
  const logGroupName = '/aws/lambda-microvms/quick';
  const { logStreams } = await logs.send(new DescribeLogStreamsCommand({ logGroupName }));
  assert.equal(logStreams.length, 2);
  const newest = logStreams.find(({ logStreamName }) => logStreamName.includes('[2.0]build-'));
  const { events } = await logs.send(new GetLogEventsCommand({ logGroupName, logStreamName: newest.logStreamName }));
  assert.ok(events.some(({ message }) => message === 'why'), JSON.stringify(events));
  const microvm = await send('RunMicrovm', { imageIdentifier: 'quick' });
  assert.equal(microvm.imageVersion, '1.0');
  await send('TerminateMicrovm', { microvmIdentifier: microvm.microvmId });
}, { timeout: 300_000 });

for (const [what, uri, reason] of [
  ['bucket', 's3://elsewhere/code.zip', /^S3_NO_SUCH_BUCKET/],
  ['key', 's3://artifacts/missing.zip', /^S3_NO_SUCH_KEY/],
  ['zip', 's3://artifacts/text', /^ARCHIVE_INVALID/],
  ['dockerfile', 's3://artifacts/none.zip', /^ARCHIVE_DOCKERFILE_NOT_FOUND/],
]) {
  test(`a build without its ${what} fails with the reason`, async () => {
    await s3.send(new PutObjectCommand({ Bucket: 'artifacts', Key: 'text', Body: 'this is no archive at all' }));
    await upload('none.zip', { 'README.txt': 'nothing to build' });
    const name = `without-${what}`;
    await send('CreateMicrovmImage', { name, ...base, codeArtifact: { uri } });
    assert.equal((await settled(name)).state, 'CREATE_FAILED');
    const version = await send('GetMicrovmImageVersion', { imageIdentifier: name, imageVersion: '1.0' });
    assert.match(version.stateReason, reason);
  });
}

test('an artifact is read from an S3 service elsewhere, within the folder given to the account', async () => {
  const there = new S3Client(outside.config({ forcePathStyle: true }));
  await there.send(new CreateBucketCommand({ Bucket: 'outside' }));
  const create = (name, uri, by = client) => send('CreateMicrovmImage', {
    name, ...base, codeArtifact: { uri }, resources: [{ minimumMemoryInMiB: 512 }],
  }, by);
  const body = zip({ Dockerfile: 'FROM debian:bookworm\nRUN echo one > /made\n' });
  await there.send(new PutObjectCommand({ Bucket: 'outside', Key: `${server.account}/app.zip`, Body: body }));
  await create('outside-app', `s3://outside/${server.account}/app.zip`);
  assert.equal((await settled('outside-app')).state, 'CREATED');

  const reason = async (name, uri, by = client) => {
    await create(name, uri, by);
    assert.equal((await settled(name, by)).state, 'CREATE_FAILED');
    return (await send('GetMicrovmImageVersion', { imageIdentifier: name, imageVersion: '1.0' }, by)).stateReason;
  };
  assert.match(await reason('outside-key', `s3://outside/${server.account}/none.zip`), /^S3_NO_SUCH_KEY/);
  assert.match(await reason('outside-bucket', `s3://nowhere-${server.account}/app.zip`), /^S3_NO_SUCH_BUCKET/);
  assert.match(await reason('outside-folder', 's3://outside/other/app.zip'), /^S3_ACCESS_DENIED/);
  assert.match(await reason('outside-dots', `s3://outside/${server.account}/../${server.account}/app.zip`), /^S3_ACCESS_DENIED/);

  const other = await server.tenant('other');
  const theirs = new sdk.LambdaMicrovmsClient(server.config({ credentials: other.credentials }));
  assert.match(await reason('outside-app', `s3://outside/${server.account}/app.zip`, theirs), /^S3_ACCESS_DENIED/);

  writeOutsideKeys('x'.repeat(40));
  assert.match(await reason('outside-secret', `s3://outside/${server.account}/app.zip`), /^S3_ACCESS_DENIED.*SignatureDoesNotMatch/);
  writeOutsideKeys(outside.credentials.secretAccessKey);
  await outside.stop();
  outside = undefined;
  assert.match(await reason('outside-down', `s3://outside/${server.account}/app.zip`), /^INTERNAL_PLATFORM_ERROR: /);
  assert.ok(!server.log.includes('x'.repeat(40)));
}, { timeout: 300_000 });
