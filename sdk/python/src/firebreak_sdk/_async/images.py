"""Images: what microVMs are made of."""
from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, BinaryIO, List

from .. import _api, models
from .._archive import pack
from ..errors import GuestError
from ..progress import Progress, ProgressCallback, reporter, step_of
from .files import _content
from .transport import NEVER, AsyncTransport, server_events


class AsyncImages:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, name: str | None = None) -> AsyncIterator[models.Image]:
        """Your own and the system's; `name` is a part of the name."""
        token: str | None = None
        while True:
            answer = await self._transport.call(_api.GET_IMAGES, query={"name": name, "pageToken": token})
            page = models.ImagePage.from_json(answer)
            for image in page.items:
                yield image
            token = page.next_page_token
            if token is None:
                return

    async def get(self, image: str) -> models.ImageWithVersions:
        return models.ImageWithVersions.from_json(await self._transport.call(_api.GET_IMAGES_IMAGE, {"image": image}))

    async def create(self, name: str, *, memory_mib: int | None = None, app: Mapping[str, Any] | None = None,
                     hooks: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None, tags: Mapping[str, str] | None = None,
                     python_context: bool | None = None, preload: Mapping[str, Sequence[str]] | None = None) -> models.ImageVersion:
        """Makes an image from the base root filesystem; answers when it is made, which may take minutes."""
        body = {"name": name, "memoryMib": memory_mib, "app": app, "hooks": hooks, "env": env, "tags": tags, "pythonContext": python_context,
                "preload": preload}
        return models.ImageVersion.from_json(await self._transport.call(_api.POST_IMAGES, body=body, timeout=NEVER))

    async def delete(self, image: str) -> None:
        await self._transport.call(_api.DELETE_IMAGES_IMAGE, {"image": image})

    async def build(self, name: str, context: str | os.PathLike[str] | bytes | BinaryIO, *, file: str | None = None, target: str | None = None,
                    args: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None, memory_mib: int | None = None,
                    no_cache: bool = False, ready: str | None = None, hooks: str | None = None, egress: str | None = None,
                    build_egress: str | None = None, python_context: bool = False, preload: Mapping[str, Sequence[str]] | None = None,
                    prune_versions: bool = False, secrets: Mapping[str, bytes] | None = None, progress: ProgressCallback | None = None,
                    wait: bool = True) -> models.ImageVersionDetail:
        """Builds an image from a Dockerfile: `context` is a directory, or a tar or zip archive.

        Each line of the build's log reaches `progress`; without one, a terminal shows a bar. A build that fails raises GuestError.
        """
        query = {"file": file, "target": target, "arg": _pairs(args), "env": _pairs(env), "memoryMib": memory_mib, "noCache": no_cache,
                 "ready": ready, "hooks": hooks, "egress": egress, "buildEgress": build_egress, "pythonContext": python_context,
                 "preload": [f"{language}={','.join(names)}" for language, names in (preload or {}).items()] or None,
                 "pruneVersions": prune_versions}
        headers = [("x-build-secret", f"{key}={base64.b64encode(value).decode()}") for key, value in (secrets or {}).items()]
        if isinstance(context, (str, os.PathLike)):
            with pack(context) as archive:
                made = await self._order(name, query, headers, archive)
        else:
            made = await self._order(name, query, headers, context)
        if wait and not made.unchanged:
            await self._follow(made, reporter(progress))
        return await self.version(made.image, made.version)

    async def _order(self, name: str, query: Mapping[str, Any], headers: List[tuple[str, str]], archive: bytes | BinaryIO) -> models.Build:
        answer = await self._transport.call(_api.POST_IMAGES_IMAGE_BUILDS, {"image": name}, query=query, headers=headers,
                                            content=_content(archive), timeout=NEVER)
        return models.Build.from_json(answer)

    async def _follow(self, made: models.Build, report: ProgressCallback) -> None:
        what, done, total, last = f"building {made.image}:{made.version}", None, None, list[str]()
        names = {"image": made.image, "version": made.version}
        async with self._transport.stream(_api.GET_IMAGES_IMAGE_VERSIONS_VERSION_LOG, names, query={"follow": True},
                                          headers=[("accept", "text/event-stream")]) as response:
            async for event, data in server_events(response):
                if event != "log":
                    continue
                for line in data.split("\n"):
                    step = step_of(line)
                    if step is not None:
                        done, total = step
                    if line:
                        last = [*last[-4:], line]
                        report(Progress(what, line, done, total))
        version = await self.version(made.image, made.version)
        report(Progress(what, version.state, total, total, finished=True))
        if version.state.endswith("FAILED"):
            reason = version.state_reason or "\n".join(last)
            raise GuestError(f"the build of {made.image}:{made.version} failed: {reason}", data={"log": last, "version": version})

    async def version(self, image: str, version: str = "latest") -> models.ImageVersionDetail:
        answer = await self._transport.call(_api.GET_IMAGES_IMAGE_VERSIONS_VERSION, {"image": image, "version": version})
        return models.ImageVersionDetail.from_json(answer)

    async def log(self, image: str, version: str = "latest", *, follow: bool = False) -> AsyncIterator[str]:
        """What the build printed, as text; with follow until it has ended."""
        names = {"image": image, "version": version}
        async with self._transport.stream(_api.GET_IMAGES_IMAGE_VERSIONS_VERSION_LOG, names, query={"follow": follow}) as response:
            async for piece in response.aiter_text():
                yield piece

    async def cancel(self, image: str, version: str) -> None:
        """Ends a build that is under way."""
        await self._transport.call(_api.POST_IMAGES_IMAGE_VERSIONS_VERSION_CANCEL, {"image": image, "version": version})

    async def delete_version(self, image: str, version: str) -> None:
        await self._transport.call(_api.DELETE_IMAGES_IMAGE_VERSIONS_VERSION, {"image": image, "version": version})

    async def prune(self, image: str) -> models.Pruned:
        """Removes the versions that nobody uses."""
        return models.Pruned.from_json(await self._transport.call(_api.POST_IMAGES_IMAGE_PRUNE, {"image": image}))

    async def bases(self) -> List[models.Base]:
        """What every FROM can name."""
        return models.Bases.from_json(await self._transport.call(_api.GET_BASES)).items

    async def build_cache(self) -> models.BuildCache:
        return models.BuildCache.from_json(await self._transport.call(_api.GET_BUILD_CACHE))


def _pairs(values: Mapping[str, str] | None) -> List[str] | None:
    return [f"{key}={value}" for key, value in values.items()] if values else None
