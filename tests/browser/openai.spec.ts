// OpenAI's shapes: parameters and answers on a stand-in engine, without a browser. tests/package has the official
// client in a page.
import { expect, test as plain } from '@playwright/test';
import OpenAI from 'openai';
import type { Engine } from '../../npm/engine.ts';
import type { AnswerPart } from '../../npm/types.ts';
import { MillraceError } from '../../npm/errors.ts';
import { ChatCompletions, Completions } from '../../npm/openai/calls.ts';
import { respondTo } from '../../npm/openai/fetch.ts';
import type { ChatCompletionChunk, ChatCompletionParams, ChatTool } from '../../npm/openai/types.ts';
import { z } from 'zod';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { callOf, Endless, fake, GRAMMAR, thought } from './fake.ts';

/** A `response_format`. */
const jsonOf = (schema: object, more: object = {}) => ({
  type: 'json_schema' as const,
  json_schema: { name: 'answer', schema: schema as Record<string, unknown>, ...more },
});
const TOOLS: ChatTool[] = ['a', 'time', 'auto'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { zone: { type: 'string' } } } },
}));
const HELLO = { messages: [{ role: 'user', content: 'Hello' }] } satisfies ChatCompletionParams;

plain('a chat, whole', async () => {
  const { engine, asked } = fake([[[], thought('so'), [], 'Hi', '!']]);
  const answer = await new ChatCompletions(engine).create({
    model: 'Test 1B',
    max_completion_tokens: 9,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    min_p: 0.1,
    seed: 7,
    stop: ['x'],
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    logit_bias: {},
    logprobs: false,
    response_format: { type: 'text' },
    stream: false,
    n: 1,
    user: 'me',
    chat_template_kwargs: { enable_thinking: true },
    messages: [
      { role: 'developer', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hel' },
          { type: 'text', text: 'lo' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'time', arguments: '{"zone":1}' } }],
      },
      { role: 'tool', content: '12:00', tool_call_id: 'c1' },
    ],
  });
  expect(answer).toMatchObject({
    object: 'chat.completion',
    model: 'Test 1B',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hi!', reasoning_content: 'so', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
      timings: { decode_tok_s: 5 },
    },
  });
  expect(asked[0]!.options).toMatchObject({
    maxTokens: 9,
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    minP: 0.1,
    seed: 7,
    stop: ['x'],
    templateOptions: { enable_thinking: true },
  });
  expect(asked[0]!.input).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'time', arguments: '{"zone":1}' } }],
    },
    { role: 'tool', content: '12:00', tool_call_id: 'c1' },
  ]);
});

plain('a chat, streamed, with usage and tools', async () => {
  const { engine } = fake([callOf('time', '{"zone"', ':1}')]);
  const stream = await new ChatCompletions(engine).create({
    ...HELLO,
    stream: true,
    stream_options: { include_usage: true },
    tool_choice: 'auto',
    tools: [{ type: 'function', function: { name: 'time', parameters: {} } }],
  });
  const chunks: ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  expect(chunks.slice(0, -1).map(({ choices }) => choices[0]!.delta)).toEqual([
    { role: 'assistant', content: '', refusal: null },
    { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'time', arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"zone"' } }] },
    { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] },
    {},
  ]);
  expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('tool_calls');
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 14 } });
  expect(chunks[0]!.usage).toBeNull();
});

plain('several answers, and the end by length', async () => {
  const { engine, asked } = fake([
    ['a', 'b'],
    ['c', 'd'],
  ]);
  const answer = await new ChatCompletions(engine).create({ ...HELLO, n: 2, seed: 5, max_tokens: 2 });
  expect(answer.choices.map(({ message, finish_reason }) => [message.content, finish_reason])).toEqual([
    ['ab', 'length'],
    ['cd', 'length'],
  ]);
  expect(asked.map(({ options }) => options.seed)).toEqual([5, 6]);
  expect(answer.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 4 });
});

plain('plain completions: texts, tokens, several prompts, streams', async () => {
  const { engine, asked } = fake([['x'], ['y'], ['z'], ['v', 'w']]);
  const completions = new Completions(engine);
  expect(await completions.create({ prompt: ['a', 'b'] })).toMatchObject({
    object: 'text_completion',
    choices: [
      { index: 0, text: 'x' },
      { index: 1, text: 'y' },
    ],
    usage: { prompt_tokens: 20 },
  });
  expect((await completions.create({ prompt: [1, 2] })).choices[0]!.text).toBe('z');
  expect(asked.map(({ input }) => input)).toEqual(['a', 'b', { tokens: [1, 2] }]);
  expect(asked[0]!.options.maxTokens).toBe(16);
  const texts: string[] = [];
  for await (const { choices } of await completions.create({ prompt: 'c', stream: true, max_tokens: 2 }))
    texts.push(`${choices[0]!.text}${choices[0]!.finish_reason ?? ''}`);
  expect(texts).toEqual(['v', 'w', 'length']);
});

plain('penalties, bias and log probabilities', async () => {
  const { engine, asked } = fake([
    [thought('a'), thought('b'), 'c'],
    [thought('a'), thought('b'), 'c'],
    ['x', 'yz'],
    ['x', 'yz'],
    ['x', 'yz'],
  ]);
  const params = {
    ...HELLO,
    presence_penalty: 0.5,
    frequency_penalty: -1,
    repetition_penalty: 1.1,
    logit_bias: { 7: -100 },
    logprobs: true,
    top_logprobs: 2,
  };
  const whole = await new ChatCompletions(engine).create(params);
  expect(asked[0]!.options).toMatchObject({
    presencePenalty: 0.5,
    frequencyPenalty: -1,
    repetitionPenalty: 1.1,
    logitBias: { 7: -100 },
    logprobs: 2,
  });
  const { content } = whole.choices[0]!.logprobs!;
  expect(whole.choices[0]!.message).toMatchObject({ content: 'c', reasoning_content: 'ab' });
  expect(content.map(({ token, logprob }) => [token, logprob])).toEqual([
    ['a', -0],
    ['b', -1],
    ['c', -2],
  ]);
  expect(content[2]).toEqual({
    token: 'c',
    bytes: [99],
    logprob: -2,
    top_logprobs: [
      { token: '0', bytes: [99], logprob: -0 },
      { token: '1', bytes: [99], logprob: -1 },
    ],
  });
  const streamed: unknown[] = [];
  for await (const { choices } of await new ChatCompletions(engine).create({ ...params, stream: true }))
    streamed.push(...(choices[0]?.logprobs?.content ?? []));
  expect(streamed).toEqual(content);
  const plainText = await new Completions(engine).create({ prompt: 'a', logprobs: 2 });
  expect(plainText.choices[0]!.logprobs).toEqual({
    tokens: ['x', 'yz'],
    token_logprobs: [-0, -1],
    top_logprobs: [
      { 0: -0, 1: -1 },
      { 0: -0, 1: -1 },
    ],
    text_offset: [0, 1],
  });
  const offsets: number[] = [];
  for await (const { choices } of await new Completions(engine).create({
    prompt: ['a', 'b'],
    logprobs: 0,
    stream: true,
  }))
    offsets.push(...(choices[0]?.logprobs?.text_offset ?? []));
  expect(offsets).toEqual([0, 1, 0, 1]);
  // Not asked for, there are none.
  expect((await new ChatCompletions(fake([['a']]).engine).create(HELLO)).choices[0]!.logprobs).toBeNull();
});

plain('what cannot be honoured is an error that names it', async () => {
  const { engine, asked } = fake([]);
  const wrong: [object, string][] = [
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ logprobs: 3 }, 'logprobs'],
    [{ response_format: { type: 'xml' } }, 'response_format is of type "xml"'],
    [{ response_format: 'json_object' }, 'response_format'],
    [{ response_format: { type: 'json_object', schema: {} } }, 'response_format.schema'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'a' } } }, 'json_schema.schema is missing'],
    [{ response_format: jsonOf({}, { strict: 'yes' }) }, 'json_schema.strict'],
    [{ response_format: jsonOf({}, { name: 7 }) }, 'json_schema.name'],
    [{ response_format: jsonOf({}, { examples: [] }) }, 'json_schema.examples'],
    [{ response_format: { type: 'json_object' }, schema: {} }, 'response_format and schema'],
    [{ response_format: { type: 'json_object' }, tools: TOOLS, tool_choice: 'required' }, 'response_format and a call'],
    [{ n: 0 }, 'n must'],
    [{ stream_options: { include_usage: true } }, 'stream_options'],
    [{ tool_choice: 'required' }, 'tool_choice goes with tools'],
    [{ tools: TOOLS, tool_choice: 'always' }, 'tool_choice is "always"'],
    [{ tools: TOOLS, tool_choice: { type: 'function', function: { name: 'b' } } }, 'tool_choice names "b"'],
    [{ tools: TOOLS, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } }, 'empty'],
    [{ tools: TOOLS, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'all', tools: TOOLS } } }, 'mode'],
    [{ parallel_tool_calls: 1 }, 'parallel_tool_calls'],
    [{ audio: {} }, 'audio'],
    [{ modalities: ['text', 'audio'] }, 'modalities is ["text","audio"]'],
    [{ web_search_options: {} }, 'web_search_options'],
    [{ prediction: { type: 'content', content: 'a' } }, 'prediction'],
    [{ verbosity: 'low' }, 'verbosity'],
    [{ functions: [{ name: 'a' }] }, 'functions'],
    [{ function_call: { name: 'a' } }, 'function_call'],
    [{ store: true }, 'store'],
    [{ service_tier: 'flex' }, 'service_tier'],
    [{ moderation: { model: 'a' } }, 'moderation'],
    [{ prompt_cache_retention: '24h' }, 'prompt_cache_retention'],
    [{ prompt_cache_options: { mode: 'explicit' } }, 'prompt_cache_options'],
    [{ constructor: 1 }, 'constructor'],
    [{ stream: true, stream_options: { include_usage: 1 } }, 'stream_options.include_usage'],
    [{ stream: true, stream_options: { other: false } }, 'stream_options.other'],
    [{ messages: [{ role: 'assistant', content: null, tool_calls: [{}] }] }, 'messages[0]: tool_calls[0]'],
    [{ messages: [{ role: 'assistant', content: 'a', refusal: 'no' }] }, 'refusal'],
    [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: '' } }] }] }, 'image_url'],
    [
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,', detail: 'lots' as 'low' } }] },
        ],
      },
      'the detail "lots"',
    ],
  ];
  for (const [more, named] of wrong) {
    const error = await new ChatCompletions(engine).create({ ...HELLO, ...more } as ChatCompletionParams).then(
      () => null,
      (e: unknown) => e as MillraceError,
    );
    expect(error, named).toBeInstanceOf(MillraceError);
    expect(error).toMatchObject({ code: 'BAD_OPTION', message: expect.stringContaining(named) });
  }
  await expect(new ChatCompletions(engine).create({ ...HELLO, model: 'gpt-4o' })).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringContaining('Test 1B'),
  });
  expect(asked).toEqual([]);
});

plain('what asks for nothing is taken', async () => {
  const nothing: object[] = [
    { audio: null, prediction: null, web_search_options: null, moderation: null, functions: null, function_call: null },
    { modalities: ['text'] },
    { reasoning_effort: 'medium' },
    { verbosity: 'medium' },
    { prediction: { type: 'content', content: '' } },
    { functions: [], function_call: 'auto' },
    { function_call: 'none' },
    { tools: [], tool_choice: 'auto' },
    { tools: null, tool_choice: 'none', parallel_tool_calls: true },
    { tool_choice: 'auto', parallel_tool_calls: false },
    { stop: [] },
    { stop: '' },
    { stop: [''] },
    { logit_bias: {}, metadata: {}, chat_template_kwargs: {} },
    { logprobs: false, top_logprobs: 0 },
    { logprobs: null, top_logprobs: null },
    { n: null, seed: null, temperature: null, top_p: null, max_tokens: null, max_completion_tokens: null },
    { presence_penalty: 0, frequency_penalty: 0, top_p: 1, n: 1 },
    { store: false, service_tier: 'auto' },
    { store: null, service_tier: 'default', metadata: { a: 'b' }, user: 'me', safety_identifier: 'me' },
    { prompt_cache_key: 'k', prompt_cache_retention: 'in_memory', prompt_cache_options: { mode: 'implicit' } },
    { prompt_cache_key: null, prompt_cache_retention: null, prompt_cache_options: {} },
    { response_format: { type: 'text' } },
    { stream: false, stream_options: { include_usage: false } },
    { stream: null, stream_options: {} },
    { stream: true, stream_options: { include_obfuscation: false, include_usage: null } },
    { model: null, stream_options: null },
  ];
  const said: Record<string, string | number> = {};
  const { engine, asked } = fake(nothing.map(() => ['a']));
  const options = { temperature: 1, onTokens: expect.any(Function) };
  for (const [index, params] of nothing.entries()) {
    const init = { method: 'POST', body: JSON.stringify({ ...HELLO, ...params }) };
    const response = await respondTo(engine, 'http://millrace/v1/chat/completions', init);
    const text = await response.text();
    if (response.status !== 200) said[JSON.stringify(params)] = text;
    const { parallelToolCalls: _, signal: __, ...rest } = (asked[index]?.options ?? {}) as Record<string, unknown>;
    const empty = { logitBias: {}, templateOptions: {}, presencePenalty: 0, frequencyPenalty: 0, topP: 1 };
    expect({ ...empty, ...rest }, JSON.stringify(params)).toEqual({ ...empty, ...options });
  }
  expect(said).toEqual({});
  const completions = new Completions(fake([['a'], ['b'], ['c']]).engine);
  const params = { prompt: 'x', echo: false, suffix: '', logprobs: null, user: 'me', n: 2, best_of: 2 } as const;
  expect((await completions.create(params)).choices).toHaveLength(2);
});

plain('reasoning_effort has the levels that the chat template reads', async () => {
  const { engine, asked } = fake([['a'], ['b'], ['c']], { templateOptions: ['reasoning_effort'] });
  const chat = new ChatCompletions(engine);
  await chat.create({ ...HELLO, reasoning_effort: 'low' });
  await chat.create({ ...HELLO, reasoning_effort: 'medium' });
  await chat.create({ ...HELLO, reasoning_effort: 'high', chat_template_kwargs: { tone: 'dry' } });
  expect(asked.map(({ options }) => options.templateOptions)).toEqual([
    { reasoning_effort: 'low' },
    { reasoning_effort: 'medium' },
    { reasoning_effort: 'high', tone: 'dry' },
  ]);
  for (const effort of ['none', 'minimal'])
    await expect(chat.create({ ...HELLO, reasoning_effort: effort as never })).rejects.toMatchObject({
      code: 'BAD_OPTION',
      message: expect.stringContaining(
        `reasoning_effort is "${effort}": with this model it can be low, medium or high`,
      ),
    });
});

plain(
  'thoughts are switched off by reasoning_effort, and levels that a template does not read are an error',
  async () => {
    const { engine, asked } = fake([['a'], ['b']]);
    const chat = new ChatCompletions(engine);
    await chat.create({ ...HELLO, reasoning_effort: 'none' });
    await chat.create({ ...HELLO, reasoning_effort: 'none', chat_template_kwargs: { enable_thinking: true } });
    expect(asked.map(({ options }) => options.templateOptions)).toEqual([
      { enable_thinking: false },
      { enable_thinking: true },
    ]);
    await expect(chat.create({ ...HELLO, reasoning_effort: 'high' })).rejects.toMatchObject({
      code: 'BAD_OPTION',
      message: expect.stringContaining('reasoning_effort is "high": with this model it can be none or medium'),
    });
  },
);

plain('messages and tools with fields that say nothing are as if they had none', async () => {
  const { engine, asked } = fake([['a']]);
  const empty = { refusal: null, audio: null, function_call: null, name: null, tool_call_id: null };
  const call = { id: 'c1', type: 'function', index: 0, function: { name: 'time', arguments: '{}' } };
  const messages = [
    { role: 'system', content: 'Be brief.', name: '' },
    { role: 'user', content: [{ type: 'text', text: 'Hello', prompt_cache_breakpoint: null }], name: null },
    { role: 'assistant', content: 'Hi', ...empty, tool_calls: null, annotations: [] },
    { role: 'assistant', content: null, ...empty, refusal: '', tool_calls: [call], reasoning_content: null },
    { role: 'tool', content: '12:00', tool_call_id: 'c1' },
  ];
  const named = { name: 'time', description: null, strict: null, parameters: {} };
  const tools = [{ type: 'function', function: named }];
  await new ChatCompletions(engine).create({ messages, tools } as unknown as ChatCompletionParams);
  expect(asked[0]!.input).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Hi' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'time', arguments: '{}' } }],
    },
    { role: 'tool', content: '12:00', tool_call_id: 'c1' },
  ]);
  expect(asked[0]!.options.tools).toEqual([{ type: 'function', function: { name: 'time', parameters: {} } }]);
});

plain('JSON: what response_format asks for is what the engine is asked for, strict or not', async () => {
  const { engine, asked } = fake([]);
  const chat = new ChatCompletions(engine);
  const schema = { type: 'object', properties: { b: { type: 'boolean' }, a: { enum: [1, 2] } } };
  const formats = [
    { type: 'json_object' as const },
    jsonOf(schema),
    jsonOf(schema, { strict: false, description: 'What it is for.' }),
    jsonOf(schema, { strict: true }),
    { type: 'text' as const },
  ];
  for (const response_format of formats) await chat.create({ ...HELLO, response_format });
  expect(asked.map(({ options }) => options.schema)).toEqual([{ type: 'object' }, schema, schema, schema, undefined]);
  // In the order in which they were written.
  expect(JSON.stringify(asked[1]!.options.schema)).toBe(JSON.stringify(schema));
  await chat.create({ ...HELLO, regex: '[a-z]+' });
  await new Completions(engine).create({ prompt: 'It is ', choice: ['yes', 'no'] });
  await new Completions(engine).create({ prompt: 'It is ', schema, lenient: true });
  expect(
    asked.slice(5).map(({ options: { regex, choice, schema, lenient } }) => [regex, choice, schema, lenient]),
  ).toEqual([
    ['[a-z]+', undefined, undefined, undefined],
    [undefined, ['yes', 'no'], undefined, undefined],
    [undefined, undefined, schema, true],
  ]);
});

plain('JSON that is cut off ends by length, and what was forced is told', async () => {
  const { engine } = fake([
    ['{"a":', 'tr'],
    ['{"a":', 'true}'],
    ['{"a":', 'true}'],
  ]);
  const chat = new ChatCompletions(engine);
  const params = { ...HELLO, response_format: jsonOf({ uniqueItems: true }), lenient: true };
  const cut = await chat.parse({ ...params, max_tokens: 2 });
  expect(cut.choices[0]).toMatchObject({
    finish_reason: 'length',
    message: { content: '{"a":tr', parsed: null, refusal: null },
  });
  const whole = await chat.parse<{ a: boolean }>(params);
  expect(whole.choices[0]!.message.parsed).toEqual({ a: true });
  expect(whole.usage.grammar).toMatchObject({ ...GRAMMAR, warnings: [{ keyword: 'uniqueItems' }] });
  const last: unknown[] = [];
  const stream = await chat.create({ ...params, stream: true, stream_options: { include_usage: true } });
  for await (const { usage } of stream) last.push(usage?.grammar);
  expect(last.at(-1)).toMatchObject(GRAMMAR);
});

plain('parse reads answers and the arguments of strict tools, by the schemas of OpenAI’s helpers too', async () => {
  const call = callOf('time', '{"zone"', ':"UTC"}');
  const { engine } = fake([['{"at":"2026-11-24"}'], ['{"at":1}'], ['Hi'], call, call, call.slice(0, 2)]);
  const chat = new ChatCompletions(engine);
  const response_format = zodResponseFormat(z.object({ at: z.iso.date() }), 'at');
  const parsed = async (params: object) => (await chat.parse({ ...HELLO, ...params })).choices[0]!.message;
  expect((await parsed({ response_format })).parsed).toEqual({ at: '2026-11-24' });
  // JSON that does not satisfy the schema is the helper's error.
  await expect(parsed({ response_format })).rejects.toThrow(/invalid_type/);
  expect((await parsed({})).parsed).toBeNull();
  const strict = zodFunction({ name: 'time', parameters: z.object({ zone: z.string() }) });
  const args = async (params: object) => (await parsed(params)).tool_calls![0]!.function.parsed_arguments;
  expect(await args({ tools: [strict] })).toEqual({ zone: 'UTC' });
  expect(await args({ tools: TOOLS })).toBeNull();
  expect(await args({ tools: [strict], max_tokens: 2 })).toBeNull();
});

plain('calls that are forced: all of tool_choice, and how their answers end', async () => {
  const call = callOf('time', '{"zone"', ':1}');
  const { engine, asked } = fake(Array.from({ length: 7 }, () => call));
  const chat = new ChatCompletions(engine);
  const some = (mode: 'auto' | 'required') => ({
    type: 'allowed_tools' as const,
    allowed_tools: { mode, tools: [{ type: 'function' as const, function: { name: 'time' } }] },
  });
  const named = { type: 'function' as const, function: { name: 'time' } };
  const ends: string[] = [];
  for (const tool_choice of ['auto', 'none', 'required', named, some('auto'), some('required')] as const)
    ends.push((await chat.create({ ...HELLO, tools: TOOLS, tool_choice })).choices[0]!.finish_reason);
  // Where the function was named it is `stop`, as OpenAI documents.
  expect(ends).toEqual(['tool_calls', 'tool_calls', 'tool_calls', 'stop', 'tool_calls', 'tool_calls']);
  const names = (tools: readonly object[] | undefined) => tools?.map((tool) => (tool as ChatTool).function.name);
  expect(asked.map(({ options: { toolChoice, tools } }) => [toolChoice, names(tools)])).toEqual([
    [undefined, ['a', 'time', 'auto']],
    [undefined, undefined],
    ['required', ['a', 'time', 'auto']],
    ['time', ['a', 'time', 'auto']],
    [undefined, ['time']],
    ['required', ['time']],
  ]);
  const cut = await chat.create({ ...HELLO, tools: TOOLS, tool_choice: 'required', max_tokens: call.length });
  expect(cut.choices[0]!.finish_reason).toBe('length');
  // The engine's own values of the option are no valid names of tools.
  await expect(
    chat.create({ ...HELLO, tools: TOOLS, tool_choice: { type: 'function', function: { name: 'auto' } } }),
  ).rejects.toMatchObject({ code: 'BAD_OPTION', data: { option: 'tool_choice' } });
});

plain('without parallel calls the first is the last', async () => {
  const two: AnswerPart[][] = [
    ...callOf('time', '{}'),
    [{ type: 'tool_call', index: 1, id: 'c2', name: 'time' }],
    [{ type: 'arguments', index: 1, text: '{}' }],
  ];
  const { engine, asked, stopped } = fake([two, two, two]);
  const chat = new ChatCompletions(engine);
  const params = { ...HELLO, tools: TOOLS, parallel_tool_calls: false };
  const { message, finish_reason } = (await chat.create(params)).choices[0]!;
  expect([message.tool_calls!.length, finish_reason, stopped()]).toEqual([1, 'tool_calls', 1]);
  const seen: unknown[] = [];
  for await (const { choices } of await chat.create({ ...params, stream: true }))
    seen.push(...(choices[0]?.delta.tool_calls ?? []).map(({ index }) => index), choices[0]?.finish_reason);
  expect(new Set(seen)).toEqual(new Set([null, 0, 'tool_calls']));
  expect(asked.map(({ options }) => options.parallelToolCalls)).toEqual([false, false]);
  expect((await chat.create({ ...params, parallel_tool_calls: true })).choices[0]!.message.tool_calls).toHaveLength(2);
});

plain('leaving the loop, its controller and a signal stop the generation', async () => {
  const endless = Array.from({ length: 1000 }, () => 'a');
  let onPiece = (): void => {};
  const { engine, stopped } = fake([endless, endless, endless], { onPiece: () => onPiece() });
  const chat = new ChatCompletions(engine);
  for await (const { choices } of await chat.create({ ...HELLO, stream: true })) if (choices[0]?.delta.content) break;
  expect(stopped()).toBe(1);
  const stream = await chat.create({ ...HELLO, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content) stream.controller.abort();
  const controller = new AbortController();
  const answer = chat.create(HELLO, { signal: controller.signal });
  onPiece = () => controller.abort();
  await expect(answer).rejects.toMatchObject({ code: 'ABORTED' });
});

plain('a stream of the engine ends at once, also while a chunk is awaited', async () => {
  const begin = async (signal?: AbortSignal) => {
    const said = new Endless(3);
    const { engine, running } = fake([said]);
    const stream = await new ChatCompletions(engine).create({ ...HELLO, stream: true }, { signal: signal ?? null });
    return { said, running, stream, iterator: stream[Symbol.asyncIterator]() };
  };
  // After the end no earlier pieces arrive.
  const left = await begin();
  await left.iterator.next();
  await expect.poll(left.running).toBe(1);
  left.stream.controller.abort();
  expect(await left.iterator.next()).toEqual({ done: true, value: undefined });
  await expect.poll(left.running).toBe(0);

  const controller = new AbortController();
  const aborted = await begin(controller.signal);
  await aborted.iterator.next();
  controller.abort();
  await expect(aborted.iterator.next()).rejects.toMatchObject({ code: 'ABORTED', data: { result: {} } });
  await expect.poll(aborted.running).toBe(0);

  const returned = await begin();
  for (let i = 0; i < 4; i += 1) await returned.iterator.next();
  const next = returned.iterator.next();
  expect(await returned.iterator.return!()).toEqual({ done: true, value: undefined });
  expect((await next).done).toBe(true);
  await expect.poll(returned.running).toBe(0);

  const cancelled = await begin();
  const reader = cancelled.stream.toReadableStream().getReader();
  for (let i = 0; i < 4; i += 1) await reader.read();
  await reader.cancel();
  await expect.poll(cancelled.running).toBe(0);
});

plain('an answer that is asked for whole can be aborted until it is read', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const ask = { method: 'POST', body: JSON.stringify(HELLO), signal };
  const response = await respondTo(fake([['a']]).engine, 'http://millrace/v1/chat/completions', ask);
  controller.abort();
  await expect(response.json()).rejects.toMatchObject({ name: 'AbortError' });
});

plain('a stream over fetch is events, the last of which says that it is whole', async () => {
  const ask = { method: 'POST', body: JSON.stringify({ ...HELLO, stream: true }) };
  const response = await respondTo(fake([['a', 'b']]).engine, 'http://millrace/v1/chat/completions', ask);
  const events = (await response.text()).split('\n\n');
  expect(events.splice(-2)).toEqual(['data: [DONE]', '']);
  const chunks = events.map((event) => JSON.parse(event.replace(/^data: /, '')) as ChatCompletionChunk);
  expect(chunks.map(({ choices: [choice] }) => choice!.delta.content ?? '').join('')).toBe('ab');
});

/** The official client on an engine. */
const client = (engine: Engine): OpenAI =>
  new OpenAI({
    apiKey: 'none',
    baseURL: 'http://millrace/v1',
    fetch: (input, init) => respondTo(engine, input as RequestInfo, init),
    dangerouslyAllowBrowser: true,
  });

plain('the official client: chats, streams, completions, models, errors', async () => {
  const { engine, stopped } = fake([
    ['Hi'],
    ['a', 'b'],
    ['c'],
    Array.from({ length: 1000 }, () => 'd'),
    new MillraceError('CONTEXT_FULL', 'too long'),
  ]);
  const openai = client(engine);
  const messages = [{ role: 'user' as const, content: 'Hello' }];
  const model = 'Test 1B';
  expect((await openai.chat.completions.create({ model, messages })).choices[0]!.message.content).toBe('Hi');
  let text = '';
  for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true }))
    text += chunk.choices[0]?.delta.content ?? '';
  expect(text).toBe('ab');
  expect((await openai.completions.create({ model, prompt: 'x' })).choices[0]!.text).toBe('c');
  for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true }))
    if (chunk.choices[0]?.delta.content) break;
  await expect.poll(stopped).toBe(1);
  await expect(openai.chat.completions.create({ model, messages })).rejects.toMatchObject({
    status: 400,
    code: 'context_length_exceeded',
  });
  await expect(openai.chat.completions.create({ model: 'gpt-4o', messages })).rejects.toMatchObject({
    status: 404,
    code: 'model_not_found',
  });
  await expect(openai.chat.completions.create({ model, messages, n: 0 })).rejects.toMatchObject({
    status: 400,
    param: 'n',
  });
  expect((await openai.models.list()).data.map(({ id }) => id)).toEqual([model]);
  expect((await openai.models.retrieve(model)).id).toBe(model);
});

plain('paths that are not there say what is, and methods that a path does not take which it does', async () => {
  const { engine, asked } = fake([['a']]);
  const openai = client(engine);
  const other = openai.responses.create({ model: 'Test 1B', input: 'x' });
  await expect(other).rejects.toMatchObject({ status: 404, code: 'unknown_url', type: 'invalid_request_error' });
  await expect(other).rejects.toThrow(
    'POST /v1/responses is not there: there are POST /chat/completions, POST /completions, POST /embeddings, GET /models, GET /models/NAME',
  );
  await expect(openai.moderations.create({ input: 'x' })).rejects.toThrow('POST /v1/moderations');
  await expect(openai.files.list()).rejects.toThrow('GET /v1/files');
  await expect(openai.models.retrieve('gpt-4o')).rejects.toMatchObject({
    status: 404,
    code: 'model_not_found',
    param: 'model',
    message: expect.stringContaining('"gpt-4o", but the engine has loaded "Test 1B"'),
  });
  const ask = (method: string, path: string) => respondTo(engine, `http://millrace${path}`, { method });
  for (const [method, path, allowed] of [
    ['GET', '/v1/chat/completions', 'POST'],
    ['DELETE', '/v1/completions', 'POST'],
    ['PUT', '/v1/embeddings', 'POST'],
    ['POST', '/v1/models', 'GET'],
    ['DELETE', '/v1/models/Test%201B', 'GET'],
  ] as const) {
    const response = await ask(method, path);
    expect([response.status, response.headers.get('allow')], path).toEqual([405, allowed]);
    const message = expect.stringContaining(`${method} ${decodeURIComponent(path)}: that path takes ${allowed};`);
    const error = { message, type: 'invalid_request_error', param: null, code: 'method_not_supported' };
    expect(await response.json()).toEqual({ error });
  }
  for (const path of ['/', '/v1', '/v1/chat', '/v1/chat/completions/x', '/v1/mod%els', '/v1/assistants/models-2'])
    expect([path, (await ask('GET', path)).status]).toEqual([path, 404]);
  for (const path of ['/v1/models/', '/models', '/openai/v1/models/Test%201B'])
    expect([path, (await ask('GET', path)).status]).toEqual([path, 200]);
  expect(asked).toEqual([]);
});

plain('a path that the loaded model does not answer says what it does', async () => {
  const refused = new MillraceError('UNSUPPORTED_MODEL', 'this model writes; load one that embeds');
  const { engine } = fake([refused]);
  Object.assign(engine, { embed: () => Promise.reject(refused) });
  const wrong = { status: 404, code: 'unsupported_model', type: 'invalid_request_error' };
  await expect(client(engine).embeddings.create({ model: 'Test 1B', input: 'x' })).rejects.toMatchObject({
    ...wrong,
    message: expect.stringMatching(
      /POST \/v1\/embeddings: this model writes; .*; this one answers POST \/chat\/completions, POST \/completions, GET \/models, /,
    ),
  });
  Object.assign(engine.info.model, { pooling: 'mean' });
  const chat = client(engine).chat.completions.create({ model: 'Test 1B', messages: HELLO.messages });
  await expect(chat).rejects.toMatchObject({
    ...wrong,
    message: expect.stringMatching(/POST \/v1\/chat\/completions: .* answers POST \/embeddings, GET \/models, /),
  });
});

plain('the official client: embeddings, which it asks for as bytes, and their errors', async () => {
  const asked: unknown[] = [];
  const embed = async (input: string[], options: object) => {
    asked.push(input, options);
    return { vectors: input.map((_, i) => Float32Array.of(i, 0.1)), tokens: 7, ms: 1 };
  };
  const engine = { modelName: 'Test', embed } as unknown as Engine;
  const openai = client(engine);
  const answer = await openai.embeddings.create({ model: 'Test', input: ['a', 'b'], dimensions: 2, user: 'x' });
  expect(answer.data.map(({ embedding }) => Array.from(embedding))).toEqual([
    [0, Math.fround(0.1)],
    [1, Math.fround(0.1)],
  ]);
  expect(answer.usage).toEqual({ prompt_tokens: 7, total_tokens: 7 });
  expect(asked).toEqual([['a', 'b'], { dimensions: 2, signal: expect.any(AbortSignal) }]);
  const wrong = (params: object) => expect(openai.embeddings.create({ model: 'Test', input: 'x', ...params })).rejects;
  await wrong({ model: 'Other' }).toMatchObject({ status: 404, param: 'model' });
  await wrong({ input: [1, 2] }).toMatchObject({ status: 400, param: 'input' });
  await wrong({ input: [] }).toMatchObject({ status: 400, param: 'input' });
  await wrong({ encoding_format: 'int8' }).toMatchObject({ status: 400, param: 'encoding_format' });
  await wrong({ truncate: true }).toMatchObject({ status: 400, param: 'truncate' });
});

plain('the official client parses: whole, streamed, tools by zod, cut off, a schema that is refused', async () => {
  const answer = ['{"b":', 'true,', '"a":"x"}'];
  const call = callOf('time', '{"zone"', ':"UTC"}');
  const { engine, asked } = fake([answer, answer, call, call, answer]);
  const openai = client(engine);
  const ask = { model: 'Test 1B', messages: [{ role: 'user' as const, content: 'Hello' }] };
  const Answer = z.object({ b: z.boolean(), a: z.enum(['x', 'y']) });
  const response_format = zodResponseFormat(Answer, 'answer');
  const { message } = (await openai.chat.completions.parse({ ...ask, response_format })).choices[0]!;
  expect(message).toMatchObject({ parsed: { b: true, a: 'x' }, refusal: null });
  expect(Object.keys(asked[0]!.options.schema!.properties as object)).toEqual(['b', 'a']);

  const deltas: string[] = [];
  const partial: unknown[] = [];
  const stream = openai.chat.completions.stream({ ...ask, response_format });
  stream.on('content.delta', ({ delta, parsed }) => {
    deltas.push(delta);
    partial.push(structuredClone(parsed));
  });
  const done: unknown[] = [];
  stream.on('content.done', ({ parsed }) => void done.push(parsed));
  expect((await stream.finalChatCompletion()).choices[0]!.message.parsed).toEqual({ b: true, a: 'x' });
  expect({ deltas, partial, done }).toEqual({
    deltas: answer,
    partial: [{}, { b: true }, { b: true, a: 'x' }],
    done: [{ b: true, a: 'x' }],
  });

  const tools = [zodFunction({ name: 'time', parameters: z.object({ zone: z.enum(['UTC', 'CET']) }) })];
  const called = await openai.chat.completions.parse({ ...ask, tools, tool_choice: 'required' });
  expect(called.choices[0]!.message.tool_calls![0]!.function.parsed_arguments).toEqual({ zone: 'UTC' });
  expect(asked[2]!.options).toMatchObject({ toolChoice: 'required', tools: [{ function: { strict: true } }] });
  const streamed = openai.chat.completions.stream({ ...ask, tools });
  const args: unknown[] = [];
  streamed.on('tool_calls.function.arguments.done', ({ parsed_arguments }) => void args.push(parsed_arguments));
  await streamed.finalChatCompletion();
  expect(args).toEqual([{ zone: 'UTC' }]);
  await expect(openai.chat.completions.parse({ ...ask, response_format, max_tokens: 3 })).rejects.toThrow(/length/);

  for (const [code, params, param] of [
    ['UNSUPPORTED_SCHEMA', { response_format: jsonOf({ uniqueItems: true }) }, 'response_format'],
    ['INVALID_SCHEMA', { tools, tool_choice: 'required' as const }, 'tools'],
    ['GRAMMAR_TOO_LARGE', { response_format: jsonOf({}) }, 'response_format'],
  ] as const) {
    const data = { pointer: '/items', keyword: 'uniqueItems', reason: 'an automaton cannot compare items' };
    const refused = client(fake([new MillraceError(code, 'no', { data })]).engine);
    await expect(refused.chat.completions.create({ ...ask, ...params })).rejects.toMatchObject({
      status: 400,
      code: code.toLowerCase(),
      param,
      error: data,
    });
  }
});
