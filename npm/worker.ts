/// <reference lib="webworker" />
// The dedicated Worker in which one engine lives. It owns the wasm instance and the GPU device; the page only sees messages.
import init, * as wasm from './millrace.js';
import { WasmControl, WasmEngine } from './millrace.js';
import { through } from './bridge.ts';
import { MillraceError, packError } from './errors.ts';
import type { FromWorker, ModelsCall, ToWorker } from './protocol.ts';
import { READS, serveReads } from './reads.ts';
import type { CustomFetch, Progress } from './types.ts';

declare const self: DedicatedWorkerGlobalScope;

let engine: WasmEngine | null = null;
/** How long nobody must have wanted anything before the tuner starts, in milliseconds. */
const TUNE_AFTER_MS = 300;
let idleSince = 0;
let tuning: { stop: () => Promise<void> } | null = null;
/** Settles when a device that was lost while nobody wanted anything has been replaced, or cannot be. */
let recovering: Promise<void> | null = null;
const running = new Map<number, AbortController>();
/** What pauses the downloads of requests. */
const controls = new Map<number, WasmControl>();
const pausedBefore = new Set<number>();

const post = (message: FromWorker, transfer: Transferable[] = []): void => self.postMessage(message, transfer);

// A panic inside an asynchronous task rejects no promise: without this the page would wait for ever.
// Only traps end the engine; a promise of the browser's that rejects with nobody waiting is harmless.
self.addEventListener('error', (event) => crashIfTrap(event.error));
self.addEventListener('unhandledrejection', (event) => crashIfTrap(event.reason));

if (self.name === READS) {
  serveReads(self);
} else {
  self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
    if (data.type === 'abort') running.get(data.id)?.abort();
    else if (data.type === 'pause') pause(data.id, data.paused);
    else void answer(data);
  });
}

async function answer(message: Exclude<ToWorker, { type: 'abort' | 'pause' }>): Promise<void> {
  const { id } = message;
  const controller = new AbortController();
  running.set(id, controller);
  try {
    if (message.type === 'load') {
      requireGpu();
      await initialise();
      const options = message.ownFetch ? { ...message.options, fetch: pageFetch(id) } : message.options;
      engine = await WasmEngine.load(options, (progress) => post({ type: 'progress', id, progress }), controller.signal, controlOf(id));
      engine.onDevice((event) => (event.type === 'gone' ? recoverWhenIdle() : post({ type: 'device', event })));
      const info = engine.info();
      post({ type: 'loaded', id, info });
      // On a GPU in software it would cost more than it gains.
      if (message.tune ?? !info.adapter.software) setTimeout(tuneWhenIdle, TUNE_AFTER_MS);
    } else if (message.type === 'models') {
      await initialise();
      post({ type: 'answer', id, value: await models(id, message.call, message.ownFetch, controller.signal) });
    } else {
      if (!engine) throw new MillraceError('INTERNAL', `the Worker was asked to ${message.type} before it had loaded a model`);
      idleSince = 0;
      await tuning?.stop();
      await recovering;
      if (message.type === 'fork' || message.type === 'restore') {
        const conversation = message.type === 'fork' ? engine.fork(message.from) : await engine.restore(message.name, controller.signal);
        return post({ type: 'forked', id, conversation, info: engine.info() });
      }
      if (message.type !== 'generate') {
        if (message.type === 'release') engine.release(message.conversation);
        if (message.type === 'save') await engine.save(message.conversation, message.name, controller.signal);
        if (message.type === 'forget') await engine.forget(message.name);
        return post({ type: 'settled', id, info: engine.info() });
      }
      const onDelta = ({ text, tokens }: { text: string; tokens: Uint32Array }): void => post({ type: 'delta', id, text, tokens }, [tokens.buffer]);
      const onProgress = (progress: Progress): void => post({ type: 'progress', id, progress });
      const result = await engine.generate(message.request, onDelta, onProgress, controller.signal);
      post({ type: 'done', id, result, info: engine.info() });
    }
  } catch (error) {
    // A trap has poisoned the instance's memory; every other error leaves the engine usable.
    if (!crashIfTrap(error)) post({ type: 'error', id, error: packError(error) });
  } finally {
    running.delete(id);
    controls.get(id)?.free();
    controls.delete(id);
    pausedBefore.delete(id);
    idleSince = performance.now();
    recoverWhenIdle();
  }
}

/** Replaces a lost device, so that the next generation need not wait for it. Whoever is at work notices and does so too; afterwards this is called again. */
function recoverWhenIdle(): void {
  if (!engine?.isLost() || running.size > 0 || tuning || recovering) return;
  recovering = engine.recover().then(
    () => void (recovering = null),
    (error) => {
      recovering = null;
      // The page has heard that the device is not coming back; whatever it asks for next fails.
      crashIfTrap(error);
    },
  );
}

/** Measures kernels' variants, if nobody has wanted anything for a while; otherwise later. */
async function tuneWhenIdle(): Promise<void> {
  if (!engine) return;
  if (running.size > 0 || recovering || performance.now() - idleSince < TUNE_AFTER_MS) {
    setTimeout(tuneWhenIdle, TUNE_AFTER_MS);
    return;
  }
  const controller = new AbortController();
  const done = engine.tune(controller.signal).then(
    () => {
      tuning = null;
      if (engine) post({ type: 'tuned', info: engine.info() });
      // Interrupted: the next idle moment goes on where this one ended.
      if (controller.signal.aborted) setTimeout(tuneWhenIdle, TUNE_AFTER_MS);
      recoverWhenIdle();
    },
    (error) => {
      tuning = null;
      if (crashIfTrap(error)) return;
      console.warn('millrace: measuring kernels failed; the default ones stay', error);
      recoverWhenIdle();
    },
  );
  tuning = { stop: () => (controller.abort(), done) };
}

/** The request's control, as the page has it by now. */
function controlOf(id: number): WasmControl {
  const control = new WasmControl();
  if (pausedBefore.has(id)) control.pause(true);
  controls.set(id, control);
  return control;
}

function pause(id: number, paused: boolean): void {
  const control = controls.get(id);
  if (control) control.pause(paused);
  // The wasm is not there yet.
  else if (paused) pausedBefore.add(id);
  else pausedBefore.delete(id);
}

const pageFetch = (id: number): CustomFetch => through((url, headers, port) => post({ type: 'fetch', id, url, headers, port }, [port]));

function models(id: number, call: ModelsCall, ownFetch: boolean, signal: AbortSignal): Promise<unknown> {
  const onProgress = (progress: Progress): void => post({ type: 'progress', id, progress });
  switch (call.name) {
    case 'list':
      return wasm.listModels();
    case 'plan':
      requireGpu();
      return wasm.planModel(ownFetch ? { ...call.options, fetch: pageFetch(id) } : call.options, signal);
    case 'usage':
      return wasm.storageUsage();
    case 'download':
      return wasm.downloadModel(ownFetch ? { ...call.options, fetch: pageFetch(id) } : call.options, onProgress, signal, controlOf(id));
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

function requireGpu(): void {
  if (!('gpu' in self.navigator)) {
    throw new MillraceError('NO_WEBGPU', 'WebGPU is not available in Workers of this browser: update it, or use a current Chrome, Edge, Safari 26 or Firefox');
  }
}

async function initialise(): Promise<void> {
  try {
    await init();
    wasm.readBeside(self.location.href, isModule());
  } catch (error) {
    const message = `millrace_bg.wasm could not be loaded from beside ${self.location.href}: serve all files of the package from one folder, .wasm as application/wasm`;
    throw new MillraceError('INTERNAL', message, { cause: error });
  }
}

/** Whether this script was started as a module. Some bundlers make a classic script of it. */
function isModule(): boolean {
  try {
    self.importScripts();
    return false;
  } catch {
    return true;
  }
}

function crashIfTrap(error: unknown): boolean {
  if (!(error instanceof WebAssembly.RuntimeError)) return false;
  const message = `the engine crashed (${error.message}): load it again; the console shows where`;
  post({ type: 'crash', error: packError(new MillraceError('INTERNAL', message, { cause: error })) });
  return true;
}
