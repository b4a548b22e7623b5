/** What is in a directory: files and directories; links and devices are left out. */
export declare function pack(directory: string, below?: string): AsyncGenerator<Uint8Array>;
/** The archive as a body of a request. */
export declare function packed(directory: string): ReadableStream<Uint8Array>;
