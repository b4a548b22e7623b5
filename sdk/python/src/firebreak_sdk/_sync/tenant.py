# Made by tools/sdk-sync from _async; change that and make it again.
"""Keys, egress policies, roles, and what administrators do with tenants."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, List

from .. import _api, models
from .transport import Transport


class Keys:
    """Keys of your tenant; an administrator may name another."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, tenant: str | None = None) -> List[models.Key]:
        return models.Keys.from_json(self._transport.call(_api.GET_KEYS, query={"tenant": tenant})).items

    def create(self, name: str, *, kind: str | None = None, agent_id: str | None = None, tenant: str | None = None) -> models.IssuedKey:
        """`kind` is owner, agent, approver, auditor or administrator. The secrets are in the answer and nowhere else."""
        body = {"name": name, "kind": kind, "agentId": agent_id, "tenant": tenant}
        return models.IssuedKey.from_json(self._transport.call(_api.POST_KEYS, body=body))

    def revoke(self, access_key_id: str, *, tenant: str | None = None) -> None:
        """The next request with the key is refused."""
        self._transport.call(_api.DELETE_KEYS_KEY, {"key": access_key_id}, query={"tenant": tenant})


class EgressPolicies:
    """What microVMs may reach."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[models.EgressPolicy]:
        return models.EgressPolicies.from_json(self._transport.call(_api.GET_EGRESS_POLICIES)).items

    def get(self, name: str) -> models.EgressPolicy:
        return models.EgressPolicy.from_json(self._transport.call(_api.GET_EGRESS_POLICIES_NAME, {"name": name}))

    def put(self, name: str, *, rules: List[Mapping[str, Any]] | None = None, internet: bool | None = None, sni_check: bool | None = None,
                  max_bytes: int | None = None, max_connections: int | None = None) -> models.EgressPolicy:
        """Makes or replaces a policy; microVMs that have it get the new one at once."""
        body = {"rules": rules or [], "internet": internet, "sniCheck": sni_check, "maxBytes": max_bytes, "maxConnections": max_connections}
        return models.EgressPolicy.from_json(self._transport.call(_api.PUT_EGRESS_POLICIES_NAME, {"name": name}, body=body))

    def delete(self, name: str) -> None:
        self._transport.call(_api.DELETE_EGRESS_POLICIES_NAME, {"name": name})


class Roles:
    """What the short-lived credentials of microVMs may do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[models.Role]:
        return models.Roles.from_json(self._transport.call(_api.GET_ROLES)).items

    def get(self, name: str) -> models.Role:
        return models.Role.from_json(self._transport.call(_api.GET_ROLES_NAME, {"name": name}))

    def put(self, name: str, policy: Mapping[str, Any]) -> models.Role:
        """`policy` is an IAM policy document; credentials that are out have it at once."""
        return models.Role.from_json(self._transport.call(_api.PUT_ROLES_NAME, {"name": name}, body={"policy": policy}))

    def delete(self, name: str) -> None:
        """Credentials that are out end."""
        self._transport.call(_api.DELETE_ROLES_NAME, {"name": name})


class Secrets:
    """What is taken out of everything that your guests send."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[models.Secret]:
        """Names and times; values are never given back."""
        return models.Secrets.from_json(self._transport.call(_api.GET_SECRETS)).items

    def put(self, name: str, value: str) -> None:
        """From now on `[redacted:NAME]` stands in its place."""
        self._transport.call(_api.PUT_SECRETS_NAME, {"name": name}, body={"value": value})

    def delete(self, name: str) -> None:
        self._transport.call(_api.DELETE_SECRETS_NAME, {"name": name})


class Tenants:
    """For administrators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> List[models.Tenant]:
        return models.Tenants.from_json(self._transport.call(_api.GET_TENANTS)).items

    def create(self, name: str, *, limits: Mapping[str, int] | None = None) -> models.NewTenant:
        """With its first key, whose secrets are in the answer and nowhere else."""
        return models.NewTenant.from_json(self._transport.call(_api.POST_TENANTS, body={"name": name, "limits": limits}))

    def set_limits(self, account_id: str, **limits: int | None) -> models.Tenant:
        """Limits and caps by the API's names (microvms, tenant_daily, ...); those that are not named stay, None takes a cap away."""
        answer = self._transport.call(_api.PUT_TENANTS_TENANT_LIMITS, {"tenant": account_id}, body=limits)
        return models.Tenant.from_json(answer)

    def set_policy(self, account_id: str, *, enabled: bool | None = None, tier: str | None = None, retention_days: int | None = None,
                         keep_output: bool | None = None) -> models.SandboxPolicy:
        """Whether agents may run code, and what is kept of it; what is not named stays."""
        body = {"enabled": enabled, "tier": tier, "retentionDays": retention_days, "keepOutput": keep_output}
        return models.SandboxPolicy.from_json(self._transport.call(_api.PATCH_TENANTS_TENANT_POLICY, {"tenant": account_id}, body=body))

    def set_egress(self, account_id: str, *, default: str | None = None, maximum: str | None = None) -> models.EgressSettings:
        body = {"default": default, "maximum": maximum}
        answer = self._transport.call(_api.PUT_TENANTS_TENANT_EGRESS, {"tenant": account_id}, body=body)
        return models.EgressSettings.from_json(answer)

    def delete(self, account_id: str) -> None:
        self._transport.call(_api.DELETE_TENANTS_TENANT, {"tenant": account_id})
