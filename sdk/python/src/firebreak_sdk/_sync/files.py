# Made by tools/sdk-sync from _async; change that and make it again.
"""Files and directories in a microVM, or in a session's."""
from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, List

from .. import _api, models
from .._archive import pack, unpack
from ..errors import NotFoundError
from .transport import NEVER, json_lines

if TYPE_CHECKING:
    from .sandbox import Sandbox
    from .sessions import Session

PIECE = 256 * 1024


class Files:
    def __init__(self, home: Sandbox | Session) -> None:
        self._home = home

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return b"".join([piece for piece in self.stream(path, offset=offset, length=length)])

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return (self.read(path)).decode(encoding)

    def stream(self, path: str, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """A file's bytes as they come, however large it is."""
        query = {"path": path, "offset": offset or None, "length": length}
        with self._home._transport.stream(*self._home._files_at(_api.GET_MICROVMS_ID_FILES), query=query) as response:
            for piece in response.iter_bytes():
                yield piece

    def write(self, path: str, content: str | bytes | BinaryIO, *, mode: int | None = None, append: bool = False,
                    offset: int | None = None, user: str | None = None, parents: bool = False) -> None:
        """Without `append` and `offset` the file is replaced whole or not at all."""
        query = {"path": path, "mode": None if mode is None else f"{mode:04o}", "append": append, "offset": offset, "user": user,
                 "parents": parents}
        self._home._transport.call(*self._home._files_at(_api.PUT_MICROVMS_ID_FILES), query=query, content=_content(content), timeout=NEVER,
                                   repeatable=not append)

    def stat(self, path: str, *, follow: bool = False) -> models.FileInfo:
        answer = self._home._transport.call(*self._home._files_at(_api.GET_MICROVMS_ID_FILES_STAT), query={"path": path, "follow": follow})
        return models.FileInfo.from_json(answer)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except NotFoundError:
            return False
        return True

    def list(self, path: str) -> List[models.FileInfo]:
        with self._home._transport.stream(*self._home._files_at(_api.GET_MICROVMS_ID_FILES_LIST), query={"path": path}) as response:
            return [models.FileInfo.from_json(line) for line in json_lines(response)]

    def mkdir(self, path: str, *, mode: int | None = None, parents: bool = False) -> None:
        query = {"path": path, "mode": None if mode is None else f"{mode:04o}", "parents": parents}
        self._home._transport.call(*self._home._files_at(_api.POST_MICROVMS_ID_FILES_MKDIR), query=query, repeatable=parents)

    def rename(self, old: str, new: str) -> None:
        self._home._transport.call(*self._home._files_at(_api.POST_MICROVMS_ID_FILES_RENAME), query={"from": old, "to": new})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._home._transport.call(*self._home._files_at(_api.DELETE_MICROVMS_ID_FILES), query={"path": path, "recursive": recursive}, repeatable=False)

    def tar(self, path: str) -> Iterator[bytes]:
        """A directory's content, or one file, as a tar archive."""
        with self._home._transport.stream(*self._home._files_at(_api.GET_MICROVMS_ID_TAR), query={"path": path}) as response:
            for piece in response.iter_bytes():
                yield piece

    def untar(self, path: str, archive: bytes | BinaryIO) -> None:
        """Unpacks a tar archive below a directory."""
        self._home._transport.call(*self._home._files_at(_api.PUT_MICROVMS_ID_TAR), query={"path": path}, content=_content(archive), timeout=NEVER)

    def upload(self, local: str | os.PathLike[str], path: str) -> None:
        """Copies a file, or what is in a directory, into the guest."""
        if os.path.isdir(local):
            self.mkdir(path, parents=True)
            with pack(local) as archive:
                self.untar(path, archive)
            return
        with open(local, "rb") as file:
            self.write(path, file, parents=True)

    def download(self, path: str, local: str | os.PathLike[str]) -> List[str]:
        """Copies a file to a file, or what is in a directory to a directory.

        The guest is not trusted: nothing is written outside `local`. Links and devices are left out, and their names returned.
        """
        if (self.stat(path, follow=True)).type != "dir":
            with open(local, "wb") as file:
                for piece in self.stream(path):
                    file.write(piece)
            return []
        with unpack(local) as unpacking:
            for piece in self.tar(path):
                unpacking.feed(piece)
        return unpacking.left_out


def _content(content: str | bytes | BinaryIO) -> Any:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else _pieces(content)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
