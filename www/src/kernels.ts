// The kernel page: every shader variant in this browser, compared with its twin. `?filter=NAME` limits it to kernels of that
// name, `?quick` to one case a variant.
import type { KernelReport, KernelRow } from 'millrace/wasm';
import './shared/offline.ts';

type FromWorker = { row: KernelRow } | { report: KernelReport } | { failure: string };

const status = document.querySelector<HTMLElement>('#status')!;
const table = document.querySelector<HTMLTableSectionElement>('tbody')!;
const query = new URLSearchParams(location.search);
const filter = query.get('filter') ?? '';
const quick = query.has('quick');
const count = { pass: 0, fail: 0, skip: 0 };

/** For tests: what has been seen, and `done` once nothing more comes. */
const results = { rows: [] as KernelRow[], failure: null as string | null, done: false };
Object.assign(globalThis, { millraceKernels: results });

if (!('gpu' in navigator)) {
  finish('This browser has no WebGPU, so there is nothing to check. The chat page says what to do.');
} else {
  const worker = new Worker(new URL('./kernels-worker.js', import.meta.url), { type: 'module' });
  worker.addEventListener('error', (event) => finish(`The kernels could not be run: ${event.message || 'the Worker did not load'}`));
  worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
    if ('row' in data) show(data.row);
    else if ('failure' in data) finish(data.failure);
    else finish(null);
  });
  worker.postMessage({ filter, quick });
}

function show(row: KernelRow): void {
  results.rows.push(row);
  count[row.status] += 1;
  const line = table.insertRow();
  line.className = row.status;
  const cells = [row.kernel, row.variant, row.case, row.status, row.status === 'skip' ? '' : row.error.toExponential(1), row.ms.toFixed(1), row.message ?? ''];
  for (const text of cells) line.insertCell().textContent = text;
  status.textContent = `${summary()} so far`;
}

function finish(failure: string | null): void {
  results.failure = failure;
  results.done = true;
  status.textContent = failure ?? summary();
  status.className = failure || count.fail > 0 ? 'fail' : 'pass';
}

function summary(): string {
  return `${count.pass} passed, ${count.fail} failed${count.skip > 0 ? `, ${count.skip} not offered by this device` : ''}`;
}
