// Contexts: interpreters in a microVM that keep their state from one run of code to the next.
import { type Context as ContextStatus, type Contexts as ContextList, type CodeResult, type Interrupted, type PostMicrovmsIdContextsBody, operations } from './api.js';
import { UnavailableError } from './errors.js';
import { Collected, type ErrorEvent, type Gap, type Output, type ResultEvent, RunResult } from './results.js';
import type { Sandbox } from './sandbox.js';
import { type CallOptions, jsonLines } from './transport.js';

export type CodeEvent = Output | Gap | ResultEvent | ErrorEvent;

export interface RunOptions extends CallOptions {
  /** Then it is interrupted. */
  timeoutMs?: number;
  /** Is called with what the code prints and shows, as it comes. */
  onOutput?: (event: CodeEvent) => void;
}

/** Code under way: iterate over what it prints and shows. Leaving the loop early, close() and aborting interrupt it. */
export class CodeStream implements AsyncIterable<CodeEvent>, AsyncDisposable {
  /** Its name, for interrupt(), once it has started. */
  run?: string;
  /** There at the end. */
  result?: RunResult;
  private readonly abort = new AbortController();
  private events?: AsyncGenerator<CodeEvent>;

  constructor(private readonly box: Sandbox, private readonly context: string, private readonly body: object, signal?: AbortSignal) {
    signal?.addEventListener('abort', () => this.abort.abort(signal.reason), { once: true });
    if (signal?.aborted) this.abort.abort(signal.reason);
  }

  [Symbol.asyncIterator](): AsyncGenerator<CodeEvent> {
    return (this.events ??= this.read());
  }

  private async *read(): AsyncGenerator<CodeEvent> {
    const names = { id: await this.box.ready(), context: this.context };
    const response = await this.box.transport.send(operations.postMicrovmsIdContextsContextRun, names,
      { body: { ...this.body, stream: true }, signal: this.abort.signal });
    const collected = new Collected();
    for await (const line of jsonLines(this.box.transport, response)) {
      const event = collected.add(line);
      if (line.type === 'started') this.run = line.run;
      else if (line.type === 'done') this.result = collected.code();
      else if (event) yield event;
    }
    if (!this.result) throw new UnavailableError('the stream ended before the code did', { code: 'unavailable' });
  }

  /** Reads to the end. */
  async wait(): Promise<RunResult> {
    for (let step = await this[Symbol.asyncIterator]().next(); !step.done; step = await this[Symbol.asyncIterator]().next());
    return this.result!;
  }

  /** Ends the connection; if the code still runs, it is interrupted. The context keeps its variables. */
  async close(): Promise<void> {
    this.abort.abort();
    await this.events?.return(undefined).catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** One interpreter. */
export class Context {
  constructor(private readonly box: Sandbox, readonly id: string) {}

  private async names() { return { id: await this.box.ready(), context: this.id }; }

  async status(options: CallOptions = {}): Promise<ContextStatus> {
    return this.box.transport.call(operations.getMicrovmsIdContextsContext, await this.names(), options);
  }

  /** Runs code to its end. */
  async run(code: string, options: RunOptions = {}): Promise<RunResult> {
    if (options.onOutput) {
      const stream = this.stream(code, options);
      for await (const event of stream) options.onOutput(event);
      return stream.result!;
    }
    const answer = await this.box.transport.call<CodeResult>(operations.postMicrovmsIdContextsContextRun, await this.names(),
      { body: { code, timeoutMs: options.timeoutMs }, signal: options.signal });
    return new RunResult(answer);
  }

  stream(code: string, options: RunOptions = {}): CodeStream {
    return new CodeStream(this.box, this.id, { code, timeoutMs: options.timeoutMs }, options.signal);
  }

  /** Ends what runs, or only that run, and keeps the state. False: nothing of that was running. */
  async interrupt(run?: string, options: CallOptions = {}): Promise<boolean> {
    const answer = await this.box.transport.call<Interrupted>(operations.postMicrovmsIdContextsContextInterrupt, await this.names(), { body: { run }, ...options });
    return answer.interrupted;
  }

  /** A new interpreter under the same id; the state is lost. */
  async restart(options: CallOptions = {}): Promise<ContextStatus> {
    return this.box.transport.call(operations.postMicrovmsIdContextsContextRestart, await this.names(), options);
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.box.transport.call(operations.deleteMicrovmsIdContextsContext, await this.names(), options);
  }
}

/** The contexts of a microVM. */
export class Contexts {
  constructor(private readonly box: Sandbox) {}

  async create(language = 'python', options: Omit<PostMicrovmsIdContextsBody, 'language'> & CallOptions = {}): Promise<Context> {
    const { signal, ...wishes } = options;
    const made = await this.box.transport.call<ContextStatus>(operations.postMicrovmsIdContexts, { id: await this.box.ready() },
      { body: { language, ...wishes }, signal });
    return this.get(made.id);
  }

  async list(options: CallOptions = {}): Promise<ContextStatus[]> {
    return (await this.box.transport.call<ContextList>(operations.getMicrovmsIdContexts, { id: await this.box.ready() }, options)).contexts;
  }

  get(id: string): Context {
    return new Context(this.box, id);
  }

  /** The first context of the language; one is made if there is none. */
  async ofLanguage(language: string): Promise<Context> {
    const found = (await this.list()).find((each) => each.language === language);
    return found ? this.get(found.id) : this.create(language);
  }
}
