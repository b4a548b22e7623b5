// MicroVMs through the official SDK of AWS, unmodified.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import * as sdk from '@aws-sdk/client-lambda-microvms';
import WebSocket from 'ws';
import { Server, until } from './server.mjs';

let server;
let client;
const python = 'arn:aws:lambda:eu-local-1:aws:microvm-image:python';

before(async () => {
  server = await Server.start();
  await server.waitForPython();
  client = new sdk.LambdaMicrovmsClient(server.config());
}, { timeout: 240_000 });
after(() => server?.stop());

const send = (name, input, by = client) => by.send(new sdk[`${name}Command`](input));
const refused = async (name, input, error, by = client) => {
  const thrown = await send(name, input, by).then(() => undefined, (reason) => reason);
  assert.ok(thrown, `${name} was not refused`);
  assert.equal(thrown.name, error, thrown.message);
  return thrown;
};
const run = (input = {}) => send('RunMicrovm', { imageIdentifier: python, ...input });
const running = (id) => until(async () => {
  const microvm = await send('GetMicrovm', { microvmIdentifier: id });
  assert.ok(['PENDING', 'RUNNING'].includes(microvm.state), microvm.stateReason);
  return microvm.state === 'RUNNING' && microvm;
});

test('a microVM is run, suspended, resumed and terminated', async () => {
  const made = await run({
    idlePolicy: { maxIdleDurationSeconds: 300, suspendedDurationSeconds: 3600, autoResumeEnabled: true },
    maximumDurationInSeconds: 600,
  });
  assert.equal(made.$metadata.httpStatusCode, 200);
  assert.match(made.$metadata.requestId, /^[0-9a-f-]{36}$/);
  assert.match(made.microvmId, /^microvm-[0-9a-f-]{36}$/);
  assert.equal(made.state, 'PENDING');
  assert.equal(made.imageArn, python);
  assert.equal(made.imageVersion, '1.0');
  assert.equal(made.maximumDurationInSeconds, 600);
  assert.ok(made.startedAt instanceof Date && Math.abs(made.startedAt - Date.now()) < 60_000);
  assert.ok(made.endpoint.length > 0 && !made.endpoint.includes('://'));
  assert.ok(!made.endpoint.includes(made.microvmId.slice('microvm-'.length)), 'the endpoint must not give the id away');
  assert.equal(made.stateReason, undefined);
  const id = { microvmIdentifier: made.microvmId };

  const live = await running(made.microvmId);
  assert.deepEqual(live.idlePolicy, { maxIdleDurationSeconds: 300, suspendedDurationSeconds: 3600, autoResumeEnabled: true });
  assert.deepEqual(live.ingressNetworkConnectors, ['arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:HTTP_INGRESS']);
  assert.deepEqual(live.egressNetworkConnectors, ['arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:INTERNET_EGRESS']);
  assert.equal(live.endpoint, made.endpoint);

  await send('ResumeMicrovm', id);  // running already: fine
  await send('SuspendMicrovm', id);
  assert.equal((await send('GetMicrovm', id)).state, 'SUSPENDED');
  await send('SuspendMicrovm', id);
  await send('ResumeMicrovm', id);
  assert.equal((await send('GetMicrovm', id)).state, 'RUNNING');

  await send('TerminateMicrovm', id);
  await send('TerminateMicrovm', id);
  const gone = await send('GetMicrovm', id);
  assert.equal(gone.state, 'TERMINATED');
  assert.equal(gone.stateReason, 'Success.');
  assert.ok(gone.terminatedAt instanceof Date);
  for (const name of ['SuspendMicrovm', 'ResumeMicrovm']) {
    assert.equal((await refused(name, id, 'ConflictException')).$metadata.httpStatusCode, 409);
  }
  await refused('CreateMicrovmAuthToken', { ...id, expirationInMinutes: 5, allowedPorts: [{ port: 80 }] }, 'ConflictException');
});

test('defaults are what AWS has', async () => {
  const made = await run();
  assert.equal(made.maximumDurationInSeconds, 28800);
  assert.equal(made.idlePolicy, undefined);
  await send('TerminateMicrovm', { microvmIdentifier: made.microvmId });
});

test('without an idle policy a suspended microVM sleeps until it is resumed', async () => {
  const made = await run();
  const id = { microvmIdentifier: made.microvmId };
  await running(made.microvmId);
  await server.native('POST', `/v1/microvms/${made.microvmId}/exec`,
    { shell: 'python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 &' });
  const { authToken } = await send('CreateMicrovmAuthToken', { ...id, expirationInMinutes: 5, allowedPorts: [{ port: 8080 }] });
  const status = () => server.endpointStatus(made.endpoint, authToken['X-aws-proxy-auth']);
  await until(async () => await status() === 200);

  await send('SuspendMicrovm', id);
  assert.equal(await status(), 502);
  const asleep = await send('GetMicrovm', id);
  assert.equal(asleep.state, 'SUSPENDED');
  assert.equal(asleep.idlePolicy, undefined);

  await send('ResumeMicrovm', id);
  assert.equal(await status(), 200);
  await send('TerminateMicrovm', id);
});

test('a client token makes one microVM, also when calls race', async () => {
  const clientToken = `token-${Date.now()}`;
  const made = await Promise.all(Array.from({ length: 4 }, () => run({ clientToken, runHookPayload: 'x' })));
  assert.equal(new Set(made.map((each) => each.microvmId)).size, 1);
  const error = await refused('RunMicrovm', { imageIdentifier: python, clientToken, runHookPayload: 'y' }, 'ConflictException');
  assert.equal(error.$metadata.httpStatusCode, 409);
  await send('TerminateMicrovm', { microvmIdentifier: made[0].microvmId });
});

test('connectors are shown as they are in effect', async () => {
  const arn = (name) => `arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:${name}`;
  const made = await run({
    ingressNetworkConnectors: [arn('HTTP_INGRESS'), arn('SHELL_INGRESS')], egressNetworkConnectors: [arn('NO_EGRESS')],
  });
  assert.deepEqual(made.ingressNetworkConnectors, [arn('HTTP_INGRESS'), arn('SHELL_INGRESS')]);
  assert.deepEqual(made.egressNetworkConnectors, [arn('NO_EGRESS')]);
  await send('TerminateMicrovm', { microvmIdentifier: made.microvmId });
});

test('listing goes in pages, past fifty, filtered by image', { timeout: 300_000 }, async () => {
  const wanted = new Set();
  for (let left = 54; left > 0; left -= 3) {
    const made = await Promise.all(Array.from({ length: 3 }, () => run()));
    for (const { microvmId } of made) wanted.add(microvmId);
    await Promise.all(made.map(({ microvmId }) => send('TerminateMicrovm', { microvmIdentifier: microvmId })));
  }
  const first = await send('ListMicrovms', { imageIdentifier: python });
  assert.equal(first.items.length, 50);
  assert.ok(first.nextToken);
  const seen = new Set();
  let pages = 0;
  for await (const page of sdk.paginateListMicrovms({ client, pageSize: 7 }, { imageIdentifier: 'python', imageVersion: '1.0' })) {
    pages += 1;
    assert.ok(page.items.length <= 7);
    for (const item of page.items) {
      assert.ok(!seen.has(item.microvmId), 'a page came twice');
      seen.add(item.microvmId);
      assert.deepEqual(Object.keys(item).sort(), ['imageArn', 'imageVersion', 'microvmId', 'startedAt', 'state']);
    }
  }
  assert.ok(pages > 7);
  for (const id of wanted) assert.ok(seen.has(id), `${id} was not listed`);
  assert.deepEqual((await send('ListMicrovms', { imageVersion: '9.0' })).items, []);
  await refused('ListMicrovms', { nextToken: first.nextToken }, 'ValidationException');
  await refused('ListMicrovms', { nextToken: 'nonsense' }, 'ValidationException');
});

const id = 'microvm-00000000-0000-4000-8000-000000000000';
const managed = (name) => `arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:${name}`;
const idlePolicy = { maxIdleDurationSeconds: 60, suspendedDurationSeconds: 0, autoResumeEnabled: false };
const wrong = [
  ['RunMicrovm', { imageIdentifier: '' }, /'imageIdentifier'.*length greater than or equal to 1/],
  ['RunMicrovm', { imageIdentifier: 'x'.repeat(257) }, /'imageIdentifier'.*length less than or equal to 256/],
  ['RunMicrovm', { imageIdentifier: 'not a name' }, /Invalid ARN format/],
  ['RunMicrovm', { imageIdentifier: 'arn:aws:lambda:eu-local-1:aws:microvm-image/python' }, /Invalid ARN format/],
  ['RunMicrovm', { imageIdentifier: 'arn:aws:lambda:us-east-1:aws:microvm-image:python' }, /another region/],
  ['RunMicrovm', { imageIdentifier: python, imageVersion: 'x' }, /imageVersion/],
  ['RunMicrovm', { imageIdentifier: python, maximumDurationInSeconds: 28801 }, /'maximumDurationInSeconds'.*less than or equal to 28800/],
  ['RunMicrovm', { imageIdentifier: python, maximumDurationInSeconds: 0 }, /'maximumDurationInSeconds'.*greater than or equal to 1/],
  ['RunMicrovm', { imageIdentifier: python, maximumDurationInSeconds: 1.5 }, /'maximumDurationInSeconds'.*integer/],
  ['RunMicrovm', { imageIdentifier: python, runHookPayload: 'x'.repeat(4097) }, /'runHookPayload'.*less than or equal to 4096/],
  ['RunMicrovm', { imageIdentifier: python, clientToken: 'x'.repeat(129) }, /'clientToken'.*less than or equal to 128/],
  ['RunMicrovm', { imageIdentifier: python, executionRoleArn: 'arn:aws:iam::1:role/x-role-that-is-wrong' }, /'executionRoleArn'.*pattern/],
  ['RunMicrovm', { imageIdentifier: python, idlePolicy: { ...idlePolicy, maxIdleDurationSeconds: 59 } }, /'idlePolicy.maxIdleDurationSeconds'/],
  ['RunMicrovm', { imageIdentifier: python, idlePolicy: { ...idlePolicy, suspendedDurationSeconds: -1 } }, /'idlePolicy.suspendedDurationSeconds'/],
  ['RunMicrovm', { imageIdentifier: python, idlePolicy: { maxIdleDurationSeconds: 60 } }, /2 validation errors.*must not be null/],
  ['RunMicrovm', { imageIdentifier: python, logging: { cloudWatch: { logGroup: 'a b' } } }, /'logging.cloudWatch.logGroup'/],
  ['RunMicrovm', { imageIdentifier: python, logging: { cloudWatch: { logStream: 'a:b' } } }, /'logging.cloudWatch.logStream'/],
  ['RunMicrovm', { imageIdentifier: python, ingressNetworkConnectors: Array(11).fill(managed('HTTP_INGRESS')) }, /'ingressNetworkConnectors'.*less than or equal to 10/],
  ['RunMicrovm', { imageIdentifier: python, ingressNetworkConnectors: ['HTTP_INGRESS'] }, /Malformed network connector/],
  ['RunMicrovm', { imageIdentifier: python, ingressNetworkConnectors: [managed('OTHER')] }, /Unrecognized managed network connector/],
  ['RunMicrovm', { imageIdentifier: python, ingressNetworkConnectors: [managed('NO_EGRESS')] }, /cannot be used for ingress/],
  ['RunMicrovm', { imageIdentifier: python, egressNetworkConnectors: [managed('NO_EGRESS'), managed('INTERNET_EGRESS')] }, /cannot be combined/],
  ['ListMicrovms', { maxResults: 0 }, /'maxResults'.*greater than or equal to 1/],
  ['ListMicrovms', { maxResults: 51 }, /'maxResults'.*less than or equal to 50/],
  ['GetMicrovm', { microvmIdentifier: 'x'.repeat(257) }, /'microvmIdentifier'/],
  ['CreateMicrovmAuthToken', { microvmIdentifier: id, expirationInMinutes: 0, allowedPorts: [{ port: 1 }] }, /'expirationInMinutes'/],
  ['CreateMicrovmAuthToken', { microvmIdentifier: id, expirationInMinutes: 1, allowedPorts: [] }, /'allowedPorts'/],
  ['CreateMicrovmAuthToken', { microvmIdentifier: id, expirationInMinutes: 1, allowedPorts: [{ port: 65536 }] }, /'allowedPorts.1.member.port'/],
  ['CreateMicrovmAuthToken', { microvmIdentifier: id, expirationInMinutes: 1, allowedPorts: [{ range: { startPort: 2 } }] }, /'allowedPorts.1.member.range.endPort'/],
];
for (const [name, input, message] of wrong) {
  test(`${name} refuses ${JSON.stringify(input).slice(0, 100)}`, async () => {
    const error = await refused(name, input, 'ValidationException');
    assert.equal(error.$metadata.httpStatusCode, 400);
    assert.match(error.message, message);
  });
}

test('what is missing is named', async () => {
  const error = await refused('GetMicrovm', { microvmIdentifier: id }, 'ResourceNotFoundException');
  assert.ok(error instanceof sdk.ResourceNotFoundException);
  assert.equal(error.$metadata.httpStatusCode, 404);
  assert.equal(error.resourceType, 'Microvm');
  assert.equal(error.resourceId, id);
  for (const name of ['SuspendMicrovm', 'ResumeMicrovm', 'TerminateMicrovm'])
    await refused(name, { microvmIdentifier: id }, 'ResourceNotFoundException');
  await refused('RunMicrovm', { imageIdentifier: 'nothing' }, 'ResourceNotFoundException');
  await refused('RunMicrovm', { imageIdentifier: python, imageVersion: '7.0' }, 'ResourceNotFoundException');
  await refused('ListMicrovms', { imageIdentifier: 'nothing' }, 'ResourceNotFoundException');
});

test('tokens are not for longer than an hour, nor for a shell that was not asked for', async () => {
  const made = await run();
  const microvm = { microvmIdentifier: made.microvmId };
  const error = await refused('CreateMicrovmAuthToken', { ...microvm, expirationInMinutes: 61, allowedPorts: [{ allPorts: {} }] }, 'ValidationException');
  assert.equal(error.message, 'ExpirationMinutes 61 exceeded max allowed of 60.');
  const shell = await refused('CreateMicrovmShellAuthToken', { ...microvm, expirationInMinutes: 5 }, 'ValidationException');
  assert.match(shell.message, /SHELL_INGRESS/);
  await refused('CreateMicrovmAuthToken', { ...microvm, expirationInMinutes: 5, allowedPorts: [{ range: { startPort: 9, endPort: 8 } }] }, 'ValidationException');
  await send('TerminateMicrovm', microvm);
});

test('a shell is opened with a token of its own', { timeout: 120_000 }, async () => {
  const made = await run({ ingressNetworkConnectors: [managed('HTTP_INGRESS'), managed('SHELL_INGRESS')] });
  const microvm = { microvmIdentifier: made.microvmId };
  await running(made.microvmId);
  const { authToken } = await send('CreateMicrovmShellAuthToken', { ...microvm, expirationInMinutes: 5 });
  const token = authToken['X-aws-proxy-auth'];
  const words = [];
  let screen = '';
  const socket = new WebSocket(`wss://${made.endpoint}/shell`, ['lambda-microvms', `lambda-microvms.authentication.${token}`, 'lambda-microvms.port.8022'], { ca: server.ca });
  const closed = new Promise((resolve) => socket.once('close', (code, reason) => resolve([code, String(reason)])));
  socket.on('message', (data, binary) => { if (binary) screen += data; else words.push(JSON.parse(data)); });
  await once(socket, 'open');
  assert.equal(socket.protocol, 'lambda-microvms');
  await until(() => words.length > 0);
  assert.equal(words[0].type, 'session_init');
  assert.match(words[0].session_id, /^[0-9a-f-]{36}$/);
  socket.send(JSON.stringify({ type: 'resize', cols: 100, rows: 30 }));
  socket.send('stty size; echo $((6 * 7))$TERM$(id -u)\n');
  await until(() => screen.includes('30 100') && screen.includes('42xterm0'));
  socket.send(Buffer.from('exit\n'));
  assert.deepEqual(await closed, [1000, 'shell exited']);
  assert.equal(words.length, 1);
  assert.equal(await server.endpointStatus(made.endpoint, token), 502);
  await send('TerminateMicrovm', microvm);
});

test('a signature must be of the key, of this request, of now', async () => {
  const { accessKeyId, secretAccessKey } = server.credentials;
  const by = (credentials, extra = {}) => new sdk.LambdaMicrovmsClient(server.config({ credentials, maxAttempts: 1, ...extra }));
  const list = (of) => refused('ListMicrovms', {}, ...of);
  const bad = await list(['InvalidSignatureException', by({ accessKeyId, secretAccessKey: `${secretAccessKey}x` })]);
  assert.equal(bad.$metadata.httpStatusCode, 403);
  await list(['UnrecognizedClientException', by({ accessKeyId: 'AKIAAAAAAAAAAAAAAAAA', secretAccessKey })]);
  await list(['UnrecognizedClientException', by({ accessKeyId, secretAccessKey, sessionToken: 'bm90aGluZw==' })]);
  for (const minutes of [-6, 6]) {
    const skewed = by({ accessKeyId, secretAccessKey }, { systemClockOffset: minutes * 60_000 });
    await list(['InvalidSignatureException', skewed]);
    await send('ListMicrovms', {}, skewed);  // the SDK has set its clock by our answer
  }
  const unsigned = await fetch(`${server.url}/2025-09-09/microvms`);
  assert.equal(unsigned.status, 403);
  assert.equal(unsigned.headers.get('x-amzn-errortype'), 'MissingAuthenticationTokenException');
  assert.equal(typeof (await unsigned.json()).message, 'string');
});

test('what one tenant has another cannot see, name or touch', async () => {
  const other = await server.tenant('other');
  const theirs = new sdk.LambdaMicrovmsClient(server.config({ credentials: other.credentials }));
  const made = await run();
  const microvm = { microvmIdentifier: made.microvmId };
  assert.deepEqual((await send('ListMicrovms', {}, theirs)).items, []);
  assert.deepEqual((await send('ListMicrovmImages', {}, theirs)).items, []);
  const calls = { GetMicrovm: {}, SuspendMicrovm: {}, ResumeMicrovm: {}, TerminateMicrovm: {}, CreateMicrovmShellAuthToken: { expirationInMinutes: 1 }, CreateMicrovmAuthToken: { expirationInMinutes: 1, allowedPorts: [{ port: 1 }] } };
  for (const [name, input] of Object.entries(calls)) {
    const error = await refused(name, { ...microvm, ...input }, 'ResourceNotFoundException', theirs);
    const missing = await refused(name, { microvmIdentifier: id, ...input }, 'ResourceNotFoundException', theirs);
    assert.equal(error.message.replace(made.microvmId, id), missing.message);
  }
  const arn = `arn:aws:lambda:eu-local-1:${server.account}:microvm-image:python`;
  for (const [name, input] of [['RunMicrovm', { imageIdentifier: arn }], ['GetMicrovmImage', { imageIdentifier: arn }], ['DeleteMicrovmImage', { imageIdentifier: arn }], ['ListTags', { Resource: arn }]]) {
    const error = await refused(name, input, 'AccessDeniedException', theirs);
    assert.equal(error.$metadata.httpStatusCode, 403);
  }
  assert.equal((await send('GetMicrovm', microvm)).state !== 'TERMINATED', true);
  await send('TerminateMicrovm', microvm);
});

test('a tenant that has used up its share is told so', async () => {
  const tenant = await server.tenant('small');
  const theirs = new sdk.LambdaMicrovmsClient(server.config({ credentials: tenant.credentials, maxAttempts: 1 }));
  await server.native('PUT', `/v1/tenants/${tenant.account}/limits`, { microvms: 1 });
  const made = await send('RunMicrovm', { imageIdentifier: python }, theirs);
  const full = await refused('RunMicrovm', { imageIdentifier: python }, 'ServiceQuotaExceededException', theirs);
  assert.equal(full.$metadata.httpStatusCode, 402);
  assert.equal(full.serviceCode, 'lambda');
  await send('TerminateMicrovm', { microvmIdentifier: made.microvmId }, theirs);
  await server.native('PUT', `/v1/tenants/${tenant.account}/limits`, { microvms: 100, launchesPerSecond: 1 });
  const runs = await Promise.all(Array.from({ length: 4 }, () => send('RunMicrovm', { imageIdentifier: python }, theirs).catch((error) => error)));
  const fast = runs.find((each) => each.name === 'ThrottlingException');
  assert.ok(fast, runs.map((each) => each.name ?? each.state).join());
  assert.equal(fast.$metadata.httpStatusCode, 429);
  assert.ok(fast.retryAfterSeconds >= 1);
  for (const each of runs.filter((one) => one.microvmId)) await send('TerminateMicrovm', { microvmIdentifier: each.microvmId }, theirs);
});
