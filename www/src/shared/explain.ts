// Explanations of errors for users of the chat, with advice. The error's own message gives the details.
import type { ErrorCode } from 'millrace';
import { sentence } from './format.ts';

export interface Explanation {
  title: string;
  message: string;
  advice: string;
}

const EXPLANATIONS: Record<ErrorCode, [title: string, advice: string]> = {
  BAD_OPTION: ['A setting or address is wrong', 'Correct the address of the model, or the settings.'],
  BAD_MODEL: ['The model file is damaged', 'Download it again, or choose another one.'],
  UNSUPPORTED_MODEL: [
    'This model cannot be run yet',
    'Choose another one: Llama, Mistral, Qwen, Gemma, Phi, OLMo, Granite or StableLM, as GGUF or safetensors.',
  ],
  NOT_FOUND: ['The model is not there', 'Check its address.'],
  NETWORK: [
    'The model could not be downloaded',
    'Check the connection. The server must also allow other sites to read the file (CORS).',
  ],
  STORAGE: ["The browser's storage failed", 'Free some disk space, or allow this site to store data, and try again.'],
  OUT_OF_MEMORY: [
    'Not enough memory',
    'Close other tabs, choose a smaller model, or a smaller context in the settings.',
  ],
  NO_WEBGPU: ['WebGPU is missing', 'Chrome, Edge, Safari 26 and Firefox have it on most machines.'],
  NO_ADAPTER: [
    'No GPU was found',
    'Turn on hardware acceleration in the browser’s settings and update the graphics driver.',
  ],
  DEVICE_LOST: [
    'The GPU was lost',
    'Close other tabs and programs that use the GPU, then load the model again, or a smaller one.',
  ],
  GPU: [
    'The GPU refused to work',
    'Update the browser and the graphics driver; the kernel page shows which part fails.',
  ],
  UNKNOWN_KERNEL: ['There is no such kernel', 'Correct the name of the kernel variant.'],
  CONTEXT_FULL: ['The conversation is too long', 'Start a new chat, or allow a larger context in the settings.'],
  UNSUPPORTED_SCHEMA: [
    'Part of the schema cannot be enforced',
    'Write it without that part, or allow in the JSON mode that such parts are left out.',
  ],
  INVALID_SCHEMA: ['The schema is not valid', 'Correct it in the JSON mode.'],
  GRAMMAR_TOO_LARGE: ['The schema is too large', 'Ask for less at once: fewer or shorter lists and texts.'],
  ABORTED: ['Cancelled', ''],
  TOKENIZER: ['The tokenizer does not work', 'Choose another model, or report this one.'],
  TEMPLATE: ['The chat template does not work', 'Choose another model: this one may not be made for chat.'],
  WORKER_LOST: ['The engine does not answer any more', 'Load the model again: what is stored is kept.'],
  DISPOSED: ['The model was unloaded', 'Load it again.'],
  INTERNAL: ['Something went wrong', 'Load the model again. If it happens again, please report it.'],
};

/** `advice` replaces the advice for users of the chat. */
export function explain(error: unknown, advice: Partial<Record<ErrorCode, string>> = {}): Explanation {
  const given = (error as { code?: unknown } | null)?.code;
  const code = typeof given === 'string' && given in EXPLANATIONS ? (given as ErrorCode) : 'INTERNAL';
  const [title, usual] = EXPLANATIONS[code];
  const message = (error as { message?: string } | null)?.message ?? String(error);
  return { title, message: sentence(message), advice: advice[code] ?? usual };
}

/** Whether an error means that the engine cannot be used any more. */
export function isFatal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code !== 'string' || ['DEVICE_LOST', 'DISPOSED', 'WORKER_LOST', 'INTERNAL'].includes(code);
}
