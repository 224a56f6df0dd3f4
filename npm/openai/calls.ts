// OpenAI's methods on an engine; their implementation is loaded at the first call.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import type { CompletionStream } from './stream.ts';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
  Completion,
  CompletionParams,
  ParsedChatCompletion,
  RequestOptions,
} from './types.ts';

type Calls = typeof import('../openai.ts');

let loaded: Calls | null = null;

/**
 * Runs a call: synchronously once the implementation is loaded, so that requests are queued in the order of calls.
 * @internal
 */
export function calls<R>(ask: (calls: Calls) => Promise<R>): Promise<R> {
  return loaded ? ask(loaded) : load().then(ask);
}

async function load(): Promise<Calls> {
  try {
    loaded = await import('../openai.ts');
    return loaded;
  } catch (error) {
    const message = `openai.js could not be loaded from beside ${import.meta.url}: serve the whole package from one folder`;
    throw new MillraceError('INTERNAL', message, { cause: error });
  }
}

/** `engine.chat.completions`. */
export class ChatCompletions {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Answers a chat, in OpenAI's shapes. A parameter that cannot be honoured rejects with BAD_OPTION, another model's name with NOT_FOUND; the other
   * errors are those of `engine.generate`.
   */
  create(
    params: ChatCompletionParams & { stream: true },
    options?: RequestOptions,
  ): Promise<CompletionStream<ChatCompletionChunk>>;
  create(params: ChatCompletionParams & { stream?: false | null }, options?: RequestOptions): Promise<ChatCompletion>;
  create(
    params: ChatCompletionParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | CompletionStream<ChatCompletionChunk>>;
  async create(
    params: ChatCompletionParams,
    options: RequestOptions = {},
  ): Promise<ChatCompletion | CompletionStream<ChatCompletionChunk>> {
    return calls((it) => it.chat(this.#engine, params, options));
  }

  /**
   * Answers a chat whole and parses the answers: the JSON that `response_format` asks for as `message.parsed`, the
   * arguments of `strict` tools as `parsed_arguments`. Formats and tools of OpenAI's helpers for zod are parsed by
   * their schemas.
   */
  async parse<T = unknown>(
    params: ChatCompletionParams & { stream?: false | null },
    options: RequestOptions = {},
  ): Promise<ParsedChatCompletion<T>> {
    return calls((it) => it.parsedChat<T>(this.#engine, params, options));
  }
}

/** `engine.completions`. */
export class Completions {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Continues a text exactly as it is, in OpenAI's shapes; 16 tokens by default. Rejects as {@link
   * ChatCompletions.create}.
   */
  create(params: CompletionParams & { stream: true }, options?: RequestOptions): Promise<CompletionStream<Completion>>;
  create(params: CompletionParams & { stream?: false | null }, options?: RequestOptions): Promise<Completion>;
  create(params: CompletionParams, options?: RequestOptions): Promise<Completion | CompletionStream<Completion>>;
  async create(
    params: CompletionParams,
    options: RequestOptions = {},
  ): Promise<Completion | CompletionStream<Completion>> {
    return calls((it) => it.plain(this.#engine, params, options));
  }
}
