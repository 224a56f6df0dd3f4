// Penalties, bias and log probabilities in a page: computed on the GPU, read back with the tokens.
import { expect, test } from './support.ts';

const ASK = { temperature: 0, maxTokens: 32, ignoreEos: true, seed: 1 } as const;

test('log probabilities are those of the logits, arrive with the pieces, and cost no readback', async ({ tiny }) => {
  const result = await tiny.evaluate(async (ask) => {
    const prompt = { tokens: [5, 17, 99, 3] };
    const plain = await engine.generate(prompt, ask);
    const pieces: { text: string; tokens: number; logprobs: number }[] = [];
    const asked = await engine.generate(prompt, {
      ...ask,
      logits: true,
      logprobs: 3,
      onTokens: ({ text, tokens, logprobs }) =>
        pieces.push({ text, tokens: tokens.length, logprobs: logprobs!.length }),
    });
    const logits = [...asked.logits!];
    const largest = Math.max(...logits);
    const whole = Math.log(logits.reduce((sum, x) => sum + Math.exp(x - largest), 0));
    const best = logits.map((x, id) => ({ id, logprob: x - largest - whole })).sort((a, b) => b.logprob - a.logprob);
    return { plain, asked: { ...asked, logits: null }, pieces, best: best.slice(0, 3) };
  }, ASK);
  const { plain, asked, pieces, best } = result;
  expect(asked.tokens).toEqual(plain.tokens);
  expect(asked.logprobs!.map(({ id }) => id)).toEqual(plain.tokens);
  expect(asked.logprobs!.map(({ text }) => text).join('')).toBe(asked.text);
  for (const [n, { id, logprob }] of best.entries()) {
    expect(asked.logprobs![0]!.top[n]!.id).toBe(id);
    expect(asked.logprobs![0]!.top[n]!.logprob).toBeCloseTo(logprob, 4);
  }
  expect(asked.logprobs![0]).toMatchObject({ id: best[0]!.id, logprob: asked.logprobs![0]!.top[0]!.logprob });
  expect(pieces.reduce((sum, piece) => sum + piece.logprobs, 0)).toBe(32);
  expect(pieces.map(({ text }) => text).join('')).toBe(asked.text);
  expect(asked.counters.created).toBe(0);
  expect(asked.counters.readback_bytes).toBe(asked.tokens.length * (4 + 41 * 4));
  expect(asked.counters.readbacks).toBe(pieces.filter(({ tokens }) => tokens > 0).length);
  expect(plain.logprobs).toBeUndefined();
});

test('bias forces and forbids, penalties vary, and the next generation knows nothing of it', async ({ tiny }) => {
  const texts = await tiny.evaluate(async (ask) => {
    const prompt = { tokens: [5, 17, 99, 3] };
    const of = async (more: object) => (await engine.generate(prompt, { ...ask, ...more })).tokens;
    const plain = await of({});
    const first = plain[0]!;
    return {
      plain,
      first,
      forced: await of({ logitBias: { 42: 100 } }),
      forbidden: await of({ logitBias: { [first]: -100 } }),
      once: await of({ presencePenalty: 2, frequencyPenalty: 2, repetitionPenalty: 1e6 }),
      after: await of({}),
    };
  }, ASK);
  expect(texts.forced).toEqual(Array.from({ length: 32 }, () => 42));
  expect(texts.forbidden).not.toContain(texts.first);
  expect(new Set(texts.once).size).toBe(32);
  expect(new Set(texts.plain).size).toBeLessThan(32);
  expect(texts.after).toEqual(texts.plain);
});

test('what is out of range is named', async ({ tiny }) => {
  const errors = await tiny.evaluate(async () => {
    const wrong = [
      { presencePenalty: 3 },
      { frequencyPenalty: '1' },
      { repetitionPenalty: 0 },
      { logitBias: { hello: 1 } },
      { logitBias: { 1: 101 } },
      { logitBias: { 99999: 1 } },
      { logprobs: 21 },
      { logprobs: true },
      { onTokens: 1 },
    ];
    return Promise.all(
      wrong.map(
        async (options) => [Object.keys(options)[0]!, await failure(engine.generate('a', options as never))] as const,
      ),
    );
  });
  for (const [name, error] of errors) {
    expect(error, name).toMatchObject({ code: 'BAD_OPTION', ours: true });
    expect(error!.message.replaceAll('_', '').toLowerCase(), name).toContain(name.toLowerCase());
  }
});
