"""Decides what is tried again, and when. No I/O: both clients ask it."""
from __future__ import annotations

import random
from dataclasses import dataclass

import httpx

from .errors import ExhaustedError, FirebreakError, UnavailableError

# Nothing was sent: whatever the call does, it did not do it.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is tried again, and how long is waited at most before one more try."""

    retries: int = 3
    first_wait: float = 0.2
    longest_wait: float = 30.0

    def wait(self, attempt: int, error: Exception, repeatable: bool, retry_after: float | None = None) -> float | None:
        """Seconds to wait before the call is sent again; None: the error stands.

        A call that is repeatable can be sent twice without harm. Any other is sent again only if the server cannot have begun it:
        nothing was sent, or a limit refused it and said when it may come again.
        """
        if attempt >= self.retries:
            return None
        if isinstance(error, FirebreakError):
            refused = isinstance(error, ExhaustedError) and retry_after is not None
            again = refused or (repeatable and isinstance(error, UnavailableError))
        else:
            again = isinstance(error, NOT_SENT) or (repeatable and isinstance(error, httpx.TransportError))
        if not again:
            return None
        backoff = self.first_wait * 2**attempt * random.uniform(0.5, 1.0)
        seconds = backoff if retry_after is None else max(retry_after, backoff)
        return seconds if seconds <= self.longest_wait else None


def retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def unreachable(url: str, error: Exception) -> UnavailableError:
    repair = "is 'firebreak serve' running there? FIREBREAK_URL names another server"
    return UnavailableError(f"the connection to the server at {url} failed: {error or type(error).__name__}; {repair}", repair=repair)
