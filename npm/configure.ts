// Settings of the whole page: where the package's files lie, and the logger.
import { check, isObject, type Check, type Row } from './check.ts';
import type { Configuration, Device, DownloadEvent, Logger, LogLevel, Progress } from './types.ts';

const DEVICES = ['auto', 'gpu', 'cpu'] as const satisfies readonly Device[];
const LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const satisfies readonly LogLevel[];

const address: Check = (value) => {
  const right = (typeof value === 'string' && value !== '') || value instanceof URL;
  return right && absolute(value) !== null ? null : `must be an address, not ${JSON.stringify(value)}`;
};
const logger: Check = (value) =>
  isObject(value) && LEVELS.slice(1).every((level) => typeof value[level] === 'function')
    ? null
    : 'must have the functions error, warn, info and debug, as console has';
const ROWS: Record<keyof Configuration, Row | Check> = {
  wasmUrl: address,
  workerUrl: address,
  device: { kind: 'name', names: DEVICES },
  memory: { kind: 'whole', least: 1, most: Number.MAX_SAFE_INTEGER },
  logLevel: { kind: 'name', names: LEVELS },
  logger,
};

interface Configured {
  wasmUrl: URL | null;
  workerUrl: URL | null;
  device: Device;
  memory: number | null;
  logLevel: LogLevel;
  logger: Logger;
}

/** What is so now. @internal */
export const configured: Configured = {
  wasmUrl: null,
  workerUrl: null,
  device: 'auto',
  memory: null,
  logLevel: 'warn',
  logger: console,
};

/**
 * Sets what holds for all engines of this page, where it differs from the defaults; call it before the first engine is loaded. What is left out
 * stays as it is. Throws BAD_OPTION for what is unknown or wrong.
 *
 * ```js
 * configure({ wasmUrl: 'https://cdn.example/millrace/0.1.0/millrace_bg.wasm', logLevel: 'info' });
 * ```
 */
export function configure(options: Configuration): void {
  check('configure', options, ROWS);
  const { wasmUrl, workerUrl, ...rest } = options;
  if (wasmUrl !== undefined) configured.wasmUrl = absolute(wasmUrl);
  if (workerUrl !== undefined) configured.workerUrl = absolute(workerUrl);
  for (const [name, value] of Object.entries(rest))
    if (value !== undefined) Object.assign(configured, { [name]: value });
}

/** Tells the logger, if it wants to know. What it throws is its own. @internal */
export function log(level: Exclude<LogLevel, 'silent'>, text: string): void {
  if (LEVELS.indexOf(level) > LEVELS.indexOf(configured.logLevel)) return;
  try {
    configured.logger[level](`millrace: ${text}`);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

const QUIET: readonly DownloadEvent[] = ['started', 'resumed', 'waiting'];

/** Tells the log what happens to a download. @internal */
export function logProgress({ event, note, file }: Progress): void {
  if (event) log(QUIET.includes(event) ? 'info' : 'warn', note ?? `download ${event}${file ? `: ${file}` : ''}`);
}

function absolute(address: unknown): URL | null {
  const base = typeof document === 'undefined' ? globalThis.location?.href : document.baseURI;
  return URL.canParse(String(address), base) ? new URL(String(address), base) : null;
}
