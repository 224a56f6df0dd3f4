// `engine.run` on a stand-in engine: calls, results, errors of tools, limits, ends. No browser is needed.
import { expect, test } from '@playwright/test';
import { MillraceError } from '../../npm/errors.ts';
import type { RunEvent, RunOptions, ToolDefinition } from '../../npm/run.ts';
import type { AnswerPart, Message } from '../../npm/types.ts';
import { callOf, fake, thought } from './fake.ts';

const tool = (name: string): ToolDefinition => ({
  type: 'function',
  function: { name, description: `The ${name}.`, parameters: { type: 'object', properties: {} } },
});
const TOOLS = [tool('weather'), tool('time')];
const QUESTION: Message[] = [{ role: 'user', content: 'What is it like in Oslo?' }];
const execute = {
  weather: async ({ city }: { city: string }) => ({ city, degrees: 7 }),
  time: () => '12:00',
};
const OPTIONS: RunOptions = { messages: QUESTION, tools: TOOLS, execute };

/** Two calls in one answer. */
const TWO: AnswerPart[][] = [
  [{ type: 'tool_call', index: 0, id: 'a', name: 'weather' }],
  [{ type: 'arguments', index: 0, text: '{"city":"Oslo"}' }],
  [{ type: 'tool_call_end', index: 0 }],
  [{ type: 'tool_call', index: 1, id: 'b', name: 'time' }],
  [{ type: 'arguments', index: 1, text: '{}' }],
  [{ type: 'tool_call_end', index: 1 }],
];
const called = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});

test('two tools, two rounds: calls of one answer at once, results in their order, then the answer', async () => {
  const { engine, asked } = fake([[thought('hm'), ...TWO], callOf('time', '{}'), ['It is ', 'cold.']]);
  // The first call ends after the second, so that both must run concurrently.
  let begun = (): void => {};
  let ended = (): void => {};
  const [firstBegun, secondEnded] = [new Promise<void>((go) => (begun = go)), new Promise<void>((go) => (ended = go))];
  const slow = {
    weather: async (args: { city: string }) => {
      begun();
      await secondEnded;
      return execute.weather(args);
    },
    time: async () => {
      await firstBegun;
      setImmediate(ended);
      return '12:00';
    },
  };
  const run = engine.run({ ...OPTIONS, execute: slow, temperature: 0.5 });
  const events: RunEvent[] = [];
  for await (const event of run) events.push(event);
  const { message, messages, text, rounds, finish_reason, results } = await run;
  expect({ text, rounds, finish_reason, answers: results.length }).toEqual({
    text: 'It is cold.',
    rounds: 3,
    finish_reason: 'stop',
    answers: 3,
  });
  expect(messages).toEqual([
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'hm',
      tool_calls: [called('a', 'weather', '{"city":"Oslo"}'), called('b', 'time', '{}')],
    },
    { role: 'tool', tool_call_id: 'a', name: 'weather', content: '{"city":"Oslo","degrees":7}' },
    { role: 'tool', tool_call_id: 'b', name: 'time', content: '12:00' },
    { role: 'assistant', content: null, tool_calls: [called('c1', 'time', '{}')] },
    { role: 'tool', tool_call_id: 'c1', name: 'time', content: '12:00' },
    { role: 'assistant', content: 'It is cold.' },
  ]);
  expect(message).toEqual(messages.at(-1));
  // Each request has the conversation so far, and the caller's list is not changed.
  expect(asked.map(({ input }) => (input as Message[]).length)).toEqual([1, 4, 6]);
  expect(asked.every(({ options }) => options.tools === TOOLS && options.temperature === 0.5)).toBe(true);
  expect(QUESTION).toHaveLength(1);
  const kinds = events.map(({ type, round }) => `${round} ${type}`);
  expect(kinds.slice(0, 8)).toEqual([
    '1 reasoning',
    '1 tool_call',
    '1 arguments',
    '1 tool_call_end',
    '1 tool_call',
    '1 arguments',
    '1 tool_call_end',
    '1 message',
  ]);
  // Results are reported as they complete, messages are in the order of the calls.
  expect(events.filter(({ type }) => type === 'tool_result').slice(0, 2)).toMatchObject([
    { id: 'b', name: 'time', content: '12:00', failed: false, round: 1 },
    { id: 'a', name: 'weather', failed: false, round: 1 },
  ]);
  expect(kinds.slice(-3)).toEqual(['3 content', '3 content', '3 message']);
});

test('what a tool throws, and arguments that are no object, go to the model', async () => {
  const { engine } = fake([callOf('weather', '{"city":'), callOf('time', '[]'), callOf('time', '{}'), ['Sorry.']]);
  const seen: unknown[] = [];
  const run = engine.run({
    ...OPTIONS,
    execute: (args, { id, name, messages }) => {
      seen.push({ args, id, name, length: messages.length });
      throw new Error('the clock is broken');
    },
  });
  const { messages, text } = await run;
  expect(text).toBe('Sorry.');
  expect(messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
    expect.stringMatching(/^error: the arguments are no JSON: /),
    'error: the arguments are no JSON object',
    'error: the clock is broken',
  ]);
  expect(seen).toEqual([{ args: {}, id: 'c1', name: 'time', length: 6 }]);
});

test('values that are no text go as JSON, nothing as null', async () => {
  for (const [value, content] of [
    [{ a: [1, null] }, '{"a":[1,null]}'],
    [undefined, 'null'],
    [7, '7'],
    ['', ''],
  ] as const) {
    const { engine } = fake([callOf('time', '{}'), ['.']]);
    const { messages } = await engine.run({ ...OPTIONS, execute: () => value });
    expect(messages[1]).toEqual({ role: 'tool', tool_call_id: 'c1', name: 'time', content });
  }
});

test('pictures that a tool returns are parts of its message', async () => {
  const blob = new Blob([new Uint8Array([137, 80, 78, 71])], { type: 'image/png' });
  const pixels = { width: 1, height: 1, data: new Uint8Array(4) };
  const url = 'https://example.org/mill.jpg';
  const image = (image: unknown) => ({ type: 'image', image });
  for (const [value, parts, content] of [
    [blob, [image(blob)], ''],
    [image(url), [image(url)], ''],
    [{ type: 'image', data: 'iVBORw==', mimeType: 'image/webp' }, [image('data:image/webp;base64,iVBORw==')], ''],
    [pixels, [image(pixels)], ''],
    [['A mill.', blob], [{ type: 'text', text: 'A mill.' }, image(blob)], 'A mill.'],
    [
      { content: [{ type: 'text', text: 'A' }, { type: 'image', data: 'iVBORw==', mimeType: 'image/png' }, 'B'] },
      [{ type: 'text', text: 'A' }, image('data:image/png;base64,iVBORw=='), { type: 'text', text: 'B' }],
      'A\nB',
    ],
  ] as const) {
    const { engine, asked } = fake([callOf('time', '{}'), ['.']]);
    const run = engine.run({ ...OPTIONS, execute: () => value });
    const events: RunEvent[] = [];
    for await (const event of run) events.push(event);
    const message = { role: 'tool', tool_call_id: 'c1', name: 'time', content: parts };
    expect((await run).messages[1]).toEqual(message);
    expect((asked[1]!.input as Message[]).at(-1)).toEqual(message);
    expect(events.find(({ type }) => type === 'tool_result')).toMatchObject({ content, parts, failed: false });
  }
  // Files that are no pictures, objects with a size, lists of texts are serialized as JSON.
  for (const [value, content] of [
    [new Blob(['a'], { type: 'text/plain' }), '{}'],
    [{ width: 3, height: 4 }, '{"width":3,"height":4}'],
    [['a', 'b'], '["a","b"]'],
    [{ type: 'image', name: 'mill' }, '{"type":"image","name":"mill"}'],
  ] as const) {
    const { engine } = fake([callOf('time', '{}'), ['.']]);
    expect((await engine.run({ ...OPTIONS, execute: () => value })).messages[1]!.content).toBe(content);
  }
});

test('the limit of rounds ends it, with a result for each call', async () => {
  const { engine, asked } = fake([callOf('time', '{}'), callOf('time', '{}'), callOf('time', '{}')]);
  const { finish_reason, messages, rounds } = await engine.run({ ...OPTIONS, maxRounds: 2 });
  expect({ finish_reason, rounds, asked: asked.length }).toEqual({ finish_reason: 'rounds', rounds: 2, asked: 2 });
  expect(messages.at(-1)).toMatchObject({
    role: 'tool',
    tool_call_id: 'c1',
    content: expect.stringContaining('limit of rounds'),
  });
});

test('an answer that is cut off executes nothing', async () => {
  const { engine, asked } = fake([callOf('time', '{}')]);
  const ran: string[] = [];
  // The stand-in's reason is length at the limit of tokens.
  const { finish_reason, messages } = await engine.run({
    ...OPTIONS,
    execute: () => void ran.push('time'),
    maxTokens: 3,
  });
  expect({ finish_reason, asked: asked.length, ran }).toEqual({ finish_reason: 'length', asked: 1, ran: [] });
  expect(messages.at(-1)).toMatchObject({ role: 'tool', content: expect.stringContaining('cut off') });
});

test('a signal ends it while the model answers and while a tool works; what there was comes with the error', async () => {
  const reason = new Error('the user left');
  for (const when of ['answer', 'tool'] as const) {
    const { engine, asked } = fake([callOf('time', '{}'), ['It is ', 'late', '.']]);
    const controller = new AbortController();
    let told: AbortSignal | null = null;
    const run = engine.run({
      ...OPTIONS,
      signal: controller.signal,
      execute: (_, { signal }) => {
        told = signal;
        if (when === 'answer') return '12:00';
        setImmediate(() => controller.abort(reason));
        // Ignores the abort.
        return new Promise(() => {});
      },
      onTokens: ({ text }) => text === 'late' && controller.abort(reason),
    });
    const error = await run.catch((error: unknown) => error);
    expect(error).toBeInstanceOf(MillraceError);
    expect(error).toMatchObject({ code: 'ABORTED', cause: reason });
    const { messages, finish_reason } = (error as MillraceError).data.result as Awaited<typeof run>;
    expect(finish_reason).toBe('abort');
    expect(told!.aborted).toBe(true);
    const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
    if (when === 'tool') expect(results).toEqual(['error: not executed: the run was stopped']);
    else expect(messages.at(-1)).toEqual({ role: 'assistant', content: 'It is late' });
    expect(asked).toHaveLength(when === 'tool' ? 1 : 2);
  }
});

test('leaving the loop, and stop(), end it with what there is', async () => {
  const { engine, stopped } = fake([callOf('time', '{}'), ['It ', 'is ', 'late.']]);
  const run = engine.run(OPTIONS);
  for await (const event of run) if (event.type === 'content') break;
  const { finish_reason, message } = await run;
  expect(finish_reason).toBe('abort');
  expect(message.content).toMatch(/^It /);
  expect(stopped()).toBe(1);

  const waiting = fake([callOf('time', '{}')]);
  const second = waiting.engine.run({
    ...OPTIONS,
    execute: () => {
      setImmediate(() => second.stop());
      return new Promise(() => {});
    },
  });
  expect((await second).finish_reason).toBe('abort');
});

test('calls are forced in the first round alone', async () => {
  for (const [given, then] of [
    ['required', 'auto'],
    ['time', 'auto'],
    ['none', 'none'],
    ['auto', 'auto'],
    [undefined, undefined],
  ] as const) {
    const { engine, asked } = fake([callOf('time', '{}'), callOf('time', '{}'), ['Late.']]);
    const { text } = await engine.run({ ...OPTIONS, ...(given ? { toolChoice: given } : {}) });
    expect(text).toBe('Late.');
    expect(asked.map(({ options }) => options.toolChoice)).toEqual([given, then, then]);
  }
});

test('wrong options are errors by name, before the model is asked', async () => {
  const { engine, asked } = fake([]);
  const wrong: [unknown, string][] = [
    [undefined, 'needs an object'],
    [{ ...OPTIONS, messages: 'Hello' }, 'messages must be a list'],
    [{ ...OPTIONS, tools: undefined }, 'tools must be a list'],
    [{ ...OPTIONS, tools: [{}] }, 'tools[0]'],
    [{ ...OPTIONS, execute: undefined }, 'execute must be'],
    [{ ...OPTIONS, execute: { weather: execute.weather } }, '"time"'],
    [{ ...OPTIONS, tools: [tool('toString')], execute: {} }, '"toString"'],
    [{ ...OPTIONS, maxRounds: 0 }, 'maxRounds'],
  ];
  for (const [options, word] of wrong) {
    const error = await engine.run(options as RunOptions).catch((error: unknown) => error);
    expect(error, word).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining(word) });
  }
  expect(asked).toHaveLength(0);
});
