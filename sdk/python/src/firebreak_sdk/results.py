"""What commands and code give back. In a notebook they show themselves."""
from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import models
from .errors import CommandError


def _bytes_of(text: str | None, encoded: str | None) -> bytes:
    return base64.b64decode(encoded) if encoded is not None else (text or "").encode()


@dataclass(frozen=True)
class Output:
    """A piece of what a command or code printed."""

    stream: Literal["stdout", "stderr"]
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


@dataclass(frozen=True)
class Gap:
    """That many bytes of output were dropped here."""

    size: int


@dataclass(frozen=True)
class Exit:
    """How a command ended."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    out_of_memory: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exit:
        return cls(data.get("exitCode"), data.get("signal"), bool(data.get("timedOut")), bool(data.get("outOfMemory")))

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        if self.timed_out:
            return "it was killed at its time limit"
        if self.out_of_memory:
            return "the guest's memory ran out"
        return f"signal {self.signal} ended it" if self.exit_code is None else f"exit status {self.exit_code}"


@dataclass(frozen=True)
class CommandResult:
    """What a command printed, and how it ended."""

    stdout_bytes: bytes
    stderr_bytes: bytes
    exit: Exit
    duration_ms: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CommandResult:
        answer = models.ExecResult.from_json(data)
        return cls(_bytes_of(answer.stdout, answer.stdout_base64), _bytes_of(answer.stderr, answer.stderr_base64),
                   Exit.from_json(data), answer.duration_ms)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        return self.exit.exit_code

    @property
    def ok(self) -> bool:
        return self.exit.ok

    def check(self) -> CommandResult:
        """Raises CommandError unless the exit status is 0."""
        if not self.ok:
            raise CommandError(f"the command failed: {self.exit}\n{self.stderr[-2000:]}".rstrip(), data={"result": self})
        return self

    def _repr_html_(self) -> str:
        return _printed(self.stdout, self.stderr) + ("" if self.ok else f"<p>{html.escape(str(self.exit))}</p>")


@dataclass(frozen=True)
class Artifact:
    """One form of a value that code showed: text, html, png, ... Forms of one object have one `index`."""

    kind: str
    data: str
    main: bool = False
    index: int = 0
    truncated: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Artifact:
        return cls(data["kind"], data["data"], bool(data.get("main")), int(data.get("index", 0)), bool(data.get("truncated")))

    @property
    def content(self) -> bytes:
        """The bytes: decoded where the form is binary."""
        return base64.b64decode(self.data) if self.kind in ("png", "jpeg", "pdf") else self.data.encode()

    def _repr_png_(self) -> bytes | None:
        return self.content if self.kind == "png" else None

    def _repr_jpeg_(self) -> bytes | None:
        return self.content if self.kind == "jpeg" else None

    def _repr_html_(self) -> str:
        # Whatever the guest says is untrusted: its scripts must not run in the notebook's page.
        if self.kind in ("png", "jpeg"):
            return f'<img src="data:image/{self.kind};base64,{html.escape(self.data)}">'
        if self.kind == "svg":
            return f'<img src="data:image/svg+xml;base64,{base64.b64encode(self.data.encode()).decode()}">'
        if self.kind == "html":
            return f'<iframe sandbox style="border:0;width:100%;height:20em" srcdoc="{html.escape(self.data)}"></iframe>'
        return f"<pre>{html.escape(self.data)}</pre>"


@dataclass(frozen=True)
class RunResult:
    """What code in a context printed, showed and raised."""

    stdout: str
    stderr: str
    status: str
    results: list[Artifact] = field(default_factory=list)
    error: models.CodeError | None = None
    state: str | None = None
    run: str | None = None
    execution_count: int = 0
    duration_ms: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunResult:
        return cls(
            stdout=data.get("stdout", ""), stderr=data.get("stderr", ""), status=data["status"],
            results=[Artifact.from_json(item) for item in data.get("results", [])],
            error=models.CodeError.from_json(data["error"]) if data.get("error") else None,
            state=data.get("state"), run=data.get("run"),
            execution_count=data.get("executionCount", 0), duration_ms=data.get("durationMs", 0))

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def text(self) -> str | None:
        """The last expression's value as text."""
        return next((each.data for each in self.results if each.main and each.kind == "text"), None)

    @property
    def png(self) -> bytes | None:
        """The first picture."""
        return next((each.content for each in self.results if each.kind == "png"), None)

    def check(self) -> RunResult:
        """Raises CommandError unless the code ran to its end without an error."""
        if not self.ok:
            what = f"{self.error.name}: {self.error.message}" if self.error else self.status
            raise CommandError(f"the code did not succeed: {what}", reason=self.status, data={"result": self})
        return self

    def _repr_html_(self) -> str:
        shown: dict[int, tuple[int, Artifact]] = {}
        for each in self.results:
            # Of the forms of one object the richest is shown.
            rank = ("png", "jpeg", "svg", "html").index(each.kind) if each.kind in ("png", "jpeg", "svg", "html") else 9
            if each.index not in shown or rank < shown[each.index][0]:
                shown[each.index] = (rank, each)
        parts = [_printed(self.stdout, self.stderr)] + [each._repr_html_() for _, each in shown.values()]
        if self.error:
            parts.append(f"<pre>{html.escape(chr(10).join(self.error.traceback) or self.error.message)}</pre>")
        return "".join(parts)


def _printed(stdout: str, stderr: str) -> str:
    parts = [f"<pre>{html.escape(stdout)}</pre>" if stdout else "",
             f'<pre style="background:#fdd">{html.escape(stderr)}</pre>' if stderr else ""]
    return "".join(parts)


class Collected:
    """Puts the lines of a stream together; both clients feed it."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.members: dict[str, Any] = {"results": []}

    def add(self, line: Mapping[str, Any]) -> Output | Gap | Artifact | models.CodeError | None:
        """What a line tells, as a value; None for a line about the stream itself."""
        kind = line["type"]
        if kind == "stdout" or kind == "stderr":
            data = _bytes_of(line.get("data"), line.get("dataBase64"))
            (self.out if kind == "stdout" else self.err).extend(data)
            return Output(kind, data)
        if kind == "gap":
            return Gap(int(line["bytes"]))
        if kind == "result":
            self.members["results"].append(line)
            return Artifact.from_json(line)
        if kind == "error":
            self.members["error"] = line
            return models.CodeError.from_json(line)
        self.members.update({name: value for name, value in line.items() if name != "type"})
        return None

    def command(self) -> CommandResult:
        return CommandResult(bytes(self.out), bytes(self.err), Exit.from_json(self.members))

    def code(self) -> RunResult:
        return RunResult.from_json({**self.members, "stdout": self.out.decode(errors="replace"), "stderr": self.err.decode(errors="replace")})
