import type { CodeArtifact, CodeError, CodeResult, ExecResult } from './api.js';
export interface Exit {
    exitCode?: number;
    signal?: number;
    timedOut: boolean;
    outOfMemory: boolean;
}
/** A piece of what a command or code printed. */
export interface Output {
    type: 'stdout' | 'stderr';
    data: Uint8Array;
    text: string;
}
/** That many bytes of output were dropped here. */
export interface Gap {
    type: 'gap';
    size: number;
}
export interface ResultEvent {
    type: 'result';
    artifact: CodeArtifact;
}
export interface ErrorEvent {
    type: 'error';
    error: CodeError;
}
export declare const fromBase64: (text: string) => Uint8Array;
export declare function toBase64(bytes: Uint8Array): string;
/** What a command printed, and how it ended. */
export declare class CommandResult implements Exit {
    readonly stdoutBytes: Uint8Array;
    readonly stderrBytes: Uint8Array;
    readonly durationMs: number;
    readonly exitCode?: number;
    readonly signal?: number;
    readonly timedOut: boolean;
    readonly outOfMemory: boolean;
    constructor(stdoutBytes: Uint8Array, stderrBytes: Uint8Array, exit: Exit, durationMs?: number);
    static from(answer: ExecResult): CommandResult;
    get stdout(): string;
    get stderr(): string;
    get ok(): boolean;
    /** Throws CommandError unless the exit status is 0. */
    check(): this;
}
/** What code in a context printed, showed and raised. */
export declare class RunResult {
    readonly answer: CodeResult;
    constructor(answer: CodeResult);
    get stdout(): string;
    get stderr(): string;
    get status(): string;
    get results(): CodeArtifact[];
    get error(): CodeError | undefined;
    get ok(): boolean;
    /** The last expression's value as text. */
    get text(): string | undefined;
    /** The first picture. */
    get png(): Uint8Array | undefined;
    /** Throws CommandError unless the code ran to its end without an error. */
    check(): this;
}
/** Puts the lines of a stream together. */
export declare class Collected {
    private readonly printed;
    private members;
    /** What a line tells, as a value; undefined for a line about the stream itself. */
    add(line: any): Output | Gap | ResultEvent | ErrorEvent | undefined;
    command(exit?: Exit): CommandResult;
    code(): RunResult;
}
export declare function joined(parts: Uint8Array[]): Uint8Array;
