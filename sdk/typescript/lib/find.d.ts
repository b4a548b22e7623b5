export interface ServerAddress {
    url: string;
    apiKey: string;
    caFile?: string;
}
export interface FindOptions {
    url?: string;
    apiKey?: string;
    context?: string;
    dataDir?: string;
    env?: Record<string, string | undefined>;
}
/** Arguments come first, then a named context, then the environment, then the current context, then a server of this host. */
export declare function findServer(options?: FindOptions): Promise<ServerAddress>;
