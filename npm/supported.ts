// Whether an engine can be loaded here, and what it would find: asked of the browser alone, without a model and without the WebAssembly.
import { MillraceError } from './errors.ts';
import type { Support } from './types.ts';
import { configured } from './configure.ts';
import { missingWebGpu, opaque, wrongPlace } from './place.ts';

/** What is asked of WebGPU here: not every TypeScript knows it. */
interface Adapter {
  readonly info: {
    readonly vendor: string;
    readonly architecture: string;
    readonly description: string;
    readonly isFallbackAdapter?: boolean;
  };
  readonly features: { has(name: string): boolean };
  readonly limits: { readonly maxBufferSize: number; readonly maxStorageBufferBindingSize: number };
}

/** The GPU, where the browser gives one. */
async function adapterOf(): Promise<Adapter | null> {
  type Gpu = { requestAdapter(options?: { powerPreference: string }): Promise<Adapter | null> };
  const { gpu } = navigator as { gpu?: Gpu };
  try {
    return (
      (await gpu?.requestAdapter({ powerPreference: 'high-performance' })) ?? (await gpu?.requestAdapter()) ?? null
    );
  } catch {
    return null;
  }
}

function described(adapter: Adapter): NonNullable<Support['adapter']> {
  const { info, features, limits } = adapter;
  const { vendor, architecture, description } = info;
  const named = `${vendor} ${architecture} ${description}`.toLowerCase();
  return {
    vendor,
    architecture,
    description,
    software:
      info.isFallbackAdapter === true ||
      ['swiftshader', 'llvmpipe', 'basic render'].some((name) => named.includes(name)),
    f16: features.has('shader-f16'),
    subgroups: features.has('subgroups'),
    max_buffer: limits.maxBufferSize,
    max_binding: limits.maxStorageBufferBindingSize,
  };
}

async function storage(): Promise<Support['storage']> {
  const none = (reason: string): Support['storage'] => ({ kept: false, available: null, persistent: false, reason });
  const manager = (globalThis.navigator as Navigator | undefined)?.storage;
  if (!manager?.getDirectory) return none('this browser has no private file system here');
  if (!navigator.locks) return none('this browser has no Web Locks here');
  try {
    await manager.getDirectory();
    const { quota, usage } = await manager.estimate();
    const available = quota === undefined || usage === undefined ? null : Math.max(0, quota - usage);
    return { kept: true, available, persistent: (await manager.persisted?.()) ?? false };
  } catch (error) {
    const where = opaque()
      ? 'to pages of no origin, as frames with sandbox and without allow-same-origin are'
      : 'as in private windows';
    return none(`the browser keeps its private file system closed, ${where} (${(error as Error).name})`);
  }
}

/** What this browser offers. @internal */
export async function support(): Promise<Support> {
  const missing = missingWebGpu();
  const [adapter, kept] = await Promise.all([missing ? null : adapterOf(), storage()]);
  const problem =
    missing ??
    (adapter
      ? null
      : new MillraceError(
          'NO_ADAPTER',
          'the browser offers no GPU: switch on hardware acceleration in its settings, or update the graphics driver; chrome://gpu says why a GPU is blocked',
        ));
  return {
    supported: problem === null || (configured.device !== 'gpu' && wrongPlace() === null),
    ...(problem ? { code: problem.code, reason: problem.message } : {}),
    adapter: adapter && described(adapter),
    storage: kept,
    memory: (globalThis.navigator as { deviceMemory?: number } | undefined)?.deviceMemory ?? null,
  };
}
