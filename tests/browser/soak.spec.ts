// Half an hour of random faults of the server, several tabs, killed browsers, tabs that close during work, cleared site
// data, times offline. Complete models stay complete, nothing hangs, and in the end all can be downloaded.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext } from '@playwright/test';
import { expect, openPage, test, type Page } from './downloads.ts';
import { content, generated, sha256, type Asked, type Content, type Fault } from './faulty.ts';
import { kill, launch, random, seedOf } from './killed.ts';
import { bytesOf, onlyLong, TINY } from './support.ts';

const MINUTES = Number(process.env.MILLRACE_MINUTES ?? 30);
const MB = 1 << 20;
const SHARD = 512 << 10;
const TABS = 3;
/**
 * The longest time without progress or the end of a call. The watchdog of a Worker takes a minute, a stalled connection
 * 30 s.
 */
const SILENCE_MS = 150_000;
/** The codes that a call may reject with under these faults. */
const WEATHER = ['ABORTED', 'NETWORK', 'STORAGE', 'WORKER_LOST', 'NOT_FOUND', 'DISPOSED', 'BAD_MODEL'];

/** The page's record of a call. */
interface Call {
  what: string;
  url: string;
  /** The time of its last progress. */
  heard: number;
  /** `whole`, `ok`, or the error's code and message; null while it runs. */
  ended: string | null;
  /** The time of its end. */
  at: number;
  sums: string[] | null;
}

declare global {
  /** Calls of this page, with their AbortControllers. */
  var calls: (Call & { controller: AbortController })[];
}

/** Starts a call without a wait for its end. */
const start = (page: Page, what: string, url: string): Promise<void> =>
  page.evaluate(
    ({ what, url, shardBytes }) => {
      const controller = new AbortController();
      const call = {
        what,
        url,
        heard: Date.now(),
        ended: null,
        at: 0,
        sums: null,
        controller,
      } as (typeof calls)[number];
      globalThis.calls ??= [];
      calls.push(call);
      const heard = { onProgress: () => void (call.heard = Date.now()), signal: controller.signal };
      const work = async (): Promise<string> => {
        if (what === 'download') await models.download(url, { shardBytes, ...heard });
        else if (what === 'verify') await models.verify(url, heard);
        else if (what === 'remove') await models.remove(url);
        else if (what === 'list') await models.list();
        else {
          const files = await models.export(url);
          call.sums = await Promise.all(files.map((file) => storage.sha256(file)));
        }
        return 'ok';
      };
      const end = (outcome: string): void => void Object.assign(call, { ended: outcome, at: Date.now() });
      work().then(end, (error) => end(`${error.code}: ${error.message}`));
    },
    { what, url, shardBytes: SHARD },
  );

/** The page's calls; removes those that have ended. */
const harvest = (page: Page): Promise<(Call & { now: number })[]> =>
  page.evaluate(() => {
    globalThis.calls ??= [];
    const seen = calls.map(({ controller: _, ...call }) => ({ ...call, now: Date.now() }));
    calls = calls.filter(({ ended }) => ended === null);
    return seen;
  });

/** A random fault, mostly none. */
function weather(next: () => number, { from, to }: Asked): Fault | null {
  const length = (to ?? (from ?? 0) + SHARD) - (from ?? 0);
  const somewhere = Math.floor(next() * length);
  const faults: Fault[] = [
    { status: 503 },
    { status: 429, headers: { 'Retry-After': '1' } },
    { status: 500 },
    { reset: 'unanswered' },
    { reset: somewhere },
    { truncate: somewhere },
    { stall: somewhere },
    { delay: 3000 },
    { rate: 200_000 },
    { ranges: false, reset: somewhere },
    { hide: ['Content-Range', 'ETag'] },
  ];
  return next() < 0.2 ? faults[Math.floor(next() * faults.length)]! : null;
}

onlyLong(test)(`${MINUTES} minutes of faults, kills, clears and several tabs`, async ({ site, faulty }) => {
  test.setTimeout((MINUTES + 20) * 60_000);
  const seed = seedOf('soak');
  const next = random(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)]!;
  const files = new Map<string, Content>();
  for (const [index, length] of [3 * MB, 9 * MB, 30 * MB].entries())
    files.set(`/soak-${index}.bin`, generated(seed + index, length + index));
  files.set('/soak.gguf', content(bytesOf(`tests${TINY}`)));
  for (const [path, file] of files) {
    faulty.put(path, file);
    faulty.break(path, (asked) => weather(next, asked));
  }
  faulty.throttle.rate = 8 * MB;
  const urlOf = (path: string): string => `${faulty.url}${path}`;
  const sumOf = new Map([...files].map(([path, file]) => [urlOf(path), sha256(file)]));

  const folder = mkdtempSync(join(tmpdir(), 'millrace-soak-'));
  let context: BrowserContext = await launch(folder);
  let tabs: Page[] = [];
  /** Models that were complete at their last call, and were not removed since. */
  const whole = new Set<string>();
  /**
   * Whether site data was cleared during writes since the browser began: Chromium then keeps later files only until it
   * ends.
   */
  let fragile = false;
  const counts: Record<string, number> = {};
  /** The last actions, for the report of a failure. */
  const trail: string[] = [];
  const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1);
  const openTabs = async (): Promise<void> => {
    while (tabs.length < TABS) tabs.push(await openPage(await context.newPage(), site));
  };
  /** Checks all calls: none is silent for too long, none ends with an undocumented code. */
  const look = async (): Promise<void> => {
    const seen = (await Promise.all(tabs.map(harvest))).flat();
    for (const { what, url, heard, ended, sums, now } of seen.sort((a, b) => a.at - b.at)) {
      if (ended === null) {
        expect(now - heard, `${what} of ${url} is silent`).toBeLessThan(SILENCE_MS);
        continue;
      }
      const code = ended.split(':')[0]!;
      count(`${what}: ${code}`);
      if (code !== 'ok') expect(WEATHER, `${what} of ${url}: ${ended}`).toContain(code);
      else if (what === 'download') whole.add(url);
      else if (what === 'remove') whole.delete(url);
      if (sums) expect(sums, `${url} is right`).toEqual([sumOf.get(url)]);
    }
  };
  /** Waits until no call runs. */
  const quiet = (): Promise<void> =>
    expect
      .poll(
        async () => {
          await look();
          return Promise.all(tabs.map((tab) => tab.evaluate(() => calls.length)));
        },
        { timeout: SILENCE_MS, intervals: [200] },
      )
      .toEqual(tabs.map(() => 0));
  /** Ends the running calls, so that complete models can be checked. */
  const settle = async (): Promise<void> => {
    for (const tab of tabs)
      await tab.evaluate(() => {
        for (const { controller } of calls ?? []) controller.abort();
      });
    await quiet();
  };
  const expectKept = async (): Promise<void> => {
    const complete = await tabs[0]!.evaluate(async () =>
      (await models.list()).filter(({ complete }) => complete).map(({ url }) => url),
    );
    for (const url of whole) expect(complete, `${url} was whole`).toContain(url);
  };

  const actions: Record<string, [chance: number, act: () => Promise<unknown>]> = {
    download: [30, () => start(pick(tabs), 'download', urlOf(pick([...files.keys()])))],
    export: [8, () => (whole.size > 0 ? start(pick(tabs), 'export', pick([...whole])) : Promise.resolve())],
    verify: [6, () => (whole.size > 0 ? start(pick(tabs), 'verify', pick([...whole])) : Promise.resolve())],
    list: [6, () => start(pick(tabs), 'list', '')],
    abort: [8, () => pick(tabs).evaluate(() => calls?.at(-1)?.controller.abort())],
    reload: [6, async () => openPage(pick(tabs), site)],
    close: [
      5,
      async () => {
        const tab = tabs.splice(Math.floor(next() * tabs.length), 1)[0]!;
        await tab.close();
        await openTabs();
      },
    ],
    offline: [
      3,
      async () => {
        await context.setOffline(true);
        await new Promise((go) => setTimeout(go, 1000 + next() * 9000));
        await context.setOffline(false);
      },
    ],
    remove: [
      4,
      async () => {
        // Settled before and after, as calls wait for each other: so the order of their ends is that of their
        // beginnings.
        await settle();
        await start(pick(tabs), 'remove', urlOf(pick([...files.keys()])));
        await settle();
      },
    ],
    kill: [
      2,
      async () => {
        await kill(context, folder);
        context = await launch(folder);
        tabs = [];
        await openTabs();
        if (fragile) whole.clear();
        fragile = false;
        await expectKept();
      },
    ],
    clear: [
      1,
      async () => {
        whole.clear();
        const devtools = await context.newCDPSession(tabs[0]!);
        const origin = new URL(tabs[0]!.url()).origin;
        await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
        await settle();
        // A Worker whose write never returns is noticed a minute after the next call; the call after that has a new
        // Worker.
        const lost = await Promise.all(
          tabs.map((tab) =>
            tab.evaluate(() =>
              models.list().then(
                () => null,
                ({ code }) => code as string,
              ),
            ),
          ),
        );
        for (const code of lost) expect([null, 'WORKER_LOST', 'STORAGE']).toContain(code);
        const blocked = lost.filter((code) => code === 'WORKER_LOST').length;
        fragile ||= blocked > 0;
        count(`clear: ${blocked} blocked`);
        whole.clear();
      },
    ],
  };
  const all = Object.entries(actions).flatMap(([name, [chance]]) => Array<string>(chance).fill(name));

  try {
    await openTabs();
    const began = Date.now();
    while (Date.now() < began + MINUTES * 60_000) {
      const name = pick(all);
      count(name);
      trail.push(`${((Date.now() - began) / 1000).toFixed(0)} s ${name}`);
      await actions[name]![1]();
      await new Promise((go) => setTimeout(go, next() * 1500));
      await look();
    }
    await settle();
    await expectKept();
    // Without faults all models can be downloaded, and are right.
    faulty.heal();
    for (const path of files.keys()) await start(tabs[0]!, 'download', urlOf(path));
    await quiet();
    for (const url of sumOf.keys()) await start(tabs[1]!, 'export', url);
    await quiet();
    for (const url of sumOf.keys()) expect(whole, url).toContain(url);
    expect(counts['export: ok'], 'exports were compared').toBeGreaterThanOrEqual(sumOf.size);
  } finally {
    console.log(`soak: ${JSON.stringify(counts)}; last: ${trail.slice(-40).join(', ')}`);
    await context.close().catch(() => {});
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});
