// The two models of the page, each in an engine of its own: one embeds, one generates. A model is loaded when it is
// first needed.
import { Engine, MillraceError, type LoadOptions, type Progress } from 'millrace';
import { confirm } from '../shared/dialog.ts';
import { isFatal } from '../shared/explain.ts';
import { bytes } from '../shared/format.ts';
import { EMBEDDERS, nameOf } from '../shared/embedders.ts';
import { KNOWN, type KnownModel } from '../shared/known.ts';
import { BOX_TEXT, EMBED_BOX } from '../shared/model_name.ts';

/** Most bytes that are downloaded without confirmation. */
const LITTLE = 32e6;
/** Positions for quotes and an answer: more would take memory from the embedding model. */
const CONTEXT = 4096;

export interface Part {
  /** The key in the browser's storage, and the address's parameter. */
  key: 'embedder' | 'generator';
  box: string;
  boxName: string;
  known: readonly KnownModel[];
}

export const EMBEDDER: Part = {
  key: 'embedder',
  box: EMBED_BOX,
  boxName: 'The small model in the box',
  known: EMBEDDERS,
};
export const GENERATOR: Part = { key: 'generator', box: BOX_TEXT, boxName: 'The tiny model in the box', known: KNOWN };

export class Role {
  readonly part: Part;
  #url: string;
  #engine: Promise<Engine> | null = null;
  #controller = new AbortController();
  /** Called with the progress of loading; null once it has ended. */
  onProgress: (progress: Progress | null) => void = () => {};

  constructor(part: Part) {
    this.part = part;
    let before: string | null = null;
    try {
      before = localStorage.getItem(this.#key);
    } catch {
      // Without storage the last model is not known.
    }
    this.#url = new URLSearchParams(location.search).get(part.key) || before || part.box;
  }

  get url(): string {
    return this.#url;
  }

  get isBox(): boolean {
    return this.#url === this.part.box;
  }

  get name(): string {
    return this.isBox ? this.part.boxName : nameOf(this.#url);
  }

  get #key(): string {
    return `millrace.documents.${this.part.key}`;
  }

  /** Switches to another model, and ends the current engine. */
  choose(url: string): void {
    this.end();
    this.#url = url;
    try {
      localStorage.setItem(this.#key, url);
    } catch {
      return;
    }
  }

  /** The engine, which is loaded if necessary. Rejects with ABORTED where the user has refused the download. */
  engine(): Promise<Engine> {
    if (this.#engine) return this.#engine;
    const mine = this.#load(this.#controller.signal).finally(() => {
      if (this.#engine === mine) this.onProgress(null);
    });
    this.#engine = mine;
    mine.catch(() => {
      if (this.#engine === mine) this.#engine = null;
    });
    return mine;
  }

  /** Ends the engine after a fatal error, so that the next call loads another. */
  failed(error: unknown): void {
    if (isFatal(error)) this.end();
  }

  end(): void {
    this.#controller.abort();
    this.#controller = new AbortController();
    this.#engine?.then((engine) => engine.dispose()).catch(() => {});
    this.#engine = null;
    this.onProgress(null);
  }

  async #load(signal: AbortSignal): Promise<Engine> {
    const onProgress = (progress: Progress): void => {
      if (!signal.aborted) this.onProgress(progress);
    };
    let options: LoadOptions = { model: this.#url, signal, onProgress };
    if (!this.isBox) {
      let plan = await Engine.plan(options);
      if (this.part.key === 'generator' && plan.context > CONTEXT) {
        options = { ...options, context: CONTEXT };
        plan = await Engine.plan(options);
      }
      const { missing } = plan.download;
      if (!plan.fits || missing > LITTLE) {
        const size = missing > 0 ? `${bytes(missing)} are downloaded, and stay in this browser.` : '';
        const agreed = await confirm({
          title: `Load ${this.name}?`,
          text: [size, ...plan.problems].filter(Boolean).join(' '),
          yes: plan.fits ? 'Download' : 'Try it all the same',
        });
        if (!agreed) throw new MillraceError('ABORTED', `${this.name} was not loaded`);
      }
    }
    signal.throwIfAborted();
    const engine = await Engine.load(options);
    const { pooling = 'none' } = engine.info.model;
    const fits = this.part.key === 'generator' ? pooling === 'none' : !['none', 'rank'].includes(pooling);
    if (fits && !signal.aborted) return engine;
    engine.dispose();
    signal.throwIfAborted();
    throw new MillraceError(
      'UNSUPPORTED_MODEL',
      this.part.key === 'generator'
        ? `${this.name} does not write: it can search at most`
        : `${this.name} makes no embeddings: documents cannot be searched by it`,
    );
  }
}
