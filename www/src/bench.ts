// The bench page: what this browser makes of a model or of a model's shape. Parameters as in DESIGN: model, shape, quant, prompt, gen, runs, lane,
// report; also kv, context, chunk, adapter, profile=1, kernels=1, secondTurn=1, quality=POSITIONS, tune=0, subgroups=0 and kernel=OP=VARIANT (several). The whole
// report is POSTed to `report`, where that is given.
import type { BenchOptions, BenchReport, KernelBenchRow, PrefillRow, ProfileRow, QualityReport } from 'millrace/wasm';
import './shared/offline.ts';

type Failure = { code: string; message: string };
type FromWorker = { progress: { phase: string; loaded: number; total: number } } | { report: BenchReport | QualityReport } | { failure: Failure };

const NUMBERS = ['prompt', 'gen', 'runs', 'context', 'chunk', 'quality'] as const;
const TEXTS = ['model', 'shape', 'quant', 'lane', 'kv', 'adapter'] as const;
const OTHERS = ['report', 'profile', 'kernels', 'secondTurn', 'tune', 'subgroups', 'kernel'];

const status = document.querySelector<HTMLElement>('#status')!;
const parameters = new URLSearchParams(location.search);

/** For scripts and tests: the report or the failure, once there is one. */
const outcome = { report: null as BenchReport | QualityReport | null, failure: null as Failure | null };
Object.assign(globalThis, { millraceBench: outcome });

try {
  const options = read();
  if (!('gpu' in navigator)) throw failure('NO_WEBGPU', 'this browser has no WebGPU; use a current Chrome or Edge, Safari 26 or Firefox 141 on Windows, over https or localhost');
  const worker = new Worker(new URL('./bench-worker.js', import.meta.url), { type: 'module' });
  worker.addEventListener('error', (event) => void fail({ code: 'INTERNAL', message: event.message || 'the Worker did not load' }));
  worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
    if ('progress' in data) status.textContent = `${data.progress.phase}: ${Math.floor((100 * data.progress.loaded) / Math.max(1, data.progress.total))} %`;
    else if ('failure' in data) void fail(data.failure);
    else void ('kl_mean' in data.report ? showQuality(data.report) : show(data.report));
  });
  worker.postMessage(options);
} catch (error) {
  void fail(error as Failure);
}

function failure(code: string, message: string): Failure {
  return { code, message };
}

function read(): BenchOptions {
  const known: string[] = [...NUMBERS, ...TEXTS, ...OTHERS];
  for (const name of parameters.keys()) if (!known.includes(name)) throw failure('BAD_OPTION', `${name} is not a parameter; known are ${known.join(', ')}`);
  const options: BenchOptions = {};
  for (const name of TEXTS) if (parameters.has(name)) options[name] = parameters.get(name)!;
  for (const name of NUMBERS) {
    const text = parameters.get(name);
    if (text === null) continue;
    if (!/^\d{1,9}$/.test(text)) throw failure('BAD_OPTION', `${name} is "${text}"; it must be a whole number`);
    options[name] = Number(text);
  }
  if (parameters.get('profile') === '1') options.profile = true;
  if (parameters.get('kernels') === '1') options.kernelBench = true;
  if (parameters.get('secondTurn') === '1') options.secondTurn = true;
  if (parameters.get('tune') === '0') options.tune = false;
  if (parameters.get('subgroups') === '0') options.subgroups = false;
  if (options.model !== undefined) options.model = new URL(options.model, location.href).href;
  const kernels = parameters.getAll('kernel').map((text) => text.split('=', 2) as [string, string]);
  if (kernels.length > 0) options.kernels = Object.fromEntries(kernels);
  return options;
}

async function fail(reason: Failure): Promise<void> {
  outcome.failure = reason;
  status.className = 'fail';
  status.textContent = `${reason.code}: ${reason.message}`;
  await send({ error: reason });
}

async function show(report: BenchReport): Promise<void> {
  const n = (value: number, digits = 1) => value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
  const rows: [string, string][] = [
    ['Decode', `${n(report.decode_tok_s)} tokens a second, median of ${report.runs.length}, ${report.gen} tokens after ${report.prompt}`],
    ['Prefill', `${n(report.prefill_tok_s)} tokens a second`],
    ['First token', `${n(report.ttft_ms)} ms`],
    ['A token', `P50 ${n(report.latency_ms[0], 3)} ms, P95 ${n(report.latency_ms[1], 3)} ms; recording ${n(report.record_us)} µs`],
    ['Commands a token', `${n(report.dispatches_per_token)} dispatches, ${n(report.submits_per_token, 2)} submits; ${n(report.tokens_per_readback)} tokens a readback`],
    ['Bytes a token', `${n(report.bytes_per_token / 1e6)} MB: ${n(report.percent_of_streaming)} % of ${n(report.streaming_gb_s, 0)} GB/s streaming`],
    ['GPU memory', `${n(report.gpu_bytes / 1e6)} MB at most, ${n(report.weight_bytes / 1e6)} MB weights, ${n(report.cache_bytes / 1e6)} MB cache`],
    ['Tuner', `${report.tuned.measured} operations measured in ${n(report.tuned.ms, 0)} ms, ${report.tuned.changed} run another variant now`],
    ...(report.few_rows ?? []).map(({ rows, ms }): [string, string] => [`Pass of ${rows} row${rows === 1 ? '' : 's'}`, `${n(ms, 3)} ms`]),
    ...(report.second_turn ?? []).map((turn): [string, string] => [`Second turn after ${turn.after.toLocaleString('en')}`, `first token after ${n(turn.ttft_ms)} ms; ${turn.tokens} tokens, ${turn.cached} not read again`]),
    ['GPU', `${report.adapter.vendor} ${report.adapter.name}, subgroups of ${report.adapter.subgroup.join(' to ')}`],
  ];
  figures(rows);
  if (report.profile) profile(report.profile);
  if (report.prefill_profile) prefill(report.prefill_profile);
  if (report.kernels) kernels(report.kernels);
  status.className = 'pass';
  status.textContent = `${report.shape} ${report.quant}, ${report.lane}: ${n(report.decode_tok_s)} tokens a second`;
  await send(report);
  outcome.report = report;
}

async function showQuality(report: QualityReport): Promise<void> {
  figures([
    ['Positions', `${report.positions} of ${report.texts} texts`],
    ['KL divergence', `mean ${report.kl_mean.toExponential(2)}, 99 % below ${report.kl_p99.toExponential(2)}, largest ${report.kl_max.toExponential(2)} nats`],
    ['Likeliest token', `the same at ${(100 * report.top1).toFixed(2)} % of the positions`],
    ['GPU', `${report.adapter.vendor} ${report.adapter.name}`],
  ]);
  status.className = 'pass';
  status.textContent = `${report.model}: lane ${report.lane}, kv ${report.kv}, against lane exact`;
  await send(report);
  outcome.report = report;
}

function figures(rows: [string, string][]): void {
  const body = document.querySelector<HTMLTableSectionElement>('#figures tbody')!;
  for (const [name, value] of rows) {
    const line = body.insertRow();
    const head = document.createElement('th');
    head.scope = 'row';
    head.textContent = name;
    line.append(head);
    line.insertCell().textContent = value;
  }
}

function table(selector: string, rows: (string | number)[][]): void {
  const shown = document.querySelector<HTMLTableElement>(selector)!;
  shown.hidden = false;
  for (const row of rows) {
    const line = shown.tBodies[0]!.insertRow();
    for (const cell of row) line.insertCell().textContent = String(cell);
  }
}

function kernels(rows: KernelBenchRow[]): void {
  const cells = (row: KernelBenchRow) => [row.operation, row.variant, row.chosen ? 'yes' : '', row.us.toFixed(2), (row.bytes / 1e6).toFixed(2), row.gb_s.toFixed(0), row.percent_of_streaming.toFixed(1), row.wrong ?? 'as its twin’s'];
  table('#kernels', rows.map(cells));
}

function prefill(rows: PrefillRow[]): void {
  const cells = (row: PrefillRow) => [row.step, row.kernel, row.variant, row.calls, row.us.toFixed(2), row.ms.toFixed(4), row.percent.toFixed(1), row.tops.toFixed(2)];
  table('#prefill', rows.map(cells));
}

function profile(rows: ProfileRow[]): void {
  const cells = (row: ProfileRow) => [row.step, row.kernel, row.variant, row.calls, row.us.toFixed(2), row.ms.toFixed(4), row.percent.toFixed(1), (row.bytes / 1e6).toFixed(1), row.gb_s.toFixed(0), row.percent_of_streaming.toFixed(1), row.active.toFixed(2)];
  table('#profile', rows.map(cells));
  // One bar a kernel: its share of a token's time; the dark part is what its bytes would take at streaming speed.
  const height = 22;
  const widest = Math.max(...rows.map((row) => row.ms));
  const bars = rows.map((row, i) => {
    const width = (420 * row.ms) / widest;
    const floor = Math.min(width, (width * row.percent_of_streaming) / 100);
    const y = i * height;
    return `<rect x="130" y="${y + 3}" width="${width.toFixed(1)}" height="${height - 6}" fill="#7aa7d9"/><rect x="130" y="${y + 3}" width="${floor.toFixed(1)}" height="${height - 6}" fill="#1f5fa8"/><text x="124" y="${y + 15}" text-anchor="end" fill="currentColor" font-size="12">${escape(row.step)}</text><text x="${(136 + width).toFixed(1)}" y="${y + 15}" fill="currentColor" font-size="12">${row.ms.toFixed(3)} ms</text>`;
  });
  document.querySelector('#plot')!.innerHTML = `<svg role="img" aria-label="Time a token by kernel; dark: what its bytes would take at streaming speed" viewBox="0 0 640 ${rows.length * height}" width="100%">${bars.join('')}</svg>`;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

async function send(body: unknown): Promise<void> {
  const url = parameters.get('report');
  if (url === null) return;
  try {
    await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  } catch (error) {
    status.textContent += ` (the report could not be sent: ${String(error)})`;
  }
}
