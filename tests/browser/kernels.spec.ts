// Every kernel variant that this browser can run, against its twin on the CPU.
import type { KernelRow } from '../../npm/millrace.js';
import { expect, test } from './support.ts';

test('all kernels agree with their twins', async ({ page, site }) => {
  test.setTimeout(1_200_000);
  await page.goto(`${site.url}/kernels.html`);
  await page.waitForFunction(() => (globalThis as unknown as { millraceKernels: { done: boolean } }).millraceKernels.done, null, { timeout: 1_150_000 });
  const results = await page.evaluate(() => (globalThis as unknown as { millraceKernels: { rows: KernelRow[]; failure: string | null } }).millraceKernels);
  expect(results.failure).toBeNull();
  expect(results.rows.filter((row) => row.status === 'fail')).toEqual([]);
  expect(results.rows.filter((row) => row.status === 'pass').length).toBeGreaterThan(50);
  await expect(page.locator('#status')).toHaveText(/^\d+ passed, 0 failed/);
});
