// What a thread that helps to compute on the CPU runs, and what the engine's thread has of the same module: cpu.ts.

/** The name of a Worker that runs `serveCpu`. */
export const HELPS = 'millrace-cpu' as const;

/** How long a thread may wait for another one, in milliseconds. */
const LOST_MS = 20_000;
/** What counts at most of the time between two looks at the clock, in milliseconds: the machine may have slept. */
const LOOK_MS = 100;

export interface Exports {
  memory: WebAssembly.Memory;
  stack(bytes: number): number;
  __stack_pointer: WebAssembly.Global;
  joined(): number;
  slept(): void;
  help(seen: number): number;
  failed(): void;
}

/** What a helper gets: the compiled module, the memory that it shares, and where its stack ends. */
export interface Joining {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  stack: number;
}

/** What a helper gets once it has said that it is ready: one that comes too late is ended before it takes a part. */
export const JOIN = 'join';

/** A thread that helps, as the engine's thread sees it: a Worker, or what acts as one. */
export interface Helper {
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(message: Joining | typeof JOIN): void;
  terminate(): void;
  /** Lets the process end while this runs. */
  unref?(): void;
}

/** A new instance of the module. `memory`: what threads share, if there are several. */
export async function instance(module: WebAssembly.Module, memory: WebAssembly.Memory | null): Promise<Exports> {
  const wake = (jobs: number): void => {
    if (memory) Atomics.notify(new Int32Array(memory.buffer, jobs, 1), 0);
  };
  let last = 0;
  let waited = 0;
  const waiting = (first: number, failed: number): void => {
    if (failed) throw new Error('a thread that computes has failed');
    const now = performance.now();
    waited = first ? 0 : waited + Math.min(now - last, LOOK_MS);
    last = now;
    if (waited > LOST_MS) throw new Error(`a thread that computes has not answered for ${LOST_MS / 1000} s`);
  };
  const { exports } = await WebAssembly.instantiate(module, memory ? { env: { memory, wake, waiting } } : {});
  return exports as unknown as Exports;
}

/**
 * Computes beside an engine's thread from now on, until this thread is ended. `listen` sets what messages go to; `tell`
 * sends one: first that this is ready, and another where it has failed.
 */
export function serveCpu(
  listen: (listener: (message: Joining | typeof JOIN) => void) => void,
  tell: (message: string) => void,
): void {
  let help = (): void => {};
  listen(async (message) => {
    if (message === JOIN) return help();
    const { module, memory, stack } = message;
    const exports = await instance(module, memory);
    exports.__stack_pointer.value = stack;
    help = () => {
      const jobs = new Int32Array(memory.buffer, exports.joined(), 1);
      let seen = Atomics.load(jobs, 0);
      exports.slept();
      try {
        for (;;) {
          Atomics.wait(jobs, 0, seen);
          seen = exports.help(seen);
        }
      } catch (error) {
        exports.failed();
        tell(String(error));
      }
    };
    tell('ready');
  });
}
