// Files and directories in a microVM, or in a session's.
import { operations } from './api.js';
import { packed } from './archive.js';
import { NotFoundError } from './errors.js';
import { joined } from './results.js';
import { jsonLines, pieces } from './transport.js';
const octal = (mode) => mode?.toString(8).padStart(4, '0');
export class Files {
    home;
    constructor(home) {
        this.home = home;
    }
    async call(operation, request) {
        return this.home.transport.call(...(await this.home.filesAt(operation)), request);
    }
    async read(path, options = {}) {
        const parts = [];
        for await (const piece of this.stream(path, options))
            parts.push(piece);
        return joined(parts);
    }
    async readText(path, options = {}) {
        return new TextDecoder().decode(await this.read(path, options));
    }
    /** A file's bytes as they come, however large it is. */
    async *stream(path, options = {}) {
        const { signal, ...range } = options;
        const response = await this.home.transport.send(...(await this.home.filesAt(operations.getMicrovmsIdFiles)), { query: { path, ...range }, signal });
        yield* pieces(this.home.transport, response);
    }
    /** Without `append` and `offset` the file is replaced whole or not at all. */
    async write(path, content, options = {}) {
        const { signal, mode, ...rest } = options;
        await this.call(operations.putMicrovmsIdFiles, { query: { path, mode: octal(mode), ...rest }, content, signal, repeatable: !options.append });
    }
    stat(path, options = {}) {
        return this.call(operations.getMicrovmsIdFilesStat, { query: { path, follow: options.follow }, signal: options.signal });
    }
    async exists(path, options = {}) {
        try {
            await this.stat(path, options);
            return true;
        }
        catch (error) {
            if (error instanceof NotFoundError)
                return false;
            throw error;
        }
    }
    async list(path, options = {}) {
        const response = await this.home.transport.send(...(await this.home.filesAt(operations.getMicrovmsIdFilesList)), { query: { path }, ...options });
        const found = [];
        for await (const line of jsonLines(this.home.transport, response))
            found.push(line);
        return found;
    }
    async mkdir(path, options = {}) {
        await this.call(operations.postMicrovmsIdFilesMkdir, { query: { path, mode: octal(options.mode), parents: options.parents }, signal: options.signal, repeatable: options.parents });
    }
    async rename(from, to, options = {}) {
        await this.call(operations.postMicrovmsIdFilesRename, { query: { from, to }, ...options });
    }
    async remove(path, options = {}) {
        await this.call(operations.deleteMicrovmsIdFiles, { query: { path, recursive: options.recursive }, signal: options.signal, repeatable: false });
    }
    /** A directory's content, or one file, as a tar archive. */
    async *tar(path, options = {}) {
        const response = await this.home.transport.send(...(await this.home.filesAt(operations.getMicrovmsIdTar)), { query: { path }, ...options });
        yield* pieces(this.home.transport, response);
    }
    /** Unpacks a tar archive below a directory. */
    async untar(path, archive, options = {}) {
        await this.call(operations.putMicrovmsIdTar, { query: { path }, content: archive, ...options });
    }
    /** Copies a file, or what is in a directory, of this computer into the guest. */
    async upload(local, path, options = {}) {
        const { stat, readFile } = await import('node:fs/promises');
        if ((await stat(local)).isDirectory()) {
            await this.mkdir(path, { parents: true, ...options });
            return this.untar(path, packed(local), options);
        }
        await this.write(path, await readFile(local), { parents: true, ...options });
    }
    /** Copies a file to a file, or what is in a directory to a directory. Links and devices are left out, and their names returned. */
    async download(path, local, options = {}) {
        const { mkdir, open } = await import('node:fs/promises');
        if ((await this.stat(path, { follow: true, ...options })).type !== 'dir') {
            const file = await open(local, 'w');
            try {
                for await (const piece of this.stream(path, options))
                    await file.write(piece);
            }
            finally {
                await file.close();
            }
            return [];
        }
        await mkdir(local, { recursive: true });
        const left = [];
        for (const each of await this.list(path, options)) {
            // A name of the guest is not trusted.
            const plain = each.name !== '' && each.name !== '.' && each.name !== '..' && !/[/\\\0]/.test(each.name);
            if (!plain || (each.type !== 'file' && each.type !== 'dir'))
                left.push(each.name);
            else
                left.push(...(await this.download(`${path}/${each.name}`, `${local}/${each.name}`, options)).map((name) => `${each.name}/${name}`));
        }
        return left;
    }
}
