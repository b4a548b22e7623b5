"""Code of agents, under the rules of their tenant: sessions, templates, caps, and the record of every call."""
from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, List

from .. import _api, models
from ..errors import UnavailableError
from ..results import Collected, Gap, Output
from .commands import Command
from .files import AsyncFiles
from .transport import NEVER, AsyncTransport, json_lines

OnOutput = Callable[[Output | Gap], None]


async def call_code(transport: AsyncTransport, operation: _api.Operation, names: dict[str, str], body: Mapping[str, Any],
                    on_output: OnOutput | None) -> models.CodeAnswer:
    """One call that runs code; with on_output what it prints comes as it goes."""
    if on_output is None:
        return models.CodeAnswer.from_json(await transport.call(operation, names, body=body, timeout=NEVER))
    async with transport.stream(operation, names, body={**body, "stream": True}) as response:
        collected = Collected()
        async for line in json_lines(response):
            if line["type"] == "answer":
                return models.CodeAnswer.from_json(line)
            event = collected.add(line)
            if isinstance(event, (Output, Gap)):
                on_output(event)
    raise UnavailableError("the stream ended before the code did")


class AsyncSession:
    """One microVM of one template for one agent. The `with` block ends it."""

    def __init__(self, transport: AsyncTransport, info: models.Session) -> None:
        self._transport = transport
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.end()

    async def refresh(self) -> models.Session:
        self.info = models.Session.from_json(await self._transport.call(_api.GET_SESSIONS_SESSION, {"session": self.id}))
        return self.info

    async def execute(self, code: str, *, language: str | None = None, on_output: OnOutput | None = None) -> models.CodeAnswer:
        """Runs code: counted, recorded, and in the interpreter of the calls before."""
        body = {"code": code, "language": language}
        return await call_code(self._transport, _api.POST_SESSIONS_SESSION_EXECUTE, {"session": self.id}, body, on_output)

    async def exec(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                   on_output: OnOutput | None = None) -> models.CodeAnswer:
        """Runs a command, counted and recorded as code is."""
        words = {"shell": command} if isinstance(command, str) else {"argv": list(command)}
        body = {**words, "env": dict(env) if env else None, "cwd": cwd, "user": user}
        return await call_code(self._transport, _api.POST_SESSIONS_SESSION_EXEC, {"session": self.id}, body, on_output)

    @property
    def files(self) -> AsyncFiles:
        return AsyncFiles(self)

    async def _files_at(self, operation: _api.Operation) -> tuple[_api.Operation, dict[str, str]]:
        """The files of a session are those of its microVM, by the session's name."""
        pattern = operation.pattern.replace("/v1/microvms/{id}", "/v1/sessions/{session}")
        return operation._replace(pattern=pattern), {"session": self.id}

    async def end(self) -> models.Session:
        self.info = models.Session.from_json(await self._transport.call(_api.DELETE_SESSIONS_SESSION, {"session": self.id}))
        return self.info


class AsyncSessions:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, agent_id: str | None = None, *, turn_id: str | None = None, template: str | None = None) -> AsyncSession:
        body = {"agentId": agent_id, "turnId": turn_id, "template": template}
        return AsyncSession(self._transport, models.Session.from_json(await self._transport.call(_api.POST_SESSIONS, body=body)))

    async def get(self, id: str) -> AsyncSession:
        return AsyncSession(self._transport, models.Session.from_json(await self._transport.call(_api.GET_SESSIONS_SESSION, {"session": id})))

    async def list(self, *, all: bool = False) -> List[models.Session]:
        """Those that live; with all also those that ended."""
        return models.Sessions.from_json(await self._transport.call(_api.GET_SESSIONS, query={"all": all})).items


class AsyncTemplates:
    """What sessions are made of. Members have the API's names: environment, callSeconds, languages, ..."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def put(self, name: str, **members: Any) -> models.Template:
        """Makes or replaces a template; what is not named has its default."""
        return models.Template.from_json(await self._transport.call(_api.POST_TEMPLATES, body={"name": name, **members}, repeatable=True))

    async def change(self, name: str, **members: Any) -> models.Template:
        """Changes what is named."""
        return models.Template.from_json(await self._transport.call(_api.PATCH_TEMPLATES_TEMPLATE, {"template": name}, body=members))

    async def get(self, name: str) -> models.Template:
        return models.Template.from_json(await self._transport.call(_api.GET_TEMPLATES_TEMPLATE, {"template": name}))

    async def list(self) -> List[models.Template]:
        return models.Templates.from_json(await self._transport.call(_api.GET_TEMPLATES)).items

    async def delete(self, name: str) -> None:
        """Its sessions go on."""
        await self._transport.call(_api.DELETE_TEMPLATES_TEMPLATE, {"template": name})


class AsyncInvocations:
    """The record of every call that ran code in a session, or was refused."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, agent_id: str | None = None, session: str | None = None, status: str | None = None,
                   page_size: int | None = None) -> AsyncIterator[models.Invocation]:
        """Newest first, page by page."""
        query = {"agentId": agent_id, "session": session, "status": status, "limit": page_size}
        after: str | None = None
        while True:
            page = models.Invocations.from_json(await self._transport.call(_api.GET_INVOCATIONS, query={**query, "after": after}))
            for record in page.items:
                yield record
            after = page.next
            if after is None:
                return

    async def get(self, id: str) -> models.Invocation:
        return models.Invocation.from_json(await self._transport.call(_api.GET_INVOCATIONS_INVOCATION, {"invocation": id}))

    async def output(self, id: str) -> models.InvocationOutput:
        """All that the call printed, if the tenant's policy keeps it."""
        return models.InvocationOutput.from_json(await self._transport.call(_api.GET_INVOCATIONS_INVOCATION_OUTPUT, {"invocation": id}))
