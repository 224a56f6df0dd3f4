// What computes on the CPU: a module of WebAssembly of its own, fetched when an engine is first to do so. It needs no
// glue. Where memory can be shared, Workers compute beside the engine's thread.
import { MillraceError } from './errors.ts';
import { type Exports, type Helper, HELPS, instance, JOIN, type Joining } from './helps.ts';
import { sharesMemory, startElsewhere, turn } from './place.ts';

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
  if (!sharesMemory()) return null;
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
 * The exports of a new instance, with `turn`, which lets messages arrive, `threads`, `end`, which ends its helpers, and
 * `gone`, a promise of why the instance cannot be used any more: a helper has ended. It resolves to nothing at `end`.
 * `beside`: the address of the engine's own module, if one was configured. `startWorker` starts a Worker of the package
 * by name, in a page.
 */
export async function cpuModule(
  mayHelp: boolean,
  beside: URL | null,
  startWorker: (name: typeof HELPS) => Worker,
): Promise<object> {
  const wanted = mayHelp ? threadsFor(navigator.hardwareConcurrency ?? 1) : 1;
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
  let tell: (why?: string) => void;
  const gone = new Promise<string | undefined>((resolve) => {
    tell = resolve;
  });
  const helpers: Helper[] = [];
  const end = (why?: string): void => {
    tell(why);
    for (const helper of helpers.splice(0)) helper.terminate();
  };
  const lost = (why: string): void => end(`a thread that computes has ended: ${why}`);
  if (memory) helpers.push(...(await joined(wanted - 1, exports, { module, memory }, startWorker, lost)));
  const threads = helpers.length + 1;
  return { ...exports, memory: memory ?? exports.memory, turn, threads: () => threads, end: () => end(), gone };
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

/** Starts helpers; those that are not ready in time, or cannot be, are ended. `lost` is told of one that ends later. */
async function joined(
  count: number,
  exports: Exports,
  { module, memory }: Pick<Joining, 'module' | 'memory'>,
  startWorker: (name: typeof HELPS) => Worker,
  lost: (why: string) => void,
): Promise<Helper[]> {
  const start = async (): Promise<Helper | null> => {
    let helper: Helper;
    try {
      helper = startElsewhere() ?? startWorker(HELPS);
    } catch {
      return null;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ready = await new Promise<boolean>((resolve) => {
      helper.onmessage = () => resolve(true);
      helper.onerror = () => resolve(false);
      timer = setTimeout(() => resolve(false), START_MS);
      helper.postMessage({ module, memory, stack: exports.stack(STACK) });
    });
    clearTimeout(timer);
    if (!ready) {
      helper.terminate();
      return null;
    }
    helper.onmessage = ({ data }) => lost(String(data));
    helper.onerror = ({ message }) => lost(message || 'it was ended');
    helper.unref?.();
    helper.postMessage(JOIN);
    return helper;
  };
  const helpers = await Promise.all(Array.from({ length: count }, start));
  return helpers.filter((helper) => helper !== null);
}
