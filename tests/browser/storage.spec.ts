// A model that was loaded once comes from the browser's own storage.
import { expect, openBlank, test, TINY } from './support.ts';

test('the second load makes no request for the model, even in a new page', async ({ blank, site, context }) => {
  const load = async (model: string): Promise<{ tokens: number[]; cached: boolean }> => {
    const cached: boolean[] = [];
    const engine = await Engine.load({ model, lane: 'exact', onProgress: (progress) => cached.push(progress.cached) });
    const { tokens } = await engine.generate({ tokens: [57, 56, 78] }, { maxTokens: 6, temperature: 0, ignoreEos: true });
    engine.dispose();
    return { tokens: Array.from(tokens), cached: cached.includes(true) };
  };
  const first = await blank.evaluate(load, TINY);
  expect(site.hits).toContain(TINY);
  site.hits.length = 0;
  await blank.close();
  // From here on the server does not have the file any more.
  site.routes.set(TINY, (_, response) => void response.writeHead(410).end());
  const page = await context.newPage();
  await openBlank(page, site);
  const second = await page.evaluate(load, TINY);
  expect(site.hits.filter((path) => path === TINY)).toEqual([]);
  expect(second).toEqual({ tokens: first.tokens, cached: true });
});

test('cache: false leaves nothing behind', async ({ blank, site }) => {
  await blank.evaluate(async (model) => (await Engine.load({ model, cache: false })).dispose(), TINY);
  site.hits.length = 0;
  await blank.evaluate(async (model) => (await Engine.load({ model, cache: false })).dispose(), TINY);
  expect(site.hits).toContain(TINY);
});

test('a folder of safetensors loads and is kept, too', async ({ blank, site }) => {
  const load = async (model: string): Promise<number> => {
    const engine = await Engine.load({ model, lane: 'exact' });
    engine.dispose();
    return engine.info.model.vocab;
  };
  const folder = '/data/oracle/hf-sharded/model/';
  expect(await blank.evaluate(load, folder)).toBe(301);
  site.hits.length = 0;
  expect(await blank.evaluate(load, folder)).toBe(301);
  expect(site.hits.filter((path) => path.startsWith(folder))).toEqual([]);
});
