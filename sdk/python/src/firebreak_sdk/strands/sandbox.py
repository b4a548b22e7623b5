"""A sandbox of Strands whose commands, code and files are in a microVM."""
from __future__ import annotations

import asyncio
import codecs
import contextlib
import posixpath
import shlex
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, TypeAlias

from strands.sandbox import LANGUAGE_PATTERN, ExecutionResult, FileInfo, OutputFile, Sandbox, StreamChunk
from strands.sandbox.constants import ENV_KEY_PATTERN
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.types.tools import AgentTool

from .. import models
from .._async.client import AsyncClient
from .._async.contexts import AsyncContext
from .._async.sandbox import AsyncSandbox
from .._sync.client import Client
from ..errors import FirebreakError, NotFoundError
from ..results import Artifact, CommandResult, Exit, Output, RunResult
from .http import HttpResult, SandboxHttpError, request_in

__all__ = ["FirebreakSandbox", "HttpResult", "SandboxHttpError"]

Event: TypeAlias = "StreamChunk | ExecutionResult"

# Interpreters that have a context; any other word is a program that reads its code from standard input.
CONTEXTS = {"python": "python", "python3": "python", "node": "node", "javascript": "node", "bash": "bash"}
FORMS = {"png": "image/png", "jpeg": "image/jpeg", "pdf": "application/pdf", "svg": "image/svg+xml", "html": "text/html",
         "json": "application/json", "markdown": "text/markdown", "latex": "text/x-latex"}
SIGNAL_BASE = 128
SIGKILL = 9


class FirebreakSandbox(Sandbox):
    """A microVM for the tools of an agent. It is made by the first call that needs it, or by the `with` block, which also ends it.

    Every call is a fresh process, as Strands asks for. With `stateful=True` code of one language runs in one interpreter that keeps
    its variables, and commands run in one shell that keeps `cd` and `export`; calls of tools that run in parallel wait for each
    other there. Give each agent a sandbox of its own then.
    """

    def __init__(self, image: str = "python", *, url: str | None = None, api_key: str | None = None, ca_file: str | None = None,
                 sandbox_id: str | None = None, working_dir: str | None = None, stateful: bool = False, egress: str | None = None,
                 role: str | None = None, idle: Mapping[str, Any] | None = None, max_duration: int | None = None,
                 tags: Mapping[str, str] | None = None) -> None:
        self._address: dict[str, Any] = {"url": url, "api_key": api_key, "ca_file": ca_file}
        self._wishes: dict[str, Any] = {"egress": egress, "role": role, "idle": idle, "max_duration": max_duration, "tags": tags}
        self._image = image
        self._attach_to = sandbox_id
        self._info: models.Microvm | None = None
        self._making = threading.Lock()
        # An agent that is called without `await` has an event loop of its own for each call, and connections belong to one loop.
        self._boxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncSandbox] = weakref.WeakKeyDictionary()
        self._turns: dict[str, threading.Lock] = {}
        self._states: dict[str, str] = {}
        self._home: str | None = None
        self.working_dir = working_dir
        self.stateful = stateful

    # ---- its life

    def start(self) -> FirebreakSandbox:
        """Makes the microVM, unless that is done."""
        with self._making:
            if self._info is None:
                with Client(**self._address) as client:
                    found = client.get(self._attach_to) if self._attach_to else client.run(self._image, **self._wishes)
                    self._info = found.info
        return self

    def close(self) -> None:
        """Ends the microVM that this object made. One that it was given goes on."""
        with self._making:
            info, self._info = self._info, None
            self._boxes.clear()
            self._states.clear()
        if info is not None and self._attach_to is None:
            with Client(**self._address) as client:
                client.get(info.id).terminate()

    def __enter__(self) -> FirebreakSandbox:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> FirebreakSandbox:
        await self._box()
        return self

    async def __aexit__(self, *exception: object) -> None:
        box = self._boxes.pop(asyncio.get_running_loop(), None)
        if box is not None:
            await box.client.aclose()
        await asyncio.to_thread(self.close)

    @property
    def id(self) -> str:
        """Of the microVM."""
        self.start()
        assert self._info is not None
        return self._info.id

    async def _box(self) -> AsyncSandbox:
        loop = asyncio.get_running_loop()
        box = self._boxes.get(loop)
        if box is None:
            await asyncio.to_thread(self.start)
            assert self._info is not None
            box = AsyncSandbox._attached(AsyncClient(**self._address), self._info)
            self._boxes[loop] = box
        return box

    # ---- commands and code

    async def execute_streaming(self, command: str, *, timeout: float | None = None, cwd: str | None = None,
                                env: dict[str, str] | None = None, **kwargs: Any) -> AsyncGenerator[Event, None]:
        _check_env(env)
        source = (self._in_state("bash", _typed(command, cwd, env), timeout) if self.stateful
                  else self._command(command, None, timeout, cwd, env))
        async with contextlib.aclosing(source) as events:
            async for event in events:
                yield event

    async def execute_code_streaming(self, code: str, language: str, *, timeout: float | None = None, cwd: str | None = None,
                                     env: dict[str, str] | None = None, **kwargs: Any) -> AsyncGenerator[Event, None]:
        if not LANGUAGE_PATTERN.fullmatch(language):
            raise ValueError(f"no interpreter can be called {language!r}; use a name such as python3 or node")
        _check_env(env)
        context = CONTEXTS.get(language)
        if context is None:
            source = self._command([language], code, timeout, cwd, env)
        elif self.stateful:
            source = self._in_state(context, code, timeout)
        else:
            source = self._in_fresh(context, code, timeout, cwd, env)
        async with contextlib.aclosing(source) as events:
            async for event in events:
                yield event

    async def _command(self, command: str | list[str], stdin: str | None, timeout: float | None, cwd: str | None,
                       env: dict[str, str] | None) -> AsyncGenerator[Event, None]:
        box = await self._box()
        decoders = _Decoders()
        # Leaving the block early ends the connection, and the guest kills all that the command started.
        async with box.stream(command, env=env, cwd=cwd or self.working_dir, stdin=stdin, timeout=timeout) as stream:
            async for event in stream:
                if isinstance(event, Output) and (text := decoders.decode(event)):
                    yield StreamChunk(text, event.stream)
        assert stream.result is not None
        yield _of_command(stream.result, timeout)

    async def _in_fresh(self, language: str, code: str, timeout: float | None, cwd: str | None,
                        env: dict[str, str] | None) -> AsyncGenerator[Event, None]:
        box = await self._box()
        context = await box.contexts.create(language, cwd=cwd or self.working_dir, env=env)
        try:
            async with contextlib.aclosing(_run(context, code, timeout)) as events:
                async for event in events:
                    yield event
        finally:
            # Also when the caller was cancelled: what runs in the context ends with it.
            await asyncio.shield(_forget(context))

    async def _in_state(self, language: str, code: str, timeout: float | None) -> AsyncGenerator[Event, None]:
        box = await self._box()
        async with self._turn(language):
            context = box.contexts.get(self._states[language]) if language in self._states else None
            if context is None:
                context = await box.contexts.create(language, cwd=self.working_dir)
                self._states[language] = context.id
            async with contextlib.aclosing(_run(context, code, timeout)) as events:
                async for event in events:
                    yield event

    @contextlib.asynccontextmanager
    async def _turn(self, language: str) -> AsyncIterator[None]:
        """One run at a time in a kept interpreter, whatever event loops and threads the callers have."""
        lock = self._turns.setdefault(language, threading.Lock())
        while not lock.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            yield
        finally:
            lock.release()

    # ---- files

    async def _path(self, path: str) -> str:
        if path.startswith("/"):
            return path
        if self._home is None:
            self._home = self.working_dir or (await (await self._box()).exec("pwd")).check().stdout.strip()
        return posixpath.join(self._home, path)

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        box = await self._box()
        try:
            return await box.files.read(await self._path(path))
        except FirebreakError as error:
            raise FileNotFoundError(f"cannot read {path}: {error}") from error

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        box = await self._box()
        try:
            await box.files.write(await self._path(path), content, parents=True)
        except FirebreakError as error:
            raise OSError(f"cannot write {path}: {error}") from error

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        box = await self._box()
        try:
            await box.files.remove(await self._path(path))
        except FirebreakError as error:
            raise FileNotFoundError(f"cannot remove {path}: {error}") from error

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        box = await self._box()
        whole = await self._path(path)
        try:
            found = await box.files.list(whole)
        except FirebreakError as error:
            if isinstance(error, NotFoundError) or (await box.files.stat(whole, follow=True)).type != "dir":
                raise SandboxPathNotFoundError(path) from error
            raise OSError(f"cannot list {path}: {error}") from error
        return [FileInfo(each.name, each.type == "dir", each.size) for each in found]

    # ---- what Strands may ask for beyond that

    async def request(self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None,
                      timeout: float | None = None, max_bytes: int | None = None, **kwargs: Any) -> HttpResult:
        """An HTTP request from inside the microVM, under its egress policy. An answer of any status is returned."""
        return await request_in(await self._box(), method, url, headers, body, timeout, max_bytes)

    def get_tools(self) -> list[AgentTool]:
        from strands.vended_tools import make_file_editor, make_python_repl, make_shell
        from strands.vended_tools.file_editor.file_editor import DEFAULT_FILE_EDITOR_DESCRIPTION
        from strands.vended_tools.python_repl.types import PYTHON_REPL_DESCRIPTION
        from strands.vended_tools.shell.types import SANDBOX_SHELL_DESCRIPTION

        where = " In a microVM of its own"
        kept = "; variables, working directory and exports stay for the next call." if self.stateful else "."
        return [
            make_file_editor(sandbox=self, name="sandbox_file_editor", description=f"{DEFAULT_FILE_EDITOR_DESCRIPTION}{where}."),
            make_shell(sandbox=self, name="sandbox_shell", description=f"{SANDBOX_SHELL_DESCRIPTION}{where}{kept}"),
            make_python_repl(sandbox=self, name="sandbox_python", description=f"{PYTHON_REPL_DESCRIPTION}{where}{kept}"),
        ]


class _Decoders:
    """Text of two streams whose characters may be split anywhere."""

    def __init__(self) -> None:
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def decode(self, event: Output) -> str:
        return self._decoders[event.stream].decode(event.data)


async def _run(context: AsyncContext, code: str, timeout: float | None) -> AsyncGenerator[Event, None]:
    """Code in a context. Leaving early interrupts it."""
    decoders = _Decoders()
    shown: list[str] = []
    async with context.stream(code, timeout=timeout) as stream:
        async for event in stream:
            if isinstance(event, Output) and (text := decoders.decode(event)):
                yield StreamChunk(text, event.stream)
            elif isinstance(event, models.CodeError) and event.name != "ExitStatus":
                shown.append("\n".join(event.traceback) or f"{event.name}: {event.message}")
                yield StreamChunk(shown[-1] + "\n", "stderr")
    assert stream.result is not None
    yield _of_code(stream.result, timeout, shown)


async def _forget(context: AsyncContext) -> None:
    with contextlib.suppress(FirebreakError):
        await context.delete()


def _of_command(result: CommandResult, timeout: float | None) -> ExecutionResult:
    if result.exit.timed_out:
        raise SandboxTimeoutError(timeout, result.stdout, result.stderr)
    return ExecutionResult(_exit_code(result.exit), result.stdout, result.stderr)


def _exit_code(exit: Exit) -> int:
    """As a shell counts a process that a signal ended."""
    if exit.exit_code is not None:
        return exit.exit_code
    return SIGNAL_BASE + (exit.signal or SIGKILL)


def _of_code(result: RunResult, timeout: float | None, shown: list[str]) -> ExecutionResult:
    stderr = result.stderr + "".join(text + "\n" for text in shown)
    if result.status == "timeout":
        raise SandboxTimeoutError(timeout, result.stdout, stderr)
    if result.status == "died":
        return ExecutionResult(SIGNAL_BASE + SIGKILL, result.stdout, stderr + "the interpreter ended; its variables are lost\n")
    return ExecutionResult(_code_status(result), result.stdout, stderr, [_file(each) for each in result.results if each.kind in FORMS])


def _code_status(result: RunResult) -> int:
    if result.status == "ok":
        return 0
    word = result.error.message.removeprefix("exit status ") if result.error else ""
    return int(word) & 0xFF if result.error and result.error.name in ("ExitStatus", "SystemExit") and word.isdigit() else 1


def _file(artifact: Artifact) -> OutputFile:
    return OutputFile(f"result-{artifact.index}.{artifact.kind}", artifact.content, FORMS[artifact.kind])


def _typed(command: str, cwd: str | None, env: dict[str, str] | None) -> str:
    """What a person would type into the kept shell: a directory and variables given with a call stay."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    moves = [f"cd -- {shlex.quote(cwd)} || (exit 1)"] if cwd else []
    return "\n".join([*moves, *exports, command])


def _check_env(env: dict[str, str] | None) -> None:
    for name in env or {}:
        if not ENV_KEY_PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a variable; use letters, digits and _, not beginning with a digit")
