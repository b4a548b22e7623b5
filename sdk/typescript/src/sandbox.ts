// A microVM, and everything that can be done in it and with it.
import {
  type EgressLog, type Exec, type ExecResult, type Execs, type GetMicrovmsIdEgressQuery, type ImageWithVersions, type IssuedToken, type Microvm,
  type Microvms, type Operation, type PatchMicrovmsIdBody, type PostMicrovmsBody, type PostMicrovmsIdTokensBody, type StartedExec, type Token, type Tokens, operations,
} from './api.js';
import { Client } from './client.js';
import { type Command, type CommandOptions, CommandStream, Process, type SpawnOptions, execBody } from './commands.js';
import { type Context, Contexts, type RunOptions } from './contexts.js';
import { ConflictError, FirebreakError } from './errors.js';
import { Files } from './files.js';
import { type ProgressCallback, reporter } from './progress.js';
import { Collected, CommandResult, type Gap, type Output, type RunResult } from './results.js';
import { type CallOptions, type Transport, jsonLines, sleep } from './transport.js';

export interface SandboxOptions extends Partial<Omit<PostMicrovmsBody, 'image' | 'clientToken'>>, CallOptions {
  client?: Client;
  progress?: ProgressCallback;
}

/** A port of a microVM: its address, and the headers that every request to it carries. */
export interface Endpoint {
  url: string;
  token: string;
  headers: Record<string, string>;
}

/** Tokens that open a microVM's ports to clients outside. */
export class EndpointTokens {
  constructor(private readonly box: Sandbox) {}

  /** `ports` is a number, a text such as "8080,9000-9010", or "*"; the token itself is shown this once. */
  async create(ports?: number | string, options: Omit<PostMicrovmsIdTokensBody, 'ports'> & CallOptions = {}): Promise<IssuedToken> {
    const { signal, ...wishes } = options;
    return this.box.transport.call(operations.postMicrovmsIdTokens, { id: await this.box.ready() }, { body: { ports, ...wishes }, signal });
  }

  async list(options: CallOptions = {}): Promise<Token[]> {
    return (await this.box.transport.call<Tokens>(operations.getMicrovmsIdTokens, { id: await this.box.ready() }, options)).items;
  }

  /** By the token's id. */
  async revoke(token: string, options: CallOptions = {}): Promise<void> {
    await this.box.transport.call(operations.deleteMicrovmsIdTokensToken, { id: await this.box.ready(), token }, options);
  }
}

/**
 * A microVM of an image. It is made by start(), or by the first call that needs it; `await using` ends the microVM that it made.
 * A sandbox that Client.get() gave is somebody's already, and goes on.
 */
export class Sandbox implements AsyncDisposable {
  readonly client: Client;
  readonly files = new Files(this);
  readonly contexts = new Contexts(this);
  readonly tokens = new EndpointTokens(this);
  private owned = true;
  private known?: Microvm;
  private starting?: Promise<Microvm>;
  private readonly wishes: PostMicrovmsBody;
  private readonly interpreters = new Map<string, Promise<Context>>();

  constructor(image = 'python', private readonly options: SandboxOptions = {}) {
    const { client, progress, signal, ...wishes } = options;
    this.client = client ?? new Client();
    // However often the request is sent, one microVM is made.
    this.wishes = { image, ...wishes, clientToken: crypto.randomUUID() };
  }

  /** A microVM that is there. */
  static attached(client: Client, info: Microvm, owned = false): Sandbox {
    const sandbox = new Sandbox(info.image, { client });
    sandbox.known = info;
    sandbox.owned = owned;
    return sandbox;
  }

  /** A new sandbox, running. */
  static create(image = 'python', options: SandboxOptions = {}): Promise<Sandbox> {
    return new Sandbox(image, options).start();
  }

  get transport(): Transport { return this.client.transport; }

  /** What the server said last about it; refresh() asks again. */
  get info(): Microvm {
    if (!this.known) throw new FirebreakError('the microVM is not there yet; call start()');
    return this.known;
  }

  get id(): string { return this.info.id; }

  /** Makes the microVM, unless that is done; waits while its image is being built. */
  async start(): Promise<this> {
    if (!this.known) {
      this.starting ??= this.launch();
      try {
        this.known = await this.starting;
      } catch (error) {
        this.starting = undefined;
        throw error;
      }
    }
    return this;
  }

  /** Its id, once it is there. */
  async ready(): Promise<string> {
    await this.start();
    return this.id;
  }

  async filesAt(operation: Operation): Promise<[Operation, Record<string, string>]> {
    return [operation, { id: await this.ready() }];
  }

  private async launch(): Promise<Microvm> {
    const { signal } = this.options;
    const report = reporter(this.options.progress);
    for (let waited = false; ; waited = true) {
      try {
        const made = await this.transport.call<Microvm>(operations.postMicrovms, {}, { body: this.wishes, repeatable: true, signal });
        if (waited) report({ what: `the image ${this.wishes.image} is ready`, finished: true });
        return made;
      } catch (error) {
        if (!(error instanceof ConflictError) || !(await this.beingBuilt())) throw error;
      }
      report({ what: `the image ${this.wishes.image} is being built` });
      await sleep(500, signal);
    }
  }

  private async beingBuilt(): Promise<boolean> {
    const image = await this.transport.call<ImageWithVersions>(operations.getImagesImage, { image: this.wishes.image.split(':')[0]! });
    return image.state.endsWith('ING');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.owned && (this.known || this.starting)) await this.terminate();
  }

  private async keep(answer: Promise<Microvm>): Promise<Microvm> {
    return (this.known = await answer);
  }

  async refresh(options: CallOptions = {}): Promise<Microvm> {
    return this.keep(this.transport.call(operations.getMicrovmsId, { id: await this.ready() }, options));
  }

  /** Changes what is named; null takes a name, an idle policy or a time limit away. */
  async update(changes: PatchMicrovmsIdBody, options: CallOptions = {}): Promise<Microvm> {
    return this.keep(this.transport.call(operations.patchMicrovmsId, { id: await this.ready() }, { body: changes, ...options }));
  }

  async suspend(options: CallOptions = {}): Promise<Microvm> {
    return this.keep(this.transport.call(operations.postMicrovmsIdSuspend, { id: await this.ready() }, { repeatable: true, ...options }));
  }

  async resume(options: CallOptions = {}): Promise<Microvm> {
    return this.keep(this.transport.call(operations.postMicrovmsIdResume, { id: await this.ready() }, { repeatable: true, ...options }));
  }

  /** Copies of it as it is now, running; `await using` of a copy ends that copy. */
  async fork(count = 1, options: CallOptions = {}): Promise<Sandbox[]> {
    const made = await this.transport.call<Microvms>(operations.postMicrovmsIdFork, { id: await this.ready() }, { body: { count }, ...options });
    return made.items.map((info) => Sandbox.attached(this.client, info, true));
  }

  /** Ends it; succeeds also when it has ended already. */
  async terminate(options: CallOptions = {}): Promise<Microvm> {
    return this.keep(this.transport.call(operations.deleteMicrovmsId, { id: await this.ready() }, options));
  }

  // ---- code and commands

  /** Runs code in the first context of the language; variables stay for the next run. */
  async run(code: string, options: RunOptions & { language?: string } = {}): Promise<RunResult> {
    return (await this.interpreter(options.language)).run(code, options);
  }

  /** The context in which run() runs code of this language. */
  interpreter(language = 'python'): Promise<Context> {
    let found = this.interpreters.get(language);
    if (!found) {
      found = this.contexts.ofLanguage(language);
      found.catch(() => this.interpreters.delete(language));
      this.interpreters.set(language, found);
    }
    return found;
  }

  /** Runs a command to its end. When `signal` aborts, the guest kills everything that the command started. */
  async exec(command: Command, options: CommandOptions = {}): Promise<CommandResult> {
    const answer = await this.transport.call<ExecResult>(operations.postMicrovmsIdExec, { id: await this.ready() },
      { body: execBody(command, options), signal: options.signal });
    return CommandResult.from(answer);
  }

  /** A command whose output comes as it is printed. */
  stream(command: Command, options: CommandOptions = {}): CommandStream {
    const open = async (signal: AbortSignal): Promise<[Transport, Response]> => [this.transport, await this.transport.send(
      operations.postMicrovmsIdExec, { id: await this.ready() }, { body: { ...execBody(command, options), stream: true }, signal })];
    return new CommandStream(open, options.signal);
  }

  /** Starts a command that outlives the connection. */
  async spawn(command: Command, options: SpawnOptions = {}): Promise<Process> {
    const made = await this.transport.call<StartedExec>(operations.postMicrovmsIdExecs, { id: await this.ready() },
      { body: execBody(command, options), signal: options.signal });
    return this.process(made.exec);
  }

  /** A command that spawn() started, maybe elsewhere. */
  process(id: string): Process {
    return new Process(this.transport, this.id, id);
  }

  async processes(options: CallOptions = {}): Promise<Exec[]> {
    return (await this.transport.call<Execs>(operations.getMicrovmsIdExecs, { id: await this.ready() }, options)).execs;
  }

  /** What the application of the image printed; with follow until the microVM ends. */
  async *logs(options: CallOptions & { follow?: boolean } = {}): AsyncGenerator<Output | Gap> {
    const response = await this.transport.send(operations.getMicrovmsIdLogs, { id: await this.ready() },
      { query: { follow: options.follow }, signal: options.signal });
    const collected = new Collected();
    for await (const line of jsonLines(this.transport, response)) {
      const event = collected.add(line);
      if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap') yield event;
    }
  }

  /** Where a port of it is reached from outside, with the headers that open it. */
  async endpoint(port: number, options: { expiresSeconds?: number } & CallOptions = {}): Promise<Endpoint> {
    await this.start();
    const { token } = await this.tokens.create(port, options);
    return { url: `https://${this.info.endpoint}`, token, headers: { 'x-aws-proxy-auth': token, 'x-aws-proxy-port': String(port) } };
  }

  /** What it was allowed and denied; with suggest also the smallest policy that would have sufficed. */
  async egress(options: { limit?: GetMicrovmsIdEgressQuery['limit']; suggest?: boolean } & CallOptions = {}): Promise<EgressLog> {
    const { signal, ...query } = options;
    return this.transport.call(operations.getMicrovmsIdEgress, { id: await this.ready() }, { query, signal });
  }
}
