"""The client: a server, and everything that a key may do there."""
from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, List

import httpx

from .. import _api, models
from .._find import find_server
from .._policy import RetryPolicy
from ..progress import ProgressCallback
from .images import AsyncImages
from .sandbox import AsyncSandbox
from .sessions import AsyncInvocations, AsyncSessions, AsyncTemplates, OnOutput, call_code
from .tenant import AsyncEgressPolicies, AsyncKeys, AsyncRoles, AsyncSecrets, AsyncTenants
from .transport import AsyncTransport, server_events

# The server sends something at least every 15 seconds.
EVENTS_TIMEOUT = httpx.Timeout(120.0, connect=10.0)


class AsyncClient:
    """Without arguments it finds the server as the command line does: FIREBREAK_URL and FIREBREAK_API_KEY, the current context of
    'firebreak login', or the files of a server on this host."""

    def __init__(self, url: str | None = None, api_key: str | None = None, *, context: str | None = None, ca_file: str | None = None,
                 data_dir: str | None = None, retry: RetryPolicy | None = None, http: httpx.AsyncClient | None = None) -> None:
        server = find_server(url, api_key, context=context, ca_file=ca_file, data_dir=data_dir)
        self._transport = AsyncTransport(server, retry or RetryPolicy(), http)
        self.images = AsyncImages(self._transport)
        self.keys = AsyncKeys(self._transport)
        self.egress_policies = AsyncEgressPolicies(self._transport)
        self.roles = AsyncRoles(self._transport)
        self.secrets = AsyncSecrets(self._transport)
        self.tenants = AsyncTenants(self._transport)
        self.sessions = AsyncSessions(self._transport)
        self.templates = AsyncTemplates(self._transport)
        self.invocations = AsyncInvocations(self._transport)

    @property
    def url(self) -> str:
        return self._transport.server.url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes connections. MicroVMs go on."""
        await self._transport.aclose()

    # ---- microVMs

    async def run(self, image: str = "python", *, name: str | None = None, version: str | None = None, idle: Mapping[str, Any] | None = None,
                  max_duration: int | None = None, egress: str | None = None, role: str | None = None, env: Mapping[str, str] | None = None,
                  payload: str | None = None, tags: Mapping[str, str] | None = None, progress: ProgressCallback | None = None) -> AsyncSandbox:
        """A new microVM, running."""
        sandbox = AsyncSandbox(image, client=self, name=name, version=version, idle=idle, max_duration=max_duration, egress=egress, role=role,
                               env=env, payload=payload, tags=tags, progress=progress)
        return await sandbox.start()

    async def get(self, id: str) -> AsyncSandbox:
        """A microVM by its id, its name, or the beginning of its id."""
        return AsyncSandbox._attached(self, models.Microvm.from_json(await self._transport.call(_api.GET_MICROVMS_ID, {"id": id})))

    async def list(self, *, image: str | None = None, state: str | None = None, tag: tuple[str, str] | None = None,
                   tenant: str | None = None, page_size: int | None = None) -> AsyncIterator[models.Microvm]:
        """Newest first, page by page; those that ended in the last day are among them."""
        query = {"image": image, "state": state, "tag": f"{tag[0]}={tag[1]}" if tag else None, "tenant": tenant, "pageSize": page_size}
        token: str | None = None
        while True:
            page = models.MicrovmPage.from_json(await self._transport.call(_api.GET_MICROVMS, query={**query, "pageToken": token}))
            for microvm in page.items:
                yield microvm
            token = page.next_page_token
            if token is None:
                return

    # ---- code of agents

    async def execute_code(self, code: str, *, agent_id: str | None = None, turn_id: str | None = None, template: str | None = None,
                           language: str | None = None, on_output: OnOutput | None = None) -> models.CodeAnswer:
        """Runs an agent's code: checked, counted, in the session of the turn, recorded. An agent's key need not name the agent.

        What the code does is in the answer, also that a cap refused it; only a wrong request raises.
        """
        body = {"code": code, "agentId": agent_id, "turnId": turn_id, "template": template, "language": language}
        return await call_code(self._transport, _api.POST_EXECUTE_CODE, {}, body, on_output)

    async def end_turn(self, turn_id: str, *, agent_id: str | None = None) -> bool:
        """Ends the session of a turn; False: there was none."""
        answer = await self._transport.call(_api.POST_TURNS_TURN_END, {"turn": turn_id}, body={"agentId": agent_id}, repeatable=True)
        return models.EndedTurn.from_json(answer).ended

    async def policy(self) -> models.SandboxPolicy:
        """Whether agents of your tenant may run code, and what is kept of it."""
        return models.SandboxPolicy.from_json(await self._transport.call(_api.GET_POLICY))

    async def caps(self) -> List[models.Cap]:
        """Caps of your tenant, and what is used of them now."""
        return models.Caps.from_json(await self._transport.call(_api.GET_CAPS)).items

    # ---- history and the tenant

    async def events(self, *, after: int | None = None, microvm: str | None = None, follow: bool = True) -> AsyncIterator[models.Event]:
        """State changes: from now on, or after a sequence number; without follow it ends with the last."""
        query = {"after": after, "microvm": microvm, "follow": None if follow else "0"}
        async with self._transport.stream(_api.GET_EVENTS, query=query, timeout=EVENTS_TIMEOUT) as response:
            async for _, data in server_events(response):
                yield models.Event.from_json(json.loads(data))

    async def usage(self, *, since: int | None = None) -> models.Usage:
        """What was used; `since` is in Unix milliseconds."""
        return models.Usage.from_json(await self._transport.call(_api.GET_USAGE, query={"since": since}))

    async def tenant(self) -> models.Tenant:
        """Your own tenant and its limits."""
        return models.Tenant.from_json(await self._transport.call(_api.GET_TENANT))

    async def check(self, *, repair: bool = False) -> models.CheckReport:
        """Compares the host with the store; for administrators."""
        return models.CheckReport.from_json(await self._transport.call(_api.POST_CHECK, query={"repair": repair}, repeatable=True))
