// What the package refuses, by name: options, prompts, files that are no models, servers and packages that are not whole.
import { bytesOf, expect, openBlank, test, TINY } from './support.ts';

test.describe('options', () => {
  const cases: [title: string, input: unknown, options: Record<string, unknown>, message: RegExp][] = [
    ['unknown', 'x', { maxtokens: 1 }, /maxtokens is not an option; did you mean maxTokens\?/],
    ['unknown and far from all', 'x', { frobnicate: 1 }, /frobnicate is not an option \(known: /],
    ['of the wrong type', 'x', { temperature: 'hot' }, /temperature must be a number from 0 to 100, not "hot"/],
    ['out of range', 'x', { topP: 1.5 }, /topP must be a number above 0, up to 1, not 1.5/],
    ['not whole', 'x', { maxTokens: 1.5 }, /maxTokens must be a whole number/],
    ['contradicting', 'x', { logitsFrom: 1 }, /logitsFrom needs logits/],
    ['no prompt', undefined, {}, /the prompt must be a text/],
    ['no messages', [], {}, /list of messages is empty/],
    ['role', [{ role: 'robot', content: 'x' }], {}, /messages\[0\]: role must be one of/],
    ['content', [{ role: 'user', content: 7 }], {}, /messages\[0\]: content must be a text/],
    ['missing content', [{ role: 'user' }], {}, /messages\[0\]: content is missing/],
    [
      'unknown field',
      [{ role: 'user', content: 'x', contents: 'y' }],
      {},
      /contents is not an option; did you mean content\?/,
    ],
    ['tokens', { tokens: [-1] }, {}, /tokens must be a list of token ids/],
  ];
  for (const [title, input, options, message] of cases) {
    test(`of generate: ${title}`, async ({ tiny }) => {
      const error = await tiny.evaluate(
        ([input, options]) => failure(engine.generate(input as never, options as never)),
        [input, options] as const,
      );
      expect(error).toMatchObject({ code: 'BAD_OPTION', ours: true, message: expect.stringMatching(message) });
    });
  }

  const loads: [title: string, options: Record<string, unknown>, code: string][] = [
    ['no model', {}, 'BAD_OPTION'],
    ['unknown', { model: TINY, lanes: 'exact' }, 'BAD_OPTION'],
    ['lane', { model: TINY, lane: 'quick' }, 'BAD_OPTION'],
    ['context beyond the model', { model: TINY, context: 1_000_000 }, 'BAD_OPTION'],
    ['adapter that is not there', { model: TINY, device: 'gpu', adapter: 'Voodoo 2' }, 'NO_ADAPTER'],
    ['adapter where the CPU is asked for', { model: TINY, device: 'cpu', adapter: 'Voodoo 2' }, 'BAD_OPTION'],
    ['kernel that is not there', { model: TINY, kernels: { attention: 'no-such-variant' } }, 'UNKNOWN_KERNEL'],
  ];
  for (const [title, options, code] of loads) {
    test(`of load: ${title}`, async ({ blank }) => {
      const error = await blank.evaluate((options) => failure(Engine.load(options as never)), options);
      expect(error).toMatchObject({ code, ours: true });
    });
  }
});

test.describe('errors', () => {
  test('a prompt that leaves no room', async ({ tiny }) => {
    const error = await tiny.evaluate(() =>
      failure(engine.generate({ tokens: Array.from({ length: engine.info.context }, () => 1) })),
    );
    expect(error).toMatchObject({ code: 'CONTEXT_FULL', ours: true });
  });

  test('a file that is not there', async ({ blank }) => {
    const error = await blank.evaluate(() => failure(Engine.load({ model: '/nothing.gguf' })));
    expect(error).toMatchObject({ code: 'NOT_FOUND', ours: true });
    expect(error!.message).toContain('/nothing.gguf');
  });

  test('a server that fails, and none at all', async ({ blank, site }) => {
    site.routes.set('/broken.gguf', (_, response) => void response.writeHead(503).end('later'));
    // Each is tried again for some seconds.
    const errors = await blank.evaluate(() =>
      Promise.all(['/broken.gguf', 'http://localhost:9/model.gguf'].map((model) => failure(Engine.load({ model })))),
    );
    for (const error of errors) expect(error).toMatchObject({ code: 'NETWORK', ours: true });
  });

  const whole = bytesOf('tests/data/oracle/gguf-q8_0/model.gguf');
  const files: [title: string, bytes: Buffer][] = [
    ['truncated in its data', whole.subarray(0, whole.length - 1000)],
    ['truncated in its header', whole.subarray(0, 100)],
    ['empty', Buffer.alloc(0)],
    ['a page of HTML', Buffer.from(`<!doctype html><title>Not here</title>${'<p>text</p>'.repeat(500)}`)],
  ];
  for (const [title, bytes] of files) {
    test(`a file that is ${title}`, async ({ blank, site }) => {
      site.routes.set(
        '/bad.gguf',
        (_, response) => void response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes),
      );
      const error = await blank.evaluate(() => failure(Engine.load({ model: '/bad.gguf' })));
      expect(error).toMatchObject({ code: 'BAD_MODEL', ours: true });
      const local = await blank.evaluate(async () => {
        const blob = await (await fetch('/bad.gguf')).blob();
        return failure(Engine.load({ model: { name: 'bad.gguf', data: blob } }));
      });
      expect(local).toMatchObject({ code: 'BAD_MODEL', ours: true });
    });
  }

  test('no WebGPU', async ({ page, site }) => {
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }));
    await openBlank(page, site);
    expect(await page.evaluate((model) => failure(Engine.load({ model, device: 'gpu' })), TINY)).toMatchObject({
      code: 'NO_WEBGPU',
      ours: true,
    });
  });

  test('a package whose WebAssembly or Worker is missing says what to do', async ({ blank, site }) => {
    const gone = (_: unknown, response: import('node:http').ServerResponse): void => void response.writeHead(404).end();
    site.routes.set('/pkg/millrace_bg.wasm', gone);
    const noWasm = await blank.evaluate((model) => failure(Engine.load({ model })), TINY);
    expect(noWasm).toMatchObject({
      code: 'INTERNAL',
      message: expect.stringMatching(/millrace_bg\.wasm could not be loaded.*serve the whole package/),
    });
    site.routes.set('/pkg/worker.js', gone);
    const noWorker = await blank.evaluate((model) => failure(Engine.load({ model })), TINY);
    expect(noWorker).toMatchObject({
      code: 'INTERNAL',
      message: expect.stringMatching(/Worker could not be loaded.*serve the whole package/),
    });
  });
});
