// Runs stored in IndexedDB, and their JSON files.
import { openDB, type DBSchema } from 'idb';
import type { BenchReport } from 'millrace/wasm';
import { failure } from '../shared/bench.ts';

export interface KeptRun {
  id?: number;
  /** Milliseconds since 1970. */
  date: number;
  /** The parameters, as the address has them; empty where they are not known. */
  address: string;
  /** The browser's user agent, where it is known. */
  browser?: string;
  report: BenchReport;
}

interface Kept extends DBSchema {
  runs: { key: number; value: KeptRun };
}

/** Most stored runs; the oldest are removed first. */
const MOST = 100;

const open = () =>
  openDB<Kept>('millrace-bench', 1, {
    upgrade: (db) => void db.createObjectStore('runs', { keyPath: 'id', autoIncrement: true }),
  });

/** The runs, the latest first. */
export async function kept(): Promise<KeptRun[]> {
  return (await (await open()).getAll('runs')).sort((a, b) => b.date - a.date);
}

/** Stores a run, and sets its id. */
export async function keep(run: KeptRun): Promise<void> {
  const db = await open();
  run.id = await db.add('runs', run);
  for (const old of (await kept()).slice(MOST)) await db.delete('runs', old.id!);
}

/** Removes one run, or all. */
export async function forget(id?: number): Promise<void> {
  const db = await open();
  await (id === undefined ? db.clear('runs') : db.delete('runs', id));
}

/** A run as JSON: the engine's report, its date and its parameters. */
export function toJson({ report, date, address, browser }: KeptRun): string {
  return JSON.stringify({ ...report, date: new Date(date).toISOString(), address, browser }, null, 2);
}

const NUMBERS = [
  'decode_tok_s',
  'prefill_tok_s',
  'ttft_ms',
  'record_us',
  'prompt',
  'gen',
  'bytes_per_token',
  'gpu_bytes',
  'streaming_gb_s',
  'percent_of_streaming',
] as const;

/** Parses a run's JSON, or a file that `npm run bench -- --out FILE` has written. */
export function fromJson(text: string, modified: number): KeptRun {
  let value: BenchReport & { date?: unknown; address?: unknown };
  try {
    value = JSON.parse(text) as typeof value;
  } catch (error) {
    throw failure('BAD_OPTION', `the file is not JSON: ${(error as Error).message}`);
  }
  const numeric = (x: unknown) => typeof x === 'number';
  const good =
    value !== null &&
    typeof value === 'object' &&
    NUMBERS.every((name) => numeric(value[name])) &&
    value.latency_ms?.length === 2 &&
    value.latency_ms.every(numeric) &&
    Array.isArray(value.runs) &&
    typeof value.adapter?.name === 'string' &&
    ['shape', 'quant', 'lane'].every((name) => typeof value[name as 'shape'] === 'string');
  if (!good) throw failure('BAD_OPTION', 'the file is no report of this bench');
  const { date, address, ...report } = value;
  const when = typeof date === 'string' ? Date.parse(date) : NaN;
  return { date: Number.isNaN(when) ? modified : when, address: typeof address === 'string' ? address : '', report };
}
