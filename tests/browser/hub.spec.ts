// Models named as on Hugging Face: which file is taken, what is asked for, what a name that leads nowhere says.
import { answer, download, expect, MODEL, test, type Page } from './downloads.ts';
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

/** What a name is resolved to. */
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
  // Under another name there is a list to ask for: without it what is stored has to do.
  expect(await answer(tab, { model: REPO, hub })).toMatchObject({ error: null, tokens: greedy, cached: true });
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
