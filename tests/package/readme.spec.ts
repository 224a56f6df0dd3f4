// The README's code, run as it stands by a consumer of the installed package. engine.spec.ts runs what goes on with an engine that is loaded.
import { block, bundled, expect, html, javascript, type Page, type Site, test } from './support.ts';

async function open(page: Page, site: Site, module: string): Promise<{ logged: string[]; problems: string[] }> {
  site.routes.set('/suite/readme.js', javascript(module));
  site.routes.set(
    '/readme',
    html(
      '<!doctype html><meta charset="utf-8"><title>README</title><p id="answer"></p><div id="root"></div><script type="module" src="/suite/readme.js"></script>',
    ),
  );
  const seen = { logged: [] as string[], problems: [] as string[] };
  page.on('console', (message) => seen.logged.push(message.text()));
  page.on('pageerror', (error) => seen.problems.push(error.message));
  await page.goto(`${site.url}/readme`);
  return seen;
}

test('In your page', async ({ page, site }) => {
  const seen = await open(page, site, await bundled(`${block('In your page', 'js')}\nglobalThis.finished = true;`));
  await expect(async () => {
    expect(seen.problems).toEqual([]);
    expect(await page.evaluate(() => 'finished' in globalThis)).toBe(true);
  }).toPass({ timeout: 150_000 });
  await expect(page.locator('#answer')).toContainText('42');
  expect(seen.logged.join('\n')).toContain('42');
});

test('React', async ({ page, site }) => {
  const shown =
    "import { createElement } from 'react'; import { createRoot } from 'react-dom/client'; createRoot(document.getElementById('root')).render(createElement(Chat));";
  const seen = await open(page, site, await bundled(`${block('React', 'jsx')}\n${shown}`, 'jsx'));
  await expect(page.locator('progress')).toBeVisible();
  await page.getByRole('button', { name: 'Ask' }).click({ timeout: 150_000 });
  await expect(page.locator('.assistant')).toContainText('42', { timeout: 60_000 });
  expect(seen.problems).toEqual([]);
});
