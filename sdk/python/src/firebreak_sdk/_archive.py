"""Directories of this computer as tar archives, and archives of a guest as directories."""
from __future__ import annotations

import os
import pathlib
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast


@contextmanager
def pack(directory: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """What is in a directory, as an archive."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name in sorted(os.listdir(directory)):
                archive.add(os.path.join(directory, name), arcname=name)
        file.seek(0)
        yield cast(BinaryIO, file)


class Unpacking:
    def __init__(self, directory: pathlib.Path, file: IO[bytes]) -> None:
        self._directory = directory
        self._file = file
        self.left_out: list[str] = []

    def feed(self, piece: bytes) -> None:
        self._file.write(piece)

    def finish(self) -> None:
        self._file.seek(0)
        root = self._directory.resolve()
        with tarfile.open(fileobj=self._file, mode="r|") as archive:
            for member in archive:
                target = (root / member.name).resolve()
                inside = target == root or root in target.parents
                if not inside or not (member.isreg() or member.isdir()):
                    self.left_out.append(member.name)
                elif member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    self._write(archive, member, target)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: pathlib.Path) -> None:
        source = archive.extractfile(member)
        assert source is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as out:
            while piece := source.read(256 * 1024):
                out.write(piece)
        # No more than permissions: nothing of a guest becomes setuid here.
        os.chmod(target, member.mode & 0o777 | 0o600)


@contextmanager
def unpack(directory: str | os.PathLike[str]) -> Iterator[Unpacking]:
    """Takes an archive piece by piece; what it holds is in the directory when the block ends."""
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as file:
        unpacking = Unpacking(path, file)
        yield unpacking
        unpacking.finish()
