/** Every failure carries one of these codes; they are the same in Rust, on the command line and here. */
export type ErrorCode =
  | 'BAD_OPTION' // an option that is unknown, out of range or contradicts another
  | 'BAD_MODEL' // a model file that breaks its format; the message names the field
  | 'UNSUPPORTED_MODEL' // a well-formed model that this version cannot run
  | 'NOT_FOUND' // a file or URL that is not there
  | 'NETWORK' // the network failed, or the server answered with an error
  | 'STORAGE' // the browser's storage failed or is full
  | 'OUT_OF_MEMORY' // the GPU or the page has not enough memory
  | 'NO_WEBGPU' // this browser has no WebGPU, or not on this page
  | 'NO_ADAPTER' // there is no GPU, or none that matches `adapter`
  | 'DEVICE_LOST' // the GPU was lost twice within a minute, or there is no other: load the engine again
  | 'GPU' // the GPU refused a shader or a command
  | 'UNKNOWN_KERNEL' // a kernel or variant was forced that does not exist or cannot run here
  | 'CONTEXT_FULL' // prompt and answer do not fit into the context
  | 'ABORTED' // your AbortSignal was aborted
  | 'TOKENIZER' // the model's tokenizer cannot be built, or refuses the text
  | 'TEMPLATE' // the model's chat template fails
  | 'DISPOSED' // the engine was disposed of
  | 'INTERNAL'; // something that cannot happen did

const CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'BAD_OPTION', 'BAD_MODEL', 'UNSUPPORTED_MODEL', 'NOT_FOUND', 'NETWORK', 'STORAGE', 'OUT_OF_MEMORY', 'NO_WEBGPU', 'NO_ADAPTER',
  'DEVICE_LOST', 'GPU', 'UNKNOWN_KERNEL', 'CONTEXT_FULL', 'ABORTED', 'TOKENIZER', 'TEMPLATE', 'DISPOSED', 'INTERNAL',
]);

/**
 * The one error class of the package. `code` is stable, `message` says what happened and what to do, `data` holds particulars.
 * An aborted operation has the name `AbortError`, as with `fetch`; all others have `MillraceError`.
 */
export class MillraceError extends Error {
  readonly code: ErrorCode;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, { cause, data = {} }: { cause?: unknown; data?: Record<string, unknown> } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code === 'ABORTED' ? 'AbortError' : 'MillraceError';
    this.code = code;
    this.data = data;
  }
}

/** An error as plain data. `postMessage` keeps neither the class nor the fields of an error. @internal */
export interface PackedError {
  code: ErrorCode | null; // null: not one of ours, e.g. the cause of one
  name: string;
  message: string;
  stack: string | null;
  data: Record<string, unknown>;
  cause: PackedError | null;
}

/** Takes an error apart for `postMessage`. Data that cannot be cloned becomes text. @internal */
export function packError(error: unknown, depth = 4): PackedError {
  if (!(error instanceof Error)) return { code: null, name: 'Error', message: String(error), stack: null, data: {}, cause: null };
  const { code, data } = error as { code?: unknown; data?: unknown };
  return {
    code: isCode(code) ? code : null,
    name: error.name,
    message: error.message,
    stack: error.stack ?? null,
    data: cloneable(data),
    cause: error.cause === undefined || depth === 0 ? null : packError(error.cause, depth - 1),
  };
}

/** Puts a packed error together again. Whatever has no code is INTERNAL. @internal */
export function unpackError(packed: PackedError): MillraceError {
  const cause = packed.cause && (packed.cause.code ? unpackError(packed.cause) : foreign(packed.cause));
  const error = new MillraceError(packed.code ?? 'INTERNAL', packed.code ? packed.message : `unexpected ${packed.name}: ${packed.message}`, {
    data: packed.data,
    ...(cause ? { cause } : {}),
  });
  if (packed.stack) error.stack = packed.stack;
  return error;
}

function foreign(packed: PackedError): Error {
  const error = new Error(packed.message, packed.cause ? { cause: foreign(packed.cause) } : undefined);
  error.name = packed.name;
  if (packed.stack) error.stack = packed.stack;
  return error;
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && CODES.has(code);
}

function cloneable(data: unknown): Record<string, unknown> {
  if (typeof data !== 'object' || data === null) return {};
  try {
    return structuredClone(data) as Record<string, unknown>;
  } catch {
    return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, String(value)]));
  }
}
