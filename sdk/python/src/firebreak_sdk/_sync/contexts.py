# Made by tools/sdk-sync from _async; change that and make it again.
"""Contexts: interpreters in a microVM that keep their state from one run of code to the next."""
from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, List

from .. import _api, models
from ..errors import FirebreakError, UnavailableError
from ..results import Artifact, Collected, Gap, Output, RunResult
from .transport import NEVER, json_lines

if TYPE_CHECKING:
    from .._bodies import PostMicrovmsIdContextsBody, PostMicrovmsIdContextsContextRunBody
    from .sandbox import Sandbox

CodeEvent = Output | Gap | Artifact | models.CodeError


def run_body(code: str, timeout: float | None) -> PostMicrovmsIdContextsContextRunBody:
    body: PostMicrovmsIdContextsContextRunBody = {"code": code}
    if timeout is not None:
        body["timeoutMs"] = int(timeout * 1000)
    return body


class CodeStream:
    """Code under way: iterate over what it prints and shows. `result` is there at the end. Closing it before interrupts the code."""

    def __init__(self, box: Sandbox, context: str, body: PostMicrovmsIdContextsContextRunBody) -> None:
        self._box, self._context, self._body = box, context, body
        self._stack = ExitStack()
        self._lines: Iterator[dict[str, Any]] | None = None
        self._collected = Collected()
        self.run: str | None = None
        self.result: RunResult | None = None

    def __enter__(self) -> CodeStream:
        names = {**self._box._ready(), "context": self._context}
        response = self._stack.enter_context(
            self._box._transport.stream(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RUN, names, body={**self._body, "stream": True}))
        self._lines = json_lines(response)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; if the code still runs, it is interrupted. The context keeps its variables."""
        self._stack.close()

    def __iter__(self) -> Iterator[CodeEvent]:
        return self._events()

    def _events(self) -> Iterator[CodeEvent]:
        if self._lines is None:
            raise FirebreakError("the stream is not open; use it in a with block")
        for line in self._lines:
            event = self._collected.add(line)
            if line["type"] == "started":
                self.run = line["run"]
            elif line["type"] == "done":
                self.result = self._collected.code()
            elif event is not None:
                yield event
        if self.result is None:
            raise UnavailableError("the stream ended before the code did")

    def wait(self) -> RunResult:
        """Reads to the end."""
        for _ in self:
            pass
        assert self.result is not None
        return self.result


class Context:
    """One interpreter."""

    def __init__(self, box: Sandbox, context_id: str) -> None:
        self._box = box
        self.id = context_id

    def _call(self, operation: _api.Operation, **options: Any) -> Any:
        return self._box._transport.call(operation, {**self._box._ready(), "context": self.id}, **options)

    def status(self) -> models.Context:
        return models.Context.from_json(self._call(_api.GET_MICROVMS_ID_CONTEXTS_CONTEXT))

    def run(self, code: str, *, timeout: float | None = None, on_output: Callable[[CodeEvent], None] | None = None) -> RunResult:
        """Runs code to its end. After `timeout` seconds it is interrupted. `on_output` is called with what it prints and shows."""
        if on_output is not None:
            with self.stream(code, timeout=timeout) as stream:
                for event in stream:
                    on_output(event)
                assert stream.result is not None
                return stream.result
        answer = self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RUN, body=run_body(code, timeout), timeout=NEVER)
        return RunResult.from_json(answer)

    def stream(self, code: str, *, timeout: float | None = None) -> CodeStream:
        return CodeStream(self._box, self.id, run_body(code, timeout))

    def interrupt(self, run: str | None = None) -> bool:
        """Ends what runs, or only that run, and keeps the state. False: nothing of that was running."""
        answer = self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_INTERRUPT, body={"run": run})
        return models.Interrupted.from_json(answer).interrupted

    def restart(self) -> models.Context:
        """A new interpreter under the same id; the state is lost."""
        return models.Context.from_json(self._call(_api.POST_MICROVMS_ID_CONTEXTS_CONTEXT_RESTART))

    def delete(self) -> None:
        self._call(_api.DELETE_MICROVMS_ID_CONTEXTS_CONTEXT)


class Contexts:
    """The contexts of a microVM."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box

    def create(self, language: str = "python", *, id: str | None = None, cwd: str | None = None, env: Mapping[str, str] | None = None,
                     user: str | None = None) -> Context:
        body: PostMicrovmsIdContextsBody = {"language": language}
        if id is not None:
            body["id"] = id
        if cwd is not None:
            body["cwd"] = cwd
        if env:
            body["env"] = dict(env)
        if user is not None:
            body["user"] = user
        answer = self._box._transport.call(_api.POST_MICROVMS_ID_CONTEXTS, self._box._ready(), body=body)
        return Context(self._box, models.Context.from_json(answer).id)

    def list(self) -> List[models.Context]:
        return models.Contexts.from_json(self._box._transport.call(_api.GET_MICROVMS_ID_CONTEXTS, self._box._ready())).contexts

    def get(self, id: str) -> Context:
        return Context(self._box, id)

    def of_language(self, language: str) -> Context:
        """The first context of the language; one is made if there is none."""
        for each in self.list():
            if each.language == language:
                return self.get(each.id)
        return self.create(language)
