/**
 * Millrace: large language models in a web page, on WebGPU.
 *
 * @packageDocumentation
 */
export { configure } from './configure.ts';
export { DownloadControl } from './control.ts';
export { Conversation, Engine } from './engine.ts';
export { MillraceError, type ErrorCode } from './errors.ts';
export { Generation } from './generation.ts';
export { models } from './models.ts';
export type { ChatCompletions, Completions } from './openai/create.ts';
export { CompletionStream } from './openai/stream.ts';
export type * from './openai/types.ts';
export type * from './types.ts';
