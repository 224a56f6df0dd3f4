// The conversations, stored in IndexedDB. Without IndexedDB (private windows, blocked storage) they last as long as the
// page.
import type { CompiledGrammar, GenerateResult, Message } from 'millrace';
import { download } from '../shared/dom.ts';
import type { Shown } from './thumbnail.ts';
import { type DBSchema, type IDBPDatabase, openDB } from 'idb';

/** A message as it is shown and stored. */
export interface Said {
  role: 'user' | 'assistant';
  content: string;
  /** Pictures before a question's text. */
  pictures?: Shown[];
  /** The model's thoughts before the answer. */
  reasoning?: string;
  /** The model's calls of tools before the answer, and their results. */
  steps?: Message[];
  /** Whether the answer was forced to be JSON. */
  json?: boolean;
  /** The answer's figures. */
  figures?: Figures;
}

export interface Figures {
  model: string;
  tokens: number;
  prompt_tokens: number;
  decode_tok_s: number;
  ttft_ms: number;
  /** Verified and accepted drafts; absent in older answers. */
  drafted?: number;
  accepted?: number;
  finish_reason: GenerateResult['finish_reason'] | 'rounds';
  /** The grammar of a constrained answer. */
  grammar?: CompiledGrammar;
}

export interface Conversation {
  id: string;
  title: string;
  /** Milliseconds since 1970. */
  created: number;
  updated: number;
  messages: Said[];
}

interface Schema extends DBSchema {
  conversations: { key: string; value: Conversation };
}

const TITLE = 60;

let database: Promise<IDBPDatabase<Schema> | null> | null = null;
/** Conversations of this page, where there is no IndexedDB. */
const unkept = new Map<string, Conversation>();

function open(): Promise<IDBPDatabase<Schema> | null> {
  database ??= openDB<Schema>('millrace-chat', 1, {
    upgrade: (db) => void db.createObjectStore('conversations', { keyPath: 'id' }),
  }).catch(() => null);
  return database;
}

export function fresh(): Conversation {
  const now = Date.now();
  // Pages that are not on a secure origin have no randomUUID; they have no WebGPU either, and say so.
  return { id: crypto.randomUUID?.() ?? String(now), title: 'New chat', created: now, updated: now, messages: [] };
}

/** All conversations, the latest used first. */
export async function list(): Promise<Conversation[]> {
  const db = await open();
  const all = db ? await db.getAll('conversations').catch(() => []) : [...unkept.values()];
  return all.sort((a, b) => b.updated - a.updated);
}

export async function read(id: string): Promise<Conversation | undefined> {
  const db = await open();
  return db ? db.get('conversations', id).catch(() => undefined) : unkept.get(id);
}

/** Stores a conversation, unless it is empty. */
export async function keep(conversation: Conversation): Promise<void> {
  if (conversation.messages.length === 0) return;
  const db = await open();
  if (!db) unkept.set(conversation.id, conversation);
  // A full disk must not end the conversation, which stays on the screen.
  else
    await db
      .put('conversations', conversation)
      .catch((error: unknown) => console.warn('the conversation could not be kept:', error));
}

export async function remove(id: string): Promise<void> {
  const db = await open();
  unkept.delete(id);
  await db?.delete('conversations', id);
}

export async function removeAll(): Promise<void> {
  const db = await open();
  unkept.clear();
  await db?.clear('conversations');
}

/** The beginning of the first question. */
export function titleOf(text: string): string {
  const line = text.trim().split('\n')[0]!.trim();
  return line.length > TITLE ? `${line.slice(0, TITLE - 1).trimEnd()}…` : line || 'New chat';
}

/** A conversation in Markdown, for export. */
export function toMarkdown({ title, created, messages }: Conversation): string {
  const parts = messages.map(({ role, content, pictures = [], reasoning, json, steps = [], figures }) => {
    const called = steps.flatMap(({ tool_calls: calls = [], role, name, content }) => [
      ...calls.map(({ function: { name, arguments: args } }) => `> \`${name}(${args})\`\n\n`),
      ...(role === 'tool' ? [`> ${name}: ${(content ?? '').replaceAll('\n', '\n> ')}\n\n`] : []),
    ]);
    const who = role === 'user' ? '**You**' : `**${figures?.model ?? 'Millrace'}**`;
    const thought = reasoning ? `> ${reasoning.trim().replaceAll('\n', '\n> ')}\n\n` : '';
    const said = json ? `\`\`\`json\n${content.trim()}\n\`\`\`` : content.trim();
    const shown = pictures.map(({ name }) => `> picture: ${name}\n\n`).join('');
    return `${who}\n\n${shown}${called.join('')}${thought}${said}\n`;
  });
  return `# ${title}\n\n${new Date(created).toISOString().slice(0, 10)}\n\n${parts.join('\n')}`;
}

/** Saves a file by the browser's download, with a title as its name. */
export function save(title: string, extension: string, type: string, text: string): void {
  const name = title.replace(/[^\p{L}\p{N}._ -]+/gu, '').trim() || 'conversation';
  download(`${name}.${extension}`, new Blob([text], { type }));
}
