import { type Base, type BuildCache, type Image, type ImageVersion, type ImageVersionDetail, type ImageWithVersions, type PostImagesBody, type Pruned } from './api.js';
import { type ProgressCallback } from './progress.js';
import { type Body, type CallOptions, type Transport } from './transport.js';
export interface BuildOptions extends CallOptions {
    file?: string;
    target?: string;
    args?: Record<string, string>;
    env?: Record<string, string>;
    memoryMib?: number;
    noCache?: boolean;
    ready?: string;
    hooks?: string;
    egress?: string;
    buildEgress?: string;
    pythonContext?: boolean;
    preload?: Record<string, string[]>;
    pruneVersions?: boolean;
    secrets?: Record<string, Uint8Array>;
    progress?: ProgressCallback;
    /** False: answer once the build is ordered. */
    wait?: boolean;
}
export declare class Images {
    private readonly transport;
    constructor(transport: Transport);
    /** Your own and the system's; `name` is a part of the name. */
    list(options?: CallOptions & {
        name?: string;
    }): AsyncGenerator<Image>;
    get(image: string, options?: CallOptions): Promise<ImageWithVersions>;
    /** Makes an image from the base root filesystem; answers when it is made, which may take minutes. */
    create(wishes: PostImagesBody, options?: CallOptions): Promise<ImageVersion>;
    delete(image: string, options?: CallOptions): Promise<void>;
    /**
     * Builds an image from a Dockerfile: `context` is a directory's path, or a tar or zip archive. Each line of the build's log reaches `progress`;
     * without one, a terminal shows a bar. A build that fails throws GuestError.
     */
    build(image: string, context: string | Exclude<Body, string>, options?: BuildOptions): Promise<ImageVersionDetail>;
    private follow;
    version(image: string, version?: string, options?: CallOptions): Promise<ImageVersionDetail>;
    /** What the build printed, as text; with follow until it has ended. */
    log(image: string, version?: string, options?: CallOptions & {
        follow?: boolean;
    }): AsyncGenerator<string>;
    /** Ends a build that is under way. */
    cancel(image: string, version: string, options?: CallOptions): Promise<void>;
    deleteVersion(image: string, version: string, options?: CallOptions): Promise<void>;
    /** Removes the versions that nobody uses. */
    prune(image: string, options?: CallOptions): Promise<Pruned>;
    /** What every FROM can name. */
    bases(options?: CallOptions): Promise<Base[]>;
    buildCache(options?: CallOptions): Promise<BuildCache>;
}
