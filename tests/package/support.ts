// What these tests share: a page of a consumer who bundles the installed package with the official OpenAI client, the AI SDK and React.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test as base, expect, type Page } from '@playwright/test';
import * as esbuild from 'esbuild';
import { root } from '../../scripts/lib/env.mjs';
import { consumer, installed } from '../../scripts/package.mjs';
import { serve } from '../../scripts/serve.mjs';

export { expect, root, type Page };

/** The model in the box, and a random one that loads in a moment. */
export const BOX = '/models/box.gguf';
export const TINY = '/data/oracle/gguf-q8_0/model.gguf';

export interface Site {
  url: string;
  /** Paths that a test answers itself. */
  routes: Map<string, (request: IncomingMessage, response: ServerResponse) => void>;
}

/** A consumer's module as their bundler leaves it; the two files that it needs lie beside it. */
export async function bundled(contents: string, loader: 'ts' | 'jsx' = 'ts'): Promise<string> {
  const { outputFiles } = await esbuild.build({
    stdin: { contents, loader, resolveDir: consumer },
    bundle: true,
    format: 'esm',
    write: false,
    logLevel: 'warning',
    // The installed package, and not the sources that tsconfig.json names for the type check.
    tsconfigRaw: {},
    nodePaths: [join(consumer, 'node_modules')],
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"development"' },
  });
  return outputFiles[0]!.text;
}

/** The code block of a section of README.md or of docs/GUIDE.md, the first or one behind it. */
export function block(section: string, language: string, index = 0): string {
  const text = ['README.md', join('docs', 'GUIDE.md')]
    .flatMap((name) => readFileSync(join(root, name), 'utf8').split(/^## /m))
    .find((part) => part.startsWith(`${section}\n`));
  const blocks = [...(text ?? '').matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))];
  const code = blocks[index]?.[1];
  if (!code) throw new Error(`README.md and docs/GUIDE.md have no code block in ${language} under "${section}"`);
  return code;
}

export const javascript =
  (text: string) =>
  (_: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(text);
export const html =
  (text: string) =>
  (_: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(200, { 'Content-Type': 'text/html' }).end(text);

const BLANK =
  '<!doctype html><meta charset="utf-8"><title>Test</title><div id="root"></div><script type="module" src="/suite/page.js"></script>';

/** Opens a page that has the package and nothing else. */
export async function openBlank(page: Page, site: Site): Promise<void> {
  await page.goto(`${site.url}/blank`);
  await page.waitForFunction(() => 'failure' in globalThis);
}

export const test = base.extend<{ blank: Page }, { site: Site; box: Page }>({
  site: [
    async ({}, use) => {
      const page = await bundled(`export * from ${JSON.stringify(join(root, 'tests', 'package', 'page.ts'))};`);
      const site: Site = {
        url: '',
        routes: new Map([
          ['/blank', html(BLANK)],
          ['/suite/page.js', javascript(page)],
        ]),
      };
      const server = await serve({
        mounts: {
          '/data/': join(root, 'tests', 'data'),
          '/models/': join(root, 'www', 'models'),
          '/suite/': installed,
          '/': installed,
        },
        before(request: IncomingMessage, response: ServerResponse) {
          const route = site.routes.get(new URL(request.url ?? '/', 'http://localhost').pathname);
          route?.(request, response);
          return route !== undefined;
        },
      });
      site.url = server.url;
      await use(site);
      await server.close();
    },
    { scope: 'worker' },
  ],
  blank: async ({ page, site }, use) => {
    await openBlank(page, site);
    await use(page);
  },
  /** A page with the model in the box loaded as `engine`, shared by all tests of the worker. */
  box: [
    async ({ browser, site }, use) => {
      const page = await browser.newPage();
      await openBlank(page, site);
      await page.evaluate(async (model) => {
        globalThis.engine = await Engine.load({ model, chunk: 4 });
      }, BOX);
      await use(page);
      await page.context().close();
    },
    { scope: 'worker', timeout: 240_000 },
  ],
});
