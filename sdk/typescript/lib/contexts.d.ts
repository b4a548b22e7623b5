import { type Context as ContextStatus, type PostMicrovmsIdContextsBody } from './api.js';
import { type ErrorEvent, type Gap, type Output, type ResultEvent, RunResult } from './results.js';
import type { Sandbox } from './sandbox.js';
import { type CallOptions } from './transport.js';
export type CodeEvent = Output | Gap | ResultEvent | ErrorEvent;
export interface RunOptions extends CallOptions {
    /** Then it is interrupted. */
    timeoutMs?: number;
    /** Is called with what the code prints and shows, as it comes. */
    onOutput?: (event: CodeEvent) => void;
}
/** Code under way: iterate over what it prints and shows. Leaving the loop early, close() and aborting interrupt it. */
export declare class CodeStream implements AsyncIterable<CodeEvent>, AsyncDisposable {
    private readonly box;
    private readonly context;
    private readonly body;
    /** Its name, for interrupt(), once it has started. */
    run?: string;
    /** There at the end. */
    result?: RunResult;
    private readonly abort;
    private events?;
    constructor(box: Sandbox, context: string, body: object, signal?: AbortSignal);
    [Symbol.asyncIterator](): AsyncGenerator<CodeEvent>;
    private read;
    /** Reads to the end. */
    wait(): Promise<RunResult>;
    /** Ends the connection; if the code still runs, it is interrupted. The context keeps its variables. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
/** One interpreter. */
export declare class Context {
    private readonly box;
    readonly id: string;
    constructor(box: Sandbox, id: string);
    private names;
    status(options?: CallOptions): Promise<ContextStatus>;
    /** Runs code to its end. */
    run(code: string, options?: RunOptions): Promise<RunResult>;
    stream(code: string, options?: RunOptions): CodeStream;
    /** Ends what runs, or only that run, and keeps the state. False: nothing of that was running. */
    interrupt(run?: string, options?: CallOptions): Promise<boolean>;
    /** A new interpreter under the same id; the state is lost. */
    restart(options?: CallOptions): Promise<ContextStatus>;
    delete(options?: CallOptions): Promise<void>;
}
/** The contexts of a microVM. */
export declare class Contexts {
    private readonly box;
    constructor(box: Sandbox);
    create(language?: string, options?: Omit<PostMicrovmsIdContextsBody, 'language'> & CallOptions): Promise<Context>;
    list(options?: CallOptions): Promise<ContextStatus[]>;
    get(id: string): Context;
    /** The first context of the language; one is made if there is none. */
    ofLanguage(language: string): Promise<Context>;
}
