// The tokens of texts and conversations. `tokenizer`: a tokenizer.json in place of what a .gguf file says.
import { BOX, bytesOf, expect, test, TINY } from './support.ts';

const JSON_FILE = '/data/oracle/smollm3-hf/model/tokenizer.json';

test('its rules count, by address and as a file, through the caller’s own fetch', async ({ blank }) => {
  const changed = JSON.parse(bytesOf(`tests${JSON_FILE}`).toString());
  changed.normalizer = { type: 'Lowercase' };
  const heard = await blank.evaluate(
    async ({ model, address, json }) => {
      const asked: string[] = [];
      const ids = async (tokenizer?: string | Blob): Promise<number[][]> => {
        const engine = await Engine.load({
          model,
          cache: false,
          ...(tokenizer === undefined ? {} : { tokenizer }),
          fetch: (url, init) => {
            asked.push(new URL(url).pathname);
            return fetch(url, init);
          },
        });
        const both = [await engine.tokenize('The RIVER'), await engine.tokenize('the river')];
        engine.dispose();
        return both;
      };
      const own = await ids();
      const before = asked.length;
      return { own, before, byAddress: await ids(address), asked, changed: await ids(new Blob([json])) };
    },
    { model: TINY, address: JSON_FILE, json: JSON.stringify(changed) },
  );
  expect(heard.byAddress).toEqual(heard.own);
  expect(heard.asked.slice(heard.before)).toContain(JSON_FILE);
  expect(heard.asked.slice(0, heard.before)).not.toContain(JSON_FILE);
  expect(heard.own[0]).not.toEqual(heard.own[1]);
  expect(heard.changed).toEqual([heard.own[1], heard.own[1]]);
});

test('one that is wrong, missing or of another model is an error by name', async ({ blank }) => {
  const codes = await blank.evaluate(
    async ({ model, other }) => {
      const code = (tokenizer: string | Blob) =>
        Engine.load({ model, cache: false, tokenizer }).then(
          () => 'loaded',
          (error) => `${error.code}: ${error.message}`,
        );
      return [await code(new Blob(['{}'])), await code('/data/nowhere/tokenizer.json'), await code(other)];
    },
    { model: TINY, other: '/data/tokenizer/qwen2/tokenizer.json' },
  );
  expect(codes[0]).toMatch(/^TOKENIZER: /);
  expect(codes[1]).toMatch(/^NOT_FOUND: .*nowhere\/tokenizer\.json/);
  expect(codes[2]).toMatch(/^TOKENIZER: .*of another model/);
});

test('texts and conversations as tokens, and back', async ({ blank }) => {
  const seen = await blank.evaluate(async (model) => {
    const engine = await Engine.load({ model, device: 'cpu' });
    const text = 'Why is the sky blue? Grüße, 世界 🌍';
    const messages = [{ role: 'user' as const, content: text }];
    const tokens = await engine.tokenize(text);
    const result = await engine.generate(messages, { maxTokens: 1 });
    // It answers while the engine is at work.
    const working = engine.generate('x', { maxTokens: 600, ignoreEos: true });
    const meanwhile = await engine.countTokens(text);
    let settled = false;
    void working.then(() => (settled = true));
    const before = settled;
    working.stop();
    await working;
    return {
      tokens,
      back: await engine.detokenize(tokens),
      count: await engine.countTokens(messages),
      prompt: result.prompt_tokens,
      rendered: await engine.detokenize(await engine.tokenize(messages)),
      meanwhile,
      before,
      none: await failure(engine.detokenize([10 ** 7])),
      bad: await failure(engine.detokenize(['x'] as never)),
      hole: await failure(engine.tokenize(Object.assign(new Array(2), { 1: { role: 'user', content: 'x' } }) as never)),
      unknown: await failure(engine.tokenize('x', { maxTokens: 1 } as never)),
    };
  }, BOX);
  expect(seen.back.endsWith('Why is the sky blue? Grüße, 世界 🌍')).toBe(true);
  expect(seen.count).toBe(seen.prompt);
  expect(seen.rendered).toContain('Why is the sky blue?');
  expect(seen.meanwhile).toBe(seen.tokens.length);
  expect(seen.before).toBe(false);
  expect(seen.none).toMatchObject({ code: 'TOKENIZER', ours: true });
  expect(seen.bad).toMatchObject({ code: 'BAD_OPTION', ours: true });
  expect(seen.hole).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining('messages[0]') });
  expect(seen.unknown).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining('maxTokens') });
});

test('tools that nest without end are refused', async ({ tiny }) => {
  const errors = await tiny.evaluate(async () => {
    let deep: Record<string, unknown> = {};
    for (let level = 0; level < 3000; level++) deep = { properties: deep };
    const round: Record<string, unknown> = {};
    round.self = round;
    const ask = (tools: object[]) =>
      failure(engine.generate([{ role: 'user', content: 'x' }], { maxTokens: 1, tools }));
    return [await ask([deep]), await ask([round]), await failure(engine.generate({ tokens: [5] }, { maxTokens: 1 }))];
  });
  const refused = { code: 'BAD_OPTION', message: expect.stringContaining('nests deeper than 100 levels') };
  expect(errors).toMatchObject([refused, refused, null]);
});
