// npm test: everything that CI runs. Each runner's own output is shown; the last line is `N passed, N failed`.
//   npm test -- NAME…   only these runners, e.g. `npm test -- browser`; further arguments after `--` go to the runner
//   npm run test:long   also what takes longer
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build, tsc } from './build.mjs';
import { main, root, run, say } from './lib/env.mjs';
import { prepare } from './package.mjs';
import { checkSize } from './lib/size.mjs';
import { safari } from './safari.mjs';
import { cargoTool, setupFirefox, setupTest } from './setup.mjs';
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
  wasm: async ({ ready, wasm, driver, more }) => {
    await ready('wasm');
    return cargoTests(wasm.RUSTC ? '/usr/bin/cargo' : 'cargo', [...WASM_TESTS, ...more], {
      ...wasm,
      CHROMEDRIVER: driver,
      CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER: 'wasm-bindgen-test-runner',
      // SwiftShader compiles a shader in the time in which a GPU compiles a hundred.
      WASM_BINDGEN_TEST_TIMEOUT: '600',
    });
  },
  browser: async ({ ready, long, more }) => {
    await ready('dev');
    return playwright('browser', [], more, long);
  },
  firefox: async ({ ready, long, more }) => {
    await ready('release');
    await setupFirefox();
    return playwright('firefox', ['--config', join(root, 'tests', 'firefox')], more, long);
  },
  safari: async ({ ready }) => {
    await ready('release');
    return safari();
  },
  size: async ({ ready }) => checkSize(await ready('release')),
  package: async ({ ready, long, more }) => {
    await ready('examples');
    return playwright('package', ['--config', join(root, 'tests', 'package')], more, long);
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

/** What only `npm run test:long` runs, unless it is named: tools that take minutes to build, and PyTorch. */
const LONG = ['deny', 'wasm-pack', 'oracle'];
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

main(async () => {
  const args = process.argv.slice(2);
  const end = args.indexOf('--');
  const more = end < 0 ? [] : args.splice(end).slice(1);
  const long = args.includes('--long');
  const chosen = args.filter((name) => name !== '--long');
  const unknown = chosen.find((name) => !(name in RUNNERS));
  if (unknown) throw new Error(`there is no runner "${unknown}"; there are ${Object.keys(RUNNERS).join(', ')}`);

  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  const runners =
    chosen.length > 0
      ? chosen
      : Object.keys(RUNNERS).filter((name) => !NAMED.includes(name) && (long || !LONG.includes(name)));
  const context = { ...(await setupTest()), long, more };
  context.ready = buildFor(runners, context);
  const total = { passed: 0, failed: 0 };
  const lines = [];
  for (const name of runners) {
    say(`running ${name}`);
    const began = Date.now();
    const { passed, failed, skipped = 0 } = await RUNNERS[name](context);
    total.passed += passed;
    total.failed += failed;
    lines.push(
      `${name.padEnd(9)} ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} left to test:long` : ''} (${Math.round((Date.now() - began) / 1000)} s)`,
    );
  }
  process.stdout.write(`\n${lines.join('\n')}\n${total.passed} passed, ${total.failed} failed\n`);
  process.exitCode = total.failed > 0 ? 1 : 0;
});

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

/** Playwright's tests of one runner. */
async function playwright(name, options, more, long) {
  const report = join(reports, `${name}.json`);
  const args = [
    join(root, 'node_modules', '@playwright', 'test', 'cli.js'),
    'test',
    ...options,
    '--reporter=list,json,html',
    ...more,
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
  try {
    const { stats } = JSON.parse(readFileSync(report, 'utf8'));
    sum = { passed: stats.expected, failed: stats.unexpected + stats.flaky, skipped: stats.skipped };
  } catch {
    say('Playwright has left no report');
  }
  if (code !== 0 && sum.failed === 0) sum.failed = 1;
  return sum;
}
