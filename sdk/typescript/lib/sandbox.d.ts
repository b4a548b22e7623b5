import { type EgressLog, type Exec, type GetMicrovmsIdEgressQuery, type IssuedToken, type Microvm, type Operation, type PatchMicrovmsIdBody, type PostMicrovmsBody, type PostMicrovmsIdTokensBody, type Token } from './api.js';
import { Client } from './client.js';
import { type Command, type CommandOptions, CommandStream, Process, type SpawnOptions } from './commands.js';
import { type Context, Contexts, type RunOptions } from './contexts.js';
import { Files } from './files.js';
import { type ProgressCallback } from './progress.js';
import { CommandResult, type Gap, type Output, type RunResult } from './results.js';
import { type CallOptions, type Transport } from './transport.js';
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
export declare class EndpointTokens {
    private readonly box;
    constructor(box: Sandbox);
    /** `ports` is a number, a text such as "8080,9000-9010", or "*"; the token itself is shown this once. */
    create(ports?: number | string, options?: Omit<PostMicrovmsIdTokensBody, 'ports'> & CallOptions): Promise<IssuedToken>;
    list(options?: CallOptions): Promise<Token[]>;
    /** By the token's id. */
    revoke(token: string, options?: CallOptions): Promise<void>;
}
/**
 * A microVM of an image. It is made by start(), or by the first call that needs it; `await using` ends the microVM that it made.
 * A sandbox that Client.get() gave is somebody's already, and goes on.
 */
export declare class Sandbox implements AsyncDisposable {
    private readonly options;
    readonly client: Client;
    readonly files: Files;
    readonly contexts: Contexts;
    readonly tokens: EndpointTokens;
    private owned;
    private known?;
    private starting?;
    private readonly wishes;
    private readonly interpreters;
    constructor(image?: string, options?: SandboxOptions);
    /** A microVM that is there. */
    static attached(client: Client, info: Microvm, owned?: boolean): Sandbox;
    /** A new sandbox, running. */
    static create(image?: string, options?: SandboxOptions): Promise<Sandbox>;
    get transport(): Transport;
    /** What the server said last about it; refresh() asks again. */
    get info(): Microvm;
    get id(): string;
    /** Makes the microVM, unless that is done; waits while its image is being built. */
    start(): Promise<this>;
    /** Its id, once it is there. */
    ready(): Promise<string>;
    filesAt(operation: Operation): Promise<[Operation, Record<string, string>]>;
    private launch;
    private beingBuilt;
    [Symbol.asyncDispose](): Promise<void>;
    private keep;
    refresh(options?: CallOptions): Promise<Microvm>;
    /** Changes what is named; null takes a name, an idle policy or a time limit away. */
    update(changes: PatchMicrovmsIdBody, options?: CallOptions): Promise<Microvm>;
    suspend(options?: CallOptions): Promise<Microvm>;
    resume(options?: CallOptions): Promise<Microvm>;
    /** Copies of it as it is now, running; `await using` of a copy ends that copy. */
    fork(count?: number, options?: CallOptions): Promise<Sandbox[]>;
    /** Ends it; succeeds also when it has ended already. */
    terminate(options?: CallOptions): Promise<Microvm>;
    /** Runs code in the first context of the language; variables stay for the next run. */
    run(code: string, options?: RunOptions & {
        language?: string;
    }): Promise<RunResult>;
    /** The context in which run() runs code of this language. */
    interpreter(language?: string): Promise<Context>;
    /** Runs a command to its end. When `signal` aborts, the guest kills everything that the command started. */
    exec(command: Command, options?: CommandOptions): Promise<CommandResult>;
    /** A command whose output comes as it is printed. */
    stream(command: Command, options?: CommandOptions): CommandStream;
    /** Starts a command that outlives the connection. */
    spawn(command: Command, options?: SpawnOptions): Promise<Process>;
    /** A command that spawn() started, maybe elsewhere. */
    process(id: string): Process;
    processes(options?: CallOptions): Promise<Exec[]>;
    /** What the application of the image printed; with follow until the microVM ends. */
    logs(options?: CallOptions & {
        follow?: boolean;
    }): AsyncGenerator<Output | Gap>;
    /** Where a port of it is reached from outside, with the headers that open it. */
    endpoint(port: number, options?: {
        expiresSeconds?: number;
    } & CallOptions): Promise<Endpoint>;
    /** What it was allowed and denied; with suggest also the smallest policy that would have sufficed. */
    egress(options?: {
        limit?: GetMicrovmsIdEgressQuery['limit'];
        suggest?: boolean;
    } & CallOptions): Promise<EgressLog>;
}
