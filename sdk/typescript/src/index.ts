// Firebreak for TypeScript: microVMs for code that nobody trusts.
export type * from './api.js';
export { operations } from './api.js';
export { Client, type ClientOptions } from './client.js';
export { type Command, type CommandOptions, CommandStream, Process, type SpawnOptions } from './commands.js';
export { type CodeEvent, CodeStream, Context as CodeContext, type RunOptions } from './contexts.js';
export * from './errors.js';
export { type WriteOptions } from './files.js';
export { type FindOptions, type ServerAddress, findServer } from './find.js';
export { type BuildOptions } from './images.js';
export { type Progress, type ProgressCallback, bar } from './progress.js';
export { CommandResult, type Exit, type Gap, type Output, RunResult } from './results.js';
export { type Endpoint, Sandbox, type SandboxOptions } from './sandbox.js';
export { type ExecuteCodeOptions, type ExecuteOptions, Session as AgentSession } from './sessions.js';
export { type Body, type CallOptions, type RetryPolicy, waitBefore } from './transport.js';
