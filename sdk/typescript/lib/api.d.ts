export interface Base {
    /** what FROM says */
    name: string;
    /** Debian's */
    version: string;
    /** of what the disk holds */
    digest: string;
    /** its size */
    diskBytes: number;
    /** other names */
    aliases: string[];
}
export interface Bases {
    /** all of them */
    items: Base[];
}
export interface Build {
    /** name of the image */
    image: string;
    /** like 1.0 */
    version: string;
    /** its id */
    build?: string;
    /** of the version */
    state: string;
    /** whether nothing had to be built */
    unchanged?: boolean;
    /** versions that went at the limit */
    removed?: string[];
}
export interface BuildCache {
    /** how many */
    layers: number;
    /** of layers */
    layerBytes: number;
    /** of cache mounts */
    mountBytes: number;
}
export interface Cap {
    /** its name */
    dimension: string;
    /** what it counts */
    about: string;
    /** null: none */
    cap: number | null;
    /** so far */
    used: CapUse[];
    /** when it counts from 0 again */
    resetsAt: string;
}
export interface CapUse {
    /** whose, of a cap of agents */
    agentId: string | null;
    /** in the hour or day that runs now */
    count: number;
}
export interface Caps {
    /** all of them */
    items: Cap[];
}
export interface CheckReport {
    /** whether nothing leaks */
    ok: boolean;
    /** how many live */
    microvms: number;
    /** what is left over */
    leaks: Leak[];
    /** what may be another server's */
    unclear: Leak[];
}
export interface CodeAnswer {
    /** whether the code ended without an error */
    ok: boolean;
    /** what it printed, as far as it is shown */
    stdout: string;
    /** what it printed, as far as it is shown */
    stderr: string;
    /** ok, error, timeout, oom, cap_exceeded or provisioning */
    exit_status: string;
    /** of the whole call */
    duration_ms: number;
    /** a class, if it is not ok */
    error?: string;
    /** words for the agent, if it is not ok */
    error_message?: string;
    /** the cap that refused it */
    dimension?: string;
    /** when that cap counts from 0 again */
    resets_at?: string;
    /** whether something was cut */
    stdout_truncated?: boolean;
    /** whether something was cut */
    stderr_truncated?: boolean;
    /** of a command */
    exit_code?: number;
    /** where it ran */
    session_id: string | null;
    /** its record */
    invocation_id: string;
}
export interface CodeAnswerLine {
    /** stdout, stderr, answer or failure */
    type: string;
    /** of stdout and stderr: text */
    data?: string;
    /** of stdout and stderr: what is not text */
    dataBase64?: string;
    /** of failure */
    code?: string;
    /** of failure */
    message?: string;
    /** of failure */
    repair?: string;
    /** whether the code ended without an error */
    ok?: boolean;
    /** what it printed, as far as it is shown */
    stdout?: string;
    /** what it printed, as far as it is shown */
    stderr?: string;
    /** ok, error, timeout, oom, cap_exceeded or provisioning */
    exit_status?: string;
    /** of the whole call */
    duration_ms?: number;
    /** a class, if it is not ok */
    error?: string;
    /** words for the agent, if it is not ok */
    error_message?: string;
    /** the cap that refused it */
    dimension?: string;
    /** when that cap counts from 0 again */
    resets_at?: string;
    /** whether something was cut */
    stdout_truncated?: boolean;
    /** whether something was cut */
    stderr_truncated?: boolean;
    /** of a command */
    exit_code?: number;
    /** where it ran */
    session_id?: string | null;
    /** its record */
    invocation_id?: string;
}
export interface CodeArtifact {
    /** text, html, markdown, latex, svg, png, jpeg, pdf, json, javascript or a MIME type */
    kind: string;
    /** base64 of what is not text */
    data: string;
    /** whether it is the last expression's value */
    main: boolean;
    /** forms of one object have one index */
    index: number;
    /** whether it was cut */
    truncated?: boolean;
}
export interface CodeError {
    /** of the exception */
    name: string;
    /** what it says */
    message: string;
    /** lines */
    traceback: string[];
}
export interface CodeLine {
    /** started, stdout, stderr, gap, result, error, done or failure */
    type: string;
    /** of started */
    run?: string;
    /** of started */
    state?: string;
    /** of stdout, stderr and result */
    data?: string;
    /** of stdout and stderr: what is not text */
    dataBase64?: string;
    /** of gap */
    bytes?: number;
    /** of result */
    kind?: string;
    /** of result */
    main?: boolean;
    /** of result */
    index?: number;
    /** of result */
    truncated?: boolean;
    /** of error */
    name?: string;
    /** of error and failure */
    message?: string;
    /** of error */
    traceback?: string[];
    /** of done */
    status?: string;
    /** of done */
    executionCount?: number;
    /** of done */
    durationMs?: number;
    /** of done */
    exit?: Ending;
    /** of failure */
    code?: string;
    /** of failure */
    repair?: string;
}
export interface CodeResult {
    /** its name */
    run: string;
    /** what it found: fresh, kept or restarted */
    state?: string;
    /** what was printed */
    stdout: string;
    /** what was printed */
    stderr: string;
    /** what it shows */
    results: CodeArtifact[];
    /** what the code raised */
    error?: CodeError;
    /** ok, error, interrupted, timeout or died */
    status: string;
    /** runs in this interpreter so far */
    executionCount: number;
    /** how long it took */
    durationMs: number;
    /** how the interpreter ended, when it died */
    exit?: Ending;
}
export interface Context {
    /** its id */
    id: string;
    /** python, bash or node */
    language: string;
    /** starting, idle, busy or dead */
    state: string;
    /** runs so far */
    executionCount: number;
    /** interpreters before this one */
    restarts: number;
    /** what runs now */
    run?: string;
}
export interface Contexts {
    /** all of them */
    contexts: Context[];
}
export interface EgressLog {
    /** name of its policy */
    policy: string;
    /** newest last */
    decisions: Record<string, unknown>[];
    /** how often it was allowed something */
    allowed?: number;
    /** how often it was denied something */
    denied?: number;
    /** decisions that were not kept */
    lost?: number;
    /** whether there were more destinations than are listed */
    unlisted?: boolean;
    /** destinations that it reached */
    reached?: unknown[];
    /** destinations that it was refused */
    refused?: unknown[];
    /** why, and how often */
    denials?: unknown[];
    /** the smallest policy that would have sufficed */
    suggestion?: EgressPolicy;
    /** so far */
    bytesOut?: number;
    /** so far */
    bytesIn?: number;
    /** so far */
    deniedPackets?: number;
}
export interface EgressPolicies {
    /** all of them */
    items: EgressPolicy[];
}
export interface EgressPolicy {
    /** its name */
    name?: string;
    /** what no rule names is allowed */
    internet?: boolean;
    /** what is allowed and denied */
    rules: EgressRule[];
    /** names in TLS must be those that were looked up */
    sniCheck?: boolean;
    /** out and in together */
    maxBytes?: number;
    /** at once */
    maxConnections?: number;
}
export interface EgressRule {
    /** allow or deny */
    action: string;
    /** true: everything */
    any?: boolean;
    /** addresses, as 10.0.0.0/8 */
    cidr?: string;
    /** a name, or *.NAME */
    domain?: string;
    /** any, tcp, udp or icmp */
    protocol?: string;
    /** numbers, and ranges as "8000-8100" */
    ports?: (number | string)[];
}
export interface EgressSettings {
    /** name of a policy */
    default: string;
    /** name of a policy */
    maximum: string;
}
export interface EndedTurn {
    /** whether a session was */
    ended: boolean;
}
export interface Ending {
    /** its status, unless a signal ended it */
    exitCode?: number;
    /** the signal that ended it */
    signal?: number;
    /** whether it was killed at its time limit */
    timedOut: boolean;
    /** whether the guest's memory ran out */
    outOfMemory: boolean;
}
export interface ErrorBody {
    /** stable: invalid, not_found, conflict, ... */
    code: string;
    message: string;
    /** a stable word, when the code says too little */
    reason?: string;
    repair?: string;
    /** Unix milliseconds */
    resetsAt?: number;
}
export interface Event {
    /** its number */
    sequence: number;
    /** Unix milliseconds */
    at: number;
    /** whose */
    microvm: string;
    /** state before */
    from: string;
    /** state after */
    to: string;
    /** why */
    reason?: string;
}
export interface Exec {
    /** its id */
    id: string;
    /** in the guest */
    pid: number;
    /** whether it runs */
    running: boolean;
    /** Unix milliseconds */
    startedAt: number;
    /** what it has printed */
    outputBytes: number;
    /** what it was given */
    stdinBytes: number;
    /** how it ended */
    exit?: Ending;
}
export interface ExecResult {
    /** its status, unless a signal ended it */
    exitCode?: number;
    /** the signal that ended it */
    signal?: number;
    /** whether it was killed at its time limit */
    timedOut: boolean;
    /** whether the guest's memory ran out */
    outOfMemory: boolean;
    /** if it is text */
    stdout?: string;
    /** if it is not */
    stdoutBase64?: string;
    /** if it is text */
    stderr?: string;
    /** if it is not */
    stderrBase64?: string;
    /** how long it took */
    durationMs: number;
}
export interface Execs {
    /** all of them */
    execs: Exec[];
}
export interface FileInfo {
    /** without directories */
    name: string;
    /** file, dir, symlink or another */
    type: string;
    /** in bytes */
    size: number;
    /** permissions */
    mode: number;
    /** owner */
    uid: number;
    /** group */
    gid: number;
    /** Unix nanoseconds */
    mtimeNs: number;
    /** of a symbolic link */
    target?: string;
}
export interface IdlePolicy {
    /** then it is suspended */
    maxIdleSeconds: number;
    /** then it is ended */
    suspendedSeconds: number;
    /** a call wakes it */
    autoResume: boolean;
    /** work or traffic: what keeps it awake */
    rule: string;
}
export interface Image {
    /** its id */
    id: string;
    /** its name */
    name: string;
    /** of its newest build */
    state: string;
    /** whether it is the system's */
    system: boolean;
    /** names and values */
    tags: Record<string, string>;
    /** Unix milliseconds */
    createdAt: number;
    /** of all versions */
    diskBytes?: number;
    /** of all versions */
    memoryBytes?: number;
}
export interface ImagePage {
    /** one page of them */
    items: Image[];
    /** pageToken of the next page, when there is one */
    nextPageToken?: string;
}
export interface ImageVersion {
    /** like 1.0 */
    version: string;
    /** of its build */
    state: string;
    /** whether microVMs can be run of it */
    active: boolean;
    /** its size */
    memoryMib: number;
    /** what runs its microVMs */
    engine: string;
    /** hardware, userspace-kernel or emulated */
    isolation: string;
    /** Unix milliseconds */
    createdAt: number;
    /** what its files occupy */
    diskBytes?: number;
    /** what its memory file occupies */
    memoryBytes?: number;
    /** why it is in this state */
    stateReason?: string;
    /** modules that its warm contexts have loaded, by language */
    preload?: Record<string, unknown>;
}
export interface ImageVersionDetail {
    /** like 1.0 */
    version: string;
    /** of its build */
    state: string;
    /** whether microVMs can be run of it */
    active: boolean;
    /** its size */
    memoryMib: number;
    /** what runs its microVMs */
    engine: string;
    /** hardware, userspace-kernel or emulated */
    isolation: string;
    /** Unix milliseconds */
    createdAt: number;
    /** what its files occupy */
    diskBytes?: number;
    /** what its memory file occupies */
    memoryBytes?: number;
    /** why it is in this state */
    stateReason?: string;
    /** modules that its warm contexts have loaded, by language */
    preload?: Record<string, unknown>;
    /** name of the image */
    image: string;
    /** id of its build */
    build?: string;
    /** Unix milliseconds */
    finishedAt?: number;
    /** what the Dockerfile set */
    config?: Record<string, unknown>;
    /** of its build */
    steps?: unknown[];
    /** certificates that its build trusted */
    guestCa?: Record<string, unknown>;
}
export interface ImageWithVersions {
    /** its id */
    id: string;
    /** its name */
    name: string;
    /** of its newest build */
    state: string;
    /** whether it is the system's */
    system: boolean;
    /** names and values */
    tags: Record<string, string>;
    /** Unix milliseconds */
    createdAt: number;
    /** of all versions */
    diskBytes?: number;
    /** of all versions */
    memoryBytes?: number;
    /** all of them */
    versions: ImageVersion[];
}
export interface Interrupted {
    /** whether a run was */
    interrupted: boolean;
}
export interface Invocation {
    /** its id */
    invocation_id: string;
    /** whose */
    tenant_id: string;
    /** who ran it */
    agent_id: string;
    /** in which turn */
    turn_id: string;
    /** where */
    session_id: string;
    /** of the session */
    template: string;
    /** of the code */
    language: string;
    /** the caller's */
    key_id: string;
    /** SHA-256 */
    executed_code_hash: string;
    /** how long the code is */
    code_bytes: number;
    /** how it ended */
    exit_status: string;
    /** why it failed */
    failure_reason: string;
    /** of the whole call */
    duration_ms: number;
    /** before anything was cut */
    stdout_bytes: number;
    /** before anything was cut */
    stderr_bytes: number;
    /** whether the answer was cut */
    stdout_truncated: boolean;
    /** whether the answer was cut */
    stderr_truncated: boolean;
    /** SHA-256 */
    stdout_hash: string;
    /** SHA-256 */
    stderr_hash: string;
    /** when */
    started_at: string;
    /** when it is removed */
    expires_at: string;
}
export interface InvocationOutput {
    /** whose */
    invocation_id: string;
    /** where it ran */
    session_id: string;
    /** if it is text */
    stdout?: string;
    /** if it is not */
    stdoutBase64?: string;
    /** if it is text */
    stderr?: string;
    /** if it is not */
    stderrBase64?: string;
}
export interface Invocations {
    /** newest first */
    items: Invocation[];
    /** after of the next page, when there may be one */
    next?: string;
}
export interface IssuedKey {
    /** its public name */
    accessKeyId: string;
    /** for people */
    name: string;
    /** whether it is an administrator's */
    admin: boolean;
    /** owner, agent, approver, auditor or administrator */
    kind: string;
    /** of an agent's key */
    agentId: string | null;
    /** Unix milliseconds */
    createdAt: number;
    /** Unix milliseconds */
    revokedAt: number | null;
    /** whose it is */
    accountId: string;
    /** the secret; shown once */
    apiKey: string;
    /** for SigV4; shown once */
    secretAccessKey: string;
}
export interface IssuedToken {
    /** by which it is revoked */
    id: string;
    /** endpoint or shell */
    kind: string;
    /** as 8080,9000-9010 or * */
    ports: string;
    /** where requests without a port go */
    port?: number;
    /** Unix milliseconds */
    createdAt: number;
    /** Unix milliseconds */
    expiresAt: number;
    /** Unix milliseconds */
    revokedAt?: number;
    /** the secret; shown once */
    token: string;
}
export interface Key {
    /** its public name */
    accessKeyId: string;
    /** for people */
    name: string;
    /** whether it is an administrator's */
    admin: boolean;
    /** owner, agent, approver, auditor or administrator */
    kind: string;
    /** of an agent's key */
    agentId: string | null;
    /** Unix milliseconds */
    createdAt: number;
    /** Unix milliseconds */
    revokedAt: number | null;
}
export interface Keys {
    /** all of them */
    items: Key[];
}
export interface Leak {
    /** what kind of thing */
    kind: string;
    /** which */
    name: string;
    /** what is wrong */
    what: string;
    /** whether it was put right */
    repaired: boolean;
}
export interface Limits {
    /** live ones */
    microvms: number;
    /** of live microVMs together */
    memoryMib: number;
    /** how many */
    images: number;
    /** how many */
    versionsPerImage: number;
    /** how many */
    launchesPerSecond: number;
    /** calls a day that run code in sessions; 0 stops them all */
    tenant_daily?: number | null;
    /** calls an hour of one agent that run code in sessions */
    agent_hourly?: number | null;
    /** launches and forked copies a day */
    launches_daily?: number | null;
    /** resumes an hour, as asked and by traffic */
    wakes_hourly?: number | null;
    /** commands, terminals and runs of code in microVMs a day */
    execs_daily?: number | null;
    /** builds a day */
    builds_daily?: number | null;
}
export interface Microvm {
    /** microvm- and a UUID */
    id: string;
    /** PENDING, RUNNING, SUSPENDING, SUSPENDED, TERMINATING or TERMINATED */
    state: string;
    /** name of its image */
    image: string;
    /** like 1.0 */
    imageVersion: string;
    /** its size */
    memoryMib: number;
    /** what runs it */
    engine: string;
    /** hardware, userspace-kernel or emulated */
    isolation: string;
    /** where clients call it, without a scheme */
    endpoint: string;
    /** the id in its endpoint */
    endpointId: string;
    /** name of its egress policy */
    egress: string;
    /** Unix milliseconds */
    startedAt: number;
    /** Unix milliseconds */
    stateSince: number;
    /** Unix milliseconds */
    suspendedAt: number | null;
    /** Unix milliseconds */
    terminatedAt: number | null;
    /** its idle policy */
    idle: IdlePolicy | null;
    /** running and suspended together */
    maxDurationSeconds: number | null;
    /** names and values */
    tags: Record<string, string>;
    /** what its owner calls it */
    name?: string;
    /** why it is in this state */
    stateReason?: string;
    /** the microVM it was forked from */
    parent?: string;
    /** name of its role */
    role?: string;
    /** whose it is; for administrators */
    tenant?: string;
    /** of GET, while it lives */
    awakeBecause?: string;
    /** of GET, while it lives */
    next?: NextStep;
}
export interface MicrovmPage {
    /** one page of them */
    items: Microvm[];
    /** pageToken of the next page, when there is one */
    nextPageToken?: string;
}
export interface Microvms {
    /** all of them */
    items: Microvm[];
}
export interface NewTenant {
    /** its id */
    accountId: string;
    /** its name */
    name: string;
    /** its egress policies */
    egress: EgressSettings;
    /** its limits */
    limits: Limits;
    /** Unix milliseconds */
    createdAt: number;
    /** its first key */
    key: IssuedKey;
}
export interface NextStep {
    /** Unix milliseconds */
    at: number;
    /** what happens then */
    why: string;
}
export interface OutputLine {
    /** started, stdout, stderr, gap, exit or error */
    type: string;
    /** of started: its id */
    exec?: string;
    /** of stdout and stderr: text */
    data?: string;
    /** of stdout and stderr: what is not text */
    dataBase64?: string;
    /** of gap: how many were dropped */
    bytes?: number;
    /** of exit */
    exitCode?: number;
    /** of exit */
    signal?: number;
    /** of exit */
    timedOut?: boolean;
    /** of exit */
    outOfMemory?: boolean;
    /** of error */
    code?: string;
    /** of error */
    message?: string;
    /** of error */
    repair?: string;
}
export interface Pruned {
    /** name of the image */
    image: string;
    /** versions */
    removed: string[];
    /** what that freed */
    diskBytes: number;
    /** what that freed */
    memoryBytes: number;
}
export interface RevokedToken {
    /** which one */
    id: string;
}
export interface Role {
    /** its name */
    name: string;
    /** its ARN */
    arn: string;
    /** its id */
    id: string;
    /** an IAM policy document */
    policy: Record<string, unknown>;
    /** Unix milliseconds */
    createdAt?: number;
}
export interface Roles {
    /** all of them */
    items: Role[];
}
export interface SandboxPolicy {
    /** standard or regulated */
    tier: string;
    /** whether agents may run code */
    enabled: boolean;
    /** of records and output */
    retentionDays: number;
    /** false: hashes and sizes only */
    keepOutput: boolean;
}
export interface Secret {
    /** its name */
    name: string;
    /** Unix milliseconds */
    setAt: number;
}
export interface SecretName {
    /** its name */
    name: string;
}
export interface Secrets {
    /** all of them */
    items: Secret[];
}
export interface Session {
    /** its id */
    id: string;
    /** whose it is */
    agentId: string;
    /** the turn it is for */
    turnId: string | null;
    /** what it began with */
    template: string;
    /** what its code reaches */
    environment: string;
    /** where it runs */
    microvm: string | null;
    /** who began it */
    key: string;
    /** STARTING, LIVE or ENDED */
    state: string;
    /** so far */
    calls: number;
    /** Unix milliseconds */
    createdAt: number;
    /** Unix milliseconds */
    lastCallAt: number;
    /** Unix milliseconds */
    endedAt: number | null;
    /** why it ended */
    endReason: string;
}
export interface Sessions {
    /** all of them */
    items: Session[];
}
export interface StartedExec {
    /** its id */
    exec: string;
}
export interface StdinOffset {
    /** where in its input the next bytes go */
    offset: number;
}
export interface Template {
    /** unique within the tenant */
    name: string;
    /** what the microVM is a clone of */
    image: string;
    /** default-public, internal-only, or an egress policy */
    environment: string;
    /** the first is the default */
    languages: string[];
    /** time limit of a call */
    callSeconds: number;
    /** life of a session */
    sessionSeconds: number;
    /** a session that nobody calls ends then */
    idleSeconds: number;
    /** of one session */
    calls: number;
    /** shown to the caller */
    stdoutBytes: number;
    /** shown to the caller */
    stderrBytes: number;
    /** of one session */
    cpuSeconds: number | null;
    /** its credentials */
    role: string;
    /** names and values */
    tags: Record<string, string>;
}
export interface Templates {
    /** all of them */
    items: Template[];
}
export interface Tenant {
    /** its id */
    accountId: string;
    /** its name */
    name: string;
    /** its egress policies */
    egress: EgressSettings;
    /** its limits */
    limits: Limits;
    /** Unix milliseconds */
    createdAt: number;
}
export interface Tenants {
    /** all of them */
    items: Tenant[];
}
export interface Token {
    /** by which it is revoked */
    id: string;
    /** endpoint or shell */
    kind: string;
    /** as 8080,9000-9010 or * */
    ports: string;
    /** where requests without a port go */
    port?: number;
    /** Unix milliseconds */
    createdAt: number;
    /** Unix milliseconds */
    expiresAt: number;
    /** Unix milliseconds */
    revokedAt?: number;
}
export interface Tokens {
    /** all of them */
    items: Token[];
}
export interface Usage {
    /** of all */
    total: Used;
    /** of each microVM */
    items: UsageItem[];
    /** of microVMs that ended long ago */
    days: UsageDay[];
    /** whether there are more than these items */
    more: boolean;
}
export interface UsageDay {
    /** like 2026-11-16 */
    day: string;
    /** that ended on it */
    microvms: number;
    /** time in which it ran */
    runningSeconds: number;
    /** CPU time */
    cpuSeconds: number;
    /** CPU time beyond the size's baseline */
    cpuSecondsAboveBaseline: number;
    /** memory while it ran */
    memoryGbSeconds: number;
    /** memory while it was suspended */
    suspendedGbHours: number;
    /** read from snapshots */
    snapshotReadBytes: number;
    /** written to snapshots */
    snapshotWrittenBytes: number;
    /** network */
    bytesIn: number;
    /** network */
    bytesOut: number;
}
export interface UsageItem {
    /** whose */
    microvm: string;
    /** time in which it ran */
    runningSeconds: number;
    /** CPU time */
    cpuSeconds: number;
    /** CPU time beyond the size's baseline */
    cpuSecondsAboveBaseline: number;
    /** memory while it ran */
    memoryGbSeconds: number;
    /** memory while it was suspended */
    suspendedGbHours: number;
    /** read from snapshots */
    snapshotReadBytes: number;
    /** written to snapshots */
    snapshotWrittenBytes: number;
    /** network */
    bytesIn: number;
    /** network */
    bytesOut: number;
}
export interface Used {
    /** time in which it ran */
    runningSeconds: number;
    /** CPU time */
    cpuSeconds: number;
    /** CPU time beyond the size's baseline */
    cpuSecondsAboveBaseline: number;
    /** memory while it ran */
    memoryGbSeconds: number;
    /** memory while it was suspended */
    suspendedGbHours: number;
    /** read from snapshots */
    snapshotReadBytes: number;
    /** written to snapshots */
    snapshotWrittenBytes: number;
    /** network */
    bytesIn: number;
    /** network */
    bytesOut: number;
}
export interface PostMicrovmsBody {
    /** name, NAME:VERSION or id */
    image: string;
    /** like 1.0; default: the newest that is active */
    version?: string;
    /** null: no idle policy */
    idle?: {
        /** at most 604800; then it is suspended; 0: never */
        maxIdleSeconds: number;
        /** at most 604800; then it is ended; default 86400 */
        suspendedSeconds?: number;
        /** a call wakes it; default true */
        autoResume?: boolean;
        /** what keeps it awake; default work */
        rule?: string;
    } | null;
    /** running and suspended together */
    maxDurationSeconds?: number;
    /** text for the run hook, at most 4096 bytes */
    payload?: string;
    /** at most 50 */
    tags?: Record<string, string>;
    /** the same token and body give the same microVM for a day */
    clientToken?: string;
    /** name of an egress policy */
    egress?: string;
    /** name of a role */
    role?: string;
    /** 1 to 63 of a-z, 0-9, -, _ and .; unique among yours that live */
    name?: string;
    /** environment of its execs and terminals; at most 64 entries and 32 KiB */
    env?: Record<string, string>;
}
export interface PostMicrovmsQuery {
    /** 0: answer at once, as PENDING */
    wait?: string;
}
export interface GetMicrovmsQuery {
    /** name of an image */
    image?: string;
    /** those in it */
    state?: string;
    /** KEY=VALUE */
    tag?: string;
    /** an account id, or all; administrators only */
    tenant?: string;
    /** how many at most */
    pageSize?: number;
    /** nextPageToken of the page before */
    pageToken?: string;
}
export interface PatchMicrovmsIdBody {
    /** null: no idle policy */
    idle?: {
        /** at most 604800; then it is suspended; 0: never */
        maxIdleSeconds: number;
        /** at most 604800; then it is ended; default 86400 */
        suspendedSeconds?: number;
        /** a call wakes it; default true */
        autoResume?: boolean;
        /** what keeps it awake; default work */
        rule?: string;
    } | null;
    /** null: no limit */
    maxDurationSeconds?: number | null;
    /** name of an egress policy */
    egress?: string;
    /** null: none */
    name?: string | null;
}
export interface PostMicrovmsIdForkBody {
    /** how many; default 1 */
    count?: number;
}
export interface PostMicrovmsIdExecBody {
    /** program and arguments; this or shell */
    argv?: string[];
    /** a line for /bin/sh; this or argv */
    shell?: string;
    /** environment, added to the microVM's and the image's */
    env?: Record<string, string>;
    /** directory; default: the image's */
    cwd?: string;
    /** name, uid, or uid:gid; default: the image's */
    user?: string;
    /** its whole input */
    stdin?: string;
    /** its whole input, if it is not text */
    stdinBase64?: string;
    /** then everything it started is killed */
    timeoutMs?: number;
    /** runs in a terminal */
    pty?: {
        /** width in characters; default 80 */
        cols?: number;
        /** height; default 24 */
        rows?: number;
    };
    /** lines of JSON as it goes */
    stream?: boolean;
}
export interface PostMicrovmsIdExecsBody {
    /** program and arguments; this or shell */
    argv?: string[];
    /** a line for /bin/sh; this or argv */
    shell?: string;
    /** environment, added to the microVM's and the image's */
    env?: Record<string, string>;
    /** directory; default: the image's */
    cwd?: string;
    /** name, uid, or uid:gid; default: the image's */
    user?: string;
    /** its whole input */
    stdin?: string;
    /** its whole input, if it is not text */
    stdinBase64?: string;
    /** then everything it started is killed */
    timeoutMs?: number;
    /** runs in a terminal */
    pty?: {
        /** width in characters; default 80 */
        cols?: number;
        /** height; default 24 */
        rows?: number;
    };
    /** its input stays open for .../stdin */
    openStdin?: boolean;
}
export interface GetMicrovmsIdExecsExecOutputQuery {
    /** bytes of output to leave out */
    offset?: number;
    /** 0: end with what is there */
    follow?: string;
}
export interface PostMicrovmsIdExecsExecStdinQuery {
    /** where in its input the body begins */
    offset?: number;
    /** 1: its input ends with the body */
    eof?: string;
}
export interface PostMicrovmsIdExecsExecSignalBody {
    /** number of a signal; default 15 */
    signal?: number;
    /** to its whole process group; default true */
    group?: boolean;
}
export interface PostMicrovmsIdExecsExecResizeBody {
    /** width in characters */
    cols: number;
    /** height */
    rows: number;
}
export interface GetMicrovmsIdLogsQuery {
    /** 1 or true */
    follow?: string;
}
export interface GetMicrovmsIdFilesQuery {
    /** inside the guest's root */
    path: string;
    /** first byte */
    offset?: number;
    /** how many bytes at most */
    length?: number;
}
export interface PutMicrovmsIdFilesQuery {
    /** inside the guest's root */
    path: string;
    /** octal, as 0644 */
    mode?: string;
    /** 1 or true */
    append?: string;
    /** write into the file that is there */
    offset?: number;
    /** whose file it is */
    user?: string;
    /** 1: make directories that are missing */
    parents?: string;
}
export interface DeleteMicrovmsIdFilesQuery {
    /** inside the guest's root */
    path: string;
    /** 1 or true */
    recursive?: string;
}
export interface GetMicrovmsIdFilesStatQuery {
    /** inside the guest's root */
    path: string;
    /** 1: of what a link points to */
    follow?: string;
}
export interface GetMicrovmsIdFilesListQuery {
    /** inside the guest's root */
    path: string;
}
export interface PostMicrovmsIdFilesMkdirQuery {
    /** inside the guest's root */
    path: string;
    /** octal, as 0755 */
    mode?: string;
    /** 1 or true */
    parents?: string;
}
export interface PostMicrovmsIdFilesRenameQuery {
    /** what is renamed */
    from: string;
    /** its new path */
    to: string;
}
export interface GetMicrovmsIdTarQuery {
    /** inside the guest's root */
    path: string;
}
export interface PutMicrovmsIdTarQuery {
    /** inside the guest's root */
    path: string;
}
export interface PostMicrovmsIdContextsBody {
    /** python, bash or node */
    language: string;
    /** directory */
    cwd?: string;
    /** environment, added to the image's */
    env?: Record<string, string>;
    /** name, uid, or uid:gid */
    user?: string;
    /** default: one is made up */
    id?: string;
}
export interface PostMicrovmsIdContextsContextRunBody {
    /** what is run */
    code: string;
    /** then it is interrupted */
    timeoutMs?: number;
    /** lines of JSON as it goes */
    stream?: boolean;
}
export interface PostMicrovmsIdContextsContextInterruptBody {
    /** only this run, as `started` names it; default: what runs */
    run?: string;
}
export interface GetMicrovmsIdPtyQuery {
    /** width in characters; default 80 */
    cols?: number;
    /** height; default 24 */
    rows?: number;
    /** a line for /bin/sh; default: a login shell */
    command?: string;
    /** program, then its arguments, in place of command */
    arg?: string[];
    /** NAME=VALUE */
    env?: string[];
    /** name, uid, or uid:gid */
    user?: string;
    /** directory */
    cwd?: string;
    /** default xterm-256color */
    term?: string;
}
export interface GetMicrovmsIdTunnelQuery {
    /** where the application listens */
    port: number;
    /** 1: one direction may end before the other */
    halfClose?: string;
}
export interface PostMicrovmsIdTokensBody {
    /** 8080, "8080,9000-9010" or "*"; default: what the image exposes first; not of a shell token */
    ports?: number | string;
    /** default 3600 */
    expiresSeconds?: number;
    /** default endpoint */
    kind?: string;
}
export interface GetImagesQuery {
    /** what a name contains */
    name?: string;
    /** nextPageToken of the page before */
    pageToken?: string;
}
export interface PostImagesBody {
    /** letters, digits, - and _ */
    name: string;
    /** 512, 1024, 2048, 4096 or 8192; default 512 */
    memoryMib?: number;
    /** runs when the snapshot is taken */
    app?: {
        /** program and arguments */
        argv: string[];
        /** environment, added to the image's */
        env?: Record<string, string>;
        /** directory; default / */
        cwd?: string;
        /** name, uid, or uid:gid; default root */
        user?: string;
        /** it is PID 1 of its microVM; default true */
        pid1?: boolean;
    };
    /** calls to the application at steps of its life */
    hooks?: {
        /** where the application answers hooks */
        port?: number;
        /** may the snapshot be taken */
        ready?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
        /** is a first clone fit */
        validate?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
        /** after a launch */
        run?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
        /** after a resume */
        resume?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
        /** before a suspend */
        suspend?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
        /** before the end */
        terminate?: {
            /** default false */
            enabled?: boolean;
            /** seconds; 0: the hook's default */
            timeout?: number;
        };
    };
    /** defaults for everything that is started in it */
    env?: Record<string, string>;
    /** names and values */
    tags?: Record<string, string>;
    /** a warm context `default` is part of the snapshot */
    pythonContext?: boolean;
    /** modules that warm contexts of the snapshot have loaded */
    preload?: {
        /** at most 64 names, such as matplotlib.pyplot */
        python?: string[];
        /** at most 64 names, such as lodash */
        node?: string[];
    };
}
export interface PostImagesImageBuildsQuery {
    /** default Dockerfile */
    file?: string;
    /** stage to build */
    target?: string;
    /** NAME=VALUE */
    arg?: string[];
    /** NAME=VALUE */
    env?: string[];
    /** 512, 1024, 2048, 4096 or 8192; default 512 */
    memoryMib?: number;
    /** 1 or true */
    noCache?: string;
    /** PATH:PORT, such as /health:8080 */
    ready?: string;
    /** JSON, as hooks of POST /v1/images */
    hooks?: string;
    /** policy of its microVMs */
    egress?: string;
    /** policy of the build */
    buildEgress?: string;
    /** 1 or true */
    pythonContext?: string;
    /** LANGUAGE=MODULE,MODULE, such as python=pandas,numpy */
    preload?: string[];
    /** 1: at the limit of versions the oldest unused one goes */
    pruneVersions?: string;
}
export interface GetImagesImageVersionsVersionLogQuery {
    /** 1 or true */
    follow?: string;
}
export interface PostTenantsBody {
    /** its name */
    name: string;
    /** those that differ */
    limits?: {
        /** live ones */
        microvms?: number;
        /** of live microVMs together */
        memoryMib?: number;
        /** how many */
        images?: number;
        /** how many */
        versionsPerImage?: number;
        /** how many */
        launchesPerSecond?: number;
        /** calls a day that run code in sessions; 0 stops them all */
        tenant_daily?: number | null;
        /** calls an hour of one agent that run code in sessions */
        agent_hourly?: number | null;
        /** launches and forked copies a day */
        launches_daily?: number | null;
        /** resumes an hour, as asked and by traffic */
        wakes_hourly?: number | null;
        /** commands, terminals and runs of code in microVMs a day */
        execs_daily?: number | null;
        /** builds a day */
        builds_daily?: number | null;
    };
}
export interface PutTenantsTenantLimitsBody {
    /** live ones */
    microvms?: number;
    /** of live microVMs together */
    memoryMib?: number;
    /** how many */
    images?: number;
    /** how many */
    versionsPerImage?: number;
    /** how many */
    launchesPerSecond?: number;
    /** calls a day that run code in sessions; 0 stops them all */
    tenant_daily?: number | null;
    /** calls an hour of one agent that run code in sessions */
    agent_hourly?: number | null;
    /** launches and forked copies a day */
    launches_daily?: number | null;
    /** resumes an hour, as asked and by traffic */
    wakes_hourly?: number | null;
    /** commands, terminals and runs of code in microVMs a day */
    execs_daily?: number | null;
    /** builds a day */
    builds_daily?: number | null;
}
export interface GetKeysQuery {
    /** of another tenant; administrators only */
    tenant?: string;
}
export interface PostKeysBody {
    /** for people */
    name?: string;
    /** the same as kind administrator */
    admin?: boolean;
    /** owner, agent, approver, auditor or administrator; default owner */
    kind?: string;
    /** of an agent's key: the agent that it runs code for */
    agentId?: string;
    /** for another tenant; administrators only */
    tenant?: string;
}
export interface DeleteKeysKeyQuery {
    /** of another tenant; administrators only */
    tenant?: string;
}
export interface GetEventsQuery {
    /** sequence number; default: from now on */
    after?: number;
    /** of this one only: id, name or beginning of an id */
    microvm?: string;
    /** 0: end with the last */
    follow?: string;
}
export interface GetUsageQuery {
    /** Unix milliseconds */
    since?: number;
}
export interface PostCheckQuery {
    /** 1: put it right */
    repair?: string;
}
export interface PutEgressPoliciesNameBody {
    /** as in the path */
    name?: string;
    /** what is allowed and denied */
    rules?: {
        /** what happens */
        action: string;
        /** true: everything; this, cidr or domain */
        any?: boolean;
        /** addresses, as 10.0.0.0/8 */
        cidr?: string;
        /** a name, or *.NAME */
        domain?: string;
        /** default any */
        protocol?: string;
        /** numbers, and ranges as "8000-8100" */
        ports?: (number | string)[];
    }[];
    /** what no rule names is allowed */
    internet?: boolean;
    /** names in TLS must be those that were looked up */
    sniCheck?: boolean;
    /** out and in together; 0: no limit */
    maxBytes?: number;
    /** at once; 0: no limit */
    maxConnections?: number;
}
export interface PutTenantsTenantEgressBody {
    /** name of a policy */
    default?: string;
    /** name of a policy */
    maximum?: string;
}
export interface GetMicrovmsIdEgressQuery {
    /** how many; default 100 */
    limit?: number;
    /** 1: also the smallest policy that would have sufficed */
    suggest?: string;
}
export interface PutRolesNameBody {
    /** an IAM policy document */
    policy: {
        /** 2012-10-17 */
        Version?: string;
        /** at most 50 */
        Statement: {
            /** a name for people */
            Sid?: string;
            /** what it does */
            Effect: string;
            /** as s3:GetObject, lambda:* or * */
            Action: string | string[];
            /** ARNs, with * and ? */
            Resource: string | string[];
            /** one of these */
            Condition?: {
                /** with * and ? */
                StringLike?: {
                    /** what is listed begins with one of these */
                    "s3:prefix"?: string | string[];
                };
                /** exactly */
                StringEquals?: {
                    /** what is listed begins with one of these */
                    "s3:prefix"?: string | string[];
                };
            };
        }[] | {
            /** a name for people */
            Sid?: string;
            /** what it does */
            Effect: string;
            /** as s3:GetObject, lambda:* or * */
            Action: string | string[];
            /** ARNs, with * and ? */
            Resource: string | string[];
            /** one of these */
            Condition?: {
                /** with * and ? */
                StringLike?: {
                    /** what is listed begins with one of these */
                    "s3:prefix"?: string | string[];
                };
                /** exactly */
                StringEquals?: {
                    /** what is listed begins with one of these */
                    "s3:prefix"?: string | string[];
                };
            };
        };
    };
}
export interface PutSecretsNameBody {
    /** 6 to 8192 bytes */
    value: string;
}
export interface PostTemplatesBody {
    /** unique within the tenant */
    name: string;
    /** default python */
    image?: string;
    /** default-public, internal-only, or the name of an egress policy */
    environment?: string;
    /** of python, bash, node; the first is the default */
    languages?: string[];
    /** time limit of a call; default 60 */
    callSeconds?: number;
    /** life of a session; default and most 28800 */
    sessionSeconds?: number;
    /** a session that nobody calls ends then; default 1800 */
    idleSeconds?: number;
    /** of one session; default 1000 */
    calls?: number;
    /** shown to the caller; default 262144 */
    stdoutBytes?: number;
    /** shown to the caller; default 32768 */
    stderrBytes?: number;
    /** of one session; default: no limit */
    cpuSeconds?: number | null;
    /** its credentials; default: none */
    role?: string;
    /** names and values */
    tags?: Record<string, string>;
}
export interface PatchTemplatesTemplateBody {
    /** unique within the tenant */
    name?: string;
    /** default python */
    image?: string;
    /** default-public, internal-only, or the name of an egress policy */
    environment?: string;
    /** of python, bash, node; the first is the default */
    languages?: string[];
    /** time limit of a call; default 60 */
    callSeconds?: number;
    /** life of a session; default and most 28800 */
    sessionSeconds?: number;
    /** a session that nobody calls ends then; default 1800 */
    idleSeconds?: number;
    /** of one session; default 1000 */
    calls?: number;
    /** shown to the caller; default 262144 */
    stdoutBytes?: number;
    /** shown to the caller; default 32768 */
    stderrBytes?: number;
    /** of one session; default: no limit */
    cpuSeconds?: number | null;
    /** its credentials; default: none */
    role?: string;
    /** names and values */
    tags?: Record<string, string>;
}
export interface PatchTenantsTenantPolicyBody {
    /** standard or regulated */
    tier?: string;
    /** agents may run code */
    enabled?: boolean;
    /** 1 to 180: of records and of what calls printed */
    retentionDays?: number;
    /** false: hashes and sizes only */
    keepOutput?: boolean;
}
export interface GetInvocationsQuery {
    /** of this agent */
    agentId?: string;
    /** of this session */
    session?: string;
    /** ok, error, timeout, oom, cap_exceeded or provisioning */
    status?: string;
    /** the last of the page before */
    after?: string;
    /** 1 to 1000; default 100 */
    limit?: number;
}
export interface PostExecuteCodeBody {
    /** who runs it */
    agentId?: string;
    /** calls of a turn share a session */
    turnId?: string;
    /** default: default */
    template?: string;
    /** what is run */
    code: string;
    /** default: the template's first */
    language?: string;
    /** lines of JSON as it goes */
    stream?: boolean;
}
export interface PostTurnsTurnEndBody {
    /** whose turn it is */
    agentId?: string;
}
export interface PostSessionsBody {
    /** whose it is */
    agentId?: string;
    /** the turn it is for */
    turnId?: string;
    /** default: default */
    template?: string;
}
export interface GetSessionsQuery {
    /** 1: also those that ended */
    all?: string;
}
export interface PostSessionsSessionExecuteBody {
    /** what is run */
    code: string;
    /** default: the template's first */
    language?: string;
    /** lines of JSON as it goes */
    stream?: boolean;
}
export interface PostSessionsSessionExecBody {
    /** program and arguments; this or shell */
    argv?: string[];
    /** a line for /bin/sh */
    shell?: string;
    /** environment, added to the image's */
    env?: Record<string, string>;
    /** directory */
    cwd?: string;
    /** name, uid, or uid:gid */
    user?: string;
    /** lines of JSON as it goes */
    stream?: boolean;
}
export interface GetSessionsSessionFilesQuery {
    /** inside the guest's root */
    path: string;
    /** first byte */
    offset?: number;
    /** how many bytes at most */
    length?: number;
}
export interface PutSessionsSessionFilesQuery {
    /** inside the guest's root */
    path: string;
    /** octal, as 0644 */
    mode?: string;
    /** 1 or true */
    append?: string;
    /** write into the file that is there */
    offset?: number;
    /** whose file it is */
    user?: string;
    /** 1: make directories that are missing */
    parents?: string;
}
export interface DeleteSessionsSessionFilesQuery {
    /** inside the guest's root */
    path: string;
    /** 1 or true */
    recursive?: string;
}
export interface GetSessionsSessionFilesStatQuery {
    /** inside the guest's root */
    path: string;
    /** 1: of what a link points to */
    follow?: string;
}
export interface GetSessionsSessionFilesListQuery {
    /** inside the guest's root */
    path: string;
}
export interface PostSessionsSessionFilesMkdirQuery {
    /** inside the guest's root */
    path: string;
    /** octal, as 0755 */
    mode?: string;
    /** 1 or true */
    parents?: string;
}
export interface PostSessionsSessionFilesRenameQuery {
    /** what is renamed */
    from: string;
    /** its new path */
    to: string;
}
export interface GetSessionsSessionTarQuery {
    /** inside the guest's root */
    path: string;
}
export interface PutSessionsSessionTarQuery {
    /** inside the guest's root */
    path: string;
}
export interface Operation {
    readonly method: string;
    readonly path: string;
}
export declare const operations: {
    readonly postMicrovms: {
        readonly method: "POST";
        readonly path: "/v1/microvms";
    };
    readonly getMicrovms: {
        readonly method: "GET";
        readonly path: "/v1/microvms";
    };
    readonly getMicrovmsId: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}";
    };
    readonly patchMicrovmsId: {
        readonly method: "PATCH";
        readonly path: "/v1/microvms/{id}";
    };
    readonly deleteMicrovmsId: {
        readonly method: "DELETE";
        readonly path: "/v1/microvms/{id}";
    };
    readonly postMicrovmsIdSuspend: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/suspend";
    };
    readonly postMicrovmsIdResume: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/resume";
    };
    readonly postMicrovmsIdFork: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/fork";
    };
    readonly postMicrovmsIdExec: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/exec";
    };
    readonly postMicrovmsIdExecs: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/execs";
    };
    readonly getMicrovmsIdExecs: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/execs";
    };
    readonly getMicrovmsIdExecsExec: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/execs/{exec}";
    };
    readonly deleteMicrovmsIdExecsExec: {
        readonly method: "DELETE";
        readonly path: "/v1/microvms/{id}/execs/{exec}";
    };
    readonly getMicrovmsIdExecsExecOutput: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/execs/{exec}/output";
    };
    readonly postMicrovmsIdExecsExecStdin: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/execs/{exec}/stdin";
    };
    readonly postMicrovmsIdExecsExecSignal: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/execs/{exec}/signal";
    };
    readonly postMicrovmsIdExecsExecResize: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/execs/{exec}/resize";
    };
    readonly getMicrovmsIdLogs: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/logs";
    };
    readonly getMicrovmsIdFiles: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/files";
    };
    readonly putMicrovmsIdFiles: {
        readonly method: "PUT";
        readonly path: "/v1/microvms/{id}/files";
    };
    readonly deleteMicrovmsIdFiles: {
        readonly method: "DELETE";
        readonly path: "/v1/microvms/{id}/files";
    };
    readonly getMicrovmsIdFilesStat: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/files/stat";
    };
    readonly getMicrovmsIdFilesList: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/files/list";
    };
    readonly postMicrovmsIdFilesMkdir: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/files/mkdir";
    };
    readonly postMicrovmsIdFilesRename: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/files/rename";
    };
    readonly getMicrovmsIdTar: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/tar";
    };
    readonly putMicrovmsIdTar: {
        readonly method: "PUT";
        readonly path: "/v1/microvms/{id}/tar";
    };
    readonly postMicrovmsIdContexts: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/contexts";
    };
    readonly getMicrovmsIdContexts: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/contexts";
    };
    readonly getMicrovmsIdContextsContext: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/contexts/{context}";
    };
    readonly deleteMicrovmsIdContextsContext: {
        readonly method: "DELETE";
        readonly path: "/v1/microvms/{id}/contexts/{context}";
    };
    readonly postMicrovmsIdContextsContextRun: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/contexts/{context}/run";
    };
    readonly postMicrovmsIdContextsContextInterrupt: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/contexts/{context}/interrupt";
    };
    readonly postMicrovmsIdContextsContextRestart: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/contexts/{context}/restart";
    };
    readonly getMicrovmsIdPty: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/pty";
    };
    readonly getMicrovmsIdTunnel: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/tunnel";
    };
    readonly postMicrovmsIdTokens: {
        readonly method: "POST";
        readonly path: "/v1/microvms/{id}/tokens";
    };
    readonly getMicrovmsIdTokens: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/tokens";
    };
    readonly deleteMicrovmsIdTokensToken: {
        readonly method: "DELETE";
        readonly path: "/v1/microvms/{id}/tokens/{token}";
    };
    readonly getImages: {
        readonly method: "GET";
        readonly path: "/v1/images";
    };
    readonly postImages: {
        readonly method: "POST";
        readonly path: "/v1/images";
    };
    readonly getImagesImage: {
        readonly method: "GET";
        readonly path: "/v1/images/{image}";
    };
    readonly deleteImagesImage: {
        readonly method: "DELETE";
        readonly path: "/v1/images/{image}";
    };
    readonly getBases: {
        readonly method: "GET";
        readonly path: "/v1/bases";
    };
    readonly getBuildCache: {
        readonly method: "GET";
        readonly path: "/v1/build-cache";
    };
    readonly postImagesImageBuilds: {
        readonly method: "POST";
        readonly path: "/v1/images/{image}/builds";
    };
    readonly postImagesImagePrune: {
        readonly method: "POST";
        readonly path: "/v1/images/{image}/prune";
    };
    readonly getImagesImageVersionsVersion: {
        readonly method: "GET";
        readonly path: "/v1/images/{image}/versions/{version}";
    };
    readonly deleteImagesImageVersionsVersion: {
        readonly method: "DELETE";
        readonly path: "/v1/images/{image}/versions/{version}";
    };
    readonly getImagesImageVersionsVersionLog: {
        readonly method: "GET";
        readonly path: "/v1/images/{image}/versions/{version}/log";
    };
    readonly postImagesImageVersionsVersionCancel: {
        readonly method: "POST";
        readonly path: "/v1/images/{image}/versions/{version}/cancel";
    };
    readonly getTenants: {
        readonly method: "GET";
        readonly path: "/v1/tenants";
    };
    readonly postTenants: {
        readonly method: "POST";
        readonly path: "/v1/tenants";
    };
    readonly deleteTenantsTenant: {
        readonly method: "DELETE";
        readonly path: "/v1/tenants/{tenant}";
    };
    readonly putTenantsTenantLimits: {
        readonly method: "PUT";
        readonly path: "/v1/tenants/{tenant}/limits";
    };
    readonly getTenant: {
        readonly method: "GET";
        readonly path: "/v1/tenant";
    };
    readonly getKeys: {
        readonly method: "GET";
        readonly path: "/v1/keys";
    };
    readonly postKeys: {
        readonly method: "POST";
        readonly path: "/v1/keys";
    };
    readonly deleteKeysKey: {
        readonly method: "DELETE";
        readonly path: "/v1/keys/{key}";
    };
    readonly getEvents: {
        readonly method: "GET";
        readonly path: "/v1/events";
    };
    readonly getUsage: {
        readonly method: "GET";
        readonly path: "/v1/usage";
    };
    readonly postCheck: {
        readonly method: "POST";
        readonly path: "/v1/check";
    };
    readonly getEgressPolicies: {
        readonly method: "GET";
        readonly path: "/v1/egress-policies";
    };
    readonly getEgressPoliciesName: {
        readonly method: "GET";
        readonly path: "/v1/egress-policies/{name}";
    };
    readonly putEgressPoliciesName: {
        readonly method: "PUT";
        readonly path: "/v1/egress-policies/{name}";
    };
    readonly deleteEgressPoliciesName: {
        readonly method: "DELETE";
        readonly path: "/v1/egress-policies/{name}";
    };
    readonly putTenantsTenantEgress: {
        readonly method: "PUT";
        readonly path: "/v1/tenants/{tenant}/egress";
    };
    readonly getMicrovmsIdEgress: {
        readonly method: "GET";
        readonly path: "/v1/microvms/{id}/egress";
    };
    readonly getRoles: {
        readonly method: "GET";
        readonly path: "/v1/roles";
    };
    readonly getRolesName: {
        readonly method: "GET";
        readonly path: "/v1/roles/{name}";
    };
    readonly putRolesName: {
        readonly method: "PUT";
        readonly path: "/v1/roles/{name}";
    };
    readonly deleteRolesName: {
        readonly method: "DELETE";
        readonly path: "/v1/roles/{name}";
    };
    readonly getSecrets: {
        readonly method: "GET";
        readonly path: "/v1/secrets";
    };
    readonly putSecretsName: {
        readonly method: "PUT";
        readonly path: "/v1/secrets/{name}";
    };
    readonly deleteSecretsName: {
        readonly method: "DELETE";
        readonly path: "/v1/secrets/{name}";
    };
    readonly postTemplates: {
        readonly method: "POST";
        readonly path: "/v1/templates";
    };
    readonly getTemplates: {
        readonly method: "GET";
        readonly path: "/v1/templates";
    };
    readonly getTemplatesTemplate: {
        readonly method: "GET";
        readonly path: "/v1/templates/{template}";
    };
    readonly patchTemplatesTemplate: {
        readonly method: "PATCH";
        readonly path: "/v1/templates/{template}";
    };
    readonly deleteTemplatesTemplate: {
        readonly method: "DELETE";
        readonly path: "/v1/templates/{template}";
    };
    readonly getPolicy: {
        readonly method: "GET";
        readonly path: "/v1/policy";
    };
    readonly patchTenantsTenantPolicy: {
        readonly method: "PATCH";
        readonly path: "/v1/tenants/{tenant}/policy";
    };
    readonly getCaps: {
        readonly method: "GET";
        readonly path: "/v1/caps";
    };
    readonly getInvocations: {
        readonly method: "GET";
        readonly path: "/v1/invocations";
    };
    readonly getInvocationsInvocation: {
        readonly method: "GET";
        readonly path: "/v1/invocations/{invocation}";
    };
    readonly getInvocationsInvocationOutput: {
        readonly method: "GET";
        readonly path: "/v1/invocations/{invocation}/output";
    };
    readonly postExecuteCode: {
        readonly method: "POST";
        readonly path: "/v1/execute-code";
    };
    readonly postTurnsTurnEnd: {
        readonly method: "POST";
        readonly path: "/v1/turns/{turn}/end";
    };
    readonly postSessions: {
        readonly method: "POST";
        readonly path: "/v1/sessions";
    };
    readonly getSessions: {
        readonly method: "GET";
        readonly path: "/v1/sessions";
    };
    readonly getSessionsSession: {
        readonly method: "GET";
        readonly path: "/v1/sessions/{session}";
    };
    readonly deleteSessionsSession: {
        readonly method: "DELETE";
        readonly path: "/v1/sessions/{session}";
    };
    readonly postSessionsSessionExecute: {
        readonly method: "POST";
        readonly path: "/v1/sessions/{session}/execute";
    };
    readonly postSessionsSessionExec: {
        readonly method: "POST";
        readonly path: "/v1/sessions/{session}/exec";
    };
    readonly getSessionsSessionFiles: {
        readonly method: "GET";
        readonly path: "/v1/sessions/{session}/files";
    };
    readonly putSessionsSessionFiles: {
        readonly method: "PUT";
        readonly path: "/v1/sessions/{session}/files";
    };
    readonly deleteSessionsSessionFiles: {
        readonly method: "DELETE";
        readonly path: "/v1/sessions/{session}/files";
    };
    readonly getSessionsSessionFilesStat: {
        readonly method: "GET";
        readonly path: "/v1/sessions/{session}/files/stat";
    };
    readonly getSessionsSessionFilesList: {
        readonly method: "GET";
        readonly path: "/v1/sessions/{session}/files/list";
    };
    readonly postSessionsSessionFilesMkdir: {
        readonly method: "POST";
        readonly path: "/v1/sessions/{session}/files/mkdir";
    };
    readonly postSessionsSessionFilesRename: {
        readonly method: "POST";
        readonly path: "/v1/sessions/{session}/files/rename";
    };
    readonly getSessionsSessionTar: {
        readonly method: "GET";
        readonly path: "/v1/sessions/{session}/tar";
    };
    readonly putSessionsSessionTar: {
        readonly method: "PUT";
        readonly path: "/v1/sessions/{session}/tar";
    };
};
