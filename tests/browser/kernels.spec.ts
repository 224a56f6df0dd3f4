// Kernel variants in this browser against their twins on the CPU. A GPU in software takes about a second to compile a
// pipeline: enough variants run, one case of each, to cover every value of every axis of each kernel, and somewhere
// every type of weights with every type of activations; in test:long all cases of all variants. The native tests always
// run more. The numbers of variants that the browser cannot run, and of those that run, are in
// tests/data/kernels_left_out.json.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
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
  await page.goto(`${site.url}/kernels.html?${LONG ? 'all' : 'cover'}`);
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
  const names = (rows: KernelRow[]) => new Set(rows.map((row) => `${row.kernel}=${row.variant}`));
  const skipped = results.rows.filter((row) => row.status === 'skip');
  const leftOut: Record<string, number> = {};
  for (const { message } of skipped) leftOut[message ?? ''] = (leftOut[message ?? ''] ?? 0) + 1;
  const tables = JSON.parse(readFileSync(join('tests', 'data', 'kernels_left_out.json'), 'utf8')) as Record<
    string,
    Record<string, number>
  >;
  expect(leftOut).toEqual(tables.SwiftShader);
  // All other variants have passed: every case, and that they do nothing once a generation has ended.
  const ran = results.rows.filter((row) => row.status === 'pass');
  expect(names(ran).size).toBe(
    LONG ? tables.variants!.all! - skipped.length : tables.variants!['cover on SwiftShader'],
  );
  expect(names(ran.filter((row) => row.case === 'done')).size).toBe(names(ran).size);
  await expect(page.locator('#status')).toHaveText(/^\d+ passed, 0 failed/);
});

test('an edited shader is compared with its twin at once', async ({ page, site }) => {
  test.setTimeout(300_000);
  const folder = join('shaders', 'common');
  const built = [
    ['embed.wgsl', readFileSync(join('shaders', 'embed.wgsl'), 'utf8')],
    ...readdirSync(folder).map((name) => [`common/${name}`, readFileSync(join(folder, name), 'utf8')]),
  ];
  let shown = 0;
  /** Serves shaders/embed.wgsl with one edit. */
  const edit = (from: string, to: string) => {
    const tag = `"${(shown += 1)}"`;
    const templates = built.map(([name, text]) => [name, name === 'embed.wgsl' ? text!.replace(from, to) : text]);
    site.routes.set('/shaders', (request, response) => {
      const same = request.headers['if-none-match'] === tag;
      response.writeHead(same ? 304 : 200, { ETag: tag }).end(same ? '' : JSON.stringify(templates));
    });
  };
  edit('', '');
  await page.goto(`${site.url}/kernels.html?shaders&quick&filter=embed%3Dq4_0`);
  const status = page.locator('#status');
  await expect(status).toHaveText(/^2 passed, 0 failed, in [\d.]+ s; waiting/, { timeout: 240_000 });

  edit('v[c] * SCALE', 'v[c] * SCALE * 2.0');
  await expect(status).toHaveText(/^1 passed, 1 failed/, { timeout: 30_000 });

  const line = built[0]![1]!.split('\n').findIndex((text) => text.includes('let block =')) + 1;
  edit('let block = ', 'let block = nothing + ');
  await expect(status).toHaveText(/^0 passed, 2 failed/, { timeout: 30_000 });
  await page.getByRole('button', { name: 'embed' }).click();
  await expect(page.locator('#of-embed tr').first()).toContainText(`shaders/embed.wgsl:${line}`);

  edit('let block =', '{{ nowhere }} let block =');
  await expect(status).toContainText(`shaders/embed.wgsl:${line}`, { timeout: 30_000 });

  edit('', '');
  await expect(status).toHaveText(/^2 passed, 0 failed/, { timeout: 30_000 });
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(status).toHaveText(/^Cancelled/);
});
