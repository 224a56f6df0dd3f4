// Globals of a browser's Worker that Node.js, Deno and Bun lack or have otherwise. The build replaces the globals of
// these names by the exports here, within the package alone: the globals of other code do not change.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DirectoryHandle, DiskStorage, FileHandle } from './disk.ts';
import { DiskLocks } from './locks.ts';

/** The runtime's `globalThis`: within the package that name is the scope below. */
const real = global as unknown as Record<string, unknown> & {
  navigator?: { gpu?: unknown; userAgent?: string; hardwareConcurrency?: number };
  fetch: typeof fetch;
};

/** Where models and conversations are kept: a folder of the user's cache. */
function folder(): string {
  const cache = process.env.XDG_CACHE_HOME || process.env.LOCALAPPDATA || join(homedir(), '.cache');
  return join(cache, 'millrace', 'store');
}

/** The npm package that brings WebGPU to where there is none. */
const WEBGPU = 'webgpu';

/** The address of that package, installed beside this one or in the running project. */
function addressOfWebGpu(): string | null {
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      return pathToFileURL(createRequire(from).resolve(WEBGPU)).href;
    } catch {
      // Not installed.
    }
  }
  return null;
}

interface Gpu {
  requestAdapter(options?: unknown): Promise<unknown>;
}

let opened: Promise<Gpu> | null = null;

/** Loads that package when a GPU is first asked for: it is large. */
async function open(address: string): Promise<Gpu> {
  const { create, globals } = (await import(/* webpackIgnore: true */ /* @vite-ignore */ address)) as {
    create(flags: string[]): Gpu;
    globals: Record<string, unknown>;
  };
  for (const [name, value] of Object.entries(globals)) if (!(name in real)) scope[name] = value;
  ({ GPUOutOfMemoryError = GPUOutOfMemoryError, GPUValidationError = GPUValidationError } = scope as unknown as {
    GPUOutOfMemoryError: new () => Error;
    GPUValidationError: new () => Error;
  });
  return create((process.env.MILLRACE_DAWN_FLAGS ?? '').split(/\s+/).filter(Boolean));
}

/** `navigator.gpu`: the runtime's own, or that package's; undefined where there is neither. */
function gpuHere(): Gpu | undefined {
  if (real.navigator?.gpu) return real.navigator.gpu as Gpu;
  const address = addressOfWebGpu();
  if (address === null) return undefined;
  return {
    async requestAdapter(options) {
      opened ??= open(address);
      return (await opened).requestAdapter(options);
    },
  };
}

export const navigator = {
  userAgent: real.navigator?.userAgent ?? `Node.js/${process.versions.node}`,
  get hardwareConcurrency() {
    return real.navigator?.hardwareConcurrency ?? availableParallelism();
  },
  get gpu() {
    return gpuHere();
  },
  storage: new DiskStorage(folder()),
  locks: new DiskLocks(join(folder(), 'locks')),
};

/** Relative addresses are files of the working folder. */
export const location = {
  get href() {
    return pathToFileURL(`${process.cwd()}/`).href;
  },
  origin: 'null',
};

/** The runtime's `fetch` that also reads files: the .wasm lies beside the package. */
export async function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const url = input instanceof Request ? input.url : String(input);
  if (!url.startsWith('file:')) return real.fetch(input, init);
  try {
    const type = url.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    return new Response(readFileSync(fileURLToPath(url)), { headers: { 'Content-Type': type } });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Response(null, { status: 404 });
    throw new TypeError((error as Error).message, { cause: error });
  }
}

/** Two ports in this thread. Messages are passed without a copy: a file on the disk stays one. */
export class MessageChannel {
  readonly port1: End;
  readonly port2: End;

  constructor() {
    this.port1 = new End();
    this.port2 = new End();
    this.port1.other = this.port2;
    this.port2.other = this.port1;
  }
}

class End {
  other: End | null = null;
  #waiting: unknown[] = [];
  #listener: ((event: { data: unknown }) => void) | null = null;

  get onmessage(): ((event: { data: unknown }) => void) | null {
    return this.#listener;
  }

  set onmessage(listener) {
    this.#listener = listener;
    if (listener) for (const data of this.#waiting.splice(0)) this.#deliver(data);
  }

  postMessage(data: unknown): void {
    if (this.other === null) return;
    if (this.other.#listener) this.other.#deliver(data);
    else this.other.#waiting.push(data);
  }

  close(): void {
    this.other = null;
    this.#listener = null;
  }

  #deliver(data: unknown): void {
    queueMicrotask(() => this.#listener?.({ data }));
  }
}

/** There are no Workers: all but what helps on the CPU runs in this thread. */
export const Worker = undefined;
export const localStorage = undefined;
/** WebGPU's error classes, once it is loaded. */
export let GPUOutOfMemoryError: new () => Error = class extends Error {};
export let GPUValidationError: new () => Error = class extends Error {};
if (real.GPUOutOfMemoryError) GPUOutOfMemoryError = real.GPUOutOfMemoryError as typeof GPUValidationError;
if (real.GPUValidationError) GPUValidationError = real.GPUValidationError as typeof GPUValidationError;
export { DirectoryHandle as FileSystemDirectoryHandle, FileHandle as FileSystemFileHandle };

/** The class of the scope, for `instanceof`. */
const WorkerScope = { [Symbol.hasInstance]: (value: unknown): boolean => value === scope };

const own: Record<string, unknown> = {
  navigator,
  location,
  fetch,
  MessageChannel,
  Worker,
  localStorage,
  FileSystemDirectoryHandle: DirectoryHandle,
  FileSystemFileHandle: FileHandle,
  WorkerGlobalScope: WorkerScope,
  DedicatedWorkerGlobalScope: WorkerScope,
  Window: undefined,
  document: undefined,
  setTimeout: (...args: Parameters<typeof setTimeout>) => setTimeout(...args),
  // A trap rejects the caller's promise, or ends the process as any uncaught error does.
  addEventListener() {},
  removeEventListener() {},
};
// `globalThis` of the package: other names are the runtime's own, some of which must be read from the real global.
export const scope: Record<string | symbol, unknown> = new Proxy(own as Record<string | symbol, unknown>, {
  get: (own, name) => (name in own ? own[name] : Reflect.get(real, name)),
  has: (own, name) => name in own || name in real,
});
export const self = scope;
