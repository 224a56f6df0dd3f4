// What page and Worker say to each other. One request at a time has an `id`; everything that answers it carries the same.
import type { PackedError } from './errors.ts';
import type { WasmLoadOptions, WasmRequest } from './millrace.js';
import type { EngineInfo, GenerateResult, Progress } from './types.ts';

/** From the page. */
export type ToWorker =
  | { type: 'load'; id: number; options: WasmLoadOptions; tune: boolean | undefined }
  | { type: 'generate'; id: number; request: WasmRequest }
  /** A new conversation that begins as `from` is. */
  | { type: 'fork'; id: number; from: number }
  | { type: 'release'; id: number; conversation: number }
  /** Keeps a conversation in this browser's storage; a new one that begins as the kept one was; removes the kept one. */
  | { type: 'save'; id: number; conversation: number; name: string }
  | { type: 'restore'; id: number; name: string }
  | { type: 'forget'; id: number; name: string }
  | { type: 'abort'; id: number };

/** From the Worker. */
export type FromWorker =
  | { type: 'progress'; id: number; progress: Progress }
  | { type: 'loaded'; id: number; info: EngineInfo }
  | { type: 'delta'; id: number; text: string; tokens: Uint32Array }
  | { type: 'done'; id: number; result: GenerateResult; info: EngineInfo }
  | { type: 'forked'; id: number; conversation: number; info: EngineInfo }
  /** A release, save or forget. */
  | { type: 'settled'; id: number; info: EngineInfo }
  | { type: 'error'; id: number; error: PackedError }
  /** The tuner has ended; the plan may be another. */
  | { type: 'tuned'; info: EngineInfo }
  /** A crash outside any request: the engine is gone. */
  | { type: 'crash'; error: PackedError };
