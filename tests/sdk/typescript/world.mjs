// What the tests of this folder share: the SDK as it is kept in the tree, and one real server.
import { setTimeout as pause } from 'node:timers/promises';
import { Server, until } from '../../conformance/lambda/server.mjs';

export * from '../../../sdk/typescript/lib/index.js';
export { until };

let server;
export async function start() {
  server = await Server.start([], 779000);
  // Node reads certificates when it starts, so requests to an endpoint need the variable NODE_EXTRA_CA_CERTS in a process of their own.
  return { server, address: { url: server.url, apiKey: server.credentials.apiKey } };
}
export const stop = () => server?.stop();

/** Whether a `sleep SECONDS` runs in the guest, found without finding what looks for it. */
export async function sleeps(box, seconds) {
  const text = String(seconds);
  return (await box.exec(`cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep 'sleep ${text.slice(0, -1)}[${text.slice(-1)}]'`)).ok;
}

export async function collect(iterable) {
  const all = [];
  for await (const each of iterable) all.push(each);
  return all;
}

export { pause };
