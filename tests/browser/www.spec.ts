// The static build, served by a plain server under a sub-path: it answers, loads fast, opens offline, and updates to a
// new version.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as base, expect, type Browser, type BrowserContext, type Page } from '@playwright/test';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { serve } from '../../scripts/serve.mjs';
import { site as writeSite } from '../../scripts/www.mjs';
import { REPORT } from './papers.ts';

const PATH = '/some/path/';
const PAGES = ['documents.html', 'bench.html', 'kernels.html', 'storage.html'];
const TINY = '/data/oracle/gguf-q8_0/model.gguf';

/** A server of the static build that can be stopped and started again, with the headers that the build names. */
interface Host {
  url: string;
  folder: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

const test = base.extend<{ host: Host }, { built: string }>({
  built: [
    async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), 'millrace-www-'));
      await writeSite(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, join(folder, 'site'));
      await use(join(folder, 'site'));
      rmSync(folder, { recursive: true, force: true });
    },
    { scope: 'worker' },
  ],
  host: async ({ built }, use) => {
    const folder = join(mkdtempSync(join(tmpdir(), 'millrace-host-')), 'site');
    cpSync(built, folder, { recursive: true });
    // Outside its path there is nothing but a small model.
    const empty = join(folder, '..', 'empty');
    mkdirSync(empty);
    const policy = /Content-Security-Policy: (.*)/.exec(readFileSync(join(folder, '_headers'), 'utf8'))![1]!;
    let server: { url: string; close(): Promise<unknown> } | null = null;
    const host: Host = {
      url: '',
      folder,
      async start() {
        const port = host.url === '' ? 0 : Number(new URL(host.url).port);
        server = await serve({
          port,
          mounts: { [PATH]: folder, '/data/': join(root, 'tests', 'data'), '/': empty },
          before(_, response) {
            response.setHeader('Content-Security-Policy', policy);
            return false;
          },
        });
        host.url = `${server.url}${PATH}`;
      },
      async stop() {
        await server?.close();
        server = null;
      },
    };
    await host.start();
    await use(host);
    await host.stop();
    rmSync(join(folder, '..'), { recursive: true, force: true });
  },
});

/** Collects problems: requests of other origins, errors, violations of the policy. */
async function watched(context: BrowserContext, host: Host): Promise<string[]> {
  const problems: string[] = [];
  context.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(host.url).origin && !['blob:', 'data:'].includes(protocol))
      problems.push(`asked ${request.url()}`);
  });
  context.on('console', (message) => message.type() === 'error' && problems.push(`console: ${message.text()}`));
  context.on('weberror', (error) => problems.push(`error: ${error.error().message}`));
  await context.exposeFunction('violated', (what: string) => problems.push(`policy: ${what}`));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) =>
      (globalThis as unknown as { violated(what: string): void }).violated(
        `${event.violatedDirective} ${event.blockedURI}`,
      ),
    );
  });
  return problems;
}

/** Waits until the service worker has cached everything, and controls this page. */
async function kept(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
    while (!navigator.serviceWorker.controller) await new Promise((done) => setTimeout(done, 50));
  });
}

async function answers(page: Page): Promise<void> {
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready', { timeout: 240_000 });
  await page.getByLabel('Message', { exact: true }).fill('What is 17 + 25?');
  await page.keyboard.press('Enter');
  await expect(page.locator('#messages .assistant').last()).toContainText('42', { timeout: 120_000 });
}

test('under a sub-path the chat answers; then, without a server, all pages open and it answers again', async ({
  context,
  page,
  host,
}) => {
  const problems = await watched(context, host);
  await page.goto(host.url);
  await answers(page);
  await kept(page);
  expect(problems).toEqual([]);
  await host.stop();
  await page.reload();
  await answers(page);
  // What reads pictures is stored with its model.
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('button', { name: 'Solve the sum in this picture.' }).click();
  await expect(page.locator('#messages .assistant')).toContainText('17 + 25 = 42.', { timeout: 120_000 });
  // A query is for the page's script alone.
  await page.goto(`${host.url}?model=models/box.gguf&lane=exact`);
  await expect(page.locator('#prompt')).toBeVisible();
  for (const name of PAGES) {
    await page.goto(`${host.url}${name}?quick`);
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  }
  await expect(page.locator('#waiting')).toBeHidden();
  await expect(page.locator('#models')).toContainText('box.gguf');
  expect(problems).toEqual([]);
});

test('documents are kept, searched and answered from without a server; what reads PDF files stays once it was used', async ({
  context,
  page,
  host,
}) => {
  const problems = await watched(context, host);
  const ask = async (question: string, quote: string): Promise<void> => {
    await page.getByRole('searchbox', { name: 'Question' }).fill(question);
    await page.keyboard.press('Enter');
    await expect(page.locator('.quote').first()).toContainText(quote, { timeout: 60_000 });
    await expect(page.locator('#answer-text')).not.toBeEmpty({ timeout: 60_000 });
    await expect(page.locator('#ask-submit')).toBeVisible({ timeout: 60_000 });
  };
  const add = (name: string, buffer: Buffer) =>
    page.locator('#files').setInputFiles({ name, mimeType: 'application/pdf', buffer });
  await page.goto(`${host.url}documents.html`);
  await kept(page);
  // These files are not cached at a visit.
  const later = await page.evaluate(async () => {
    const caches_ = await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).keys()));
    return caches_.flat().filter(({ url }) => /documents\/|cmaps/.test(url)).length;
  });
  expect(later).toBe(0);
  await add('report.pdf', REPORT);
  await ask('How heavy may lorries on the bridge be?', 'twelve tonnes');
  await host.stop();
  await page.reload();
  await ask('How heavy may lorries on the bridge be?', 'twelve tonnes');
  await add('again.pdf', Buffer.concat([REPORT, Buffer.from('\n% another one\n')]));
  await expect(page.locator('.paper')).toHaveCount(2);
  expect(problems).toEqual([]);
});

test('a new version waits until no page of the old one is open, or until the only one is reloaded', async ({
  context,
  page,
  host,
}) => {
  const problems = await watched(context, host);
  const parts = (of: Page) => of.evaluate(() => [...document.scripts].map(({ src }) => /app-\w+/.exec(src)![0]));
  await page.goto(`${host.url}storage.html`);
  await kept(page);
  const [old] = await parts(page);
  const renewed = renew(host.folder, old!);
  // The old page shows a note, and still gets the parts of its own version, though the server does not have them.
  const update = (of: Page) =>
    of.evaluate(() => navigator.serviceWorker.ready.then((registration) => registration.update()).then(() => {}));
  await update(page);
  const note = page.getByText('A new version is ready.');
  await expect(note).toBeVisible();
  await test.info().attach('new version', { body: await page.screenshot(), contentType: 'image/png' });
  expect(existsSync(join(host.folder, old!))).toBe(false);
  expect(await page.evaluate((path) => fetch(path).then(({ ok }) => ok), `${old}/chat.js`)).toBe(true);
  // A second page of the old version: reloading the first one must not remove that version.
  const second = await context.newPage();
  await second.goto(`${host.url}storage.html`);
  expect(await parts(second)).toEqual([old]);
  await page.getByRole('button', { name: 'Reload' }).click();
  await expect(page.getByText('Close the other tabs of Millrace first')).toBeVisible();
  await second.close();
  await page.getByRole('button', { name: 'Reload' }).click();
  await expect(async () => expect(await parts(page)).toEqual([renewed])).toPass();
  await expect(page.locator('#waiting')).toBeHidden();
  // The old version's files are removed.
  const keptFiles = await page.evaluate(async () => {
    const names = await caches.keys();
    const requests = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
    return requests.flat().map(({ url }) => url);
  });
  expect(keptFiles.filter((url) => url.includes(old!))).toEqual([]);
  expect(keptFiles.some((url) => url.includes(renewed))).toBe(true);
  // With all pages closed, the next start has the newest version, without confirmation.
  const third = renew(host.folder, renewed);
  await update(page);
  await expect(note).toBeVisible();
  await page.close();
  const next = await context.newPage();
  await expect(async () => {
    // A closed page is a client for a moment longer, and a reloaded one stays a client of the old version: each attempt
    // begins without any.
    await next.goto('about:blank');
    await next.goto(`${host.url}storage.html`);
    expect(await parts(next)).toEqual([third]);
  }).toPass({ timeout: 60_000 });
  expect(problems).toEqual([]);
});

/** Replaces a site by another version in place: other scripts, in a folder of another name, without the old ones. */
function renew(folder: string, app: string): string {
  const other = `app-${String(Number.parseInt(app.slice(4, 10), 16) ^ 0xffffff).padStart(10, '0')}`;
  renameSync(join(folder, app), join(folder, other));
  for (const name of readdirSync(folder).filter((name) => name.endsWith('.html') || name === 'sw.js')) {
    const text = readFileSync(join(folder, name), 'utf8').replaceAll(app, other);
    writeFileSync(
      join(folder, name),
      name === 'sw.js' ? text.replace(/revision:"\w{4}/g, () => `revision:"${other.slice(-4)}`) : text,
    );
  }
  return other;
}

/** The requests of a page before its first paint, and their bytes: its scripts are held back until then. */
async function firstPaint(browser: Browser, url: string): Promise<{ asked: string[]; bytes: number }> {
  const context = await browser.newContext();
  await context.route(/\.js$/, () => {});
  const page = await context.newPage();
  const asked: string[] = [];
  const bodies: Promise<Buffer>[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  page.on('response', (response) => bodies.push(response.body().catch(() => Buffer.alloc(0))));
  await page.goto(url, { waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  const bytes = (await Promise.all(bodies)).reduce((sum, { length }) => sum + length, 0);
  await context.close();
  return { asked, bytes };
}

/** The layout shift of a page while it loads. */
async function shiftOf(browser: Browser, url: string): Promise<number> {
  const context = await browser.newContext();
  // The model's download is held: on a software GPU, which paints as well, compiling kernels would delay the first
  // paint.
  await context.route(
    ({ pathname }) => pathname.endsWith(TINY),
    () => {},
  );
  const page = await context.newPage();
  await page.addInitScript(() => {
    const seen = { shift: 0 };
    Object.assign(globalThis, { seen });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.shift += (entry as unknown as { value: number }).value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.goto(url);
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  // Waits for everything that could still move the page: fonts, and its own script, frame by frame.
  await page.waitForLoadState('load');
  await page.evaluate(async () => {
    await document.fonts.ready;
    for (let frame = 0; frame < 60; frame += 1) await new Promise((done) => requestAnimationFrame(done));
  });
  const { shift } = await page.evaluate(() => (globalThis as unknown as { seen: { shift: number } }).seen);
  await context.close();
  return shift;
}

test('little is loaded before the engine, it is painted without any script, and nothing moves', async ({
  browser,
  page,
  host,
}) => {
  const loaded = new Map<string, number>();
  page.on('response', async (response) => {
    const path = new URL(response.url()).pathname;
    if (path.endsWith('.js')) loaded.set(path, (await response.body()).length);
  });
  await page.goto(`${host.url}?model=${TINY}`);
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready', { timeout: 120_000 });
  const before = [...loaded].filter(([path]) => !path.endsWith('/worker.js') && !path.endsWith('/sw.js'));
  const sum = before.reduce((total, [, bytes]) => total + bytes, 0);
  test.info().annotations.push({
    type: 'script before the engine',
    description: `${sum} bytes: ${before.map(([path, bytes]) => `${path} ${bytes}`).join(', ')}`,
  });
  expect(sum).toBeGreaterThan(10_000);
  expect(sum).toBeLessThan(100_000);
  await page.close();
  // Each page with valid parameters: an error would move the content below it.
  for (const name of [
    `?model=${TINY}`,
    ...PAGES.map((page) => (page === 'kernels.html' ? `${page}?quick&filter=none` : page)),
  ]) {
    const { asked, bytes } = await firstPaint(browser, `${host.url}${name}`);
    const shift = await shiftOf(browser, `${host.url}${name}`);
    test.info().annotations.push({
      type: `${name}: before the first paint, shift`,
      description: `${bytes} bytes of ${asked.join(', ')}; ${shift.toFixed(4)}`,
    });
    expect(bytes, name).toBeGreaterThan(1000);
    expect(bytes, name).toBeLessThan(200_000);
    expect(asked.filter((path) => /\.(wasm|gguf)$/.test(path))).toEqual([]);
    expect(shift, name).toBeLessThan(0.01);
  }
});

test('the manifest makes it installable: its icons are there, in the sizes that it states', async ({ page, host }) => {
  await page.goto(host.url);
  const href = await page.locator('link[rel=manifest]').evaluate((link: HTMLLinkElement) => link.href);
  const manifest = await (await page.request.get(href)).json();
  expect(manifest).toMatchObject({
    name: 'Millrace',
    short_name: 'Millrace',
    start_url: './',
    scope: './',
    display: 'standalone',
  });
  for (const key of ['description', 'theme_color', 'background_color']) expect(manifest[key]).toMatch(/./);
  const wanted = ['any', '192x192', '512x512', '512x512 maskable'];
  expect(
    manifest.icons.map((icon: { sizes: string; purpose?: string }) =>
      [icon.sizes, icon.purpose].filter(Boolean).join(' '),
    ),
  ).toEqual(wanted);
  const touch = await page.locator('link[rel=apple-touch-icon]').evaluate((link: HTMLLinkElement) => link.href);
  const icons = [
    ...manifest.icons.map(({ src, sizes }: { src: string; sizes: string }) => [new URL(src, href).href, sizes]),
    [touch, '180x180'],
  ] as [string, string][];
  for (const [src, sizes] of icons) {
    const size = await page.evaluate(async (src) => {
      const image = new Image();
      image.src = src;
      await image.decode();
      return `${image.naturalWidth}x${image.naturalHeight}`;
    }, src);
    if (sizes !== 'any') expect(size).toBe(sizes);
  }
  // The browser's own check of the manifest.
  const session = await page.context().newCDPSession(page);
  const { errors } = (await session.send('Page.getAppManifest')) as { errors: unknown[] };
  expect(errors).toEqual([]);
});
