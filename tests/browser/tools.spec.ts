// The bundled model calls tools in `engine.run`, in a page.
import { expect, openBlank, test } from './support.ts';

test('the model in the box: two tools, two rounds, the answer made of what they returned', async ({ page, site }) => {
  test.setTimeout(300_000);
  await openBlank(page, site);
  const heard = await page.evaluate(async () => {
    const { Engine } = (await import('/pkg/index.js' as string)) as typeof import('../../npm/index.ts');
    const engine = await Engine.load({ model: '/models/box.gguf', cache: false, tune: false });
    const tool = (name: string, description: string, key: string, type: string) => ({
      type: 'function' as const,
      function: {
        name,
        description,
        parameters: { type: 'object', properties: { [key]: { type } }, required: [key] },
      },
    });
    const tools = [
      tool('get_weather', 'Get the weather in a city.', 'city', 'string'),
      tool('set_timer', 'Start a timer.', 'minutes', 'integer'),
    ];
    const asked: [string, unknown][] = [];
    const execute = {
      get_weather: (args: unknown) => {
        asked.push(['get_weather', args]);
        return { degrees: 12, sky: 'cloudy' };
      },
      set_timer: async (args: unknown) => {
        asked.push(['set_timer', args]);
        await new Promise((go) => setTimeout(go, 20));
        return { status: 'started' };
      },
    };
    const said = [];
    const messages: (import('../../npm/index.ts').Message | import('../../npm/index.ts').PicturedMessage)[] = [];
    for (const content of ['What is the weather in Paris?', 'Set a timer for 5 minutes.']) {
      messages.push({ role: 'user', content });
      const events: string[] = [];
      const run = engine.run({ messages, tools, execute, temperature: 0, maxTokens: 100 });
      for await (const { type } of run) if (events.at(-1) !== type) events.push(type);
      const { text, rounds, finish_reason, messages: added, results } = await run;
      messages.push(...added);
      said.push({ text, rounds, finish_reason, events, cached: results.map(({ cached_tokens }) => cached_tokens) });
    }
    const calls = messages.flatMap(({ tool_calls: calls }) => calls ?? []);
    engine.dispose();
    return { asked, said, roles: messages.map(({ role }) => role), ids: calls.map(({ id }) => id) };
  });
  expect(heard.asked).toEqual([
    ['get_weather', { city: 'Paris' }],
    ['set_timer', { minutes: 5 }],
  ]);
  expect(heard.said).toMatchObject([
    { text: 'It is 12 degrees and cloudy in Paris.', rounds: 2, finish_reason: 'stop' },
    { text: 'The timer for 5 minutes is started.', rounds: 2, finish_reason: 'stop' },
  ]);
  for (const { events } of heard.said)
    expect(events).toEqual([
      'tool_call',
      'arguments',
      'tool_call_end',
      'message',
      'tool_result',
      'message',
      'content',
      'message',
    ]);
  // The second round reads only new tokens.
  for (const { cached } of heard.said) expect(cached[1]).toBeGreaterThan(100);
  expect(heard.roles).toEqual(['user', 'assistant', 'tool', 'assistant', 'user', 'assistant', 'tool', 'assistant']);
  expect(new Set(heard.ids).size).toBe(2);
  expect(heard.ids.every((id) => /^\w{9}$/.test(id!))).toBe(true);
});
