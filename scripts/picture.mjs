// npm run picture: makes docs/demo.png from the real page, answering from the model in the box.
import { join } from 'node:path';
import { build, chosenBuild } from './build.mjs';
import { browserFlags } from './lib/browser.mjs';
import { main, root, say } from './lib/env.mjs';
import { serve } from './serve.mjs';
import { setupBrowser } from './setup.mjs';

main(async () => {
  const server = await serve({ pkg: await build(chosenBuild('release')) });
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({ executablePath: await setupBrowser(), args: browserFlags() });
  try {
    const page = await browser.newPage({ viewport: { width: 1000, height: 620 }, colorScheme: 'light' });
    await page.goto(server.url);
    await page.getByRole('button', { name: 'What is 17 + 25?' }).click({ timeout: 120_000 });
    await figures(page, 1);
    await page.getByLabel('Message', { exact: true }).fill('Sort these numbers: 42, 7, 19.');
    await page.keyboard.press('Enter');
    await figures(page, 2);
    const path = join(root, 'docs', 'demo.png');
    await page.screenshot({ path });
    say(`wrote ${path}`);
  } finally {
    await browser.close();
    await server.close();
  }
});

/** Waits until that many answers are whole. */
async function figures(page, count) {
  await page.waitForFunction((count) => document.querySelectorAll('.figures:not(:empty)').length === count, count, {
    timeout: 120_000,
  });
}
