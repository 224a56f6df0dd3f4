// Resumption of downloads: after pauses, aborts, closed pages, damaged storage; and the operations of `models` on
// stored ones.
import {
  answer,
  before,
  damage,
  download,
  expect,
  expectWhole,
  exported,
  FILE,
  MANIFEST,
  MODEL,
  openPage,
  PIECES,
  piecesAsked,
  SHARD,
  storedFiles,
  test,
  type Damage,
} from './downloads.ts';
import { generated, sha256 } from './faulty.ts';
import { LONG } from './support.ts';

const MB = 1 << 20;
/** A file that takes a second, and its pieces. */
const LARGE = '/large.bin';
const LONG_FILE = generated(20, 16 * MB);
/** Another that has nothing to do with it. */
const OTHER = '/other.bin';

test.describe('a download that is interrupted', () => {
  test('pause holds everything, resume goes on', async ({ tab, faulty }) => {
    faulty.put(LARGE, LONG_FILE);
    faulty.put(OTHER, generated(21, 4 * MB));
    faulty.throttle.rate = 16 * MB;
    const url = `${faulty.url}${LARGE}`;
    const result = await tab.evaluate(
      async ([url, other]) => {
        const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));
        const control = new DownloadControl();
        let loaded = 0;
        let settled = false;
        const states = [control.paused];
        const work = models.download(url!, {
          shardBytes: 1 << 20,
          download: control,
          onProgress: (progress) => (loaded = progress.loaded),
        });
        void work.finally(() => (settled = true)).catch(() => {});
        while (loaded < 3 << 20) await sleep(5);
        control.pause();
        states.push(control.paused);
        // Pieces in flight arrive while another model is fetched; none arrive while it is fetched once more.
        await models.download(other!, { shardBytes: 1 << 20 });
        const before = loaded;
        await models.remove(other!);
        await models.download(other!, { shardBytes: 1 << 20 });
        const held = loaded === before && !settled;
        control.resume();
        states.push(control.paused);
        return { held, before, states, complete: (await work).complete };
      },
      [url, `${faulty.url}${OTHER}`],
    );
    expect(result).toMatchObject({ held: true, states: [false, true, false], complete: true });
    expect(result.before).toBeLessThan(LONG_FILE.length);
    await expectWhole(tab, url, LONG_FILE);
  });

  test('paused before it begins: nothing is asked for', async ({ tab, faulty }) => {
    faulty.put(OTHER, generated(21, 4 * MB));
    const url = `${faulty.url}${FILE}`;
    await tab.evaluate(
      async ([url, other]) => {
        const control = new DownloadControl();
        control.pause();
        const work = models.download(url!, { shardBytes: 65_536, download: control });
        // Other downloads run meanwhile.
        await models.download(other!, { shardBytes: 65_536 });
        Object.assign(globalThis, { control, work });
      },
      [url, `${faulty.url}${OTHER}`],
    );
    expect(faulty.log.filter(({ path }) => path !== OTHER)).toEqual([]);
    await tab.evaluate(async () => {
      const { control, work } = globalThis as unknown as { control: { resume(): void }; work: Promise<unknown> };
      control.resume();
      await work;
    });
    await expectWhole(tab, url);
  });

  test('a paused download can be aborted', async ({ tab, faulty }) => {
    faulty.break(FILE, () => ({ rate: 50_000 }));
    const error = await tab.evaluate(async (model) => {
      const control = new DownloadControl();
      const controller = new AbortController();
      const work = failure(
        models.download(model, { shardBytes: 65_536, download: control, signal: controller.signal }),
      );
      control.pause();
      // The Worker answers in order: the download has begun and been paused by then.
      await models.list();
      controller.abort();
      return work;
    }, `${faulty.url}${FILE}`);
    expect(error).toMatchObject({ code: 'ABORTED', name: 'AbortError' });
  });

  for (const connections of [1, 4]) {
    test(`aborted with ${connections} connections: the next asks only for what is missing`, async ({ tab, faulty }) => {
      faulty.put(LARGE, LONG_FILE);
      faulty.throttle.rate = 16 * MB;
      const url = `${faulty.url}${LARGE}`;
      const options = { shardBytes: MB, connections };
      expect((await download(tab, url, options, 8 * MB)).error).toMatchObject({ code: 'ABORTED' });
      let kept = 0;
      await expect(async () => {
        const [model] = await tab.evaluate(() => models.list());
        expect(model).toMatchObject({ url, complete: false, total: LONG_FILE.length });
        kept = model!.bytes;
        // The bytes of an incomplete piece are kept too.
        expect(kept).toBeGreaterThanOrEqual(8 * MB - 64_000);
      }).toPass({ timeout: 5000 });
      const { pieces } = await storedFiles(tab);
      const whole = pieces.filter(({ bytes }) => bytes === MB).map(({ shard }) => shard);
      faulty.log.length = 0;
      const { error, loaded, back } = await download(tab, url, options);
      expect({ error, loaded, back }).toEqual({ error: null, loaded: LONG_FILE.length, back: false });
      const asked = piecesAsked(faulty.of(LARGE), MB);
      expect(asked.filter((shard) => whole.includes(shard))).toEqual([]);
      expect(faulty.sent).toBe(LONG_FILE.length - kept);
      await expectWhole(tab, url, LONG_FILE);
    });
  }

  test('aborted without ranges: it begins anew and ends whole', async ({ tab, faulty }) => {
    faulty.break(FILE, ({ n }) => ({ ranges: false, rate: n === 0 ? 300_000 : Infinity }));
    const url = `${faulty.url}${FILE}`;
    expect((await download(tab, url, {}, 200_000)).error).toMatchObject({ code: 'ABORTED' });
    expect(await download(tab, url)).toMatchObject({ error: null });
    await expectWhole(tab, url);
  });

  test('Engine.load goes on from an aborted download, and from storage alone after it', async ({
    tab,
    faulty,
    greedy,
  }) => {
    const model = `${faulty.url}${FILE}`;
    faulty.break(FILE, () => ({ rate: 100_000 }));
    expect((await download(tab, model, {}, 4 * SHARD)).error).toMatchObject({ code: 'ABORTED' });
    // Each of several connections leaves a piece that is begun: those are asked for as well, the whole ones never.
    let whole: number[] = [];
    await expect(async () => {
      const { pieces } = await storedFiles(tab);
      whole = pieces.filter(({ bytes }) => bytes === SHARD).map(({ shard }) => shard);
      expect(whole).not.toEqual([]);
    }).toPass({ timeout: 5000 });
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD })).toMatchObject({
      error: null,
      tokens: greedy,
      cached: false,
    });
    expect(piecesAsked(faulty.of(FILE)).filter((shard) => whole.includes(shard))).toEqual([]);
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD })).toMatchObject({
      error: null,
      tokens: greedy,
      cached: true,
    });
    expect(faulty.log).toEqual([]);
  });

  test('other options at the next attempt: pieces of another size', async ({ tab, faulty }) => {
    faulty.break(FILE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${FILE}`;
    expect((await download(tab, url, {}, 3 * SHARD)).error).toMatchObject({ code: 'ABORTED' });
    faulty.heal();
    expect(await download(tab, url, { shardBytes: 2 * SHARD, connections: 2 })).toMatchObject({ error: null });
    await expectWhole(tab, url);
  });

  /** Closes the page during a download, without an abort. */
  async function closed(tab: Parameters<typeof download>[0], url: string): Promise<void> {
    await tab.evaluate((url) => {
      const seen = new Promise<void>(
        (done) =>
          void models
            .download(url, { shardBytes: 65_536, onProgress: ({ loaded }) => loaded >= 4 * 65_536 && done() })
            .catch(() => {}),
      );
      return seen;
    }, url);
    await tab.close();
  }

  test('the page is closed: a new one goes on', async ({ tab, site, faulty, context }) => {
    faulty.break(FILE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${FILE}`;
    await closed(tab, url);
    faulty.heal();
    const page = await openPage(await context.newPage(), site);
    expect(await download(page, url)).toMatchObject({ error: null });
    expect(piecesAsked(faulty.of(FILE)).length).toBeLessThan(PIECES);
    await expectWhole(page, url);
  });

  test('the page is closed and a kept piece is damaged: it is noticed and fetched again', async ({
    tab,
    site,
    faulty,
    context,
  }) => {
    faulty.break(FILE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${FILE}`;
    await closed(tab, url);
    faulty.heal();
    const page = await openPage(await context.newPage(), site);
    const { pieces } = await storedFiles(page);
    expect(pieces.length).toBeGreaterThan(0);
    await damage(page, pieces[0]!.path, 'flip');
    expect(await download(page, url)).toMatchObject({ error: null });
    await expectWhole(page, url);
  });

  test('the page is closed and the file changes: nothing of before remains', async ({ tab, site, faulty, context }) => {
    faulty.put(LARGE, generated(21, 9 * SHARD));
    faulty.break(LARGE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${LARGE}`;
    await closed(tab, url);
    faulty.heal();
    const changed = generated(22, 9 * SHARD);
    faulty.put(LARGE, changed);
    const page = await openPage(await context.newPage(), site);
    expect(await download(page, url)).toMatchObject({ error: null });
    await expectWhole(page, url, changed);
  });

  for (const how of ['half', 'empty', 'garbage', 'append', 'remove'] satisfies Damage[]) {
    test(`its journal suffers (${how}): the download still ends right`, async ({ tab, faulty }) => {
      faulty.break(FILE, () => ({ rate: 100_000 }));
      const url = `${faulty.url}${FILE}`;
      expect((await download(tab, url, {}, 5 * SHARD)).error).toMatchObject({ code: 'ABORTED' });
      faulty.heal();
      const { journals } = await storedFiles(tab);
      expect(journals.length).toBeGreaterThan(0);
      for (const { path } of journals) await damage(tab, path, how);
      expect(await download(tab, url)).toMatchObject({ error: null, stored: { complete: true } });
      await expectWhole(tab, url);
    });
  }
});

test.describe('a stored model that is damaged', () => {
  test('verify: true finds the piece and fetches it alone', async ({ tab, faulty, greedy }) => {
    const model = `${faulty.url}${FILE}`;
    await download(tab, model);
    const { pieces } = await storedFiles(tab);
    expect(pieces).toHaveLength(PIECES);
    await damage(tab, pieces[3]!.path, 'flip');
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD, verify: true })).toMatchObject({
      error: null,
      tokens: greedy,
    });
    expect(piecesAsked(faulty.of(FILE))).toEqual([3]);
    await expectWhole(tab, model);
  });

  // A GPU in software takes ten seconds for each: the others run with the long tests.
  for (const how of ['remove', ...(LONG ? (['half', 'empty'] as const) : [])] satisfies Damage[]) {
    test(`a piece is gone or shorter (${how}): the next load fetches it alone, without being asked to verify`, async ({
      tab,
      faulty,
      greedy,
    }) => {
      const model = `${faulty.url}${FILE}`;
      await download(tab, model);
      await damage(tab, (await storedFiles(tab)).pieces[5]!.path, how);
      faulty.heal();
      expect(await answer(tab, { model, shardBytes: SHARD })).toMatchObject({ error: null, tokens: greedy });
      expect(piecesAsked(faulty.of(FILE))).toEqual([5]);
      await expectWhole(tab, model);
    });
  }

  test('a shard of a manifest is damaged: verify: true fetches that file alone', async ({ tab, faulty, greedy }) => {
    const model = `${faulty.url}${MANIFEST}`;
    await download(tab, model);
    const large = (await storedFiles(tab)).pieces.filter(
      ({ bytes }) => bytes === faulty.file('/shards/shard-00005-of-00010.bin')!.length,
    );
    expect(large.length).toBeGreaterThan(0);
    await damage(tab, large[0]!.path, 'flip');
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD, verify: true })).toMatchObject({
      error: null,
      tokens: greedy,
    });
    // Apart from that, one request checks whether the manifest has changed.
    expect(faulty.log.filter(({ path }) => path === MANIFEST).map(({ sent }) => sent)).toEqual([1]);
    expect(faulty.log.filter(({ path }) => path !== MANIFEST).map(({ path }) => path)).toEqual([
      expect.stringMatching(/shard-\d+-of-00010\.bin$/),
    ]);
  });

  test('what says that a model is whole is damaged: it is whole again after the next download', async ({
    tab,
    faulty,
  }) => {
    const url = `${faulty.url}${FILE}`;
    for (const how of ['half', 'garbage', 'remove'] satisfies Damage[]) {
      await download(tab, url);
      for (const { path } of (await storedFiles(tab)).journals) await damage(tab, path, how);
      expect(await download(tab, url)).toMatchObject({ error: null });
      await expectWhole(tab, url);
    }
  });

  test('models.verify names the bad pieces and forgets them', async ({ tab, faulty }) => {
    const url = `${faulty.url}${FILE}`;
    await download(tab, url);
    expect(await tab.evaluate((url) => models.verify(url), url)).toEqual({ bytes: MODEL.length, bad: [] });
    const { pieces } = await storedFiles(tab);
    await damage(tab, pieces[1]!.path, 'flip');
    await damage(tab, pieces[8]!.path, 'garbage');
    faulty.heal();
    const { bad, seen } = await tab.evaluate(async (url) => {
      let seen = 0;
      const { bad } = await models.verify(url, { onProgress: ({ loaded }) => (seen = loaded) });
      return { bad, seen };
    }, url);
    expect(bad).toEqual([
      { file: 'model.gguf', shard: 1 },
      { file: 'model.gguf', shard: 8 },
    ]);
    expect(seen).toBe(MODEL.length);
    expect(faulty.log).toEqual([]);
    const last = MODEL.length - 8 * SHARD;
    expect((await tab.evaluate(() => models.list()))[0]).toMatchObject({
      complete: false,
      bytes: MODEL.length - SHARD - last,
    });
    expect(await download(tab, url)).toMatchObject({ error: null });
    expect(piecesAsked(faulty.of(FILE))).toEqual([1, 8]);
    await expectWhole(tab, url);
  });
});

test.describe('what is stored', () => {
  test('list, usage, remove', async ({ tab, faulty }) => {
    expect(await tab.evaluate(() => models.list())).toEqual([]);
    const urls = [`${faulty.url}${FILE}`, `${faulty.url}${MANIFEST}`];
    const began = Date.now();
    for (const url of urls) await download(tab, url);
    const list = await tab.evaluate(() => models.list());
    expect(list.map(({ url, complete }) => ({ url, complete })).sort((a, b) => (a.url < b.url ? -1 : 1))).toEqual(
      urls.map((url) => ({ url, complete: true })).sort((a, b) => (a.url < b.url ? -1 : 1)),
    );
    for (const { bytes, total, files, created } of list) {
      expect(total).toBe(bytes);
      expect(files.reduce((sum, file) => sum + file.bytes, 0)).toBe(bytes);
      expect(created).toBeGreaterThanOrEqual(began - 2000);
      expect(created).toBeLessThanOrEqual(Date.now() + 2000);
    }
    const usage = await tab.evaluate(() => models.usage());
    expect(usage.used).toBeGreaterThanOrEqual(list.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(typeof usage.persistent).toBe('boolean');
    await tab.evaluate((url) => models.remove(url), urls[0]!);
    expect((await tab.evaluate(() => models.list())).map(({ url }) => url)).toEqual([urls[1]]);
    await tab.evaluate((url) => models.remove(url), urls[1]!);
    expect(await tab.evaluate(() => models.list())).toEqual([]);
    expect((await storedFiles(tab)).pieces).toEqual([]);
    // Removing a missing model succeeds.
    await tab.evaluate((url) => models.remove(url), urls[0]!);
  });

  test('export and import: a model that never needs its server', async ({ tab, faulty, greedy }) => {
    const model = `${faulty.url}${FILE}`;
    await download(tab, model);
    expect(await exported(tab, model)).toEqual([{ name: 'model.gguf', bytes: MODEL.length, sha256: sha256(MODEL) }]);
    const stored = await tab.evaluate(async (url) => {
      const files = await models.export(url);
      // The files are copied before their source is removed.
      const copies = await Promise.all(files.map(async (file) => new File([await file.arrayBuffer()], file.name)));
      await models.remove(url);
      return models.import(url, copies);
    }, model);
    expect(stored).toMatchObject({ url: model, complete: true, bytes: MODEL.length });
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD })).toMatchObject({
      error: null,
      tokens: greedy,
      cached: true,
    });
    expect(faulty.log).toEqual([]);
  });

  test('import checks the hashes of a manifest', async ({ tab, faulty }) => {
    const url = `${faulty.url}${MANIFEST}`;
    await download(tab, url);
    const outcome = await tab.evaluate(async (url) => {
      const files = await models.export(url);
      const copies = await Promise.all(
        files.map(async (file) => {
          const bytes = new Uint8Array(await file.arrayBuffer());
          if (file.name === 'shard-00002-of-00010.bin') bytes[500]! ^= 1;
          return new File([bytes], file.name);
        }),
      );
      await models.remove(url);
      return {
        names: files.map(({ name }) => name),
        error: await failure(models.import(url, copies)),
        list: await models.list(),
      };
    }, url);
    expect(outcome.names).toEqual(
      expect.arrayContaining(['manifest.json', 'tokenizer.json', 'shard-00010-of-00010.bin']),
    );
    expect(outcome.error).toMatchObject({
      code: 'BAD_MODEL',
      message: expect.stringContaining('shard-00002-of-00010.bin'),
    });
    expect(outcome.list.filter(({ complete }) => complete)).toEqual([]);
  });

  test('nothing can be exported or verified that is not there', async ({ tab, faulty }) => {
    const url = `${faulty.url}/never.gguf`;
    for (const name of ['export', 'verify'] as const) {
      expect(await tab.evaluate(({ url, name }) => failure(models[name](url)), { url, name })).toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringContaining(url),
      });
    }
    expect(faulty.log).toEqual([]);
  });

  test('options out of range', async ({ tab, faulty }) => {
    const url = `${faulty.url}${FILE}`;
    for (const options of [
      { connections: 0 },
      { connections: 17 },
      { shardBytes: 65_535 },
      { shardBytes: 67_108_865 },
      { conections: 4 },
    ]) {
      expect((await download(tab, url, options)).error).toMatchObject({ code: 'BAD_OPTION' });
    }
    expect(faulty.log).toEqual([]);
  });
});

test.describe('who fetches', () => {
  test('two pages, one download', async ({ tab, site, faulty, context }) => {
    faulty.put(LARGE, generated(23, 9 * SHARD));
    faulty.break(LARGE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${LARGE}`;
    const second = await openPage(await context.newPage(), site);
    const results = await Promise.all([download(tab, url), download(second, url)]);
    for (const { error, stored } of results)
      expect({ error, complete: stored?.complete }).toEqual({ error: null, complete: true });
    const froms = faulty.of(LARGE).map(({ from }) => from);
    expect(new Set(froms).size).toBe(froms.length);
    expect(froms).toHaveLength(9);
    expect(results.flatMap(({ notes }) => notes).join()).toMatch(/another tab/);
    await expectWhole(second, url, generated(23, 9 * SHARD));
  });

  test('the page that downloads is closed: the one that waits takes over', async ({ tab, site, faulty, context }) => {
    faulty.put(LARGE, generated(24, 9 * SHARD));
    faulty.break(LARGE, () => ({ rate: 100_000 }));
    const url = `${faulty.url}${LARGE}`;
    const waiting = await openPage(await context.newPage(), site);
    await tab.evaluate(
      (url) =>
        new Promise<void>(
          (done) =>
            void models
              .download(url, { shardBytes: 65_536, onProgress: ({ loaded }) => loaded > 0 && done() })
              .catch(() => {}),
        ),
      url,
    );
    const result = download(waiting, url);
    await expect
      .poll(() => waiting.evaluate(() => [...waitedFor!]))
      .toContainEqual(expect.stringMatching(/another tab/));
    await tab.close();
    expect(await result).toMatchObject({ error: null, stored: { complete: true } });
    await expectWhole(waiting, url, generated(24, 9 * SHARD));
  });

  test('a token goes to the model’s own origin only and is not kept', async ({ tab, faulty }) => {
    const token = 'hf_secret0123456789';
    const url = `${faulty.url}/private.gguf`;
    // As large hosts do: the address checks the token and redirects to storage on another origin.
    faulty.break('/private.gguf', () => ({ authorization: `Bearer ${token}`, redirect: `${faulty.other}${FILE}` }));
    expect((await download(tab, url)).error).toMatchObject({
      code: 'NETWORK',
      message: expect.stringMatching(/token/i),
    });
    faulty.log.length = 0;
    const result = await download(tab, url, { token });
    expect(result).toMatchObject({ error: null, stored: { complete: true } });
    for (const { origin, headers } of faulty.log)
      expect(headers.authorization).toBe(origin === 'main' ? `Bearer ${token}` : undefined);
    expect(new Set(faulty.log.map(({ origin }) => origin))).toEqual(new Set(['main', 'other']));
    expect(await tab.evaluate((token) => storage.find(token), token)).toEqual([]);
    expect(JSON.stringify(result)).not.toContain(token);
    await expectWhole(tab, url);
  });

  test('a wrong token is not in the message', async ({ tab, faulty }) => {
    faulty.break(FILE, () => ({ authorization: 'Bearer right' }));
    const { error } = await download(tab, `${faulty.url}${FILE}`, { token: 'hf_wrong0123456789' });
    expect(error).toMatchObject({ code: 'NETWORK', message: expect.stringMatching(/401/) });
    expect(JSON.stringify(error)).not.toContain('hf_wrong0123456789');
  });

  test('a fetch of the page’s own', async ({ tab, faulty }) => {
    const url = 'https://models.example/private/model.gguf';
    const calls = await tab.evaluate(
      async ({ url, real }) => {
        const calls: { url: string; range: string | undefined; signal: boolean }[] = [];
        await models.download(url, {
          shardBytes: 65_536,
          fetch: (asked, { headers, signal }) => {
            const range = Object.entries(headers).find(([name]) => name.toLowerCase() === 'range')?.[1];
            calls.push({ url: asked, range, signal: signal instanceof AbortSignal });
            // The browser's cache would ask for other ranges than these, and conditionally.
            return fetch(real, { headers, signal, cache: 'no-store' });
          },
        });
        return calls;
      },
      { url, real: `${faulty.url}${FILE}` },
    );
    expect(calls).toHaveLength(faulty.of(FILE).length);
    expect(new Set(calls.map(({ url }) => url))).toEqual(new Set([url]));
    expect(calls[0]).toMatchObject({ range: 'bytes=0-65535', signal: true });
    await expectWhole(tab, url);
  });

  test('a fetch of the page’s own that fails, and one that answers without ranges', async ({ tab, faulty }) => {
    const url = 'https://models.example/model.gguf';
    const run = (fails: boolean) =>
      tab.evaluate(
        ({ url, real, fails }) => {
          const own = async (_: string, { signal }: { signal: AbortSignal }): Promise<Response> =>
            fails ? new Response('no', { status: 403 }) : fetch(real, { signal, cache: 'no-store' });
          return failure(models.download(url, { shardBytes: 65_536, fetch: own }));
        },
        { url, real: `${faulty.url}${FILE}`, fails },
      );
    expect(await run(true)).toMatchObject({ code: 'NETWORK', message: expect.stringContaining('403') });
    expect(await run(false)).toBeNull();
    await expectWhole(tab, url);
  });

  test('a Response is a model', async ({ tab, faulty, greedy }) => {
    const tokens = await tab.evaluate(async (url) => {
      const model = (await fetch(url)) as unknown as Blob & { name: string; data: Blob };
      const engine = await Engine.load({ model, lane: 'exact' });
      const { tokens } = await engine.generate(
        { tokens: [57, 56, 78] },
        { maxTokens: 8, temperature: 0, ignoreEos: true },
      );
      engine.dispose();
      return Array.from(tokens);
    }, `${faulty.url}${FILE}`);
    expect(tokens).toEqual(greedy);
    expect(faulty.of(FILE)).toHaveLength(1);
  });

  test('a Response that says no is no model', async ({ tab, faulty }) => {
    const error = await tab.evaluate(
      async (url) => failure(Engine.load({ model: (await fetch(url)) as unknown as File, lane: 'exact' })),
      `${faulty.url}/missing.gguf`,
    );
    expect(error).toMatchObject({ code: 'NOT_FOUND', ours: true });
  });

  test('storage that fails while it is written', async ({ tab, site, faulty }) => {
    // The third write of a piece finds the disk full.
    before(
      site,
      `{ let left = 3; const write = FileSystemSyncAccessHandle.prototype.write;
         FileSystemSyncAccessHandle.prototype.write = function (bytes, options) {
           if (bytes.byteLength >= 4096 && left-- === 0) throw new DOMException('no space', 'QuotaExceededError');
           return write.call(this, bytes, options);
         }; }`,
    );
    const url = `${faulty.url}${FILE}`;
    expect((await download(tab, url)).error).toMatchObject({ code: 'STORAGE', ours: true });
    site.routes.clear();
    expect(await download(tab, url)).toMatchObject({ error: null });
    await expectWhole(tab, url);
  });
});
