// Takes the place of ../place.ts in Node.js, Deno and Bun: models may be files of this machine, and the engine is in the caller's thread.
import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';
import { setImmediate } from 'node:timers';
import { fileURLToPath } from 'node:url';
import { Worker as Thread } from 'node:worker_threads';
import { MillraceError } from '../errors.ts';
import { HELPS, type Helper } from '../helps.ts';
import { PROJECTOR } from '../hub.ts';
import type { WasmModelFile } from '../millrace.js';
import { DiskBlob } from './disk.ts';

/** Whether engines get Workers of their own. */
export const OWN_WORKERS = false;

/** Whether this is a page without an origin, and the error of features that it lacks then: never here. */
export const opaque = (): boolean => false;
export const ofNoOrigin = (): null => null;

const runtime = (): string => ('Deno' in globalThis ? 'Deno' : 'Bun' in globalThis ? 'Bun' : 'Node.js');

/** Why the package cannot run here; null where it can. */
export function wrongPlace(): string | null {
  return null;
}

/** Why there is no WebGPU here and what to do about it; null where there is. */
export function missingWebGpu(): MillraceError | null {
  if ((navigator as { gpu?: unknown }).gpu) return null;
  const advice = 'Deno' in globalThis ? 'deno add npm:webgpu, or run with --unstable-webgpu' : 'npm install webgpu';
  return new MillraceError(
    'NO_WEBGPU',
    `${runtime()} has no WebGPU of its own here: ${advice}; it takes the machine's Vulkan, Metal or Direct3D 12 driver`,
  );
}

/** Whether threads may share memory. */
export const sharesMemory = (): boolean => true;

/** Starts a thread that helps on the CPU. */
export function startElsewhere(): Helper {
  // Options of this program, such as modules that it preloads, are none of the helper's.
  const thread = new Thread(new URL('./node-helper.mjs', import.meta.url), { name: HELPS, execArgv: [] });
  const helper: Helper = {
    onmessage: null,
    onerror: null,
    postMessage: (message) => thread.postMessage(message),
    terminate: () => void thread.terminate(),
    unref: () => thread.unref(),
  };
  thread.on('message', (data) => helper.onmessage?.({ data } as MessageEvent));
  thread.on('error', (error) => helper.onerror?.({ message: String(error) } as ErrorEvent));
  thread.on('exit', () => helper.onerror?.({ message: '' } as ErrorEvent));
  return helper;
}

/** Lets events and messages arrive that are waiting. */
export const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** The engine's files for a `file:` address; any other model unchanged. */
export async function localFiles<M>(model: M): Promise<M | { files: WasmModelFile[] }> {
  if (typeof model !== 'string' || !model.startsWith('file:')) return model;
  const { hash } = new URL(model);
  const projector = hash.startsWith(PROJECTOR)
    ? fileURLToPath(new URL(decodeURIComponent(hash.slice(PROJECTOR.length)), model))
    : null;
  const path = fileURLToPath(model);
  let folder: boolean;
  try {
    folder = statSync(path).isDirectory();
    if (projector) statSync(projector);
  } catch (error) {
    throw new MillraceError(
      'NOT_FOUND',
      `there is no file or folder ${(error as { path?: string }).path ?? path}: give a path against ${process.cwd()}, an absolute one, or a URL`,
      { cause: error },
    );
  }
  const paths = folder ? filesIn(path) : partsOf(path);
  const base = folder ? path : dirname(path);
  const files = paths.map(async (one) => ({
    name: relative(base, one).split(sep).join('/'),
    data: await DiskBlob.of(one),
  }));
  if (projector) files.push(DiskBlob.of(projector).then((data) => ({ name: basename(projector), data })));
  return { files: await Promise.all(files) };
}

/** A file of these parts, which are read into memory: the runtime's File does not know parts on the disk. */
export async function fileOf(parts: Blob[], name: string): Promise<File> {
  return new File(await Promise.all(parts.map((part) => part.arrayBuffer())), name);
}

/** The files of a model's folder, without hidden ones such as git's. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.'))
    .map((entry) => join(folder, entry.name))
    .filter((path) => statSync(path).isFile());
}

/** A file, or all parts of a split one. */
function partsOf(path: string): string[] {
  const [, stem, count] = /^(.*)-\d{5}-of-(\d{5})\.gguf$/.exec(basename(path)) ?? [];
  if (stem === undefined) return [path];
  const number = (n: number): string => String(n).padStart(5, '0');
  return Array.from({ length: Number(count) }, (_, i) =>
    join(dirname(path), `${stem}-${number(i + 1)}-of-${count}.gguf`),
  );
}
