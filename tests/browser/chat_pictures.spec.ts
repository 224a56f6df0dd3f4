// Pictures on the chat page, with a small random model that reads them: chosen, dropped, pasted, removed; kept with the conversation.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, look } from './looks.ts';
import { expect, root, test, type Page } from './support.ts';

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

/** Drops files, or pastes them into the composer. */
async function hand(page: Page, how: 'drop' | 'paste', names: readonly string[]): Promise<void> {
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
    { how, names, bytes: [...readFileSync(ICON)] },
  );
}

test('pictures are attached, shown, answered, and kept with the conversation', async ({ page, site }) => {
  await page.goto(`${site.url}/?model=${encodeURIComponent(MODEL)}&lane=exact`);
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready');
  await expect(attach(page)).toBeVisible();
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

test('a model that reads no pictures says so', async ({ page, site }) => {
  await page.goto(site.url);
  await expect(page.locator('#state')).toHaveAttribute('data-state', 'ready');
  await expect(attach(page)).toBeHidden();
  await hand(page, 'drop', ['dropped.png']);
  await expect(page.getByText('This model does not read pictures.')).toBeVisible();
  await expect(attached(page)).toHaveCount(0);
});
