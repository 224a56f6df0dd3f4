'use client';
// A chat with a model as a React hook. The state lives outside React, in a store of its own: components come and go, and in StrictMode twice.
import { useEffect, useState, useSyncExternalStore } from 'react';
import {
  Engine,
  type EngineInfo,
  type GenerateOptions,
  type GenerateResult,
  type LoadOptions,
  type Message,
  type MessagePart,
  MillraceError,
  type PicturedMessage,
  type Progress,
  type Run,
  type RunOptions,
} from './index.ts';
import { Assembled } from './parts.ts';
import { textOf, wrongParts } from './pictures.ts';

/** Options of {@link useChat}. */
export interface UseChatOptions {
  /**
   * The model; a relative URL is resolved against the page. Another one is loaded in place of this one, so keep files and lists in a state:
   * they are compared by identity, addresses as text.
   */
  model: LoadOptions['model'];
  /** Whether to load the model. Default true; false waits, so that a user can be asked before a large download. */
  enabled?: boolean;
  /** Further options of `Engine.load`, as they are when loading begins. */
  load?: Omit<LoadOptions, 'model' | 'onProgress' | 'signal'>;
  /** A message before all others, which is not in `messages`. */
  system?: string;
  /** What the model may call, and what executes it, as they are when an answer begins: see `engine.run`. */
  tools?: RunOptions['tools'];
  /** A function for each tool by its name, or one for all. */
  execute?: RunOptions['execute'];
  /** How often the model may answer one message. Default 10. */
  maxRounds?: number;
  /** Options of `engine.generate`, as they are when an answer begins. */
  generate?: Omit<GenerateOptions, 'signal' | 'onProgress' | 'tools' | 'logits' | 'logitsFrom' | 'profile'>;
}

/**
 * `idle`: nothing is loaded, because `enabled` is false. `loading`: the model is. `ready`: it waits for a message. `generating`: it answers.
 * `error`: see `error`; `retry()` tries again.
 */
export type ChatStatus = 'idle' | 'loading' | 'ready' | 'generating' | 'error';

/** A message of a chat: as the engine's, and where it has pictures, its parts; `content` then is the texts among them. */
export interface ChatMessage extends Message {
  /** Texts and pictures, in their order. */
  parts?: readonly MessagePart[];
}

/** What a chat shows. */
export interface ChatState {
  /** What it is doing. */
  status: ChatStatus;
  /** Where loading stands, or the reading of a long prompt; null when neither is under way. */
  progress: Progress | null;
  /** What is loaded; null while nothing is. */
  info: EngineInfo | null;
  /** The engine itself; null while nothing is loaded. The hook disposes of it. */
  engine: Engine | null;
  /**
   * The conversation. The last one grows while it is written; what the model thought before it answered is its `reasoning_content`. Calls of tools
   * are messages with `tool_calls`, their results messages of role `tool`. What has pictures has them in `parts`.
   */
  messages: readonly ChatMessage[];
  /** The last answer's tokens, timings and finish reason. */
  result: GenerateResult | null;
  /** Why loading or answering failed; null where it did not. */
  error: MillraceError | null;
}

/** What {@link useChat} returns. */
export interface UseChat extends ChatState {
  /**
   * Says something, or shows pictures beside it: `send([{ type: 'image', image: file }, { type: 'text', text: 'What is this?' }])`. While the model loads it is kept
   * and answered afterwards. Throws BAD_OPTION while an answer is being written, which stop() ends, and for parts that are none.
   */
  send(content: string | readonly MessagePart[]): void;
  /** Ends the answer and keeps what there is of it. A question that waits for the model is no longer answered. */
  stop(): void;
  /** After an error: tries again what failed. Else: answers the last question anew. */
  retry(): void;
  /** Ends the answer and begins a new conversation. The model stays loaded. */
  reset(): void;
}

/**
 * A chat with a model in this page. Loads the model when the component is there, and frees it some seconds after the component has gone, unless
 * one with the same options has taken it up by then, as after a hot edit; a load that is under way is aborted.
 *
 * ```jsx
 * const { status, progress, messages, error, send, stop } = useChat({ model: '/models/box.gguf' });
 * ```
 */
export function useChat(options: UseChatOptions): UseChat {
  const [store] = useState(() => new ChatStore());
  useEffect(() => {
    store.options = options;
  });
  const { model, enabled = true } = options;
  const key = typeof model === 'string' || model instanceof URL ? String(model) : model;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another model is loaded anew
  useEffect(() => {
    if (!enabled) return;
    // Later than StrictMode's rehearsal, which takes it back at once.
    const timer = setTimeout(() => store.load());
    return () => {
      clearTimeout(timer);
      store.unload();
    };
  }, [store, key, enabled]);
  const state = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  // Before loading has begun nothing is wrong or ready.
  const status = state.status === 'idle' && enabled ? 'loading' : state.status;
  return { ...state, status, send: store.send, stop: store.stop, retry: store.retry, reset: store.reset };
}

const EMPTY: ChatState = {
  status: 'idle',
  progress: null,
  info: null,
  engine: null,
  messages: [],
  result: null,
  error: null,
};

/** Errors after which an engine is of no more use. */
const FATAL: readonly MillraceError['code'][] = ['DEVICE_LOST', 'DISPOSED', 'WORKER_LOST', 'INTERNAL'];

/**
 * How long an engine outlives its component, in milliseconds: a component that comes back at once, as with every hot
 * edit, takes it up.
 */
const LINGER_MS = 5000;

/** The engine of an unmounted component, and the key of its options. */
let lingering: { key: string; engine: Engine; timer: ReturnType<typeof setTimeout> } | null = null;

function linger(key: string, engine: Engine): void {
  endLingering();
  lingering = { key, engine, timer: setTimeout(endLingering, LINGER_MS) };
}

/** Takes up the lingering engine if its key is the same; another one is disposed of. */
function takeUp(key: string): Engine | null {
  const engine = lingering?.key === key ? lingering.engine : null;
  if (engine) {
    clearTimeout(lingering!.timer);
    lingering = null;
  } else endLingering();
  return engine;
}

function endLingering(): void {
  if (!lingering) return;
  clearTimeout(lingering.timer);
  lingering.engine.dispose();
  lingering = null;
}

const numbers = new WeakMap<object, number>();
let next = 1;

/** One key for equal options: plain values by content, files and functions by identity. */
function keyOf(model: unknown, load: object = {}): string {
  const plain = (_: string, value: unknown): unknown => {
    const isObject = typeof value === 'object' && value !== null;
    if (!isObject && typeof value !== 'function') return value;
    if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) return value;
    if (!numbers.has(value)) numbers.set(value, next++);
    return `#${numbers.get(value)}`;
  };
  const { onProgress: _, signal: __, ...rest } = load as Record<string, unknown>;
  // URLs have a toJSON of their own, which gives their text.
  return JSON.stringify([model, rest], plain);
}

/** What a message shows of itself: of one with parts the texts are its content. */
function shown(message: Message | PicturedMessage): ChatMessage {
  if (!Array.isArray(message.content)) return message as Message;
  const parts = message.content as readonly MessagePart[];
  return { ...(message as Message), content: textOf(parts), parts };
}

/** What the engine gets of it. */
function meant({ parts, ...message }: ChatMessage): Message | PicturedMessage {
  return parts ? ({ ...message, content: parts } as PicturedMessage) : message;
}

class ChatStore {
  /** What the engine was loaded with. */
  #key = '';
  options: UseChatOptions | null = null;
  #state = EMPTY;
  readonly #listeners = new Set<() => void>();
  /** Aborts the load under way. */
  #loading: AbortController | null = null;
  #generation: Run | null = null;
  /** Whether the last message is a question that is to be answered once the model is there. */
  #waiting = false;
  /** Whether the last answer was not finished. */
  #unfinished = false;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): ChatState => this.#state;

  #set(change: Partial<ChatState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }

  async load(): Promise<void> {
    const waiting = this.#waiting;
    this.#drop();
    this.#waiting = waiting;
    const controller = new AbortController();
    const { signal } = controller;
    this.#loading = controller;
    this.#set({ status: 'loading', progress: null, error: null });
    try {
      const { model, load } = this.options!;
      this.#key = keyOf(model, load);
      const engine =
        takeUp(this.#key) ??
        (await Engine.load({
          ...load,
          model,
          signal,
          onProgress: (progress) => signal.aborted || this.#set({ progress }),
        }));
      if (signal.aborted) return engine.dispose();
      const follow = (): void => this.#set({ info: engine.info });
      engine.addEventListener('devicerestored', follow);
      this.#loading = null;
      this.#set({ status: 'ready', progress: null, engine, info: engine.info });
      if (this.#waiting) void this.#answer();
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  /** Frees what is loaded, a little later, and ends what is under way. The conversation stays. */
  unload(): void {
    const { engine } = this.#state;
    if (engine) linger(this.#key, engine);
    this.#set({ engine: null });
    this.#drop();
  }

  /** Ends loading and answers, and disposes of the engine at once. */
  #drop(): void {
    this.#loading?.abort();
    this.#loading = null;
    this.#end();
    this.#state.engine?.dispose();
    this.#set({ status: 'idle', progress: null, engine: null, info: null, error: null });
  }

  readonly send = (content: string | readonly MessagePart[]): void => {
    if (this.#generation) throw new MillraceError('BAD_OPTION', 'send: an answer is being written; stop() ends it');
    const wrong = typeof content === 'string' ? null : Array.isArray(content) ? wrongParts(content) : 'is no text';
    if (wrong) throw new MillraceError('BAD_OPTION', `send: the message ${wrong}`);
    const message = { role: 'user', content } as Message | PicturedMessage;
    this.#set({ messages: [...this.#state.messages, shown(message)] });
    this.#ask();
  };

  readonly stop = (): void => {
    this.#waiting = false;
    this.#generation?.stop();
  };

  readonly retry = (): void => {
    if (this.#generation) return;
    const { messages, error } = this.#state;
    // With its calls and their results.
    const asked = messages.map(({ role }) => role).lastIndexOf('user');
    if (!error || this.#unfinished) this.#set({ messages: messages.slice(0, asked + 1) });
    if (this.#state.messages.at(-1)?.role === 'user') this.#ask();
    else if (!this.#state.engine && !this.#loading) void this.load();
  };

  readonly reset = (): void => {
    this.#end();
    this.#set({
      messages: [],
      result: null,
      ...(this.#state.engine ? { status: 'ready', error: null, progress: null } : {}),
    });
  };

  /** Has the last question answered: now, or when the model is there. */
  #ask(): void {
    this.#waiting = true;
    if (this.#state.engine) void this.#answer();
    else if (this.#state.status === 'error') void this.load();
  }

  /** Ends the answer; what still comes of it is dropped. */
  #end(): void {
    const generation = this.#generation;
    this.#generation = null;
    this.#waiting = false;
    generation?.stop();
  }

  async #answer(): Promise<void> {
    const { engine, messages } = this.#state;
    const { system, generate, tools = [], execute = {}, maxRounds } = this.options!;
    this.#waiting = false;
    this.#unfinished = true;
    const added: ChatMessage[] = [];
    let said = new Assembled();
    const show = (): void => {
      const { message } = said;
      const begun = message.content !== '' || message.reasoning_content || message.tool_calls;
      if (begun || added.length > 0)
        this.#set({ messages: [...messages, ...added, ...(begun ? [{ ...message }] : [])], progress: null });
    };
    const onProgress = (progress: Progress): void => {
      if (this.#generation === generation) this.#set({ progress });
    };
    const generation = engine!.run({
      ...generate,
      messages: [
        ...(system === undefined ? [] : [{ role: 'system', content: system } as Message]),
        ...messages.map(meant),
      ],
      tools,
      execute,
      ...(maxRounds === undefined ? {} : { maxRounds }),
      onProgress,
    });
    this.#generation = generation;
    this.#set({ status: 'generating', error: null, result: null });
    try {
      for await (const event of generation) {
        if (this.#generation !== generation) return;
        if (event.type === 'message') {
          added.push(shown(event.message));
          said = new Assembled();
        } else if (event.type !== 'tool_result') said.push([event]);
        show();
      }
      const result = (await generation).results.at(-1) ?? null;
      if (this.#generation !== generation) return;
      this.#generation = null;
      this.#unfinished = false;
      this.#set({ status: 'ready', progress: null, result, info: engine!.info });
    } catch (error) {
      if (this.#generation !== generation) return;
      this.#generation = null;
      this.#fail(error);
    }
  }

  #fail(thrown: unknown): void {
    const error =
      thrown instanceof MillraceError ? thrown : new MillraceError('INTERNAL', String(thrown), { cause: thrown });
    this.#loading = null;
    const { engine } = this.#state;
    if (engine && FATAL.includes(error.code)) {
      engine.dispose();
      this.#set({ engine: null, info: null });
    }
    this.#set({ status: 'error', progress: null, error });
  }
}
