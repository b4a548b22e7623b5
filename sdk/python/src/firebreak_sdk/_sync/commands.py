# Made by tools/sdk-sync from _async; change that and make it again.
"""Commands in a microVM: run to the end, streamed, or started as processes that outlive the connection."""
from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .. import _api, models
from .._sleep import sleep
from ..errors import FirebreakError, UnavailableError
from ..results import Collected, CommandResult, Exit, Gap, Output
from .transport import NEVER, Transport, json_lines

if TYPE_CHECKING:
    from .._bodies import PostMicrovmsIdExecBody
    from .sandbox import Sandbox

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


class CommandStream:
    """A command under way: iterate over what it prints. `result` is there at the end. Closing it before kills what it started."""

    def __init__(self, box: Sandbox, body: PostMicrovmsIdExecBody) -> None:
        self._box, self._body = box, body
        self._stack = ExitStack()
        self._lines: Iterator[dict[str, Any]] | None = None
        self._collected = Collected()
        self.id: str | None = None
        self.result: CommandResult | None = None

    def __enter__(self) -> CommandStream:
        names = self._box._ready()
        response = self._stack.enter_context(
            self._box._transport.stream(_api.POST_MICROVMS_ID_EXEC, names, body={**self._body, "stream": True}))
        self._lines = json_lines(response)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; if the command still runs, the guest kills everything that it started."""
        self._stack.close()

    def __iter__(self) -> Iterator[Output | Gap]:
        return self._events()

    def _events(self) -> Iterator[Output | Gap]:
        if self._lines is None:
            raise FirebreakError("the stream is not open; use it in a with block")
        for line in self._lines:
            event = self._collected.add(line)
            if line["type"] == "started":
                self.id = line["exec"]
            elif line["type"] == "exit":
                self.result = self._collected.command()
            elif isinstance(event, (Output, Gap)):
                yield event
        if self.result is None:
            raise UnavailableError("the stream ended before the command did")

    def wait(self) -> CommandResult:
        """Reads to the end."""
        for _ in self:
            pass
        assert self.result is not None
        return self.result


class Process:
    """A command that outlives the connection; any client can attach to it again by its id."""

    def __init__(self, transport: Transport, vm: str, exec_id: str) -> None:
        self._transport = transport
        self._names = {"id": vm, "exec": exec_id}
        self._stdin_offset = 0
        self.id = exec_id

    def status(self) -> models.Exec:
        return models.Exec.from_json(self._transport.call(_api.GET_MICROVMS_ID_EXECS_EXEC, self._names))

    def output(self, offset: int = 0, *, follow: bool = True) -> Iterator[Output | Gap]:
        """What it prints, from this byte on; with follow until it ends. A new reader replaces the one before."""
        query = {"offset": offset or None, "follow": None if follow else "0"}
        with self._transport.stream(_api.GET_MICROVMS_ID_EXECS_EXEC_OUTPUT, self._names, query=query) as response:
            collected = Collected()
            for line in json_lines(response):
                event = collected.add(line)
                if isinstance(event, (Output, Gap)):
                    yield event

    def wait(self) -> CommandResult:
        """Everything that is kept of its output, and how it ended. A connection that is lost is made again at the same byte."""
        collected, seen, failures = Collected(), 0, 0
        while True:
            try:
                for event in self.output(seen):
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
            status = self.status()
            if status.exit is not None:
                return CommandResult(bytes(collected.out), bytes(collected.err), _exit_of(status.exit))
            sleep(0.05)

    def write(self, data: str | bytes, *, eof: bool = False) -> None:
        """Bytes to its input. They carry their place in it, so a write that was cut can be repeated."""
        content = data.encode() if isinstance(data, str) else data
        answer = self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_STDIN, self._names,
                                            query={"offset": self._stdin_offset, "eof": eof}, content=content, repeatable=True, timeout=NEVER)
        self._stdin_offset = models.StdinOffset.from_json(answer).offset

    def close_stdin(self) -> None:
        self.write(b"", eof=True)

    def signal(self, number: int = 15, *, group: bool = True) -> None:
        self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_SIGNAL, self._names, body={"signal": number, "group": group})

    def resize(self, cols: int, rows: int) -> None:
        """Its terminal's size, if it has one."""
        self._transport.call(_api.POST_MICROVMS_ID_EXECS_EXEC_RESIZE, self._names, body={"cols": cols, "rows": rows}, repeatable=True)

    def kill(self) -> None:
        """Kills all that it started, and forgets it."""
        self._transport.call(_api.DELETE_MICROVMS_ID_EXECS_EXEC, self._names)


def _exit_of(ending: models.Ending) -> Exit:
    return Exit(ending.exit_code, ending.signal, ending.timed_out, ending.out_of_memory)

