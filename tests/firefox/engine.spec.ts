// The built package in Firefox: what it is told of the GPU, and the same tokens as everywhere.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type * as Millrace from '../../npm/index.ts';
import { BOX, expect, LONG, root, test, TINY } from './support.ts';

interface Expected {
  model: string;
  from: number;
  tokens: number[];
  greedy: number[];
}

// Those that between them have most kinds of steps; with the long tests all that browser tests read.
const FIXTURES = LONG
  ? ['gguf-q8_0', 'gguf-mixed', 'gemma2-gguf', 'gpt2-gguf', 'lfm2-gguf', 'qwen3-gguf', 'smollm3-gguf']
  : ['gguf-q8_0'];

for (const name of FIXTURES)
  test(`${name}: the tokens are the reference's`, async ({ tab, url, problems }) => {
    const { model, tokens, from, greedy } = JSON.parse(
      readFileSync(join(root, 'tests', 'data', 'oracle', name, 'expected.json'), 'utf8'),
    ) as Expected;
    await tab.goto(`${url}/blank`);
    const outcome = await tab.evaluate(
      async (address, prompt, count) => {
        const { Engine } = (await import('/pkg/index.js' as string)) as typeof Millrace;
        const supported = await Engine.supported();
        const engine = await Engine.load({ model: address, device: 'gpu', lane: 'exact', cache: false });
        const options = { maxTokens: count, temperature: 0, ignoreEos: true };
        const { tokens } = await engine.generate({ tokens: prompt }, options);
        const { adapter } = engine.info;
        engine.dispose();
        return { tokens: Array.from(tokens), adapter, supported };
      },
      `/data/oracle/${name}/${model}`,
      tokens.slice(0, from + 1),
      greedy.length,
    );
    expect(outcome.tokens).toEqual(greedy);
    expect(outcome.supported.supported).toBe(true);
    // Firefox keeps the GPU's name to itself, but not that there is none.
    expect(outcome.adapter.software).toBe(outcome.supported.adapter?.software);
    expect(outcome.adapter.name).not.toBe('');
    expect(problems).toEqual([]);
  });

test('its poll of 100 ms is noticed, and empty submissions shorten it', async ({ tab, url }) => {
  await tab.goto(`${url}/blank`);
  const { idle, chunks, text } = await tab.evaluate(
    async (model, tinyModel) => {
      const { Engine } = (await import('/pkg/index.js' as string)) as typeof Millrace;
      const adapterHere = (await navigator.gpu.requestAdapter())!;
      const device = await adapterHere.requestDevice();
      await device.queue.onSubmittedWorkDone();
      const began = performance.now();
      await device.queue.onSubmittedWorkDone();
      const idle = performance.now() - began;
      device.destroy();
      // A machine that is busy makes waits longer, never shorter: the shortest of some loads counts.
      let waited = Infinity;
      let seen = 0;
      for (let load = 0; load < 5 && (waited >= 50 || (idle > 50 && seen <= 50)); load++) {
        const tiny = await Engine.load({ model: tinyModel, device: 'gpu', lane: 'exact', cache: false, tune: false });
        const { poll_ms, pumped_poll_ms } = tiny.info.adapter;
        tiny.dispose();
        waited = Math.min(waited, pumped_poll_ms ?? poll_ms!);
        seen = Math.max(seen, poll_ms!);
      }
      const engine = await Engine.load({ model, device: 'gpu', cache: false });
      const answers = [];
      for (let turn = 0; turn < 2; turn++)
        answers.push(
          await engine.generate([{ role: 'user', content: 'What is 17 plus 25?' }], { temperature: 0, maxTokens: 24 }),
        );
      const long = await engine.generate('Once upon a time', { temperature: 0, maxTokens: 48, ignoreEos: true });
      engine.dispose();
      const { decode_tok_s } = long.timings;
      return { idle, text: answers[1]!.text, chunks: { seen, waited, decode_tok_s } };
    },
    BOX,
    TINY,
  );
  expect(text).toContain('42');
  // Where Firefox looks seldom, as those of 2026 do, empty submissions have it look.
  if (idle > 50) expect(chunks.seen).toBeGreaterThan(50);
  expect(chunks.waited).toBeLessThan(50);
  test.info().annotations.push({ type: 'speed', description: JSON.stringify(chunks) });
});
