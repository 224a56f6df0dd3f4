// The installed package in a page: OpenAI's client and the AI SDK on the model in the box, aborts in every state, long use, two tabs, no network.
import { EXECUTE, TOOLS } from './tools.ts';
import { block, bundled, expect, html, javascript, openBlank, test, TINY } from './support.ts';

test('the official client, over the engine’s fetch, says what the engine says', async ({ box }) => {
  const result = await box.evaluate(async () => {
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: 'http://millrace/v1',
      fetch: engine.fetch,
      dangerouslyAllowBrowser: true,
    });
    const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];
    const model = engine.modelName;
    const { text, tokens } = await engine.generate(messages, { temperature: 0, maxTokens: 8 });
    const whole = await client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 8 });
    let streamed = '';
    let usage = null;
    for await (const chunk of await client.chat.completions.create({
      model,
      messages,
      temperature: 0,
      max_tokens: 8,
      stream: true,
      stream_options: { include_usage: true },
    })) {
      streamed += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    const plainText = await client.completions.create({
      model,
      prompt: 'The capital of',
      temperature: 0,
      max_tokens: 4,
    });
    const direct = await engine.generate('The capital of', { temperature: 0, maxTokens: 4 });
    const seeds = await Promise.all(
      [1, 1, 2].map(
        async (seed) =>
          (await client.chat.completions.create({ model, messages, seed, temperature: 2, max_tokens: 6 })).choices[0]!
            .message.content,
      ),
    );
    const controller = new AbortController();
    // One after the other.
    const long = { model, messages, n: 8, max_tokens: 200 };
    const cut = client.chat.completions.create(long, { signal: controller.signal }).then(
      () => 'answered',
      (error: Error) => error.constructor.name,
    );
    setTimeout(() => controller.abort(), 50);
    const again = await client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 8 });
    const names = (await client.models.list()).data.map(({ id }) => id);
    const refused = await client.chat.completions.create({ model, messages, n: 0 }).then(
      () => null,
      ({ status, param }) => ({ status, param }),
    );
    return {
      text,
      count: tokens.length,
      whole: whole.choices[0]!,
      streamed,
      usage,
      plainText: plainText.choices[0]!.text,
      direct: direct.text,
      seeds,
      cut: await cut,
      again: again.choices[0]!.message.content,
      names,
      model,
      refused,
    };
  });
  expect(result.text).not.toBe('');
  expect(result.whole.message.content).toBe(result.text);
  expect(result.streamed).toBe(result.text);
  expect(result.again).toBe(result.text);
  expect(result.plainText).toBe(result.direct);
  expect(result.usage).toMatchObject({
    completion_tokens: result.count,
    timings: { decode_tok_s: expect.any(Number) },
  });
  expect(result.seeds[0]).toBe(result.seeds[1]);
  expect(result.cut).toMatch(/^_?APIUserAbortError/);
  expect(result.names).toEqual([result.model]);
  expect(result.refused).toEqual({ status: 400, param: 'n' });
});

test('the AI SDK: whole, streamed, aborted', async ({ box }) => {
  const result = await box.evaluate(async () => {
    const model = millrace(engine);
    const ask = { model, prompt: 'What is 17 + 25?', temperature: 0, maxOutputTokens: 48 };
    const direct = await engine.generate([{ role: 'user', content: ask.prompt }], { temperature: 0, maxTokens: 48 });
    const whole = await ai.generateText(ask);
    let streamed = '';
    let pieces = 0;
    const stream = ai.streamText(ask);
    for await (const text of stream.textStream) {
      streamed += text;
      pieces += 1;
    }
    const controller = new AbortController();
    const cut = ai.streamText({
      ...ask,
      prompt: 'Tell me a very long story.',
      maxOutputTokens: 400,
      abortSignal: controller.signal,
    });
    const kinds: string[] = [];
    for await (const part of cut.stream) {
      kinds.push(part.type);
      if (part.type === 'text-delta') controller.abort();
    }
    const limited = await ai.generateText({ ...ask, maxOutputTokens: 1 });
    const after = await ai.generateText(ask);
    return {
      direct: { text: direct.text, tokens: direct.tokens.length, prompt: direct.prompt_tokens },
      whole: { text: whole.text, usage: whole.usage, metadata: whole.providerMetadata },
      streamed,
      pieces,
      finish: await stream.finishReason,
      last: kinds.at(-1),
      limited: limited.finishReason,
      after: after.text,
    };
  });
  expect(result.direct.text).toContain('42');
  expect(result.whole.text).toBe(result.direct.text);
  expect(result.whole.usage).toMatchObject({ inputTokens: result.direct.prompt, outputTokens: result.direct.tokens });
  expect(result.whole.metadata).toMatchObject({ millrace: { timings: { decode_tok_s: expect.any(Number) } } });
  expect(result.streamed).toBe(result.direct.text);
  expect(result.pieces).toBeGreaterThan(1);
  expect(result.finish).toBe('stop');
  expect(result.last).toBe('abort');
  expect(result.limited).toBe('length');
  expect(result.after).toBe(result.direct.text);
});

test('tools, two of them in two rounds each: the official client, streamed, and the AI SDK', async ({ box }) => {
  const questions = ['What is the weather in Paris?', 'Set a timer for 5 minutes.'];
  const seen = await box.evaluate(
    async ({ questions, tools, answers }) => {
      const client = new OpenAI({
        apiKey: 'none',
        baseURL: 'http://millrace/v1',
        fetch: engine.fetch,
        dangerouslyAllowBrowser: true,
      });
      // As their documentation has it: the message of the assistant goes back as it came, its content null.
      const messages: import('openai').OpenAI.ChatCompletionMessageParam[] = [];
      const calls: unknown[] = [];
      const texts: (string | null)[] = [];
      for (const content of questions) {
        messages.push({ role: 'user', content });
        for (let round = 0; round < 4; round++) {
          const stream = client.chat.completions.stream({
            model: engine.modelName,
            messages,
            tools,
            temperature: 0,
            max_tokens: 80,
          });
          const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]!;
          messages.push(message);
          calls.push([finish_reason, message.content]);
          if (!message.tool_calls?.length) {
            texts.push(message.content);
            break;
          }
          for (const call of message.tool_calls) {
            if (call.type !== 'function') continue;
            calls.push([call.function.name, JSON.parse(call.function.arguments)]);
            const content = JSON.stringify(answers[call.function.name]);
            messages.push({ role: 'tool', tool_call_id: call.id, content });
          }
        }
      }
      const told: unknown[] = [];
      const history: import('ai').ModelMessage[] = [];
      const set = Object.fromEntries(
        tools.map(({ function: { name, description, parameters } }) => [
          name,
          ai.tool({
            description,
            inputSchema: ai.jsonSchema(parameters as never),
            execute: async (input: unknown) => {
              told.push([name, input]);
              return answers[name];
            },
          }),
        ]),
      );
      const streamed: string[] = [];
      for (const content of questions) {
        history.push({ role: 'user', content });
        const result = ai.streamText({
          model: millrace(engine),
          messages: history,
          tools: set,
          stopWhen: ai.stepCountIs(4),
          temperature: 0,
          maxOutputTokens: 80,
        });
        streamed.push(await result.text);
        history.push(...(await result.response).messages);
      }
      return { calls, texts, told, streamed };
    },
    { questions, tools: TOOLS, answers: EXECUTE },
  );
  const answers = ['It is 12 degrees and cloudy in Paris.', 'The timer for 5 minutes is started.'];
  expect(seen.calls).toEqual([
    ['tool_calls', null],
    ['get_weather', { city: 'Paris' }],
    ['stop', answers[0]],
    ['tool_calls', null],
    ['set_timer', { minutes: 5 }],
    ['stop', answers[1]],
  ]);
  expect(seen.texts).toEqual(answers);
  expect({ told: seen.told, streamed: seen.streamed }).toEqual({
    told: [
      ['get_weather', { city: 'Paris' }],
      ['set_timer', { minutes: 5 }],
    ],
    streamed: answers,
  });
});

/** What the small model makes of it is nonsense, but nonsense of this form. Penalties keep it from white space for as long as there may be any. */
const VERDICT = {
  type: 'object',
  properties: {
    zeal: { type: 'boolean' },
    kind: { enum: ['rain', 'sun'] },
    marks: { type: 'array', items: { type: 'integer', minimum: 1, maximum: 9 }, maxItems: 2 },
    also: { type: 'string', maxLength: 3 },
  },
  required: ['zeal', 'kind', 'marks', 'also'],
  additionalProperties: false,
};
const verdict = {
  zeal: expect.any(Boolean),
  kind: expect.stringMatching(/^(rain|sun)$/),
  marks: expect.any(Array),
  also: expect.any(String),
};

test('structured output: the official client parses, as it streams too; what is refused, what is cut off', async ({
  box,
}) => {
  const seen = await box.evaluate(async (schema) => {
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: 'http://millrace/v1',
      fetch: engine.fetch,
      dangerouslyAllowBrowser: true,
    });
    const ask = { model: engine.modelName, messages: [{ role: 'user' as const, content: 'What is the weather?' }] };
    const format = (schema: object, strict?: boolean) => ({
      type: 'json_schema' as const,
      json_schema: { name: 'verdict', schema: schema as Record<string, unknown>, ...(strict ? { strict } : {}) },
    });
    const parsed: unknown[] = [];
    const ends: string[] = [];
    for (const [seed, temperature] of [
      [1, 0],
      [2, 2],
    ] as const) {
      const { choices } = await client.chat.completions.create({
        ...ask,
        seed,
        temperature,
        max_tokens: 150,
        frequency_penalty: 2,
        response_format: format(schema, seed === 1),
      });
      parsed.push(JSON.parse(choices[0]!.message.content!));
      ends.push(choices[0]!.finish_reason);
    }
    const whole = await engine.chat.completions.parse<object>({
      ...ask,
      seed: 2,
      temperature: 2,
      max_tokens: 150,
      frequency_penalty: 2,
      response_format: format(schema),
    });
    const stream = client.chat.completions.stream({
      ...ask,
      seed: 2,
      temperature: 2,
      max_tokens: 150,
      frequency_penalty: 2,
      response_format: format(schema),
    });
    let text = '';
    stream.on('content.delta', ({ delta }) => void (text += delta));
    const streamed = (await stream.finalChatCompletion()).choices[0]!.message;
    const object = await client.chat.completions.create({
      ...ask,
      max_tokens: 4,
      response_format: { type: 'json_object' },
    });
    const refusal = (error: { status: number; code: string; param: string; error: object }) => {
      const { pointer, keyword } = error.error as { pointer: string; keyword: string };
      return { status: error.status, code: error.code, param: error.param, pointer, keyword };
    };
    const odd = { type: 'object', properties: { list: { type: 'array', uniqueItems: true } } };
    const refused = await client.chat.completions
      .create({ ...ask, response_format: format(odd) })
      .then(() => null, refusal);
    const broken = await client.chat.completions
      .create({ ...ask, response_format: format({ type: 'number', minimum: 'one' }) })
      .then(() => null, refusal);
    const pattern = await engine.completions.create({
      prompt: 'The code is ',
      regex: '[A-C]{2}-[0-9]{2}',
      max_tokens: 20,
    });
    const choice = await engine.completions.create({ prompt: 'It is ', choice: ['rain', 'sun'], max_tokens: 20 });
    return {
      parsed,
      ends,
      order: parsed.map((one) => Object.keys(one as object)),
      same: JSON.stringify(whole.choices[0]!.message.parsed) === JSON.stringify(parsed[1]),
      grammar: whole.usage.grammar,
      streamed: { text, content: streamed.content, refusal: streamed.refusal },
      object: [object.choices[0]!.message.content, object.choices[0]!.finish_reason],
      refused,
      broken,
      pattern: pattern.choices[0]!.text,
      choice: choice.choices[0]!.text,
    };
  }, VERDICT);
  expect(seen.parsed).toEqual([verdict, verdict]);
  expect(seen.ends).toEqual(['stop', 'stop']);
  // In the schema's order, and not in that of the alphabet.
  for (const keys of seen.order) expect(keys).toEqual(Object.keys(VERDICT.properties));
  expect(seen.same).toBe(true);
  expect(seen.grammar).toMatchObject({ states: expect.any(Number), bytes: expect.any(Number), warnings: [] });
  expect(seen.streamed).toEqual({ text: seen.streamed.content, content: expect.any(String), refusal: null });
  expect(JSON.parse(seen.streamed.text)).toEqual(seen.parsed[1]);
  expect(seen.object).toEqual([expect.stringMatching(/^\{/), 'length']);
  const where = { status: 400, param: 'response_format' };
  expect(seen.refused).toEqual({
    ...where,
    code: 'unsupported_schema',
    pointer: '/properties/list',
    keyword: 'uniqueItems',
  });
  expect(seen.broken).toEqual({ ...where, code: 'invalid_schema', pointer: '', keyword: 'minimum' });
  expect(seen.pattern).toMatch(/^[A-C]{2}-[0-9]{2}$/);
  expect(seen.choice).toMatch(/^(rain|sun)$/);
});

test('structured output: forced and strict tools, in a run too', async ({ box }) => {
  const seen = await box.evaluate(async (tools) => {
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: 'http://millrace/v1',
      fetch: engine.fetch,
      dangerouslyAllowBrowser: true,
    });
    // Nothing that it would call a tool for.
    const messages = [{ role: 'user' as const, content: 'Who are you?' }];
    const parameters = {
      type: 'object',
      properties: { minutes: { enum: [3, 4] } },
      required: ['minutes'],
      additionalProperties: false,
    };
    const strict = tools.map((tool) => ({ ...tool, function: { ...tool.function, strict: true, parameters } }));
    const ask = { model: engine.modelName, messages, temperature: 0, max_tokens: 80, parallel_tool_calls: false };
    const named = { type: 'function' as const, function: { name: 'set_timer' } };
    const answers: unknown[] = [];
    for (const tool_choice of ['required', named, 'none'] as const) {
      const { message, finish_reason } = (await client.chat.completions.create({ ...ask, tools: strict, tool_choice }))
        .choices[0]!;
      const calls = (message.tool_calls ?? []).map((call) =>
        call.type === 'function' ? [call.function.name, JSON.parse(call.function.arguments)] : [],
      );
      answers.push([finish_reason, calls.length, ...calls.flat()]);
    }
    const got: unknown[] = [];
    const run = await engine.run({
      messages,
      tools: strict,
      execute: { get_weather: () => null, set_timer: (args: object) => void got.push(args) },
      toolChoice: 'set_timer',
      parallelToolCalls: false,
      temperature: 0,
      maxTokens: 80,
      maxRounds: 3,
    });
    return { answers, got: got.slice(0, 1), first: run.messages[0]!.tool_calls?.[0]?.function.name };
  }, TOOLS);
  const args = { minutes: expect.any(Number) };
  expect(seen.answers).toEqual([
    ['tool_calls', 1, expect.stringMatching(/^(get_weather|set_timer)$/), args],
    ['stop', 1, 'set_timer', args],
    ['stop', 0],
  ]);
  expect([seen.first, seen.got]).toEqual(['set_timer', [args]]);
});

test('structured output: the AI SDK’s objects, whole and streamed, and tools that are forced', async ({ box }) => {
  const seen = await box.evaluate(
    async ({ schema, tools }) => {
      const model = millrace(engine);
      const ask = { model, prompt: 'What is the weather?', temperature: 0, frequencyPenalty: 2, maxOutputTokens: 150 };
      const output = ai.Output.object({ schema: ai.jsonSchema<object>(schema as never) });
      const whole = await ai.generateText({ ...ask, output });
      const stream = ai.streamText({ ...ask, output });
      let partial: unknown;
      for await (const part of stream.partialOutputStream) partial = part;
      const choice = await ai.generateText({ ...ask, output: ai.Output.choice({ options: ['rain', 'sun'] }) });
      const odd = {
        type: 'object',
        properties: { list: { type: 'boolean', uniqueItems: true } },
        required: ['list'],
        additionalProperties: false,
      };
      const lenient = ai.streamText({
        ...ask,
        output: ai.Output.object({ schema: ai.jsonSchema<object>(odd as never) }),
        providerOptions: { millrace: { lenient: true } },
      });
      const set = Object.fromEntries(
        tools.map(({ function: { name } }) => [
          name,
          ai.tool({ inputSchema: ai.jsonSchema({ type: 'object', properties: {}, additionalProperties: false }) }),
        ]),
      );
      const forced = await ai.generateText({
        ...ask,
        tools: set,
        toolChoice: { type: 'tool', toolName: 'set_timer' },
      });
      return {
        whole: whole.output,
        metadata: whole.providerMetadata?.millrace,
        partial,
        streamed: await stream.output,
        choice: choice.output,
        lenient: await lenient.output,
        warnings: await lenient.warnings,
        forced: forced.toolCalls.map(({ toolName, input }) => [toolName, input])[0],
        finish: forced.finishReason,
      };
    },
    { schema: VERDICT, tools: TOOLS },
  );
  expect(seen.whole).toEqual(verdict);
  expect([seen.partial, seen.streamed]).toEqual([seen.whole, seen.whole]);
  expect(seen.metadata).toMatchObject({ grammar: { states: expect.any(Number) } });
  expect(seen.choice).toMatch(/^(rain|sun)$/);
  expect(seen.lenient).toEqual({ list: expect.any(Boolean) });
  expect(seen.warnings).toMatchObject([{ type: 'unsupported', feature: 'schema: uniqueItems' }]);
  expect([seen.forced, seen.finish]).toEqual([['set_timer', {}], 'tool-calls']);
});

for (const [section, said, index = 0] of [
  ['OpenAI client', '42'],
  ['AI SDK', '42'],
  ['Tools', 'It is 12 degrees and cloudy in Paris.'],
  ['Structured output', /^(yes|no|undefined) (true|false|undefined): \d+ states$/],
  ['Structured output', /^(yes|no)$/, 1],
  ['Structured output', /^(yes|no)$/, 2],
] as [section: string, said: string | RegExp, index?: number][]) {
  test(`docs/GUIDE.md, ${section}${index > 0 ? `, ${index + 1}` : ''}`, async ({ box, site }) => {
    const name = `/suite/${section.replace(' ', '-')}-${index}.js`;
    // What the sections before it have made.
    const made = `const { engine } = globalThis;
      const client = new OpenAI({ apiKey: 'none', baseURL: 'http://millrace/v1', fetch: engine.fetch, dangerouslyAllowBrowser: true });`;
    const code = block(section, 'js', index);
    const own = code.includes('const client') ? made.slice(0, made.indexOf('\n')) : made;
    site.routes.set(name, javascript(await bundled(`${own}\n${code}`)));
    await box.evaluate(async (name) => {
      document.querySelector('#answer')?.remove();
      document.body.append(Object.assign(document.createElement('p'), { id: 'answer' }));
      await import(name);
    }, name);
    await expect(box.locator('#answer')).toContainText(said);
  });
}

test('an abort before, while queued, while the prompt is read, and between chunks; the engine goes on', async ({
  box,
}) => {
  const outcome = await box.evaluate(async () => {
    const { context } = engine.info;
    const start = (tokens: number[], signal?: AbortSignal) =>
      engine.generate({ tokens }, { temperature: 0, ignoreEos: true, ...(signal ? { signal } : { maxTokens: 8 }) });
    const tokens = Array.from({ length: Math.floor(context / 2) }, (_, i) => 10 + (i % 200));
    const first = await start(tokens.slice(0, 4));
    const errors = [await failure(start([20], AbortSignal.abort()))];

    const running = start(tokens.slice(0, 4));
    const queue = new AbortController();
    const queued = failure(start([20], queue.signal));
    queue.abort(new Error('changed my mind'));
    errors.push(await queued);
    await running;

    const prefill = new AbortController();
    const reading = engine.generate(
      { tokens },
      { signal: prefill.signal, onProgress: ({ phase }) => phase === 'prompt' && prefill.abort() },
    );
    errors.push(await failure(reading));

    const decode = new AbortController();
    const writing = start(tokens.slice(0, 4), decode.signal);
    let pieces = 0;
    errors.push(
      await failure(
        (async () => {
          for await (const _ of writing) if (++pieces === 2) decode.abort();
        })(),
      ),
    );
    const there = (await failure(writing))!.data.result as { tokens: number[]; finish_reason: string };

    // Between two chunks: the loop holds a piece while the next is computed.
    const between = new AbortController();
    const held = start(tokens.slice(0, 4), between.signal);
    errors.push(
      await failure(
        (async () => {
          for await (const _ of held) {
            await new Promise((go) => setTimeout(go, 100));
            between.abort();
          }
        })(),
      ),
    );
    const last = await start(tokens.slice(0, 4));
    return {
      errors,
      pieces,
      there: { reason: there.finish_reason, tokens: there.tokens.length },
      same: last.text === first.text,
    };
  });
  expect(outcome.errors).toHaveLength(5);
  for (const error of outcome.errors) expect(error).toMatchObject({ code: 'ABORTED', name: 'AbortError', ours: true });
  expect(outcome.pieces).toBe(2);
  expect(outcome.there.reason).toBe('abort');
  expect(outcome.there.tokens).toBeGreaterThan(0);
  expect(outcome.same).toBe(true);
});

test('an abort of loading: before, while downloading, while compiling; the next load is whole, and no Worker is left', async ({
  blank,
}) => {
  let workers = 0;
  blank.on('worker', (worker) => {
    workers += 1;
    worker.on('close', () => (workers -= 1));
  });
  const outcome = await blank.evaluate(async (model) => {
    const errors = [await failure(Engine.load({ model, signal: AbortSignal.abort() }))];
    for (const at of ['download', 'compile']) {
      const controller = new AbortController();
      let last = '';
      const load = Engine.load({
        model,
        lane: 'exact',
        signal: controller.signal,
        cache: at === 'compile',
        onProgress: ({ phase }) => {
          last = phase;
          if (phase === at) controller.abort();
        },
      });
      errors.push(await failure(load));
      if (last !== at) throw new Error(`the abort came at ${last}, not at ${at}`);
    }
    const engine = await Engine.load({ model, lane: 'exact' });
    const { tokens } = await engine.generate({ tokens: [57, 56] }, { maxTokens: 4, ignoreEos: true });
    engine.dispose();
    return { errors, tokens: tokens.length };
  }, TINY);
  expect(outcome.errors).toHaveLength(3);
  for (const error of outcome.errors) expect(error).toMatchObject({ code: 'ABORTED', ours: true });
  expect(outcome.tokens).toBe(4);
  await expect.poll(() => workers).toBe(0);
});

test('200 generations in a row: neither the memory of the wasm nor that of the GPU grows', async ({ blank }) => {
  const memory = await blank.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact', context: 128 });
    const seen: { wasm: number; total: number; created: number }[] = [];
    for (let i = 0; i < 200; i += 1) {
      // Prompts that differ, so that nothing of the one before is reused.
      const { counters } = await engine.generate(
        { tokens: [1 + (i % 200), 57, 56] },
        { maxTokens: 3, ignoreEos: true },
      );
      const { wasm, total } = engine.info.memory;
      seen.push({ wasm, total, created: counters.created });
    }
    engine.dispose();
    return seen;
  }, TINY);
  expect(memory).toHaveLength(200);
  // The first few may still compile passes in idle time.
  const [before, after] = [memory[19]!, memory[199]!];
  expect(after.wasm).toBe(before.wasm);
  expect(after.total).toBe(before.total);
  expect(memory.slice(20).reduce((sum, { created }) => sum + created, 0)).toBe(0);
});

test('two tabs at once load and answer the same', async ({ context, site }) => {
  const tabs = await Promise.all([context.newPage(), context.newPage()]);
  await Promise.all(tabs.map((tab) => openBlank(tab, site)));
  const texts = await Promise.all(
    tabs.map((tab) =>
      tab.evaluate(async (model) => {
        const engine = await Engine.load({ model, lane: 'exact' });
        const { text } = await engine.generate(
          { tokens: [57, 56] },
          { maxTokens: 16, temperature: 0, ignoreEos: true },
        );
        const { storage } = engine.info;
        engine.dispose();
        return { text, kind: storage.kind };
      }, TINY),
    ),
  );
  expect(texts[0]!.text).not.toBe('');
  expect(texts[1]).toEqual(texts[0]);
});

test('reloaded without a network, page and model come from the browser', async ({ context, page, site }) => {
  const elsewhere: string[] = [];
  context.on(
    'request',
    (request) =>
      void (request.url().startsWith(site.url) || request.url().startsWith('blob:') || elsewhere.push(request.url())),
  );
  // A service worker as an application has it: the page, the bundle and the two files of the package. The model is none of its business.
  const keep = ['/offline', '/suite/page.js', '/suite/worker.js', '/suite/millrace_bg.wasm'];
  site.routes.set(
    '/offline',
    html(
      `<!doctype html><meta charset="utf-8"><title>Offline</title><script type="module" src="/suite/page.js"></script>`,
    ),
  );
  site.routes.set('/service-worker.js', (_, response) => {
    const script = `
      addEventListener('install', (event) => event.waitUntil(caches.open('app').then((cache) => cache.addAll(${JSON.stringify(keep)})).then(() => skipWaiting())));
      addEventListener('activate', (event) => event.waitUntil(clients.claim()));
      addEventListener('fetch', (event) => {
        const { pathname } = new URL(event.request.url);
        if (${JSON.stringify(keep)}.includes(pathname)) event.respondWith(caches.match(pathname));
      });`;
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script);
  });
  const answer = async () => {
    await page.waitForFunction(() => 'failure' in globalThis);
    return page.evaluate(async (model) => {
      const engine = await Engine.load({ model, device: 'gpu', lane: 'exact' });
      const { text } = await engine.generate({ tokens: [57, 56] }, { maxTokens: 8, temperature: 0, ignoreEos: true });
      const { storage } = engine.info;
      engine.dispose();
      return { text, cached: storage.cached };
    }, TINY);
  };
  await page.goto(`${site.url}/offline`);
  await page.evaluate(async () => {
    await navigator.serviceWorker.register('/service-worker.js');
    await navigator.serviceWorker.ready;
  });
  const before = await answer();
  await context.setOffline(true);
  await page.reload();
  // The network is gone: what nobody has kept is not there.
  const gone = await page.evaluate(
    (model) =>
      fetch(`${model}?again`).then(
        () => false,
        () => true,
      ),
    TINY,
  );
  const after = await answer();
  await context.setOffline(false);
  expect(gone).toBe(true);
  expect(before.cached).toBe(false);
  expect(after).toEqual({ text: before.text, cached: true });
  expect(elsewhere).toEqual([]);
});

test('nothing is asked of another origin', async ({ browser, site }) => {
  const context = await browser.newContext();
  const asked: URL[] = [];
  context.on('request', (request) => asked.push(new URL(request.url())));
  const page = await context.newPage();
  await openBlank(page, site);
  await page.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact' });
    await engine.generate({ tokens: [57, 56] }, { maxTokens: 4 });
    engine.dispose();
  }, TINY);
  await context.close();
  expect(asked.map(({ pathname }) => pathname)).toEqual(
    expect.arrayContaining(['/suite/worker.js', '/suite/millrace_bg.wasm', TINY]),
  );
  expect(asked.filter(({ origin }) => origin !== site.url)).toEqual([]);
});
