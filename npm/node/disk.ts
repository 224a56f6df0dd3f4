// The part of a browser's private file system that the engine uses, over a folder of this machine: the store on top of
// it, with its journal, its hashes and its resumption of downloads, is that of a page.
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** A browser's error names for the system's error codes. */
const NAMES: Record<string, string> = {
  ENOENT: 'NotFoundError',
  ENOTDIR: 'NotFoundError',
  ENOTEMPTY: 'InvalidModificationError',
  ENOSPC: 'QuotaExceededError',
  EDQUOT: 'QuotaExceededError',
};

function failed(error: unknown): Error {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const name = NAMES[code];
  return name ? new DOMException(message, name) : (error as Error);
}

/** Runs `work`, and throws the system's errors as those of a browser's storage. */
export function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw failed(error);
  }
}

/** A file, or a part of one, that stays on the disk until it is read. */
export class DiskBlob extends Blob {
  readonly #path: string;
  readonly #from: number;
  readonly #to: number;

  constructor(path: string, from: number, to: number) {
    super([]);
    this.#path = path;
    this.#from = from;
    this.#to = to;
  }

  static async of(path: string): Promise<DiskBlob> {
    return new DiskBlob(path, 0, (await stat(path)).size);
  }

  override get size(): number {
    return this.#to - this.#from;
  }

  override slice(start = 0, end: number = this.size): DiskBlob {
    const at = (offset: number): number =>
      this.#from + Math.min(Math.max(offset < 0 ? this.size + offset : offset, 0), this.size);
    return new DiskBlob(this.#path, at(start), Math.max(at(start), at(end)));
  }

  override async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = new Uint8Array(this.size);
    const file = await open(this.#path);
    try {
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await file.read(bytes, done, bytes.length - done, this.#from + done);
        if (bytesRead === 0) throw new DOMException(`${this.#path} became shorter`, 'NotReadableError');
        done += bytesRead;
      }
    } finally {
      await file.close();
    }
    return bytes.buffer;
  }

  override async text(): Promise<string> {
    return new TextDecoder().decode(await this.arrayBuffer());
  }
}

/** Open files by path: -1 for a writer, else the number of readers. */
const open_ = new Map<string, number>();

class SyncAccessHandle {
  readonly mode: string;
  readonly #path: string;
  #fd: number | null;

  constructor(path: string, mode: string) {
    const users = open_.get(path) ?? 0;
    const reads = mode === 'read-only';
    if (users < 0 || (users > 0 && !reads)) throw new DOMException(`${path} is in use`, 'NoModificationAllowedError');
    this.#fd = attempt(() => openSync(path, reads ? 'r' : 'r+'));
    open_.set(path, reads ? users + 1 : -1);
    this.#path = path;
    this.mode = mode;
  }

  get #open(): number {
    if (this.#fd === null) throw new DOMException('the handle is closed', 'InvalidStateError');
    return this.#fd;
  }

  read(into: Uint8Array, { at = 0 }: { at?: number } = {}): number {
    let done = 0;
    while (done < into.length) {
      const read = attempt(() => readSync(this.#open, into, done, into.length - done, at + done));
      if (read === 0) break;
      done += read;
    }
    return done;
  }

  write(bytes: Uint8Array, { at = 0 }: { at?: number } = {}): number {
    let done = 0;
    while (done < bytes.length)
      done += attempt(() => writeSync(this.#open, bytes, done, bytes.length - done, at + done));
    return done;
  }

  truncate(length: number): void {
    attempt(() => ftruncateSync(this.#open, length));
  }

  getSize(): number {
    return fstatSync(this.#open).size;
  }

  flush(): void {
    attempt(() => fsyncSync(this.#open));
  }

  close(): void {
    if (this.#fd === null) return;
    closeSync(this.#fd);
    this.#fd = null;
    const users = open_.get(this.#path)!;
    if (users > 1) open_.set(this.#path, users - 1);
    else open_.delete(this.#path);
  }
}

export class FileHandle {
  readonly kind = 'file';
  readonly name: string;
  readonly #path: string;

  constructor(path: string, name: string) {
    this.#path = path;
    this.name = name;
  }

  getFile(): Promise<Blob> {
    return DiskBlob.of(this.#path).catch((error) => Promise.reject(failed(error)));
  }

  async createSyncAccessHandle({ mode = 'readwrite' }: { mode?: string } = {}): Promise<SyncAccessHandle> {
    return new SyncAccessHandle(this.#path, mode);
  }

  /** Atomic: the written text replaces the file when it is closed. */
  async createWritable(): Promise<{ write(text: string): Promise<void>; close(): Promise<void> }> {
    const written: string[] = [];
    // Another process or thread may be writing the same file.
    const beside = `${this.#path}.${randomUUID()}.new`;
    return {
      write: async (text) => void written.push(text),
      close: async () =>
        attempt(() => {
          try {
            writeFileSync(beside, written.join(''));
            renameSync(beside, this.#path);
          } catch (error) {
            rmSync(beside, { force: true });
            throw error;
          }
        }),
    };
  }
}

export class DirectoryHandle {
  readonly kind = 'directory';
  readonly name: string;
  readonly #path: string;

  constructor(path: string, name = '') {
    this.#path = path;
    this.name = name;
  }

  /** No name leads out of the folder. */
  #at(name: string): string {
    if (name === '' || name === '.' || name === '..' || /[/\\]/.test(name)) throw new TypeError(`${name}: is no name`);
    return join(this.#path, name);
  }

  async getDirectoryHandle(name: string, { create = false } = {}): Promise<DirectoryHandle> {
    const path = this.#at(name);
    attempt(() => (create ? mkdirSync(path, { recursive: true }) : statSync(path)));
    if (!statSync(path).isDirectory()) throw new DOMException(`${name} is a file`, 'TypeMismatchError');
    return new DirectoryHandle(path, name);
  }

  async getFileHandle(name: string, { create = false } = {}): Promise<FileHandle> {
    const path = this.#at(name);
    attempt(() => (create ? closeSync(openSync(path, 'a')) : statSync(path)));
    if (!statSync(path).isFile()) throw new DOMException(`${name} is a folder`, 'TypeMismatchError');
    return new FileHandle(path, name);
  }

  async removeEntry(name: string, { recursive = false } = {}): Promise<void> {
    const path = this.#at(name);
    for (const used of open_.keys())
      if (used === path || used.startsWith(join(path, '/')))
        throw new DOMException(`${name} is in use`, 'NoModificationAllowedError');
    attempt(() => {
      statSync(path);
      rmSync(path, { recursive });
    });
  }

  async *keys(): AsyncGenerator<string> {
    for (const name of await readdir(this.#path)) yield name;
  }
}

/** `navigator.storage` over a folder. */
export class DiskStorage {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async getDirectory(): Promise<DirectoryHandle> {
    attempt(() => mkdirSync(this.#folder, { recursive: true }));
    return new DirectoryHandle(this.#folder);
  }

  /** The free space as `quota`; `usage` is not needed. */
  async estimate(): Promise<{ quota: number; usage: number }> {
    const { bavail, bsize } = attempt(() => statfsSync(this.#folder));
    return { quota: bavail * bsize, usage: 0 };
  }

  async persisted(): Promise<boolean> {
    return true;
  }

  async persist(): Promise<boolean> {
    return true;
  }
}
