// The browser is killed at random moments of a download: stored pieces survive, and the final content is right.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext } from '@playwright/test';
import { expect, expectWhole, openPage, test, type Page, type Site } from './downloads.ts';
import { generated } from './faulty.ts';
import { kill, launch, random, seedOf } from './killed.ts';
import { LONG } from './support.ts';

const MB = 1 << 20;
const {
  kills: KILLS,
  length: LENGTH,
  shard: SHARD,
  rate: RATE,
} = LONG
  ? { kills: 50, length: 200_000_000, shard: 4 * MB, rate: 40_000_000 }
  : { kills: 2, length: 20_000_000, shard: MB, rate: 10_000_000 };
const CONNECTIONS = 4;
/** Bytes that a killed browser may lose: the current piece of each connection, and buffers of its sockets and pipes. */
const PROMISED = CONNECTIONS * SHARD;
const BUFFERED = CONNECTIONS * 2 * MB;

/**
 * Starts a download without a wait for its end. The page then has `ended`: null while it runs, else `whole` or the
 * error.
 */
async function begin(page: Page, url: string): Promise<void> {
  await page.evaluate(
    ({ url, shardBytes, connections }) => {
      const state = globalThis as unknown as { ended: string | null };
      state.ended = null;
      models.download(url, { shardBytes, connections }).then(
        () => (state.ended = 'whole'),
        (error: Error) => (state.ended = `${error}`),
      );
    },
    { url, shardBytes: SHARD, connections: CONNECTIONS },
  );
}

const ended = (page: Page): Promise<string | null> =>
  page.evaluate(() => (globalThis as unknown as { ended: string | null }).ended);

/** Bytes of a model that the storage has. */
const kept = (page: Page, url: string): Promise<number> =>
  page.evaluate(async (url) => (await models.list()).find((one) => one.url === url)?.bytes ?? 0, url);

async function open(context: BrowserContext, site: Site): Promise<Page> {
  return openPage(context.pages()[0] ?? (await context.newPage()), site);
}

test(`a browser that is killed ${KILLS} times in the midst of a download goes on each time`, async ({
  site,
  faulty,
}) => {
  test.skip(process.platform === 'win32', 'processes are found by ps');
  test.setTimeout(LONG ? 3_600_000 : 180_000);
  const seed = seedOf('kill');
  const next = random(seed);
  const folder = mkdtempSync(join(tmpdir(), 'millrace-kill-'));
  faulty.throttle.rate = RATE;
  let context = await launch(folder);
  try {
    let done = 0;
    // A download may be complete before all kills are done: then another file follows.
    for (let round = 0; round === 0 || done < KILLS; round++) {
      const file = generated(seed + round, LENGTH);
      const path = `/killed-${round}.bin`;
      const url = `${faulty.url}${path}`;
      faulty.put(path, file);
      const sent = (): number => faulty.of(path).reduce((sum, one) => sum + one.sent, 0);
      let kills = 0;
      let page = await open(context, site);
      let had = 0;
      for (;;) {
        const start = sent();
        await begin(page, url);
        // The moment is chosen by bytes, anywhere from before the first one to thrice what a kill may cost.
        const until = done < KILLS ? start + Math.floor(next() * 3 * PROMISED) : Infinity;
        await expect
          .poll(async () => sent() >= until || (await ended(page)) !== null, { intervals: [10], timeout: 300_000 })
          .toBe(true);
        const outcome = await ended(page);
        if (outcome !== null) {
          expect(outcome).toBe('whole');
          break;
        }
        await kill(context, folder);
        kills++;
        done++;
        // Bytes in flight when the browser ended still count.
        await expect.poll(() => faulty.of(path).some(({ state }) => state === 'open')).toBe(false);
        context = await launch(folder);
        page = await open(context, site);
        const has = await kept(page, url);
        console.log(
          `kill ${done}: ${((sent() - start) / 1e6).toFixed(1)} MB sent, ${((has - had) / 1e6).toFixed(1)} MB of them kept, ${((has / LENGTH) * 100).toFixed(0)} % there`,
        );
        expect(has, 'nothing that was kept is lost').toBeGreaterThanOrEqual(had);
        expect(sent() - start - (has - had), 'no more is lost than promised').toBeLessThanOrEqual(PROMISED + BUFFERED);
        had = has;
      }
      expect(sent()).toBeLessThanOrEqual(LENGTH + kills * PROMISED + (kills + 1) * BUFFERED);
      await expectWhole(page, url, file);
      await page.evaluate((url) => models.remove(url), url);
    }
    expect(done).toBe(KILLS);
  } finally {
    await context.close().catch(() => {});
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});
