# Made by tools/sdk-sync from _async; change that and make it again.
"""Code of agents, under the rules of their tenant: sessions, templates, caps, and the record of every call."""
from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping
from typing import Any, List

from .. import _api, models
from ..errors import UnavailableError
from ..results import Collected, Gap, Output
from .commands import Command
from .files import Files
from .transport import NEVER, Transport, json_lines

OnOutput = Callable[[Output | Gap], None]


def call_code(transport: Transport, operation: _api.Operation, names: dict[str, str], body: Mapping[str, Any],
                    on_output: OnOutput | None) -> models.CodeAnswer:
    """One call that runs code; with on_output what it prints comes as it goes."""
    if on_output is None:
        return models.CodeAnswer.from_json(transport.call(operation, names, body=body, timeout=NEVER))
    with transport.stream(operation, names, body={**body, "stream": True}) as response:
        collected = Collected()
        for line in json_lines(response):
            if line["type"] == "answer":
                return models.CodeAnswer.from_json(line)
            event = collected.add(line)
            if isinstance(event, (Output, Gap)):
                on_output(event)
    raise UnavailableError("the stream ended before the code did")


class Session:
    """One microVM of one template for one agent. The `with` block ends it."""

    def __init__(self, transport: Transport, info: models.Session) -> None:
        self._transport = transport
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def refresh(self) -> models.Session:
        self.info = models.Session.from_json(self._transport.call(_api.GET_SESSIONS_SESSION, {"session": self.id}))
        return self.info

    def execute(self, code: str, *, language: str | None = None, on_output: OnOutput | None = None) -> models.CodeAnswer:
        """Runs code: counted, recorded, and in the interpreter of the calls before."""
        body = {"code": code, "language": language}
        return call_code(self._transport, _api.POST_SESSIONS_SESSION_EXECUTE, {"session": self.id}, body, on_output)

    def exec(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                   on_output: OnOutput | None = None) -> models.CodeAnswer:
        """Runs a command, counted and recorded as code is."""
        words = {"shell": command} if isinstance(command, str) else {"argv": list(command)}
        body = {**words, "env": dict(env) if env else None, "cwd": cwd, "user": user}
        return call_code(self._transport, _api.POST_SESSIONS_SESSION_EXEC, {"session": self.id}, body, on_output)

    @property
    def files(self) -> Files:
        return Files(self)

    def _files_at(self, operation: _api.Operation) -> tuple[_api.Operation, dict[str, str]]:
        """The files of a session are those of its microVM, by the session's name."""
        pattern = operation.pattern.replace("/v1/microvms/{id}", "/v1/sessions/{session}")
        return operation._replace(pattern=pattern), {"session": self.id}

    def end(self) -> models.Session:
        self.info = models.Session.from_json(self._transport.call(_api.DELETE_SESSIONS_SESSION, {"session": self.id}))
        return self.info


class Sessions:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, agent_id: str | None = None, *, turn_id: str | None = None, template: str | None = None) -> Session:
        body = {"agentId": agent_id, "turnId": turn_id, "template": template}
        return Session(self._transport, models.Session.from_json(self._transport.call(_api.POST_SESSIONS, body=body)))

    def get(self, id: str) -> Session:
        return Session(self._transport, models.Session.from_json(self._transport.call(_api.GET_SESSIONS_SESSION, {"session": id})))

    def list(self, *, all: bool = False) -> List[models.Session]:
        """Those that live; with all also those that ended."""
        return models.Sessions.from_json(self._transport.call(_api.GET_SESSIONS, query={"all": all})).items


class Templates:
    """What sessions are made of. Members have the API's names: environment, callSeconds, languages, ..."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, name: str, **members: Any) -> models.Template:
        """Makes or replaces a template; what is not named has its default."""
        return models.Template.from_json(self._transport.call(_api.POST_TEMPLATES, body={"name": name, **members}, repeatable=True))

    def change(self, name: str, **members: Any) -> models.Template:
        """Changes what is named."""
        return models.Template.from_json(self._transport.call(_api.PATCH_TEMPLATES_TEMPLATE, {"template": name}, body=members))

    def get(self, name: str) -> models.Template:
        return models.Template.from_json(self._transport.call(_api.GET_TEMPLATES_TEMPLATE, {"template": name}))

    def list(self) -> List[models.Template]:
        return models.Templates.from_json(self._transport.call(_api.GET_TEMPLATES)).items

    def delete(self, name: str) -> None:
        """Its sessions go on."""
        self._transport.call(_api.DELETE_TEMPLATES_TEMPLATE, {"template": name})


class Invocations:
    """The record of every call that ran code in a session, or was refused."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, agent_id: str | None = None, session: str | None = None, status: str | None = None,
                   page_size: int | None = None) -> Iterator[models.Invocation]:
        """Newest first, page by page."""
        query = {"agentId": agent_id, "session": session, "status": status, "limit": page_size}
        after: str | None = None
        while True:
            page = models.Invocations.from_json(self._transport.call(_api.GET_INVOCATIONS, query={**query, "after": after}))
            for record in page.items:
                yield record
            after = page.next
            if after is None:
                return

    def get(self, id: str) -> models.Invocation:
        return models.Invocation.from_json(self._transport.call(_api.GET_INVOCATIONS_INVOCATION, {"invocation": id}))

    def output(self, id: str) -> models.InvocationOutput:
        """All that the call printed, if the tenant's policy keeps it."""
        return models.InvocationOutput.from_json(self._transport.call(_api.GET_INVOCATIONS_INVOCATION_OUTPUT, {"invocation": id}))
