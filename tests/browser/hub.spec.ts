// Models named as on Hugging Face: the chosen file, the requests, and the errors of unknown names.
import { answer, download, expect, MODEL, test, type Page } from './downloads.ts';
import { bytesOf } from './support.ts';
import { content, type Faulty } from './faulty.ts';

const REPO = 'owner/tiny-GGUF';
const LIST = `/api/models/${REPO}/tree/main`;

/** Serves a repository: its list, and the tiny model under each name. */
function serve(faulty: Faulty, paths: string[], repo = REPO, revision = 'main'): void {
  const entries = [
    { type: 'directory', path: 'sub', oid: '1', size: 0 },
    ...paths.map((path) => ({ type: 'file', path, oid: '1', size: MODEL.length })),
  ];
  faulty.put(`/api/models/${repo}/tree/${revision}`, content(JSON.stringify(entries)));
  for (const path of paths) faulty.put(`/${repo}/resolve/${revision}/${path}`, MODEL);
}

/** The address that a name is resolved to. */
const planned = (page: Page, options: Record<string, unknown>): Promise<string | undefined> =>
  page.evaluate(async (options) => {
    try {
      return (await Engine.plan(options as never)).url;
    } catch (error) {
      const { code, message } = error as { code: string; message: string };
      return `${code}: ${message}`;
    }
  }, options);

test('the file is chosen by quantization, by name, or the usual one is taken', async ({ tab, faulty }) => {
  const hub = faulty.url;
  serve(faulty, [
    'README.md',
    'tiny-Q8_0.gguf',
    'tiny-Q4_K_M.gguf',
    'tiny-Q4_K_S.gguf',
    'mmproj-tiny-F16.gguf',
    'sub/tiny-BF16.gguf',
  ]);
  const base = `${hub}/${REPO}/resolve/main/`;
  for (const [model, more, expected] of [
    [REPO, {}, 'tiny-Q4_K_M.gguf'],
    [`${REPO}:Q8_0`, {}, 'tiny-Q8_0.gguf'],
    [`${REPO}:q4_k_s`, {}, 'tiny-Q4_K_S.gguf'],
    [`${REPO}:BF16`, {}, 'sub/tiny-BF16.gguf'],
    [REPO, { file: 'tiny-Q8_0.gguf' }, 'tiny-Q8_0.gguf'],
    [REPO, { file: 'sub/tiny-BF16.gguf' }, 'sub/tiny-BF16.gguf'],
  ] as const)
    expect(await planned(tab, { model, hub, ...more })).toBe(base + expected);
  for (const [model, more, said] of [
    [`${REPO}:Q3_K_M`, {}, /^NOT_FOUND: .*has no file of Q3_K_M.*tiny-Q8_0\.gguf/],
    [REPO, { file: 'other.gguf' }, /^NOT_FOUND: .*has no file other\.gguf.*tiny-Q4_K_M\.gguf/],
    ['owner/nothing', {}, /^NOT_FOUND: .*no public repository owner\/nothing/],
    [`${REPO}@v2`, {}, /^NOT_FOUND: .*revision v2/],
    [`${hub}${LIST}`, { file: 'x.gguf' }, /^BAD_OPTION: .*file says which file of a repository/],
    [REPO, { hub: 'nowhere' }, /^BAD_OPTION: .*hub is "nowhere"/],
  ] as const)
    expect(await planned(tab, { model, hub, ...more })).toMatch(said);
});

test('other kinds of repositories: one file, several without a hint, safetensors, none', async ({ tab, faulty }) => {
  const hub = faulty.url;
  serve(faulty, ['only.gguf'], 'a/one');
  expect(await planned(tab, { model: 'a/one', hub })).toBe(`${hub}/a/one/resolve/main/only.gguf`);
  serve(faulty, ['x.gguf', 'y.gguf'], 'a/two');
  expect(await planned(tab, { model: 'a/two', hub })).toMatch(/^BAD_OPTION: .*give file, one of x\.gguf, y\.gguf/);
  serve(faulty, ['onnx/model.onnx', 'config.json'], 'a/onnx');
  expect(await planned(tab, { model: 'a/onnx', hub })).toMatch(/^NOT_FOUND: .*only \.onnx: take a repository/);
  serve(faulty, ['m-Q4_0-00002-of-00002.gguf', 'm-Q4_0-00001-of-00002.gguf'], 'a/split');
  expect(await planned(tab, { model: 'a/split', hub })).not.toMatch(/^BAD_OPTION|^NOT_FOUND: .*has no/);
  faulty.put('/api/models/a/page/tree/main', content('<!doctype html>'));
  expect(await planned(tab, { model: 'a/page', hub })).toMatch(/^NETWORK: .*no list of files/);
});

test('a model that is loaded by its name is kept, and found again without a network', async ({
  tab,
  faulty,
  greedy,
}) => {
  const hub = faulty.url;
  serve(faulty, ['tiny-Q4_0.gguf', 'tiny-Q8_0.gguf']);
  expect(await answer(tab, { model: `${REPO}:Q8_0`, hub })).toMatchObject({
    error: null,
    tokens: greedy,
    cached: false,
  });
  const url = `${hub}/${REPO}/resolve/main/tiny-Q8_0.gguf`;
  expect(await tab.evaluate(() => models.list())).toMatchObject([{ url, complete: true }]);
  faulty.break(LIST, () => ({ reset: 'unanswered' }));
  faulty.log.length = 0;
  expect(await answer(tab, { model: `${REPO}:Q8_0`, hub })).toMatchObject({
    error: null,
    tokens: greedy,
    cached: true,
  });
  expect(faulty.log).toEqual([]);
  // Another name needs the repository's list: without it the stored model is used.
  expect(await answer(tab, { model: REPO, hub })).toMatchObject({ error: null, tokens: greedy, cached: true });
});

const EYES = content(bytesOf('tests/data/oracle/lfm2vl-gguf/mmproj-model.gguf'));
const SEEING = content(bytesOf('tests/data/oracle/lfm2vl-gguf/model.gguf'));

/** Loads a model on the CPU and shows it a picture. Returns whether it reads pictures, and its stored files. */
const reads = (page: Page, options: Record<string, unknown>) =>
  page.evaluate(async (options) => {
    try {
      const engine = await Engine.load({ device: 'cpu', lane: 'exact', ...options } as never);
      const { pictures } = engine.info.model;
      const image = { width: 40, height: 32, data: new Uint8Array(40 * 32 * 4) };
      let said: string;
      try {
        const content = [{ type: 'image' as const, image }];
        const { tokens } = await engine.generate([{ role: 'user', content }], { maxTokens: 2, ignoreEos: true });
        said = String(tokens.length);
      } catch (error) {
        said = (error as { code: string }).code;
      }
      const { cached } = engine.info.storage;
      await engine.dispose();
      const stored = await models.list();
      return {
        pictures,
        said,
        cached,
        stored: stored.map(({ url, files }) => [url, ...files.map(({ name }) => name)]),
      };
    } catch (error) {
      const { code, message } = error as { code: string; message: string };
      return `${code}: ${message}`;
    }
  }, options);

test('what reads pictures is found in the repository, kept with its model and removed with it', async ({
  tab,
  faulty,
}) => {
  const hub = faulty.url;
  serve(faulty, ['eyes-Q8_0.gguf', 'mmproj-eyes-BF16.gguf', 'mmproj-eyes-F16.gguf', 'mmproj-eyes-Q8_0.gguf']);
  const base = `${hub}/${REPO}/resolve/main/`;
  faulty.put(`/${REPO}/resolve/main/eyes-Q8_0.gguf`, SEEING);
  const behind = (name: string): string => `#mmproj=${encodeURIComponent(base + name)}`;
  const url = `${base}eyes-Q8_0.gguf`;
  const warnings: string[] = [];
  tab.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()));
  // A file that is no vision tower despite its name is left out, with a warning.
  expect(await planned(tab, { model: REPO, hub, device: 'cpu' })).toBe(url);
  expect(warnings.join()).toMatch(/mmproj-eyes-Q8_0\.gguf of .* the model is loaded without it and reads no pictures/);
  for (const name of ['BF16', 'F16', 'Q8_0']) faulty.put(`/${REPO}/resolve/main/mmproj-eyes-${name}.gguf`, EYES);
  await tab.evaluate(() => localStorage.clear());
  const plan = { hub, device: 'cpu' };
  expect(await planned(tab, { ...plan, model: REPO })).toBe(url + behind('mmproj-eyes-Q8_0.gguf'));
  expect(await planned(tab, { ...plan, model: `${REPO}#mmproj=none` })).toBe(url);
  const named = `${REPO}:Q8_0#mmproj=mmproj-eyes-F16.gguf`;
  expect(await planned(tab, { ...plan, model: named })).toBe(url + behind('mmproj-eyes-F16.gguf'));
  expect(await planned(tab, { ...plan, model: [REPO, 'mmproj-eyes-F16.gguf'] })).toBe(
    url + behind('mmproj-eyes-F16.gguf'),
  );
  expect(await planned(tab, { ...plan, model: `${REPO}#mmproj=mmproj-none.gguf` })).toMatch(
    /^NOT_FOUND: .*no file mmproj-none\.gguf/,
  );
  const stored = [[url, 'eyes-Q8_0.gguf', 'mmproj-eyes-Q8_0.gguf']];
  expect(await reads(tab, { model: REPO, hub })).toEqual({ pictures: true, said: '2', cached: false, stored });
  // By its name again, and by the listed address, without a request.
  faulty.log.length = 0;
  for (const model of [REPO, url])
    expect(await reads(tab, { model, hub: model === REPO ? hub : undefined })).toEqual({
      pictures: true,
      said: '2',
      cached: true,
      stored,
    });
  expect(faulty.log).toEqual([]);
  const left = await tab.evaluate(async (url) => {
    await models.remove(url);
    return [await models.list(), (await models.usage()).used, (await storage.walk()).length] as const;
  }, url);
  expect(left.slice(0, 2)).toEqual([[], 0]);
});

test('what reads pictures has an address of its own; a model that is stored without it gets it alone', async ({
  tab,
  faulty,
}) => {
  faulty.put('/m/eyes.gguf', SEEING);
  faulty.put('/other/mmproj.gguf', EYES);
  const url = `${faulty.url}/m/eyes.gguf`;
  const without = { pictures: false, said: 'UNSUPPORTED_MODEL', cached: false, stored: [[url, 'eyes.gguf']] };
  expect(await reads(tab, { model: url })).toEqual(without);
  faulty.log.length = 0;
  // In any order, as local files.
  const model = [`${faulty.url}/other/mmproj.gguf`, url];
  const stored = [[url, 'eyes.gguf', 'mmproj.gguf']];
  expect(await reads(tab, { model })).toEqual({ pictures: true, said: '2', cached: false, stored });
  const sent = faulty.log.filter(({ path }) => path === '/m/eyes.gguf').map(({ headers }) => headers.range);
  expect(sent).toEqual(['bytes=0-0']);
  const { downloaded, files } = await tab.evaluate(async (model) => {
    const { complete } = await models.download(model);
    return { downloaded: complete, files: (await models.export(model[1]!)).map(({ name }) => name) };
  }, model);
  expect([downloaded, files]).toEqual([true, ['eyes.gguf', 'mmproj.gguf']]);
  for (const [model, said] of [
    [[url, `${faulty.url}/m/mmproj-none.gguf`], /^NOT_FOUND: .*mmproj-none\.gguf/],
    [[url, url], /^BAD_OPTION: .*whose name has mmproj in it/],
    [[`${url}#mmproj=a.gguf`, `${faulty.url}/other/mmproj.gguf`], /^BAD_OPTION: .*two addresses/],
    [`${url}#mmproj=`, /^BAD_OPTION: .*beside the model, or its address/],
  ] as const)
    expect(await reads(tab, { model })).toMatch(said);
  // A failed addition has removed nothing.
  expect(await reads(tab, { model: url })).toMatchObject({ pictures: true, cached: true, stored });
});

test('a name is downloaded, too', async ({ tab, faulty }) => {
  serve(faulty, ['tiny-Q4_0.gguf']);
  const { error, stored } = await download(tab, REPO, { hub: faulty.url });
  expect(error).toBeNull();
  expect(stored).toMatchObject({ url: `${faulty.url}/${REPO}/resolve/main/tiny-Q4_0.gguf`, complete: true });
});

test("a page's own 404 in place of a folder's files is said to be one", async ({ tab, faulty }) => {
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors']) {
    faulty.put(`/spa/${name}`, content('<!doctype html><title>Home</title>'));
    faulty.break(`/spa/${name}`, () => ({ headers: { 'Content-Type': 'text/html; charset=utf-8' } }));
  }
  const { error } = await answer(tab, { model: `${faulty.url}/spa/` });
  expect(error).toMatchObject({ code: 'NOT_FOUND', message: expect.stringMatching(/config\.json.*web page/) });
});
