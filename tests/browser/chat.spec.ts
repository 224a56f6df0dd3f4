// The chat page in every state, with a stand-in for the engine: its display, that a model's output is not trusted, and
// that no sequence of clicks breaks it. The report has a screenshot of each state. demo.spec.ts uses a real model.
import type { LoadPlan } from '../../npm/index.ts';
import { random, seedOf } from './killed.ts';
import { accessible, fits, look } from './looks.ts';
import type { Locator } from '@playwright/test';
import { expect, onlyLong, test, type Page } from './support.ts';
import { type StandIn, withStandIn } from './stand_in.ts';

const HOSTILE = [
  '<script>globalThis.hacked = 1</script>',
  '<img src="/hit-image" onerror="globalThis.hacked = 1">',
  '![picture](/hit-image "title")',
  '[a link](javascript:globalThis.hacked=1) and <a href="javascript:globalThis.hacked=1">another</a>',
  '[data](data:text/html,<script>globalThis.hacked=1</script>)',
  '<iframe src="/hit-frame"></iframe><style>body{display:none}</style><svg onload="globalThis.hacked=1">',
  '<form action="/hit-form"><input name=x></form>',
  '[good](https://example.com/path)',
  '```html\n<script>globalThis.hacked = 1</script>\n```',
  '```"><img src=x onerror=globalThis.hacked=1>\ncode\n```',
  '| a | b |\n|---|---|\n| <b onclick="globalThis.hacked=1">c</b> | d |',
].join('\n\n');

const RICH =
  '## A plan\n\nFirst **bold** and *slanted*, then `code`:\n\n```rust\nfn main() {\n    println!("hello"); // a comment\n}\n```\n\n1. one\n2. two\n   - nested\n\n> quoted\n\n| left | right |\n|---|---:|\n| a | 1 |\n\n- [x] done\n- [ ] not done\n\nhttps://example.com';

const PLAN: LoadPlan = {
  fits: true,
  problems: [],
  context: 131_072,
  kv: 'f16',
  model: {
    name: 'Llama 3.2 1B',
    architecture: 'llama',
    parameters: 1.24e9,
    context: 131_072,
    vocab: 128_256,
    layers: 16,
    bytes: 807_694_464,
    types: { Q4_K: 96, F32: 34, Q6_K: 17 },
    converted: [],
    left_out: [],
    chat: true,
    thinks: false,
    template_options: [],
    pictures: false,
  },
  download: { total: 807_694_464, stored: 201_326_592, missing: 606_367_872 },
  storage: { kind: 'opfs', available: 9.2e9 },
  memory: { weights: 803e6, kv: 4.29e9, activations: 120e6, encoder: 0, draft: 0, total: 5.2e9, beside: 0 },
  largest: { name: 'token_embd.weight', bytes: 215e6 },
  limits: { buffer: 4e9, binding: 2e9, memory: null },
  alternatives: [],
};

const answer = (page: Page) => page.locator('#messages .assistant').last();
const composer = (page: Page) => page.getByLabel('Message', { exact: true });
const state = (page: Page) => page.locator('#state');

async function open(page: Page, site: { url: string }, behaves: Partial<StandIn> = {}, query = ''): Promise<void> {
  await withStandIn(page, behaves);
  await page.goto(`${site.url}/${query}`);
}

async function ready(page: Page): Promise<void> {
  await expect(state(page)).toHaveAttribute('data-state', 'ready');
}

async function ask(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await composer(page).press('Enter');
}

async function finished(page: Page, count: number): Promise<void> {
  await expect(page.locator('#messages .assistant .figures')).toHaveCount(count);
  await expect(page.locator('#messages .writing')).toHaveCount(0);
}

/** Collects faults: exceptions, errors in the console except those of the network, violated policies. */
function watch(page: Page): string[] {
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.stack ?? error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      faults.push(message.text());
  });
  return faults;
}

test('empty, loading, paused, ready: each with its controls', async ({ page, site }) => {
  await open(page, site, { pause: 400, steps: 40 });
  await expect(page.locator('#loading-detail')).toHaveText(/[\d.]+ MB of 500 MB · [\d.]+ MB\/s · \d+ s left/);
  await look(page, 'downloading');
  await page.getByRole('button', { name: 'Pause' }).click();
  await expect(state(page)).toHaveText(/paused/);
  await expect(page.locator('#loading-phase')).toHaveText('Paused: model.gguf');
  await look(page, 'paused');
  await accessible(page);
  const bar = page.locator('#loading-bar');
  const before = await bar.getAttribute('value');
  const looked = await page.evaluate(() => standIn.looked);
  await page.waitForFunction((looked) => standIn.looked > looked + 10, looked);
  expect(await bar.getAttribute('value')).toBe(before);
  await page.evaluate(() => Object.assign(standIn, { pause: 1 }));
  await page.getByRole('button', { name: 'Resume' }).click();
  await ready(page);
  await expect(page.getByText('Tell me a short story.')).toBeVisible();
  await look(page, 'empty');
  await accessible(page);
});

test('the engine hears of whoever is about to ask, and of nobody else', async ({ page, site }) => {
  await open(page, site, {});
  await ready(page);
  const warmed = () => page.evaluate(() => standIn.warmed);
  await composer(page).blur();
  const before = await warmed();
  await composer(page).focus();
  expect(await warmed()).toBe(before + 1);
  await composer(page).pressSequentially('Why');
  expect(await warmed()).toBe(before + 4);
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.keyboard.press('Escape');
  expect(await warmed()).toBeLessThanOrEqual(before + 5);
});

test('a download is planned first; a context can be chosen, and what does not fit says what would', async ({
  page,
  site,
}) => {
  await open(
    page,
    site,
    { plan: PLAN, pause: 1500, note: 'nobody answers: trying again in 1.1 s' },
    '?model=https://example.com/Llama-3.2-1B-Q4_K_M.gguf',
  );
  await expect(page.locator('#loading')).toHaveText(
    /^\s*Looking at Llama-3\.2-1B-Q4_K_M\.gguf\s*nobody answers: trying again in 1\.1 s/,
  );
  const plan = page.getByRole('region', { name: 'Llama-3.2-1B-Q4_K_M.gguf' });
  await expect(plan).toContainText('606 MB of 808 MB: 201 MB are here');
  await expect(plan).toContainText('9.2 GB free');
  await expect(plan).toContainText('cache of 131,072 tokens 4.3 GB');
  await look(page, 'planning');
  await accessible(page);
  // No model is loaded yet: the question stays in the composer.
  await ask(page, 'Hello?');
  await expect(composer(page)).toHaveValue('Hello?');
  await expect(plan.getByRole('button', { name: 'Download the rest' })).toBeFocused();
  await page.evaluate((plan) => Object.assign(standIn, { plan }), {
    ...PLAN,
    fits: false,
    context: 4096,
    problems: ['the model needs 5.2 GB of GPU memory, and it may take 2.0 GB'],
    alternatives: [{ context: 2048, kv: 'q8' as const, total: 1.1e9 }],
  });
  await plan.getByLabel('Context').selectOption('4096');
  await expect(plan).toContainText('The model needs 5.2 GB of GPU memory');
  await expect(plan).toContainText('a context of 2,048 with q8 (1.1 GB)');
  await look(page, 'planning, does not fit');
  await accessible(page);
  await plan.getByRole('button', { name: 'Try all the same' }).click();
  await ready(page);
});

test('a plan that cannot be shown says so', async ({ page, site }) => {
  await open(page, site, { plan: PLAN, pause: 1500 }, '?model=https://example.com/Llama-3.2-1B-Q4_K_M.gguf');
  await expect(state(page)).toHaveAttribute('data-state', 'loading');
  // The server of the page is gone before the plan is there.
  await page.route(/\/js\/part-/, (route) => route.abort());
  await expect(page.locator('#plan-verdict')).toContainText('load the page again');
});

test('a draft model is planned for and loaded, but not beside the model in the box', async ({ page, site }) => {
  const memory = { ...PLAN.memory, draft: 1.3e9 };
  const draft = { ...PLAN, download: { total: 770e6, stored: 0, missing: 770e6 } };
  await open(
    page,
    site,
    { plan: { ...PLAN, memory, draft } },
    '?model=https://example.com/Llama-3.1-8B-Q4_K_M.gguf&draft=owner/Llama-3.2-1B-GGUF',
  );
  const plan = page.getByRole('region', { name: 'Llama-3.1-8B-Q4_K_M.gguf' });
  await expect(plan).toContainText('770 MB to download');
  await expect(plan).toContainText('draft model 1.3 GB');
  await plan.getByRole('button', { name: 'Download the rest' }).click();
  await ready(page);
  expect(await page.evaluate(() => standIn.drafts)).toEqual(['owner/Llama-3.2-1B-GGUF']);
  await page.getByRole('button', { name: 'Settings', exact: true }).click();
  const field = page.getByRole('textbox', { name: 'Draft model' });
  await expect(field).toHaveValue('owner/Llama-3.2-1B-GGUF');
  await field.fill('');
  await page.getByRole('button', { name: 'Load again' }).click();
  await plan.getByRole('button', { name: 'Download the rest' }).click();
  await ready(page);
  expect((await page.evaluate(() => standIn.drafts)).at(-1)).toBeNull();

  await page.goto(`${site.url}/?model=/models/box.gguf&draft=owner/Llama-3.2-1B-GGUF`);
  await ready(page);
  expect(await page.evaluate(() => standIn.drafts)).toEqual([null]);
});

test('the picker: what fits, an address, files, dropped files', async ({ page, site }) => {
  await open(page, site);
  await ready(page);
  await page.locator('#open-models').click();
  const dialog = page.getByRole('dialog', { name: 'Choose a model' });
  await expect(dialog).toContainText('This machine:');
  await expect(dialog.getByRole('button', { name: /^Llama 3\.2 1B .*Q4_K_M · 808 MB/ })).toBeVisible();
  await look(page, 'picker');
  await accessible(page);
  await dialog.getByRole('button', { name: /^Qwen 3 0\.6B/ }).click();
  await expect(state(page)).toHaveText('Qwen 3 0.6B');
  await page.locator('#open-models').click();
  await expect(dialog.locator('[aria-current]')).toContainText('Qwen 3 0.6B');
  await dialog.getByLabel(/^URL/).fill('https://example.com/a%20b.gguf?download=true');
  await page.keyboard.press('Enter');
  await expect(state(page)).toHaveText('A b.gguf');
  await page.locator('#open-models').click();
  await dialog.locator('#model-files').setInputFiles({ name: 'mine.gguf', mimeType: '', buffer: Buffer.from('x') });
  await expect(state(page)).toHaveText('mine.gguf');
  const dropped = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(['x'], 'dropped.gguf'));
    return data;
  });
  await page.dispatchEvent('body', 'dragover', { dataTransfer: dropped });
  await expect(page.getByText('Drop the model')).toBeVisible();
  await page.dispatchEvent('body', 'drop', { dataTransfer: dropped });
  await expect(state(page)).toHaveText('dropped.gguf');
  await expect(page.getByText('Drop the model')).toBeHidden();
});

test('Markdown with code, lists and tables; copied as it was written', async ({ page, site, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, site, { answers: { '': RICH } });
  await ready(page);
  await ask(page, 'Show me.');
  await finished(page, 1);
  const text = answer(page).locator('.text');
  await expect(text.locator('h3')).toHaveText('A plan');
  await expect(text.locator('.code')).toContainText('rust');
  await expect(text.locator('.code .hljs-keyword').first()).toHaveText('fn');
  await expect(text.locator('ol > li')).toHaveCount(2);
  await expect(text.locator('td')).toHaveText(['a', '1']);
  await expect(text.locator('a')).toHaveAttribute('rel', /noopener/);
  await look(page, 'markdown');
  await accessible(page);
  await text.getByRole('button', { name: 'Copy code' }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
    'fn main() {\n    println!("hello"); // a comment\n}\n',
  );
  await answer(page).getByRole('button', { name: 'Copy', exact: true }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(RICH);
});

test('what a model writes does nothing: scripts, links, pictures, frames, styles', async ({ page, site }) => {
  const faults = watch(page);
  await page.addInitScript(() =>
    document.addEventListener('securitypolicyviolation', (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    ),
  );
  await open(page, site, {
    answers: { '': HOSTILE, 'in thought': `<think>${HOSTILE}</think>${HOSTILE}` },
    piece: 3,
    pause: 0,
  });
  await ready(page);
  site.hits.length = 0;
  await ask(page, HOSTILE);
  await finished(page, 1);
  await ask(page, 'in thought');
  await finished(page, 2);
  for (const text of await page.locator('.text').all()) {
    expect(
      await text.evaluate(
        (element) =>
          element.querySelectorAll(
            'script, img, iframe, style, svg, form, input, object, embed, video, audio, [onclick], [onerror], [onload], [style]',
          ).length,
      ),
    ).toBe(0);
    for (const link of await text.locator('a').all()) expect(await link.getAttribute('href')).toMatch(/^https:/);
  }
  await expect(answer(page)).toContainText('<script>globalThis.hacked = 1</script>');
  await expect(answer(page)).toContainText('[image: picture]');
  await look(page, 'hostile');
  // The same display from storage.
  await page.reload();
  await ready(page);
  await expect(page.locator('#messages > li')).toHaveCount(4);
  await expect(answer(page)).toContainText('[image: picture]');
  expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
  expect(site.hits.filter((path) => path.startsWith('/hit'))).toEqual([]);
  expect(faults).toEqual([]);
});

test('thoughts are folded away', async ({ page, site }) => {
  await open(page, site, { thinks: true, answers: { '': 'I should add.\n\nFirst 17.</think>\n\nIt is **42**.' } });
  await ready(page);
  await ask(page, 'What is 17 + 25?');
  await finished(page, 1);
  await expect(answer(page).locator('.text')).toHaveText('It is 42.');
  const thought = answer(page).locator('.thought');
  await expect(thought.locator('summary')).toHaveText(/Thought for/);
  await expect(thought.locator('div')).toBeHidden();
  await thought.locator('summary').click();
  await expect(thought.locator('div')).toHaveText('I should add.\n\nFirst 17.');
  await look(page, 'thought');
  await accessible(page);
});

test('tools: calls run, are shown folded, and are kept with the conversation', async ({ page, site }) => {
  const faults = watch(page);
  await page.route('https://pages.test/**', (route) =>
    route.fulfill({
      contentType: 'text/html',
      headers: { 'Access-Control-Allow-Origin': '*' },
      body: '<title>Rivers</title><script>alert(1)</script><p>The Rhine has 1,233 km.</p>',
    }),
  );
  await open(page, site, {
    answers: {
      '': 'Nothing to call.',
      compute: 'CALL calculate {"expression":"6 * 7"}\nCALL calculate {"expression":"boom("}',
      'long is': 'CALL read_page {"url":"https://pages.test/rhine"}',
      'The Rhine has': 'It has 1,233 km.',
      'does not allow': 'You did not let me read it.',
      'error: ': 'It is 42.',
      weekday: 'It is today.',
      day: 'CALL get_date {}',
    },
  });
  await ready(page);
  // Without tools the call is text.
  await ask(page, 'Please compute it.');
  await finished(page, 1);
  await expect(answer(page).locator('.call')).toHaveCount(0);
  await page.getByRole('button', { name: 'Settings', exact: true }).click();
  for (const name of ['Calculator', 'Date and time', 'Pages of the web']) await page.getByLabel(name).check();
  await look(page, 'tools in the settings');
  await accessible(page);
  await page.keyboard.press('Escape');

  await ask(page, 'Please compute it.');
  await finished(page, 2);
  const calls = answer(page).locator('.call');
  await expect(calls).toHaveCount(2);
  await expect(calls.first().locator('summary')).toHaveText(/^calculate → \{"result":42\}( · [\d.]+ s)?$/);
  await expect(calls.last()).toHaveClass(/failed/);
  await expect(calls.last().locator('summary')).toContainText('error: ');
  await expect(answer(page).locator('.text').last()).toHaveText('It is 42.');
  await expect(calls.first().locator('pre').first()).toBeHidden();
  await calls.first().locator('summary').press('Enter');
  await expect(calls.first().locator('pre').first()).toHaveText('{\n  "expression": "6 * 7"\n}');
  await look(page, 'calls of tools');
  await accessible(page);

  await ask(page, 'How long is the Rhine?');
  const dialog = page.getByRole('dialog', { name: 'The model wants to read a page' });
  await expect(dialog).toContainText('https://pages.test/rhine');
  await look(page, 'a page that the model wants to read');
  await accessible(page);
  await dialog.getByRole('button', { name: 'Allow' }).click();
  await finished(page, 3);
  await expect(answer(page).locator('.call pre').last()).toContainText('The Rhine has 1,233 km.');
  await expect(answer(page).locator('.call pre').last()).not.toContainText('alert');
  await expect(answer(page).locator('.text').last()).toHaveText('It has 1,233 km.');
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(answer(page).locator('.text').last()).toHaveText('You did not let me read it.');
  await ask(page, 'Which day is it?');
  await finished(page, 4);
  await expect(answer(page).locator('.call summary')).toHaveText(/^get_date → \{"date":"20\d\d-/);

  // Stopped while the permission is asked for.
  await ask(page, 'How long is the Rhine?');
  await expect(dialog).toBeVisible();
  await page.evaluate(() => document.querySelector<HTMLButtonElement>('#stop')!.click());
  await expect(dialog).toBeHidden();
  await finished(page, 5);
  await expect(answer(page).locator('.call summary')).toContainText('not executed');

  // The calls are restored, and part of the next prompt.
  await page.reload();
  await ready(page);
  await expect(page.locator('#messages .call')).toHaveCount(5);
  await expect(page.locator('#messages .assistant').nth(1).locator('.text').last()).toHaveText('It is 42.');
  await expect(page.locator('#messages .assistant').nth(1).locator('.call summary').first()).toHaveText(
    'calculate → {"result":42}',
  );
  expect(faults).toEqual([]);
});

const PERSON =
  '{"name":"Ada <b>L.</b>","born":1815,"tags":["math",null],"home":{"city":"London","old":true,"at":{"x":{"y":1}}},"none":{}}';

test('JSON mode: a schema is chosen, written, refused; the answer is a tree, and is kept', async ({ page, site }) => {
  const faults = watch(page);
  await open(page, site, { answers: { '': PERSON, cut: PERSON.slice(0, 30) }, piece: 5 });
  await ready(page);
  const mode = page.getByRole('button', { name: 'JSON mode' });
  const panel = page.getByRole('region', { name: 'JSON mode' });
  await expect(panel).toBeHidden();
  // The mode's script is loaded when it is switched on.
  const parts = () => new Set(site.hits.filter((path) => path.includes('part-'))).size;
  const before = parts();
  await mode.click();
  await expect(mode).toHaveAttribute('aria-pressed', 'true');
  await expect(panel).toContainText('Forced by a grammar of 1,243 states, 51.2 kB, compiled in 12 ms');
  expect(parts()).toBeGreaterThan(before);
  await look(page, 'JSON mode');
  await accessible(page);

  // By keyboard: the example, the editor, what is wrong with a schema.
  await panel.getByLabel('Answers are').selectOption('A recipe');
  await panel.getByText('Edit the schema').press('Enter');
  const schema = panel.getByLabel('Schema', { exact: true });
  await expect(schema).toHaveValue(/"ingredients"/);
  await schema.fill('{"type":');
  await expect(panel.getByRole('status')).toHaveText(/^The schema is no JSON: /);
  await expect(panel.getByLabel('Answers are')).toHaveValue('A schema of your own');
  await ask(page, 'Who is it?');
  // No request was made: the question stays in the composer.
  await expect(schema).toBeFocused();
  await expect(composer(page)).toHaveValue('Who is it?');
  await schema.fill('{ "properties": { "a": { "uniqueItems": true } } }');
  await expect(panel.getByRole('status')).toHaveText('/properties/a uniqueItems an automaton cannot compare items');
  await look(page, 'a schema that cannot be enforced');
  await accessible(page);
  await composer(page).press('Enter');
  await expect(answer(page).getByRole('alert')).toContainText('Part of the schema cannot be enforced');
  await panel.getByLabel('Leave out what cannot be enforced').check();
  await expect(panel.getByRole('status')).toContainText('Not enforced:');

  await page.getByRole('button', { name: 'New chat' }).click();
  await ask(page, 'Who is it?');
  await finished(page, 1);
  await expect(answer(page).locator('.text')).toHaveText(PERSON);
  const tree = answer(page).getByRole('list', { name: 'The answer as a tree' });
  await expect(tree.locator('> li')).toHaveCount(5);
  await expect(tree).toContainText('name Ada <b>L.</b>');
  await expect(tree.locator('summary')).toHaveText([
    'tags 2 items',
    'home 3 keys',
    'at 1 key',
    'x 1 key',
    'none 0 keys',
  ]);
  await expect(answer(page).locator('.forced')).toContainText('Not enforced:/properties/a uniqueItems an automaton');
  // Folded by keyboard; deeper entries are created when unfolded.
  const [home, deepest] = [1, 3].map((index) => tree.locator('summary').nth(index)) as [Locator, Locator];
  await home.press('Enter');
  await expect(tree.getByText('London')).toBeHidden();
  await home.press('Enter');
  await expect(tree).not.toContainText('y 1');
  await deepest.press('Enter');
  await expect(tree).toContainText('y 1');
  await look(page, 'JSON as a tree');
  await accessible(page);

  await ask(page, 'cut');
  await finished(page, 2);
  await expect(answer(page).locator('.tree')).toHaveCount(0);
  await expect(answer(page).locator('.text')).toHaveText(PERSON.slice(0, 30));
  await mode.click();
  await expect(panel).toBeHidden();
  await ask(page, 'Who is it?');
  await finished(page, 3);
  await expect(answer(page).locator('.forced')).toHaveCount(0);

  // The answers and the schema are restored.
  await page.reload();
  await ready(page);
  await expect(page.locator('#messages .tree')).toHaveCount(1);
  await expect(page.locator('#messages .forced')).toHaveCount(2);
  await mode.click();
  await expect(panel.getByLabel('Leave out what cannot be enforced')).toBeChecked();
  await expect(panel.getByLabel('Schema', { exact: true })).toHaveValue(/"uniqueItems"/);
  expect(faults).toEqual([]);
});

test('JSON mode on a phone, dark and light', async ({ page, site }) => {
  await page.setViewportSize({ width: 320, height: 640 });
  await open(page, site, { answers: { '': PERSON } });
  await ready(page);
  await page.getByRole('button', { name: 'JSON mode' }).click();
  await ask(page, 'Who is it?');
  await finished(page, 1);
  await expect(answer(page).locator('.tree')).toBeVisible();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await look(page, `JSON on a phone, ${colorScheme}`);
    await accessible(page);
    await fits(page);
  }
  await page.getByText('Edit the schema').click();
  await look(page, 'the schema on a phone');
  await fits(page);
});

test('a question that is sent while the JSON mode is loading is answered in it', async ({ page, site }) => {
  await open(page, site, { answers: { '': PERSON } });
  await ready(page);
  let release = (): void => {};
  const released = new Promise<void>((done) => (release = done));
  let held = 0;
  await page.route(/part-/, async (route) => {
    held++;
    await released;
    await route.continue();
  });
  const mode = page.getByRole('button', { name: 'JSON mode' });
  await mode.click();
  await mode.click();
  await expect.poll(() => held).toBeGreaterThan(0);
  await ask(page, 'Who is it?');
  await expect(composer(page)).toHaveValue('Who is it?');
  await expect(page.locator('#messages .user')).toHaveCount(0);
  release();
  await finished(page, 1);
  await expect(mode).toHaveAttribute('aria-pressed', 'true');
  await expect(answer(page).locator('.tree')).toBeVisible();
});

test('a timer rings on the page', async ({ page, site }) => {
  await page.clock.install();
  await open(page, site, {
    answers: { '': '.', timer: 'CALL set_timer {"minutes":1}', started: 'It runs.' },
  });
  await page.clock.runFor(3000);
  await ready(page);
  await page.getByRole('button', { name: 'Set a timer for 1 minute.' }).click();
  await page.clock.runFor(3000);
  await finished(page, 1);
  await expect(answer(page).locator('.call summary')).toHaveText('set_timer → {"status":"started"}');
  await expect(page.locator('#timer-note')).toBeHidden();
  await page.clock.runFor(60_000);
  await expect(page.getByRole('alert').filter({ hasText: 'The timer of 1 minute is over.' })).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await expect(page.locator('#timer-note')).toBeHidden();
});

test('edit and resend, regenerate, stop', async ({ page, site }) => {
  const answers = { long: 'word '.repeat(500), first: 'One.', second: 'Two.', third: 'Three.' };
  await open(page, site, { answers, endless: 'long' });
  await ready(page);
  await ask(page, 'first');
  await finished(page, 1);
  await ask(page, 'second');
  await finished(page, 2);
  await page.locator('.user').first().hover();
  await page.locator('.user').first().getByRole('button', { name: 'Edit' }).click();
  const field = page.getByLabel('Edit the message');
  await expect(field).toHaveValue('first');
  await look(page, 'editing');
  await field.press('Escape');
  await expect(page.locator('#messages > li')).toHaveCount(4);
  await page.locator('.user').first().getByRole('button', { name: 'Edit' }).click();
  await field.fill('third');
  await page.getByRole('button', { name: 'Send' }).first().click();
  await expect(page.locator('#messages > li')).toHaveCount(2);
  await finished(page, 1);
  await expect(answer(page).locator('.text')).toHaveText('Three.');
  await page.evaluate(() => (standIn.answers.third = 'Drei.'));
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await finished(page, 1);
  await expect(answer(page).locator('.text')).toHaveText('Drei.');
  await ask(page, 'long');
  await expect(answer(page).locator('.text')).toContainText('word word');
  await expect(page.locator('#facts')).toContainText(/Speed\s*\d+ tokens\/s/);
  await look(page, 'chatting');
  await page.getByRole('button', { name: 'Stop' }).click();
  await finished(page, 2);
  await expect(answer(page).locator('.figures')).toContainText('stopped');
  await expect(page.locator('#facts')).toContainText(/Context\s*\d+ of 4,096/);
  await look(page, 'stopped');
  // The question is edited while its answer is being written, but does not grow any more, which would move the button:
  // that answer is removed.
  await ask(page, 'long');
  await expect(answer(page).locator('.text')).toHaveText(answers.long.trim());
  await page.locator('.user').last().hover();
  await page.locator('.user').last().getByRole('button', { name: 'Edit' }).click();
  await field.fill('second');
  await field.press('Enter');
  await finished(page, 3);
  await page.reload();
  await ready(page);
  await expect(page.locator('#messages .text')).toHaveText(['third', 'Drei.', 'long', /^word/, 'second', 'Two.']);
});

test('conversations are kept, found again, renamed, exported, deleted', async ({ page, site }) => {
  const faults = watch(page);
  await open(page, site, { answers: { cats: 'Meow.', dogs: 'Woof.' } });
  await ready(page);
  await ask(page, 'about cats');
  await finished(page, 1);
  await page.getByRole('button', { name: 'New chat' }).click();
  await ask(page, 'about dogs');
  await finished(page, 1);
  const list = page.locator('#conversations');
  await expect(list.locator('.open')).toHaveText(['about dogs', 'about cats']);
  await page.reload();
  await ready(page);
  await expect(answer(page).locator('.text')).toHaveText('Woof.');
  await list.getByRole('button', { name: 'about cats', exact: true }).click();
  await expect(answer(page).locator('.text')).toHaveText('Meow.');
  await list.getByRole('button', { name: 'More for about cats' }).click();
  await look(page, 'menu of a conversation');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.getByLabel('Title').fill('Felines');
  await page.keyboard.press('Enter');
  await expect(list.getByRole('button', { name: 'Felines', exact: true })).toBeFocused();
  // A click elsewhere saves the title, and has its own effect; opening the field again while it is open does no harm.
  const rename = async (name: string): Promise<void> => {
    await list.getByRole('button', { name: `More for ${name}` }).click();
    await page.getByRole('button', { name: 'Rename' }).click();
  };
  await rename('Felines');
  await page.getByLabel('Title').fill('Lions');
  await list.getByRole('button', { name: 'about dogs', exact: true }).click();
  await expect(answer(page).locator('.text')).toHaveText('Woof.');
  await rename('Lions');
  await page.getByLabel('Title').fill('Felines');
  await page.evaluate(() => (document.querySelector('#conversations li:has(input) .more') as HTMLElement).click());
  await page.evaluate(() => (document.querySelector('[data-does=rename]') as HTMLElement).click());
  await page.keyboard.press('Enter');
  await expect(list.locator('.open')).toHaveText(['about dogs', 'Felines']);
  await list.getByRole('button', { name: 'Felines', exact: true }).click();
  const save = async (name: string): Promise<string> => {
    await list.getByRole('button', { name: 'More for Felines' }).click();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
    expect(file.suggestedFilename()).toMatch(/^Felines\.(md|json)$/);
    const chunks: Buffer[] = [];
    for await (const chunk of await file.createReadStream()) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString();
  };
  expect(await save('Export as Markdown')).toContain('**You**\n\nabout cats\n');
  expect(JSON.parse(await save('Export as JSON'))).toMatchObject({
    title: 'Felines',
    messages: [
      { role: 'user', content: 'about cats' },
      { role: 'assistant', content: 'Meow.' },
    ],
  });
  // After each deletion the focus is on a sensible element.
  const yes = page.getByRole('dialog').getByRole('button', { name: 'Delete' });
  const remove = async (name: string): Promise<void> => {
    await list.getByRole('button', { name: `More for ${name}` }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
  };
  await remove('Felines');
  await look(page, 'asking before deleting');
  await accessible(page);
  await yes.click();
  await expect(list.locator('.open')).toHaveText(['about dogs']);
  await expect(page.locator('#messages > li')).toHaveCount(0);
  await expect(page.locator('#prompt')).toBeFocused();
  await ask(page, 'about cats');
  await finished(page, 1);
  await remove('about dogs');
  await yes.click();
  await expect(list.getByRole('button', { name: 'about cats', exact: true })).toBeFocused();
  await page.getByRole('button', { name: 'New chat' }).click();
  await remove('about cats');
  await yes.click();
  await expect(page.getByRole('button', { name: 'New chat' })).toBeFocused();
  await ask(page, 'about dogs');
  await finished(page, 1);
  await page.getByRole('button', { name: 'Delete all' }).click();
  await yes.click();
  await expect(page.getByText('What you talk about is kept here')).toBeVisible();
  await expect(page.locator('#prompt')).toBeFocused();
  expect(faults).toEqual([]);
});

test('errors of each kind are explained, while loading and while answering', async ({ page, site }) => {
  const faults = watch(page);
  await open(page, site, { loading: 'NOT_FOUND' });
  const problem = page.getByRole('alert').first();
  const codes = [
    'BAD_OPTION',
    'BAD_MODEL',
    'UNSUPPORTED_MODEL',
    'NOT_FOUND',
    'NETWORK',
    'STORAGE',
    'OUT_OF_MEMORY',
    'NO_WEBGPU',
    'NO_ADAPTER',
    'DEVICE_LOST',
    'GPU',
    'UNKNOWN_KERNEL',
    'CONTEXT_FULL',
    'TOKENIZER',
    'TEMPLATE',
    'DISPOSED',
    'INTERNAL',
  ];
  const titles = new Set<string>();
  for (const code of codes) {
    await page.evaluate((loading) => Object.assign(standIn, { loading }), code);
    await page.reload();
    await page.evaluate((loading) => Object.assign(standIn, { loading }), code);
    await expect(state(page)).toHaveAttribute('data-state', 'failed');
    await problem.getByRole('button', { name: 'Try again' }).click();
    await expect(state(page)).toHaveAttribute('data-state', 'failed');
    await expect(problem).toContainText('What exactly went wrong, where');
    titles.add(await problem.locator('h2').innerText());
    expect((await problem.locator('#problem-advice').innerText()).length, code).toBeGreaterThan(10);
    await look(page, `error ${code}`);
  }
  expect(titles.size).toBe(codes.length);
  await accessible(page);
  await page.evaluate(() => Object.assign(standIn, { loading: undefined, generating: 'CONTEXT_FULL' }));
  await problem.getByRole('button', { name: 'Try again' }).click();
  await ready(page);
  await ask(page, 'Hello?');
  await expect(answer(page).getByRole('alert')).toContainText('The conversation is too long');
  await look(page, 'error of an answer');
  await accessible(page);
  await page.evaluate(() => Object.assign(standIn, { generating: undefined }));
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await finished(page, 1);
  // A lost engine can be loaded again, and the conversation is still there.
  await page.evaluate(() => Object.assign(standIn, { generating: 'DEVICE_LOST' }));
  await ask(page, 'And now?');
  await expect(page.locator('#problem')).toContainText('The GPU was lost');
  await look(page, 'error in a conversation');
  await page.evaluate(() => Object.assign(standIn, { generating: undefined }));
  await page.locator('#problem').getByRole('button', { name: 'Try again' }).click();
  await ready(page);
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await finished(page, 2);
  expect(faults).toEqual([]);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`a phone, ${colorScheme}: nothing is cut off, the conversations are a drawer`, async ({ page, site }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width: 320, height: 600 });
    await open(page, site, { answers: { '': RICH } });
    await ready(page);
    await look(page, `narrow, ${colorScheme}`);
    await accessible(page);
    await ask(page, 'Show me what you can do with a question that is longer than a line.');
    await finished(page, 1);
    await look(page, `narrow chat, ${colorScheme}`);
    await accessible(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
    await page.getByRole('button', { name: 'Conversations' }).click();
    await expect(page.locator('#conversations .open')).toBeFocused();
    await look(page, `drawer, ${colorScheme}`);
    await accessible(page);
    await page.keyboard.press('Escape');
    await expect(page.getByRole('button', { name: 'Conversations' })).toBeFocused();
    for (const name of ['Settings', 'Choose a model']) {
      await page.getByRole('button', { name }).click();
      await look(page, `${name}, narrow, ${colorScheme}`);
      await accessible(page);
      await page.keyboard.press('Escape');
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await look(page, `wide, ${colorScheme}`);
    await accessible(page);
  });
}

test('nothing moves by itself while the page loads, and the first paint needs no engine', async ({ page, site }) => {
  await page.addInitScript(() => {
    globalThis.shifted = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[])
        if (!entry.hadRecentInput) shifted.push(entry.value);
    }).observe({ type: 'layout-shift', buffered: true });
  });
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 720 });
    await open(page, site, { steps: 10, pause: 60 });
    await ready(page);
    await ask(page, 'Hello?');
    await finished(page, 1);
    expect(await page.evaluate(() => shifted.reduce((a, b) => a + b, 0)), `${width} pixels wide`).toBeLessThan(0.01);
    await page.getByRole('button', { name: 'New chat' }).click();
  }
});

declare global {
  var shifted: number[];
}

/** Clicks, types, presses keys and turns the screen at random, for `most` steps or until `late()`. */
async function clickAround(page: Page, most: number, late: () => boolean, seed: number): Promise<number> {
  const chance = random(seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(chance() * items.length)]!;
  let steps = 0;
  for (; steps < most && !late(); steps += 1) {
    const what = chance();
    if (what < 0.12) {
      const onLink = await page.evaluate(() => document.activeElement instanceof HTMLAnchorElement);
      await page.keyboard.press(
        pick(['Escape', onLink ? 'Tab' : 'Enter', 'Tab', 'Shift+Tab', 'ArrowDown', onLink ? 'Tab' : 'Shift+Enter']),
      );
    } else if (what < 0.22)
      await page.keyboard.type(
        pick(['Tell me a short story.', '12', 'What is 17 + 25?', ' ', '-1', '![x](y)', '0.5', 'é漢字']),
      );
    else if (what < 0.24)
      await page.setViewportSize(
        pick([
          { width: 320, height: 600 },
          { width: 1280, height: 800 },
          { width: 700, height: 500 },
        ]),
      );
    else if (what < 0.25) await page.reload();
    else {
      // Any reachable control but links, which leave the page, and file inputs, whose system dialog would block.
      const controls = await page
        .locator(
          'button:visible:enabled, select:visible, summary:visible, input:visible:not([type=file]), textarea:visible',
        )
        .all();
      const control = controls.length > 0 ? pick(controls) : null;
      await control?.click({ timeout: 500, noWaitAfter: true }).catch(() => undefined);
    }
    const shown = await page.evaluate(
      () => ['loading', 'plan', 'problem', 'start'].filter((id) => !document.getElementById(id)!.hidden).length,
    );
    expect(shown, `after ${steps} steps`).toBe(1);
  }
  return steps;
}

test('clicking around at random for a while leaves no error', async ({ page, site }) => {
  const faults = watch(page);
  await open(page, site, { answers: { '': RICH, story: 'word '.repeat(200) }, plan: PLAN });
  await clickAround(page, 100, () => false, 1);
  expect(faults).toEqual([]);
});

onlyLong(test)(
  'clicking around at random for 20 minutes leaves no error, and a real model answers afterwards',
  async ({ page, site }) => {
    test.setTimeout(1_800_000);
    const faults = watch(page);
    await page.goto(site.url);
    const end = Date.now() + 20 * 60_000;
    const steps = await clickAround(page, Infinity, () => Date.now() > end, seedOf('clicking around'));
    test.info().annotations.push({ type: 'steps', description: String(steps) });
    expect(faults).toEqual([]);
    await page.evaluate(() => localStorage.clear());
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(`${site.url}/#`);
    await page.reload();
    await expect(state(page)).toHaveAttribute('data-state', 'ready', { timeout: 240_000 });
    await page.getByRole('button', { name: 'New chat' }).click();
    await ask(page, 'What is 17 + 25?');
    await expect(answer(page).locator('.text')).toContainText('42', { timeout: 120_000 });
    expect(faults).toEqual([]);
  },
);
