import { type FileInfo, type Operation } from './api.js';
import { type Body, type CallOptions, type Transport } from './transport.js';
/** A sandbox or a session: where its files are called. */
export interface FilesHome {
    transport: Transport;
    filesAt(operation: Operation): Promise<[Operation, Record<string, string>]>;
}
export interface WriteOptions extends CallOptions {
    /** Permissions, as 0o644. */
    mode?: number;
    append?: boolean;
    offset?: number;
    user?: string;
    /** Makes directories that are missing. */
    parents?: boolean;
}
export declare class Files {
    private readonly home;
    constructor(home: FilesHome);
    private call;
    read(path: string, options?: CallOptions & {
        offset?: number;
        length?: number;
    }): Promise<Uint8Array>;
    readText(path: string, options?: CallOptions): Promise<string>;
    /** A file's bytes as they come, however large it is. */
    stream(path: string, options?: CallOptions & {
        offset?: number;
        length?: number;
    }): AsyncGenerator<Uint8Array>;
    /** Without `append` and `offset` the file is replaced whole or not at all. */
    write(path: string, content: Body, options?: WriteOptions): Promise<void>;
    stat(path: string, options?: CallOptions & {
        follow?: boolean;
    }): Promise<FileInfo>;
    exists(path: string, options?: CallOptions): Promise<boolean>;
    list(path: string, options?: CallOptions): Promise<FileInfo[]>;
    mkdir(path: string, options?: CallOptions & {
        mode?: number;
        parents?: boolean;
    }): Promise<void>;
    rename(from: string, to: string, options?: CallOptions): Promise<void>;
    remove(path: string, options?: CallOptions & {
        recursive?: boolean;
    }): Promise<void>;
    /** A directory's content, or one file, as a tar archive. */
    tar(path: string, options?: CallOptions): AsyncGenerator<Uint8Array>;
    /** Unpacks a tar archive below a directory. */
    untar(path: string, archive: Body, options?: CallOptions): Promise<void>;
    /** Copies a file, or what is in a directory, of this computer into the guest. */
    upload(local: string, path: string, options?: CallOptions): Promise<void>;
    /** Copies a file to a file, or what is in a directory to a directory. Links and devices are left out, and their names returned. */
    download(path: string, local: string, options?: CallOptions): Promise<string[]>;
}
