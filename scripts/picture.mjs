// npm run picture: makes docs/demo.webp, which moves, from the real page, answering from the model in the box. Time is as it was, but for the waiting.
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build, chosenBuild } from './build.mjs';
import { browserFlags } from './lib/browser.mjs';
import { cache, hashOf, main, once, root, run, say } from './lib/env.mjs';
import { serve } from './serve.mjs';
import { setupBrowser } from './setup.mjs';

/** The longest that a frame is shown, in milliseconds, and the last one. */
const LONGEST = 700;
const LAST = 4000;

/** The encoder lives outside of the clone: nothing else needs it. */
async function encoder() {
  const home = join(cache, 'picture');
  mkdirSync(home, { recursive: true });
  const sources = ['package.json', 'package-lock.json'].map((name) => join(root, 'scripts', 'picture', name));
  await once(join(home, '.stamp'), hashOf(sources.map((source) => `=${readFileSync(source, 'utf8')}`)), async () => {
    say('installing what encodes pictures');
    for (const source of sources) copyFileSync(source, join(home, source.split(/[\\/]/).at(-1)));
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home, quiet: true });
  });
  return createRequire(join(home, 'package.json'))('sharp');
}

main(async () => {
  const sharp = await encoder();
  const server = await serve({ pkg: await build(chosenBuild('release')) });
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({ executablePath: await setupBrowser(), args: browserFlags() });
  try {
    const page = await browser.newPage({ viewport: { width: 1000, height: 560 }, colorScheme: 'light' });
    await page.goto(server.url);
    const first = page.getByRole('button', { name: 'What is 17 + 25?' });
    await first.waitFor({ timeout: 120_000 });
    const frames = [{ png: await page.screenshot(), at: Date.now() }];
    /** Takes frames until something has happened. */
    const film = async (work) => {
      let over = false;
      const end = work.finally(() => (over = true));
      while (!over) {
        const png = await page.screenshot();
        if (!png.equals(frames.at(-1).png)) frames.push({ png, at: Date.now() });
        await page.waitForTimeout(50);
      }
      await end;
    };
    await first.click();
    await film(answers(page, 1));
    const field = page.getByLabel('Message', { exact: true });
    await film(field.pressSequentially('Sort these numbers: 42, 7, 19.', { delay: 40 }));
    await page.keyboard.press('Enter');
    await film(answers(page, 2));
    frames.push({ png: await page.screenshot(), at: Date.now() });
    const delay = frames.map(({ at }, i) => (i + 1 < frames.length ? Math.min(frames[i + 1].at - at, LONGEST) : LAST));
    const path = join(root, 'docs', 'demo.webp');
    await sharp(
      frames.map(({ png }) => png),
      { join: { animated: true } },
    )
      .webp({ delay, loop: 0, quality: 70, effort: 6, mixed: true })
      .toFile(path);
    say(`wrote ${path}: ${frames.length} frames, ${readFileSync(path).length} bytes`);
  } finally {
    await browser.close();
    await server.close();
  }
});

/** Waits until that many answers are whole. */
function answers(page, count) {
  return page.waitForFunction((count) => document.querySelectorAll('.figures:not(:empty)').length === count, count, {
    timeout: 120_000,
  });
}
