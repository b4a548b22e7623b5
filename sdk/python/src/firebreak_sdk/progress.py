"""Tells how far long work is: to a callback, or as a bar on a terminal."""
from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Progress:
    """One step of long work: what is being done, a line of its log if there is one, and how many of how many steps are done."""

    what: str
    line: str | None = None
    done: int | None = None
    total: int | None = None
    finished: bool = False


ProgressCallback = Callable[[Progress], None]

_STEP = re.compile(r"^\[(\d+)/(\d+)\] ")
# What a guest prints must not steer the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def step_of(line: str) -> tuple[int, int] | None:
    """Which of how many steps a line of a build's log begins."""
    match = _STEP.match(line)
    return (int(match[1]), int(match[2])) if match else None


class Bar:
    """A bar that moves, on one line of a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr

    def __call__(self, progress: Progress) -> None:
        text = _CONTROL.sub(" ", progress.line or progress.what)[:60]
        if progress.total:
            done = progress.done or 0
            filled = "#" * (30 * done // progress.total)
            text = f"[{filled:<30}] {done} of {progress.total}  {text}"
        self._out.write(f"\r\x1b[K{text}" + ("\n" if progress.finished else ""))
        self._out.flush()


def reporter(callback: ProgressCallback | None) -> ProgressCallback:
    """The callback; without one a bar if standard error is a terminal, else nothing."""
    if callback is not None:
        return callback
    return Bar() if sys.stderr.isatty() else lambda progress: None
