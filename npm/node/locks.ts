// Web Locks between processes and between threads of one: a lock is a file whose name has the process that holds it.
// Locks of processes that have ended do not count. Files are written under another name first, so that neither a full
// disk nor a kill leaves an unreadable one.
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attempt } from './disk.ts';

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

/** The interval of checks whether another process has released a lock, in milliseconds. */
const LOOK_EVERY_MS = 50;

const LOCK = '.lock';
/** A folder with one file, named after the process that reads or changes the locks: a mutex over all of them. */
const GATE = '.gate.d';
/** The ending of files and folders that are not complete yet. */
const UNFINISHED = '.new';

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
   * Takes a lock and returns the function that releases it; null where another process has it, undefined where another
   * process or thread is at the gate.
   */
  #take(name: string, mode: Mode): (() => void) | null | undefined {
    return attempt(() => {
      mkdirSync(this.#folder, { recursive: true });
      const leave = this.#enter();
      if (!leave) return undefined;
      try {
        const others = this.#held().filter((one) => one.name === name);
        if (others.some((one) => mode === 'exclusive' || one.mode === 'exclusive')) return null;
        const path = join(this.#folder, `${owner()}${LOCK}`);
        this.#put(path, (unfinished) => writeFileSync(unfinished, JSON.stringify({ name, mode })));
        return () => rmSync(path, { force: true });
      } finally {
        leave();
      }
    });
  }

  /** Enters the gate and returns the function that leaves it; null where another process is in it. */
  #enter(): (() => void) | null {
    const gate = join(this.#folder, GATE);
    const me = owner();
    const write = (unfinished: string): void => {
      mkdirSync(unfinished);
      writeFileSync(join(unfinished, me), '');
    };
    // A folder cannot be moved onto one that has a file: of several processes that try, one succeeds.
    if (!this.#put(gate, write, TAKEN)) {
      let users: string[] = [];
      try {
        users = readdirSync(gate);
      } catch {
        // Released meanwhile.
      }
      // Removed by name: the gate of another process, made meanwhile, has another file.
      for (const user of users.filter((user) => !lives(user))) rmSync(join(gate, user), { force: true });
      removeEmpty(gate);
      return null;
    }
    return () => {
      rmSync(join(gate, me), { force: true });
      removeEmpty(gate);
    };
  }

  /** Makes a file or folder atomically; false where moving it to its place fails with one of `taken`. */
  #put(path: string, write: (unfinished: string) => void, taken: string[] = []): boolean {
    const unfinished = join(this.#folder, `${owner()}${UNFINISHED}`);
    let moving = false;
    try {
      write(unfinished);
      moving = true;
      renameSync(unfinished, path);
      return true;
    } catch (error) {
      rmSync(unfinished, { force: true, recursive: true });
      if (moving && taken.includes(codeOf(error))) return false;
      throw error;
    }
  }

  /** Locks of live processes; those of processes that have ended are removed. */
  #held(): Held[] {
    const held: Held[] = [];
    let files: string[];
    try {
      files = readdirSync(this.#folder);
    } catch {
      return [];
    }
    for (const file of files) {
      if (file === GATE) continue;
      const path = join(this.#folder, file);
      // Incomplete files of a killed process are removed too.
      if (!lives(file)) {
        rmSync(path, { force: true, recursive: true });
        continue;
      }
      if (!file.endsWith(LOCK)) continue;
      try {
        held.push(JSON.parse(readFileSync(path, 'utf8')) as Held);
      } catch {
        // Released meanwhile.
      }
    }
    return held;
  }
}

/** Error codes of moving a folder onto one that is not empty, on the various systems. */
const TAKEN = ['ENOTEMPTY', 'EEXIST', 'EPERM', 'EACCES'];

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}

/** Removes a folder if it is empty: another process may have put its file there meanwhile. */
function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!['ENOENT', ...TAKEN].includes(codeOf(error))) throw error;
  }
}

/** A unique name: the process, its start, and a random id of the lock. */
function owner(): string {
  return `${process.pid}-${began(process.pid)}-${randomUUID()}`;
}

/**
 * When a process began, in ticks since the system's start; 0 where the system does not tell. Process ids are reused: in
 * a container the first program always has the same.
 */
function began(pid: number): string {
  try {
    // The 22nd field; the second is a name in brackets, which may have spaces.
    return (
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')[19] ?? '0'
    );
  } catch {
    return '0';
  }
}

/** Whether the process in a file's name lives. */
function lives(name: string): boolean {
  const [pid = Number.NaN, since] = name.split('-').map(Number);
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Another user's process lives as well.
    if (codeOf(error) !== 'EPERM') return false;
  }
  const now = Number(began(pid));
  return !since || now === 0 || now === since;
}
