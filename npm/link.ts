// The page's end of the Worker: starts it, matches answers with requests, and fails whatever is pending when it goes away.
import { MillraceError, unpackError } from './errors.ts';
import type { DeviceEvent, FromWorker, ToWorker } from './protocol.ts';
import type { EngineInfo } from './types.ts';

type Answer<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;
type Request = Exclude<ToWorker, { type: 'abort' | 'pause' }>;
/** A request without its id, which the link gives it. */
type Unsent = Request extends infer R ? (R extends Request ? Omit<R, 'id'> : never) : never;

interface Pending {
  on: (message: Extract<FromWorker, { id: number }>) => void;
  resolve: (message: never) => void;
  reject: (error: MillraceError) => void;
}

export class Link {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #next = 1;
  /** Why the Worker is gone; null while it is not. */
  #gone: MillraceError | null = null;
  /** Called when the tuner has ended. */
  onTuned: (info: EngineInfo) => void = () => {};
  /** Called when the GPU device was lost, and when another has taken its place. */
  onDevice: (event: DeviceEvent) => void = () => {};

  constructor() {
    // Some bundlers make an address of it that only the page completes.
    const url = new URL(String(new URL('./worker.js', import.meta.url)), globalThis.location?.href);
    try {
      this.#worker = url.origin === globalThis.location?.origin || url.protocol === 'blob:'
        ? new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'millrace' })
        : foreignWorker(url);
    } catch (error) {
      throw new MillraceError('INTERNAL', `a Worker could not be started from ${url}: the page's content security policy must allow it`, { cause: error });
    }
    this.#worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => this.#receive(data));
    this.#worker.addEventListener('error', (event) => {
      const message = event.message
        ? `the engine's Worker failed: ${event.message}`
        : `the engine's Worker could not be loaded from ${url}: serve all files of the package from one folder`;
      this.close(new MillraceError('INTERNAL', message, { cause: event.error ?? undefined }));
    });
  }

  /** Sends a request; `on` sees what comes before the answer. */
  request<T extends 'loaded' | 'done' | 'forked' | 'settled' | 'answer'>(request: Unsent, on: Pending['on'] = () => {}): { id: number; answer: Promise<Answer<T>> } {
    const id = this.#next++;
    const answer = new Promise<Answer<T>>((resolve, reject) => {
      if (this.#gone) return reject(this.#gone);
      this.#pending.set(id, { on, resolve, reject });
      this.#worker.postMessage({ ...request, id } satisfies ToWorker);
    });
    return { id, answer };
  }

  /** Asks the Worker to abort a request, which then answers soon. */
  abort(id: number): void {
    if (this.#pending.has(id)) this.#worker.postMessage({ type: 'abort', id } satisfies ToWorker);
  }

  /** Has the download of a request wait, or go on. */
  pause(id: number, paused: boolean): void {
    if (this.#pending.has(id)) this.#worker.postMessage({ type: 'pause', id, paused } satisfies ToWorker);
  }

  /** Ends the Worker, and with it its GPU device and memory. Everything pending, and all later requests, fail with `reason`. */
  close(reason: MillraceError): void {
    if (this.#gone) return;
    this.#gone = reason;
    this.#worker.terminate();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #receive(message: FromWorker): void {
    if (this.#gone) return;
    if (message.type === 'crash') return this.close(unpackError(message.error));
    if (message.type === 'tuned') return this.onTuned(message.info);
    if (message.type === 'device') return this.onDevice(message.event);
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    if (message.type === 'progress' || message.type === 'delta' || message.type === 'fetch') return pending.on(message);
    this.#pending.delete(message.id);
    if (message.type === 'error') pending.reject(unpackError(message.error));
    else pending.resolve(message as never);
  }
}

/** A Worker's script must come from the page's origin; where the package comes from elsewhere, a script of one line imports it. */
function foreignWorker(url: URL): Worker {
  const script = URL.createObjectURL(new Blob([`import ${JSON.stringify(url.href)};`], { type: 'text/javascript' }));
  // The address stays: the Worker starts another one from it, to read stored files.
  return new Worker(script, { type: 'module', name: 'millrace' });
}
