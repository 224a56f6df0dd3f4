// The chat page, as somebody uses it.
import AxeBuilder from '@axe-core/playwright';
import { expect, test, type Page } from './support.ts';

const answer = (page: Page) => page.locator('#messages .assistant').last();
const composer = (page: Page) => page.getByLabel('Message', { exact: true });

async function ready(page: Page): Promise<void> {
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready', { timeout: 60_000 });
}

/** The answer is whole: its figures are there. */
async function finished(page: Page): Promise<void> {
  await expect(answer(page).locator('.figures')).toContainText('tokens', { timeout: 60_000 });
}

test('answers from the model in the box, over several turns, and tells how fast it was', async ({ page, site }) => {
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(site.url);
  await ready(page);
  await page.getByRole('button', { name: 'What is 17 + 25?' }).click();
  await finished(page);
  await expect(answer(page).locator('.text')).toContainText('42');
  await expect(answer(page).locator('.figures')).toContainText(/\d+ tokens · .*tokens\/s · first after/);
  await composer(page).fill('What is 12 + 30?');
  await composer(page).press('Enter');
  await expect(page.locator('#messages > li')).toHaveCount(4);
  await finished(page);
  await expect(answer(page).locator('.text')).toContainText('42');
  await expect(page.locator('#facts')).toContainText('GPU');
  expect(problems).toEqual([]);
});

test('by keyboard alone: a message before the model is there, new line, stop, retry, new chat', async ({ page, site }) => {
  await page.goto(site.url);
  await composer(page).focus();
  await page.keyboard.type('Tell me');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('a short story.');
  await page.keyboard.press('Enter');
  await expect(page.locator('#messages .user .text')).toHaveText('Tell me\na short story.');
  await expect(composer(page)).toBeFocused();
  await expect(answer(page).locator('.text')).not.toHaveText('', { timeout: 60_000 });
  await page.keyboard.press('Escape');
  await expect(answer(page)).not.toHaveClass(/writing/);
  await expect(page.getByRole('button', { name: 'Send' })).toBeVisible();
  await expect(composer(page)).toBeFocused();
  await page.getByRole('button', { name: 'Retry' }).press('Enter');
  await expect(page.locator('#messages > li')).toHaveCount(2);
  await finished(page);
  await page.getByRole('button', { name: 'New chat' }).press('Enter');
  await expect(page.locator('#messages > li')).toHaveCount(0);
  await expect(composer(page)).toBeFocused();
});

test('the stop button ends an answer and keeps its text', async ({ page, site }) => {
  await page.goto(site.url);
  await ready(page);
  await composer(page).fill('Tell me a short story.');
  await composer(page).press('Enter');
  await expect(answer(page).locator('.text')).not.toHaveText('', { timeout: 60_000 });
  await page.getByRole('button', { name: 'Stop' }).click();
  await finished(page);
  await expect(answer(page).locator('.text')).not.toHaveText('');
});

test('settings act, are remembered, and tell about the machine', async ({ page, site }) => {
  await page.goto(site.url);
  await ready(page);
  await page.getByRole('button', { name: 'Settings' }).click();
  const dialog = page.getByRole('dialog', { name: 'Settings' });
  await dialog.getByLabel('Max tokens').fill('2');
  await dialog.getByLabel('Lane').selectOption('exact');
  await expect(dialog.locator('#machine')).toContainText('parameters');
  await dialog.getByRole('button', { name: 'Load', exact: true }).click();
  await expect(dialog).toBeHidden();
  await ready(page);
  await composer(page).fill('Tell me a short story.');
  await composer(page).press('Enter');
  await finished(page);
  await expect(answer(page).locator('.figures')).toContainText(/^2 tokens.*cut at the limit/);
  await page.reload();
  await page.getByRole('button', { name: 'Settings' }).click();
  await expect(dialog.getByLabel('Max tokens')).toHaveValue('2');
  await expect(dialog.getByLabel('Lane')).toHaveValue('exact');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
});

test('a model that is not there is explained, and another one can be loaded', async ({ page, site }) => {
  await page.goto(`${site.url}/?model=/nothing.gguf`);
  const problem = page.getByRole('alert');
  await expect(problem).toContainText('The model is not there');
  await expect(problem).toContainText('/nothing.gguf');
  await problem.getByRole('button', { name: 'Choose a model' }).click();
  const dialog = page.getByRole('dialog', { name: 'Settings' });
  await expect(dialog.getByLabel(/^URL/)).toBeFocused();
  await dialog.getByLabel(/^URL/).fill('');
  await dialog.getByRole('button', { name: 'Load', exact: true }).click();
  await ready(page);
  await expect(problem).toBeHidden();
});

test('loading can be cancelled and tried again', async ({ page, site }) => {
  site.routes.set('/slow.gguf', (_, response) => void response.writeHead(200, { 'Content-Length': 1e9 }).write(Buffer.alloc(4096)));
  await page.goto(`${site.url}/?model=/slow.gguf`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByRole('alert')).toContainText('Cancelled');
  await expect(page.getByRole('button', { name: 'Try again' })).toBeVisible();
});

test('without WebGPU the page says so and what to do', async ({ page, site }) => {
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }));
  await page.goto(site.url);
  await expect(page.getByRole('alert')).toContainText('WebGPU is missing');
  await expect(page.getByRole('alert')).toContainText('update Chrome');
});

test('a narrow screen shows everything without scrolling sideways', async ({ page, site }) => {
  await page.setViewportSize({ width: 320, height: 600 });
  await page.goto(site.url);
  await ready(page);
  for (const name of ['New chat', 'Settings', 'Send']) await expect(page.getByRole('button', { name })).toBeInViewport({ ratio: 1 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`no accessibility rule of WCAG 2.2 AA is broken, ${colorScheme}`, async ({ page, site }) => {
    const violations = async (): Promise<string[]> => {
      const axe = new AxeBuilder({ page });
      // In the dark only the colours are others.
      const { violations } = await (colorScheme === 'dark' ? axe.withRules('color-contrast') : axe.withTags(['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'])).analyze();
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
    };
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto(site.url);
    await ready(page);
    expect(await violations()).toEqual([]);
    await page.getByRole('button', { name: 'What is 17 + 25?' }).click();
    await finished(page);
    expect(await violations()).toEqual([]);
    await page.getByRole('button', { name: 'Settings' }).click();
    expect(await violations()).toEqual([]);
    await page.goto(`${site.url}/?model=/nothing.gguf`);
    await expect(page.getByRole('alert')).toBeVisible();
    expect(await violations()).toEqual([]);
  });
}
