// The ends of streams with OpenAI's client and plain `fetch`: equal steps, on a server over HTTP and on an engine's
// `fetch`, have equal outcomes.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@playwright/test';
import OpenAI from 'openai';
import { ChatCompletions } from '../../npm/openai/calls.ts';
import { respondTo } from '../../npm/openai/fetch.ts';
import { collect, Endless, fake } from './fake.ts';
import { test as page, TINY } from './support.ts';

declare global {
  /** In the page: the numbers of started and of ended generations. */
  var counts: { asked: number; ended: number };
}

// A step that hangs is a failure.
test.describe.configure({ timeout: 60_000 });

/** The answering side, an engine or a server, and its answer: nothing before `said.more()`. */
interface World {
  said: Endless;
  fetch: typeof fetch;
  base: string;
  /** The number of running answers. */
  running: () => number;
  close: () => void;
}

const ASK = { model: 'Test 1B', messages: [{ role: 'user' as const, content: 'Hello' }] };
const BODY = JSON.stringify({ ...ASK, stream: true });

/** An engine. */
async function engine(): Promise<World> {
  const said = new Endless();
  const { engine, running } = fake([said]);
  return {
    said,
    fetch: (input, init) => respondTo(engine, input, init),
    base: 'http://millrace/v1',
    running,
    close: () => {},
  };
}

/** A server with the same answer, which begins with the first piece, as an engine's. */
async function server(): Promise<World> {
  const said = new Endless();
  let running = 0;
  const say = async (response: ServerResponse): Promise<void> => {
    let head = false;
    for await (const content of said) {
      if (response.destroyed) return;
      if (!head) response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      const write = (delta: object): void =>
        void response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
      if (!head) write({ role: 'assistant', content: '' });
      head = true;
      write({ content });
    }
  };
  const http = createServer((_, response) => {
    running += 1;
    response.on('close', () => (running -= 1));
    void say(response);
  });
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done));
  return {
    said,
    fetch,
    base: `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`,
    running: () => running,
    close: () => {
      http.close();
      http.closeAllConnections();
    },
  };
}

const clientOf = ({ base, fetch }: World): OpenAI =>
  new OpenAI({ apiKey: 'none', baseURL: base, fetch, maxRetries: 0, dangerouslyAllowBrowser: true });

/** The outcome of a promise: its value, or the name of its error. */
const outcome = async (work: PromiseLike<unknown>): Promise<unknown> => {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof Error)) return `threw ${String(error)}`;
    // OpenAI's errors are told by their classes, as far as a bundler has left their names.
    return `threw ${error.name === 'Error' ? error.constructor.name.replace(/^_/, '') : error.name}`;
  }
};

const isRunning = (world: World) => expect.poll(world.running).toBe(1);

/** The texts of a stream, a piece at a time, until `leave` returns true; and the error of the loop. */
async function read(
  { said }: World,
  stream: AsyncIterable<OpenAI.ChatCompletionChunk>,
  at: (texts: readonly string[]) => unknown = () => false,
): Promise<unknown[]> {
  const texts: string[] = [];
  const all = (async () => {
    for await (const { choices } of stream) {
      const { content } = choices[0]!.delta;
      if (!content) continue;
      texts.push(content);
      said.more();
      if (at(texts) === true) break;
    }
    return 'ended';
  })();
  const end = await outcome(all);
  return [...texts, end];
}

type Step = (world: World, controller: AbortController) => Promise<unknown>;
const streamed = async (world: World, { signal }: { signal?: AbortSignal } = {}) => {
  world.said.more();
  return clientOf(world).chat.completions.create({ ...ASK, stream: true }, { ...(signal ? { signal } : {}) });
};
const second = (texts: readonly string[]): boolean => texts.length === 2;

/** Steps with OpenAI's client, and their outcomes. */
const CLIENT: Record<string, [Step, unknown]> = {
  'a signal that was aborted before': [
    async (world, controller) => {
      controller.abort();
      return outcome(streamed(world, controller));
    },
    'threw APIUserAbortError',
  ],
  'a signal while nothing has come': [
    async (world, controller) => {
      const { signal } = controller;
      const stream = outcome(clientOf(world).chat.completions.create({ ...ASK, stream: true }, { signal }));
      await isRunning(world);
      controller.abort();
      return stream;
    },
    'threw APIUserAbortError',
  ],
  'a signal, of an answer that is asked for whole': [
    async (world, controller) => {
      const { signal } = controller;
      const answer = outcome(clientOf(world).chat.completions.create(ASK, { signal }));
      await isRunning(world);
      controller.abort();
      return answer;
    },
    'threw APIUserAbortError',
  ],
  'a time limit while nothing has come': [
    async (world) => outcome(clientOf(world).chat.completions.create({ ...ASK, stream: true }, { timeout: 50 })),
    'threw APIConnectionTimeoutError',
  ],
  'a signal before the loop': [
    async (world, controller) => {
      const stream = await streamed(world, controller);
      controller.abort();
      return read(world, stream);
    },
    ['ended'],
  ],
  'a signal in the loop': [
    async (world, controller) =>
      read(world, await streamed(world, controller), (texts) => void (second(texts) && controller.abort())),
    ['0 ', '1 ', 'ended'],
  ],
  'a signal with a reason': [
    async (world, controller) =>
      read(world, await streamed(world, controller), (texts) => void (second(texts) && controller.abort('why'))),
    ['0 ', '1 ', 'ended'],
  ],
  'a signal while the loop waits': [
    async (world, controller) => {
      const stream = await streamed(world, controller);
      let count = 0;
      const all = outcome(
        (async () => {
          for await (const { choices } of stream) if (choices[0]!.delta.content) count += 1;
          return 'ended';
        })(),
      );
      await expect.poll(() => count).toBe(1);
      controller.abort();
      return [await all, count];
    },
    ['ended', 1],
  ],
  'the controller before the loop': [
    async (world) => {
      const stream = await streamed(world);
      stream.controller.abort();
      return read(world, stream);
    },
    ['ended'],
  ],
  'the controller in the loop': [
    async (world) => {
      const stream = await streamed(world);
      return read(world, stream, (texts) => void (second(texts) && stream.controller.abort()));
    },
    ['0 ', '1 ', 'ended'],
  ],
  'the controller with a reason': [
    async (world) => {
      const stream = await streamed(world);
      return read(world, stream, (texts) => void (second(texts) && stream.controller.abort(new RangeError('why'))));
    },
    ['0 ', '1 ', 'threw RangeError'],
  ],
  break: [async (world) => read(world, await streamed(world), second), ['0 ', '1 ', 'ended']],
  'an error in the loop': [
    async (world) =>
      read(world, await streamed(world), (texts) => {
        if (second(texts)) throw new RangeError('mine');
      }),
    ['0 ', '1 ', 'threw RangeError'],
  ],
  'return of the iterator': [
    async (world) => {
      const iterator = (await streamed(world))[Symbol.asyncIterator]();
      await iterator.next();
      const end = await iterator.return!();
      return [end.done, (await iterator.next()).done];
    },
    [true, true],
  ],
  'cancelling its bytes': [
    async (world) => {
      const reader = (await streamed(world)).toReadableStream().getReader();
      await reader.read();
      await reader.cancel();
      return (await reader.read()).done;
    },
    true,
  ],
  'cancelling its response': [
    async (world) => {
      world.said.more();
      const response = await clientOf(world)
        .chat.completions.create({ ...ASK, stream: true })
        .asResponse();
      return outcome(response.body!.cancel());
    },
    undefined,
  ],
  'the controller, of two branches': [
    async (world) => {
      const stream = await streamed(world);
      const [one, two] = stream.tee();
      const first = await read(world, one, (texts) => void (second(texts) && stream.controller.abort()));
      return [first, await read(world, two)];
    },
    [
      ['0 ', '1 ', 'ended'],
      ['0 ', '1 ', 'ended'],
    ],
  ],
  'break out of the helper for streams': [
    async (world) => {
      world.said.more();
      return read(world, clientOf(world).chat.completions.stream(ASK), second);
    },
    ['0 ', '1 ', 'ended'],
  ],
  'abort of the helper for streams': [
    async (world) => {
      const stream = clientOf(world).chat.completions.stream(ASK);
      const seen: string[] = [];
      stream.on('abort', ({ constructor: { name } }) => void seen.push(`abort ${name.replace(/^_/, '')}`));
      stream.on('error', () => void seen.push('error'));
      stream.on('content', (delta) => {
        seen.push(delta);
        if (seen.length === 2) stream.abort();
        else world.said.more();
      });
      world.said.more();
      return [await outcome(stream.finalChatCompletion()), seen];
    },
    ['threw APIUserAbortError', ['0 ', '1 ', 'abort APIUserAbortError']],
  ],
};

const asked = ({ base, fetch }: World, { signal }: { signal?: AbortSignal } = {}): Promise<Response> =>
  fetch(`${base}/chat/completions`, { method: 'POST', body: BODY, ...(signal ? { signal } : {}) });
const begun = (world: World, given: { signal?: AbortSignal } = {}): Promise<Response> => {
  world.said.more();
  return asked(world, given);
};

/** Steps with `fetch` alone, and their outcomes. */
const PLAIN: Record<string, [Step, unknown]> = {
  'a signal that was aborted before': [
    async (world, controller) => {
      controller.abort();
      return outcome(begun(world, controller));
    },
    'threw AbortError',
  ],
  'a signal while nothing has come': [
    async (world, controller) => {
      const response = outcome(asked(world, controller));
      await isRunning(world);
      controller.abort();
      return response;
    },
    'threw AbortError',
  ],
  'a signal with a reason': [
    async (world, controller) => {
      const response = outcome(asked(world, controller));
      await isRunning(world);
      controller.abort(new RangeError('why'));
      return response;
    },
    'threw RangeError',
  ],
  'a signal of a Request': [
    async (world, controller) => {
      const init = { method: 'POST', body: BODY, signal: controller.signal };
      const response = outcome(world.fetch(new Request(`${world.base}/chat/completions`, init)));
      await isRunning(world);
      controller.abort();
      return response;
    },
    'threw AbortError',
  ],
  'a signal before the body is read': [
    async (world, controller) => {
      const response = await begun(world, controller);
      controller.abort();
      return outcome(response.body!.getReader().read());
    },
    'threw AbortError',
  ],
  'a signal between two reads': [
    async (world, controller) => {
      const reader = (await begun(world, controller)).body!.getReader();
      await reader.read();
      world.said.more();
      controller.abort();
      return [await outcome(reader.read()), await outcome(reader.closed)];
    },
    ['threw AbortError', 'threw AbortError'],
  ],
  'a signal while the body is read': [
    async (world, controller) => {
      const text = outcome((await begun(world, controller)).text());
      await isRunning(world);
      controller.abort();
      return text;
    },
    'threw AbortError',
  ],
  'cancelling the reader': [
    async (world) => {
      const reader = (await begun(world)).body!.getReader();
      await reader.read();
      await reader.cancel();
      return (await reader.read()).done;
    },
    true,
  ],
  'cancelling the reader while it reads': [
    async (world) => {
      const reader = (await begun(world)).body!.getReader();
      const all = (async () => {
        while (!(await reader.read()).done);
        return 'ended';
      })();
      await isRunning(world);
      await reader.cancel();
      return all;
    },
    'ended',
  ],
  'cancelling the body': [async (world) => outcome((await begun(world)).body!.cancel()), undefined],
  'break out of a loop over the body': [
    async (world) => {
      for await (const bytes of (await begun(world)).body!) return bytes.length > 0;
      return null;
    },
    true,
  ],
  'cancelling both of two branches': [
    async (world) => {
      const [one, two] = (await begun(world)).body!.tee();
      await Promise.all([one.cancel(), two.cancel()]);
      return 'cancelled';
    },
    'cancelled',
  ],
};

for (const [by, steps] of Object.entries({ 'OpenAI’s client': CLIENT, 'plain fetch': PLAIN })) {
  for (const [name, [step, expected]] of Object.entries(steps)) {
    test(`${by}: ${name}`, async () => {
      for (const make of [server, engine]) {
        const world = await make();
        expect(await step(world, new AbortController()), make.name).toEqual(expected);
        await expect.poll(world.running, make.name).toBe(0);
        world.close();
      }
    });
  }
}

test('a stream that nobody holds any more is stopped, whatever its signal is', async () => {
  // The signal outlives the stream.
  const controller = new AbortController();
  const readOne = async (iterator: AsyncIterator<unknown>): Promise<void> => void (await iterator.next());
  const steps: Record<string, (world: World, chat: ChatCompletions) => Promise<void>> = {
    'a response': async (world) => void (await begun(world, controller)),
    'a reader': async (world) => void (await (await begun(world, controller)).body!.getReader().read()),
    'a stream of the client': async (world) =>
      readOne((await streamed(world, controller))[Symbol.asyncIterator]() as AsyncIterator<unknown>),
    'a stream of the engine': async (world, chat) => {
      world.said.more();
      await readOne((await chat.create({ ...ASK, stream: true }, controller))[Symbol.asyncIterator]());
    },
    'its bytes': async (world, chat) => {
      world.said.more();
      const stream = await chat.create({ ...ASK, stream: true }, controller);
      await stream.toReadableStream().getReader().read();
    },
  };
  for (const [name, step] of Object.entries(steps)) {
    const said = new Endless();
    const { engine, running } = fake([said]);
    const world = { said, fetch: ((input, init) => respondTo(engine, input, init)) as typeof fetch };
    await step({ ...world, base: 'http://millrace/v1', running, close: () => {} }, new ChatCompletions(engine));
    expect(running(), name).toBe(1);
    // The engine keeps a pending read alive until its piece comes.
    for (let i = 0; i < 3; i += 1) said.more();
    await expect
      .poll(() => {
        collect();
        return running();
      }, name)
      .toBe(0);
  }
});

test('a stream that somebody holds goes on', async () => {
  const said = new Endless(1);
  const { engine, running } = fake([said]);
  const response = await respondTo(engine, 'http://millrace/v1/chat/completions', { method: 'POST', body: BODY });
  for (let i = 0; i < 5; i += 1) {
    await new Promise((go) => setTimeout(go));
    collect();
  }
  expect(running()).toBe(1);
  await response.body!.cancel();
  await expect.poll(running).toBe(0);
});

page('in a page: an abort fails the body at once, and what nobody holds is stopped', async ({ blank }) => {
  const seen = await blank.evaluate(async (model) => {
    const engine = await Engine.load({ model, lane: 'exact' });
    const counts = { asked: 0, ended: 0 };
    const generate = engine.generate.bind(engine);
    engine.generate = (...args) => {
      counts.asked += 1;
      const generation = generate(...args);
      const end = (): void => void (counts.ended += 1);
      generation.then(end, end);
      return generation;
    };
    // Too many to end by themselves.
    const body = JSON.stringify({ prompt: 'x', max_tokens: 400, n: 128, stream: true });
    const ask = (init: RequestInit = {}) => engine.fetch('/v1/completions', { method: 'POST', body, ...init });
    const controller = new AbortController();
    const reader = (await ask({ signal: controller.signal })).body!.getReader();
    await reader.read();
    controller.abort();
    const name = await reader.read().then(
      () => 'read',
      ({ name }: Error) => name,
    );
    await (await ask()).body!.getReader().read();
    Object.assign(globalThis, { counts });
    return name;
  }, TINY);
  expect(seen).toBe('AbortError');
  const devtools = await blank.context().newCDPSession(blank);
  const goesOn = async (): Promise<boolean> => {
    await devtools.send('HeapProfiler.collectGarbage');
    return blank.evaluate(() => counts.asked > counts.ended);
  };
  await expect.poll(goesOn).toBe(false);
  expect(await blank.evaluate(() => counts.asked)).toBeLessThan(100);
});
