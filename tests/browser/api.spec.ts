// The package as a page uses it: loading, generating, aborting, failing, disposing.
import { bytesOf, expect, test, TINY } from './support.ts';

test('loads with progress and says what it has loaded', async ({ blank }) => {
  const { phases, info } = await blank.evaluate(async (model) => {
    const phases = new Set<string>();
    const engine = await Engine.load({ model, lane: 'exact', onProgress: (progress) => phases.add(progress.phase) });
    const { info } = engine;
    engine.dispose();
    return { phases: [...phases], info };
  }, TINY);
  expect(phases).toEqual(expect.arrayContaining(['download', 'upload']));
  expect(info.model).toMatchObject({ architecture: 'llama', vocab: 301 });
  expect(info.adapter.name).not.toBe('');
  expect(info.memory.total).toBeGreaterThan(0);
  expect(info.lanes).toContain(info.lane);
});

test('one generation is a stream of pieces and a promise of the whole', async ({ tiny }) => {
  const { pieces, result, same } = await tiny.evaluate(async () => {
    const options = { maxTokens: 12, temperature: 0, ignoreEos: true };
    const generation = engine.generate({ tokens: [57, 56, 78] }, options);
    const pieces = [];
    for await (const piece of generation) pieces.push(piece);
    return { pieces, result: await generation, same: await engine.generate({ tokens: [57, 56, 78] }, options) };
  });
  expect(pieces.join('')).toBe(result.text);
  expect(Array.from(result.tokens)).toHaveLength(12);
  expect(result).toMatchObject({ prompt_tokens: 3, finish_reason: 'length' });
  expect(Array.from(same.tokens)).toEqual(Array.from(result.tokens));
});

test('the same seed gives the same text, and the seed that was used is told', async ({ tiny }) => {
  const [first, again, other] = await tiny.evaluate(async () => {
    const options = { maxTokens: 16, temperature: 1.5, ignoreEos: true };
    const first = await engine.generate({ tokens: [57, 56] }, options);
    const again = await engine.generate({ tokens: [57, 56] }, { ...options, seed: first.seed });
    return [first, again, await engine.generate({ tokens: [57, 56] }, { ...options, seed: first.seed + 1 })];
  });
  expect(again!.tokens).toEqual(first!.tokens);
  expect(other!.tokens).not.toEqual(first!.tokens);
});

test('returned from an async function the generation is awaited', async ({ tiny }) => {
  const kinds = await tiny.evaluate(async () => {
    const options = { maxTokens: 2, temperature: 0, ignoreEos: true };
    const fromAsync = await (async () => engine.generate({ tokens: [1] }, options))();
    const wrapped = await (async () => ({ stream: engine.generate({ tokens: [1] }, options) }))();
    const kinds = [Symbol.asyncIterator in fromAsync, typeof fromAsync.text, Symbol.asyncIterator in wrapped.stream];
    await wrapped.stream;
    return kinds;
  });
  expect(kinds).toEqual([false, 'string', true]);
});

test('generations that overlap are answered in order', async ({ tiny }) => {
  const order = await tiny.evaluate(async () => {
    const order: string[] = [];
    const read = async (name: string): Promise<void> => {
      for await (const _ of engine.generate(
        { tokens: [57, 56, 78] },
        { maxTokens: 8, temperature: 0, ignoreEos: true },
      ))
        order.push(name);
    };
    await Promise.all([read('a'), read('b'), read('c')]);
    return order.join('');
  });
  expect(order).toMatch(/^a+b+c+$/);
});

test.describe('abort', () => {
  test('before and during loading; loading again works', async ({ blank, site }) => {
    const body = bytesOf('tests/data/oracle/gguf-q8_0/model.gguf');
    // Sends half of the file, and then nothing more.
    site.routes.set(
      '/slow.gguf',
      (_, response) =>
        void response.writeHead(200, { 'Content-Length': body.length }).write(body.subarray(0, body.length / 2)),
    );
    const errors = await blank.evaluate(async () => {
      const before = await failure(Engine.load({ model: '/slow.gguf', signal: AbortSignal.abort() }));
      const controller = new AbortController();
      const loading = Engine.load({
        model: '/slow.gguf',
        signal: controller.signal,
        onProgress: ({ phase, loaded }) => phase === 'download' && loaded > 0 && controller.abort(),
      });
      return [before, await failure(loading)];
    });
    for (const error of errors) expect(error).toMatchObject({ code: 'ABORTED', name: 'AbortError', ours: true });
    site.routes.set(
      '/slow.gguf',
      (_, response) => void response.writeHead(200, { 'Content-Length': body.length }).end(body),
    );
    const vocab = await blank.evaluate(async () => {
      const engine = await Engine.load({ model: '/slow.gguf', lane: 'exact' });
      engine.dispose();
      return engine.info.model.vocab;
    });
    expect(vocab).toBe(301);
  });

  test('before, queued, in prefill and in decode; the engine goes on', async ({ tiny }) => {
    const outcome = await tiny.evaluate(async () => {
      const context = engine.info.context;
      const start = (prompt: number[], signal?: AbortSignal) =>
        engine.generate(
          { tokens: prompt },
          { temperature: 0, ignoreEos: true, ...(signal ? { signal } : { maxTokens: 4 }) },
        );
      const before = await failure(start([1], AbortSignal.abort()));

      const running = start([1, 2, 3]);
      const queue = new AbortController();
      const queued = failure(start([1], queue.signal));
      queue.abort(new Error('changed my mind'));
      const queuedError = await queued;
      await running;

      const prefilling = new AbortController();
      const prefill = failure(
        start(
          Array.from({ length: Math.floor(context / 2) }, (_, i) => i % 300),
          prefilling.signal,
        ),
      );
      await new Promise((done) => setTimeout(done));
      prefilling.abort();
      const prefillError = await prefill;

      const decoding = new AbortController();
      const generation = start([57, 56], decoding.signal);
      let pieces = 0;
      const decode = await failure(
        (async () => {
          for await (const _ of generation) if (++pieces === 1) decoding.abort();
        })(),
      );
      const after = await start([57, 56]);
      return {
        errors: [before, queuedError, prefillError, decode],
        promise: await failure(generation),
        pieces,
        after: after.finish_reason,
      };
    });
    for (const error of [...outcome.errors, outcome.promise])
      expect(error).toMatchObject({ code: 'ABORTED', name: 'AbortError', ours: true });
    expect(outcome.promise!.data.result).toMatchObject({ finish_reason: 'abort' });
    expect(outcome.pieces).toBe(1);
    expect(outcome.after).toBe('length');
  });

  test('leaving the loop, and stop(), end with what there is', async ({ tiny }) => {
    const results = await tiny.evaluate(async () => {
      const options = { temperature: 0, ignoreEos: true };
      const left = engine.generate({ tokens: [57, 56] }, options);
      for await (const _ of left) break;
      const stopped = engine.generate({ tokens: [57, 56] }, options);
      for await (const _ of stopped) stopped.stop();
      const queued = engine.generate({ tokens: [57, 56] }, options);
      queued.stop();
      return [await left, await stopped, await queued];
    });
    for (const result of results) expect(result.finish_reason).toBe('abort');
    expect(results[0]!.tokens.length).toBeGreaterThan(0);
  });
});

test('models from files, and two engines in one page', async ({ blank }) => {
  const results = await blank.evaluate(async (model) => {
    const data = await (await fetch(model)).blob();
    const engines = await Promise.all([
      Engine.load({ model: { name: 'model.gguf', data }, lane: 'exact' }),
      Engine.load({ model: new File([data], 'model.gguf'), lane: 'exact' }),
    ]);
    const options = { maxTokens: 6, temperature: 0, ignoreEos: true };
    const both = await Promise.all(engines.map((engine) => engine.generate({ tokens: [57, 56, 78] }, options)));
    engines[0]!.dispose();
    const alone = await engines[1]!.generate({ tokens: [57, 56, 78] }, options);
    engines[1]!.dispose();
    return [...both, alone].map(({ tokens }) => Array.from(tokens));
  }, TINY);
  expect(results[0]).toHaveLength(6);
  expect(results[1]).toEqual(results[0]);
  expect(results[2]).toEqual(results[0]);
});

test('a second turn reads only what is new, and forks go on from a shared beginning', async ({ blank }) => {
  const { first, second, fork, other, fresh, gone } = await blank.evaluate(async (model) => {
    const options = { maxTokens: 6, temperature: 0, ignoreEos: true };
    const engine = await Engine.load({ model, lane: 'exact' });
    const prompt = [57, 56, 78, 12, 99];
    const first = await engine.generate({ tokens: prompt }, options);
    const forked = await engine.fork();
    const longer = [...prompt, ...first.tokens, 33, 44];
    // The engine's own conversation continues differently at the same time: they take turns.
    const [second, fork] = await Promise.all([
      engine.generate({ tokens: longer }, options),
      forked.generate({ tokens: [...prompt, 7] }, options),
    ]);
    const other = await engine.generate({ tokens: [...longer, ...second.tokens, 5] }, options);
    const fresh = [];
    for (const tokens of [longer, [...prompt, 7], [...longer, ...second.tokens, 5]])
      fresh.push((await engine.generate({ tokens }, { ...options, reuse: false })).tokens);
    forked.dispose();
    const gone = [await failure(forked.fork()), await failure(forked.generate({ tokens: [1] }))];
    await engine.generate({ tokens: [1] }, options);
    engine.dispose();
    return { first, second, fork, other, fresh, gone };
  }, TINY);
  expect(first.cached_tokens).toBe(0);
  expect(second.cached_tokens).toBe(10);
  expect(fork.cached_tokens).toBe(5);
  expect(other.cached_tokens).toBe(18);
  expect([second.tokens, fork.tokens, other.tokens].map((ids) => Array.from(ids))).toEqual(
    fresh.map((ids) => Array.from(ids)),
  );
  expect(gone.map((error) => error?.code)).toEqual(['DISPOSED', 'DISPOSED']);
});

test('a conversation that is disposed of during an answer frees its memory once that has ended', async ({ blank }) => {
  const [kept, freed, gone] = await blank.evaluate(async (model) => {
    const options = { maxTokens: 6, temperature: 0, ignoreEos: true };
    const engine = await Engine.load({ model, lane: 'exact' });
    const tokens = [57, 56, 78, 12, 99];
    await engine.generate({ tokens }, options);
    const forked = await engine.fork();
    await forked.generate({ tokens: [...tokens, 7] }, options);
    // Its state makes room for the engine's own.
    await engine.generate({ tokens: [...tokens, 8] }, options);
    const kept = engine.info.memory.total;
    const answer = engine.generate({ tokens: [...tokens, 8] }, { ...options, maxTokens: 40 });
    for await (const _ of answer) forked.dispose();
    await answer;
    await engine.generate({ tokens: [...tokens, 8] }, options);
    const freed = engine.info.memory.total;
    const gone = await failure(forked.generate({ tokens }));
    engine.dispose();
    return [kept, freed, gone?.code];
  }, TINY);
  expect(freed).toBeLessThan(kept as number);
  expect(gone).toBe('DISPOSED');
});

test('a saved conversation goes on in another engine; a long prompt tells how far it is; a cache of eight bits takes less', async ({
  blank,
}) => {
  const { first, expected, restored, again, kv, read, errors } = await blank.evaluate(async (model) => {
    const options = { maxTokens: 6, temperature: 0, ignoreEos: true };
    const engine = await Engine.load({ model, lane: 'exact', kv: 'q8' });
    const prompt = Array.from({ length: 40 }, (_, i) => ((i * 37) % 290) + 1);
    const first = await engine.generate({ tokens: prompt }, options);
    await engine.save('tea & biscuits');
    const longer = [...prompt, ...first.tokens, 33, 44];
    const expected = await engine.generate({ tokens: longer }, options);
    const kv = engine.info.memory.kv;
    engine.dispose();

    const other = await Engine.load({ model, lane: 'exact', kv: 'q8' });
    const conversation = await other.restore('tea & biscuits');
    const read: [string, number, number][] = [];
    const restored = await conversation.generate(
      { tokens: longer },
      { ...options, onProgress: ({ phase, loaded, total }) => read.push([phase, loaded, total]) },
    );
    await conversation.save('more tea');
    const again = await (await other.restore('more tea')).generate({ tokens: longer }, options);
    await other.forget('tea & biscuits');
    const errors = [
      await failure(other.restore('tea & biscuits')),
      await failure(other.restore('')),
      await failure(other.save(7 as never)),
    ];
    other.dispose();
    const halves = await Engine.load({ model, lane: 'exact', kv: 'f16' });
    errors.push(await failure(halves.restore('more tea')));
    await halves.forget('more tea');
    const both = [kv, halves.info.memory.kv];
    halves.dispose();
    return { first, expected, restored, again, kv: both, read, errors };
  }, TINY);
  expect(restored.cached_tokens).toBe(45);
  expect(again.cached_tokens).toBeGreaterThanOrEqual(45);
  expect([Array.from(restored.tokens), Array.from(again.tokens)]).toEqual([
    Array.from(expected.tokens),
    Array.from(expected.tokens),
  ]);
  expect(first.cached_tokens).toBe(0);
  expect(read).toEqual([['prompt', 3, 3]]);
  expect(kv[0]! / kv[1]!).toBeCloseTo(18 / 32);
  expect(errors.map((error) => error?.code)).toEqual(['NOT_FOUND', 'BAD_OPTION', 'BAD_OPTION', 'BAD_OPTION']);
  expect(errors[3]?.message).toContain('another kv');
});

test('dispose rejects what is pending and all that comes later', async ({ blank }) => {
  const errors = await blank.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact' });
    const options = { temperature: 0, ignoreEos: true };
    let begun = (): void => {};
    const begins = new Promise<void>((done) => (begun = done));
    const running = failure(engine.generate({ tokens: [1, 2] }, { ...options, onTokens: begun }));
    const queued = failure(engine.generate({ tokens: [1, 2] }, options));
    await begins;
    // The method that `using` calls.
    engine[Symbol.dispose]();
    engine.dispose();
    return [await running, await queued, await failure(engine.generate('x'))];
  }, TINY);
  for (const error of errors) expect(error).toMatchObject({ code: 'DISPOSED', ours: true });
});
