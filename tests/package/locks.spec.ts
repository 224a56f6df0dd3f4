// Locks of programs outside of browsers, which are files: between threads and processes, where one is killed, and where the disk is full.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, test as base } from '@playwright/test';
import { build, type Plugin } from 'esbuild';
import { DiskLocks } from '../../npm/node/locks.ts';
import { root } from '../../scripts/lib/env.mjs';

/** What locks.ts and disk.ts change on the disk goes through `globalThis.before(name)` and `after(name)`, where a program has them. */
const STEPS = ['mkdirSync', 'writeFileSync', 'renameSync', 'rmSync', 'rmdirSync'];
const watched: Plugin = {
  name: 'watched',
  setup(build) {
    build.onResolve({ filter: /^node:fs$/ }, ({ importer }) =>
      /[\\/]npm[\\/]node[\\/]/.test(importer) ? { path: 'disk', namespace: 'watched' } : undefined,
    );
    build.onLoad({ filter: /^disk$/, namespace: 'watched' }, () => ({
      contents: `import * as fs from 'node:fs';
        export * from 'node:fs';
        const step = (name) => (...args) => {
          globalThis.before?.(name);
          const result = fs[name](...args);
          globalThis.after?.(name);
          return result;
        };
        ${STEPS.map((name) => `export const ${name} = step('${name}');`).join('\n')}`,
    }));
  },
};

const test = base.extend<{ folder: string; locks: DiskLocks; script: (text: string) => Promise<string> }>({
  folder: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-locks-'));
    await use(folder);
    rmSync(folder, { recursive: true, force: true });
  },
  locks: async ({ folder }, use) => use(new DiskLocks(join(folder, 'locks'))),
  /** Writes a program that knows DiskLocks and the folder; returns its path. */
  script: async ({ folder }, use) =>
    use(async (text) => {
      const { outputFiles } = await build({
        stdin: {
          contents: `import { DiskLocks } from './npm/node/locks.ts';
            import * as fs from 'node:fs';
            import process from 'node:process';
            const folder = ${JSON.stringify(folder)};
            const locks = new DiskLocks(folder + '/locks');
            ${text}`,
          resolveDir: root,
          loader: 'ts',
        },
        bundle: true,
        platform: 'node',
        format: 'esm',
        write: false,
        plugins: [watched],
        logLevel: 'silent',
      });
      const path = join(folder, `program-${Math.random()}.mjs`);
      writeFileSync(path, outputFiles[0]!.text);
      return path;
    }),
});

const left = (folder: string): string[] => readdirSync(join(folder, 'locks'));
const ended = (worker: Worker): Promise<void> =>
  new Promise((done, fail) => worker.on('error', fail).on('exit', () => done()));

test('the locks of two threads are apart', async ({ locks, script }) => {
  const path = await script(`for (let i = 0; i < 20; i += 1) await locks.request('other', () => {});`);
  await locks.request('model', { mode: 'shared' }, async () => {
    await ended(new Worker(path));
    expect(await locks.query()).toEqual({ held: [{ name: 'model', mode: 'shared' }], pending: [] });
    expect(await locks.request('model', { ifAvailable: true }, (lock) => lock)).toBeNull();
  });
  expect((await locks.query()).held).toEqual([]);
});

test('threads and processes take turns, and nothing is left of them', async ({ folder, script }) => {
  writeFileSync(join(folder, 'count'), '0');
  const path = await script(`for (let i = 0; i < 50; i += 1)
    await locks.request('count', async () => {
      const count = Number(fs.readFileSync(folder + '/count', 'utf8'));
      await new Promise((done) => setImmediate(done));
      fs.writeFileSync(folder + '/count', String(count + 1));
    });`);
  const child = spawn(process.execPath, [path]);
  await Promise.all([
    ...[1, 2].map(() => ended(new Worker(path))),
    new Promise<void>((done) => child.on('close', () => done())),
  ]);
  expect(readFileSync(join(folder, 'count'), 'utf8')).toBe('150');
  expect(left(folder)).toEqual([]);
});

test('what a process that was killed has left keeps nobody waiting, at whatever step it was', async ({
  folder,
  locks,
  script,
}) => {
  // The n-th change of the disk is its last: before it, or after it.
  const path = await script(`const { n, when } = JSON.parse(process.argv[2]);
    let count = 0;
    globalThis[when] = () => { if (count++ === n) process.kill(process.pid, 'SIGKILL'); };
    await locks.request('model', () => {});
    console.log('through');`);
  let through = 0;
  for (let n = 0; through < 2; n += 1) {
    for (const when of ['before', 'after']) {
      const child = spawn(process.execPath, [path, JSON.stringify({ n, when })]);
      let out = '';
      child.stdout.on('data', (data) => (out += data));
      await new Promise((done) => child.on('close', done));
      if (out.includes('through')) through += 1;
      expect(await locks.request('model', { signal: AbortSignal.timeout(10_000) }, (lock) => lock?.name)).toBe('model');
      expect(left(folder), `${when} step ${n}`).toEqual([]);
    }
    expect(n).toBeLessThan(40);
  }
});

test('what an older version or a broken disk has left counts for nothing', async ({ folder, locks }) => {
  mkdirSync(join(folder, 'locks'));
  for (const [name, text] of [
    ['.gate', ''],
    [`${2 ** 22 + 1}-0.lock`, '{"name":"model","mode":"exclusive"}'],
    ['nothing.lock', ''],
  ] as const)
    writeFileSync(join(folder, 'locks', name), text);
  mkdirSync(join(folder, 'locks', '.gate.d'));
  const taken = await locks.request('model', { signal: AbortSignal.timeout(10_000) }, () => left(folder).length);
  expect(taken).toBe(1);
  expect(left(folder)).toEqual([]);
});

test('a number of a process that another has now is not its own', async ({ folder, locks }) => {
  test.skip(process.platform !== 'linux', 'only Linux says when a process began');
  mkdirSync(join(folder, 'locks'));
  writeFileSync(join(folder, 'locks', `${process.pid}-1-x.lock`), '{"name":"model","mode":"exclusive"}');
  expect(await locks.request('model', { ifAvailable: true }, (lock) => lock?.name)).toBe('model');
});

test('a full disk is an error by name, and leaves nothing', async ({ script }) => {
  // What makes something on the disk fails: each such call in turn, then none.
  const path = await script(`const seen = [];
    for (let n = 0; ; n += 1) {
      let calls = 0;
      globalThis.before = (name) => {
        if (['mkdirSync', 'writeFileSync', 'renameSync'].includes(name) && calls++ === n)
          throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
      };
      const result = await locks.request('model', () => 'taken').catch((error) => error.name);
      delete globalThis.before;
      const again = await locks.request('model', { signal: AbortSignal.timeout(10_000) }, () => 'taken');
      seen.push([result, again, fs.readdirSync(folder + '/locks')]);
      if (calls <= n) break;
    }
    console.log(JSON.stringify(seen));`);
  const seen = JSON.parse(execFileSync(process.execPath, [path], { encoding: 'utf8' })) as [string, string, string[]][];
  expect(seen.length).toBeGreaterThan(4);
  expect(seen.at(-1)![0]).toBe('taken');
  for (const [result, again, files] of seen.slice(0, -1)) {
    expect(result).toBe('QuotaExceededError');
    expect(again).toBe('taken');
    expect(files).toEqual([]);
  }
});
