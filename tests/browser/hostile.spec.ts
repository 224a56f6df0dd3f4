// Downloads and storage under adverse conditions: servers that take few connections, failing imports, cleared site
// data, terminated Workers, a lost network.
import {
  before,
  download,
  expect,
  expectWhole,
  exported,
  FILE,
  MODEL,
  openPage,
  SHARD,
  storedFiles,
  test,
  type Page,
} from './downloads.ts';
import { generated, sha256, type Fault } from './faulty.ts';
import { openBlank, TINY } from './support.ts';

const MB = 1 << 20;
const LARGE = '/large.bin';
const LONG_FILE = generated(30, 8 * MB);

declare global {
  var workers: Worker[];
  /** Resolves once the Worker has waited long enough. */
  var waited: Promise<void>;
  /** Number of liveness checks of Workers, and of their answers. */
  var looks: { asked: number; answered: number };
}

/** How a server refuses a connection beside those that it takes. */
const REFUSALS: [string, Fault][] = [
  ['503', { status: 503 }],
  ['429 with Retry-After: 1', { status: 429, headers: { 'Retry-After': '1' } }],
  ['a reset', { reset: 'unanswered' }],
];

for (const [name, refusal] of REFUSALS) {
  for (const most of [1, 2]) {
    test(`a server that takes ${most} connection${most > 1 ? 's' : ''}, others get ${name}`, async ({
      tab,
      faulty,
    }) => {
      faulty.put(LARGE, LONG_FILE);
      faulty.throttle.rate = 16 * MB;
      let peak = 0;
      faulty.break(LARGE, () => {
        const open = faulty.of(LARGE).filter(({ state }) => state === 'open').length;
        if (open > most) return refusal;
        peak = Math.max(peak, open);
        return null;
      });
      const url = `${faulty.url}${LARGE}`;
      const { error, notes } = await download(tab, url, { shardBytes: MB });
      expect(error).toBeNull();
      // Possible faults of the network are retried for a while first.
      if (refusal.status) expect(notes.some((note) => note.includes('going on with'))).toBe(true);
      expect(peak).toBe(most);
      await expectWhole(tab, url, LONG_FILE);
      const sent = faulty.of(LARGE).filter(({ status }) => status === 206);
      expect(sent.reduce((sum, one) => sum + one.sent, 0)).toBe(LONG_FILE.length);
    });
  }
}

test('a server that refuses for good keeps what has arrived', async ({ tab, faulty }) => {
  faulty.put(LARGE, LONG_FILE);
  let refuse = true;
  // A file of one piece, whose download breaks off in the middle three times, and is refused from then on.
  faulty.break(LARGE, ({ n }) => (refuse ? (n < 3 ? { reset: 2 * MB, rate: 32 * MB } : { status: 500 }) : null));
  const url = `${faulty.url}${LARGE}`;
  const options = { shardBytes: 32 * MB };
  expect((await download(tab, url, options)).error).toMatchObject({ code: 'NETWORK' });
  const [kept] = await tab.evaluate(() => models.list());
  expect(kept).toMatchObject({ url, complete: false });
  // A reset drops bytes that the browser had not passed on yet: all of them where it is late, but not time after time.
  expect(kept!.bytes).toBeGreaterThan(2 * MB);
  refuse = false;
  faulty.log.length = 0;
  expect((await download(tab, url, options)).error).toBeNull();
  expect(faulty.sent).toBe(LONG_FILE.length - kept!.bytes);
  await expectWhole(tab, url, LONG_FILE);
});

test.describe('an import that fails leaves what it was to replace', () => {
  const NEW_FILE = 96 * MB;

  /** Stores the tiny model and imports another file over it; the page aborts once `abortAt` bytes are written. */
  async function importOver(page: Page, url: string, abortAt: number) {
    await download(page, url);
    return page.evaluate(
      async ({ url, bytes, abortAt }) => {
        const controller = new AbortController();
        const onProgress = ({ loaded }: { loaded: number }): void => {
          if (loaded >= abortAt) controller.abort();
        };
        const file = new File([new Uint8Array(bytes)], 'model.gguf');
        const { signal } = controller;
        return failure(models.import(url, file, { signal, onProgress }));
      },
      { url, bytes: NEW_FILE, abortAt },
    );
  }

  test('aborted', async ({ tab, faulty }) => {
    const url = `${faulty.url}${FILE}`;
    expect(await importOver(tab, url, 4 * MB)).toMatchObject({ code: 'ABORTED' });
    await expectWhole(tab, url);
    const { pieces } = await storedFiles(tab);
    expect(pieces.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(MODEL.length);
  });

  test('the disk becomes full', async ({ tab, site, faulty }) => {
    before(
      site,
      `{ let room = ${3 * MB}; const write = FileSystemSyncAccessHandle.prototype.write;
         FileSystemSyncAccessHandle.prototype.write = function (bytes, options) {
           if (room < bytes.byteLength) throw new DOMException('no space', 'QuotaExceededError');
           room -= bytes.byteLength;
           return write.call(this, bytes, options);
         }; }`,
    );
    const url = `${faulty.url}${FILE}`;
    expect(await importOver(tab, url, Infinity)).toMatchObject({ code: 'STORAGE' });
    await expectWhole(tab, url);
  });

  test('there is no room from the beginning', async ({ tab, site, faulty }) => {
    before(site, `StorageManager.prototype.estimate = () => Promise.resolve({ quota: ${2 * MB}, usage: 0 })`);
    const url = `${faulty.url}${FILE}`;
    expect(await importOver(tab, url, Infinity)).toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(/needs 100\.7 MB.*2\.1 MB available/),
    });
    await expectWhole(tab, url);
  });

  test('the tab is closed', async ({ tab, site, faulty, context }) => {
    const url = `${faulty.url}${FILE}`;
    await download(tab, url);
    await tab.evaluate(async (url) => {
      const file = new File([new Uint8Array(200 << 20)], 'model.gguf');
      await new Promise<void>((begun) => {
        void models.import(url, file, { onProgress: ({ loaded }) => loaded > 8 << 20 && begun() }).catch(() => {});
      });
    }, url);
    await tab.close();
    const again = await context.newPage();
    await openBlank(again, site);
    await again.evaluate(() =>
      import('/pkg/index.js' as string).then(({ models }) => Object.assign(globalThis, { models })),
    );
    await expect(async () => {
      expect(await again.evaluate(() => models.list())).toMatchObject([{ url, complete: true, bytes: MODEL.length }]);
      expect((await again.evaluate(() => models.usage())).used).toBeLessThan(2 * MODEL.length);
    }).toPass({ timeout: 10_000 });
  });

  test('what succeeds takes its place, also from what is exported', async ({ tab, faulty }) => {
    const url = `${faulty.url}${FILE}`;
    await download(tab, url);
    for (let round = 0; round < 2; round++) {
      await tab.evaluate(async (url) => models.import(url, await models.export(url)), url);
      await expectWhole(tab, url);
    }
    const { pieces } = await storedFiles(tab);
    expect(pieces.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(MODEL.length);
  });
});

test('models.remove several times at once is no use by anybody', async ({ tab, faulty }) => {
  const url = `${faulty.url}${FILE}`;
  await download(tab, url);
  const errors = await tab.evaluate(
    (url) => Promise.all(Array.from({ length: 8 }, () => failure(models.remove(url)))),
    url,
  );
  expect(errors).toEqual(Array.from({ length: 8 }, () => null));
  expect(await tab.evaluate(() => models.list())).toEqual([]);
});

test('a 416 to every request is no model', async ({ tab, faulty }) => {
  faulty.break(FILE, () => ({ status: 416, body: 'not satisfied' }));
  const url = `${faulty.url}${FILE}`;
  expect((await download(tab, url)).error).toMatchObject({
    code: 'NETWORK',
    message: expect.stringContaining('416'),
  });
  expect(await tab.evaluate(() => models.list())).toEqual([]);
});

test('a signed address that is refused once after it has worked is asked again', async ({ tab, faulty }) => {
  const signed = '/signed';
  faulty.put(signed, LONG_FILE);
  faulty.put(LARGE, LONG_FILE);
  faulty.break(LARGE, () => ({ redirect: `${faulty.other}${signed}` }));
  faulty.break(signed, ({ n }) => (n === 3 ? { status: 403 } : null));
  const url = `${faulty.url}${LARGE}`;
  expect((await download(tab, url, { shardBytes: MB, connections: 1 })).error).toBeNull();
  await expectWhole(tab, url, LONG_FILE);
});

test('without a network it waits for one, and says so', async ({ tab, site, faulty }) => {
  // `navigator.onLine` of a Worker cannot be emulated from outside. While it is offline, the Worker's clock runs fast,
  // and it reports when it has waited for longer than five attempts take.
  before(
    site,
    `{ let online = true, waited = 0;
       const [network, told, later] = [new BroadcastChannel('network'), new BroadcastChannel('waited'), self.setTimeout];
       network.onmessage = ({ data }) => { online = data; };
       Object.defineProperty(WorkerNavigator.prototype, 'onLine', { get: () => online });
       self.setTimeout = (work, ms, ...rest) => {
         if (online) return later.call(self, work, ms, ...rest);
         return later.call(self, () => { if ((waited += ms) >= 12_000) told.postMessage(waited); work(...rest); }, ms / 20);
       }; }`,
  );
  await tab.evaluate(() => {
    globalThis.waited = new Promise((done) => (new BroadcastChannel('waited').onmessage = () => done()));
  });
  const network = (online: boolean): Promise<void> =>
    tab.evaluate((online) => new BroadcastChannel('network').postMessage(online), online);
  faulty.put(LARGE, LONG_FILE);
  faulty.throttle.rate = 4 * MB;
  let online = true;
  faulty.break(LARGE, () => (online ? { reset: 3 * MB } : { reset: 'unanswered' }));
  const url = `${faulty.url}${LARGE}`;
  const work = download(tab, url, { shardBytes: 8 * MB });
  await expect.poll(() => faulty.sent).toBeGreaterThan(MB);
  online = false;
  await network(false);
  await tab.evaluate(() => waited);
  online = true;
  await network(true);
  const { error, notes } = await work;
  expect(error).toBeNull();
  expect(notes.some((note) => note.includes('offline'))).toBe(true);
  await expectWhole(tab, url, LONG_FILE);
});

test.describe('a Worker that says nothing more', () => {
  /** Advances the page's clock by minutes until `work` has settled, ten at most. */
  const settles = async (page: Page, work: Promise<unknown>): Promise<boolean> => {
    let settled = false;
    const end = work.finally(() => (settled = true)).catch(() => {});
    for (let minute = 0; minute < 10 && !settled; minute++) {
      await page.clock.runFor(62_000);
      await Promise.race([end, new Promise((go) => setTimeout(go, 500))]);
    }
    return settled;
  };

  test('ended from outside: what is pending rejects, and the next call has another', async ({ page, site }) => {
    await page.clock.install();
    await page.addInitScript(() => {
      globalThis.workers = [];
      const Original = Worker;
      globalThis.Worker = class extends Original {
        constructor(...args: ConstructorParameters<typeof Worker>) {
          super(...args);
          globalThis.workers.push(this);
        }
      };
    });
    await openBlank(page, site);
    const pending = await page.evaluateHandle(async (model) => {
      const { models } = (await import('/pkg/index.js' as string)) as typeof import('../../npm/index.ts');
      globalThis.engine = await Engine.load({ model, tune: false });
      await models.list();
      const errors: Promise<unknown>[] = [];
      for (const worker of workers) worker.terminate();
      errors.push(failure(models.list()), failure(engine.generate('x')), failure(engine.fork()));
      return { errors, models };
    }, TINY);
    const rejected = pending.evaluate(({ errors }) => Promise.all(errors));
    expect(await settles(page, rejected)).toBe(true);
    const heard = await pending.evaluate(async ({ errors, models }) => ({
      errors: await Promise.all(errors),
      later: await failure(engine.generate('x')),
      list: await failure(models.list()),
    }));
    const lost = { code: 'WORKER_LOST', ours: true };
    expect(heard.errors).toMatchObject([lost, lost, lost]);
    expect(heard.later).toMatchObject(lost);
    expect(heard.list).toBeNull();
  });

  test('site data cleared during a download: an error within the minute, and the next download is whole', async ({
    page,
    site,
    faulty,
    context,
  }) => {
    await page.clock.install();
    faulty.put(LARGE, LONG_FILE);
    faulty.throttle.rate = 2 * MB;
    await openPage(page, site);
    const url = `${faulty.url}${LARGE}`;
    const work = await page.evaluateHandle(
      (url) => ({ error: failure(models.download(url, { shardBytes: 1 << 20 })) }),
      url,
    );
    await expect.poll(() => faulty.sent).toBeGreaterThan(3 * MB);
    const devtools = await context.newCDPSession(page);
    await devtools.send('Storage.clearDataForOrigin', { origin: new URL(page.url()).origin, storageTypes: 'all' });
    const ended = work.evaluate(({ error }) => error);
    expect(await settles(page, ended), 'the call has ended').toBe(true);
    // Where the browser fails the write, the error is that.
    expect([null, 'WORKER_LOST', 'STORAGE', 'INTERNAL']).toContain((await ended)?.code ?? null);
    faulty.throttle.rate = Infinity;
    const again = page.evaluate((url) => failure(models.download(url, { shardBytes: 1 << 20 })), url);
    await page.clock.runFor(1000);
    expect(await again).toBeNull();
    expect(await exported(page, url)).toMatchObject([{ sha256: sha256(LONG_FILE) }]);
  });

  /** Counts the page's liveness checks of Workers, and installs a clock that can be advanced. */
  const counted = async (page: Page): Promise<void> => {
    await page.clock.install();
    await page.addInitScript(() => {
      globalThis.looks = { asked: 0, answered: 0 };
      const Original = Worker;
      globalThis.Worker = class extends Original {
        constructor(...args: ConstructorParameters<typeof Worker>) {
          super(...args);
          this.addEventListener('message', ({ data }) => void (data?.type === 'pong' && looks.answered++));
        }
        override postMessage(message: { type?: string }, ...rest: never[]): void {
          if (message?.type === 'ping') looks.asked++;
          super.postMessage(message, ...rest);
        }
      };
    });
  };

  /** Advances the page's clock by a second, and waits for its Workers' answers: their clocks are real. */
  const aSecond = async (page: Page): Promise<void> => {
    await page.clock.runFor(1000);
    await expect.poll(() => page.evaluate(() => looks.asked - looks.answered), { intervals: [5, 10, 20] }).toBe(0);
  };

  test('what an abandoned one holds is taken away, what others hold is not', async ({ page, site, faulty }) => {
    await counted(page);
    faulty.put(LARGE, LONG_FILE);
    await openPage(page, site);
    const url = `${faulty.url}${LARGE}`;
    await page.evaluate((url) => models.download(url), url);
    // A thread cannot be blocked for ever on purpose: a Worker that never releases the model's lock has the same
    // effect. It also waits for a second lock, as a blocked one may.
    const free = await page.evaluateHandle(async () => {
      const { locks } = navigator;
      const folder = (await storage.walk())[0]!.path.split('/').slice(0, 2).join('/');
      const script = `onmessage = ({ data }) => {
        for (const name of data) navigator.locks.request(name, () => new Promise(() => {}));
      }`;
      const address = URL.createObjectURL(new Blob([script]));
      const hold = (...names: string[]): void => new Worker(address).postMessage(names);
      void locks.request('millrace:page:listened', () => new Promise(() => {}));
      let free = (): void => {};
      void locks.request('waited for', () => new Promise<void>((done) => (free = done)));
      hold('millrace:worker:listened', 'of one that is listened to');
      hold('of somebody else');
      hold('millrace:worker:abandoned', folder, 'waited for');
      return () => free();
    });
    const ABANDONED = 'millrace:worker:abandoned';
    const held = (): Promise<string[]> =>
      page.evaluate(async () => ((await navigator.locks.query()).held ?? []).map(({ name }) => name!).sort());
    const OTHERS = ['of one that is listened to', 'of somebody else'];
    await expect.poll(held).toEqual(expect.arrayContaining([ABANDONED, ...OTHERS]));
    let removed = false;
    const removing = page.evaluate((url) => models.remove(url), url).then(() => (removed = true));
    for (let second = 0; second < 30 && !removed; second++) await aSecond(page);
    await removing;
    // The lock that names the Worker is taken away last, once none of its requests is pending.
    expect(await held()).toEqual(expect.arrayContaining([ABANDONED, 'waited for']));
    await free.evaluate((free) => free());
    await expect.poll(() => page.evaluate(async () => (await navigator.locks.query()).pending)).toEqual([]);
    // Abandoned Workers are searched while a call waits.
    faulty.throttle.rate = MB / 8;
    const again = page.evaluate((url) => failure(models.download(url)), url);
    for (let second = 0; second < 30 && (await held()).includes(ABANDONED); second++) await aSecond(page);
    faulty.throttle.rate = Infinity;
    expect(await again).toBeNull();
    expect((await held()).filter((name) => /^of|abandoned|waited/.test(name))).toEqual(OTHERS);
  });

  test('one that is busy is left alone', async ({ page, site, faulty }) => {
    await counted(page);
    await openBlank(page, site);
    faulty.break(FILE, () => ({ stall: 20_000 }));
    const work = await page.evaluateHandle(async (url) => {
      const { models } = (await import('/pkg/index.js' as string)) as typeof import('../../npm/index.ts');
      let settled = false;
      void models.download(url, { shardBytes: 65_536 }).then(
        () => (settled = true),
        () => (settled = true),
      );
      return { settled: () => settled };
    }, `${faulty.url}${FILE}`);
    for (let second = 0; second < 90; second++) await aSecond(page);
    expect(await work.evaluate(({ settled }) => settled())).toBe(false);
    expect(await page.evaluate(() => looks.answered)).toBeGreaterThanOrEqual(90);
  });
});

test('pieces of shards that are kept belong to the version that they are of', async ({ tab, faulty }) => {
  faulty.put(LARGE, LONG_FILE);
  faulty.throttle.rate = 16 * MB;
  const url = `${faulty.url}${LARGE}`;
  expect((await download(tab, url, { shardBytes: SHARD * 16 }, 3 * MB)).error).toMatchObject({ code: 'ABORTED' });
  const other = generated(31, 8 * MB);
  faulty.put(LARGE, other);
  faulty.throttle.rate = Infinity;
  expect((await download(tab, url, { shardBytes: SHARD * 16 })).error).toBeNull();
  await expectWhole(tab, url, other);
});
