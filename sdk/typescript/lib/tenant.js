// Keys, egress policies, roles, and what administrators do with tenants.
import { operations, } from './api.js';
/** Keys of your tenant; an administrator may name another. */
export class Keys {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    async list(options = {}) {
        return (await this.transport.call(operations.getKeys, {}, { query: { tenant: options.tenant }, signal: options.signal })).items;
    }
    /** The secrets are in the answer and nowhere else. */
    create(wishes, options = {}) {
        return this.transport.call(operations.postKeys, {}, { body: wishes, ...options });
    }
    /** The next request with the key is refused. */
    async revoke(accessKeyId, options = {}) {
        await this.transport.call(operations.deleteKeysKey, { key: accessKeyId }, { query: { tenant: options.tenant }, signal: options.signal });
    }
}
/** What microVMs may reach. */
export class EgressPolicies {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    async list(options = {}) {
        return (await this.transport.call(operations.getEgressPolicies, {}, options)).items;
    }
    get(name, options = {}) {
        return this.transport.call(operations.getEgressPoliciesName, { name }, options);
    }
    /** Makes or replaces a policy; microVMs that have it get the new one at once. */
    put(name, policy, options = {}) {
        return this.transport.call(operations.putEgressPoliciesName, { name }, { body: policy, ...options });
    }
    async delete(name, options = {}) {
        await this.transport.call(operations.deleteEgressPoliciesName, { name }, options);
    }
}
/** What the short-lived credentials of microVMs may do. */
export class Roles {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    async list(options = {}) {
        return (await this.transport.call(operations.getRoles, {}, options)).items;
    }
    get(name, options = {}) {
        return this.transport.call(operations.getRolesName, { name }, options);
    }
    /** `policy` is an IAM policy document; credentials that are out have it at once. */
    put(name, policy, options = {}) {
        return this.transport.call(operations.putRolesName, { name }, { body: { policy }, ...options });
    }
    /** Credentials that are out end. */
    async delete(name, options = {}) {
        await this.transport.call(operations.deleteRolesName, { name }, options);
    }
}
/** What is taken out of everything that your guests send. */
export class Secrets {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    /** Names and times; values are never given back. */
    async list(options = {}) {
        return (await this.transport.call(operations.getSecrets, {}, options)).items;
    }
    /** From now on `[redacted:NAME]` stands in its place. */
    async put(name, value, options = {}) {
        await this.transport.call(operations.putSecretsName, { name }, { body: { value }, ...options });
    }
    async delete(name, options = {}) {
        await this.transport.call(operations.deleteSecretsName, { name }, options);
    }
}
/** For administrators. */
export class Tenants {
    transport;
    constructor(transport) {
        this.transport = transport;
    }
    async list(options = {}) {
        return (await this.transport.call(operations.getTenants, {}, options)).items;
    }
    /** With its first key, whose secrets are in the answer and nowhere else. */
    create(wishes, options = {}) {
        return this.transport.call(operations.postTenants, {}, { body: wishes, ...options });
    }
    /** Limits and caps that are not named stay; null takes a cap away. */
    setLimits(accountId, limits, options = {}) {
        return this.transport.call(operations.putTenantsTenantLimits, { tenant: accountId }, { body: limits, ...options });
    }
    /** Whether agents may run code, and what is kept of it; what is not named stays. */
    setPolicy(accountId, changes, options = {}) {
        return this.transport.call(operations.patchTenantsTenantPolicy, { tenant: accountId }, { body: changes, ...options });
    }
    setEgress(accountId, settings, options = {}) {
        return this.transport.call(operations.putTenantsTenantEgress, { tenant: accountId }, { body: settings, ...options });
    }
    async delete(accountId, options = {}) {
        await this.transport.call(operations.deleteTenantsTenant, { tenant: accountId }, options);
    }
}
