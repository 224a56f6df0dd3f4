// The engine in a Worker of the page's own: `worker: false`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Worker as Thread } from '@playwright/test';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { BOX, bytesOf, expect, test as base, TINY, type Page, type Site, onlyLong } from './support.ts';

/** Globals of that Worker. */
declare global {
  /** Names of the Workers that this Worker has started. */
  var started: string[];
  /**
   * GPU devices that were opened here; `left` resolves to the number of open ones once at most `most` are, or after two
   * minutes.
   */
  var devices: GPUDevice[];
  var left: (most: number) => Promise<number>;
}

const SCRIPT = `
  import { configure, Engine, MillraceError, models } from '/pkg/index.js';
  configure({ device: 'gpu' });
  const failure = async (work) => {
    try { await work; return null; }
    catch (error) {
      const cause = error.cause && { name: error.cause.name, message: error.cause.message, whose: error.cause.whose };
      return { code: error.code, name: error.name, message: error.message, ours: error instanceof MillraceError, data: structuredClone(error.data ?? {}), cause };
    }
  };
  const started = [], devices = [];
  let gone = 0;
  let look = () => {};
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...args) {
    const device = await request.apply(this, args);
    devices.push(device);
    device.lost.then(() => { gone += 1; look(); });
    return device;
  };
  const left = (most) => new Promise((done) => {
    // A software GPU does not stop compiling before it is done.
    setTimeout(() => done(devices.length - gone), 120_000);
    look = () => devices.length - gone <= most && done(devices.length - gone);
    look();
  });
  globalThis.Worker = class extends Worker {
    constructor(url, options) { super(url, options); started.push(options.name); }
  };
  Object.assign(globalThis, { Engine, MillraceError, models, failure, started, devices, left });
`;

async function openThread(page: Page, site: Site): Promise<Thread> {
  site.routes.set(
    '/own.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(SCRIPT),
  );
  const [thread] = await Promise.all([
    page.waitForEvent('worker'),
    page.evaluate(() => void new Worker('/own.js', { type: 'module' })),
  ]);
  await expect.poll(() => thread.evaluate(() => 'failure' in globalThis)).toBe(true);
  return thread;
}

const test = base.extend<{ thread: Thread }>({
  thread: async ({ blank, site }, use) => use(await openThread(blank, site)),
});

const OPTIONS = { maxTokens: 8, temperature: 0, ignoreEos: true };
const PROMPT = { tokens: [57, 56, 78] };

test('the same answers as in a Worker of the package’s, whose script is not even fetched', async ({
  thread,
  tiny,
  site,
}) => {
  const expected = await tiny.evaluate(
    async ([prompt, options]) => {
      const { tokens, text } = await engine.generate(prompt, { ...options, reuse: false });
      return { tokens: Array.from(tokens), text };
    },
    [PROMPT, OPTIONS] as const,
  );
  site.hits.length = 0;
  const { results, pieces, places, saved, phases, workers, info } = await thread.evaluate(
    async ([model, prompt, options]) => {
      const phases = new Set<string>();
      // Fetched by the caller's own function, and not stored.
      const fetchOwn = (
        url: string,
        init: { headers: Record<string, string>; signal: AbortSignal },
      ): Promise<Response> => fetch(url, init);
      const engine = await Engine.load({
        model,
        lane: 'exact',
        worker: false,
        cache: false,
        fetch: fetchOwn,
        onProgress: ({ phase }) => phases.add(phase),
      });
      const pieces: string[] = [];
      const places: unknown[] = [];
      const first = engine.generate(prompt, options);
      const stopped = engine.generate(prompt, {
        ...options,
        maxTokens: 200,
        onProgress: ({ ahead }) => ahead !== undefined && places.push(ahead),
      });
      stopped.stop();
      for await (const piece of first) pieces.push(piece);
      const fork = await engine.fork();
      await fork.save('own');
      fork.dispose();
      const saved = await engine.restore('own');
      const longer = { tokens: [...prompt.tokens, ...(await first).tokens, 5] };
      const again = await saved.generate(longer, options);
      await engine.forget('own');
      const whole = await engine.generate(longer, { ...options, reuse: false });
      const results = [await first, await stopped, again, whole].map(
        ({ tokens, text, finish_reason, cached_tokens }) => ({
          tokens: Array.from(tokens),
          text,
          finish_reason,
          cached_tokens,
        }),
      );
      engine.dispose();
      return {
        results,
        pieces,
        places,
        saved: typeof saved,
        phases: [...phases],
        workers: [...started],
        info: engine.info,
      };
    },
    [TINY, PROMPT, OPTIONS] as const,
  );
  expect(results[0]).toMatchObject(expected);
  expect(pieces.join('')).toBe(expected.text);
  expect(results[1]).toMatchObject({ finish_reason: 'abort', tokens: [] });
  expect(places).toEqual([1]);
  expect(saved).toBe('object');
  expect(results[2]).toMatchObject({ tokens: results[3]!.tokens, cached_tokens: 10 });
  expect(phases).toEqual(expect.arrayContaining(['download', 'upload', 'compile']));
  expect(info.model.vocab).toBe(301);
  expect(workers).toEqual([]);
  expect(site.hits).toContain('/pkg/host.js');
  expect(site.hits).not.toContain('/pkg/worker.js');
});

test('kernels are compiled without a wait where the browser can, and all the same where it cannot', async ({
  thread,
}) => {
  const outcomes = await thread.evaluate(
    async ([model, prompt, options]) => {
      const prototype = GPUDevice.prototype as unknown as Record<string, unknown>;
      const { createComputePipeline: waits, createComputePipelineAsync: later } = GPUDevice.prototype;
      let calls: string[] = [];
      prototype.createComputePipeline = function (this: GPUDevice, pipeline: GPUComputePipelineDescriptor) {
        calls.push('waits');
        return waits.call(this, pipeline);
      };
      const ways: Record<string, unknown> = {
        later(this: GPUDevice, pipeline: GPUComputePipelineDescriptor) {
          calls.push('later');
          return later.call(this, pipeline);
        },
        refused: () => Promise.reject(new Error('not this one')),
        absent: undefined,
      };
      const outcomes = [];
      for (const [way, method] of Object.entries(ways)) {
        calls = [];
        prototype.createComputePipelineAsync = method;
        const engine = await Engine.load({ model, lane: 'exact', worker: false, cache: false });
        const own = Object.getOwnPropertyNames(devices.at(-1)!);
        const { tokens } = await engine.generate(prompt, options);
        engine.dispose();
        const count = (name: string): number => calls.filter((call) => call === name).length;
        outcomes.push({ way, waited: count('waits'), later: count('later'), own, tokens: Array.from(tokens) });
      }
      return outcomes;
    },
    [TINY, PROMPT, OPTIONS] as const,
  );
  const [later, refused, absent] = outcomes;
  expect(later!.later).toBeGreaterThan(10);
  // A probe of the device, before any model.
  expect(later!.waited).toBeLessThanOrEqual(2);
  for (const other of [refused, absent]) {
    expect(other!.waited).toBe(later!.waited + later!.later);
    expect(other!.tokens).toEqual(later!.tokens);
  }
  // wgpu's own method is back on the device.
  expect(outcomes.map(({ own }) => own)).toEqual([[], [], []]);
});

test('a page that does not ask for it loads none of its code', async ({ blank, site }) => {
  await blank.evaluate(async (model) => (await Engine.load({ model, lane: 'exact' })).dispose(), TINY);
  expect(site.hits).toContain('/pkg/worker.js');
  expect(site.hits).not.toContain('/pkg/host.js');
});

onlyLong(test)('a stored model is read by a Worker of its own here, too', async ({ blank, site, context }) => {
  await blank.evaluate((model) => models.download(model), BOX);
  const worker = readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, 'worker.js'), 'utf8');
  const counting = `
    const post = self.postMessage.bind(self);
    self.postMessage = (message, transfer) => { if (message.buffer) fetch('/read?' + message.length); post(message, transfer); };\n`;
  site.routes.set(
    '/pkg/worker.js',
    (_, response) =>
      void response
        .writeHead(200, { 'Content-Type': 'text/javascript', 'Cache-Control': 'no-store' })
        .end(`${counting}${worker}`),
  );
  let bytes = 0;
  site.routes.set('/read', (request, response) => {
    bytes += Number(request.url?.split('?')[1]);
    response.writeHead(204).end();
  });
  const page = await context.newPage();
  await page.goto(`${site.url}/blank`);
  const thread = await openThread(page, site);
  const { text, cached, workers } = await thread.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact', worker: false });
    const { text } = await engine.generate([{ role: 'user', content: 'What is 17 + 25?' }], {
      maxTokens: 12,
      temperature: 0,
    });
    engine.dispose();
    return { text, cached: engine.info.storage.cached, workers: [...new Set(started)] };
  }, BOX);
  await page.close();
  expect({ cached, workers }).toEqual({ cached: true, workers: ['millrace-reads'] });
  expect(text).toContain('42');
  expect(bytes).toBeGreaterThan(bytesOf(`www${BOX}`).length / 2);
});

test('aborted loads leave no device behind; the next load works', async ({ thread, site }) => {
  const body = bytesOf(`tests${TINY}`);
  site.routes.set(
    '/slow.gguf',
    (_, response) =>
      void response.writeHead(200, { 'Content-Length': body.length }).write(body.subarray(0, body.length / 2)),
  );
  const outcome = await thread.evaluate(async (model) => {
    const errors = [await failure(Engine.load({ model: '/slow.gguf', worker: false, signal: AbortSignal.abort() }))];
    // At once, while the WebAssembly is still being fetched, and in the middle of the download.
    for (const when of ['at once', 'download']) {
      const controller = new AbortController();
      const abort = (): void => controller.abort(Object.assign(new Error('changed my mind'), { whose: 'mine' }));
      const loading = Engine.load({
        model: '/slow.gguf',
        worker: false,
        signal: controller.signal,
        onProgress: ({ phase, loaded }) => phase === when && loaded > 0 && abort(),
      });
      if (when === 'at once') setTimeout(abort);
      errors.push(await failure(loading));
    }
    // While kernels are compiled.
    const controller = new AbortController();
    errors.push(
      await failure(
        Engine.load({
          model,
          lane: 'exact',
          worker: false,
          signal: controller.signal,
          onProgress: ({ phase }) => phase === 'compile' && controller.abort(),
        }),
      ),
    );
    const opened = devices.length;
    const kept = await left(0);
    const engine = await Engine.load({ model, lane: 'exact', worker: false });
    const { tokens } = await engine.generate({ tokens: [1] }, { maxTokens: 2, ignoreEos: true });
    engine.dispose();
    return { errors, opened, kept, tokens: tokens.length };
  }, TINY);
  for (const error of outcome.errors) expect(error).toMatchObject({ code: 'ABORTED', name: 'AbortError', ours: true });
  expect(outcome.errors[2]).toMatchObject({ cause: { message: 'changed my mind', whose: 'mine' } });
  expect(outcome.opened).toBeGreaterThan(0);
  expect(outcome.kept).toBe(0);
  expect(outcome.tokens).toBe(2);
});

test('two engines at a time; one is disposed of in the middle of an answer, the other goes on', async ({ thread }) => {
  const outcome = await thread.evaluate(
    async ([model, prompt, options]) => {
      const [one, other] = await Promise.all([
        Engine.load({ model, worker: false, lane: 'exact' }),
        Engine.load({ model, worker: false, lane: 'exact' }),
      ]);
      const both = await Promise.all([one, other].map((engine) => engine.generate(prompt, options)));
      const running = one.generate(prompt, { ...options, maxTokens: 400 });
      const waiting = failure(one.generate(prompt, options));
      const beside = other.generate(prompt, { ...options, reuse: false });
      for await (const _ of running) break;
      const cut = failure(one.generate(prompt, { ...options, maxTokens: 400 }));
      one.dispose();
      const errors = [await waiting, await cut, await failure(one.generate(prompt)), await failure(one.fork())];
      const after = await other.generate(prompt, { ...options, reuse: false });
      const between = await left(1);
      other.dispose();
      return {
        tokens: [...both, await beside, after].map(({ tokens }) => Array.from(tokens)),
        codes: errors.map((error) => error?.code),
        between,
        last: await left(0),
      };
    },
    [TINY, PROMPT, OPTIONS] as const,
  );
  expect(outcome.tokens[0]).toHaveLength(8);
  for (const tokens of outcome.tokens) expect(tokens).toEqual(outcome.tokens[0]);
  expect(outcome.codes).toEqual(['DISPOSED', 'DISPOSED', 'DISPOSED', 'DISPOSED']);
  expect(outcome).toMatchObject({ between: 1, last: 0 });
});

/** The most bytes of WebAssembly memory that a further load may add after two loads: freed memory is reused. */
const GROWTH = 1 << 20;

onlyLong(test)('loading and disposing again and again keeps neither devices nor memory', async ({ thread }) => {
  const { wasm, kept } = await thread.evaluate(async (model) => {
    const wasm: number[] = [];
    for (let i = 0; i < 4; i += 1) {
      const engine = await Engine.load({ model, lane: 'exact', worker: false });
      await engine.generate({ tokens: [1, 2] }, { maxTokens: 4, ignoreEos: true });
      wasm.push(engine.info.memory.wasm);
      engine.dispose();
    }
    return { wasm, kept: await left(0) };
  }, TINY);
  expect(kept).toBe(0);
  expect(wasm[3]! - wasm[1]!, `bytes of wasm after each load: ${wasm.join(', ')}`).toBeLessThanOrEqual(GROWTH);
});

onlyLong(test)('a lost device comes back with the same text, and events', async ({ thread }) => {
  const { before, after, heard, recoveries } = await thread.evaluate(
    async ([model, prompt, options]) => {
      const engine = await Engine.load({ model, lane: 'exact', worker: false, chunk: 4, tune: false });
      const heard: string[] = [];
      engine.addEventListener('devicelost', ({ detail }) => heard.push(`lost ${detail.reason} ${detail.recovering}`));
      engine.addEventListener('devicerestored', ({ detail }) =>
        heard.push(detail.ms > 0 ? 'restored' : 'restored in no time'),
      );
      const more = { ...options, maxTokens: 60, temperature: 0.9, seed: 7, reuse: false };
      const before = await engine.generate(prompt, more);
      const generation = engine.generate(prompt, more);
      let pieces = 0;
      for await (const _ of generation) if (++pieces === 3) devices.at(-1)!.destroy();
      const after = await generation;
      engine.dispose();
      await left(0);
      return {
        before: Array.from(before.tokens),
        after: Array.from(after.tokens),
        heard,
        recoveries: after.recoveries,
      };
    },
    [TINY, PROMPT, OPTIONS] as const,
  );
  expect(after).toEqual(before);
  expect({ recoveries, heard }).toEqual({ recoveries: 1, heard: ['lost destroyed true', 'restored'] });
});

test('a crash ends all engines of the Worker and says so; a trap of other wasm does not', async ({ thread, site }) => {
  // (module (func (export "f") unreachable))
  const trap = Buffer.from('0061736d0100000001040160000003020100070501016600000a05010300000b', 'hex');
  site.routes.set(
    '/slow.gguf',
    (_, response) => void response.writeHead(200, { 'Content-Length': 500_000 }).write('GGUF'),
  );
  site.routes.set(
    '/trap.wasm',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'application/wasm' }).end(trap),
  );
  const { foreign, alive, errors } = await thread.evaluate(
    async ([model, prompt, options]) => {
      const one = await Engine.load({ model, worker: false, lane: 'exact' });
      const loading = failure(Engine.load({ model: '/slow.gguf', worker: false }));
      const { instance } = await WebAssembly.instantiateStreaming(fetch('/trap.wasm'));
      const foreign = await new Promise<string>((done) => {
        addEventListener('error', (event) => done(String(event.error)), { once: true });
        setTimeout(instance.exports.f as () => void);
      });
      const alive = (await one.generate(prompt, options)).tokens.length;
      const pending = failure(one.generate(prompt, { ...options, maxTokens: 400 }));
      setTimeout(() => {
        throw new WebAssembly.RuntimeError('unreachable');
      });
      return {
        foreign,
        alive,
        errors: [
          await pending,
          await failure(one.generate(prompt)),
          await loading,
          await failure(Engine.load({ model, worker: false })),
        ],
      };
    },
    [TINY, PROMPT, OPTIONS] as const,
  );
  expect(foreign).toContain('RuntimeError');
  expect(alive).toBe(8);
  for (const error of errors)
    expect(error).toMatchObject({
      code: 'INTERNAL',
      ours: true,
      message: expect.stringContaining('end it, and load them in another'),
      cause: { name: 'RuntimeError' },
    });
});

test('a package without its script for this says what to do', async ({ thread, site }) => {
  const gone = (_: unknown, response: import('node:http').ServerResponse): void => void response.writeHead(404).end();
  site.routes.set('/pkg/host.js', gone);
  const error = await thread.evaluate((model) => failure(Engine.load({ model, worker: false })), TINY);
  expect(error).toMatchObject({
    code: 'INTERNAL',
    ours: true,
    message: expect.stringMatching(/host\.js could not be loaded.*serve the whole package/),
    cause: { name: 'TypeError' },
  });
});

test('errors of loading arrive whole', async ({ thread, site }) => {
  site.routes.set(
    '/bad.gguf',
    (_, response) => void response.writeHead(200).end(bytesOf(`tests${TINY}`).subarray(0, 100)),
  );
  const errors = await thread.evaluate(async (model) => {
    const load = (options: object): ReturnType<typeof failure> =>
      failure(Engine.load({ worker: false, ...options } as never));
    const controller = new AbortController();
    let tried = 0;
    const breaks = (): Promise<Response> => {
      if (++tried === 2) controller.abort(new DOMException('too late', 'TimeoutError'));
      return Promise.reject(new TypeError('no network today'));
    };
    return [
      await load({ model: '/bad.gguf' }),
      await load({ model: '/nothing.gguf' }),
      await load({ model, kernels: { attention: 'no-such-variant' } }),
      await load({ model, worker: 'no' }),
      await failure(Engine.plan({ model, worker: false, context: 1_000_000 })),
      await load({ model: '/other.gguf', fetch: breaks, signal: controller.signal }),
    ];
  }, TINY);
  expect(errors.map((error) => error?.code)).toEqual([
    'BAD_MODEL',
    'NOT_FOUND',
    'UNKNOWN_KERNEL',
    'BAD_OPTION',
    'BAD_OPTION',
    'ABORTED',
  ]);
  for (const error of errors) expect(error?.ours).toBe(true);
  expect(errors[3]).toMatchObject({
    data: { option: 'worker' },
    message: expect.stringContaining('worker must be true or false'),
  });
  expect(errors[5]).toMatchObject({ cause: { name: 'TimeoutError' } });
});

test('on a page, and in a SharedWorker, it is refused with what to do', async ({ blank, site }) => {
  const refused = {
    code: 'BAD_OPTION',
    ours: true,
    data: { option: 'worker' },
    message: expect.stringContaining('call Engine.load there, or leave the option out'),
  };
  expect(await blank.evaluate((model) => failure(Engine.load({ model, worker: false })), TINY)).toMatchObject(refused);
  expect(await blank.evaluate((model) => failure(Engine.plan({ model, worker: false })), TINY)).toMatchObject(refused);
  const script = `
    import { Engine, MillraceError } from '/pkg/index.js';
    onconnect = ({ ports: [port] }) => Engine.load({ model: '/nothing.gguf', worker: false })
      .catch((error) => port.postMessage({ code: error.code, ours: error instanceof MillraceError, data: error.data, message: error.message }));`;
  site.routes.set(
    '/shared.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script),
  );
  const shared = await blank.evaluate(
    () =>
      new Promise(
        (done) => (new SharedWorker('/shared.js', { type: 'module' }).port.onmessage = ({ data }) => done(data)),
      ),
  );
  expect(shared).toMatchObject(refused);
});
