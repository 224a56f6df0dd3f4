// `tokenizer`: a tokenizer.json in place of what a .gguf file says.
import { bytesOf, expect, test, TINY } from './support.ts';

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
