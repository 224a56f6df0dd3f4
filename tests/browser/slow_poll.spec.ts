// Browsers that tell late of what the GPU has done: a stand-in that answers each wait after 100 ms costs less than a tenth of the speed.
import type { Worker as Thread } from '@playwright/test';
import { expect, test, TINY, type Page, type Site } from './support.ts';
import type { Engine as Loaded } from '../../npm/index.ts';

/** `prompt`: as the browser does it. `late`: each answer 100 ms after what it tells of. `ticking`: every 100 ms, and whenever something is submitted. */
type Poll = 'prompt' | 'late' | 'ticking';

declare global {
  var poll: Poll;
  var engines: Record<Poll, Loaded>;
}

/** A Worker of the page's, in which the engine's waits go through the stand-in. */
const SCRIPT = `
  import { configure, Engine } from '/pkg/index.js';
  configure({ device: 'gpu' });
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const held = [];
  const tick = () => held.splice(0).forEach((done) => done());
  setInterval(tick, 100);
  const wrap = (prototype, name) => {
    const original = prototype[name];
    prototype[name] = async function (...args) {
      const { poll } = globalThis;
      const answer = await original.apply(this, args);
      if (poll === 'late') await sleep(100);
      if (poll === 'ticking') await new Promise((done) => held.push(done));
      return answer;
    };
  };
  wrap(GPUBuffer.prototype, 'mapAsync');
  wrap(GPUQueue.prototype, 'onSubmittedWorkDone');
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (commands) {
    submit.call(this, commands);
    tick();
  };
  Object.assign(globalThis, { Engine, poll: 'prompt', engines: {} });
`;

async function openThread(page: Page, site: Site): Promise<Thread> {
  site.routes.set(
    '/late.js',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(SCRIPT),
  );
  const [thread] = await Promise.all([
    page.waitForEvent('worker'),
    page.evaluate(() => void new Worker('/late.js', { type: 'module' })),
  ]);
  await expect.poll(() => thread.evaluate(() => 'engines' in globalThis)).toBe(true);
  return thread;
}

test('a browser that tells late of what the GPU has done costs less than a tenth of the speed', async ({
  blank,
  site,
}) => {
  const thread = await openThread(blank, site);
  const load = (poll: Poll) =>
    thread.evaluate(
      async ([model, poll]) => {
        globalThis.poll = poll;
        engines[poll] = await Engine.load({ model, lane: 'exact', worker: false, cache: false, tune: false });
        return engines[poll].info.adapter;
      },
      [TINY, poll] as const,
    );
  const generate = (poll: Poll) =>
    thread.evaluate(
      async ([poll, options]) => {
        globalThis.poll = poll;
        const { tokens, timings, counters } = await engines[poll].generate({ tokens: [57, 56, 78] }, options);
        return {
          tokens: Array.from(tokens),
          speed: timings.decode_tok_s,
          chunk: tokens.length / counters.readbacks,
        };
      },
      [poll, { maxTokens: 64, temperature: 0, ignoreEos: true, reuse: false }] as const,
    );

  const [prompt, late, ticking] = [await load('prompt'), await load('late'), await load('ticking')];
  expect(prompt.poll_ms).toBeLessThan(50);
  expect(prompt.pumped_poll_ms).toBeUndefined();
  expect(late.poll_ms).toBeGreaterThanOrEqual(99);
  expect(late.pumped_poll_ms).toBeGreaterThanOrEqual(99);
  expect(ticking.poll_ms).toBeGreaterThan(50);
  expect(ticking.pumped_poll_ms).toBeLessThan(50);

  // The machine has other things to do as well: the best of some turns counts.
  const best: Partial<Record<Poll, number>> = {};
  let lengthened = Infinity;
  for (let turn = 0; turn < 8; turn++) {
    const outcomes: Record<Poll, Awaited<ReturnType<typeof generate>>> = {
      prompt: await generate('prompt'),
      late: await generate('late'),
      ticking: await generate('ticking'),
    };
    for (const poll of ['prompt', 'late', 'ticking'] as const) {
      expect(outcomes[poll].tokens).toEqual(outcomes.prompt.tokens);
      best[poll] = Math.max(best[poll] ?? 0, outcomes[poll].speed);
    }
    lengthened = Math.min(lengthened, outcomes.ticking.chunk / outcomes.prompt.chunk);
    if (turn >= 1 && best.late! >= 0.9 * best.prompt! && best.ticking! >= 0.8 * best.prompt! && lengthened < 2) break;
  }
  test.info().annotations.push({ type: 'tokens a second', description: JSON.stringify({ best, lengthened }) });
  expect(best.late).toBeGreaterThanOrEqual(0.9 * best.prompt!);
  // A GPU in software gives up some of its cores for empty submissions. The chunks are as short as ever.
  expect(best.ticking).toBeGreaterThanOrEqual(0.8 * best.prompt!);
  expect(lengthened).toBeLessThan(2);
});
