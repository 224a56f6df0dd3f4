// The object that `generate` returns, on its own: iteration, promise, unhandled failures. No browser is needed.
import { expect, test } from '@playwright/test';
import { MillraceError, packError, unpackError } from '../../npm/errors.ts';
import { Generation } from '../../npm/generation.ts';
import type { GenerateResult } from '../../npm/types.ts';

/** A generation whose pieces and end the test decides. */
function controlled() {
  let emit = (_: string): void => {};
  let resolve = (_: GenerateResult): void => {};
  let reject = (_: unknown): void => {};
  let stops = 0;
  const generation = new Generation((onDelta) => {
    emit = onDelta;
    const result = new Promise<GenerateResult>((a, b) => {
      resolve = a;
      reject = b;
    });
    return { result, stop: () => void (stops += 1) };
  });
  const end = (text: string): void => resolve({ text } as GenerateResult);
  return {
    generation,
    emit: (text: string) => emit(text),
    end,
    fail: (error: unknown) => reject(error),
    stops: () => stops,
  };
}

async function collect(generation: Generation): Promise<string[]> {
  const pieces = [];
  for await (const piece of generation) pieces.push(piece);
  return pieces;
}

test('pieces that came before, while and after iterating began all arrive, to every iterator', async () => {
  const { generation, emit, end } = controlled();
  emit('a');
  const first = collect(generation);
  emit('b');
  await Promise.resolve();
  emit('c');
  end('abc');
  expect(await first).toEqual(['a', 'b', 'c']);
  expect(await collect(generation)).toEqual(['a', 'b', 'c']);
  expect((await generation).text).toBe('abc');
});

test('break stops the generation', async () => {
  const { generation, emit, end, stops } = controlled();
  emit('a');
  for await (const _ of generation) break;
  expect(stops()).toBe(1);
  end('a');
  expect((await generation).text).toBe('a');
});

test('a failure reaches the loop after the pieces before it, and the promise', async () => {
  const { generation, emit, fail } = controlled();
  emit('a');
  const pieces: string[] = [];
  const loop = (async () => {
    for await (const piece of generation) pieces.push(piece);
  })();
  fail(new MillraceError('GPU', 'lost'));
  await expect(loop).rejects.toMatchObject({ code: 'GPU' });
  expect(pieces).toEqual(['a']);
  await expect(generation.catch((error: unknown) => (error as MillraceError).code)).resolves.toBe('GPU');
  let cleaned = false;
  await expect(generation.finally(() => (cleaned = true))).rejects.toMatchObject({ code: 'GPU' });
  expect(cleaned).toBe(true);
});

/** Waits until failures have been reported: several turns of the event loop and timers. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((done) => setImmediate(done));
    await new Promise((done) => setTimeout(done));
  }
}

test('a failure is an unhandled rejection only where nobody iterates or awaits', async () => {
  const unhandled: unknown[] = [];
  const listener = (reason: unknown): void => void unhandled.push(reason);
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', listener);
  try {
    const heard = controlled();
    const loop = collect(heard.generation).catch(() => 'caught');
    heard.fail(new Error('heard'));
    expect(await loop).toBe('caught');
    const alone = controlled();
    alone.fail(new Error('alone'));
    await turns();
    expect(unhandled.map((reason) => (reason as Error).message)).toEqual(['alone']);
  } finally {
    process.off('unhandledRejection', listener);
    for (const other of others) process.on('unhandledRejection', other);
  }
});

/** The reports of a failure, by `consume`'s catch and by the process, where `consume` gets a generation that fails. */
async function reports(
  fails: 'before' | 'after',
  consume: (generation: Generation) => Promise<unknown>,
): Promise<string[]> {
  const told: string[] = [];
  const listener = (): void => void told.push('unhandled');
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', listener);
  try {
    const { generation, fail } = controlled();
    // An invalid request rejects before a listener can be attached.
    if (fails === 'before') fail(new Error('wrong'));
    else setImmediate(() => fail(new Error('wrong')));
    await consume(generation).catch(() => told.push('caught'));
    await turns();
    return told;
  } finally {
    process.off('unhandledRejection', listener);
    for (const other of others) process.on('unhandledRejection', other);
  }
}

const CONSUMERS: [string, (generation: Generation) => Promise<unknown>][] = [
  ['await', async (generation) => await generation],
  [
    'await a moment later',
    async (generation) => {
      await Promise.resolve();
      return await generation;
    },
  ],
  ['then', (generation) => generation.then(() => {})],
  ['catch', (generation) => generation.catch((error) => Promise.reject(error))],
  ['finally', (generation) => generation.finally(() => {})],
  ['for await', (generation) => collect(generation)],
  [
    'for await, and then await',
    async (generation) => {
      await collect(generation).catch(() => {});
      return await generation;
    },
  ],
  ['Promise.all', (generation) => Promise.all([generation])],
  ['Promise.race', (generation) => Promise.race([generation])],
  ['returned from an async function', (generation) => (async () => generation)()],
];

for (const fails of ['before', 'after'] as const)
  for (const [name, consume] of CONSUMERS)
    test(`a failure ${fails} it is taken is reported once: ${name}`, async () => {
      expect(await reports(fails, consume)).toEqual(['caught']);
    });

test('a failure that nobody takes is reported once, also where an iterator was made and never asked', async () => {
  for (const fails of ['before', 'after'] as const) {
    expect(await reports(fails, async () => {})).toEqual(['unhandled']);
    expect(await reports(fails, async (generation) => void generation[Symbol.asyncIterator]())).toEqual(['unhandled']);
  }
});

test('returned from an async function it is awaited: the caller gets the result; wrapped, or from a plain function, the stream', async () => {
  const one = controlled();
  const awaited = (async () => one.generation)();
  one.emit('a');
  one.end('a');
  const result = await awaited;
  expect(result.text).toBe('a');
  expect(Symbol.asyncIterator in result).toBe(false);

  const two = controlled();
  two.emit('b');
  two.end('b');
  const wrapped = await (async () => ({ stream: two.generation }))();
  expect(await collect(wrapped.stream)).toEqual(['b']);
  const plain = (() => two.generation)();
  expect(await collect(plain)).toEqual(['b']);
});

test('an error survives structured clone whole', () => {
  const error = new MillraceError('BAD_MODEL', 'field x', {
    data: { field: 'x', at: 12 },
    cause: new MillraceError('NETWORK', 'down', { cause: new TypeError('fetch') }),
  });
  const back = unpackError(structuredClone(packError(error)));
  expect(back).toBeInstanceOf(MillraceError);
  expect(back).toMatchObject({
    code: 'BAD_MODEL',
    message: 'field x',
    data: { field: 'x', at: 12 },
    name: 'MillraceError',
    stack: error.stack,
  });
  expect(back.cause).toBeInstanceOf(MillraceError);
  expect(back.cause).toMatchObject({ code: 'NETWORK', cause: { name: 'TypeError', message: 'fetch' } });
});

test('what is no error of ours becomes INTERNAL and keeps its words', () => {
  expect(unpackError(packError(new RangeError('too far')))).toMatchObject({
    code: 'INTERNAL',
    message: 'unexpected RangeError: too far',
  });
  expect(unpackError(packError('plain text'))).toMatchObject({
    code: 'INTERNAL',
    message: 'unexpected Error: plain text',
  });
  expect(unpackError(packError(Object.assign(new Error('x'), { code: 'ENOENT', data: { f: () => 1 } }))).code).toBe(
    'INTERNAL',
  );
});
