// Errors: the codes and their document, and the fields that survive the transfer between a Worker and the page.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { MillraceError, packError, unpackError } from '../../npm/errors.ts';
import { bytesOf, expect, root, test, TINY } from './support.ts';

const text = (path: string): string => readFileSync(join(root, path), 'utf8');
const all = (pattern: RegExp, source: string): string[] => [...source.matchAll(pattern)].map((match) => match[1]!);

test('docs/ERRORS.md lists exactly the codes of Rust and of JavaScript', () => {
  const rust = all(/Self::\w+ => "([A-Z_]+)"/g, text('crates/core/src/error.rs'));
  const npm = text('npm/errors.ts');
  const union = all(/^ {2}\| '([A-Z_]+)'/gm, npm);
  const known = all(/'([A-Z_]+)'/g, /new Set<ErrorCode>\(\[([\s\S]*?)\]\)/.exec(npm)![1]!);
  const documented = all(/^## ([A-Z_]+)$/gm, text('docs/ERRORS.md'));
  expect(rust.length).toBeGreaterThan(10);
  expect(union).toEqual(rust);
  expect(known).toEqual(rust);
  expect(documented).toEqual(rust);
  for (const [index, section] of text('docs/ERRORS.md')
    .split(/^## [A-Z_]+$/m)
    .slice(1)
    .entries()) {
    for (const part of ['**When.**', '**What to do.**', '**`data`.**'])
      expect(section, `${documented[index]} says ${part}`).toContain(part);
  }
  expect(text('README.md')).toContain('docs/ERRORS.md');
});

const cross = (error: unknown): MillraceError => unpackError(structuredClone(packError(error)));

test.describe('across structured clone', () => {
  test('what cannot be cloned is text, and nothing beside it is lost', () => {
    class Own {
      x = 1;
      toString(): string {
        return 'an Own';
      }
    }
    const data = {
      n: 1,
      f: function named() {},
      list: [1, () => 2, { s: Symbol('s') }],
      nested: { deep: { g: () => 3, ok: 'yes' } },
      map: new Map([[1, { a: 2 }]]),
      own: [new Own(), () => 4],
      bytes: new Uint8Array([1, 2]),
    };
    const back = cross(new MillraceError('STORAGE', 'full', { data }));
    expect(back.data).toEqual({
      n: 1,
      f: expect.stringContaining('named'),
      list: [1, '() => 2', { s: 'Symbol(s)' }],
      nested: { deep: { g: '() => 3', ok: 'yes' } },
      map: new Map([[1, { a: 2 }]]),
      own: [{ x: 1 }, '() => 4'],
      bytes: new Uint8Array([1, 2]),
    });
  });

  test('causes that are no errors, and those of others, stay what they are', () => {
    const reason = { whose: 'the caller', n: [1, 2] };
    expect(cross(new MillraceError('ABORTED', 'x', { cause: reason })).cause).toEqual(reason);
    expect(cross(new MillraceError('ABORTED', 'x', { cause: { f: () => 1 } })).cause).toEqual({ f: '() => 1' });
    expect(cross(new MillraceError('ABORTED', 'x', { cause: 'just text' })).cause).toBe('just text');
    const dom = cross(
      new MillraceError('STORAGE', 'x', { cause: new DOMException('too much', 'QuotaExceededError') }),
    ).cause;
    expect(dom).toBeInstanceOf(DOMException);
    expect(dom).toMatchObject({ name: 'QuotaExceededError', message: 'too much' });
    const type = cross(
      new MillraceError('NETWORK', 'x', {
        cause: new TypeError('fetch', {
          cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED', port: 9 }),
        }),
      }),
    ).cause as Error;
    expect(type).toBeInstanceOf(TypeError);
    expect(type.cause).toMatchObject({ name: 'Error', message: 'refused', code: 'ECONNREFUSED', port: 9 });
  });

  test('long and circular chains end in text', () => {
    const error: Error = new Error('round');
    error.cause = error;
    let length = 0;
    let last: unknown = cross(new MillraceError('GPU', 'x', { cause: error }));
    while (last instanceof Error) {
      last = last.cause;
      length += 1;
    }
    expect(length).toBe(9);
    expect(last).toBe('Error: round');
    const loop: Record<string, unknown> = { f: () => 1 };
    loop.self = loop;
    expect(JSON.stringify(cross(new MillraceError('GPU', 'x', { data: { loop } })).data)).toContain('() => 1');
  });

  test('what was thrown and is no error of ours is INTERNAL, with what it was as cause', () => {
    const range = cross(new RangeError('too far'));
    expect(range.code).toBe('INTERNAL');
    expect(range.cause).toBeInstanceOf(RangeError);
    expect(cross({ odd: true })).toMatchObject({
      code: 'INTERNAL',
      message: 'unexpected Error: {"odd":true}',
      cause: { cause: { odd: true } },
    });
  });
});

test('from a real Worker', async ({ blank, site }) => {
  const { code } = transformSync(text('npm/errors.ts'), { loader: 'ts', format: 'esm' });
  const script =
    (body: string) =>
    (_: unknown, response: import('node:http').ServerResponse): void =>
      void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(body);
  site.routes.set('/errors.js', script(code));
  site.routes.set(
    '/throws.js',
    script(`
      import { MillraceError, packError } from '/errors.js';
      const controller = new AbortController();
      controller.abort({ whose: 'the caller' });
      const quota = new DOMException('too much', 'QuotaExceededError');
      const { port1 } = new MessageChannel();
      const inner = new MillraceError('NETWORK', 'down', { cause: new TypeError('fetch'), data: { status: 503 } });
      for (const error of [
        new MillraceError('BAD_MODEL', 'field x', { cause: inner, data: { field: 'x', at: [12, { deep: 'yes' }], port: port1 } }),
        new MillraceError('ABORTED', 'stopped', { cause: controller.signal.reason }),
        new MillraceError('STORAGE', 'full', { cause: quota }),
      ]) postMessage(packError(error));`),
  );
  const seen = await blank.evaluate(async () => {
    const { unpackError, MillraceError } = (await import('/errors.js' as string)) as {
      unpackError: (packed: unknown) => MillraceError;
      MillraceError: typeof Error;
    };
    const errors: MillraceError[] = [];
    await new Promise<void>((done) => {
      const worker = new Worker('/throws.js', { type: 'module' });
      worker.onmessage = ({ data }) => errors.push(unpackError(data)) === 3 && done();
    });
    const [chain, abort, quota] = errors as [MillraceError, MillraceError, MillraceError];
    const inner = chain.cause as MillraceError;
    return {
      chain: [
        chain instanceof MillraceError,
        chain.code,
        chain.message,
        chain.data,
        chain.stack?.includes('throws.js'),
      ],
      inner: [
        inner instanceof MillraceError,
        inner.code,
        inner.data,
        inner.cause instanceof TypeError,
        (inner.cause as Error).message,
      ],
      abort: [abort.name, abort.code, abort.cause],
      quota: [quota.cause instanceof DOMException, (quota.cause as Error).name],
    };
  });
  expect(seen).toEqual({
    chain: [
      true,
      'BAD_MODEL',
      'field x',
      { field: 'x', at: [12, { deep: 'yes' }], port: '[object MessagePort]' },
      true,
    ],
    inner: [true, 'NETWORK', { status: 503 }, true, 'fetch'],
    abort: ['AbortError', 'ABORTED', { whose: 'the caller' }],
    quota: [true, 'QuotaExceededError'],
  });
});

test('of the engine: the caller’s own reason, what the Worker failed of, and what cannot be sent there', async ({
  tiny,
  blank,
  site,
}) => {
  const own = await tiny.evaluate(async () => {
    const reason = { whose: 'mine' };
    let begun = (): void => {};
    const begins = new Promise<void>((done) => (begun = done));
    const caught = async (
      start: (signal: AbortSignal) => PromiseLike<unknown>,
      when: PromiseLike<void>,
    ): Promise<unknown[]> => {
      const controller = new AbortController();
      const work = start(controller.signal);
      void when.then(() => controller.abort(reason));
      try {
        return [await work];
      } catch (error) {
        const { code, cause } = error as MillraceError;
        return [code, cause === reason];
      }
    };
    const running = caught(
      (signal) => engine.generate({ tokens: [1, 2] }, { signal, ignoreEos: true, onTokens: begun }),
      begins,
    );
    const queued = caught((signal) => engine.generate({ tokens: [1, 2] }, { signal, ignoreEos: true }), begins);
    const results = [
      await running,
      await queued,
      // After the request was posted, and before the Worker can have answered.
      await caught(
        (signal) => engine.completions.create({ prompt: 'x', max_tokens: 400 }, { signal }),
        new Promise((done) => setTimeout(done)),
      ),
    ];
    const unsendable = await failure(
      engine.generate([{ role: 'user', content: 'x' }], { templateOptions: { f: () => 1 } }),
    );
    const { tokens } = await engine.generate({ tokens: [1] }, { maxTokens: 2, ignoreEos: true });
    return { results, unsendable, after: tokens.length };
  });
  expect(own.results).toEqual([
    ['ABORTED', true],
    ['ABORTED', true],
    ['ABORTED', true],
  ]);
  expect(own.unsendable).toMatchObject({
    code: 'BAD_OPTION',
    ours: true,
    message: expect.stringContaining('pass plain data'),
  });
  expect(own.after).toBe(2);
  site.routes.set(
    '/pkg/millrace_bg.wasm',
    (_, response) => void response.writeHead(200, { 'Content-Type': 'application/wasm' }).end(bytesOf('README.md')),
  );
  const cause = await blank.evaluate(async (model) => {
    const error = await Engine.load({ model }).catch((error: unknown) => error as MillraceError);
    const { name, message } = (error as MillraceError).cause as Error;
    return { name, message, native: (error as MillraceError).cause instanceof Error };
  }, TINY);
  expect(cause).toMatchObject({
    native: true,
    name: expect.stringMatching(/CompileError/),
    message: expect.stringContaining('magic'),
  });
});
