// The kernel page: every shader variant in this browser, first compared with its twin, then timed. `?filter=NAME` limits it to variants with that
// in their names (`matvec=q4_0-q8-sg32`), `?quick` to one case a variant, `?all` says that all cases are meant, `?cover` only as many variants,
// one case of each, as have every value of every axis between them; any of them begins at once.
// `&shape=NAME&quant=NAME&prompt=TOKENS` times the variants of that shape's decode step when the comparison has ended. `?shaders` renders the
// shaders from the server's shaders/ instead, and compares what an edit has changed as soon as it is saved.
import type { BenchOptions, KernelBenchRow, KernelReport, KernelRow } from 'millrace/wasm';
import { Bench, failure, failureOf, gpu, needsGpu, phase, type Failure } from './shared/bench.ts';
import { bar, choices, choose, copy, get, make, markdown, row } from './shared/dom.ts';
import { day } from './shared/format.ts';
import './shared/offline.ts';
import * as watch from './shared/watch.ts';
import type { Asked } from './kernels-worker.ts';

type FromWorker = { row: KernelRow } | { report: KernelReport } | { failure: Failure };

const HELP = {
  BAD_OPTION: 'Correct it above, or in the address, and start again.',
  GPU: 'Update the browser and the graphics driver.',
  DEVICE_LOST: 'Close other tabs and programs that use the GPU, then start again.',
  OUT_OF_MEMORY: 'Close other tabs, or time the kernels in a smaller shape.',
  INTERNAL: 'Start again. If it happens again, please report it.',
} as const;

const bench = new Bench();
const input = get<HTMLInputElement>;
const list = get<HTMLSelectElement>;
const start = get<HTMLButtonElement>('run');
const cancel = get<HTMLButtonElement>('cancel');
const count = { pass: 0, fail: 0, skip: 0 };
/** What each kernel's rows are in. */
const groups = new Map<string, { rows: KernelRow[]; head: HTMLTableSectionElement; body: HTMLTableSectionElement }>();
/** The current measurement: where it runs, and in which shape. */
let timed = { about: '', rows: [] as KernelBenchRow[] };
let stop: ((reason: Failure) => void) | null = null;
let worker: Worker | null = null;
/** Whether edits of shaders are followed. */
let following = false;

/** For tests: what has been seen, `done` once all is compared, `ended` once all is timed as well. */
const results = {
  rows: [] as KernelRow[],
  times: [] as KernelBenchRow[],
  failure: null as string | null,
  done: false,
  ended: false,
};
Object.assign(globalThis, { millraceKernels: results });

const asked = new URLSearchParams(location.search);
show(asked);
if (asked.size > 0) void run(asked);
else watch.unlessGpu(start, HELP);
void bench.names().then(
  (names) => {
    const [shape, quant] = [list('shape').value, list('quant').value];
    for (const [id, all, value] of [
      ['shape', names.shapes, shape],
      ['quant', names.quants, quant],
    ] as const) {
      for (const option of [...list(id).options]) if (all.includes(option.value)) option.remove();
      choices(list(id), all);
      list(id).value = value || (id === 'quant' ? 'q4_0' : '');
    }
  },
  () => undefined,
);

get('form').addEventListener('input', () => {
  arrange();
  history.replaceState(null, '', `?${address()}`);
});
get('form').addEventListener('submit', (event) => {
  event.preventDefault();
  history.replaceState(null, '', `?${address()}`);
  void run(address());
});
cancel.addEventListener('click', () => {
  following = false;
  bench.cancel();
  stop?.(failure('ABORTED', 'the check was cancelled'));
});
list('show').addEventListener('change', filterRows);
list('order').addEventListener('change', showTimes);
get<HTMLButtonElement>('copy-markdown').addEventListener(
  'click',
  (event) => void copy(toMarkdown(), event.currentTarget as HTMLButtonElement),
);

/** Shows an address in the form. */
function show(query: URLSearchParams): void {
  input('filter').value = query.get('filter') ?? '';
  list('cases').value = query.size === 0 || query.has('quick') ? 'quick' : 'all';
  if (query.has('shape')) choose(list('shape'), query.get('shape')!);
  choose(list('quant'), query.get('quant') ?? 'q4_0');
  if (query.has('prompt')) input('prompt').value = query.get('prompt')!;
  arrange();
}

/** The address of what the form shows. */
function address(): URLSearchParams {
  const query = new URLSearchParams({ [list('cases').value]: '' });
  if (input('filter').value.trim()) query.set('filter', input('filter').value.trim());
  if (list('shape').value) {
    query.set('shape', list('shape').value);
    query.set('quant', list('quant').value);
    query.set('prompt', input('prompt').value);
  }
  return query;
}

/** What only a timing needs is off without one. */
function arrange(): void {
  for (const id of ['quant', 'prompt']) input(id).disabled = list('shape').value === '';
}

async function run(query: URLSearchParams): Promise<void> {
  clear();
  start.disabled = true;
  cancel.hidden = false;
  try {
    needsGpu();
    const filter = query.get('filter') ?? '';
    const cases = (['quick', 'cover'] as const).find((name) => query.has(name)) ?? 'all';
    watch.busy('Comparing kernels with their twins');
    if (query.has('shaders')) return await follow(filter, cases);
    await check({ filter, cases });
    end();
    results.done = true;
    summarize();
    if (query.has('shape')) await time(query, filter);
    watch.done(
      count.pass + count.fail + count.skip === 0 ? `No kernel’s name contains “${filter}”` : summary(),
      count.fail === 0,
    );
  } catch (error) {
    end();
    const reason = failureOf(error);
    results.failure = `${reason.code}: ${reason.message}`;
    summarize();
    if (reason.code === 'ABORTED') watch.done(`Cancelled: ${summary()}`, false);
    else watch.failed(reason, HELP);
  } finally {
    results.done = true;
    results.ended = true;
    start.disabled = !('gpu' in navigator);
    if (document.activeElement === cancel) start.focus();
    cancel.hidden = true;
  }
}

function clear(): void {
  Object.assign(results, { rows: [], times: [], failure: null, done: false, ended: false });
  Object.assign(count, { pass: 0, fail: 0, skip: 0 });
  timed = { about: '', rows: [] };
  groups.clear();
  for (const body of [...get<HTMLTableElement>('cases-table').tBodies]) body.remove();
  get('checked').hidden = true;
  get('timed').hidden = true;
}

/** Compares variants with their twins. */
async function check(asked: Asked): Promise<void> {
  worker ??= new Worker(new URL('./kernels-worker.js', import.meta.url), { type: 'module' });
  const checker = worker;
  try {
    await new Promise<void>((resolve, reject) => {
      stop = reject;
      checker.onerror = (event) =>
        reject(failure('INTERNAL', `the kernels could not be run: ${event.message || 'the Worker did not load'}`));
      checker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
        if ('row' in data) showRow(data.row);
        else if ('failure' in data) reject(data.failure);
        else resolve();
      };
      checker.postMessage(asked);
    });
  } finally {
    stop = null;
  }
}

function end(): void {
  worker?.terminate();
  worker = null;
}

/** Compares the variants of the server's shaders, and again those that have changed, until it is cancelled. */
async function follow(filter: string, cases: Asked['cases']): Promise<void> {
  let tag = '';
  following = true;
  while (following) {
    const response = await fetch('/shaders', { cache: 'no-store', headers: tag ? { 'If-None-Match': tag } : {} });
    if (response.status === 404)
      throw failure('BAD_OPTION', 'this server has no shaders to edit: start it with npm run dev');
    if (response.ok) {
      tag = response.headers.get('ETag') ?? '';
      clear();
      const began = performance.now();
      try {
        await check({ filter, cases, templates: (await response.json()) as [string, string][] });
        const seconds = ((performance.now() - began) / 1000).toFixed(1);
        watch.done(`${summary()}, in ${seconds} s; waiting for shaders/ to change`, count.fail === 0);
      } catch (error) {
        const reason = failureOf(error);
        if (reason.code !== 'BAD_OPTION' || !reason.message.includes('shaders/')) throw error;
        // A mistake in a template: the next edit may mend it.
        results.failure = reason.message;
        watch.failed(reason, HELP);
      }
      summarize();
      results.ended = true;
    }
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  throw failure('ABORTED', 'the check was cancelled');
}

/** Times the variants of a decode step. */
async function time(query: URLSearchParams, filter: string): Promise<void> {
  const [shape, quant, prompt] = [query.get('shape')!, query.get('quant') ?? 'q4_0', query.get('prompt') ?? '512'];
  if (!/^\d{1,6}$/.test(prompt)) throw failure('BAD_OPTION', `prompt is "${prompt}"; it must be a whole number`);
  const options = {
    shape,
    // What does not exist the engine refuses.
    quant: quant as BenchOptions['quant'],
    prompt: Number(prompt),
    gen: 1,
    runs: 1,
    tune: false,
    kernelBench: true,
    kernelFilter: filter,
  };
  watch.busy('Preparing to time them');
  const report = await bench.run(options, (at) =>
    watch.busy(
      at.phase === 'run' || at.phase === 'warm-up' ? 'Warming up' : phase(at),
      '',
      at.loaded,
      at.phase === 'kernels' ? at.total : 0,
    ),
  );
  if ('kl_mean' in report) return;
  timed = {
    about: `${shape} ${quant} after ${report.prompt.toLocaleString('en')} tokens of context on ${gpu(report.adapter)}, which streams ${Math.round(report.streaming_gb_s).toLocaleString('en')} GB/s`,
    rows: report.kernels ?? [],
  };
  results.times = timed.rows;
  get('timed').hidden = false;
  get('about').textContent =
    timed.rows.length > 0 ? `${timed.about}.` : 'A decode step of this shape runs none of these kernels.';
  showTimes();
}

/** What is wrong with a variant: as its comparison here found, or that before its timing. */
function wrong(timing: KernelBenchRow): string | undefined {
  const failed = results.rows.find(
    (r) => r.status === 'fail' && r.kernel === timing.kernel && r.variant === timing.variant,
  );
  return failed ? failed.message || 'differs from its twin' : timing.wrong;
}

function showTimes(): void {
  const order = list('order').value;
  const rows = [...timed.rows];
  if (order === 'us') rows.sort((a, b) => b.us - a.us);
  if (order === 'streaming') rows.sort((a, b) => a.percent_of_streaming - b.percent_of_streaming);
  const table = get<HTMLTableElement>('times-table');
  for (const body of [...table.tBodies]) body.remove();
  let operation = '';
  let body = table.createTBody();
  for (const r of rows) {
    if (!order && r.operation !== operation) {
      operation = r.operation;
      body = table.createTBody();
      const head = make('th', 'group', r.operation);
      head.colSpan = 6;
      head.scope = 'rowgroup';
      body.append(make('tr', '', head));
    }
    body.append(timeRow(r, order !== ''));
  }
  table.closest<HTMLElement>('.scroll')!.hidden = rows.length === 0;
  list('order').disabled = rows.length === 0;
}

function timeRow(r: KernelBenchRow, alone: boolean): HTMLTableRowElement {
  const reason = wrong(r);
  const name = make('span', '', `${r.kernel} ${r.variant}`, ...(alone ? [make('span', 'note', r.operation)] : []));
  const used = r.chosen ? make('span', 'badge', 'in use') : '';
  if (reason !== undefined) {
    const line = row([name, used]);
    const cell = make('td', 'bad', `wrong, so it gets no time: ${reason}`);
    cell.colSpan = 4;
    line.append(cell);
    line.className = 'case-fail';
    return line;
  }
  const share = make('span', 'share', bar(r.percent_of_streaming), `${r.percent_of_streaming.toFixed(1)} %`);
  const line = row(
    [name, used, r.us.toFixed(2), (r.bytes / 1e6).toFixed(2), r.gb_s.toFixed(r.gb_s < 10 ? 1 : 0), share],
    [2, 3, 4],
  );
  if (r.chosen) line.className = 'chosen';
  return line;
}

function showRow(result: KernelRow): void {
  results.rows.push(result);
  count[result.status] += 1;
  get('checked').hidden = false;
  let group = groups.get(result.kernel);
  if (!group) {
    const table = get<HTMLTableElement>('cases-table');
    group = { rows: [], head: table.createTBody(), body: table.createTBody() };
    group.body.id = `of-${result.kernel}`;
    group.body.hidden = true;
    const { body } = group;
    const button = make('button', 'small expand', result.kernel);
    button.type = 'button';
    button.setAttribute('aria-expanded', 'false');
    button.setAttribute('aria-controls', body.id);
    button.addEventListener('click', () => {
      body.hidden = !body.hidden;
      button.setAttribute('aria-expanded', String(!body.hidden));
    });
    group.head.append(row([button, '', '', '', ''], [2, 3]));
    groups.set(result.kernel, group);
  }
  group.rows.push(result);
  const { status, error, ms, message } = result;
  const line = row(
    [
      `${result.variant}: ${result.case}`,
      status,
      status === 'skip' ? '' : error.toExponential(1),
      status === 'skip' ? '' : ms.toFixed(1),
      message ?? '',
    ],
    [2, 3],
  );
  line.className = `case-${status}`;
  line.hidden = list('show').value !== '' && list('show').value !== status;
  group.body.append(line);
  const of = (wanted: KernelRow['status']) => group.rows.filter((r) => r.status === wanted).length;
  const parts = [
    of('pass') && `${of('pass')} passed`,
    of('fail') && `${of('fail')} failed`,
    of('skip') && `${of('skip')} skipped`,
  ].filter(Boolean);
  const cells = group.head.rows[0]!.cells;
  cells[1]!.textContent = parts.join(', ');
  cells[2]!.textContent = group.rows.some((r) => r.status !== 'skip')
    ? Math.max(...group.rows.filter((r) => r.status !== 'skip').map((r) => r.error)).toExponential(1)
    : '';
  cells[3]!.textContent = cells[2]!.textContent && group.rows.reduce((sum, r) => sum + r.ms, 0).toFixed(1);
  group.head.rows[0]!.className = of('fail') > 0 ? 'case-fail' : of('pass') > 0 ? 'case-pass' : 'case-skip';
  watch.busy('Comparing kernels with their twins', `${summary()} so far`);
  get('summary').textContent = `${summary()} so far.`;
}

/** Shows the rows of the chosen kind, opened, or all kernels, closed. */
function filterRows(): void {
  const wanted = list('show').value;
  for (const { rows, head, body } of groups.values()) {
    const some = wanted === '' || rows.some((r) => r.status === wanted);
    head.hidden = !some;
    body.hidden = wanted === '' || !some;
    head.querySelector('button')!.setAttribute('aria-expanded', String(!body.hidden));
    for (const line of body.rows) line.hidden = wanted !== '' && !line.classList.contains(`case-${wanted}`);
  }
  get('none').hidden = wanted === '' || count[wanted as keyof typeof count] > 0;
}

function summary(): string {
  return `${count.pass} passed, ${count.fail} failed${count.skip > 0 ? `, ${count.skip} not offered by this device` : ''}`;
}

function summarize(): void {
  get('summary').textContent = `${summary()}.`;
  filterRows();
}

function toMarkdown(): string {
  const parts = ['### Millrace kernels', `${day(Date.now())}: ${summary()}. Parameters: \`?${address()}\``];
  const failed = results.rows.filter((r) => r.status === 'fail');
  if (failed.length > 0)
    parts.push(
      markdown([
        ['Failed kernel', 'Variant', 'Case', 'Error', 'Message'],
        ...failed.map((r) => [r.kernel, r.variant, r.case, r.error.toExponential(1), r.message ?? '']),
      ]),
    );
  if (timed.rows.length > 0) {
    const cells = (r: KernelBenchRow) => {
      const reason = wrong(r);
      return [
        r.operation,
        r.variant,
        r.chosen ? 'yes' : '',
        ...(reason === undefined
          ? [r.us.toFixed(2), (r.bytes / 1e6).toFixed(2), r.gb_s.toFixed(0), r.percent_of_streaming.toFixed(1)]
          : [`wrong: ${reason}`, '', '', '']),
      ];
    };
    parts.push(
      `${timed.about}:`,
      markdown([['Operation', 'Variant', 'In use', 'µs', 'MB', 'GB/s', '% of streaming'], ...timed.rows.map(cells)]),
    );
  }
  return `${parts.join('\n\n')}\n`;
}
