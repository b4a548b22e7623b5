// Objects through the official S3 client, unmodified.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import * as sdk from '@aws-sdk/client-s3';
import { Server } from './server.mjs';

let server;
let client;
const Bucket = 'code';

before(async () => {
  server = await Server.start(['--python-image', 'false', '--object-max-mib', '300', '--object-quota-mib', '500'], 772000);
  client = new sdk.S3Client(server.config());
  await client.send(new sdk.CreateBucketCommand({ Bucket }));
});
after(() => server?.stop());

const send = (name, input = {}, by = client) => by.send(new sdk[`${name}Command`]({ Bucket, ...input }));
const refused = async (name, input, error, by = client) => {
  const thrown = await send(name, input, by).then(() => undefined, (reason) => reason);
  assert.ok(thrown, `${name} was not refused`);
  assert.equal(thrown.name, error, thrown.message);
  return thrown;
};
const body = async (Key, input = {}) => Buffer.from(await (await send('GetObject', { Key, ...input })).Body.transformToByteArray());

test('buckets are made, found, listed and removed', async () => {
  await refused('CreateBucket', {}, 'BucketAlreadyOwnedByYou');
  await refused('CreateBucket', { Bucket: 'Not_A_Bucket' }, 'InvalidBucketName');
  await send('CreateBucket', { Bucket: 'second', CreateBucketConfiguration: { LocationConstraint: 'eu-local-1' } });
  await send('HeadBucket', { Bucket: 'second' });
  const missing = await refused('HeadBucket', { Bucket: 'missing' }, 'NotFound');
  assert.equal(missing.$metadata.httpStatusCode, 404);
  const { Buckets } = await client.send(new sdk.ListBucketsCommand({}));
  assert.deepEqual(Buckets.map((each) => each.Name), ['code', 'second']);
  assert.ok(Buckets[0].CreationDate instanceof Date);
  await send('DeleteBucket', { Bucket: 'second' });
  await refused('ListObjectsV2', { Bucket: 'second' }, 'NoSuchBucket');
});

test('an object comes back as it went in', async () => {
  const bytes = randomBytes(100_000);
  for (const key of ['plain', 'with space+plus', 'ünïcode/ключ', "a/../b//c'(1)*!", 'trailing/', 'a~b&c=d?e#f%25']) {
    const put = await send('PutObject', { Key: key, Body: bytes, ContentType: 'application/zip', Metadata: { who: 'me' } });
    assert.equal(put.ETag, `"${createHash('md5').update(bytes).digest('hex')}"`);
    const got = await send('GetObject', { Key: key });
    assert.deepEqual(Buffer.from(await got.Body.transformToByteArray()), bytes, key);
    assert.equal(got.ContentType, 'application/zip');
    assert.deepEqual(got.Metadata, { who: 'me' });
    const head = await send('HeadObject', { Key: key });
    assert.equal(head.ContentLength, bytes.length);
    assert.equal(head.ETag, put.ETag);
    assert.ok(Math.abs(head.LastModified - Date.now()) < 60_000);
    await send('DeleteObject', { Key: key });
    await refused('GetObject', { Key: key }, 'NoSuchKey');
  }
  await refused('HeadObject', { Key: 'plain' }, 'NotFound');
  await send('DeleteObject', { Key: 'plain' });  // again is fine
});

test('an empty object is an object', async () => {
  await send('PutObject', { Key: 'empty', Body: '' });
  assert.equal((await send('HeadObject', { Key: 'empty' })).ContentLength, 0);
  assert.equal((await body('empty')).length, 0);
  await refused('GetObject', { Key: 'empty', Range: 'bytes=0-0' }, 'InvalidRange');
  await send('DeleteObject', { Key: 'empty' });
});

// The SDK needs a native package of its own for CRC64NVME; wire/aws_chunked_test.cpp has that one.
for (const ChecksumAlgorithm of ['CRC32', 'CRC32C', 'SHA1', 'SHA256']) {
  test(`a stream with a trailing ${ChecksumAlgorithm} is checked`, async () => {
    const bytes = randomBytes(300_000);
    const put = await send('PutObject', { Key: 'stream', Body: Readable.from([bytes.subarray(0, 1000), bytes.subarray(1000)]), ContentLength: bytes.length, ChecksumAlgorithm });
    assert.ok(put[`Checksum${ChecksumAlgorithm}`]);
    const got = await send('GetObject', { Key: 'stream', ChecksumMode: 'ENABLED' });
    assert.equal(got[`Checksum${ChecksumAlgorithm}`], put[`Checksum${ChecksumAlgorithm}`]);
    assert.deepEqual(Buffer.from(await got.Body.transformToByteArray()), bytes);
    await send('DeleteObject', { Key: 'stream' });
  });
}

test('a wrong checksum is refused and leaves nothing', async () => {
  await refused('PutObject', { Key: 'bad', Body: 'hello', ChecksumCRC32: 'AAAAAA==' }, 'BadDigest');
  await refused('PutObject', { Key: 'bad', Body: 'hello', ContentMD5: 'AAAAAAAAAAAAAAAAAAAAAA==' }, 'BadDigest');
  await refused('HeadObject', { Key: 'bad' }, 'NotFound');
});

test('ranges and conditions', async () => {
  const { ETag } = await send('PutObject', { Key: 'ten', Body: '0123456789' });
  const ranges = { 'bytes=0-3': '0123', 'bytes=7-': '789', 'bytes=-2': '89', 'bytes=5-100': '56789' };
  for (const [Range, text] of Object.entries(ranges)) {
    const got = await send('GetObject', { Key: 'ten', Range });
    assert.equal(got.$metadata.httpStatusCode, 206);
    assert.match(got.ContentRange, /^bytes \d+-\d+\/10$/);
    assert.equal(await got.Body.transformToString(), text);
  }
  await refused('GetObject', { Key: 'ten', Range: 'bytes=10-' }, 'InvalidRange');
  assert.equal((await send('GetObject', { Key: 'ten', IfMatch: ETag })).ContentLength, 10);
  await refused('GetObject', { Key: 'ten', IfMatch: '"other"' }, 'PreconditionFailed');
  await refused('PutObject', { Key: 'ten', Body: 'x', IfNoneMatch: '*' }, 'PreconditionFailed');
  await send('DeleteObject', { Key: 'ten' });
});

test('listing has prefixes, delimiters and pages', async () => {
  const keys = ['a', 'b/1', 'b/2', 'b/c/3', 'b0', 'z'];
  for (const Key of keys) await send('PutObject', { Key: `list/${Key}`, Body: 'x' });
  const top = await send('ListObjectsV2', { Prefix: 'list/', Delimiter: '/' });
  assert.deepEqual(top.Contents.map((each) => each.Key), ['list/a', 'list/b0', 'list/z']);
  assert.deepEqual(top.CommonPrefixes.map((each) => each.Prefix), ['list/b/']);
  const seen = [];
  for await (const page of sdk.paginateListObjectsV2({ client, pageSize: 2 }, { Bucket, Prefix: 'list/' })) {
    assert.ok(page.KeyCount <= 2);
    for (const each of page.Contents) seen.push(each.Key.slice('list/'.length));
  }
  assert.deepEqual(seen, keys);
  const old = await send('ListObjects', { Prefix: 'list/', Delimiter: '/', MaxKeys: 2 });
  assert.deepEqual([old.Contents[0].Key, old.CommonPrefixes[0].Prefix, old.NextMarker], ['list/a', 'list/b/', 'list/b/']);
  const rest = await send('ListObjects', { Prefix: 'list/', Delimiter: '/', Marker: old.NextMarker });
  assert.deepEqual(rest.Contents.map((each) => each.Key), ['list/b0', 'list/z']);
  const removed = await send('DeleteObjects', { Delete: { Objects: keys.map((Key) => ({ Key: `list/${Key}` })) } });
  assert.equal(removed.Deleted.length, keys.length);
  assert.equal((await send('ListObjectsV2', { Prefix: 'list/' })).KeyCount, 0);
});

test('what is not served is refused, not ignored', async () => {
  for (const extra of [{ ServerSideEncryption: 'AES256' }, { ACL: 'public-read' }, { StorageClass: 'GLACIER' }, { Tagging: 'a=b' }])
    await refused('PutObject', { Key: 'no', Body: 'x', ...extra }, 'NotImplemented');
  await refused('CopyObject', { Key: 'no', CopySource: 'code/x' }, 'NotImplemented');
  await refused('GetBucketVersioning', {}, 'NotImplemented');
  await refused('PutObject', { Key: 'no', Body: 'x', ExpectedBucketOwner: '999999999999' }, 'AccessDenied');
  await refused('HeadObject', { Key: 'no' }, 'NotFound');
  await send('PutObject', { Key: 'yes', Body: 'x', ExpectedBucketOwner: server.account, StorageClass: 'STANDARD', ACL: 'private' });
  const got = await send('GetObject', { Key: 'yes', ResponseContentType: 'text/odd', ResponseContentDisposition: 'attachment' });
  assert.equal(got.ContentType, 'text/odd');
  assert.equal(got.ContentDisposition, 'attachment');
  await send('DeleteObject', { Key: 'yes' });
});

test('200 MiB in parts', { timeout: 300_000 }, async () => {
  const Key = 'large';
  const part = randomBytes(20 << 20);
  const { UploadId } = await send('CreateMultipartUpload', { Key, ContentType: 'application/zip' });
  const Parts = [];
  for (let PartNumber = 1; PartNumber <= 10; ++PartNumber) {
    part.writeUInt32BE(PartNumber, 0);
    const { ETag } = await send('UploadPart', { Key, UploadId, PartNumber, Body: part });
    Parts.push({ PartNumber, ETag });
  }
  const listed = await send('ListParts', { Key, UploadId, MaxParts: 4 });
  assert.deepEqual(listed.Parts.map((each) => each.PartNumber), [1, 2, 3, 4]);
  assert.equal(listed.IsTruncated, true);
  await refused('HeadObject', { Key }, 'NotFound');
  await refused('CompleteMultipartUpload', { Key, UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag: '"00"' }] } }, 'InvalidPart');
  await refused('CompleteMultipartUpload', { Key, UploadId, MultipartUpload: { Parts: [Parts[1], Parts[0]] } }, 'InvalidPartOrder');
  const done = await send('CompleteMultipartUpload', { Key, UploadId, MultipartUpload: { Parts } });
  assert.match(done.ETag, /^"[0-9a-f]{32}-10"$/);
  assert.equal((await send('HeadObject', { Key })).ContentLength, 200 << 20);
  const slice = await body(Key, { Range: `bytes=${3 * (20 << 20)}-${3 * (20 << 20) + 99}` });
  part.writeUInt32BE(4, 0);
  assert.deepEqual(slice, part.subarray(0, 100));
  const all = createHash('sha256');
  for await (const piece of (await send('GetObject', { Key })).Body) all.update(piece);
  const expected = createHash('sha256');
  for (let i = 1; i <= 10; ++i) { part.writeUInt32BE(i, 0); expected.update(part); }
  assert.equal(all.digest('hex'), expected.digest('hex'));
  await refused('ListParts', { Key, UploadId }, 'NoSuchUpload');
  await send('DeleteObject', { Key });
});

test('an upload that is aborted is gone', async () => {
  const { UploadId } = await send('CreateMultipartUpload', { Key: 'never' });
  await send('UploadPart', { Key: 'never', UploadId, PartNumber: 1, Body: 'x' });
  await send('AbortMultipartUpload', { Key: 'never', UploadId });
  await refused('UploadPart', { Key: 'never', UploadId, PartNumber: 2, Body: 'x' }, 'NoSuchUpload');
  await refused('HeadObject', { Key: 'never' }, 'NotFound');
});

test('what is too large is refused before it is sent', async () => {
  let asked = 0;
  const Body = new Readable({ read() { asked += 1; this.push(Buffer.alloc(65536)); } });
  const error = await refused('PutObject', { Key: 'huge', Body, ContentLength: 301 * (1 << 20) }, 'EntityTooLarge');
  assert.equal(error.$metadata.httpStatusCode, 400);
  assert.ok(asked < 200, `${asked} pieces were sent`);
  Body.destroy();
  const { UploadId } = await send('CreateMultipartUpload', { Key: 'quota' });
  const piece = Buffer.alloc(200 << 20);
  for (const PartNumber of [1, 2]) await send('UploadPart', { Key: 'quota', UploadId, PartNumber, Body: piece });
  await refused('UploadPart', { Key: 'quota', UploadId, PartNumber: 3, Body: piece }, 'QuotaExceeded');
  await send('AbortMultipartUpload', { Key: 'quota', UploadId });
  await send('PutObject', { Key: 'fits', Body: piece });
  await send('DeleteObject', { Key: 'fits' });
});

test('keys and tenants are told apart', async () => {
  const { accessKeyId, secretAccessKey } = server.credentials;
  const by = (credentials, extra = {}) => new sdk.S3Client(server.config({ credentials, maxAttempts: 1, ...extra }));
  await refused('ListObjectsV2', {}, 'SignatureDoesNotMatch', by({ accessKeyId, secretAccessKey: 'wrong' }));
  await refused('ListObjectsV2', {}, 'InvalidAccessKeyId', by({ accessKeyId: 'AKIAAAAAAAAAAAAAAAAA', secretAccessKey }));
  await refused('ListObjectsV2', {}, 'RequestTimeTooSkewed', by({ accessKeyId, secretAccessKey }, { systemClockOffset: 20 * 60_000 }));
  const other = await server.tenant('other-s3');
  const theirs = by(other.credentials);
  await send('PutObject', { Key: 'mine', Body: 'secret' });
  for (const [name, input] of [['GetObject', { Key: 'mine' }], ['PutObject', { Key: 'mine', Body: 'x' }], ['ListObjectsV2', {}], ['DeleteObject', { Key: 'mine' }], ['DeleteBucket', {}], ['CreateMultipartUpload', { Key: 'mine' }]])
    await refused(name, input, 'NoSuchBucket', theirs);
  await send('CreateBucket', {}, theirs);  // the same name, another bucket
  assert.equal((await send('ListObjectsV2', {}, theirs)).KeyCount, 0);
  await send('DeleteBucket', {}, theirs);
  assert.equal(String(await body('mine')), 'secret');
  await send('DeleteObject', { Key: 'mine' });
});

test('the other ways to name a bucket work', async () => {
  await send('PutObject', { Key: 'k', Body: 'v' });
  const below = new sdk.S3Client(server.config({ endpoint: `${server.url}/s3`, forcePathStyle: true }));
  assert.equal(await (await send('GetObject', { Key: 'k' }, below)).Body.transformToString(), 'v');
  await send('DeleteObject', { Key: 'k' }, below);
});
