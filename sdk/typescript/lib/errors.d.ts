export interface ErrorDetails {
    status?: number;
    code?: string;
    reason?: string;
    repair?: string;
    resetsAt?: Date;
    data?: Record<string, unknown>;
    cause?: unknown;
}
/** What the server, or this library, refused or could not do. `code` and `reason` are stable words; the text is for people. */
export declare class FirebreakError extends Error {
    readonly code: string;
    readonly status?: number;
    /** A stable word, when the code says too little. */
    readonly reason?: string;
    /** What to do, where that is known. */
    readonly repair?: string;
    /** When to try again, where that is known. */
    readonly resetsAt?: Date;
    /** Whatever else the server told. */
    readonly data: Record<string, unknown>;
    constructor(message: string, details?: ErrorDetails);
}
/** The request is wrong: an unknown member, a bad value. */
export declare class InvalidError extends FirebreakError {
}
/** The key is missing, wrong or revoked. */
export declare class UnauthenticatedError extends FirebreakError {
}
/** The key may not do this. */
export declare class DeniedError extends FirebreakError {
}
/** There is no such microVM, image, exec, file or program. */
export declare class NotFoundError extends FirebreakError {
}
/** It is not in the state for this: ended, being built, busy. */
export declare class ConflictError extends FirebreakError {
}
/** A limit of the tenant, or an answer that is too large. */
export declare class ExhaustedError extends FirebreakError {
}
/** The server's fault; its log says more. */
export declare class ServerError extends FirebreakError {
}
/** Files of the server are damaged. */
export declare class CorruptError extends ServerError {
}
/** The guest, or a hook in it, failed. */
export declare class GuestError extends FirebreakError {
}
/** The server cannot be reached, has no room or is stopping, or the guest went away. */
export declare class UnavailableError extends FirebreakError {
}
/** A deadline passed. */
export declare class TimeoutError extends FirebreakError {
}
/** No server was named, and none was found. */
export declare class ConfigurationError extends FirebreakError {
}
/** A command, or code in a context, did not succeed; thrown only by check(). */
export declare class CommandError extends FirebreakError {
}
/** The error that a body, or the last line of a stream, tells about. */
export declare function errorOf(status: number | undefined, body: Record<string, unknown>): FirebreakError;
