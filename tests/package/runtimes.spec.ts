// The package outside of browsers: Node.js, Deno and Bun answer from files and addresses, keep what they fetch, and say what is missing.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test as base } from '@playwright/test';
import { findBrowser } from '../../scripts/lib/browser.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { consumer, PROGRAMS, served } from '../../scripts/package.mjs';
import { vulkan } from '../../scripts/setup.mjs';
import { content, Faulty } from '../browser/faulty.ts';

const FIXTURE = join(root, 'tests', 'data', 'oracle', 'gguf-q8_0');
const MODEL = join(FIXTURE, 'model.gguf');
const { tokens, from, greedy } = JSON.parse(readFileSync(join(FIXTURE, 'expected.json'), 'utf8')) as {
  tokens: number[];
  from: number;
  greedy: number[];
};
const prompt = tokens.slice(0, from + 1);
const BOX = join(root, 'www', 'models', 'box.gguf');

/** What helpers.mjs prints of each engine, of which one has lost a helper, and whether helpers ended. */
interface Helped extends Record<'alone' | 'lost' | 'last', { name: string; tokens: number[]; recoveries: number }> {
  together: { name: string; tokens: number[]; recoveries: number }[];
  ended: boolean | null;
}

interface Outcome {
  supported: boolean;
  tokens?: number[];
  cached?: number;
  pictures?: boolean;
  storage?: { kind: string; cached: boolean };
  adapter?: { name: string; software: boolean; instead?: string };
  error?: { code: string; message: string; ours: boolean };
  stored?: { url: string; complete: boolean; bytes: number }[];
  bad?: unknown[];
  left?: number;
  forced?: string;
  storeError?: string;
  added: string[];
}

/** The program of a runtime, from its npm package: nothing of ours needs an install script, which would have put it elsewhere. */
function programOf(name: string): string {
  if (name === 'node') return process.execPath;
  const [scope, path] = name === 'deno' ? ['@deno', 'deno'] : ['@oven', 'bin/bun'];
  const folder = join(served(name), 'node_modules', scope);
  const program = (existsSync(folder) ? readdirSync(folder) : [])
    .flatMap((platform) => [join(folder, platform, path), join(folder, platform, `${path}.exe`)])
    .find((path) => existsSync(path));
  if (!program) throw new Error(`examples/${name} has no program of ${name} among its packages`);
  return program;
}

/** What shows a software GPU to a runtime on Linux. Dawn, in the package webgpu, finds none in Debian's Mesa, but takes Chromium's own. */
async function gpuOf(name: string): Promise<Record<string, string | undefined>> {
  if (process.platform !== 'linux') return {};
  if (name === 'deno') return vulkan();
  const browser = (await findBrowser())!;
  const icd = [dirname(realpathSync(browser)), '/usr/lib/chromium', '/opt/google/chrome']
    .map((folder) => join(folder, 'vk_swiftshader_icd.json'))
    .find((path) => existsSync(path));
  if (!icd) throw new Error(`there is no vk_swiftshader_icd.json beside ${browser}`);
  return {
    // Without it a Vulkan loader complains on the same output as the example's own errors.
    XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? tmpdir(),
    VK_DRIVER_FILES: icd,
    VK_ICD_FILENAMES: icd,
    MILLRACE_DAWN_FLAGS: 'disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension',
  };
}

type Start = (
  args: string[],
  more?: { cwd?: string; env?: Record<string, string> },
) => Promise<{ code: number | null; out: string; err: string }>;

const test = base.extend<{ cache: string; server: Faulty }>({
  cache: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-runtime-'));
    await use(folder);
    rmSync(folder, { recursive: true, force: true });
  },
  server: async ({}, use) => {
    const server = await Faulty.start();
    server.put('/model.gguf', content(readFileSync(MODEL)));
    await use(server);
    await server.close();
  },
});

for (const name of PROGRAMS)
  test.describe(name, () => {
    let start: Start;
    let ask: (
      asked: { load?: object; [name: string]: unknown },
      more?: { cwd?: string; env?: Record<string, string> },
    ) => Promise<Outcome>;

    test.beforeEach(async ({ cache }) => {
      const program = programOf(name);
      const gpu = await gpuOf(name);
      copyFileSync(join(root, 'tests', 'package', 'runtime.mjs'), join(served(name), 'runtime.mjs'));
      start = (args, { cwd = served(name), env = {} } = {}) =>
        new Promise((done, fail) => {
          const child = spawn(program, [...(name === 'deno' ? ['run', '-A'] : []), ...args], {
            cwd,
            // Playwright asks for colours, which would be in the output.
            env: { ...process.env, FORCE_COLOR: '0', ...gpu, XDG_CACHE_HOME: cache, ...env },
          });
          let out = '';
          let err = '';
          child.stdout.on('data', (text) => (out += text));
          child.stderr.on('data', (text) => (err += text));
          child.on('error', fail);
          child.on('close', (code) => done({ code, out, err }));
        });
      // A software GPU stands in for a GPU, unless a test says something else.
      ask = async ({ load, ...asked }, more = {}) => {
        const said = { prompt, ...asked, load: { device: 'gpu', ...load } };
        const { code, out, err } = await start(['runtime.mjs', JSON.stringify(said)], more);
        expect(code, err).toBe(0);
        return JSON.parse(out.trim().split('\n').at(-1)!) as Outcome;
      };
    });

    test('the example answers from a file, and says what is wrong', async () => {
      const { code, out, err } = await start(['chat.mjs', join(root, 'www', 'models', 'box.gguf')]);
      expect(err).toMatch(/^millrace: the model runs on the CPU, because .* is a GPU in software/);
      expect(out).toContain('42');
      expect(code).toBe(0);
      const missing = await start(['chat.mjs', 'nothing.gguf']);
      expect(missing.err).toMatch(/^error\[NOT_FOUND\]: there is no file or folder .*nothing\.gguf/);
      expect(missing.code).toBe(2);
      const forced = await ask({ model: join(root, 'www', 'models', 'box.gguf'), regex: '[0-9]{3}-[a-c]' });
      expect(forced.forced).toMatch(/^[0-9]{3}-[a-c]$/);
    });

    test('a model of an address is kept, and conversations are', async ({ server }) => {
      const model = `${server.url}/model.gguf`;
      const first = await ask({ model, conversation: 'a' });
      expect(first).toMatchObject({ supported: true, tokens: greedy, storage: { kind: 'opfs', cached: false } });
      // Of the four tokens that were said the last is read for its logits.
      expect(first.cached).toBe(prompt.length + 3);
      expect(first.stored).toMatchObject([{ url: model, complete: true, bytes: readFileSync(MODEL).length }]);
      // Nothing is left in the program's own globals.
      expect(first.added).toEqual([]);
      server.heal();
      const second = await ask({ model, remove: model });
      expect(second).toMatchObject({ tokens: greedy, storage: { cached: true }, bad: [], left: 0 });
      expect(server.sent).toBe(0);
    });

    test('a model and what reads pictures for it are two paths, or one', async () => {
      const folder = join(root, 'tests', 'data', 'oracle', 'lfm2vl-gguf');
      const [model, eyes] = ['model.gguf', 'mmproj-model.gguf'].map((file) => join(folder, file)) as [string, string];
      const load = { device: 'cpu' };
      for (const [named, pictures] of [
        [[model, eyes], true],
        [`${model}#mmproj=mmproj-model.gguf`, true],
        [model, false],
      ] as const)
        expect(await ask({ model: named, load, prompt: [1, 2] })).toMatchObject({ pictures });
      const missing = await ask({ model: [model, join(folder, 'mmproj-none.gguf')], load });
      expect(missing.error).toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringMatching(/no file or folder .*mmproj-none/),
      });
    });

    // What does it is the same in all: with the long tests it is seen in each.
    const inOne = name === 'node' || process.env.MILLRACE_LONG ? test : test.skip;
    inOne(
      'a download that was interrupted goes on where it ended, and two processes fetch once',
      async ({ server }) => {
        const model = `${server.url}/model.gguf`;
        const { length } = readFileSync(MODEL);
        const half = Math.floor(length / 2);
        server.break('/model.gguf', ({ from }) => ({ stall: from === null ? half : Math.max(0, half - from) }));
        const load = { connections: 1 };
        const broken = await ask({ model, load, abortAt: 0.4 * length });
        expect(broken.error).toMatchObject({ code: 'ABORTED', ours: true });
        server.heal();
        const outcomes = await Promise.all([ask({ model, load }), ask({ model, load })]);
        for (const outcome of outcomes) expect(outcome.tokens).toEqual(greedy);
        expect(server.sent).toBeLessThan(0.75 * length);
      },
    );

    test('the CPU takes several threads, which end with their engines and keep no program from ending', async () => {
      copyFileSync(join(root, 'tests', 'package', 'helpers.mjs'), join(served(name), 'helpers.mjs'));
      // The program leaves its last engine as it is: that this resolves is the test.
      const { code, out, err } = await start(['helpers.mjs', JSON.stringify({ model: BOX, prompt })]);
      expect(code, err).toBe(0);
      const { alone, together, lost, last, ended } = JSON.parse(out.trim().split('\n').at(-1)!) as Helped;
      expect(alone.name).toMatch(/^CPU \((relaxed )?SIMD, 1 thread\)$/);
      expect(alone.tokens).toHaveLength(40);
      const { tokens } = alone;
      const several = { name: alone.name.replace('1 thread', '3 threads'), tokens, recoveries: 0 };
      expect(together).toEqual([several, several]);
      // Only Linux says how many threads there are.
      expect(ended).toBe(process.platform === 'linux' ? true : null);
      expect(lost).toEqual({ ...alone, recoveries: 1 });
      expect(last).toEqual(several);
    });

    test('options that mean nothing here are errors', async () => {
      expect((await ask({ model: MODEL, load: { worker: true } })).error).toMatchObject({
        code: 'BAD_OPTION',
        message: expect.stringContaining('worker must be left out here'),
      });
    });
  });

(process.env.MILLRACE_LONG ? test : test.skip)(
  'two threads load, save and remove one model at random, and nothing is lost',
  async ({ cache, server }) => {
    test.setTimeout(180_000);
    copyFileSync(join(root, 'tests', 'package', 'threads.mjs'), join(consumer, 'threads.mjs'));
    const asked = {
      model: `${server.url}/model.gguf`,
      prompt,
      greedy,
      seconds: 60,
      seed: Number(process.env.MILLRACE_SEED ?? Date.now() % 2 ** 31),
    };
    const child = spawn(process.execPath, ['threads.mjs', JSON.stringify(asked)], {
      cwd: consumer,
      env: { ...process.env, XDG_CACHE_HOME: cache },
    });
    let out = '';
    let err = '';
    child.stdout.on('data', (text) => (out += text));
    child.stderr.on('data', (text) => (err += text));
    const code = await new Promise((done) => child.on('close', done));
    expect(code, `seed ${asked.seed}: ${err}`).toBe(0);
    const { done, wrong, bad } = JSON.parse(out.trim().split('\n').at(-1)!) as {
      done: Record<string, number>;
      wrong: string[];
      bad: unknown[];
    };
    expect(wrong, `seed ${asked.seed}`).toEqual([]);
    expect(bad, `seed ${asked.seed}`).toEqual([]);
    for (const what of ['loaded', 'restored', 'removed']) expect(done[what], JSON.stringify(done)).toBeGreaterThan(3);
  },
);

test('without WebGPU the CPU answers; where only a GPU will do the error says how to get it', async ({ cache }) => {
  copyFileSync(join(root, 'tests', 'package', 'runtime.mjs'), join(consumer, 'runtime.mjs'));
  let said = '';
  const ask = async (load: object): Promise<Outcome> => {
    const child = spawn(process.execPath, ['runtime.mjs', JSON.stringify({ model: MODEL, prompt, load })], {
      cwd: consumer,
      env: { ...process.env, XDG_CACHE_HOME: cache },
    });
    let out = '';
    child.stdout.on('data', (text) => (out += text));
    child.stderr.on('data', (text) => (said += text));
    await new Promise((done) => child.on('close', done));
    return JSON.parse(out.trim().split('\n').at(-1)!) as Outcome;
  };
  expect(await ask({})).toMatchObject({
    supported: true,
    tokens: greedy,
    adapter: { name: expect.stringMatching(/^CPU/), instead: 'there is no WebGPU here' },
  });
  expect(said).toMatch(/the model runs on the CPU, because there is no WebGPU here/);
  expect(said).toContain('npm install webgpu');
  const { error } = await ask({ device: 'gpu' });
  expect(error).toMatchObject({ code: 'NO_WEBGPU', ours: true });
  expect(error!.message).toContain('npm install webgpu');
});
