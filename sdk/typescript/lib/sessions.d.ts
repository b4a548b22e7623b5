import { type CodeAnswer, type GetInvocationsQuery, type Invocation, type InvocationOutput, type Operation, type PatchTemplatesTemplateBody, type PostExecuteCodeBody, type PostSessionsBody, type PostSessionsSessionExecBody, type PostTemplatesBody, type Session as SessionInfo, type Template } from './api.js';
import type { Command } from './commands.js';
import { Files } from './files.js';
import { type Gap, type Output } from './results.js';
import { type CallOptions, type Transport } from './transport.js';
export interface ExecuteOptions extends CallOptions {
    language?: string;
    /** Is called with what the code prints, as it comes. */
    onOutput?: (event: Output | Gap) => void;
}
export type ExecuteCodeOptions = ExecuteOptions & Pick<PostExecuteCodeBody, 'agentId' | 'turnId' | 'template'>;
/** One call that runs code. What the code does is in the answer, also that a cap refused it; only a wrong request throws. */
export declare function callCode(transport: Transport, operation: Operation, names: Record<string, string>, body: object, options: ExecuteOptions): Promise<CodeAnswer>;
/** One microVM of one template for one agent; `await using` ends it. */
export declare class Session implements AsyncDisposable {
    readonly transport: Transport;
    info: SessionInfo;
    /** The files of its microVM. */
    readonly files: Files;
    constructor(transport: Transport, info: SessionInfo);
    get id(): string;
    filesAt(operation: Operation): Promise<[Operation, Record<string, string>]>;
    refresh(options?: CallOptions): Promise<SessionInfo>;
    /** Runs code: counted, recorded, and in the interpreter of the calls before. */
    execute(code: string, options?: ExecuteOptions): Promise<CodeAnswer>;
    /** Runs a command, counted and recorded as code is. */
    exec(command: Command, options?: Omit<PostSessionsSessionExecBody, 'argv' | 'shell' | 'stream'> & Omit<ExecuteOptions, 'language'>): Promise<CodeAnswer>;
    end(options?: CallOptions): Promise<SessionInfo>;
    [Symbol.asyncDispose](): Promise<void>;
}
export declare class Sessions {
    private readonly transport;
    constructor(transport: Transport);
    create(wishes?: PostSessionsBody, options?: CallOptions): Promise<Session>;
    get(id: string, options?: CallOptions): Promise<Session>;
    /** Those that live; with all also those that ended. */
    list(options?: CallOptions & {
        all?: boolean;
    }): Promise<SessionInfo[]>;
}
/** What sessions are made of. */
export declare class Templates {
    private readonly transport;
    constructor(transport: Transport);
    /** Makes or replaces a template; what is not named has its default. */
    put(template: PostTemplatesBody, options?: CallOptions): Promise<Template>;
    /** Changes what is named. */
    change(name: string, changes: PatchTemplatesTemplateBody, options?: CallOptions): Promise<Template>;
    get(name: string, options?: CallOptions): Promise<Template>;
    list(options?: CallOptions): Promise<Template[]>;
    /** Its sessions go on. */
    delete(name: string, options?: CallOptions): Promise<void>;
}
/** The record of every call that ran code in a session, or was refused. */
export declare class Invocations {
    private readonly transport;
    constructor(transport: Transport);
    /** Newest first, page by page. */
    list(options?: Omit<GetInvocationsQuery, 'after'> & CallOptions): AsyncGenerator<Invocation>;
    get(id: string, options?: CallOptions): Promise<Invocation>;
    /** All that the call printed, if the tenant's policy keeps it. */
    output(id: string, options?: CallOptions): Promise<InvocationOutput>;
}
