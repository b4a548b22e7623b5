// The client: a server, and everything that a key may do there.
import {
  type Cap, type Caps, type CheckReport, type CodeAnswer, type EndedTurn, type Event, type GetMicrovmsQuery, type Microvm, type MicrovmPage,
  type SandboxPolicy, type Tenant, type Usage, operations,
} from './api.js';
import type { FindOptions } from './find.js';
import { Images } from './images.js';
import { Sandbox, type SandboxOptions } from './sandbox.js';
import { type ExecuteCodeOptions, Invocations, Sessions, Templates, callCode } from './sessions.js';
import { EgressPolicies, Keys, Roles, Secrets, Tenants } from './tenant.js';
import { type CallOptions, type RetryPolicy, Transport, defaultRetry, serverEvents } from './transport.js';

export interface ClientOptions extends FindOptions {
  retry?: Partial<RetryPolicy>;
  fetch?: typeof fetch;
}

/**
 * Without options it finds the server as the command line does: FIREBREAK_URL and FIREBREAK_API_KEY, the current context of
 * 'firebreak login', or the files of a server on this host.
 */
export class Client {
  readonly transport: Transport;
  readonly images: Images;
  readonly keys: Keys;
  readonly egressPolicies: EgressPolicies;
  readonly roles: Roles;
  readonly secrets: Secrets;
  readonly tenants: Tenants;
  readonly sessions: Sessions;
  readonly templates: Templates;
  readonly invocations: Invocations;

  constructor(options: ClientOptions = {}) {
    const { retry, fetch: fetcher, ...find } = options;
    this.transport = new Transport(find, { ...defaultRetry, ...retry }, fetcher);
    this.images = new Images(this.transport);
    this.keys = new Keys(this.transport);
    this.egressPolicies = new EgressPolicies(this.transport);
    this.roles = new Roles(this.transport);
    this.secrets = new Secrets(this.transport);
    this.tenants = new Tenants(this.transport);
    this.sessions = new Sessions(this.transport);
    this.templates = new Templates(this.transport);
    this.invocations = new Invocations(this.transport);
  }

  /** A new microVM, running. */
  run(image = 'python', options: Omit<SandboxOptions, 'client'> = {}): Promise<Sandbox> {
    return new Sandbox(image, { ...options, client: this }).start();
  }

  /** A microVM by its id, its name, or the beginning of its id. */
  async get(id: string, options: CallOptions = {}): Promise<Sandbox> {
    return Sandbox.attached(this, await this.transport.call<Microvm>(operations.getMicrovmsId, { id }, options));
  }

  /** Newest first, page by page; those that ended in the last day are among them. */
  async *list(options: Omit<GetMicrovmsQuery, 'pageToken' | 'tag'> & { tag?: [string, string] } & CallOptions = {}): AsyncGenerator<Microvm> {
    const { signal, tag, ...rest } = options;
    let pageToken: string | undefined;
    do {
      const page: MicrovmPage = await this.transport.call(operations.getMicrovms, {}, { query: { ...rest, tag: tag?.join('='), pageToken }, signal });
      yield* page.items;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Runs an agent's code: checked, counted, in the session of the turn, recorded. An agent's key need not name the agent. */
  executeCode(code: string, options: ExecuteCodeOptions = {}): Promise<CodeAnswer> {
    const { signal, onOutput, ...wishes } = options;
    return callCode(this.transport, operations.postExecuteCode, {}, { code, ...wishes }, { signal, onOutput });
  }

  /** Ends the session of a turn; false: there was none. */
  async endTurn(turnId: string, options: CallOptions & { agentId?: string } = {}): Promise<boolean> {
    const { signal, ...body } = options;
    return (await this.transport.call<EndedTurn>(operations.postTurnsTurnEnd, { turn: turnId }, { body, signal, repeatable: true })).ended;
  }

  /** Whether agents of your tenant may run code, and what is kept of it. */
  policy(options: CallOptions = {}): Promise<SandboxPolicy> {
    return this.transport.call(operations.getPolicy, {}, options);
  }

  /** Caps of your tenant, and what is used of them now. */
  async caps(options: CallOptions = {}): Promise<Cap[]> {
    return (await this.transport.call<Caps>(operations.getCaps, {}, options)).items;
  }

  /** State changes: from now on, or after a sequence number; with `follow: false` it ends with the last. */
  async *events(options: CallOptions & { after?: number; microvm?: string; follow?: boolean } = {}): AsyncGenerator<Event> {
    const query = { after: options.after, microvm: options.microvm, follow: options.follow === false ? '0' : undefined };
    const response = await this.transport.send(operations.getEvents, {}, { query, signal: options.signal });
    for await (const [, data] of serverEvents(this.transport, response)) yield JSON.parse(data);
  }

  /** What was used; `since` is in Unix milliseconds. */
  usage(options: CallOptions & { since?: number } = {}): Promise<Usage> {
    return this.transport.call(operations.getUsage, {}, { query: { since: options.since }, signal: options.signal });
  }

  /** Your own tenant and its limits. */
  tenant(options: CallOptions = {}): Promise<Tenant> {
    return this.transport.call(operations.getTenant, {}, options);
  }

  /** Compares the host with the store; for administrators. */
  check(options: CallOptions & { repair?: boolean } = {}): Promise<CheckReport> {
    return this.transport.call(operations.postCheck, {}, { query: { repair: options.repair }, repeatable: true, signal: options.signal });
  }
}
