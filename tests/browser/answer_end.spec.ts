// The messages from the engine's Worker to the page when an answer ends.
import { expect, openBlank, TINY, test } from './support.ts';

test('what comes after an answer is that answer; the plan comes where it has changed', async ({ page, site }) => {
  await page.addInitScript(() => {
    const ends: { plan: number | undefined; size: number }[] = [];
    globalThis.Worker = class extends Worker {
      constructor(url: string | URL, options?: WorkerOptions) {
        super(url, options);
        this.addEventListener('message', ({ data }) => {
          if (data.type === 'done')
            ends.push({ plan: data.info.plan?.length, size: JSON.stringify({ ...data, result: null }).length });
        });
      }
    };
    Object.assign(globalThis, { ends });
  });
  await openBlank(page, site);
  const { ends, plans } = await page.evaluate(async (model) => {
    const engine = await Engine.load({ model, tune: false, cache: false });
    const plans = [engine.info.plan];
    const ask = async (options: object): Promise<void> => {
      await engine.generate({ tokens: [1, 2, 3] }, { maxTokens: 2, temperature: 0, ignoreEos: true, ...options });
      plans.push(engine.info.plan);
    };
    await ask({});
    await ask({});
    // Further steps, for penalties and log probabilities.
    await ask({ logprobs: 1 });
    await ask({ logprobs: 1 });
    engine.dispose();
    const { ends } = globalThis as unknown as { ends: { plan: number | undefined; size: number }[] };
    return { ends, plans };
  }, TINY);
  const [loaded, first, second, scored, again] = plans;
  expect(ends.map(({ plan }) => plan)).toEqual([undefined, undefined, scored!.length, undefined]);
  for (const { plan, size } of ends) if (plan === undefined) expect(size).toBeLessThan(4000);
  expect(loaded!.length).toBeGreaterThan(20);
  expect([first, second]).toEqual([loaded, loaded]);
  expect(scored!.length).toBeGreaterThan(loaded!.length);
  expect(scored!.some(({ step }) => step === 'sample.logprobs')).toBe(true);
  expect(again).toEqual(scored);
});
