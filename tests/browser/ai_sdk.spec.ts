// The AI SDK's own functions over millrace/ai-sdk, on a stand-in engine. tests/package runs them in a page, on a real
// one.
import { expect, test } from '@playwright/test';
import {
  embedMany,
  generateObject,
  generateText,
  jsonSchema,
  Output,
  rerank,
  stepCountIs,
  streamObject,
  streamText,
  tool,
} from 'ai';
import { z } from 'zod';
import { millrace, millraceEmbedding, millraceReranking } from '../../npm/ai-sdk.ts';
import { MillraceError } from '../../npm/errors.ts';
import type { Engine, Message } from '../../npm/index.ts';
import { callOf, collect, Endless, fake, GRAMMAR, thought } from './fake.ts';

const time = tool({
  description: 'The time in a zone',
  inputSchema: z.object({ zone: z.string() }),
  execute: async ({ zone }) => ({ zone, now: '12:00' }),
});
const CALL = ['Let me see.', ...callOf('time', '{"zone"', ':"UTC"}')];

test('generateText: settings, thoughts, usage, timings', async () => {
  const { engine, asked } = fake([[[], thought('so'), [], 'Hi', '!']]);
  const result = await generateText({
    model: millrace(engine),
    instructions: 'Be brief.',
    prompt: 'Hello',
    maxOutputTokens: 9,
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    seed: 7,
    stopSequences: ['x'],
    providerOptions: { millrace: { min_p: 0.1 }, other: { unknown: true } },
  });
  expect(result).toMatchObject({
    text: 'Hi!',
    reasoningText: 'so',
    finishReason: 'stop',
    usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
  });
  expect(result.usage.inputTokenDetails).toMatchObject({ cacheReadTokens: 4, noCacheTokens: 6 });
  expect(result.providerMetadata).toMatchObject({ millrace: { timings: { decode_tok_s: 5 } } });
  expect(result.warnings).toEqual([]);
  expect(result.response.modelId).toBe('Test 1B');
  expect(asked[0]!.input).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
  ]);
  expect(asked[0]!.options).toMatchObject({
    maxTokens: 9,
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    minP: 0.1,
    seed: 7,
    stop: ['x'],
  });
});

test('streamText: blocks of text and thought, and the end by length', async () => {
  const { engine } = fake([[[], thought('so'), [], 'Hi', '!']]);
  const { stream } = streamText({ model: millrace(engine), prompt: 'Hello', maxOutputTokens: 5 });
  const parts: string[] = [];
  for await (const part of stream) {
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') parts.push(`${part.type} ${part.text}`);
    else if (part.type === 'finish') parts.push(`finish ${part.finishReason} ${part.totalUsage.outputTokens}`);
    else parts.push(part.type);
  }
  expect(parts).toEqual([
    'start',
    'start-step',
    'reasoning-start',
    'reasoning-delta so',
    'reasoning-end',
    'text-start',
    'text-delta Hi',
    'text-delta !',
    'text-end',
    'finish-step',
    'finish length 5',
  ]);
});

test('a tool is called, and its result goes back to the model, whole and streamed', async () => {
  const { engine, asked } = fake([CALL, ['It is 12:00.'], CALL, ['It is 12:00.']]);
  const options = { model: millrace(engine), prompt: 'What time is it?', tools: { time }, stopWhen: stepCountIs(3) };
  const whole = await generateText(options);
  expect(whole.text).toBe('It is 12:00.');
  expect(whole.steps[0]).toMatchObject({
    finishReason: 'tool-calls',
    toolCalls: [{ toolName: 'time', input: { zone: 'UTC' } }],
    toolResults: [{ output: { now: '12:00' } }],
  });
  const streamed = streamText(options);
  expect(await streamed.text).toBe('It is 12:00.');
  for (const [first, second] of [asked.slice(0, 2), asked.slice(2)]) {
    expect(first!.options.tools).toMatchObject([
      {
        type: 'function',
        function: { name: 'time', parameters: { type: 'object', properties: { zone: { type: 'string' } } } },
      },
    ]);
    const id = expect.any(String);
    expect(second!.input).toEqual([
      { role: 'user', content: 'What time is it?' },
      {
        role: 'assistant',
        content: 'Let me see.',
        tool_calls: [{ id, type: 'function', function: { name: 'time', arguments: '{"zone":"UTC"}' } }],
      },
      { role: 'tool', tool_call_id: id, name: 'time', content: '{"zone":"UTC","now":"12:00"}' },
    ]);
    const [, called, answered] = second!.input as unknown as { tool_calls?: { id: string }[]; tool_call_id?: string }[];
    expect(answered!.tool_call_id).toBe(called!.tool_calls![0]!.id);
  }
});

const Verdict = z.object({ good: z.boolean(), why: z.enum(['taste', 'price']) });
const VERDICT = ['{"good":', 'true,', '"why":"taste"}'];
const object = { good: true, why: 'taste' };

test('objects by zod: whole, streamed, as output of texts; lists, choices, any JSON', async () => {
  const list = ['{"elements":[', '{"good":true,"why":"taste"}', ']}'];
  const { engine, asked } = fake([VERDICT, VERDICT, VERDICT, VERDICT, list, list, ['{"result":"no"}'], VERDICT]);
  const ask = { model: millrace(engine), prompt: 'Is it good?' };
  const whole = await generateObject({ ...ask, schema: Verdict, schemaName: 'verdict', schemaDescription: 'Of it.' });
  expect(whole).toMatchObject({ object, finishReason: 'stop', warnings: [] });
  expect(whole.providerMetadata).toMatchObject({ millrace: { grammar: GRAMMAR } });
  const partial: unknown[] = [];
  const streamed = streamObject({ ...ask, schema: Verdict });
  for await (const one of streamed.partialObjectStream) partial.push(one);
  expect(await streamed.object).toEqual(object);
  expect(partial).toEqual([{}, { good: true }, object]);
  const output = Output.object({ schema: Verdict });
  expect((await generateText({ ...ask, output })).output).toEqual(object);
  const text = streamText({ ...ask, output });
  expect(await text.output).toEqual(object);
  const elements = Output.array({ element: Verdict });
  expect((await generateText({ ...ask, output: elements })).output).toEqual([object]);
  const found: unknown[] = [];
  for await (const one of streamText({ ...ask, output: elements }).elementStream) found.push(one);
  expect(found).toEqual([object]);
  expect((await generateText({ ...ask, output: Output.choice({ options: ['yes', 'no'] }) })).output).toBe('no');
  expect((await generateText({ ...ask, output: Output.json() })).output).toEqual(object);
  const schemas = asked.map(({ options }) => options.schema as { properties?: object });
  for (const schema of schemas.slice(0, 4)) expect(Object.keys(schema.properties!)).toEqual(['good', 'why']);
  expect(schemas[4]).toMatchObject({ properties: { elements: { type: 'array' } } });
  expect(schemas[6]).toMatchObject({ properties: { result: { enum: ['yes', 'no'] } } });
  expect(schemas[7]).toEqual({ type: 'object' });
});

test('a schema that cannot be enforced is an error; what lenient leaves out is a warning', async () => {
  const { engine } = fake([VERDICT, VERDICT]);
  const schema = jsonSchema<object>({ type: 'array', uniqueItems: true });
  const ask = { model: millrace(engine), prompt: 'Is it good?', output: Output.object({ schema }) };
  await expect(generateText(ask)).rejects.toMatchObject({
    code: 'UNSUPPORTED_SCHEMA',
    data: { keyword: 'uniqueItems' },
  });
  const lenient = { ...ask, providerOptions: { millrace: { lenient: true } } };
  const warning = { type: 'unsupported', feature: 'schema: uniqueItems' };
  expect((await generateText(lenient)).warnings).toMatchObject([warning]);
  expect(await streamText(lenient).warnings).toMatchObject([warning]);
});

test('JSON that is cut off is no object, and says why', async () => {
  const { engine } = fake([VERDICT.slice(0, 2)]);
  const cut = generateObject({ model: millrace(engine), prompt: 'Hello', schema: Verdict, maxOutputTokens: 2 });
  await expect(cut).rejects.toMatchObject({ name: 'AI_NoObjectGeneratedError', finishReason: 'length' });
});

test('a tool that is forced: any of them, one by name, strict', async () => {
  const call = callOf('time', '{"zone":"UTC"}');
  const { engine, asked } = fake([call, call, call]);
  const strict = tool({ inputSchema: z.object({ zone: z.enum(['UTC']) }), strict: true });
  const ask = { model: millrace(engine), prompt: 'What time is it?', tools: { time: strict } };
  const any = await generateText({ ...ask, toolChoice: 'required' });
  const named = await generateText({ ...ask, toolChoice: { type: 'tool', toolName: 'time' } });
  const streamed = streamText({ ...ask, toolChoice: { type: 'tool', toolName: 'time' } });
  for (const [finishReason, calls] of [
    [any.finishReason, any.toolCalls],
    [named.finishReason, named.toolCalls],
    [await streamed.finishReason, await streamed.toolCalls],
  ] as const) {
    expect(finishReason).toBe('tool-calls');
    expect(calls).toMatchObject([{ toolName: 'time', input: { zone: 'UTC' } }]);
  }
  expect(asked.map(({ options }) => options.toolChoice)).toEqual(['required', 'time', 'time']);
  expect(asked[0]!.options.tools).toMatchObject([{ function: { name: 'time', strict: true } }]);
});

test('thinking is switched by the chat template, with a warning that there are no levels', async () => {
  const { engine, asked } = fake([['a'], ['b']]);
  const { warnings } = await generateText({ model: millrace(engine), prompt: 'Hello', reasoning: 'none' });
  await generateText({
    model: millrace(engine),
    prompt: 'Hello',
    reasoning: 'high',
    providerOptions: { millrace: { chat_template_kwargs: { tone: 'dry' } } },
  });
  expect(warnings).toMatchObject([{ type: 'compatibility', feature: 'reasoning' }]);
  expect(asked.map(({ options }) => options.templateOptions)).toEqual([
    { enable_thinking: false },
    { enable_thinking: true, tone: 'dry' },
  ]);
});

test('levels of thinking go to a template that reads them', async () => {
  const { engine, asked } = fake([['a'], ['b'], ['c'], ['d']], { templateOptions: ['reasoning_effort'] });
  const said = [];
  for (const reasoning of ['low', 'high', 'xhigh', 'none'] as const)
    said.push((await generateText({ model: millrace(engine), prompt: 'Hello', reasoning })).warnings);
  expect(asked.map(({ options }) => options.templateOptions)).toEqual([
    { reasoning_effort: 'low' },
    { reasoning_effort: 'high' },
    { reasoning_effort: 'high' },
    undefined,
  ]);
  expect(said.map((warnings) => warnings?.map((warning) => 'details' in warning && warning.details))).toEqual([
    [],
    [],
    [expect.stringContaining('xhigh is high')],
    [expect.stringContaining('none is left to the template')],
  ]);
});

test('pictures of a prompt are parts of its messages', async () => {
  const { engine, asked } = fake([['A wheel.'], ['A mill.'], ['A small mill.']]);
  const model = millrace(engine);
  const bytes = new Uint8Array([137, 80, 78, 71]);
  const image = { type: 'file' as const, mediaType: 'image/png', data: bytes };
  const question = { type: 'text' as const, text: 'What is this?' };
  const url = { type: 'image' as const, image: new URL('https://example.org/mill.jpg') };
  const small = { ...url, providerOptions: { millrace: { imageDetail: 'low' } } };
  for (const part of [image, url, small])
    await generateText({ model, messages: [{ role: 'user', content: [part, question] }] });
  const shown = asked.map(({ input }) => (input as Message[])[0]!.content);
  expect(shown).toEqual(
    [
      { url: 'data:image/png;base64,iVBORw==' },
      { url: 'https://example.org/mill.jpg' },
      { url: 'https://example.org/mill.jpg', detail: 'low' },
    ].map((image_url) => [{ type: 'image_url', image_url }, question]),
  );
});

test('pictures in the result of a tool are parts of its message', async () => {
  const shot = tool({
    description: 'What the screen shows',
    inputSchema: z.object({}),
    execute: async () => 'iVBORw==',
    toModelOutput: ({ output }) => ({
      type: 'content',
      value: [
        { type: 'text', text: 'The screen:' },
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: output as string } },
        { type: 'file', mediaType: 'image/jpeg', data: { type: 'url', url: new URL('https://example.org/a.jpg') } },
      ],
    }),
  });
  const { engine, asked } = fake([callOf('shot', '{}'), ['A mill.']]);
  const options = { model: millrace(engine), prompt: 'What is there?', tools: { shot }, stopWhen: stepCountIs(3) };
  expect((await generateText(options)).text).toBe('A mill.');
  const [, , result] = asked[1]!.input as Message[];
  expect(result).toMatchObject({
    role: 'tool',
    name: 'shot',
    content: [
      { type: 'text', text: 'The screen:' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } },
      { type: 'image_url', image_url: { url: 'https://example.org/a.jpg' } },
    ],
  });
  const sound = tool({
    inputSchema: z.object({}),
    execute: async () => '',
    toModelOutput: () => ({
      type: 'content',
      value: [{ type: 'file', mediaType: 'audio/wav', data: { type: 'data', data: '' } }],
    }),
  });
  const deaf = fake([callOf('shot', '{}'), ['.']]);
  const heard = generateText({ ...options, model: millrace(deaf.engine), tools: { shot: sound } });
  await expect(heard).rejects.toThrow(/audio\/wav.*text and pictures are read/);
});

test('what cannot be honoured is an error that names it', async () => {
  const { engine, asked } = fake([]);
  const model = millrace(engine);
  const sound = { type: 'file' as const, mediaType: 'audio/wav', data: new Uint8Array([82, 73, 70, 70]) };
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hi' }] }];
  const wrong: [string, () => PromiseLike<unknown>][] = [
    ['audio/wav', () => generateText({ model, messages: [{ role: 'user', content: [sound] }] })],
    [
      'response_format and a call',
      () => {
        const output = Output.object({ schema: z.object({}) });
        return generateText({ model, prompt: 'Hello', tools: { time }, toolChoice: 'required', output });
      },
    ],
    [
      'providerOptions.millrace.stream',
      () => generateText({ model, prompt: 'Hello', providerOptions: { millrace: { stream: false } } }),
    ],
    ['nonsense', () => generateText({ model, prompt: 'Hello', providerOptions: { millrace: { nonsense: 1 } } })],
    [
      'search',
      () => model.doGenerate({ prompt, tools: [{ type: 'provider', id: 'other.search', name: 'search', args: {} }] }),
    ],
  ];
  for (const [named, call] of wrong) {
    const error = await call().then(
      () => null,
      (thrown: unknown) => thrown as MillraceError,
    );
    expect(error, named).toBeInstanceOf(MillraceError);
    expect(error).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining(named) });
  }
  expect(asked).toEqual([]);
});

test('a failure while streaming is an error part, and the text before it stays', async () => {
  const { engine } = fake([new MillraceError('CONTEXT_FULL', 'too long')]);
  const errors: unknown[] = [];
  const result = streamText({
    model: millrace(engine),
    prompt: 'Hello',
    onError: ({ error }) => void errors.push(error),
  });
  const types: string[] = [];
  for await (const part of result.stream) types.push(part.type);
  expect(types).toContain('error');
  expect(errors).toMatchObject([{ code: 'CONTEXT_FULL' }]);
  await expect(
    generateText({ model: millrace(fake([new MillraceError('CONTEXT_FULL', 'too long')]).engine), prompt: 'Hello' }),
  ).rejects.toMatchObject({ code: 'CONTEXT_FULL' });
});

test('an abort ends both, and cancelling the stream aborts the generation', async () => {
  const endless = Array.from({ length: 100_000 }, () => 'a');
  const controller = new AbortController();
  const { engine, asked } = fake([endless, endless, endless], { onPiece: () => controller.abort() });
  const model = millrace(engine);
  const whole = generateText({ model, prompt: 'Hello', abortSignal: controller.signal });
  await expect(whole).rejects.toMatchObject({ name: 'AbortError' });

  const second = new AbortController();
  const types: string[] = [];
  for await (const part of streamText({ model, prompt: 'Hello', abortSignal: second.signal }).stream) {
    types.push(part.type);
    if (part.type === 'text-delta') second.abort();
  }
  expect(types.at(-1)).toBe('abort');

  const { stream } = await model.doStream({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] });
  const reader = stream.getReader();
  while ((await reader.read()).value?.type !== 'text-delta');
  await reader.cancel();
  expect(asked[2]!.options.signal!.aborted).toBe(true);
});

test('an abort before the first piece, before the call, by leaving the loop: the stream ends, and so does the generation', async () => {
  const parts = async (stream: AsyncIterable<{ type: string }>, last = ''): Promise<string[]> => {
    const types: string[] = [];
    for await (const { type } of stream) {
      types.push(type);
      if (type === last) break;
    }
    return types;
  };
  const begin = (said: Endless, controller = new AbortController()) => {
    const { engine, running } = fake([said]);
    const { signal: abortSignal } = controller;
    return { running, stream: streamText({ model: millrace(engine), prompt: 'Hello', abortSignal }).stream };
  };
  const controller = new AbortController();
  const silent = begin(new Endless(), controller);
  const waiting = parts(silent.stream);
  await expect.poll(silent.running).toBe(1);
  controller.abort();
  expect(await waiting).toEqual(['start', 'abort']);
  await expect.poll(silent.running).toBe(0);
  // A signal that is aborted already starts no generation.
  const never = begin(new Endless(1), controller);
  expect((await parts(never.stream)).at(-1)).toBe('abort');
  expect(never.running()).toBe(0);
  // The SDK keeps a branch of the stream for further readers: it is abandoned only once the result is garbage.
  const said = new Endless(50);
  const leave = async () => {
    const { running, stream } = begin(said);
    await parts(stream, 'text-delta');
    return running;
  };
  const running = await leave();
  await expect
    .poll(() => {
      collect();
      return running();
    })
    .toBe(0);
});

test('raw chunks, where asked for', async () => {
  const { engine } = fake([['a']]);
  const raw: unknown[] = [];
  for await (const part of streamText({ model: millrace(engine), prompt: 'Hello', include: { rawChunks: true } })
    .stream)
    if (part.type === 'raw') raw.push(part.rawValue);
  expect(raw).toHaveLength(4);
  expect(raw[0]).toMatchObject({ object: 'chat.completion.chunk' });
});

/** An engine that records its calls, and answers with numbers. */
function numbers(): { engine: Engine; asked: unknown[] } {
  const asked: unknown[] = [];
  const engine = {
    modelName: 'Test Embedding',
    embed: async (texts: string[], options: object) => {
      asked.push(texts, options);
      return { vectors: texts.map((_, i) => Float32Array.of(i, 0.5)), tokens: 7, ms: 1 };
    },
    rerank: async (query: string, documents: string[], options: object) => {
      asked.push(query, documents, options);
      return {
        ranking: [
          { index: 1, score: 0.75 },
          { index: 0, score: 0.25 },
        ],
        tokens: 9,
        ms: 1,
      };
    },
  };
  return { engine: engine as unknown as Engine, asked };
}

test('embedMany: all values in one call, with the options of the provider', async () => {
  const { engine, asked } = numbers();
  const { embeddings, usage } = await embedMany({
    model: millraceEmbedding(engine),
    values: ['a', 'b', 'c'],
    providerOptions: { millrace: { prompt: 'query' } },
  });
  expect(embeddings).toEqual([
    [0, 0.5],
    [1, 0.5],
    [2, 0.5],
  ]);
  expect(usage.tokens).toBe(7);
  expect(asked).toEqual([['a', 'b', 'c'], { prompt: 'query' }]);
});

test('rerank: texts and objects, the best first', async () => {
  const { engine, asked } = numbers();
  const model = millraceReranking(engine);
  const { ranking, rerankedDocuments } = await rerank({ model, documents: ['x', 'y'], query: 'why', topN: 2 });
  expect(ranking.map(({ originalIndex, score }) => [originalIndex, score])).toEqual([
    [1, 0.75],
    [0, 0.25],
  ]);
  expect(rerankedDocuments).toEqual(['y', 'x']);
  expect(asked).toEqual(['why', ['x', 'y'], { topN: 2 }]);
  await rerank({ model, documents: [{ title: 'x' }, { title: 'y' }], query: 'why' });
  expect(asked[4]).toEqual(['{"title":"x"}', '{"title":"y"}']);
});
