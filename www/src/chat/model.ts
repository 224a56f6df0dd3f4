// Loading a model: one at a time, with progress on the page, and an explanation where it fails.
import { Engine, MillraceError, type EngineInfo, type Progress } from 'millrace';
import { explain } from '../shared/explain.ts';
import { bytes, define, parameters } from '../shared/format.ts';
import { BOX, type ModelChoice } from './settings.ts';

const get = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const bar = get<HTMLProgressElement>('loading-bar');

const PHASES: Record<Progress['phase'], string> = {
  download: 'Downloading',
  verify: 'Checking what is stored',
  read: 'Reading',
  upload: 'Moving onto the GPU',
  compile: 'Compiling kernels',
  queue: 'Waiting for its turn',
  prompt: 'Reading the question',
};

/** The page's one engine. */
export class ModelLoader {
  #engine: Engine | null = null;
  #controller: AbortController | null = null;
  readonly #onChange: () => void;
  /** Resolves with the engine of the load that is under way, or null where it fails. */
  ready: Promise<Engine | null> = Promise.resolve(null);

  /** `onChange`: the engine has come or gone. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
    get('cancel-load').addEventListener('click', () => this.#controller?.abort());
  }

  get engine(): Engine | null {
    return this.#engine;
  }

  /** Unloads what there is and loads another model. */
  load(choice: ModelChoice): Promise<Engine | null> {
    this.#controller?.abort();
    this.#engine?.dispose();
    this.#engine = null;
    this.#onChange();
    const controller = new AbortController();
    this.#controller = controller;
    this.ready = this.#load(choice, controller);
    return this.ready;
  }

  /** Shows a failure that ended the engine. */
  fail(error: unknown): void {
    this.#engine?.dispose();
    this.#engine = null;
    const { title, message, advice } = explain(error);
    show('problem');
    get('problem-title').textContent = title;
    get('problem-message').textContent = message;
    get('problem-advice').textContent = advice;
    // Where there is no GPU to use, another model does not help.
    get('problem-settings').hidden = error instanceof MillraceError && ['NO_WEBGPU', 'NO_ADAPTER'].includes(error.code);
    state('failed', title);
    this.#onChange();
  }

  async #load(choice: ModelChoice, controller: AbortController): Promise<Engine | null> {
    const { name, ...options } = choice;
    show('loading');
    state('loading', `Loading ${name}`);
    bar.removeAttribute('value');
    get('loading-phase').textContent = `Loading ${name}`;
    get('loading-detail').textContent = '';
    try {
      const engine = await Engine.load({ ...options, signal: controller.signal, onProgress: progressShower() });
      if (controller.signal.aborted) {
        engine.dispose();
        return null;
      }
      this.#engine = engine;
      engine.addEventListener('devicelost', ({ detail }) => detail.recovering && state('loading', 'The GPU was reset: loading again'));
      engine.addEventListener('devicerestored', () => state('ready', name));
      show('suggestions');
      get('hint').hidden = choice.model !== BOX;
      state('ready', name);
      this.#onChange();
      return engine;
    } catch (error) {
      // A load that another one has replaced has nothing to say any more.
      if (this.#controller === controller) this.fail(error);
      return null;
    }
  }

  /** What the settings say about model and machine. The browser may take its time to count what is stored. */
  describe(): void {
    const info = this.#engine?.info;
    const entries = (stored: string): [string, string][] => [
      ['GPU', info ? info.adapter.name || info.adapter.vendor || 'unnamed' : 'no model is loaded'],
      ...(info ? modelEntries(info) : []),
      ['Stored in this browser', stored],
    ];
    define(get('machine'), entries('…'));
    void navigator.storage?.estimate().then(
      ({ usage = 0 }) => define(get('machine'), entries(bytes(usage))),
      () => define(get('machine'), entries('unknown')),
    );
  }
}

function modelEntries({ model, lane, lanes, context, memory, storage }: EngineInfo): [string, string][] {
  return [
    ['Model', `${model.architecture}, ${parameters(model.parameters)} parameters, ${Object.keys(model.types).join(', ')}`],
    ['Lane', `${lane} (of ${lanes.join(', ')})`],
    ['Context', `${context.toLocaleString('en')} of ${model.context.toLocaleString('en')} tokens`],
    ['GPU memory', `${bytes(memory.total)}: weights ${bytes(memory.weights)}, cache ${bytes(memory.kv)}, activations ${bytes(memory.activations)}`],
    ...(storage.reason ? [['Not kept', storage.reason] as [string, string]] : []),
  ];
}

/** Whether an error means that the engine is gone. */
export function isFatal(error: unknown): boolean {
  return !(error instanceof MillraceError) || ['DEVICE_LOST', 'DISPOSED', 'INTERNAL'].includes(error.code);
}

function progressShower(): (progress: Progress) => void {
  let phase = '';
  let began = 0;
  let first = 0;
  // While bytes arrive, they are what takes time: the rest goes on beside it.
  let arriving = false;
  return (progress) => {
    if (progress.phase === 'download') arriving = progress.loaded < progress.total;
    else if (arriving) return;
    if (progress.phase !== phase) {
      phase = progress.phase;
      began = performance.now();
      first = progress.loaded;
    }
    const { loaded, total, file, cached } = progress;
    const elapsed = (performance.now() - began) / 1000;
    const measured = elapsed > 0.3 && phase !== 'compile' ? ` · ${bytes((loaded - first) / elapsed)}/s` : '';
    const amount = phase === 'compile' ? `${loaded} of ${total || '?'}` : `${bytes(loaded)}${total > 0 ? ` of ${bytes(total)}` : ''}`;
    get('loading-phase').textContent = cached && phase !== 'compile' ? `${PHASES[progress.phase]} from this browser's storage` : `${PHASES[progress.phase]}${file ? ` ${file}` : ''}`;
    get('loading-detail').textContent = progress.note ? `${amount} · ${progress.note}` : amount + measured;
    if (total > 0) {
      bar.max = total;
      bar.value = loaded;
    } else bar.removeAttribute('value');
  };
}

/** Exactly one of the three is on the page. */
function show(part: 'loading' | 'problem' | 'suggestions'): void {
  for (const id of ['loading', 'problem', 'suggestions']) get(id).hidden = id !== part;
  get('hint').hidden = true;
}

function state(name: 'loading' | 'ready' | 'failed', text: string): void {
  get('state').dataset.state = name;
  get('state-text').textContent = text;
}
