// The official clients, connected: 1.x and 2.x over HTTP, and 2.x over stdio.
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';

const info = { name: 'firebreak-tests', version: '1' };
const headers = (key) => ({ requestInit: { headers: { authorization: `Bearer ${key}` } } });

export const versionOf = { legacy: { mode: 'legacy' }, auto: { mode: 'auto' }, pinned: { mode: { pin: '2026-07-28' } } };

export async function connectV1(url, key) {
  const client = new ClientV1(info);
  const transport = new HttpV1(new URL(`${url}/mcp`), headers(key));
  await client.connect(transport);
  return { client, transport };
}

export async function connectV2(url, key, mode) {
  const client = new ClientV2(info, { versionNegotiation: versionOf[mode] });
  const transport = new HttpV2(new URL(`${url}/mcp`), headers(key));
  await client.connect(transport);
  return { client, transport };
}

export async function stdioV1(command, args, env = {}) {
  const client = new ClientV1(info);
  const transport = new StdioV1({ command, args, env: { ...process.env, ...env }, stderr: 'pipe' });
  await client.connect(transport);
  return { client, transport };
}

export async function stdioV2(command, args, mode, env = {}) {
  const client = new ClientV2(info, { versionNegotiation: versionOf[mode] });
  const transport = new StdioV2({ command, args, env: { ...process.env, ...env }, stderr: 'pipe' });
  await client.connect(transport);
  return { client, transport };
}

// One raw POST, as any program could send it.
export function post(url, key, body, more = {}) {
  return fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream',
      ...(key ? { authorization: `Bearer ${key}` } : {}), ...more,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

export const rpc = (method, params, id = 1) => ({ jsonrpc: '2.0', id, method, ...(params ? { params } : {}) });
