// What this runs in: a browser. In Node.js, Deno and Bun node/place.ts takes its place.
import { MillraceError } from './errors.ts';
import type { Helper } from './helps.ts';
import type { WasmModelFile } from './millrace.js';

/** Whether engines get Workers of their own. */
export const OWN_WORKERS: boolean = true;

/** Whether this is of no origin, not even its own server's: a frame with `sandbox` and without `allow-same-origin`, an address of `data:`, a file. */
export const opaque = (): boolean => globalThis.origin === 'null';

/** Why something that comes from a server cannot be had in such a page or a Worker of it; null in all other places. */
export function ofNoOrigin(what: string, cause?: unknown): MillraceError | null {
  if (!opaque()) return null;
  const message = `${what}: this page has no origin of its own, as a frame with sandbox has none; add allow-same-origin to its sandbox, or let pages of any origin read all files of the package (Access-Control-Allow-Origin: *)`;
  return new MillraceError('NO_WEBGPU', message, { cause });
}

/** Whether threads may share memory: browsers let only isolated pages do so. */
export const sharesMemory = (): boolean =>
  (globalThis as { crossOriginIsolated?: boolean }).crossOriginIsolated === true;

/** Starts a thread that helps on the CPU, where that is no Worker of the package's script; here it is one. */
export const startElsewhere = (): Helper | null => null;

/** Lets events and messages arrive that are waiting. */
export const turn = (): Promise<void> =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/** Files that an address means without a server: here none. */
export async function localFiles<M>(model: M): Promise<M | { files: WasmModelFile[] }> {
  return model;
}

/** A file of these parts, which lie on the disk. */
export async function fileOf(parts: Blob[], name: string): Promise<File> {
  return new File(parts, name);
}

/** What this runs in, where that is no browser: null in one. */
function otherRuntime(): string | null {
  const { Deno, Bun, process } = globalThis as {
    Deno?: unknown;
    Bun?: unknown;
    process?: { versions?: Record<string, string> };
  };
  if (Deno !== undefined) return 'Deno';
  if (Bun !== undefined) return 'Bun';
  return process?.versions?.node !== undefined && process.versions.electron === undefined ? 'Node.js' : null;
}

/** Why nothing of the package can run in this place, a page or not; null where it can. */
export function wrongPlace(): string | null {
  const runtime = otherRuntime();
  if (runtime)
    return `this is the package's build for browsers, and this is ${runtime}: import 'millrace' by its name, so that ${runtime} takes its own build, or import it in code that runs in a page`;
  if ('ServiceWorkerGlobalScope' in globalThis)
    return 'a service worker cannot host the engine, as it can start no Worker: use Millrace in a page or in a Worker of one';
  if (typeof Worker === 'undefined' || typeof navigator === 'undefined')
    return 'Millrace needs Workers, which this place does not have: use it in a page or in a dedicated Worker';
  return null;
}

/** Why this page has no WebGPU and what to do about it; null where it has. */
export function missingWebGpu(): MillraceError | null {
  const place = wrongPlace();
  if (place) return new MillraceError('NO_WEBGPU', place);
  if ('gpu' in navigator && navigator.gpu) return null;
  if (!globalThis.isSecureContext) {
    return new MillraceError(
      'NO_WEBGPU',
      `browsers offer WebGPU only to secure pages: serve this one over https, or from localhost, instead of ${location.origin === 'null' ? location.protocol : location.origin}`,
    );
  }
  return new MillraceError('NO_WEBGPU', `this browser has no WebGPU: ${advice(navigator.userAgent)}`);
}

function advice(agent: string): string {
  if (/Firefox\//.test(agent))
    return 'use Firefox 141 or newer on Windows, 145 or newer on macOS, or set dom.webgpu.enabled in about:config';
  if (/Edg\/|Chrome\//.test(agent)) {
    return /Linux/.test(agent) && !/Android/.test(agent)
      ? 'update Chrome or Edge, and see at chrome://gpu whether WebGPU is disabled; on Linux chrome://flags/#enable-unsafe-webgpu may be needed'
      : 'update Chrome or Edge (113 or newer, 121 on Android) and turn on hardware acceleration in its settings';
  }
  if (/Safari\//.test(agent)) return 'update to Safari 26 (macOS, iOS or iPadOS 26)';
  return 'use a current Chrome, Edge, Safari or Firefox';
}
