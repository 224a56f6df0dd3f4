// Every kernel variant that this browser can run, against its twin on the CPU: one case each, and in test:long all of them. A GPU in software
// takes about a second to compile a pipeline.
import type { KernelRow } from '../../npm/millrace.js';
import { expect, LONG, test } from './support.ts';

test('all kernels agree with their twins', async ({ page, site }) => {
  test.setTimeout(LONG ? 3_600_000 : 900_000);
  await page.goto(`${site.url}/kernels.html${LONG ? '' : '?quick'}`);
  await page.waitForFunction(() => (globalThis as unknown as { millraceKernels: { done: boolean } }).millraceKernels.done, null, { timeout: LONG ? 3_500_000 : 850_000 });
  const results = await page.evaluate(() => (globalThis as unknown as { millraceKernels: { rows: KernelRow[]; failure: string | null } }).millraceKernels);
  expect(results.failure).toBeNull();
  expect(results.rows.filter((row) => row.status === 'fail')).toEqual([]);
  expect(results.rows.filter((row) => row.status === 'pass').length).toBeGreaterThan(50);
  await expect(page.locator('#status')).toHaveText(/^\d+ passed, 0 failed/);
});
