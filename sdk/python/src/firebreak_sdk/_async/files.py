"""Files and directories in a microVM, or in a session's."""
from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, BinaryIO, List

from .. import _api, models
from .._archive import pack, unpack
from ..errors import NotFoundError
from .transport import NEVER, json_lines

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox
    from .sessions import AsyncSession

PIECE = 256 * 1024


class AsyncFiles:
    def __init__(self, home: AsyncSandbox | AsyncSession) -> None:
        self._home = home

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return b"".join([piece async for piece in self.stream(path, offset=offset, length=length)])

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return (await self.read(path)).decode(encoding)

    async def stream(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """A file's bytes as they come, however large it is."""
        query = {"path": path, "offset": offset or None, "length": length}
        async with self._home._transport.stream(*await self._home._files_at(_api.GET_MICROVMS_ID_FILES), query=query) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def write(self, path: str, content: str | bytes | BinaryIO, *, mode: int | None = None, append: bool = False,
                    offset: int | None = None, user: str | None = None, parents: bool = False) -> None:
        """Without `append` and `offset` the file is replaced whole or not at all."""
        query = {"path": path, "mode": None if mode is None else f"{mode:04o}", "append": append, "offset": offset, "user": user,
                 "parents": parents}
        await self._home._transport.call(*await self._home._files_at(_api.PUT_MICROVMS_ID_FILES), query=query, content=_content(content), timeout=NEVER,
                                   repeatable=not append)

    async def stat(self, path: str, *, follow: bool = False) -> models.FileInfo:
        answer = await self._home._transport.call(*await self._home._files_at(_api.GET_MICROVMS_ID_FILES_STAT), query={"path": path, "follow": follow})
        return models.FileInfo.from_json(answer)

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except NotFoundError:
            return False
        return True

    async def list(self, path: str) -> List[models.FileInfo]:
        async with self._home._transport.stream(*await self._home._files_at(_api.GET_MICROVMS_ID_FILES_LIST), query={"path": path}) as response:
            return [models.FileInfo.from_json(line) async for line in json_lines(response)]

    async def mkdir(self, path: str, *, mode: int | None = None, parents: bool = False) -> None:
        query = {"path": path, "mode": None if mode is None else f"{mode:04o}", "parents": parents}
        await self._home._transport.call(*await self._home._files_at(_api.POST_MICROVMS_ID_FILES_MKDIR), query=query, repeatable=parents)

    async def rename(self, old: str, new: str) -> None:
        await self._home._transport.call(*await self._home._files_at(_api.POST_MICROVMS_ID_FILES_RENAME), query={"from": old, "to": new})

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        await self._home._transport.call(*await self._home._files_at(_api.DELETE_MICROVMS_ID_FILES), query={"path": path, "recursive": recursive}, repeatable=False)

    async def tar(self, path: str) -> AsyncIterator[bytes]:
        """A directory's content, or one file, as a tar archive."""
        async with self._home._transport.stream(*await self._home._files_at(_api.GET_MICROVMS_ID_TAR), query={"path": path}) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def untar(self, path: str, archive: bytes | BinaryIO) -> None:
        """Unpacks a tar archive below a directory."""
        await self._home._transport.call(*await self._home._files_at(_api.PUT_MICROVMS_ID_TAR), query={"path": path}, content=_content(archive), timeout=NEVER)

    async def upload(self, local: str | os.PathLike[str], path: str) -> None:
        """Copies a file, or what is in a directory, into the guest."""
        if os.path.isdir(local):
            await self.mkdir(path, parents=True)
            with pack(local) as archive:
                await self.untar(path, archive)
            return
        with open(local, "rb") as file:
            await self.write(path, file, parents=True)

    async def download(self, path: str, local: str | os.PathLike[str]) -> List[str]:
        """Copies a file to a file, or what is in a directory to a directory.

        The guest is not trusted: nothing is written outside `local`. Links and devices are left out, and their names returned.
        """
        if (await self.stat(path, follow=True)).type != "dir":
            with open(local, "wb") as file:
                async for piece in self.stream(path):
                    file.write(piece)
            return []
        with unpack(local) as unpacking:
            async for piece in self.tar(path):
                unpacking.feed(piece)
        return unpacking.left_out


def _content(content: str | bytes | BinaryIO) -> Any:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else _pieces(content)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
