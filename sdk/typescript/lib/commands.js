// Commands in a microVM: run to the end, streamed, or started as processes that outlive the connection.
import { operations } from './api.js';
import { UnavailableError } from './errors.js';
import { Collected, toBase64 } from './results.js';
import { jsonLines, sleep } from './transport.js';
export function execBody(command, options) {
    const { signal, stdin, openStdin, ...rest } = options;
    return {
        ...(typeof command === 'string' ? { shell: command } : { argv: [...command] }),
        ...rest,
        ...(typeof stdin === 'string' ? { stdin } : stdin ? { stdinBase64: toBase64(stdin) } : {}),
        ...(openStdin ? { openStdin } : {}),
    };
}
/** A command under way: iterate over what it prints. Leaving the loop early, close() and aborting kill what it started. */
export class CommandStream {
    open;
    /** Its id in the guest, once it has started. */
    id;
    /** There at the end. */
    result;
    abort = new AbortController();
    events;
    constructor(open, signal) {
        this.open = open;
        signal?.addEventListener('abort', () => this.abort.abort(signal.reason), { once: true });
        if (signal?.aborted)
            this.abort.abort(signal.reason);
    }
    [Symbol.asyncIterator]() {
        return (this.events ??= this.read());
    }
    async *read() {
        const [transport, response] = await this.open(this.abort.signal);
        const collected = new Collected();
        for await (const line of jsonLines(transport, response)) {
            const event = collected.add(line);
            if (line.type === 'started')
                this.id = line.exec;
            else if (line.type === 'exit')
                this.result = collected.command();
            else if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap')
                yield event;
        }
        if (!this.result)
            throw new UnavailableError('the stream ended before the command did', { code: 'unavailable' });
    }
    /** Reads to the end. */
    async wait() {
        for (let step = await this[Symbol.asyncIterator]().next(); !step.done; step = await this[Symbol.asyncIterator]().next())
            ;
        return this.result;
    }
    /** Ends the connection; if the command still runs, the guest kills everything that it started. */
    async close() {
        this.abort.abort();
        await this.events?.return(undefined).catch(() => { });
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
}
/** A command that outlives the connection; any client can attach to it again by its id. */
export class Process {
    transport;
    vm;
    id;
    stdinOffset = 0;
    constructor(transport, vm, id) {
        this.transport = transport;
        this.vm = vm;
        this.id = id;
    }
    get names() { return { id: this.vm, exec: this.id }; }
    status(options = {}) {
        return this.transport.call(operations.getMicrovmsIdExecsExec, this.names, options);
    }
    /** What it prints, from this byte on, until it ends or, with `follow: false`, to what is there. A new reader replaces the one before. */
    async *output(options = {}) {
        const query = { offset: options.offset || undefined, follow: options.follow === false ? '0' : undefined };
        const response = await this.transport.send(operations.getMicrovmsIdExecsExecOutput, this.names, { query, signal: options.signal });
        const collected = new Collected();
        for await (const line of jsonLines(this.transport, response)) {
            const event = collected.add(line);
            if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap')
                yield event;
        }
    }
    /** Everything that is kept of its output, and how it ended. A connection that is lost is made again at the same byte. */
    async wait(options = {}) {
        const collected = new Collected();
        let seen = 0;
        for (let failures = 0;;) {
            try {
                for await (const event of this.output({ offset: seen, signal: options.signal })) {
                    failures = 0;
                    seen += event.type === 'gap' ? event.size : event.data.length;
                    if (event.type !== 'gap')
                        collected.add({ type: event.type, dataBase64: toBase64(event.data) });
                }
            }
            catch (error) {
                if (!(error instanceof UnavailableError) || ++failures > this.transport.policy.retries)
                    throw error;
            }
            const { exit } = await this.status(options);
            if (exit)
                return collected.command(exit);
            await sleep(50, options.signal);
        }
    }
    /** Bytes to its input. They carry their place in it, so a write that was cut can be repeated. */
    async write(content, options = {}) {
        const answer = await this.transport.call(operations.postMicrovmsIdExecsExecStdin, this.names, { query: { offset: this.stdinOffset, eof: options.eof }, content, repeatable: true, signal: options.signal });
        this.stdinOffset = answer.offset;
    }
    closeStdin(options = {}) {
        return this.write('', { ...options, eof: true });
    }
    async signal(number = 15, options = {}) {
        await this.transport.call(operations.postMicrovmsIdExecsExecSignal, this.names, { body: { signal: number, group: options.group ?? true }, signal: options.signal });
    }
    /** Its terminal's size, if it has one. */
    async resize(cols, rows, options = {}) {
        await this.transport.call(operations.postMicrovmsIdExecsExecResize, this.names, { body: { cols, rows }, repeatable: true, ...options });
    }
    /** Kills all that it started, and forgets it. */
    async kill(options = {}) {
        await this.transport.call(operations.deleteMicrovmsIdExecsExec, this.names, options);
    }
}
