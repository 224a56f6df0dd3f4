// npm test: everything that CI runs. Each runner's own output is shown; the last line is `N passed, N failed`.
//   npm test -- NAME…   only these runners, e.g. `npm test -- browser`; further arguments after `--` go to the runner
//   npm test -- changed [COMMIT]   what a change since the commit, or since main was left, can touch
//   npm test -- --write-budgets    tests/budgets.json anew, of the runners that run
//   npm test -- --minutes N   begins nothing that is not expected to end within N minutes, and names what was left out
//   npm run test:long   also what takes longer
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, tsc } from './build.mjs';
import { budgets, Meter, overBudget, unitSeconds, writeBudgets } from './lib/budget.mjs';
import { alone, buildTests, NATIVE, nativeArguments } from './lib/cargo.mjs';
import { ALL, changedPaths, touchedBy } from './lib/changed.mjs';
import { Failure, main, root, run, say } from './lib/env.mjs';
import { plant } from './mutants.mjs';
import { prepare } from './package.mjs';
import { checkSize } from './lib/size.mjs';
import { childSeconds, Times } from './lib/times.mjs';
import { safari } from './safari.mjs';
import { cargoTool, setupFirefox, setupTest, setupWasmTests } from './setup.mjs';
import { askLowLevel } from './wasm-pack.mjs';

const reports = join(root, 'test-results');
const WASM_TESTS = '--locked --lib --target wasm32-unknown-unknown --profile wasm-dev --features lab'.split(' ');
const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');

/** The runners, in the order in which they run: what is quick to fail comes first. */
const RUNNERS = {
  format: async () =>
    both(
      await check('cargo', ['fmt', '--all', '--check']),
      await check(process.execPath, [biome, 'format', '--max-diagnostics=5', root]),
    ),
  lint: () => check(process.execPath, [biome, 'lint', '--error-on-warnings', root]),
  types: () => check(process.execPath, [tsc, '-p', root]),
  docs: async () =>
    both(
      await check(process.execPath, [join(root, 'scripts', 'options.mjs'), '--check']),
      await check(process.execPath, [join(root, 'scripts', 'docs.mjs'), '--check']),
    ),
  clippy: () => alone(() => check('cargo', ['clippy', '--quiet', ...NATIVE, '--all-targets', '--', '-D', 'warnings'])),
  native: (context) => native(context),
  wasm: async ({ ready, wasm, browser, more }) => {
    const driver = await setupWasmTests(browser);
    const built = await ready('wasm');
    return ranTests(built, ({ path, cwd }) => [
      'wasm-bindgen-test-runner',
      [path, ...more],
      {
        cwd,
        env: {
          ...wasm,
          CHROMEDRIVER: driver,
          // SwiftShader compiles a shader in the time in which a GPU compiles a hundred.
          WASM_BINDGEN_TEST_TIMEOUT: '600',
        },
      },
    ]);
  },
  browser: async (context) => {
    await context.ready('dev');
    return playwright('browser', [], context);
  },
  firefox: async (context) => {
    await context.ready('release');
    await setupFirefox();
    return playwright('firefox', ['--config', join(root, 'tests', 'firefox')], context);
  },
  safari: async ({ ready }) => {
    await ready('release');
    return safari();
  },
  size: async ({ ready }) => checkSize(await ready('release')),
  package: async (context) => {
    await context.ready('examples');
    return playwright('package', ['--config', join(root, 'tests', 'package')], context);
  },
  deny: async () => check(await cargoTool('cargo-deny', '0.20.2'), ['--all-features', '--locked', 'check']),
  'wasm-pack': async (context) => {
    const text = await askLowLevel(context);
    const right = text.includes('42');
    say(`WasmEngine of wasm-pack's package says "${text}"${right ? '' : ', which has no 42'}`);
    return right ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
  },
  oracle: ({ native }) => oracle(native),
  mutants: ({ more }) => plant(more),
};

/**
 * What only `npm run test:long` runs, unless it is named: tools that take minutes to build, PyTorch, what the browser's tests show through the package,
 * planted faults.
 */
const LONG = ['wasm', 'deny', 'wasm-pack', 'oracle', 'mutants'];
/** What runs only where it is named: a browser that only a Mac has. */
const NAMED = ['safari'];

/** Runners whose processor time has a budget, and whether it is judged here: software GPUs compute otherwise on other processors. */
const METERED = ['native', 'browser', 'firefox', 'package'];
const JUDGED = process.platform === 'linux' && process.arch === 'x64';

/** What runners need built, in the order in which it is: in the background, while the runners before them test. */
const BUILDS = {
  dev: { for: ['browser'], make: () => build('dev') },
  wasm: {
    for: ['wasm'],
    make: ({ wasm }) =>
      alone(
        () =>
          buildTests(wasm.RUSTC ? '/usr/bin/cargo' : 'cargo', [...WASM_TESTS, '--quiet'], { env: wasm, into: 'wasm' }),
        'wasm-dev',
      ),
  },
  release: { for: ['firefox', 'safari', 'size'], make: () => build('release') },
  examples: { for: ['package'], make: ({ only }) => prepare(needsExamples(only.package)) },
};

/** Begins to build what these runners need, one after the other. Returns what waits for one of them. */
function buildFor(runners, context) {
  const builds = {};
  let before = Promise.resolve();
  for (const [name, { for: users, make }] of Object.entries(BUILDS)) {
    if (!users.some((user) => runners.includes(user))) continue;
    builds[name] = before.then(() => make(context));
    // A failure reaches the runners that await this build; later builds go on.
    before = builds[name].then(
      () => {},
      () => {},
    );
  }
  return (name) => builds[name];
}

/** Seconds that stay for what comes after a runner whose files are chosen by time: its end, and the closing lines. */
const RESERVE = 30;

main(async () => {
  const args = process.argv.slice(2);
  const end = args.indexOf('--');
  const more = end < 0 ? [] : args.splice(end).slice(1);
  const long = take(args, '--long');
  const minutes = take(args, '--minutes', 1);
  if (minutes !== false && !(Number(minutes) > 0)) throw new Failure(`--minutes takes a number, not "${minutes}"`);
  const writes = take(args, '--write-budgets');
  const change = args[0] === 'changed' ? await changedPaths(args[1]) : null;
  if (change && args.length > 2) throw new Failure('npm test -- changed [COMMIT] takes no further words');
  if (change) args.length = 0;
  const unknown = args.find((name) => !(name in RUNNERS));
  if (unknown) throw new Failure(`there is no runner "${unknown}"; there are ${Object.keys(RUNNERS).join(', ')}`);

  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  const began = Date.now();
  const left = () => (minutes === false ? Infinity : Number(minutes) * 60 - (Date.now() - began) / 1000 - RESERVE);
  const usual = Object.keys(RUNNERS).filter((name) => !NAMED.includes(name) && (long || !LONG.includes(name)));
  const { runners, only } = change ? chosen(change, usual) : { runners: args.length > 0 ? args : usual, only: {} };
  if (runners.length === 0) return say('no test is about what has changed: nothing was run');
  const meter = new Meter();
  const unit = METERED.some((name) => runners.includes(name)) ? unitSeconds() : 1;
  if (unit !== 1) say(`a unit of processor time is ${unit.toFixed(2)} s here`);
  const times = new Times(unit);
  meter.start();
  const context = { ...(await setupTest()), long, more, times, left, only, meter };
  context.ready = buildFor(runners, context);
  const total = { passed: 0, failed: 0 };
  const [lines, slowest, flaky, leftOut, over] = [[], [], [], [], []];
  const taken = {};
  for (const name of runners) {
    if (times.seconds(name) > left() && !CHOOSES_FILES.includes(name)) {
      leftOut.push({ name, tests: times.tests(name) });
      continue;
    }
    say(`running ${name}`);
    const [started, cpu] = [Date.now(), childSeconds()];
    const before = times.knows(name);
    const result = await RUNNERS[name](context);
    meter.look();
    const { passed, failed, skipped = 0 } = result;
    total.passed += passed;
    total.failed += failed;
    slowest.push(...(result.slowest ?? []));
    flaky.push(...(result.flaky ?? []));
    leftOut.push(...(result.leftOut ?? []));
    const seconds = (Date.now() - started) / 1000;
    const whole = more.length === 0 && !long && failed === 0 && !result.leftOut?.length && (only[name] ?? ALL) === ALL;
    if (whole) times.note(name, seconds, passed);
    if (whole && METERED.includes(name) && meter.seconds(name) > 0) {
      // On a machine that has not run it yet more than programs has to be compiled: it is not judged.
      taken[name] = { seconds: meter.seconds(name), judged: before && JUDGED };
    }
    const processor = Math.max(childSeconds() - cpu, meter.seconds(name));
    const units = METERED.includes(name) ? `, ${(meter.seconds(name) / unit).toFixed(0)} units without compilers` : '';
    lines.push(
      `${name.padEnd(9)} ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} left to test:long` : ''} (${Math.round(seconds)} s, ${Math.round(processor)} s of processor${units})`,
    );
  }
  meter.stop();
  if (writes)
    writeBudgets(Object.fromEntries(Object.entries(taken).map(([name, { seconds }]) => [name, seconds / unit])));
  else over.push(...judge(taken, unit));
  const out = (text) => process.stdout.write(`${text}\n`);
  slowest.sort((a, b) => b.seconds - a.seconds);
  if (slowest.length > 0) out('\nslowest:');
  for (const { title, seconds } of slowest.slice(0, 20)) out(`${seconds.toFixed(1).padStart(7)} s  ${title}`);
  out(`\n${lines.join('\n')}`);
  if (leftOut.length > 0) {
    const tests = leftOut.reduce((sum, one) => sum + one.tests, 0);
    out(`left out for time, ${tests} tests: ${leftOut.map(({ name }) => name).join(', ')}`);
  }
  for (const title of flaky) out(`flaky, passed when run again: ${title}`);
  for (const { text, fails } of over) out(`${fails ? 'over budget' : 'warning'}: ${text}`);
  total.failed += over.filter(({ fails }) => fails).length;
  if (change) out(`not run: ${rest(runners, only, usual)}`);
  out(`${total.passed} passed, ${total.failed} failed${change ? ', of what the change can touch' : ''}`);
  // Where nothing has run, nothing has passed.
  process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
});

/** Takes an option, and as many words as it has, out of the arguments: its value, true where it has none, false where it is not there. */
function take(args, name, words = 0) {
  const at = args.indexOf(name);
  if (at < 0) return false;
  const [, value] = args.splice(at, 1 + words);
  return words === 0 ? true : (value ?? '');
}

function both(a, b) {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed };
}

/** A command that only says yes or no. */
async function check(command, args) {
  const { code } = await run(command, args, { check: false });
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

/** What has taken more than its budget. A machine that was busy has been slower than at the beginning: then the unit is measured again. */
function judge(taken, unit) {
  const allowed = budgets();
  const ask = (unit) =>
    Object.entries(taken).flatMap(
      ([name, { seconds, judged }]) => overBudget(name, seconds / unit, allowed[name], judged) ?? [],
    );
  return ask(unit).length > 0 ? ask(Math.max(unit, unitSeconds(), unitSeconds())) : [];
}

/** What a change can touch: the runners, and of each the tests; says what, and why. */
function chosen({ since, paths }, usual) {
  say(`${paths.length} file${paths.length === 1 ? '' : 's'} differ${paths.length === 1 ? 's' : ''} from ${since}`);
  const { runners: touched, unknown } = touchedBy(paths);
  if (touched === null) {
    say(`everything is run, since it may be touched by ${some(unknown)}`);
    return { runners: usual, only: {} };
  }
  const runners = Object.keys(RUNNERS).filter((name) => name in touched);
  const only = Object.fromEntries(runners.map((name) => [name, touched[name].only]));
  for (const name of runners)
    say(`${name}, ${only[name] === ALL ? 'all of it' : only[name].join(' ')}: for ${some(touched[name].paths)}`);
  if (runners.length > 0) say(`not run: ${rest(runners, only, usual)}`);
  // Documents are read by tests of the package, and need not wait for one that is optimised.
  if (paths.every((path) => path.endsWith('.md'))) process.env.MILLRACE_BUILD ??= 'dev';
  return { runners, only };
}

const some = (paths) => `${paths.slice(0, 3).join(', ')}${paths.length > 3 ? ` and ${paths.length - 3} more` : ''}`;

/** What of all runners is not run, or not whole. */
function rest(runners, only, usual) {
  const whole = (name) => runners.includes(name) && (only[name] ?? ALL) === ALL;
  const parts = usual
    .filter((name) => !whole(name))
    .map((name) => (runners.includes(name) ? `the rest of ${name}` : name));
  return parts.length > 0 ? parts.join(', ') : 'nothing';
}

/** The native tests, from this clone's own copies, and those in comments, which Cargo compiles. */
async function native({ native: env, long, more, only, meter }) {
  const { selected, names, tests } = nativeArguments(more);
  const some = Array.isArray(only.native);
  if (some) {
    selected.push('--test', 'native');
    names.push(...only.native);
  }
  const options = [...names, ...(long ? ['--include-ignored'] : []), ...tests];
  const started = meter.follow('native');
  const built = await alone(() => buildTests('cargo', [...NATIVE, ...selected]));
  // Reporting times is an unstable option of the test harness.
  const timed = ['-Zunstable-options', '--report-time'];
  const sum = await ranTests(built, ({ path, cwd }) => [
    path,
    [...options, ...timed],
    // The long tests leave on the GPU what has the CPU for being quick.
    {
      cwd,
      env: { ...env, CARGO_MANIFEST_DIR: cwd, RUSTC_BOOTSTRAP: '1', MILLRACE_TEST_GPU: long ? '1' : '' },
      started,
    },
  ]);
  if (selected.length > 0) return sum;
  const doc = await alone(() => testsOfRust('cargo', ['test', '--doc', ...NATIVE, '--', ...options], { env }));
  return { ...both(sum, doc), skipped: sum.skipped + doc.skipped };
}

/** Runs what Cargo has built, one executable after the other; `how` says with which command, arguments and options. */
async function ranTests({ code, tests }, how) {
  const sum = { passed: 0, failed: code === 0 ? 0 : 1, skipped: 0, slowest: [] };
  if (code !== 0) return sum;
  for (const test of tests) {
    say(`running ${test.name}`);
    const one = await testsOfRust(...how(test));
    for (const key of ['passed', 'failed', 'skipped']) sum[key] += one[key];
    sum.slowest.push(...one.slowest.map(({ title, seconds }) => ({ title: `${test.name} › ${title}`, seconds })));
  }
  return sum;
}

/** Sums up the `test result:` lines of Rust's tests. A run that breaks without one is a failure too. */
async function testsOfRust(command, args, options) {
  const { code, output } = await run(command, args, { ...options, tee: true, check: false });
  const sum = { passed: 0, failed: 0, skipped: 0, slowest: [] };
  for (const [, title, seconds] of output.matchAll(/^test (.*?) \.\.\. (?:ok|FAILED) <([\d.]+)s>$/gm))
    sum.slowest.push({ title, seconds: Number(seconds) });
  for (const [, passed, failed, ignored] of output.matchAll(
    /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm,
  )) {
    sum.passed += Number(passed);
    sum.failed += Number(failed);
    sum.skipped += Number(ignored);
  }
  if (code !== 0 && sum.failed === 0) sum.failed = 1;
  return sum;
}

/** Every shape, type and format against transformers, natively and in the browser, then 200 of chance natively. */
async function oracle(env) {
  const total = { passed: 0, failed: 0 };
  for (const which of [
    ['--matrix', '--family', 'all'],
    ['--random', '200', '--engine', 'native'],
  ]) {
    const { code, output } = await run('bash', [join(root, 'scripts', 'oracle', 'run.sh'), ...which], {
      env,
      tee: true,
      check: false,
    });
    // The last line of the output.
    const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [null, 0, 1];
    total.passed += Number(passed);
    total.failed += Math.max(Number(failed), code === 0 ? 0 : 1);
  }
  return total;
}

/** Runners that leave out single files where time is short. */
const CHOOSES_FILES = ['browser', 'package'];

/** Whether these tests of the package need its examples. */
function needsExamples(only = ALL) {
  return only === ALL || only.some((file) => /\/(examples|runtimes)\.spec/.test(file));
}

/** The test files of a runner of Playwright's. */
function filesOf(name) {
  const folder = join(root, 'tests', name);
  return readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith('.spec.ts'))
    .map((file) => relative(root, join(folder, file)).replaceAll('\\', '/'))
    .sort();
}

/** The runner's files that are expected to end in time, the quickest first, and those that are left out. */
function inTime(name, { times, left }) {
  const files = filesOf(name);
  if (left() === Infinity) return { files, leftOut: [] };
  const chosen = new Set();
  let room = left();
  for (const file of files.toSorted((a, b) => times.seconds(a) - times.seconds(b))) {
    if (times.seconds(file) > room) break;
    room -= times.seconds(file);
    chosen.add(file);
  }
  return {
    files: files.filter((file) => chosen.has(file)),
    leftOut: files.filter((file) => !chosen.has(file)).map((file) => ({ name: file, tests: times.tests(file) })),
  };
}

/** Playwright's tests of one runner. */
async function playwright(name, options, context) {
  const { long, more, times, only, meter } = context;
  const report = join(reports, `${name}.json`);
  const some = (only[name] ?? ALL) !== ALL;
  const { files, leftOut } = some ? { files: only[name], leftOut: [] } : inTime(name, context);
  if (files.length === 0) return { passed: 0, failed: 0, leftOut };
  const args = [
    join(root, 'node_modules', '@playwright', 'test', 'cli.js'),
    'test',
    ...options,
    '--reporter=list,json,html',
    // A failed test is run once more: if it passes then, it is listed by name as flaky, and is to be mended. The long
    // tests count it as failed.
    `--retries=${long ? 0 : 1}`,
    ...more,
    ...(some || leftOut.length > 0 ? files : []),
  ];
  const { code } = await run(process.execPath, args, {
    env: {
      PLAYWRIGHT_JSON_OUTPUT_NAME: report,
      PLAYWRIGHT_HTML_OUTPUT_DIR: join(root, 'playwright-report', name),
      PLAYWRIGHT_HTML_OPEN: 'never',
      MILLRACE_LONG: long ? '1' : '',
    },
    check: false,
    started: meter.follow(name),
  });
  let sum = { passed: 0, failed: 0, skipped: 0 };
  const [slowest, flaky] = [[], []];
  try {
    const { stats, suites, config } = JSON.parse(readFileSync(report, 'utf8'));
    sum = { passed: stats.expected + stats.flaky, failed: stats.unexpected, skipped: stats.skipped };
    for (const suite of suites) {
      const tests = testsOf(suite);
      slowest.push(...tests);
      flaky.push(...tests.filter(({ status }) => status === 'flaky').map(({ title }) => title));
      const seconds = tests.reduce((sum, test) => sum + test.seconds, 0) / config.workers;
      const file = relative(root, join(config.rootDir, suite.file)).replaceAll('\\', '/');
      if (more.length === 0 && !long) times.note(file, seconds, tests.length);
    }
  } catch (error) {
    say(`Playwright has left no report: ${error.message}`);
  }
  if (code !== 0 && sum.failed === 0) sum.failed = 1;
  return { ...sum, slowest, flaky, leftOut };
}

/** The tests of a suite in Playwright's report that ran: `{ title, status, seconds }`. */
function testsOf(suite, before = []) {
  const path = [...before, suite.title];
  const own = (suite.specs ?? []).flatMap(({ title, tests }) =>
    tests
      .filter(({ status }) => status !== 'skipped')
      .map(({ projectName, status, results }) => ({
        title: `${projectName ? `[${projectName}] ` : ''}${[...path, title].join(' › ')}`,
        status,
        seconds: results.reduce((sum, { duration }) => sum + duration, 0) / 1000,
      })),
  );
  return [...own, ...(suite.suites ?? []).flatMap((inner) => testsOf(inner, path))];
}
