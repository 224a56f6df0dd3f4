// The documents page from a user's view, with the bundled models.
import { expect, test, type Page, type Site } from './support.ts';
import { accessible, fits, look } from './looks.ts';
import { JAPANESE, NOTES, PAGE, pdf, REPORT } from './papers.ts';

test.use({ colorScheme: 'light', reducedMotion: 'reduce' });

/** A random model that embeds. */
const BERT = '/data/embed/bert-gguf/model.gguf';

type Given = { name: string; mimeType: string; buffer: Buffer };
const file = (name: string, content: string | Buffer, mimeType = ''): Given => ({
  name,
  mimeType,
  buffer: Buffer.from(content),
});
const quotes = (page: Page) => page.locator('.quote');
const reader = (page: Page) => page.getByRole('dialog', { name: /\./ });

async function open(page: Page, site: Site): Promise<string[]> {
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  await page.goto(`${site.url}/documents.html`);
  await expect(page.locator('#desk')).toBeVisible();
  return problems;
}

/** Waits until all of a document can be searched. */
async function searchable(page: Page, name: string, passages: number): Promise<void> {
  const card = page.locator('.paper').filter({ has: page.getByRole('heading', { name, exact: true }) });
  await expect(card.locator('.facts-line')).toContainText(new RegExp(`(^|· )${passages} passages?( ·|$)`), {
    timeout: 60_000,
  });
  await expect(page.locator('#embedding')).toBeHidden({ timeout: 60_000 });
}

async function ask(page: Page, question: string): Promise<void> {
  await page.getByRole('searchbox', { name: 'Question' }).fill(question);
  await page.keyboard.press('Enter');
  await expect(page.locator('#result-title')).toHaveText(question);
  await expect(quotes(page).first()).toBeVisible({ timeout: 60_000 });
  await expect(page.locator('#ask-submit')).toBeVisible({ timeout: 60_000 });
}

/** The text of the reader's mark, which has to be visible. */
async function marked(page: Page): Promise<string> {
  const mark = page.locator('#reader-text mark.key, #reader-text mark').first();
  await expect(mark).toBeInViewport();
  return (await page.locator('#reader-text mark').allTextContents()).join('');
}

test('the example is added, asked and quoted; what it does not say is said; it stays and can be removed', async ({
  page,
  site,
}) => {
  const problems = await open(page, site);
  await expect(page.locator('#ask')).toBeHidden();
  await look(page, 'empty');
  await accessible(page);
  await page.getByRole('button', { name: 'Add an example' }).click();
  await searchable(page, 'Handbook of the Alder Mill.md', 13);
  await look(page, 'example');
  await page.getByRole('button', { name: 'How much is a family ticket?' }).click();
  await expect(quotes(page).first()).toContainText('two adults and up to four children is 14 pounds');
  await expect(quotes(page).first().locator('mark')).toContainText('14 pounds');
  await expect(quotes(page).first()).toContainText('Visitors › Tickets');
  // The tiny model answers anything, and the page shows a note on it.
  await expect(page.locator('#answer-text')).not.toBeEmpty({ timeout: 60_000 });
  await expect(page.locator('#answer-note')).toContainText('go by the quotes');
  await expect(page.locator('#nothing')).toBeHidden();
  await look(page, 'answer');
  await accessible(page);
  await quotes(page).first().getByRole('button').click();
  await expect(reader(page)).toBeVisible();
  expect(await marked(page)).toContain('A ticket costs 6 pounds');
  await look(page, 'reader');
  await accessible(page);
  await page.keyboard.press('Escape');
  await expect(reader(page)).toBeHidden();
  await expect(quotes(page).first().getByRole('button')).toBeFocused();
  await page.reload();
  await searchable(page, 'Handbook of the Alder Mill.md', 13);
  await ask(page, 'Who won the world cup in 1990?');
  await expect(page.locator('#nothing')).toContainText('The documents do not answer this');
  await expect(page.locator('#answer')).toBeHidden();
  await expect(page.locator('#announce')).toContainText('do not answer');
  await page.emulateMedia({ colorScheme: 'dark' });
  await look(page, 'no answer, dark');
  await accessible(page);
  await page.getByRole('button', { name: 'Remove Handbook' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await expect(page.locator('.paper')).toHaveCount(0);
  await expect(page.locator('#documents-title')).toBeFocused();
  await page.reload();
  await expect(page.locator('body.empty #drop')).toBeVisible();
  expect(problems).toEqual([]);
});

test('text, HTML and PDF are dropped, found with page and heading, and shown at their place', async ({
  page,
  site,
}) => {
  const problems = await open(page, site);
  const dropped = [file('notes.txt', NOTES), file('light.html', PAGE), file('report.pdf', REPORT)].map((one) => ({
    name: one.name,
    base64: one.buffer.toString('base64'),
  }));
  const transfer = await page.evaluateHandle((files) => {
    const data = new DataTransfer();
    for (const { name, base64 } of files)
      data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
    return data;
  }, dropped);
  await page.dispatchEvent('body', 'dragover', { dataTransfer: transfer });
  await expect(page.locator('#dropping')).toBeVisible();
  await page.dispatchEvent('body', 'drop', { dataTransfer: transfer });
  await expect(page.locator('#dropping')).toBeHidden();
  await searchable(page, 'report.pdf', 3);
  await expect(page.locator('.paper').first()).toContainText('PDF · 3 pages');
  await page.getByLabel('Write an answer').uncheck();
  await ask(page, 'How heavy may lorries on the bridge be?');
  await expect(quotes(page).first()).toContainText('page 2');
  await expect(quotes(page).first()).toContainText('Lorries of up to twelve tonnes');
  await expect(page.locator('#answer')).toBeHidden();
  await quotes(page).first().locator('blockquote').click();
  await expect(page.locator('#reader-place')).toContainText('page 2');
  expect(await marked(page)).toContain('twelve tonnes may cross the bridge');
  // Hyphenated words are joined; page numbers are not text.
  await expect(page.locator('#reader-text')).toContainText('by the harbour master. The railing');
  await expect(page.locator('#reader-text .page')).toHaveText(['Page 1', 'Page 2', 'Page 3']);
  await page.getByRole('button', { name: 'Close' }).click();
  await ask(page, 'What was burnt in the lamp of the lighthouse?');
  await expect(quotes(page).first()).toContainText('light.html');
  await expect(quotes(page).first()).toContainText('rape oil until 1921');
  await quotes(page).first().getByRole('button').click();
  await expect(page.locator('#reader-text')).toContainText('two flashes | fifteen seconds');
  for (const text of ['secret words', 'Home of everything', 'gone'])
    await expect(page.locator('#reader-text')).not.toContainText(text);
  expect(await page.evaluate(() => 'broken' in globalThis)).toBe(false);
  // Equal content is not added twice under another name.
  await page.locator('#files').setInputFiles(file('other name.txt', NOTES));
  await expect(page.locator('#outcomes')).toContainText('notes.txt is here already');
  await expect(page.locator('.paper')).toHaveCount(3);
  await page.setViewportSize({ width: 320, height: 640 });
  await fits(page);
  await look(page, 'reader, narrow');
  await accessible(page);
  await page.getByRole('button', { name: 'Close' }).click();
  await fits(page);
  await look(page, 'quotes, narrow');
  await accessible(page);
  // The page's policy reports the inline handler of the missing picture, which would not have run.
  expect(problems.filter((text) => !text.startsWith('Executing inline event handler'))).toEqual([]);
});

test('what cannot be read says why and what to do', async ({ page, site }) => {
  await open(page, site);
  await page
    .locator('#files')
    .setInputFiles([
      file('empty.txt', ''),
      file('blank.md', '\n  \n'),
      file('photo.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xd, 0xa, 0x1a, 0xa, 0, 0])),
      file('letter.docx', Buffer.from([0x50, 0x4b, 3, 4, 20, 0, 6, 0])),
      file('noise.bin', Buffer.from([0, 1, 2, 3, 4, 5, 6, 7])),
      file('broken.pdf', `%PDF-1.4\n${'garbage '.repeat(40)}`),
      file('half.pdf', 'nothing of it'),
      file('locked.pdf', pdf([[['Secret', 12]]], { encrypted: true })),
      file('scan.pdf', pdf([[], []])),
    ]);
  const said = page.locator('#outcomes li span');
  await expect(said).toHaveCount(9, { timeout: 30_000 });
  const expected = [
    'empty.txt: The file is empty.',
    'blank.md: There is no text in the file.',
    'photo.png: This is a picture. Text, Markdown, HTML and PDF are read here.',
    'letter.docx: This is a Word, OpenDocument, EPUB or other zipped file.',
    'noise.bin: This is neither text nor PDF.',
    'broken.pdf: The PDF file could not be read:',
    'half.pdf: This is no PDF file, though its name says so.',
    'locked.pdf: The PDF file is encrypted: it opens with a password only. Save it without the password',
    'scan.pdf: There is no text in this PDF file: its pages are pictures.',
  ];
  for (const [i, text] of expected.entries()) await expect(said.nth(i)).toContainText(text);
  await expect(page.locator('#announce')).toContainText('9 files were not added.');
  await expect(page.locator('.paper')).toHaveCount(0);
  await look(page, 'refused');
  await accessible(page);
  await page.getByRole('button', { name: 'Dismiss' }).first().click();
  await expect(said).toHaveCount(8);
  // A disk that is full.
  await page.evaluate(() => {
    IDBObjectStore.prototype.put = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
  });
  await page.locator('#files').setInputFiles(file('notes.txt', NOTES));
  await expect(said).toHaveText(/notes.txt: The browser’s storage is full. Remove documents/);
  await expect(page.locator('.paper')).toHaveCount(0);
});

test('by keyboard alone: add, ask, open a quote, come back, change the model and hear what is wrong', async ({
  page,
  site,
}) => {
  await open(page, site);
  const tabTo = async (name: string): Promise<void> => {
    for (let i = 0; i < 40; i += 1) {
      await page.keyboard.press('Tab');
      const now = await page.evaluate(() => {
        const { activeElement: element } = document;
        return element?.getAttribute('aria-label') ?? (element?.id || element?.textContent?.trim()) ?? '';
      });
      if (now.startsWith(name)) return;
    }
    throw new Error(`${name} is not reached`);
  };
  await tabTo('example');
  await page.keyboard.press('Enter');
  await searchable(page, 'Handbook of the Alder Mill.md', 13);
  await page.keyboard.press('Home');
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await tabTo('question');
  await page.keyboard.type('Who has the key of the weir?');
  await tabTo('answering');
  await page.keyboard.press('Space');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await expect(quotes(page).first()).toContainText('Marten Hale', { timeout: 60_000 });
  await tabTo('Quote 1: open Handbook');
  await page.keyboard.press('Enter');
  await expect(page.locator('#reader-title')).toBeFocused();
  expect(await marked(page)).toContain('the key of the weir');
  await tabTo('reader-close');
  await page.keyboard.press('Enter');
  await expect(quotes(page).first().getByRole('button')).toBeFocused();
  // A chat model does not embed: the page shows an error, and continues with the former model.
  await page.locator('#models summary').focus();
  await page.keyboard.press('Enter');
  await expect(page.getByLabel('Searches').locator('option')).toHaveCount(5, { timeout: 20_000 });
  await page.evaluate(() => {
    const select = document.querySelector<HTMLSelectElement>('#embedder')!;
    select.add(new Option('A model that chats', './models/box.gguf'));
  });
  await look(page, 'models');
  await accessible(page);
  await page.getByLabel('Searches').selectOption('./models/box.gguf');
  await expect(page.locator('#problem')).toContainText('makes no embeddings', { timeout: 60_000 });
  // Another embedding model reads everything once more: vectors of two models are never compared.
  const made = () =>
    page.evaluate(async () => {
      const asked = indexedDB.open('millrace-documents');
      await new Promise((done) => (asked.onsuccess = done));
      const all = asked.result.transaction('vectors').objectStore('vectors').getAll();
      await new Promise((done) => (all.onsuccess = done));
      asked.result.close();
      return all.result.map(({ by, dimensions, numbers }) => [by.split(' ')[1], numbers.length / dimensions]);
    });
  expect(await made()).toEqual([['./models/embed.gguf', 13]]);
  await page.evaluate((url) => {
    const select = document.querySelector<HTMLSelectElement>('#embedder')!;
    select.add(new Option('Another one', url));
  }, BERT);
  await page.getByLabel('Searches').selectOption(BERT);
  await expect.poll(made, { timeout: 60_000 }).toEqual([[BERT, 13]]);
  await expect(page.locator('#problem')).toBeHidden();
  await page.getByLabel('Searches').selectOption('./models/embed.gguf');
  await expect.poll(made, { timeout: 60_000 }).toEqual([['./models/embed.gguf', 13]]);
});

test('where the browser keeps nothing, documents last as long as the page, and it says so', async ({ page, site }) => {
  await page.addInitScript(() => Object.defineProperty(globalThis, 'indexedDB', { value: undefined }));
  await open(page, site);
  await expect(page.locator('#unkept')).toBeVisible();
  await page.locator('#files').setInputFiles(file('notes.txt', NOTES));
  await searchable(page, 'notes.txt', 1);
  await page.getByRole('button', { name: 'Read notes.txt' }).click();
  await expect(page.locator('#reader-text')).toContainText('below the third flower pot');
  await page.getByRole('button', { name: 'Close' }).click();
  // Its letters come from a table beside the page's scripts.
  await page.locator('#files').setInputFiles(file('japanese.pdf', JAPANESE));
  await page.getByRole('button', { name: 'Read japanese.pdf' }).click();
  await expect(page.locator('#reader-text')).toContainText('水車は川にある');
});

/** The real engine with other answers: the bundled model would never name a quote. */
const WRITES = `
import { Engine, MillraceError } from './index.js?real';
export * from './index.js?real';
Engine.prototype.run = function ({ messages, signal }) {
  globalThis.told = messages;
  async function* events() {
    yield { type: 'reasoning', text: 'Hm.' };
    yield { type: 'content', text: 'It is fourteen pounds [1]' };
    if (/wheel/.test(messages.at(-1).content.split('Question:')[1]))
      await new Promise((_, fail) => signal.addEventListener('abort', () => fail(new MillraceError('ABORTED', 'aborted'))));
    yield { type: 'content', text: ', as <b>nobody</b> says [9].' };
  }
  const all = events();
  return { [Symbol.asyncIterator]: () => all, then: (done) => Promise.resolve().then(done) };
};`;

test('numbers in an answer lead to their quotes, the model is told the quotes, and an answer can be stopped', async ({
  page,
  site,
}) => {
  await page.route('**/pkg/index.js', (route) => route.fulfill({ contentType: 'text/javascript', body: WRITES }));
  const problems = await open(page, site);
  await page.getByRole('button', { name: 'Add an example' }).click();
  await searchable(page, 'Handbook of the Alder Mill.md', 13);
  await ask(page, 'How much is a family ticket?');
  await expect(page.locator('#answer-text')).toHaveText('It is fourteen pounds [1], as <b>nobody</b> says [9].');
  await expect(page.locator('#answer-text').getByRole('button')).toHaveText(['[1]']);
  const told = await page.evaluate(
    () => (globalThis as unknown as { told: { content: string }[] }).told.at(-1)!.content,
  );
  expect(told).toMatch(/^Passages:\n\n\[1\] Handbook of the Alder Mill\.md, .*Tickets:\nA ticket costs/);
  expect(told).toMatch(/Question: How much is a family ticket\?$/);
  await page.getByRole('button', { name: 'Open quote 1' }).click();
  expect(await marked(page)).toContain('14 pounds');
  await page.getByRole('button', { name: 'Close' }).click();
  await expect(page.getByRole('button', { name: 'Open quote 1' })).toBeFocused();
  await page.getByRole('searchbox', { name: 'Question' }).fill('How do I stop the wheel in an emergency?');
  // Also during the search: both keys within one task of the page, before there can be results.
  await page.evaluate(() => {
    document.querySelector<HTMLFormElement>('#ask')!.requestSubmit();
    document.activeElement!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
  });
  await expect(page.locator('#quotes')).toHaveText('Stopped.');
  await expect(page.locator('#ask-submit')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.locator('#answer-text')).toContainText('fourteen', { timeout: 60_000 });
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await expect(page.locator('#answer-state')).toHaveText('Stopped.');
  await expect(page.locator('#ask-submit')).toBeVisible();
  await expect(page.getByRole('searchbox', { name: 'Question' })).toBeFocused();
  expect(problems).toEqual([]);
});
