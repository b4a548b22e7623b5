import { type Exec, type PostMicrovmsIdExecsBody } from './api.js';
import { type CommandResult, type Gap, type Output } from './results.js';
import { type Body, type CallOptions, type Transport } from './transport.js';
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
    pty?: {
        cols?: number;
        rows?: number;
    };
}
export interface SpawnOptions extends CommandOptions {
    /** Its input stays open for write(). */
    openStdin?: boolean;
}
export declare function execBody(command: Command, options: SpawnOptions): PostMicrovmsIdExecsBody;
/** A command under way: iterate over what it prints. Leaving the loop early, close() and aborting kill what it started. */
export declare class CommandStream implements AsyncIterable<Output | Gap>, AsyncDisposable {
    private readonly open;
    /** Its id in the guest, once it has started. */
    id?: string;
    /** There at the end. */
    result?: CommandResult;
    private readonly abort;
    private events?;
    constructor(open: (signal: AbortSignal) => Promise<[Transport, Response]>, signal?: AbortSignal);
    [Symbol.asyncIterator](): AsyncGenerator<Output | Gap>;
    private read;
    /** Reads to the end. */
    wait(): Promise<CommandResult>;
    /** Ends the connection; if the command still runs, the guest kills everything that it started. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
/** A command that outlives the connection; any client can attach to it again by its id. */
export declare class Process {
    private readonly transport;
    private readonly vm;
    readonly id: string;
    private stdinOffset;
    constructor(transport: Transport, vm: string, id: string);
    private get names();
    status(options?: CallOptions): Promise<Exec>;
    /** What it prints, from this byte on, until it ends or, with `follow: false`, to what is there. A new reader replaces the one before. */
    output(options?: CallOptions & {
        offset?: number;
        follow?: boolean;
    }): AsyncGenerator<Output | Gap>;
    /** Everything that is kept of its output, and how it ended. A connection that is lost is made again at the same byte. */
    wait(options?: CallOptions): Promise<CommandResult>;
    /** Bytes to its input. They carry their place in it, so a write that was cut can be repeated. */
    write(content: Body, options?: CallOptions & {
        eof?: boolean;
    }): Promise<void>;
    closeStdin(options?: CallOptions): Promise<void>;
    signal(number?: number, options?: CallOptions & {
        group?: boolean;
    }): Promise<void>;
    /** Its terminal's size, if it has one. */
    resize(cols: number, rows: number, options?: CallOptions): Promise<void>;
    /** Kills all that it started, and forgets it. */
    kill(options?: CallOptions): Promise<void>;
}
