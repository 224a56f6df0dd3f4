// The decode loop's promises: the number of the host's calls of the GPU, and that all kernels run there.
import { bytesOf, expect, test, TINY } from './support.ts';

test('with 16 tokens a readback: at most one submit a token, one readback of 16 ids each, nothing created', async ({
  sixteen,
}) => {
  const { tokens, counters } = await sixteen.evaluate(() =>
    engine.generate('The', { maxTokens: 48, temperature: 0, ignoreEos: true }),
  );
  expect(tokens).toHaveLength(48);
  expect(counters.submits).toBeLessThanOrEqual(48);
  expect(counters.readbacks).toBeLessThanOrEqual(48 / 16);
  expect(counters.readback_bytes).toBeLessThanOrEqual(48 * 4);
  expect(counters.created).toBe(0);
  expect(counters.prefill_submits).toBeGreaterThan(0);
  expect(counters.gpu_bytes).toBeGreaterThan(bytesOf(`tests${TINY}`).length);
});

test('a step of the plan is a dispatch on the GPU, and says why it is what it is', async ({ sixteen }) => {
  const { plan, counters } = await sixteen.evaluate(async () => {
    const { counters } = await engine.generate('The', { maxTokens: 33, temperature: 0, ignoreEos: true });
    return { plan: engine.info.plan, counters };
  });
  expect(plan.filter((step) => step.reason === '' || step.kernel === '' || step.variant === '')).toEqual([]);
  // Greedy decoding leaves out the stages of a temperature; the first token is sampled from the prompt's logits.
  const left = ['logit_stats', 'tally', 'narrow', 'threshold', 'penalize', 'logprobs', 'logprobs_append'];
  const steps = plan.filter((step) => step.pass === 'decode' && !left.includes(step.kernel));
  const sampling = steps.filter((step) => step.step.startsWith('sample.')).length;
  expect(counters.dispatches).toBe(32 * steps.length + sampling);
  expect(new Set(plan.map((step) => step.pass))).toEqual(new Set(['prefill', 'decode']));
});

test('with drafts the same text takes fewer steps, and nothing is read between draft and verdict', async ({ tiny }) => {
  const [alone, drafted] = await tiny.evaluate(async () => {
    const tokens = Array.from({ length: 40 }, (_, i) => 8 + ((i * i + 5) % 7));
    const options = { maxTokens: 40, temperature: 0, ignoreEos: true, reuse: false };
    const alone = await engine.generate({ tokens }, options);
    return [alone, await engine.generate({ tokens }, { ...options, speculate: 'always' as const })] as const;
  });
  expect(drafted.tokens).toEqual(alone.tokens);
  expect(drafted.accepted_tokens).toBeGreaterThan(0);
  expect(alone.drafted_tokens).toBe(0);
  // A token or more a step, nine words a step; a submission holds up to four of them.
  const steps = drafted.counters.readback_bytes / 36;
  expect(steps).toBeLessThanOrEqual(40 - drafted.accepted_tokens + 16);
  expect(drafted.counters.readbacks).toBeLessThanOrEqual(steps);
  expect(drafted.counters.submits).toBeLessThanOrEqual(steps);
  expect(drafted.counters.created).toBe(0);
});

test('a stop text ends the answer and is not part of it', async ({ sixteen }) => {
  const { whole, stop, cut } = await sixteen.evaluate(async () => {
    const options = { maxTokens: 32, temperature: 0, ignoreEos: true };
    const { text: whole } = await engine.generate('The', options);
    const middle = [...whole].slice([...whole].length >> 1);
    const stop = middle.slice(0, 3).join('');
    return { whole, stop, cut: await engine.generate('The', { ...options, stop }) };
  });
  expect(stop).not.toBe('');
  expect(cut.finish_reason).toBe('stop');
  expect(cut.text).toBe(whole.slice(0, whole.indexOf(stop)));
});
