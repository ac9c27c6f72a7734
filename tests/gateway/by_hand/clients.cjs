// Clients of S3 for JavaScript, unmodified, on a branch.  The environment names the service:
// ENDPOINT, ACCESS_KEY, SECRET_KEY, BUCKET, PREFIX (a branch and a folder, with `/` at its end) and
// MANY (a folder with 2,505 objects).  Prints a line for each operation that works, and fails at
// the first one that does not.
'use strict';
const assert = require('node:assert');
const crypto = require('node:crypto');
const aws = require('@aws-sdk/client-s3');
const { NodeHttpHandler } = require('@smithy/node-http-handler');
const minio = require('minio');

const { ENDPOINT, ACCESS_KEY, SECRET_KEY, BUCKET, PREFIX, MANY } = process.env;
const MIB = 1 << 20;
const NAMES = [
  'a b', 'a+b', 'a%2Fb', 'a%b', 'a&b', 'ü', '😀', 'q"\'<>', '#?=;@:$,', '[]{}|^`~!*()', 'b\\c',
  'x//y', 'tab\t', 'cr\r', 'nl\n',
];
const SIZES = [0, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 64 * MIB];

function content(size) {
  const block = crypto.createHash('sha512').update('graveler').digest();
  return Buffer.alloc(size, block);
}

async function whole(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function sorted(keys) {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

// ---- @aws-sdk/client-s3 -------------------------------------------------------------------------

async function awsSdk(folder) {
  const s3 = new aws.S3Client({
    endpoint: ENDPOINT,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY },
    requestHandler: new NodeHttpHandler({ requestTimeout: 120000 }),
  });
  const send = (Command, more) => s3.send(new Command({ Bucket: BUCKET, ...more }));
  const code = async (sent) => {
    try {
      await sent;
    } catch (error) {
      return error.name;
    }
    return 'none';
  };
  const listed = async (prefix) => {
    const keys = [];
    for await (const page of aws.paginateListObjectsV2({ client: s3 }, { Bucket: BUCKET, Prefix: prefix }))
      keys.push(...(page.Contents ?? []).map((each) => each.Key));
    return keys;
  };

  for (const name of NAMES) {
    const Key = folder + name;
    await send(aws.PutObjectCommand, { Key, Body: name });
    const got = await send(aws.GetObjectCommand, { Key });
    assert.equal(await got.Body.transformToString(), name);
    const CopySource = encodeURIComponent(`${BUCKET}/${Key}`);
    await send(aws.CopyObjectCommand, { Key: `${Key} copy`, CopySource });
  }
  const keys = sorted(NAMES.flatMap((name) => [folder + name, `${folder + name} copy`]));
  assert.deepEqual(await listed(folder), keys);
  const Objects = keys.map((Key) => ({ Key }));
  const { Deleted } = await send(aws.DeleteObjectsCommand, { Delete: { Objects } });
  assert.deepEqual(Deleted.map((each) => each.Key), keys);
  assert.deepEqual(await listed(folder), []);
  console.log('odd names: put, get, copy, list, batch delete');

  for (const size of SIZES) {
    const Key = `${folder}${size}`;
    await send(aws.PutObjectCommand, { Key, Body: content(size) });
    const got = await send(aws.GetObjectCommand, { Key });
    assert.ok(content(size).equals(Buffer.from(await got.Body.transformToByteArray())));
  }
  const head = await send(aws.HeadObjectCommand, { Key: `${folder}${64 * MIB}` });
  assert.equal(head.ETag, `"${crypto.createHash('md5').update(content(64 * MIB)).digest('hex')}"`);
  console.log('0 bytes, 5 MiB ± 1, 64 MiB: put, get');

  const Key = folder + 'parts ü+';
  const { UploadId } = await send(aws.CreateMultipartUploadCommand, { Key });
  const Parts = [];
  for (const [index, size] of [5 * MIB, 5 * MIB + 1, 1].entries()) {
    const PartNumber = index + 1;
    const more = { Key, UploadId, PartNumber };
    const { ETag } = await send(aws.UploadPartCommand, { ...more, Body: content(size) });
    Parts.push({ ETag, PartNumber });
  }
  await send(aws.CompleteMultipartUploadCommand, { Key, UploadId, MultipartUpload: { Parts } });
  const got = await send(aws.GetObjectCommand, { Key, Range: `bytes=${5 * MIB}-${5 * MIB + 3}` });
  assert.ok(content(4).equals(Buffer.from(await got.Body.transformToByteArray())));
  console.log('three parts, a range');

  await send(aws.PutObjectCommand, { Key: folder + 'once', Body: '1', IfNoneMatch: '*' });
  const again = send(aws.PutObjectCommand, { Key: folder + 'once', Body: '2', IfNoneMatch: '*' });
  assert.equal(await code(again), 'PreconditionFailed');
  console.log('IfNoneMatch');

  assert.equal((await listed(MANY)).length, 2505);
  console.log('list of 2,505 keys');

  assert.equal(await code(send(aws.GetObjectCommand, { Key: 'main/none' })), 'NoSuchKey');
  assert.equal(await code(send(aws.PutObjectCommand, { Key: 'none/a', Body: '1' })), 'NoSuchBucket');
  assert.equal(await code(send(aws.DeleteBucketCommand)), 'ERRLakeFSNotSupported');
  console.log('errors');
}

// ---- minio --------------------------------------------------------------------------------------

async function minioSdk(folder) {
  const url = new URL(ENDPOINT);
  const client = new minio.Client({
    endPoint: url.hostname,
    port: Number(url.port),
    useSSL: url.protocol === 'https:',
    accessKey: ACCESS_KEY,
    secretKey: SECRET_KEY,
    region: 'us-east-1',
    partSize: 5 * MIB,
  });
  const listed = async (prefix, version) => {
    const list = version === 1 ? client.listObjects : client.listObjectsV2;
    const keys = [];
    for await (const each of list.call(client, BUCKET, prefix, true)) keys.push(each.name);
    return keys;
  };
  const conditions = new minio.CopyConditions();

  const sent = NAMES.filter((name) => !/[\t\n\r]/.test(name));
  for (const name of sent) {
    const key = folder + name;
    await client.putObject(BUCKET, key, name);
    assert.equal(String(await whole(await client.getObject(BUCKET, key))), name);
    const source = `/${BUCKET}/${key}`; // it encodes it
    await client.copyObject(BUCKET, `${key} copy`, source, conditions);
  }
  const keys = sorted(sent.flatMap((name) => [folder + name, `${folder + name} copy`]));
  assert.deepEqual(await listed(folder), keys);
  await client.removeObjects(BUCKET, keys);
  assert.deepEqual(await listed(folder), []);
  console.log('odd names: put, get, copy, list, batch delete');

  for (const size of SIZES) {
    const key = `${folder}${size}`;
    await client.putObject(BUCKET, key, content(size), size);
    assert.ok(content(size).equals(await whole(await client.getObject(BUCKET, key))));
  }
  console.log('0 bytes, 5 MiB ± 1, 64 MiB: put in parts, get');

  for (const version of [1, 2]) assert.equal((await listed(MANY, version)).length, 2505);
  assert.equal(await client.bucketExists(BUCKET), true);
  assert.equal(await client.bucketExists('none-of-these'), false);
  console.log('list of 2,505 keys in both versions, buckets');

  const key = folder + 'a b+ü';
  const put = await fetch(await client.presignedPutObject(BUCKET, key), { method: 'PUT', body: 'signed' });
  assert.equal(put.status, 200);
  const got = await fetch(await client.presignedGetObject(BUCKET, key));
  assert.equal(await got.text(), 'signed');
  console.log('presigned GET and PUT');
}

async function main() {
  console.log('@aws-sdk/client-s3');
  await awsSdk(`${PREFIX}aws/`);
  console.log('minio');
  await minioSdk(`${PREFIX}minio/`);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
