// The bench page: what this browser makes of a model or of a model's shape. Parameters as in DESIGN: model, shape, quant, prompt, gen, runs, lane,
// report; also kv, context, chunk, adapter, profile=1, kernels=1, secondTurn=1, idle=1, grammar=1, quality=POSITIONS, tune=0, subgroups=0 and kernel=OP=VARIANT
// (several). With any of them it begins at once; without, it waits for its form. The whole report is POSTed to `report`, where that is given.
import type { BenchProgress, BenchReport, KernelBenchRow, QualityReport } from 'millrace/wasm';
import { about, compare, differences, FIGURES, n, qualityTable, table, title, toMarkdown } from './bench/figures.ts';
import * as form from './bench/form.ts';
import { forget, fromJson, keep, kept, toJson, type KeptRun } from './bench/history.ts';
import { draw } from './bench/plots.ts';
import { Bench, failureOf, gpu, needsGpu, phase, type Failure } from './shared/bench.ts';
import { confirm } from './shared/dialog.ts';
import { copy, download, get, make, markdown, row } from './shared/dom.ts';
import { bytes, day } from './shared/format.ts';
import './shared/offline.ts';
import * as watch from './shared/watch.ts';

/** What to do about a failure of a bench, where it is not what helps a chat. */
const HELP = {
  BAD_OPTION: 'Correct it above, or in the address, and run again.',
  NOT_FOUND: 'Check its address above.',
  OUT_OF_MEMORY: 'Close other tabs, or choose a smaller shape, fewer bits or a shorter context.',
  DEVICE_LOST: 'Close other tabs and programs that use the GPU, then run again, or choose a smaller shape.',
  GPU: 'Update the browser and the graphics driver; the kernel page shows which part fails.',
  CONTEXT_FULL: 'Choose a shorter prompt or fewer tokens.',
  INTERNAL: 'Run again. If it happens again, please report it.',
} as const;

const bench = new Bench();
const runButton = get<HTMLButtonElement>('run');
const cancelButton = get<HTMLButtonElement>('cancel');
const earlier = get<HTMLSelectElement>('earlier');
const file = get<HTMLInputElement>('file');

/** For scripts and tests: the report or the failure, once there is one. */
const outcome = { report: null as BenchReport | QualityReport | null, failure: null as Failure | null };
Object.assign(globalThis, { millraceBench: outcome });

/** What is shown, and the runs that it can be compared with, by what the list of them calls them. */
let shown: KeptRun | QualityReport | null = null;
let runs: KeptRun[] = [];

const asked = new URLSearchParams(location.search);
form.show(asked.size > 0 ? asked : new URLSearchParams({ model: 'models/box.gguf', profile: '1' }));
if (asked.size > 0) void run(asked);
else watch.unlessGpu(runButton, HELP);
void form.fill(bench.names());
void list();

get('form').addEventListener('input', () => {
  form.arrange();
  history.replaceState(null, '', `?${readable(form.address())}`);
});
get('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const address = form.address();
  history.replaceState(null, '', `?${readable(address)}`);
  void run(address);
});
cancelButton.addEventListener('click', () => bench.cancel());
earlier.addEventListener('change', showReport);
file.addEventListener('change', () => void openFile());
get('delete-all').addEventListener('click', () => void forgetAll());
get<HTMLButtonElement>('copy-markdown').addEventListener('click', (event) => {
  const text =
    shown && 'report' in shown
      ? toMarkdown({ ...shown, address: readable(shown.address) }, chosen())
      : shown
        ? `### Millrace: ${shown.model}, ${shown.lane} against exact\n\n${markdown(qualityTable(shown))}\n`
        : '';
  void copy(text, event.currentTarget as HTMLButtonElement);
});
get<HTMLButtonElement>('copy-json').addEventListener(
  'click',
  (event) => void copy(json(), event.currentTarget as HTMLButtonElement),
);
get('download').addEventListener('click', () => {
  const stamp = new Date(shown && 'report' in shown ? shown.date : Date.now())
    .toISOString()
    .slice(0, 16)
    .replace(':', '');
  download(`millrace-${stamp}.json`, new Blob([json()], { type: 'application/json' }));
});

function json(): string {
  return shown && 'report' in shown ? toJson(shown) : JSON.stringify(shown, null, 2);
}

/** An address without the escapes that it does not need. */
function readable(address: URLSearchParams | string): string {
  return address.toString().replaceAll('%2F', '/').replaceAll('%3A', ':').replaceAll('%3D', '=');
}

async function run(address: URLSearchParams): Promise<void> {
  Object.assign(outcome, { report: null, failure: null });
  runButton.disabled = true;
  cancelButton.hidden = false;
  get('results').hidden = true;
  try {
    const options = form.options(address);
    needsGpu();
    watch.busy('Starting');
    const report = await bench.run(options, (at) => progress(at, options.gen ?? 128));
    const date = Date.now();
    if ('kl_mean' in report) {
      shown = report;
      showQuality(report);
      watch.done(`${report.model}: lane ${report.lane}, kv ${report.kv}, against lane exact`);
    } else {
      const address_ = new URLSearchParams(address);
      address_.delete('report');
      const run: KeptRun = { date, address: address_.toString(), browser: navigator.userAgent, report };
      // A browser that keeps nothing still measures.
      await keep(run).catch(() => undefined);
      shown = run;
      get('results').hidden = false;
      await list();
      watch.done(`${report.shape} ${report.quant}, ${report.lane}: ${n(report.decode_tok_s)} tokens a second`);
    }
    await send(address, report);
    outcome.report = report;
  } catch (error) {
    const reason = failureOf(error);
    outcome.failure = reason;
    if (reason.code === 'ABORTED') watch.done('Cancelled', false);
    else watch.failed(reason, HELP);
    await send(address, { error: reason });
  } finally {
    runButton.disabled = !('gpu' in navigator);
    if (document.activeElement === cancelButton) runButton.focus();
    cancelButton.hidden = true;
  }
}

function progress(at: BenchProgress, gen: number): void {
  const { tokens, loaded, total } = at;
  const inBytes = at.phase === 'download' || at.phase === 'upload';
  const detail = tokens
    ? `${n(tokens[1])} tokens/s, ${tokens[0].toLocaleString('en')} of ${gen.toLocaleString('en')} tokens`
    : inBytes && total > 0
      ? `${bytes(loaded)} of ${bytes(total)}`
      : '';
  const part = tokens ? tokens[0] / gen : 0;
  // A phase of one step only says that it goes on.
  watch.busy(phase(at), detail, loaded + Math.min(1, part), at.phase === 'warm-up' || total === 1 ? 0 : total);
}

async function send(address: URLSearchParams, body: unknown): Promise<void> {
  const url = address.get('report');
  if (url === null) return;
  try {
    await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  } catch (error) {
    watch.remark(`the report could not be sent: ${String(error)}`);
  }
}

/** The run that is chosen for comparison. */
function chosen(): KeptRun | null {
  return runs.find((run) => String(run.id) === earlier.value) ?? null;
}

/** Shows the run at hand, beside the one that is chosen. */
function showReport(): void {
  if (!shown || !('report' in shown)) return;
  const { report, date } = shown;
  const before = chosen()?.report ?? null;
  get('results').hidden = false;
  get('speed-results').hidden = false;
  get('title').textContent = title(report);
  get('about').textContent = about(report, date);
  const differs = before ? differences(report, before) : [];
  get('differs').textContent = differs.length > 0 ? `The runs differ in ${differs.join(', ')}.` : '';
  const tiles = FIGURES.slice(0, 5).map((figure) => {
    const value = make(
      'dd',
      '',
      make('strong', '', n(figure.of(report), figure.of(report) < 10_000 ? figure.digits : 0)),
      ` ${figure.unit}`,
    );
    if (before) {
      const { ratio, verdict } = compare(figure, report, before);
      value.append(make('span', `verdict ${verdict === 'the same' ? '' : verdict}`, `${ratio} ${verdict}`));
    }
    return make('div', '', make('dt', '', figure.name), value);
  });
  get('headline').replaceChildren(...tiles);
  figures(table(report, before));
  draw(report, before);
  const cells = {
    profile: report.profile?.map((r) => [
      r.step,
      r.kernel,
      r.variant,
      r.calls,
      r.us.toFixed(2),
      r.ms.toFixed(4),
      r.percent.toFixed(1),
      (r.bytes / 1e6).toFixed(1),
      r.gb_s.toFixed(0),
      r.percent_of_streaming.toFixed(1),
      r.active.toFixed(2),
    ]),
    prefill: report.prefill_profile?.map((r) => [
      r.step,
      r.kernel,
      r.variant,
      r.calls,
      r.us.toFixed(2),
      r.ms.toFixed(4),
      r.percent.toFixed(1),
      r.tops.toFixed(2),
    ]),
    kernels: report.kernels?.map(kernel),
  };
  for (const [id, rows] of Object.entries(cells)) fillTable(id, rows ?? []);
}

function kernel(r: KernelBenchRow): (string | number)[] {
  // A wrong kernel's time says nothing.
  const times = r.wrong
    ? ['', '', '', '']
    : [r.us.toFixed(2), (r.bytes / 1e6).toFixed(2), r.gb_s.toFixed(0), r.percent_of_streaming.toFixed(1)];
  return [r.operation, r.variant, r.chosen ? 'yes' : '', ...times, r.wrong ?? 'as its twin’s'];
}

/** Fills a table and shows it where it has rows. */
function fillTable(id: string, rows: (string | number)[][]): void {
  const element = get<HTMLTableElement>(`${id}-table`);
  element.tBodies[0]!.replaceChildren(...rows.map((cells) => row(cells.map(String))));
  element.closest('details')!.hidden = rows.length === 0;
}

function showQuality(report: QualityReport): void {
  get('results').hidden = false;
  get('speed-results').hidden = true;
  get('title').textContent = `${report.model}, ${report.lane} against exact`;
  get('about').textContent = `${day(Date.now())} on ${gpu(report.adapter)}`;
  figures(qualityTable(report));
  for (const id of ['profile', 'prefill', 'kernels']) fillTable(id, []);
}

function figures([head = [], ...rows]: string[][]): void {
  const element = get<HTMLTableElement>('figures');
  element.tHead!.replaceChildren(make('tr', '', ...head.map((text) => make('th', '', text))));
  element.tBodies[0]!.replaceChildren(...rows.map((cells) => row(cells)));
}

/** Shows the runs that are kept, here and in the list of those to compare with. */
async function list(): Promise<void> {
  const note = get('kept-note');
  try {
    runs = await kept();
    note.textContent =
      runs.length === 0
        ? 'Runs are kept in this browser and appear here. None is kept yet.'
        : 'Kept in this browser alone.';
  } catch {
    runs = [];
    note.textContent = 'This browser keeps no runs for this page; save them as JSON.';
  }
  const before = earlier.value;
  const others = runs.filter((run) => !(shown && 'report' in shown) || run.id !== shown.id);
  earlier.replaceChildren(
    new Option(others.length > 0 ? 'nothing' : 'nothing: no earlier run is kept', ''),
    ...others.map(
      (run) =>
        new Option(`${title(run.report)}: ${n(run.report.decode_tok_s)} tokens/s, ${day(run.date)}`, String(run.id)),
    ),
  );
  earlier.value = others.some((run) => String(run.id) === before) ? before : '';
  const lines = runs.map((run) => {
    const current = shown !== null && 'report' in shown && shown.id === run.id && !get('results').hidden;
    const button = (text: string, act: () => void) => {
      const made = make('button', 'quiet small', text);
      made.type = 'button';
      made.setAttribute('aria-label', `${text} ${title(run.report)} of ${day(run.date)}`);
      made.addEventListener('click', act);
      return made;
    };
    const actions = make(
      'div',
      'actions',
      button('Show', () => showKept(run)),
      button('Compare', () => compareWith(run)),
      button(
        'Delete',
        () =>
          void forget(run.id)
            .then(list)
            .then(() => get('kept-title').focus()),
      ),
    );
    for (const button of [...actions.children].slice(0, 2)) (button as HTMLButtonElement).disabled = current;
    const line = row(
      [
        day(run.date),
        `${run.report.shape} ${run.report.quant}`,
        run.report.lane,
        n(run.report.decode_tok_s),
        gpu(run.report.adapter),
        actions,
      ],
      [3],
    );
    if (current) line.className = 'chosen';
    return line;
  });
  get('kept')
    .querySelector('tbody')!
    .replaceChildren(...lines);
  get('kept').hidden = runs.length === 0;
  get('delete-all').hidden = runs.length === 0;
  if (shown && !get('results').hidden) showReport();
}

async function forgetAll(): Promise<void> {
  if (
    !(await confirm({
      title: 'Delete all earlier runs?',
      text: 'Save those that you need as JSON first: they are kept nowhere else.',
      yes: 'Delete all',
    }))
  )
    return;
  await forget();
  await list();
  get('kept-title').focus();
}

function showKept(run: KeptRun): void {
  shown = run;
  get('results').hidden = false;
  void list().then(() => {
    get('title').focus();
    get('results').scrollIntoView();
  });
}

/** Compares what is shown with that run; where nothing is, with the latest other one. */
function compareWith(run: KeptRun): void {
  const now = shown && 'report' in shown && shown.id !== run.id ? shown : runs.find((other) => other.id !== run.id);
  if (!now) return showKept(run);
  shown = now;
  get('results').hidden = false;
  void list().then(() => {
    earlier.value = String(run.id);
    showReport();
    earlier.focus();
    get('results').scrollIntoView();
  });
}

async function openFile(): Promise<void> {
  const given = file.files?.[0];
  file.value = '';
  if (!given) return;
  try {
    const run = fromJson(await given.text(), given.lastModified);
    await keep(run);
    await list();
    if (shown && 'report' in shown) compareWith(run);
    else showKept(run);
  } catch (error) {
    watch.failed(failureOf(error), {
      ...HELP,
      BAD_OPTION: 'Choose a file that this page or npm run bench has written.',
    });
  }
}
