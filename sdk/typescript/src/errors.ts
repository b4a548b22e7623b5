// Errors as classes: one for each code of the API, all of them FirebreakError.

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
export class FirebreakError extends Error {
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

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code ?? 'error';
    this.status = details.status;
    this.reason = details.reason;
    this.repair = details.repair;
    this.resetsAt = details.resetsAt;
    this.data = details.data ?? {};
  }
}

/** The request is wrong: an unknown member, a bad value. */
export class InvalidError extends FirebreakError {}
/** The key is missing, wrong or revoked. */
export class UnauthenticatedError extends FirebreakError {}
/** The key may not do this. */
export class DeniedError extends FirebreakError {}
/** There is no such microVM, image, exec, file or program. */
export class NotFoundError extends FirebreakError {}
/** It is not in the state for this: ended, being built, busy. */
export class ConflictError extends FirebreakError {}
/** A limit of the tenant, or an answer that is too large. */
export class ExhaustedError extends FirebreakError {}
/** The server's fault; its log says more. */
export class ServerError extends FirebreakError {}
/** Files of the server are damaged. */
export class CorruptError extends ServerError {}
/** The guest, or a hook in it, failed. */
export class GuestError extends FirebreakError {}
/** The server cannot be reached, has no room or is stopping, or the guest went away. */
export class UnavailableError extends FirebreakError {}
/** A deadline passed. */
export class TimeoutError extends FirebreakError {}
/** No server was named, and none was found. */
export class ConfigurationError extends FirebreakError {}
/** A command, or code in a context, did not succeed; thrown only by check(). */
export class CommandError extends FirebreakError {}

const byCode: Record<string, typeof FirebreakError> = {
  invalid: InvalidError,
  unauthenticated: UnauthenticatedError,
  denied: DeniedError,
  not_found: NotFoundError,
  conflict: ConflictError,
  exhausted: ExhaustedError,
  internal: ServerError,
  corrupt: CorruptError,
  guest: GuestError,
  unavailable: UnavailableError,
  timeout: TimeoutError,
};

/** The error that a body, or the last line of a stream, tells about. */
export function errorOf(status: number | undefined, body: Record<string, unknown>): FirebreakError {
  const { type, code, message, reason, repair, resetsAt, ...data } = body as Record<string, any>;
  const word = String(code ?? 'internal');
  const kind = byCode[word] ?? FirebreakError;
  return new kind(String(message ?? `the server answered with status ${status}`), {
    status, code: word, reason, repair, data, resetsAt: typeof resetsAt === 'number' ? new Date(resetsAt) : undefined,
  });
}
