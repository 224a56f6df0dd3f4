// The chat page from a user's view.
import { join } from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { bytesOf, expect, test, TINY, type Page } from './support.ts';

const answer = (page: Page) => page.locator('#messages .assistant').last();
const composer = (page: Page) => page.getByLabel('Message', { exact: true });

async function ready(page: Page): Promise<void> {
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready', { timeout: 240_000 });
}

/** Begins anew on the shared page. */
async function newChat(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'New chat' }).click();
  await expect(page.locator('#messages > li')).toHaveCount(0);
}

/** The answer is whole: its figures are there. */
async function finished(page: Page): Promise<void> {
  await expect(answer(page).locator('.figures')).toContainText('tokens', { timeout: 120_000 });
}

async function ask(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await composer(page).press('Enter');
}

const begun = (page: Page) => expect(answer(page).locator('.text')).not.toHaveText('', { timeout: 120_000 });

test.setTimeout(600_000);

test('answers from the model in the box, over several turns, and tells how fast it was', async ({ chat }) => {
  const problems: string[] = [];
  chat.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  chat.on('pageerror', (error) => problems.push(error.message));
  await newChat(chat);
  await chat.getByRole('button', { name: 'What is 17 + 25?' }).click();
  await finished(chat);
  await expect(answer(chat).locator('.text')).toContainText('42');
  await expect(answer(chat).locator('.figures')).toContainText(/\d+ tokens · .*tokens\/s · first after/);
  await ask(chat, 'What is 12 + 30?');
  await expect(chat.locator('#messages > li')).toHaveCount(4);
  await finished(chat);
  await expect(answer(chat).locator('.text')).toContainText('42');
  await expect(chat.locator('#facts')).toContainText('CPU');
  expect(problems).toEqual([]);
});

test('what is no address, as the model, is an error by name beside which others can be chosen', async ({
  page,
  site,
}) => {
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`${site.url}/?model=${encodeURIComponent('http://[')}`);
  await expect(page.locator('#problem')).toContainText('model is "http://[", which is no URL', { timeout: 60_000 });
  await page.locator('#open-models').click();
  await expect(page.getByRole('dialog', { name: 'Choose a model' })).toContainText('The model in the box');
  expect(problems).toEqual([]);
});

test('the JSON mode forces the model in the box, and says by what', async ({ chat }) => {
  await newChat(chat);
  const mode = chat.getByRole('button', { name: 'JSON mode' });
  const panel = chat.getByRole('region', { name: 'JSON mode' });
  await mode.click();
  await panel.getByText('Edit the schema').click();
  const schema = panel.getByLabel('Schema', { exact: true });
  await schema.fill('{ "type": "array", "uniqueItems": true }');
  await expect(panel.getByRole('status')).toContainText('uniqueItems an automaton cannot compare items');
  const properties = { sky: { enum: ['blue', 'grey'] }, far: { type: 'boolean' } };
  await schema.fill(
    JSON.stringify({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false }),
  );
  await expect(panel.getByRole('status')).toContainText(/Forced by a grammar of \d+ states/);
  await ask(chat, 'What is the sky like?');
  await finished(chat);
  expect(JSON.parse(await answer(chat).locator('.text').innerText())).toEqual({
    sky: expect.stringMatching(/^(blue|grey)$/),
    far: expect.any(Boolean),
  });
  await expect(answer(chat).locator('.tree > li')).toHaveText([/^sky (blue|grey)$/, /^far (true|false)$/]);
  await expect(answer(chat).locator('.forced')).toContainText(/Forced by a grammar of \d+ states/);
  await mode.click();
  await expect(panel).toBeHidden();
});

test('the model in the box uses a tool of the page', async ({ chat }) => {
  await newChat(chat);
  await chat.getByRole('button', { name: 'Set a timer for 1 minute.' }).click();
  await finished(chat);
  await expect(answer(chat).locator('.call summary')).toHaveText('set_timer → {"status":"started"}');
  await expect(answer(chat).locator('.text').last()).toHaveText('The timer for 1 minutes is started.');
  // The call belongs to the conversation, and other questions are answered as before.
  await ask(chat, 'What is 17 + 25?');
  await finished(chat);
  await expect(answer(chat).locator('.text').last()).toContainText('42');
});

test('by keyboard alone: new line, stop, regenerate, new chat', async ({ chat }) => {
  await newChat(chat);
  await composer(chat).focus();
  await chat.keyboard.type('Tell me');
  await chat.keyboard.press('Shift+Enter');
  await chat.keyboard.type('a short story.');
  await chat.keyboard.press('Enter');
  await expect(chat.locator('#messages .user .text')).toHaveText('Tell me\na short story.');
  await expect(composer(chat)).toBeFocused();
  await begun(chat);
  await chat.keyboard.press('Escape');
  await expect(answer(chat)).not.toHaveClass(/writing/);
  await expect(chat.getByRole('button', { name: 'Send' })).toBeVisible();
  await expect(composer(chat)).toBeFocused();
  await chat.getByRole('button', { name: 'New chat' }).press('Enter');
  await chat.keyboard.type('What is 17 + 25?');
  await chat.keyboard.press('Enter');
  await finished(chat);
  // A new answer may be complete before the next check of the page.
  await answer(chat).evaluate((element) => element.setAttribute('data-old', ''));
  await chat.getByRole('button', { name: 'Regenerate' }).press('Enter');
  await expect(chat.locator('[data-old]')).toHaveCount(0);
  await finished(chat);
  await expect(chat.locator('#messages > li')).toHaveCount(2);
  await chat.getByRole('button', { name: 'New chat' }).press('Enter');
  await expect(chat.locator('#messages > li')).toHaveCount(0);
  await expect(composer(chat)).toBeFocused();
});

test('the stop button ends an answer and keeps its text', async ({ chat }) => {
  await newChat(chat);
  // Observed within the page: the CPU writes a story in less than a second.
  await chat.evaluate(() => {
    const stop = document.querySelector<HTMLButtonElement>('#stop')!;
    new MutationObserver((_, observer) => {
      if (stop.hidden || !document.querySelector('#messages .assistant:last-child .text')?.textContent) return;
      observer.disconnect();
      stop.click();
    }).observe(document.body, { childList: true, characterData: true, attributes: true, subtree: true });
  });
  await ask(chat, 'Tell me a short story.');
  await finished(chat);
  await expect(answer(chat).locator('.text')).not.toHaveText('');
  await expect(answer(chat).locator('.figures')).toContainText('stopped');
});

test('settings act on the next answer and tell about the machine', async ({ chat }) => {
  await newChat(chat);
  const dialog = chat.getByRole('dialog', { name: 'Settings' });
  await chat.getByRole('button', { name: 'Settings' }).click();
  await expect(dialog.locator('#machine')).toContainText('parameters');
  await dialog.getByLabel('Max tokens').fill('2');
  await chat.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await ask(chat, 'Tell me a short story.');
  await finished(chat);
  await expect(answer(chat).locator('.figures')).toContainText(/^2 tokens.*cut at the limit/);
  await chat.getByRole('button', { name: 'Settings' }).click();
  await dialog.getByLabel('Max tokens').fill('');
  await dialog.getByRole('button', { name: 'Close settings' }).click();
  await expect(dialog).toBeHidden();
});

test('a narrow screen shows everything without scrolling sideways', async ({ chat }) => {
  await newChat(chat);
  const size = chat.viewportSize()!;
  await chat.setViewportSize({ width: 320, height: 600 });
  for (const name of ['New chat', 'Settings', 'Send'])
    await expect(chat.getByRole('button', { name })).toBeInViewport({ ratio: 1 });
  expect(await chat.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await chat.setViewportSize(size);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`no accessibility rule of WCAG 2.2 AA is broken, ${colorScheme}`, async ({ chat }) => {
    const violations = async (): Promise<string[]> => {
      const axe = new AxeBuilder({ page: chat });
      // The dark scheme differs in colours only.
      const { violations } = await (colorScheme === 'dark'
        ? axe.withRules('color-contrast')
        : axe.withTags(['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'])
      ).analyze();
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
    };
    await newChat(chat);
    await chat.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    expect(await violations()).toEqual([]);
    await ask(chat, 'What is 17 + 25?');
    await finished(chat);
    expect(await violations()).toEqual([]);
    await chat.getByRole('button', { name: 'Settings' }).click();
    expect(await violations()).toEqual([]);
    await chat.keyboard.press('Escape');
    await chat.emulateMedia({ colorScheme: null, reducedMotion: null });
  });
}

test('a message written before the model is there waits for it; lane and settings are remembered', async ({
  page,
  site,
}) => {
  await page.goto(`${site.url}/?lane=exact`);
  await page.getByRole('button', { name: 'Settings' }).click();
  const dialog = page.getByRole('dialog', { name: 'Settings' });
  await expect(dialog.getByLabel('Lane')).toHaveValue('exact');
  await dialog.getByLabel('Max tokens').fill('3');
  await page.keyboard.press('Escape');
  await ask(page, 'What is 17 + 25?');
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'loading');
  await finished(page);
  await expect(answer(page).locator('.figures')).toContainText(/^3 tokens/);
  await page.reload();
  await page.getByRole('button', { name: 'Settings' }).click();
  await expect(dialog.getByLabel('Max tokens')).toHaveValue('3');
});

test('a model that is not there is explained, and another one can be loaded', async ({ page, site }) => {
  await page.goto(`${site.url}/?model=/nothing.gguf`);
  const problem = page.getByRole('alert');
  await expect(problem).toContainText('The model is not there');
  await expect(problem).toContainText('/nothing.gguf');
  await problem.getByRole('button', { name: 'Choose a model' }).click();
  const dialog = page.getByRole('dialog', { name: 'Choose a model' });
  await expect(dialog.getByLabel(/^URL/)).toBeFocused();
  await dialog.getByLabel(/^URL/).fill(TINY);
  await dialog.getByRole('button', { name: 'Look' }).click();
  await ready(page);
  await expect(problem).toBeHidden();
});

test('loading can be cancelled and tried again', async ({ page, site }) => {
  // Too little of a model's header to plan it: the load waits for the rest.
  const start = bytesOf(join('tests', TINY)).subarray(0, 100);
  site.routes.set('/slow.gguf', (_, response) => void response.writeHead(200, { 'Content-Length': 1e9 }).write(start));
  await page.goto(`${site.url}/?model=/slow.gguf`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByRole('alert')).toContainText('Cancelled');
  await expect(page.getByRole('button', { name: 'Try again' })).toBeVisible();
});

test('without a GPU the page answers by the CPU, and says so and why', async ({ page, site }) => {
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }));
  await page.goto(site.url);
  await ask(page, 'What is 17 + 25?');
  await finished(page);
  await expect(answer(page).locator('.text').last()).toContainText('42');
  await expect(page.locator('#facts')).toContainText('CPU');
  await expect(page.locator('#warnings')).toContainText(/the model runs on the CPU/i);
});
