"""The members of requests. Only type checkers read this file: NotRequired is newer than Python 3.10.

Made by tools/sdk-types from the server's OpenAPI document; change src/api/native and make it again.
"""
from typing import TypedDict

from typing_extensions import NotRequired

PostMicrovmsBodyIdle = TypedDict("PostMicrovmsBodyIdle", {
    "maxIdleSeconds": int,  # at most 604800; then it is suspended; 0: never
    "suspendedSeconds": NotRequired[int],  # at most 604800; then it is ended; default 86400
    "autoResume": NotRequired[bool],  # a call wakes it; default true
    "rule": NotRequired[str],  # what keeps it awake; default work
})

PostMicrovmsBody = TypedDict("PostMicrovmsBody", {
    "image": str,  # name, NAME:VERSION or id
    "version": NotRequired[str],  # like 1.0; default: the newest that is active
    "idle": NotRequired[PostMicrovmsBodyIdle | None],  # null: no idle policy
    "maxDurationSeconds": NotRequired[int],  # running and suspended together
    "payload": NotRequired[str],  # text for the run hook, at most 4096 bytes
    "tags": NotRequired[dict[str, str]],  # at most 50
    "clientToken": NotRequired[str],  # the same token and body give the same microVM for a day
    "egress": NotRequired[str],  # name of an egress policy
    "role": NotRequired[str],  # name of a role
    "name": NotRequired[str],  # 1 to 63 of a-z, 0-9, -, _ and .; unique among yours that live
    "env": NotRequired[dict[str, str]],  # environment of its execs and terminals; at most 64 entries and 32 KiB
})

PatchMicrovmsIdBodyIdle = TypedDict("PatchMicrovmsIdBodyIdle", {
    "maxIdleSeconds": int,  # at most 604800; then it is suspended; 0: never
    "suspendedSeconds": NotRequired[int],  # at most 604800; then it is ended; default 86400
    "autoResume": NotRequired[bool],  # a call wakes it; default true
    "rule": NotRequired[str],  # what keeps it awake; default work
})

PatchMicrovmsIdBody = TypedDict("PatchMicrovmsIdBody", {
    "idle": NotRequired[PatchMicrovmsIdBodyIdle | None],  # null: no idle policy
    "maxDurationSeconds": NotRequired[int | None],  # null: no limit
    "egress": NotRequired[str],  # name of an egress policy
    "name": NotRequired[str | None],  # null: none
})

PostMicrovmsIdForkBody = TypedDict("PostMicrovmsIdForkBody", {
    "count": NotRequired[int],  # how many; default 1
})

PostMicrovmsIdExecBodyPty = TypedDict("PostMicrovmsIdExecBodyPty", {
    "cols": NotRequired[int],  # width in characters; default 80
    "rows": NotRequired[int],  # height; default 24
})

PostMicrovmsIdExecBody = TypedDict("PostMicrovmsIdExecBody", {
    "argv": NotRequired[list[str]],  # program and arguments; this or shell
    "shell": NotRequired[str],  # a line for /bin/sh; this or argv
    "env": NotRequired[dict[str, str]],  # environment, added to the microVM's and the image's
    "cwd": NotRequired[str],  # directory; default: the image's
    "user": NotRequired[str],  # name, uid, or uid:gid; default: the image's
    "stdin": NotRequired[str],  # its whole input
    "stdinBase64": NotRequired[str],  # its whole input, if it is not text
    "timeoutMs": NotRequired[int],  # then everything it started is killed
    "pty": NotRequired[PostMicrovmsIdExecBodyPty],  # runs in a terminal
    "stream": NotRequired[bool],  # lines of JSON as it goes
})

PostMicrovmsIdExecsBodyPty = TypedDict("PostMicrovmsIdExecsBodyPty", {
    "cols": NotRequired[int],  # width in characters; default 80
    "rows": NotRequired[int],  # height; default 24
})

PostMicrovmsIdExecsBody = TypedDict("PostMicrovmsIdExecsBody", {
    "argv": NotRequired[list[str]],  # program and arguments; this or shell
    "shell": NotRequired[str],  # a line for /bin/sh; this or argv
    "env": NotRequired[dict[str, str]],  # environment, added to the microVM's and the image's
    "cwd": NotRequired[str],  # directory; default: the image's
    "user": NotRequired[str],  # name, uid, or uid:gid; default: the image's
    "stdin": NotRequired[str],  # its whole input
    "stdinBase64": NotRequired[str],  # its whole input, if it is not text
    "timeoutMs": NotRequired[int],  # then everything it started is killed
    "pty": NotRequired[PostMicrovmsIdExecsBodyPty],  # runs in a terminal
    "openStdin": NotRequired[bool],  # its input stays open for .../stdin
})

PostMicrovmsIdExecsExecSignalBody = TypedDict("PostMicrovmsIdExecsExecSignalBody", {
    "signal": NotRequired[int],  # number of a signal; default 15
    "group": NotRequired[bool],  # to its whole process group; default true
})

PostMicrovmsIdExecsExecResizeBody = TypedDict("PostMicrovmsIdExecsExecResizeBody", {
    "cols": int,  # width in characters
    "rows": int,  # height
})

PostMicrovmsIdContextsBody = TypedDict("PostMicrovmsIdContextsBody", {
    "language": str,  # python, bash or node
    "cwd": NotRequired[str],  # directory
    "env": NotRequired[dict[str, str]],  # environment, added to the image's
    "user": NotRequired[str],  # name, uid, or uid:gid
    "id": NotRequired[str],  # default: one is made up
})

PostMicrovmsIdContextsContextRunBody = TypedDict("PostMicrovmsIdContextsContextRunBody", {
    "code": str,  # what is run
    "timeoutMs": NotRequired[int],  # then it is interrupted
    "stream": NotRequired[bool],  # lines of JSON as it goes
})

PostMicrovmsIdContextsContextInterruptBody = TypedDict("PostMicrovmsIdContextsContextInterruptBody", {
    "run": NotRequired[str],  # only this run, as `started` names it; default: what runs
})

PostMicrovmsIdTokensBody = TypedDict("PostMicrovmsIdTokensBody", {
    "ports": NotRequired[int | str],  # 8080, "8080,9000-9010" or "*"; default: what the image exposes first; not of a shell token
    "expiresSeconds": NotRequired[int],  # default 3600
    "kind": NotRequired[str],  # default endpoint
})

PostImagesBodyApp = TypedDict("PostImagesBodyApp", {
    "argv": list[str],  # program and arguments
    "env": NotRequired[dict[str, str]],  # environment, added to the image's
    "cwd": NotRequired[str],  # directory; default /
    "user": NotRequired[str],  # name, uid, or uid:gid; default root
    "pid1": NotRequired[bool],  # it is PID 1 of its microVM; default true
})

PostImagesBodyHooksReady = TypedDict("PostImagesBodyHooksReady", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooksValidate = TypedDict("PostImagesBodyHooksValidate", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooksRun = TypedDict("PostImagesBodyHooksRun", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooksResume = TypedDict("PostImagesBodyHooksResume", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooksSuspend = TypedDict("PostImagesBodyHooksSuspend", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooksTerminate = TypedDict("PostImagesBodyHooksTerminate", {
    "enabled": NotRequired[bool],  # default false
    "timeout": NotRequired[int],  # seconds; 0: the hook's default
})

PostImagesBodyHooks = TypedDict("PostImagesBodyHooks", {
    "port": NotRequired[int],  # where the application answers hooks
    "ready": NotRequired[PostImagesBodyHooksReady],  # may the snapshot be taken
    "validate": NotRequired[PostImagesBodyHooksValidate],  # is a first clone fit
    "run": NotRequired[PostImagesBodyHooksRun],  # after a launch
    "resume": NotRequired[PostImagesBodyHooksResume],  # after a resume
    "suspend": NotRequired[PostImagesBodyHooksSuspend],  # before a suspend
    "terminate": NotRequired[PostImagesBodyHooksTerminate],  # before the end
})

PostImagesBodyPreload = TypedDict("PostImagesBodyPreload", {
    "python": NotRequired[list[str]],  # at most 64 names, such as matplotlib.pyplot
    "node": NotRequired[list[str]],  # at most 64 names, such as lodash
})

PostImagesBody = TypedDict("PostImagesBody", {
    "name": str,  # letters, digits, - and _
    "memoryMib": NotRequired[int],  # 512, 1024, 2048, 4096 or 8192; default 512
    "app": NotRequired[PostImagesBodyApp],  # runs when the snapshot is taken
    "hooks": NotRequired[PostImagesBodyHooks],  # calls to the application at steps of its life
    "env": NotRequired[dict[str, str]],  # defaults for everything that is started in it
    "tags": NotRequired[dict[str, str]],  # names and values
    "pythonContext": NotRequired[bool],  # a warm context `default` is part of the snapshot
    "preload": NotRequired[PostImagesBodyPreload],  # modules that warm contexts of the snapshot have loaded
})

PostTenantsBodyLimits = TypedDict("PostTenantsBodyLimits", {
    "microvms": NotRequired[int],  # live ones
    "memoryMib": NotRequired[int],  # of live microVMs together
    "images": NotRequired[int],  # how many
    "versionsPerImage": NotRequired[int],  # how many
    "launchesPerSecond": NotRequired[int],  # how many
    "tenant_daily": NotRequired[int | None],  # calls a day that run code in sessions; 0 stops them all
    "agent_hourly": NotRequired[int | None],  # calls an hour of one agent that run code in sessions
    "launches_daily": NotRequired[int | None],  # launches and forked copies a day
    "wakes_hourly": NotRequired[int | None],  # resumes an hour, as asked and by traffic
    "execs_daily": NotRequired[int | None],  # commands, terminals and runs of code in microVMs a day
    "builds_daily": NotRequired[int | None],  # builds a day
})

PostTenantsBody = TypedDict("PostTenantsBody", {
    "name": str,  # its name
    "limits": NotRequired[PostTenantsBodyLimits],  # those that differ
})

PutTenantsTenantLimitsBody = TypedDict("PutTenantsTenantLimitsBody", {
    "microvms": NotRequired[int],  # live ones
    "memoryMib": NotRequired[int],  # of live microVMs together
    "images": NotRequired[int],  # how many
    "versionsPerImage": NotRequired[int],  # how many
    "launchesPerSecond": NotRequired[int],  # how many
    "tenant_daily": NotRequired[int | None],  # calls a day that run code in sessions; 0 stops them all
    "agent_hourly": NotRequired[int | None],  # calls an hour of one agent that run code in sessions
    "launches_daily": NotRequired[int | None],  # launches and forked copies a day
    "wakes_hourly": NotRequired[int | None],  # resumes an hour, as asked and by traffic
    "execs_daily": NotRequired[int | None],  # commands, terminals and runs of code in microVMs a day
    "builds_daily": NotRequired[int | None],  # builds a day
})

PostKeysBody = TypedDict("PostKeysBody", {
    "name": NotRequired[str],  # for people
    "admin": NotRequired[bool],  # the same as kind administrator
    "kind": NotRequired[str],  # owner, agent, approver, auditor or administrator; default owner
    "agentId": NotRequired[str],  # of an agent's key: the agent that it runs code for
    "tenant": NotRequired[str],  # for another tenant; administrators only
})

PutEgressPoliciesNameBodyRules = TypedDict("PutEgressPoliciesNameBodyRules", {
    "action": str,  # what happens
    "any": NotRequired[bool],  # true: everything; this, cidr or domain
    "cidr": NotRequired[str],  # addresses, as 10.0.0.0/8
    "domain": NotRequired[str],  # a name, or *.NAME
    "protocol": NotRequired[str],  # default any
    "ports": NotRequired[list[int | str]],  # numbers, and ranges as "8000-8100"
})

PutEgressPoliciesNameBody = TypedDict("PutEgressPoliciesNameBody", {
    "name": NotRequired[str],  # as in the path
    "rules": NotRequired[list[PutEgressPoliciesNameBodyRules]],  # what is allowed and denied
    "internet": NotRequired[bool],  # what no rule names is allowed
    "sniCheck": NotRequired[bool],  # names in TLS must be those that were looked up
    "maxBytes": NotRequired[int],  # out and in together; 0: no limit
    "maxConnections": NotRequired[int],  # at once; 0: no limit
})

PutTenantsTenantEgressBody = TypedDict("PutTenantsTenantEgressBody", {
    "default": NotRequired[str],  # name of a policy
    "maximum": NotRequired[str],  # name of a policy
})

PutRolesNameBodyPolicyStatementConditionStringLike = TypedDict("PutRolesNameBodyPolicyStatementConditionStringLike", {
    "s3:prefix": NotRequired[str | list[str]],  # what is listed begins with one of these
})

PutRolesNameBodyPolicyStatementConditionStringEquals = TypedDict("PutRolesNameBodyPolicyStatementConditionStringEquals", {
    "s3:prefix": NotRequired[str | list[str]],  # what is listed begins with one of these
})

PutRolesNameBodyPolicyStatementCondition = TypedDict("PutRolesNameBodyPolicyStatementCondition", {
    "StringLike": NotRequired[PutRolesNameBodyPolicyStatementConditionStringLike],  # with * and ?
    "StringEquals": NotRequired[PutRolesNameBodyPolicyStatementConditionStringEquals],  # exactly
})

PutRolesNameBodyPolicyStatement = TypedDict("PutRolesNameBodyPolicyStatement", {
    "Sid": NotRequired[str],  # a name for people
    "Effect": str,  # what it does
    "Action": str | list[str],  # as s3:GetObject, lambda:* or *
    "Resource": str | list[str],  # ARNs, with * and ?
    "Condition": NotRequired[PutRolesNameBodyPolicyStatementCondition],  # one of these
})

PutRolesNameBodyPolicy = TypedDict("PutRolesNameBodyPolicy", {
    "Version": NotRequired[str],  # 2012-10-17
    "Statement": list[PutRolesNameBodyPolicyStatement] | PutRolesNameBodyPolicyStatement,  # at most 50
})

PutRolesNameBody = TypedDict("PutRolesNameBody", {
    "policy": PutRolesNameBodyPolicy,  # an IAM policy document
})

PutSecretsNameBody = TypedDict("PutSecretsNameBody", {
    "value": str,  # 6 to 8192 bytes
})

PostTemplatesBody = TypedDict("PostTemplatesBody", {
    "name": str,  # unique within the tenant
    "image": NotRequired[str],  # default python
    "environment": NotRequired[str],  # default-public, internal-only, or the name of an egress policy
    "languages": NotRequired[list[str]],  # of python, bash, node; the first is the default
    "callSeconds": NotRequired[int],  # time limit of a call; default 60
    "sessionSeconds": NotRequired[int],  # life of a session; default and most 28800
    "idleSeconds": NotRequired[int],  # a session that nobody calls ends then; default 1800
    "calls": NotRequired[int],  # of one session; default 1000
    "stdoutBytes": NotRequired[int],  # shown to the caller; default 262144
    "stderrBytes": NotRequired[int],  # shown to the caller; default 32768
    "cpuSeconds": NotRequired[int | None],  # of one session; default: no limit
    "role": NotRequired[str],  # its credentials; default: none
    "tags": NotRequired[dict[str, str]],  # names and values
})

PatchTemplatesTemplateBody = TypedDict("PatchTemplatesTemplateBody", {
    "name": NotRequired[str],  # unique within the tenant
    "image": NotRequired[str],  # default python
    "environment": NotRequired[str],  # default-public, internal-only, or the name of an egress policy
    "languages": NotRequired[list[str]],  # of python, bash, node; the first is the default
    "callSeconds": NotRequired[int],  # time limit of a call; default 60
    "sessionSeconds": NotRequired[int],  # life of a session; default and most 28800
    "idleSeconds": NotRequired[int],  # a session that nobody calls ends then; default 1800
    "calls": NotRequired[int],  # of one session; default 1000
    "stdoutBytes": NotRequired[int],  # shown to the caller; default 262144
    "stderrBytes": NotRequired[int],  # shown to the caller; default 32768
    "cpuSeconds": NotRequired[int | None],  # of one session; default: no limit
    "role": NotRequired[str],  # its credentials; default: none
    "tags": NotRequired[dict[str, str]],  # names and values
})

PatchTenantsTenantPolicyBody = TypedDict("PatchTenantsTenantPolicyBody", {
    "tier": NotRequired[str],  # standard or regulated
    "enabled": NotRequired[bool],  # agents may run code
    "retentionDays": NotRequired[int],  # 1 to 180: of records and of what calls printed
    "keepOutput": NotRequired[bool],  # false: hashes and sizes only
})

PostExecuteCodeBody = TypedDict("PostExecuteCodeBody", {
    "agentId": NotRequired[str],  # who runs it
    "turnId": NotRequired[str],  # calls of a turn share a session
    "template": NotRequired[str],  # default: default
    "code": str,  # what is run
    "language": NotRequired[str],  # default: the template's first
    "stream": NotRequired[bool],  # lines of JSON as it goes
})

PostTurnsTurnEndBody = TypedDict("PostTurnsTurnEndBody", {
    "agentId": NotRequired[str],  # whose turn it is
})

PostSessionsBody = TypedDict("PostSessionsBody", {
    "agentId": NotRequired[str],  # whose it is
    "turnId": NotRequired[str],  # the turn it is for
    "template": NotRequired[str],  # default: default
})

PostSessionsSessionExecuteBody = TypedDict("PostSessionsSessionExecuteBody", {
    "code": str,  # what is run
    "language": NotRequired[str],  # default: the template's first
    "stream": NotRequired[bool],  # lines of JSON as it goes
})

PostSessionsSessionExecBody = TypedDict("PostSessionsSessionExecBody", {
    "argv": NotRequired[list[str]],  # program and arguments; this or shell
    "shell": NotRequired[str],  # a line for /bin/sh
    "env": NotRequired[dict[str, str]],  # environment, added to the image's
    "cwd": NotRequired[str],  # directory
    "user": NotRequired[str],  # name, uid, or uid:gid
    "stream": NotRequired[bool],  # lines of JSON as it goes
})
