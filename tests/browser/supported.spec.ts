// The package without a model: whether an engine can be loaded, and where it cannot run at all. And the tokens of
// texts, with a model.
import { expect, openBlank, test } from './support.ts';

test('Engine.supported tells of the GPU, the storage and the memory, and starts nothing', async ({ blank, site }) => {
  let workers = 0;
  blank.on('worker', () => (workers += 1));
  site.hits.length = 0;
  const support = await blank.evaluate(() => Engine.supported());
  expect(support).toMatchObject({
    supported: true,
    adapter: { software: true, f16: false, subgroups: true, max_buffer: expect.any(Number) },
    storage: { kept: true, persistent: expect.any(Boolean) },
  });
  expect(support.reason).toBeUndefined();
  expect(support.adapter!.max_binding).toBeGreaterThanOrEqual(128 << 20);
  expect(workers).toBe(0);
  expect(site.hits).toEqual([]);
});

for (const [what, script, expected] of [
  [
    'no WebGPU',
    "Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined })",
    { code: 'NO_WEBGPU', adapter: null },
  ],
  ['no adapter', 'GPU.prototype.requestAdapter = async () => null', { code: 'NO_ADAPTER', adapter: null }],
  [
    'an adapter that throws',
    "GPU.prototype.requestAdapter = () => Promise.reject(new Error('x'))",
    { code: 'NO_ADAPTER', adapter: null },
  ],
] as const) {
  test(`Engine.supported: ${what}, and loading rejects with the same code`, async ({ page, site }) => {
    await page.addInitScript(script);
    await openBlank(page, site);
    const support = await page.evaluate(() => Engine.supported());
    expect(support).toMatchObject({ supported: false, reason: expect.stringMatching(/./), ...expected });
  });
}

test('Engine.supported: storage that is closed is said to be, and is no reason not to load', async ({ page, site }) => {
  await page.addInitScript(
    "StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('closed', 'SecurityError'))",
  );
  await openBlank(page, site);
  expect(await page.evaluate(() => Engine.supported())).toMatchObject({
    supported: true,
    storage: { kept: false, available: null, reason: expect.stringContaining('SecurityError') },
  });
});

test('a service worker is told that it cannot host the engine', async ({ page, site }) => {
  site.routes.set(
    '/service.js',
    (_, response) =>
      void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(`
        import { Engine, models } from '/pkg/index.js';
        const code = (work) => work.then(() => null, ({ code, message }) => [code, message]);
        self.onmessage = async ({ source }) => source.postMessage([
          await code(Engine.load({ model: '/x.gguf' })), await code(models.list()), (await Engine.supported()).code,
        ]);`),
  );
  await openBlank(page, site);
  const [load, list, code] = await page.evaluate(async () => {
    const registration = await navigator.serviceWorker.register('/service.js', { type: 'module' });
    await navigator.serviceWorker.ready;
    const answer = new Promise<[[string, string], [string, string], string]>((done) =>
      navigator.serviceWorker.addEventListener('message', ({ data }) => done(data)),
    );
    navigator.serviceWorker.startMessages();
    registration.active!.postMessage('go');
    const said = await answer;
    await registration.unregister();
    return said;
  });
  expect(load).toEqual(['NO_WEBGPU', expect.stringContaining('a service worker cannot host the engine')]);
  expect(list).toEqual(['STORAGE', expect.stringContaining('a service worker cannot host the engine')]);
  expect(code).toBe('NO_WEBGPU');
});

test('texts and conversations as tokens, and back', async ({ box }) => {
  const seen = await box.evaluate(async () => {
    const text = 'Why is the sky blue? Grüße, 世界 🌍';
    const messages = [{ role: 'user' as const, content: text }];
    const tokens = await engine.tokenize(text);
    const result = await engine.generate(messages, { maxTokens: 1 });
    // It answers while the engine is at work.
    const working = engine.generate('x', { maxTokens: 60, ignoreEos: true });
    const meanwhile = await engine.countTokens(text);
    let settled = false;
    void working.then(() => (settled = true));
    const before = settled;
    working.stop();
    await working;
    return {
      tokens,
      back: await engine.detokenize(tokens),
      count: await engine.countTokens(messages),
      prompt: result.prompt_tokens,
      rendered: await engine.detokenize(await engine.tokenize(messages)),
      meanwhile,
      before,
      none: await failure(engine.detokenize([10 ** 7])),
      bad: await failure(engine.detokenize(['x'] as never)),
      hole: await failure(engine.tokenize(Object.assign(new Array(2), { 1: { role: 'user', content: 'x' } }) as never)),
      unknown: await failure(engine.tokenize('x', { maxTokens: 1 } as never)),
    };
  });
  expect(seen.back.endsWith('Why is the sky blue? Grüße, 世界 🌍')).toBe(true);
  expect(seen.count).toBe(seen.prompt);
  expect(seen.rendered).toContain('Why is the sky blue?');
  expect(seen.meanwhile).toBe(seen.tokens.length);
  expect(seen.before).toBe(false);
  expect(seen.none).toMatchObject({ code: 'TOKENIZER', ours: true });
  expect(seen.bad).toMatchObject({ code: 'BAD_OPTION', ours: true });
  expect(seen.hole).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining('messages[0]') });
  expect(seen.unknown).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining('maxTokens') });
});

test('tools that nest without end are refused', async ({ tiny }) => {
  const errors = await tiny.evaluate(async () => {
    let deep: Record<string, unknown> = {};
    for (let level = 0; level < 3000; level++) deep = { properties: deep };
    const round: Record<string, unknown> = {};
    round.self = round;
    const ask = (tools: object[]) =>
      failure(engine.generate([{ role: 'user', content: 'x' }], { maxTokens: 1, tools }));
    return [await ask([deep]), await ask([round]), await failure(engine.generate({ tokens: [5] }, { maxTokens: 1 }))];
  });
  const refused = { code: 'BAD_OPTION', message: expect.stringContaining('nests deeper than 100 levels') };
  expect(errors).toMatchObject([refused, refused, null]);
});
