// A microVM, and everything that can be done in it and with it.
import { operations, } from './api.js';
import { Client } from './client.js';
import { CommandStream, Process, execBody } from './commands.js';
import { Contexts } from './contexts.js';
import { ConflictError, FirebreakError } from './errors.js';
import { Files } from './files.js';
import { reporter } from './progress.js';
import { Collected, CommandResult } from './results.js';
import { jsonLines, sleep } from './transport.js';
/** Tokens that open a microVM's ports to clients outside. */
export class EndpointTokens {
    box;
    constructor(box) {
        this.box = box;
    }
    /** `ports` is a number, a text such as "8080,9000-9010", or "*"; the token itself is shown this once. */
    async create(ports, options = {}) {
        const { signal, ...wishes } = options;
        return this.box.transport.call(operations.postMicrovmsIdTokens, { id: await this.box.ready() }, { body: { ports, ...wishes }, signal });
    }
    async list(options = {}) {
        return (await this.box.transport.call(operations.getMicrovmsIdTokens, { id: await this.box.ready() }, options)).items;
    }
    /** By the token's id. */
    async revoke(token, options = {}) {
        await this.box.transport.call(operations.deleteMicrovmsIdTokensToken, { id: await this.box.ready(), token }, options);
    }
}
/**
 * A microVM of an image. It is made by start(), or by the first call that needs it; `await using` ends the microVM that it made.
 * A sandbox that Client.get() gave is somebody's already, and goes on.
 */
export class Sandbox {
    options;
    client;
    files = new Files(this);
    contexts = new Contexts(this);
    tokens = new EndpointTokens(this);
    owned = true;
    known;
    starting;
    wishes;
    interpreters = new Map();
    constructor(image = 'python', options = {}) {
        this.options = options;
        const { client, progress, signal, ...wishes } = options;
        this.client = client ?? new Client();
        // However often the request is sent, one microVM is made.
        this.wishes = { image, ...wishes, clientToken: crypto.randomUUID() };
    }
    /** A microVM that is there. */
    static attached(client, info, owned = false) {
        const sandbox = new Sandbox(info.image, { client });
        sandbox.known = info;
        sandbox.owned = owned;
        return sandbox;
    }
    /** A new sandbox, running. */
    static create(image = 'python', options = {}) {
        return new Sandbox(image, options).start();
    }
    get transport() { return this.client.transport; }
    /** What the server said last about it; refresh() asks again. */
    get info() {
        if (!this.known)
            throw new FirebreakError('the microVM is not there yet; call start()');
        return this.known;
    }
    get id() { return this.info.id; }
    /** Makes the microVM, unless that is done; waits while its image is being built. */
    async start() {
        if (!this.known) {
            this.starting ??= this.launch();
            try {
                this.known = await this.starting;
            }
            catch (error) {
                this.starting = undefined;
                throw error;
            }
        }
        return this;
    }
    /** Its id, once it is there. */
    async ready() {
        await this.start();
        return this.id;
    }
    async filesAt(operation) {
        return [operation, { id: await this.ready() }];
    }
    async launch() {
        const { signal } = this.options;
        const report = reporter(this.options.progress);
        for (let waited = false;; waited = true) {
            try {
                const made = await this.transport.call(operations.postMicrovms, {}, { body: this.wishes, repeatable: true, signal });
                if (waited)
                    report({ what: `the image ${this.wishes.image} is ready`, finished: true });
                return made;
            }
            catch (error) {
                if (!(error instanceof ConflictError) || !(await this.beingBuilt()))
                    throw error;
            }
            report({ what: `the image ${this.wishes.image} is being built` });
            await sleep(500, signal);
        }
    }
    async beingBuilt() {
        const image = await this.transport.call(operations.getImagesImage, { image: this.wishes.image.split(':')[0] });
        return image.state.endsWith('ING');
    }
    async [Symbol.asyncDispose]() {
        if (this.owned && (this.known || this.starting))
            await this.terminate();
    }
    async keep(answer) {
        return (this.known = await answer);
    }
    async refresh(options = {}) {
        return this.keep(this.transport.call(operations.getMicrovmsId, { id: await this.ready() }, options));
    }
    /** Changes what is named; null takes a name, an idle policy or a time limit away. */
    async update(changes, options = {}) {
        return this.keep(this.transport.call(operations.patchMicrovmsId, { id: await this.ready() }, { body: changes, ...options }));
    }
    async suspend(options = {}) {
        return this.keep(this.transport.call(operations.postMicrovmsIdSuspend, { id: await this.ready() }, { repeatable: true, ...options }));
    }
    async resume(options = {}) {
        return this.keep(this.transport.call(operations.postMicrovmsIdResume, { id: await this.ready() }, { repeatable: true, ...options }));
    }
    /** Copies of it as it is now, running; `await using` of a copy ends that copy. */
    async fork(count = 1, options = {}) {
        const made = await this.transport.call(operations.postMicrovmsIdFork, { id: await this.ready() }, { body: { count }, ...options });
        return made.items.map((info) => Sandbox.attached(this.client, info, true));
    }
    /** Ends it; succeeds also when it has ended already. */
    async terminate(options = {}) {
        return this.keep(this.transport.call(operations.deleteMicrovmsId, { id: await this.ready() }, options));
    }
    // ---- code and commands
    /** Runs code in the first context of the language; variables stay for the next run. */
    async run(code, options = {}) {
        return (await this.interpreter(options.language)).run(code, options);
    }
    /** The context in which run() runs code of this language. */
    interpreter(language = 'python') {
        let found = this.interpreters.get(language);
        if (!found) {
            found = this.contexts.ofLanguage(language);
            found.catch(() => this.interpreters.delete(language));
            this.interpreters.set(language, found);
        }
        return found;
    }
    /** Runs a command to its end. When `signal` aborts, the guest kills everything that the command started. */
    async exec(command, options = {}) {
        const answer = await this.transport.call(operations.postMicrovmsIdExec, { id: await this.ready() }, { body: execBody(command, options), signal: options.signal });
        return CommandResult.from(answer);
    }
    /** A command whose output comes as it is printed. */
    stream(command, options = {}) {
        const open = async (signal) => [this.transport, await this.transport.send(operations.postMicrovmsIdExec, { id: await this.ready() }, { body: { ...execBody(command, options), stream: true }, signal })];
        return new CommandStream(open, options.signal);
    }
    /** Starts a command that outlives the connection. */
    async spawn(command, options = {}) {
        const made = await this.transport.call(operations.postMicrovmsIdExecs, { id: await this.ready() }, { body: execBody(command, options), signal: options.signal });
        return this.process(made.exec);
    }
    /** A command that spawn() started, maybe elsewhere. */
    process(id) {
        return new Process(this.transport, this.id, id);
    }
    async processes(options = {}) {
        return (await this.transport.call(operations.getMicrovmsIdExecs, { id: await this.ready() }, options)).execs;
    }
    /** What the application of the image printed; with follow until the microVM ends. */
    async *logs(options = {}) {
        const response = await this.transport.send(operations.getMicrovmsIdLogs, { id: await this.ready() }, { query: { follow: options.follow }, signal: options.signal });
        const collected = new Collected();
        for await (const line of jsonLines(this.transport, response)) {
            const event = collected.add(line);
            if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap')
                yield event;
        }
    }
    /** Where a port of it is reached from outside, with the headers that open it. */
    async endpoint(port, options = {}) {
        await this.start();
        const { token } = await this.tokens.create(port, options);
        return { url: `https://${this.info.endpoint}`, token, headers: { 'x-aws-proxy-auth': token, 'x-aws-proxy-port': String(port) } };
    }
    /** What it was allowed and denied; with suggest also the smallest policy that would have sufficed. */
    async egress(options = {}) {
        const { signal, ...query } = options;
        return this.transport.call(operations.getMicrovmsIdEgress, { id: await this.ready() }, { query, signal });
    }
}
