"""Tokens that open a microVM's ports to clients outside."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, List

from .. import _api, models

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox


@dataclass(frozen=True)
class Endpoint:
    """A port of a microVM: its address, and the headers that every request to it carries."""

    url: str
    token: str
    port: int
    ca_file: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"x-aws-proxy-auth": self.token, "x-aws-proxy-port": str(self.port)}


class AsyncTokens:
    def __init__(self, box: AsyncSandbox) -> None:
        self._box = box

    async def create(self, ports: int | str | None = None, *, expires: int = 3600, kind: str = "endpoint") -> models.IssuedToken:
        """`ports` is a number, a text such as "8080,9000-9010", or "*"; the token itself is shown this once."""
        body = {"ports": ports, "expiresSeconds": expires, "kind": kind}
        return models.IssuedToken.from_json(await self._box._transport.call(_api.POST_MICROVMS_ID_TOKENS, await self._box._ready(), body=body))

    async def list(self) -> List[models.Token]:
        return models.Tokens.from_json(await self._box._transport.call(_api.GET_MICROVMS_ID_TOKENS, await self._box._ready())).items

    async def revoke(self, token: str) -> None:
        """By the token's id."""
        await self._box._transport.call(_api.DELETE_MICROVMS_ID_TOKENS_TOKEN, {**await self._box._ready(), "token": token})
