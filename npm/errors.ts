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
  | 'UNSUPPORTED_SCHEMA' // a schema or regular expression says something that cannot be enforced; `data` says where
  | 'INVALID_SCHEMA' // a schema or regular expression is none, or nothing satisfies it
  | 'GRAMMAR_TOO_LARGE' // a schema or regular expression needs more states than there are
  | 'ABORTED' // your AbortSignal was aborted
  | 'TOKENIZER' // the model's tokenizer cannot be built, or refuses the text
  | 'TEMPLATE' // the model's chat template fails
  | 'DISPOSED' // the engine was disposed of
  | 'WORKER_LOST' // the engine's Worker does not answer any more: load the engine again
  | 'INTERNAL'; // something that cannot happen did

const CODES: ReadonlySet<string> = new Set<ErrorCode>([
  'BAD_OPTION',
  'BAD_MODEL',
  'UNSUPPORTED_MODEL',
  'NOT_FOUND',
  'NETWORK',
  'STORAGE',
  'OUT_OF_MEMORY',
  'NO_WEBGPU',
  'NO_ADAPTER',
  'DEVICE_LOST',
  'GPU',
  'UNKNOWN_KERNEL',
  'CONTEXT_FULL',
  'UNSUPPORTED_SCHEMA',
  'INVALID_SCHEMA',
  'GRAMMAR_TOO_LARGE',
  'ABORTED',
  'TOKENIZER',
  'TEMPLATE',
  'DISPOSED',
  'WORKER_LOST',
  'INTERNAL',
]);

/**
 * The one error class of the package. `code` is stable, `message` says what happened and what to do, `data` holds particulars.
 * An aborted operation has the name `AbortError`, as with `fetch`; all others have `MillraceError`.
 */
export class MillraceError extends Error {
  /** What went wrong, as a stable code: docs/ERRORS.md says of each when it comes and what to do. */
  readonly code: ErrorCode;
  /** Particulars, by code; an empty object where there are none. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    { cause, data = {} }: { cause?: unknown; data?: Record<string, unknown> } = {},
  ) {
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
  /** Whether it is one of the browser's own (DOMException). */
  dom: boolean;
  /** Of ours; of others, what else they carry. */
  data: Record<string, unknown>;
  cause: PackedCause | null;
}

/** What was thrown or given as a reason need not be an error. */
type PackedCause = { error: PackedError } | { value: unknown };

/** Causes of causes, at most. What lies behind becomes text. */
const DEPTH = 8;

/** Takes an error apart for `postMessage`. What cannot be cloned becomes text. @internal */
export function packError(error: unknown, depth = DEPTH): PackedError {
  if (!(error instanceof Error)) {
    return {
      code: null,
      name: 'Error',
      message: textOf(error),
      stack: null,
      dom: false,
      data: {},
      cause: typeof error === 'object' && error !== null ? { value: cloneable(error) } : null,
    };
  }
  // Fields of a foreign error may be ordinary properties, set by its author.
  const {
    code,
    data,
    cause,
    name: _,
    message: __,
    stack: ___,
    ...rest
  } = error as Error & { code?: unknown; data?: unknown };
  const ours = isCode(code);
  return {
    code: ours ? code : null,
    name: error.name,
    message: error.message,
    stack: error.stack ?? null,
    dom: typeof DOMException !== 'undefined' && error instanceof DOMException,
    data: fields(
      ours
        ? data
        : { ...rest, ...(Object.hasOwn(error, 'code') ? { code } : {}), ...(data === undefined ? {} : { data }) },
    ),
    cause:
      cause === undefined || cause === null
        ? null
        : depth === 0
          ? { value: textOf(cause) }
          : cause instanceof Error
            ? { error: packError(cause, depth - 1) }
            : { value: cloneable(cause) },
  };
}

/** Puts a packed error together again. Whatever has no code is INTERNAL, and has what it was as its cause. @internal */
export function unpackError(packed: PackedError): MillraceError {
  if (!packed.code)
    return new MillraceError('INTERNAL', `unexpected ${packed.name}: ${packed.message}`, { cause: foreign(packed) });
  const error = new MillraceError(packed.code, packed.message, {
    data: packed.data,
    ...(packed.cause ? { cause: unpackCause(packed.cause) } : {}),
  });
  if (packed.stack) error.stack = packed.stack;
  return error;
}

function unpackCause(packed: PackedCause): unknown {
  if ('value' in packed) return packed.value;
  return packed.error.code ? unpackError(packed.error) : foreign(packed.error);
}

const NATIVE: Record<string, ErrorConstructor> = {
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
};

function foreign(packed: PackedError): Error {
  if (packed.dom) return new DOMException(packed.message, packed.name);
  const error = new (NATIVE[packed.name] ?? Error)(
    packed.message,
    packed.cause ? { cause: unpackCause(packed.cause) } : undefined,
  );
  if (error.name !== packed.name) error.name = packed.name;
  if (packed.stack) error.stack = packed.stack;
  return Object.assign(error, packed.data);
}

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && CODES.has(code);
}

function fields(data: unknown): Record<string, unknown> {
  if (typeof data !== 'object' || data === null)
    return data === undefined || data === null ? {} : { value: cloneable(data) };
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, cloneable(value)]));
}

/** The value, with text in place of what in it cannot be cloned. */
function cloneable(value: unknown, depth = 4): unknown {
  try {
    return structuredClone(value);
  } catch {
    if (Array.isArray(value) && depth > 0) return value.map((item) => cloneable(item, depth - 1));
    // Only plain objects have nothing but their entries.
    if (
      depth === 0 ||
      typeof value !== 'object' ||
      value === null ||
      ![Object.prototype, null].includes(Object.getPrototypeOf(value))
    )
      return textOf(value);
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cloneable(item, depth - 1)]));
  }
}

function textOf(value: unknown): string {
  try {
    const text = String(value);
    return text === '[object Object]' ? (JSON.stringify(value) ?? text) : text;
  } catch {
    return Object.prototype.toString.call(value);
  }
}
