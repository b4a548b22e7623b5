"""An HTTP request that a microVM makes itself: its egress policy decides, not the host's network."""
from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from .._async.sandbox import AsyncSandbox

MAX_BYTES = 8 * 1024 * 1024
TIMEOUT = 30.0

# Runs in the guest, with nothing but Python's own library. One more byte than is allowed tells that there are too many.
SCRIPT = """
import base64, json, sys, urllib.error, urllib.request
ask = json.load(sys.stdin)
body = base64.b64decode(ask["body"]) if ask["body"] is not None else None
request = urllib.request.Request(ask["url"], data=body, headers=ask["headers"], method=ask["method"])
try:
    try:
        answer = urllib.request.urlopen(request, timeout=ask["timeout"])
    except urllib.error.HTTPError as error:
        answer = error
    content = answer.read(ask["max"] + 1)
    told = {"status": answer.status, "reason": answer.reason or "", "url": answer.url, "headers": answer.headers.items(),
            "body": base64.b64encode(content).decode()}
except Exception as error:
    told = {"error": "%s: %s" % (type(error).__name__, error)}
json.dump(told, sys.stdout)
"""


@dataclass
class HttpResult:
    """What a server answered."""

    status: int
    status_text: str
    resolved_url: str
    headers: dict[str, str]
    body: bytes


class SandboxHttpError(RuntimeError):
    """No answer, or one that is too large."""


async def request_in(box: AsyncSandbox, method: str, url: str, headers: Mapping[str, str] | None, body: bytes | None,
                     timeout: float | None, max_bytes: int | None) -> HttpResult:
    if not url.startswith(("http://", "https://")):
        raise SandboxHttpError(f"{url!r} is no address of a web server; it has to begin with http:// or https://")
    most, wait = max_bytes or MAX_BYTES, timeout or TIMEOUT
    ask = {"method": method.upper(), "url": url, "headers": dict(headers or {}), "timeout": wait, "max": most,
           "body": None if body is None else base64.b64encode(body).decode()}
    done = await box.exec(["python3", "-c", SCRIPT], stdin=json.dumps(ask), timeout=wait + 10)
    if not done.ok:
        raise SandboxHttpError(f"{method} {url} failed in the guest: {done.exit}\n{done.stderr[-500:]}".rstrip())
    told = json.loads(done.stdout)
    if "error" in told:
        raise SandboxHttpError(f"{method} {url} failed: {told['error']}")
    content = base64.b64decode(told["body"])
    if len(content) > most:
        raise SandboxHttpError(f"the answer of {url} has more than {most} bytes; raise max_bytes")
    return HttpResult(told["status"], told["reason"], told["url"], dict(told["headers"]), content)
