"""Errors as classes: one for each code of the API, all of them FirebreakError."""
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


class FirebreakError(Exception):
    """What the server, or this library, refused or could not do.

    `code` and `reason` are stable words for programs; the text is for people. `repair` says what to do, where that is known.
    `resets_at` is when to try again, where that is known. `data` holds whatever else the server told.
    """

    code = "error"

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None, reason: str | None = None,
                 repair: str | None = None, resets_at: datetime | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        if code is not None:
            self.code = code
        self.reason = reason
        self.repair = repair
        self.resets_at = resets_at
        self.data = dict(data or {})


class InvalidError(FirebreakError):
    """The request is wrong: an unknown member, a bad value."""

    code = "invalid"


class UnauthenticatedError(FirebreakError):
    """The key is missing, wrong or revoked."""

    code = "unauthenticated"


class DeniedError(FirebreakError):
    """The key may not do this."""

    code = "denied"


class NotFoundError(FirebreakError):
    """There is no such microVM, image, exec, file or program."""

    code = "not_found"


class ConflictError(FirebreakError):
    """It is not in the state for this: ended, being built, busy."""

    code = "conflict"


class ExhaustedError(FirebreakError):
    """A limit of the tenant, or an answer that is too large."""

    code = "exhausted"


class ServerError(FirebreakError):
    """The server's fault; its log says more."""

    code = "internal"


class CorruptError(ServerError):
    """Files of the server are damaged."""

    code = "corrupt"


class GuestError(FirebreakError):
    """The guest, or a hook in it, failed."""

    code = "guest"


class UnavailableError(FirebreakError):
    """The server cannot be reached, has no room or is stopping, or the guest went away."""

    code = "unavailable"


class TimeoutError(FirebreakError):  # noqa: A001
    """A deadline passed."""

    code = "timeout"


class ConfigurationError(FirebreakError):
    """No server was named, and none was found."""

    code = "configuration"


class CommandError(FirebreakError):
    """A command, or code in a context, did not succeed; raised only by check()."""

    code = "command"


BY_CODE: dict[str, type[FirebreakError]] = {
    kind.code: kind
    for kind in (InvalidError, UnauthenticatedError, DeniedError, NotFoundError, ConflictError, ExhaustedError, ServerError,
                 CorruptError, GuestError, UnavailableError, TimeoutError)
}

_KNOWN = {"type", "code", "message", "reason", "repair", "resetsAt"}


def error_of(status: int | None, body: Mapping[str, Any]) -> FirebreakError:
    """The error that a body, or the last line of a stream, tells about."""
    code = str(body.get("code", "internal"))
    resets = body.get("resetsAt")
    return BY_CODE.get(code, FirebreakError)(
        str(body.get("message") or f"the server answered with status {status}"),
        status=status,
        code=code,
        reason=body.get("reason"),
        repair=body.get("repair"),
        resets_at=datetime.fromtimestamp(resets / 1000, timezone.utc) if isinstance(resets, (int, float)) else None,
        data={name: value for name, value in body.items() if name not in _KNOWN},
    )
