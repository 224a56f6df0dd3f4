// Pictures on the chat page, with a small random model that reads them: chosen, dropped, pasted, removed; kept with the conversation.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, look } from './looks.ts';
import { bytesOf, expect, root, test, TINY, type Page } from './support.ts';

const MODEL = '/data/oracle/lfm2vl-hf/model/';
const ICON = join(root, 'www', 'icons', 'icon-192.png');

/** Tokens of the icon with this small model; pictures.spec.ts compares such counts with prompts. */
const TOKENS = 39;

const attach = (page: Page) => page.getByRole('button', { name: 'Add pictures' });
const attached = (page: Page) => page.getByRole('list', { name: 'Pictures of the message' }).getByRole('listitem');
const questions = (page: Page) => page.locator('#messages .user');

/** Random weights may never come to an end. */
async function answered(page: Page, count: number): Promise<void> {
  await expect(page.locator('#messages .assistant')).toHaveCount(count);
  await expect(page.locator('#messages .assistant').last()).toHaveClass(/begun/);
  await page.keyboard.press('Escape');
  await expect(page.locator('#messages .assistant .figures')).toHaveCount(count);
  await expect(page.locator('#messages .writing')).toHaveCount(0);
}

/** Drops files that hold a picture, or pastes them into the composer. */
async function hand(page: Page, how: 'drop' | 'paste', names: readonly string[], picture = ICON): Promise<void> {
  await page.evaluate(
    ({ how, names, bytes }) => {
      const data = new DataTransfer();
      const type = (name: string): string => (name.endsWith('.png') ? 'image/png' : 'text/plain');
      for (const name of names) data.items.add(new File([new Uint8Array(bytes)], name, { type: type(name) }));
      const event =
        how === 'drop'
          ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
          : new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
      document.querySelector(how === 'drop' ? 'main' : '#prompt')!.dispatchEvent(event);
    },
    { how, names, bytes: [...readFileSync(picture)] },
  );
}

test('pictures are attached, shown, answered, and kept with the conversation', async ({ page, site }) => {
  await page.goto(`${site.url}/?model=${encodeURIComponent(MODEL)}&lane=exact`);
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready');
  await expect(attach(page)).toBeVisible();
  // What holds files but no camera.
  await expect(page.getByRole('button', { name: 'Take a photograph' })).toBeHidden();
  await page.locator('#picture-files').setInputFiles(ICON);
  await hand(page, 'drop', ['dropped.png']);
  await hand(page, 'paste', ['pasted.png', 'notes.txt']);
  await expect(attached(page)).toHaveCount(3);
  await expect(page.getByRole('img', { name: 'pasted.png' })).toBeVisible();
  await expect(attached(page).locator('.tokens')).toHaveText(Array.from({ length: 3 }, () => `${TOKENS} tokens`));
  await look(page, 'pictures-attached');
  await accessible(page);
  await page.getByRole('button', { name: 'Remove dropped.png' }).click();
  await expect(attached(page)).toHaveCount(2);
  await page.getByLabel('Message', { exact: true }).fill('What are these?');
  await page.getByLabel('Message', { exact: true }).press('Enter');
  await expect(attached(page)).toHaveCount(0);
  await answered(page, 1);
  await expect(questions(page).getByRole('img')).toHaveCount(2);
  await look(page, 'pictures-answered');
  // A picture alone is a question, too.
  await hand(page, 'drop', ['alone.png']);
  await page.getByRole('button', { name: 'Send' }).click();
  await answered(page, 2);
  await page.reload();
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready');
  await expect(questions(page).getByRole('img')).toHaveCount(3);
  // The edited question has the same pictures.
  await questions(page).first().getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Edit the message').fill('And these?');
  await page.getByLabel('Edit the message').press('Enter');
  await answered(page, 1);
  await expect(questions(page).getByRole('img')).toHaveCount(2);
});

test('the model in the box reads its example, and what is dropped', async ({ page, site }) => {
  const answer = page.locator('#messages .assistant').last();
  await page.goto(site.url);
  await page.getByRole('button', { name: 'Solve the sum in this picture.' }).click();
  await expect(questions(page).getByRole('img', { name: 'Example.png' })).toBeVisible();
  await expect(answer).toContainText('17 + 25 = 42.');
  const lines = bytesOf('tests/data/box/pictures/answers.jsonl').toString().trim().split('\n');
  const asked = lines.map((line) => JSON.parse(line) as { picture: string; question: string; reference_text: string });
  for (const name of ['words-000.png', 'shapes-243.png']) {
    const { picture, question, reference_text: text } = asked.find((one) => one.picture === name)!;
    await page.getByRole('button', { name: 'New chat' }).click();
    await hand(page, 'drop', [picture], join(root, 'tests/data/box/pictures', picture));
    await expect(attached(page).locator('.tokens')).toHaveText('103 tokens');
    await page.getByLabel('Message', { exact: true }).fill(question);
    await page.getByLabel('Message', { exact: true }).press('Enter');
    await expect(answer).toContainText(text);
  }
  // It still answers without one.
  await page.getByLabel('Message', { exact: true }).fill('What is 38 + 47?');
  await page.getByLabel('Message', { exact: true }).press('Enter');
  await expect(answer).toContainText('38 + 47 = 85.');
});

test.describe('in the hand', () => {
  test.use({ hasTouch: true, isMobile: true, viewport: { width: 320, height: 640 } });

  test('a picture is taken by the camera', async ({ page, site }) => {
    const camera = page.getByRole('button', { name: 'Take a photograph' });
    await page.goto(`${site.url}/?model=${encodeURIComponent(MODEL)}&lane=exact`);
    await expect(camera).toBeVisible();
    const choosing = page.waitForEvent('filechooser');
    await camera.tap();
    const chooser = await choosing;
    await expect(page.locator('#photo')).toHaveAttribute('capture', 'environment');
    await chooser.setFiles({ name: 'photo.png', mimeType: 'image/png', buffer: readFileSync(ICON) });
    await expect(attached(page).getByRole('img', { name: 'photo.png' })).toBeVisible();
    await look(page, 'pictures-phone');
    await accessible(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  });
});

test('a model that reads no pictures says so', async ({ page, site }) => {
  await page.goto(`${site.url}/?model=${TINY}`);
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready');
  await expect(page.getByRole('button', { name: 'Solve the sum in this picture.' })).toBeHidden();
  await expect(attach(page)).toBeHidden();
  await hand(page, 'drop', ['dropped.png']);
  await expect(page.getByText('This model does not read pictures.')).toBeVisible();
  await expect(attached(page)).toHaveCount(0);
});
