// What OpenAI's parameters mean here. One that cannot be honoured is an error, never ignored.
import { MillraceError } from '../errors.ts';
import { OPENAI, type SharedParams } from '../options.generated.ts';
import type { GenerateOptions, Input, Message } from '../types.ts';
import type { ChatCompletionParams, ChatMessage, ChatTool, CompletionParams } from './types.ts';

/** A request in the engine's own words. */
export interface Asked {
  /** What to continue: of a chat one, of plain completions as many as there are prompts. */
  inputs: Input[];
  options: GenerateOptions;
  /** Answers to each. */
  n: number;
  stream: boolean;
  /** Whether a stream ends with what it cost. */
  usage: boolean;
  /** Names of the tools that the model is given. */
  tools: string[];
}

function bad(where: string, option: string, what: string): MillraceError {
  return new MillraceError('BAD_OPTION', `${where}: ${option} ${what}`, { data: { option } });
}

/** What both kinds of request may have, whatever it does. */
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
  // These are about whoever asks and who keeps what, not about the answer.
  'user',
  'metadata',
  'safety_identifier',
  'prompt_cache_key',
  'store',
  'service_tier',
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
  'chat_template_kwargs',
];
const PLAIN = [...COMMON, 'prompt', 'echo', 'suffix', 'best_of'];

/** The values at which an option changes nothing. */
const NEUTRAL: Record<string, (value: unknown) => boolean> = {
  parallel_tool_calls: (value) => value === true,
  store: (value) => value === false,
  service_tier: (value) => value === 'auto' || value === 'default',
  echo: (value) => value === false,
  best_of: (value) => value === 1,
  suffix: (value) => value === '',
};

/** Checks names, and that nothing is asked for that is not there; what is null counts as absent. */
function known<T extends object>(where: string, given: T, names: readonly string[]): Partial<T> {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new MillraceError('BAD_OPTION', `${where}: the parameters must be an object`);
  const params = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== undefined));
  for (const [name, value] of Object.entries(params)) {
    if (!names.includes(name))
      throw bad(where, name, `is not a parameter that can be honoured here (known: ${names.join(', ')})`);
    if (NEUTRAL[name]?.(value) === false)
      throw bad(where, name, `is ${JSON.stringify(value)}: this version cannot do that; leave it out`);
  }
  return params as Partial<T>;
}

/** Options of both; the engine checks their values. */
function common(
  where: string,
  params: Partial<Omit<ChatCompletionParams, 'logprobs'>>,
  loaded: string,
): Omit<Asked, 'inputs' | 'tools'> {
  const { model, n = 1, stream = false, stream_options: about, seed, stop, temperature = 1 } = params;
  if (model !== undefined && model !== loaded) {
    const message = `${where}: model is ${JSON.stringify(model)}, but the engine has loaded ${JSON.stringify(loaded)}: name that one, or leave it out`;
    throw new MillraceError('NOT_FOUND', message, { data: { option: 'model' } });
  }
  if (!Number.isInteger(n) || n! < 1 || n! > 128) throw bad(where, 'n', 'must be a whole number from 1 to 128');
  if (typeof stream !== 'boolean') throw bad(where, 'stream', 'must be true or false');
  if (about && !stream) throw bad(where, 'stream_options', 'goes with stream: true');
  const unknown = Object.keys(about ?? {}).find((name) => name !== 'include_usage');
  if (unknown)
    throw bad(
      where,
      `stream_options.${unknown}`,
      'is not a parameter that can be honoured here (known: include_usage)',
    );
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
  if (stop !== undefined && !(Array.isArray(stop) && stop.length === 0))
    options.stop = stop as string | readonly string[];
  return { options, n: n!, stream, usage: about?.include_usage ?? false };
}

/** A chat's request. */
export function chatAsked(given: ChatCompletionParams, loaded: string): Asked {
  const where = 'chat.completions.create';
  const params = known(where, given, CHAT);
  if (!Array.isArray(params.messages) || params.messages.length === 0)
    throw bad(where, 'messages', 'must be a list of at least one message');
  const { logprobs = false, top_logprobs: top, ...others } = params;
  if (typeof logprobs !== 'boolean') throw bad(where, 'logprobs', 'must be true or false');
  if (top !== undefined && !logprobs) throw bad(where, 'top_logprobs', 'goes with logprobs: true');
  const format = params.response_format;
  if (format && format.type !== 'text')
    throw bad(
      where,
      'response_format',
      `of type ${JSON.stringify(format.type)} cannot be had in this version: ask for JSON in the prompt`,
    );
  const asked = common(where, others, loaded);
  if (logprobs) asked.options.logprobs = top ?? 0;
  const tools = toolsOf(where, params);
  if (tools.length > 0) asked.options.tools = tools;
  if (params.chat_template_kwargs) asked.options.templateOptions = params.chat_template_kwargs;
  const messages = params.messages.map((message: ChatMessage, index: number) =>
    messageOf(`${where}: messages[${index}]`, message),
  );
  return { ...asked, inputs: [messages], tools: tools.map((tool) => tool.function.name) };
}

/** A plain completion's request. */
export function plainAsked(given: CompletionParams, loaded: string): Asked {
  const where = 'completions.create';
  const params = known(where, given, PLAIN);
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
  // So it is with OpenAI.
  asked.options.maxTokens ??= 16;
  return { ...asked, inputs, tools: [] };
}

function toolsOf(where: string, { tools, tool_choice: choice }: Partial<ChatCompletionParams>): ChatTool[] {
  if (tools !== undefined && !Array.isArray(tools)) throw bad(where, 'tools', 'must be a list');
  const list = (tools ?? []) as ChatTool[];
  list.forEach((tool, index) => {
    if (tool?.type !== 'function' || typeof tool.function?.name !== 'string')
      throw bad(where, `tools[${index}]`, 'must be { type: "function", function: { name, … } }');
    if (tool.function.strict)
      throw bad(where, `tools[${index}].function.strict`, 'cannot be honoured in this version: leave it out');
  });
  if (choice === 'none') return [];
  if (choice !== undefined && choice !== 'auto')
    throw bad(
      where,
      'tool_choice',
      `is ${JSON.stringify(choice)}: the model cannot be forced to call a tool in this version; use "auto" or "none"`,
    );
  if (choice !== undefined && list.length === 0) throw bad(where, 'tool_choice', 'goes with tools');
  return list;
}

/** A message as the engine's templates know it; the engine checks the rest. */
function messageOf(where: string, message: ChatMessage): Message {
  if (typeof message !== 'object' || message === null)
    throw new MillraceError('BAD_OPTION', `${where} must be an object`);
  // What the official client adds to the messages that it gives back means nothing to a template.
  const { parsed: _, annotations: __, ...known } = message as ChatMessage & { parsed?: unknown; annotations?: unknown };
  const { role, content, refusal, tool_calls: calls, reasoning_content: reasoning, ...others } = known;
  const rest = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null)) as typeof others;
  if (refusal !== undefined && refusal !== null)
    throw bad(where, 'refusal', 'is not known to chat templates: put it into content');
  const text = Array.isArray(content)
    ? content.map((part, index) => textOf(`${where}.content[${index}]`, part)).join('')
    : (content as string | null | undefined);
  return {
    ...rest,
    role: role === 'developer' ? 'system' : role,
    content: text ?? (calls?.length ? null : (text as never)),
    ...(calls?.length
      ? {
          tool_calls: calls.map(({ id, function: { name, arguments: args } }) => ({
            id,
            type: 'function' as const,
            function: { name, arguments: args },
          })),
        }
      : {}),
    ...(reasoning ? { reasoning_content: reasoning } : {}),
  };
}

function textOf(where: string, part: unknown): string {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  if (type !== 'text' || typeof text !== 'string')
    throw new MillraceError('BAD_OPTION', `${where} is of type ${JSON.stringify(type)}: this model reads text only`);
  return text;
}
