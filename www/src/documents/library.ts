// The page's documents and their vectors: added files are read, cut, stored and embedded in sequence. Unfinished
// embedding continues at the next visit.
import type { Engine } from 'millrace';
import { cut, layOut, textOf } from './cut.ts';
import { bytesOf, read } from './read.ts';
import type { Role } from './roles.ts';
import type { Shelf } from './search.ts';
import * as store from './store.ts';
import type { Paper, Vectors } from './store.ts';
import { Unreadable } from './unreadable.ts';

/** The version of cutting passages, which identifies vectors. */
const WAY = 1;
/**
 * The shortest and longest wanted duration of a call of the engine, in milliseconds: its passages are batched, and
 * questions run between two calls.
 */
const SHORT = 400;
const LONG = 1500;
const MOST_PASSAGES = 256;
/** The interval of storing vectors while a document is embedded, in milliseconds. */
const KEEP_EVERY = 3000;

/** The current work, for the page. */
export type Work =
  | { doing: 'reading'; name: string; done: number; of: number }
  | { doing: 'embedding'; name: string; done: number; of: number; perSecond: number };

export interface Listener {
  /** The list of documents, or the progress of one, has changed. */
  changed(): void;
  working(work: Work | null): void;
  /** Embedding has stopped with an error. */
  failed(error: unknown): void;
}

/** The result of adding a file. */
export type Added = { paper: Paper; known: boolean };

export class Library {
  readonly #embedder: Role;
  readonly #listener: Listener;
  papers: Paper[] = [];
  /** Vectors by document; vectors of another model are replaced one by one. */
  readonly #vectors = new Map<string, Vectors>();
  #by: string | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(embedder: Role, listener: Listener) {
    this.#embedder = embedder;
    this.#listener = listener;
  }

  /** Loads the stored documents and vectors. */
  async open(): Promise<void> {
    this.papers = await store.list();
    for (const { id } of this.papers) {
      const vectors = await store.vectorsOf(id);
      if (vectors) this.#vectors.set(id, vectors);
    }
  }

  /** Adds a file. Rejects with `Unreadable`, or where the disk is full, and stores nothing then. */
  async add(file: File, signal: AbortSignal): Promise<Added> {
    const working = (done: number, of: number): void =>
      this.#listener.working({ doing: 'reading', name: file.name, done, of });
    working(0, 0);
    try {
      const bytes = await bytesOf(file);
      const id = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
      const known = this.papers.find((paper) => paper.id === id);
      if (known) return { paper: known, known: true };
      const { kind, blocks, pages } = await read(file, bytes, signal, working);
      signal.throwIfAborted();
      const laid = layOut(blocks);
      const passages = cut(laid);
      if (passages.length === 0) throw new Unreadable('There is no text in the file.');
      const paper: Paper = { id, name: file.name, kind, bytes: file.size, added: Date.now(), pages, ...laid, passages };
      await store.keep(paper);
      this.papers.unshift(paper);
      return { paper, known: false };
    } finally {
      this.#listener.working(null);
      this.#listener.changed();
    }
  }

  async remove(id: string): Promise<void> {
    this.papers = this.papers.filter((paper) => paper.id !== id);
    this.#vectors.delete(id);
    await store.remove(id);
    this.#listener.changed();
  }

  paper(id: string): Paper | undefined {
    return this.papers.find((paper) => paper.id === id);
  }

  /** The number of passages that can be searched, and of all. */
  get searchable(): { done: number; of: number } {
    let [done, of] = [0, 0];
    for (const paper of this.papers) {
      done += this.done(paper);
      of += paper.passages.length;
    }
    return { done, of };
  }

  /** How many of a document's passages are embedded; by any model, until the current one is known. */
  done({ id }: Paper): number {
    const vectors = this.#vectors.get(id);
    return vectors && (this.#by === null || vectors.by === this.#by) ? vectors.numbers.length / vectors.dimensions : 0;
  }

  /** The vectors of this engine's model. */
  shelves(engine: Engine): Shelf[] {
    const by = this.#identity(engine);
    return this.papers.flatMap(({ id }) => {
      const vectors = this.#vectors.get(id);
      return vectors?.by === by ? [{ document: id, vectors: vectors.numbers }] : [];
    });
  }

  /** Embeds passages that are not embedded yet. Resolves when all are, or it was stopped. */
  embed(): Promise<void> {
    this.#stopped = false;
    this.#running ??= this.#run()
      .catch((error: unknown) => {
        // Errors of the storage are DOMExceptions, and not the engine's.
        if (!(error instanceof DOMException)) this.#embedder.failed(error);
        this.#listener.failed(error);
      })
      .finally(() => {
        this.#running = null;
        this.#listener.working(null);
        this.#listener.changed();
      });
    return this.#running;
  }

  /** Stops embedding after the current call. */
  stop(): void {
    this.#stopped = true;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Handles a change of the model: vectors of the former one are not compared any more. */
  async changedModel(): Promise<void> {
    this.stop();
    await this.#running;
    this.#by = null;
    await this.embed();
  }

  async #run(): Promise<void> {
    const engine = await this.#embedder.engine();
    this.#by = this.#identity(engine);
    this.#listener.changed();
    // Documents may be added meanwhile; the latest is embedded first.
    for (;;) {
      const next = this.papers.find((paper) => this.done(paper) < paper.passages.length);
      if (!next || this.#stopped) return;
      await this.#embed(engine, next);
    }
  }

  async #embed(engine: Engine, { id, name, text, passages }: Paper): Promise<void> {
    const by = this.#identity(engine);
    const { dimensions = 0, prompts = {} } = engine.info.model;
    const numbers = new Float32Array(passages.length * dimensions);
    const before = this.#vectors.get(id);
    let done = 0;
    if (before?.by === by) {
      numbers.set(before.numbers);
      done = before.numbers.length / dimensions;
    }
    const began = performance.now();
    const first = done;
    let kept = began;
    let count = 8;
    const tell = (): void => {
      const seconds = (performance.now() - began) / 1000;
      const perSecond = done > first ? (done - first) / seconds : 0;
      this.#listener.working({ doing: 'embedding', name, done, of: passages.length, perSecond });
    };
    tell();
    while (done < passages.length && !this.#stopped) {
      const asked = performance.now();
      const batch = passages.slice(done, done + count);
      const { vectors } = await engine.embed(
        batch.map((passage) => textOf(passage, text)),
        'document' in prompts ? { prompt: 'document' } : {},
      );
      // The document was removed meanwhile.
      if (!this.paper(id)) return;
      for (const vector of vectors) {
        numbers.set(vector, done * dimensions);
        done += 1;
      }
      const now = performance.now();
      if (now - asked < SHORT) count = Math.min(MOST_PASSAGES, count * 2);
      else if (now - asked > LONG) count = Math.max(1, Math.floor(count / 2));
      const whole = done === passages.length;
      const made: Vectors = {
        document: id,
        by,
        dimensions,
        numbers: whole ? numbers : numbers.slice(0, done * dimensions),
      };
      this.#vectors.set(id, made);
      if (whole || this.#stopped || now - kept > KEEP_EVERY) {
        kept = now;
        await store.keepVectors(made);
      }
      tell();
    }
  }

  #identity(engine: Engine): string {
    const { dimensions, bytes } = engine.info.model;
    return `${WAY} ${this.#embedder.url} ${bytes} ${dimensions}`;
  }
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
