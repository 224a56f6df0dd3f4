// Settings of a whole page: where the package's files lie, and the logger.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { serve } from '../../scripts/serve.mjs';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { expect, openBlank, test, TINY } from './support.ts';

const file = (name: string): Buffer => readFileSync(join(BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out, name));

test('what is no configuration is named', async ({ blank }) => {
  const wrong = await blank.evaluate(async () => {
    const said: (string | undefined)[] = [];
    for (const options of [{ wasmUrl: '' }, { workerUrl: 5 }, { logLevel: 'loud' }, { logger: {} }, { wasmURL: '/x' }])
      said.push((await failure(Promise.resolve().then(() => configure(options as never))))?.message);
    return said;
  });
  expect(wrong).toEqual([
    'configure: wasmUrl must be an address, not ""',
    'configure: workerUrl must be an address, not 5',
    expect.stringMatching(/^configure: logLevel must be one of silent, error, warn, info, debug, not "loud"$/),
    'configure: logger must have the functions error, warn, info and debug, as console has',
    'configure: wasmURL is not an option; did you mean wasmUrl?',
  ]);
});

test('the log says what is done, as much as is asked for, to whom is named', async ({ blank }) => {
  const levels = await blank.evaluate(async (model) => {
    const seen: Record<string, string[]> = {};
    for (const logLevel of ['silent', 'warn', 'info', 'debug'] as const) {
      const lines: string[] = [];
      const logger = Object.fromEntries(
        ['error', 'warn', 'info', 'debug'].map((level) => [level, (text: string) => lines.push(`${level} ${text}`)]),
      );
      configure({ logLevel, logger: logger as never });
      const engine = await Engine.load({ model, lane: 'exact' });
      await engine.generate({ tokens: [57] }, { maxTokens: 3, ignoreEos: true });
      engine.dispose();
      const controller = new AbortController();
      const { signal } = controller;
      const onProgress = ({ note }: { note?: string }): void => void (note && controller.abort());
      await failure(Engine.load({ model: 'http://localhost:1/x.gguf', signal, onProgress }));
      seen[logLevel] = lines;
    }
    return seen;
  }, TINY);
  const retried = expect.stringMatching(/^warn millrace: http:\/\/localhost:1\/x\.gguf: .*trying again/);
  const loaded = expect.stringMatching(/^info millrace: .* loaded in \d+\.\d s: lane exact, /);
  const answered = expect.stringMatching(/^debug millrace: prompt of 1 tokens \(0 known\), 3 written at .*: length$/);
  expect(levels.silent).toEqual([]);
  expect(levels.warn).toContainEqual(retried);
  expect(levels.warn!.filter((line) => !line.startsWith('warn '))).toEqual([]);
  expect(levels.info).toContainEqual(loaded);
  expect(levels.info).toContainEqual(retried);
  expect(levels.info!.filter((line) => line.startsWith('debug '))).toEqual([]);
  expect(levels.debug).toContainEqual(answered);
});

test('a logger that throws stops nothing', async ({ blank }) => {
  const { text, thrown } = await blank.evaluate(async (model) => {
    const thrown: string[] = [];
    addEventListener('error', (event) => thrown.push(event.message));
    const fail = (): never => {
      throw new Error('full');
    };
    configure({ logLevel: 'debug', logger: { error: fail, warn: fail, info: fail, debug: fail } });
    const engine = await Engine.load({ model, lane: 'exact' });
    const { tokens } = await engine.generate({ tokens: [57] }, { maxTokens: 3, ignoreEos: true });
    return { text: tokens.length, thrown };
  }, TINY);
  expect(text).toBe(3);
  expect(thrown).toContain('Uncaught Error: full');
});

test('the wasm and the Worker are taken from where they are said to lie, another origin too', async ({
  page,
  site,
}) => {
  const asked: string[] = [];
  const elsewhere = await serve({
    before(request, response) {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname;
      asked.push(path);
      const type = path.endsWith('.wasm') ? 'application/wasm' : 'text/javascript';
      // The engine's module has any name; that of the CPU lies beside it.
      const name = path.includes('_cpu') ? basename(path) : path.endsWith('.wasm') ? 'millrace_bg.wasm' : 'worker.js';
      response.writeHead(200, { 'Content-Type': type, 'Access-Control-Allow-Origin': '*' }).end(file(name));
      return true;
    },
  });
  for (const name of ['/pkg/millrace_bg.wasm', '/pkg/worker.js'])
    site.routes.set(name, (_, response) => void response.writeHead(404).end());
  await openBlank(page, site);
  const load = async (model: string): Promise<unknown> => {
    const wrong = await failure(
      Engine.load({ model, lane: 'exact' }).then(async (engine) => {
        await engine.generate({ tokens: [57] }, { maxTokens: 1 });
        engine.dispose();
      }),
    );
    return wrong && [wrong.code, wrong.message];
  };
  expect(await page.evaluate(load, TINY)).toEqual(['INTERNAL', expect.stringContaining('configure({ workerUrl })')]);
  await page.evaluate((url) => configure({ workerUrl: `${url}/w-1.js` }), elsewhere.url);
  expect(await page.evaluate(load, TINY)).toBeNull();
  // The first package has its wasm beside it; this one is configured with another place.
  asked.length = 0;
  await page.evaluate((url) => configure({ wasmUrl: `${url}/deep/engine.wasm` }), elsewhere.url);
  expect(await page.evaluate(load, TINY)).toBeNull();
  expect(asked).toContain('/deep/engine.wasm');
  await page.evaluate(() => configure({ wasmUrl: '/nowhere.wasm' }));
  expect(await page.evaluate(load, TINY)).toEqual(['INTERNAL', expect.stringMatching(/nowhere\.wasm.*wasmUrl/)]);
  await elsewhere.close();
});
