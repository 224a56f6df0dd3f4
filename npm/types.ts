import type { ErrorCode } from './errors.ts';
import type { FetchingOptions, GenerateOptions } from './options.generated.ts';

export type {
  EmbedOptions,
  FetchingOptions,
  GenerateOptions,
  LoadOptions,
  PlanOptions,
  RerankOptions,
} from './options.generated.ts';

/** How numbers are computed: reference quality, half-precision activations, or int8 activations. */
export type Lane = 'exact' | 'float' | 'f16' | 'fast';

/** What computes: a GPU, the CPU, or a GPU and, where there is none but in software, the CPU. */
export type Device = 'auto' | 'gpu' | 'cpu';

/** One message of a conversation; it goes through the model's own chat template. */
export interface Message {
  /** The speaker. */
  role: 'system' | 'user' | 'assistant' | 'tool';
  /** Text. An assistant's message that only calls tools may have null. */
  content: string | null;
  /** Name of the speaker, where the template knows one; for role `tool`, the tool's name. */
  name?: string;
  /** Tools that the assistant called in this message. */
  tool_calls?: ToolCall[];
  /** Which call a message of role `tool` answers. */
  tool_call_id?: string;
  /** What the assistant thought before it said this, for templates that know it. */
  reasoning_content?: string;
}

/**
 * What a picture can be: an address (`data:`, `blob:`, `https:`; relative ones against the page), an encoded PNG, JPEG, WebP or whatever else the browser
 * decodes, pixels, or an element that shows one. Where nothing decodes pictures (Node.js, Deno, Bun): pixels, `{ width, height, data }` with RGBA bytes.
 */
export type PictureSource =
  | string
  | URL
  | Blob
  | ImageBitmap
  | ImageData
  | { width: number; height: number; data: Uint8ClampedArray | Uint8Array }
  | HTMLCanvasElement
  | OffscreenCanvas
  | HTMLImageElement
  | HTMLVideoElement
  | VideoFrame;

/**
 * A part of a message: text, or a picture, as OpenAI's clients give it by its address or as it is. With `detail: 'low'` the picture is made
 * smaller where a side is longer than 512 pixels; `auto`, `high` and `original` leave it as it is.
 */
export type MessagePart =
  | { type: 'text'; text: string }
  | { type: 'image_url'; image_url: string | { url: string; detail?: string | null } }
  | { type: 'image'; image: PictureSource };

/** A message that shows pictures, for models that read them. */
export interface PicturedMessage extends Omit<Message, 'role' | 'content'> {
  /** The speaker. */
  role: 'system' | 'user' | 'tool';
  /** Texts and pictures, in their order. */
  content: readonly MessagePart[];
}

/** A call of a tool by the assistant. */
export interface ToolCall {
  /** Names the call, for templates and for the message that answers it. */
  id?: string;
  /** Only functions. */
  type?: 'function';
  /** Its name, and its arguments as JSON or as an object: the template gets what it takes. */
  function: { name: string; arguments: string | Record<string, unknown> };
}

/** A file of a model: what `<input type="file">` gives, or bytes under a name. */
export type ModelFile = File | { name: string; data: Blob };

/**
 * How a model is named: a URL (relative ones against the page; outside of browsers also a path), or the files themselves. Two URLs: a GGUF model's, and that of
 * the mmproj file which reads pictures for it.
 */
export type ModelSource = string | URL | readonly (string | URL)[] | ModelFile | readonly ModelFile[] | Response;

/** An adapter: the address of a folder or of a .gguf file, `'OWNER/REPO'` on Hugging Face, or the files themselves. */
export type AdapterSource = string | URL | ModelFile | readonly ModelFile[];

/** Which adapter, and how strongly: 1 where it is not said, 0 for the model alone. */
export type AdapterChoice = string | { readonly name: string; readonly scale?: number };

/** Options of {@link Adapters.load}. */
export interface AdapterOptions {
  /** What requests call it. Default: the name of its file or folder. */
  name?: string;
  /** Aborts the loading: it rejects with ABORTED. */
  signal?: AbortSignal;
  /** Called as files arrive. */
  onProgress?: (progress: Progress) => void;
  /** Sent as `Authorization: Bearer`, and never stored. */
  token?: string;
  /** Takes the place of the browser's `fetch`. */
  fetch?: CustomFetch;
}

/** A LoRA adapter that is loaded. */
export interface LoadedAdapter {
  /** What requests call it. */
  name: string;
  /** The largest rank of its products. */
  rank: number;
  /** Modules that it touches, in all layers. */
  modules: number;
  /** Numbers that it has. */
  parameters: number;
}

/** What can take the place of the browser's `fetch`: gets the address and the headers to send, among them `Range`. */
export type CustomFetch = (
  url: string,
  init: { headers: Record<string, string>; signal: AbortSignal },
) => Promise<Response>;

/** Options of what takes its time with stored models. */
export interface ModelsOptions {
  /** Called as it proceeds. */
  onProgress?: (progress: Progress) => void;
  /** Aborts it: it rejects with ABORTED. */
  signal?: AbortSignal;
}

/** Options of `models.download`. */
export interface DownloadOptions extends ModelsOptions, FetchingOptions {}

/** A model that this browser keeps, or a part of one. */
export interface StoredModel {
  /** Where it came from. */
  url: string;
  /** Bytes that are here. */
  bytes: number;
  /** Bytes in all; null where the server did not say. */
  total: number | null;
  /** Whether all of it is here. */
  complete: boolean;
  /** Its files: bytes that are here, and in all (null where the server did not say). */
  files: { name: string; bytes: number; total: number | null }[];
  /** When its first byte arrived, in milliseconds since 1970. */
  created: number;
  /** When it was last opened, in milliseconds since 1970; null where it never was. */
  lastUsed: number | null;
}

/** What {@link Engine.embed} gives. */
export interface Embeddings {
  /** The vector of each text, in their order. */
  vectors: Float32Array[];
  /** Tokens of all texts, with what the model wants around them. */
  tokens: number;
  /** Texts that were longer than the model reads, and were cut there: {@link EmbedOptions.truncate}. */
  truncated: number;
  /** How long it took, in milliseconds. */
  ms: number;
}

/** What {@link Engine.rerank} gives. */
export interface Ranking {
  /** The best first: a document's place in the list, and its score from 0 to 1. */
  ranking: { index: number; score: number }[];
  /** Tokens of all documents, each with the question. */
  tokens: number;
  /** Documents that with the question were longer than the model reads, and were cut there. */
  truncated: number;
  /** How long it took, in milliseconds. */
  ms: number;
}

/** What {@link Engine.plan} says. All sizes are bytes. */
export interface LoadPlan {
  /** Whether there is nothing in `problems`. */
  fits: boolean;
  /** What does not fit, for people. */
  problems: string[];
  /** Positions that were asked for, or the model's own where nothing was. */
  context: number;
  /** How the cache holds keys and values. */
  kv: 'f32' | 'f16' | 'q8';
  /** What the header says of the model: as {@link EngineInfo}. */
  model: EngineInfo['model'];
  /** Where the model is: what the name of a repository was resolved to. Absent for files. */
  url?: string;
  /** Bytes of all files; of those that are stored already; of those that are to be fetched and stored. */
  download: { total: number; stored: number; missing: number };
  /** `available`: what can still be written, where the browser says so (Chrome says no more than 10 GiB, which then is null). */
  storage: { kind: StorageKind; available: number | null; reason?: string };
  /** GPU memory with a full context. `activations` counts all but weights and the cache: also what the cache takes while it grows, and copies of chats that
   * a prompt may come back to. `encoder`: what reads pictures, which is loaded with the first of them. `draft`: the draft model with all of its own, which `total`
   * counts, too. `beside`: what other models take, those of this page and those that were named. */
  memory: {
    weights: number;
    kv: number;
    activations: number;
    encoder: number;
    draft: number;
    total: number;
    beside: number;
  };
  /** What loading the draft model alone would take, where there is one: its download and storage are beside the model's. */
  draft?: LoadPlan;
  /** The largest buffer. */
  largest: { name: string; bytes: number };
  /** Bytes: the largest buffer and the largest binding of this GPU. Browsers do not tell how much memory a GPU has: `memory` is what you allowed. */
  limits: { buffer: number; binding: number; memory: number | null };
  /** Where it does not fit: what would. */
  alternatives: { context: number; kv: 'f32' | 'f16' | 'q8'; total: number }[];
}

/**
 * Where a model lies: in this browser's private storage (outside of browsers the user's cache folder), in the page's memory (nothing is kept: a private window, `cache: false`, a Response), or
 * in files of your own.
 */
export type StorageKind = 'opfs' | 'memory' | 'local';

/** How much is logged: each level includes those before it. */
export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug';

/** What takes the log's lines, as `console` does. */
export interface Logger {
  /** What has ended an engine: a Worker that is gone, a GPU device that cannot be replaced. */
  error(text: string): void;
  /** What is not as it should be and has been dealt with: attempts to download again, fewer connections, a GPU device that was lost. */
  warn(text: string): void;
  /** What is done: downloads that begin and go on, models that are loaded, with how long it took. */
  info(text: string): void;
  /** Each answer, with its tokens and speed. */
  debug(text: string): void;
}

/** What {@link configure} takes. */
export interface Configuration {
  /**
   * Where `millrace_bg.wasm` lies, where it is not beside `worker.js` or is not found by a bundler; the package's other modules have to lie beside it then. A relative address is resolved against the
   * page; another origin must allow this one by CORS.
   */
  wasmUrl?: string | URL;
  /** Where `worker.js` lies, where a bundler does not find it. It may be another origin, if the content security policy allows `blob:` Workers. */
  workerUrl?: string | URL;
  /** What computes where a load does not say. Default `auto`. */
  device?: Device;
  /** GPU memory that all models of this page may take together, in bytes, where a load does not say: as {@link LoadOptions.memory}. */
  memory?: number;
  /** The least severe level that is logged. Default `warn`. */
  logLevel?: LogLevel;
  /** Where log messages go. Default `console`. */
  logger?: Logger;
}

/** How full the browser's storage is: bytes of models, bytes that can still be written as far as it tells, and whether it promises to keep them. */
export interface StorageUsage {
  /** Bytes of models. */
  used: number;
  /** Bytes that can still be written; null where the browser does not say. */
  available: number | null;
  /** Whether the browser promises to keep them. */
  persistent: boolean;
}

/** How a look at all bytes of a stored model went: bytes, and the pieces that were not what they were and have been removed. */
export interface Verified {
  /** Bytes that were read and compared. */
  bytes: number;
  /** Pieces that were not what they were, and have been removed. */
  bad: { file: string; shard: number }[];
}

/** What can happen to a download. */
export type DownloadEvent =
  | 'started'
  | 'resumed'
  | 'retry'
  | 'offline'
  | 'connections'
  | 'restarted'
  | 'damaged'
  | 'waiting';

/**
 * Where loading, or the reading of a prompt, stands. `loaded` and `total` are bytes, pipelines while compiling, patches of pictures, tokens of a
 * prompt. `total` is 0 where it is not known yet.
 */
export interface Progress {
  /** What is being done: `upload` is onto the GPU; `queue`, `pictures` and `prompt` belong to {@link Engine.generate}. */
  phase: 'download' | 'verify' | 'read' | 'upload' | 'compile' | 'queue' | 'pictures' | 'prompt';
  /** How much is done. */
  loaded: number;
  /** How much there is; 0 where that is not known yet. */
  total: number;
  /** The file at hand. */
  file?: string;
  /** Whether the bytes come from this browser's storage and not from the network. */
  cached: boolean;
  /** Why the next load will need the network again, where the bytes cannot be kept. */
  reason?: string;
  /**
   * What has just happened to a download, where this report tells of it: it began, or went on with what is here; something failed and is tried
   * again; the browser is offline and that is waited for; the server takes fewer connections, or one more is tried again; a file begins anew; a
   * piece arrived damaged; another tab or engine is downloading the same model.
   */
  event?: DownloadEvent;
  /** The event as a message for the user, with the reason. */
  note?: string;
  /** Phase `queue` alone: how many requests to this engine come first, the one at work counted; 0 as the turn comes. */
  ahead?: number;
  /** It is about the draft model. */
  draft?: boolean;
}

/** A kernel of a decode step, as used for one kind of step. */
export interface ProfileRow {
  /** What it does in a layer, e.g. `qkv`. */
  step: string;
  /** The shader. */
  kernel: string;
  /** The variant of the shader. */
  variant: string;
  /** Dispatches a token. */
  calls: number;
  /** GPU time of one dispatch, in microseconds. */
  us: number;
  /** GPU time of a token, in milliseconds. */
  ms: number;
  /** Share of a token's GPU time. */
  percent: number;
  /** Bytes of weights and cache read a token. */
  bytes: number;
  /** Speed at which they are read, in 10^9 bytes a second. */
  gb_s: number;
  /** That speed as a share of what the device streams. */
  percent_of_streaming: number;
  /** Threads with something to do, of those launched. */
  active: number;
}

/** What to continue: text exactly as it is, a conversation, or token ids. */
export type Input = string | readonly (Message | PicturedMessage)[] | { tokens: readonly number[] };

/** A token and its log probability. */
export interface ScoredToken {
  /** Its id in the vocabulary. */
  id: number;
  /** What it adds to the text; U+FFFD for bytes that are no whole character. */
  text: string;
  /** The token's bytes. */
  bytes: number[];
  /** Natural logarithm of its probability. */
  logprob: number;
}

/** A token of an answer, and the likeliest tokens in its place, the likeliest first. */
export interface TokenLogprobs extends ScoredToken {
  /** As many as were asked for. */
  top: ScoredToken[];
}

/**
 * A part of an answer to messages: what the model says, what it thinks, and which tools it calls. Parts come in order; a call's arguments are JSON
 * that grows until its end. However the text comes, the parts add up to the same.
 */
export type AnswerPart =
  | { type: 'content'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'tool_call'; index: number; id: string; name: string }
  | { type: 'arguments'; index: number; text: string }
  | { type: 'tool_call_end'; index: number };

/** A piece of an answer. */
export interface TokenPiece {
  /** Whole characters; empty while one is incomplete or may begin a stop text. */
  text: string;
  /** Ids that became known with it. */
  tokens: readonly number[];
  /** Their log probabilities, where asked for; the end token has none. */
  logprobs?: readonly TokenLogprobs[];
  /** Of an answer to messages: what it says, thinks and calls, as far as that is decided. */
  parts?: readonly AnswerPart[];
}

/** The whole answer. */
export interface GenerateResult {
  /** The answer, without what stopped it. */
  text: string;
  /**
   * Of an answer to messages: the answer as a message of the assistant, with thoughts and calls of tools apart, as
   * templates take it back.
   */
  message?: Message;
  /** Its token ids. */
  tokens: number[];
  /** Log probabilities of the answer's tokens, where asked for; the end token has none. */
  logprobs?: TokenLogprobs[];
  /** Tokens of the prompt. */
  prompt_tokens: number;
  /** Tokens of the prompt that did not have to be read. */
  cached_tokens: number;
  /** Tokens in the context at the end: the prompt and the answer, without what shifts have left out. */
  context_tokens: number;
  /** Drafts that were verified: tokens guessed from where the text stood before. */
  drafted_tokens: number;
  /** Drafts that were right, and are in the answer. */
  accepted_tokens: number;
  /** How often the context was full and older tokens were left out. */
  shifts: number;
  /** How often the device was lost on the way and the answer went on on another. */
  recoveries: number;
  /** `abort`: the consumer left the loop or called `stop()`. */
  finish_reason: 'stop' | 'length' | 'abort';
  /** The seed that was used. */
  seed: number;
  /** Milliseconds, and tokens a second. `ttft_ms`: from the call to the first token; `pictures_ms` of it: encoding the prompt's pictures, loading their encoder too. */
  timings: {
    load_ms: number;
    pictures_ms: number;
    prefill_ms: number;
    ttft_ms: number;
    decode_ms: number;
    prefill_tok_s: number;
    decode_tok_s: number;
  };
  /** What this generation alone cost, prefill apart. `created`: buffers, bind groups and pipelines made while decoding. */
  counters: {
    submits: number;
    dispatches: number;
    readbacks: number;
    readback_bytes: number;
    prefill_submits: number;
    gpu_bytes: number;
    created: number;
  };
  /** The GPU that it was made on. */
  adapter: AdapterInfo;
  /** What the answer was forced to be, where it was: by `schema`, `regex`, `choice`, or calls of tools. */
  grammar?: CompiledGrammar;
  /** Name of the lane and the variants. */
  plan: string;
  /** (V) raw logits of the last prompt position, where asked for. */
  logits?: Float32Array;
  /** Time, bytes and busy threads of each kernel of a decode step, where asked for. */
  profile?: ProfileRow[];
  /** (T, V) raw logits of the prompt positions from `logitsFrom` on, where asked for. */
  all_logits?: Float32Array[];
}

/** A grammar as the GPU walks it. */
export interface CompiledGrammar {
  /** States of the automaton. */
  states: number;
  /** Bytes of it on the GPU. */
  bytes: number;
  /** How long compiling took, in milliseconds; 0 where it was at hand from before. */
  ms: number;
  /** What of the schema says nothing here: what `lenient` left out, and keywords that JSON Schema does not know. */
  warnings: SchemaWarning[];
}

/** What of a schema is not enforced. */
export interface SchemaWarning {
  /** Where in the schema, as a JSON pointer. */
  pointer: string;
  /** The keyword. */
  keyword: string;
  /** Why. */
  reason: string;
}

/** The GPU. */
export interface AdapterInfo {
  /** The vendor, as the browser says. */
  vendor: string;
  /** Its name, or what the browser tells instead. */
  name: string;
  /** Optional features of WebGPU that the engine uses of it. */
  features: string[];
  /** How it is reached: `webgpu` in a page; `cpu` where it is the CPU without one. */
  backend: 'webgpu' | 'vulkan' | 'metal' | 'cpu';
  /** Smallest and largest subgroup; `[0, 0]` where subgroups are not in use. */
  subgroup: [number, number];
  /** Bytes of the largest buffer. */
  max_buffer: number;
  /** Bytes of the largest weight binding: the device's limit, or less where `maxBinding` says so. */
  max_binding: number;
  /** Bytes of the device's largest binding. */
  binding_limit: number;
  /** Workgroups a dimension of a dispatch. */
  max_workgroups: number;
  /** Invocations of a workgroup. */
  max_invocations: number;
  /** Whether it computes on the CPU: by itself, where `backend` is `cpu`, or as a GPU in software. */
  software: boolean;
  /** Why it is the CPU, where `auto` chose it. */
  instead?: string;
  /** Whether it keeps subnormal halves, as seen when it was opened. */
  native_halves: boolean;
  /**
   * How long a wait for an idle GPU takes, in milliseconds, as measured when the device was opened: what the browser adds to each readback. Some
   * look only every 100 ms what the GPU has done; chunks are then as long as to hide it.
   */
  poll_ms: number;
  /**
   * `poll_ms` with empty submissions meanwhile, measured where `poll_ms` is over 50. They are made where this is at
   * most half of it.
   */
  pumped_poll_ms?: number;
}

/** What belongs to a prompt beside its messages: {@link Engine.tokenize}. */
export type TokenizeOptions = Pick<GenerateOptions, 'tools' | 'templateOptions'>;

/** What this browser offers to engines, without a model: {@link Engine.supported}. */
export interface Support {
  /** Whether an engine can be loaded here, by what {@link configure} says of `device`. */
  supported: boolean;
  /** Where there is no GPU: the code that {@link Engine.load} would reject with if only one would do. */
  code?: ErrorCode;
  /** The error's message, which says what to do. */
  reason?: string;
  /** The GPU, as far as a page may know it; null where there is none. `software`: it computes on the CPU; `device: 'auto'` takes the CPU itself. */
  adapter: {
    vendor: string;
    architecture: string;
    description: string;
    software: boolean;
    /** Whether its half-precision arithmetic and its subgroups can be used, which most fast kernels want. */
    f16: boolean;
    subgroups: boolean;
    /** Bytes of the largest buffer and of the largest binding. */
    max_buffer: number;
    max_binding: number;
  } | null;
  /** Whether models can be kept, in how many bytes as far as the browser tells, and whether it promises not to remove them. */
  storage: { kept: boolean; available: number | null; persistent: boolean; reason?: string };
  /** Gigabytes of the machine's memory, at most 8 or so: browsers round it. Null where they do not tell. */
  memory: number | null;
}

/** One dispatch of the plan. */
export interface PlanStep {
  /** `short`, `few`: prompts, and ends of prompts, of up to 64 and 8 tokens, once the passes for them have been compiled in idle time. */
  pass: 'prefill' | 'short' | 'few' | 'decode' | 'four' | 'eight';
  /** Where in the model. */
  step: string;
  /** The shader. */
  kernel: string;
  /** The variant of the shader. */
  variant: string;
  /** Workgroups in x, y and z. */
  grid: [number, number, number];
  /** Bytes of weights and cache that the step reads. */
  bytes: number;
  /** Why this variant was chosen. */
  reason: string;
  /** Whether the GPU or the CPU runs it. */
  where: 'gpu' | 'cpu';
}

/** Detail of the event `devicelost`. */
export interface DeviceLost {
  /**
   * `destroyed`: `destroy()` was called on the device. `unknown`: the driver or the browser's GPU process failed, or
   * the GPU was taken away.
   */
  reason: 'destroyed' | 'unknown';
  /** What the browser says of it, for people. */
  message: string;
  /** Whether the engine is loading the model onto another device; if not, it has given up, and generations reject with DEVICE_LOST. */
  recovering: boolean;
}

/** Detail of the event `devicerestored`. */
export interface DeviceRestored {
  /** From the moment when the loss was noticed, in milliseconds. */
  ms: number;
}

/** Events of an {@link Engine}. */
export interface EngineEventMap {
  /**
   * The device was lost: a GPU, or a thread of the CPU's. The engine opens another, loads the model from where it is kept and goes on with what it was doing: there is
   * nothing to do but to tell the user. A second loss within a minute is not recovered from.
   */
  devicelost: CustomEvent<DeviceLost>;
  /** Another device has taken the place of the lost one; `engine.info` is about it. Conversations go on as if nothing had happened. */
  devicerestored: CustomEvent<DeviceRestored>;
}

/** What is loaded, on what, and how it runs. */
export interface EngineInfo {
  /** The package's version. */
  version: string;
  /** `types`: how many tensors have each type. `chat`: whether there is a chat template. `thinks`: whether an answer begins within a thought. `template_options`: what of {@link GenerateOptions.templateOptions} the chat template reads, such as `enable_thinking`. */
  model: {
    name: string | null;
    architecture: string;
    parameters: number;
    context: number;
    vocab: number;
    layers: number;
    bytes: number;
    types: Record<string, number>;
    /** Types that became others while loading: those that no kernel reads, and what was quantized. */
    converted: { from: string; to: string; tensors: number; bytes_before: number; bytes_after: number }[];
    /** Tensors that are no part of the language model, by what their names begin with: towers that read pictures, layers that guess further tokens. */
    left_out: { what: string; tensors: number; bytes: number }[];
    chat: boolean;
    thinks: boolean;
    template_options: string[];
    /** Whether messages may have pictures. */
    pictures: boolean;
    /** What becomes of a text where the model does not write: an embedding (`mean`, `cls`, `last`) or a score (`rank`). */
    pooling?: 'mean' | 'cls' | 'last' | 'rank';
    /** Numbers of an embedding. */
    dimensions?: number;
    /** What {@link EmbedOptions.prompt} can name, and the words. */
    prompts?: Record<string, string>;
  };
  /** The GPU. */
  adapter: AdapterInfo;
  /** The lane in use. */
  lane: Lane;
  /** Why, where the lane is `auto`: what was measured when a model with such products was first loaded here, and is kept since. `rates`: 10^9 operations a
   * second, and what a dispatch takes; `times`: microseconds of one of the model's products with one row, and by row with many. */
  lane_choice?: {
    lane: Lane;
    reason: string;
    rates?: { dot4: number; f32: number; f16: number; dispatch_us: number; subgroup: number };
    times?: { lane: Lane; decode_us: number; prompt_us: number }[];
  };
  /** The lanes that this device offers. */
  lanes: Lane[];
  /** Bytes on the GPU: of weights, of the cache as it is and once the context is full, of the rest, of all, at most. `spare`: what the cache takes beside while
   * it grows, and copies of chats that a prompt may come back to, at most. `wasm`: bytes of the page's memory. */
  memory: {
    weights: number;
    kv: number;
    kv_full: number;
    activations: number;
    spare: number;
    total: number;
    peak: number;
    wasm: number;
  };
  /** Most positions, prompt and answer together. */
  context: number;
  /** Answers at one time; those beyond wait. */
  concurrency: number;
  /** Opening, downloading and uploading, in milliseconds. */
  load_ms: number;
  /** The weights' part of `load_ms`: waiting for their bytes, repacking or quantizing them, handing them to the GPU. */
  load_times: { read: number; encode: number; write: number };
  /** Kernels that ran on known data when the model was loaded. Those that `wrong` names are not used. `skipped`: why none ran. */
  self_test: { checked: number; ms: number; wrong: string[]; skipped?: string };
  /** Adapters that are loaded. */
  adapters: LoadedAdapter[];
  /** The draft model, where one is loaded ({@link LoadOptions.draft}). */
  draft?: EngineInfo['model'];
  /** What is not as it should be, for people: empty on a GPU that computes as it should. The console shows them as well. */
  warnings: string[];
  /** Every dispatch of a pass and of a decode step, in order. */
  plan: PlanStep[];
  /** Where the model is kept: `opfs`, `local` (your own files), or not at all. `cached`: this load needed no network. `reason`: why it is not kept. `evicted`: it
   * was stored, and the browser has removed it since to free space. */
  storage: { kind: StorageKind; cached: boolean; reason?: string; evicted?: boolean };
}
