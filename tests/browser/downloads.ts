// Shared by the tests of downloads: pages with `models`, the faulty server, and access to the browser's storage.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import type * as Millrace from '../../npm/index.ts';
import type { DownloadOptions, LoadOptions, StoredModel } from '../../npm/index.ts';
import { content, Faulty, sha256, type Logged } from './faulty.ts';
import { bytesOf, expect, openBlank, root, test as base, TINY, type Page, type Site } from './support.ts';

export { expect, type Page, type Site };

/** The tiny model as the faulty server has it, its pieces in the storage, and a model in shards with the same tokens. */
export const FILE = '/model.gguf';
export const MODEL = content(bytesOf(`tests${TINY}`));
export const SHARD = 65_536;
export const PIECES = Math.ceil(MODEL.length / SHARD);
export const MANIFEST = '/shards/manifest.json';
export const FOLDER = '/folder/';
export const SPLIT = '/split/model-00002-of-00003.gguf';

/** How the store names the pieces that it keeps: piece S of file F is `F.S`. Everything else in a model's folder is its journal. */
const PIECE = /\/(\d+)\.(\d+)$/;

/** Options of `Engine.load` for the model of a URL. */
export type ModelOptions = Omit<LoadOptions, 'model' | 'draft' | 'tokenizer'> & { model: string };

/** A file in the page's private storage. */
export interface Stored {
  path: string;
  bytes: number;
}

export type Damage = 'flip' | 'half' | 'empty' | 'garbage' | 'append' | 'remove';

interface InPage {
  walk: () => Promise<Stored[]>;
  damage: (path: string, how: Damage) => Promise<void>;
  /** Paths of the files that hold these bytes. */
  find: (text: string) => Promise<string[]>;
  sha256: (blob: Blob) => Promise<string>;
}

declare global {
  /** The page's private storage, and hashes. */
  var storage: InPage;
  /** The notes of the page's downloads about their waits so far. */
  var waitedFor: Set<string> | undefined;
  var DownloadControl: typeof Millrace.DownloadControl;
}

const SCRIPT = `
  import * as millrace from '/pkg/index.js';
  const root = () => navigator.storage.getDirectory();
  const walk = async (folder, prefix = '') => {
    const found = [];
    for await (const [name, handle] of folder.entries()) {
      if (handle.kind === 'directory') found.push(...await walk(handle, prefix + name + '/'));
      else found.push({ path: prefix + name, bytes: (await handle.getFile()).size });
    }
    return found;
  };
  const open = async (path) => {
    const names = path.split('/');
    let folder = await root();
    for (const name of names.slice(0, -1)) folder = await folder.getDirectoryHandle(name);
    return { folder, name: names.at(-1), file: await folder.getFileHandle(names.at(-1)) };
  };
  const damage = async (path, how) => {
    const { folder, name, file } = await open(path);
    if (how === 'remove') return folder.removeEntry(name);
    const bytes = new Uint8Array(await (await file.getFile()).arrayBuffer());
    const garbage = Uint8Array.from({ length: bytes.length }, (_, i) => (i * 37 + 11) & 255);
    const flipped = bytes.map((byte, i) => i === bytes.length >> 1 ? byte ^ 1 : byte);
    const half = bytes.slice(0, bytes.length >> 1);
    const longer = new Uint8Array([...bytes, 123, 34, 0, 255, 10]);
    const writable = await file.createWritable();
    await writable.write({ flip: flipped, half, empty: new Uint8Array(), garbage, append: longer }[how]);
    await writable.close();
  };
  const find = async (text) => {
    const hits = [];
    for (const { path } of await walk(await root())) {
      const content = new TextDecoder('latin1').decode(await (await (await open(path)).file.getFile()).arrayBuffer());
      if (content.includes(text)) hits.push(path);
    }
    return hits;
  };
  const sha256 = async (blob) => Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer())), (byte) => byte.toString(16).padStart(2, '0')).join('');
  const storage = { walk: async () => walk(await root()), damage, find, sha256 };
  Object.assign(globalThis, { models: millrace.models, DownloadControl: millrace.DownloadControl, storage, waitedFor: new Set() });
  globalThis.prepared = true;
`;

/** Opens a page that has the package, `models` and `storage`. */
export async function openPage(page: Page, site: Site): Promise<Page> {
  await openBlank(page, site);
  await page.addScriptTag({ type: 'module', content: SCRIPT });
  await page.waitForFunction(() => 'prepared' in globalThis);
  return page;
}

/** Runs this JavaScript in every Worker before the package's own. */
export function before(site: Site, script: string): void {
  const worker = readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, 'worker.js'), 'utf8');
  site.routes.set(
    '/pkg/worker.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(`${script};\n${worker}`),
  );
}

/**
 * Makes the Worker's timers run faster. Where the engine waits otherwise than by `setTimeout`, tests only take longer.
 */
export function hurry(site: Site, times: number): void {
  before(
    site,
    `{ const later = self.setTimeout; self.setTimeout = (work, ms, ...rest) => later.call(self, work, ms / ${times}, ...rest); }`,
  );
}

export const test = base.extend<
  { faulty: Faulty; tab: Page },
  { server: Faulty; greedy: number[]; shared: (times: number) => Promise<Page> }
>({
  server: [
    async ({}, use) => {
      const faulty = await Faulty.start();
      faulty.put(FILE, MODEL);
      faulty.mount('/shards/', join(root, 'tests', 'data', 'shards'));
      faulty.mount(FOLDER, join(root, 'tests', 'data', 'oracle', 'hf-sharded', 'model'));
      faulty.mount('/split/', join(root, 'tests', 'data', 'oracle', 'gguf-split'));
      await use(faulty);
      await faulty.close();
    },
    { scope: 'worker' },
  ],
  /** The server, healed. No test may see a conditional range: its preflight is one that servers refuse. */
  faulty: async ({ server }, use) => {
    server.heal();
    await use(server);
    expect(server.log.filter(({ headers }) => 'if-range' in headers)).toEqual([]);
    server.heal();
  },
  /** A page of a fresh browser context, with nothing stored. */
  tab: async ({ page, site }, use) => {
    await use(await openPage(page, site));
  },
  /** Pages that many cases share, each of its own URL, by how much faster their engine's clock runs. A test that fails ends them. */
  shared: [
    async ({ browser, site }, use) => {
      const pages = new Map<number, Promise<Page>>();
      const open = async (): Promise<Page> => openPage(await (await browser.newContext()).newPage(), site);
      await use((times) => {
        hurry(site, times);
        if (!pages.has(times)) pages.set(times, open());
        return pages.get(times)!;
      });
      for (const page of pages.values()) await (await page).context().close();
    },
    { scope: 'worker' },
  ],
  /** The tiny model's answer without faults. */
  greedy: [
    async ({ browser, site }, use) => {
      const context = await browser.newContext();
      const page = await openPage(await context.newPage(), site);
      const { tokens } = await answer(page, { model: TINY });
      await context.close();
      await use(tokens!);
    },
    { scope: 'worker', timeout: 300_000 },
  ],
});

export type Problem = {
  code: string;
  name: string;
  message: string;
  ours: boolean;
  data: Record<string, unknown>;
} | null;

/** Options that can cross into the page. */
export type Plain<T> = Omit<T, 'onProgress' | 'signal' | 'fetch' | 'download'>;

/** The result of a download. */
export interface Downloaded {
  error: Problem;
  stored: StoredModel | null;
  /** The notes about its waits, and the largest `loaded`. */
  notes: string[];
  loaded: number;
  /** Whether the progress went back, as it does where a file starts over. */
  back: boolean;
}

/** Downloads in the page; aborts once `abortAt` bytes have come. */
export function download(
  page: Page,
  url: string,
  options: Plain<DownloadOptions> = {},
  abortAt = Infinity,
): Promise<Downloaded> {
  return page.evaluate(
    async ({ url, options, abortAt }) => {
      const controller = new AbortController();
      const result: Downloaded = { error: null, stored: null, notes: [], loaded: 0, back: false };
      const onProgress: DownloadOptions['onProgress'] = ({ loaded, note }) => {
        if (note && !result.notes.includes(note)) result.notes.push(note);
        if (note) globalThis.waitedFor?.add(note);
        result.back ||= loaded < result.loaded;
        result.loaded = Math.max(result.loaded, loaded);
        if (loaded >= (abortAt ?? Infinity)) controller.abort();
      };
      const work = models.download(url, { shardBytes: 65_536, ...options, onProgress, signal: controller.signal });
      result.error = await failure(work.then((stored) => (result.stored = stored)));
      return result;
    },
    { url, options, abortAt: Number.isFinite(abortAt) ? abortAt : null },
  );
}

/** Names, lengths and hashes of a stored model's files. */
export function exported(page: Page, url: string): Promise<{ name: string; bytes: number; sha256: string }[]> {
  return page.evaluate(async (url) => {
    const files = await models.export(url);
    return Promise.all(
      files.map(async (file) => ({ name: file.name, bytes: file.size, sha256: await storage.sha256(file) })),
    );
  }, url);
}

/** Expects that a URL of one file is stored whole and right. */
export async function expectWhole(page: Page, url: string, file = MODEL): Promise<void> {
  const entry = (await page.evaluate(() => models.list())).find((one) => one.url === url);
  expect(entry).toMatchObject({ bytes: file.length, total: file.length, complete: true });
  expect(await exported(page, url)).toMatchObject([{ bytes: file.length, sha256: sha256(file) }]);
}

/** Loads a model and lets it answer. */
export function answer(
  page: Page,
  options: Plain<ModelOptions>,
): Promise<{
  error: Problem;
  tokens: number[] | null;
  cached: boolean | null;
  kind: string | null;
  reason: string | null;
}> {
  return page.evaluate(async (options) => {
    const result = {
      tokens: null as number[] | null,
      cached: null as boolean | null,
      kind: null as string | null,
      reason: null as string | null,
    };
    const load: Plain<ModelOptions> = { lane: 'exact', ...options };
    const error = await failure(
      Engine.load(load).then(async (engine) => {
        const { tokens } = await engine.generate(
          { tokens: [57, 56, 78] },
          { maxTokens: 8, temperature: 0, ignoreEos: true },
        );
        const { kind, cached, reason } = engine.info.storage;
        engine.dispose();
        Object.assign(result, { tokens: Array.from(tokens), kind, cached, reason: reason ?? null });
      }),
    );
    return { error, ...result };
  }, options);
}

/** The pieces of a model in the storage, in order, and its journals. */
export async function storedFiles(
  page: Page,
): Promise<{ pieces: (Stored & { file: number; shard: number })[]; journals: Stored[] }> {
  const all = (await page.evaluate(() => storage.walk())).filter(({ path }) => path.startsWith('millrace/'));
  const pieces = all.flatMap((one) => {
    const [, file, shard] = PIECE.exec(one.path) ?? [];
    return shard === undefined ? [] : [{ ...one, file: Number(file), shard: Number(shard) }];
  });
  pieces.sort((a, b) => a.file - b.file || a.shard - b.shard);
  return { pieces, journals: all.filter(({ path }) => !PIECE.test(path)) };
}

/** Damages a stored file, as soon as it is not locked any more. */
export async function damage(page: Page, path: string, how: Damage): Promise<void> {
  await expect(async () => page.evaluate(({ path, how }) => storage.damage(path, how), { path, how })).toPass({
    timeout: 10_000,
  });
}

/**
 * Numbers of the pieces of `shard` bytes that were requested, without the request of the file's beginning by which a
 * resumed download may learn the length and the ETag.
 */
export function piecesAsked(log: Logged[], shard = SHARD): number[] {
  const asked = log.filter(({ from, to }) => from !== null && !(from === 0 && (to === null || to === 0)));
  return [...new Set(asked.map(({ from }) => Math.floor(from! / shard)))].sort((a, b) => a - b);
}
