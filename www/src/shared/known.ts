// Well-known models: files of 4 to 8 bits a weight, small enough for a visitor's machine. Sizes are what their pages say; the plan reads the
// file's own header before anything is downloaded.

import { modelName } from './model_name.ts';

/** A published file. */
export interface KnownModel {
  name: string;
  /** What it is good for, in a few words. */
  about: string;
  /** How its weights are stored. */
  type: string;
  /** Of the file. */
  bytes: number;
  /** On the GPU beside the weights: the cache of 4,096 positions and what a pass needs, roughly. */
  beside: number;
  url: string;
}

const at = (repository: string, file: string): string => `https://huggingface.co/${repository}/resolve/main/${file}`;

export const KNOWN: readonly KnownModel[] = [
  {
    name: 'Qwen 3.5 0.8B',
    about: 'of this year; many languages, tools, long texts',
    type: 'Q4_K_M',
    bytes: 528e6,
    beside: 260e6,
    url: at('lmstudio-community/Qwen3.5-0.8B-GGUF', 'Qwen3.5-0.8B-Q4_K_M.gguf'),
  },
  {
    name: 'LFM 2.5 1.2B',
    about: 'of this year; fast, tools',
    type: 'Q4_K_M',
    bytes: 731e6,
    beside: 120e6,
    url: at('LiquidAI/LFM2.5-1.2B-Instruct-GGUF', 'LFM2.5-1.2B-Instruct-Q4_K_M.gguf'),
  },
  {
    name: 'Gemma 3 270M',
    about: 'the smallest that chats',
    type: 'Q8_0',
    bytes: 292e6,
    beside: 60e6,
    url: at('ggml-org/gemma-3-270m-it-GGUF', 'gemma-3-270m-it-Q8_0.gguf'),
  },
  {
    name: 'SmolLM2 360M',
    about: 'short texts, English',
    type: 'Q8_0',
    bytes: 386e6,
    beside: 200e6,
    url: at('HuggingFaceTB/SmolLM2-360M-Instruct-GGUF', 'smollm2-360m-instruct-q8_0.gguf'),
  },
  {
    name: 'Qwen 2.5 0.5B',
    about: 'many languages',
    type: 'Q4_K_M',
    bytes: 491e6,
    beside: 90e6,
    url: at('Qwen/Qwen2.5-0.5B-Instruct-GGUF', 'qwen2.5-0.5b-instruct-q4_k_m.gguf'),
  },
  {
    name: 'Qwen 3 0.6B',
    about: 'thinks before it answers',
    type: 'Q8_0',
    bytes: 639e6,
    beside: 510e6,
    url: at('Qwen/Qwen3-0.6B-GGUF', 'Qwen3-0.6B-Q8_0.gguf'),
  },
  {
    name: 'Gemma 3 1B',
    about: 'many languages, long texts',
    type: 'Q4_K_M',
    bytes: 806e6,
    beside: 150e6,
    url: at('ggml-org/gemma-3-1b-it-GGUF', 'gemma-3-1b-it-Q4_K_M.gguf'),
  },
  {
    name: 'Llama 3.2 1B',
    about: 'a good all-rounder',
    type: 'Q4_K_M',
    bytes: 808e6,
    beside: 180e6,
    url: at('bartowski/Llama-3.2-1B-Instruct-GGUF', 'Llama-3.2-1B-Instruct-Q4_K_M.gguf'),
  },
  {
    name: 'Qwen 2.5 1.5B',
    about: 'many languages, some code',
    type: 'Q4_K_M',
    bytes: 1117e6,
    beside: 170e6,
    url: at('Qwen/Qwen2.5-1.5B-Instruct-GGUF', 'qwen2.5-1.5b-instruct-q4_k_m.gguf'),
  },
  {
    name: 'Qwen 3 1.7B',
    about: 'thinks before it answers',
    type: 'Q8_0',
    bytes: 1834e6,
    beside: 520e6,
    url: at('Qwen/Qwen3-1.7B-GGUF', 'Qwen3-1.7B-Q8_0.gguf'),
  },
  {
    name: 'Llama 3.2 3B',
    about: 'summaries, longer answers',
    type: 'Q4_K_M',
    bytes: 2019e6,
    beside: 520e6,
    url: at('bartowski/Llama-3.2-3B-Instruct-GGUF', 'Llama-3.2-3B-Instruct-Q4_K_M.gguf'),
  },
  {
    name: 'Phi 3.5 mini',
    about: 'reasoning, code, English',
    type: 'Q4_K_M',
    bytes: 2393e6,
    beside: 1650e6,
    url: at('bartowski/Phi-3.5-mini-instruct-GGUF', 'Phi-3.5-mini-instruct-Q4_K_M.gguf'),
  },
  {
    name: 'Qwen 3 4B',
    about: 'thinks; strong for its size',
    type: 'Q4_K_M',
    bytes: 2497e6,
    beside: 650e6,
    url: at('Qwen/Qwen3-4B-GGUF', 'Qwen3-4B-Q4_K_M.gguf'),
  },
  {
    name: 'Mistral 7B',
    about: 'needs a graphics card',
    type: 'Q4_K_M',
    bytes: 4373e6,
    beside: 600e6,
    url: at('bartowski/Mistral-7B-Instruct-v0.3-GGUF', 'Mistral-7B-Instruct-v0.3-Q4_K_M.gguf'),
  },
  {
    name: 'Llama 3.1 8B',
    about: 'needs a graphics card',
    type: 'Q4_K_M',
    bytes: 4921e6,
    beside: 600e6,
    url: at('bartowski/Meta-Llama-3.1-8B-Instruct-GGUF', 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf'),
  },
];

/** The name of the model of an address. */
export function nameOf(url: string): string {
  return KNOWN.find((model) => model.url === url)?.name ?? modelName(url);
}

/** What this machine offers, as far as a page can know before a model is loaded. */
export interface Device {
  /** The GPU's name; null where there is none to use. */
  gpu: string | null;
  /** Whether it computes on the CPU. */
  software: boolean;
  /** Memory of the machine in bytes, and whether it may be more: browsers round and cap it. */
  memory: { bytes: number; more: boolean } | null;
  /** Bytes that the browser's storage still takes; null where it does not say. */
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

/** Whether a model of so many bytes, `beside` not counted, is likely to run on it, and why. */
export function verdict(
  { bytes, beside }: Pick<KnownModel, 'bytes' | 'beside'>,
  device: Device,
  stored = 0,
): { level: 'good' | 'slow' | 'bad'; text: string } {
  const needed = (bytes + beside) / 1e9;
  if (device.gpu === null) return { level: 'bad', text: 'needs WebGPU' };
  if (device.storage !== null && bytes - stored > device.storage)
    return { level: 'bad', text: `needs ${((bytes - stored - device.storage) / 1e9).toFixed(1)} GB more storage` };
  if (device.memory && !device.memory.more && needed * 1e9 > device.memory.bytes * 0.6)
    return { level: 'bad', text: `too large for ${Math.round(device.memory.bytes / 2 ** 30)} GB of memory` };
  if (device.software) return { level: 'slow', text: 'slow without a GPU' };
  // What a GPU has, no browser tells: integrated ones share the machine's memory.
  if (needed > 3.5) return { level: 'slow', text: `needs ${needed.toFixed(1)} GB on the GPU` };
  return { level: 'good', text: 'fits' };
}
