// @grpc/grpc-js through the endpoint: all four kinds of call, status and metadata in trailers.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const { Endpoint } = require('./support');
const { serveEcho, callEcho, echoCases, statusWhenCut, codes } = require('./grpc_echo');

let endpoint, server, context;

before(async () => {
  endpoint = await Endpoint.start();
  const served = await serveEcho(0);
  server = served.server;
  context = callEcho(endpoint.authority, endpoint.ca, await endpoint.token(served.port), served.port);
});
after(async () => {
  context.client.close();
  server.forceShutdown();
  assert.equal(await endpoint.stop(), 0);
});

echoCases(test, () => context);

test('an application that goes away is UNAVAILABLE, within a stream as well', async () => {
  assert.equal(await statusWhenCut(context, () => server.forceShutdown()), codes.UNAVAILABLE);
  await assert.rejects(new Promise((resolve, reject) => context.client.One({}, context.metadata, (error, got) => (error ? reject(error) : resolve(got)))),
    { code: codes.UNAVAILABLE });
});
