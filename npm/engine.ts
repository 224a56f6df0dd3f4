/// <reference lib="esnext.disposable" preserve="true" />
import { Adapters } from './adapters.ts';
import { serve } from './bridge.ts';
import { configured, log, logProgress } from './configure.ts';
import { MillraceError } from './errors.ts';
import { aborted, Generation } from './generation.ts';
import { askToPersist, keyOf, noteKept, wasKept } from './kept.ts';
import { Link } from './link.ts';
import { call, models } from './models.ts';
import { hubName, PROJECTOR, resolveHub } from './hub.ts';
import { calls, ChatCompletions, Completions } from './openai/calls.ts';
import type { EmbeddingParams, EmbeddingResponse, RequestOptions } from './openai/types.ts';
import {
  absolute,
  checkGenerate,
  checkIds,
  checkLoad,
  checkName,
  checkPlan,
  checkSchema,
  checkTokenize,
} from './options.ts';
import { picturesOf, type SentPicture, sendable } from './pictures.ts';
import type { WasmLoadOptions, WasmModelFile } from './millrace.js';
import type { EngineNews } from './protocol.ts';
import type {
  CompiledGrammar,
  CustomFetch,
  Device,
  DeviceLost,
  DeviceRestored,
  EmbedOptions,
  Embeddings,
  EngineEventMap,
  EngineInfo,
  GenerateOptions,
  GenerateResult,
  Input,
  LoadOptions,
  LoadPlan,
  PlanOptions,
  Ranking,
  RerankOptions,
  Support,
  TokenizeOptions,
} from './types.ts';
import { Assembled, withIds } from './parts.ts';
import { type Run, type RunOptions, run } from './run.ts';
import { support } from './supported.ts';
import { tokenizerOf } from './tokenizer.ts';
import { enter, leave, type Share } from './room.ts';
import { Queue } from './queue.ts';
import { use } from './use.ts';
import { localFiles, missingWebGpu, wrongPlace } from './place.ts';

const seconds = (began: number): string => `${((performance.now() - began) / 1000).toFixed(1)} s`;

/** Whether this is no place of a browser's: addresses mean nothing without one. */
const nowhere = (): boolean => globalThis.location === undefined;

/** Why that device has nothing to compute on here; null where it has. */
const lacking = (device: Device): MillraceError | null => (device === 'gpu' || wrongPlace() ? missingWebGpu() : null);

/** Where a draft model is, if one is named. */
async function draftOf(
  where: string,
  { draft }: WasmLoadOptions,
  { file: _, ...options }: LoadOptions,
): Promise<Pick<WasmLoadOptions, 'draft'>> {
  if (draft === undefined) return {};
  // It reads no pictures.
  const text = hubName(draft) !== null && !(draft as string).includes(PROJECTOR) ? `${draft}${PROJECTOR}none` : draft;
  return { draft: await localFiles(await resolveHub(where, text, options, models.list)) };
}

/** How long an aborted load may take to leave the browser's storage in order before its Worker is ended, in milliseconds. */
const ABORT_GRACE_MS = 1000;

/**
 * A loaded model. It lives in a Worker of its own, or in one of yours ({@link LoadOptions.worker}); several engines can share a page.
 *
 * ```js
 * const engine = await Engine.load({ model: 'https://example.com/model.gguf' });
 * for await (const delta of engine.generate([{ role: 'user', content: 'Why is the sky blue?' }])) show(delta);
 * engine.dispose();
 * ```
 *
 * Where the GPU device is lost (a driver that resets, a crash of the browser's GPU process), the engine loads the model onto another and goes on
 * with what it was doing: see the events in {@link EngineEventMap}.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the interface types the events, and what is defined of the prototype below
export class Engine extends EventTarget {
  readonly #link: Link;
  #info: EngineInfo;
  readonly #queue = new Queue(() => this.#info.concurrency);
  readonly #share: Share;
  #disposed = false;
  /** OpenAI's chats: `engine.chat.completions.create({ messages, stream: true })`. */
  readonly chat: { readonly completions: ChatCompletions } = { completions: new ChatCompletions(this) };
  /** OpenAI's plain completions: `engine.completions.create({ prompt })`. */
  readonly completions: Completions = new Completions(this);
  /** OpenAI's embeddings: `engine.embeddings.create({ input: ['a text', 'another'] })`. */
  readonly embeddings: { create(params: EmbeddingParams, options?: RequestOptions): Promise<EmbeddingResponse> } = {
    create: (params, options) => calls((it) => it.embeddings(this, params, options)),
  };
  /** LoRA adapters: `await engine.adapters.load(url, { name: 'pirate' })`, then `engine.generate(prompt, { adapter: 'pirate' })`. */
  readonly adapters: Adapters = new Adapters({
    list: () => this.info.adapters,
    set: (name, files, signal) => this.#settle({ type: 'adapter', name, files }, signal),
  });
  /**
   * OpenAI's HTTP interface, answered by this engine: for clients that take a `fetch` of one's own, whatever address they are given.
   *
   * ```js
   * const client = new OpenAI({
   *   apiKey: 'none',
   *   baseURL: 'http://millrace/v1',
   *   fetch: engine.fetch,
   *   dangerouslyAllowBrowser: true,
   * });
   * ```
   */
  readonly fetch = (input: RequestInfo | URL, init?: RequestInit): Promise<Response> =>
    calls((it) => it.respondTo(this, input, init));

  private constructor(link: Link, info: EngineInfo, share: Share) {
    super();
    this.#link = link;
    this.#info = info;
    this.#share = share;
    this.#weigh();
    link.onTuned = (tuned) => this.#hear(tuned);
    link.onDevice = (event) => {
      if (event.type === 'restored') {
        this.#info = event.info;
        this.#weigh();
        log('warn', `another device has taken the lost one's place, after ${(event.ms / 1000).toFixed(1)} s`);
        this.dispatchEvent(new CustomEvent<DeviceRestored>('devicerestored', { detail: { ms: event.ms } }));
      } else {
        const { reason, message, recovering } = event;
        log(recovering ? 'warn' : 'error', `the device was lost (${reason}): ${message}`);
        this.dispatchEvent(new CustomEvent<DeviceLost>('devicelost', { detail: { reason, message, recovering } }));
      }
    };
  }

  /**
   * Loads a model onto the GPU. Rejects with a {@link MillraceError}: BAD_OPTION, NO_WEBGPU, NO_ADAPTER, NOT_FOUND, NETWORK, BAD_MODEL,
   * UNSUPPORTED_MODEL, OUT_OF_MEMORY, STORAGE, and ABORTED as soon as `signal` is aborted.
   */
  static async load(options: LoadOptions): Promise<Engine> {
    const device = options?.device ?? configured.device;
    const missing = lacking(device);
    if (missing && nowhere()) throw missing;
    const named = checkLoad(options);
    const { signal } = options;
    if (signal?.aborted) throw aborted('loading', signal);
    if (missing) throw missing;
    const { share, fitted } = await enter(options, (options) => Engine.plan(options));
    try {
      return await Engine.#load(options, share, {
        ...named,
        ...fitted,
        device,
        model: await localFiles(await resolveHub('Engine.load', named.model, options, models.list)),
        ...(await draftOf('Engine.load', named, options)),
        ...(await tokenizerOf('Engine.load', options)),
      });
    } catch (error) {
      leave(share);
      throw error;
    }
  }

  static async #load(options: LoadOptions, share: Share, checked: WasmLoadOptions): Promise<Engine> {
    const { signal, onProgress } = options;
    if (signal?.aborted) throw aborted('loading', signal);
    const fetch = options.model instanceof Response ? once(options.model) : options.fetch;
    const kept = (model: unknown): string | null =>
      typeof model === 'string' && checked.cache !== false ? keyOf(model) : null;
    const [url, draft] = [kept(checked.model), kept(checked.draft)];
    let evicted = false;
    let asked = false;
    const began = performance.now();
    const link = new Link(options.worker === false);
    const { id, answer } = link.request<'loaded'>(
      { type: 'load', options: checked, tune: options.tune, ownFetch: fetch !== undefined },
      (message) => {
        if (message.type === 'fetch' && fetch) return void serve(fetch, message.url, message.headers, message.port);
        if (message.type !== 'progress' || signal?.aborted) return;
        let { progress } = message;
        logProgress(progress);
        if (progress.phase === 'download' && !progress.cached && url !== null && !progress.draft) {
          if (!asked) {
            asked = true;
            evicted = wasKept(url);
            void askToPersist();
          }
          if (evicted)
            progress = {
              note: 'the browser has removed the stored copy of this model to free space: it is fetched again',
              ...progress,
            };
        }
        onProgress?.(progress);
      },
    );
    const unfollow = options.download?.follow((paused) => link.pause(id, paused));
    let onAbort = (): void => {};
    const abort = new Promise<never>((_, reject) => {
      onAbort = () => {
        reject(aborted('loading', signal));
        link.abort(id);
        setTimeout(() => link.close(aborted('loading', signal)), ABORT_GRACE_MS);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    try {
      const { info } = await Promise.race([answer, abort]);
      if (url !== null && info.storage.kind === 'opfs') {
        const urls = draft === null ? [url] : [url, draft];
        urls.forEach(noteKept);
        const ends = urls.map(use);
        link.onGone = () => {
          for (const end of ends) end();
        };
      }
      if (evicted) info.storage.evicted = true;
      const { model, lane, adapter } = info;
      // The engine says that it is the CPU; this, what can be done about it.
      const lacks = adapter.instead && missingWebGpu();
      if (lacks) log('warn', lacks.message);
      log('info', `${model.name} loaded in ${seconds(began)}: lane ${lane}, ${adapter.name}`);
      return new Engine(link, info, share);
    } catch (error) {
      log('info', `loading failed after ${seconds(began)}: ${(error as Error).message}`);
      answer.then(
        () => link.close(disposed()),
        () => link.close(disposed()),
      );
      throw error;
    } finally {
      unfollow?.();
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /**
   * What loading a model would take, before a byte of its weights is fetched: the download, storage, and GPU memory, against what there is; and
   * what would fit instead. `onProgress` is told what is waited for, where a server has to be asked again. Rejects as {@link Engine.load} does.
   */
  static async plan(options: PlanOptions): Promise<LoadPlan> {
    const device = options?.device ?? configured.device;
    const missing = lacking(device);
    if (missing && nowhere()) throw missing;
    const named = checkPlan(options);
    if (missing) throw missing;
    const { signal, fetch, onProgress } = options;
    const model = await localFiles(await resolveHub('Engine.plan', named.model, options, models.list));
    const draft = await draftOf('Engine.plan', named, options);
    const checked = { ...named, device, model, ...draft, ...(await tokenizerOf('Engine.plan', options)) };
    const given = { ...(signal ? { signal } : {}), ...(fetch ? { fetch } : {}), ...(onProgress ? { onProgress } : {}) };
    const plan = await call<LoadPlan>({ name: 'plan', options: checked }, given, options.worker === false);
    return typeof model === 'string' ? { url: model, ...plan } : plan;
  }

  /**
   * What this browser offers: whether an engine can be loaded at all and why not, the GPU, storage, memory. It loads nothing, and never rejects.
   * Whether a certain model fits is told by {@link Engine.plan}.
   */
  static supported(): Promise<Support> {
    return support();
  }

  /** The model's name in OpenAI's shapes. */
  get modelName(): string {
    return this.info.model.name ?? this.info.model.architecture;
  }

  /** The model, the GPU, memory and plan. Memory and plan are as of the end of the last generation or of tuning. */
  get info(): EngineInfo {
    return this.#info;
  }

  /**
   * Continues a text, a conversation or tokens. A text is continued exactly as it is; only messages go through the model's chat template.
   *
   * Begins at once where fewer answers are under way than {@link LoadOptions.concurrency} says, each in a conversation of its own; otherwise when as many
   * as that have ended: first come, first served. `onProgress` tells how many are ahead; an aborted one leaves the queue at once.
   *
   * Wrong arguments reject with BAD_OPTION, a prompt that is too long with CONTEXT_FULL, the second loss of the GPU device within a minute with
   * DEVICE_LOST.
   */
  generate(input: Input, options: GenerateOptions = {}): Generation {
    return this.#start(0, input, options);
  }

  /**
   * Lets the model use tools: it answers, its calls are executed by the functions in `execute`, several of one answer at once, their results go
   * back to it, and so on until it has nothing more to call.
   *
   * ```js
   * const { text } = await engine.run({
   *   messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
   *   tools: [{ type: 'function', function: { name: 'weather', description: 'The weather in a city.', parameters: {
   *     type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }],
   *   execute: { weather: async ({ city }) => (await fetch(`/weather?city=${encodeURIComponent(city)}`)).text() },
   * });
   * ```
   *
   * Rejects with BAD_OPTION for wrong options, and as {@link Engine.generate} does. What a tool throws goes to the model.
   */
  run(options: RunOptions): Run {
    return run((input, rest) => this.generate(input, rest), options);
  }

  /**
   * What texts are like, as vectors of which cosines say how near two texts are: of a model that embeds, such as Qwen3-Embedding or all-MiniLM. Many
   * short texts are read at once; one that is longer than the model reads is cut, which `truncated` counts. Waits its turn as generations do.
   *
   * ```js
   * const { vectors } = await engine.embed(['A mill race carries water.', 'The train was late.']);
   * const { vectors: [question] } = await engine.embed('What is a mill race?', { prompt: 'query' });
   * ```
   *
   * Rejects with UNSUPPORTED_MODEL where the model makes no embeddings, with BAD_OPTION for wrong options, with CONTEXT_FULL for a text that is too
   * long where `truncate` is false.
   */
  embed(texts: string | readonly string[], options?: EmbedOptions): Promise<Embeddings> {
    return this.#texts({ ...options, texts });
  }

  /**
   * How well documents answer a question, the best first: of a model that judges, such as Qwen3-Reranker or bge-reranker-v2-m3. Waits its turn as generations do, and
   * rejects as {@link Engine.embed} does.
   */
  rerank(query: string, documents: readonly string[], options?: RerankOptions): Promise<Ranking> {
    return this.#texts({ ...options, query, documents });
  }

  /**
   * The token ids that {@link Engine.generate} would read for the same input: messages go through the model's chat template, a text gets what the
   * model wants in front of it. Answers at once, also while the engine is at work. Rejects as `generate` does for wrong input.
   */
  async tokenize(input: Input, options: TokenizeOptions = {}): Promise<number[]> {
    const request = checkTokenize(input, options);
    if (this.#disposed) throw disposed();
    const asked = { ...request, ...(await sentPictures(input)) };
    return (await this.#link.request<'answer'>({ type: 'tokenize', request: asked }).answer).value as number[];
  }

  /**
   * How many tokens of a prompt a picture of so many pixels takes, with those around it, before it is read: {@link Engine.countTokens} of a message counts
   * them, too. Rejects with UNSUPPORTED_MODEL where the model reads no pictures, BAD_OPTION where it reads none of this size.
   */
  async imageTokens(width: number, height: number): Promise<number> {
    for (const side of [width, height])
      if (!Number.isInteger(side) || side < 1 || side > 2 ** 31)
        throw new MillraceError('BAD_OPTION', `engine.imageTokens: a picture of ${width} x ${height} pixels`);
    if (this.#disposed) throw disposed();
    return (await this.#link.request<'answer'>({ type: 'imageTokens', width, height }).answer).value as number;
  }

  /** The number of tokens that `tokenize` gives. */
  async countTokens(input: Input, options: TokenizeOptions = {}): Promise<number> {
    return (await this.tokenize(input, options)).length;
  }

  /**
   * What a JSON Schema becomes when an answer is forced to satisfy it ({@link GenerateOptions.schema}): for looking at a schema before it is used. Answers
   * also while the engine is at work. Rejects with UNSUPPORTED_SCHEMA, INVALID_SCHEMA or GRAMMAR_TOO_LARGE; `lenient` leaves out what cannot be enforced
   * and lists it in `warnings`.
   */
  async compileSchema(
    schema: Record<string, unknown>,
    { lenient = false }: { lenient?: boolean } = {},
  ): Promise<CompiledGrammar> {
    const text = checkSchema('engine.compileSchema', schema);
    if (this.#disposed) throw disposed();
    const asked = this.#link.request<'answer'>({ type: 'compile', schema: text, lenient: lenient === true });
    return (await asked.answer).value as CompiledGrammar;
  }

  /** What token ids add to a text, special ones by their names. Rejects with BAD_OPTION or TOKENIZER for what are no ids of the model. */
  async detokenize(tokens: readonly number[]): Promise<string> {
    const ids = checkIds('engine.detokenize', tokens);
    if (this.#disposed) throw disposed();
    return (await this.#link.request<'answer'>({ type: 'detokenize', tokens: ids }).answer).value as string;
  }

  /**
   * A further conversation that begins as this one is when the generations asked for before have ended: what it has read is not read
   * again. Conversations take turns; each keeps its place in GPU memory until {@link Conversation.dispose}.
   */
  fork(): Promise<Conversation> {
    return this.#enter({ type: 'fork', from: 0 });
  }

  /**
   * Keeps what this conversation has read and written in this browser's storage, in place of what had the name: {@link Engine.restore} goes on
   * from there without reading it again, in this engine or in a later one. Rejects with STORAGE where there is no room or no storage.
   */
  save(name: string): Promise<void> {
    return this.#save(0, name);
  }

  /**
   * A further conversation that begins as the saved one was. Rejects with NOT_FOUND where none has the name, with BAD_OPTION where it was saved
   * with another model or other settings (`lane`, `kv`), with STORAGE where it is damaged.
   */
  async restore(name: string): Promise<Conversation> {
    checkName('engine.restore', name);
    return this.#enter({ type: 'restore', name });
  }

  /** Removes a saved conversation, if it is there. */
  async forget(name: string): Promise<void> {
    checkName('engine.forget', name);
    return this.#settle({ type: 'forget', name });
  }

  /**
   * Announces a request, as when the user types a prompt: for two seconds the GPU is kept at work, so that the first
   * answer is as fast as those after it; a GPU that idles lowers its clock. Costs energy, so call it on input, not on a
   * timer. Requests that come meanwhile go first. Nothing happens where the engine is at work anyway, and on a GPU in
   * software.
   */
  warm(): void {
    if (!this.#disposed) this.#link.warm();
  }

  /** Frees the GPU memory and ends the engine's Worker, if it has one of its own. Whatever is pending, and all later calls, reject with DISPOSED. */
  dispose(): void {
    this.#disposed = true;
    leave(this.#share);
    this.#queue.close(disposed());
    this.#link.close(disposed());
  }

  #start(conversation: number, input: Input, options: GenerateOptions): Generation {
    return new Generation((onDelta) => {
      const halt = new AbortController();
      return { result: this.#generate(conversation, input, options, onDelta, halt), stop: () => halt.abort() };
    });
  }

  /** The Worker checks all that is asked. */
  async #texts<T>({ signal, ...request }: Record<string, unknown> & { signal?: AbortSignal }): Promise<T> {
    if (this.#disposed) throw disposed();
    const work = async (): Promise<T> => {
      const { id, answer } = this.#link.request<'answer'>({ type: 'embed', request });
      const abort = (): void => this.#link.abort(id);
      signal?.addEventListener('abort', abort);
      try {
        return (await answer).value as T;
      } finally {
        signal?.removeEventListener('abort', abort);
      }
    };
    return this.#queue.run(work, { signal });
  }

  /** The plan stays what it was where none comes. */
  #hear(news: EngineNews): void {
    this.#info = { ...news, plan: news.plan ?? this.#info.plan };
    this.#weigh();
  }

  /** Adapters change what it takes. */
  #weigh(): void {
    const { weights, kv_full, activations, spare } = this.#info.memory;
    this.#share.bytes = weights + kv_full + activations + spare;
  }

  /** A conversation of its own, from another or from storage. */
  async #enter(request: { type: 'fork'; from: number } | { type: 'restore'; name: string }): Promise<Conversation> {
    if (this.#disposed) throw disposed();
    const { conversation, info } = await this.#queue.run(() => this.#link.request<'forked'>(request).answer);
    this.#hear(info);
    return new Conversation({
      generate: (input, options) => this.#start(conversation, input, options),
      fork: () => this.#enter({ type: 'fork', from: conversation }),
      save: (name) => this.#save(conversation, name),
      // Not awaited: an engine that is disposed of has released everything.
      release: () => void this.#settle({ type: 'release', conversation }).catch(() => {}),
    });
  }

  async #save(conversation: number, name: string): Promise<void> {
    checkName('save', name);
    return this.#settle({ type: 'save', conversation, name });
  }

  async #settle(
    request:
      | { type: 'release'; conversation: number }
      | { type: 'save'; conversation: number; name: string }
      | { type: 'forget'; name: string }
      | { type: 'adapter'; name: string; files: { files: WasmModelFile[] } | undefined },
    signal?: AbortSignal,
  ): Promise<void> {
    if (this.#disposed) throw disposed();
    const work = async (): Promise<void> => {
      const { id, answer } = this.#link.request<'settled'>(request);
      const abort = (): void => this.#link.abort(id);
      signal?.addEventListener('abort', abort);
      try {
        this.#hear((await answer).info);
      } finally {
        signal?.removeEventListener('abort', abort);
      }
    };
    return this.#queue.run(work, { signal });
  }

  /** `halt` ends the generation for either reason: the consumer's `stop()` or the caller's signal. */
  async #generate(
    conversation: number,
    input: Input,
    options: GenerateOptions,
    onDelta: (text: string) => void,
    halt: AbortController,
  ): Promise<GenerateResult> {
    const request = checkGenerate(input, options);
    if (this.#disposed) throw disposed();
    const { signal, onProgress, onTokens } = options;
    const onAbort = (): void => halt.abort();
    if (signal?.aborted) throw aborted('generation', signal);
    signal?.addEventListener('abort', onAbort, { once: true });

    const shows = picturesOf(input).length > 0;
    const said = new Assembled();
    const partial = { text: '', tokens: [] as number[], seed: request.seed! };
    const work = async (): Promise<GenerateResult> => {
      const pictures = shows ? await sentPictures(input) : {};
      const { id, answer } = this.#link.request<'done'>(
        { type: 'generate', request: { ...request, conversation, ...pictures } },
        (message) => {
          if (halt.signal.aborted) return;
          if (message.type === 'progress') return onProgress?.(message.progress);
          if (message.type !== 'delta') return;
          const { text, logprobs } = message;
          const parts = message.parts && withIds(message.parts);
          if (parts) said.push(parts);
          const tokens = [...message.tokens];
          partial.text += text;
          partial.tokens.push(...tokens);
          onTokens?.({ text, tokens, ...(logprobs ? { logprobs } : {}), ...(parts ? { parts } : {}) });
          onDelta(text);
        },
      );
      if (halt.signal.aborted) this.#link.abort(id);
      halt.signal.addEventListener('abort', () => this.#link.abort(id), { once: true });
      const { result, info } = await answer;
      if (Array.isArray(input)) result.message = said.whole();
      this.#hear(info);
      const { prompt_tokens, cached_tokens, tokens: made, finish_reason, timings } = result;
      log(
        'debug',
        `prompt of ${prompt_tokens} tokens (${cached_tokens} known), ${made.length} written at ${timings.decode_tok_s.toFixed(1)} tok/s, first after ${timings.ttft_ms.toFixed(0)} ms: ${finish_reason}`,
      );
      if (result.finish_reason === 'abort' && signal?.aborted) throw aborted('generation', signal, result);
      return result;
    };
    const onPlace =
      onProgress && ((ahead: number) => onProgress({ phase: 'queue', ahead, loaded: 0, total: 0, cached: false }));
    try {
      return await this.#queue.run(work, {
        signal: halt.signal,
        beside: conversation,
        ...(onPlace ? { onPlace } : {}),
      });
    } catch (error) {
      if (halt.signal.aborted && error instanceof MillraceError && error.code === 'ABORTED' && !error.data.result)
        return this.#cutShort(signal, partial);
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** The outcome of a generation that was ended before the Worker had a result for it. */
  #cutShort(
    signal: AbortSignal | undefined,
    partial: { text: string; tokens: number[]; seed: number },
  ): GenerateResult {
    const result: GenerateResult = {
      ...partial,
      prompt_tokens: 0,
      cached_tokens: 0,
      context_tokens: 0,
      drafted_tokens: 0,
      accepted_tokens: 0,
      shifts: 0,
      recoveries: 0,
      finish_reason: 'abort',
      timings: {
        load_ms: 0,
        pictures_ms: 0,
        prefill_ms: 0,
        ttft_ms: 0,
        decode_ms: 0,
        prefill_tok_s: 0,
        decode_tok_s: 0,
      },
      counters: {
        submits: 0,
        dispatches: 0,
        readbacks: 0,
        readback_bytes: 0,
        prefill_submits: 0,
        gpu_bytes: 0,
        created: 0,
      },
      adapter: this.#info.adapter,
      plan: this.#info.lane,
    };
    if (signal?.aborted) throw aborted('generation', signal, result);
    return result;
  }
}

/** What a conversation can ask of its engine. */
interface Place {
  generate: (input: Input, options: GenerateOptions) => Generation;
  fork: () => Promise<Conversation>;
  save: (name: string) => Promise<void>;
  release: () => void;
}

/** A conversation of its own in a loaded engine, from {@link Engine.fork}. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the interface types what is defined of the prototype below
export class Conversation {
  #place: Place | null;

  /** @internal */
  constructor(place: Place) {
    this.#place = place;
  }

  /** As {@link Engine.generate}. */
  generate(input: Input, options: GenerateOptions = {}): Generation {
    return (
      this.#place?.generate(input, options) ??
      new Generation(() => ({ result: Promise.reject(released()), stop: () => {} }))
    );
  }

  /** As {@link Engine.run}. */
  run(options: RunOptions): Run {
    return run((input, rest) => this.generate(input, rest), options);
  }

  /** As {@link Engine.fork}, from this conversation. */
  fork(): Promise<Conversation> {
    return this.#place?.fork() ?? Promise.reject(released());
  }

  /** As {@link Engine.save}, this conversation. */
  save(name: string): Promise<void> {
    return this.#place?.save(name) ?? Promise.reject(released());
  }

  /** Frees its GPU memory, when what it was asked for before has ended. The engine stays. */
  dispose(): void {
    this.#place?.release();
    this.#place = null;
  }
}

// `using engine = …` where the browser has it; elsewhere the symbols do not exist.
for (const { prototype } of [Engine, Conversation]) {
  for (const symbol of [Symbol.dispose, Symbol.asyncDispose]) {
    if (symbol)
      Object.defineProperty(prototype, symbol, {
        value(this: Engine | Conversation) {
          this.dispose();
        },
        configurable: true,
        writable: true,
      });
  }
}
export interface Engine extends Disposable, AsyncDisposable {
  /** Calls `listener` with each of the events in {@link EngineEventMap}. */
  addEventListener<K extends keyof EngineEventMap>(
    type: K,
    listener:
      | ((this: Engine, event: EngineEventMap[K]) => unknown)
      | { handleEvent(event: EngineEventMap[K]): unknown }
      | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  /** Calls it no more. */
  removeEventListener<K extends keyof EngineEventMap>(
    type: K,
    listener:
      | ((this: Engine, event: EngineEventMap[K]) => unknown)
      | { handleEvent(event: EngineEventMap[K]): unknown }
      | null,
    options?: boolean | EventListenerOptions,
  ): void;
}
export interface Conversation extends Disposable, AsyncDisposable {}

/** The pictures of an input as a Worker can get them; nothing where it has none. */
async function sentPictures(input: Input): Promise<{ pictures?: SentPicture[] }> {
  const shown = picturesOf(input);
  if (shown.length === 0) return {};
  const pictures = shown.map(async ({ source, low }) => ({
    source: await sendable(source, (address) => absolute('engine.generate', 'a picture', address)),
    low,
  }));
  return { pictures: await Promise.all(pictures) };
}

function once(response: Response): CustomFetch {
  return async () => {
    if (response.bodyUsed)
      throw new TypeError('a Response can be read only once: give the URL of a model that has to be read again');
    return response;
  };
}

function released(): MillraceError {
  return new MillraceError('DISPOSED', 'the conversation was disposed of: fork another one');
}

function disposed(): MillraceError {
  return new MillraceError('DISPOSED', 'the engine was disposed of: load it again');
}
