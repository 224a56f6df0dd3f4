// A model that was loaded once is loaded from the browser's storage.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { BOX, bytesOf, expect, openBlank, test, TINY } from './support.ts';

/** Runs in the page: fetches or finds the model, without the GPU. Returns whether it came from the storage. */
async function fetchOnly(model: string): Promise<boolean> {
  let cached = false;
  await models.download(model, {
    onProgress: (progress) => {
      if (progress.phase === 'download') cached = progress.cached;
    },
  });
  return cached;
}

test('the second load makes no request for the model, even in a new page', async ({ blank, site, context }) => {
  expect(await blank.evaluate(fetchOnly, TINY)).toBe(false);
  expect(site.hits).toContain(TINY);
  site.hits.length = 0;
  await blank.close();
  // From here on the server does not have the file any more.
  site.routes.set(TINY, (_, response) => void response.writeHead(410).end());
  const page = await context.newPage();
  await openBlank(page, site);
  const second = await page.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact' });
    const { tokens } = await engine.generate(
      { tokens: [57, 56, 78] },
      { maxTokens: 6, temperature: 0, ignoreEos: true },
    );
    engine.dispose();
    return { tokens: tokens.length, storage: engine.info.storage };
  }, TINY);
  expect(site.hits.filter((path) => path === TINY)).toEqual([]);
  expect(second).toMatchObject({ tokens: 6, storage: { cached: true } });
});

test('a stored model is read by a Worker of its own, while the engine’s repacks; where there is none the engine reads it', async ({
  blank,
  site,
  context,
}) => {
  await blank.evaluate(fetchOnly, BOX);
  const load = async (model: string): Promise<number[]> => {
    const engine = await Engine.load({ model });
    const { tokens } = await engine.generate('What is the capital of France?', { maxTokens: 4, temperature: 0 });
    engine.dispose();
    return Array.from(tokens);
  };
  const readers: string[] = [];
  const worker = readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, 'worker.js'), 'utf8');
  // The answers of the reading Worker are counted in that Worker.
  const counting = `
    if (self.name === 'millrace-reads') {
      const post = self.postMessage.bind(self);
      self.postMessage = (message, transfer) => { if (message.buffer) fetch('/read?' + message.length); post(message, transfer); };
    }\n`;
  site.routes.set('/read', (request, response) => {
    readers.push(request.url ?? '');
    response.writeHead(204).end();
  });
  const bytes = () => readers.map((path) => Number(path.split('?')[1])).reduce((sum, n) => sum + n, 0);
  const answers: number[][] = [];
  const warnings: string[] = [];
  for (const script of [
    `${counting}${worker}`,
    `if (self.name === 'millrace-reads') throw new Error('none');\n${worker}`,
  ]) {
    site.routes.set(
      '/pkg/worker.js',
      (_, response) =>
        void response.writeHead(200, { 'Content-Type': 'text/javascript', 'Cache-Control': 'no-store' }).end(script),
    );
    const page = await context.newPage();
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()));
    await openBlank(page, site);
    answers.push(await page.evaluate(load, BOX));
    // The Worker's count arrives after the answer, and would be lost with the page.
    await expect.poll(bytes).toBeGreaterThan(bytesOf(`www${BOX}`).length / 2);
    await page.close();
  }
  expect(answers[1]).toEqual(answers[0]);
  expect(warnings.filter((text) => text.includes('the Worker that reads stored files'))).toHaveLength(1);
});

test('a folder of safetensors is kept, too', async ({ blank, site }) => {
  const folder = '/data/oracle/hf-sharded/model/';
  expect(await blank.evaluate(fetchOnly, folder)).toBe(false);
  site.hits.length = 0;
  expect(await blank.evaluate(fetchOnly, folder)).toBe(true);
  expect(site.hits.filter((path) => path.startsWith(folder))).toEqual([]);
});

test('two engines that want the same model at once share one download', async ({ blank, site }) => {
  const results = await blank.evaluate(async (model) => {
    const engines = await Promise.all([Engine.load({ model, lane: 'exact' }), Engine.load({ model, lane: 'exact' })]);
    const both = await Promise.all(
      engines.map((engine) =>
        engine.generate({ tokens: [57, 56, 78] }, { maxTokens: 6, temperature: 0, ignoreEos: true }),
      ),
    );
    const kinds = engines.map((engine) => engine.info.storage);
    for (const engine of engines) engine.dispose();
    return { tokens: both.map(({ tokens }) => Array.from(tokens)), kinds };
  }, TINY);
  expect(site.hits.filter((path) => path === TINY)).toHaveLength(1);
  expect(results.tokens[1]).toEqual(results.tokens[0]);
  expect(results.kinds.map(({ cached }) => cached).sort()).toEqual([false, true]);
  expect(results.kinds.map(({ kind }) => kind)).toEqual(['opfs', 'opfs']);
});

test('a broken file is not kept: once the server has a good one, that is loaded', async ({ blank, site }) => {
  const load = (model: string): Promise<{ code: string } | null> =>
    failure(Engine.load({ model, lane: 'exact' }).then((engine) => engine.dispose()));
  site.routes.set(
    TINY,
    (_, response) =>
      void response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Not here</title>'),
  );
  expect((await blank.evaluate(load, TINY))?.code).toBe('BAD_MODEL');
  const whole = bytesOf(`tests${TINY}`);
  site.routes.set(TINY, (_, response) => void response.writeHead(200).end(whole.subarray(0, whole.length >> 1)));
  expect((await blank.evaluate(load, TINY))?.code).toBe('BAD_MODEL');
  expect(await blank.evaluate(() => models.list())).toEqual([]);
  site.routes.delete(TINY);
  expect(await blank.evaluate(load, TINY)).toBeNull();
});

test('a download that is cut off never looks whole and can be tried again', async ({ blank, site }) => {
  const download = (model: string): Promise<{ code: string } | null> => failure(models.download(model));
  const whole = bytesOf(`tests${TINY}`);
  site.routes.set(TINY, (_, response) => {
    response.writeHead(200, { 'Content-Length': whole.length });
    response.write(whole.subarray(0, whole.length >> 1), () => response.destroy());
  });
  expect((await blank.evaluate(download, TINY))?.code).toBe('NETWORK');
  expect((await blank.evaluate(() => models.list())).filter(({ complete }) => complete)).toEqual([]);
  site.routes.delete(TINY);
  expect(await blank.evaluate(download, TINY)).toBeNull();
  expect(await blank.evaluate(() => models.list())).toMatchObject([{ complete: true, bytes: whole.length }]);
});
