import { type Cap, type CheckReport, type CodeAnswer, type Event, type GetMicrovmsQuery, type Microvm, type SandboxPolicy, type Tenant, type Usage } from './api.js';
import type { FindOptions } from './find.js';
import { Images } from './images.js';
import { Sandbox, type SandboxOptions } from './sandbox.js';
import { type ExecuteCodeOptions, Invocations, Sessions, Templates } from './sessions.js';
import { EgressPolicies, Keys, Roles, Secrets, Tenants } from './tenant.js';
import { type CallOptions, type RetryPolicy, Transport } from './transport.js';
export interface ClientOptions extends FindOptions {
    retry?: Partial<RetryPolicy>;
    fetch?: typeof fetch;
}
/**
 * Without options it finds the server as the command line does: FIREBREAK_URL and FIREBREAK_API_KEY, the current context of
 * 'firebreak login', or the files of a server on this host.
 */
export declare class Client {
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
    constructor(options?: ClientOptions);
    /** A new microVM, running. */
    run(image?: string, options?: Omit<SandboxOptions, 'client'>): Promise<Sandbox>;
    /** A microVM by its id, its name, or the beginning of its id. */
    get(id: string, options?: CallOptions): Promise<Sandbox>;
    /** Newest first, page by page; those that ended in the last day are among them. */
    list(options?: Omit<GetMicrovmsQuery, 'pageToken' | 'tag'> & {
        tag?: [string, string];
    } & CallOptions): AsyncGenerator<Microvm>;
    /** Runs an agent's code: checked, counted, in the session of the turn, recorded. An agent's key need not name the agent. */
    executeCode(code: string, options?: ExecuteCodeOptions): Promise<CodeAnswer>;
    /** Ends the session of a turn; false: there was none. */
    endTurn(turnId: string, options?: CallOptions & {
        agentId?: string;
    }): Promise<boolean>;
    /** Whether agents of your tenant may run code, and what is kept of it. */
    policy(options?: CallOptions): Promise<SandboxPolicy>;
    /** Caps of your tenant, and what is used of them now. */
    caps(options?: CallOptions): Promise<Cap[]>;
    /** State changes: from now on, or after a sequence number; with `follow: false` it ends with the last. */
    events(options?: CallOptions & {
        after?: number;
        microvm?: string;
        follow?: boolean;
    }): AsyncGenerator<Event>;
    /** What was used; `since` is in Unix milliseconds. */
    usage(options?: CallOptions & {
        since?: number;
    }): Promise<Usage>;
    /** Your own tenant and its limits. */
    tenant(options?: CallOptions): Promise<Tenant>;
    /** Compares the host with the store; for administrators. */
    check(options?: CallOptions & {
        repair?: boolean;
    }): Promise<CheckReport>;
}
