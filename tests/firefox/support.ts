// What the tests in Firefox share: a server of the pages and the package, the browser, and pages whose complaints are noted.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test as base, expect } from '@playwright/test';
import type { Browser, Page } from 'puppeteer-core';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { launchFirefox } from '../../scripts/lib/firefox.mjs';
import { serve } from '../../scripts/serve.mjs';
import { setupFirefox, vulkan } from '../../scripts/setup.mjs';

export { expect, root, type Page };

/** The model in the box, and a random one that loads in a moment. */
export const BOX = '/models/box.gguf';
export const TINY = '/data/oracle/gguf-q8_0/model.gguf';

/** Whether what takes longer was asked for (`npm run test:long`). */
export const LONG = Boolean(process.env.MILLRACE_LONG);

const BLANK = '<!doctype html><meta charset="utf-8"><title>Test</title>';

export const test = base.extend<
  { tab: Page; problems: string[]; shown: (name: string) => Promise<void> },
  { url: string; firefox: Browser }
>({
  url: [
    async ({}, use) => {
      const server = await serve({
        pkg: BUILDS[chosenBuild('release') as keyof typeof BUILDS].out,
        mounts: { '/data/': join(root, 'tests', 'data') },
        before(request: IncomingMessage, response: ServerResponse) {
          const { pathname } = new URL(request.url ?? '/', 'http://localhost');
          if (pathname === '/favicon.ico') response.writeHead(204).end();
          else if (pathname === '/blank') response.writeHead(200, { 'Content-Type': 'text/html' }).end(BLANK);
          else return false;
          return true;
        },
      });
      await use(server.url);
      await server.close();
    },
    { scope: 'worker' },
  ],
  firefox: [
    async ({}, use) => {
      const browser = await launchFirefox(await setupFirefox(), await vulkan());
      await use(browser);
      await browser.close();
    },
    { scope: 'worker', timeout: 300_000 },
  ],
  /** What the page has complained of. */
  problems: async ({}, use) => use([]),
  tab: async ({ firefox, problems }, use) => {
    const page = await firefox.newPage();
    page.on('console', (message) => void (message.type() === 'error' && problems.push(message.text())));
    page.on('pageerror', (error) => void problems.push(String(error)));
    await use(page);
    await page.close();
  },
  /** Keeps a picture of the page in the report. */
  shown: async ({ tab }, use, info) =>
    use(async (name) => {
      const path = info.outputPath(`${name}.png`);
      await tab.screenshot({ path: path as `${string}.png` });
      await info.attach(name, { path, contentType: 'image/png' });
    }),
});
