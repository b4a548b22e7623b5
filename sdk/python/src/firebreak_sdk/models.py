"""What the server answers with, as values.

Made by tools/sdk-types from the server's OpenAPI document; change src/api/native and make it again.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Base:
    name: str  # what FROM says
    version: str  # Debian's
    digest: str  # of what the disk holds
    disk_bytes: int  # its size
    aliases: list[str]  # other names

    @classmethod
    def from_json(cls, data: Json) -> Base:
        return cls(
            name=data["name"],
            version=data["version"],
            digest=data["digest"],
            disk_bytes=data["diskBytes"],
            aliases=data["aliases"],
        )


@dataclass(frozen=True)
class Bases:
    items: list[Base]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Bases:
        return cls(
            items=[Base.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Build:
    image: str  # name of the image
    version: str  # like 1.0
    state: str  # of the version
    build: str | None = None  # its id
    unchanged: bool | None = None  # whether nothing had to be built
    removed: list[str] | None = None  # versions that went at the limit

    @classmethod
    def from_json(cls, data: Json) -> Build:
        return cls(
            image=data["image"],
            version=data["version"],
            state=data["state"],
            build=data.get("build"),
            unchanged=data.get("unchanged"),
            removed=data.get("removed"),
        )


@dataclass(frozen=True)
class BuildCache:
    layers: int  # how many
    layer_bytes: int  # of layers
    mount_bytes: int  # of cache mounts

    @classmethod
    def from_json(cls, data: Json) -> BuildCache:
        return cls(
            layers=data["layers"],
            layer_bytes=data["layerBytes"],
            mount_bytes=data["mountBytes"],
        )


@dataclass(frozen=True)
class Cap:
    dimension: str  # its name
    about: str  # what it counts
    cap: int | None  # null: none
    used: list[CapUse]  # so far
    resets_at: str  # when it counts from 0 again

    @classmethod
    def from_json(cls, data: Json) -> Cap:
        return cls(
            dimension=data["dimension"],
            about=data["about"],
            cap=data.get("cap"),
            used=[CapUse.from_json(item) for item in data["used"]],
            resets_at=data["resetsAt"],
        )


@dataclass(frozen=True)
class CapUse:
    agent_id: str | None  # whose, of a cap of agents
    count: int  # in the hour or day that runs now

    @classmethod
    def from_json(cls, data: Json) -> CapUse:
        return cls(
            agent_id=data.get("agentId"),
            count=data["count"],
        )


@dataclass(frozen=True)
class Caps:
    items: list[Cap]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Caps:
        return cls(
            items=[Cap.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class CheckReport:
    ok: bool  # whether nothing leaks
    microvms: int  # how many live
    leaks: list[Leak]  # what is left over
    unclear: list[Leak]  # what may be another server's

    @classmethod
    def from_json(cls, data: Json) -> CheckReport:
        return cls(
            ok=data["ok"],
            microvms=data["microvms"],
            leaks=[Leak.from_json(item) for item in data["leaks"]],
            unclear=[Leak.from_json(item) for item in data["unclear"]],
        )


@dataclass(frozen=True)
class CodeAnswer:
    ok: bool  # whether the code ended without an error
    stdout: str  # what it printed, as far as it is shown
    stderr: str  # what it printed, as far as it is shown
    exit_status: str  # ok, error, timeout, oom, cap_exceeded or provisioning
    duration_ms: int  # of the whole call
    session_id: str | None  # where it ran
    invocation_id: str  # its record
    error: str | None = None  # a class, if it is not ok
    error_message: str | None = None  # words for the agent, if it is not ok
    dimension: str | None = None  # the cap that refused it
    resets_at: str | None = None  # when that cap counts from 0 again
    stdout_truncated: bool | None = None  # whether something was cut
    stderr_truncated: bool | None = None  # whether something was cut
    exit_code: int | None = None  # of a command

    @classmethod
    def from_json(cls, data: Json) -> CodeAnswer:
        return cls(
            ok=data["ok"],
            stdout=data["stdout"],
            stderr=data["stderr"],
            exit_status=data["exit_status"],
            duration_ms=data["duration_ms"],
            session_id=data.get("session_id"),
            invocation_id=data["invocation_id"],
            error=data.get("error"),
            error_message=data.get("error_message"),
            dimension=data.get("dimension"),
            resets_at=data.get("resets_at"),
            stdout_truncated=data.get("stdout_truncated"),
            stderr_truncated=data.get("stderr_truncated"),
            exit_code=data.get("exit_code"),
        )


@dataclass(frozen=True)
class CodeAnswerLine:
    type: str  # stdout, stderr, answer or failure
    data: str | None = None  # of stdout and stderr: text
    data_base64: str | None = None  # of stdout and stderr: what is not text
    code: str | None = None  # of failure
    message: str | None = None  # of failure
    repair: str | None = None  # of failure
    ok: bool | None = None  # whether the code ended without an error
    stdout: str | None = None  # what it printed, as far as it is shown
    stderr: str | None = None  # what it printed, as far as it is shown
    exit_status: str | None = None  # ok, error, timeout, oom, cap_exceeded or provisioning
    duration_ms: int | None = None  # of the whole call
    error: str | None = None  # a class, if it is not ok
    error_message: str | None = None  # words for the agent, if it is not ok
    dimension: str | None = None  # the cap that refused it
    resets_at: str | None = None  # when that cap counts from 0 again
    stdout_truncated: bool | None = None  # whether something was cut
    stderr_truncated: bool | None = None  # whether something was cut
    exit_code: int | None = None  # of a command
    session_id: str | None = None  # where it ran
    invocation_id: str | None = None  # its record

    @classmethod
    def from_json(cls, data: Json) -> CodeAnswerLine:
        return cls(
            type=data["type"],
            data=data.get("data"),
            data_base64=data.get("dataBase64"),
            code=data.get("code"),
            message=data.get("message"),
            repair=data.get("repair"),
            ok=data.get("ok"),
            stdout=data.get("stdout"),
            stderr=data.get("stderr"),
            exit_status=data.get("exit_status"),
            duration_ms=data.get("duration_ms"),
            error=data.get("error"),
            error_message=data.get("error_message"),
            dimension=data.get("dimension"),
            resets_at=data.get("resets_at"),
            stdout_truncated=data.get("stdout_truncated"),
            stderr_truncated=data.get("stderr_truncated"),
            exit_code=data.get("exit_code"),
            session_id=data.get("session_id"),
            invocation_id=data.get("invocation_id"),
        )


@dataclass(frozen=True)
class CodeArtifact:
    kind: str  # text, html, markdown, latex, svg, png, jpeg, pdf, json, javascript or a MIME type
    data: str  # base64 of what is not text
    main: bool  # whether it is the last expression's value
    index: int  # forms of one object have one index
    truncated: bool | None = None  # whether it was cut

    @classmethod
    def from_json(cls, data: Json) -> CodeArtifact:
        return cls(
            kind=data["kind"],
            data=data["data"],
            main=data["main"],
            index=data["index"],
            truncated=data.get("truncated"),
        )


@dataclass(frozen=True)
class CodeError:
    name: str  # of the exception
    message: str  # what it says
    traceback: list[str]  # lines

    @classmethod
    def from_json(cls, data: Json) -> CodeError:
        return cls(
            name=data["name"],
            message=data["message"],
            traceback=data["traceback"],
        )


@dataclass(frozen=True)
class CodeLine:
    type: str  # started, stdout, stderr, gap, result, error, done or failure
    run: str | None = None  # of started
    state: str | None = None  # of started
    data: str | None = None  # of stdout, stderr and result
    data_base64: str | None = None  # of stdout and stderr: what is not text
    bytes: int | None = None  # of gap
    kind: str | None = None  # of result
    main: bool | None = None  # of result
    index: int | None = None  # of result
    truncated: bool | None = None  # of result
    name: str | None = None  # of error
    message: str | None = None  # of error and failure
    traceback: list[str] | None = None  # of error
    status: str | None = None  # of done
    execution_count: int | None = None  # of done
    duration_ms: int | None = None  # of done
    exit: Ending | None = None  # of done
    code: str | None = None  # of failure
    repair: str | None = None  # of failure

    @classmethod
    def from_json(cls, data: Json) -> CodeLine:
        return cls(
            type=data["type"],
            run=data.get("run"),
            state=data.get("state"),
            data=data.get("data"),
            data_base64=data.get("dataBase64"),
            bytes=data.get("bytes"),
            kind=data.get("kind"),
            main=data.get("main"),
            index=data.get("index"),
            truncated=data.get("truncated"),
            name=data.get("name"),
            message=data.get("message"),
            traceback=data.get("traceback"),
            status=data.get("status"),
            execution_count=data.get("executionCount"),
            duration_ms=data.get("durationMs"),
            exit=Ending.from_json(data["exit"]) if data.get("exit") is not None else None,
            code=data.get("code"),
            repair=data.get("repair"),
        )


@dataclass(frozen=True)
class CodeResult:
    run: str  # its name
    stdout: str  # what was printed
    stderr: str  # what was printed
    results: list[CodeArtifact]  # what it shows
    status: str  # ok, error, interrupted, timeout or died
    execution_count: int  # runs in this interpreter so far
    duration_ms: int  # how long it took
    state: str | None = None  # what it found: fresh, kept or restarted
    error: CodeError | None = None  # what the code raised
    exit: Ending | None = None  # how the interpreter ended, when it died

    @classmethod
    def from_json(cls, data: Json) -> CodeResult:
        return cls(
            run=data["run"],
            stdout=data["stdout"],
            stderr=data["stderr"],
            results=[CodeArtifact.from_json(item) for item in data["results"]],
            status=data["status"],
            execution_count=data["executionCount"],
            duration_ms=data["durationMs"],
            state=data.get("state"),
            error=CodeError.from_json(data["error"]) if data.get("error") is not None else None,
            exit=Ending.from_json(data["exit"]) if data.get("exit") is not None else None,
        )


@dataclass(frozen=True)
class Context:
    id: str  # its id
    language: str  # python, bash or node
    state: str  # starting, idle, busy or dead
    execution_count: int  # runs so far
    restarts: int  # interpreters before this one
    run: str | None = None  # what runs now

    @classmethod
    def from_json(cls, data: Json) -> Context:
        return cls(
            id=data["id"],
            language=data["language"],
            state=data["state"],
            execution_count=data["executionCount"],
            restarts=data["restarts"],
            run=data.get("run"),
        )


@dataclass(frozen=True)
class Contexts:
    contexts: list[Context]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Contexts:
        return cls(
            contexts=[Context.from_json(item) for item in data["contexts"]],
        )


@dataclass(frozen=True)
class EgressLog:
    policy: str  # name of its policy
    decisions: list[dict[str, Any]]  # newest last
    allowed: int | None = None  # how often it was allowed something
    denied: int | None = None  # how often it was denied something
    lost: int | None = None  # decisions that were not kept
    unlisted: bool | None = None  # whether there were more destinations than are listed
    reached: list[Any] | None = None  # destinations that it reached
    refused: list[Any] | None = None  # destinations that it was refused
    denials: list[Any] | None = None  # why, and how often
    suggestion: EgressPolicy | None = None  # the smallest policy that would have sufficed
    bytes_out: int | None = None  # so far
    bytes_in: int | None = None  # so far
    denied_packets: int | None = None  # so far

    @classmethod
    def from_json(cls, data: Json) -> EgressLog:
        return cls(
            policy=data["policy"],
            decisions=data["decisions"],
            allowed=data.get("allowed"),
            denied=data.get("denied"),
            lost=data.get("lost"),
            unlisted=data.get("unlisted"),
            reached=data.get("reached"),
            refused=data.get("refused"),
            denials=data.get("denials"),
            suggestion=EgressPolicy.from_json(data["suggestion"]) if data.get("suggestion") is not None else None,
            bytes_out=data.get("bytesOut"),
            bytes_in=data.get("bytesIn"),
            denied_packets=data.get("deniedPackets"),
        )


@dataclass(frozen=True)
class EgressPolicies:
    items: list[EgressPolicy]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> EgressPolicies:
        return cls(
            items=[EgressPolicy.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class EgressPolicy:
    rules: list[EgressRule]  # what is allowed and denied
    name: str | None = None  # its name
    internet: bool | None = None  # what no rule names is allowed
    sni_check: bool | None = None  # names in TLS must be those that were looked up
    max_bytes: int | None = None  # out and in together
    max_connections: int | None = None  # at once

    @classmethod
    def from_json(cls, data: Json) -> EgressPolicy:
        return cls(
            rules=[EgressRule.from_json(item) for item in data["rules"]],
            name=data.get("name"),
            internet=data.get("internet"),
            sni_check=data.get("sniCheck"),
            max_bytes=data.get("maxBytes"),
            max_connections=data.get("maxConnections"),
        )


@dataclass(frozen=True)
class EgressRule:
    action: str  # allow or deny
    any: bool | None = None  # true: everything
    cidr: str | None = None  # addresses, as 10.0.0.0/8
    domain: str | None = None  # a name, or *.NAME
    protocol: str | None = None  # any, tcp, udp or icmp
    ports: list[int | str] | None = None  # numbers, and ranges as "8000-8100"

    @classmethod
    def from_json(cls, data: Json) -> EgressRule:
        return cls(
            action=data["action"],
            any=data.get("any"),
            cidr=data.get("cidr"),
            domain=data.get("domain"),
            protocol=data.get("protocol"),
            ports=data.get("ports"),
        )


@dataclass(frozen=True)
class EgressSettings:
    default: str  # name of a policy
    maximum: str  # name of a policy

    @classmethod
    def from_json(cls, data: Json) -> EgressSettings:
        return cls(
            default=data["default"],
            maximum=data["maximum"],
        )


@dataclass(frozen=True)
class EndedTurn:
    ended: bool  # whether a session was

    @classmethod
    def from_json(cls, data: Json) -> EndedTurn:
        return cls(
            ended=data["ended"],
        )


@dataclass(frozen=True)
class Ending:
    timed_out: bool  # whether it was killed at its time limit
    out_of_memory: bool  # whether the guest's memory ran out
    exit_code: int | None = None  # its status, unless a signal ended it
    signal: int | None = None  # the signal that ended it

    @classmethod
    def from_json(cls, data: Json) -> Ending:
        return cls(
            timed_out=data["timedOut"],
            out_of_memory=data["outOfMemory"],
            exit_code=data.get("exitCode"),
            signal=data.get("signal"),
        )


@dataclass(frozen=True)
class Event:
    sequence: int  # its number
    at: int  # Unix milliseconds
    microvm: str  # whose
    from_: str  # state before
    to: str  # state after
    reason: str | None = None  # why

    @classmethod
    def from_json(cls, data: Json) -> Event:
        return cls(
            sequence=data["sequence"],
            at=data["at"],
            microvm=data["microvm"],
            from_=data["from"],
            to=data["to"],
            reason=data.get("reason"),
        )


@dataclass(frozen=True)
class Exec:
    id: str  # its id
    pid: int  # in the guest
    running: bool  # whether it runs
    started_at: int  # Unix milliseconds
    output_bytes: int  # what it has printed
    stdin_bytes: int  # what it was given
    exit: Ending | None = None  # how it ended

    @classmethod
    def from_json(cls, data: Json) -> Exec:
        return cls(
            id=data["id"],
            pid=data["pid"],
            running=data["running"],
            started_at=data["startedAt"],
            output_bytes=data["outputBytes"],
            stdin_bytes=data["stdinBytes"],
            exit=Ending.from_json(data["exit"]) if data.get("exit") is not None else None,
        )


@dataclass(frozen=True)
class ExecResult:
    timed_out: bool  # whether it was killed at its time limit
    out_of_memory: bool  # whether the guest's memory ran out
    duration_ms: int  # how long it took
    exit_code: int | None = None  # its status, unless a signal ended it
    signal: int | None = None  # the signal that ended it
    stdout: str | None = None  # if it is text
    stdout_base64: str | None = None  # if it is not
    stderr: str | None = None  # if it is text
    stderr_base64: str | None = None  # if it is not

    @classmethod
    def from_json(cls, data: Json) -> ExecResult:
        return cls(
            timed_out=data["timedOut"],
            out_of_memory=data["outOfMemory"],
            duration_ms=data["durationMs"],
            exit_code=data.get("exitCode"),
            signal=data.get("signal"),
            stdout=data.get("stdout"),
            stdout_base64=data.get("stdoutBase64"),
            stderr=data.get("stderr"),
            stderr_base64=data.get("stderrBase64"),
        )


@dataclass(frozen=True)
class Execs:
    execs: list[Exec]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Execs:
        return cls(
            execs=[Exec.from_json(item) for item in data["execs"]],
        )


@dataclass(frozen=True)
class FileInfo:
    name: str  # without directories
    type: str  # file, dir, symlink or another
    size: int  # in bytes
    mode: int  # permissions
    uid: int  # owner
    gid: int  # group
    mtime_ns: int  # Unix nanoseconds
    target: str | None = None  # of a symbolic link

    @classmethod
    def from_json(cls, data: Json) -> FileInfo:
        return cls(
            name=data["name"],
            type=data["type"],
            size=data["size"],
            mode=data["mode"],
            uid=data["uid"],
            gid=data["gid"],
            mtime_ns=data["mtimeNs"],
            target=data.get("target"),
        )


@dataclass(frozen=True)
class IdlePolicy:
    max_idle_seconds: int  # then it is suspended
    suspended_seconds: int  # then it is ended
    auto_resume: bool  # a call wakes it
    rule: str  # work or traffic: what keeps it awake

    @classmethod
    def from_json(cls, data: Json) -> IdlePolicy:
        return cls(
            max_idle_seconds=data["maxIdleSeconds"],
            suspended_seconds=data["suspendedSeconds"],
            auto_resume=data["autoResume"],
            rule=data["rule"],
        )


@dataclass(frozen=True)
class Image:
    id: str  # its id
    name: str  # its name
    state: str  # of its newest build
    system: bool  # whether it is the system's
    tags: dict[str, str]  # names and values
    created_at: int  # Unix milliseconds
    disk_bytes: int | None = None  # of all versions
    memory_bytes: int | None = None  # of all versions

    @classmethod
    def from_json(cls, data: Json) -> Image:
        return cls(
            id=data["id"],
            name=data["name"],
            state=data["state"],
            system=data["system"],
            tags=data["tags"],
            created_at=data["createdAt"],
            disk_bytes=data.get("diskBytes"),
            memory_bytes=data.get("memoryBytes"),
        )


@dataclass(frozen=True)
class ImagePage:
    items: list[Image]  # one page of them
    next_page_token: str | None = None  # pageToken of the next page, when there is one

    @classmethod
    def from_json(cls, data: Json) -> ImagePage:
        return cls(
            items=[Image.from_json(item) for item in data["items"]],
            next_page_token=data.get("nextPageToken"),
        )


@dataclass(frozen=True)
class ImageVersion:
    version: str  # like 1.0
    state: str  # of its build
    active: bool  # whether microVMs can be run of it
    memory_mib: int  # its size
    engine: str  # what runs its microVMs
    isolation: str  # hardware, userspace-kernel or emulated
    created_at: int  # Unix milliseconds
    disk_bytes: int | None = None  # what its files occupy
    memory_bytes: int | None = None  # what its memory file occupies
    state_reason: str | None = None  # why it is in this state
    preload: dict[str, Any] | None = None  # modules that its warm contexts have loaded, by language

    @classmethod
    def from_json(cls, data: Json) -> ImageVersion:
        return cls(
            version=data["version"],
            state=data["state"],
            active=data["active"],
            memory_mib=data["memoryMib"],
            engine=data["engine"],
            isolation=data["isolation"],
            created_at=data["createdAt"],
            disk_bytes=data.get("diskBytes"),
            memory_bytes=data.get("memoryBytes"),
            state_reason=data.get("stateReason"),
            preload=data.get("preload"),
        )


@dataclass(frozen=True)
class ImageVersionDetail:
    version: str  # like 1.0
    state: str  # of its build
    active: bool  # whether microVMs can be run of it
    memory_mib: int  # its size
    engine: str  # what runs its microVMs
    isolation: str  # hardware, userspace-kernel or emulated
    created_at: int  # Unix milliseconds
    image: str  # name of the image
    disk_bytes: int | None = None  # what its files occupy
    memory_bytes: int | None = None  # what its memory file occupies
    state_reason: str | None = None  # why it is in this state
    preload: dict[str, Any] | None = None  # modules that its warm contexts have loaded, by language
    build: str | None = None  # id of its build
    finished_at: int | None = None  # Unix milliseconds
    config: dict[str, Any] | None = None  # what the Dockerfile set
    steps: list[Any] | None = None  # of its build
    guest_ca: dict[str, Any] | None = None  # certificates that its build trusted

    @classmethod
    def from_json(cls, data: Json) -> ImageVersionDetail:
        return cls(
            version=data["version"],
            state=data["state"],
            active=data["active"],
            memory_mib=data["memoryMib"],
            engine=data["engine"],
            isolation=data["isolation"],
            created_at=data["createdAt"],
            image=data["image"],
            disk_bytes=data.get("diskBytes"),
            memory_bytes=data.get("memoryBytes"),
            state_reason=data.get("stateReason"),
            preload=data.get("preload"),
            build=data.get("build"),
            finished_at=data.get("finishedAt"),
            config=data.get("config"),
            steps=data.get("steps"),
            guest_ca=data.get("guestCa"),
        )


@dataclass(frozen=True)
class ImageWithVersions:
    id: str  # its id
    name: str  # its name
    state: str  # of its newest build
    system: bool  # whether it is the system's
    tags: dict[str, str]  # names and values
    created_at: int  # Unix milliseconds
    versions: list[ImageVersion]  # all of them
    disk_bytes: int | None = None  # of all versions
    memory_bytes: int | None = None  # of all versions

    @classmethod
    def from_json(cls, data: Json) -> ImageWithVersions:
        return cls(
            id=data["id"],
            name=data["name"],
            state=data["state"],
            system=data["system"],
            tags=data["tags"],
            created_at=data["createdAt"],
            versions=[ImageVersion.from_json(item) for item in data["versions"]],
            disk_bytes=data.get("diskBytes"),
            memory_bytes=data.get("memoryBytes"),
        )


@dataclass(frozen=True)
class Interrupted:
    interrupted: bool  # whether a run was

    @classmethod
    def from_json(cls, data: Json) -> Interrupted:
        return cls(
            interrupted=data["interrupted"],
        )


@dataclass(frozen=True)
class Invocation:
    invocation_id: str  # its id
    tenant_id: str  # whose
    agent_id: str  # who ran it
    turn_id: str  # in which turn
    session_id: str  # where
    template: str  # of the session
    language: str  # of the code
    key_id: str  # the caller's
    executed_code_hash: str  # SHA-256
    code_bytes: int  # how long the code is
    exit_status: str  # how it ended
    failure_reason: str  # why it failed
    duration_ms: int  # of the whole call
    stdout_bytes: int  # before anything was cut
    stderr_bytes: int  # before anything was cut
    stdout_truncated: bool  # whether the answer was cut
    stderr_truncated: bool  # whether the answer was cut
    stdout_hash: str  # SHA-256
    stderr_hash: str  # SHA-256
    started_at: str  # when
    expires_at: str  # when it is removed

    @classmethod
    def from_json(cls, data: Json) -> Invocation:
        return cls(
            invocation_id=data["invocation_id"],
            tenant_id=data["tenant_id"],
            agent_id=data["agent_id"],
            turn_id=data["turn_id"],
            session_id=data["session_id"],
            template=data["template"],
            language=data["language"],
            key_id=data["key_id"],
            executed_code_hash=data["executed_code_hash"],
            code_bytes=data["code_bytes"],
            exit_status=data["exit_status"],
            failure_reason=data["failure_reason"],
            duration_ms=data["duration_ms"],
            stdout_bytes=data["stdout_bytes"],
            stderr_bytes=data["stderr_bytes"],
            stdout_truncated=data["stdout_truncated"],
            stderr_truncated=data["stderr_truncated"],
            stdout_hash=data["stdout_hash"],
            stderr_hash=data["stderr_hash"],
            started_at=data["started_at"],
            expires_at=data["expires_at"],
        )


@dataclass(frozen=True)
class InvocationOutput:
    invocation_id: str  # whose
    session_id: str  # where it ran
    stdout: str | None = None  # if it is text
    stdout_base64: str | None = None  # if it is not
    stderr: str | None = None  # if it is text
    stderr_base64: str | None = None  # if it is not

    @classmethod
    def from_json(cls, data: Json) -> InvocationOutput:
        return cls(
            invocation_id=data["invocation_id"],
            session_id=data["session_id"],
            stdout=data.get("stdout"),
            stdout_base64=data.get("stdoutBase64"),
            stderr=data.get("stderr"),
            stderr_base64=data.get("stderrBase64"),
        )


@dataclass(frozen=True)
class Invocations:
    items: list[Invocation]  # newest first
    next: str | None = None  # after of the next page, when there may be one

    @classmethod
    def from_json(cls, data: Json) -> Invocations:
        return cls(
            items=[Invocation.from_json(item) for item in data["items"]],
            next=data.get("next"),
        )


@dataclass(frozen=True)
class IssuedKey:
    access_key_id: str  # its public name
    name: str  # for people
    admin: bool  # whether it is an administrator's
    kind: str  # owner, agent, approver, auditor or administrator
    agent_id: str | None  # of an agent's key
    created_at: int  # Unix milliseconds
    revoked_at: int | None  # Unix milliseconds
    account_id: str  # whose it is
    api_key: str  # the secret; shown once
    secret_access_key: str  # for SigV4; shown once

    @classmethod
    def from_json(cls, data: Json) -> IssuedKey:
        return cls(
            access_key_id=data["accessKeyId"],
            name=data["name"],
            admin=data["admin"],
            kind=data["kind"],
            agent_id=data.get("agentId"),
            created_at=data["createdAt"],
            revoked_at=data.get("revokedAt"),
            account_id=data["accountId"],
            api_key=data["apiKey"],
            secret_access_key=data["secretAccessKey"],
        )


@dataclass(frozen=True)
class IssuedToken:
    id: str  # by which it is revoked
    kind: str  # endpoint or shell
    ports: str  # as 8080,9000-9010 or *
    created_at: int  # Unix milliseconds
    expires_at: int  # Unix milliseconds
    token: str  # the secret; shown once
    port: int | None = None  # where requests without a port go
    revoked_at: int | None = None  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> IssuedToken:
        return cls(
            id=data["id"],
            kind=data["kind"],
            ports=data["ports"],
            created_at=data["createdAt"],
            expires_at=data["expiresAt"],
            token=data["token"],
            port=data.get("port"),
            revoked_at=data.get("revokedAt"),
        )


@dataclass(frozen=True)
class Key:
    access_key_id: str  # its public name
    name: str  # for people
    admin: bool  # whether it is an administrator's
    kind: str  # owner, agent, approver, auditor or administrator
    agent_id: str | None  # of an agent's key
    created_at: int  # Unix milliseconds
    revoked_at: int | None  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> Key:
        return cls(
            access_key_id=data["accessKeyId"],
            name=data["name"],
            admin=data["admin"],
            kind=data["kind"],
            agent_id=data.get("agentId"),
            created_at=data["createdAt"],
            revoked_at=data.get("revokedAt"),
        )


@dataclass(frozen=True)
class Keys:
    items: list[Key]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Keys:
        return cls(
            items=[Key.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Leak:
    kind: str  # what kind of thing
    name: str  # which
    what: str  # what is wrong
    repaired: bool  # whether it was put right

    @classmethod
    def from_json(cls, data: Json) -> Leak:
        return cls(
            kind=data["kind"],
            name=data["name"],
            what=data["what"],
            repaired=data["repaired"],
        )


@dataclass(frozen=True)
class Limits:
    microvms: int  # live ones
    memory_mib: int  # of live microVMs together
    images: int  # how many
    versions_per_image: int  # how many
    launches_per_second: int  # how many
    tenant_daily: int | None = None  # calls a day that run code in sessions; 0 stops them all
    agent_hourly: int | None = None  # calls an hour of one agent that run code in sessions
    launches_daily: int | None = None  # launches and forked copies a day
    wakes_hourly: int | None = None  # resumes an hour, as asked and by traffic
    execs_daily: int | None = None  # commands, terminals and runs of code in microVMs a day
    builds_daily: int | None = None  # builds a day

    @classmethod
    def from_json(cls, data: Json) -> Limits:
        return cls(
            microvms=data["microvms"],
            memory_mib=data["memoryMib"],
            images=data["images"],
            versions_per_image=data["versionsPerImage"],
            launches_per_second=data["launchesPerSecond"],
            tenant_daily=data.get("tenant_daily"),
            agent_hourly=data.get("agent_hourly"),
            launches_daily=data.get("launches_daily"),
            wakes_hourly=data.get("wakes_hourly"),
            execs_daily=data.get("execs_daily"),
            builds_daily=data.get("builds_daily"),
        )


@dataclass(frozen=True)
class Microvm:
    id: str  # microvm- and a UUID
    state: str  # PENDING, RUNNING, SUSPENDING, SUSPENDED, TERMINATING or TERMINATED
    image: str  # name of its image
    image_version: str  # like 1.0
    memory_mib: int  # its size
    engine: str  # what runs it
    isolation: str  # hardware, userspace-kernel or emulated
    endpoint: str  # where clients call it, without a scheme
    endpoint_id: str  # the id in its endpoint
    egress: str  # name of its egress policy
    started_at: int  # Unix milliseconds
    state_since: int  # Unix milliseconds
    suspended_at: int | None  # Unix milliseconds
    terminated_at: int | None  # Unix milliseconds
    idle: IdlePolicy | None  # its idle policy
    max_duration_seconds: int | None  # running and suspended together
    tags: dict[str, str]  # names and values
    name: str | None = None  # what its owner calls it
    state_reason: str | None = None  # why it is in this state
    parent: str | None = None  # the microVM it was forked from
    role: str | None = None  # name of its role
    tenant: str | None = None  # whose it is; for administrators
    awake_because: str | None = None  # of GET, while it lives
    next: NextStep | None = None  # of GET, while it lives

    @classmethod
    def from_json(cls, data: Json) -> Microvm:
        return cls(
            id=data["id"],
            state=data["state"],
            image=data["image"],
            image_version=data["imageVersion"],
            memory_mib=data["memoryMib"],
            engine=data["engine"],
            isolation=data["isolation"],
            endpoint=data["endpoint"],
            endpoint_id=data["endpointId"],
            egress=data["egress"],
            started_at=data["startedAt"],
            state_since=data["stateSince"],
            suspended_at=data.get("suspendedAt"),
            terminated_at=data.get("terminatedAt"),
            idle=IdlePolicy.from_json(data["idle"]) if data.get("idle") is not None else None,
            max_duration_seconds=data.get("maxDurationSeconds"),
            tags=data["tags"],
            name=data.get("name"),
            state_reason=data.get("stateReason"),
            parent=data.get("parent"),
            role=data.get("role"),
            tenant=data.get("tenant"),
            awake_because=data.get("awakeBecause"),
            next=NextStep.from_json(data["next"]) if data.get("next") is not None else None,
        )


@dataclass(frozen=True)
class MicrovmPage:
    items: list[Microvm]  # one page of them
    next_page_token: str | None = None  # pageToken of the next page, when there is one

    @classmethod
    def from_json(cls, data: Json) -> MicrovmPage:
        return cls(
            items=[Microvm.from_json(item) for item in data["items"]],
            next_page_token=data.get("nextPageToken"),
        )


@dataclass(frozen=True)
class Microvms:
    items: list[Microvm]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Microvms:
        return cls(
            items=[Microvm.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class NewTenant:
    account_id: str  # its id
    name: str  # its name
    egress: EgressSettings  # its egress policies
    limits: Limits  # its limits
    created_at: int  # Unix milliseconds
    key: IssuedKey  # its first key

    @classmethod
    def from_json(cls, data: Json) -> NewTenant:
        return cls(
            account_id=data["accountId"],
            name=data["name"],
            egress=EgressSettings.from_json(data["egress"]),
            limits=Limits.from_json(data["limits"]),
            created_at=data["createdAt"],
            key=IssuedKey.from_json(data["key"]),
        )


@dataclass(frozen=True)
class NextStep:
    at: int  # Unix milliseconds
    why: str  # what happens then

    @classmethod
    def from_json(cls, data: Json) -> NextStep:
        return cls(
            at=data["at"],
            why=data["why"],
        )


@dataclass(frozen=True)
class OutputLine:
    type: str  # started, stdout, stderr, gap, exit or error
    exec: str | None = None  # of started: its id
    data: str | None = None  # of stdout and stderr: text
    data_base64: str | None = None  # of stdout and stderr: what is not text
    bytes: int | None = None  # of gap: how many were dropped
    exit_code: int | None = None  # of exit
    signal: int | None = None  # of exit
    timed_out: bool | None = None  # of exit
    out_of_memory: bool | None = None  # of exit
    code: str | None = None  # of error
    message: str | None = None  # of error
    repair: str | None = None  # of error

    @classmethod
    def from_json(cls, data: Json) -> OutputLine:
        return cls(
            type=data["type"],
            exec=data.get("exec"),
            data=data.get("data"),
            data_base64=data.get("dataBase64"),
            bytes=data.get("bytes"),
            exit_code=data.get("exitCode"),
            signal=data.get("signal"),
            timed_out=data.get("timedOut"),
            out_of_memory=data.get("outOfMemory"),
            code=data.get("code"),
            message=data.get("message"),
            repair=data.get("repair"),
        )


@dataclass(frozen=True)
class Pruned:
    image: str  # name of the image
    removed: list[str]  # versions
    disk_bytes: int  # what that freed
    memory_bytes: int  # what that freed

    @classmethod
    def from_json(cls, data: Json) -> Pruned:
        return cls(
            image=data["image"],
            removed=data["removed"],
            disk_bytes=data["diskBytes"],
            memory_bytes=data["memoryBytes"],
        )


@dataclass(frozen=True)
class RevokedToken:
    id: str  # which one

    @classmethod
    def from_json(cls, data: Json) -> RevokedToken:
        return cls(
            id=data["id"],
        )


@dataclass(frozen=True)
class Role:
    name: str  # its name
    arn: str  # its ARN
    id: str  # its id
    policy: dict[str, Any]  # an IAM policy document
    created_at: int | None = None  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> Role:
        return cls(
            name=data["name"],
            arn=data["arn"],
            id=data["id"],
            policy=data["policy"],
            created_at=data.get("createdAt"),
        )


@dataclass(frozen=True)
class Roles:
    items: list[Role]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Roles:
        return cls(
            items=[Role.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class SandboxPolicy:
    tier: str  # standard or regulated
    enabled: bool  # whether agents may run code
    retention_days: int  # of records and output
    keep_output: bool  # false: hashes and sizes only

    @classmethod
    def from_json(cls, data: Json) -> SandboxPolicy:
        return cls(
            tier=data["tier"],
            enabled=data["enabled"],
            retention_days=data["retentionDays"],
            keep_output=data["keepOutput"],
        )


@dataclass(frozen=True)
class Secret:
    name: str  # its name
    set_at: int  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> Secret:
        return cls(
            name=data["name"],
            set_at=data["setAt"],
        )


@dataclass(frozen=True)
class SecretName:
    name: str  # its name

    @classmethod
    def from_json(cls, data: Json) -> SecretName:
        return cls(
            name=data["name"],
        )


@dataclass(frozen=True)
class Secrets:
    items: list[Secret]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Secrets:
        return cls(
            items=[Secret.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Session:
    id: str  # its id
    agent_id: str  # whose it is
    turn_id: str | None  # the turn it is for
    template: str  # what it began with
    environment: str  # what its code reaches
    microvm: str | None  # where it runs
    key: str  # who began it
    state: str  # STARTING, LIVE or ENDED
    calls: int  # so far
    created_at: int  # Unix milliseconds
    last_call_at: int  # Unix milliseconds
    ended_at: int | None  # Unix milliseconds
    end_reason: str  # why it ended

    @classmethod
    def from_json(cls, data: Json) -> Session:
        return cls(
            id=data["id"],
            agent_id=data["agentId"],
            turn_id=data.get("turnId"),
            template=data["template"],
            environment=data["environment"],
            microvm=data.get("microvm"),
            key=data["key"],
            state=data["state"],
            calls=data["calls"],
            created_at=data["createdAt"],
            last_call_at=data["lastCallAt"],
            ended_at=data.get("endedAt"),
            end_reason=data["endReason"],
        )


@dataclass(frozen=True)
class Sessions:
    items: list[Session]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Sessions:
        return cls(
            items=[Session.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class StartedExec:
    exec: str  # its id

    @classmethod
    def from_json(cls, data: Json) -> StartedExec:
        return cls(
            exec=data["exec"],
        )


@dataclass(frozen=True)
class StdinOffset:
    offset: int  # where in its input the next bytes go

    @classmethod
    def from_json(cls, data: Json) -> StdinOffset:
        return cls(
            offset=data["offset"],
        )


@dataclass(frozen=True)
class Template:
    name: str  # unique within the tenant
    image: str  # what the microVM is a clone of
    environment: str  # default-public, internal-only, or an egress policy
    languages: list[str]  # the first is the default
    call_seconds: int  # time limit of a call
    session_seconds: int  # life of a session
    idle_seconds: int  # a session that nobody calls ends then
    calls: int  # of one session
    stdout_bytes: int  # shown to the caller
    stderr_bytes: int  # shown to the caller
    cpu_seconds: int | None  # of one session
    role: str  # its credentials
    tags: dict[str, str]  # names and values

    @classmethod
    def from_json(cls, data: Json) -> Template:
        return cls(
            name=data["name"],
            image=data["image"],
            environment=data["environment"],
            languages=data["languages"],
            call_seconds=data["callSeconds"],
            session_seconds=data["sessionSeconds"],
            idle_seconds=data["idleSeconds"],
            calls=data["calls"],
            stdout_bytes=data["stdoutBytes"],
            stderr_bytes=data["stderrBytes"],
            cpu_seconds=data.get("cpuSeconds"),
            role=data["role"],
            tags=data["tags"],
        )


@dataclass(frozen=True)
class Templates:
    items: list[Template]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Templates:
        return cls(
            items=[Template.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Tenant:
    account_id: str  # its id
    name: str  # its name
    egress: EgressSettings  # its egress policies
    limits: Limits  # its limits
    created_at: int  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> Tenant:
        return cls(
            account_id=data["accountId"],
            name=data["name"],
            egress=EgressSettings.from_json(data["egress"]),
            limits=Limits.from_json(data["limits"]),
            created_at=data["createdAt"],
        )


@dataclass(frozen=True)
class Tenants:
    items: list[Tenant]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Tenants:
        return cls(
            items=[Tenant.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Token:
    id: str  # by which it is revoked
    kind: str  # endpoint or shell
    ports: str  # as 8080,9000-9010 or *
    created_at: int  # Unix milliseconds
    expires_at: int  # Unix milliseconds
    port: int | None = None  # where requests without a port go
    revoked_at: int | None = None  # Unix milliseconds

    @classmethod
    def from_json(cls, data: Json) -> Token:
        return cls(
            id=data["id"],
            kind=data["kind"],
            ports=data["ports"],
            created_at=data["createdAt"],
            expires_at=data["expiresAt"],
            port=data.get("port"),
            revoked_at=data.get("revokedAt"),
        )


@dataclass(frozen=True)
class Tokens:
    items: list[Token]  # all of them

    @classmethod
    def from_json(cls, data: Json) -> Tokens:
        return cls(
            items=[Token.from_json(item) for item in data["items"]],
        )


@dataclass(frozen=True)
class Usage:
    total: Used  # of all
    items: list[UsageItem]  # of each microVM
    days: list[UsageDay]  # of microVMs that ended long ago
    more: bool  # whether there are more than these items

    @classmethod
    def from_json(cls, data: Json) -> Usage:
        return cls(
            total=Used.from_json(data["total"]),
            items=[UsageItem.from_json(item) for item in data["items"]],
            days=[UsageDay.from_json(item) for item in data["days"]],
            more=data["more"],
        )


@dataclass(frozen=True)
class UsageDay:
    day: str  # like 2026-11-16
    microvms: int  # that ended on it
    running_seconds: float  # time in which it ran
    cpu_seconds: float  # CPU time
    cpu_seconds_above_baseline: float  # CPU time beyond the size's baseline
    memory_gb_seconds: float  # memory while it ran
    suspended_gb_hours: float  # memory while it was suspended
    snapshot_read_bytes: int  # read from snapshots
    snapshot_written_bytes: int  # written to snapshots
    bytes_in: int  # network
    bytes_out: int  # network

    @classmethod
    def from_json(cls, data: Json) -> UsageDay:
        return cls(
            day=data["day"],
            microvms=data["microvms"],
            running_seconds=data["runningSeconds"],
            cpu_seconds=data["cpuSeconds"],
            cpu_seconds_above_baseline=data["cpuSecondsAboveBaseline"],
            memory_gb_seconds=data["memoryGbSeconds"],
            suspended_gb_hours=data["suspendedGbHours"],
            snapshot_read_bytes=data["snapshotReadBytes"],
            snapshot_written_bytes=data["snapshotWrittenBytes"],
            bytes_in=data["bytesIn"],
            bytes_out=data["bytesOut"],
        )


@dataclass(frozen=True)
class UsageItem:
    microvm: str  # whose
    running_seconds: float  # time in which it ran
    cpu_seconds: float  # CPU time
    cpu_seconds_above_baseline: float  # CPU time beyond the size's baseline
    memory_gb_seconds: float  # memory while it ran
    suspended_gb_hours: float  # memory while it was suspended
    snapshot_read_bytes: int  # read from snapshots
    snapshot_written_bytes: int  # written to snapshots
    bytes_in: int  # network
    bytes_out: int  # network

    @classmethod
    def from_json(cls, data: Json) -> UsageItem:
        return cls(
            microvm=data["microvm"],
            running_seconds=data["runningSeconds"],
            cpu_seconds=data["cpuSeconds"],
            cpu_seconds_above_baseline=data["cpuSecondsAboveBaseline"],
            memory_gb_seconds=data["memoryGbSeconds"],
            suspended_gb_hours=data["suspendedGbHours"],
            snapshot_read_bytes=data["snapshotReadBytes"],
            snapshot_written_bytes=data["snapshotWrittenBytes"],
            bytes_in=data["bytesIn"],
            bytes_out=data["bytesOut"],
        )


@dataclass(frozen=True)
class Used:
    running_seconds: float  # time in which it ran
    cpu_seconds: float  # CPU time
    cpu_seconds_above_baseline: float  # CPU time beyond the size's baseline
    memory_gb_seconds: float  # memory while it ran
    suspended_gb_hours: float  # memory while it was suspended
    snapshot_read_bytes: int  # read from snapshots
    snapshot_written_bytes: int  # written to snapshots
    bytes_in: int  # network
    bytes_out: int  # network

    @classmethod
    def from_json(cls, data: Json) -> Used:
        return cls(
            running_seconds=data["runningSeconds"],
            cpu_seconds=data["cpuSeconds"],
            cpu_seconds_above_baseline=data["cpuSecondsAboveBaseline"],
            memory_gb_seconds=data["memoryGbSeconds"],
            suspended_gb_hours=data["suspendedGbHours"],
            snapshot_read_bytes=data["snapshotReadBytes"],
            snapshot_written_bytes=data["snapshotWrittenBytes"],
            bytes_in=data["bytesIn"],
            bytes_out=data["bytesOut"],
        )
