import type { Operation } from './api.js';
import { UnavailableError } from './errors.js';
import { type FindOptions, type ServerAddress } from './find.js';
export type Body = string | Uint8Array | Blob | ReadableStream<Uint8Array>;
export interface CallOptions {
    signal?: AbortSignal;
}
export interface CallRequest extends CallOptions {
    query?: object;
    body?: object;
    content?: Body;
    headers?: [string, string][];
    /** Sending it twice does no harm. A GET, PUT or DELETE is repeatable unless this says otherwise. */
    repeatable?: boolean;
}
export interface RetryPolicy {
    retries: number;
    firstWaitMs: number;
    longestWaitMs: number;
}
export declare const defaultRetry: RetryPolicy;
/** Milliseconds to wait before a call is sent again; undefined: the error stands. */
export declare function waitBefore(policy: RetryPolicy, attempt: number, error: unknown, repeatable: boolean, retryAfterMs?: number): number | undefined;
export declare class Transport {
    private readonly find;
    readonly policy: RetryPolicy;
    private readonly fetcher?;
    private server?;
    constructor(find: FindOptions, policy: RetryPolicy, fetcher?: typeof fetch | undefined);
    address(): Promise<ServerAddress>;
    /** The JSON answer of a call. */
    call<T>(operation: Operation, names: Record<string, string>, request?: CallRequest): Promise<T>;
    /** The answer as it comes. Cancelling its body closes the connection, which ends the server's work for it. */
    send(operation: Operation, names: Record<string, string>, request: CallRequest): Promise<Response>;
    private once;
    unreachable(cause: unknown): Promise<UnavailableError>;
}
export declare function sleep(ms: number, signal?: AbortSignal): Promise<void>;
/** The pieces of a body; leaving the loop early closes the connection. */
export declare function pieces(transport: Transport, response: Response): AsyncGenerator<Uint8Array>;
/** Lines end at LF alone. */
export declare function lines(transport: Transport, response: Response): AsyncGenerator<string>;
/** The lines of a stream; one that tells of a failure is thrown. */
export declare function jsonLines(transport: Transport, response: Response): AsyncGenerator<any>;
/** Name and data of each server-sent event. */
export declare function serverEvents(transport: Transport, response: Response): AsyncGenerator<[string, string]>;
