// What computes on the CPU: a module of WebAssembly of its own, fetched when an engine is first to do so. It needs no
// glue. Where memory can be shared, Workers compute beside the engine's thread.
import { MillraceError } from './errors.ts';

/** The name of a Worker that runs `serveCpu`. */
export const HELPS = 'millrace-cpu' as const;

/** A function that swizzles bytes by relaxed SIMD: what is valid where the module that uses it is. */
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15,
  253, 128, 2, 11,
];

/** Pages of 64 KiB that the module begins with, and how many it may have where the browser lets it. */
const FIRST_PAGES = 64;
const MOST_PAGES = [65_536, 32_768, 16_384];
/** The stack of a helper's thread, in bytes. */
const STACK = 256 * 1024;
/** How long the start of helpers may hold up a load, in milliseconds. */
const START_MS = 2000;

interface Exports {
  memory: WebAssembly.Memory;
  stack(bytes: number): number;
  __stack_pointer: WebAssembly.Global;
  joined(): number;
  slept(): void;
  help(seen: number): number;
  failed(): void;
}

/** What a helper gets: the compiled module, the memory that it shares, and where its stack ends. */
interface Joining {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  stack: number;
}

const compiling = new Map<string, Promise<WebAssembly.Module>>();

/**
 * Threads for a machine of so many processors: all of a few; of more, half, which are as many as there are cores where each
 * counts as two.
 */
export const threadsFor = (processors: number): number =>
  processors <= 4 ? Math.max(1, processors) : Math.min(16, Math.max(4, Math.ceil(processors / 2)));

/** The address of the module for this browser. Bundlers know each literal. */
function address(relaxed: boolean, shared: boolean): URL {
  if (shared)
    return relaxed
      ? new URL('./millrace_cpu_relaxed_threads.wasm', import.meta.url)
      : new URL('./millrace_cpu_threads.wasm', import.meta.url);
  return relaxed
    ? new URL('./millrace_cpu_relaxed.wasm', import.meta.url)
    : new URL('./millrace_cpu.wasm', import.meta.url);
}

/** Memory that threads share; null where this place does not allow it. */
function sharedMemory(): WebAssembly.Memory | null {
  if (!(globalThis as { crossOriginIsolated?: boolean }).crossOriginIsolated) return null;
  for (const maximum of MOST_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: FIRST_PAGES, maximum, shared: true });
    } catch {
      // There is not so much room for addresses.
    }
  }
  return null;
}

/**
 * The exports of a new instance, with `turn`, which lets messages arrive, `threads`, and `end`, which ends its helpers.
 * `beside`: the address of the engine's own module, if one was configured. `startWorker` starts a Worker of the package
 * by name, where there are Workers.
 */
export async function cpuModule(beside: URL | null, startWorker: (name: typeof HELPS) => Worker): Promise<object> {
  const wanted = threadsFor(navigator.hardwareConcurrency ?? 1);
  const memory = wanted > 1 ? sharedMemory() : null;
  const found = address(WebAssembly.validate(new Uint8Array(RELAXED)), memory !== null);
  const url = beside ? new URL(found.pathname.slice(found.pathname.lastIndexOf('/') + 1), beside) : found;
  let module: WebAssembly.Module;
  let exports: Exports;
  try {
    module = await compiled(url.href);
    exports = await instance(module, memory);
  } catch (error) {
    compiling.delete(url.href);
    const message = `the module that computes on the CPU could not be loaded from ${url}: serve it beside millrace_bg.wasm`;
    throw new MillraceError('INTERNAL', message, { cause: error });
  }
  const helpers = memory ? await joined(wanted - 1, exports, { module, memory }, startWorker) : [];
  const end = (): void => {
    for (const helper of helpers.splice(0)) helper.terminate();
  };
  return { ...exports, memory: memory ?? exports.memory, turn, threads: () => helpers.length + 1, end };
}

function compiled(url: string): Promise<WebAssembly.Module> {
  const known = compiling.get(url);
  if (known) return known;
  const begun = fetch(url).then(async (response) => {
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    return WebAssembly.compile(await response.arrayBuffer());
  });
  compiling.set(url, begun);
  return begun;
}

async function instance(module: WebAssembly.Module, memory: WebAssembly.Memory | null): Promise<Exports> {
  const wake = (jobs: number): void => {
    if (memory) Atomics.notify(new Int32Array(memory.buffer, jobs, 1), 0);
  };
  const { exports } = await WebAssembly.instantiate(module, memory ? { env: { memory, wake } } : {});
  return exports as unknown as Exports;
}

/** Starts helpers; those that have not come in time, or cannot, are ended. */
async function joined(
  count: number,
  exports: Exports,
  { module, memory }: Pick<Joining, 'module' | 'memory'>,
  startWorker: (name: typeof HELPS) => Worker,
): Promise<Worker[]> {
  const start = async (): Promise<Worker | null> => {
    let worker: Worker;
    try {
      worker = startWorker(HELPS);
    } catch {
      return null;
    }
    const came = await new Promise<boolean>((resolve) => {
      worker.onmessage = () => resolve(true);
      worker.onerror = () => resolve(false);
      setTimeout(() => resolve(false), START_MS);
      worker.postMessage({ module, memory, stack: exports.stack(STACK) } satisfies Joining);
    });
    if (came) return worker;
    worker.terminate();
    return null;
  };
  const workers = await Promise.all(Array.from({ length: count }, start));
  return workers.filter((worker) => worker !== null);
}

/** Computes beside an engine's thread from now on, until this Worker is ended. */
export function serveCpu(self: {
  onmessage: ((event: MessageEvent<Joining>) => void) | null;
  postMessage(message: unknown): void;
}): void {
  self.onmessage = async ({ data: { module, memory, stack } }) => {
    const exports = await instance(module, memory);
    exports.__stack_pointer.value = stack;
    const jobs = new Int32Array(memory.buffer, exports.joined(), 1);
    let seen = Atomics.load(jobs, 0);
    exports.slept();
    self.postMessage('joined');
    try {
      for (;;) {
        Atomics.wait(jobs, 0, seen);
        seen = exports.help(seen);
      }
    } catch (error) {
      exports.failed();
      throw error;
    }
  };
}

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
