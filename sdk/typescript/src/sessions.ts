// Code of agents, under the rules of their tenant: sessions, templates, and the record of every call.
import {
  type CodeAnswer, type GetInvocationsQuery, type Invocation, type InvocationOutput, type Invocations as InvocationPage, type Operation,
  type PatchTemplatesTemplateBody, type PostExecuteCodeBody, type PostSessionsBody, type PostSessionsSessionExecBody, type PostTemplatesBody,
  type Session as SessionInfo, type Sessions as SessionList, type Template, type Templates as TemplateList, operations,
} from './api.js';
import type { Command } from './commands.js';
import { UnavailableError } from './errors.js';
import { Files } from './files.js';
import { Collected, type Gap, type Output } from './results.js';
import { type CallOptions, type Transport, jsonLines } from './transport.js';

export interface ExecuteOptions extends CallOptions {
  language?: string;
  /** Is called with what the code prints, as it comes. */
  onOutput?: (event: Output | Gap) => void;
}

export type ExecuteCodeOptions = ExecuteOptions & Pick<PostExecuteCodeBody, 'agentId' | 'turnId' | 'template'>;

/** One call that runs code. What the code does is in the answer, also that a cap refused it; only a wrong request throws. */
export async function callCode(transport: Transport, operation: Operation, names: Record<string, string>, body: object, options: ExecuteOptions): Promise<CodeAnswer> {
  const { signal, onOutput } = options;
  if (!onOutput) return transport.call(operation, names, { body, signal });
  const collected = new Collected();
  for await (const line of jsonLines(transport, await transport.send(operation, names, { body: { ...body, stream: true }, signal }))) {
    const { type, ...answer } = line;
    if (type === 'answer') return answer as CodeAnswer;
    const event = collected.add(line);
    if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap') onOutput(event);
  }
  throw new UnavailableError('the stream ended before the code did', { code: 'unavailable' });
}

/** One microVM of one template for one agent; `await using` ends it. */
export class Session implements AsyncDisposable {
  /** The files of its microVM. */
  readonly files: Files;

  constructor(readonly transport: Transport, public info: SessionInfo) {
    this.files = new Files(this);
  }

  get id(): string { return this.info.id; }

  async filesAt(operation: Operation): Promise<[Operation, Record<string, string>]> {
    return [{ ...operation, path: operation.path.replace('/v1/microvms/{id}', '/v1/sessions/{session}') }, { session: this.id }];
  }

  async refresh(options: CallOptions = {}): Promise<SessionInfo> {
    return (this.info = await this.transport.call(operations.getSessionsSession, { session: this.id }, options));
  }

  /** Runs code: counted, recorded, and in the interpreter of the calls before. */
  execute(code: string, options: ExecuteOptions = {}): Promise<CodeAnswer> {
    return callCode(this.transport, operations.postSessionsSessionExecute, { session: this.id }, { code, language: options.language }, options);
  }

  /** Runs a command, counted and recorded as code is. */
  exec(command: Command, options: Omit<PostSessionsSessionExecBody, 'argv' | 'shell' | 'stream'> & Omit<ExecuteOptions, 'language'> = {}): Promise<CodeAnswer> {
    const { signal, onOutput, ...rest } = options;
    const body = { ...(typeof command === 'string' ? { shell: command } : { argv: [...command] }), ...rest };
    return callCode(this.transport, operations.postSessionsSessionExec, { session: this.id }, body, { signal, onOutput });
  }

  async end(options: CallOptions = {}): Promise<SessionInfo> {
    return (this.info = await this.transport.call(operations.deleteSessionsSession, { session: this.id }, options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

export class Sessions {
  constructor(private readonly transport: Transport) {}

  async create(wishes: PostSessionsBody = {}, options: CallOptions = {}): Promise<Session> {
    return new Session(this.transport, await this.transport.call<SessionInfo>(operations.postSessions, {}, { body: wishes, ...options }));
  }

  async get(id: string, options: CallOptions = {}): Promise<Session> {
    return new Session(this.transport, await this.transport.call<SessionInfo>(operations.getSessionsSession, { session: id }, options));
  }

  /** Those that live; with all also those that ended. */
  async list(options: CallOptions & { all?: boolean } = {}): Promise<SessionInfo[]> {
    return (await this.transport.call<SessionList>(operations.getSessions, {}, { query: { all: options.all }, signal: options.signal })).items;
  }
}

/** What sessions are made of. */
export class Templates {
  constructor(private readonly transport: Transport) {}

  /** Makes or replaces a template; what is not named has its default. */
  put(template: PostTemplatesBody, options: CallOptions = {}): Promise<Template> {
    return this.transport.call(operations.postTemplates, {}, { body: template, repeatable: true, ...options });
  }

  /** Changes what is named. */
  change(name: string, changes: PatchTemplatesTemplateBody, options: CallOptions = {}): Promise<Template> {
    return this.transport.call(operations.patchTemplatesTemplate, { template: name }, { body: changes, ...options });
  }

  get(name: string, options: CallOptions = {}): Promise<Template> {
    return this.transport.call(operations.getTemplatesTemplate, { template: name }, options);
  }

  async list(options: CallOptions = {}): Promise<Template[]> {
    return (await this.transport.call<TemplateList>(operations.getTemplates, {}, options)).items;
  }

  /** Its sessions go on. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteTemplatesTemplate, { template: name }, options);
  }
}

/** The record of every call that ran code in a session, or was refused. */
export class Invocations {
  constructor(private readonly transport: Transport) {}

  /** Newest first, page by page. */
  async *list(options: Omit<GetInvocationsQuery, 'after'> & CallOptions = {}): AsyncGenerator<Invocation> {
    const { signal, ...query } = options;
    let after: string | undefined;
    do {
      const page: InvocationPage = await this.transport.call(operations.getInvocations, {}, { query: { ...query, after }, signal });
      yield* page.items;
      after = page.next;
    } while (after);
  }

  get(id: string, options: CallOptions = {}): Promise<Invocation> {
    return this.transport.call(operations.getInvocationsInvocation, { invocation: id }, options);
  }

  /** All that the call printed, if the tenant's policy keeps it. */
  output(id: string, options: CallOptions = {}): Promise<InvocationOutput> {
    return this.transport.call(operations.getInvocationsInvocationOutput, { invocation: id }, options);
  }
}
