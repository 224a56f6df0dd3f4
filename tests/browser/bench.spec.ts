// The bench page: figures and a plot for a tiny shape, and errors that say what there is.
import AxeBuilder from '@axe-core/playwright';
import { expect, test } from './support.ts';

test('measures a tiny shape, shows the kernels and sends the report', async ({ page, site }) => {
  test.setTimeout(300_000);
  const sent: unknown[] = [];
  await page.route(`${site.url}/report`, async (route) => {
    sent.push(route.request().postDataJSON());
    await route.fulfill({ status: 204 });
  });
  await page.goto(`${site.url}/bench.html?shape=tiny&quant=q4_k_m&prompt=8&gen=3&runs=1&profile=1&report=/report`);
  await expect(page.locator('#status')).toHaveText(/tiny q4_k_m, fast: [\d.,]+ tokens a second/, { timeout: 280_000 });
  await expect(page.locator('#figures tr')).toHaveCount(13);
  await expect(page.locator('#figures tr', { hasText: 'Pass of 4 rows' })).toHaveText(/[\d.]+ ms/);
  await expect(page.locator('#profile tbody tr')).not.toHaveCount(0);
  await expect(page.locator('#prefill tbody tr')).not.toHaveCount(0);
  await expect(page.locator('#plot svg rect').first()).toBeVisible();
  expect(sent).toHaveLength(1);
  expect(sent[0]).toMatchObject({ shape: 'tiny', quant: 'q4_k_m', lane: 'fast', prompt: 8, gen: 3 });
  expect((await new AxeBuilder({ page }).analyze()).violations).toEqual([]);
});

test('what does not exist is an error that lists what does', async ({ page, site }) => {
  await page.goto(`${site.url}/bench.html?shape=nonsense`);
  await expect(page.locator('#status')).toContainText('llama-3.2-1b', { timeout: 60_000 });
  await page.goto(`${site.url}/bench.html?colour=red`);
  await expect(page.locator('#status')).toContainText('BAD_OPTION: colour is not a parameter');
  await page.goto(`${site.url}/bench.html?gen=many`);
  await expect(page.locator('#status')).toContainText('gen is "many"');
});
