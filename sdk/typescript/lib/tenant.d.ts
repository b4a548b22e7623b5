import { type EgressPolicy, type EgressSettings, type IssuedKey, type Key, type Limits, type NewTenant, type PostKeysBody, type PostTenantsBody, type PutEgressPoliciesNameBody, type PutRolesNameBody, type Role, type SandboxPolicy, type Secret, type Tenant } from './api.js';
import type { CallOptions, Transport } from './transport.js';
/** Keys of your tenant; an administrator may name another. */
export declare class Keys {
    private readonly transport;
    constructor(transport: Transport);
    list(options?: CallOptions & {
        tenant?: string;
    }): Promise<Key[]>;
    /** The secrets are in the answer and nowhere else. */
    create(wishes: PostKeysBody, options?: CallOptions): Promise<IssuedKey>;
    /** The next request with the key is refused. */
    revoke(accessKeyId: string, options?: CallOptions & {
        tenant?: string;
    }): Promise<void>;
}
/** What microVMs may reach. */
export declare class EgressPolicies {
    private readonly transport;
    constructor(transport: Transport);
    list(options?: CallOptions): Promise<EgressPolicy[]>;
    get(name: string, options?: CallOptions): Promise<EgressPolicy>;
    /** Makes or replaces a policy; microVMs that have it get the new one at once. */
    put(name: string, policy: PutEgressPoliciesNameBody, options?: CallOptions): Promise<EgressPolicy>;
    delete(name: string, options?: CallOptions): Promise<void>;
}
/** What the short-lived credentials of microVMs may do. */
export declare class Roles {
    private readonly transport;
    constructor(transport: Transport);
    list(options?: CallOptions): Promise<Role[]>;
    get(name: string, options?: CallOptions): Promise<Role>;
    /** `policy` is an IAM policy document; credentials that are out have it at once. */
    put(name: string, policy: PutRolesNameBody['policy'], options?: CallOptions): Promise<Role>;
    /** Credentials that are out end. */
    delete(name: string, options?: CallOptions): Promise<void>;
}
/** What is taken out of everything that your guests send. */
export declare class Secrets {
    private readonly transport;
    constructor(transport: Transport);
    /** Names and times; values are never given back. */
    list(options?: CallOptions): Promise<Secret[]>;
    /** From now on `[redacted:NAME]` stands in its place. */
    put(name: string, value: string, options?: CallOptions): Promise<void>;
    delete(name: string, options?: CallOptions): Promise<void>;
}
/** For administrators. */
export declare class Tenants {
    private readonly transport;
    constructor(transport: Transport);
    list(options?: CallOptions): Promise<Tenant[]>;
    /** With its first key, whose secrets are in the answer and nowhere else. */
    create(wishes: PostTenantsBody, options?: CallOptions): Promise<NewTenant>;
    /** Limits and caps that are not named stay; null takes a cap away. */
    setLimits(accountId: string, limits: Partial<Limits>, options?: CallOptions): Promise<Tenant>;
    /** Whether agents may run code, and what is kept of it; what is not named stays. */
    setPolicy(accountId: string, changes: Partial<SandboxPolicy>, options?: CallOptions): Promise<SandboxPolicy>;
    setEgress(accountId: string, settings: Partial<EgressSettings>, options?: CallOptions): Promise<EgressSettings>;
    delete(accountId: string, options?: CallOptions): Promise<void>;
}
