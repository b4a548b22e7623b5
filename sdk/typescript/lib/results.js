import { CommandError } from './errors.js';
export const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
export function toBase64(bytes) {
    let text = '';
    for (const byte of bytes)
        text += String.fromCharCode(byte);
    return btoa(text);
}
const encoder = new TextEncoder();
const bytesOf = (text, encoded) => (encoded === undefined ? encoder.encode(text ?? '') : fromBase64(encoded));
const textOf = (bytes) => new TextDecoder().decode(bytes);
/** What a command printed, and how it ended. */
export class CommandResult {
    stdoutBytes;
    stderrBytes;
    durationMs;
    exitCode;
    signal;
    timedOut;
    outOfMemory;
    constructor(stdoutBytes, stderrBytes, exit, durationMs = 0) {
        this.stdoutBytes = stdoutBytes;
        this.stderrBytes = stderrBytes;
        this.durationMs = durationMs;
        this.exitCode = exit.exitCode;
        this.signal = exit.signal;
        this.timedOut = exit.timedOut;
        this.outOfMemory = exit.outOfMemory;
    }
    static from(answer) {
        return new CommandResult(bytesOf(answer.stdout, answer.stdoutBase64), bytesOf(answer.stderr, answer.stderrBase64), answer, answer.durationMs);
    }
    get stdout() { return textOf(this.stdoutBytes); }
    get stderr() { return textOf(this.stderrBytes); }
    get ok() { return this.exitCode === 0; }
    /** Throws CommandError unless the exit status is 0. */
    check() {
        if (this.ok)
            return this;
        const how = this.timedOut ? 'it was killed at its time limit' : this.outOfMemory ? "the guest's memory ran out"
            : this.exitCode === undefined ? `signal ${this.signal} ended it` : `exit status ${this.exitCode}`;
        throw new CommandError(`the command failed: ${how}\n${this.stderr.slice(-2000)}`.trimEnd(), { code: 'command', data: { result: this } });
    }
}
/** What code in a context printed, showed and raised. */
export class RunResult {
    answer;
    constructor(answer) {
        this.answer = answer;
    }
    get stdout() { return this.answer.stdout; }
    get stderr() { return this.answer.stderr; }
    get status() { return this.answer.status; }
    get results() { return this.answer.results; }
    get error() { return this.answer.error; }
    get ok() { return this.status === 'ok'; }
    /** The last expression's value as text. */
    get text() {
        return this.results.find((each) => each.main && each.kind === 'text')?.data;
    }
    /** The first picture. */
    get png() {
        const found = this.results.find((each) => each.kind === 'png');
        return found && fromBase64(found.data);
    }
    /** Throws CommandError unless the code ran to its end without an error. */
    check() {
        if (this.ok)
            return this;
        const what = this.error ? `${this.error.name}: ${this.error.message}` : this.status;
        throw new CommandError(`the code did not succeed: ${what}`, { code: 'command', reason: this.status, data: { result: this } });
    }
}
/** Puts the lines of a stream together. */
export class Collected {
    printed = { stdout: [], stderr: [] };
    members = { results: [] };
    /** What a line tells, as a value; undefined for a line about the stream itself. */
    add(line) {
        const { type, ...members } = line;
        switch (type) {
            case 'stdout':
            case 'stderr': {
                const data = bytesOf(line.data, line.dataBase64);
                this.printed[type].push(data);
                return { type, data, text: textOf(data) };
            }
            case 'gap': return { type, size: line.bytes };
            case 'result':
                this.members['results'].push(members);
                return { type, artifact: members };
            case 'error':
                this.members['error'] = members;
                return { type, error: members };
            default:
                Object.assign(this.members, members);
                return undefined;
        }
    }
    command(exit = this.members) {
        return new CommandResult(joined(this.printed.stdout), joined(this.printed.stderr), { ...exit, timedOut: !!exit.timedOut, outOfMemory: !!exit.outOfMemory });
    }
    code() {
        return new RunResult({ ...this.members, stdout: textOf(joined(this.printed.stdout)), stderr: textOf(joined(this.printed.stderr)) });
    }
}
export function joined(parts) {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}
