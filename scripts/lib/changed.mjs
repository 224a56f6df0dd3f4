// The tests that a change can affect: a table of paths, and the runners with the tests of these paths. For `npm test --
// changed`.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';
import { ask, Failure, root } from './env.mjs';

/** All tests of a runner. */
export const ALL = true;

const specs = (names) => names.split(' ').map((name) => `tests/browser/${name}.spec.ts`);
const packaged = (names) => names.split(' ').map((name) => `tests/package/${name}.spec.ts`);

/** The pages' tests, by page. */
const PAGES = {
  chat: specs('chat demo www'),
  documents: specs('documents documents_parts www'),
  bench: specs('bench www'),
  kernels: specs('kernels www'),
  storage: specs('storage_page www'),
};
const ALL_PAGES = [...new Set([...Object.values(PAGES).flat(), ...specs('known')])];

/** Tests of the package's interface, on any device. */
const API = specs(
  'adapters ai_sdk answer_end api configure cpu device_lost documents download embed errors generation grammar hostile hub kill ' +
    'openai options own_worker plan queue recovery refusals run shards storage storage_page supported tokenizer tools www',
);

const RUST = { format: ALL, clippy: ALL, native: ALL, browser: ALL };
const TYPESCRIPT = { format: ALL, lint: ALL, types: ALL };
const SCRIPTS = { format: ALL, lint: ALL, browser: specs('scripts') };
const NOTHING = {};

/**
 * Paths, and the runners with tests of them, or a function that returns these. All matching rows count; a path that no
 * row matches affects everything, and so do rows with `EVERYTHING`.
 */
export const EVERYTHING = null;
export const TABLE = [
  [/\.md$/, { format: ALL, docs: ALL, native: ['documents::'] }],
  [/^docs\/ARCHITECTURE\.md$/, { native: ['rooms::'] }],
  [/^docs\/ERRORS\.md$/, { browser: specs('errors') }],
  [/^docs\/GUIDE\.md$/, { package: packaged('engine') }],
  [
    /^README\.md$/,
    { native: ['toolchain::'], browser: specs('errors'), package: packaged('engine manifest readme types') },
  ],
  [/^CHANGELOG\.md$/, { package: packaged('manifest') }],
  [/^docs\/.*\.webp$/, NOTHING],
  [/^(LICENSE-\w+|SECURITY\.md)$/, { package: packaged('manifest') }],

  ...Object.entries(PAGES).map(([page, files]) => [
    new RegExp(`^www/(${page === 'chat' ? 'index\\.html|chat\\.css' : `${page}\\.(html|css)`}|src/${page}[./-].*)$`),
    { ...TYPESCRIPT, browser: files },
  ]),
  [/^www\/(src\/(shared|sw)|style\.css|icon|manifest)/, { ...TYPESCRIPT, browser: ALL_PAGES }],

  [/^npm\/ai-sdk\.ts$/, { ...TYPESCRIPT, docs: ALL, browser: specs('ai_sdk'), package: packaged('engine types') }],
  [/^npm\/react\.ts$/, { ...TYPESCRIPT, docs: ALL, package: packaged('react readme types') }],
  [/^npm\/openai(\.ts$|\/)/, { ...TYPESCRIPT, docs: ALL, browser: specs('ai_sdk embed openai'), package: ALL }],
  [/^npm\/node\//, { ...TYPESCRIPT, package: ALL }],
  [
    /^npm\/(?!ai-sdk\.ts$|react\.ts$|openai\.ts$|openai\/|node\/)/,
    { ...TYPESCRIPT, docs: ALL, browser: API, package: ALL },
  ],

  [/^(src|shaders|build)\/|^build\.rs$/, (path) => (path.startsWith('src/bin/') ? COMMANDS : RUST)],
  [/^crates\//, RUST],
  [/^options\.toml$/, { ...RUST, ...TYPESCRIPT, docs: ALL, package: ALL }],

  [/^tests\/browser\/.*\.ts$/, (path) => ({ ...TYPESCRIPT, browser: importing('tests/browser', path) })],
  [/^tests\/package\/.*\.spec\.ts$/, (path) => ({ ...TYPESCRIPT, package: existing(path) })],
  [/^tests\/package\/(?!.*\.spec\.ts$)/, { ...TYPESCRIPT, package: ALL }],
  [/^tests\/firefox\//, { ...TYPESCRIPT, firefox: ALL }],
  [/^tests\/native\/.*\.rs$/, (path) => ({ format: ALL, clippy: ALL, native: using(path) })],
  [/^tests\/data\/tokenizer\//, { native: ['tokenizer::'], browser: specs('tokenizer'), docs: ALL }],
  [/^tests\/data\/calls\//, { native: ['call'] }],
  [/^tests\/(times|budgets)\.json$/, SCRIPTS],

  [/^examples\//, { format: ALL, lint: ALL, package: packaged('examples runtimes') }],

  [/^scripts\/(lib\/(changed|times|budget|lock|size)|test|mutants)\.mjs$|^tests\/mutants\//, SCRIPTS],
  [/^scripts\/(docs|options|lib\/(options|tables))\b/, { ...SCRIPTS, docs: ALL }],
  [/^scripts\/(bench\.mjs|lib\/\w*bench\w*\.mjs)$/, { ...SCRIPTS, browser: specs('cli scripts') }],
  [/^scripts\/www\.mjs$/, { ...SCRIPTS, browser: specs('scripts www') }],
  [/^scripts\/package\.mjs$/, { ...SCRIPTS, package: ALL }],
  [/^scripts\/(lib\/firefox\.mjs)$/, { ...SCRIPTS, firefox: ALL }],
  [/^scripts\/(dev|start|icons|picture|wgsl|safari|wasm-pack|oracle|lib\/webdriver)\.mjs$/, SCRIPTS],
  [/^scripts\/(boxmodel|embedmodel|oracle|picture|wgsl)\/|^scripts\/.*\.py$/, { format: ALL, lint: ALL }],
  [/^bench\//, { format: ALL, lint: ALL, browser: specs('cli') }],

  [/^playwright\.config\.ts$/, { ...TYPESCRIPT, browser: ALL }],
  [/^biome\.jsonc$/, { format: ALL, lint: ALL }],
  [/^rustfmt\.toml$/, { format: ALL }],
  [/^tsconfig\.json$/, { types: ALL }],
  [/^(\.github\/|\.editorconfig$|\.gitignore$|deny\.toml$)/, { format: ALL }],
  // The bundled model is used everywhere.
  [/^www\/models\/.*\.gguf$|^tests\/data\/(?!tokenizer\/|calls\/)(?!.*\.md$)/, EVERYTHING],
];

/** The command line alone. */
const COMMANDS = { format: ALL, clippy: ALL, native: ALL, browser: specs('cli') };

/** A file that may have been deleted. */
const existing = (path) => (existsSync(join(root, path)) ? [path] : []);

/** The spec files that a file of their folder reaches: itself, or those that import it, directly or not. */
function importing(folder, path) {
  if (path.endsWith('.spec.ts')) return existing(path);
  const files = readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.ts'))
    .map((name) => ({ name, text: readFileSync(join(root, folder, name), 'utf8') }));
  const reached = new Set([basename(path)]);
  for (let before = 0; before !== reached.size; ) {
    before = reached.size;
    for (const { name, text } of files)
      if ([...reached].some((other) => text.includes(`'./${other}'`))) reached.add(name);
  }
  const found = [...reached].filter((name) => name.endsWith('.spec.ts'));
  return found.length > 0 ? found.map((name) => posix.join(folder, name)).sort() : ALL;
}

/** Modules of native tests that every other one may use. */
const SHARED = ['main', 'common', 'builder', 'memory'];

/** The native test modules that a file of theirs reaches. */
function using(path) {
  const name = basename(path, '.rs');
  if (SHARED.includes(name)) return ALL;
  const folder = join(root, dirname(path));
  const users = readdirSync(folder)
    .filter((file) => new RegExp(`crate::(\\{[^}]*)?\\b${name}\\b`).test(readFileSync(join(folder, file), 'utf8')))
    .map((file) => basename(file, '.rs'));
  return [...new Set([name, ...users])].sort().map((module) => `${module}::`);
}

/**
 * The tests that changed paths can affect: `{ runners, unknown }`. `runners` has by name `{ only, paths }`: ALL tests
 * or a list, and why; it is null where paths may affect everything, which `unknown` lists.
 */
export function touchedBy(paths, table = TABLE) {
  const runners = {};
  const unknown = [];
  for (const path of paths) {
    const rows = table.filter(([pattern]) => pattern.test(path));
    if (rows.length === 0 || rows.some(([, run]) => run === EVERYTHING)) {
      unknown.push(path);
      continue;
    }
    for (const [, run] of rows) {
      for (const [name, only] of Object.entries(typeof run === 'function' ? run(path) : run)) {
        if (only !== ALL && only.length === 0) continue;
        const runner = (runners[name] ??= { only: [], paths: [] });
        runner.only = only === ALL || runner.only === ALL ? ALL : [...new Set([...runner.only, ...only])].sort();
        if (!runner.paths.includes(path)) runner.paths.push(path);
      }
    }
  }
  return { runners: unknown.length > 0 ? null : runners, unknown };
}

/**
 * The paths that differ from a commit, uncommitted ones included: `{ since, paths }`. The default commit is the branch
 * point from main.
 */
export async function changedPaths(commit) {
  const git = async (...args) => ask('git', args);
  let since = commit;
  if (since === undefined) {
    for (const branch of ['origin/main', 'main']) since ??= (await git('merge-base', 'HEAD', branch)) ?? undefined;
    if (since === undefined)
      throw new Failure(
        'there is no origin/main and no main to compare with: name a commit, `npm test -- changed COMMIT`',
      );
  }
  const base = await git('rev-parse', '--verify', '--quiet', `${since}^{commit}`);
  if (base === null) throw new Failure(`there is no commit "${since}"`);
  const changed = await git('diff', '--name-only', '--no-renames', '-z', base);
  const added = await git('ls-files', '--others', '--exclude-standard', '-z');
  if (changed === null || added === null) throw new Failure('git does not say what has changed');
  const paths = `${changed}\0${added}`.split('\0').filter((path) => path !== '' && path !== 'node_modules');
  return { since: base.slice(0, 10), paths: [...new Set(paths)].sort() };
}
