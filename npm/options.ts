// Checks what callers pass, before anything starts: an option that is not understood is an error, never ignored.
import { closest, distance } from 'fastest-levenshtein';
import { DownloadControl } from './control.ts';
import { MillraceError } from './errors.ts';
import type { WasmDownloadOptions, WasmLoadOptions, WasmModelFile, WasmRequest } from './millrace.js';
import type {
  DownloadOptions,
  FetchingOptions,
  GenerateOptions,
  Input,
  LoadOptions,
  Message,
  ModelFile,
  ModelSource,
  ModelsOptions,
  PlanOptions,
} from './types.ts';

/** Says what is wrong with a value, or null. */
type Check = (value: unknown) => string | null;

const integer =
  (least: number, most = Number.MAX_SAFE_INTEGER): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? null
      : `must be a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}`;
const number =
  (least: number, most: number): Check =>
  (value) =>
    typeof value === 'number' && value >= least && value <= most ? null : `must be a number from ${least} to ${most}`;
const oneOf =
  (...names: string[]): Check =>
  (value) =>
    names.includes(value as string) ? null : `must be one of ${names.join(', ')}`;
const boolean: Check = (value) => (typeof value === 'boolean' ? null : 'must be true or false');
const text: Check = (value) => (typeof value === 'string' && value !== '' ? null : 'must be a text that is not empty');
const callback: Check = (value) => (typeof value === 'function' ? null : 'must be a function');
const signal: Check = (value) => (value instanceof AbortSignal ? null : 'must be an AbortSignal');
const plainObject: Check = (value) => (isObject(value) ? null : 'must be an object');
const anything: Check = () => null;
const listOf =
  (item: Check, what: string): Check =>
  (value) =>
    Array.isArray(value) && value.every((one) => item(one) === null) ? null : `must be ${what}`;

type Schema<T> = { [K in keyof Required<T>]: Check };

const FETCHING: Schema<FetchingOptions> = {
  verify: boolean,
  connections: integer(1, 16),
  shardBytes: integer(65_536, 67_108_864),
  token: text,
  fetch: callback,
  download: (value) => (value instanceof DownloadControl ? null : 'must be a DownloadControl'),
};

const MODELS: Schema<ModelsOptions> = { onProgress: callback, signal };

const NOT_HERE =
  'may be false only in a dedicated Worker, whose thread then runs the engine: call Engine.load there, or leave the option out';

const LOAD: Schema<LoadOptions> = {
  ...FETCHING,
  model: anything,
  onProgress: callback,
  signal,
  lane: oneOf('exact', 'f16', 'fast'),
  kv: oneOf('f32', 'f16', 'q8'),
  context: integer(1, 2 ** 31),
  chunk: integer(1, 32),
  adapter: text,
  quantize: oneOf('q4_0', 'q4_k', 'q8_0', 'f16'),
  kernels: (value) =>
    isObject(value) && Object.values(value).every((name) => text(name) === null)
      ? null
      : 'must map operations to names of variants',
  subgroups: boolean,
  cache: boolean,
  tune: boolean,
  worker: (value) => boolean(value) ?? (value || 'DedicatedWorkerGlobalScope' in globalThis ? null : NOT_HERE),
};

const GENERATE: Schema<GenerateOptions> = {
  onProgress: callback,
  signal,
  maxTokens: integer(1),
  temperature: number(0, 100),
  topK: integer(0),
  topP: number(0, 1),
  minP: number(0, 1),
  seed: integer(0),
  presencePenalty: number(-2, 2),
  frequencyPenalty: number(-2, 2),
  repetitionPenalty: (value) =>
    typeof value === 'number' && value > 0 && value < Infinity ? null : 'must be a number above 0',
  logitBias: (value) =>
    isObject(value) && Object.entries(value).every(([id, bias]) => /^\d+$/.test(id) && number(-100, 100)(bias) === null)
      ? null
      : 'must map token ids to numbers from -100 to 100',
  logprobs: integer(0, 20),
  onTokens: callback,
  stop: (value) => (text(value) === null ? null : listOf(text, 'a text or a list of texts')(value)),
  ignoreEos: boolean,
  overflow: oneOf('error', 'shift'),
  reuse: boolean,
  tools: listOf(plainObject, 'a list of objects'),
  templateOptions: plainObject,
  logits: boolean,
  profile: boolean,
  logitsFrom: integer(0),
};

const MESSAGE: Schema<Message> = {
  role: oneOf('system', 'user', 'assistant', 'tool'),
  content: (value) =>
    value === null || typeof value === 'string' ? null : 'must be a text, or null beside tool_calls',
  name: text,
  tool_calls: listOf(plainObject, 'a list of tool calls'),
  tool_call_id: text,
  reasoning_content: text,
};

/** Checks the options of `Engine.load` and makes of them what the Worker gets. */
export function checkLoad(options: LoadOptions): WasmLoadOptions {
  check('Engine.load', options, LOAD);
  const {
    onProgress: _,
    signal: __,
    tune: ___,
    fetch: ____,
    download: _____,
    worker: ______,
    model,
    ...rest
  } = options;
  // A Response can be read once: there is nothing to go on with, and nothing to keep it under.
  if (model instanceof Response) return { ...rest, cache: false, model: responseUrl(model) };
  return { ...rest, model: modelSource('Engine.load', model) };
}

/** Checks the options of `Engine.plan`. */
export function checkPlan(options: PlanOptions): WasmLoadOptions & { memory?: number } {
  if (options?.model instanceof Response)
    throw bad('Engine.plan: model: a Response can be read only once: give its URL');
  const { memory, ...load } = options;
  if (memory !== undefined) check('Engine.plan', { memory }, { memory: integer(1) });
  return { ...checkLoad(load), ...(memory === undefined ? {} : { memory }) };
}

/** Checks the arguments of `models.download`. */
export function checkDownload(model: string | URL, options: DownloadOptions): WasmDownloadOptions {
  check('models.download', options, { ...FETCHING, ...MODELS });
  const { onProgress: _, signal: __, fetch: ___, download: ____, ...rest } = options;
  return { ...rest, model: checkModelUrl('models.download', model) };
}

/** Checks the options of what takes its time with stored models. */
export function checkModels(where: string, options: ModelsOptions): void {
  check(where, options, MODELS);
}

/** The address of a model. */
export function checkModelUrl(where: string, model: string | URL): string {
  if (typeof model !== 'string' && !(model instanceof URL)) throw bad(`${where}: the model must be named by its URL`);
  return modelSource(where, model) as string;
}

/** Files that the page has. */
export function filesOf(where: string, files: ModelFile | readonly ModelFile[] | FileList): { files: WasmModelFile[] } {
  if (typeof files === 'string' || (files as unknown) instanceof URL) throw bad(`${where}: give the files themselves`);
  return modelSource(where, files as ModelSource) as { files: WasmModelFile[] };
}

/** What a Response is called in messages. */
function responseUrl(response: Response): string {
  if (response.bodyUsed) throw bad('Engine.load: model: the Response was read already: pass a fresh one');
  const url = modelSource('Engine.load', response.url || 'model.gguf') as string;
  if (/\.(json|safetensors)$/.test(new URL(url).pathname))
    throw bad('Engine.load: model: a Response can be one .gguf file; give folders by their URL');
  return url;
}

/** Checks the name of a saved conversation. */
export function checkName(where: string, name: unknown): void {
  const wrong = text(name);
  if (wrong) throw bad(`${where}: the name ${wrong}`);
}

/** Checks the arguments of `engine.generate` and makes of them what the Worker gets. */
export function checkGenerate(input: Input, options: GenerateOptions): WasmRequest {
  check('engine.generate', options, GENERATE);
  const { signal: _, onProgress: __, onTokens: ___, stop, tools, seed, temperature = 0.7, ...rest } = options;
  if (rest.logitsFrom !== undefined && !rest.logits) throw bad('engine.generate: logitsFrom needs logits: true');
  return {
    ...rest,
    ...promptOf(input),
    temperature,
    ...(stop === undefined ? {} : { stop: typeof stop === 'string' ? [stop] : [...stop] }),
    ...(tools === undefined ? {} : { tools: [...tools] }),
    seed: seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!,
  };
}

function promptOf(input: Input): Pick<WasmRequest, 'prompt' | 'messages' | 'tokens'> {
  if (typeof input === 'string') return { prompt: input };
  if (Array.isArray(input)) {
    if (input.length === 0) throw bad('engine.generate: the list of messages is empty; it needs at least one');
    return { messages: input.map(checkMessage) };
  }
  if (isObject(input) && 'tokens' in input) {
    check('engine.generate: the prompt', input, { tokens: listOf(integer(0, 2 ** 32 - 1), 'a list of token ids') });
    return { tokens: [...(input as { tokens: number[] }).tokens] };
  }
  throw bad('engine.generate: the prompt must be a text, a list of messages, or { tokens: [ids] }');
}

function checkMessage(message: Message, index: number): Message {
  const where = `engine.generate: messages[${index}]`;
  check(where, message, MESSAGE);
  for (const name of ['role', 'content'] as const) {
    if (message[name] === undefined) throw bad(`${where}: ${name} is missing`);
  }
  if (message.content === null && !message.tool_calls?.length)
    throw bad(`${where}: content may only be null beside tool_calls`);
  return message;
}

/** A URL against the page (the Worker's own base is another one), or files. */
function modelSource(where: string, model: ModelSource): WasmLoadOptions['model'] {
  if (typeof model === 'string' || model instanceof URL) {
    const base = typeof document === 'undefined' ? globalThis.location?.href : document.baseURI;
    if (model === '' || !URL.canParse(model, base)) throw bad(`${where}: model is "${model}", which is no URL`);
    return new URL(model, base).href;
  }
  // A FileList, an array, or one file.
  const files =
    typeof model === 'object' && model !== null && 'length' in model
      ? Array.from(model as ArrayLike<ModelFile>)
      : [model as ModelFile];
  if (model === undefined || files.length === 0)
    throw bad(`${where}: model is missing: give it a URL, or the files themselves`);
  return { files: files.map((file) => modelFile(where, file)) };
}

function modelFile(where: string, file: ModelFile): WasmModelFile {
  if (file instanceof File) {
    // A chosen folder's files carry its name in front; a model's files are named from inside it.
    return { name: file.webkitRelativePath.split('/').slice(1).join('/') || file.name, data: file };
  }
  if (isObject(file) && text(file.name) === null && file.data instanceof Blob)
    return { name: file.name, data: file.data };
  throw bad(`${where}: each file of the model must be a File, or { name, data } with a Blob`);
}

/** Throws BAD_OPTION for the first option that is unknown or wrong. Options that are undefined count as absent. */
function check(where: string, options: unknown, schema: Record<string, Check>): void {
  if (!isObject(options)) throw bad(`${where}: the options must be an object`);
  for (const [name, value] of Object.entries(options)) {
    const wrong = Object.hasOwn(schema, name)
      ? value === undefined
        ? null
        : schema[name]!(value)
      : unknown(name, Object.keys(schema));
    if (wrong) throw bad(`${where}: ${name} ${wrong}`, { option: name });
  }
}

function unknown(name: string, known: string[]): string {
  const plain = (one: string): string => one.toLowerCase().replaceAll('_', '');
  const near = closest(plain(name), known.map(plain));
  const hint =
    distance(plain(name), near) <= 2
      ? `; did you mean ${known.find((one) => plain(one) === near)}?`
      : ` (known: ${known.join(', ')})`;
  return `is not an option${hint}`;
}

function isObject(value: unknown): value is Record<string, unknown> & object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function bad(message: string, data: Record<string, unknown> = {}): MillraceError {
  return new MillraceError('BAD_OPTION', message, { data });
}
