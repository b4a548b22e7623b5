"""Contexts: interpreters in a microVM that keep their state from one run of code to the next."""
from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, List

from .. import _api, models
from ..errors import FirebreakError, UnavailableError
from ..results import Artifact, Collected, Gap, Output, RunResult
from .transport import NEVER, json_lines

if TYPE_CHECKING:
    from .._bodies import PostMicrovmsIdContextsBody, PostMicrovmsIdContextsContextRunBody
    from .sandbox import AsyncSandbox

CodeEvent = Output | Gap | Artifact | models.CodeError


def run_body(code: str, timeout: float | None) -> PostMicrovmsIdContextsContextRunBody:
    body: PostMicrovmsIdContextsContextRunBody = {"code": code}
    if timeout is not None:
        body["timeoutMs"] = int(timeout * 1000)
    return body


class AsyncCodeStream:
    """Code under way: iterate over what it prints and shows. `result` is there at the end. Closing it before interrupts the code."""

    def __init__(self, box: AsyncSandbox, context: str, body: PostMicrovmsIdContextsContextRunBody) -> None:
        self._box, self._context, self._body = box, context, body
        self._stack = AsyncExitStack()
        self._lines: AsyncIterator[dict[str, Any]] | None = None
        self._collected = Collected()
        self.run: str | None = None
        self.result: RunResult | None = None

    async def __aenter__(self) -> AsyncCodeStream:
        names = {**await self._box._ready(), "context": self._context}
        response = await self._stack.enter_async_context(
            self._box._transport.stream(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RUN, names, body={**self._body, "stream": True}))
        self._lines = json_lines(response)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the connection; if the code still runs, it is interrupted. The context keeps its variables."""
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[CodeEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[CodeEvent]:
        if self._lines is None:
            raise FirebreakError("the stream is not open; use it in a with block")
        async for line in self._lines:
            event = self._collected.add(line)
            if line["type"] == "started":
                self.run = line["run"]
            elif line["type"] == "done":
                self.result = self._collected.code()
            elif event is not None:
                yield event
        if self.result is None:
            raise UnavailableError("the stream ended before the code did")

    async def wait(self) -> RunResult:
        """Reads to the end."""
        async for _ in self:
            pass
        assert self.result is not None
        return self.result


class AsyncContext:
    """One interpreter."""

    def __init__(self, box: AsyncSandbox, context_id: str) -> None:
        self._box = box
        self.id = context_id

    async def _call(self, operation: _api.Operation, **options: Any) -> Any:
        return await self._box._transport.call(operation, {**await self._box._ready(), "context": self.id}, **options)

    async def status(self) -> models.Context:
        return models.Context.from_json(await self._call(_api.GET_MICROVMS_ID_CONTEXTS_CONTEXT))

    async def run(self, code: str, *, timeout: float | None = None, on_output: Callable[[CodeEvent], None] | None = None) -> RunResult:
        """Runs code to its end. After `timeout` seconds it is interrupted. `on_output` is called with what it prints and shows."""
        if on_output is not None:
            async with self.stream(code, timeout=timeout) as stream:
                async for event in stream:
                    on_output(event)
                assert stream.result is not None
                return stream.result
        answer = await self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RUN, body=run_body(code, timeout), timeout=NEVER)
        return RunResult.from_json(answer)

    def stream(self, code: str, *, timeout: float | None = None) -> AsyncCodeStream:
        return AsyncCodeStream(self._box, self.id, run_body(code, timeout))

    async def interrupt(self, run: str | None = None) -> bool:
        """Ends what runs, or only that run, and keeps the state. False: nothing of that was running."""
        answer = await self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_INTERRUPT, body={"run": run})
        return models.Interrupted.from_json(answer).interrupted

    async def restart(self) -> models.Context:
        """A new interpreter under the same id; the state is lost."""
        return models.Context.from_json(await self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RESTART))

    async def delete(self) -> None:
        await self._call(_api.DELETE_MICROVMS_ID_CONTEXTS_CONTEXT)


class AsyncContexts:
    """The contexts of a microVM."""

    def __init__(self, box: AsyncSandbox) -> None:
        self._box = box

    async def create(self, language: str = "python", *, id: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None,
                     user: str | None = None) -> AsyncContext:
        body: PostMicrovmsIdContextsBody = {"language": language}
        if id is not None:
            body["id"] = id
        if cwd is not None:
            body["cwd"] = cwd
        if env:
            body["env"] = dict(env)
        if user is not None:
            body["user"] = user
        answer = await self._box._transport.call(_api.POST_MICROVMS_ID_CONTEXTS, await self._box._ready(), body=body)
        return AsyncContext(self._box, models.Context.from_json(answer).id)

    async def list(self) -> List[models.Context]:
        return models.Contexts.from_json(await self._box._transport.call(_api.GET_MICROVMS_ID_CONTEXTS, await self._box._ready())).contexts

    def get(self, id: str) -> AsyncContext:
        return AsyncContext(self._box, id)

    async def of_language(self, language: str) -> AsyncContext:
        """The first context of the language; one is made if there is none."""
        for each in await self.list():
            if each.language == language:
                return self.get(each.id)
        return await self.create(language)
