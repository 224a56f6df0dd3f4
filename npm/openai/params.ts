// Translates OpenAI's parameters. A parameter that cannot be honoured is an error, never ignored.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import { OPENAI, type SharedParams } from '../options.generated.ts';
import { wrongDetail } from '../pictures.ts';
import type { GenerateOptions, Input, Message, PicturedMessage } from '../types.ts';
import type {
  ChatAllowedTools,
  ChatCompletionParams,
  ChatMessage,
  ChatTool,
  ChatToolCall,
  ChatToolName,
  CompletionParams,
  ContentPart,
  ResponseFormat,
} from './types.ts';

type StreamOptions = NonNullable<ChatCompletionParams['stream_options']>;
type ResponseFormatSchema = Extract<ResponseFormat, { type: 'json_schema' }>;

/** A request in the engine's terms. */
export interface Asked {
  /** The prompts: one of a chat, one or more of plain completions. */
  inputs: Input[];
  options: GenerateOptions;
  /** Answers to each prompt. */
  n: number;
  stream: boolean;
  /** Whether a stream ends with its usage. */
  usage: boolean;
  /** Whether one answer may call several tools. */
  parallel: boolean;
  /** Whether the caller has named the function to call: OpenAI's `finish_reason` then is `stop`. */
  named: boolean;
}

function bad(where: string, option: string, what: string): MillraceError {
  return new MillraceError('BAD_OPTION', `${where}: ${option} ${what}`, { data: { option } });
}

/** Parameters that both kinds of request may have, with or without an effect. */
const COMMON = [
  'model',
  'max_tokens',
  'temperature',
  ...Object.keys(OPENAI),
  'n',
  'stop',
  'seed',
  'logprobs',
  'stream',
  'stream_options',
  // These describe the caller and do not affect the answer.
  'user',
  'metadata',
  'safety_identifier',
  'prompt_cache_key',
];
const CHAT = [
  ...COMMON,
  'messages',
  'max_completion_tokens',
  'response_format',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'top_logprobs',
  'reasoning_effort',
  'chat_template_kwargs',
];
const PLAIN = [...COMMON, 'prompt'];

type Holds = (value: unknown) => boolean;

const isEmpty: Holds = (value) => typeof value === 'object' && Object.keys(value ?? {}).length === 0;
const oneOf =
  (...values: unknown[]): Holds =>
  (value) =>
    values.includes(value);
/** An object whose entries, where present, hold such values. */
const objectOf =
  (entries: Record<string, Holds>): Holds =>
  (value) =>
    typeof value === 'object' && Object.entries(value ?? {}).every(([name, one]) => entries[name]?.(one));

/** Unsupported parameters, and the values that are accepted because they have no effect, as null always is. */
const NEUTRAL: Readonly<Record<string, (value: unknown, params: Record<string, unknown>) => boolean>> = {
  store: oneOf(false),
  service_tier: oneOf('auto', 'default'),
  modalities: (value) => Array.isArray(value) && value.every(oneOf('text')),
  audio: oneOf(),
  prediction: objectOf({ type: oneOf('content'), content: (value) => value === '' || isEmpty(value) }),
  verbosity: oneOf('medium'),
  web_search_options: oneOf(),
  moderation: oneOf(),
  functions: isEmpty,
  function_call: oneOf('auto', 'none'),
  prompt_cache_retention: oneOf('in_memory', 'in-memory'),
  prompt_cache_options: objectOf({ mode: oneOf('implicit'), ttl: oneOf('30m') }),
  echo: oneOf(false),
  best_of: (value, { n = 1 }) => value === 1 || value === n,
  suffix: oneOf(''),
};

const unknownBeside = (names: readonly string[]): string =>
  `is not a parameter that can be honoured here (known: ${names.join(', ')})`;
const FLAG = 'must be true or false';

/** A value as it is shown in an error's message. */
function said(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

/** The entries that are neither null nor undefined. */
const given = <T extends object>(all: T): Partial<T> =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null && value !== undefined)) as Partial<T>;

/** Checks the names of parameters, and that none asks for an unsupported feature. */
function known<T extends object>(where: string, all: T, names: readonly string[]): Partial<T> {
  if (typeof all !== 'object' || all === null || Array.isArray(all))
    throw new MillraceError('BAD_OPTION', `${where}: the parameters must be an object`);
  const params: Record<string, unknown> = given(all);
  for (const [name, value] of Object.entries(params)) {
    if (names.includes(name)) continue;
    if (!Object.hasOwn(NEUTRAL, name)) throw bad(where, name, unknownBeside(names));
    if (!NEUTRAL[name]!(value, params))
      throw bad(where, name, `is ${said(value)}: this version cannot do that; leave it out`);
  }
  return params as Partial<T>;
}

/** The error for a model that is not loaded. */
export function otherModel(where: string, model: unknown, loaded: string): MillraceError {
  const message = `${where}: model is ${said(model)}, but the engine has loaded ${JSON.stringify(loaded)}: name that one, or leave it out`;
  return new MillraceError('NOT_FOUND', message, { data: { option: 'model' } });
}

/** Whether a stream ends with its usage. Obfuscation is ignored: no chunk leaves the page. */
function usageAsked(where: string, { stream_options: about, stream }: Partial<ChatCompletionParams>): boolean {
  const option = 'stream_options';
  const options = only<StreamOptions>(where, option, about ?? {}, ['include_usage', 'include_obfuscation']);
  for (const [name, value] of Object.entries(options))
    if (typeof value !== 'boolean') throw bad(where, `${option}.${name}`, FLAG);
  const { include_usage: usage = false } = options;
  if (usage && !stream) throw bad(where, option, 'goes with stream: true');
  return usage;
}

/** The texts that end an answer. An empty one would end none. */
function stopsOf(stop: ChatCompletionParams['stop']): string | readonly string[] | null {
  const stops = Array.isArray(stop) ? stop.filter((one) => one !== '') : stop;
  return stops === undefined || stops === null || stops.length === 0 ? null : stops;
}

/** Options of both kinds of request; the engine checks their values. */
function common(
  where: string,
  params: Partial<Omit<ChatCompletionParams, 'logprobs'>>,
  loaded: string,
): Omit<Asked, 'inputs'> {
  const { model, n = 1, stream = false, seed, temperature = 1 } = params;
  if (model !== undefined && model !== loaded) throw otherModel(where, model, loaded);
  if (!Number.isInteger(n) || n! < 1 || n! > 128) throw bad(where, 'n', 'must be a whole number from 1 to 128');
  if (typeof stream !== 'boolean') throw bad(where, 'stream', FLAG);
  const usage = usageAsked(where, params);
  const limit = params.max_completion_tokens ?? params.max_tokens;
  if (
    params.max_tokens !== undefined &&
    params.max_completion_tokens !== undefined &&
    params.max_tokens !== params.max_completion_tokens
  ) {
    throw bad(where, 'max_tokens', 'and max_completion_tokens contradict each other: give one of them');
  }
  const options: GenerateOptions = { temperature: temperature! };
  if (limit !== undefined) options.maxTokens = limit!;
  if (seed !== undefined) options.seed = seed!;
  for (const [name, option] of Object.entries(OPENAI) as [keyof SharedParams, keyof GenerateOptions][])
    if (params[name] !== undefined) Object.assign(options, { [option]: params[name] });
  const stop = stopsOf(params.stop);
  if (stop !== null) options.stop = stop;
  return { options, n: n!, stream, usage, parallel: true, named: false };
}

/** Variables of the chat template, `known` those that it reads. */
function templateOptionsOf(
  where: string,
  params: Partial<ChatCompletionParams>,
  known: readonly string[],
): Record<string, unknown> | undefined {
  const { reasoning_effort: effort, chat_template_kwargs: options } = params;
  const levels = known.includes('reasoning_effort');
  const switches = known.includes('enable_thinking') || !levels;
  const allowed = [...(switches ? ['none'] : []), ...(levels ? ['low', 'medium', 'high'] : ['medium'])];
  if (effort === undefined || effort === null) return options ?? undefined;
  if (!allowed.includes(effort))
    throw bad(
      where,
      'reasoning_effort',
      `is ${said(effort)}: with this model it can be ${allowed.join(', ').replace(/, (?=[^,]*$)/, ' or ')}; chat_template_kwargs are for what else its chat template reads`,
    );
  if (effort === 'none') return { enable_thinking: false, ...options };
  return levels ? { reasoning_effort: effort, ...options } : (options ?? undefined);
}

/** A chat's request. */
export function chatAsked(all: ChatCompletionParams, engine: Pick<Engine, 'info' | 'modelName'>): Asked {
  const loaded = engine.modelName;
  const where = 'chat.completions.create';
  const params = known(where, all, CHAT);
  if (!Array.isArray(params.messages) || params.messages.length === 0)
    throw bad(where, 'messages', 'must be a list of at least one message');
  const { logprobs = false, top_logprobs: top, ...others } = params;
  if (typeof logprobs !== 'boolean') throw bad(where, 'logprobs', FLAG);
  if (top !== undefined && top !== 0 && !logprobs) throw bad(where, 'top_logprobs', 'goes with logprobs: true');
  const { parallel_tool_calls: parallel = true } = params;
  if (typeof parallel !== 'boolean') throw bad(where, 'parallel_tool_calls', FLAG);
  const asked = common(where, others, loaded);
  const { options } = asked;
  if (logprobs) options.logprobs = top ?? 0;
  const { tools, choice } = toolsOf(where, params);
  if (tools.length > 0) options.tools = tools;
  if (choice !== 'auto') options.toolChoice = choice;
  if (!parallel && tools.length > 0) options.parallelToolCalls = false;
  const schema = schemaOf(where, params);
  if (schema && tools.length > 0 && choice !== 'auto')
    throw bad(where, 'response_format', 'and a call that is required exclude each other: give tool_choice "auto"');
  if (schema) options.schema = schema;
  const templateOptions = templateOptionsOf(where, params, engine.info.model.template_options);
  if (templateOptions) options.templateOptions = templateOptions;
  const messages = params.messages.map((message: ChatMessage, index: number) =>
    messageOf(`${where}: messages[${index}]`, message),
  );
  return { ...asked, inputs: [messages], parallel: parallel!, named: choice !== 'auto' && choice !== 'required' };
}

/** A plain completion's request. */
export function plainAsked(all: CompletionParams, loaded: string): Asked {
  const where = 'completions.create';
  const params = known(where, all, PLAIN);
  const { prompt } = params;
  const isTokens = (list: unknown): list is number[] =>
    Array.isArray(list) && list.length > 0 && list.every((id) => typeof id === 'number');
  const one = (item: unknown): Input => {
    if (typeof item === 'string') return item;
    if (isTokens(item)) return { tokens: item };
    throw bad(where, 'prompt', 'must be a text, a list of token ids, or a list of either');
  };
  const inputs = Array.isArray(prompt) && !isTokens(prompt) ? prompt.map(one) : [one(prompt)];
  if (inputs.length === 0) throw bad(where, 'prompt', 'is an empty list');
  const { logprobs, ...rest } = params;
  const asked = common(where, rest, loaded);
  if (logprobs !== undefined) asked.options.logprobs = logprobs!;
  // OpenAI's default.
  asked.options.maxTokens ??= 16;
  return { ...asked, inputs };
}

/** An object with these entries alone; what is null counts as absent. */
function only<T extends object>(where: string, option: string, all: unknown, names: readonly (keyof T & string)[]): T {
  if (typeof all !== 'object' || all === null || Array.isArray(all)) throw bad(where, option, 'must be an object');
  const entries = given(all) as T;
  const unknown = Object.keys(entries).find((name) => !(names as readonly string[]).includes(name));
  if (unknown !== undefined) throw bad(where, `${option}.${unknown}`, unknownBeside(names));
  return entries;
}

/** The schema that `response_format` asks for; null where it asks for any text. */
function schemaOf(where: string, params: Partial<ChatCompletionParams>): Record<string, unknown> | null {
  const { response_format: format } = params;
  if (!format || format.type === 'text') return null;
  if (params.schema !== undefined || params.regex !== undefined || params.choice !== undefined)
    throw bad(where, 'response_format', 'and schema, regex and choice exclude each other: give one of them');
  if (format.type === 'json_object') {
    only(where, 'response_format', format, ['type']);
    return { type: 'object' };
  }
  if (format.type !== 'json_schema') {
    const type = JSON.stringify((format as { type?: unknown }).type);
    throw bad(where, 'response_format', `is of type ${type}: it can be text, json_object or json_schema`);
  }
  const option = 'response_format.json_schema';
  const { json_schema: given } = only<ResponseFormatSchema>(where, 'response_format', format, ['type', 'json_schema']);
  const { name, description, schema, strict } = only<ResponseFormatSchema['json_schema']>(where, option, given, [
    'name',
    'description',
    'schema',
    'strict',
  ]);
  for (const [key, value] of Object.entries({ name, description }))
    if (value !== undefined && typeof value !== 'string') throw bad(where, `${option}.${key}`, 'must be a text');
  // The schema is enforced with any value, or none.
  if (strict !== undefined && typeof strict !== 'boolean') throw bad(where, `${option}.strict`, FLAG);
  if (schema === undefined) throw bad(where, `${option}.schema`, 'is missing: json_object is for JSON of any kind');
  if (typeof schema !== 'object' || Array.isArray(schema)) throw bad(where, `${option}.schema`, 'must be an object');
  return schema;
}

/** Values of the engine's `toolChoice` other than names. */
const CHOICES = ['auto', 'none', 'required'];

/** The tools that are described to the model, and its choice among them. */
function toolsOf(where: string, params: Partial<ChatCompletionParams>): { tools: ChatTool[]; choice: string } {
  const { tools, tool_choice: choice = 'auto' } = params;
  if (tools !== undefined && !Array.isArray(tools)) throw bad(where, 'tools', 'must be a list');
  const list = (tools ?? []).map((tool, index): ChatTool => {
    if (tool?.type !== 'function' || typeof tool.function?.name !== 'string')
      throw bad(where, `tools[${index}]`, 'must be { type: "function", function: { name, … } }');
    return { ...tool, function: given(tool.function) as ChatTool['function'] };
  });
  if (choice === 'none') return { tools: [], choice: 'auto' };
  if (choice !== 'auto' && list.length === 0) throw bad(where, 'tool_choice', 'goes with tools');
  if (choice === 'auto' || choice === 'required') return { tools: list, choice };
  const named = (given: unknown): ChatTool => {
    const name = (given as ChatToolName | null)?.function?.name;
    const tool = list.find((one) => one.function.name === name);
    if (!tool) throw bad(where, 'tool_choice', `names ${JSON.stringify(name)}, which is none of the tools`);
    return tool;
  };
  const { type, allowed_tools: allowed } = (choice ?? {}) as { type?: unknown; allowed_tools?: ChatAllowedTools };
  if (type === 'function') {
    const { name } = named(choice).function;
    if (CHOICES.includes(name)) throw bad(where, 'tool_choice', `names a tool that is called ${JSON.stringify(name)}`);
    return { tools: list, choice: name };
  }
  if (type !== 'allowed_tools' || !Array.isArray(allowed?.tools))
    throw bad(
      where,
      'tool_choice',
      `is ${JSON.stringify(choice)}: it can be "auto", "none", "required", a function's name as { type: "function", function: { name } }, or allowed_tools`,
    );
  if (allowed.mode !== 'auto' && allowed.mode !== 'required')
    throw bad(where, 'tool_choice.allowed_tools.mode', 'must be "auto" or "required"');
  const some = allowed.tools.map(named);
  if (some.length === 0) throw bad(where, 'tool_choice.allowed_tools.tools', 'is an empty list');
  return { tools: list.filter((tool) => some.includes(tool)), choice: allowed.mode };
}

/** A message in the format of chat templates; the engine checks the rest. */
function messageOf(where: string, message: ChatMessage): Message | PicturedMessage {
  if (typeof message !== 'object' || message === null)
    throw new MillraceError('BAD_OPTION', `${where} must be an object`);
  // Fields that the official client adds to returned messages mean nothing to a template.
  const { parsed: _, annotations: __, ...known } = message as ChatMessage & { parsed?: unknown; annotations?: unknown };
  const { role, content, refusal, tool_calls: calls, reasoning_content: reasoning, name, ...others } = known;
  if (refusal) throw bad(where, 'refusal', 'is not known to chat templates: put it into content');
  const parts = Array.isArray(content)
    ? content.map((part, index) => partOf(`${where}.content[${index}]`, part))
    : null;
  // Text parts alone are joined: every template supports a single text.
  const text = parts
    ? parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
    : (content as string | null | undefined);
  if (parts?.some((part) => part.type !== 'text'))
    return { ...given(others), ...(name ? { name } : {}), role, content: parts } as PicturedMessage;
  return {
    ...given(others),
    ...(name ? { name } : {}),
    role: role === 'developer' ? 'system' : role,
    content: text ?? (calls?.length ? null : (text as never)),
    ...(calls?.length ? { tool_calls: callsOf(where, calls) } : {}),
    ...(reasoning ? { reasoning_content: reasoning } : {}),
  };
}

/** Calls without the fields that the official client adds. */
function callsOf(where: string, calls: unknown): ChatToolCall[] {
  if (!Array.isArray(calls)) throw bad(where, 'tool_calls', 'must be a list');
  return calls.map((call: Partial<ChatToolCall> | null, index): ChatToolCall => {
    const { id, function: called } = call ?? {};
    if (typeof called?.name !== 'string')
      throw bad(where, `tool_calls[${index}]`, 'must be { id, type: "function", function: { name, arguments } }');
    return { id: id!, type: 'function', function: { name: called.name, arguments: called.arguments } };
  });
}

function partOf(where: string, part: unknown): ContentPart {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  if (type === 'text' && typeof text === 'string') return { type, text };
  if (type === 'image_url') {
    const { image_url: image } = part as { image_url?: { url?: unknown } };
    if (typeof image?.url !== 'string' || image.url === '')
      throw new MillraceError('BAD_OPTION', `${where}: image_url must have a url`);
    const wrong = wrongDetail(image);
    if (wrong) throw new MillraceError('BAD_OPTION', `${where} ${wrong}`);
    return part as ContentPart;
  }
  const said = `${where} is of type ${JSON.stringify(type)}: text and image_url are read`;
  throw new MillraceError('BAD_OPTION', said);
}
