// Screenshots of pages for the report, and checks of accessibility.
import AxeBuilder from '@axe-core/playwright';
import { expect, test, type Page } from './support.ts';

export async function look(page: Page, name: string): Promise<void> {
  await test.info().attach(name, {
    body: await page.screenshot({ fullPage: true, animations: 'disabled' }),
    contentType: 'image/png',
  });
}

export async function accessible(page: Page): Promise<void> {
  const { violations, incomplete } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
    .analyze();
  // axe reports text in its background's colour as incomplete, since it may be hidden on purpose: here none is.
  const invisible = incomplete
    .filter(({ id }) => id === 'color-contrast')
    .map((rule) => ({
      ...rule,
      nodes: rule.nodes.filter(({ any }) => any.some(({ data }) => data?.messageKey === 'equalRatio')),
    }));
  const found = [...violations, ...invisible.filter(({ nodes }) => nodes.length > 0)];
  expect(found.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html)])).toEqual([]);
}

/** A page that can be scrolled sideways is a fault. */
export async function fits(page: Page): Promise<void> {
  await expect
    .poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth))
    .toBeLessThanOrEqual(0);
}
