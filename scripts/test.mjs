// npm test: everything that CI runs. Each runner's own output is shown; the last line is `N passed, N failed`.
//   npm test -- NAME…   only these runners, e.g. `npm test -- browser`; further arguments after `--` go to the runner
//   npm test -- --minutes N   begins nothing that is not expected to end within N minutes, and names what was left out
//   npm run test:long   also what takes longer
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, tsc } from './build.mjs';
import { Failure, main, root, run, say } from './lib/env.mjs';
import { prepare } from './package.mjs';
import { checkSize } from './lib/size.mjs';
import { childSeconds, Times } from './lib/times.mjs';
import { safari } from './safari.mjs';
import { cargoTool, setupFirefox, setupTest, setupWasmTests } from './setup.mjs';
import { askLowLevel } from './wasm-pack.mjs';

const reports = join(root, 'test-results');
const WASM_TESTS =
  'test --locked --no-fail-fast --lib --target wasm32-unknown-unknown --profile wasm-dev --features lab'.split(' ');
/** The command line, and the layer that only tests have. */
const FEATURES = 'cli,toy';
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
  clippy: () =>
    check('cargo', [
      'clippy',
      '--quiet',
      '--locked',
      '--workspace',
      '--all-targets',
      '--features',
      FEATURES,
      '--',
      '-D',
      'warnings',
    ]),
  native: ({ native, long, more }) =>
    cargoTests(
      'cargo',
      [
        'test',
        '--locked',
        '--workspace',
        '--no-fail-fast',
        '--features',
        FEATURES,
        ...more,
        ...(long ? ['--', '--include-ignored'] : []),
      ],
      native,
    ),
  wasm: async ({ ready, wasm, browser, more }) => {
    const driver = await setupWasmTests(browser);
    await ready('wasm');
    return cargoTests(wasm.RUSTC ? '/usr/bin/cargo' : 'cargo', [...WASM_TESTS, ...more], {
      ...wasm,
      CHROMEDRIVER: driver,
      CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER: 'wasm-bindgen-test-runner',
      // SwiftShader compiles a shader in the time in which a GPU compiles a hundred.
      WASM_BINDGEN_TEST_TIMEOUT: '600',
    });
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
};

/** What only `npm run test:long` runs, unless it is named: tools that take minutes to build, PyTorch, and what the browser's tests show through the package. */
const LONG = ['wasm', 'deny', 'wasm-pack', 'oracle'];
/** What runs only where it is named: a browser that only a Mac has. */
const NAMED = ['safari'];

/** What runners need built, in the order in which it is: in the background, while the runners before them test. */
const BUILDS = {
  dev: { for: ['browser'], make: () => build('dev') },
  wasm: {
    for: ['wasm'],
    make: ({ wasm }) =>
      run(wasm.RUSTC ? '/usr/bin/cargo' : 'cargo', [...WASM_TESTS, '--no-run', '--quiet'], { env: wasm }),
  },
  release: { for: ['firefox', 'safari', 'size'], make: () => build('release') },
  examples: { for: ['package'], make: () => prepare() },
};

/** Begins to build what these runners need, one after the other. Returns what waits for one of them. */
function buildFor(runners, context) {
  const builds = {};
  let before = Promise.resolve();
  for (const [name, { for: users, make }] of Object.entries(BUILDS)) {
    if (!users.some((user) => runners.includes(user))) continue;
    builds[name] = before.then(() => make(context));
    // Who waits for it hears of a failure; those after it do not.
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
  const unknown = args.find((name) => !(name in RUNNERS));
  if (unknown) throw new Failure(`there is no runner "${unknown}"; there are ${Object.keys(RUNNERS).join(', ')}`);

  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  const began = Date.now();
  const times = new Times();
  const left = () => (minutes === false ? Infinity : Number(minutes) * 60 - (Date.now() - began) / 1000 - RESERVE);
  const runners =
    args.length > 0
      ? args
      : Object.keys(RUNNERS).filter((name) => !NAMED.includes(name) && (long || !LONG.includes(name)));
  const context = { ...(await setupTest()), long, more, times, left };
  context.ready = buildFor(runners, context);
  const total = { passed: 0, failed: 0 };
  const [lines, slowest, flaky, leftOut] = [[], [], [], []];
  for (const name of runners) {
    if (times.seconds(name) > left() && !CHOOSES_FILES.includes(name)) {
      leftOut.push({ name, tests: times.tests(name) });
      continue;
    }
    say(`running ${name}`);
    const [started, cpu] = [Date.now(), childSeconds()];
    const result = await RUNNERS[name](context);
    const { passed, failed, skipped = 0 } = result;
    total.passed += passed;
    total.failed += failed;
    slowest.push(...(result.slowest ?? []));
    flaky.push(...(result.flaky ?? []));
    leftOut.push(...(result.leftOut ?? []));
    const seconds = (Date.now() - started) / 1000;
    if (more.length === 0 && !long && failed === 0 && !result.leftOut?.length) times.note(name, seconds, passed);
    lines.push(
      `${name.padEnd(9)} ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} left to test:long` : ''} (${Math.round(seconds)} s, ${Math.round(childSeconds() - cpu)} s of processor)`,
    );
  }
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
  out(`${total.passed} passed, ${total.failed} failed`);
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

/** Sums up the `test result:` lines of `cargo test`. A runner that breaks without one is a failure too. */
async function cargoTests(command, args, env) {
  const { code, output } = await run(command, args, { env, tee: true, check: false });
  const sum = { passed: 0, failed: 0, skipped: 0 };
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
    // Its last line.
    const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [null, 0, 1];
    total.passed += Number(passed);
    total.failed += Math.max(Number(failed), code === 0 ? 0 : 1);
  }
  return total;
}

/** Runners that leave out single files where time is short. */
const CHOOSES_FILES = ['browser', 'package'];

/** The test files of a runner of Playwright's. */
function filesOf(name) {
  const folder = join(root, 'tests', name);
  return readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith('.spec.ts'))
    .map((file) => relative(root, join(folder, file)).replaceAll('\\', '/'))
    .sort();
}

/** Of a runner's files those that are expected to end in time, the quickest ones first, and those that are left out. */
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
  const { long, more, times } = context;
  const report = join(reports, `${name}.json`);
  const { files, leftOut } = inTime(name, context);
  if (files.length === 0) return { passed: 0, failed: 0, leftOut };
  const args = [
    join(root, 'node_modules', '@playwright', 'test', 'cli.js'),
    'test',
    ...options,
    '--reporter=list,json,html',
    // What failed is run once more: where it passes then it is told of by name, and is to be mended. The long tests take it as failed.
    `--retries=${long ? 0 : 1}`,
    ...more,
    ...(leftOut.length > 0 ? files : []),
  ];
  const { code } = await run(process.execPath, args, {
    env: {
      PLAYWRIGHT_JSON_OUTPUT_NAME: report,
      PLAYWRIGHT_HTML_OUTPUT_DIR: join(root, 'playwright-report', name),
      PLAYWRIGHT_HTML_OPEN: 'never',
      MILLRACE_LONG: long ? '1' : '',
    },
    check: false,
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
