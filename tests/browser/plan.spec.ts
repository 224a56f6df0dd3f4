// Plans of loads, before a byte of the weights is fetched; and the notice where the browser has evicted a stored model.
import { content } from './faulty.ts';
import { answer, download, expect, FILE, MODEL, storedFiles, test } from './downloads.ts';
import { bytesOf, TINY } from './support.ts';

const BIG = '/box.gguf';

test('a plan reads the header alone and keeps nothing', async ({ tab, faulty }) => {
  const box = content(bytesOf('www/models/box.gguf'));
  faulty.put(BIG, box);
  const url = `${faulty.url}${BIG}`;
  const plan = await tab.evaluate((model) => Engine.plan({ model, shardBytes: 1 << 20 }), url);
  expect(plan).toMatchObject({
    fits: true,
    problems: [],
    alternatives: [],
    download: { total: box.length, stored: 0, missing: box.length },
    storage: { kind: 'opfs' },
  });
  expect(plan.memory.total).toBe(plan.memory.weights + plan.memory.kv + plan.memory.activations);
  expect(plan.memory.weights).toBeGreaterThan(box.length / 2);
  expect(plan.largest.bytes).toBeLessThanOrEqual(plan.limits.buffer);
  expect(faulty.sent).toBeLessThan(box.length / 4);
  expect((await storedFiles(tab)).pieces).toEqual([]);

  // Less memory than needed: the alternatives, and that they fit.
  const small = await tab.evaluate(({ model, memory }) => Engine.plan({ model, shardBytes: 1 << 20, memory }), {
    model: url,
    memory: Math.floor(plan.memory.total - plan.memory.kv / 4),
  });
  expect(small).toMatchObject({ fits: false, problems: [expect.stringContaining('GPU memory')] });
  expect(small.alternatives[0]).toMatchObject({ kv: plan.kv });
  expect(small.alternatives[0]!.context).toBeLessThan(plan.context);
  const { context, total } = small.alternatives[0]!;
  const again = await tab.evaluate((options) => Engine.plan(options), {
    model: url,
    shardBytes: 1 << 20,
    context,
    memory: total,
  });
  expect(again).toMatchObject({ fits: true, context });
});

test('on a phone a model gets the context that fits, and what cannot fit is refused before the download', async ({
  tab,
  faulty,
}) => {
  const box = content(bytesOf('www/models/box.gguf'));
  faulty.put(BIG, box);
  const url = `${faulty.url}${BIG}`;
  /** Emulates an Android phone with `bytes` bytes of memory, a third of which is for the model. */
  const phone = (bytes: number) =>
    tab.evaluate(
      (gigabytes) => {
        Object.defineProperty(navigator, 'userAgent', {
          value: 'Mozilla/5.0 (Linux; Android 16; K)',
          configurable: true,
        });
        Object.defineProperty(navigator, 'deviceMemory', { value: gigabytes, configurable: true });
      },
      bytes / 2 ** 30,
    );
  const plan = await tab.evaluate((model) => Engine.plan({ model }), url);
  await phone(3 * (plan.memory.total - plan.memory.kv / 4));
  expect((await tab.evaluate((model) => Engine.plan({ model }), url)).fits).toBe(false);
  const context = await tab.evaluate(async (model) => {
    const engine = await Engine.load({ model, cache: false, tune: false, device: 'cpu' });
    const { context } = engine.info;
    engine.dispose();
    return context;
  }, url);
  expect(context).toBeLessThan(plan.context);
  const asked = await tab.evaluate(([model, context]) => failure(Engine.load({ model, context, cache: false })), [
    url,
    plan.context,
  ] as const);
  expect(asked).toMatchObject({ code: 'OUT_OF_MEMORY', message: expect.stringMatching(/on this phone.*would fit/) });
  await phone(box.length);
  const before = faulty.sent;
  const none = await tab.evaluate((model) => failure(Engine.load({ model, cache: false })), url);
  expect(none).toMatchObject({ code: 'OUT_OF_MEMORY', message: expect.stringContaining('load a smaller model') });
  expect(faulty.sent - before).toBeLessThan(box.length / 4);
});

test('two models share the memory of a page: plans count both, and a load that has no room is refused before the download', async ({
  tab,
  faulty,
}) => {
  const box = content(bytesOf('www/models/box.gguf'));
  faulty.put(BIG, box);
  const embed = content(bytesOf('www/models/embed.gguf'));
  faulty.put('/embed.gguf', embed);
  const [url, small] = [`${faulty.url}${BIG}`, `${faulty.url}/embed.gguf`];
  const [chat, embedder, both] = await tab.evaluate(
    async ([model, small]) => {
      const [chat, embedder] = [await Engine.plan({ model }), await Engine.plan({ model: small })];
      const memory = chat.memory.total + embedder.memory.total - 1;
      return [chat, embedder, await Engine.plan({ model, memory, beside: [embedder] })] as const;
    },
    [url, small] as const,
  );
  expect(embedder).toMatchObject({ fits: true, memory: { beside: 0 } });
  expect(both).toMatchObject({
    fits: false,
    problems: [expect.stringContaining('beside')],
    memory: { total: chat.memory.total, beside: embedder.memory.total },
  });
  expect(both.alternatives[0]!.context).toBeLessThan(chat.context);
  const sent = faulty.sent;
  const told = await tab.evaluate(
    async ([model, small, memory]) => {
      configure({ memory });
      try {
        const options = { cache: false, tune: false, device: 'cpu' } as const;
        const embedder = await Engine.load({ model: small, ...options });
        const plan = await Engine.plan({ model });
        const refused = await failure(Engine.load({ model, context: plan.context, cache: false }));
        const [first, second] = await Promise.allSettled([
          Engine.load({ model: small, ...options }),
          Engine.load({ model: small, ...options, memory: 2 * embedder.info.memory.weights }),
        ]);
        if (first.status === 'fulfilled') first.value.dispose();
        embedder.dispose();
        const after = await Engine.plan({ model });
        return {
          plan,
          refused,
          first: first.status,
          second: second.status === 'rejected' && second.reason.code,
          after,
        };
      } finally {
        configure({ memory: Number.MAX_SAFE_INTEGER });
      }
    },
    [url, small, chat.memory.total + embedder.memory.total - 1] as const,
  );
  expect(told.plan).toMatchObject({ fits: false, limits: { memory: chat.memory.total + embedder.memory.total - 1 } });
  expect(told.plan.memory.beside).toBeGreaterThan(0);
  expect(told.refused).toMatchObject({
    code: 'OUT_OF_MEMORY',
    message: expect.stringMatching(/of other models.*would fit, or dispose of an engine/),
  });
  expect(told).toMatchObject({
    first: 'fulfilled',
    second: 'OUT_OF_MEMORY',
    after: { fits: true, memory: { beside: 0 } },
  });
  // The embedder was loaded twice; of the other model only headers were read.
  expect(faulty.sent - sent).toBeLessThan(2 * embed.length + box.length);
  expect(await tab.evaluate((model) => failure(Engine.plan({ model, beside: [{} as never] })), url)).toMatchObject({
    code: 'BAD_OPTION',
    message: expect.stringContaining('beside'),
  });
  expect(await tab.evaluate(() => failure(Engine.load({ model: new Response('x'), memory: 1 })))).toMatchObject({
    code: 'BAD_OPTION',
    message: expect.stringContaining('memory'),
  });
});

test('a plan of what is stored asks nobody, and of what is not there says so', async ({ tab, faulty }) => {
  const url = `${faulty.url}${FILE}`;
  await download(tab, url);
  faulty.heal();
  const plan = await tab.evaluate((model) => Engine.plan({ model }), url);
  expect(plan).toMatchObject({ fits: true, download: { total: MODEL.length, stored: MODEL.length, missing: 0 } });
  expect(faulty.log).toEqual([]);
  expect(await tab.evaluate((model) => failure(Engine.plan({ model })), `${faulty.url}/nothing.gguf`)).toMatchObject({
    code: 'NOT_FOUND',
  });
  expect(await tab.evaluate(() => failure(Engine.plan({ model: new Response('x') })))).toMatchObject({
    code: 'BAD_OPTION',
  });
});

test('a plan tells what it waits for', async ({ tab }) => {
  const notes = await tab.evaluate(async () => {
    const notes: string[] = [];
    const { code } = (await failure(
      Engine.plan({
        model: 'http://localhost:1/x.gguf',
        onProgress: ({ note }) => void (note && notes.push(note)),
      }),
    ))!;
    return [code, ...notes];
  });
  expect(notes[0]).toBe('NETWORK');
  expect(notes.slice(1).length).toBeGreaterThan(1);
  for (const note of notes.slice(1))
    expect(note).toMatch(/^http:\/\/localhost:1\/x\.gguf: .*trying again in \d+\.\d s$/);
});

test('a context longer than the model knows is refused by its name, before the first shard', async ({
  tab,
  faulty,
}) => {
  const url = `${faulty.url}${FILE}`;
  const error = await tab.evaluate(
    (model) => failure(Engine.load({ model, context: 1 << 20, shardBytes: 65_536 })),
    url,
  );
  expect(error).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining('context') });
});

test('of a large file the header comes first: what cannot run is an error before the first shard, and what can loads while it arrives', async ({
  tab,
  faulty,
  greedy,
}) => {
  const large = Buffer.alloc(17 << 20);
  bytesOf(`tests${TINY}`).copy(large);
  const other = Buffer.from(large);
  other.write('gonzo', other.indexOf('llama', other.indexOf('general.architecture')));
  faulty.put('/other.gguf', content(other));
  faulty.put('/large.gguf', content(large));
  const refused = await answer(tab, { model: `${faulty.url}/other.gguf`, shardBytes: 1 << 20 });
  expect(refused.error).toMatchObject({ code: 'UNSUPPORTED_MODEL', message: expect.stringContaining('gonzo') });
  expect(faulty.sent).toBeLessThan(3 << 20);
  expect((await storedFiles(tab)).pieces).toEqual([]);

  const steps = await tab.evaluate(async (model) => {
    const steps: string[] = [];
    const engine = await Engine.load({
      model,
      lane: 'exact',
      shardBytes: 1 << 20,
      onProgress: ({ phase, loaded }) => void steps.push(`${phase} ${loaded}`),
    });
    engine.dispose();
    return steps;
  }, `${faulty.url}/large.gguf`);
  // The rest is not requested before the kernels are being compiled.
  const compile = steps.findIndex((step) => step.startsWith('compile'));
  const arrived = steps
    .slice(0, compile)
    .filter((step) => step.startsWith('download'))
    .map((step) => Number(step.split(' ')[1]));
  expect(Math.max(0, ...arrived)).toBeLessThanOrEqual(1 << 20);
  expect(await answer(tab, { model: `${faulty.url}/large.gguf` })).toMatchObject({
    error: null,
    tokens: greedy,
    cached: true,
  });
});

test('what the browser has removed is noticed, explained and fetched again', async ({ tab, faulty, greedy }) => {
  const model = `${faulty.url}${FILE}`;
  expect(await answer(tab, { model })).toMatchObject({ error: null, tokens: greedy });
  // Evicts everything at once, as a browser that needs space does.
  const evict = async (): Promise<boolean> => {
    const root = await navigator.storage.getDirectory();
    return root.removeEntry('millrace', { recursive: true }).then(
      () => true,
      () => false,
    );
  };
  // A disposed engine's Workers take a moment to end and to release the files.
  await expect.poll(() => tab.evaluate(evict)).toBe(true);
  const { notes, storage } = await tab.evaluate(async (model) => {
    const notes: (string | undefined)[] = [];
    const engine = await Engine.load({
      model,
      lane: 'exact',
      onProgress: ({ phase, note }) => void (phase === 'download' && notes.push(note)),
    });
    engine.dispose();
    return { notes, storage: engine.info.storage };
  }, model);
  expect(storage).toMatchObject({ kind: 'opfs', cached: false, evicted: true });
  expect(notes.join()).toContain('removed the stored copy');
  // A model that was removed on purpose causes no notice.
  await tab.evaluate((model) => models.remove(model), model);
  expect(
    await tab.evaluate(async (model) => {
      const engine = await Engine.load({ model, lane: 'exact' });
      engine.dispose();
      return engine.info.storage.evicted ?? false;
    }, model),
  ).toBe(false);
});
