"""Commands in a microVM: run to the end, streamed, or started as processes that outlive the connection."""
from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from .. import _api, models
from .._sleep import async_sleep
from ..errors import FirebreakError, UnavailableError
from ..results import Collected, CommandResult, Exit, Gap, Output
from .transport import NEVER, AsyncTransport, json_lines

if TYPE_CHECKING:
    from .._bodies import PostMicrovmsIdExecBody
    from .sandbox import AsyncSandbox

Command = str | Sequence[str]


def exec_body(command: Command, env: Mapping[str, str] | None, cwd: str | None, user: str | None, stdin: str | bytes | None,
              timeout: float | None, pty: tuple[int, int] | None) -> PostMicrovmsIdExecBody:
    """A text is a line for the shell; a list is a program and its arguments."""
    body: PostMicrovmsIdExecBody = {"shell": command} if isinstance(command, str) else {"argv": list(command)}
    if env:
        body["env"] = dict(env)
    if cwd is not None:
        body["cwd"] = cwd
    if user is not None:
        body["user"] = user
    if isinstance(stdin, bytes):
        body["stdinBase64"] = base64.b64encode(stdin).decode()
    elif stdin is not None:
        body["stdin"] = stdin
    if timeout is not None:
        body["timeoutMs"] = int(timeout * 1000)
    if pty is not None:
        body["pty"] = {"cols": pty[0], "rows": pty[1]}
    return body


class AsyncCommandStream:
    """A command under way: iterate over what it prints. `result` is there at the end. Closing it before kills what it started."""

    def __init__(self, box: AsyncSandbox, body: PostMicrovmsIdExecBody) -> None:
        self._box, self._body = box, body
        self._stack = AsyncExitStack()
        self._lines: AsyncIterator[dict[str, Any]] | None = None
        self._collected = Collected()
        self.id: str | None = None
        self.result: CommandResult | None = None

    async def __aenter__(self) -> AsyncCommandStream:
        names = await self._box._ready()
        response = await self._stack.enter_async_context(
            self._box._transport.stream(_api.POST_MICROVMS_ID_EXEC, names, body={**self._body, "stream": True}))
        self._lines = json_lines(response)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the connection; if the command still runs, the guest kills everything that it started."""
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[Output | Gap]:
        return self._events()

    async def _events(self) -> AsyncIterator[Output | Gap]:
        if self._lines is None:
            raise FirebreakError("the stream is not open; use it in a with block")
        async for line in self._lines:
            event = self._collected.add(line)
            if line["type"] == "started":
                self.id = line["exec"]
            elif line["type"] == "exit":
                self.result = self._collected.command()
            elif isinstance(event, (Output, Gap)):
                yield event
        if self.result is None:
            raise UnavailableError("the stream ended before the command did")

    async def wait(self) -> CommandResult:
        """Reads to the end."""
        async for _ in self:
            pass
        assert self.result is not None
        return self.result


class AsyncProcess:
    """A command that outlives the connection; any client can attach to it again by its id."""

    def __init__(self, transport: AsyncTransport, vm: str, exec_id: str) -> None:
        self._transport = transport
        self._names = {"id": vm, "exec": exec_id}
        self._stdin_offset = 0
        self.id = exec_id

    async def status(self) -> models.Exec:
        return models.Exec.from_json(await self._transport.call(_api.GET_MICROVMS_ID_EXECS_EXEC, self._names))

    async def output(self, offset: int = 0, *, follow: bool = True) -> AsyncIterator[Output | Gap]:
        """What it prints, from this byte on; with follow until it ends. A new reader replaces the one before."""
        query = {"offset": offset or None, "follow": None if follow else "0"}
        async with self._transport.stream(_api.GET_MICROVMS_ID_EXECS_EXEC_OUTPUT, self._names, query=query) as response:
            collected = Collected()
            async for line in json_lines(response):
                event = collected.add(line)
                if isinstance(event, (Output, Gap)):
                    yield event

    async def wait(self) -> CommandResult:
        """Everything that is kept of its output, and how it ended. A connection that is lost is made again at the same byte."""
        collected, seen, failures = Collected(), 0, 0
        while True:
            try:
                async for event in self.output(seen):
                    failures = 0
                    if isinstance(event, Output):
                        seen += len(event.data)
                        (collected.out if event.stream == "stdout" else collected.err).extend(event.data)
                    else:
                        seen += event.size
            except UnavailableError as error:
                failures += 1
                if failures > self._transport.policy.retries:
                    raise error
            status = await self.status()
            if status.exit is not None:
                return CommandResult(bytes(collected.out), bytes(collected.err), _exit_of(status.exit))
            await async_sleep(0.05)

    async def write(self, data: str | bytes, *, eof: bool = False) -> None:
        """Bytes to its input. They carry their place in it, so a write that was cut can be repeated."""
        content = data.encode() if isinstance(data, str) else data
        answer = await self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_STDIN, self._names,
                                            query={"offset": self._stdin_offset, "eof": eof}, content=content, repeatable=True, timeout=NEVER)
        self._stdin_offset = models.StdinOffset.from_json(answer).offset

    async def close_stdin(self) -> None:
        await self.write(b"", eof=True)

    async def signal(self, number: int = 15, *, group: bool = True) -> None:
        await self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_SIGNAL, self._names, body={"signal": number, "group": group})

    async def resize(self, cols: int, rows: int) -> None:
        """Its terminal's size, if it has one."""
        await self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_RESIZE, self._names, body={"cols": cols, "rows": rows}, repeatable=True)

    async def kill(self) -> None:
        """Kills all that it started, and forgets it."""
        await self._transport.call(_api.DELETE_MICROVMS_ID_EXECS_EXEC, self._names)


def _exit_of(ending: models.Ending) -> Exit:
    return Exit(ending.exit_code, ending.signal, ending.timed_out, ending.out_of_memory)

