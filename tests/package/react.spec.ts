// millrace/react under React 19 in a page: on an engine that is told what to say, then on a real one, in StrictMode.
import type { GenerateOptions, RunOptions } from '../../npm/index.ts';
import { EXECUTE, TOOLS } from './tools.ts';
import { BOX, expect, test } from './support.ts';

/** Engine.load as the test wants it, counted; the engines that it makes say `says`, a piece each few milliseconds. */
function fakeEngines(): void {
  const noted = {
    loads: 0,
    aborted: 0,
    disposed: 0,
    asked: [] as { role: string; content: string }[][],
    fail: null as Error | null,
    answer: null as Error | null,
    says: ['Hi', ' there', '!'],
    thinks: false,
    hold: 0,
    ended: 0,
  };
  Object.assign(globalThis, { noted });
  Engine.load = (async ({
    model,
    signal,
    onProgress,
  }: {
    model: string;
    signal: AbortSignal;
    onProgress: (p: object) => void;
  }) => {
    noted.loads += 1;
    onProgress({ phase: 'download', loaded: 1, total: 2, cached: false });
    await new Promise<void>((done, fail) => {
      setTimeout(done, 20 + noted.hold);
      signal.addEventListener('abort', () => {
        noted.aborted += 1;
        fail(new MillraceError('ABORTED', 'loading was aborted'));
      });
    });
    if (noted.fail) throw noted.fail;
    return Object.assign(new EventTarget(), {
      info: { model: { name: model, thinks: noted.thinks } },
      dispose: () => void (noted.disposed += 1),
      run(options: RunOptions) {
        return Engine.prototype.run.call(this as never, options);
      },
      generate(messages: { role: string; content: string }[], { onTokens }: GenerateOptions) {
        noted.asked.push(structuredClone(messages));
        let stopped = false;
        const work = async (): Promise<object> => {
          const said = { role: 'assistant', content: '', reasoning_content: '' };
          for (const [index, piece] of noted.says.entries()) {
            await new Promise((go) => setTimeout(go, 10));
            if (noted.answer) throw noted.answer;
            if (stopped) break;
            const thinks = noted.thinks && index === 0;
            said[thinks ? 'reasoning_content' : 'content'] += piece;
            const type = thinks ? ('reasoning' as const) : ('content' as const);
            onTokens?.({ text: piece, tokens: [], parts: [{ type, text: piece }] });
          }
          const { reasoning_content, ...rest } = said;
          const message = reasoning_content === '' ? rest : said;
          return { text: said.content, message, finish_reason: stopped ? 'abort' : 'stop' };
        };
        const result = work().finally(() => void (noted.ended += 1));
        return Object.assign(result, { stop: () => void (stopped = true) });
      },
    });
  }) as never;
}
interface Noted {
  loads: number;
  aborted: number;
  disposed: number;
  asked: { role: string; content: string }[][];
  fail: Error | null;
  answer: Error | null;
  says: string[];
  thinks: boolean;
  hold: number;
  /** Answers that have come to their end. */
  ended: number;
}
declare global {
  var noted: Noted;
}

test.beforeEach(async ({ blank }, { title }) => {
  if (!title.startsWith('a real')) await blank.evaluate(fakeEngines);
});

test('StrictMode loads once; a question asked meanwhile is answered; the answer streams', async ({ blank }) => {
  const seen = await blank.evaluate(async () => {
    const states: string[] = [];
    mount({ model: '/a.gguf', system: 'Be brief.' });
    await until(() => chat?.progress);
    states.push(`${chat.status} ${chat.progress!.loaded}/${chat.progress!.total}`);
    chat.send('Hello');
    await until(() => chat.status === 'generating' && chat.messages.at(-1)!.content === 'Hi');
    states.push(chat.status);
    let wrong: unknown = null;
    try {
      chat.send('Too early');
    } catch (error) {
      wrong = (error as InstanceType<typeof MillraceError>).code;
    }
    await until(() => chat.status === 'ready');
    return {
      states,
      wrong,
      messages: chat.messages,
      shown: document.querySelector('#state')!.textContent,
      result: chat.result,
      name: chat.info!.model.name,
      ...noted,
    };
  });
  expect(seen).toMatchObject({
    loads: 1,
    aborted: 0,
    disposed: 0,
    states: ['loading 1/2', 'generating'],
    wrong: 'BAD_OPTION',
    shown: 'ready',
    result: { finish_reason: 'stop' },
    name: '/a.gguf',
    messages: [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hi there!' },
    ],
    asked: [
      [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
      ],
    ],
  });
});

test('stop keeps what there is, retry asks again, reset begins anew', async ({ blank }) => {
  const seen = await blank.evaluate(async () => {
    noted.says = Array.from({ length: 500 }, () => 'a');
    mount({ model: '/a.gguf' });
    await until(() => chat?.status === 'ready');
    chat.send('Hello');
    await until(() => chat.messages.length === 2);
    chat.stop();
    await until(() => chat.status === 'ready');
    const stopped = { text: chat.messages[1]!.content!.length, reason: chat.result!.finish_reason };
    noted.says = ['b'];
    chat.retry();
    await until(() => chat.status === 'ready' && chat.messages[1]?.content === 'b');
    noted.says = Array.from({ length: 500 }, () => 'c');
    chat.send('And now?');
    await until(() => chat.messages.length === 4);
    chat.reset();
    await until(() => chat.messages.length === 0);
    await until(() => noted.ended === 3);
    await new Promise((go) => setTimeout(go));
    return { stopped, status: chat.status, messages: chat.messages, ...noted };
  });
  expect(seen.stopped.reason).toBe('abort');
  expect(seen.stopped.text).toBeLessThan(500);
  expect(seen).toMatchObject({ status: 'ready', messages: [], loads: 1, disposed: 0 });
  expect(seen.asked.map((messages) => messages.map(({ content }) => content))).toEqual([
    ['Hello'],
    ['Hello'],
    ['Hello', 'b', 'And now?'],
  ]);
});

test('a question with pictures: parts for the engine, texts and parts to show', async ({ blank }) => {
  const seen = await blank.evaluate(async () => {
    mount({ model: '/a.gguf' });
    await until(() => chat?.status === 'ready');
    const image = { type: 'image' as const, image: new Blob(['x'], { type: 'image/png' }) };
    chat.send([image, { type: 'text', text: 'What is this?' }]);
    await until(() => chat.result);
    const [question] = chat.messages;
    const parts = question!.parts!.map(({ type }) => type);
    const asked = (noted.asked[0]![0]!.content as unknown as { type: string; image?: Blob }[]).map(
      ({ type, image }) => `${type} ${image?.type}`,
    );
    const wrong = [[], [{ type: 'image' }], 7].map((content) => {
      try {
        chat.send(content as never);
        return 'nothing';
      } catch (error) {
        return (error as Error).message;
      }
    });
    return { content: question!.content, parts, asked, keys: Object.keys(noted.asked[0]![0]!), wrong };
  });
  expect(seen).toEqual({
    content: 'What is this?',
    parts: ['image', 'text'],
    asked: ['image image/png', 'text undefined'],
    keys: ['role', 'content'],
    wrong: [
      expect.stringContaining('has no parts'),
      expect.stringContaining('part 0 must have an image'),
      expect.stringContaining('is no text'),
    ],
  });
});

test('thoughts are kept apart', async ({ blank }) => {
  const messages = await blank.evaluate(async () => {
    noted.thinks = true;
    noted.says = ['hm', 'Yes.'];
    mount({ model: '/a.gguf' });
    await until(() => chat?.status === 'ready');
    chat.send('Hello');
    await until(() => chat.result);
    return chat.messages;
  });
  expect(messages[1]).toEqual({ role: 'assistant', content: 'Yes.', reasoning_content: 'hm' });
});

test('errors of loading and of answering, each tried again', async ({ blank }) => {
  const seen = await blank.evaluate(async () => {
    const states: unknown[] = [];
    const note = (): void =>
      void states.push([
        chat.status,
        chat.error?.code ?? null,
        chat.engine !== null,
        chat.messages.map(({ content }) => content),
      ]);
    noted.fail = new MillraceError('NOT_FOUND', 'no such model');
    mount({ model: '/a.gguf' });
    await until(() => chat?.error);
    note();
    noted.fail = null;
    chat.retry();
    await until(() => chat.status === 'ready');
    note();
    noted.answer = new MillraceError('CONTEXT_FULL', 'too long');
    chat.send('Hello');
    await until(() => chat.error);
    note();
    noted.answer = null;
    chat.retry();
    await until(() => chat.status === 'ready');
    note();
    noted.answer = new MillraceError('DEVICE_LOST', 'lost twice');
    chat.send('Again');
    await until(() => chat.error);
    note();
    noted.answer = null;
    chat.retry();
    await until(() => chat.status === 'ready' && chat.result);
    note();
    return { states, loads: noted.loads, disposed: noted.disposed };
  });
  const answered = ['Hello', 'Hi there!'];
  expect(seen).toEqual({
    states: [
      ['error', 'NOT_FOUND', false, []],
      ['ready', null, true, []],
      ['error', 'CONTEXT_FULL', true, ['Hello']],
      ['ready', null, true, answered],
      ['error', 'DEVICE_LOST', false, [...answered, 'Again']],
      ['ready', null, true, [...answered, 'Again', 'Hi there!']],
    ],
    loads: 3,
    disposed: 1,
  });
});

test('leaving while loading aborts it, leaving while answering frees the engine a little later, unless it is taken up again; another model takes the place of this one', async ({
  blank,
}) => {
  const seen = await blank.evaluate(async () => {
    const states: unknown[] = [];
    const note = (): void => void states.push([noted.loads, noted.aborted, noted.disposed]);
    // What a component that has gone said last stays in `chat`.
    const ready = (): Promise<unknown> => {
      chat = { ...chat, status: 'loading' };
      return until(() => chat.status === 'ready');
    };
    noted.hold = 10_000;
    mount({ model: '/a.gguf' });
    await until(() => chat?.progress);
    unmount();
    note();
    noted.hold = 0;
    noted.says = Array.from({ length: 5000 }, () => 'a');
    mount({ model: '/a.gguf' });
    await ready();
    chat.send('Hello');
    await until(() => chat.messages.length === 2);
    unmount();
    note();
    // As after a hot edit.
    mount({ model: '/a.gguf' });
    await ready();
    unmount();
    note();
    mount({ model: new URL('/a.gguf', location.href) }, false);
    await ready();
    // Another object, the same address.
    mount({ model: new URL('/a.gguf', location.href) }, false);
    mount({ model: '/b.gguf' }, false);
    await until(() => chat.info?.model.name === '/b.gguf');
    note();
    mount({ model: '/b.gguf', enabled: false }, false);
    await until(() => chat.status === 'idle');
    note();
    await until(() => noted.disposed === 3);
    note();
    return states;
  });
  expect(seen).toEqual([
    [1, 1, 0],
    [2, 1, 0],
    [2, 1, 0],
    [4, 1, 2],
    [4, 1, 2],
    [4, 1, 3],
  ]);
});

test('a real engine in StrictMode: one Worker, an answer that streams, one that is stopped, and nothing left', async ({
  blank,
}) => {
  let workers = 0;
  blank.on('worker', (worker) => {
    workers += 1;
    worker.on('close', () => (workers -= 1));
  });
  // Unmounted on the way.
  await blank.evaluate(async (model) => {
    mount({ model });
    // Which phase a look every few milliseconds finds is chance.
    await until(() => chat?.status === 'loading');
    unmount();
  }, BOX);
  // A Worker that waits for a software GPU ends when it has answered.
  await expect.poll(() => workers, { timeout: 60_000 }).toBe(0);
  const seen = await blank.evaluate(async (model) => {
    mount({ model, generate: { temperature: 0 } });
    const phases = new Set<string>();
    await until(() => {
      if (chat.progress) phases.add(chat.progress.phase);
      return chat.status === 'ready';
    }, 150_000);
    chat.send('What is 17 + 25?');
    const lengths = new Set<number>();
    await until(() => {
      lengths.add(chat.messages[1]?.content?.length ?? 0);
      return chat.result;
    });
    const answer = chat.messages[1]!.content;
    chat.send('Tell me a very long story.');
    await until(() => chat.messages.length === 4);
    chat.stop();
    await until(() => chat.status === 'ready');
    return {
      phases: [...phases],
      answer,
      grew: lengths.size,
      reason: chat.result!.finish_reason,
      tokens: chat.result!.tokens.length,
    };
  }, BOX);
  expect(seen.phases.length).toBeGreaterThan(0);
  expect(seen.answer).toContain('42');
  expect(seen.grew).toBeGreaterThan(2);
  expect(seen.reason).toBe('abort');
  expect(workers).toBeGreaterThan(0);
  await blank.evaluate(() => unmount());
  await expect.poll(() => workers, { timeout: 60_000 }).toBe(0);
});

test('a real engine calls two tools in two rounds; what it called is in the conversation; it satisfies a schema', async ({
  blank,
}) => {
  const seen = await blank.evaluate(
    async ({ model, tools, answers }) => {
      const ran: unknown[] = [];
      const execute = Object.fromEntries(
        Object.entries(answers).map(([name, answer]) => [
          name,
          (args: unknown) => {
            ran.push([name, args]);
            return answer;
          },
        ]),
      );
      mount({ model, tools, execute, generate: { temperature: 0, maxTokens: 80 } });
      await until(() => chat?.status === 'ready', 150_000);
      for (const question of ['What is the weather in Paris?', 'Set a timer for 5 minutes.']) {
        chat.send(question);
        await until(() => chat.status === 'generating');
        await until(() => chat.status === 'ready');
      }
      const messages = chat.messages;
      chat.retry();
      await until(() => chat.status === 'generating');
      const asked = chat.messages.at(-1)!.role;
      await until(() => chat.status === 'ready');
      const again = chat.messages;
      // The same engine, other options.
      const before = chat;
      const sky = { enum: ['blue', 'grey'] };
      const schema = { type: 'object', properties: { sky }, required: ['sky'], additionalProperties: false };
      mount({ model, generate: { temperature: 0, maxTokens: 80, schema } });
      await until(() => chat !== before);
      chat.send('What is the sky like?');
      await until(() => chat.status === 'generating');
      await until(() => chat.status === 'ready');
      const forced: unknown = JSON.parse(chat.messages.at(-1)!.content!);
      unmount();
      return { ran, messages, again, asked, forced };
    },
    { model: BOX, tools: TOOLS, answers: EXECUTE },
  );
  expect(seen.messages.map(({ role, content }) => [role, content])).toEqual([
    ['user', 'What is the weather in Paris?'],
    ['assistant', null],
    ['tool', '{"degrees":12,"sky":"cloudy"}'],
    ['assistant', 'It is 12 degrees and cloudy in Paris.'],
    ['user', 'Set a timer for 5 minutes.'],
    ['assistant', null],
    ['tool', '{"status":"started"}'],
    ['assistant', 'The timer for 5 minutes is started.'],
  ]);
  expect(seen.asked).toBe('user');
  expect(seen.again.map(({ role, content }) => [role, content])).toEqual(
    seen.messages.map(({ role, content }) => [role, content]),
  );
  expect(seen.ran).toEqual([
    ['get_weather', { city: 'Paris' }],
    ['set_timer', { minutes: 5 }],
    ['set_timer', { minutes: 5 }],
  ]);
  expect(seen.forced).toEqual({ sky: expect.stringMatching(/^(blue|grey)$/) });
});
