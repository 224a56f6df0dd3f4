// The figures of a report for display, alone or beside an earlier report's.
import type { BenchReport, QualityReport } from 'millrace/wasm';
import { gpu } from '../shared/bench.ts';
import { markdown } from '../shared/dom.ts';
import { day } from '../shared/format.ts';
import type { KeptRun } from './history.ts';

export const n = (value: number, digits = 1): string =>
  value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });

/** A figure that is compared. */
interface Figure {
  name: string;
  unit: string;
  of: (report: BenchReport) => number;
  digits: number;
  /** Whether more is better; null where neither is. */
  more: boolean | null;
}

/** The first five are the headline. */
export const FIGURES: readonly Figure[] = [
  { name: 'Decode', unit: 'tokens/s', of: (r) => r.decode_tok_s, digits: 1, more: true },
  { name: 'Prefill', unit: 'tokens/s', of: (r) => r.prefill_tok_s, digits: 1, more: true },
  { name: 'First token', unit: 'ms', of: (r) => r.ttft_ms, digits: 1, more: false },
  { name: 'A token, P50', unit: 'ms', of: (r) => r.latency_ms[0], digits: 3, more: false },
  { name: 'A token, P95', unit: 'ms', of: (r) => r.latency_ms[1], digits: 3, more: false },
  { name: 'Recording a token', unit: 'µs', of: (r) => r.record_us, digits: 1, more: false },
  { name: 'Bytes a token', unit: 'MB', of: (r) => r.bytes_per_token / 1e6, digits: 1, more: false },
  { name: 'Of streaming speed', unit: '%', of: (r) => r.percent_of_streaming, digits: 1, more: true },
  { name: 'Streaming', unit: 'GB/s', of: (r) => r.streaming_gb_s, digits: 0, more: null },
  { name: 'GPU memory at most', unit: 'MB', of: (r) => r.gpu_bytes / 1e6, digits: 1, more: false },
];

export interface Compared {
  ratio: string;
  /** Differences below 3 % are noise. */
  verdict: 'better' | 'worse' | 'the same' | '';
}

export function compare(figure: Figure, now: BenchReport, earlier: BenchReport): Compared {
  const ratio = figure.of(now) / figure.of(earlier);
  if (!Number.isFinite(ratio)) return { ratio: '', verdict: '' };
  const verdict =
    figure.more === null
      ? ''
      : Math.abs(ratio - 1) < 0.03
        ? 'the same'
        : ratio > 1 === figure.more
          ? 'better'
          : 'worse';
  return { ratio: `× ${n(ratio, 2)}`, verdict };
}

/** The figures' table: a heading, then rows. */
export function table(report: BenchReport, earlier: BenchReport | null): string[][] {
  const shown = (figure: Figure, r: BenchReport) => `${n(figure.of(r), figure.digits)} ${figure.unit}`;
  const about = [report, ...(earlier ? [earlier] : [])].map(details);
  const rows = FIGURES.map((figure) => {
    const cells = [figure.name, shown(figure, report)];
    if (!earlier) return cells;
    const { ratio, verdict } = compare(figure, report, earlier);
    return [...cells, shown(figure, earlier), `${ratio} ${verdict}`.trim()];
  });
  const names = [...new Set(about.flatMap((entries) => [...entries.keys()]))];
  return [
    ['Figure', earlier ? 'This run' : 'Value', ...(earlier ? ['Earlier run', 'Ratio'] : [])],
    ...rows,
    ...names.map((name) => [name, ...about.map((entries) => entries.get(name) ?? ''), ...(earlier ? [''] : [])]),
  ];
}

/** Details that are not compared. */
function details(r: BenchReport): Map<string, string> {
  const entries: [string, string][] = [];
  const add = (name: string, value: string) => entries.push([name, value]);
  add(
    'Commands a token',
    `${n(r.dispatches_per_token)} dispatches, ${n(r.submits_per_token, 2)} submits, ${n(1 / r.tokens_per_readback, 2)} readbacks`,
  );
  add('Weights and cache', `${n(r.weight_bytes / 1e6)} MB and ${n(r.cache_bytes / 1e6)} MB`);
  if (r.tuned)
    add('Tuner', `${r.tuned.measured} operations measured in ${n(r.tuned.ms, 0)} ms, ${r.tuned.changed} changed`);
  for (const { rows, ms } of r.few_rows ?? []) add(`Pass of ${rows} row${rows === 1 ? '' : 's'}`, `${n(ms, 3)} ms`);
  for (const turn of r.second_turn ?? [])
    add(
      `Second turn after ${turn.after.toLocaleString('en')}`,
      `first token after ${n(turn.ttft_ms)} ms; ${turn.tokens} tokens, ${turn.cached} not read again`,
    );
  if (r.idle)
    add(
      'After a rest',
      `${n(r.idle.cold[0])} tok/s, first token after ${n(r.idle.cold[1])} ms; warmed up ${n(r.idle.warmed[0])} tok/s, ${n(r.idle.warmed[1])} ms`,
    );
  if (r.forced)
    add(
      'Forced into a schema',
      `${n(r.forced.forced_tok_s)} tok/s, ${n(r.forced.free_tok_s)} free: ${n(r.forced.ratio * 100)} %`,
    );
  for (const { text, tokens, tok_s, auto, always } of r.copies ?? []) {
    const of = (it: typeof auto) => `${n(it.times, 2)} times (${it.accepted} of ${it.drafted} right)`;
    add(`Copies: ${text}`, `${n(tok_s)} tok/s; auto ${of(auto)}, always ${of(always)}; ${tokens} tokens`);
  }
  for (const step of r.draft?.steps ?? [])
    add(
      `${step.drafts} drafts of ${r.draft!.shape}`,
      `a step takes ${n(step.ms, 3)} ms, ${n(step.times, 2)} times one without; ${n(step.tokens, 2)} tokens`,
    );
  add('GPU', adapter(r));
  // Files of older versions have less.
  const { features = [], max_buffer = 0, binding_limit, poll_ms, pumped_poll_ms, ...limits } = r.adapter;
  add('Features', features.length > 0 ? features.join(', ') : 'none');
  if (binding_limit !== undefined)
    add(
      'Limits',
      `buffer ${n(max_buffer / 2 ** 20, 0)} MiB, binding ${n(binding_limit / 2 ** 20, 0)} MiB, ${limits.max_invocations} invocations, ${limits.max_workgroups} workgroups`,
    );
  if (poll_ms !== undefined)
    add(
      'A wait for nothing',
      `${n(poll_ms, 2)} ms${pumped_poll_ms === undefined ? '' : `, ${n(pumped_poll_ms, 2)} ms with empty submissions`}`,
    );
  if (r.self_test)
    add(
      'Self-test',
      r.self_test.skipped ??
        `${r.self_test.checked} kernels, ${r.self_test.wrong.length === 0 ? 'none wrong' : `wrong: ${r.self_test.wrong.join(', ')}`}`,
    );
  if (r.version !== undefined) add('Millrace', r.version);
  return new Map(entries);
}

export function adapter({ adapter }: BenchReport): string {
  const [least, most] = adapter.subgroup ?? [0, 0];
  const subgroups = most === 0 ? 'no subgroups' : `subgroups of ${least === most ? least : `${least} to ${most}`}`;
  return `${gpu(adapter)}, ${subgroups}`;
}

export function title(report: BenchReport): string {
  return `${report.shape} ${report.quant}, ${report.lane}`;
}

/** A sentence about the run: when, where, and its parameters. */
export function about(report: BenchReport, date: number): string {
  const runs = report.runs.length;
  return `${day(date)} on ${gpu(report.adapter)}: ${report.gen.toLocaleString('en')} tokens after a prompt of ${report.prompt.toLocaleString('en')}, ${runs === 1 ? 'one run' : `medians of ${runs} runs`}`;
}

/** Parameters in which two reports differ. */
export function differences(a: BenchReport, b: BenchReport): string[] {
  const of = { shape: 'model', quant: 'weights', lane: 'lane', prompt: 'prompt', gen: 'tokens generated' } as const;
  const names: string[] = Object.entries(of)
    .filter(([key]) => a[key as keyof typeof of] !== b[key as keyof typeof of])
    .map(([, text]) => text);
  return gpu(a.adapter) === gpu(b.adapter) ? names : [...names, 'GPU'];
}

/** A run in Markdown, for an issue or a chat: figures, device, date and parameters. */
export function toMarkdown(run: KeptRun, earlier: KeptRun | null): string {
  const parts = [
    `### Millrace: ${title(run.report)}`,
    about(run.report, run.date) +
      (run.address ? `  \nParameters: \`?${run.address}\`` : '') +
      (run.browser ? `  \nBrowser: ${run.browser}` : ''),
  ];
  if (earlier) parts.push(`Earlier run: ${title(earlier.report)}, ${about(earlier.report, earlier.date)}`);
  parts.push(markdown(table(run.report, earlier?.report ?? null)));
  if (run.report.profile) {
    const rows = run.report.profile.map((r) => [
      r.step,
      `${r.kernel} ${r.variant}`,
      n(r.us, 2),
      n(r.ms, 4),
      n(r.percent),
      n(r.gb_s, 0),
      n(r.percent_of_streaming),
    ]);
    parts.push(markdown([['Step', 'Kernel', 'µs', 'ms a token', '%', 'GB/s', '% of streaming'], ...rows]));
  }
  return `${parts.join('\n\n')}\n`;
}

export function qualityTable(report: QualityReport): string[][] {
  return [
    ['Figure', 'Value'],
    ['Positions', `${report.positions} of ${report.texts} texts`],
    [
      'KL divergence',
      `mean ${report.kl_mean.toExponential(2)}, 99 % below ${report.kl_p99.toExponential(2)}, largest ${report.kl_max.toExponential(2)} nats`,
    ],
    ['Likeliest token', `the same at ${(100 * report.top1).toFixed(2)} % of the positions`],
    ['GPU', gpu(report.adapter)],
  ];
}
