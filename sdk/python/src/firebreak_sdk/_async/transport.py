"""Sends calls, reads answers and streams, and tries again what may be tried again."""
from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from .._api import PATCH_MICROVMS_ID, PATCH_TEMPLATES_TEMPLATE, PUT_TENANTS_TENANT_LIMITS, Operation
from .._find import ServerAddress
from .._lines import LineCutter
from .._policy import RetryPolicy, retry_after, unreachable
from .._sleep import async_sleep
from ..errors import FirebreakError, error_of

# A call has five minutes at the server; one that waits for a guest's work has no limit here.
CALL_SECONDS = 330.0
NEVER = httpx.Timeout(None, connect=10.0, pool=60.0)

# Where null takes something away.
NULLS = (PATCH_MICROVMS_ID, PATCH_TEMPLATES_TEMPLATE, PUT_TENANTS_TENANT_LIMITS)

Query = Mapping[str, Any]


class AsyncTransport:
    def __init__(self, server: ServerAddress, policy: RetryPolicy, http: httpx.AsyncClient | None = None) -> None:
        self.server = server
        self.policy = policy
        self._own = http is None
        self._http = http or httpx.AsyncClient(timeout=httpx.Timeout(CALL_SECONDS, connect=10.0), verify=server.ca_file or True,
                                               limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))

    async def aclose(self) -> None:
        if self._own:
            await self._http.aclose()

    def _request(self, operation: Operation, names: dict[str, str], query: Query | None, body: Any, content: Any,
                 headers: list[tuple[str, str]] | None, timeout: httpx.Timeout | float | None) -> httpx.Request:
        values = {name: _text(value) for name, value in (query or {}).items() if value is not None and value is not False}
        unknown = set(values) - set(operation.query)
        assert not unknown, f"{operation.pattern} has no {unknown}"
        if body is not None:
            # A member that is None is left out, except where null takes something away.
            nulls = operation in NULLS
            content = json.dumps({name: value for name, value in body.items() if nulls or value is not None}).encode()
        return self._http.build_request(
            operation.method, self.server.url.rstrip("/") + operation.path(names), params=values, content=content,
            headers=[("authorization", f"Bearer {self.server.api_key}"), *(headers or [])],
            timeout=timeout if timeout is not None else CALL_SECONDS)

    async def call(self, operation: Operation, names: dict[str, str] | None = None, *, query: Query | None = None, body: Any = None,
                   content: Any = None, headers: list[tuple[str, str]] | None = None, timeout: httpx.Timeout | float | None = None,
                   repeatable: bool | None = None) -> Any:
        """The JSON answer of a call. A GET, PUT or DELETE is repeatable unless the caller says otherwise."""
        response = await self._send(operation, names or {}, query, body, content, headers, timeout, repeatable, stream=False)
        return response.json()

    @asynccontextmanager
    async def stream(self, operation: Operation, names: dict[str, str] | None = None, *, query: Query | None = None, body: Any = None,
                     headers: list[tuple[str, str]] | None = None, timeout: httpx.Timeout | float | None = NEVER) -> AsyncIterator[httpx.Response]:
        """The answer as it comes. Leaving the block closes the connection, which ends the server's work for it."""
        response = await self._send(operation, names or {}, query, body, None, headers, timeout, None, stream=True)
        try:
            yield response
        except httpx.TransportError as error:
            raise unreachable(self.server.url, error) from error
        finally:
            await response.aclose()

    async def _send(self, operation: Operation, names: dict[str, str], query: Query | None, body: Any, content: Any,
                    headers: list[tuple[str, str]] | None, timeout: httpx.Timeout | float | None, repeatable: bool | None,
                    stream: bool) -> httpx.Response:
        if repeatable is None:
            repeatable = operation.method != "POST"
        # What was read from a stream cannot be sent twice.
        again = content is None or isinstance(content, bytes)
        attempt = 0
        while True:
            after: float | None = None
            try:
                response = await self._http.send(self._request(operation, names, query, body, content, headers, timeout), stream=stream)
                if response.is_success:
                    return response
                after = retry_after(response)
                error: Exception = await self._refusal(response)
            except httpx.TransportError as failure:
                error = failure
            wait = self.policy.wait(attempt, error, repeatable, after) if again else None
            if wait is None:
                if isinstance(error, FirebreakError):
                    raise error
                raise unreachable(self.server.url, error) from error
            await async_sleep(wait)
            attempt += 1

    async def _refusal(self, response: httpx.Response) -> FirebreakError:
        text = await response.aread()
        await response.aclose()
        try:
            body = json.loads(text)
        except ValueError:
            body = {}
        return error_of(response.status_code, body if isinstance(body, dict) else {})


async def lines_of(response: httpx.Response) -> AsyncIterator[str]:
    cutter = LineCutter()
    async for data in response.aiter_bytes():
        for line in cutter.feed(data):
            yield line
    for line in cutter.rest():
        yield line


async def json_lines(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The lines of a stream; one that tells of a failure is raised."""
    async for text in lines_of(response):
        if not text.strip():
            continue
        line = json.loads(text)
        # In a run of code `error` is what the code raised, and has no code of ours.
        if line.get("type") == "failure" or (line.get("type") == "error" and "code" in line):
            raise error_of(None, line)
        yield line


async def server_events(response: httpx.Response) -> AsyncIterator[tuple[str, str]]:
    """Name and data of each server-sent event."""
    name, data = "message", list[str]()
    async for line in lines_of(response):
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield name, "\n".join(data)
            name, data = "message", []


def _text(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_text(each) for each in value]
    return "1" if value is True else str(value)
