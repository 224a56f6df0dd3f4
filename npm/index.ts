/**
 * Millrace: large language models in a web page, on WebGPU.
 *
 * @packageDocumentation
 */
export { DownloadControl } from './control.ts';
export { Conversation, Engine } from './engine.ts';
export { MillraceError, type ErrorCode } from './errors.ts';
export { Generation } from './generation.ts';
export { models } from './models.ts';
export type * from './types.ts';
