// Shared by the browser tests: a server that records requests and whose routes can be replaced, and pages in which the
// package is loaded.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test as base, expect, type Page } from '@playwright/test';
import { built, chosenBuild } from '../../scripts/build.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { ISOLATED, serve } from '../../scripts/serve.mjs';
import type * as Millrace from '../../npm/index.ts';

export { expect, root, type Page };

/** The model in the box, and a random one that loads in a moment. */
export const BOX = '/models/box.gguf';
export const TINY = '/data/oracle/gguf-q8_0/model.gguf';

/** Whether long tests were asked for (`npm run test:long`). */
export const LONG = Boolean(process.env.MILLRACE_LONG);

/** Declares a test that only `npm run test:long` runs. */
export const onlyLong = <T extends { skip: unknown }>(test: T): T => (LONG ? test : (test.skip as T));

export interface Site {
  url: string;
  /** The default device of loads in the pages of `blank` and similar fixtures. */
  device: Millrace.Device;
  /** Whether responses isolate the page, so that it may share memory among threads; not, when a test begins. */
  isolated: boolean;
  /** Requested paths, in order. */
  hits: string[];
  /** Paths that a test answers itself. */
  routes: Map<string, (request: IncomingMessage, response: ServerResponse) => void>;
}

/** Globals of the pages that `blank` and `engine` open. */
declare global {
  var Engine: typeof Millrace.Engine;
  var configure: typeof Millrace.configure;
  var MillraceError: typeof Millrace.MillraceError;
  var models: typeof Millrace.models;
  var engine: Millrace.Engine;
  /** The code and name of what a promise rejects with; null where it resolves. */
  var failure: (
    work: PromiseLike<unknown>,
  ) => Promise<{ code: string; name: string; message: string; ours: boolean; data: Record<string, unknown> } | null>;
}

const BLANK = `<!doctype html><title>Test</title><script type="module">
  import { configure, Engine, MillraceError, models } from '/pkg/index.js';
  const failure = async (work) => {
    try { await work; return null; }
    catch (error) { return { code: error.code, name: error.name, message: error.message, ours: error instanceof MillraceError, data: structuredClone(error.data ?? {}) }; }
  };
  configure({ device: new URLSearchParams(location.search).get('device') });
  Object.assign(globalThis, { configure, Engine, MillraceError, models, failure });
</script>`;

/** Opens a page that has the package and nothing else. */
export async function openBlank(page: Page, site: Site): Promise<void> {
  await page.goto(`${site.url}/blank?device=${site.device}`);
  await page.waitForFunction(() => 'failure' in globalThis);
}

export const test = base.extend<
  { blank: Page; fresh: void },
  { device: Millrace.Device; site: Site; tiny: Page; sixteen: Page; chat: Page }
>({
  /** A software GPU stands in for a GPU; `auto` would take the CPU instead. */
  device: ['gpu', { option: true, scope: 'worker' }],
  site: [
    async ({ device }, use) => {
      const site: Site = { url: '', device, isolated: false, hits: [], routes: new Map() };
      const server = await serve({
        pkg: built(chosenBuild('dev')),
        mounts: { '/data/': join(root, 'tests', 'data') },
        before(request: IncomingMessage, response: ServerResponse) {
          const path = new URL(request.url ?? '/', 'http://localhost').pathname;
          site.hits.push(path);
          if (site.isolated) for (const [name, value] of ISOLATED) response.setHeader(name!, value!);
          const route = site.routes.get(path);
          if (route) route(request, response);
          else if (path === '/blank') response.writeHead(200, { 'Content-Type': 'text/html' }).end(BLANK);
          return route !== undefined || path === '/blank';
        },
      });
      site.url = server.url;
      await use(site);
      await server.close();
    },
    { scope: 'worker' },
  ],
  fresh: [
    async ({ site }, use) => {
      site.isolated = false;
      site.hits.length = 0;
      site.routes.clear();
      await use();
    },
    { auto: true },
  ],
  blank: async ({ page, site }, use) => {
    await openBlank(page, site);
    await use(page);
  },
  /** A page with the tiny model loaded as `engine`, shared by all tests of the worker. */
  tiny: [
    async ({ browser, site }, use) => withEngine(await browser.newPage(), site, { model: TINY, lane: 'exact' }, use),
    { scope: 'worker', timeout: 300_000 },
  ],
  /**
   * The chat page with the bundled model, shared: a software GPU takes long to compile the kernels. Begin with a new
   * chat.
   */
  chat: [
    async ({ browser, site }, use) => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(site.url);
      await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready', { timeout: 240_000 });
      await use(page);
      await context.close();
    },
    { scope: 'worker', timeout: 300_000 },
  ],
  /** A page with the tiny model loaded as `engine`, 16 tokens a readback, shared by all tests of the worker. */
  sixteen: [
    async ({ browser, site }, use) =>
      withEngine(await browser.newPage(), site, { model: TINY, lane: 'exact', chunk: 16 }, use),
    { scope: 'worker', timeout: 300_000 },
  ],
});

async function withEngine(
  page: Page,
  site: Site,
  options: { model: string; lane?: Millrace.Lane; chunk?: number },
  use: (page: Page) => Promise<void>,
): Promise<void> {
  await openBlank(page, site);
  await page.evaluate(async (options) => {
    globalThis.engine = await Engine.load(options);
  }, options);
  await use(page);
  await page.context().close();
}

/** A file of the repository. */
export function bytesOf(path: string): Buffer {
  const file = join(root, path);
  if (!existsSync(file)) throw new Error(`${path} is missing from the repository`);
  return readFileSync(file);
}
