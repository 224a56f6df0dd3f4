// Models in shards, split GGUF files, and quantization while loading.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, expect, root, test, TINY } from './support.ts';

const SHARDS = '/data/shards/manifest.json';

/** Runs in the page: a few greedy tokens of a model, and the engine's info. */
async function answer(options: {
  model: string;
  quantize?: 'q4_0' | 'q8_0';
}): Promise<{ tokens: number[]; converted: unknown[]; cached: boolean; wasm: number }> {
  const engine = await Engine.load({ ...options, lane: 'exact' });
  const { tokens } = await engine.generate({ tokens: [57, 56, 78] }, { maxTokens: 8, temperature: 0, ignoreEos: true });
  const { model, storage, memory } = engine.info;
  engine.dispose();
  return { tokens: Array.from(tokens), converted: model.converted, cached: storage.cached, wasm: memory.wasm };
}

test('shards answer as the file that they were made of, and come from the storage at the second load', async ({
  blank,
  site,
}) => {
  const expected = await blank.evaluate(answer, { model: TINY });
  site.hits.length = 0;
  const first = await blank.evaluate(answer, { model: SHARDS });
  expect(first).toMatchObject({ tokens: expected.tokens, cached: false });
  const files = readdirSync(join(root, 'tests', 'data', 'shards'));
  expect(site.hits.filter((path) => path.startsWith('/data/shards/')).sort()).toEqual(
    files.map((name) => `/data/shards/${name}`).sort(),
  );
  site.hits.length = 0;
  expect(await blank.evaluate(answer, { model: SHARDS })).toMatchObject({ tokens: expected.tokens, cached: true });
  expect(site.hits.filter((path) => path.startsWith('/data/'))).toEqual([]);
  expect(first.wasm).toBeGreaterThan(1e6);
});

test('a shard that arrives damaged is named, and the next load mends it', async ({ blank, site }) => {
  const name = 'shard-00003-of-00010.bin';
  const bytes = Buffer.from(bytesOf(`tests/data/shards/${name}`));
  bytes[1000]! ^= 1;
  const route = `/data/shards/${name}`;
  site.routes.set(route, (_, response) => void response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes));
  const error = await blank.evaluate((model) => failure(Engine.load({ model })), SHARDS);
  expect(error).toMatchObject({ code: 'BAD_MODEL', message: expect.stringContaining(name) });
  site.routes.delete(route);
  expect(await blank.evaluate(answer, { model: SHARDS })).toMatchObject({ cached: false });
});

test('files that the page has: shards', async ({ blank }) => {
  const tokens = await blank.evaluate(
    async (names) => {
      const files = await Promise.all(
        names.map(async (name) => new File([await (await fetch(`/data/shards/${name}`)).blob()], name)),
      );
      const engine = await Engine.load({ model: files, lane: 'exact' });
      const { tokens } = await engine.generate(
        { tokens: [57, 56, 78] },
        { maxTokens: 4, temperature: 0, ignoreEos: true },
      );
      engine.dispose();
      return tokens.length;
    },
    readdirSync(join(root, 'tests', 'data', 'shards')),
  );
  expect(tokens).toBe(4);
});

test('any part of a split GGUF file stands for all', async ({ blank, site }) => {
  site.hits.length = 0;
  const parts = readdirSync(join(root, 'tests', 'data', 'oracle', 'gguf-split')).filter((name) =>
    name.endsWith('.gguf'),
  );
  expect(parts.length).toBeGreaterThan(2);
  const { converted } = await blank.evaluate(answer, { model: `/data/oracle/gguf-split/${parts[1]}` });
  expect(converted).toEqual([]);
  expect([...new Set(site.hits.filter((path) => path.endsWith('.gguf')))].sort()).toEqual(
    parts.map((name) => `/data/oracle/gguf-split/${name}`).sort(),
  );
});

test('safetensors are quantized while they are loaded, and what is quantized is not', async ({ blank }) => {
  const folder = '/data/oracle/hf-window/model/';
  const plain = await blank.evaluate(answer, { model: folder });
  expect(plain.converted).toEqual([]);
  const { converted, tokens } = await blank.evaluate(answer, { model: folder, quantize: 'q8_0' as const });
  expect(converted).toMatchObject([{ from: 'BF16', to: 'Q8_0' }]);
  expect(tokens).toHaveLength(8);
  expect(await blank.evaluate((model) => failure(Engine.load({ model, quantize: 'q4_0' })), TINY)).toMatchObject({
    code: 'BAD_OPTION',
  });
});
