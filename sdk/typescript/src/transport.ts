// Sends calls, reads answers and streams, and tries again what may be tried again.
import type { Operation } from './api.js';
import { ExhaustedError, FirebreakError, UnavailableError, errorOf } from './errors.js';
import { type FindOptions, type ServerAddress, findServer } from './find.js';

export type Body = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

export interface CallOptions {
  signal?: AbortSignal;
}

export interface CallRequest extends CallOptions {
  query?: object;
  body?: object;
  content?: Body;
  headers?: [string, string][];
  /** Sending it twice does no harm. A GET, PUT or DELETE is repeatable unless this says otherwise. */
  repeatable?: boolean;
}

export interface RetryPolicy {
  retries: number;
  firstWaitMs: number;
  longestWaitMs: number;
}

export const defaultRetry: RetryPolicy = { retries: 3, firstWaitMs: 200, longestWaitMs: 30_000 };

/** Milliseconds to wait before a call is sent again; undefined: the error stands. */
export function waitBefore(policy: RetryPolicy, attempt: number, error: unknown, repeatable: boolean, retryAfterMs?: number): number | undefined {
  if (attempt >= policy.retries) return undefined;
  // A call that is not repeatable is sent again only if the server cannot have begun it.
  const again = error instanceof FirebreakError
    ? (error instanceof ExhaustedError && retryAfterMs !== undefined) || (repeatable && error instanceof UnavailableError)
    : repeatable || neverSent(error);
  if (!again) return undefined;
  const backoff = policy.firstWaitMs * 2 ** attempt * (0.5 + Math.random() / 2);
  const wait = Math.max(retryAfterMs ?? 0, backoff);
  return wait <= policy.longestWaitMs ? wait : undefined;
}

function neverSent(error: unknown): boolean {
  const cause = (error as { cause?: { code?: string } }).cause;
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT', 'EHOSTUNREACH', 'ENETUNREACH'].includes(cause?.code ?? '');
}

export class Transport {
  private server?: Promise<ServerAddress>;

  constructor(private readonly find: FindOptions, readonly policy: RetryPolicy, private readonly fetcher?: typeof fetch) {}

  address(): Promise<ServerAddress> {
    return (this.server ??= findServer(this.find));
  }

  /** The JSON answer of a call. */
  async call<T>(operation: Operation, names: Record<string, string>, request: CallRequest = {}): Promise<T> {
    const response = await this.send(operation, names, request);
    return (await response.json()) as T;
  }

  /** The answer as it comes. Cancelling its body closes the connection, which ends the server's work for it. */
  async send(operation: Operation, names: Record<string, string>, request: CallRequest): Promise<Response> {
    const repeatable = request.repeatable ?? operation.method !== 'POST';
    const again = !(request.content instanceof ReadableStream);
    for (let attempt = 0; ; attempt++) {
      let failure: unknown;
      let after: number | undefined;
      try {
        const response = await this.once(operation, names, request);
        if (response.ok) return response;
        const seconds = Number(response.headers.get('retry-after') ?? NaN);
        after = Number.isFinite(seconds) ? seconds * 1000 : undefined;
        failure = errorOf(response.status, await response.json().catch(() => ({})));
      } catch (error) {
        if (request.signal?.aborted || error instanceof FirebreakError) throw error;
        failure = error;
      }
      const wait = again ? waitBefore(this.policy, attempt, failure, repeatable, after) : undefined;
      if (wait === undefined) throw failure instanceof FirebreakError ? failure : await this.unreachable(failure);
      await sleep(wait, request.signal);
    }
  }

  private async once(operation: Operation, names: Record<string, string>, request: CallRequest): Promise<Response> {
    const { url, apiKey } = await this.address();
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] ?? ''));
    const target = new URL(url.replace(/\/$/, '') + path);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value === undefined || value === null || value === false) continue;
      for (const each of Array.isArray(value) ? value : [value]) target.searchParams.append(name, each === true ? '1' : String(each));
    }
    const body = request.body ? JSON.stringify(request.body) : request.content;
    const init = {
      method: operation.method, body, signal: request.signal, duplex: body instanceof ReadableStream ? 'half' : undefined,
      headers: [['authorization', `Bearer ${apiKey}`], ...(request.headers ?? [])] as [string, string][],
    };
    return (this.fetcher ?? fetch)(target, { ...(await withoutTimeouts()), ...init } as RequestInit);
  }

  async unreachable(cause: unknown): Promise<UnavailableError> {
    const { url } = await this.address();
    const repair = "is 'firebreak serve' running there? FIREBREAK_URL names another server";
    const why = (cause as { cause?: Error }).cause?.message ?? (cause as Error).message;
    return new UnavailableError(`the connection to the server at ${url} failed: ${why}; ${repair}`, { code: 'unavailable', repair, cause });
  }
}

// Node's fetch gives up after five minutes without a byte; a command may think for longer. An agent that somebody set stays.
let patient: Promise<object> | undefined;
function withoutTimeouts(): Promise<object> {
  return (patient ??= (async () => {
    if (!globalThis.process?.versions?.node) return {};
    await fetch('data:,');
    const agent = (globalThis as any)[Symbol.for('undici.globalDispatcher.1')];
    if (agent?.constructor?.name !== 'Agent') return {};
    return { dispatcher: new agent.constructor({ headersTimeout: 0, bodyTimeout: 0 }) };
  })().catch(() => ({})));
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { signal?.removeEventListener('abort', stop); resolve(); }, ms);
    const stop = () => { clearTimeout(timer); reject(signal?.reason); };
    signal?.addEventListener('abort', stop, { once: true });
  });
}

/** The pieces of a body; leaving the loop early closes the connection. */
export async function* pieces(transport: Transport, response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body!.getReader();
  let ended = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      ended = done;
      if (done) return;
      yield value;
    }
  } catch (error) {
    ended = true;
    throw (error as Error).name === 'AbortError' ? error : await transport.unreachable(error);
  } finally {
    if (!ended) await reader.cancel().catch(() => {});
  }
}

/** Lines end at LF alone. */
export async function* lines(transport: Transport, response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let held = '';
  for await (const piece of pieces(transport, response)) {
    held += decoder.decode(piece, { stream: true });
    const whole = held.split('\n');
    held = whole.pop()!;
    yield* whole;
  }
  if (held) yield held;
}

/** The lines of a stream; one that tells of a failure is thrown. */
export async function* jsonLines(transport: Transport, response: Response): AsyncGenerator<any> {
  for await (const text of lines(transport, response)) {
    if (!text.trim()) continue;
    const line = JSON.parse(text);
    // In a run of code `error` is what the code raised, and has no code of ours.
    if (line.type === 'failure' || (line.type === 'error' && 'code' in line)) throw errorOf(undefined, line);
    yield line;
  }
}

/** Name and data of each server-sent event. */
export async function* serverEvents(transport: Transport, response: Response): AsyncGenerator<[string, string]> {
  let name = 'message';
  let data: string[] = [];
  for await (const line of lines(transport, response)) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
    else if (!line && data.length > 0) {
      yield [name, data.join('\n')];
      [name, data] = ['message', []];
    }
  }
}
