"""Cuts bytes into lines at LF alone: text of a guest may hold every other character that Python takes for a line's end."""
from __future__ import annotations


class LineCutter:
    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        self._held.extend(data)
        *whole, rest = bytes(self._held).split(b"\n")
        self._held = bytearray(rest)
        return [line.decode(errors="replace") for line in whole]

    def rest(self) -> list[str]:
        """What came after the last LF."""
        return [self._held.decode(errors="replace")] if self._held else []
