// Whether a well-known model fits this machine.

import type { KnownModel } from './known.ts';

/** The machine's resources, as far as a page can know before a model is loaded. */
export interface Device {
  /** The GPU's name; null where there is none. */
  gpu: string | null;
  /** Whether the GPU is one in software. */
  software: boolean;
  /** Memory of the machine in bytes, and whether it may be more: browsers round and cap it. */
  memory: { bytes: number; more: boolean } | null;
  /** Free bytes of the browser's storage; null where it does not tell. */
  storage: number | null;
}

/** Chrome reports at most this much free storage, whatever the disk has. */
const STORAGE_CAP = 10 * 2 ** 30;

export async function lookAtDevice(): Promise<Device> {
  const [adapter, estimate] = await Promise.all([
    navigator.gpu?.requestAdapter({ powerPreference: 'high-performance' }).catch(() => null),
    navigator.storage?.estimate().catch(() => null),
  ]);
  const info = adapter?.info;
  const gigabytes = (navigator as { deviceMemory?: number }).deviceMemory;
  const free = estimate?.quota === undefined ? null : estimate.quota - (estimate.usage ?? 0);
  return {
    gpu: adapter
      ? [info?.vendor, info?.description || info?.device || info?.architecture].filter(Boolean).join(' ') || 'a GPU'
      : null,
    software:
      Boolean(info?.isFallbackAdapter) ||
      /swiftshader|llvmpipe/i.test(`${info?.description} ${info?.architecture} ${info?.device}`),
    memory: gigabytes ? { bytes: gigabytes * 2 ** 30, more: gigabytes >= 8 } : null,
    storage: free !== null && free >= STORAGE_CAP * 0.95 ? null : free,
  };
}

/** Whether a model of `bytes` bytes, and `beside` bytes more, is likely to run on the device, and why. */
export function verdict(
  { bytes, beside }: Pick<KnownModel, 'bytes' | 'beside'>,
  device: Device,
  stored = 0,
): { level: 'good' | 'slow' | 'bad'; text: string } {
  const needed = (bytes + beside) / 1e9;
  if (device.storage !== null && bytes - stored > device.storage)
    return { level: 'bad', text: `needs ${((bytes - stored - device.storage) / 1e9).toFixed(1)} GB more storage` };
  if (device.memory && !device.memory.more && needed * 1e9 > device.memory.bytes * 0.6)
    return { level: 'bad', text: `too large for ${Math.round(device.memory.bytes / 2 ** 30)} GB of memory` };
  if (device.gpu === null || device.software) return { level: 'slow', text: 'slow without a GPU' };
  // Browsers do not tell a GPU's memory; integrated GPUs share the machine's.
  if (needed > 3.5) return { level: 'slow', text: `needs ${needed.toFixed(1)} GB on the GPU` };
  return { level: 'good', text: 'fits' };
}
