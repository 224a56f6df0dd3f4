// The documents and the vectors of their passages, stored in IndexedDB. Without IndexedDB (private windows, blocked
// storage) they last as long as the page.
import { type DBSchema, type IDBPDatabase, openDB } from 'idb';
import type { Laid, Passage } from './cut.ts';
import type { Kind } from './read.ts';

export interface Paper extends Laid {
  /** SHA-256 of the file, in hexadecimal: equal content is one document, whatever its name. */
  id: string;
  name: string;
  kind: Kind;
  /** The file's size. */
  bytes: number;
  /** Milliseconds since 1970. */
  added: number;
  /** Number of pages; 0 where a document has none. */
  pages: number;
  passages: Passage[];
}

/** The vectors of a document's first passages, or of all once it is embedded whole. */
export interface Vectors {
  document: string;
  /** The model and method of the vectors, without which they cannot be compared. */
  by: string;
  dimensions: number;
  numbers: Float32Array<ArrayBuffer>;
}

interface Schema extends DBSchema {
  documents: { key: string; value: Paper };
  vectors: { key: string; value: Vectors };
}

let database: Promise<IDBPDatabase<Schema> | null> | null = null;
/** Documents and vectors of this page, where there is no IndexedDB. */
const unkept = { documents: new Map<string, Paper>(), vectors: new Map<string, Vectors>() };

function open(): Promise<IDBPDatabase<Schema> | null> {
  database ??= openKept().catch(() => null);
  return database;
}

/** Rejects where there is no IndexedDB, however the browser signals that. */
async function openKept(): Promise<IDBPDatabase<Schema>> {
  return openDB<Schema>('millrace-documents', 1, {
    upgrade(db) {
      db.createObjectStore('documents', { keyPath: 'id' });
      db.createObjectStore('vectors', { keyPath: 'document' });
    },
  });
}

/** Whether documents stay when the page is left. */
export async function keeps(): Promise<boolean> {
  return (await open()) !== null;
}

/** All documents, the latest added first. */
export async function list(): Promise<Paper[]> {
  const db = await open();
  const all = db ? await db.getAll('documents') : [...unkept.documents.values()];
  return all.sort((a, b) => b.added - a.added);
}

/** Stores a document. Rejects where the disk is full. */
export async function keep(paper: Paper): Promise<void> {
  const db = await open();
  if (db) await db.put('documents', paper);
  else unkept.documents.set(paper.id, paper);
}

export async function vectorsOf(document: string): Promise<Vectors | undefined> {
  const db = await open();
  return db ? db.get('vectors', document) : unkept.vectors.get(document);
}

/** Replaces the vectors of a document, unless the document was removed meanwhile. Rejects where the disk is full. */
export async function keepVectors(vectors: Vectors): Promise<void> {
  const db = await open();
  if (!db) {
    if (unkept.documents.has(vectors.document)) unkept.vectors.set(vectors.document, vectors);
    return;
  }
  const work = db.transaction(['documents', 'vectors'], 'readwrite');
  const there = await work.objectStore('documents').getKey(vectors.document);
  await Promise.all([there === undefined ? null : work.objectStore('vectors').put(vectors), work.done]);
}

export async function remove(document: string): Promise<void> {
  const db = await open();
  unkept.documents.delete(document);
  unkept.vectors.delete(document);
  if (!db) return;
  const work = db.transaction(['documents', 'vectors'], 'readwrite');
  await Promise.all([
    work.objectStore('documents').delete(document),
    work.objectStore('vectors').delete(document),
    work.done,
  ]);
}
