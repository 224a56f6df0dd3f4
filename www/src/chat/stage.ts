// The part between conversation and composer while no model is loaded: loading, the plan of a download, a problem. And
// the state at the top of the page.
import { type EngineInfo, MillraceError, type Progress } from 'millrace';
import { get } from '../shared/dom.ts';
import { explain } from '../shared/explain.ts';
import { bytes, define, parameters, sentence } from '../shared/format.ts';
import { BOX } from '../shared/model_name.ts';
import type { Loader, LoadState } from './loader.ts';
import { setContext } from './settings.ts';

const bar = get<HTMLProgressElement>('loading-bar');
const contexts = get<HTMLSelectElement>('plan-context');

/** What is said of each phase. */
export const PHASES: Record<Progress['phase'], string> = {
  download: 'Downloading',
  verify: 'Checking what is stored',
  read: 'Reading',
  upload: 'Moving onto the GPU',
  compile: 'Compiling kernels',
  queue: 'Waiting for its turn',
  pictures: 'Looking at pictures',
  prompt: 'Reading the question',
};

/** Connects the buttons. `onOther`: the user wants another model. */
export function setUp(loader: Loader, onOther: () => void): void {
  const again = (asked: boolean) => () => void loader.load(loader.state.model, asked);
  get('cancel-load').addEventListener('click', () => loader.cancel());
  get('pause').addEventListener('click', () => loader.pause(loader.state.phase === 'loading' && !loader.state.paused));
  get('plan-go').addEventListener('click', again(true));
  get('problem-retry').addEventListener('click', again(false));
  for (const id of ['plan-other', 'problem-model']) get(id).addEventListener('click', onOther);
  contexts.addEventListener('change', () => {
    setContext(Number(contexts.value));
    again(false)();
  });
}

/** Shows the state of loading. */
export function show(state: LoadState): void {
  const { name } = state.model;
  const parts = {
    planning: 'loading',
    plan: 'plan',
    loading: 'loading',
    ready: 'start',
    recovering: 'loading',
    failed: 'problem',
  } as const;
  for (const id of ['loading', 'plan', 'problem', 'start']) get(id).hidden = id !== parts[state.phase];
  document.body.classList.toggle('able', state.phase === 'ready');
  const dot = {
    planning: 'loading',
    plan: 'waiting',
    loading: 'loading',
    ready: 'ready',
    recovering: 'loading',
    failed: 'failed',
  }[state.phase];
  get('state').dataset.state = state.phase === 'loading' && state.paused ? 'waiting' : dot;
  switch (state.phase) {
    case 'planning':
      top(`Looking at ${name}`);
      wait(`Looking at ${name}`, state.note);
      break;
    case 'recovering':
      top('The GPU was reset: loading again');
      wait('The GPU was reset: loading again');
      break;
    case 'plan':
      top(`${name}: not downloaded yet`);
      // Few visits show one.
      import('./plan.ts').then(
        (it) => it.fill(state, contexts),
        () => {
          const verdict = get('plan-verdict');
          verdict.textContent = 'The plan could not be fetched from the server of this page: load the page again.';
          verdict.className = 'error';
        },
      );
      break;
    case 'loading':
      top(state.paused ? `${name}: paused` : `Loading ${name}`);
      if (state.progress) progress(state.progress, state.paused);
      else wait(`Loading ${name}`);
      break;
    case 'ready':
      top(name);
      get('hint').hidden = !('url' in state.model) || state.model.url !== BOX;
      break;
    case 'failed': {
      const { title, message, advice } = explain(state.error);
      const cancelled = state.error instanceof MillraceError && state.error.code === 'ABORTED';
      top(title);
      get('problem').classList.toggle('calm', cancelled);
      get('problem-title').textContent = title;
      get('problem-message').textContent = cancelled
        ? 'What has arrived is kept: the next attempt goes on from there.'
        : message;
      get('problem-advice').textContent = advice;
      // Without a usable GPU another model does not help.
      get('problem-model').hidden =
        state.error instanceof MillraceError && ['NO_WEBGPU', 'NO_ADAPTER'].includes(state.error.code);
    }
  }
}

function top(text: string): void {
  get('state-text').textContent = sentence(text);
}

/** Shows work of unknown length. */
function wait(text: string, detail = ''): void {
  get('loading-phase').textContent = text;
  get('loading-detail').textContent = detail;
  get('pause').hidden = true;
  bar.removeAttribute('value');
  meter = null;
}

/** Recent progress of one phase, in the last seconds, for its speed. */
let meter: { phase: string; seen: [time: number, loaded: number][] } | null = null;
const WINDOW_MS = 4000;

/** Bytes a second; 0 where too few were measured. */
function speed(phase: string, loaded: number): number {
  const now = performance.now();
  if (meter?.phase !== phase) meter = { phase, seen: [] };
  meter.seen.push([now, loaded]);
  while (meter.seen.length > 2 && now - meter.seen[0]![0] > WINDOW_MS) meter.seen.shift();
  const [time, before] = meter.seen[0]!;
  return now - time > 300 ? (1000 * (loaded - before)) / (now - time) : 0;
}

function progress({ phase, loaded, total, file, cached, note }: Progress, paused: boolean): void {
  const counted =
    phase === 'compile' ? `${loaded} of ${total || '?'}` : `${bytes(loaded)}${total > 0 ? ` of ${bytes(total)}` : ''}`;
  const parts = [counted];
  if (paused) meter = null;
  else if (phase !== 'compile') {
    const rate = speed(phase, loaded);
    if (rate > 0) parts.push(`${bytes(rate)}/s`);
    if (rate > 0 && phase === 'download' && total > loaded)
      parts.push(`${left((1000 * (total - loaded)) / rate)} left`);
  }
  if (note) parts.push(note);
  const what =
    cached && phase !== 'compile'
      ? `${PHASES[phase]} from this browser's storage`
      : `${PHASES[phase]}${file ? ` ${file}` : ''}`;
  get('loading-phase').textContent = paused ? `Paused${file ? `: ${file}` : ''}` : what;
  get('loading-detail').textContent = parts.join(' · ');
  const pause = get<HTMLButtonElement>('pause');
  pause.hidden = phase !== 'download' && !paused;
  pause.textContent = paused ? 'Resume' : 'Pause';
  if (total > 0) {
    bar.max = total;
    bar.value = loaded;
  } else bar.removeAttribute('value');
}

/** 3 min, 12 s. */
function left(ms: number): string {
  return ms > 90_000 ? `${Math.round(ms / 60_000)} min` : `${Math.max(1, Math.round(ms / 1000))} s`;
}

/** Fills the settings' description of model and machine. The browser may take long to count what is stored. */
export function describe(loader: Loader): void {
  const info = loader.engine?.info;
  const entries = (stored: string): [string, string][] => [
    ['GPU', info ? info.adapter.name || info.adapter.vendor || 'unnamed' : 'no model is loaded'],
    ...(info ? ofModel(info) : []),
    ['Stored in this browser', stored],
  ];
  define(get('machine'), entries('…'));
  void navigator.storage?.estimate().then(
    ({ usage = 0 }) => define(get('machine'), entries(bytes(usage))),
    () => define(get('machine'), entries('unknown')),
  );
}

function ofModel({ model, draft, lane, lanes, context, memory, storage }: EngineInfo): [string, string][] {
  return [
    [
      'Model',
      `${model.architecture}, ${parameters(model.parameters)} parameters, ${Object.keys(model.types).join(', ')}`,
    ],
    ...(draft
      ? [['Draft model', `${draft.architecture}, ${parameters(draft.parameters)} parameters`] as [string, string]]
      : []),
    ['Lane', `${lane} (of ${lanes.join(', ')})`],
    ['Context', `${context.toLocaleString('en')} of ${model.context.toLocaleString('en')} tokens`],
    [
      'GPU memory',
      `${bytes(memory.total)}: weights ${bytes(memory.weights)}, cache ${bytes(memory.kv)}, activations ${bytes(memory.activations)}`,
    ],
    ...(storage.reason ? [['Not kept', storage.reason] as [string, string]] : []),
  ];
}
