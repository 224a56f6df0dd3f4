// The bench page: its form, figures and plots for a tiny shape, stored and compared runs, and errors that list the
// valid values.
import type { BenchOptions, BenchReport } from '../../npm/millrace.js';
import { accessible, fits, look } from './looks.ts';
import { expect, test, type Page, type Site } from './support.ts';

const status = (page: Page) => page.locator('#status');
const outcome = (page: Page) =>
  page.evaluate(
    () =>
      (globalThis as unknown as { millraceBench: { report: BenchReport | null; failure: { code: string } | null } })
        .millraceBench,
  );

test('measures a tiny shape at once, is cancelled, runs again from its form and sends the report', async ({
  page,
  site,
}) => {
  test.setTimeout(300_000);
  const sent: unknown[] = [];
  await page.route(`${site.url}/report`, async (route) => {
    sent.push(route.request().postDataJSON());
    await route.fulfill({ status: 204 });
  });
  await page.goto(
    `${site.url}/bench.html?shape=tiny&quant=q4_k_m&prompt=8&gen=6&runs=2&lane=exact&chunk=1&profile=1&report=/report`,
  );
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(status(page)).toHaveText('Cancelled');
  expect((await outcome(page)).failure).toMatchObject({ code: 'ABORTED' });
  await expect(page.getByRole('button', { name: 'Cancel' })).toBeHidden();

  await expect(page.locator('#what')).toHaveValue('shape=tiny');
  await page.getByLabel('Generate, tokens').fill('5');
  await expect(page).toHaveURL(
    /shape=tiny&quant=q4_k_m&prompt=8&gen=5&runs=2&lane=exact&chunk=1&profile=1&report=\/report$/,
  );
  const seen: string[] = [];
  await page.exposeFunction('saw', (text: string) => void (seen.at(-1) === text || seen.push(text)));
  await page.evaluate(() =>
    new MutationObserver(() =>
      (globalThis as unknown as { saw: (text: string) => void }).saw(document.querySelector('#status')!.textContent!),
    ).observe(document.querySelector('#status')!, { childList: true }),
  );
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(status(page)).toHaveText(/tiny q4_k_m, exact: [\d.,]+ tokens a second/, { timeout: 280_000 });
  for (const text of [
    'Compiling kernels',
    'Warming up: run 1',
    'Measuring: run 1 of 2',
    'Measuring: run 2 of 2',
    'Measuring kernels',
  ])
    expect(seen).toContain(text);

  // The report is sent once the figures are shown.
  await expect.poll(() => sent.length).toBe(2);
  expect(sent[0]).toMatchObject({ error: { code: 'ABORTED' } });
  expect(sent[1]).toMatchObject({ shape: 'tiny', quant: 'q4_k_m', lane: 'exact', prompt: 8, gen: 5 });
  const { runs } = sent[1] as BenchReport;
  expect(runs).toHaveLength(2);
  // One token a readback: each but the first has a time.
  for (const run of runs)
    expect(run.chunks.map(({ position, tokens }) => [position, tokens])).toEqual([
      [9, 1],
      [10, 1],
      [11, 1],
      [12, 1],
    ]);
  // A Worker's clock is coarse.
  for (const run of runs) {
    for (const { ms } of run.chunks) expect(ms).toBeGreaterThanOrEqual(0);
    expect(run.chunks.reduce((sum, { ms }) => sum + ms, 0)).toBeGreaterThan(0);
  }

  await expect(page.locator('#figures tr', { hasText: 'Pass of 4 rows' })).toHaveText(/[\d.]+ ms/);
  await expect(page.locator('#headline dt')).toHaveText([
    'Decode',
    'Prefill',
    'First token',
    'A token, P50',
    'A token, P95',
  ]);
  await expect(page.locator('#profile-table tbody tr')).not.toHaveCount(0);
  await expect(page.locator('#prefill-table tbody tr')).not.toHaveCount(0);
  await expect(
    page
      .getByRole('img', { name: /^Tokens a second over context: [\d.,]+ to [\d.,]+ tokens a second from 9 to 12/ })
      .locator('canvas'),
  ).toBeVisible();
  await expect(
    page.getByRole('img', { name: /^Time of a token: half of the tokens within/ }).locator('canvas'),
  ).toBeVisible();
  await expect(page.locator('#time .bars li')).not.toHaveCount(0);
  await expect(page.locator('#kept tbody tr')).toHaveCount(1);
  await accessible(page);
});

/** Figures as of a fast GPU. */
function report(options: BenchOptions, speed: number): BenchReport {
  const { prompt = 512, gen = 128, runs = 3 } = options;
  const wave = (i: number) => 1 + 0.04 * Math.sin(i * 2.4) + (i % 7 === 3 ? 0.12 : 0);
  const steps: [string, number, number][] = [
    ['qkv', 0.094, 22],
    ['attention', 0.067, 30],
    ['merge', 0.043, 5],
    ['output', 0.056, 26],
    ['gate_up', 0.194, 58],
    ['down', 0.099, 56],
    ['head', 0.056, 88],
  ];
  const rows = steps.map(([step, ms, streaming]) => ({
    step,
    kernel: step === 'attention' ? 'attention' : 'matvec',
    variant: 'q4_0_int8',
    calls: 16,
    us: (ms * 1000) / 16,
    ms: (ms * 1485) / speed,
    percent: (100 * ms) / 0.609,
    bytes: 4e7,
    gb_s: 30 * streaming,
    percent_of_streaming: streaming,
    active: 1,
  }));
  const one = (k: number) => ({
    prefill_tok_s: 16 * speed,
    decode_tok_s: speed,
    ttft_ms: 21,
    latency_ms: [1000 / speed, 1150 / speed] as [number, number],
    record_us: 60,
    drafted: 0,
    accepted: 0,
    chunks: Array.from({ length: Math.ceil(gen / 8) - 1 }, (_, i) => ({
      position: prompt + 8 * (i + 1),
      tokens: 8,
      ms: ((1000 + i) / speed) * wave(i + k),
    })),
  });
  return {
    shape: options.shape ?? 'box',
    quant: options.quant ?? 'q8_0',
    lane: options.lane && options.lane !== 'auto' ? options.lane : 'fast',
    version: '0.1.0',
    adapter: {
      vendor: 'nvidia',
      name: 'NVIDIA H100 80GB HBM3',
      features: ['subgroups'],
      subgroup: [32, 32],
      max_buffer: 2 ** 32,
      binding_limit: 2 ** 31,
      max_invocations: 1024,
      max_workgroups: 65535,
      poll_ms: 0.25,
    },
    self_test: { checked: 12, ms: 300, wrong: [] },
    prompt,
    gen,
    load_ms: 900,
    warm_up: 3,
    ...one(0),
    runs: Array.from({ length: runs }, (_, k) => one(k)),
    dispatches_per_token: 99,
    submits_per_token: 0.5,
    tokens_per_readback: 8,
    bytes_per_token: 7.7e8,
    streaming_gb_s: 3000,
    percent_of_streaming: 38.1,
    gpu_bytes: 1.4e9,
    weight_bytes: 7.7e8,
    cache_bytes: 3.3e7,
    tuned: { measured: 5, left: 0, changed: 2, ms: 900, times: {} },
    ...(options.profile ? { profile: rows } : {}),
  };
}

/** A bench that answers at once, with these speeds in turn; after the last one it never ends. */
function pretend(site: Site, speeds: number[]): void {
  site.routes.set('/js/bench-worker.js', (_, response) => {
    const speed = speeds.shift();
    const script = `${report.toString()}
      onmessage = ({ data }) => {
        if (data.names) return postMessage({ names: { shapes: ['llama-3.2-1b', 'qwen3-0.6b', 'gemma-3-1b'], quants: ['q4_0', 'q4_k_m', 'q8_0', 'f16'] } });
        postMessage({ progress: { phase: 'run', loaded: 1, total: data.options.runs, tokens: [64, 1473.2] } });
        ${speed === undefined ? '' : `postMessage({ report: report(data.options, ${speed}) });`}
      };`;
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script);
  });
}

test('waits for its form, keeps runs, compares them, and gives them away', async ({ browser, site }) => {
  test.setTimeout(90_000);
  const context = await browser.newContext({
    permissions: ['clipboard-read', 'clipboard-write'],
    acceptDownloads: true,
  });
  const page = await context.newPage();
  // The Worker of an opened page answers the first run; then each run has one of its own.
  pretend(site, [1485.4, 1301.7]);
  await page.goto(`${site.url}/bench.html`);
  await expect(page.locator('#shapes option')).toHaveCount(3);
  await expect(page.locator('#watch')).toBeHidden();
  await expect(page.locator('#results')).toBeHidden();
  expect(await outcome(page)).toEqual({ report: null, failure: null });
  await expect(page.locator('#what')).toHaveValue('model=models/box.gguf');
  await expect(page.getByLabel('Weights')).toBeHidden();
  await accessible(page);
  await look(page, 'form');

  await page.locator('#what').selectOption('Another address…');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(page.getByLabel(/^Address of/)).toBeFocused();
  await page.locator('#what').selectOption('llama-3.2-1b');
  await page.getByLabel('Weights').selectOption('q4_0');
  await page.getByLabel('Prompt, tokens').press('Enter');
  await expect(status(page)).toHaveText('llama-3.2-1b q4_0, fast: 1,485.4 tokens a second');
  await expect(page).toHaveURL(
    /bench\.html\?shape=llama-3\.2-1b&quant=q4_0&prompt=512&gen=128&runs=5&lane=auto&profile=1$/,
  );
  await look(page, 'results');

  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(page.locator('#kept tbody tr')).toHaveCount(2);
  await expect(page.locator('#headline div').first()).toContainText('1,301.7');
  await page.getByRole('button', { name: 'Compare llama' }).last().click();
  await expect(page.locator('#headline div').first()).toContainText('× 0.88 worse');
  await expect(page.locator('#figures tr', { hasText: 'Decode' })).toHaveText(
    /1,301\.7 tokens\/s1,485\.4 tokens\/s× 0\.88 worse/,
  );
  await expect(page.getByRole('img', { name: /over context.*; earlier run [\d.,]+ to/ })).toBeVisible();
  await expect(page.getByRole('img', { name: /Time of a token.*; earlier run: half/ })).toBeVisible();
  await expect(page.locator('#time .value.then')).toHaveCount(7);
  await look(page, 'compare');
  await page.locator('#speed summary').click();
  await expect(
    page.getByRole('region', { name: 'Tokens a second over context, as a table' }).locator('thead'),
  ).toHaveText(/Context.*Earlier run/);
  await accessible(page);
  await page.locator('#speed summary').click();

  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole('button', { name: 'Copy as Markdown' }).click();
  await expect(page.getByRole('button', { name: 'Copied' })).toBeVisible();
  const markdown = await clipboard();
  for (const text of [
    '### Millrace: llama-3.2-1b q4_0, fast',
    'NVIDIA H100',
    new Date().getFullYear().toString(),
    '?shape=llama-3.2-1b&quant=q4_0',
    '| Figure | This run | Earlier run | Ratio |',
    '| Decode | 1,301.7 tokens/s | 1,485.4 tokens/s | × 0.88 worse |',
    '| gate_up |',
    '| Features | subgroups |',
    '| Limits | buffer 4,096 MiB, binding 2,048 MiB, 1024 invocations, 65535 workgroups |',
    '| A wait for nothing | 0.25 ms |',
    '| Self-test | 12 kernels, none wrong |',
    'Browser: Mozilla',
  ])
    expect(markdown).toContain(text);
  await page.getByRole('button', { name: 'Copy as JSON' }).click();
  await expect.poll(async () => (await clipboard()).startsWith('{')).toBe(true);
  const json = JSON.parse(await clipboard()) as BenchReport & { date: string };
  expect(json).toMatchObject({
    shape: 'llama-3.2-1b',
    decode_tok_s: 1301.7,
    address: expect.stringContaining('shape=llama-3.2-1b'),
  });
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download JSON' }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/^millrace-[\dT-]+\.json$/);

  // Dark, narrow, and both.
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page);
  await look(page, 'dark');
  await page.setViewportSize({ width: 320, height: 700 });
  await accessible(page);
  await page.emulateMedia({ colorScheme: 'light' });
  await fits(page);
  await look(page, 'narrow');
  await page.setViewportSize({ width: 1280, height: 720 });

  // Runs are there after a reload, can be deleted, and come back from a file.
  pretend(site, []);
  await page.goto(`${site.url}/bench.html`);
  await expect(page.locator('#kept tbody tr')).toHaveCount(2);
  await page
    .getByRole('button', { name: /^Delete llama/ })
    .first()
    .click();
  await expect(page.locator('#kept tbody tr')).toHaveCount(1);
  const all = page.getByRole('button', { name: 'Delete all' });
  await all.click();
  await page.keyboard.press('Escape');
  await expect(all).toBeFocused();
  await expect(page.locator('#kept tbody tr')).toHaveCount(1);
  await all.click();
  await page
    .getByRole('dialog', { name: 'Delete all earlier runs?' })
    .getByRole('button', { name: 'Delete all' })
    .click();
  await expect(page.locator('#kept')).toBeHidden();
  const { runs: measured, ...rest } = json;
  // As earlier versions wrote them.
  const old = { ...rest, date: undefined, runs: measured.map(({ chunks: _, ...run }) => run) };
  await page
    .getByLabel('Open a JSON file')
    .setInputFiles({ name: 'old.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(old)) });
  await expect(page.locator('#title')).toHaveText('llama-3.2-1b q4_0, fast');
  await expect(page.locator('#speed')).toBeHidden();
  await expect(page.locator('#time')).toBeVisible();
  await page
    .getByLabel('Open a JSON file')
    .setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{"decode_tok_s":"<img>"}') });
  await expect(status(page)).toHaveText('BAD_OPTION: the file is no report of this bench');

  // Another run is compared with the file's.
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(status(page)).toHaveText('Measuring: run 2 of 5');
  await expect(page.locator('#live')).toHaveText('1,473.2 tokens/s, 64 of 128 tokens');
  await accessible(page);
  await look(page, 'running');
  await page.getByRole('button', { name: 'Cancel' }).press('Enter');
  await expect(status(page)).toHaveText('Cancelled');
  await expect(page.getByRole('button', { name: 'Run', exact: true })).toBeFocused();
  await context.close();
});

test('what does not exist is an error that lists what does', async ({ page, site }) => {
  await page.goto(`${site.url}/bench.html?shape=nonsense`);
  await expect(status(page)).toContainText('llama-3.2-1b', { timeout: 60_000 });
  await expect(page.locator('#problem')).toHaveText('A setting or address is wrong');
  await expect(page.locator('#what')).toHaveValue('shape=nonsense');
  await accessible(page);
  await look(page, 'error');
  await page.goto(`${site.url}/bench.html?colour=red`);
  await expect(status(page)).toContainText('BAD_OPTION: colour is not a parameter');
  await page.goto(`${site.url}/bench.html?gen=many`);
  await expect(status(page)).toContainText('gen is "many"');
  await page.goto(`${site.url}/bench.html?kernel=qkv`);
  await expect(status(page)).toContainText('write kernel=OPERATION=VARIANT');
});

test('a browser without WebGPU is told so', async ({ page, site }) => {
  await page.addInitScript(() => void delete (Navigator.prototype as { gpu?: unknown }).gpu);
  await page.goto(`${site.url}/bench.html`);
  await expect(status(page)).toContainText('NO_WEBGPU');
  await expect(page.locator('#advice')).not.toBeEmpty();
  await expect(page.getByRole('button', { name: 'Run', exact: true })).toBeDisabled();
  await accessible(page);
});
