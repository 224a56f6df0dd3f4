// Web Locks between processes: a lock is a file that names the process which has it. One of a process that is gone counts for nothing.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

type Mode = 'exclusive' | 'shared';
interface Options {
  mode?: Mode;
  ifAvailable?: boolean;
  signal?: AbortSignal;
}
interface Held {
  name: string;
  mode: Mode;
}
type Callback<T> = (lock: Held | null) => T | Promise<T>;

/** How often it is looked whether another process has let go, in milliseconds. */
const LOOK_EVERY_MS = 50;

let counted = 0;

/** `navigator.locks` over a folder. */
export class DiskLocks {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async request<T>(name: string, ...rest: [Callback<T>] | [Options, Callback<T>]): Promise<T> {
    const [options, callback] = rest.length === 1 ? [{}, rest[0]] : rest;
    const { mode = 'exclusive', ifAvailable = false, signal } = options;
    let release = this.#take(name, mode);
    while (!release) {
      if (release === null && ifAvailable) return callback(null);
      signal?.throwIfAborted();
      await new Promise((done) => setTimeout(done, release === null ? LOOK_EVERY_MS : 1));
      signal?.throwIfAborted();
      release = this.#take(name, mode);
    }
    try {
      return await callback({ name, mode });
    } finally {
      release();
    }
  }

  async query(): Promise<{ held: Held[]; pending: Held[] }> {
    return { held: this.#held().map(({ name, mode }) => ({ name, mode })), pending: [] };
  }

  /**
   * Takes a lock and returns what gives it back; null where somebody has it. Two never look at the same time: undefined where another process
   * does.
   */
  #take(name: string, mode: Mode): (() => void) | null | undefined {
    mkdirSync(this.#folder, { recursive: true });
    const gate = join(this.#folder, '.gate');
    if (!claim(gate)) return undefined;
    try {
      const others = this.#held().filter((one) => one.name === name);
      if (others.some((one) => mode === 'exclusive' || one.mode === 'exclusive')) return null;
      const path = join(this.#folder, `${process.pid}-${counted++}.lock`);
      writeFileSync(path, JSON.stringify({ name, mode }));
      return () => rmSync(path, { force: true });
    } finally {
      rmSync(gate, { force: true });
    }
  }

  /** Locks of processes that live; those of others are removed. */
  #held(): Held[] {
    const held: Held[] = [];
    let files: string[];
    try {
      files = readdirSync(this.#folder).filter((file) => file.endsWith('.lock'));
    } catch {
      return [];
    }
    for (const file of files) {
      const path = join(this.#folder, file);
      if (!lives(Number.parseInt(file, 10))) {
        rmSync(path, { force: true });
        continue;
      }
      try {
        held.push(JSON.parse(readFileSync(path, 'utf8')) as Held);
      } catch {
        // Given back meanwhile.
      }
    }
    return held;
  }
}

/** Makes a file that only one process can make, and that dies with it. */
function claim(path: string): boolean {
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    try {
      const owner = Number(readFileSync(path, 'utf8'));
      if (owner > 0 && !lives(owner)) rmSync(path, { force: true });
    } catch {
      // Gone meanwhile.
    }
    return false;
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Somebody else's process lives as well.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
