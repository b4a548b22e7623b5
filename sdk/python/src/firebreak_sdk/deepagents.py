"""A sandbox of LangChain's DeepAgents in a microVM.

    from deepagents import create_deep_agent
    from firebreak_sdk.deepagents import FirebreakBackend

    with FirebreakBackend() as backend:
        agent = create_deep_agent(model=..., backend=backend)

Needs the package deepagents, 0.7 or newer. The guest's image needs python3, as every sandbox of DeepAgents does.
"""
from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from ._sync.client import Client
from .errors import DeniedError, FirebreakError, NotFoundError

SIGNAL_BASE = 128
TIMED_OUT = 124


class FirebreakBackend(BaseSandbox):
    """A microVM that an agent works in. The `with` block, or close(), ends it; one that was given by its id goes on."""

    def __init__(self, image: str = "python", *, client: Client | None = None, sandbox_id: str | None = None, timeout: float = 1800,
                 egress: str | None = None, role: str | None = None, idle: Mapping[str, Any] | None = None,
                 max_duration: int | None = None, tags: Mapping[str, str] | None = None) -> None:
        self._client = client or Client()
        self._own_client = client is None
        self._owned = sandbox_id is None
        self._timeout = timeout
        self._box = (self._client.get(sandbox_id) if sandbox_id is not None
                     else self._client.run(image, egress=egress, role=role, idle=idle, max_duration=max_duration, tags=tags))

    def close(self) -> None:
        if self._owned:
            self._box.terminate()
        if self._own_client:
            self._client.close()

    def __enter__(self) -> FirebreakBackend:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        return self._box.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Both streams in the order in which they were printed."""
        text = bytearray()
        with self._box.stream(command, timeout=timeout or self._timeout) as stream:
            for event in stream:
                text.extend(getattr(event, "data", b""))
        assert stream.result is not None
        exit = stream.result.exit
        if exit.timed_out:
            text.extend(f"\n{exit}".encode())
            return ExecuteResponse(text.decode(errors="replace"), TIMED_OUT)
        code = exit.exit_code if exit.exit_code is not None else SIGNAL_BASE + (exit.signal or 9)
        return ExecuteResponse(text.decode(errors="replace"), code)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._write(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._read(path) for path in paths]

    def _write(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._box.files.write(path, content, parents=True)
        except FirebreakError as error:
            return self._why(error, path)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self._box.files.read(path))
        except FirebreakError as error:
            return FileDownloadResponse(path=path, error=self._why(error, path))

    def _why(self, error: FirebreakError, path: str) -> str:
        """The word that DeepAgents has for it."""
        if isinstance(error, NotFoundError):
            return "file_not_found"
        if isinstance(error, DeniedError):
            return "permission_denied"
        try:
            return "is_directory" if self._box.files.stat(posixpath.normpath(path), follow=True).type == "dir" else "permission_denied"
        except FirebreakError:
            return "invalid_path"
