// Killing of browsers, and repeatable randomness.
import { execFileSync } from 'node:child_process';
import { chromium, type BrowserContext } from '@playwright/test';
import { browserFlags, findBrowser } from '../../scripts/lib/browser.mjs';
import { expect } from './downloads.ts';

/** The seed of a random test: MILLRACE_SEED, or a new one each time, which is printed. */
export function seedOf(what: string): number {
  const seed = Number(process.env.MILLRACE_SEED ?? Date.now() % 1_000_000);
  console.log(`${what}: seed ${seed} (MILLRACE_SEED=${seed} repeats it)`);
  return seed;
}

/** Numbers from 0 to 1 that follow from a seed: mulberry32. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A browser that keeps its data in `folder`. */
export async function launch(folder: string): Promise<BrowserContext> {
  const executablePath = (await findBrowser()) ?? undefined;
  return chromium.launchPersistentContext(folder, {
    headless: true,
    args: browserFlags(),
    ...(executablePath ? { executablePath } : {}),
  });
}

/** Kills all processes of the browser with this folder, as a crash of the machine would end them. */
export async function kill(context: BrowserContext, folder: string): Promise<void> {
  const gone = new Promise((done) => context.once('close', done));
  const processes = execFileSync('ps', ['-eo', 'pgid=,args='], { encoding: 'utf8', maxBuffer: 1 << 26 }).split('\n');
  // Playwright gives each browser a process group of its own.
  const groups = new Set(
    processes.filter((line) => line.includes(`--user-data-dir=${folder}`)).map((line) => Number.parseInt(line, 10)),
  );
  expect(groups.size).toBeGreaterThan(0);
  for (const group of groups) process.kill(-group, 'SIGKILL');
  await gone;
}
