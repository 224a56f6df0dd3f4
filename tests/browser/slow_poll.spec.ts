// A high readback latency of the browser costs less than a tenth of the speed. The GPU is the software one; its times
// and notifications are simulated by a clock that only the stand-in advances, so that a busy machine changes nothing.
import type { Worker as Thread } from '@playwright/test';
import { expect, test, TINY, type Page, type Site } from './support.ts';
import type { Engine as Loaded } from '../../npm/index.ts';

/**
 * `prompt`: notifications come at once. `late`: each comes 100 ms late. `ticking`: they come every 100 ms, and at every
 * submission.
 */
type Poll = 'prompt' | 'late' | 'ticking';

declare global {
  var poll: Poll;
  var engines: Record<Poll, Loaded>;
  /** Submissions without a command. */
  var pumped: number;
}

/** A Worker of the page's, in which the engine's clock and waits are the stand-in's. A dispatch takes a millisecond. */
const SCRIPT = `
  import { configure, Engine } from '/pkg/index.js';
  configure({ device: 'gpu' });
  let [now, free, recorded] = [0, 0, 0];
  performance.now = () => now;
  const { dispatchWorkgroups } = GPUComputePassEncoder.prototype;
  GPUComputePassEncoder.prototype.dispatchWorkgroups = function (...grid) {
    recorded += 1;
    return dispatchWorkgroups.apply(this, grid);
  };
  let look = () => {};
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (commands) {
    submit.call(this, commands);
    free = Math.max(now, free) + recorded;
    recorded = 0;
    const empty = [...commands].length === 0;
    if (empty) globalThis.pumped += 1;
    look(empty ? 4 : 0);
  };
  // After it, everything that follows from what was told before has been done.
  const turn = () => new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); done(); };
    port2.postMessage(0);
  });
  const ticked = (ms) => Math.floor(ms / 100 + 1) * 100;
  // Looks when something is submitted, 4 ms after the last time where that is all that happens; else at the next tick.
  const hear = async (done) => {
    while (true) {
      const ms = await new Promise((go) => {
        const idle = setTimeout(() => go(null), 200);
        look = (ms) => { clearTimeout(idle); go(ms); };
      });
      look = () => {};
      now = ms === null ? ticked(Math.max(now, done)) : now + ms;
      if (now >= done) return;
    }
  };
  let told = Promise.resolve();
  const wrap = (prototype, name) => {
    const original = prototype[name];
    prototype[name] = function (...args) {
      const [asked, done, { poll }] = [now, free, globalThis];
      const real = original.apply(this, args);
      const before = told;
      const answer = (async () => {
        await before;
        const value = await real;
        if (poll === 'ticking') await hear(done);
        else now = Math.max(now, Math.max(asked, done) + (poll === 'late' ? 100 : 0));
        return value;
      })();
      told = answer.catch(() => {}).then(turn);
      return answer;
    };
  };
  wrap(GPUBuffer.prototype, 'mapAsync');
  wrap(GPUQueue.prototype, 'onSubmittedWorkDone');
  const choose = (poll) => { globalThis.poll = poll; now = free = ticked(Math.max(now, free)); };
  Object.assign(globalThis, { Engine, choose, poll: 'prompt', engines: {}, pumped: 0 });
`;

declare global {
  /** Sets how waits are notified. */
  var choose: (poll: Poll) => void;
}

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
        choose(poll);
        engines[poll] = await Engine.load({ model, lane: 'exact', worker: false, cache: false, tune: false });
        return engines[poll].info.adapter;
      },
      [TINY, poll] as const,
    );
  const generate = (poll: Poll, maxTokens: number) =>
    thread.evaluate(
      async ([poll, options]) => {
        choose(poll);
        const before = pumped;
        const { tokens, timings, counters } = await engines[poll].generate({ tokens: [57, 56, 78] }, options);
        return {
          tokens: Array.from(tokens),
          speed: timings.decode_tok_s,
          chunk: tokens.length / counters.readbacks,
          pumped: pumped - before,
        };
      },
      [poll, { maxTokens, temperature: 0, ignoreEos: true, reuse: false }] as const,
    );

  const [prompt, late, ticking] = [await load('prompt'), await load('late'), await load('ticking')];
  expect(prompt.poll_ms).toBeLessThan(1);
  expect(prompt.pumped_poll_ms).toBeUndefined();
  expect(late).toMatchObject({ poll_ms: 100, pumped_poll_ms: 100 });
  expect(ticking).toMatchObject({ poll_ms: 100, pumped_poll_ms: 4 });

  const outcomes = {} as Record<Poll, Awaited<ReturnType<typeof generate>>>;
  for (const poll of ['prompt', 'late', 'ticking'] as const) {
    // The engine learns the time of a token.
    await generate(poll, 32);
    outcomes[poll] = await generate(poll, 64);
    expect(outcomes[poll].tokens).toEqual(outcomes.prompt.tokens);
  }
  const said = Object.fromEntries(Object.entries(outcomes).map(([poll, { tokens: _, ...rest }]) => [poll, rest]));
  test.info().annotations.push({ type: 'by the clock that was moved', description: JSON.stringify(said) });
  expect(outcomes.late.speed).toBeGreaterThanOrEqual(0.9 * outcomes.prompt.speed);
  expect(outcomes.ticking.speed).toBeGreaterThanOrEqual(0.9 * outcomes.prompt.speed);
  // Empty submissions are made only where they help, and chunks stay short then; otherwise chunks cover the latency.
  expect([outcomes.prompt.pumped, outcomes.late.pumped]).toEqual([0, 0]);
  expect(outcomes.ticking.pumped).toBeGreaterThan(0);
  expect(outcomes.ticking.chunk).toBeLessThan(2 * outcomes.prompt.chunk);
  expect(outcomes.late.chunk).toBeGreaterThan(outcomes.prompt.chunk);
});
