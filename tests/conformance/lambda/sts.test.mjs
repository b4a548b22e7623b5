// Identity, sessions, throttling and logs through the official clients, unmodified.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import * as logs from '@aws-sdk/client-cloudwatch-logs';
import * as lambda from '@aws-sdk/client-lambda-microvms';
import * as s3 from '@aws-sdk/client-s3';
import * as sts from '@aws-sdk/client-sts';
import { Server, until } from './server.mjs';

let server;

before(async () => {
  server = await Server.start(['--python-image', 'false', '--aws-rates', 'GetMicrovm=1,ListTags=1',
    '--memory-mib', '4096', '--overcommit', '1', '--suspend-under-pressure', 'false', '--pool-least', '0', '--pool-most', '0'], 773000);
});
after(() => server?.stop());

const everything = { policy: { Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }] } };
const assume = (client, input = {}) => client.send(new sts.AssumeRoleCommand({
  RoleArn: `arn:aws:iam::${server.account}:role/path/deployer`, RoleSessionName: 'me', ...input,
}));

// Debian's command line of AWS.
const cli = (...words) => execFileSync('/usr/bin/aws', ['--endpoint-url', server.url, ...words], {
  encoding: 'utf8', timeout: 60_000, stdio: 'pipe',
  env: {
    PATH: '/usr/bin:/bin', HOME: server.dir, AWS_REGION: 'eu-local-1', AWS_PAGER: '', AWS_EC2_METADATA_DISABLED: 'true',
    AWS_ACCESS_KEY_ID: server.credentials.accessKeyId, AWS_SECRET_ACCESS_KEY: server.credentials.secretAccessKey,
  },
});

test('the command line knows who it is, and copies files', { timeout: 240_000 }, () => {
  const me = JSON.parse(cli('sts', 'get-caller-identity'));
  assert.deepEqual(me, { UserId: server.credentials.accessKeyId, Account: server.account, Arn: `arn:aws:iam::${server.account}:user/first` });
  const file = join(server.dir, 'a file');
  writeFileSync(file, Buffer.alloc(9 << 20, 'x')); // long enough to go in parts
  cli('s3', 'mb', 's3://line');
  cli('s3', 'cp', file, 's3://line/folder/a file', '--no-progress');
  assert.match(cli('s3', 'ls', 's3://line/folder/'), /^\S+ \S+ +9437184 a file\n$/);
  cli('s3', 'cp', 's3://line/folder/a file', `${file}.back`, '--no-progress');
  assert.ok(readFileSync(file).equals(readFileSync(`${file}.back`)));
  cli('s3', 'rb', 's3://line', '--force');
  assert.equal(cli('s3', 'ls'), '');
  assert.throws(() => cli('s3', 'ls', 's3://line'), /NoSuchBucket/);
});

test('who am I', async () => {
  const client = new sts.STSClient(server.config());
  const me = await client.send(new sts.GetCallerIdentityCommand({}));
  assert.equal(me.Account, server.account);
  assert.equal(me.UserId, server.credentials.accessKeyId);
  assert.equal(me.Arn, `arn:aws:iam::${server.account}:user/first`);
  const wrong = new sts.STSClient(server.config({ credentials: { accessKeyId: server.credentials.accessKeyId, secretAccessKey: 'x' }, maxAttempts: 1 }));
  await assert.rejects(wrong.send(new sts.GetCallerIdentityCommand({})), { name: 'SignatureDoesNotMatch' });
});

test('a session works everywhere, until its key is revoked', async () => {
  const tenant = await server.tenant('sessions');
  const own = server.config({ credentials: tenant.credentials });
  await server.native('PUT', '/v1/roles/deployer', everything, tenant.apiKey);
  const made = await assume(new sts.STSClient(own), { RoleArn: `arn:aws:iam::${tenant.account}:role/deployer`, DurationSeconds: 900 });
  assert.equal(made.AssumedRoleUser.Arn, `arn:aws:sts::${tenant.account}:assumed-role/deployer/me`);
  const { AccessKeyId, SecretAccessKey, SessionToken, Expiration } = made.Credentials;
  assert.match(AccessKeyId, /^ASIA/);
  assert.ok(Math.abs(Expiration - Date.now() - 900_000) < 60_000);
  const config = (change = {}) => server.config({ maxAttempts: 1, credentials: { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken, ...change } });
  const me = await new sts.STSClient(config()).send(new sts.GetCallerIdentityCommand({}));
  assert.equal(me.Arn, made.AssumedRoleUser.Arn);
  await new lambda.LambdaMicrovmsClient(config()).send(new lambda.ListMicrovmsCommand({}));
  const bucket = new s3.S3Client(config());
  await bucket.send(new s3.CreateBucketCommand({ Bucket: 'session' }));
  await bucket.send(new s3.PutObjectCommand({ Bucket: 'session', Key: 'k', Body: 'v' }));
  const list = (change) => new lambda.LambdaMicrovmsClient(config(change)).send(new lambda.ListMicrovmsCommand({}));
  await assert.rejects(list({ sessionToken: undefined }), { name: 'UnrecognizedClientException' });
  await assert.rejects(list({ secretAccessKey: 'x' }), { name: 'InvalidSignatureException' });
  await assert.rejects(list({ sessionToken: `${SessionToken.slice(0, 20)}AAAA${SessionToken.slice(24)}` }), { name: 'UnrecognizedClientException' });
  await server.native('DELETE', `/v1/keys/${tenant.keyId}`, undefined, tenant.apiKey);
  await assert.rejects(list(), { name: 'ExpiredTokenException' });
});

test('roles of others, wrong names and narrowing are refused', async () => {
  const client = new sts.STSClient(server.config());
  await assert.rejects(assume(client), { name: 'AccessDenied' });  // not yet there
  await server.native('PUT', '/v1/roles/deployer', everything);
  await assert.rejects(assume(client, { RoleArn: 'arn:aws:iam::999999999999:role/other-role' }), { name: 'AccessDenied' });
  await assert.rejects(assume(client, { RoleSessionName: 'a b' }), { name: 'ValidationError' });
  await assert.rejects(assume(client, { DurationSeconds: 60 }), { name: 'ValidationError' });
  await assert.rejects(assume(client, { Policy: '{}' }), { name: 'ValidationError' });
});

test('throttling tells when to come again', async () => {
  const client = new lambda.LambdaMicrovmsClient(server.config({ maxAttempts: 1 }));
  const get = () => client.send(new lambda.GetMicrovmCommand({ microvmIdentifier: 'microvm-none' })).catch((error) => error);
  const errors = await Promise.all(Array.from({ length: 5 }, get));
  const throttled = errors.filter((error) => error.name === 'ThrottlingException');
  assert.ok(throttled.length >= 3, errors.map((error) => error.name).join());
  assert.equal(throttled[0].$metadata.httpStatusCode, 429);
  assert.ok(throttled[0].retryAfterSeconds >= 1);
  assert.equal(throttled[0].quotaCode, 'GetMicrovm');
  const Resource = `arn:aws:lambda:eu-local-1:${server.account}:microvm-image:none`;
  const tags = await Promise.all(Array.from({ length: 5 }, () => client.send(new lambda.ListTagsCommand({ Resource })).catch((error) => error)));
  const many = tags.find((error) => error.name === 'TooManyRequestsException');
  assert.ok(many, tags.map((error) => error.name).join());
  assert.equal(many.$metadata.httpStatusCode, 429);
  assert.equal(many.Type, 'User');
});

test('what an application printed is in its log group', { timeout: 240_000 }, async () => {
  await server.native('POST', '/v1/images', {
    name: 'talker', memoryMib: 512, app: { argv: ['/bin/sh', '-c', 'echo hello; echo good bye; exec sleep 100000'] },
  });
  const client = new lambda.LambdaMicrovmsClient(server.config());
  const once = new lambda.LambdaMicrovmsClient(server.config({ maxAttempts: 1 }));
  const run = (input) => once.send(new lambda.RunMicrovmCommand({ imageIdentifier: 'talker', ...input }));
  const usual = await run({});
  const named = await run({ logging: { cloudWatch: { logGroup: 'mine', logStream: 'here' } } });
  const silent = await run({ logging: { disabled: {} } });
  const watch = new logs.CloudWatchLogsClient(server.config());
  const { logGroups } = await watch.send(new logs.DescribeLogGroupsCommand({}));
  assert.deepEqual(logGroups.map((each) => each.logGroupName).sort(), ['/aws/lambda-microvms/talker', 'mine']);
  const group = { logGroupName: '/aws/lambda-microvms/talker' };
  const { logStreams } = await watch.send(new logs.DescribeLogStreamsCommand(group));
  assert.equal(logStreams.length, 1);
  assert.match(logStreams[0].logStreamName, new RegExp(`^\\d{4}/\\d\\d/\\d\\d\\[1\\.0\\]${usual.microvmId}$`));
  const stream = { ...group, logStreamName: logStreams[0].logStreamName };
  const got = await until(async () => {
    const { events } = await watch.send(new logs.GetLogEventsCommand({ ...stream, startFromHead: true }));
    return events.length >= 2 && events;
  });
  assert.deepEqual(got.map((event) => event.message), ['hello', 'good bye']);
  const one = await watch.send(new logs.GetLogEventsCommand({ ...stream, startFromHead: true, limit: 1 }));
  const two = await watch.send(new logs.GetLogEventsCommand({ ...stream, limit: 1, nextToken: one.nextForwardToken }));
  assert.deepEqual([one, two].map((page) => page.events[0].message), ['hello', 'good bye']);
  const end = await watch.send(new logs.GetLogEventsCommand({ ...stream, nextToken: two.nextForwardToken }));
  assert.deepEqual(end.events, []);
  assert.equal(end.nextForwardToken, two.nextForwardToken);  // how clients see the end
  const { events } = await watch.send(new logs.FilterLogEventsCommand({ ...group, filterPattern: 'good -hello' }));
  assert.deepEqual(events.map((event) => event.message), ['good bye']);
  await assert.rejects(watch.send(new logs.FilterLogEventsCommand({ logGroupName: 'none' })), { name: 'ResourceNotFoundException' });
  assert.deepEqual(cli('logs', 'describe-log-groups', '--query', 'logGroups[].logGroupName', '--output', 'text').trim().split('\t').sort(), ['/aws/lambda-microvms/talker', 'mine']);
  const tail = cli('logs', 'tail', '/aws/lambda-microvms/talker', '--format', 'short');
  assert.match(tail, /^\S+ hello\n\S+ good bye\n$/);
  const all = [usual, named, silent];
  // Until the host is full.
  let full;
  while (!full && all.length < 20) all.push(await run({}).catch((error) => { full = error; return usual; }));
  assert.equal(full?.name, 'InsufficientCapacityException');
  assert.equal(full.$metadata.httpStatusCode, 500);
  assert.ok(full.message);
  for (const { microvmId } of all) await client.send(new lambda.TerminateMicrovmCommand({ microvmIdentifier: microvmId }));
});
