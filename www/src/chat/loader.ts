// Loads one model at a time, and its state. A download is shown first, unless it is small.
import { DownloadControl, Engine, type LoadOptions, type LoadPlan, type ModelFile, type Progress } from 'millrace';
import { nameOf } from '../shared/known.ts';
import { BOX, BOX_TEXT } from '../shared/model_name.ts';

/** Most bytes that are downloaded without confirmation. */
const LITTLE = 32e6;
const KEY = 'millrace.model';

/** The model to load: an address or local files. */
export type Model = { url: string; name: string } | { files: readonly ModelFile[]; name: string };

/** The state of loading. */
export type LoadState =
  /** `note`: what planning waits for. */
  | { phase: 'planning'; model: Model; note?: string }
  | { phase: 'plan'; model: Model; plan: LoadPlan }
  | { phase: 'loading'; model: Model; progress: Progress | null; paused: boolean }
  | { phase: 'ready'; model: Model; engine: Engine }
  | { phase: 'recovering'; model: Model; engine: Engine }
  | { phase: 'failed'; model: Model; error: unknown };

export type Options = () => Pick<LoadOptions, 'draft' | 'lane' | 'kv' | 'context'>;

export class Loader {
  #state: LoadState;
  #controller = new AbortController();
  #download = new DownloadControl();
  readonly #options: Options;
  readonly #onState: (state: LoadState) => void;
  /** Resolves with the engine once it is loaded, or with null where loading fails or the user has to decide. */
  ready: Promise<Engine | null> = Promise.resolve(null);

  constructor(model: Model, options: Options, onState: (state: LoadState) => void) {
    this.#state = { phase: 'planning', model };
    this.#options = options;
    this.#onState = onState;
  }

  get state(): LoadState {
    return this.#state;
  }

  get engine(): Engine | null {
    return this.#state.phase === 'ready' || this.#state.phase === 'recovering' ? this.#state.engine : null;
  }

  /** Loads a model in place of the current one. `asked`: the user has agreed to any download. */
  load(model: Model, asked = false): Promise<Engine | null> {
    this.#end();
    const controller = this.#controller;
    this.ready = this.#run(model, asked, controller).catch((error: unknown) => {
      // The failure of a load that was replaced is ignored.
      if (this.#controller === controller) this.#set({ phase: 'failed', model, error });
      return null;
    });
    return this.ready;
  }

  cancel(): void {
    this.#controller.abort();
  }

  /** Pauses the download, or resumes it. */
  pause(paused: boolean): void {
    if (this.#state.phase !== 'loading') return;
    if (paused) this.#download.pause();
    else this.#download.resume();
    this.#set({ ...this.#state, paused });
  }

  /** Handles an error that has ended the engine. */
  fail(error: unknown): void {
    const { model } = this.#state;
    this.#end();
    this.#set({ phase: 'failed', model, error });
  }

  #end(): void {
    this.#controller.abort();
    this.engine?.dispose();
    this.#controller = new AbortController();
    this.#download = new DownloadControl();
  }

  #set(state: LoadState): void {
    this.#state = state;
    this.#onState(state);
  }

  async #run(model: Model, asked: boolean, controller: AbortController): Promise<Engine | null> {
    const { signal } = controller;
    const source = 'url' in model ? model.url : model.files;
    const { draft, ...others } = this.#options();
    // The model in the box has tokens of its own.
    const drafted = draft === undefined || source === BOX ? {} : { draft };
    const options: LoadOptions = { model: source, ...drafted, ...others, signal };
    if (!asked && 'url' in model && model.url !== BOX) {
      this.#set({ phase: 'planning', model });
      const onProgress = ({ note }: Progress): void => {
        if (note && !signal.aborted) this.#set({ phase: 'planning', model, note });
      };
      const plan = await Engine.plan({ ...options, onProgress });
      if (signal.aborted) return null;
      if (!plan.fits || plan.download.missing + (plan.draft?.download.missing ?? 0) > LITTLE) {
        this.#set({ phase: 'plan', model, plan });
        return null;
      }
    }
    let progress: Progress | null = null;
    const show = (): void => {
      if (!signal.aborted) this.#set({ phase: 'loading', model, progress, paused: this.#download.paused });
    };
    show();
    const download = this.#download;
    let arriving = false;
    const engine = await Engine.load({
      ...options,
      download,
      onProgress: (now) => {
        // While bytes arrive only the download is shown: the rest runs concurrently.
        if (now.phase === 'download') arriving = now.loaded < now.total;
        else if (arriving) return;
        progress = now;
        show();
      },
    });
    if (signal.aborted) {
      engine.dispose();
      return null;
    }
    engine.addEventListener('devicelost', ({ detail }) => {
      if (detail.recovering && this.engine === engine) this.#set({ phase: 'recovering', model, engine });
    });
    engine.addEventListener('devicerestored', () => {
      if (this.engine === engine) this.#set({ phase: 'ready', model, engine });
    });
    if ('url' in model) remember(model.url);
    this.#set({ phase: 'ready', model, engine });
    return engine;
  }
}

/** The model of an address; any address of the model in the box is that model, with its eyes. */
export function fromUrl(url: string): Model {
  const absolute = (of: string): string => (URL.canParse(of, location.href) ? new URL(of, location.href).href : of);
  return absolute(url).split('#')[0] === absolute(BOX_TEXT)
    ? { url: BOX, name: 'the model in the box' }
    : { url, name: nameOf(url) };
}

export const fromFiles = (files: readonly File[]): Model => ({ files, name: files[0]?.name ?? 'your files' });

/** The first model: `?model=` of the address, else the last one used, else the bundled model. */
export function firstModel(): Model {
  const asked = new URLSearchParams(location.search).get('model');
  let before: string | null = null;
  try {
    before = localStorage.getItem(KEY);
  } catch {
    // Without storage the last model is not known.
  }
  return fromUrl(asked || before || BOX);
}

function remember(url: string): void {
  try {
    localStorage.setItem(KEY, url);
  } catch {
    return;
  }
}
