// Contexts: interpreters in a microVM that keep their state from one run of code to the next.
import { operations } from './api.js';
import { UnavailableError } from './errors.js';
import { Collected, RunResult } from './results.js';
import { jsonLines } from './transport.js';
/** Code under way: iterate over what it prints and shows. Leaving the loop early, close() and aborting interrupt it. */
export class CodeStream {
    box;
    context;
    body;
    /** Its name, for interrupt(), once it has started. */
    run;
    /** There at the end. */
    result;
    abort = new AbortController();
    events;
    constructor(box, context, body, signal) {
        this.box = box;
        this.context = context;
        this.body = body;
        signal?.addEventListener('abort', () => this.abort.abort(signal.reason), { once: true });
        if (signal?.aborted)
            this.abort.abort(signal.reason);
    }
    [Symbol.asyncIterator]() {
        return (this.events ??= this.read());
    }
    async *read() {
        const names = { id: await this.box.ready(), context: this.context };
        const response = await this.box.transport.send(operations.postMicrovmsIdContextsContextRun, names, { body: { ...this.body, stream: true }, signal: this.abort.signal });
        const collected = new Collected();
        for await (const line of jsonLines(this.box.transport, response)) {
            const event = collected.add(line);
            if (line.type === 'started')
                this.run = line.run;
            else if (line.type === 'done')
                this.result = collected.code();
            else if (event)
                yield event;
        }
        if (!this.result)
            throw new UnavailableError('the stream ended before the code did', { code: 'unavailable' });
    }
    /** Reads to the end. */
    async wait() {
        for (let step = await this[Symbol.asyncIterator]().next(); !step.done; step = await this[Symbol.asyncIterator]().next())
            ;
        return this.result;
    }
    /** Ends the connection; if the code still runs, it is interrupted. The context keeps its variables. */
    async close() {
        this.abort.abort();
        await this.events?.return(undefined).catch(() => { });
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
}
/** One interpreter. */
export class Context {
    box;
    id;
    constructor(box, id) {
        this.box = box;
        this.id = id;
    }
    async names() { return { id: await this.box.ready(), context: this.id }; }
    async status(options = {}) {
        return this.box.transport.call(operations.getMicrovmsIdContextsContext, await this.names(), options);
    }
    /** Runs code to its end. */
    async run(code, options = {}) {
        if (options.onOutput) {
            const stream = this.stream(code, options);
            for await (const event of stream)
                options.onOutput(event);
            return stream.result;
        }
        const answer = await this.box.transport.call(operations.postMicrovmsIdContextsContextRun, await this.names(), { body: { code, timeoutMs: options.timeoutMs }, signal: options.signal });
        return new RunResult(answer);
    }
    stream(code, options = {}) {
        return new CodeStream(this.box, this.id, { code, timeoutMs: options.timeoutMs }, options.signal);
    }
    /** Ends what runs, or only that run, and keeps the state. False: nothing of that was running. */
    async interrupt(run, options = {}) {
        const answer = await this.box.transport.call(operations.postMicrovmsIdContextsContextInterrupt, await this.names(), { body: { run }, ...options });
        return answer.interrupted;
    }
    /** A new interpreter under the same id; the state is lost. */
    async restart(options = {}) {
        return this.box.transport.call(operations.postMicrovmsIdContextsContextRestart, await this.names(), options);
    }
    async delete(options = {}) {
        await this.box.transport.call(operations.deleteMicrovmsIdContextsContext, await this.names(), options);
    }
}
/** The contexts of a microVM. */
export class Contexts {
    box;
    constructor(box) {
        this.box = box;
    }
    async create(language = 'python', options = {}) {
        const { signal, ...wishes } = options;
        const made = await this.box.transport.call(operations.postMicrovmsIdContexts, { id: await this.box.ready() }, { body: { language, ...wishes }, signal });
        return this.get(made.id);
    }
    async list(options = {}) {
        return (await this.box.transport.call(operations.getMicrovmsIdContexts, { id: await this.box.ready() }, options)).contexts;
    }
    get(id) {
        return new Context(this.box, id);
    }
    /** The first context of the language; one is made if there is none. */
    async ofLanguage(language) {
        const found = (await this.list()).find((each) => each.language === language);
        return found ? this.get(found.id) : this.create(language);
    }
}
