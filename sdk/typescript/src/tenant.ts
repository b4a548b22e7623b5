// Keys, egress policies, roles, and what administrators do with tenants.
import {
  type EgressPolicies as PolicyList, type EgressPolicy, type EgressSettings, type IssuedKey, type Key, type Keys as KeyList, type Limits, type NewTenant,
  type PostKeysBody, type PostTenantsBody, type PutEgressPoliciesNameBody, type PutRolesNameBody, type Role, type Roles as RoleList, type SandboxPolicy, type Secret, type Secrets as SecretList, type Tenant,
  type Tenants as TenantList, operations,
} from './api.js';
import type { CallOptions, Transport } from './transport.js';

/** Keys of your tenant; an administrator may name another. */
export class Keys {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions & { tenant?: string } = {}): Promise<Key[]> {
    return (await this.transport.call<KeyList>(operations.getKeys, {}, { query: { tenant: options.tenant }, signal: options.signal })).items;
  }

  /** The secrets are in the answer and nowhere else. */
  create(wishes: PostKeysBody, options: CallOptions = {}): Promise<IssuedKey> {
    return this.transport.call(operations.postKeys, {}, { body: wishes, ...options });
  }

  /** The next request with the key is refused. */
  async revoke(accessKeyId: string, options: CallOptions & { tenant?: string } = {}): Promise<void> {
    await this.transport.call(operations.deleteKeysKey, { key: accessKeyId }, { query: { tenant: options.tenant }, signal: options.signal });
  }
}

/** What microVMs may reach. */
export class EgressPolicies {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<EgressPolicy[]> {
    return (await this.transport.call<PolicyList>(operations.getEgressPolicies, {}, options)).items;
  }

  get(name: string, options: CallOptions = {}): Promise<EgressPolicy> {
    return this.transport.call(operations.getEgressPoliciesName, { name }, options);
  }

  /** Makes or replaces a policy; microVMs that have it get the new one at once. */
  put(name: string, policy: PutEgressPoliciesNameBody, options: CallOptions = {}): Promise<EgressPolicy> {
    return this.transport.call(operations.putEgressPoliciesName, { name }, { body: policy, ...options });
  }

  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteEgressPoliciesName, { name }, options);
  }
}

/** What the short-lived credentials of microVMs may do. */
export class Roles {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<Role[]> {
    return (await this.transport.call<RoleList>(operations.getRoles, {}, options)).items;
  }

  get(name: string, options: CallOptions = {}): Promise<Role> {
    return this.transport.call(operations.getRolesName, { name }, options);
  }

  /** `policy` is an IAM policy document; credentials that are out have it at once. */
  put(name: string, policy: PutRolesNameBody['policy'], options: CallOptions = {}): Promise<Role> {
    return this.transport.call(operations.putRolesName, { name }, { body: { policy }, ...options });
  }

  /** Credentials that are out end. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteRolesName, { name }, options);
  }
}

/** What is taken out of everything that your guests send. */
export class Secrets {
  constructor(private readonly transport: Transport) {}

  /** Names and times; values are never given back. */
  async list(options: CallOptions = {}): Promise<Secret[]> {
    return (await this.transport.call<SecretList>(operations.getSecrets, {}, options)).items;
  }

  /** From now on `[redacted:NAME]` stands in its place. */
  async put(name: string, value: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.putSecretsName, { name }, { body: { value }, ...options });
  }

  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteSecretsName, { name }, options);
  }
}

/** For administrators. */
export class Tenants {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<Tenant[]> {
    return (await this.transport.call<TenantList>(operations.getTenants, {}, options)).items;
  }

  /** With its first key, whose secrets are in the answer and nowhere else. */
  create(wishes: PostTenantsBody, options: CallOptions = {}): Promise<NewTenant> {
    return this.transport.call(operations.postTenants, {}, { body: wishes, ...options });
  }

  /** Limits and caps that are not named stay; null takes a cap away. */
  setLimits(accountId: string, limits: Partial<Limits>, options: CallOptions = {}): Promise<Tenant> {
    return this.transport.call(operations.putTenantsTenantLimits, { tenant: accountId }, { body: limits, ...options });
  }

  /** Whether agents may run code, and what is kept of it; what is not named stays. */
  setPolicy(accountId: string, changes: Partial<SandboxPolicy>, options: CallOptions = {}): Promise<SandboxPolicy> {
    return this.transport.call(operations.patchTenantsTenantPolicy, { tenant: accountId }, { body: changes, ...options });
  }

  setEgress(accountId: string, settings: Partial<EgressSettings>, options: CallOptions = {}): Promise<EgressSettings> {
    return this.transport.call(operations.putTenantsTenantEgress, { tenant: accountId }, { body: settings, ...options });
  }

  async delete(accountId: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteTenantsTenant, { tenant: accountId }, options);
  }
}
