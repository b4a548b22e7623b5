// Commands in a microVM: run to the end, streamed, or started as processes that outlive the connection.
import { type Exec, type PostMicrovmsIdExecsBody, type StdinOffset, operations } from './api.js';
import { UnavailableError } from './errors.js';
import { Collected, type CommandResult, type Gap, type Output, toBase64 } from './results.js';
import { type Body, type CallOptions, type Transport, jsonLines, sleep } from './transport.js';

/** A text is a line for the shell; a list is a program and its arguments. */
export type Command = string | readonly string[];

export interface CommandOptions extends CallOptions {
  env?: Record<string, string>;
  cwd?: string;
  user?: string;
  stdin?: string | Uint8Array;
  /** Then everything it started is killed. */
  timeoutMs?: number;
  /** Runs in a terminal of this size. */
  pty?: { cols?: number; rows?: number };
}

export interface SpawnOptions extends CommandOptions {
  /** Its input stays open for write(). */
  openStdin?: boolean;
}

export function execBody(command: Command, options: SpawnOptions): PostMicrovmsIdExecsBody {
  const { signal, stdin, openStdin, ...rest } = options;
  return {
    ...(typeof command === 'string' ? { shell: command } : { argv: [...command] }),
    ...rest,
    ...(typeof stdin === 'string' ? { stdin } : stdin ? { stdinBase64: toBase64(stdin) } : {}),
    ...(openStdin ? { openStdin } : {}),
  };
}

/** A command under way: iterate over what it prints. Leaving the loop early, close() and aborting kill what it started. */
export class CommandStream implements AsyncIterable<Output | Gap>, AsyncDisposable {
  /** Its id in the guest, once it has started. */
  id?: string;
  /** There at the end. */
  result?: CommandResult;
  private readonly abort = new AbortController();
  private events?: AsyncGenerator<Output | Gap>;

  constructor(private readonly open: (signal: AbortSignal) => Promise<[Transport, Response]>, signal?: AbortSignal) {
    signal?.addEventListener('abort', () => this.abort.abort(signal.reason), { once: true });
    if (signal?.aborted) this.abort.abort(signal.reason);
  }

  [Symbol.asyncIterator](): AsyncGenerator<Output | Gap> {
    return (this.events ??= this.read());
  }

  private async *read(): AsyncGenerator<Output | Gap> {
    const [transport, response] = await this.open(this.abort.signal);
    const collected = new Collected();
    for await (const line of jsonLines(transport, response)) {
      const event = collected.add(line);
      if (line.type === 'started') this.id = line.exec;
      else if (line.type === 'exit') this.result = collected.command();
      else if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap') yield event;
    }
    if (!this.result) throw new UnavailableError('the stream ended before the command did', { code: 'unavailable' });
  }

  /** Reads to the end. */
  async wait(): Promise<CommandResult> {
    for (let step = await this[Symbol.asyncIterator]().next(); !step.done; step = await this[Symbol.asyncIterator]().next());
    return this.result!;
  }

  /** Ends the connection; if the command still runs, the guest kills everything that it started. */
  async close(): Promise<void> {
    this.abort.abort();
    await this.events?.return(undefined).catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A command that outlives the connection; any client can attach to it again by its id. */
export class Process {
  private stdinOffset = 0;

  constructor(private readonly transport: Transport, private readonly vm: string, readonly id: string) {}

  private get names() { return { id: this.vm, exec: this.id }; }

  status(options: CallOptions = {}): Promise<Exec> {
    return this.transport.call(operations.getMicrovmsIdExecsExec, this.names, options);
  }

  /** What it prints, from this byte on, until it ends or, with `follow: false`, to what is there. A new reader replaces the one before. */
  async *output(options: CallOptions & { offset?: number; follow?: boolean } = {}): AsyncGenerator<Output | Gap> {
    const query = { offset: options.offset || undefined, follow: options.follow === false ? '0' : undefined };
    const response = await this.transport.send(operations.getMicrovmsIdExecsExecOutput, this.names, { query, signal: options.signal });
    const collected = new Collected();
    for await (const line of jsonLines(this.transport, response)) {
      const event = collected.add(line);
      if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap') yield event;
    }
  }

  /** Everything that is kept of its output, and how it ended. A connection that is lost is made again at the same byte. */
  async wait(options: CallOptions = {}): Promise<CommandResult> {
    const collected = new Collected();
    let seen = 0;
    for (let failures = 0; ;) {
      try {
        for await (const event of this.output({ offset: seen, signal: options.signal })) {
          failures = 0;
          seen += event.type === 'gap' ? event.size : event.data.length;
          if (event.type !== 'gap') collected.add({ type: event.type, dataBase64: toBase64(event.data) });
        }
      } catch (error) {
        if (!(error instanceof UnavailableError) || ++failures > this.transport.policy.retries) throw error;
      }
      const { exit } = await this.status(options);
      if (exit) return collected.command(exit);
      await sleep(50, options.signal);
    }
  }

  /** Bytes to its input. They carry their place in it, so a write that was cut can be repeated. */
  async write(content: Body, options: CallOptions & { eof?: boolean } = {}): Promise<void> {
    const answer = await this.transport.call<StdinOffset>(operations.postMicrovmsIdExecsExecStdin, this.names,
      { query: { offset: this.stdinOffset, eof: options.eof }, content, repeatable: true, signal: options.signal });
    this.stdinOffset = answer.offset;
  }

  closeStdin(options: CallOptions = {}): Promise<void> {
    return this.write('', { ...options, eof: true });
  }

  async signal(number = 15, options: CallOptions & { group?: boolean } = {}): Promise<void> {
    await this.transport.call(operations.postMicrovmsIdExecsExecSignal, this.names,
      { body: { signal: number, group: options.group ?? true }, signal: options.signal });
  }

  /** Its terminal's size, if it has one. */
  async resize(cols: number, rows: number, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.postMicrovmsIdExecsExecResize, this.names, { body: { cols, rows }, repeatable: true, ...options });
  }

  /** Kills all that it started, and forgets it. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteMicrovmsIdExecsExec, this.names, options);
  }
}
