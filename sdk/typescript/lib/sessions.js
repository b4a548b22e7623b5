// Code of agents, under the rules of their tenant: sessions, templates, and the record of every call.
import { operations, } from './api.js';
import { UnavailableError } from './errors.js';
import { Files } from './files.js';
import { Collected } from './results.js';
import { jsonLines } from './transport.js';
/** One call that runs code. What the code does is in the answer, also that a cap refused it; only a wrong request throws. */
export async function callCode(transport, operation, names, body, options) {
    const { signal, onOutput } = options;
    if (!onOutput)
        return transport.call(operation, names, { body, signal });
    const collected = new Collected();
    for await (const line of jsonLines(transport, await transport.send(operation, names, { body: { ...body, stream: true }, signal }))) {
        const { type, ...answer } = line;
        if (type === 'answer')
            return answer;
        const event = collected.add(line);
        if (event?.type === 'stdout' || event?.type === 'stderr' || event?.type === 'gap')
            onOutput(event);
    }
    throw new UnavailableError('the stream ended before the code did', { code: 'unavailable' });
}
/** One microVM of one template for one agent; `await using` ends it. */
export class Session {
    transport;
    info;
    /** The files of its microVM. */
    files;
    constructor(transport, info) {
        this.transport = transport;
        this.info = info;
        this.files = new Files(this);
    }
    get id() { return this.info.id; }
    async filesAt(operation) {
        return [{ ...operation, path: operation.path.replace('/v1/microvms/{id}', '/v1/sessions/{session}') }, { session: this.id }];
    }
    async refresh(options = {}) {
        return (this.info = await this.transport.call(operations.getSessionsSession, { session: this.id }, options));
    }
    /** Runs code: counted, recorded, and in the interpreter of the calls before. */
    execute(code, options = {}) {
        return callCode(this.transport, operations.postSessionsSessionExecute, { session: this.id }, { code, language: options.language }, options);
    }
    /** Runs a command, counted and recorded as code is. */
    exec(command, options = {}) {
        const { signal, onOutput, ...rest } = options;
        const body = { ...(typeof command === 'string' ? { shell: command } : { argv: [...command] }), ...rest };
        return callCode(this.transport, operations.postSessionsSessionExec, { session: this.id }, body, { signal, onOutput });
    }
    async end(options = {}) {
        return (this.info = await this.transport.call(operations.deleteSessionsSession, { session: this.id }, options));
    }
    async [Symbol.asyncDispose]() {
        await this.end();
    }
}
export class Sessions {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    async create(wishes = {}, options = {}) {
        return new Session(this.transport, await this.transport.call(operations.postSessions, {}, { body: wishes, ...options }));
    }
    async get(id, options = {}) {
        return new Session(this.transport, await this.transport.call(operations.getSessionsSession, { session: id }, options));
    }
    /** Those that live; with all also those that ended. */
    async list(options = {}) {
        return (await this.transport.call(operations.getSessions, {}, { query: { all: options.all }, signal: options.signal })).items;
    }
}
/** What sessions are made of. */
export class Templates {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    /** Makes or replaces a template; what is not named has its default. */
    put(template, options = {}) {
        return this.transport.call(operations.postTemplates, {}, { body: template, repeatable: true, ...options });
    }
    /** Changes what is named. */
    change(name, changes, options = {}) {
        return this.transport.call(operations.patchTemplatesTemplate, { template: name }, { body: changes, ...options });
    }
    get(name, options = {}) {
        return this.transport.call(operations.getTemplatesTemplate, { template: name }, options);
    }
    async list(options = {}) {
        return (await this.transport.call(operations.getTemplates, {}, options)).items;
    }
    /** Its sessions go on. */
    async delete(name, options = {}) {
        await this.transport.call(operations.deleteTemplatesTemplate, { template: name }, options);
    }
}
/** The record of every call that ran code in a session, or was refused. */
export class Invocations {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    /** Newest first, page by page. */
    async *list(options = {}) {
        const { signal, ...query } = options;
        let after;
        do {
            const page = await this.transport.call(operations.getInvocations, {}, { query: { ...query, after }, signal });
            yield* page.items;
            after = page.next;
        } while (after);
    }
    get(id, options = {}) {
        return this.transport.call(operations.getInvocationsInvocation, { invocation: id }, options);
    }
    /** All that the call printed, if the tenant's policy keeps it. */
    output(id, options = {}) {
        return this.transport.call(operations.getInvocationsInvocationOutput, { invocation: id }, options);
    }
}
