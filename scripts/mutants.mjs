// npm run test:mutants: small faults, planted one at a time, each of which some test has to find. tests/mutants has a patch for each; it begins with a
// line that says what is wrong and one that says what finds it: `Caught by: RUNNER ARGUMENTS`, as `npm test -- RUNNER -- ARGUMENTS` takes them.
//   node scripts/mutants.mjs [NAME…]   all of them, or these; what is committed is tested, in a clone of its own
//   node scripts/mutants.mjs --list    only says which there are
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nativeArguments } from './lib/cargo.mjs';
import { ask, cache, childEnv, Failure, isMain, main, root, run, say } from './lib/env.mjs';

const folder = join(root, 'tests', 'mutants');
/**
 * The clone in which faults are planted, and Cargo's target folder for it: no other build uses what was built with a
 * fault.
 */
const clone = join(cache, 'mutants');
const target = join(cache, 'target-mutants');
/** How many faults there have to be. */
const LEAST = 40;
/** Runners whose tests a patch may name. */
const RUNNERS = ['native', 'browser', 'package'];
/** A fault can keep a test from ever ending, which finds it as well. */
const LIMIT_MINUTES = 20;
const LIMIT_WHOLE_MINUTES = 180;

/** The faults by name: what is wrong, and what finds it. A header that is none is an error. */
export function mutants() {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.patch'))
    .sort()
    .map((file) => {
      const path = join(folder, file);
      const text = readFileSync(path, 'utf8');
      const [what, caught, ...rest] = text
        .slice(0, text.search(/^diff --git /m))
        .split('\n')
        .filter(Boolean);
      const [runner, ...args] = /^Caught by: (.*)$/.exec(caught ?? '')?.[1].split(' ') ?? [];
      if (!what?.endsWith('.') || !RUNNERS.includes(runner) || rest.length > 0 || !namesTests(runner, args))
        throw new Failure(
          `tests/mutants/${file} has to begin with a sentence and a line "Caught by: RUNNER TESTS" with tests that are there`,
        );
      return { name: file.replace('.patch', ''), path, what, runner, args };
    });
}

/** Whether the arguments name tests: files that are there, or the beginnings of native tests' names, of which a run has to find some. */
function namesTests(runner, args) {
  if (runner === 'native') return nativeArguments(args).names.length > 0;
  return args.length > 0 && args.every((file) => existsSync(join(root, file)));
}

/** What is wrong with the patches here, in sentences: a quick look, which belongs to `npm test`. */
export async function complaints() {
  const all = mutants();
  const wrong = [];
  if (all.length < LEAST) wrong.push(`there are ${all.length} patches in tests/mutants, fewer than ${LEAST}`);
  for (const { name, path } of all)
    if (name !== process.env.MILLRACE_PLANTED && (await ask('git', ['apply', '--check', path], { cwd: root })) === null)
      wrong.push(`tests/mutants/${name}.patch does not apply any more: make it anew`);
  return wrong;
}

/** Plants one fault after the other. Returns how many were found, and how many not. */
export async function plant(names = []) {
  const all = mutants();
  const unknown = names.find((name) => !all.some((one) => one.name === name));
  if (unknown) throw new Failure(`there is no tests/mutants/${unknown}.patch`);
  const chosen = all.filter(({ name }) => names.length === 0 || names.includes(name));
  // What runs for a fault is no child of the terminal's, and ends with this one.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));
  await refresh();
  await withoutFaults(chosen);
  const sum = { passed: 0, failed: 0 };
  for (const one of chosen) {
    const began = Date.now();
    const by = await found(one);
    sum[by.caught ? 'passed' : 'failed'] += 1;
    const seconds = Math.round((Date.now() - began) / 1000);
    process.stdout.write(`${by.text} (${seconds} s)  ${one.name}: ${one.what}\n`);
  }
  process.stdout.write(`${sum.passed} caught, ${sum.failed} missed\n`);
  return sum;
}

/** Brings the clone to what is committed here; what it has built stays. */
async function refresh() {
  const git = (...args) => run('git', args, { cwd: clone, quiet: true });
  if (!existsSync(join(clone, '.git'))) {
    mkdirSync(cache, { recursive: true });
    await run('git', ['clone', '--quiet', '--no-checkout', root, clone], { quiet: true });
  }
  await git('fetch', '--quiet', root, 'HEAD');
  await git('checkout', '--quiet', '--force', '--detach', 'FETCH_HEAD');
  await git('clean', '--quiet', '--force', '-d');
  if (await ask('git', ['status', '--porcelain'], { cwd: root }))
    say('what is not committed is not tested: the faults are planted into a clone of HEAD');
}

/** All tests that the headers name have to pass without a fault, or that one fails says nothing. */
async function withoutFaults(chosen) {
  const groups = new Map();
  for (const { runner, args } of chosen) {
    const { selected, names } = runner === 'native' ? nativeArguments(args) : { selected: [], names: args };
    const key = [runner, ...selected].join(' ');
    const group = groups.get(key) ?? { runner, selected, names: new Set() };
    for (const name of names) group.names.add(name);
    groups.set(key, group);
  }
  for (const { runner, selected, names } of groups.values()) {
    say(`running the tests of ${[runner, ...selected].join(' ')} without a fault`);
    const { code, log } = await tested('without', [runner, '--', ...selected, ...names]);
    if (code !== 0) throw new Failure(`tests that the patches name fail without a fault: ${log}`);
  }
}

/** Plants a fault and says what has found it. */
async function found({ name, path, runner, args }) {
  const git = (...args) => ask('git', args, { cwd: clone });
  if ((await git('apply', path)) === null) return { caught: false, text: 'ERROR: does not apply' };
  try {
    const quick = runner === 'native' ? [] : ['--retries=0', '--max-failures=1'];
    const named = await tested(name, [runner, '--', ...args, ...quick]);
    if (named.code !== 0 && named.ran) return { caught: true, text: `caught by ${runner}` };
    if (named.code !== 0) return { caught: false, text: `ERROR: nothing was tested, see ${named.log}` };
    say(`${name}: the tests that its patch names do not find it; trying all of npm test`);
    const whole = await tested(name, [], LIMIT_WHOLE_MINUTES);
    const by = [...whole.output.matchAll(/^(\S+) +\d+ passed, [1-9]\d* failed/gm)]
      .map(([, runner]) => runner)
      // The runner `format` does not count: layout says nothing about a fault.
      .filter((runner) => runner !== 'format');
    if (by.length > 0) return { caught: true, text: `caught by ${by.join(' and ')}, not by what its patch names,` };
    return { caught: false, text: 'MISSED by all' };
  } finally {
    await run('git', ['checkout', '--quiet', '--force', '.'], { cwd: clone });
    await run('git', ['clean', '--quiet', '--force', '-d'], { cwd: clone });
  }
}

/**
 * Runs `npm test -- …` in the clone, and keeps the output as a file. `ran`: whether any test did; none does where the fault does not compile, or where
 * tests have got other names.
 */
async function tested(name, args, minutes = LIMIT_MINUTES) {
  let output = '';
  let late = false;
  const child = spawn(process.execPath, [join(clone, 'scripts', 'test.mjs'), ...args], {
    cwd: clone,
    env: childEnv({ CARGO_TARGET_DIR: target, MILLRACE_PLANTED: name }),
    stdio: ['ignore', 'pipe', 'pipe'],
    // With all that it starts it can be ended.
    detached: process.platform !== 'win32',
  });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  const end = () => {
    try {
      process.kill(process.platform === 'win32' ? child.pid : -child.pid, 'SIGKILL');
    } catch {
      // The process has ended by itself.
    }
  };
  const timer = setTimeout(() => {
    late = true;
    end();
  }, minutes * 60_000);
  process.once('exit', end);
  const code = await new Promise((done) => {
    child.on('error', () => done(127));
    child.on('close', (status) => done(status ?? 1));
  });
  clearTimeout(timer);
  process.off('exit', end);
  const log = join(clone, '.cache', 'mutants', `${name}.log`);
  mkdirSync(join(log, '..'), { recursive: true });
  writeFileSync(log, late ? `${output}\nended after ${minutes} minutes\n` : output);
  // Rust's tests say how many there are before the first; Playwright does, too.
  return { code, output, log, ran: /^running [1-9]\d* tests?\b/im.test(output) };
}

if (isMain(import.meta.url))
  main(async () => {
    const args = process.argv.slice(2);
    if (args.includes('--list')) {
      for (const { name, what, runner, args } of mutants())
        process.stdout.write(`${name}: ${what} (${[runner, ...args].join(' ')})\n`);
      return;
    }
    const { failed } = await plant(args);
    process.exitCode = failed > 0 ? 1 : 0;
  });
