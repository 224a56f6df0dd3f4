// The queue on its own, which needs no browser, and that of an engine over all its conversations.
import { Queue } from '../../npm/queue.ts';
import { expect, openBlank, test, TINY } from './support.ts';

test.describe('the queue', () => {
  /** A queue whose entries the test ends, and what happened in it. */
  function line(limit = 1) {
    const queue = new Queue(() => limit);
    const log: string[] = [];
    const ends = new Map<string, { resolve: (value: string) => void; reject: (error: Error) => void }>();
    const enter = (
      name: string,
      signal?: AbortSignal,
      onPlace = (ahead: number): void => void log.push(`${name}:${ahead}`),
      beside?: number,
    ): Promise<string> => {
      const work = (): Promise<string> => {
        log.push(`${name} begins`);
        return new Promise((resolve, reject) => ends.set(name, { resolve, reject }));
      };
      const result = queue.run(work, {
        ...(signal ? { signal } : {}),
        onPlace,
        ...(beside === undefined ? {} : { beside }),
      });
      result.then(
        (value) => log.push(`${name} = ${value}`),
        (error) => log.push(`${name} fails ${error.code ?? error.message}`),
      );
      return result;
    };
    /** The events since the last call. */
    const heard = async (): Promise<string[]> => {
      await new Promise((done) => setTimeout(done));
      return log.splice(0);
    };
    const end = (name: string): void => ends.get(name)!.resolve('done');
    const fail = (name: string): void => ends.get(name)!.reject(new Error('broken'));
    return { queue, enter, end, fail, heard };
  }

  test('first come, first served; everybody hears of each new place, in order', async () => {
    const { enter, end, heard } = line();
    for (const name of ['a', 'b', 'c']) void enter(name);
    expect(await heard()).toEqual(['a begins', 'b:1', 'c:2']);
    end('a');
    expect(await heard()).toEqual(['a = done', 'b:0', 'c:1', 'b begins']);
    void enter('d');
    expect(await heard()).toEqual(['d:2']);
    end('b');
    expect(await heard()).toEqual(['b = done', 'c:0', 'd:1', 'c begins']);
    end('c');
    expect(await heard()).toEqual(['c = done', 'd:0', 'd begins']);
    end('d');
    expect(await heard()).toEqual(['d = done']);
    void enter('e');
    expect(await heard()).toEqual(['e begins']);
  });

  for (const [which, gone, places] of [
    ['first', 'b', ['c:1', 'd:2']],
    ['middle', 'c', ['d:2']],
    ['last', 'd', []],
  ] as const) {
    test(`the ${which} of those that wait is aborted: it leaves at once, those behind move up`, async () => {
      const { enter, end, heard } = line();
      const controller = new AbortController();
      for (const name of ['a', 'b', 'c', 'd'])
        void enter(name, name === gone ? controller.signal : undefined).catch(() => {});
      await heard();
      controller.abort();
      expect(await heard()).toEqual([...places, `${gone} fails ABORTED`]);
      for (const name of ['a', 'b', 'c', 'd']) {
        if (name === gone) continue;
        end(name);
        await heard();
      }
      // Nothing is left in the queue.
      void enter('e');
      expect(await heard()).toEqual(['e begins']);
    });
  }

  test('answers run beside each other up to the limit, one of a conversation, and nothing beside anything else', async () => {
    const { enter, end, heard } = line(2);
    for (const [name, beside] of [['a', 0], ['b', 0], ['c', 0], ['d'], ['e', 3], ['f', 3]] as const)
      void enter(name, undefined, undefined, beside);
    expect(await heard()).toEqual(['a begins', 'b begins', 'c:1', 'd:3', 'e:3', 'f:4']);
    const said = [];
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      end(name);
      said.push((await heard()).slice(1));
    }
    expect(said).toEqual([
      ['c:0', 'd:2', 'e:2', 'f:3', 'c begins'],
      ['d:1', 'e:1', 'f:2'],
      ['d:0', 'f:1', 'd begins'],
      ['e:0', 'e begins'],
      ['f:0', 'f begins'],
      [],
    ]);
  });

  test('an abort before is no entry, one after the turn has come is for the work to see', async () => {
    const { enter, end, heard } = line();
    await expect(enter('a', AbortSignal.abort('early'))).rejects.toMatchObject({ code: 'ABORTED', cause: 'early' });
    expect(await heard()).toEqual(['a fails ABORTED']);
    const controller = new AbortController();
    void enter('b', controller.signal);
    controller.abort();
    void enter('c');
    expect(await heard()).toEqual(['b begins', 'c:1']);
    end('b');
    expect(await heard()).toEqual(['b = done', 'c:0', 'c begins']);
  });

  test('what fails, at once or later, stops nobody else', async () => {
    const { queue, enter, fail, end, heard } = line();
    void enter('a').catch(() => {});
    const thrown = queue.run(() => {
      throw new Error('at once');
    });
    void enter('c');
    await heard();
    fail('a');
    await expect(thrown).rejects.toThrow('at once');
    expect(await heard()).toEqual(['a fails broken', 'c:1', 'c:0', 'c begins']);
    end('c');
    expect(await heard()).toEqual(['c = done']);
  });

  test('a closed queue rejects all that wait and all that come; what has its turn ends by itself', async () => {
    const { queue, enter, end, heard } = line();
    for (const name of ['a', 'b', 'c']) void enter(name).catch(() => {});
    await heard();
    queue.close(Object.assign(new Error('gone'), { code: 'DISPOSED' }));
    void enter('d').catch(() => {});
    expect(await heard()).toEqual(['b fails DISPOSED', 'c fails DISPOSED', 'd fails DISPOSED']);
    end('a');
    expect(await heard()).toEqual(['a = done']);
  });

  test('who is told may leave, have others leave, close the queue, or throw', async () => {
    const uncaught: unknown[] = [];
    const listener = (error: unknown): void => void uncaught.push(error);
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', listener);
    try {
      const { enter, end, heard, queue } = line();
      const b = new AbortController();
      const d = new AbortController();
      void enter('a');
      // Aborts itself and d as its turn comes.
      void enter('b', b.signal, (ahead) => {
        if (ahead === 0) for (const one of [d, b]) one.abort();
      }).catch(() => {});
      void enter('c', undefined, () => {
        throw new Error('a listener breaks');
      });
      void enter('d', d.signal).catch(() => {});
      void enter('e');
      expect(await heard()).toEqual(['a begins', 'd:3', 'e:4']);
      end('a');
      expect(await heard()).toEqual(['a = done', 'e:2', 'e:1', 'c begins', 'd fails ABORTED', 'b fails ABORTED']);
      queue.close(new Error('closed'));
      end('c');
      expect(await heard()).toEqual(['e fails closed', 'c = done']);
      expect(uncaught.map((error) => (error as Error).message)).toContain('a listener breaks');
    } finally {
      process.off('uncaughtException', listener);
      for (const other of others) process.on('uncaughtException', other);
    }
  });
});

test.describe('an engine', () => {
  test('serves all its conversations in order, and tells each its place', async ({ tiny }) => {
    const { order, places, asked, errors } = await tiny.evaluate(async () => {
      // The code of OpenAI's shapes is loaded at the first call.
      await engine.fetch('/models');
      const options = { maxTokens: 6, temperature: 0, ignoreEos: true };
      const fork = await engine.fork();
      const order: string[] = [];
      const places: Record<string, unknown[]> = {};
      const run = async (
        name: string,
        place: { generate: typeof engine.generate },
        more: { signal?: AbortSignal } = {},
      ): Promise<string> => {
        const heard: unknown[] = (places[name] = []);
        const onProgress = ({
          phase,
          ahead,
          loaded,
          total,
        }: {
          phase: string;
          ahead?: number;
          loaded: number;
          total: number;
        }): void => void heard.push(phase === 'queue' ? ahead : [phase, loaded, total]);
        const generation = place.generate({ tokens: [57, 56, 78] }, { ...options, reuse: false, onProgress, ...more });
        for await (const _ of generation) if (order.at(-1) !== name) order.push(name);
        return (await generation).text;
      };
      const leaves = new AbortController();
      const a = run('a', engine);
      const b = run('b', fork, { signal: leaves.signal });
      // Too long for the context: fails when its turn comes.
      const c = engine.generate(
        { tokens: Array.from({ length: engine.info.context }, () => 1) },
        { onProgress: ({ phase, ahead }) => void (places.c ??= []).push(phase === 'queue' ? ahead : phase) },
      );
      const again = fork.fork();
      const d = run('d', fork);
      const asked: (number | undefined)[] = [];
      const chat = engine.chat.completions.create(
        { messages: [{ role: 'user', content: 'x' }], max_tokens: 2 },
        { onProgress: ({ phase, ahead }) => void (phase === 'queue' && asked.push(ahead)) },
      );
      const errors = [failure(b), failure(c), failure(chat)];
      leaves.abort();
      await Promise.allSettled([a, b, c, again, d, chat]);
      (await again).dispose();
      fork.dispose();
      await engine.generate({ tokens: [1] }, { maxTokens: 1 });
      return { order, places, asked, errors: await Promise.all(errors) };
    });
    expect(order).toEqual(['a', 'd']);
    expect(places).toEqual({
      a: [['prompt', 3, 3]],
      b: [1],
      c: [2, 1, 0],
      // a, b, c and the fork; b leaves.
      d: [4, 3, 2, 1, 0, ['prompt', 3, 3]],
    });
    expect(asked).toEqual([5, 4, 3, 2, 1, 0]);
    expect(errors.map((error) => error?.code ?? null)).toEqual(['ABORTED', 'CONTEXT_FULL', null]);
  });

  test('several at a time have the texts that they have alone, and those beyond wait', async ({ page, site }) => {
    await openBlank(page, site);
    const { alone, together, choices, places, concurrency, order } = await page.evaluate(async (model) => {
      const engine = await Engine.load({ model, lane: 'exact', concurrency: 2, chunk: 1 });
      const asks = [3, 4, 5].map((seed) => ({ seed, temperature: 0.8, ignoreEos: true, maxTokens: 24, reuse: false }));
      const input = { tokens: [57, 56, 78] };
      const alone: string[] = [];
      for (const ask of asks) alone.push((await engine.generate(input, ask)).text);
      const order: number[] = [];
      const places: number[] = [];
      const onProgress = ({ phase, ahead }: { phase: string; ahead?: number }): void =>
        void (phase === 'queue' && places.push(ahead!));
      const together = await Promise.all(
        asks.map(async (ask, n) => {
          const generation = engine.generate(input, { ...ask, ...(n === 2 ? { onProgress } : {}) });
          for await (const _ of generation) order.push(n);
          return (await generation).text;
        }),
      );
      const answer = await engine.completions.create({ prompt: 'x', n: 2, seed: 1, max_tokens: 4 });
      const { concurrency } = engine.info;
      engine.dispose();
      return { alone, together, choices: answer.choices.length, places, concurrency, order };
    }, TINY);
    expect(together).toEqual(alone);
    expect({ choices, concurrency, places }).toEqual({ choices: 2, concurrency: 2, places: [1, 0] });
    // Two at one time, the third after one of them.
    expect(order.indexOf(1)).toBeLessThan(order.lastIndexOf(0));
    expect(order.indexOf(2)).toBeGreaterThan(Math.min(order.lastIndexOf(0), order.lastIndexOf(1)));
  });

  test('dispose rejects a full queue', async ({ page, site }) => {
    await openBlank(page, site);
    const codes = await page.evaluate(async (model) => {
      const engine = await Engine.load({ model, lane: 'exact' });
      const options = { temperature: 0, ignoreEos: true };
      const fork = await engine.fork();
      const pending = [
        engine.generate({ tokens: [1, 2] }, options),
        fork.generate({ tokens: [1, 2] }, options),
        fork.fork(),
        engine.save('x'),
        engine.generate('x'),
      ].map(failure);
      engine.dispose();
      const later = [
        engine.generate('x'),
        engine.fork(),
        fork.generate('x'),
        engine.save('x'),
        engine.restore('x'),
        engine.forget('x'),
      ].map(failure);
      return (await Promise.all([...pending, ...later])).map((error) => error?.code);
    }, TINY);
    expect(codes).toEqual(Array.from({ length: 11 }, () => 'DISPOSED'));
  });
});
