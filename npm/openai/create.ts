// The implementation of `chat.completions.create` and `completions.create`.
import type { Engine } from '../engine.ts';
import { aborted } from '../generation.ts';
import type { AnswerPart, GenerateOptions, GenerateResult, Input, ScoredToken, TokenLogprobs } from '../types.ts';
import { type Asked, chatAsked, plainAsked } from './params.ts';
import { randomId } from '../parts.ts';
import { CompletionStream } from './stream.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
  ChatDelta,
  ChatLogprobs,
  Completion,
  CompletionLogprobs,
  CompletionParams,
  CompletionUsage,
  FinishReason,
  ParsedChatCompletion,
  RequestOptions,
  TokenLogprob,
} from './types.ts';

function head<T extends string>(engine: Engine, object: T, prefix: string) {
  const { version, lane } = engine.info;
  return {
    id: `${prefix}-${randomId(24)}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model: engine.modelName,
    system_fingerprint: `millrace-${version}-${lane}`,
  };
}

/** The usage of several answers; a prompt that is answered `n` times counts once. */
function usageOf(results: readonly GenerateResult[], n: number): CompletionUsage {
  const sum = (of: (result: GenerateResult) => number, only = results): number =>
    only.reduce((all, result) => all + of(result), 0);
  const firsts = results.filter((_, index) => index % n === 0);
  const prompt = sum((result) => result.prompt_tokens, firsts);
  const completion = sum((result) => result.tokens.length);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum((result) => result.cached_tokens, firsts) },
    completion_tokens_details: {
      accepted_prediction_tokens: sum((result) => result.accepted_tokens),
      rejected_prediction_tokens: sum((result) => result.drafted_tokens - result.accepted_tokens),
    },
    timings: results.at(-1)!.timings,
    // The grammar is the same for all answers; the first has the time of its compilation.
    ...(results[0]!.grammar ? { grammar: results[0]!.grammar } : {}),
  };
}

/** One answer as it arrives: its pieces of text, then its result. */
type Piece =
  | { index: number; text: string; logprobs: readonly TokenLogprobs[]; parts: readonly AnswerPart[] }
  | { index: number; result: GenerateResult };

const tokenLogprob = ({ text: token, bytes, logprob }: ScoredToken): TokenLogprob => ({ token, bytes, logprob });

/** A chat's log probabilities; null where they were not asked for. */
function chatLogprobs({ options }: Asked, tokens: readonly TokenLogprobs[]): ChatLogprobs | null {
  if (options.logprobs === undefined) return null;
  return {
    content: tokens.map((token) => ({ ...tokenLogprob(token), top_logprobs: token.top.map(tokenLogprob) })),
    refusal: null,
  };
}

/** A plain completion's log probabilities, from the character `offset` on; null where they were not asked for. */
function plainLogprobs({ options }: Asked, tokens: readonly TokenLogprobs[], offset = 0): CompletionLogprobs | null {
  if (options.logprobs === undefined) return null;
  const starts: number[] = [];
  for (const { text } of tokens) {
    starts.push(offset);
    offset += text.length;
  }
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    // The likeliest come first, and win where two have the same text.
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map(({ text, logprob }) => [text, logprob] as const).reverse()),
    ),
    text_offset: starts,
  };
}

/** All answers, in sequence. Leaving the generator stops the current one. */
async function* answers(
  engine: Engine,
  { inputs, options, n, parallel }: Asked,
  signal: AbortSignal | undefined,
): AsyncGenerator<Piece, GenerateResult[]> {
  const results: GenerateResult[] = [];
  for (let index = 0; index < inputs.length * n; index += 1) {
    const one: GenerateOptions = { ...options, ...(signal ? { signal } : {}) };
    if (options.seed !== undefined) one.seed = options.seed + (index % n);
    // Log probabilities and parts of each piece of text.
    const come: Pick<Extract<Piece, { text: string }>, 'logprobs' | 'parts'>[] = [];
    one.onTokens = ({ logprobs = [], parts = [] }) => come.push({ logprobs, parts });
    const generation = engine.generate(inputs[Math.floor(index / n)] as Input, one);
    // Leaving while the next piece is awaited does not end the loop by itself: the abort stops the generation.
    const stop = (): void => generation.stop();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      for await (const text of generation) {
        const { logprobs, parts } = come.shift() ?? { logprobs: [], parts: [] };
        const second = parallel ? -1 : parts.findIndex((part) => part.type === 'tool_call' && part.index > 0);
        yield { index, text, logprobs, parts: second < 0 ? parts : parts.slice(0, second) };
        // Where calls are not forced, only this prevents a second call.
        if (second >= 0) break;
      }
    } finally {
      signal?.removeEventListener('abort', stop);
    }
    const result = await generation;
    results.push(result);
    yield { index, result };
  }
  return results;
}

/** Collects what a generator yields and returns. */
async function collect<T, R>(items: AsyncGenerator<T, R>, each: (item: T) => void): Promise<R> {
  for (;;) {
    const { done, value } = await items.next();
    if (done) return value;
    each(value);
  }
}

/**
 * The reason of an answer's end: a call that was cut off cannot be executed, and where the caller has named the
 * function, OpenAI's reason is `stop`.
 */
const reasonOf = (result: GenerateResult, calls: boolean, { named }: Asked): FinishReason =>
  result.finish_reason === 'length' ? 'length' : calls && !named ? 'tool_calls' : 'stop';

/** A part in OpenAI's shape; null for the end of a call, which has none. */
function deltaOf(part: AnswerPart): ChatDelta | null {
  switch (part.type) {
    case 'content':
      return { content: part.text };
    case 'reasoning':
      return { reasoning_content: part.text };
    case 'tool_call': {
      const { index, id, name } = part;
      return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    }
    case 'arguments':
      return { tool_calls: [{ index: part.index, function: { arguments: part.text } }] };
    case 'tool_call_end':
      return null;
  }
}

/** A chat's deltas, in order, and the reason of each answer's end. */
async function* chatDeltas(
  engine: Engine,
  asked: Asked,
  signal: AbortSignal | undefined,
): AsyncGenerator<
  { index: number; delta: ChatDelta; logprobs: ChatLogprobs | null; reason: FinishReason | null },
  GenerateResult[]
> {
  const pieces = answers(engine, asked, signal);
  let calls = 0;
  let begun = false;
  // Log probabilities of text that is not parsed yet.
  const scored: TokenLogprobs[] = [];
  const logprobs = (): ChatLogprobs | null => chatLogprobs(asked, scored.splice(0));
  const deltas = function* (index: number, parts: readonly AnswerPart[]) {
    for (const part of parts) {
      const delta = deltaOf(part);
      if (part.type === 'tool_call') calls += 1;
      if (delta) yield { index, delta, logprobs: logprobs(), reason: null };
    }
  };
  try {
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return value;
      if (!begun) {
        const delta: ChatDelta = { role: 'assistant', content: '', refusal: null };
        yield { index: value.index, delta, logprobs: null, reason: null };
      }
      begun = true;
      if ('text' in value) {
        scored.push(...value.logprobs);
        yield* deltas(value.index, value.parts);
        continue;
      }
      yield {
        index: value.index,
        delta: {},
        logprobs: scored.length > 0 ? logprobs() : null,
        reason: reasonOf(value.result, calls > 0, asked),
      };
      calls = 0;
      begun = false;
    }
  } finally {
    // Leaving early ends the current answer.
    await pieces.return([]);
  }
}

async function* chatChunks(
  engine: Engine,
  asked: Asked,
  signal: AbortSignal,
): AsyncGenerator<ChatCompletionChunk, void> {
  const about = head(engine, 'chat.completion.chunk', 'chatcmpl');
  const extra = asked.usage ? { usage: null } : {};
  const deltas = chatDeltas(engine, asked, signal);
  try {
    for (;;) {
      const { done, value } = await deltas.next();
      if (done) {
        if (asked.usage) yield { ...about, choices: [], usage: usageOf(value, asked.n) };
        return;
      }
      yield {
        ...about,
        choices: [{ index: value.index, delta: value.delta, logprobs: value.logprobs, finish_reason: value.reason }],
        ...extra,
      };
    }
  } finally {
    await deltas.return([]);
  }
}

async function chatWhole(engine: Engine, asked: Asked, signal: AbortSignal | undefined): Promise<ChatCompletion> {
  const choices: ChatCompletion['choices'] = [];
  const results = await collect(chatDeltas(engine, asked, signal), ({ index, delta, logprobs, reason }) => {
    const choice = (choices[index] ??= {
      index,
      message: { role: 'assistant', content: null, refusal: null },
      logprobs: chatLogprobs(asked, []),
      finish_reason: 'stop',
    });
    if (logprobs) choice.logprobs!.content.push(...logprobs.content);
    const { message } = choice;
    if (delta.content) message.content = (message.content ?? '') + delta.content;
    if (delta.reasoning_content)
      message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content;
    for (const { index: at, id, function: called } of delta.tool_calls ?? []) {
      const calls = (message.tool_calls ??= []);
      calls[at] ??= { id: id!, type: 'function', function: { name: called.name!, arguments: '' } };
      calls[at].function.arguments += called.arguments ?? '';
    }
    if (reason) choice.finish_reason = reason;
  });
  for (const { message } of choices) if (message.content === null && !message.tool_calls) message.content = '';
  return { ...head(engine, 'chat.completion', 'chatcmpl'), choices, usage: usageOf(results, asked.n) };
}

async function* plainChunks(engine: Engine, asked: Asked, signal: AbortSignal): AsyncGenerator<Completion, void> {
  const about = head(engine, 'text_completion', 'cmpl');
  const extra = asked.usage ? { usage: null } : {};
  const pieces = answers(engine, asked, signal);
  let offset = 0;
  try {
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) {
        if (asked.usage) yield { ...about, choices: [], usage: usageOf(value, asked.n) };
        return;
      }
      const ended =
        'result' in value ? (value.result.finish_reason === 'length' ? ('length' as const) : ('stop' as const)) : null;
      const { text, logprobs } = 'text' in value ? value : { text: '', logprobs: [] };
      if (ended) offset = 0;
      yield {
        ...about,
        choices: [
          {
            index: value.index,
            text,
            logprobs: ended ? null : plainLogprobs(asked, logprobs, offset),
            finish_reason: ended,
          },
        ],
        ...extra,
      };
      offset += logprobs.reduce((length, token) => length + token.text.length, 0);
    }
  } finally {
    await pieces.return([]);
  }
}

async function plainWhole(engine: Engine, asked: Asked, signal: AbortSignal | undefined): Promise<Completion> {
  const choices: Completion['choices'] = [];
  const results = await collect(answers(engine, asked, signal), (piece) => {
    const choice = (choices[piece.index] ??= { index: piece.index, text: '', logprobs: null, finish_reason: 'stop' });
    if ('text' in piece) {
      choice.text += piece.text;
    } else {
      choice.logprobs = plainLogprobs(asked, piece.result.logprobs ?? []);
      if (piece.result.finish_reason === 'length') choice.finish_reason = 'length';
    }
  });
  return { ...head(engine, 'text_completion', 'cmpl'), choices, usage: usageOf(results, asked.n) };
}

/** The chunks up to an abort: by the stream's own controller that is their end, by the caller's signal an error. */
async function* untilAborted<C>(
  chunks: AsyncGenerator<C, void>,
  { signal }: AbortController,
  given: AbortSignal | null | undefined,
  unfollow: () => void,
): AsyncGenerator<C, void> {
  let cut = false;
  try {
    for (;;) {
      const { done, value } = await chunks.next();
      // The abort may have come while the chunk was awaited.
      cut ||= signal.aborted;
      if (done) break;
      if (!cut) yield value;
    }
    if (cut && given?.aborted) throw aborted('generation', given);
  } catch (error) {
    if (!signal.aborted || given?.aborted) throw error;
  } finally {
    unfollow();
    await chunks.return();
  }
}

/** Aborts a controller when the signal is aborted. */
function follow(controller: AbortController, signal: AbortSignal | null | undefined): () => void {
  const abort = (): void => controller.abort(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true, signal: controller.signal });
  return () => signal?.removeEventListener('abort', abort);
}

/** The answer to a request: whole, or as a stream. */
async function respond<C, W>(
  engine: Engine,
  asked: Asked,
  options: RequestOptions,
  chunks: (engine: Engine, asked: Asked, signal: AbortSignal) => AsyncGenerator<C, void>,
  whole: (engine: Engine, asked: Asked, signal: AbortSignal | undefined) => Promise<W>,
): Promise<W | CompletionStream<C>> {
  const { signal, onProgress } = options;
  if (signal?.aborted) throw aborted('generation', signal);
  if (onProgress) asked.options.onProgress = onProgress;
  if (!asked.stream) return whole(engine, asked, signal ?? undefined);
  const controller = new AbortController();
  const all = chunks(engine, asked, controller.signal);
  return new CompletionStream<C>(untilAborted(all, controller, signal, follow(controller, signal)), controller);
}

/** {@link ChatCompletions.create} */
export async function chat(
  engine: Engine,
  params: ChatCompletionParams,
  options: RequestOptions,
): Promise<ChatCompletion | CompletionStream<ChatCompletionChunk>> {
  return respond(engine, chatAsked(params, engine), options, chatChunks, chatWhole);
}

/** {@link ChatCompletions.parse} */
export async function parsedChat<T>(
  engine: Engine,
  params: ChatCompletionParams & { stream?: false | null },
  options: RequestOptions,
): Promise<ParsedChatCompletion<T>> {
  const answer = (await chat(engine, { ...params, stream: false }, options)) as ChatCompletion;
  const json = !['text', undefined].includes(params.response_format?.type) || Boolean(params.schema);
  return {
    ...answer,
    choices: answer.choices.map(({ message: { tool_calls: calls, ...message }, ...choice }) => {
      const whole = choice.finish_reason !== 'length';
      const strict = (name: string): object | undefined =>
        params.tools?.find(({ function: tool }) => tool.name === name && tool.strict);
      const read = calls?.map(({ function: { name, arguments: args }, ...call }) => ({
        ...call,
        function: {
          name,
          arguments: args,
          parsed_arguments: whole && strict(name) ? readAs(strict(name), args) : null,
        },
      }));
      const parsed = whole && json && message.content ? (readAs(params.response_format, message.content) as T) : null;
      return { ...choice, message: { ...message, parsed, ...(read ? { tool_calls: read } : {}) } };
    }),
  };
}

/** Parses JSON, by the parser of a format or tool of OpenAI's helpers where it has one. */
function readAs(format: object | null | undefined, text: string): unknown {
  const { $parseRaw: read } = (format ?? {}) as { $parseRaw?: (text: string) => unknown };
  return read ? read(text) : JSON.parse(text);
}

/** {@link Completions.create} */
export async function plain(
  engine: Engine,
  params: CompletionParams,
  options: RequestOptions,
): Promise<Completion | CompletionStream<Completion>> {
  return respond(engine, plainAsked(params, engine.modelName), options, plainChunks, plainWhole);
}
