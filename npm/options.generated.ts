// Made of options.toml by `npm run options`: change that.
import type { Rows } from './check.ts';
import type { DownloadControl } from './control.ts';
import type { AdapterChoice, CustomFetch, Device, Lane, LoadPlan, ModelSource, Progress, TokenPiece } from './types.ts';

/** How a model is fetched and kept. */
export interface FetchingOptions {
  /**
   * Whether to compare what is stored with its hashes before it is used; after a crash it is done anyway. Default
   * false.
   */
  verify?: boolean;
  /** Requests at a time. 1 to 16. Default 4. */
  connections?: number;
  /** Size of a piece that is stored, hashed and fetched again as one. 65536 to 67108864 bytes. Default 33554432. */
  shardBytes?: number;
  /** Sent as `Authorization: Bearer` to the model's own origin, and never stored. Default: none is sent. */
  token?: string;
  /**
   * Which file of a repository to take, where `model` is the name of one: `'Qwen3-0.6B-Q8_0.gguf'`. Default: see
   * `model`.
   */
  file?: string;
  /**
   * Where repositories are that `model` names: an address with Hugging Face's interface. Default
   * `https://huggingface.co`.
   */
  hub?: string;
  /** Takes the place of the browser's `fetch`. */
  fetch?: CustomFetch;
  /** Pauses the download and lets it go on. */
  download?: DownloadControl;
}

/** Options of {@link Engine.load}. */
export interface LoadOptions extends FetchingOptions {
  /**
   * A .gguf file (any part of a split one), a folder of safetensors, or a manifest.json; or the name of a repository
   * on Hugging Face, `'OWNER/REPO'`, with `@REVISION` and `:Q4_K_M` behind it where they matter. What reads pictures
   * for a .gguf file (mmproj) is found in its repository, or named: `[address, mmprojAddress]`, `#mmproj=FILE` behind
   * the address, `#mmproj=none` for none. Of several .gguf files the one of that quantization or `file` is taken, else
   * Q4_K_M or the next best; without any the folder of safetensors. An address relative to the page that looks like
   * such a name begins with `./`.
   */
  model: ModelSource;
  /**
   * A tokenizer.json for a .gguf whose way of cutting texts is not known here, or is wrong: its address or the file.
   * The tokens must be the model's. Default: the model's own.
   */
  tokenizer?: string | URL | Blob;
  /**
   * A smaller model with the same tokens that drafts for `model`, as `generate`'s `speculate` says: an address, files
   * or a repository as of `model`. It is loaded after `model` onto the same device and in the same lane, and kept and
   * fetched as a model of its own. Errors: BAD_OPTION where its tokens are others, UNSUPPORTED_MODEL where either of
   * the two does not write. Default: there is none.
   */
  draft?: ModelSource;
  /** Called as loading proceeds. */
  onProgress?: (progress: Progress) => void;
  /** Aborts the loading: it rejects with ABORTED. */
  signal?: AbortSignal;
  /**
   * How activations are held: f32 in `exact` and `float` (whose cache has halves), half precision where the GPU has it
   * in `f16`, int8 in `fast`. `auto`: what the GPU is measured to be best at when a model is first loaded, as
   * `info.lane_choice` says. Default `auto`.
   */
  lane?: Lane | 'auto';
  /**
   * What computes. `auto` takes a GPU, and where there is none but in software the CPU, of which the engine's warnings
   * and `info.adapter.instead` tell; `cpu` runs a module of WebAssembly that is fetched for it; `gpu` takes a GPU in
   * software, too, and fails without any. Default: what `configure` says, else `auto`.
   */
  device?: Device;
  /**
   * How the cache holds keys and values: `q8` (int8 with a scale for each 32) takes 56 % of the memory of `f16`.
   * Default: `f32` in lane exact, `f16` in the others.
   */
  kv?: 'f32' | 'f16' | 'q8';
  /**
   * Positions to allow, prompt and answer together. 1 to 16777216 positions. Default: what the model was trained for,
   * which is also the most.
   */
  context?: number;
  /**
   * Answers at one time: those beyond wait. Each has room for a whole context, which `plan` counts. Answers take their
   * steps together, which read the weights once for all, each with its own sampling, penalties, log probabilities and
   * grammar. They take turns on the CPU; an answer with `speculate: 'always'` takes turns with the others. 1 to 8
   * answers. Default: 1.
   */
  concurrency?: number;
  /** Tokens a readback. 1 to 32 tokens. Default: follows the measured speed. */
  chunk?: number;
  /** A part of the name of the GPU to use. NO_ADAPTER where none matches. Default: what the browser takes for fast. */
  adapter?: string;
  /**
   * Quantizes weights that are f32, f16 or bf16 while loading, as llama.cpp's quantizer does: `q4_k` is its Q4_K_M,
   * and has that name, too. An error where the model is quantized already. What reads pictures becomes `q8_0`. It
   * takes time at every load: convert a model that many will load. Default: as they are.
   */
  quantize?: 'q4_0' | 'q4_k' | 'q4_k_m' | 'q8_0' | 'f16';
  /**
   * What becomes of a text: `none` goes on with it; `mean`, `cls` and `last` make an embedding of it, the mean of all
   * rows, the first token's or the last one's; `rank` makes a score of the answer, yes or no. `auto`: as the model's
   * files say. A folder of Qwen3-Reranker does not say it: it needs `rank`. Default `auto`.
   */
  pooling?: 'auto' | 'none' | 'mean' | 'cls' | 'last' | 'rank';
  /**
   * Kernel variants to force, by operation. UNKNOWN_KERNEL where there is no such one. Default: `info.plan` says of
   * each why it was chosen.
   */
  kernels?: Record<string, string>;
  /**
   * Whether to use subgroup operations where the GPU has them; false is for finding faults in a driver. Default true.
   */
  subgroups?: boolean;
  /** Whether to keep the model in this browser's storage. Default true. */
  cache?: boolean;
  /**
   * Whether to measure variants of kernels in idle time after loading, two seconds at most, and to go on with the
   * fastest. What is found is kept in this browser's storage for the next load. Another variant may round otherwise:
   * where a seed must give the same text before and after, switch it off. Default: true, but not on GPUs in software.
   */
  tune?: boolean;
  /**
   * Whether the engine gets a Worker of its own. `false` runs it in the thread that calls, which must be a dedicated
   * Worker of yours (elsewhere BAD_OPTION): for pages that generate in a Worker anyhow. Repacking weights, reading a
   * tokenizer and recording steps take their time there. Engines of one such Worker share the WebAssembly memory,
   * which does not shrink before the Worker ends, and a crash of one ends them all. Default: true.
   */
  worker?: boolean;
  /**
   * GPU memory that all models of this page may take together, each with a full context. A load that would take more
   * rejects with OUT_OF_MEMORY before its weights are fetched; where `context` is not set, it takes the longest one
   * that fits, and warns. At least 1. Default: what `configure` says, on phones what their systems allow a page (iOS
   * 1.1 GB, Android a third of the memory), else no limit but those of the GPU's buffers.
   */
  memory?: number;
}

/** Options of {@link Engine.plan}: those of a load, and what is to share the memory. */
export interface PlanOptions extends LoadOptions {
  /**
   * What is to share the memory and is not loaded yet: plans of other models. Engines of this page count without being
   * named. Default: none.
   */
  beside?: readonly LoadPlan[];
}

/** Options of {@link Engine.generate}. */
export interface GenerateOptions {
  /**
   * Called while others come first, phase `queue`: at once, and whenever `ahead` changes, in order, the last time with
   * 0. Then as the prompt's pictures are encoded, phase `pictures`: those that are new, after each tile and within
   * large ones. Then as it is read, phase `prompt`: after each few hundred tokens, and when all are. Where the GPU
   * device is lost on the way, the phases of loading come as well.
   */
  onProgress?: (progress: Progress) => void;
  /** Aborts the generation: iteration and promise reject with code ABORTED. */
  signal?: AbortSignal;
  /** Tokens to generate at most. At least 1. Default: what the context has room for. */
  maxTokens?: number;
  /** Divides the logits; 0 is greedy. 0 to 100. Default 0.7. */
  temperature?: number;
  /** Only the k likeliest tokens; 0 is all of them. Default 0. */
  topK?: number;
  /** Only the likeliest tokens that together reach this probability; 1 is all of them. Above 0, up to 1. Default 1. */
  topP?: number;
  /** Only tokens at least this likely relative to the likeliest; 0 is all of them. 0 to 1. Default 0. */
  minP?: number;
  /** The same seed gives the same text. Default: a random one. */
  seed?: number;
  /** Taken from the logit of each token that is in the answer; 0 is off. -2 to 2. Default 0. */
  presencePenalty?: number;
  /** Taken from the logit of a token for each time that it is in the answer; 0 is off. -2 to 2. Default 0. */
  frequencyPenalty?: number;
  /**
   * Divides the logits of tokens of the prompt and of the answer (multiplies those below 0); 1 is off. Above 0.
   * Default 1.
   */
  repetitionPenalty?: number;
  /** Added to the logits of tokens, by id: -100 forbids, 100 forces. -100 to 100. */
  logitBias?: Readonly<Record<number, number>>;
  /**
   * Returns the log probability of each token, and of so many of the likeliest in its place. They are the model's own,
   * before penalties, bias and temperature. They arrive with the tokens' ids: there is no further readback. 0 to 20.
   * Default: none.
   */
  logprobs?: number;
  /** Called with each piece of the answer before it is iterated over, with its tokens; pieces of text may be empty. */
  onTokens?: (piece: TokenPiece) => void;
  /** Ends the answer before any of these texts. Up to 64 of up to 4096 bytes each. Default: none. */
  stop?: string | readonly string[];
  /** Continues past the model's end-of-answer token. Default false. */
  ignoreEos?: boolean;
  /**
   * What happens when prompt and answer fill the context. `error`: a prompt that leaves no room rejects with
   * CONTEXT_FULL, an answer ends with `length`. `shift`: the older half of what follows the system prompt is left out,
   * and what remains is read again; without `maxTokens` the answer then goes on until the model ends it. Default
   * `error`.
   */
  overflow?: 'error' | 'shift';
  /**
   * Whether steps read drafts: what the draft model that was loaded with `draft` makes of the text so far, or the
   * tokens that came after the latest place where the text's end stood before, in the prompt or in the answer. Those
   * that are what the model chooses cost little more than one token together. `auto` takes as many as have paid in the
   * text so far, of either kind, none in lane exact and on a GPU in software; `always` drafts in each step, by the
   * draft model where there is one. Texts that need penalties, bias, log probabilities or a grammar have no drafts,
   * nor have answers that take their steps together with others; a prompt with pictures has none of a draft model. In
   * lane exact the text is the same with and without; in the others steps of several tokens round otherwise, so that a
   * seed repeats its text for certain with `off`. Default: `auto` where a draft model is loaded, else `off`.
   */
  speculate?: 'auto' | 'off' | 'always';
  /**
   * The adapter that the answer is read and written with: the name that `engine.adapters.load` gave it, or `{ name,
   * scale }`, whose scale (-100 to 100, 1 where it is left out) multiplies what the adapter adds. Scale 0 is the model
   * alone. What was read of a conversation with another adapter is read again. Default: none: the model alone.
   */
  adapter?: AdapterChoice;
  /**
   * Whether what the engine has read of the prompt's beginning for the generation before is not read again. An earlier
   * answer's part of it was made by decoding and not by reading, which may round otherwise: where a seed must give the
   * same text after any history, use false. Default true.
   */
  reuse?: boolean;
  /** Tools (JSON schemas) for the chat template. */
  tools?: readonly object[];
  /**
   * Which of the tools the answer calls. `auto`: the model decides; what it writes into a call of a tool with `strict:
   * true` is forced to satisfy the tool's schema. `none`: none, and the prompt does not tell of them. `required`: at
   * least one. The name of a tool: that one. Calls that are required are forced, by the format of the model's family.
   * Default `auto`.
   */
  toolChoice?: string;
  /** Whether an answer whose calls are forced may have several. Default true. */
  parallelToolCalls?: boolean;
  /**
   * Forces the answer to be JSON that satisfies this JSON Schema (draft 2020-12), with its keys in the schema's order;
   * `{}` is any JSON. A thought before it stays free. What the schema says and the engine cannot enforce rejects with
   * UNSUPPORTED_SCHEMA. Default: any text.
   */
  schema?: Record<string, unknown>;
  /**
   * Forces the answer to match this regular expression (ECMA-262, without backreferences) as a whole. Default: none.
   */
  regex?: string;
  /** Forces the answer to be one of these texts. Up to 10000 of up to 65536 bytes each. Default: any text. */
  choice?: string | readonly string[];
  /**
   * Leaves out what of a schema cannot be enforced, instead of rejecting; `grammar.warnings` of the result lists it.
   * Default false.
   */
  lenient?: boolean;
  /** Further variables for the chat template. */
  templateOptions?: Record<string, unknown>;
  /**
   * What a control token is that a message, a tool or a document spells, as `<|im_end|>`. `text`: nothing but its
   * letters, so that the author of a message cannot end it and begin another one. `parse`: that token. What the
   * assistant has said is always parsed, and so is `prompt`. Default `text`.
   */
  specialTokens?: 'text' | 'parse';
  /** Returns the raw logits of the last prompt position. Default false. */
  logits?: boolean;
  /**
   * With `logits`: returns those of every prompt position from this one on, as `all_logits`. Default: none of them.
   */
  logitsFrom?: number;
  /** Also measure each kernel of a decode step at the end of the answer. Default false. */
  profile?: boolean;
}

/** Options of {@link Engine.embed}. */
export interface EmbedOptions {
  /**
   * The name of one of the model's prompts, which are put before texts: `'query'` before questions, where texts that
   * are searched get none or `'document'`. `info.model.prompts` has them. Words of your own are put before the texts
   * themselves. Default: the model's own default, which most do not have.
   */
  prompt?: string;
  /**
   * How many numbers of each embedding are kept, from the first on: for models that are trained for that (Matryoshka).
   * 1 to 65536. Default: all that the model has.
   */
  dimensions?: number;
  /** Whether embeddings are of length 1, after they are cut: their products then are cosines. Default true. */
  normalize?: boolean;
  /**
   * Whether a text that is longer than the model reads is cut there, as sentence-transformers does it: `truncated` of
   * what comes back says how many were. Else it is CONTEXT_FULL. A model reads what its folder says
   * (`max_seq_length`), and `context` tokens at most. Default true.
   */
  truncate?: boolean;
  /** Aborts it: it rejects with ABORTED. */
  signal?: AbortSignal;
}

/** Options of {@link Engine.rerank}. */
export interface RerankOptions {
  /** What documents are judged for: a sentence. Default: that of web search. */
  instruction?: string;
  /** How many of the documents are told of, the best first. At least 1. Default: all. */
  topN?: number;
  /** Aborts it: it rejects with ABORTED. */
  signal?: AbortSignal;
}

/** What a bench measures, beside how it loads. @internal */
export interface BenchRows {
  /** A model's dimensions, with random weights; a wrong name lists them. Default `llama-3.2-1b`. */
  shape?: string;
  /** A shape's weights: a mix as `quantize` makes it, or a weight type; a wrong name lists them. Default `q4_0`. */
  quant?: string;
  /** Tokens of the prompt. 1 to 100000 tokens. Default 512. */
  prompt?: number;
  /** Tokens to decode. 1 to 20000 tokens. Default 128. */
  gen?: number;
  /** Runs that are measured. 1 to 100 runs. Default 5. */
  runs?: number;
  /** Also measures each kernel of a decode step and of a prefill pass. Default false. */
  profile?: boolean;
  /** Also measures decode steps of several rows. Default false. */
  rows?: boolean;
  /** Whether the runs' steps read drafts. Default `off`. */
  speculate?: 'auto' | 'off' | 'always';
  /**
   * A known model's shape, of which random weights draft: also measures how long a step with 3, 5 and 7 drafts of it
   * takes. How many of them are right says nothing about trained models. Default: there is none.
   */
  draft?: string;
  /** Has the runs sample at temperature 1, as greedy ones repeat themselves sooner or later. Default false. */
  sampled?: boolean;
  /**
   * Also measures answers that copy from their prompts, as an edited file and as fields taken from a passage do, and
   * one that does not, each with drafts by lookup (`auto`, `always`) and without. Their texts are known: weights that
   * say them take the place of random ones, and a head beside the embedding that of a tied one. Default false.
   */
  copies?: boolean;
  /** Also compares every variant that a step could run with its twin, and measures it. Default false. */
  kernelBench?: boolean;
  /** Of `kernelBench`: only kernels with this in their names. Default: all. */
  kernelFilter?: string;
  /**
   * Also measures the time to the first token of a second turn, after a first one of 100 tokens and one of 4,000.
   * Default false.
   */
  secondTurn?: boolean;
  /**
   * Also measures the first answer after three seconds of rest, in turns with one whose GPU was warmed up
   * (`engine.warm`). Default false.
   */
  idle?: boolean;
  /**
   * Also measures decoding with answers forced into a JSON schema, in turns with free ones; with `concurrency` also of
   * several at a time. Default false.
   */
  grammar?: boolean;
  /** Whether to measure kernels' variants before the runs. Default true. */
  tune?: boolean;
  /**
   * Positions at which to compare the model's lane with the exact one, instead of speed. 1 to 100000 positions.
   * Default: speed is measured.
   */
  quality?: number;
}

/** What OpenAI's shapes call by another name only. */
export interface SharedParams {
  /** Only the k likeliest tokens; 0 is all of them. Default 0. Not among OpenAI's. */
  top_k?: number | null;
  /** Only the likeliest tokens that together reach this probability; 1 is all of them. Above 0, up to 1. Default 1. */
  top_p?: number | null;
  /**
   * Only tokens at least this likely relative to the likeliest; 0 is all of them. 0 to 1. Default 0. Not among
   * OpenAI's.
   */
  min_p?: number | null;
  /** Taken from the logit of each token that is in the answer; 0 is off. -2 to 2. Default 0. */
  presence_penalty?: number | null;
  /** Taken from the logit of a token for each time that it is in the answer; 0 is off. -2 to 2. Default 0. */
  frequency_penalty?: number | null;
  /**
   * Divides the logits of tokens of the prompt and of the answer (multiplies those below 0); 1 is off. Above 0.
   * Default 1. Not among OpenAI's.
   */
  repetition_penalty?: number | null;
  /** Added to the logits of tokens, by id: -100 forbids, 100 forces. -100 to 100. */
  logit_bias?: Readonly<Record<number, number>> | null;
  /**
   * Whether steps read drafts: what the draft model that was loaded with `draft` makes of the text so far, or the
   * tokens that came after the latest place where the text's end stood before, in the prompt or in the answer. Those
   * that are what the model chooses cost little more than one token together. `auto` takes as many as have paid in the
   * text so far, of either kind, none in lane exact and on a GPU in software; `always` drafts in each step, by the
   * draft model where there is one. Texts that need penalties, bias, log probabilities or a grammar have no drafts,
   * nor have answers that take their steps together with others; a prompt with pictures has none of a draft model. In
   * lane exact the text is the same with and without; in the others steps of several tokens round otherwise, so that a
   * seed repeats its text for certain with `off`. Default: `auto` where a draft model is loaded, else `off`. Not among
   * OpenAI's.
   */
  speculate?: 'auto' | 'off' | 'always' | null;
  /**
   * The adapter that the answer is read and written with: the name that `engine.adapters.load` gave it, or `{ name,
   * scale }`, whose scale (-100 to 100, 1 where it is left out) multiplies what the adapter adds. Scale 0 is the model
   * alone. What was read of a conversation with another adapter is read again. Default: none: the model alone. Not
   * among OpenAI's.
   */
  adapter?: AdapterChoice | null;
  /**
   * Forces the answer to be JSON that satisfies this JSON Schema (draft 2020-12), with its keys in the schema's order;
   * `{}` is any JSON. A thought before it stays free. What the schema says and the engine cannot enforce rejects with
   * UNSUPPORTED_SCHEMA. Default: any text. Not among OpenAI's.
   */
  schema?: Record<string, unknown> | null;
  /**
   * Forces the answer to match this regular expression (ECMA-262, without backreferences) as a whole. Default: none.
   * Not among OpenAI's.
   */
  regex?: string | null;
  /**
   * Forces the answer to be one of these texts. Up to 10000 of up to 65536 bytes each. Default: any text. Not among
   * OpenAI's.
   */
  choice?: string | readonly string[] | null;
  /**
   * Leaves out what of a schema cannot be enforced, instead of rejecting; `grammar.warnings` of the result lists it.
   * Default false. Not among OpenAI's.
   */
  lenient?: boolean | null;
}

/** @internal */
export const OPENAI = {
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  repetition_penalty: 'repetitionPenalty',
  logit_bias: 'logitBias',
  speculate: 'speculate',
  adapter: 'adapter',
  schema: 'schema',
  regex: 'regex',
  choice: 'choice',
  lenient: 'lenient',
} as const satisfies Record<keyof SharedParams, keyof GenerateOptions>;

/** @internal */
export const FETCHING: Rows<FetchingOptions> = {
  verify: { kind: 'flag' },
  connections: { kind: 'whole', least: 1, most: 16 },
  shardBytes: { kind: 'whole', least: 65536, most: 67108864 },
  token: { kind: 'text' },
  file: { kind: 'text' },
  hub: { kind: 'text' },
  fetch: { kind: 'callback' },
  download: { kind: 'control' },
};

/** @internal */
export const LOAD: Rows<Omit<LoadOptions, keyof FetchingOptions>> = {
  model: { kind: 'model' },
  tokenizer: { kind: 'file' },
  draft: { kind: 'model' },
  onProgress: { kind: 'callback' },
  signal: { kind: 'signal' },
  lane: { kind: 'name', names: ['auto', 'exact', 'float', 'f16', 'fast'], default: 'auto' },
  device: { kind: 'name', names: ['auto', 'gpu', 'cpu'] },
  kv: { kind: 'name', names: ['f32', 'f16', 'q8'] },
  context: { kind: 'whole', least: 1, most: 16777216 },
  concurrency: { kind: 'whole', least: 1, most: 8 },
  chunk: { kind: 'whole', least: 1, most: 32 },
  adapter: { kind: 'text' },
  quantize: { kind: 'name', names: ['q4_0', 'q4_k', 'q4_k_m', 'q8_0', 'f16'] },
  pooling: { kind: 'name', names: ['auto', 'none', 'mean', 'cls', 'last', 'rank'], default: 'auto' },
  kernels: { kind: 'variants' },
  subgroups: { kind: 'flag', default: true },
  cache: { kind: 'flag', default: true },
  tune: { kind: 'flag' },
  worker: { kind: 'worker' },
  memory: { kind: 'whole', least: 1, most: 9007199254740991 },
};

/** @internal */
export const PLAN: Rows<Omit<PlanOptions, keyof LoadOptions>> = {
  beside: { kind: 'objects' },
};

/** @internal */
export const GENERATE: Rows<GenerateOptions> = {
  onProgress: { kind: 'callback' },
  signal: { kind: 'signal' },
  maxTokens: { kind: 'whole', least: 1 },
  temperature: { kind: 'number', least: 0, most: 100 },
  topK: { kind: 'whole', least: 0 },
  topP: { kind: 'number', above: 0, most: 1 },
  minP: { kind: 'number', least: 0, most: 1 },
  seed: { kind: 'whole', least: 0, most: 9007199254740991 },
  presencePenalty: { kind: 'number', least: -2, most: 2 },
  frequencyPenalty: { kind: 'number', least: -2, most: 2 },
  repetitionPenalty: { kind: 'number', above: 0 },
  logitBias: { kind: 'biases', least: -100, most: 100 },
  logprobs: { kind: 'whole', least: 0, most: 20 },
  onTokens: { kind: 'callback' },
  stop: { kind: 'texts', most: 64, bytes: 4096 },
  ignoreEos: { kind: 'flag' },
  overflow: { kind: 'name', names: ['error', 'shift'] },
  speculate: { kind: 'name', names: ['auto', 'off', 'always'] },
  adapter: { kind: 'scaled', least: -100, most: 100 },
  reuse: { kind: 'flag' },
  tools: { kind: 'objects' },
  toolChoice: { kind: 'text' },
  parallelToolCalls: { kind: 'flag' },
  schema: { kind: 'object' },
  regex: { kind: 'text' },
  choice: { kind: 'texts', most: 10000, bytes: 65536 },
  lenient: { kind: 'flag' },
  templateOptions: { kind: 'object' },
  specialTokens: { kind: 'name', names: ['text', 'parse'] },
  logits: { kind: 'flag' },
  logitsFrom: { kind: 'whole', least: 0, needs: 'logits' },
  profile: { kind: 'flag' },
};

/** @internal */
export const EMBED: Rows<EmbedOptions> = {
  prompt: { kind: 'text' },
  dimensions: { kind: 'whole', least: 1, most: 65536 },
  normalize: { kind: 'flag' },
  truncate: { kind: 'flag' },
  signal: { kind: 'signal' },
};

/** @internal */
export const RERANK: Rows<RerankOptions> = {
  instruction: { kind: 'text' },
  topN: { kind: 'whole', least: 1, most: 4294967295 },
  signal: { kind: 'signal' },
};

/** @internal */
export const BENCH: Rows<BenchRows> = {
  shape: { kind: 'text', default: 'llama-3.2-1b' },
  quant: { kind: 'text', default: 'q4_0' },
  prompt: { kind: 'whole', least: 1, most: 100000, default: 512 },
  gen: { kind: 'whole', least: 1, most: 20000, default: 128 },
  runs: { kind: 'whole', least: 1, most: 100, default: 5 },
  profile: { kind: 'flag', default: false },
  rows: { kind: 'flag', default: false },
  speculate: { kind: 'name', names: ['auto', 'off', 'always'], default: 'off' },
  draft: { kind: 'text' },
  sampled: { kind: 'flag', default: false },
  copies: { kind: 'flag', default: false },
  kernelBench: { kind: 'flag', default: false },
  kernelFilter: { kind: 'text' },
  secondTurn: { kind: 'flag', default: false },
  idle: { kind: 'flag', default: false },
  grammar: { kind: 'flag', default: false },
  tune: { kind: 'flag', default: true },
  quality: { kind: 'whole', least: 1, most: 100000 },
};
