// Many sessions of the protocol at once on few microVMs: 200 on 16 with FIREBREAK_LONG, else 40 on 4.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connectV1 } from './clients.mjs';
import { Server } from './server.mjs';

const [sessions, machines] = process.env.FIREBREAK_LONG ? [200, 16] : [40, 4];
let server, key;
before(async () => {
  server = await Server.start([], 784000);
  key = server.credentials.apiKey;
});
after(() => server.stop());

test('many sessions share few sandboxes', async () => {
  const first = await connectV1(server.url, key);
  const ids = [];
  for (let i = 0; i < machines; ++i) {
    const made = await first.client.callTool({ name: 'sandbox_create', arguments: {} });
    assert.equal(made.isError, false, made.content[0].text);
    ids.push(made.structuredContent.sandbox_id);
  }
  const all = await Promise.all(Array.from({ length: sessions }, () => connectV1(server.url, key)));
  assert.equal(new Set(all.map(({ transport }) => transport.sessionId)).size, sessions);
  // Everybody at once: calls of one interpreter wait for each other, and nobody gets another's answer.
  const results = await Promise.all(all.map(({ client }, i) => client.callTool(
    { name: 'execute_code', arguments: { code: `print("mine ${i}")\n${i} * 2`, sandbox_id: ids[i % machines] } }, undefined, { timeout: 300_000 })));
  results.forEach((result, i) => {
    assert.equal(result.structuredContent?.result, String(i * 2), JSON.stringify(result));
    assert.equal(result.structuredContent.stdout, `mine ${i}\n`);
    assert.equal(result.structuredContent.sandbox_id, ids[i % machines]);
  });
  const { items } = await server.native('GET', '/v1/microvms?state=RUNNING&pageSize=1000');
  assert.equal(items.length, machines);
  await Promise.all(all.map(({ transport }) => transport.terminateSession()));
});
