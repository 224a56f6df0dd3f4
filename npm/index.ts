/**
 * Millrace: large language models in a web page, on WebGPU.
 *
 * @packageDocumentation
 */
export type { Adapters } from './adapters.ts';
export { configure } from './configure.ts';
export { DownloadControl } from './control.ts';
export { Conversation, Engine } from './engine.ts';
export { MillraceError, type ErrorCode } from './errors.ts';
export { Generation } from './generation.ts';
export { models } from './models.ts';
export type { ChatCompletions, Completions } from './openai/calls.ts';
export { CompletionStream } from './openai/stream.ts';
export type * from './openai/types.ts';
export {
  Run,
  type RunEvent,
  type RunOptions,
  type RunResult,
  type ToolContext,
  type ToolDefinition,
  type ToolFunction,
} from './run.ts';
export type { Streamed } from './streamed.ts';
export type * from './types.ts';
