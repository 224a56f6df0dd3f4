// The storage page from a user's view.
import { readFileSync } from 'node:fs';
import {
  before,
  damage,
  download,
  expect,
  FILE,
  FOLDER,
  MODEL,
  openPage,
  SHARD,
  storedFiles,
  test,
  type Page,
  type Site,
} from './downloads.ts';
import { accessible, look } from './looks.ts';
import { bytesOf, TINY } from './support.ts';

const card = (page: Page, name = 'model.gguf') =>
  page.getByRole('listitem').filter({ has: page.getByRole('heading', { name, exact: true }) });
const said = (page: Page) => page.locator('#announce');
const question = (page: Page) => page.getByRole('dialog');

/** Opens the page and waits until it has listed the stored models. */
async function open(page: Page, site: Site): Promise<void> {
  await page.goto(`${site.url}/storage.html`);
  await expect(page.locator('#waiting')).toBeHidden();
}

/** Takes a screenshot of the page, and expects that it is accessible. */
async function shown(page: Page, name: string): Promise<void> {
  await look(page, name);
  await accessible(page);
}

/** Stores the tiny model whole, in nine pieces. */
async function store(page: Page, site: Site, url: string): Promise<void> {
  await openPage(page, site);
  expect((await download(page, url)).error).toBeNull();
}

/** A download that is aborted after two pieces: 128 KiB are stored. */
async function storePart(page: Page, site: Site, url: string): Promise<void> {
  await openPage(page, site);
  expect((await download(page, url, { connections: 1 }, 2 * SHARD + 1)).error?.code).toBe('ABORTED');
  const part = (await page.evaluate(() => models.list())).find((one) => one.url === url)!;
  expect(part.complete).toBe(false);
  expect(part.bytes).toBeGreaterThan(0);
}

test.use({ colorScheme: 'light', reducedMotion: 'reduce' });

test('empty: a model is downloaded, and is there with name, address, size and dates', async ({
  page,
  site,
  faulty,
}) => {
  const url = faulty.url + FILE;
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  await open(page, site);
  await expect(page.locator('#empty')).toBeVisible();
  await expect(page.locator('#space')).toContainText('Models0');
  await shown(page, 'empty');
  await page.getByLabel('Address').fill(url);
  await page.getByLabel('Address').press('Enter');
  const model = card(page);
  await expect(model.getByText('Complete')).toBeVisible();
  await expect(model).toContainText(url);
  await expect(model).toContainText('Size553 kB');
  await expect(model).toContainText(/Arrived\d+ \w{3} \d{4}, .*Last used/);
  await expect(model.locator('.outcome')).toHaveText('All of it is here now.');
  await expect(said(page)).toHaveText('model.gguf: All of it is here now.');
  await expect(page.locator('#empty')).toBeHidden();
  await expect(page.locator('#space')).toContainText(/Models1Used55\d kB/);
  await expect(page.getByLabel('Address')).toHaveValue('');
  await model.getByText('1 file').click();
  await expect(model.getByRole('table')).toContainText('model.gguf553 kB553 kB');
  await expect(model.getByRole('link', { name: 'Chat model.gguf' })).toHaveAttribute(
    'href',
    `./?model=${encodeURIComponent(url)}`,
  );
  expect(problems).toEqual([]);
});

test('several models; a narrow screen and a dark one', async ({ page, site, faulty }) => {
  await store(page, site, faulty.url + FILE);
  await page.evaluate((model) => models.download(model), `${faulty.url}${FOLDER}`);
  await page.evaluate((model) => models.download(model), new URL(TINY, site.url).href);
  await open(page, site);
  await expect(page.locator('#models > li')).toHaveCount(3);
  await shown(page, 'models');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shown(page, 'models, dark');
  await page.setViewportSize({ width: 320, height: 640 });
  for (const name of await page.locator('summary:visible').all()) await name.click();
  await shown(page, 'models, dark and narrow');
  await page.emulateMedia({ colorScheme: 'light' });
  await shown(page, 'models, narrow');
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await page.getByRole('button', { name: 'Remove all' }).click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  await shown(page, 'remove all, narrow');
  await question(page).getByRole('button', { name: 'Cancel' }).click();
  await expect(page.locator('#models > li')).toHaveCount(3);
  await page.getByRole('button', { name: 'Remove all' }).click();
  await question(page).getByRole('button', { name: 'Remove all' }).click();
  await expect(page.locator('#empty')).toBeVisible();
  await expect(said(page)).toHaveText('All models are removed.');
  expect(
    await page.evaluate(
      async () => (await (await navigator.storage.getDirectory()).getDirectoryHandle('millrace')).name,
    ),
  ).toBe('millrace');
});

test('verify: a whole model is good; a damaged piece is named, removed and fetched again alone', async ({
  page,
  site,
  faulty,
}) => {
  const url = faulty.url + FILE;
  await store(page, site, url);
  const tools = await openPage(await page.context().newPage(), site);
  await open(page, site);
  await card(page).getByRole('button', { name: 'Verify model.gguf' }).press('Enter');
  await expect(card(page).locator('.outcome')).toHaveText('Good: all 553 kB are as they arrived.');
  await expect(card(page).getByRole('button', { name: 'Verify model.gguf' })).toBeFocused();
  await shown(page, 'verified');
  const piece = (await storedFiles(tools)).pieces[3]!;
  await damage(tools, piece.path, 'flip');
  faulty.log.length = 0;
  await card(page).getByRole('button', { name: 'Verify model.gguf' }).click();
  await expect(card(page).locator('.outcome')).toHaveText(
    'Damaged: piece 4 of model.gguf. What was damaged has been removed; the rest is good.',
  );
  await expect(said(page)).toContainText('Damaged: piece 4');
  await expect(card(page)).toContainText('88 % here');
  await shown(page, 'bad piece');
  const again = card(page).getByRole('button', { name: 'Fetch it again model.gguf' });
  await expect(again).toBeFocused();
  await again.press('Enter');
  await expect(card(page).locator('.outcome')).toHaveText('All of it is here now.');
  await expect(card(page).getByText('Complete')).toBeVisible();
  expect(faulty.of(FILE).reduce((sum, { sent }) => sum + sent, 0)).toBeLessThan(3 * SHARD);
  await card(page).getByRole('button', { name: 'Verify model.gguf' }).click();
  await expect(card(page).locator('.outcome')).toContainText('Good');
});

test('verifying shows how far it is, and can be cancelled', async ({ page, site, faulty }) => {
  await store(page, site, faulty.url + FILE);
  // Slow hashes; the first three are faster.
  before(
    site,
    'let n = 0; const digest = crypto.subtle.digest.bind(crypto.subtle); crypto.subtle.digest = async (...all) => { await new Promise((done) => setTimeout(done, ++n > 3 ? 10000 : 500)); return digest(...all); }',
  );
  await open(page, site);
  await card(page).getByRole('button', { name: 'Verify model.gguf' }).click();
  await expect(card(page).locator('.work')).toContainText(/Verifying.*kB of 553 kB · .*B\/s/);
  await shown(page, 'verifying');
  await card(page).getByRole('button', { name: 'Cancel model.gguf' }).click();
  await expect(card(page).locator('.outcome')).toHaveText('Cancelled.');
  await expect(card(page).getByText('Complete')).toBeVisible();
});

test('a download that was interrupted goes on: pause, resume, cancel, whole', async ({ page, site, faulty }) => {
  const url = faulty.url + FILE;
  await storePart(page, site, url);
  await open(page, site);
  const model = card(page);
  await expect(model).toContainText(/\d+ % here/);
  await expect(model.getByRole('link', { name: 'Chat' })).toBeHidden();
  await expect(model.getByRole('button', { name: 'Export model.gguf' })).toBeHidden();
  await shown(page, 'partial');
  faulty.throttle.rate = 60_000;
  await model.getByRole('button', { name: 'Fetch the rest model.gguf' }).press('Enter');
  await expect(model.locator('.work')).toContainText(/Downloading.*kB of 553 kB · .*B\/s/);
  await expect(model.getByRole('button', { name: 'Pause model.gguf' })).toBeFocused();
  await shown(page, 'downloading');
  await page.keyboard.press('Enter');
  await expect(model.locator('.amount')).toHaveText(/^Paused · \d+ kB of 553 kB$/);
  await expect(said(page)).toHaveText('model.gguf: paused');
  await shown(page, 'paused');
  await model.getByRole('button', { name: 'Resume model.gguf' }).press('Enter');
  await expect(model.locator('.amount')).toContainText('of 553 kB');
  await model.getByRole('button', { name: 'Cancel model.gguf' }).click();
  await expect(model.locator('.outcome')).toHaveText('Cancelled. What has arrived stays here.');
  await expect(model.getByRole('button', { name: 'Fetch the rest model.gguf' })).toBeFocused();
  faulty.throttle.rate = Infinity;
  await page.keyboard.press('Enter');
  await expect(model.getByText('Complete')).toBeVisible();
  await expect(model.getByRole('link', { name: 'Chat model.gguf' })).toBeVisible();
});

test('remove asks first; a model that an engine uses stays, and the page says why', async ({ page, site, faulty }) => {
  const url = faulty.url + FILE;
  const other = await openPage(await page.context().newPage(), site);
  await other.evaluate(async (model) => {
    globalThis.engine = await Engine.load({ model, lane: 'exact' });
  }, url);
  await page.bringToFront();
  await open(page, site);
  const remove = card(page).getByRole('button', { name: 'Remove model.gguf' });
  await remove.press('Enter');
  await expect(question(page)).toContainText('Remove model.gguf?');
  await expect(question(page)).toContainText('553 kB become free');
  await shown(page, 'confirm');
  await page.keyboard.press('Escape');
  await expect(question(page)).toBeHidden();
  await expect(remove).toBeFocused();
  await remove.click();
  await question(page).getByRole('button', { name: 'Remove' }).click();
  await expect(card(page).locator('.outcome')).toContainText('It is in use');
  await expect(card(page).getByText('Complete')).toBeVisible();
  await shown(page, 'in use');
  await other.evaluate(() => engine.dispose());
  await remove.click();
  await question(page).getByRole('button', { name: 'Remove' }).click();
  await expect(page.locator('#empty')).toBeVisible();
  await expect(said(page)).toHaveText('model.gguf is removed.');
  await expect(page.getByRole('heading', { name: 'Models', exact: true })).toBeFocused();
});

test('a model goes out as a file and comes in under an address; what is there is replaced only when that is wanted', async ({
  page,
  site,
  faulty,
}) => {
  const url = faulty.url + FILE;
  await store(page, site, url);
  await open(page, site);
  const arriving = page.waitForEvent('download');
  await card(page).getByRole('button', { name: 'Export model.gguf' }).click();
  const file = await arriving;
  expect(file.suggestedFilename()).toBe('model.gguf');
  expect(readFileSync(await file.path()).equals(MODEL.read(0, MODEL.length))).toBe(true);
  await expect(card(page).locator('.outcome')).toContainText('The file is among the browser’s downloads.');
  faulty.log.length = 0;
  const given = { name: 'mine.gguf', mimeType: 'application/octet-stream', buffer: bytesOf(`tests${TINY}`) };
  await page.getByLabel('Address').fill('https://example.com/mine.gguf');
  await page.getByLabel(/^Files of this machine/).setInputFiles(given);
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(card(page, 'mine.gguf').getByText('Complete')).toBeVisible();
  await expect(card(page, 'mine.gguf').locator('.outcome')).toHaveText('The files are here now.');
  await page.getByLabel('Address').fill(url);
  await page.getByLabel(/^Files of this machine/).setInputFiles(given);
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(question(page)).toContainText('Replace model.gguf?');
  await question(page).getByRole('button', { name: 'Replace' }).click();
  await expect(card(page).locator('table')).toContainText('mine.gguf');
  await expect(page.locator('#models > li')).toHaveCount(2);
  expect(faulty.log).toEqual([]);
});

test('an address with no model, and one that is none', async ({ page, site, faulty }) => {
  await open(page, site);
  await page.getByLabel('Address').fill(`${faulty.url}/nothing.gguf`);
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await expect(page.locator('#add-outcome')).toContainText('The model is not there: http://');
  await expect(page.getByLabel('Address')).toBeFocused();
  await expect(page.locator('#models > li')).toHaveCount(0);
  await expect(page.locator('#empty')).toBeVisible();
  await shown(page, 'not there');
  await page.getByLabel('Address').fill('https://');
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await expect(page.locator('#add-outcome')).toHaveText('This is not an address.');
});

test('the browser is asked to keep the models', async ({ page, site }) => {
  await page.addInitScript(() => {
    let asked = 0;
    StorageManager.prototype.persist = () => Promise.resolve(++asked > 1);
  });
  await open(page, site);
  await expect(page.locator('#persistence-text')).toContainText('may remove all that this site has stored');
  const ask = page.getByRole('button', { name: 'Ask to keep them' });
  await ask.click();
  await expect(page.locator('#persistence-text')).toContainText('did not agree');
  await ask.click();
  await expect(said(page)).toHaveText('The browser keeps the models until you remove them.');
});

test('where the browser stores nothing, the page says so', async ({ page, site }) => {
  before(
    site,
    "StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('closed', 'SecurityError'))",
  );
  await open(page, site);
  await expect(page.getByRole('alert')).toContainText('This browser keeps no models here');
  await expect(page.getByRole('alert')).toContainText('private windows');
  await expect(page.locator('#stored')).toBeHidden();
  await shown(page, 'no storage');
});

test('no GPU is needed, and nothing moves while the page loads', async ({ page, site, faulty }) => {
  await store(page, site, faulty.url + FILE);
  await page.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });
    Object.assign(globalThis, { shift: 0 });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries())
        Object.assign(globalThis, {
          shift: (globalThis as unknown as { shift: number }).shift + (entry as unknown as { value: number }).value,
        });
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await open(page, site);
  await expect(card(page)).toBeVisible();
  expect(await page.evaluate(() => (globalThis as unknown as { shift: number }).shift)).toBeLessThan(0.01);
});
