// What the Rust side (src/web/) exports. The build puts the real module, millrace.js, beside worker.js.
import type { Made } from './grammar.ts';
import type { DeviceEvent, EngineNews, RawPart } from './protocol.ts';
import type { BenchRows } from './options.generated.ts';
import type {
  AdapterInfo,
  CompiledGrammar,
  Embeddings,
  EngineInfo,
  FetchingOptions,
  GenerateOptions,
  GenerateResult,
  LoadOptions,
  LoadPlan,
  Message,
  ProfileRow,
  Progress,
  Ranking,
  StorageUsage,
  StoredModel,
  TokenLogprobs,
  Verified,
} from './types.ts';

export type { ProfileRow };

export interface WasmModelFile {
  name: string;
  data: Blob;
}

export interface WasmDownloadOptions extends Omit<FetchingOptions, 'download'> {
  model: string;
}

/** What the page itself looks after does not come here. */
export interface WasmLoadOptions
  extends Omit<
    LoadOptions,
    'model' | 'draft' | 'tokenizer' | 'onProgress' | 'signal' | 'download' | 'tune' | 'worker'
  > {
  /** A tokenizer.json. */
  tokenizer?: Uint8Array<ArrayBuffer>;
  model: string | { files: WasmModelFile[] };
  draft?: string | { files: WasmModelFile[] };
}

export interface WasmRequest extends Omit<GenerateOptions, 'onProgress' | 'onTokens' | 'signal'> {
  prompt?: string;
  messages?: Message[];
  tokens?: number[];
  conversation?: number;
}

/** A request with decoded pictures: those of the messages' parts, in their order. */
export type ShownRequest = WasmRequest & { pictures?: WasmPicture[] };

/**
 * RGBA bytes, row by row. `key`: what tells the picture from all others; without one its pixels are hashed. `low`: made smaller where a side is longer than 512
 * pixels.
 */
export interface WasmPicture {
  width: number;
  height: number;
  data: Uint8Array;
  key?: string | undefined | Promise<string | undefined>;
  low?: boolean;
}

/** Pauses downloads. */
export class WasmControl {
  constructor();
  pause(paused: boolean): void;
  free(): void;
}

export function planModel(
  options: WasmLoadOptions & { memory?: number; beside: number },
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<LoadPlan>;
/** Takes what starts a Worker that reads stored files beside this one (`reads.ts`). */
export function readBeside(start: () => Worker): void;
/** Sets the function that log messages of the wasm side go to. */
export function logTo(log: (level: 'warn' | 'info', text: string) => void): void;
export function listModels(): Promise<StoredModel[]>;
export function storageUsage(): Promise<StorageUsage>;
export function downloadModel(
  options: WasmDownloadOptions,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
  control: WasmControl,
): Promise<StoredModel>;
export function verifyModel(
  url: string,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<Verified>;
export function removeModel(url: string): Promise<void>;
export function exportModel(url: string): Promise<{ name: string; parts: Blob[] }[]>;
export function importModel(
  url: string,
  files: { files: WasmModelFile[] },
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<StoredModel>;

export class WasmEngine {
  private constructor();
  static load(
    options: WasmLoadOptions,
    onProgress: (progress: Progress) => void,
    signal: AbortSignal,
    control: WasmControl,
  ): Promise<WasmEngine>;
  /** An aborted generation resolves with finish_reason `abort`. */
  generate(
    request: ShownRequest,
    onDelta: (delta: { text: string; tokens: Uint32Array; logprobs?: TokenLogprobs[]; parts?: RawPart[] }) => void,
    onProgress: (progress: Progress) => void,
    signal: AbortSignal,
  ): Promise<GenerateResult>;
  /** Embeds texts, or judges documents where there is a `query`; options of another kind than asked for reject with BAD_OPTION. */
  embed(request: object, onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<Embeddings | Ranking>;
  /** The ids that a request's prompt stands for. */
  tokenize(request: ShownRequest): Uint32Array;
  /** How many tokens of a prompt a picture of this size in pixels takes. */
  imageTokens(width: number, height: number): number;
  /** The text of tokens, special ones included. */
  detokenize(ids: Uint32Array): string;
  /** A new conversation that begins as another is: its number. The engine's own is 0. */
  fork(conversation: number): number;
  /** Forgets a conversation and frees its memory. */
  release(conversation: number): void;
  /** Keeps a conversation in this browser's storage. */
  save(conversation: number, name: string, signal: AbortSignal): Promise<void>;
  /** A new conversation that begins as the saved one was: its number. */
  restore(name: string, signal: AbortSignal): Promise<number>;
  forget(name: string): Promise<void>;
  /** Loads an adapter under a name; without files it goes. */
  adapter(name: string, files: { files: WasmModelFile[] } | undefined, signal: AbortSignal): Promise<void>;
  /** Measures variants of kernels for two seconds at most; aborting ends it early. */
  tune(signal: AbortSignal): Promise<Tuned>;
  /** Keeps the GPU's clock up for `ms` milliseconds; aborting ends it early. */
  warm(ms: number, signal: AbortSignal): Promise<void>;
  /** Sets the listener for device events. */
  onDevice(callback: (event: WasmDeviceEvent) => void): void;
  /** Has engines that compute on the CPU do so by what this loads. */
  static cpuFrom(load: (helpers: boolean) => Promise<object>): void;
  /** Has grammars be compiled by this. */
  compileWith(compile: (description: string, lenient: boolean) => Promise<Made>): void;
  /** Compiles a schema, given as JSON. */
  static compileSchema(
    schema: string,
    lenient: boolean,
    compile: (description: string, lenient: boolean) => Promise<Made>,
  ): Promise<CompiledGrammar>;
  /** Whether the device is lost while the engine is idle, so that no running call notices. */
  isLost(): boolean;
  /** Loads the model onto another device where this one is lost. */
  recover(): Promise<void>;
  /** `known`: a number that `planEdition` gave; where it still does the plan is left out. */
  info(known?: number): EngineNews;
  /** Another number whenever the plan becomes another. */
  planEdition(): number;
  /** Frees the GPU memory; what is under way ends with DISPOSED. */
  dispose(): void;
  /** Frees the wasm memory, when what is under way has ended. */
  free(): void;
}

/** `gone`: at once when the device is lost; `lost`: the engine has noticed. */
export type WasmDeviceEvent = { type: 'gone' } | DeviceEvent;

/** How a tuning went: operations measured, left for another time, and changed. */
export interface Tuned {
  measured: number;
  left: number;
  changed: number;
  ms: number;
  /** What was measured: by operation, variants and microseconds a dispatch, the chosen one first. */
  times: Record<string, [variant: string, us: number][]>;
}

/** One kernel, or one use of it, in a pass of prefill; `ms` is of a pass. */
export interface PrefillRow
  extends Pick<ProfileRow, 'step' | 'kernel' | 'variant' | 'calls' | 'us' | 'ms' | 'percent'> {
  /** Multiplications and additions over time, in 10^12 a second. */
  tops: number;
}

/** One kernel variant compared with its CPU twin. */
export interface KernelRow {
  kernel: string;
  variant: string;
  case: string;
  status: 'pass' | 'fail' | 'skip';
  /** Largest difference, relative to the largest value. */
  error: number;
  message?: string;
  ms: number;
}

export interface KernelReport {
  passed: number;
  failed: number;
  skipped: number;
}

/** Runs every kernel variant whose whole name, `matvec=q4_0-q8-sg32`, contains a word of `filter` against its twin. */
export function kernelCheck(
  filter: string,
  cases: 'all' | 'quick' | 'cover',
  onRow: (row: KernelRow) => void,
): Promise<KernelReport>;

/**
 * Puts templates of shaders, [name, text] each, in the place of the build's, and resolves to the names of the variants that `filter` lets
 * through and whose text has changed. Only in builds with the feature `lab`.
 */
export const kernelTemplates: undefined | ((templates: [string, string][], filter: string) => Promise<string[]>);

/** What `bench` measures; speeds in tokens a second, times in ms. */
export interface BenchOptions
  extends BenchRows,
    Pick<LoadOptions, 'lane' | 'kv' | 'context' | 'chunk' | 'adapter' | 'quantize' | 'kernels' | 'subgroups'> {
  /** A model instead of random weights in a shape. */
  model?: string;
}

/** How far a bench has come. `loaded` of `total`: bytes or pipelines while it loads, then runs or operations that are done. */
export interface BenchProgress {
  phase:
    | 'download'
    | 'verify'
    | 'read'
    | 'upload'
    | 'compile'
    | 'tune'
    | 'warm-up'
    | 'run'
    | 'second-turn'
    | 'idle'
    | 'profile'
    | 'kernels';
  loaded: number;
  total: number;
  /** Tokens of the current run so far, and their number a second. */
  tokens?: [count: number, perSecond: number];
}

/** The names that `bench` takes. */
export interface BenchNames {
  shapes: string[];
  quants: string[];
}

export function benchNames(): BenchNames;

/** Tokens that came with one readback: those of context before its first, how many, ms of each. */
export interface BenchChunk {
  position: number;
  tokens: number;
  ms: number;
}

export interface BenchRun {
  prefill_tok_s: number;
  decode_tok_s: number;
  ttft_ms: number;
  latency_ms: [number, number];
  record_us: number;
  /** The readbacks that `latency_ms` is computed from: all but the first, which begins at the prompt's end. */
  chunks: BenchChunk[];
  /** Drafts that were verified, and those that were right. */
  drafted: number;
  accepted: number;
}

/** A variant that a step runs (`chosen`) or could run; `wrong`: how its result differs from its twin's. */
export interface KernelBenchRow {
  operation: string;
  kernel: string;
  variant: string;
  chosen: boolean;
  wrong?: string;
  us: number;
  bytes: number;
  gb_s: number;
  percent_of_streaming: number;
}

/** How far a lane is from the exact one: Kullback-Leibler divergence in nats, and the share of positions with the same likeliest token. */
export interface QualityReport {
  model: string;
  lane: string;
  /** How the lane's cache holds keys and values. */
  kv: string;
  adapter: { vendor: string; name: string };
  positions: number;
  texts: number;
  kl_mean: number;
  kl_p99: number;
  kl_max: number;
  top1: number;
  ms: number;
}

export interface BenchReport extends Omit<BenchRun, 'chunks'> {
  shape: string;
  quant: string;
  lane: string;
  /** The engine's version. What may be missing is missing in files of older versions. */
  version?: string;
  adapter: Pick<AdapterInfo, 'vendor' | 'name' | 'features' | 'subgroup'> & Partial<AdapterInfo>;
  self_test?: EngineInfo['self_test'];
  prompt: number;
  gen: number;
  load_ms: number;
  warm_up: number;
  runs: BenchRun[];
  dispatches_per_token: number;
  submits_per_token: number;
  tokens_per_readback: number;
  bytes_per_token: number;
  streaming_gb_s: number;
  percent_of_streaming: number;
  gpu_bytes: number;
  weight_bytes: number;
  cache_bytes: number;
  tuned: Tuned;
  profile?: ProfileRow[];
  prefill_profile?: PrefillRow[];
  /** GPU time of passes of few rows, ms. */
  few_rows?: { rows: number; ms: number }[];
  /** Decode steps of one row and of several, ms, and each use of a kernel in them, measured alone: microseconds of one dispatch, ms of all. */
  step_rows?: {
    rows: number;
    ms: number;
    kernels?: Pick<ProfileRow, 'step' | 'kernel' | 'variant' | 'calls' | 'us' | 'ms' | 'percent'>[];
  }[];
  /**
   * Answers that copy from their prompts: tokens a second without drafts, times as fast with drafts by lookup where they
   * pay and in each step, and how many of an answer's drafts were verified and right.
   */
  copies?: {
    text: 'edit' | 'extract' | 'new';
    tokens: number;
    tok_s: number;
    auto: { times: number; drafted: number; accepted: number };
    always: { times: number; drafted: number; accepted: number };
  }[];
  /** Steps with drafts of a model of that shape, in turns with steps without: ms, times those without, tokens that a step took. */
  draft?: {
    shape: string;
    ms: number;
    steps: { drafts: number; ms: number; times: number; tokens: number }[];
    /** Tokens a second with `speculate: 'auto'` in those without drafts. */
    auto: number;
  };
  /** Answers forced into a form, in turns with free ones. */
  forced?: {
    states: number;
    bytes: number;
    compile_ms: number;
    first_ms: number;
    free_tok_s: number;
    forced_tok_s: number;
    ratio: number;
    readbacks: [number, number];
    created: number;
  };
  /** After a rest: tokens a second and ms to the first token, cold and warmed up. */
  idle?: { cold: [number, number]; warmed: [number, number] };
  /** Second turns: tokens of the first prompt, of the second, those not read again, ms to the first token. */
  second_turn?: { after: number; tokens: number; cached: number; ttft_ms: number }[];
  kernels?: KernelBenchRow[];
}

/** Measures a model, or random weights in a known model's shape; with `quality`, what its lane costs in quality. */
export function bench(
  options: BenchOptions,
  onProgress: (progress: BenchProgress) => void,
  signal: AbortSignal,
  compile: (description: string, lenient: boolean) => Promise<Made>,
): Promise<BenchReport | QualityReport>;

export default function init(module?: { module_or_path: URL | string | Response }): Promise<unknown>;
