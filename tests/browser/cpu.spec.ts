// The CPU computes where there is no GPU, or only one in software: by a module that is fetched for it, and with a
// warning.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { BOX, expect, openBlank, test, TINY, type Page, type Site } from './support.ts';

/** Runs a script in the engine's Worker first. */
function inWorker(site: Site, script: string): void {
  const worker = readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, 'worker.js'), 'utf8');
  site.routes.set(
    '/pkg/worker.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(`${script};\n${worker}`),
  );
}

/** In the engine's Worker: a machine of two processors, whatever this one has. */
const TWO = "Object.defineProperty(WorkerNavigator.prototype, 'hardwareConcurrency', { value: 2 })";

/**
 * In the engine's Worker and its helper, which has two messages to hear of: `reported` and `silent` have the helper fail in
 * the next part of a product that it takes, by a stack that is not there, and be silent about it as one that the browser
 * has ended; `idle` has the browser report the helper. From then on the engine's clock is quick.
 */
const DOOM = `${TWO};
if (self.name === 'millrace-cpu') {
  const { instantiate } = WebAssembly;
  let doom;
  addEventListener('message', ({ data }) => (doom ??= data.doom));
  WebAssembly.instantiate = async (...args) => {
    const { exports } = await instantiate.apply(WebAssembly, args);
    const help = (seen) => {
      if (Atomics.load(doom, 0) > 0) exports.__stack_pointer.value = 0;
      return exports.help(seen);
    };
    const failed = () => {
      if (Atomics.load(doom, 0) === 2) Atomics.wait(doom, 1, 0);
      exports.failed();
    };
    return { exports: { ...exports, help, failed } };
  };
} else {
  const doom = new Int32Array(new SharedArrayBuffer(8));
  const helpers = [];
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message.memory) helpers.push(this);
    postMessage.call(this, message.memory ? { ...message, doom } : message, ...rest);
  };
  new BroadcastChannel('doom').onmessage = ({ data }) => {
    const now = performance.now.bind(performance);
    const start = now();
    performance.now = () => start + 20 * (now() - start);
    if (data === 'idle') helpers[0].onerror(new ErrorEvent('error', { message: 'planted' }));
    else Atomics.store(doom, 0, data === 'silent' ? 2 : 1);
  };
}
`;

/** Loads and answers; returns the device that computed, with the one that was asked for. */
const answer = (page: Page, device: 'auto' | 'gpu' | 'cpu', model = TINY) =>
  page.evaluate(
    async ([device, model]) => {
      const { Engine } = globalThis;
      const engine = await Engine.load({ model, device, lane: 'exact', cache: false, tune: false });
      const { tokens } = await engine.generate(
        { tokens: [57, 56, 78] },
        { maxTokens: 24, temperature: 0, ignoreEos: true },
      );
      const { adapter, warnings, lane } = engine.info;
      engine.dispose();
      return { tokens: Array.from(tokens), adapter, warnings, lane };
    },
    [device, model] as const,
  );

test('auto takes the CPU where the GPU is in software, says so, and answers what the GPU does', async ({
  blank,
  site,
}) => {
  const [auto, gpu] = [await answer(blank, 'auto'), await answer(blank, 'gpu')];
  expect(auto.adapter).toMatchObject({
    backend: 'cpu',
    software: true,
    instead: expect.stringContaining('swiftshader'),
  });
  expect(auto.adapter.name).toMatch(/^CPU \(relaxed SIMD, 1 thread\)$/);
  expect(auto.warnings.join(' ')).toContain('slower than the CPU itself');
  expect(gpu.adapter).toMatchObject({ backend: 'webgpu', software: true });
  expect(gpu.adapter.instead).toBeUndefined();
  expect(auto.tokens).toEqual(gpu.tokens);
  expect(site.hits.filter((path) => path.includes('millrace_cpu'))).toEqual(['/pkg/millrace_cpu_relaxed.wasm']);
});

test('without WebGPU auto takes the CPU, and where a GPU was asked for that is an error', async ({ page, site }) => {
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }));
  inWorker(site, "Object.defineProperty(WorkerNavigator.prototype, 'gpu', { value: undefined })");
  await openBlank(page, site);
  const [auto, gpu] = await page.evaluate(async () => {
    configure({ device: 'auto' });
    const auto = await Engine.supported();
    configure({ device: 'gpu' });
    return [auto, await Engine.supported()] as const;
  });
  expect([auto, gpu]).toMatchObject([
    { supported: true, code: 'NO_WEBGPU', adapter: null },
    { supported: false, code: 'NO_WEBGPU' },
  ]);
  const { adapter, warnings } = await answer(page, 'auto');
  expect(adapter).toMatchObject({ backend: 'cpu', instead: expect.stringContaining('WebGPU') });
  expect(warnings.join(' ')).toContain('CPU');
  expect(await page.evaluate((model) => failure(Engine.load({ model, device: 'gpu' })), TINY)).toMatchObject({
    code: 'NO_WEBGPU',
  });
});

test('without relaxed SIMD another module is taken, of the same answers', async ({ blank, site }) => {
  const relaxed = await answer(blank, 'cpu');
  inWorker(site, 'WebAssembly.validate = () => false');
  const plain = await answer(blank, 'cpu');
  expect(plain.adapter.name).toBe('CPU (SIMD, 1 thread)');
  expect(plain.tokens).toEqual(relaxed.tokens);
  expect(relaxed.adapter.instead).toBeUndefined();
});

test('a page that may share memory computes with several threads, the same, and ends them', async ({ page, site }) => {
  await openBlank(page, site);
  const alone = await answer(page, 'cpu', BOX);
  expect(alone.adapter.name).toBe('CPU (relaxed SIMD, 1 thread)');
  site.isolated = true;
  inWorker(site, TWO);
  await openBlank(page, site);
  expect(await page.evaluate(() => crossOriginIsolated)).toBe(true);
  const together = await answer(page, 'cpu', BOX);
  expect(together.adapter.name).toBe('CPU (relaxed SIMD, 2 threads)');
  expect(together.tokens).toEqual(alone.tokens);
  // Two engines at once, and the Workers of both end with them.
  const workers = () => page.workers().length;
  const [one, two] = await Promise.all([answer(page, 'cpu', BOX), answer(page, 'cpu', BOX)]);
  expect([one.tokens, two.tokens]).toEqual([alone.tokens, alone.tokens]);
  await expect.poll(workers).toBe(0);
  expect(site.hits).toContain('/pkg/millrace_cpu_relaxed_threads.wasm');
});

/** An answer amid which a helper is doomed, and one before; the events of the engine's device. */
const doomed = (page: Page, how: 'reported' | 'silent' | 'idle') =>
  page.evaluate(
    async ([model, how]) => {
      const engine = await Engine.load({ model, device: 'cpu', lane: 'exact', cache: false, tune: false, chunk: 2 });
      const name = engine.info.adapter.name;
      const heard: string[] = [];
      engine.addEventListener('devicelost', ({ detail }) => heard.push(`lost: ${detail.message}`));
      const restored = new Promise<void>((done) =>
        engine.addEventListener('devicerestored', () => {
          heard.push(`restored: ${engine.info.adapter.name}`);
          done();
        }),
      );
      const ask = async (on: (pieces: number) => void) => {
        const options = { maxTokens: 120, temperature: 0.9, seed: 7, ignoreEos: true, reuse: false };
        const generation = engine.generate({ tokens: [57, 56, 78] }, options);
        let pieces = 0;
        for await (const _ of generation) on(++pieces);
        const { tokens, recoveries } = await generation;
        return { tokens: Array.from(tokens), recoveries };
      };
      const channel = new BroadcastChannel('doom');
      const undisturbed = await ask(() => {});
      if (how === 'idle') {
        channel.postMessage(how);
        await restored;
      }
      const disturbed = await ask((pieces) => how !== 'idle' && pieces === 5 && channel.postMessage(how));
      engine.dispose();
      return { name, heard, undisturbed, disturbed };
    },
    [BOX, how] as const,
  );

for (const [how, why, recoveries] of [
  ['reported', 'a thread that computes has failed', 1],
  ['silent', 'a thread that computes has not answered for 20 s', 1],
  ['idle', 'a thread that computes has ended: planted', 0],
] as const)
  test(`a helper that ends (${how}) is a lost device: one thread goes on`, async ({ page, site }) => {
    site.isolated = true;
    inWorker(site, DOOM);
    await openBlank(page, site);
    const { name, heard, undisturbed, disturbed } = await doomed(page, how);
    expect(name).toBe('CPU (relaxed SIMD, 2 threads)');
    expect(undisturbed).toMatchObject({ recoveries: 0 });
    expect(heard).toEqual([expect.stringContaining(why), 'restored: CPU (relaxed SIMD, 1 thread)']);
    expect(disturbed).toEqual({ tokens: undisturbed.tokens, recoveries });
  });

test('helpers that cannot start are done without', async ({ page, site }) => {
  site.isolated = true;
  inWorker(site, `${TWO}; globalThis.Worker = class { constructor() { throw new Error('no Workers here'); } }`);
  await openBlank(page, site);
  const { adapter, tokens } = await answer(page, 'cpu');
  expect(adapter.name).toBe('CPU (relaxed SIMD, 1 thread)');
  expect(tokens).toHaveLength(24);
});

test('a module that is not served says what to do, and is asked for again', async ({ blank, site }) => {
  site.routes.set('/pkg/millrace_cpu_relaxed.wasm', (_, response) => void response.writeHead(404).end());
  const load = () => blank.evaluate((model) => failure(Engine.load({ model, device: 'cpu' })), TINY);
  expect(await load()).toMatchObject({
    message: expect.stringMatching(/millrace_cpu_relaxed\.wasm: serve it beside millrace_bg\.wasm/),
  });
  site.routes.clear();
  expect(await load()).toBeNull();
});

test('the model in the box talks at a speed that one can read along', async ({ blank }) => {
  const said = await blank.evaluate(async (model) => {
    const began = performance.now();
    const engine = await Engine.load({ model, device: 'auto', cache: false });
    const loaded = performance.now() - began;
    const messages = [{ role: 'user' as const, content: 'What is 17 + 25?' }];
    await engine.generate(messages, { temperature: 0 });
    const { text, timings, tokens } = await engine.generate(messages, { temperature: 0, reuse: false });
    return { text, timings, tokens: tokens.length, loaded, lane: engine.info.lane };
  }, BOX);
  test.info().annotations.push({ type: 'measured', description: JSON.stringify(said) });
  expect(said.text).toContain('42');
  // A GPU in software makes one token a second; the margin is for busy machines.
  expect(said.timings.decode_tok_s).toBeGreaterThan(20);
});
