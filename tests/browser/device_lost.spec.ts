// Recovery from device loss with the conversation: after destroy(), while a model is loaded, and after a crash of the
// browser's GPU process. A GPU without memory.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { before } from './downloads.ts';
import { expect, openBlank, test, TINY, type Page, type Site, onlyLong } from './support.ts';

/**
 * In the Worker: keeps the engine's device, and destroys it when asked. A GPU in software takes long, so that a minute may pass between two losses:
 * `slow` makes a minute an hour.
 */
const HOOK = `
const devices = [];
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...args) {
  if (globalThis.refuse) throw new DOMException('no device', 'OperationError');
  const device = await request.apply(this, args);
  devices.push(device);
  return device;
};
const channel = new BroadcastChannel('device');
channel.onmessage = ({ data }) => {
  if (data === 'refuse') globalThis.refuse = true;
  if (data === 'destroy' || data === 'refuse') devices.at(-1).destroy();
  if (data === 'slow') {
    const now = performance.now.bind(performance);
    const start = now();
    performance.now = () => start + (now() - start) / 60;
  }
};
`;

/** Globals of the pages that `open` opens. */
declare global {
  /** Events of the engine's device. */
  var heard: string[];
  var ask: (what: 'destroy' | 'refuse' | 'slow') => void;
}

/** A page with the tiny model loaded, its Worker hooked, and the events of its device in `heard`. */
async function open(page: Page, site: Site, options: { chunk?: number } = {}): Promise<void> {
  const worker = readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, 'worker.js'), 'utf8');
  site.routes.set(
    '/pkg/worker.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(`${HOOK}\n${worker}`),
  );
  await openBlank(page, site);
  await page.evaluate(
    async ({ model, options }) => {
      const channel = new BroadcastChannel('device');
      globalThis.ask = (what) => channel.postMessage(what);
      globalThis.heard = [];
      globalThis.engine = await Engine.load({ model, tune: false, lane: 'exact', ...options });
      engine.addEventListener('devicelost', ({ detail }) => heard.push(`lost ${detail.reason} ${detail.recovering}`));
      engine.addEventListener('devicerestored', ({ detail }) =>
        heard.push(detail.ms > 0 ? 'restored' : 'restored in no time'),
      );
    },
    { model: TINY, options },
  );
}

const PROMPT = Array.from({ length: 40 }, (_, i) => ((i * 37 + 101) % 290) + 1);

/** Runs in the page: generates, and asks the Worker to destroy the device after `after` pieces; 0: never. */
async function generate({ prompt, after, maxTokens }: { prompt: number[]; after: number; maxTokens: number }) {
  let pieces = 0;
  let text = '';
  const generation = engine.generate(
    { tokens: prompt },
    { maxTokens, temperature: 0.9, seed: 7, ignoreEos: true, reuse: true },
  );
  for await (const delta of generation) {
    text += delta;
    pieces += 1;
    if (pieces === after) ask('destroy');
  }
  const { tokens, text: whole, recoveries, cached_tokens } = await generation;
  return { tokens: Array.from(tokens), text, whole, recoveries, cached_tokens };
}

test('a device destroyed in the middle of an answer: the same text, and events', async ({ page, site }) => {
  await open(page, site, { chunk: 4 });
  const undisturbed = await page.evaluate(generate, { prompt: PROMPT, after: 0, maxTokens: 48 });
  expect(undisturbed).toMatchObject({ recoveries: 0, text: undisturbed.whole });
  expect(await page.evaluate(() => heard)).toEqual([]);
  await page.evaluate(() => ask('slow'));
  const result = await page.evaluate(generate, { prompt: PROMPT, after: 5, maxTokens: 48 });
  expect(result).toEqual({ ...undisturbed, recoveries: 1, cached_tokens: PROMPT.length - 1 });
  expect(await page.evaluate(() => heard)).toEqual(['lost destroyed true', 'restored']);
  // Within a minute of that one the next is an error that says what to do, in the middle of an answer and afterwards.
  const second = await page.evaluate(async (prompt) => {
    ask('destroy');
    await new Promise((lost) => engine.addEventListener('devicelost', lost, { once: true }));
    return failure(engine.generate({ tokens: prompt }, { maxTokens: 5 }));
  }, PROMPT);
  expect(second).toMatchObject({ code: 'DEVICE_LOST', ours: true });
  expect(second?.message).toContain('load the model again');
  expect(await page.evaluate(() => heard.slice(2))).toEqual(['lost destroyed false']);
});

onlyLong(test)(
  'a device destroyed while idle is replaced before anybody asks, and the conversation goes on',
  async ({ page, site }) => {
    await open(page, site);
    const turns = async (destroy: boolean) =>
      page.evaluate(
        async ({ prompt, destroy }) => {
          const options = { maxTokens: 30, temperature: 0.9, seed: 7, ignoreEos: true };
          const conversation = await engine.fork();
          const first = await conversation.generate({ tokens: prompt }, options);
          const before = engine.info;
          if (destroy) {
            const restored = new Promise((done) => engine.addEventListener('devicerestored', done, { once: true }));
            ask('destroy');
            await restored;
          }
          const next = [...prompt, ...first.tokens, 5, 6, 7];
          const second = await conversation.generate({ tokens: next }, options);
          conversation.dispose();
          return {
            tokens: Array.from(second.tokens),
            cached: second.cached_tokens,
            recoveries: second.recoveries,
            refreshed: engine.info !== before,
            weights: engine.info.memory.weights,
          };
        },
        { prompt: PROMPT, destroy },
      );
    const undisturbed = await turns(false);
    expect(undisturbed.cached).toBe(PROMPT.length + 29);
    expect(await turns(true)).toEqual(undisturbed);
    expect(await page.evaluate(() => heard)).toEqual(['lost destroyed true', 'restored']);
  },
);

test('dispose is no loss: nothing is told, nothing comes back', async ({ page, site }) => {
  await open(page, site);
  const ended = Promise.all(page.workers().map((worker) => worker.waitForEvent('close')));
  const code = await page.evaluate(async (prompt) => {
    let begun = (): void => {};
    const begins = new Promise<void>((done) => (begun = done));
    const options = { maxTokens: 400, ignoreEos: true, onTokens: begun };
    const running = failure(engine.generate({ tokens: prompt }, options));
    await begins;
    engine.dispose();
    return (await running)?.code;
  }, PROMPT);
  expect(code).toBe('DISPOSED');
  // The engine with the listeners is disposed of.
  expect(await ended).not.toHaveLength(0);
  expect(await page.evaluate(() => heard)).toEqual([]);
});

onlyLong(test)('without another device the engine gives up and says so', async ({ page, site }) => {
  await open(page, site);
  const error = await page.evaluate(async (prompt) => {
    const givenUp = new Promise<void>((done) =>
      engine.addEventListener('devicelost', ({ detail }) => !detail.recovering && done()),
    );
    ask('refuse');
    await givenUp;
    return failure(engine.generate({ tokens: prompt }, { maxTokens: 5 }));
  }, PROMPT);
  expect(error).toMatchObject({ code: 'DEVICE_LOST', ours: true });
  expect(error?.message).toContain('could not be loaded onto another');
  expect(await page.evaluate(() => heard)).toEqual(['lost destroyed true', 'lost destroyed false']);
});

test("a crash of the browser's GPU process: the same text, in the middle of an answer", async ({
  playwright,
  launchOptions,
  site,
}) => {
  // A browser of its own: after a crash other tests would wait for their GPU too.
  const args = [
    ...(launchOptions.args ?? []),
    '--disable-gpu-process-crash-limit',
    '--disable-domain-blocking-for-3d-apis',
  ];
  const browser = await playwright.chromium.launch({ ...launchOptions, args });
  try {
    const page = await browser.newPage();
    await open(page, site, { chunk: 4 });
    const undisturbed = await page.evaluate(generate, { prompt: PROMPT, after: 0, maxTokens: 80 });
    const crash = await browser.newBrowserCDPSession();
    await page.exposeFunction('crash', () => {
      // The command is not answered: the process that would has crashed.
      void crash.send('Browser.crashGpuProcess').catch(() => {});
    });
    await page.evaluate(() => {
      globalThis.ask = () => void (globalThis as unknown as { crash: () => Promise<void> }).crash();
    });
    const result = await page.evaluate(generate, { prompt: PROMPT, after: 5, maxTokens: 80 });
    expect(result).toEqual({ ...undisturbed, recoveries: 1, cached_tokens: PROMPT.length - 1 });
    expect(await page.evaluate(() => heard)).toEqual(['lost unknown true', 'restored']);
  } finally {
    await browser.close();
  }
});

for (const submits of [1, 3]) {
  test(`a device that is lost at submit ${submits} of a load: loading goes on with another`, async ({ page, site }) => {
    before(
      site,
      `{ const request = GPUAdapter.prototype.requestDevice; let opened = 0;
         GPUAdapter.prototype.requestDevice = async function (...args) {
           const device = await request.apply(this, args);
           const submit = device.queue.submit.bind(device.queue);
           let left = opened++ === 0 ? ${submits} : Infinity;
           device.queue.submit = (...buffers) => { submit(...buffers); if (--left === 0) device.destroy(); };
           return device;
         }; }`,
    );
    await openBlank(page, site);
    const result = await page.evaluate(async (model) => {
      const notes: string[] = [];
      const onProgress = ({ note }: { note?: string }): void => void (note && notes.push(note));
      const engine = await Engine.load({ model, tune: false, lane: 'exact', onProgress });
      const options = { maxTokens: 8, temperature: 0, ignoreEos: true };
      const { tokens } = await engine.generate({ tokens: [57, 56, 78] }, options);
      return { notes, tokens: Array.from(tokens) };
    }, TINY);
    expect(result.notes).toEqual([expect.stringContaining('the GPU device was lost while the model was loaded')]);
    expect(result.tokens).toHaveLength(8);
  });
}

test('memory that the GPU has not, and says so later, is the error of one answer', async ({ page, site }) => {
  before(
    site,
    `{ const { pushErrorScope, popErrorScope } = GPUDevice.prototype; const open = [];
       GPUDevice.prototype.pushErrorScope = function (filter) { open.push(filter); return pushErrorScope.call(this, filter); };
       GPUDevice.prototype.popErrorScope = async function () {
         const full = open.pop() === 'out-of-memory';
         const error = await popErrorScope.call(this);
         return full ? new GPUOutOfMemoryError('no room') : error;
       }; }`,
  );
  await openBlank(page, site);
  const result = await page.evaluate(async (model) => {
    const engine = await Engine.load({ model, tune: false, lane: 'exact' });
    const options = { maxTokens: 8, temperature: 0, ignoreEos: true };
    const prompt = { tokens: [57, 56, 78] };
    const before = (await engine.generate(prompt, options)).text;
    // Penalties need buffers.
    const refused = await failure(engine.generate(prompt, { ...options, repetitionPenalty: 1.2 }));
    return { before, refused, after: (await engine.generate(prompt, options)).text };
  }, TINY);
  expect(result.refused).toMatchObject({ code: 'OUT_OF_MEMORY', message: expect.stringContaining('no memory left') });
  expect(result.after).toBe(result.before);
});
