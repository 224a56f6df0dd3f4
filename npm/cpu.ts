// What computes on the CPU: a module of WebAssembly of its own, fetched when an engine is first to do so. It needs no glue.
import { MillraceError } from './errors.ts';

/** A function that swizzles bytes by relaxed SIMD: what is valid where the module that uses it is. */
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15,
  253, 128, 2, 11,
];

let compiling: Promise<WebAssembly.Module> | null = null;

/**
 * The exports of a new instance, and `turn`, which lets messages arrive. `beside`: the address of the engine's own
 * module, if one was configured.
 */
export async function cpuModule(beside: URL | null): Promise<object> {
  const relaxed = WebAssembly.validate(new Uint8Array(RELAXED));
  const found = relaxed
    ? new URL('./millrace_cpu_relaxed.wasm', import.meta.url)
    : new URL('./millrace_cpu.wasm', import.meta.url);
  const url = beside ? new URL(relaxed ? 'millrace_cpu_relaxed.wasm' : 'millrace_cpu.wasm', beside) : found;
  compiling ??= compiled(url);
  try {
    const { exports } = await WebAssembly.instantiate(await compiling, {});
    return { ...exports, turn };
  } catch (error) {
    compiling = null;
    const message = `the module that computes on the CPU could not be loaded from ${url}: serve it beside millrace_bg.wasm`;
    throw new MillraceError('INTERNAL', message, { cause: error });
  }
}

async function compiled(url: URL): Promise<WebAssembly.Module> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
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
