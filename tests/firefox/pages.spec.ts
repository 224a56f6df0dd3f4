// The pages in Firefox: they open, answer, and complain of nothing.
import { expect, LONG, test, type Page } from './support.ts';

const textOf = (page: Page, selector: string): Promise<string> =>
  page.$eval(selector, (element) => element.textContent ?? '');
const wider = (page: Page): Promise<boolean> =>
  page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);

test('chat: the model in the box answers', async ({ tab, url, problems, shown }) => {
  await tab.goto(url);
  await tab.waitForSelector('#state[data-state="ready"]', { timeout: 240_000 });
  await shown('chat');
  await tab.type('#prompt', 'What is 17 plus 25?');
  await tab.keyboard.press('Enter');
  await tab.waitForFunction(
    () => /42/.test(document.querySelector('#messages .assistant:last-child .text')?.textContent ?? ''),
    { timeout: 120_000 },
  );
  await shown('chat answered');
  expect(await wider(tab)).toBe(false);
  await tab.setViewport({ width: 360, height: 740 });
  await shown('chat on a phone');
  expect(await wider(tab)).toBe(false);
  expect(problems).toEqual([]);
});

test('kernels: what runs here agrees with its twin', async ({ tab, url, problems, shown }) => {
  test.setTimeout(LONG ? 3_600_000 : 300_000);
  await tab.goto(`${url}/kernels.html?quick${LONG ? '' : '&filter=embed+pick+matvec=q4_0-q8'}`);
  await tab.waitForFunction(
    () => (globalThis as unknown as { millraceKernels?: { ended: boolean } }).millraceKernels?.ended === true,
    { timeout: LONG ? 3_500_000 : 120_000 },
  );
  await shown('kernels');
  expect(await textOf(tab, '#status')).toMatch(/^[1-9]\d* passed, 0 failed/);
  expect(await wider(tab)).toBe(false);
  expect(problems).toEqual([]);
});

test('bench and storage open with their forms', async ({ tab, url, problems, shown }) => {
  await tab.goto(`${url}/bench.html`);
  await tab.waitForFunction(() => document.querySelectorAll('#what option').length > 3);
  await shown('bench');
  expect(await wider(tab)).toBe(false);
  await tab.goto(`${url}/storage.html`);
  await tab.waitForFunction(() => document.querySelector<HTMLElement>('#waiting')?.offsetParent === null);
  await shown('storage');
  expect(await wider(tab)).toBe(false);
  expect(problems).toEqual([]);
});

test('bench measures a tiny shape', async ({ tab, url, problems, shown }) => {
  await tab.goto(`${url}/bench.html?shape=tiny&quant=q4_0&prompt=8&gen=8&runs=2`);
  await tab.waitForFunction(() => /tokens a second/.test(document.querySelector('#status')?.textContent ?? ''), {
    timeout: 280_000,
  });
  await shown('bench measured');
  expect(problems).toEqual([]);
});
