// Each example as its bundler leaves it, from a static server that sends no headers of its own: it loads the model in the box and answers.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, chromium, expect, type Page, test } from '@playwright/test';
import { browserFlags, findBrowser } from '../../scripts/lib/browser.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { EXAMPLES, PROGRAMS, served } from '../../scripts/package.mjs';
import { serve } from '../../scripts/serve.mjs';

const MODELS = { '/models/': join(root, 'www', 'models') };
const bundled = Object.keys(EXAMPLES).filter((name) => name !== 'extension' && !PROGRAMS.includes(name));

/** Browsers ask for it of their own accord. */
function noIcon({ url }: IncomingMessage, response: ServerResponse): boolean {
  if (url === '/favicon.ico') response.writeHead(204).end();
  return url === '/favicon.ico';
}

function withPolicy(request: IncomingMessage, response: ServerResponse): boolean {
  response.setHeader('Content-Security-Policy', CSP);
  return noIcon(request, response);
}

/** Whatever the page and its Workers ask for from elsewhere, and every complaint of the browser's. */
function watch(context: BrowserContext, page: Page, origin: string): { elsewhere: string[]; problems: string[] } {
  const seen = { elsewhere: [] as string[], problems: [] as string[] };
  context.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && !['blob:', 'data:'].includes(url.protocol)) seen.elsewhere.push(url.href);
  });
  page.on('console', (message) => message.type() === 'error' && seen.problems.push(message.text()));
  page.on('pageerror', (error) => seen.problems.push(error.message));
  return seen;
}

// Each has a model of its own to load.
test.describe.configure({ mode: 'parallel' });

/** Loading with progress, an answer that streams, and one that is stopped. */
async function chat(page: Page): Promise<void> {
  await expect(page.locator('progress')).toBeVisible();
  await expect(page.getByRole('status')).toHaveText(/^Ready: /, { timeout: 240_000 });
  await expect(page.locator('progress')).toBeHidden();
  // How often the answer grew: once would be no stream.
  await page.evaluate(() => {
    let grown = 0;
    let last = '';
    new MutationObserver(() => {
      const text = document.querySelector('#answer')?.textContent ?? '';
      if (text !== last && text.startsWith(last) && text !== '') grown += 1;
      last = text;
      document.body.dataset.grown = String(grown);
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
  });
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('#answer')).toContainText('42', { timeout: 60_000 });
  await expect(page.getByRole('button', { name: 'Send' })).toBeEnabled({ timeout: 60_000 });
  expect(Number(await page.locator('body').getAttribute('data-grown'))).toBeGreaterThan(1);
  await page.locator('#prompt').fill('Tell me a very long story.');
  // Somebody who is as fast as the CPU: the story is told in less than a second.
  await page.evaluate(() => {
    const stop = [...document.querySelectorAll('button')].find(({ textContent }) => textContent?.trim() === 'Stop')!;
    new MutationObserver((_, observer) => {
      if (stop.disabled || !document.querySelector('#answer')?.textContent) return;
      observer.disconnect();
      stop.click();
      document.body.dataset.stopped = 'yes';
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
  });
  await page.getByRole('button', { name: 'Send' }).click();
  await expect(page.locator('body')).toHaveAttribute('data-stopped', 'yes');
  await expect(page.getByRole('button', { name: 'Send' })).toBeEnabled();
  await expect(page.locator('#error')).toHaveText('');
}

/** What the README documents: nothing else is needed, and nothing else is allowed. */
const CSP = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";

for (const name of bundled) {
  test(`examples/${name} loads, streams an answer and stops${name === 'plain' ? ', under the documented content security policy' : ''}`, async ({
    page,
    context,
  }) => {
    const server = await serve({
      mounts: { ...MODELS, '/': served(name) },
      before: name === 'plain' ? withPolicy : noIcon,
    });
    const seen = watch(context, page, server.url);
    await page.goto(`${server.url}/`);
    await chat(page);
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(false);
    expect(seen).toEqual({ elsewhere: [], problems: [] });
    await server.close();
  });
}

test('a bundler makes one script of the Worker, not a second copy', () => {
  const scripts = readdirSync(join(served('vite'), 'assets')).filter((name) => /^worker.*\.js$/.test(name));
  expect(scripts).toHaveLength(1);
});

test('examples/extension, loaded into Chromium, does so in its own page', async () => {
  const folder = served('extension');
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  expect(manifest.content_security_policy.extension_pages).toBe(`${CSP}; style-src 'self'`);
  const profile = mkdtempSync(join(tmpdir(), 'millrace-extension-'));
  const executablePath = await findBrowser();
  const context = await chromium.launchPersistentContext(profile, {
    ...(executablePath ? { executablePath } : {}),
    headless: true,
    args: [
      ...browserFlags(),
      `--disable-extensions-except=${folder}`,
      `--load-extension=${folder}`,
      '--disable-features=DisableLoadExtensionCommandLineSwitch',
    ],
    ignoreDefaultArgs: ['--disable-extensions'],
  });
  try {
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const origin = new URL(worker.url()).origin;
    expect(worker.url()).toMatch(/^chrome-extension:/);
    const page = await context.newPage();
    const seen = watch(context, page, origin);
    await page.goto(`${worker.url().slice(0, worker.url().lastIndexOf('/'))}/page.html`);
    await chat(page);
    expect(seen).toEqual({ elsewhere: [], problems: [] });
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
});

for (const name of ['vite', 'nextjs']) {
  test(`examples/${name} without its model says what is missing, and tries again`, async ({ page }) => {
    let asked = 0;
    const server = await serve({
      mounts: { '/': served(name) },
      before(request: IncomingMessage, response: ServerResponse) {
        if (noIcon(request, response)) return true;
        if (!request.url?.startsWith('/models/')) return false;
        asked += 1;
        response.writeHead(404).end();
        return true;
      },
    });
    await page.goto(`${server.url}/`);
    await expect(page.locator('#error')).toContainText('NOT_FOUND', { timeout: 60_000 });
    await expect(page.getByRole('button', { name: 'Send' })).toBeDisabled();
    const before = asked;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(() => asked).toBeGreaterThan(before);
    await expect(page.locator('#error')).toContainText('NOT_FOUND', { timeout: 60_000 });
    await server.close();
  });
}
