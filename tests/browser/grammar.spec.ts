// Constrained answers by the engine itself: two modules of WebAssembly in one Worker, and the kernels.
import { expect, openBlank, test } from './support.ts';

test('schemas, expressions, choices and calls hold; what cannot be enforced says where', async ({ page, site }) => {
  test.setTimeout(300_000);
  await openBlank(page, site);
  const fetched: string[] = [];
  page.on('request', (request) => fetched.push(new URL(request.url()).pathname));
  const seen = await page.evaluate(async () => {
    const { Engine, MillraceError } = (await import('/pkg/index.js' as string)) as typeof import('../../npm/index.ts');
    const engine = await Engine.load({ model: '/models/box.gguf', lane: 'exact', cache: false, tune: false });
    const before = performance.getEntriesByType('resource').length;
    const messages = [{ role: 'user' as const, content: 'Tell me about a person.' }];
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 8 },
        age: { type: 'integer', minimum: 1, maximum: 99 },
        kind: { enum: ['student', 'teacher'] },
      },
      required: ['name', 'age', 'kind'],
      additionalProperties: false,
    };
    const hot = { temperature: 1.5, seed: 3, maxTokens: 300 };
    const texts: string[] = [];
    const grammars = [];
    for (const asked of [
      { schema },
      { regex: '\\d{3}-[a-f]{4}' },
      { choice: ['yes', 'no'] },
      // The same grammar again, from the cache.
      { regex: '\\d{3}-[a-f]{4}', temperature: 0 },
    ]) {
      const { text, grammar, finish_reason: reason } = await engine.generate(messages, { ...hot, ...asked });
      texts.push(`${reason} ${text}`);
      grammars.push(grammar);
    }
    const tools = [
      {
        type: 'function',
        function: {
          name: 'set_timer',
          description: 'Start a timer.',
          parameters: {
            type: 'object',
            properties: { minutes: { type: 'integer', minimum: 1, maximum: 60 } },
            required: ['minutes'],
          },
        },
      },
    ];
    // The question does not ask for a timer: the call is forced.
    const call = await engine.generate([{ role: 'user', content: 'Hello!' }], {
      ...hot,
      tools,
      toolChoice: 'required',
    });
    const failures: [string, unknown, string][] = [];
    const bad = { type: 'object', properties: { ids: { type: 'array', uniqueItems: true } } };
    for (const asked of [{ schema: bad }, { schema: { type: 7 } }, { regex: '(' }, { toolChoice: 'required' }])
      try {
        await engine.generate(messages, asked as object);
      } catch (error) {
        if (error instanceof MillraceError) failures.push([error.code, error.data, error.message]);
      }
    const compiled = await engine.compileSchema(schema);
    const lenient = await engine.compileSchema(bad, { lenient: true });
    const refused = await engine.compileSchema(bad).catch((error) => [error.code, error.data]);
    engine.dispose();
    return { texts, grammars, call: call.message, failures, compiled, lenient, refused, before };
  });
  const [person, pattern, choice, again] = seen.texts as [string, string, string, string];
  const value = JSON.parse(person.replace(/^stop /, ''));
  expect(Object.keys(value)).toEqual(['name', 'age', 'kind']);
  expect(['student', 'teacher']).toContain(value.kind);
  expect(pattern).toMatch(/^stop \d{3}-[a-f]{4}$/);
  expect(choice).toMatch(/^stop (yes|no)$/);
  expect(again).toMatch(/^stop \d{3}-[a-f]{4}$/);
  expect(seen.grammars[0]).toMatchObject({ states: expect.any(Number), warnings: [] });
  expect(seen.grammars[0]!.ms).toBeGreaterThan(0);
  expect(seen.grammars[3]!.ms).toBe(0);
  const [{ function: called }] = seen.call!.tool_calls as [{ function: { name: string; arguments: unknown } }];
  expect(called.name).toBe('set_timer');
  const args = typeof called.arguments === 'string' ? JSON.parse(called.arguments) : called.arguments;
  expect(args.minutes).toBeGreaterThanOrEqual(1);
  expect(args.minutes).toBeLessThanOrEqual(60);
  expect(seen.failures).toMatchObject(
    [
      ['UNSUPPORTED_SCHEMA', { pointer: '/properties/ids', keyword: 'uniqueItems' }, /lenient/],
      ['INVALID_SCHEMA', { keyword: 'type' }, /type/],
      ['INVALID_SCHEMA', {}, /.+/],
      ['BAD_OPTION', {}, /tools/],
    ].map(([code, data, message]) => [code, data, expect.stringMatching(message as RegExp)]),
  );
  expect(seen.compiled).toMatchObject({ warnings: [] });
  expect(seen.lenient.warnings).toMatchObject([{ pointer: '/properties/ids', keyword: 'uniqueItems' }]);
  expect(seen.refused).toMatchObject(['UNSUPPORTED_SCHEMA', { pointer: '/properties/ids' }]);
  // Fetched once, and only for constrained answers.
  expect(fetched.filter((path) => path.endsWith('millrace_grammar_bg.wasm'))).toHaveLength(1);
  expect(fetched.indexOf('/pkg/millrace_grammar_bg.wasm')).toBeGreaterThan(fetched.indexOf('/models/box.gguf'));
});
