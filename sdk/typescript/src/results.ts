// What commands and code give back.
import type { CodeArtifact, CodeError, CodeResult, ExecResult } from './api.js';
import { CommandError } from './errors.js';

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

export const fromBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

const encoder = new TextEncoder();
const bytesOf = (text?: string, encoded?: string) => (encoded === undefined ? encoder.encode(text ?? '') : fromBase64(encoded));
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** What a command printed, and how it ended. */
export class CommandResult implements Exit {
  readonly exitCode?: number;
  readonly signal?: number;
  readonly timedOut: boolean;
  readonly outOfMemory: boolean;

  constructor(readonly stdoutBytes: Uint8Array, readonly stderrBytes: Uint8Array, exit: Exit, readonly durationMs = 0) {
    this.exitCode = exit.exitCode;
    this.signal = exit.signal;
    this.timedOut = exit.timedOut;
    this.outOfMemory = exit.outOfMemory;
  }

  static from(answer: ExecResult): CommandResult {
    return new CommandResult(bytesOf(answer.stdout, answer.stdoutBase64), bytesOf(answer.stderr, answer.stderrBase64), answer, answer.durationMs);
  }

  get stdout(): string { return textOf(this.stdoutBytes); }
  get stderr(): string { return textOf(this.stderrBytes); }
  get ok(): boolean { return this.exitCode === 0; }

  /** Throws CommandError unless the exit status is 0. */
  check(): this {
    if (this.ok) return this;
    const how = this.timedOut ? 'it was killed at its time limit' : this.outOfMemory ? "the guest's memory ran out"
      : this.exitCode === undefined ? `signal ${this.signal} ended it` : `exit status ${this.exitCode}`;
    throw new CommandError(`the command failed: ${how}\n${this.stderr.slice(-2000)}`.trimEnd(), { code: 'command', data: { result: this } });
  }
}

/** What code in a context printed, showed and raised. */
export class RunResult {
  constructor(readonly answer: CodeResult) {}

  get stdout(): string { return this.answer.stdout; }
  get stderr(): string { return this.answer.stderr; }
  get status(): string { return this.answer.status; }
  get results(): CodeArtifact[] { return this.answer.results; }
  get error(): CodeError | undefined { return this.answer.error; }
  get ok(): boolean { return this.status === 'ok'; }

  /** The last expression's value as text. */
  get text(): string | undefined {
    return this.results.find((each) => each.main && each.kind === 'text')?.data;
  }

  /** The first picture. */
  get png(): Uint8Array | undefined {
    const found = this.results.find((each) => each.kind === 'png');
    return found && fromBase64(found.data);
  }

  /** Throws CommandError unless the code ran to its end without an error. */
  check(): this {
    if (this.ok) return this;
    const what = this.error ? `${this.error.name}: ${this.error.message}` : this.status;
    throw new CommandError(`the code did not succeed: ${what}`, { code: 'command', reason: this.status, data: { result: this } });
  }
}

/** Puts the lines of a stream together. */
export class Collected {
  private readonly printed: { stdout: Uint8Array[]; stderr: Uint8Array[] } = { stdout: [], stderr: [] };
  private members: Record<string, any> = { results: [] };

  /** What a line tells, as a value; undefined for a line about the stream itself. */
  add(line: any): Output | Gap | ResultEvent | ErrorEvent | undefined {
    const { type, ...members } = line;
    switch (type) {
      case 'stdout':
      case 'stderr': {
        const data = bytesOf(line.data, line.dataBase64);
        this.printed[type as 'stdout' | 'stderr'].push(data);
        return { type, data, text: textOf(data) };
      }
      case 'gap': return { type, size: line.bytes };
      case 'result':
        this.members['results'].push(members);
        return { type, artifact: members as CodeArtifact };
      case 'error':
        this.members['error'] = members;
        return { type, error: members as CodeError };
      default:
        Object.assign(this.members, members);
        return undefined;
    }
  }

  command(exit: Exit = this.members as unknown as Exit): CommandResult {
    return new CommandResult(joined(this.printed.stdout), joined(this.printed.stderr), { ...exit, timedOut: !!exit.timedOut, outOfMemory: !!exit.outOfMemory });
  }

  code(): RunResult {
    return new RunResult({ ...this.members, stdout: textOf(joined(this.printed.stdout)), stderr: textOf(joined(this.printed.stderr)) } as unknown as CodeResult);
  }
}

export function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
