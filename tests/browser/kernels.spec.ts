// Every kernel variant that this browser can run, against its twin on the CPU: one case each, and in test:long all of them. A GPU in software
// takes about a second to compile a pipeline.
import type { KernelBenchRow, KernelRow } from '../../npm/millrace.js';
import { accessible, fits, look } from './looks.ts';
import { expect, LONG, test } from './support.ts';

test('waits for its form, compares, then times what a step runs', async ({ page, site }) => {
  test.setTimeout(300_000);
  await page.goto(`${site.url}/kernels.html`);
  await expect(page.getByLabel('Time them in the shape of').locator('option')).not.toHaveCount(1, { timeout: 60_000 });
  await expect(page.locator('#watch')).toBeHidden();
  await expect(page.locator('#checked')).toBeHidden();
  await expect(page.getByLabel('Weights')).toBeDisabled();
  await accessible(page);
  await look(page, 'kernels form');

  await page.goto(`${site.url}/kernels.html?quick&filter=embed&shape=tiny&quant=q8_0&prompt=8`);
  await page.waitForFunction(
    () => (globalThis as unknown as { millraceKernels: { ended: boolean } }).millraceKernels.ended,
    null,
    { timeout: 280_000 },
  );
  await expect(page.locator('#status')).toHaveText(/^\d+ passed, 0 failed/);
  await expect(page.getByRole('button', { name: 'embed' })).toBeVisible();
  await expect(page.locator('#timed')).toContainText('tiny q8_0 after 8 tokens of context on');
  await expect(page.locator('#times-table .chosen')).toHaveText(/embed .*in use[\d.]+[\d.]+ %/);
  await accessible(page);
});

test('refuses to time what is wrong, and finds failed and skipped cases', async ({ browser, site }) => {
  test.setTimeout(60_000);
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  const cases: KernelRow[] = [
    { kernel: 'matvec', variant: 'q4_0_int8', case: '64x256', status: 'pass', error: 2e-7, ms: 4.2 },
    {
      kernel: 'matvec',
      variant: 'q4_0_f32',
      case: '64x256',
      status: 'fail',
      error: 0.4,
      ms: 5.1,
      message: 'row 3: 1.25 instead of 0.5',
    },
    { kernel: 'rms_norm', variant: 'plain', case: '8 rows', status: 'pass', error: 1e-7, ms: 1.2 },
    {
      kernel: 'matmul_subgroup',
      variant: 'f16',
      case: '64x64',
      status: 'skip',
      error: 0,
      ms: 0,
      message: 'needs subgroup matrices',
    },
  ];
  const time = { kernel: 'matvec', bytes: 3.5e7, chosen: false };
  const times: KernelBenchRow[] = [
    {
      ...time,
      operation: 'gate_up 8192x2048 q4_0',
      variant: 'q4_0_int8',
      chosen: true,
      us: 12.1,
      gb_s: 1750,
      percent_of_streaming: 58.3,
    },
    {
      ...time,
      operation: 'gate_up 8192x2048 q4_0',
      variant: 'q4_0_f32',
      us: 9.9,
      gb_s: 2100,
      percent_of_streaming: 70,
    },
    {
      ...time,
      operation: 'head 128256x2048 q6_k',
      variant: 'q6_k_int8',
      chosen: true,
      us: 56.2,
      gb_s: 2640,
      percent_of_streaming: 88,
    },
    {
      ...time,
      operation: 'head 128256x2048 q6_k',
      variant: 'q6_k_f32',
      us: 71.5,
      gb_s: 2070,
      percent_of_streaming: 69,
      wrong: 'row 0 differs',
    },
  ];
  const report = {
    kernels: times,
    prompt: 512,
    streaming_gb_s: 3000,
    adapter: { vendor: 'nvidia', name: 'NVIDIA H100 80GB HBM3' },
  };
  const script = (path: string, text: string) =>
    site.routes.set(
      path,
      (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(text),
    );
  script(
    '/js/kernels-worker.js',
    `onmessage = () => { for (const row of ${JSON.stringify(cases)}) postMessage({ row }); postMessage({ report: {} }); };`,
  );
  script(
    '/js/bench-worker.js',
    `onmessage = ({ data }) => postMessage(data.names ? { names: { shapes: ['llama-3.2-1b'], quants: ['q4_0', 'q8_0'] } } : { report: ${JSON.stringify(report)} });`,
  );
  await page.goto(`${site.url}/kernels.html`);
  await page.getByLabel('Time them in the shape of').selectOption('llama-3.2-1b');
  await page.getByRole('button', { name: 'Start' }).click();
  await expect(page.locator('#status')).toHaveText('2 passed, 1 failed, 1 not offered by this device');
  await expect(page).toHaveURL(/kernels\.html\?quick=&shape=llama-3\.2-1b&quant=q4_0&prompt=512$/);
  await expect(page.locator('#times-table .case-fail')).toHaveText([
    /q4_0_f32wrong, so it gets no time: row 3: 1.25 instead of 0.5/,
    /q6_k_f32wrong, so it gets no time: row 0 differs/,
  ]);
  await expect(page.locator('#times-table .chosen').first()).toHaveText(/q4_0_int8in use12\.1035\.00175058\.3 %/);
  await page.getByRole('button', { name: 'matvec' }).press('Enter');
  await expect(page.locator('#of-matvec tr')).toHaveCount(2);
  await expect(page.getByRole('button', { name: 'matvec' })).toHaveAttribute('aria-expanded', 'true');
  await accessible(page);
  await look(page, 'kernels results');

  await page.getByLabel('Order').selectOption('longest first');
  await expect(page.locator('#times-table tbody tr').first()).toContainText('q6_k_f32');
  await page.getByLabel('Show').selectOption('failed cases');
  await expect(page.locator('#cases-table tbody tr:visible')).toHaveCount(2);
  await page.getByLabel('Show').selectOption('skipped cases');
  await expect(page.locator('#cases-table tbody tr:visible').last()).toContainText('needs subgroup matrices');
  await page.getByRole('button', { name: 'Copy as Markdown' }).click();
  await expect(page.getByRole('button', { name: 'Copied' })).toBeVisible();
  const markdown = await page.evaluate(() => navigator.clipboard.readText());
  for (const text of [
    '2 passed, 1 failed',
    '| matvec | q4_0_f32 | 64x256 | 4.0e-1 |',
    '| gate_up 8192x2048 q4_0 | q4_0_int8 | yes | 12.10 | 35.00 | 1750 | 58.3 |',
    'wrong: row 3',
  ])
    expect(markdown).toContain(text);
  expect(markdown).not.toContain('9.90');

  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page);
  await page.setViewportSize({ width: 320, height: 700 });
  await accessible(page);
  await fits(page);
  await look(page, 'kernels narrow and dark');
  await context.close();
});

test('all kernels agree with their twins', async ({ page, site }) => {
  test.setTimeout(LONG ? 3_600_000 : 900_000);
  await page.goto(`${site.url}/kernels.html${LONG ? '' : '?quick'}`);
  await page.waitForFunction(
    () => (globalThis as unknown as { millraceKernels: { done: boolean } }).millraceKernels.done,
    null,
    { timeout: LONG ? 3_500_000 : 850_000 },
  );
  const results = await page.evaluate(
    () => (globalThis as unknown as { millraceKernels: { rows: KernelRow[]; failure: string | null } }).millraceKernels,
  );
  expect(results.failure).toBeNull();
  expect(results.rows.filter((row) => row.status === 'fail')).toEqual([]);
  expect(results.rows.filter((row) => row.status === 'pass').length).toBeGreaterThan(50);
  await expect(page.locator('#status')).toHaveText(/^\d+ passed, 0 failed/);
});
