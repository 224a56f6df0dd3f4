// The package without a model: whether an engine can be loaded, and where it cannot run at all.
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
