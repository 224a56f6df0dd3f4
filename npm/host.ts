/// <reference lib="webworker" />
// Where an engine lives: the other end of a Link, in a Worker of the package's or of the caller's. It owns the GPU
// device; callers only exchange messages. Hosts of one thread share the wasm instance.
import init, * as wasm from './millrace.js';
import { WasmControl, WasmEngine } from './millrace.js';
import { through } from './bridge.ts';
import { MillraceError, packError } from './errors.ts';
import { cpuModule } from './cpu.ts';
import { forgetPixels, withPixels } from './pixels.ts';
import { compileGrammar } from './grammar.ts';
import type { HELPS } from './helps.ts';
import { ofNoOrigin } from './place.ts';
import type { EngineNews, FromWorker, ModelsCall, Request, ToWorker } from './protocol.ts';
import { READS } from './reads.ts';
import type { CustomFetch, EngineInfo, Progress } from './types.ts';

/** What a host answers through: a Worker's own scope, or one end of a channel. */
export interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  close?: () => void;
}

/** Idle time before the tuner starts, in milliseconds. */
const TUNE_AFTER_MS = 300;
/** How long `warm` keeps the GPU's clock up, in milliseconds. */
const WARM_MS = 2000;
let wasmUrl = new URL('./millrace_bg.wasm', import.meta.url);
/** The wasm module's address if the page configured one: other modules lie beside it. */
let saidUrl: URL | null = null;
/** Compiles a description of a grammar. */
const compile = (description: string, lenient: boolean) => compileGrammar(description, lenient, saidUrl);

/** Hosts of this thread. */
const hosts = new Set<Host>();
let instance: Promise<void> | null = null;
/** Why nothing in this thread can be trusted any more. */
let crashed: MillraceError | null = null;

/** Starts a Worker of the package: one that reads stored files ({@link serveReads}), or one that computes ({@link serveCpu}). */
export type StartWorker = (name: typeof READS | typeof HELPS) => Worker;

/** Answers through `port` from now on. */
export function host(port: Port, startWorker: StartWorker): void {
  if (hosts.size === 0) {
    // A panic inside an asynchronous task rejects no promise: without this the request would stay pending for ever.
    // Only traps end the engine; an unhandled rejection of a promise of the browser's is harmless.
    self.addEventListener('error', onError);
    self.addEventListener('unhandledrejection', onRejection);
  }
  hosts.add(new Host(port, startWorker));
}

/** Has the page's log told, once where several engines share this thread. */
const tell = (level: 'warn' | 'info', text: string): void =>
  hosts.values().next().value?.post({ type: 'log', level, text });

const onError = ({ error }: ErrorEvent): void => void crashIfTrap(error);
const onRejection = ({ reason }: PromiseRejectionEvent): void => void crashIfTrap(reason);

class Host {
  readonly #port: Port;
  readonly #startWorker: StartWorker;
  #engine: WasmEngine | null = null;
  /** Which of its plans the page has. */
  #edition: number | undefined;
  #ended = false;
  #idleSince = 0;
  /** What the engine does while it is idle: measures kernels, or keeps the GPU's clock up. */
  #aside: { stop: () => Promise<void> } | null = null;
  /** End of the time for which the clock is kept up. */
  #warmUntil = 0;
  /** Settles when a device that was lost while the engine was idle has been replaced, or cannot be. */
  #recovering: Promise<void> | null = null;
  #software = true;
  readonly #running = new Map<number, AbortController>();
  /** What pauses the downloads of requests. */
  readonly #controls = new Map<number, WasmControl>();
  readonly #pausedBefore = new Set<number>();

  constructor(port: Port, startWorker: StartWorker) {
    this.#port = port;
    this.#startWorker = startWorker;
    port.onmessage = ({ data }) => {
      if (data.type === 'abort') this.#running.get(data.id)?.abort();
      else if (data.type === 'pause') this.#pause(data.id, data.paused);
      else if (data.type === 'ping') this.post({ type: 'pong' });
      else if (data.type === 'wasm') wasmUrl = saidUrl = new URL(data.url);
      else if (data.type === 'warm') this.#warm();
      else if (data.type === 'lock') void navigator.locks.request(data.name, () => new Promise(() => {}));
      else if (data.type === 'end') this.#end();
      else void this.#answer(data);
    };
  }

  post(message: FromWorker, transfer: Transferable[] = []): void {
    this.#port.postMessage(message, transfer);
  }

  /** Frees what is held here. A Worker of the package's is ended instead, which frees all. */
  #end(): void {
    this.#ended = true;
    hosts.delete(this);
    if (hosts.size === 0) {
      forgetPixels();
      self.removeEventListener('error', onError);
      self.removeEventListener('unhandledrejection', onRejection);
    }
    this.#port.onmessage = null;
    this.#port.close?.();
    for (const controller of this.#running.values()) controller.abort();
    void this.#aside?.stop();
    this.#drop();
  }

  /** Frees the engine. What is under way in it ends by itself. */
  #drop(): void {
    const engine = this.#engine;
    this.#engine = null;
    try {
      engine?.dispose();
      engine?.free();
    } catch (error) {
      // After a crash nothing can be freed any more.
      if (!crashed) throw error;
    }
  }

  async #answer(message: Request): Promise<void> {
    const { id } = message;
    const controller = new AbortController();
    this.#running.set(id, controller);
    try {
      if (message.type === 'load') {
        requireGpu(message.options.device);
        await this.#initialise();
        const options = message.ownFetch ? { ...message.options, fetch: this.#pageFetch(id) } : message.options;
        const engine = await WasmEngine.load(
          options,
          (progress) => this.post({ type: 'progress', id, progress }),
          controller.signal,
          this.#controlOf(id),
        );
        this.#engine = engine;
        if (this.#ended) return this.#drop();
        engine.onDevice((event) =>
          event.type === 'gone' ? this.#recoverWhenIdle() : this.post({ type: 'device', event }),
        );
        engine.compileWith(compile);
        this.#edition = engine.planEdition();
        const info = engine.info() as EngineInfo;
        this.#software = info.adapter.software;
        this.post({ type: 'loaded', id, info });
        // On a GPU in software it would cost more than it gains.
        if (message.tune ?? !info.adapter.software) setTimeout(() => this.#tuneWhenIdle(), TUNE_AFTER_MS);
      } else if (message.type === 'models') {
        await this.#initialise();
        this.post({
          type: 'answer',
          id,
          value: await this.#models(id, message.call, message.ownFetch, controller.signal),
        });
      } else if (message.type === 'compile') {
        this.#held('compile');
        const value = await WasmEngine.compileSchema(message.schema, message.lenient, compile);
        this.post({ type: 'answer', id, value });
      } else if (message.type === 'imageTokens') {
        const value = this.#held(message.type).imageTokens(message.width, message.height);
        this.post({ type: 'answer', id, value });
      } else if (message.type === 'tokenize' || message.type === 'detokenize') {
        const engine = this.#held(message.type);
        const value =
          message.type === 'tokenize'
            ? Array.from(engine.tokenize(await withPixels(message.request, controller.signal)))
            : engine.detokenize(Uint32Array.from(message.tokens));
        this.post({ type: 'answer', id, value });
      } else {
        this.#idleSince = 0;
        await this.#aside?.stop();
        await this.#recovering;
        const engine = this.#held(message.type);
        if (message.type === 'fork' || message.type === 'restore') {
          const conversation =
            message.type === 'fork' ? engine.fork(message.from) : await engine.restore(message.name, controller.signal);
          return this.post({ type: 'forked', id, conversation, info: this.#news(engine) });
        }
        if (message.type === 'embed') {
          const onProgress = (progress: Progress): void => this.post({ type: 'progress', id, progress });
          const value = await engine.embed(message.request, onProgress, controller.signal);
          const moved = 'vectors' in value ? value.vectors.map((vector) => vector.buffer) : [];
          return this.post({ type: 'answer', id, value }, moved);
        }
        if (message.type !== 'generate') {
          if (message.type === 'release') engine.release(message.conversation);
          if (message.type === 'save') await engine.save(message.conversation, message.name, controller.signal);
          if (message.type === 'forget') await engine.forget(message.name);
          if (message.type === 'adapter') await engine.adapter(message.name, message.files, controller.signal);
          return this.post({ type: 'settled', id, info: this.#news(engine) });
        }
        const onDelta: Parameters<WasmEngine['generate']>[1] = (delta) =>
          this.post({ type: 'delta', id, ...delta }, [delta.tokens.buffer]);
        const onProgress = (progress: Progress): void => this.post({ type: 'progress', id, progress });
        const request = await withPixels(message.request, controller.signal);
        const result = await engine.generate(request, onDelta, onProgress, controller.signal);
        this.post({ type: 'done', id, result, info: this.#news(engine) });
      }
    } catch (error) {
      // A trap has poisoned the instance's memory; every other error leaves the engine usable.
      if (!crashIfTrap(error)) this.post({ type: 'error', id, error: packError(error) });
    } finally {
      this.#running.delete(id);
      this.#controls.get(id)?.free();
      this.#controls.delete(id);
      this.#pausedBefore.delete(id);
      this.#idleSince = performance.now();
      this.#recoverWhenIdle();
    }
  }

  #held(asked: string): WasmEngine {
    if (!this.#engine) throw new MillraceError('INTERNAL', `the Worker was asked to ${asked} and holds no model`);
    return this.#engine;
  }

  /** What an engine says of itself, and its plan where the page has another. */
  #news(engine: WasmEngine): EngineNews {
    const news = engine.info(this.#edition);
    this.#edition = engine.planEdition();
    return news;
  }

  /**
   * Replaces a lost device while the engine is idle, so that the next generation need not wait for it. Running requests
   * recover it themselves; afterwards this is called again.
   */
  #recoverWhenIdle(): void {
    if (!this.#engine?.isLost() || this.#running.size > 0 || this.#aside || this.#recovering) return;
    this.#recovering = this.#engine.recover().then(
      () => void (this.#recovering = null),
      (error) => {
        this.#recovering = null;
        // The page has heard that the device is not coming back; whatever it asks for next fails.
        crashIfTrap(error);
      },
    );
  }

  /** Measures kernels' variants, if the engine has been idle for a while; otherwise later. */
  async #tuneWhenIdle(): Promise<void> {
    if (!this.#engine) return;
    if (
      this.#running.size > 0 ||
      this.#aside ||
      this.#recovering ||
      performance.now() - this.#idleSince < TUNE_AFTER_MS
    ) {
      setTimeout(() => this.#tuneWhenIdle(), TUNE_AFTER_MS);
      return;
    }
    this.#meanwhile((engine, signal) =>
      engine.tune(signal).then(
        () => {
          if (this.#engine) this.post({ type: 'tuned', info: this.#news(this.#engine) });
          // Interrupted: the next idle moment goes on where this one ended.
          if (signal.aborted) setTimeout(() => this.#tuneWhenIdle(), TUNE_AFTER_MS);
        },
        (error) => {
          if (crashIfTrap(error) || this.#ended) return;
          tell('warn', `measuring kernels failed; the default ones stay: ${error}`);
        },
      ),
    );
  }

  /** Keeps the GPU's clock up from now on for a while, unless it is at work anyway. One in software has none. */
  #warm(): void {
    this.#warmUntil = performance.now() + WARM_MS;
    if (!this.#engine || this.#software || this.#running.size > 0 || this.#aside || this.#recovering) return;
    this.#meanwhile(async (engine, signal) => {
      try {
        for (let left = WARM_MS; left > 0 && !signal.aborted; left = this.#warmUntil - performance.now())
          await engine.warm(left, signal);
      } catch (error) {
        // The next request meets the same error and reports it.
        crashIfTrap(error);
      }
    });
  }

  /** Runs idle work on the engine; the next request aborts it. */
  #meanwhile(work: (engine: WasmEngine, signal: AbortSignal) => Promise<void>): void {
    if (!this.#engine) return;
    const controller = new AbortController();
    const done = work(this.#engine, controller.signal).finally(() => {
      this.#aside = null;
      this.#recoverWhenIdle();
    });
    const stop = (): Promise<void> => {
      controller.abort();
      return done;
    };
    this.#aside = { stop };
  }

  /** The request's control, as the page has it by now. */
  #controlOf(id: number): WasmControl {
    const control = new WasmControl();
    if (this.#pausedBefore.has(id)) control.pause(true);
    this.#controls.set(id, control);
    return control;
  }

  #pause(id: number, paused: boolean): void {
    const control = this.#controls.get(id);
    if (control) control.pause(paused);
    // The wasm is not there yet.
    else if (paused) this.#pausedBefore.add(id);
    else this.#pausedBefore.delete(id);
  }

  #pageFetch(id: number): CustomFetch {
    return through((url, headers, port) => this.post({ type: 'fetch', id, url, headers, port }, [port]));
  }

  /** Starts the instance that all hosts of this thread share. */
  async #initialise(): Promise<void> {
    if (crashed) throw crashed;
    instance ??= init({ module_or_path: wasmUrl }).then(() => {
      wasm.readBeside(() => this.#startWorker(READS));
      WasmEngine.cpuFrom((helpers) => cpuModule(helpers, saidUrl, this.#startWorker));
      wasm.logTo(tell);
    });
    try {
      await instance;
    } catch (error) {
      instance = null;
      const missing = `millrace_bg.wasm could not be loaded from ${wasmUrl}`;
      const message = `${missing}: serve the whole package from one folder, .wasm as application/wasm, or say where it lies by configure({ wasmUrl })`;
      throw ofNoOrigin(missing, error) ?? new MillraceError('INTERNAL', message, { cause: error });
    }
  }

  #models(id: number, call: ModelsCall, ownFetch: boolean, signal: AbortSignal): Promise<unknown> {
    const onProgress = (progress: Progress): void => this.post({ type: 'progress', id, progress });
    switch (call.name) {
      case 'list':
        return wasm.listModels();
      case 'plan':
        requireGpu(call.options.device);
        return wasm.planModel(
          ownFetch ? { ...call.options, fetch: this.#pageFetch(id) } : call.options,
          onProgress,
          signal,
        );
      case 'usage':
        return wasm.storageUsage();
      case 'download':
        return wasm.downloadModel(
          ownFetch ? { ...call.options, fetch: this.#pageFetch(id) } : call.options,
          onProgress,
          signal,
          this.#controlOf(id),
        );
      case 'verify':
        return wasm.verifyModel(call.url, onProgress, signal);
      case 'remove':
        return wasm.removeModel(call.url);
      case 'export':
        return wasm.exportModel(call.url);
      case 'import':
        return wasm.importModel(call.url, call.files, onProgress, signal);
    }
  }
}

function requireGpu(device: unknown = 'gpu'): void {
  if (device === 'gpu' && !('gpu' in self.navigator)) {
    throw new MillraceError(
      'NO_WEBGPU',
      'WebGPU is not available in Workers of this browser: update it, or use a current Chrome, Edge, Safari 26 or Firefox',
    );
  }
}

/** Whether an error is a trap of our wasm: then all that the instance holds is lost. */
function crashIfTrap(error: unknown): boolean {
  if (!(error instanceof WebAssembly.RuntimeError)) return false;
  // In a Worker of the caller's there may be other wasm. Not every browser names the module that trapped.
  const from = /([^\s(@]+):wasm-function\[/.exec(error.stack ?? '')?.[1];
  if (from && /^https?:/.test(from) && from !== wasmUrl.href) return false;
  const again =
    hosts.size > 1 ? 'all engines of this Worker are gone: end it, and load them in another' : 'load it again';
  crashed ??= new MillraceError(
    'INTERNAL',
    `the engine crashed (${error.message}): ${again}; the console shows where`,
    { cause: error },
  );
  for (const one of hosts) one.post({ type: 'crash', error: packError(crashed) });
  return true;
}
