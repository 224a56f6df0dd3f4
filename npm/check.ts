// Checks what callers pass, by rows: an option that is not understood is an error, never ignored. src/base/options.rs checks the same rows alike.
import { closest, distance } from 'fastest-levenshtein';
import { DownloadControl } from './control.ts';
import { MillraceError } from './errors.ts';
import { OWN_WORKERS } from './place.ts';

/** What an option can be: a row of options.toml, where the columns are explained. */
export interface Row {
  readonly kind: keyof typeof KINDS;
  readonly least?: number;
  readonly above?: number;
  readonly most?: number;
  readonly bytes?: number;
  readonly names?: readonly string[];
  readonly needs?: string;
  readonly default?: string | number | boolean;
}

/** The rows of an interface. */
export type Rows<T> = { readonly [K in keyof Required<T>]: Row };

/** Says what is wrong with a value, or null. */
export type Check = (value: unknown) => string | null;

/** As the GPU has it: 1e-60 is 0. NaN is in no range. */
function holds({ least, above, most }: Row, value: unknown): boolean {
  if (typeof value !== 'number') return false;
  const single = Math.fround(value);
  return (
    Number.isFinite(single) && single <= (most ?? Infinity) && (above === undefined ? single >= least! : single > above)
  );
}

function between({ least, above, most }: Row): string {
  if (above !== undefined) return most === undefined ? `above ${above}` : `above ${above}, up to ${most}`;
  return most === undefined ? `of at least ${least}` : `from ${least} to ${most}`;
}

const size = (text: string): number => new TextEncoder().encode(text).length;
const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const fits = ({ bytes }: Row, value: unknown): boolean => isText(value) && size(value as string) <= bytes!;

/** Levels of objects and lists within one another: JSON of people and programs has a dozen; what follows it down has a stack. */
const MOST_LEVELS = 100;

/** Whether a value nests no deeper than that; one that contains itself does. */
function isShallow(value: unknown, levels = MOST_LEVELS): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((one) => isShallow(one, levels - 1));
}

const tooDeep = (value: unknown): string | undefined =>
  isShallow(value) ? undefined : `one that nests deeper than ${MOST_LEVELS} levels`;

/** What a value must be, and whether it is. */
const KINDS = {
  number: (row: Row, value: unknown) => [`be a number ${between(row)}`, holds(row, value)],
  whole: ({ least = 0, most = 2 ** 32 - 1 }: Row, value: unknown) => [
    `be a whole number from ${least} to ${most}`,
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
  ],
  flag: (_: Row, value: unknown) => ['be true or false', typeof value === 'boolean'],
  text: (_: Row, value: unknown) => ['be a text that is not empty', isText(value)],
  texts: (row: Row, value: unknown) => [
    `be a text or a list of up to ${row.most} texts, of 1 to ${row.bytes} bytes each`,
    fits(row, value) || (Array.isArray(value) && value.length <= row.most! && value.every((one) => fits(row, one))),
  ],
  file: (_: Row, value: unknown) => [
    'be an address or a file',
    isText(value) || value instanceof URL || value instanceof Blob,
  ],
  name: ({ names }: Row, value: unknown) => [`be one of ${names!.join(', ')}`, names!.includes(value as string)],
  biases: (row: Row, value: unknown) => {
    const must = `map token ids to numbers ${between(row)}`;
    if (!isObject(value)) return [must, false];
    const isId = (id: string): boolean => /^\d+$/.test(id) && Number(id) < 2 ** 32;
    const wrong = Object.entries(value).find(([id, bias]) => !isId(id) || !holds(row, bias));
    return [must, wrong === undefined, wrong && `${wrong[0]} to ${said(wrong[1])}`];
  },
  scaled: (row: Row, value: unknown) => {
    const must = `be a name, or { name, scale } with a scale ${between(row)}`;
    if (!isObject(value)) return [must, isText(value)];
    const { name, scale, ...rest } = value;
    return [must, isText(name) && (scale === undefined || holds(row, scale)) && Object.keys(rest).length === 0];
  },
  variants: (_: Row, value: unknown) => [
    'map operations to names of variants',
    isObject(value) && Object.values(value).every(isText),
  ],
  object: (_: Row, value: unknown) => ['be an object', isObject(value) && isShallow(value), tooDeep(value)],
  objects: (_: Row, value: unknown) => [
    'be a list of objects',
    // Holes are not skipped.
    Array.isArray(value) && Array.from<unknown>(value).every(isObject) && isShallow(value),
    tooDeep(value),
  ],
  callback: (_: Row, value: unknown) => ['be a function', typeof value === 'function'],
  signal: (_: Row, value: unknown) => ['be an AbortSignal', value instanceof AbortSignal],
  control: (_: Row, value: unknown) => ['be a DownloadControl', value instanceof DownloadControl],
  /** What it is is looked at elsewhere. */
  model: () => ['', true],
  worker: (_: Row, value: unknown) => [
    value === true && !OWN_WORKERS
      ? 'be left out here: the engine is in the thread that calls'
      : value === false
        ? 'be false only in a dedicated Worker, whose thread then runs the engine: call Engine.load there, or leave the option out'
        : 'be true or false',
    typeof value === 'boolean' && (value ? OWN_WORKERS : 'DedicatedWorkerGlobalScope' in globalThis),
  ],
} satisfies Record<string, (row: Row, value: unknown) => [must: string, right: boolean, given?: string | undefined]>;

/** Says what is wrong with a value that should be as a row has it, or null. */
export function wrongOf(row: Row, value: unknown): string | null {
  const [must, right, given] = KINDS[row.kind](row, value) as [string, boolean, string?];
  return right ? null : `must ${must}, not ${given ?? said(value)}`;
}

/** Throws BAD_OPTION for the first option that is unknown or wrong. Options that are undefined count as absent. */
export function check(where: string, options: unknown, rows: Record<string, Row | Check>): void {
  if (!isObject(options)) throw bad(`${where}: the options must be an object`);
  for (const [name, value] of Object.entries(options)) {
    const row = Object.hasOwn(rows, name) ? rows[name]! : null;
    if (row !== null && value === undefined) continue;
    const wrong =
      row === null ? unknown(name, Object.keys(rows)) : typeof row === 'function' ? row(value) : wrongOf(row, value);
    if (wrong) throw bad(`${where}: ${name} ${wrong}`, { option: name });
    const needs = row !== null && 'needs' in row ? row.needs : undefined;
    if (needs !== undefined && !options[needs]) throw bad(`${where}: ${name} needs ${needs}: true`, { option: name });
  }
}

function unknown(name: string, known: string[]): string {
  const plain = (one: string): string => one.toLowerCase().replaceAll('_', '');
  const near = closest(plain(name), known.map(plain));
  const hint =
    distance(plain(name), near) <= 2
      ? `; did you mean ${known.find((one) => plain(one) === near)}?`
      : ` (known: ${known.join(', ')})`;
  return `is not an option${hint}`;
}

/** A value in a message. */
function said(value: unknown): string {
  if (typeof value === 'string') return size(value) > 40 ? `a text of ${size(value)} bytes` : `"${value}"`;
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : typeof value;
}

export function isObject(value: unknown): value is Record<string, unknown> & object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function bad(message: string, data: Record<string, unknown> = {}): MillraceError {
  return new MillraceError('BAD_OPTION', message, { data });
}
