// The engine as a model of Vercel's AI SDK: its call options become OpenAI's parameters, and OpenAI's chunks its parts.
import type {
  EmbeddingModelV4,
  JSONObject,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4FilePart,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4Usage,
  RerankingModelV4,
  SharedV4ProviderMetadata,
  SharedV4ProviderOptions,
  SharedV4Warning,
} from '@ai-sdk/provider';
import {
  type ChatCompletionChunk,
  type ChatCompletionParams,
  type ChatMessage,
  type ContentPart,
  type ChatTool,
  type CompiledGrammar,
  type CompletionStream,
  type CompletionUsage,
  type Engine,
  MillraceError,
} from './index.ts';

/** A loaded {@link Engine} as a model for the AI SDK. */
export type MillraceModel = LanguageModelV4 & { readonly engine: Engine };

/**
 * A loaded engine as a model for the AI SDK 7 (`generateText`, `streamText`, `ToolLoopAgent`, …).
 *
 * ```js
 * const { textStream } = streamText({ model: millrace(engine), prompt: 'Why is the sky blue?' });
 * ```
 *
 * Schemas (`generateObject`, `streamObject`, `Output`), `toolChoice` and `strict` tools are enforced. What a schema says and cannot be enforced rejects
 * with a {@link MillraceError} of code UNSUPPORTED_SCHEMA; with `providerOptions.millrace.lenient` it is left out, and is a warning. What cannot be
 * honoured (files but pictures, a provider's own tools) rejects with BAD_OPTION. `providerOptions.millrace` takes further parameters of `engine.chat.completions.create`, such as `min_p`;
 * that of a picture's part `imageDetail: 'low'`.
 * `providerMetadata.millrace` has `timings`, and `grammar` where an answer was forced, of `engine.generate`'s result.
 */
export function millrace(engine: Engine): MillraceModel {
  return {
    specificationVersion: 'v4',
    provider: 'millrace',
    modelId: engine.modelName,
    // Nothing is fetched here: the SDK fetches what a prompt refers to, and it is refused.
    // Addresses of pictures are fetched by the engine.
    supportedUrls: { 'image/*': [/^(https?|blob|data):/] },
    engine,

    async doGenerate(options) {
      const { params, warnings, signal } = asked(engine, options);
      const answer = await engine.chat.completions.create({ ...params, stream: false }, signal);
      const { message, finish_reason } = answer.choices[0]!;
      const content: LanguageModelV4Content[] = [];
      if (message.reasoning_content) content.push({ type: 'reasoning', text: message.reasoning_content });
      if (message.content) content.push({ type: 'text', text: message.content });
      for (const { id, function: call } of message.tool_calls ?? [])
        content.push({ type: 'tool-call', toolCallId: id, toolName: call.name, input: call.arguments });
      return {
        content,
        finishReason: reasonOf(finish_reason, Boolean(message.tool_calls)),
        usage: usageOf(answer.usage),
        providerMetadata: metadataOf(answer.usage),
        request: { body: params },
        response: { id: answer.id, timestamp: new Date(answer.created * 1000), modelId: answer.model, body: answer },
        warnings: [...warnings, ...warningsOf(answer.usage.grammar)],
      };
    },

    async doStream(options) {
      const { params, warnings, signal } = asked(engine, options);
      warnings.push(...(await unenforced(engine, params)));
      const chunks = await engine.chat.completions.create(
        { ...params, stream: true, stream_options: { include_usage: true } },
        signal,
      );
      const parts = partsOf(chunks, warnings, options.includeRawChunks ?? false);
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        async pull(controller) {
          const { done, value } = await parts.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: () => chunks.controller.abort(),
      });
      return { stream, request: { body: params } };
    },
  };
}

/**
 * A loaded engine whose model embeds, for the AI SDK's `embed` and `embedMany`.
 *
 * ```js
 * const { embedding } = await embed({ model: millraceEmbedding(engine), value: 'sunny day at the beach' });
 * ```
 *
 * `providerOptions.millrace` takes further options of `engine.embed`, such as `prompt`.
 */
export function millraceEmbedding(engine: Engine): EmbeddingModelV4 & { readonly engine: Engine } {
  return {
    specificationVersion: 'v4',
    provider: 'millrace',
    modelId: engine.modelName,
    // Many are rows of one pass: the more at a time, the better.
    maxEmbeddingsPerCall: Infinity,
    supportsParallelCalls: true,
    engine,

    async doEmbed({ values, dimensions, abortSignal, providerOptions }) {
      const { vectors, tokens } = await engine.embed(values, {
        ...providerOptions?.millrace,
        ...(dimensions === undefined ? {} : { dimensions }),
        ...signalOf(abortSignal),
      });
      return { embeddings: vectors.map((vector) => Array.from(vector)), usage: { tokens }, warnings: [] };
    },
  };
}

/** A loaded engine whose model judges, for the AI SDK's `rerank`. `providerOptions.millrace` takes further options of `engine.rerank`. */
export function millraceReranking(engine: Engine): RerankingModelV4 & { readonly engine: Engine } {
  return {
    specificationVersion: 'v4',
    provider: 'millrace',
    modelId: engine.modelName,
    engine,

    async doRerank({ documents, query, topN, abortSignal, providerOptions }) {
      const texts =
        documents.type === 'text' ? documents.values : documents.values.map((document) => JSON.stringify(document));
      const { ranking } = await engine.rerank(query, texts, {
        ...providerOptions?.millrace,
        ...(topN === undefined ? {} : { topN }),
        ...signalOf(abortSignal),
      });
      return { ranking: ranking.map(({ index, score }) => ({ index, relevanceScore: score })) };
    },
  };
}

const signalOf = (signal: AbortSignal | undefined): { signal?: AbortSignal } => (signal ? { signal } : {});

/** Levels of chat templates that read `reasoning_effort`, for the SDK's. */
const LEVELS: Record<string, 'low' | 'medium' | 'high' | undefined> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
};

/** A call's options in OpenAI's words. `headers` are for models behind HTTP. */
function asked(
  engine: Engine,
  options: LanguageModelV4CallOptions,
): {
  params: ChatCompletionParams;
  warnings: SharedV4Warning[];
  signal: { signal?: AbortSignal };
} {
  const warnings: SharedV4Warning[] = [];
  const params: ChatCompletionParams = { messages: options.prompt.flatMap(messagesOf) };
  const set = <K extends keyof ChatCompletionParams>(name: K, value: ChatCompletionParams[K]): void => {
    if (value !== undefined) params[name] = value;
  };
  set('max_tokens', options.maxOutputTokens);
  set('temperature', options.temperature);
  set('stop', options.stopSequences);
  set('top_p', options.topP);
  set('top_k', options.topK);
  set('presence_penalty', options.presencePenalty);
  set('frequency_penalty', options.frequencyPenalty);
  set('seed', options.seed);
  const format = options.responseFormat;
  if (format?.type === 'json') {
    const { schema, name = 'answer', description } = format;
    params.response_format = schema
      ? {
          type: 'json_schema',
          json_schema: { name, schema: schema as JSONObject, ...(description ? { description } : {}) },
        }
      : { type: 'json_object' };
  }
  if (options.tools?.length) {
    params.tools = options.tools.map((tool): ChatTool => {
      if (tool.type !== 'function')
        throw refused(
          `tools: ${tool.id} is a tool that its provider runs, which there is none of here: give the model a function instead`,
        );
      const { name, description, inputSchema, inputExamples, strict } = tool;
      if (inputExamples?.length)
        warnings.push({
          type: 'unsupported',
          feature: 'inputExamples',
          details: `chat templates have no place for examples: put those of ${name} into its description`,
        });
      return {
        type: 'function',
        function: {
          // In the order in which models have seen it: templates print it as it is.
          name,
          ...(description ? { description } : {}),
          parameters: inputSchema as Record<string, unknown>,
          ...(strict ? { strict } : {}),
        },
      };
    });
    const choice = options.toolChoice;
    if (choice)
      params.tool_choice =
        choice.type === 'tool' ? { type: 'function', function: { name: choice.toolName } } : choice.type;
  }
  const { reasoning = 'provider-default' } = options;
  if (reasoning !== 'provider-default') {
    const { template_options: known } = engine.info.model;
    const levels = known.includes('reasoning_effort');
    const level = LEVELS[reasoning];
    if (known.includes('enable_thinking') || !levels)
      params.chat_template_kwargs = { enable_thinking: reasoning !== 'none' };
    if (levels && level) params.reasoning_effort = level;
    if (!levels || level !== reasoning)
      warnings.push({
        type: 'compatibility',
        feature: 'reasoning',
        details: levels
          ? `this model's chat template has the levels low, medium and high: ${reasoning} is ${level ?? 'left to the template'}`
          : 'thinking can be switched on and off where the chat template reads enable_thinking; this model has no levels of it',
      });
  }
  const more = options.providerOptions?.millrace;
  if (more) {
    // These decide the response, which the SDK handles itself.
    const not = ['messages', 'n', 'stream', 'stream_options', 'tools', 'tool_choice'].find(
      (name) => (more[name] ?? null) !== null,
    );
    if (not) throw refused(`providerOptions.millrace.${not} is not a parameter that can be given here`);
    if (more.chat_template_kwargs)
      params.chat_template_kwargs = { ...params.chat_template_kwargs, ...(more.chat_template_kwargs as object) };
    const { chat_template_kwargs: _, ...rest } = more;
    Object.assign(params, rest);
  }
  return { params, warnings, signal: options.abortSignal ? { signal: options.abortSignal } : {} };
}

/** What of an answer's schema is not enforced. A stream has to say it first, and so compiles the schema before it asks for the answer. */
async function unenforced(engine: Engine, params: ChatCompletionParams): Promise<SharedV4Warning[]> {
  const { response_format: format, lenient } = params;
  if (format?.type !== 'json_schema' || !format.json_schema.schema) return [];
  return warningsOf(await engine.compileSchema(format.json_schema.schema, { lenient: lenient ?? false }));
}

function warningsOf(grammar: CompiledGrammar | undefined): SharedV4Warning[] {
  return (grammar?.warnings ?? []).map(({ pointer, keyword, reason }) => ({
    type: 'unsupported',
    feature: `schema: ${keyword}`,
    details: pointer === '' ? reason : `${pointer}: ${reason}`,
  }));
}

function refused(what: string): MillraceError {
  return new MillraceError('BAD_OPTION', `millrace/ai-sdk: ${what}`);
}

/** One of the SDK's messages; one with several results of tools becomes several. */
function messagesOf(message: LanguageModelV4Prompt[number], index: number): ChatMessage[] {
  const where = `prompt[${index}]`;
  const unreadable = (part: { type: string; mediaType?: string }): MillraceError =>
    refused(
      `${where} has a part of type ${JSON.stringify(part.type)}${part.mediaType ? ` (${part.mediaType})` : ''}: text and pictures are read`,
    );
  if (message.role === 'system') return [{ role: 'system', content: message.content }];
  if (message.role === 'tool') {
    return message.content.map((part) => {
      if (part.type !== 'tool-result') throw unreadable(part);
      return {
        role: 'tool',
        tool_call_id: part.toolCallId,
        name: part.toolName,
        content: outputOf(part.output, unreadable),
      };
    });
  }
  let content = '';
  let reasoning = '';
  const parts: ContentPart[] = [];
  const calls: NonNullable<ChatMessage['tool_calls']>[number][] = [];
  for (const part of message.content) {
    if (part.type === 'text') {
      content += part.text;
      parts.push({ type: 'text', text: part.text });
    } else if (part.type === 'file') {
      const url = message.role === 'user' ? addressOf(part) : null;
      if (url === null) throw unreadable(part);
      parts.push(pictureOf(part, url));
    } else if (part.type === 'reasoning') reasoning += part.text;
    else if (part.type === 'tool-call')
      calls.push({
        id: part.toolCallId,
        type: 'function',
        function: { name: part.toolName, arguments: JSON.stringify(part.input) },
      });
    else throw unreadable(part);
  }
  if (parts.some(({ type }) => type !== 'text')) return [{ role: message.role, content: parts }];
  const said: ChatMessage = { role: message.role, content: content === '' && calls.length > 0 ? null : content };
  if (reasoning !== '') said.reasoning_content = reasoning;
  if (calls.length > 0) said.tool_calls = calls;
  return [said];
}

/** The address of a picture; null of other files. */
function addressOf({ mediaType, data }: Pick<LanguageModelV4FilePart, 'mediaType' | 'data'>): string | null {
  if (!/^image(\/|$)/.test(mediaType)) return null;
  if (data.type === 'url') return String(data.url);
  if (data.type !== 'data') return null;
  return `data:${mediaType};base64,${typeof data.data === 'string' ? data.data : base64(data.data)}`;
}

function base64(bytes: Uint8Array): string {
  let text = '';
  // As many at a time as a call has room for.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** What a tool has answered: text, or parts where it shows pictures. */
function outputOf(
  output: LanguageModelV4ToolResultOutput,
  unreadable: (part: { type: string; mediaType?: string }) => MillraceError,
): string | ContentPart[] {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value);
    case 'execution-denied':
      return output.reason ?? 'The call of this tool was denied.';
    case 'content': {
      const parts = output.value.map((part): ContentPart => {
        if (part.type === 'text') return { type: 'text', text: part.text };
        const url = part.type === 'file' ? addressOf(part) : null;
        if (url === null) throw unreadable(part);
        return pictureOf(part, url);
      });
      return parts.every((part) => part.type === 'text') ? parts.map(({ text }) => text).join('') : parts;
    }
  }
}

/** A picture with the detail that its part wants. */
function pictureOf({ providerOptions }: { providerOptions?: SharedV4ProviderOptions }, url: string): ContentPart {
  const detail = providerOptions?.millrace?.imageDetail as 'low' | undefined;
  return { type: 'image_url', image_url: detail === undefined ? { url } : { url, detail } };
}

/** A stream's parts: texts and thoughts as blocks with a beginning and an end. */
async function* partsOf(
  chunks: CompletionStream<ChatCompletionChunk>,
  warnings: SharedV4Warning[],
  raw: boolean,
): AsyncGenerator<LanguageModelV4StreamPart, void> {
  let open: { type: 'text' | 'reasoning'; id: string } | null = null;
  let blocks = 0;
  let called = false;
  let finishReason: LanguageModelV4FinishReason = { unified: 'other', raw: undefined };
  let usage: CompletionUsage | undefined;
  const close = function* (): Generator<LanguageModelV4StreamPart> {
    if (open) yield { type: `${open.type}-end`, id: open.id };
    open = null;
  };
  /** The call at hand, as far as its arguments have come. */
  let input: { index: number; id: string; name: string; text: string } | null = null;
  const ended = function* (): Generator<LanguageModelV4StreamPart> {
    if (!input) return;
    const { id, name, text } = input;
    input = null;
    yield { type: 'tool-input-end', id };
    yield { type: 'tool-call', toolCallId: id, toolName: name, input: text };
  };
  const say = function* (type: 'text' | 'reasoning', delta: string): Generator<LanguageModelV4StreamPart> {
    yield* ended();
    if (open?.type !== type) {
      yield* close();
      open = { type, id: String(blocks++) };
      yield { type: `${type}-start`, id: open.id };
    }
    yield { type: `${type}-delta`, id: open.id, delta };
  };
  yield { type: 'stream-start', warnings };
  let first = true;
  try {
    for await (const chunk of chunks) {
      if (raw) yield { type: 'raw', rawValue: chunk };
      if (first)
        yield {
          type: 'response-metadata',
          id: chunk.id,
          timestamp: new Date(chunk.created * 1000),
          modelId: chunk.model,
        };
      first = false;
      usage = chunk.usage ?? usage;
      const [choice] = chunk.choices;
      if (!choice) continue;
      const { content, reasoning_content: thought, tool_calls: calls = [] } = choice.delta;
      if (thought) yield* say('reasoning', thought);
      if (content) yield* say('text', content);
      for (const { index, id, function: call } of calls) {
        if (id !== undefined) {
          called = true;
          yield* close();
          yield* ended();
          input = { index, id, name: call.name!, text: '' };
          yield { type: 'tool-input-start', id, toolName: input.name };
        }
        if (!input || !call.arguments) continue;
        input.text += call.arguments;
        yield { type: 'tool-input-delta', id: input.id, delta: call.arguments };
      }
      if (choice.finish_reason) finishReason = reasonOf(choice.finish_reason, called);
    }
  } catch (error) {
    // An abort ends the SDK's stream; every other failure is a part of it.
    if (error instanceof MillraceError && error.code === 'ABORTED') throw error;
    yield { type: 'error', error };
    finishReason = { unified: 'error', raw: error instanceof MillraceError ? error.code : undefined };
  }
  yield* close();
  yield* ended();
  yield {
    type: 'finish',
    finishReason,
    usage: usageOf(usage),
    ...(usage ? { providerMetadata: metadataOf(usage) } : {}),
  };
}

/** OpenAI ends a call of the function that was named with `stop`. */
function reasonOf(raw: 'stop' | 'length' | 'tool_calls', called: boolean): LanguageModelV4FinishReason {
  return { unified: raw === 'length' ? raw : called ? 'tool-calls' : 'stop', raw };
}

function usageOf(usage: CompletionUsage | undefined): LanguageModelV4Usage {
  const total = usage?.prompt_tokens;
  const cacheRead = usage?.prompt_tokens_details.cached_tokens;
  return {
    inputTokens: { total, cacheRead, noCache: usage && total! - cacheRead!, cacheWrite: undefined },
    // Thoughts are not counted apart.
    outputTokens: { total: usage?.completion_tokens, text: undefined, reasoning: undefined },
    ...(usage ? { raw: usage as unknown as JSONObject } : {}),
  };
}

function metadataOf({ timings, grammar }: CompletionUsage): SharedV4ProviderMetadata {
  return { millrace: { timings, ...(grammar ? { grammar: grammar as unknown as JSONObject } : {}) } };
}
