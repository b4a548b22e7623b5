"""A microVM, and everything that can be done in it and with it."""
from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, List

import httpx

from .. import _api, models
from .._sleep import async_sleep
from ..errors import ConflictError, FirebreakError
from ..progress import Progress, ProgressCallback, reporter
from ..results import Collected, CommandResult, Gap, Output, RunResult
from .commands import AsyncCommandStream, AsyncProcess, Command, exec_body
from .contexts import AsyncContext, AsyncContexts, CodeEvent
from .files import AsyncFiles
from .tokens import AsyncTokens, Endpoint
from .transport import NEVER, AsyncTransport, json_lines

if TYPE_CHECKING:
    from .._bodies import PatchMicrovmsIdBody, PostMicrovmsBody
    from .client import AsyncClient

# Stands for "as it is", where None means "none".
KEEP: Any = object()


class AsyncSandbox:
    """A microVM of an image. It is made by the `with` block, by start(), or by the first call that needs it.

    The `with` block ends the microVM that it made. A sandbox that AsyncClient.get() gave is somebody's already, and goes on.
    """

    def __init__(self, image: str = "python", *, client: AsyncClient | None = None, name: str | None = None, version: str | None = None,
                 idle: Mapping[str, Any] | None = None, max_duration: int | None = None, egress: str | None = None, role: str | None = None,
                 env: Mapping[str, str] | None = None, payload: str | None = None, tags: Mapping[str, str] | None = None,
                 progress: ProgressCallback | None = None) -> None:
        wishes = {"image": image, "name": name, "version": version, "idle": dict(idle) if idle else None, "maxDurationSeconds": max_duration,
                  "egress": egress, "role": role, "env": dict(env) if env else None, "payload": payload, "tags": dict(tags) if tags else None,
                  # However often the request is sent, one microVM is made.
                  "clientToken": str(uuid.uuid4())}
        self._body: PostMicrovmsBody = {key: value for key, value in wishes.items() if value is not None}  # type: ignore[assignment]
        self._client = client
        self._own_client = client is None
        self._owned = True
        self._progress = progress
        self._info: models.Microvm | None = None
        self._interpreters: dict[str, AsyncContext] = {}

    @classmethod
    def _attached(cls, client: AsyncClient, info: models.Microvm) -> AsyncSandbox:
        sandbox = cls(client=client)
        sandbox._info, sandbox._owned = info, False
        return sandbox

    # ---- its life

    async def start(self) -> AsyncSandbox:
        """Makes the microVM, unless that is done; waits while its image is being built."""
        if self._info is None:
            self._info = models.Microvm.from_json(await self._launch())
        return self

    async def _launch(self) -> Any:
        report = reporter(self._progress)
        waited = False
        while True:
            try:
                answer = await self._transport.call(_api.POST_MICROVMS, body=self._body, repeatable=True)
                break
            except ConflictError as error:
                if not await self._being_built():
                    raise error
            waited = True
            report(Progress(f"the image {self._body['image']} is being built"))
            await async_sleep(0.5)
        if waited:
            report(Progress(f"the image {self._body['image']} is ready", finished=True))
        return answer

    async def _being_built(self) -> bool:
        image = await self._transport.call(_api.GET_IMAGES_IMAGE, {"image": self._body["image"].partition(":")[0]})
        return str(image["state"]).endswith("ING")

    async def __aenter__(self) -> AsyncSandbox:
        try:
            return await self.start()
        except BaseException:
            await self._leave()
            raise

    async def __aexit__(self, *exception: object) -> None:
        try:
            if self._owned and self._info is not None:
                await self.terminate()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        if self._own_client and self._client is not None:
            await self._client.aclose()
            self._client = None

    @property
    def client(self) -> AsyncClient:
        if self._client is None:
            from .client import AsyncClient

            self._client = AsyncClient()
        return self._client

    @property
    def _transport(self) -> AsyncTransport:
        return self.client._transport

    @property
    def info(self) -> models.Microvm:
        """What the server said last about it; refresh() asks again."""
        if self._info is None:
            raise FirebreakError("the microVM is not there yet; use the sandbox in a with block, or call start()")
        return self._info

    @property
    def id(self) -> str:
        return self.info.id

    async def _ready(self) -> dict[str, str]:
        await self.start()
        return {"id": self.id}

    async def _files_at(self, operation: _api.Operation) -> tuple[_api.Operation, dict[str, str]]:
        return operation, await self._ready()

    async def refresh(self) -> models.Microvm:
        self._info = models.Microvm.from_json(await self._transport.call(_api.GET_MICROVMS_ID, await self._ready()))
        return self._info

    async def update(self, *, name: str | None = KEEP, idle: Mapping[str, Any] | None = KEEP, max_duration: int | None = KEEP,
                     egress: str = KEEP) -> models.Microvm:
        """Changes what is named; None takes a name, an idle policy or a time limit away."""
        wishes = {"name": name, "idle": idle, "maxDurationSeconds": max_duration, "egress": egress}
        body: PatchMicrovmsIdBody = {key: value for key, value in wishes.items() if value is not KEEP}  # type: ignore[assignment]
        self._info = models.Microvm.from_json(await self._transport.call(_api.PATCH_MICROVMS_ID, await self._ready(), body=body))
        return self._info

    async def suspend(self) -> models.Microvm:
        answer = await self._transport.call(_api.POST_MICROVMS_ID_SUSPEND, await self._ready(), repeatable=True)
        self._info = models.Microvm.from_json(answer)
        return self._info

    async def resume(self) -> models.Microvm:
        answer = await self._transport.call(_api.POST_MICROVMS_ID_RESUME, await self._ready(), repeatable=True)
        self._info = models.Microvm.from_json(answer)
        return self._info

    async def fork(self, count: int = 1) -> List[AsyncSandbox]:
        """Copies of it as it is now, running; each `with` block of a copy ends that copy."""
        answer = models.Microvms.from_json(await self._transport.call(_api.POST_MICROVMS_ID_FORK, await self._ready(), body={"count": count}))
        copies = [AsyncSandbox._attached(self.client, info) for info in answer.items]
        for copy in copies:
            copy._owned = True
        return copies

    async def terminate(self) -> models.Microvm:
        """Ends it; succeeds also when it has ended already."""
        self._info = models.Microvm.from_json(await self._transport.call(_api.DELETE_MICROVMS_ID, await self._ready()))
        return self._info

    # ---- code and commands

    async def run(self, code: str, *, language: str = "python", timeout: float | None = None,
                  on_output: Callable[[CodeEvent], None] | None = None) -> RunResult:
        """Runs code in the first context of the language; variables stay for the next run."""
        return await (await self.interpreter(language)).run(code, timeout=timeout, on_output=on_output)

    async def interpreter(self, language: str = "python") -> AsyncContext:
        """The context in which run() runs code of this language."""
        if language not in self._interpreters:
            self._interpreters[language] = await self.contexts.of_language(language)
        return self._interpreters[language]

    async def exec(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                   stdin: str | bytes | None = None, timeout: float | None = None, pty: tuple[int, int] | None = None) -> CommandResult:
        """Runs a command to its end: a text is a line for the shell, a list is a program and its arguments.

        When this call is cancelled or interrupted, the guest kills everything that the command started.
        """
        body = exec_body(command, env, cwd, user, stdin, timeout, pty)
        return CommandResult.from_json(await self._transport.call(_api.POST_MICROVMS_ID_EXEC, await self._ready(), body=body, timeout=NEVER))

    def stream(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                     stdin: str | bytes | None = None, timeout: float | None = None, pty: tuple[int, int] | None = None) -> AsyncCommandStream:
        """A command whose output comes as it is printed; use it in a with block, which kills the command when it is left early."""
        return AsyncCommandStream(self, exec_body(command, env, cwd, user, stdin, timeout, pty))

    async def spawn(self, command: Command, *, env: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                    stdin: str | bytes | None = None, open_stdin: bool = False, timeout: float | None = None,
                    pty: tuple[int, int] | None = None) -> AsyncProcess:
        """Starts a command that outlives the connection."""
        body: dict[str, Any] = {**exec_body(command, env, cwd, user, stdin, timeout, pty)}
        if open_stdin:
            body["openStdin"] = True
        answer = models.StartedExec.from_json(await self._transport.call(_api.POST_MICROVMS_ID_EXECS, await self._ready(), body=body))
        return self.process(answer.exec)

    def process(self, id: str) -> AsyncProcess:
        """A command that spawn() started, maybe elsewhere."""
        return AsyncProcess(self._transport, self.id, id)

    async def processes(self) -> List[models.Exec]:
        return models.Execs.from_json(await self._transport.call(_api.GET_MICROVMS_ID_EXECS, await self._ready())).execs

    async def logs(self, *, follow: bool = False) -> AsyncIterator[Output | Gap]:
        """What the application of the image printed; with follow until the microVM ends."""
        async with self._transport.stream(_api.GET_MICROVMS_ID_LOGS, await self._ready(), query={"follow": follow}) as response:
            collected = Collected()
            async for line in json_lines(response):
                event = collected.add(line)
                if isinstance(event, (Output, Gap)):
                    yield event

    # ---- parts of it

    @property
    def files(self) -> AsyncFiles:
        return AsyncFiles(self)

    @property
    def contexts(self) -> AsyncContexts:
        return AsyncContexts(self)

    @property
    def tokens(self) -> AsyncTokens:
        return AsyncTokens(self)

    async def endpoint(self, port: int, *, expires: int = 3600) -> Endpoint:
        """Where a port of it is reached from outside, with the header that opens it."""
        await self.start()
        token = await self.tokens.create(port, expires=expires)
        return Endpoint(f"https://{self.info.endpoint}", token.token, port, self._transport.server.ca_file)

    async def http(self, port: int, *, expires: int = 3600, **options: Any) -> httpx.AsyncClient:
        """An HTTP client for a port of it; the options are httpx's."""
        endpoint = await self.endpoint(port, expires=expires)
        return httpx.AsyncClient(base_url=endpoint.url, headers=endpoint.headers, verify=endpoint.ca_file or True, **options)

    async def egress(self, *, limit: int | None = None, suggest: bool = False) -> models.EgressLog:
        """What it was allowed and denied; with suggest also the smallest policy that would have sufficed."""
        answer = await self._transport.call(_api.GET_MICROVMS_ID_EGRESS, await self._ready(), query={"limit": limit, "suggest": suggest})
        return models.EgressLog.from_json(answer)
