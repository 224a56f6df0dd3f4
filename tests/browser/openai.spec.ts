// OpenAI's shapes: parameters and answers on an engine that is told what to say, without a browser. tests/package has the official client in a page.
import { expect, test as plain } from '@playwright/test';
import OpenAI from 'openai';
import type { Engine } from '../../npm/engine.ts';
import { MillraceError } from '../../npm/errors.ts';
import { ChatCompletions, Completions } from '../../npm/openai/create.ts';
import { respondTo } from '../../npm/openai/fetch.ts';
import type { ChatCompletionChunk, ChatCompletionParams } from '../../npm/openai/types.ts';
import { callOf, fake, thought } from './fake.ts';

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
    { role: 'assistant', content: '' },
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
  // Without being asked for, there are none.
  expect((await new ChatCompletions(fake([['a']]).engine).create(HELLO)).choices[0]!.logprobs).toBeNull();
});

plain('what cannot be honoured is an error that names it', async () => {
  const { engine, asked } = fake([]);
  const wrong: [object, string][] = [
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ logprobs: 3 }, 'logprobs'],
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ n: 0 }, 'n must'],
    [{ stream_options: { include_usage: true } }, 'stream_options'],
    [{ tools: [{ type: 'function', function: { name: 'a' } }], tool_choice: 'required' }, 'tool_choice'],
    [{ parallel_tool_calls: false }, 'parallel_tool_calls'],
    [{ audio: {} }, 'audio'],
    [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: '' } }] }] }, 'image_url'],
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

plain('leaving the loop, its controller and a signal stop the generation', async () => {
  const endless = Array.from({ length: 1000 }, () => 'a');
  const { engine, stopped } = fake([endless, endless, endless]);
  const chat = new ChatCompletions(engine);
  for await (const { choices } of await chat.create({ ...HELLO, stream: true })) if (choices[0]?.delta.content) break;
  expect(stopped()).toBe(1);
  const stream = await chat.create({ ...HELLO, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content) stream.controller.abort();
  const controller = new AbortController();
  const answer = chat.create(HELLO, { signal: controller.signal });
  setTimeout(() => controller.abort(), 20);
  await expect(answer).rejects.toMatchObject({ code: 'ABORTED' });
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
  await expect(openai.chat.completions.create({ model, messages, parallel_tool_calls: false })).rejects.toMatchObject({
    status: 400,
    param: 'parallel_tool_calls',
  });
  expect((await openai.models.list()).data.map(({ id }) => id)).toEqual([model]);
  expect((await openai.models.retrieve(model)).id).toBe(model);
  await expect(openai.embeddings.create({ model, input: 'x' })).rejects.toMatchObject({ status: 404 });
});
