// What page and Worker say to each other. One request at a time has an `id`; everything that answers it carries the same.
import type { PackedError } from './errors.ts';
import type { SentPicture } from './pictures.ts';
import type { WasmDownloadOptions, WasmLoadOptions, WasmModelFile, WasmRequest } from './millrace.js';
import type {
  AnswerPart,
  DeviceLost,
  DeviceRestored,
  EngineInfo,
  GenerateResult,
  Progress,
  TokenLogprobs,
} from './types.ts';

/** A request whose pictures are not decoded yet. */
export type SentRequest = WasmRequest & { pictures?: readonly SentPicture[] };

/** From the page. */
export type ToWorker =
  | { type: 'load'; id: number; options: WasmLoadOptions; tune: boolean | undefined; ownFetch: boolean }
  /** Something about the models that are kept. */
  | { type: 'models'; id: number; call: ModelsCall; ownFetch: boolean }
  /** Has the download of a request wait, or go on. */
  | { type: 'pause'; id: number; paused: boolean }
  | { type: 'generate'; id: number; request: SentRequest }
  /** The ids that a prompt stands for; the text of ids. */
  | { type: 'tokenize'; id: number; request: SentRequest }
  | { type: 'detokenize'; id: number; tokens: number[] }
  /** How many tokens a picture of that size is. */
  | { type: 'imageTokens'; id: number; width: number; height: number }
  /** Embeds texts or judges documents. */
  | { type: 'embed'; id: number; request: object }
  /** What a schema, as JSON, becomes. */
  | { type: 'compile'; id: number; schema: string; lenient: boolean }
  /** A new conversation that begins as `from` is. */
  | { type: 'fork'; id: number; from: number }
  | { type: 'release'; id: number; conversation: number }
  /** Keeps a conversation in this browser's storage; a new one that begins as the kept one was; removes the kept one. */
  | { type: 'save'; id: number; conversation: number; name: string }
  | { type: 'restore'; id: number; name: string }
  | { type: 'forget'; id: number; name: string }
  /** Loads an adapter under a name; without files it goes. */
  | { type: 'adapter'; id: number; name: string; files?: { files: WasmModelFile[] } | undefined }
  /** The page is about to send a request: see `Engine.warm`. */
  | { type: 'warm' }
  | { type: 'abort'; id: number }
  /** Where the wasm lies, before anything else. */
  | { type: 'wasm'; url: string }
  /** The name of the lock that the Worker holds for as long as it lives. */
  | { type: 'lock'; name: string }
  /** Checks that the Worker is alive: answered at once, whatever else is under way. */
  | { type: 'ping' }
  /** Frees everything, where no Worker is ended with it. */
  | { type: 'end' };

/** Messages that get an answer. */
export type Request = Exclude<ToWorker, { type: 'abort' | 'pause' | 'ping' | 'wasm' | 'lock' | 'warm' | 'end' }>;

/** What can be done with the models that are kept. */
export type ModelsCall =
  | { name: 'list' }
  | { name: 'plan'; options: WasmLoadOptions & { memory?: number; beside: number } }
  | { name: 'usage' }
  | { name: 'download'; options: WasmDownloadOptions }
  | { name: 'verify'; url: string }
  | { name: 'remove'; url: string }
  | { name: 'export'; url: string }
  | { name: 'import'; url: string; files: { files: WasmModelFile[] } };

/** What happens to the GPU device. */
export type DeviceEvent = ({ type: 'lost' } & DeviceLost) | ({ type: 'restored'; info: EngineInfo } & DeviceRestored);

/** What an engine says of itself. Its plan, of many rows, comes where it has changed. */
export type EngineNews = Omit<EngineInfo, 'plan'> & Partial<Pick<EngineInfo, 'plan'>>;

/** A part of an answer as the engine tells it: a call has an id only where the model gives one. */
export type RawPart =
  | Exclude<AnswerPart, { type: 'tool_call' }>
  | { type: 'tool_call'; index: number; id: string | null; name: string };

/** From the Worker. */
export type FromWorker =
  | { type: 'progress'; id: number; progress: Progress }
  /** A request for the page's own `fetch`, which is answered through the port. */
  | { type: 'fetch'; id: number; url: string; headers: Record<string, string>; port: MessagePort }
  /** What came of a {@link ModelsCall}, or the tokens or text that were asked for. */
  | { type: 'answer'; id: number; value: unknown }
  | { type: 'loaded'; id: number; info: EngineInfo }
  | {
      type: 'delta';
      id: number;
      text: string;
      tokens: Uint32Array;
      logprobs?: TokenLogprobs[] | undefined;
      parts?: RawPart[] | undefined;
    }
  | { type: 'done'; id: number; result: GenerateResult; info: EngineNews }
  | { type: 'forked'; id: number; conversation: number; info: EngineNews }
  /** A release, save or forget, or what was done about an adapter. */
  | { type: 'settled'; id: number; info: EngineNews }
  | { type: 'error'; id: number; error: PackedError }
  /** The tuner has ended; the plan may be another. */
  | { type: 'tuned'; info: EngineNews }
  /** The device was lost, or another has taken its place. */
  | { type: 'device'; event: DeviceEvent }
  /** A line for the log. */
  | { type: 'log'; level: 'warn' | 'info'; text: string }
  /** The Worker is alive. */
  | { type: 'pong' }
  /** A crash outside any request: the engine is gone. */
  | { type: 'crash'; error: PackedError };
