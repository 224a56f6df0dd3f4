// Decisions of the scripts: the tests that a change can affect, the lock of builds, and the budgets of runners.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { Meter, overBudget } from '../../scripts/lib/budget.mjs';
import { ALL, EVERYTHING, TABLE, touchedBy } from '../../scripts/lib/changed.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { Times } from '../../scripts/lib/times.mjs';
import { complaints } from '../../scripts/mutants.mjs';

type Runners = Record<string, true | string[]>;

/** Runners with the tests that these paths affect; null: everything. */
function touched(...paths: string[]): Runners | null {
  const { runners } = touchedBy(paths);
  if (runners === null) return null;
  return Object.fromEntries(
    Object.entries(runners as Record<string, { only: true | string[] }>).map(([name, { only }]) => [name, only]),
  );
}
const browser = (...names: string[]) => names.map((name) => `tests/browser/${name}.spec.ts`);

test('a document touches the checks of documents, and the tests that read it', () => {
  const checks = { format: ALL, docs: ALL };
  expect(touched('docs/DEVICES.md')).toEqual({ ...checks, native: ['documents::'] });
  expect(touched('docs/ARCHITECTURE.md')).toEqual({ ...checks, native: ['documents::', 'rooms::'] });
  expect(touched('docs/ERRORS.md')).toMatchObject({ browser: browser('errors') });
  expect(touched('README.md')).toMatchObject({ native: ['documents::', 'toolchain::'] });
});

test('a page touches its own tests; what pages share, all of theirs', () => {
  const checks = { format: ALL, lint: ALL, types: ALL };
  expect(touched('www/src/chat/tree.ts')).toEqual({ ...checks, browser: browser('chat', 'demo', 'www') });
  expect(touched('www/index.html')).toEqual({ ...checks, browser: browser('chat', 'demo', 'www') });
  expect(touched('www/bench.css')).toEqual({ ...checks, browser: browser('bench', 'www') });
  expect(touched('www/src/kernels-worker.ts')).toEqual({ ...checks, browser: browser('kernels', 'www') });
  expect(touched('www/src/shared/dom.ts')!.browser).toEqual(
    expect.arrayContaining(browser('chat', 'storage_page', 'documents', 'known')),
  );
  // A document that is part of a page.
  expect(touched('www/src/documents/example.md')).toMatchObject({
    native: ['documents::'],
    browser: browser('documents', 'documents_parts', 'www'),
  });
});

test('the package, the engine, and what is not known', () => {
  expect(touched('npm/engine.ts')).toMatchObject({ types: ALL, docs: ALL, package: ALL });
  expect(touched('npm/engine.ts')!.browser).toEqual(expect.arrayContaining(browser('api', 'queue', 'errors')));
  expect(touched('npm/engine.ts')!.browser).not.toEqual(expect.arrayContaining(browser('kernels')));
  for (const path of ['src/decode/chunk.rs', 'shaders/matmul.wgsl', 'crates/cpu/src/lib.rs'])
    expect(touched(path)).toMatchObject({ clippy: ALL, native: ALL, browser: ALL });
  for (const path of [
    'Cargo.lock',
    'package-lock.json',
    'scripts/lib/env.mjs',
    'what/nobody.knows',
    'www/models/box.gguf',
  ])
    expect(touched(path, 'docs/DEVICES.md'), path).toBeNull();
  expect(touchedBy(['Cargo.toml', 'docs/DEVICES.md']).unknown).toEqual(['Cargo.toml']);
  expect(touched()).toEqual({});
});

test('a test touches itself; what tests share, those that use it', () => {
  expect(touched('tests/browser/queue.spec.ts')!.browser).toEqual(browser('queue'));
  expect(touched('tests/browser/papers.ts')!.browser).toEqual(expect.arrayContaining(browser('documents', 'www')));
  expect(touched('tests/browser/papers.ts')!.browser).not.toEqual(expect.arrayContaining(browser('queue')));
  // Imported by way of downloads.ts.
  expect(touched('tests/browser/faulty.ts')!.browser).toEqual(expect.arrayContaining(browser('faulty', 'recovery')));
  expect(touched('tests/native/tuner.rs')).toEqual({ format: ALL, clippy: ALL, native: ['tuner::'] });
  expect(touched('tests/native/decode_loop.rs')!.native).toEqual(
    expect.arrayContaining(['decode_loop::', 'tuner::', 'bench::']),
  );
  expect(touched('tests/native/common.rs')).toMatchObject({ native: ALL });
  expect(touched('tests/package/types.spec.ts')).toMatchObject({ package: ['tests/package/types.spec.ts'] });
});

test('several paths touch what each does, and say why', () => {
  const { runners } = touchedBy(['docs/CLI.md', 'docs/DEVICES.md', 'www/src/bench.ts', 'src/lib.rs']) as {
    runners: Record<string, { only: true | string[]; paths: string[] }>;
  };
  expect(runners.native).toEqual({ only: ALL, paths: ['docs/CLI.md', 'docs/DEVICES.md', 'src/lib.rs'] });
  expect(runners.browser).toEqual({ only: ALL, paths: ['www/src/bench.ts', 'src/lib.rs'] });
});

test('tests that the table names are there, and most of the repository is in the table', () => {
  const rows = TABLE.map(([, run]) => run).filter((run) => run !== EVERYTHING && typeof run !== 'function');
  const named = rows.flatMap((run) => Object.values(run as Runners)).flatMap((only) => (only === ALL ? [] : only));
  const missing = new Set(named.filter((name) => name.endsWith('.ts') && !existsSync(join(root, name))));
  expect([...missing]).toEqual([]);
  const modules = named.filter((name) => name.endsWith('::')).map((name) => `tests/native/${name.slice(0, -2)}.rs`);
  expect(modules.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
  const everything = files.filter((path) => touched(path) === null && !path.startsWith('tests/data/'));
  // A list, so that new files have to be added to the table.
  expect(everything.filter((path) => /^(docs|npm|www|src|shaders|crates|examples)\//.test(path))).toEqual([
    'www/models/box.gguf',
    'www/models/embed.gguf',
    'www/models/mmproj-box.gguf',
  ]);
});

/** Runs a module's text in a Node.js of its own. Resolves to what it prints, once it has ended. */
function node(script: string, ...args: string[]) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script, '-', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  const ended = new Promise<string>((done) => child.on('close', () => done(said)));
  const says = (what: string) =>
    new Promise<void>((done) => {
      const look = (): void => void (said.includes(what) && done());
      child.stdout.on('data', (text) => {
        said += text;
        look();
      });
    });
  return { child, ended, says };
}

const LOCK = JSON.stringify(join(root, 'scripts', 'lib', 'lock.mjs'));

test('of several processes one at a time has a lock, and one that is killed leaves it to the others', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-lock-'));
  const counter = join(folder, 'counter');
  writeFileSync(counter, '0');
  try {
    const held = node(
      `import { locked } from ${LOCK};
       await locked(process.argv[2] ?? process.argv.at(-1), () => new Promise(() => { console.log('held'); setInterval(() => {}, 1000); }));`,
      join(folder, 'lock'),
    );
    await held.says('held');
    // Each process adds one, twice at a time, by a read and a write that another process would break.
    const adds = Array.from({ length: 3 }, () =>
      node(
        `import { readFileSync, writeFileSync } from 'node:fs';
         import { locked } from ${LOCK};
         const [folder, counter] = process.argv.slice(-2);
         const add = () => locked(folder, async () => {
           const count = Number(readFileSync(counter, 'utf8'));
           await new Promise((done) => setTimeout(done, 5));
           writeFileSync(counter, String(count + 1));
         });
         console.log('begun');
         for (let round = 0; round < 5; round += 1) await Promise.all([add(), add()]);`,
        join(folder, 'lock'),
        counter,
      ),
    );
    await Promise.all(adds.map((one) => one.says('begun')));
    expect(readFileSync(counter, 'utf8')).toBe('0');
    held.child.kill('SIGKILL');
    await Promise.all(adds.map(({ ended }) => ended));
    expect(readFileSync(counter, 'utf8')).toBe('30');
    expect(readdirSync(join(folder, 'lock'))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('processor time is that of all that a process starts, also of what outlives it', async () => {
  // Works only after its parent has ended.
  const orphan = `
    const parent = process.ppid;
    console.log('begun ' + process.pid + '.');
    setInterval(() => {
      if (process.ppid === parent || globalThis.worked) return;
      const until = process.cpuUsage().user + 500_000;
      while (process.cpuUsage().user < until);
      globalThis.worked = true;
      console.log('done');
    }, 20);`;
  const parent = node(
    `import { spawn } from 'node:child_process';
     spawn(process.execPath, ['--eval', ${JSON.stringify(orphan)}], { detached: true, stdio: ['ignore', 'inherit', 'ignore'] });
     setInterval(() => {}, 1000);`,
  );
  const meter = new Meter();
  meter.follow('one')(parent.child.pid!);
  let said = '';
  parent.child.stdout.on('data', (text) => (said += text));
  await expect.poll(() => said, { intervals: [20] }).toMatch(/begun \d+\./);
  meter.look();
  parent.child.kill('SIGKILL');
  await expect.poll(() => said, { intervals: [20] }).toContain('done');
  meter.look();
  process.kill(Number(/begun (\d+)/.exec(said)![1]), 'SIGKILL');
  // Other systems do not tell, and nothing is judged there.
  if (process.platform === 'linux') expect(meter.seconds('one')).toBeGreaterThanOrEqual(0.45);
  else expect(meter.seconds('one')).toBe(0);
  expect(meter.seconds('another')).toBe(0);
});

test('a budget is exceeded by half, and only judged where it was measured', () => {
  expect(overBudget('browser', 149, 100, true)).toBeNull();
  expect(overBudget('browser', 151, 100, true)).toMatchObject({ fails: true, text: expect.stringContaining('151') });
  expect(overBudget('browser', 151, 100, false)).toMatchObject({ fails: false });
  expect(overBudget('native', 151, 100, true)).toMatchObject({ fails: false });
  expect(overBudget('size', 151, undefined, true)).toBeNull();
});

test('a machine that compiles everything is not taken for a slow one; one whose test files are slow is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-times-'));
  try {
    const [usual, file] = [new Times(1, join(folder, 'none.json')), 'tests/browser/download.spec.ts'];
    const times = new Times(1, join(folder, 'times.json'));
    // On a new machine clippy compiles 400 crates.
    times.note('clippy', 40 * usual.seconds('clippy'), 1);
    expect(times.seconds('native')).toBe(usual.seconds('native'));
    times.note(file, 3 * usual.seconds(file), 100);
    expect(times.seconds('native')).toBeCloseTo(3 * usual.seconds('native'));
    expect(times.seconds(file)).toBeCloseTo(3 * usual.seconds(file), 0);
    expect(new Times(2, join(folder, 'none.json')).seconds('native')).toBe(2 * usual.seconds('native'));
    // Measured times have precedence over estimates.
    times.note('native', 100, 400);
    expect(new Times(2, join(folder, 'times.json')).seconds('native')).toBe(100);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the faults that tests have to find can be planted', async () => {
  expect(await complaints()).toEqual([]);
});
