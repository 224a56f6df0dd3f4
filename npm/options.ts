// Checks what callers pass, before anything starts, and makes of it what the Worker gets.
import { bad, check, isObject, wrongOf, type Check, type Row } from './check.ts';
import { FETCHING, GENERATE, LOAD, PLAN } from './options.generated.ts';
import { hubName, isProjector, PROJECTOR } from './hub.ts';
import { wrongParts } from './pictures.ts';
import { roomOf } from './room.ts';
import type { WasmDownloadOptions, WasmLoadOptions, WasmModelFile, WasmRequest } from './millrace.js';
import type {
  DownloadOptions,
  GenerateOptions,
  Input,
  LoadOptions,
  Message,
  ModelFile,
  ModelSource,
  ModelsOptions,
  PicturedMessage,
  PlanOptions,
  TokenizeOptions,
} from './types.ts';

const TEXT: Row = { kind: 'text' };
const CALLS: Row = { kind: 'objects' };
const MODELS: Record<keyof ModelsOptions, Row> = { onProgress: { kind: 'callback' }, signal: { kind: 'signal' } };
const ALL_OF_LOAD = { ...FETCHING, ...LOAD };

const MESSAGE: Record<keyof Message, Row | Check> = {
  role: { kind: 'name', names: ['system', 'user', 'assistant', 'tool'] },
  content: (value) => {
    if (value === null || typeof value === 'string') return null;
    return Array.isArray(value) ? wrongParts(value) : 'must be a text, a list of parts, or null beside tool_calls';
  },
  name: TEXT,
  tool_calls: CALLS,
  tool_call_id: TEXT,
  reasoning_content: TEXT,
};

/** Checks the options of `Engine.load` and makes of them what the Worker gets. */
export function checkLoad(options: LoadOptions): WasmLoadOptions {
  check('Engine.load', options, ALL_OF_LOAD);
  const {
    onProgress: _,
    signal: __,
    tune: ___,
    fetch: ____,
    download: _____,
    worker: ______,
    file: _______,
    hub: ________,
    tokenizer: _________,
    memory: __________,
    model,
    draft,
    ...others
  } = options;
  if (draft instanceof Response) throw bad('Engine.load: draft: a Response can be read only once: give its URL');
  const rest = draft === undefined ? others : { ...others, draft: modelSource('Engine.load', draft, 'draft') };
  // A Response can be read once: there is nothing to go on with, and nothing to keep it under.
  if (model instanceof Response) return { ...rest, cache: false, model: responseUrl(model) };
  return { ...rest, model: modelSource('Engine.load', model) };
}

/** Checks the options of `Engine.plan`. */
export function checkPlan(options: PlanOptions): WasmLoadOptions & { memory?: number; beside: number } {
  if (options?.model instanceof Response)
    throw bad('Engine.plan: model: a Response can be read only once: give its URL');
  const { beside, ...load } = options;
  if (beside !== undefined) check('Engine.plan', { beside }, { ...PLAN });
  return { ...checkLoad(load), ...roomOf(load.memory, beside) };
}

/** Checks the arguments of `models.download`. */
export function checkDownload(
  model: string | URL | readonly (string | URL)[],
  options: DownloadOptions,
): WasmDownloadOptions {
  check('models.download', options, { ...FETCHING, ...MODELS });
  const { onProgress: _, signal: __, fetch: ___, download: ____, file: _____, hub: ______, ...rest } = options;
  const address = Array.isArray(model) ? modelSource('models.download', model) : null;
  return {
    ...rest,
    model: checkModelUrl('models.download', typeof address === 'string' ? address : (model as string)),
  };
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
  const wrong = wrongOf(TEXT, name);
  if (wrong) throw bad(`${where}: the name ${wrong}`);
}

/** Checks the arguments of `engine.generate` and makes of them what the Worker gets. */
export function checkGenerate(input: Input, options: GenerateOptions): WasmRequest {
  check('engine.generate', options, GENERATE);
  const { signal: _, onProgress: __, onTokens: ___, stop, tools, seed, ...rest } = options;
  return {
    ...rest,
    ...promptOf(input),
    ...(stop === undefined ? {} : { stop: typeof stop === 'string' ? [stop] : [...stop] }),
    ...(tools === undefined ? {} : { tools: [...tools] }),
    seed: seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!,
  };
}

/** Checks the arguments of `engine.tokenize`. */
export function checkTokenize(input: Input, options: TokenizeOptions): WasmRequest {
  check('engine.tokenize', options, { tools: GENERATE.tools, templateOptions: GENERATE.templateOptions });
  const { tools, ...rest } = options;
  return { ...rest, ...promptOf(input), ...(tools === undefined ? {} : { tools: [...tools] }), seed: 0 };
}

/** Checks a schema: its JSON. */
export function checkSchema(where: string, schema: unknown): string {
  if (!isObject(schema)) throw bad(`${where}: the schema must be an object`);
  return JSON.stringify(schema);
}

/** Checks a list of token ids. */
export function checkIds(where: string, ids: readonly number[]): number[] {
  if (!isIds(ids)) throw bad(`${where}: the tokens must be a list of token ids`);
  return [...ids];
}

const isIds = (list: unknown): boolean =>
  Array.isArray(list) && Array.from<number>(list).every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32);

function promptOf(input: Input): Pick<WasmRequest, 'prompt' | 'messages' | 'tokens'> {
  if (typeof input === 'string') return { prompt: input };
  if (Array.isArray(input)) {
    if (input.length === 0) throw bad('engine.generate: the list of messages is empty; it needs at least one');
    // Holes are not skipped.
    return { messages: Array.from<Message | PicturedMessage, Message>(input, checkMessage) };
  }
  if (isObject(input) && 'tokens' in input) {
    check('engine.generate: the prompt', input, {
      tokens: (list) => (isIds(list) ? null : 'must be a list of token ids'),
    });
    return { tokens: [...(input as { tokens: number[] }).tokens] };
  }
  throw bad('engine.generate: the prompt must be a text, a list of messages, or { tokens: [ids] }');
}

function checkMessage(message: Message | PicturedMessage, index: number): Message {
  const where = `engine.generate: messages[${index}]`;
  check(where, message, MESSAGE);
  for (const name of ['role', 'content'] as const) {
    if (message[name] === undefined) throw bad(`${where}: ${name} is missing`);
  }
  if (message.content === null && !message.tool_calls?.length)
    throw bad(`${where}: content may only be null beside tool_calls`);
  if (!Array.isArray(message.content)) return message as Message;
  if (message.role === ('assistant' as string)) throw bad(`${where}: parts are of users, tools and the system`);
  // What a picture shows goes beside the messages.
  const content = (message as PicturedMessage).content.map((part) => (part.type === 'text' ? part : { type: 'image' }));
  return { ...message, content } as unknown as Message;
}

/** A URL against the page. */
export function absolute(where: string, option: string, address: string | URL): string {
  const base = typeof document === 'undefined' ? globalThis.location?.href : document.baseURI;
  if (address === '' || !URL.canParse(address, base)) throw bad(`${where}: ${option} is "${address}", which is no URL`);
  return new URL(address, base).href;
}

/** A URL against the page (the Worker's own base is another one), or files. */
function modelSource(where: string, model: ModelSource, option = 'model'): WasmLoadOptions['model'] {
  if (typeof model === 'string' || model instanceof URL) {
    // Where it is, is asked later.
    if (hubName(model) !== null) return model as string;
    return absolute(where, option, model);
  }
  if (Array.isArray(model) && model.length > 0 && model.every((one) => typeof one === 'string' || one instanceof URL))
    return withProjector(where, model);
  // A FileList, an array, or one file.
  const files =
    typeof model === 'object' && model !== null && 'length' in model
      ? Array.from(model as ArrayLike<ModelFile>)
      : [model as ModelFile];
  if (model === undefined || files.length === 0)
    throw bad(`${where}: ${option} is missing: give it a URL, or the files themselves`);
  return { files: files.map((file) => modelFile(where, file)) };
}

/** A model's address, followed by that of its projector. */
function withProjector(where: string, addresses: readonly (string | URL)[]): string {
  const [model, projector] = addresses.map(String).sort((a, b) => Number(isProjector(a)) - Number(isProjector(b)));
  const plain = modelSource(where, model!) as string;
  if (projector === undefined) return plain;
  if (addresses.length > 2 || !isProjector(projector) || isProjector(model!) || plain.includes('#'))
    throw bad(
      `${where}: model: two addresses are a model's and that of a file whose name has mmproj in it; parts and shards are found by one`,
      { option: 'model' },
    );
  // Beside the name of a repository it can be the name of a file in it.
  if (hubName(model) !== null)
    return plain + PROJECTOR + (/[:/]/.test(projector) ? absolute(where, 'model', projector) : projector);
  return plain + PROJECTOR + encodeURIComponent(absolute(where, 'model', projector));
}

function modelFile(where: string, file: ModelFile): WasmModelFile {
  if (file instanceof File) {
    // A chosen folder's files carry its name in front; a model's files are named from inside it.
    return { name: file.webkitRelativePath.split('/').slice(1).join('/') || file.name, data: file };
  }
  if (isObject(file) && wrongOf(TEXT, file.name) === null && file.data instanceof Blob)
    return { name: file.name, data: file.data };
  throw bad(`${where}: each file of a model must be a File, or { name, data } with a Blob`);
}
