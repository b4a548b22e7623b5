// A gRPC service of all four kinds of call, and what @grpc/grpc-js must find when it calls it through the endpoint.
'use strict';
const assert = require('node:assert');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const { Echo } = grpc.loadPackageDefinition(loader.loadSync(path.join(__dirname, 'echo.proto'))).firebreak.test;

const handlers = {
  One: (call, done) => {
    const trailers = new grpc.Metadata();
    trailers.set('x-trailer', 'at the end');
    done(null, call.request, trailers);
  },
  Down: (call) => {
    for (let i = 0; i < call.request.count; ++i) call.write({ text: call.request.text, count: i });
    call.end();
  },
  Up: (call, done) => {
    let count = 0;
    call.on('data', (note) => { count += note.count; });
    call.on('end', () => done(null, { text: 'sum', count }));
  },
  Both: (call) => {
    call.on('data', (note) => call.write({ text: note.text.toUpperCase(), count: note.count }));
    call.on('end', () => call.end());
  },
  Fails: (call, done) => done({ code: grpc.status.FAILED_PRECONDITION, details: 'not today' }),
};

// The service on a port of loopback; 0 picks one.
async function serveEcho(wanted) {
  const server = new grpc.Server();
  server.addService(Echo.service, handlers);
  const port = await new Promise((resolve, reject) => server.bindAsync(`127.0.0.1:${wanted}`, grpc.ServerCredentials.createInsecure(),
    (error, number) => (error ? reject(error) : resolve(number))));
  return { server, port };
}

// A client, and what it sends along. The token names the microVM.
function callEcho(authority, ca, token, port) {
  const metadata = new grpc.Metadata();
  metadata.set('x-aws-proxy-auth', token);
  metadata.set('x-aws-proxy-port', String(port));
  return { client: new Echo(authority, grpc.credentials.createSsl(ca)), metadata };
}

// The cases; `context()` is what callEcho gave, once they run.
function echoCases(test, context) {
  test('unary, with trailing metadata', async () => {
    const { client, metadata } = context();
    const trailing = new Promise((resolve) => {
      const call = client.One({ text: 'hello', count: 7 }, metadata, (error, note) => {
        assert.ifError(error);
        assert.deepEqual(note, { text: 'hello', count: 7 });
      });
      call.on('status', (status) => resolve(status));
    });
    const status = await trailing;
    assert.equal(status.code, grpc.status.OK);
    assert.deepEqual(status.metadata.get('x-trailer'), ['at the end']);
  });

  test('server streaming', async () => {
    const { client, metadata } = context();
    const counts = [];
    for await (const note of client.Down({ text: 'x', count: 100 }, metadata)) counts.push(note.count);
    assert.deepEqual(counts, Array.from({ length: 100 }, (_, i) => i));
  });

  test('client streaming', async () => {
    const { client, metadata } = context();
    const sum = await new Promise((resolve, reject) => {
      const call = client.Up(metadata, (error, note) => (error ? reject(error) : resolve(note.count)));
      for (let i = 1; i <= 100; ++i) call.write({ text: '', count: i });
      call.end();
    });
    assert.equal(sum, 5050);
  });

  test('both ways at once: each answer comes before the next question', async () => {
    const { client, metadata } = context();
    const call = client.Both(metadata);
    const notes = call[Symbol.asyncIterator]();
    for (let i = 0; i < 20; ++i) {
      call.write({ text: `n${i}`, count: i });
      assert.deepEqual((await notes.next()).value, { text: `N${i}`, count: i });
    }
    call.end();
    assert.ok((await notes.next()).done);
  });

  test('large messages', async () => {
    const { client, metadata } = context();
    const text = 'x'.repeat(3 << 20);
    const note = await new Promise((resolve, reject) => client.One({ text, count: 0 }, metadata, (error, got) => (error ? reject(error) : resolve(got))));
    assert.equal(note.text.length, text.length);
  });

  test('errors of the application keep their code', async () => {
    const { client, metadata } = context();
    await assert.rejects(new Promise((resolve, reject) => client.Fails({}, metadata, (error, got) => (error ? reject(error) : resolve(got)))),
      { code: grpc.status.FAILED_PRECONDITION, details: 'not today' });
  });

  test('100 calls at once over one connection', async () => {
    const { client, metadata } = context();
    const notes = await Promise.all(Array.from({ length: 100 }, (_, i) =>
      new Promise((resolve, reject) => client.One({ text: 't', count: i }, metadata, (error, got) => (error ? reject(error) : resolve(got.count))))));
    assert.deepEqual(notes, Array.from({ length: 100 }, (_, i) => i));
  });

  test('without a token the client sees the plain status', async () => {
    const { client } = context();
    await assert.rejects(new Promise((resolve, reject) => client.One({}, new grpc.Metadata(), (error, got) => (error ? reject(error) : resolve(got)))),
      { code: grpc.status.PERMISSION_DENIED });
  });

  test('a cancelled call is cancelled in the application', async () => {
    const { client, metadata } = context();
    const call = client.Both(metadata);
    call.write({ text: 'a', count: 1 });
    await new Promise((resolve) => call.once('data', resolve));
    call.on('error', () => {});
    call.cancel();
    const status = await new Promise((resolve) => call.once('status', resolve));
    assert.equal(status.code, grpc.status.CANCELLED);
  });
}

// How a stream that is under way ends when `cut` takes its application away.
async function statusWhenCut({ client, metadata }, cut) {
  const call = client.Both(metadata);
  call.on('error', () => {});
  call.write({ text: 'a', count: 1 });
  await new Promise((resolve) => call.once('data', resolve));
  const ended = new Promise((resolve) => call.once('status', resolve));
  await cut();
  return (await ended).code;
}

module.exports = { serveEcho, callEcho, echoCases, statusWhenCut, codes: grpc.status };
