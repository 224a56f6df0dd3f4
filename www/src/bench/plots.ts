// The plots of a report, alone or over an earlier report's, each with a description and a table.
import uPlot from 'uplot';
import type { BenchReport } from 'millrace/wasm';
import { bar, get, make, row } from '../shared/dom.ts';
import { sentence } from '../shared/format.ts';
import { n } from './figures.ts';

/** Points of a line at most: more cannot be told apart. */
const POINTS = 160;
const BINS = 24;
const HEIGHT = 240;

/** Speed in one stretch of the context, over a report's runs. */
interface Point {
  position: number;
  median: number;
  low: number;
  high: number;
}

/** A plot's texts and table. */
interface Shown {
  title: string;
  words: string;
  head: string[];
  rows: string[][];
  /** Names of the lines, as the legend has them. */
  legend: [className: string, text: string][];
}

let drawn: { plot: uPlot; observer: ResizeObserver }[] = [];

/** Draws the plots that a report has data for. */
export function draw(report: BenchReport, earlier: BenchReport | null): void {
  for (const { plot, observer } of drawn) {
    observer.disconnect();
    plot.destroy();
  }
  drawn = [];
  speed(get('speed'), report, earlier);
  latency(get('latency'), report, earlier);
  time(get('time'), report, earlier);
}

/** Tokens a second over context, of each stretch the median of the runs. */
export function points(report: BenchReport): Point[] {
  const stretch = Math.max(1, Math.ceil(report.gen / POINTS));
  const speeds = new Map<number, number[]>();
  for (const run of report.runs) {
    const sums = new Map<number, { ms: number; tokens: number }>();
    for (const chunk of run.chunks ?? []) {
      for (let i = 0; i < chunk.tokens; i += 1) {
        const place = Math.floor((chunk.position + i - report.prompt) / stretch);
        const sum = sums.get(place) ?? { ms: 0, tokens: 0 };
        sums.set(place, { ms: sum.ms + chunk.ms, tokens: sum.tokens + 1 });
      }
    }
    for (const [place, { ms, tokens }] of sums)
      if (ms > 0) speeds.set(place, [...(speeds.get(place) ?? []), (1000 * tokens) / ms]);
  }
  return [...speeds]
    .sort(([a], [b]) => a - b)
    .map(([place, all]) => {
      all.sort((a, b) => a - b);
      return {
        position: report.prompt + place * stretch,
        median: all[all.length >> 1]!,
        low: all[0]!,
        high: all.at(-1)!,
      };
    });
}

function speed(figure: HTMLElement, report: BenchReport, earlier: BenchReport | null): void {
  const now = points(report);
  const then = earlier ? points(earlier) : [];
  if (hide(figure, now.length < 2)) return;
  const band = report.runs.length > 1;
  const range = (list: Point[]) =>
    `${n(Math.min(...list.map((p) => p.median)))} to ${n(Math.max(...list.map((p) => p.median)))} tokens a second`;
  // The table has some ten rows, however long the line.
  const every = Math.ceil(now.length / 10);
  const near = (position: number) =>
    then.find(
      (p) => p.position >= position && p.position < position + every * Math.max(1, Math.ceil(report.gen / POINTS)),
    );
  const shown: Shown = {
    title: 'Tokens a second over context',
    words: `${range(now)} from ${now[0]!.position.toLocaleString('en')} to ${now.at(-1)!.position.toLocaleString('en')} tokens of context${then.length > 1 ? `; earlier run ${range(then)}` : ''}`,
    head: [
      'Context',
      'Median',
      ...(band ? ['Slowest run', 'Fastest run'] : []),
      ...(then.length > 1 ? ['Earlier run'] : []),
    ],
    rows: now
      .filter((_, i) => i % every === 0)
      .map((p) => [
        p.position.toLocaleString('en'),
        n(p.median),
        ...(band ? [n(p.low), n(p.high)] : []),
        ...(then.length > 1 ? [near(p.position) ? n(near(p.position)!.median) : ''] : []),
      ]),
    legend: [
      ['now', band ? 'this run: median, slowest to fastest' : 'this run'],
      ...(then.length > 1 ? [['then', 'earlier run'] as [string, string]] : []),
    ],
  };
  const lines: uPlot.AlignedData[] = [
    [now.map((p) => p.position), now.map((p) => p.low), now.map((p) => p.high), now.map((p) => p.median)],
  ];
  if (then.length > 1) lines.push([then.map((p) => p.position), then.map((p) => p.median)]);
  const points_ = { show: now.length <= 24, size: 5, fill: colour('--accent') };
  plot(
    figure,
    shown,
    uPlot.join(lines),
    {
      scales: { x: { time: false }, y: { range: (_, __, most) => [0, most * 1.12] } },
      series: [
        {},
        { label: 'slowest', width: 0, points: { show: false }, spanGaps: true },
        { label: 'fastest', width: 0, points: { show: false }, spanGaps: true },
        { label: 'this run', stroke: colour('--accent'), width: 2, points: points_, spanGaps: true },
        ...(then.length > 1
          ? [
              {
                label: 'earlier run',
                stroke: colour('--earlier'),
                width: 2,
                dash: [6, 4],
                points: { show: false },
                spanGaps: true,
              },
            ]
          : []),
      ],
      ...(band ? { bands: [{ series: [2, 1] as [number, number], fill: colour('--band') }] } : {}),
    },
    (at, values) =>
      `At ${at.toLocaleString('en')}: ${[values[3], values[4]]
        .filter((v) => v != null)
        .map((v) => n(v!))
        .join(', earlier ')} tokens/s`,
  );
}

/** Milliseconds a token, of all tokens of all runs, in order. */
function times(report: BenchReport): number[] {
  const all = report.runs.flatMap((run) =>
    (run.chunks ?? []).flatMap((chunk) => Array.from<number>({ length: chunk.tokens }).fill(chunk.ms)),
  );
  return all.sort((a, b) => a - b);
}

function latency(figure: HTMLElement, report: BenchReport, earlier: BenchReport | null): void {
  const now = times(report);
  const then = earlier ? times(earlier) : [];
  if (hide(figure, now.length < 2)) return;
  const quantile = (list: number[], q: number) => list[Math.min(list.length - 1, Math.floor(list.length * q))]!;
  const of = [now, then].filter((list) => list.length > 1);
  // Times beyond the 99 % quantile go into the last bar.
  let least = Math.min(...of.map((list) => list[0]!));
  let most = Math.max(...of.map((list) => quantile(list, 0.99)));
  if (most - least < 0.02 * most) [least, most] = [least * 0.95, most * 1.05];
  const width = (most - least) / BINS;
  const share = (list: number[]) => {
    const count = Array.from<number>({ length: BINS }).fill(0);
    for (const ms of list) count[Math.min(BINS - 1, Math.max(0, Math.floor((ms - least) / width)))]! += 1;
    return count.map((c) => (100 * c) / list.length);
  };
  const shares = of.map(share);
  const from = (i: number) => least + i * width;
  const digits = width < 0.01 ? 3 : width < 0.1 ? 2 : 1;
  const quantiles = (list: number[]) =>
    `half of the tokens within ${n(quantile(list, 0.5), 3)} ms, 95 % within ${n(quantile(list, 0.95), 3)} ms, longest ${n(list.at(-1)!, 3)} ms`;
  const shown: Shown = {
    title: 'Time of a token',
    words: `${quantiles(now)}${then.length > 1 ? `; earlier run: ${quantiles(then)}` : ''}`,
    head: ['ms', 'Share of tokens', ...(then.length > 1 ? ['Earlier run'] : [])],
    rows: shares[0]!.flatMap((_, i) => {
      const cells = shares.map((list) => list[i]!);
      if (cells.every((c) => c === 0)) return [];
      return [
        [
          i === BINS - 1 ? `${n(from(i), digits)} or more` : `${n(from(i), digits)} to ${n(from(i + 1), digits)}`,
          ...cells.map((c) => `${n(c)} %`),
        ],
      ];
    }),
    legend: [
      ['now', `this run, ${now.length.toLocaleString('en')} tokens`],
      ...(then.length > 1 ? [['then', 'earlier run'] as [string, string]] : []),
    ],
  };
  const bars = uPlot.paths.bars!({ size: [0.9, 100] });
  plot(
    figure,
    shown,
    [shares[0]!.map((_, i) => from(i) + width / 2), ...shares],
    {
      scales: {
        x: { time: false, range: [least, most] },
        y: { range: (_, __, most) => [0, Math.max(1, most) * 1.08] },
      },
      series: [
        {},
        { label: 'this run', fill: colour('--accent'), width: 0, paths: bars, points: { show: false } },
        ...(then.length > 1
          ? [{ label: 'earlier run', stroke: colour('--earlier'), width: 2, paths: bars, points: { show: false } }]
          : []),
      ],
      axes: [{ label: 'milliseconds' }, { label: '% of tokens' }],
    },
    (at, values) =>
      `${n(at - width / 2, digits)} to ${n(at + width / 2, digits)} ms: ${[values[1], values[2]]
        .filter((v) => v != null)
        .map((v) => `${n(v!)} %`)
        .join(', earlier ')}`,
  );
}

/** GPU time of each kernel in a token: bars whose dark part is the time of its bytes at streaming speed. */
function time(figure: HTMLElement, report: BenchReport, earlier: BenchReport | null): void {
  if (hide(figure, !report.profile?.length)) return;
  const rows = report.profile!;
  const then = new Map((earlier?.profile ?? []).map((r) => [r.step, r.ms]));
  const widest = Math.max(...rows.map((r) => r.ms), ...then.values());
  const all = rows.reduce((sum, r) => sum + r.ms, 0);
  const bars = rows.map((r) => {
    const before = then.get(r.step);
    const width = (100 * r.ms) / widest;
    const line = make(
      'li',
      '',
      make('span', 'name', r.step),
      bar(width, Math.min(width, (width * r.percent_of_streaming) / 100)),
      make('span', 'value', `${n(r.ms, 3)} ms`),
    );
    if (before !== undefined) {
      const track = bar((100 * before) / widest);
      track.classList.add('then');
      line.append(track, make('span', 'value then', `${n(before, 3)} ms`));
    }
    line.title = `${r.kernel} ${r.variant}: ${r.calls} × ${n(r.us, 2)} µs, ${n(r.gb_s, 0)} GB/s`;
    return line;
  });
  const legend: Shown['legend'] = [
    ['floor', 'what its bytes take at streaming speed'],
    ['now', 'the rest of its time'],
    ...(then.size > 0 ? [['then', 'earlier run'] as [string, string]] : []),
  ];
  figure.replaceChildren(
    caption('GPU time of a token by kernel', legend),
    make('p', 'note', `${n(all, 3)} ms in all; each kernel measured by itself.`),
    make('ul', 'bars', ...bars),
  );
}

/** Hides the figure of a plot that has nothing to show. */
function hide(figure: HTMLElement, nothing: boolean): boolean {
  figure.hidden = nothing;
  figure.replaceChildren();
  return nothing;
}

function caption(title: string, legend: Shown['legend']): HTMLElement {
  const marks = legend.map(([className, text]) => make('span', `mark ${className}`, text));
  return make('figcaption', '', make('strong', '', title), make('span', 'legend', ...marks));
}

/** A plot with its caption, description and table. `tell` describes the point under the pointer. */
function plot(
  figure: HTMLElement,
  shown: Shown,
  data: uPlot.AlignedData,
  options: Partial<uPlot.Options> & { series: uPlot.Series[] },
  tell: (at: number, values: (number | null | undefined)[]) => string,
): void {
  const image = make('div', 'plot');
  image.setAttribute('role', 'img');
  image.setAttribute('aria-label', `${shown.title}: ${shown.words}`);
  const words = `${sentence(shown.words)}.`;
  const about = make('p', 'note', words);
  const head = make('tr', '', ...shown.head.map((text, i) => make('th', i > 0 ? 'number' : '', text)));
  const numbers = shown.head.map((_, i) => i).slice(1);
  const table = make(
    'table',
    '',
    make('thead', '', head),
    make('tbody', '', ...shown.rows.map((cells) => row(cells, numbers))),
  );
  const scroll = make('div', 'scroll', table);
  scroll.tabIndex = 0;
  scroll.setAttribute('role', 'region');
  scroll.setAttribute('aria-label', `${shown.title}, as a table`);
  figure.replaceChildren(
    caption(shown.title, shown.legend),
    image,
    about,
    make('details', '', make('summary', '', 'As a table'), scroll),
  );
  const axis: uPlot.Axis = {
    stroke: colour('--soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
    labelSize: 18,
  };
  const [x, y] = options.axes ?? [{ label: 'tokens of context' }, { label: 'tokens a second' }];
  const made = new uPlot(
    {
      ...options,
      width: Math.max(200, image.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      axes: [
        { ...axis, ...x },
        { ...axis, ...y, size: 56 },
      ],
      hooks: {
        setCursor: [
          (self) => {
            const i = self.cursor.idx;
            about.textContent =
              i == null
                ? words
                : tell(
                    self.data[0][i]!,
                    self.data.map((list) => list[i]),
                  );
          },
        ],
      },
    },
    data,
    image,
  );
  const observer = new ResizeObserver(() => {
    if (image.clientWidth > 0 && image.clientWidth !== made.width)
      made.setSize({ width: image.clientWidth, height: HEIGHT });
  });
  observer.observe(image);
  drawn.push({ plot: made, observer });
}

// A canvas cannot use custom properties: their values are read when it is drawn, and again when the colour scheme
// changes.
const probe = make('span', 'hidden');
document.body.append(probe);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { plot } of drawn) plot.redraw(true, true);
});

function colour(property: string): () => string {
  return () => {
    probe.style.color = `var(${property})`;
    return getComputedStyle(probe).color;
  };
}
