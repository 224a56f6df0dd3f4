// The README's code example, run as it stands.
import { bytesOf, expect, test } from './support.ts';

test('the example in README.md runs unchanged', async ({ page, site }) => {
  const example = /```js\n([\s\S]*?)```/.exec(bytesOf('README.md').toString())?.[1];
  expect(example, 'README.md has a code block in js').toBeDefined();
  // All that is added is where the package is.
  const html = `<!doctype html><title>README</title><p id="answer"></p>
    <script type="importmap">{ "imports": { "millrace": "/pkg/index.js" } }</script>
    <script type="module">${example}\nglobalThis.finished = true;</script>`;
  site.routes.set('/readme', (_, response) => void response.writeHead(200, { 'Content-Type': 'text/html' }).end(html));
  const logged: string[] = [];
  const problems: string[] = [];
  page.on('console', (message) => logged.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`${site.url}/readme`);
  await expect(async () => {
    expect(problems).toEqual([]);
    expect(await page.evaluate(() => 'finished' in globalThis)).toBe(true);
  }).toPass({ timeout: 240_000 });
  await expect(page.locator('#answer')).toContainText('42');
  expect(logged.join('\n')).toContain('42');
});
