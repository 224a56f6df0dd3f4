// Well-known models: files of 4 to 8 bits a weight, small enough for a visitor's machine. Sizes are those of their
// pages; the plan reads the file's own header before anything is downloaded.

import { modelName } from './model_name.ts';

/** A published file. */
export interface KnownModel {
  name: string;
  /** A short description. */
  about: string;
  /** The type of its weights. */
  type: string;
  /** The file's size. */
  bytes: number;
  /** GPU memory beside the weights, roughly: the cache of 4,096 positions and the activations of a pass. */
  beside: number;
  url: string;
}

export const at = (repository: string, file: string): string =>
  `https://huggingface.co/${repository}/resolve/main/${file}`;

export const KNOWN: readonly KnownModel[] = [
  {
    name: 'LFM 2.5 VL 450M',
    about: 'of this year; reads pictures',
    type: 'Q4_0',
    // With the vision tower, 103 MB.
    bytes: 322e6,
    beside: 200e6,
    url: `${at('LiquidAI/LFM2.5-VL-450M-GGUF', 'LFM2.5-VL-450M-Q4_0.gguf')}#mmproj=mmproj-LFM2.5-VL-450m-Q8_0.gguf`,
  },
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
    name: 'Gemma 4 E2B',
    about: 'thinks, tools',
    type: 'Q4_K_M',
    bytes: 3110e6,
    beside: 330e6,
    url: at('unsloth/gemma-4-E2B-it-GGUF', 'gemma-4-E2B-it-Q4_K_M.gguf'),
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
    about: 'thinks first',
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
    about: 'thinks first',
    type: 'Q8_0',
    bytes: 1834e6,
    beside: 520e6,
    url: at('Qwen/Qwen3-1.7B-GGUF', 'Qwen3-1.7B-Q8_0.gguf'),
  },
  {
    name: 'Llama 3.2 3B',
    about: 'summaries',
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

/** The address that a model is stored under: without its vision tower's, which is stored with it. */
export const storedAs = (url: string): string => url.split('#', 1)[0]!;

/** The model of an address, as chosen or as stored. */
export const among = (models: readonly KnownModel[], url: string): KnownModel | undefined =>
  models.find((model) => storedAs(model.url) === storedAs(url));

/** The name of the model of an address. */
export const nameOf = (url: string): string => among(KNOWN, url)?.name ?? modelName(url);
