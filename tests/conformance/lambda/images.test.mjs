// Images, versions, tags and managed images through the official SDK; what needs no Dockerfile.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as sdk from '@aws-sdk/client-lambda-microvms';
import { Server, until } from './server.mjs';

let server;
let client;
let arn;

before(async () => {
  server = await Server.start(['--python-image', 'false'], 771000);
  client = new sdk.LambdaMicrovmsClient(server.config());
  arn = `arn:aws:lambda:eu-local-1:${server.account}:microvm-image:demo`;
  for (let version = 1; version <= 2; ++version)
    await server.native('POST', '/v1/images', { name: 'demo', memoryMib: 512, env: { A: 'b' }, tags: { team: 'red' } });
}, { timeout: 240_000 });
after(() => server?.stop());

const send = (name, input, by = client) => by.send(new sdk[`${name}Command`](input));
const refused = async (name, input, error, by = client) => {
  const thrown = await send(name, input, by).then(() => undefined, (reason) => reason);
  assert.ok(thrown, `${name} was not refused`);
  assert.equal(thrown.name, error, thrown.message);
  return thrown;
};

test('the SDK has 24 operations, and all are served', async () => {
  const names = Object.keys(sdk).filter((name) => name.endsWith('Command') && name !== '$Command' && name !== 'Command').map((name) => name.slice(0, -'Command'.length));
  assert.equal(names.length, 24, names.join());
  const fields = { imageIdentifier: 'x', microvmIdentifier: 'x', imageVersion: '1.0', buildId: 'x', Resource: arn, Tags: {}, TagKeys: ['none'], status: 'ACTIVE', expirationInMinutes: 1, allowedPorts: [{ port: 1 }], name: '-', baseImageArn: 'x', buildRoleArn: 'x', codeArtifact: { uri: 'x' } };
  for (const name of names) {
    const thrown = await send(name, fields).then(() => undefined, (reason) => reason);
    if (thrown) assert.match(thrown.name, /^(ValidationException|ResourceNotFoundException)$/, `${name}: ${thrown.name} ${thrown.message}`);
  }
});

test('an image is shown with its latest version', async () => {
  for (const imageIdentifier of [arn, 'demo']) {
    const image = await send('GetMicrovmImage', { imageIdentifier });
    assert.equal(image.imageArn, arn);
    assert.equal(image.name, 'demo');
    assert.equal(image.state, 'UPDATED');
    assert.equal(image.latestActiveImageVersion, '2.0');
    assert.deepEqual(image.tags, { team: 'red' });
    assert.ok(image.createdAt instanceof Date && image.updatedAt instanceof Date);
  }
  const { items } = await send('ListMicrovmImages', { nameFilter: 'em' });
  assert.deepEqual(items.map((image) => image.name), ['demo']);
  assert.deepEqual((await send('ListMicrovmImages', { nameFilter: 'other' })).items, []);
});

test('versions are listed in pages and shown with what they were made of', async () => {
  const version = await send('GetMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '1.0' });
  assert.equal(version.state, 'SUCCESSFUL');
  assert.equal(version.status, 'ACTIVE');
  assert.deepEqual(version.resources, [{ minimumMemoryInMiB: 512 }]);
  assert.deepEqual(version.environmentVariables, { A: 'b' });
  for (const required of ['baseImageArn', 'buildRoleArn', 'codeArtifact']) assert.ok(version[required], required);
  const first = await send('ListMicrovmImageVersions', { imageIdentifier: arn, maxResults: 1 });
  assert.deepEqual(first.items.map((each) => each.imageVersion), ['2.0']);
  const second = await send('ListMicrovmImageVersions', { imageIdentifier: arn, maxResults: 1, nextToken: first.nextToken });
  assert.deepEqual(second.items.map((each) => each.imageVersion), ['1.0']);
  assert.equal(second.nextToken, undefined);
  await refused('ListMicrovmImageVersions', { imageIdentifier: arn, nextToken: 'x' }, 'ValidationException');
  await refused('GetMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '9.0' }, 'ResourceNotFoundException');
  const builds = (await send('ListMicrovmImageBuilds', { imageIdentifier: arn, imageVersion: '1.0' })).items;
  assert.deepEqual(builds.map(({ buildState, architecture }) => [buildState, architecture]), [['SUCCESSFUL', 'X86_64']]);
  for (const filter of [{ architecture: 'ARM_64' }, { chipset: 'GRAVITON' }, { chipsetGeneration: '4' }])
    assert.deepEqual((await send('ListMicrovmImageBuilds', { imageIdentifier: arn, imageVersion: '1.0', ...filter })).items, []);
  const build = await send('GetMicrovmImageBuild', { imageIdentifier: arn, imageVersion: '1.0', buildId: builds[0].buildId });
  for (const size of ['memorySnapshotSizeInBytes', 'codeInstallSizeInBytes', 'diskSnapshotSizeInBytes'])
    assert.equal(typeof build.snapshotBuild[size], 'number', size);
  await refused('GetMicrovmImageBuild', { imageIdentifier: arn, imageVersion: '1.0', buildId: 'none' }, 'ResourceNotFoundException');
});

test('an inactive version is not run', async () => {
  const off = await send('UpdateMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '2.0', status: 'INACTIVE' });
  assert.equal(off.status, 'INACTIVE');
  assert.equal((await send('GetMicrovmImage', { imageIdentifier: arn })).latestActiveImageVersion, '1.0');
  await refused('RunMicrovm', { imageIdentifier: arn, imageVersion: '2.0' }, 'ResourceNotFoundException');
  const made = await send('RunMicrovm', { imageIdentifier: arn });
  assert.equal(made.imageVersion, '1.0');
  assert.equal(made.imageArn, arn);
  await refused('DeleteMicrovmImage', { imageIdentifier: arn }, 'ConflictException');
  await refused('DeleteMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '1.0' }, 'ConflictException');
  await send('TerminateMicrovm', { microvmIdentifier: made.microvmId });
  await send('UpdateMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '2.0', status: 'ACTIVE' });
});

test('tags come and go', async () => {
  const Resource = arn;
  const tagged = await send('TagResource', { Resource, Tags: { 'a b': 'c', team: 'blue' } });
  assert.equal(tagged.$metadata.httpStatusCode, 204);
  assert.deepEqual((await send('ListTags', { Resource })).Tags, { 'a b': 'c', team: 'blue' });
  assert.equal((await send('UntagResource', { Resource, TagKeys: ['a b', 'none'] })).$metadata.httpStatusCode, 204);
  assert.deepEqual((await send('ListTags', { Resource })).Tags, { team: 'blue' });
  assert.deepEqual((await send('GetMicrovmImage', { imageIdentifier: arn })).tags, { team: 'blue' });
  const error = await refused('TagResource', { Resource, Tags: { 'a\u0001': 'b' } }, 'InvalidParameterValueException');
  assert.equal(error.Type, 'User');
  await refused('TagResource', { Resource: 'arn:aws:lambda:eu-local-1:123456789012:thing:x', Tags: {} }, 'InvalidParameterValueException');
  await refused('ListTags', { Resource: `${arn}-not` }, 'ResourceNotFoundException');
  await refused('ListTags', { Resource: `arn:aws:lambda:eu-local-1:${server.account}:function:f` }, 'ResourceNotFoundException');
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`k${i}`, '']));
  await refused('TagResource', { Resource, Tags: many }, 'InvalidParameterValueException');
});

test('managed images are listed', async () => {
  const arns = [];
  for await (const page of sdk.paginateListManagedMicrovmImages({ client, pageSize: 1 }, {}))
    for (const item of page.items) arns.push(item.imageArn);
  for (const base of ['al2023-1', 'debian-12']) {
    const imageArn = `arn:aws:lambda:eu-local-1:aws:microvm-image:${base}`;
    assert.ok(arns.includes(imageArn), base);
    const { items } = await send('ListManagedMicrovmImageVersions', { imageIdentifier: imageArn });
    assert.deepEqual(items.map(({ imageArn: of, imageVersion, status }) => [of, imageVersion, status]), [[imageArn, '1', 'AVAILABLE']]);
  }
  await refused('ListManagedMicrovmImageVersions', { imageIdentifier: 'arn:aws:lambda:eu-local-1:aws:microvm-image:none' }, 'ResourceNotFoundException');
});

const good = () => ({
  name: 'made', baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:al2023-1',
  buildRoleArn: 'arn:aws:iam::123456789012:role/build', codeArtifact: { uri: 's3://bucket/code.zip' },
});
const wrong = [
  [{ name: 'a b' }, /'name'.*pattern/],
  [{ name: 'x'.repeat(65) }, /'name'.*less than or equal to 64/],
  [{ name: 'demo' }, /already exists/],
  [{ baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:other' }, /not a managed MicroVM image.*al2023-1, debian-12/],
  [{ baseImageVersion: '7' }, /baseImageVersion 7/],
  [{ buildRoleArn: 'role' }, /'buildRoleArn'/],
  [{ codeArtifact: { uri: '123456789012.dkr.ecr.eu-local-1.amazonaws.com/x' } }, /'codeArtifact.uri'/],
  [{ resources: [{ minimumMemoryInMiB: 1000 }] }, /512, 1024, 2048, 4096, 8192/],
  [{ resources: [{ minimumMemoryInMiB: 512 }, { minimumMemoryInMiB: 512 }] }, /'resources'.*less than or equal to 1/],
  [{ cpuConfigurations: [{ architecture: 'ARM_64' }] }, /ARM_64 is not available/],
  [{ cpuConfigurations: [{ architecture: 'MIPS' }] }, /enum value set/],
  [{ additionalOsCapabilities: ['SOME'] }, /enum value set/],
  [{ hooks: { microvmHooks: { run: 'ENABLED' } } }, /port/],
  [{ hooks: { port: 0 } }, /'hooks.port'/],
  [{ hooks: { port: 9000, microvmHooks: { runTimeoutInSeconds: 61 } } }, /'hooks.microvmHooks.runTimeoutInSeconds'/],
  [{ hooks: { port: 9000, microvmImageHooks: { readyTimeoutInSeconds: 3601 } } }, /'hooks.microvmImageHooks.readyTimeoutInSeconds'/],
  [{ environmentVariables: { 'a b': '' } }, /'environmentVariables'.*Map keys/],
  [{ environmentVariables: { a: 'x'.repeat(4097) } }, /'environmentVariables'.*Map values/],
  [{ environmentVariables: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, ''])) }, /'environmentVariables'.*less than or equal to 50/],
  [{ egressNetworkConnectors: Array(2).fill('arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:NO_EGRESS') }, /'egressNetworkConnectors'.*less than or equal to 1/],
  [{ egressNetworkConnectors: ['arn:aws:lambda:eu-local-1:{account}:network-connector:none'] }, /does not exist/],
  [{ tags: { ['k'.repeat(129)]: '' } }, /'tags'.*Map keys/],
];
for (const [change, message] of wrong) {
  test(`CreateMicrovmImage refuses ${JSON.stringify(change).slice(0, 90)}`, async () => {
    const input = JSON.parse(JSON.stringify({ ...good(), ...change }).replace('{account}', server.account));
    const error = await refused('CreateMicrovmImage', input, 'ValidationException');
    assert.match(error.message, message);
  });
}

test('a client token orders one image, and one update', async () => {
  const order = { ...good(), name: 'ordered', hooks: { port: 9000 }, clientToken: 'order-1' };
  const made = await send('CreateMicrovmImage', order);
  assert.equal(made.$metadata.httpStatusCode, 201);
  assert.equal(made.state, 'CREATING');
  for (const required of ['imageArn', 'name', 'createdAt', 'baseImageArn', 'buildRoleArn', 'codeArtifact', 'imageVersion']) assert.ok(made[required], required);
  assert.equal(made.baseImageVersion, '1.0');
  assert.equal(made.hooks.port, 9000);
  const again = await send('CreateMicrovmImage', order);
  assert.deepEqual([again.imageArn, again.imageVersion, again.createdAt], [made.imageArn, '1.0', made.createdAt]);
  const other = await refused('CreateMicrovmImage', { ...order, description: 'another' }, 'ConflictException');
  assert.equal(other.$metadata.httpStatusCode, 409);
  assert.equal(other.resourceType, 'MicrovmImage');
  assert.equal(other.resourceId, made.imageArn);
  // Its bucket does not exist: it fails, and stays so.
  await until(async () => (await send('GetMicrovmImage', { imageIdentifier: 'ordered' })).state === 'CREATE_FAILED');
  const { name, ...change } = good();
  await refused('UpdateMicrovmImage', { imageIdentifier: 'ordered', ...change }, 'ConflictException');
  await refused('UpdateMicrovmImage', { imageIdentifier: 'nothing', ...change }, 'ResourceNotFoundException');
  const update = { imageIdentifier: arn, ...change, clientToken: 'order-2' };
  const first = await send('UpdateMicrovmImage', update);
  assert.equal(first.state, 'UPDATING');
  assert.ok(first.updatedAt instanceof Date);
  const second = await send('UpdateMicrovmImage', update);
  assert.equal(second.imageVersion, first.imageVersion);
  // PUT: what is left out is not inherited.
  assert.equal(second.environmentVariables, undefined);
  await until(async () => (await send('GetMicrovmImage', { imageIdentifier: arn })).state === 'UPDATE_FAILED');
  const image = await send('GetMicrovmImage', { imageIdentifier: arn });
  assert.equal(image.latestActiveImageVersion, '2.0');
  assert.equal(image.latestFailedImageVersion, first.imageVersion);
  assert.equal(image.stateReason, undefined);
  const { items: [build] } = await send('ListMicrovmImageBuilds', { imageIdentifier: arn, imageVersion: first.imageVersion });
  assert.equal(build.buildState, 'FAILED');
  assert.match(build.stateReason, /^S3_NO_SUCH_BUCKET/);
  await send('DeleteMicrovmImageVersion', { imageIdentifier: arn, imageVersion: first.imageVersion });
  // A token ends with its image.
  await send('DeleteMicrovmImage', { imageIdentifier: 'ordered' });
  assert.equal((await send('CreateMicrovmImage', { ...order, description: 'another' })).imageVersion, '1.0');
});

test('versions and images are deleted', async () => {
  const gone = await send('DeleteMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '1.0' });
  assert.equal(gone.state, 'DELETING');
  assert.equal(gone.imageVersion, '1.0');
  await refused('GetMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '1.0' }, 'ResourceNotFoundException');
  await refused('DeleteMicrovmImageVersion', { imageIdentifier: arn, imageVersion: '2.0' }, 'ConflictException');
  const deleted = await send('DeleteMicrovmImage', { imageIdentifier: arn });
  assert.equal(deleted.imageIdentifier, arn);
  assert.equal(deleted.state, 'DELETING');
  await refused('GetMicrovmImage', { imageIdentifier: arn }, 'ResourceNotFoundException');
});
