// Roles through the official clients, unmodified: a guest finds credentials where AWS's SDKs look for them, and they open
// what the role's policy allows and nothing else, as long as the microVM lives.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as logs from '@aws-sdk/client-cloudwatch-logs';
import * as lambda from '@aws-sdk/client-lambda-microvms';
import * as s3 from '@aws-sdk/client-s3';
import * as sts from '@aws-sdk/client-sts';
import { Server, until } from './server.mjs';

const python = 'arn:aws:lambda:eu-local-1:aws:microvm-image:python';
const life = 60; // seconds; credentials are replaced after half of it
let server;
let own; // clients with the tenant's own keys

const clients = (credentials) => {
  const config = server.config({ maxAttempts: 1, ...(credentials && { credentials }) });
  return {
    lambda: new lambda.LambdaMicrovmsClient(config), logs: new logs.CloudWatchLogsClient(config),
    s3: new s3.S3Client({ ...config, forcePathStyle: true }), sts: new sts.STSClient(config),
  };
};
const arn = (name) => `arn:aws:iam::${server.account}:role/${name}`;
const put = (name, ...statements) => server.native('PUT', `/v1/roles/${name}`, {
  policy: { Version: '2012-10-17', Statement: statements.map((each) => ({ Effect: 'Allow', ...each })) },
});
const refused = async (call, name, text) => {
  const thrown = await call.then(() => undefined, (reason) => reason);
  assert.ok(thrown, 'was not refused');
  assert.equal(thrown.name, name, thrown.message);
  if (text) assert.match(thrown.message, text);
  return thrown;
};

// What an SDK does: a token, the role's name, its credentials. Prints what came of each step.
const chain = `
import json, urllib.error, urllib.request
def ask(path, method="GET", **headers):
    request = urllib.request.Request("http://169.254.169.254" + path, method=method,
                                     headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
found = {"open": ask("/latest/meta-data/iam/security-credentials/")[0]}
token = ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")[1]
found["forwarded"] = ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60", X_Forwarded_For="a")[0]
found["id"] = ask("/latest/meta-data/instance-id", X_aws_ec2_metadata_token=token)[1]
found["region"] = ask("/latest/meta-data/placement/region", X_aws_ec2_metadata_token=token)[1]
found["document"] = json.loads(ask("/latest/dynamic/instance-identity/document", X_aws_ec2_metadata_token=token)[1])
found["status"], found["role"] = ask("/latest/meta-data/iam/security-credentials/", X_aws_ec2_metadata_token=token)
if found["status"] == 200:
    found["keys"] = json.loads(ask("/latest/meta-data/iam/security-credentials/" + found["role"], X_aws_ec2_metadata_token=token)[1])
print(json.dumps(found))
`;
const look = async (id) => {
  const done = await server.native('POST', `/v1/microvms/${id}/exec`, { argv: ['python3', '-c', chain], timeoutMs: 60_000 });
  assert.equal(done.exitCode, 0, JSON.stringify(done));
  return JSON.parse(done.stdout);
};
const credentialsOf = async (id) => {
  const { keys } = await look(id);
  assert.ok(keys, 'the guest has no credentials');
  return { accessKeyId: keys.AccessKeyId, secretAccessKey: keys.SecretAccessKey, sessionToken: keys.Token, expires: keys.Expiration };
};

const run = async (input = {}) => {
  const { microvmId } = await own.lambda.send(new lambda.RunMicrovmCommand({ imageIdentifier: python, ...input }));
  await until(async () => {
    const { state, stateReason } = await own.lambda.send(new lambda.GetMicrovmCommand({ microvmIdentifier: microvmId }));
    assert.ok(['PENDING', 'RUNNING'].includes(state), stateReason);
    return state === 'RUNNING';
  });
  return microvmId;
};
const terminate = (id) => own.lambda.send(new lambda.TerminateMicrovmCommand({ microvmIdentifier: id }));
const whoami = (by) => by.sts.send(new sts.GetCallerIdentityCommand({}));

before(async () => {
  server = await Server.start(['--credential-seconds', String(life)], 775000);
  own = clients();
  await server.waitForPython();
  await own.s3.send(new s3.CreateBucketCommand({ Bucket: 'shared' }));
  await own.s3.send(new s3.PutObjectCommand({ Bucket: 'shared', Key: 'mine/given', Body: 'hello' }));
  await own.s3.send(new s3.PutObjectCommand({ Bucket: 'shared', Key: 'other/secret', Body: 'secret' }));
  await put('prefix',
    { Action: ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'], Resource: 'arn:aws:s3:::shared/mine/*' },
    { Action: 's3:ListBucket', Resource: 'arn:aws:s3:::shared', Condition: { StringLike: { 's3:prefix': 'mine/*' } } });
}, { timeout: 300_000 });
after(() => server?.stop());

test('roles are made, shown, replaced and removed', async () => {
  const made = await put('some.role', { Action: 's3:*', Resource: '*' });
  assert.equal(made.arn, arn('some.role'));
  const again = await put('some.role', { Action: 'lambda:*', Resource: '*' });
  assert.equal(again.id, made.id);
  const shown = await server.native('GET', '/v1/roles/some.role');
  assert.deepEqual(shown, again);
  assert.deepEqual(shown.policy.Statement, [{ Effect: 'Allow', Action: ['lambda:*'], Resource: ['*'] }]);
  const { items } = await server.native('GET', '/v1/roles');
  assert.ok(items.some((each) => each.name === 'some.role'));
  const tenant = await server.tenant('roles-of-others');
  assert.deepEqual((await server.native('GET', '/v1/roles', undefined, tenant.apiKey)).items, []);
  await assert.rejects(server.native('DELETE', '/v1/roles/some.role', undefined, tenant.apiKey), /404/);
  await assert.rejects(server.native('PUT', '/v1/roles/bad', { policy: { Statement: [{ Effect: 'Allow', NotAction: 's3:*', Resource: '*' }] } }), /NotAction/);
  await assert.rejects(server.native('PUT', '/v1/roles/bad', {}), /policy/);
  await assert.rejects(server.native('PUT', '/v1/roles/b%20d', { policy: { Statement: [] } }), /400/);
  await server.native('DELETE', '/v1/roles/some.role');
  await assert.rejects(server.native('GET', '/v1/roles/some.role'), /404/);
});

test('a role that is not there cannot be given', async () => {
  const wrong = (executionRoleArn) => own.lambda.send(new lambda.RunMicrovmCommand({ imageIdentifier: python, executionRoleArn }));
  await refused(wrong(arn('none')), 'ValidationException', /does not exist/);
  await refused(wrong('arn:aws:iam::999999999999:role/prefix'), 'AccessDeniedException', /iam:PassRole/);
  await assert.rejects(server.native('POST', '/v1/microvms', { image: 'python', role: 'none' }), /404/);
});

test('without a role a guest finds no credentials', async () => {
  const id = await run();
  const found = await look(id);
  assert.equal(found.open, 401);
  assert.equal(found.forwarded, 403);
  assert.equal(found.status, 404);
  assert.equal(found.id, id);
  assert.equal(found.region, 'eu-local-1');
  assert.deepEqual(found.document, {
    accountId: server.account, architecture: 'x86_64', availabilityZone: 'eu-local-1a', instanceId: id, region: 'eu-local-1', version: '2017-09-30',
  });
  await terminate(id);
});

test('a guest reads and writes its prefix and nothing else, until it ends', { timeout: 240_000 }, async () => {
  // Without a network: the metadata needs none.
  const id = await run({
    executionRoleArn: arn('path/prefix'),
    egressNetworkConnectors: ['arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:NO_EGRESS'],
  });
  const seen = await own.lambda.send(new lambda.GetMicrovmCommand({ microvmIdentifier: id }));
  assert.equal(seen.executionRoleArn, arn('path/prefix'));
  assert.equal((await server.native('GET', `/v1/microvms/${id}`)).role, 'prefix');
  const found = await look(id);
  assert.equal(found.open, 401);
  assert.equal(found.role, 'execution_role');
  assert.equal(found.keys.Code, 'Success');
  assert.equal(found.keys.Type, 'AWS-HMAC');
  const left = new Date(found.keys.Expiration) - Date.now();
  assert.ok(left > 0 && left <= life * 1000, found.keys.Expiration);

  const guest = clients(await credentialsOf(id));
  const me = await whoami(guest);
  assert.equal(me.Arn, `arn:aws:sts::${server.account}:assumed-role/prefix/${id}`);
  assert.match(me.UserId, new RegExp(`^AROA[A-Z2-7]+:${id}$`));
  const get = (Key) => guest.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key }));
  assert.equal(await (await get('mine/given')).Body.transformToString(), 'hello');
  await guest.s3.send(new s3.PutObjectCommand({ Bucket: 'shared', Key: 'mine/made', Body: 'x' }));
  const listed = await guest.s3.send(new s3.ListObjectsV2Command({ Bucket: 'shared', Prefix: 'mine/' }));
  assert.deepEqual(listed.Contents.map((each) => each.Key), ['mine/given', 'mine/made']);

  const who = `User: ${me.Arn} is not authorized to perform: `;
  await refused(get('other/secret'), 'AccessDenied', new RegExp(`^${who}s3:GetObject on resource: arn:aws:s3:::shared/other/secret because no identity-based policy allows the s3:GetObject action$`));
  for (const Key of ['mine', 'mine-too', 'other/mine/x', 'Mine/x'])
    await refused(guest.s3.send(new s3.PutObjectCommand({ Bucket: 'shared', Key, Body: 'x' })), 'AccessDenied');
  // A key is a name, not a path: dots lead nowhere.
  await guest.s3.send(new s3.PutObjectCommand({ Bucket: 'shared', Key: 'mine/../other/secret', Body: 'x' }));
  const secret = await own.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key: 'other/secret' }));
  assert.equal(await secret.Body.transformToString(), 'secret');
  await guest.s3.send(new s3.DeleteObjectCommand({ Bucket: 'shared', Key: 'mine/../other/secret' }));
  await refused(guest.s3.send(new s3.ListObjectsV2Command({ Bucket: 'shared' })), 'AccessDenied');
  await refused(guest.s3.send(new s3.ListObjectsV2Command({ Bucket: 'shared', Prefix: 'other/' })), 'AccessDenied');
  await refused(guest.s3.send(new s3.CreateMultipartUploadCommand({ Bucket: 'shared', Key: 'other/x' })), 'AccessDenied');
  const both = await guest.s3.send(new s3.DeleteObjectsCommand({ Bucket: 'shared', Delete: { Objects: [{ Key: 'mine/made' }, { Key: 'other/secret' }] } }));
  assert.deepEqual(both.Deleted.map((each) => each.Key), ['mine/made']);
  assert.deepEqual(both.Errors.map((each) => [each.Key, each.Code]), [['other/secret', 'AccessDenied']]);
  await own.s3.send(new s3.HeadObjectCommand({ Bucket: 'shared', Key: 'other/secret' }));
  await refused(guest.lambda.send(new lambda.ListMicrovmsCommand({})), 'AccessDeniedException', new RegExp(`^${who}lambda:ListMicrovms on resource: \\*`));
  const native = await fetch(`${server.url}/v1/microvms`, { headers: { authorization: `Bearer ${found.keys.Token}` } });
  assert.equal(native.status, 401);

  await terminate(id);
  await refused(get('mine/given'), 'ExpiredToken');
  await refused(whoami(guest), 'ExpiredToken');
  await refused(guest.lambda.send(new lambda.ListMicrovmsCommand({})), 'ExpiredTokenException');
});

test('credentials are fresh after a resume, and replaced before they end', { timeout: 300_000 }, async () => {
  const id = await run({ executionRoleArn: arn('prefix') });
  const first = await credentialsOf(id);
  await own.lambda.send(new lambda.SuspendMicrovmCommand({ microvmIdentifier: id }));
  await own.lambda.send(new lambda.ResumeMicrovmCommand({ microvmIdentifier: id }));
  const second = await credentialsOf(id);
  assert.notEqual(second.accessKeyId, first.accessKeyId);
  await whoami(clients(second));
  // Later: others, before those are over.
  const third = await until(async () => {
    const now = await credentialsOf(id);
    return now.accessKeyId !== second.accessKeyId && now;
  }, life * 1000);
  assert.ok(Date.now() < new Date(second.expires), 'replaced too late');
  await whoami(clients(second));
  await whoami(clients(third));
  await refused(whoami(clients({ ...third, sessionToken: second.sessionToken })), 'InvalidClientTokenId');
  await terminate(id);
});

test('a fork has credentials of its own', { timeout: 240_000 }, async () => {
  const { id } = await server.native('POST', '/v1/microvms', { image: 'python', role: 'prefix' });
  const before = await credentialsOf(id);
  const { items: [child] } = await server.native('POST', `/v1/microvms/${id}/fork`, { count: 1 });
  assert.equal(child.role, 'prefix');
  const ofChild = await credentialsOf(child.id);
  assert.match((await whoami(clients(ofChild))).Arn, new RegExp(`/${child.id}$`));
  assert.match((await whoami(clients(await credentialsOf(id)))).Arn, new RegExp(`/${id}$`));
  await terminate(child.id);
  await refused(whoami(clients(ofChild)), 'ExpiredToken');
  await whoami(clients(before));
  await terminate(id);
});

test('a policy changes at once, and ends with its role', { timeout: 240_000 }, async () => {
  await put('changing', { Action: 's3:GetObject', Resource: '*' });
  const id = await run({ executionRoleArn: arn('changing') });
  const guest = clients(await credentialsOf(id));
  const get = () => guest.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key: 'mine/given' }));
  await get();
  await put('changing', { Action: '*', Resource: '*' }, { Effect: 'Deny', Action: 's3:Get*', Resource: 'arn:aws:s3:::shared/*' });
  await refused(get(), 'AccessDenied', /explicit deny/);
  await guest.s3.send(new s3.ListBucketsCommand({}));
  await server.native('DELETE', '/v1/roles/changing');
  await refused(whoami(guest), 'ExpiredToken');
  await put('changing', { Action: '*', Resource: '*' });
  await refused(whoami(guest), 'ExpiredToken');
  await terminate(id);
});

const assume = async (by, name, extra = {}) => {
  const { Credentials: made } = await by.sts.send(new sts.AssumeRoleCommand({ RoleArn: arn(name), RoleSessionName: 'session', ...extra }));
  return clients({ accessKeyId: made.AccessKeyId, secretAccessKey: made.SecretAccessKey, sessionToken: made.SessionToken });
};

test('a role that is taken allows what it allows', async () => {
  await put('taker', { Action: 'sts:AssumeRole', Resource: arn('prefix') });
  const prefix = await assume(own, 'prefix');
  await prefix.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key: 'mine/given' }));
  await refused(prefix.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key: 'other/secret' })), 'AccessDenied');
  await refused(assume(prefix, 'taker'), 'AccessDenied', /sts:AssumeRole/);
  const taker = await assume(own, 'taker');
  await refused(assume(taker, 'taker'), 'AccessDenied');
  await refused(assume(taker, 'prefix', { DurationSeconds: 7200 }), 'ValidationError');
  const taken = await assume(taker, 'prefix');
  assert.equal((await whoami(taken)).Arn, `arn:aws:sts::${server.account}:assumed-role/prefix/session`);
  await refused(assume(own, 'none'), 'AccessDenied');
});

test('what is missing is denied to who may not list', async () => {
  await put('lister', { Action: 's3:GetObject', Resource: 'arn:aws:s3:::*' }, { Action: 's3:ListBucket', Resource: 'arn:aws:s3:::shared' });
  await put('reader', { Action: 's3:GetObject', Resource: 'arn:aws:s3:::*' });
  const missing = { Bucket: 'shared', Key: 'mine/none' };
  const status = async (by, command) => (await by.s3.send(command).then(() => undefined, (reason) => reason)).$metadata.httpStatusCode;
  const lister = await assume(own, 'lister');
  await refused(lister.s3.send(new s3.GetObjectCommand(missing)), 'NoSuchKey');
  assert.equal(await status(lister, new s3.HeadObjectCommand(missing)), 404);
  const reader = await assume(own, 'reader');
  await reader.s3.send(new s3.GetObjectCommand({ Bucket: 'shared', Key: 'mine/given' }));
  await refused(reader.s3.send(new s3.GetObjectCommand(missing)), 'AccessDenied', /s3:ListBucket on resource: arn:aws:s3:::shared /);
  assert.equal(await status(reader, new s3.HeadObjectCommand(missing)), 403);
  await refused(reader.s3.send(new s3.GetObjectCommand({ Bucket: 'absent', Key: 'x' })), 'NoSuchBucket');
  await refused(own.s3.send(new s3.GetObjectCommand(missing)), 'NoSuchKey');
});

test('an artifact is read with what the build role allows', { timeout: 120_000 }, async () => {
  const reason = async (name, buildRoleArn, key) => {
    await own.lambda.send(new lambda.CreateMicrovmImageCommand({
      name, baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:debian-12', buildRoleArn, codeArtifact: { uri: `s3://shared/${key}` },
    }));
    const version = await until(async () => {
      const now = await own.lambda.send(new lambda.GetMicrovmImageVersionCommand({ imageIdentifier: name, imageVersion: '1.0' }));
      return now.state === 'FAILED' && now;
    });
    return version.stateReason;
  };
  assert.match(await reason('role-denies', arn('prefix'), 'other/secret'), /^S3_ACCESS_DENIED: .*prefix.*arn:aws:s3:::shared\/other\/secret$/);
  assert.match(await reason('role-allows', arn('prefix'), 'mine/given'), /^ARCHIVE_INVALID/);
  // A role that IAM made elsewhere is not known here, and limits nothing.
  assert.match(await reason('role-elsewhere', 'arn:aws:iam::123456789012:role/prefix', 'other/secret'), /^ARCHIVE_INVALID/);
});

test('a role cannot give what it does not have', { timeout: 240_000 }, async () => {
  const connector = (name) => `arn:aws:lambda:eu-local-1:aws:network-connector:aws-network-connector:${name}`;
  await put('runner',
    { Action: ['lambda:RunMicrovm', 'lambda:TerminateMicrovm', 'lambda:CreateMicrovmImage'], Resource: ['*:aws:microvm-image:python', '*:microvm-image:new'] },
    { Action: 'lambda:PassNetworkConnector', Resource: [connector('HTTP_INGRESS'), connector('NO_EGRESS')] },
    { Action: 'iam:PassRole', Resource: arn('prefix') });
  const runner = await assume(own, 'runner');
  const start = (input) => runner.lambda.send(new lambda.RunMicrovmCommand({ imageIdentifier: 'python', egressNetworkConnectors: [connector('NO_EGRESS')], ...input }));
  await refused(start({ executionRoleArn: arn('runner') }), 'AccessDeniedException', /iam:PassRole/);
  await refused(start({ egressNetworkConnectors: undefined }), 'AccessDeniedException', /PassNetworkConnector.*INTERNET_EGRESS/);
  await refused(start({ ingressNetworkConnectors: [connector('SHELL_INGRESS')] }), 'AccessDeniedException', /PassNetworkConnector.*SHELL_INGRESS/);
  const { microvmId } = await start({ executionRoleArn: arn('prefix') });
  await refused(runner.lambda.send(new lambda.GetMicrovmCommand({ microvmIdentifier: microvmId })), 'AccessDeniedException', /lambda:GetMicrovm on resource: arn:aws:lambda:eu-local-1:aws:microvm-image:python/);
  await runner.lambda.send(new lambda.TerminateMicrovmCommand({ microvmIdentifier: microvmId }));
  const image = (buildRoleArn) => runner.lambda.send(new lambda.CreateMicrovmImageCommand({
    name: 'new', baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:debian-12', buildRoleArn, codeArtifact: { uri: 's3://shared/other/secret' },
  }));
  await refused(image(arn('runner')), 'AccessDeniedException', /iam:PassRole/);
  await refused(image(arn('prefix')), 'AccessDeniedException', /s3:GetObject on resource: arn:aws:s3:::shared\/other\/secret/);
});

// Every operation there is, with an input that is well formed.
const everything = () => {
  const vm = { microvmIdentifier: 'microvm-00000000-0000-0000-0000-000000000000' };
  const image = { imageIdentifier: 'python' };
  const version = { ...image, imageVersion: '1.0' };
  const order = { baseImageArn: 'arn:aws:lambda:eu-local-1:aws:microvm-image:debian-12', buildRoleArn: arn('prefix'), codeArtifact: { uri: 's3://shared/x' } };
  const tagged = { Resource: `arn:aws:lambda:eu-local-1:${server.account}:microvm-image:x` };
  const object = { Bucket: 'shared', Key: 'mine/given' };
  const upload = { ...object, UploadId: 'x' };
  const group = { logGroupName: 'x' };
  return {
    lambda: [lambda, {
      RunMicrovm: image, GetMicrovm: vm, ListMicrovms: {}, SuspendMicrovm: vm, ResumeMicrovm: vm, TerminateMicrovm: vm,
      CreateMicrovmAuthToken: { ...vm, expirationInMinutes: 5, allowedPorts: [{ port: 80 }] }, CreateMicrovmShellAuthToken: { ...vm, expirationInMinutes: 5 },
      CreateMicrovmImage: { name: 'x', ...order }, UpdateMicrovmImage: { ...image, ...order }, GetMicrovmImage: image, ListMicrovmImages: {}, DeleteMicrovmImage: image,
      GetMicrovmImageVersion: version, ListMicrovmImageVersions: image, UpdateMicrovmImageVersion: { ...version, status: 'ACTIVE' }, DeleteMicrovmImageVersion: version,
      GetMicrovmImageBuild: { ...version, buildId: 'x' }, ListMicrovmImageBuilds: version, ListManagedMicrovmImages: {}, ListManagedMicrovmImageVersions: image,
      TagResource: { ...tagged, Tags: { a: 'b' } }, UntagResource: { ...tagged, TagKeys: ['a'], tagKeys: ['a'] }, ListTags: tagged,
    }],
    s3: [s3, {
      ListBuckets: {}, CreateBucket: { Bucket: 'another' }, HeadBucket: { Bucket: 'shared' }, DeleteBucket: { Bucket: 'shared' }, GetBucketLocation: { Bucket: 'shared' },
      ListObjects: { Bucket: 'shared' }, ListObjectsV2: { Bucket: 'shared' }, GetObject: object, HeadObject: object, PutObject: { ...object, Body: 'x' }, DeleteObject: object,
      CreateMultipartUpload: object, UploadPart: { ...upload, PartNumber: 1, Body: 'x' }, CompleteMultipartUpload: { ...upload, MultipartUpload: { Parts: [{ PartNumber: 1, ETag: 'x' }] } },
      AbortMultipartUpload: upload, ListParts: upload,
    }],
    logs: [logs, { DescribeLogGroups: group, DescribeLogStreams: group, GetLogEvents: { ...group, logStreamName: 'x' }, FilterLogEvents: group }],
    sts: [sts, { AssumeRole: { RoleArn: arn('prefix'), RoleSessionName: 'me' } }],
  };
};

test('a role without a policy may do nothing', async () => {
  await put('nothing');
  const nobody = await assume(own, 'nothing');
  let count = 0;
  for (const [service, [sdk, operations]] of Object.entries(everything())) {
    for (const [name, input] of Object.entries(operations)) {
      const thrown = await nobody[service].send(new sdk[`${name}Command`](input)).then(() => undefined, (reason) => reason);
      assert.ok(thrown, `${name} was not refused`);
      // An answer to HEAD has no body to say so.
      if (name.startsWith('Head')) assert.equal(thrown.$metadata.httpStatusCode, 403, name);
      else assert.match(thrown.name, /^AccessDenied(Exception)?$/, `${name}: ${thrown.name} ${thrown.message}`);
      count += 1;
    }
  }
  assert.equal(count, 24 + 16 + 4 + 1);
  await whoami(nobody);
});
