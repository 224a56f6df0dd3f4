// The loop of an agent: the model answers, its calls are executed, their results go back to it, until it has nothing more to call.
import { bad, check, isObject } from './check.ts';
import { MillraceError } from './errors.ts';
import { aborted, type Generation } from './generation.ts';
import { shownParts, textOf } from './pictures.ts';
import { Streamed } from './streamed.ts';
import type {
  AnswerPart,
  GenerateOptions,
  GenerateResult,
  Message,
  MessagePart,
  PicturedMessage,
  TokenPiece,
  ToolCall,
} from './types.ts';

/** How often the model may answer by default. */
const MOST_ROUNDS = 10;

/** What a function gets about the call that it executes, beside the arguments. */
export interface ToolContext {
  /** The call's id. */
  id: string;
  /** The tool's name. */
  name: string;
  /** Aborted when the run is: pass it on to what takes its time. */
  signal: AbortSignal;
  /** The conversation up to the message with the call. */
  messages: readonly (Message | PicturedMessage)[];
}

/**
 * Executes a call. `args`: the arguments as the model gave them, an object that is not validated against the tool's
 * schema. What it returns goes to the model, texts as they are and everything else as JSON; so does the message of what
 * it throws, and the model can try again. Models that read pictures are shown those that it returns: a Blob, pixels, an
 * element that shows one, `{ type: 'image', image }`, or `{ type: 'image', data, mimeType }` as MCP has it, alone or in
 * a list with texts.
 */
// biome-ignore lint/suspicious/noExplicitAny: what a function takes is its own affair
export type ToolFunction = (args: any, context: ToolContext) => unknown;

/** A tool, as OpenAI's clients give it: a function's name, what it does, and a JSON schema of its arguments. */
export interface ToolDefinition {
  /** Only functions. */
  type: 'function';
  /** The function. `strict`: what the model writes into its arguments is forced to satisfy `parameters`. */
  function: { name: string; description?: string; parameters?: object };
}

/**
 * Options of {@link Engine.run}: those of `generate`, and the tools. A `toolChoice` that forces calls is for the first answer; then the model decides,
 * or it would never come to an end.
 */
export interface RunOptions extends Omit<GenerateOptions, 'tools'> {
  /** The conversation so far. It stays as it is: what comes is in the result. */
  messages: readonly (Message | PicturedMessage)[];
  /** What the model may call. */
  tools: readonly ToolDefinition[];
  /** What executes the calls: a function for each tool by its name, or one for all. */
  execute: Readonly<Record<string, ToolFunction>> | ToolFunction;
  /** How often the model may answer, 1 to 1,000. Default 10. */
  maxRounds?: number;
}

/** What happens in a run; `round` counts the model's answers from 1. */
export type RunEvent = { round: number } & (
  | AnswerPart
  /**
   * A call was executed. `content` goes to the model; `failed`: it is an error's message. `ms`: how long it took. `parts`: where the result has pictures, all of
   * it; `content` then is the texts among them.
   */
  | {
      type: 'tool_result';
      id: string;
      name: string;
      content: string;
      parts?: readonly MessagePart[];
      failed: boolean;
      ms: number;
    }
  /** A message is complete: an answer with its calls, or the result of one. */
  | { type: 'message'; message: Message | PicturedMessage }
);

/** The whole of a run. */
export interface RunResult {
  /** The last answer, without what stopped it. */
  text: string;
  /** The last answer as a message. */
  message: Message;
  /** All messages that were added, in order: answers, and a result for each call. With these behind it the conversation can go on. */
  messages: (Message | PicturedMessage)[];
  /** How often the model answered. */
  rounds: number;
  /** As of the last answer; `rounds`: it still called tools when it might answer no more. */
  finish_reason: GenerateResult['finish_reason'] | 'rounds';
  /** What is known of each answer: tokens, timings. */
  results: GenerateResult[];
}

/**
 * A run while it goes on: an async iterable of what happens, and a promise of the whole.
 *
 * ```js
 * for await (const event of engine.run({ messages, tools, execute })) {
 *   if (event.type === 'content') show(event.text);
 *   if (event.type === 'tool_result') console.log(event.name, event.content);
 * }
 * ```
 *
 * Leaving the loop and `stop()` end it with what there is; an aborted `signal` rejects with code ABORTED, and `error.data.result` holds what there
 * was. Calls that were not executed then have a result that says so.
 */
export class Run extends Streamed<RunEvent, RunResult> {
  /** `Run`. */
  readonly [Symbol.toStringTag] = 'Run';
}

/** What answers: an engine's or a conversation's `generate`. */
type Generate = (input: (Message | PicturedMessage)[], options: GenerateOptions) => Generation;

/** @internal */
export function run(generate: Generate, options: RunOptions): Run {
  return new Run((emit) => {
    const halt = new AbortController();
    return { result: loop(generate, options, emit, halt.signal), stop: () => halt.abort() };
  });
}

/** What is wrong with the options is an error before anything starts. */
function checked(options: RunOptions): RunOptions {
  if (!isObject(options)) throw bad('engine.run: needs an object, { messages, tools, execute }');
  const { messages, tools, execute, maxRounds } = options as Partial<RunOptions>;
  if (!Array.isArray(messages)) throw bad('engine.run: messages must be a list');
  if (maxRounds !== undefined)
    check('engine.run', { maxRounds }, { maxRounds: { kind: 'whole', least: 1, most: 1000 } });
  if (!Array.isArray(tools)) throw bad('engine.run: tools must be a list');
  if (typeof execute !== 'function' && !isObject(execute))
    throw bad('engine.run: execute must be a function, or an object with one for each tool');
  for (const [index, tool] of tools.entries()) {
    const name = (tool as Partial<ToolDefinition> | null)?.function?.name;
    if (typeof name !== 'string')
      throw bad(`engine.run: tools[${index}] must be { type: "function", function: { name, … } }`);
    if (typeof execute !== 'function' && typeof own(execute!, name) !== 'function')
      throw bad(`engine.run: execute has no function for the tool ${JSON.stringify(name)}`);
  }
  return options;
}

const own = <T>(of: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(of, name) ? of[name] : undefined;

async function loop(
  generate: Generate,
  options: RunOptions,
  emit: (event: RunEvent) => void,
  halt: AbortSignal,
): Promise<RunResult> {
  const { messages, tools, execute, maxRounds = MOST_ROUNDS, ...rest } = checked(options);
  const { signal, onTokens, toolChoice = 'auto' } = rest;
  const ends = signal ? AbortSignal.any([signal, halt]) : halt;
  const added: (Message | PicturedMessage)[] = [];
  const results: GenerateResult[] = [];
  const add = (message: Message | PicturedMessage, round: number): void => {
    added.push(message);
    emit({ type: 'message', message, round });
  };
  const ended = (reason: RunResult['finish_reason']): RunResult => ({
    text: results.at(-1)?.text ?? '',
    message: (added.filter(({ role }) => role === 'assistant').at(-1) as Message | undefined) ?? {
      role: 'assistant',
      content: '',
    },
    messages: added,
    rounds: results.length,
    finish_reason: reason,
    results,
  });
  /** Ends an aborted run: an abort by the signal throws, `stop()` returns what there is. */
  const cut = (): RunResult => {
    if (signal?.aborted) throw aborted('the run', signal, ended('abort'));
    return ended('abort');
  };

  for (let round = 1; ; round++) {
    if (ends.aborted) return cut();
    const generation = generate([...messages, ...added], {
      ...rest,
      ...(tools.length > 0 ? { tools } : {}),
      ...(round > 1 && !['auto', 'none'].includes(toolChoice) ? { toolChoice: 'auto' } : {}),
      onTokens: (piece: TokenPiece) => {
        for (const part of piece.parts ?? []) emit({ ...part, round });
        onTokens?.(piece);
      },
    });
    const stop = (): void => generation.stop();
    halt.addEventListener('abort', stop, { once: true });
    let result: GenerateResult;
    try {
      result = await generation;
    } catch (error) {
      const partial = error instanceof MillraceError && error.code === 'ABORTED' && error.data.result;
      if (partial) {
        results.push(partial as GenerateResult);
        const { message } = partial as GenerateResult;
        // What was not finished is no call.
        if (message) add({ role: 'assistant', content: message.content ?? '' }, round);
      }
      if (signal?.aborted) return cut();
      throw error;
    } finally {
      halt.removeEventListener('abort', stop);
    }
    results.push(result);
    const message = result.message ?? { role: 'assistant', content: result.text };
    const calls = message.tool_calls ?? [];
    add(message, round);
    if (calls.length === 0) return ended(result.finish_reason);
    if (result.finish_reason !== 'stop' || round === maxRounds) {
      // A conversation in which a call has no result cannot go on.
      const why = result.finish_reason === 'stop' ? 'the limit of rounds is reached' : 'the answer was cut off';
      for (const call of calls) add(resultOf(call, `error: not executed: ${why}`), round);
      return ended(result.finish_reason === 'stop' ? 'rounds' : result.finish_reason);
    }
    const contents = new Map<ToolCall, string | MessagePart[]>();
    const conversation = [...messages, ...added];
    const all = Promise.all(
      calls.map(async (call) => {
        const began = performance.now();
        const { content, failed } = await executed(call, execute, ends, conversation);
        if (ends.aborted) return;
        contents.set(call, content);
        const ms = performance.now() - began;
        const shown = typeof content === 'string' ? { content } : { content: textOf(content), parts: content };
        emit({ type: 'tool_result', id: call.id!, name: call.function.name, ...shown, failed, ms, round });
      }),
    );
    await Promise.race([all, whenAborted(ends)]);
    for (const call of calls)
      add(resultOf(call, contents.get(call) ?? 'error: not executed: the run was stopped'), round);
  }
}

const whenAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((done) => (signal.aborted ? done() : signal.addEventListener('abort', () => done(), { once: true })));

const resultOf = ({ id, function: { name } }: ToolCall, content: string | MessagePart[]): Message | PicturedMessage =>
  ({
    role: 'tool',
    ...(id === undefined ? {} : { tool_call_id: id }),
    name,
    content,
  }) as Message | PicturedMessage;

/** What a call comes to; it does not throw. */
async function executed(
  call: ToolCall,
  execute: RunOptions['execute'],
  signal: AbortSignal,
  messages: readonly (Message | PicturedMessage)[],
): Promise<{ content: string | MessagePart[]; failed: boolean }> {
  const { name, arguments: given } = call.function;
  try {
    const args = argumentsOf(given);
    const work = typeof execute === 'function' ? execute : own(execute, name);
    if (!work) throw new Error(`there is no tool ${name}`);
    const value = await Promise.resolve(work(args, { id: call.id ?? '', name, signal, messages }));
    if (typeof value === 'string') return { content: value, failed: false };
    return { content: shownParts(value) ?? JSON.stringify(value) ?? 'null', failed: false };
  } catch (error) {
    return { content: `error: ${error instanceof Error ? error.message : String(error)}`, failed: true };
  }
}

function argumentsOf(given: string | Record<string, unknown>): Record<string, unknown> {
  if (typeof given !== 'string') return given;
  let value: unknown;
  try {
    value = JSON.parse(given === '' ? '{}' : given);
  } catch (error) {
    throw new Error(`the arguments are no JSON: ${(error as Error).message}`);
  }
  if (!isObject(value)) throw new Error('the arguments are no JSON object');
  return value;
}
