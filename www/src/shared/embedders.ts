// Embedding models, which the chat page does not need.
import { among, at, type KnownModel, nameOf as nameOfOthers } from './known.ts';

/** Embedding models, for searching documents. */
export const EMBEDDERS: readonly KnownModel[] = [
  {
    name: 'all-MiniLM L6',
    about: 'English, fast',
    type: 'Q8_0',
    bytes: 25e6,
    beside: 30e6,
    url: at('second-state/All-MiniLM-L6-v2-Embedding-GGUF', 'all-MiniLM-L6-v2-Q8_0.gguf'),
  },
  {
    name: 'nomic-embed 1.5',
    about: 'English',
    type: 'Q8_0',
    bytes: 146e6,
    beside: 60e6,
    url: at('nomic-ai/nomic-embed-text-v1.5-GGUF', 'nomic-embed-text-v1.5.Q8_0.gguf'),
  },
  {
    name: 'EmbeddingGemma 300M',
    about: 'many languages',
    type: 'Q8_0',
    bytes: 334e6,
    beside: 80e6,
    url: at('ggml-org/embeddinggemma-300M-GGUF', 'embeddinggemma-300M-Q8_0.gguf'),
  },
  {
    name: 'Qwen 3 Embedding 0.6B',
    about: 'many languages, the best of these',
    type: 'Q8_0',
    bytes: 639e6,
    beside: 150e6,
    url: at('Qwen/Qwen3-Embedding-0.6B-GGUF', 'Qwen3-Embedding-0.6B-Q8_0.gguf'),
  },
];

/** The name of the model of an address, among embedding models too. */
export const nameOf = (url: string): string => among(EMBEDDERS, url)?.name ?? nameOfOthers(url);
