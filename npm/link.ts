// The near end of an engine's host: matches answers with requests, and fails whatever is pending when the host goes away. The host is in a Worker
// of its own, or in this thread; either way the two know each other by messages alone.
import { freeAbandoned, listen } from './abandoned.ts';
import { configured, log } from './configure.ts';
import { MillraceError, unpackError } from './errors.ts';
import { OWN_WORKERS, ofNoOrigin, opaque } from './place.ts';
import type { Pixels, SentPicture } from './pictures.ts';
import type { DeviceEvent, EngineNews, FromWorker, Request, ToWorker } from './protocol.ts';

type Answer<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;
/** A request without its id, which the link gives it. */
type Unsent = Request extends infer R ? (R extends Request ? Omit<R, 'id'> : never) : never;

interface Pending {
  on: (message: Extract<FromWorker, { id: number }>) => void;
  resolve: (message: never) => void;
  reject: (error: MillraceError) => void;
}

/** A Worker, or one end of a channel. */
interface Far {
  onmessage: ((event: MessageEvent<FromWorker>) => void) | null;
  postMessage(message: ToWorker, moved?: Transferable[]): void;
}

/** How often it is looked whether a Worker is still there, in milliseconds, and after how many looks without an answer it is not. */
const LOOK_EVERY_MS = 1000;
const MOST_LOOKS = 60;
/** After how many looks it is seen to what abandoned Workers hold: this one may wait for it. */
const LOOKS_PER_ROUND = 5;

/** The copies of pixels in a request: they are handed over. */
const copiesIn = ({ request }: { request?: { pictures?: readonly SentPicture[] } }): Transferable[] | undefined =>
  request?.pictures?.flatMap(({ source }) => (source as Partial<Pixels>).data?.buffer ?? []);

export class Link {
  readonly #far: Far;
  /** Ends the host. */
  readonly #end: () => void;
  readonly #pending = new Map<number, Pending>();
  #next = 1;
  /** Looks whether the Worker is still there, while something is pending. */
  #watch: ReturnType<typeof setInterval> | undefined;
  /** Looks since the last message of the Worker. */
  #quiet = 0;
  /** Why the host is gone; null while it is not. */
  #gone: MillraceError | null = null;
  /** Whether the host can go away without a word: a Worker can, this thread cannot. */
  #watched = false;
  /** Called when the tuner has ended. */
  onTuned: (info: EngineNews) => void = () => {};
  /** Called when the GPU device was lost, and when another has taken its place. */
  onDevice: (event: DeviceEvent) => void = () => {};
  /** Called when the host is gone. */
  onGone: () => void = () => {};

  /** `here`: in this thread, which is a dedicated Worker, or no browser's. */
  constructor(here = false) {
    const { far, end }: { far: Far; end: () => void } = here || !OWN_WORKERS ? this.#inThisThread() : this.#inWorker();
    this.#far = far;
    this.#end = end;
    far.onmessage = ({ data }) => this.#receive(data);
    const { wasmUrl } = configured;
    if (wasmUrl) far.postMessage({ type: 'wasm', url: wasmUrl.href });
  }

  #inWorker(): { far: Worker; end: () => void } {
    const url = addressOfWorker();
    const worker = startWorker(
      url,
      () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'millrace' }),
      'millrace',
    );
    worker.addEventListener('error', (event) => {
      const missing = `the engine's Worker could not be loaded from ${url}`;
      const message = event.message
        ? `the engine's Worker failed: ${event.message}`
        : `${missing}: serve the whole package from one folder, or say where it lies by configure({ workerUrl })`;
      const error = new MillraceError('INTERNAL', message, { cause: event.error ?? undefined });
      this.close((event.message ? null : ofNoOrigin(missing)) ?? error);
    });
    this.#watched = true;
    const stop = listen((name) => worker.postMessage({ type: 'lock', name } satisfies ToWorker));
    return {
      far: worker,
      end: () => {
        worker.terminate();
        stop();
      },
    };
  }

  #inThisThread(): { far: MessagePort; end: () => void } {
    const { port1, port2 } = new MessageChannel();
    // Bundlers want each name as it stands.
    const starts = {
      'millrace-reads': () =>
        new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'millrace-reads' }),
      'millrace-cpu': () =>
        new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'millrace-cpu' }),
    };
    const start = (name: keyof typeof starts): Worker => startWorker(addressOfWorker(), starts[name], name);
    // What is sent before it is there waits in the channel.
    import('./host.js').then(
      ({ host }) => host(port2, start),
      (error) => {
        const message = `host.js could not be loaded from beside ${import.meta.url}: serve the whole package from one folder`;
        this.close(new MillraceError('INTERNAL', message, { cause: error }));
      },
    );
    return { far: port1, end: () => port1.postMessage({ type: 'end' } satisfies ToWorker) };
  }

  /** Sends a request; `on` sees what comes before the answer. */
  request<T extends 'loaded' | 'done' | 'forked' | 'settled' | 'answer'>(
    request: Unsent,
    on: Pending['on'] = () => {},
  ): { id: number; answer: Promise<Answer<T>> } {
    const id = this.#next++;
    const answer = new Promise<Answer<T>>((resolve, reject) => {
      if (this.#gone) return reject(this.#gone);
      this.#pending.set(id, { on, resolve, reject });
      this.#look();
      try {
        this.#far.postMessage(
          { ...request, id } satisfies ToWorker,
          copiesIn(request as Parameters<typeof copiesIn>[0]),
        );
      } catch (error) {
        this.#forget(id);
        const message = `${request.type}: an option holds something that cannot be sent to a Worker (${(error as Error).message}): pass plain data`;
        reject(new MillraceError('BAD_OPTION', message, { cause: error }));
      }
    });
    return { id, answer };
  }

  /**
   * While a request is pending, pings the Worker, and frees the locks of abandoned ones. A Worker does not answer if
   * its thread is blocked for ever (a write into storage that the browser has cleared meanwhile), or if it was ended
   * from outside.
   */
  #look(): void {
    if (this.#watch !== undefined) return;
    this.#quiet = 0;
    let looks = 0;
    this.#watch = setInterval(() => {
      if (++looks % LOOKS_PER_ROUND === 0) void freeAbandoned().catch(() => {});
      if (!this.#watched) return;
      this.#quiet += 1;
      if (this.#quiet <= MOST_LOOKS) return this.#far.postMessage({ type: 'ping' } satisfies ToWorker);
      this.close(
        new MillraceError(
          'WORKER_LOST',
          `the engine's Worker has not answered for ${(MOST_LOOKS * LOOK_EVERY_MS) / 1000} s: it was ended or is blocked; load the engine again`,
        ),
      );
    }, LOOK_EVERY_MS);
  }

  #forget(id: number): void {
    this.#pending.delete(id);
    if (this.#pending.size > 0) return;
    clearInterval(this.#watch);
    this.#watch = undefined;
  }

  /** Asks the host to abort a request, which then answers soon. */
  abort(id: number): void {
    if (this.#pending.has(id)) this.#far.postMessage({ type: 'abort', id } satisfies ToWorker);
  }

  /** Announces a request: see `Engine.warm`. */
  warm(): void {
    this.#far.postMessage({ type: 'warm' } satisfies ToWorker);
  }

  /** Has the download of a request wait, or go on. */
  pause(id: number, paused: boolean): void {
    if (this.#pending.has(id)) this.#far.postMessage({ type: 'pause', id, paused } satisfies ToWorker);
  }

  /** Ends the host, and with it its GPU device and memory. Everything pending, and all later requests, fail with `reason`. */
  close(reason: MillraceError): void {
    if (this.#gone) return;
    this.#gone = reason;
    if (reason.code === 'WORKER_LOST' || reason.code === 'INTERNAL') log('error', reason.message);
    clearInterval(this.#watch);
    this.#end();
    this.onGone();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #receive(message: FromWorker): void {
    if (this.#gone) return;
    this.#quiet = 0;
    if (message.type === 'pong') return;
    if (message.type === 'log') return log(message.level, message.text);
    if (message.type === 'crash') return this.close(unpackError(message.error));
    if (message.type === 'tuned') return this.onTuned(message.info);
    if (message.type === 'device') return this.onDevice(message.event);
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    if (message.type === 'progress' || message.type === 'delta' || message.type === 'fetch') return pending.on(message);
    this.#forget(message.id);
    if (message.type === 'error') pending.reject(unpackError(message.error));
    else pending.resolve(message as never);
  }
}

/**
 * Where the Worker's script is. Some bundlers make an address of it that only the page completes. Vite would copy the script as it is for this
 * address, beside the one that it makes of the Worker.
 */
function addressOfWorker(): URL {
  const url = new URL(/* @vite-ignore */ './worker.js', import.meta.url);
  return configured.workerUrl ?? new URL(String(url), globalThis.location?.href);
}

/**
 * Starts a Worker with the script at `url`. `start` does it as bundlers know it. A Worker's script must come from the page's origin; where the
 * package comes from elsewhere, a script of one line imports it. A page without an origin can have that line only in the address itself.
 */
function startWorker(url: URL, start: () => Worker, name: string): Worker {
  try {
    const own = url.origin === (globalThis.origin ?? globalThis.location?.origin) || url.protocol === 'blob:';
    if (own) return configured.workerUrl ? new Worker(url, { type: 'module', name }) : start();
    const line = `import ${JSON.stringify(url.href)};`;
    // The address stays: the Worker starts another one from it, to read stored files.
    const script = opaque()
      ? `data:text/javascript,${encodeURIComponent(line)}`
      : URL.createObjectURL(new Blob([line], { type: 'text/javascript' }));
    return new Worker(script, { type: 'module', name });
  } catch (error) {
    const message = `a Worker could not be started from ${url}`;
    throw (
      ofNoOrigin(message, error) ??
      new MillraceError('INTERNAL', `${message}: the page's content security policy must allow it`, { cause: error })
    );
  }
}
