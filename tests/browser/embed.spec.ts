// Embeddings in a page, of one engine that is loaded once: the engine's own interface, OpenAI's two, and their errors.
import { bytesOf, expect, test } from './support.ts';

const FOLDER = '/data/embed/qwen3-hf/model/';
const { texts, embeddings, queries } = JSON.parse(bytesOf('tests/data/embed/qwen3-hf/expected.json').toString()) as {
  texts: string[];
  embeddings: number[][];
  queries: number[][];
};

const cosine = (a: readonly number[], b: readonly number[]): number => {
  const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * b[i]!, 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

test('a folder of sentence-transformers embeds as transformers does, and in OpenAI’s shapes', async ({ blank }) => {
  const heard = await blank.evaluate(
    async ({ model, texts }) => {
      const engine = await Engine.load({ model, lane: 'exact', cache: false });
      const { pooling, dimensions, prompts, chat } = engine.info.model;
      // One after the other in the engine's queue.
      const [all, asked, cut] = await Promise.all([
        engine.embed(texts),
        engine.embed(texts[0]!, { prompt: 'query' }),
        engine.embed(texts, { dimensions: 24, normalize: true }),
      ]);
      const input = texts.filter((text) => text !== '');
      const openai = await engine.embeddings.create({ input, model: engine.modelName, dimensions: 24 });
      const fetched = await engine.fetch('http://millrace/v1/embeddings', {
        method: 'POST',
        body: JSON.stringify({ input: input[0], encoding_format: 'base64' }),
      });
      const refused = await engine.fetch('http://millrace/v1/embeddings', {
        method: 'POST',
        body: JSON.stringify({ input: [1, 2] }),
      });
      const errors = [
        await failure(engine.generate('Hello')),
        await failure(engine.embed(texts, { prompt: 'qurey' })),
        await failure(engine.embed([])),
        await failure(engine.embed(texts, { dimension: 3 } as object)),
        await failure(engine.embed(7 as unknown as string)),
        await failure(engine.rerank('x', texts)),
        await failure(engine.embed(texts, { signal: AbortSignal.abort() })),
        await failure(engine.embeddings.create({ input: 'x', model: 'another' })),
      ];
      const result = {
        info: { pooling, dimensions, prompts: Object.keys(prompts ?? {}), chat },
        all: all.vectors.map((vector) => Array.from(vector)),
        tokens: all.tokens,
        asked: Array.from(asked.vectors[0]!),
        cut: cut.vectors.map((vector) => Array.from(vector)),
        openai,
        fetched: await fetched.json(),
        refused: [refused.status, (await refused.json()).error.param],
        errors: errors.map((error) => error && [error.code, error.message]),
      };
      engine.dispose();
      return result;
    },
    { model: FOLDER, texts },
  );
  expect(heard.info).toEqual({ pooling: 'last', dimensions: 64, prompts: ['query', 'document'], chat: false });
  for (const [i, vector] of heard.all.entries()) expect(cosine(vector, embeddings[i]!)).toBeGreaterThan(0.99999);
  expect(cosine(heard.asked, queries[0]!)).toBeGreaterThan(0.99999);
  expect(heard.tokens).toBeGreaterThan(texts.length);
  expect(heard.cut.map(({ length }) => length)).toEqual(texts.map(() => 24));
  const { object, data, model, usage } = heard.openai;
  expect([object, data.length, data[1]!.index, model.length > 0]).toEqual(['list', texts.length - 1, 1, true]);
  expect(usage.prompt_tokens).toBe(usage.total_tokens);
  expect(data[0]!.embedding).toEqual(heard.cut[0]);
  const bytes = Buffer.from(heard.fetched.data[0].embedding, 'base64');
  const floats = Array.from(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
  expect(cosine(floats, embeddings[0]!)).toBeGreaterThan(0.99999);
  expect(heard.refused).toEqual([400, 'input']);
  const codes = heard.errors.map((error) => error?.[0]);
  expect(codes).toEqual([
    'UNSUPPORTED_MODEL',
    'BAD_OPTION',
    'BAD_OPTION',
    'BAD_OPTION',
    'BAD_OPTION',
    'UNSUPPORTED_MODEL',
    'ABORTED',
    'NOT_FOUND',
  ]);
  expect(heard.errors[0]![1]).toContain('call embed');
  expect(heard.errors[1]![1]).toContain('query, document');
  expect(heard.errors[3]![1]).toContain('dimension is not an option');
});
