// Builds the npm package and the pages' scripts.
//   npm run build                    optimised, into pkg/: what users download
//   npm run build -- --quick         quick to compile, into .cache/pkg-quick/: what `npm start` and `npm run dev` serve
//   npm run build -- --dev           with debug assertions, into .cache/pkg-dev/: what the tests use
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { alone } from './lib/cargo.mjs';
import { ask, cache, hashOf, isMain, main, once, root, run, say, targetDir } from './lib/env.mjs';
import { nameBySimilarity } from './lib/similar.mjs';
import { setupBuild, WASM } from './setup.mjs';

/** The ways to build: Cargo's profile and where the package goes. */
export const BUILDS = {
  release: { profile: 'web', out: join(root, 'pkg') },
  // Both with the feature `lab`, for work on shaders (Cargo.toml).
  quick: { profile: 'quick', features: 'lab', out: join(root, '.cache', 'pkg-quick') },
  dev: { profile: 'wasm-dev', features: 'lab', out: join(root, '.cache', 'pkg-dev') },
};

/** Which build a script should use: MILLRACE_BUILD=release|quick|dev, else what the script prefers. */
export function chosenBuild(preferred) {
  const name = process.env.MILLRACE_BUILD || preferred;
  if (!(name in BUILDS)) throw new Error(`MILLRACE_BUILD is "${name}"; it can be ${Object.keys(BUILDS).join(', ')}`);
  return name;
}

/** What a package and the pages' scripts are made of. */
const SOURCES = [
  ...['Cargo.toml', 'Cargo.lock', 'build.rs', 'build', 'options.toml', 'package-lock.json'],
  ...['src', 'crates', 'shaders', 'npm', join('www', 'src')],
].map((path) => join(root, path));

/** What the modules of crates/ are compiled from, and the engine. */
const CRATES = ['Cargo.toml', 'Cargo.lock', 'rust-toolchain.toml', 'crates'].map((path) => join(root, path));
const ENGINE = [...CRATES, ...['build.rs', 'build', 'options.toml', 'src', 'shaders'].map((path) => join(root, path))];

/** The folder of a package that has been built. Throws where it was built of other sources than those that are there. */
export function built(name) {
  const { out } = BUILDS[name];
  const stamp = join(out, '.stamp-sources');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hashOf(SOURCES)) return out;
  const how = name === 'release' ? 'npm run build' : `npm run build -- --${name}`;
  throw new Error(`the package in ${relative(root, out)} is not of these sources: ${how}`);
}

/** Builds what has changed. Returns the package's folder. `ready`: what set-up found, where it has been asked before. */
export async function build(name = 'release', ready = setupBuild()) {
  const { env, bind } = await ready;
  const { profile, features = '', out } = BUILDS[name];
  mkdirSync(out, { recursive: true });
  const sources = hashOf(SOURCES);
  // A tool that cannot be built is reported at once.
  await Promise.all([modules({ profile, features }, out, env, bind), bind]);
  await buildJavaScript(out);
  writeFileSync(join(out, '.stamp-sources'), sources);
  return out;
}

/** Everything but the WebAssembly: the package's JavaScript into `out`, and the pages' scripts. */
export async function buildJavaScript(out) {
  await javascript(out);
  await pages();
}

/**
 * For size after brotli, which is what is downloaded: LLVM has optimised already, and brotli finds more again in what binaryen's -Os has not folded
 * and inlined (1,289,373 bytes by -O1, 1,363,622 by -Os, of 5.1 and 4.8 MB). The first kibibyte is the far end of Rust's stack, which no offset
 * reaches; the memory is the module's own, so it begins as zeros. By names that say how alike functions are, what one generic function became of
 * several types lies side by side (1,340,956 bytes; by their own names, which end in a hash, 1,356,694). How loads and
 * stores are aligned is a hint without effect, which engines do not read: where all have the same one, what does the
 * same is the same bytes (1,453,601 bytes, and 1,475,953 with LLVM's).
 */
const OPTIMISED = ['-O1', '--dealign', '--low-memory-unused', '--zero-filled-memory', '--reorder-functions-by-name'];

/** The engine, and what compiles grammars, which few pages fetch. One after the other: they share Cargo's lock. */
async function modules({ profile, features }, out, env, bind) {
  await wasm('millrace', ['--features', features], profile, out, env, bind);
  await wasm('millrace_grammar', ['--package', 'millrace-grammar'], profile, out, env, bind);
  for (const [name, features] of CPU) await cpu(name, features, out, env);
}

/** What computes on the CPU: browsers choose by what they know, pages by whether their memory can be shared among threads. */
const CPU = [
  ['millrace_cpu', '+simd128'],
  ['millrace_cpu_relaxed', '+simd128,+relaxed-simd'],
  ['millrace_cpu_threads', '+simd128,+atomics,+bulk-memory'],
  ['millrace_cpu_relaxed_threads', '+simd128,+relaxed-simd,+atomics,+bulk-memory'],
];

/**
 * The standard library as it is distributed was not compiled for threads, which the linker would refuse: what it has of
 * state that threads could share is its allocator, around which the module puts a lock (crates/cpu/src/web.rs).
 */
const SHARED = [
  '--shared-memory',
  '--import-memory',
  '--max-memory=4294967296',
  '--no-check-features',
  '--export=__stack_pointer',
];

/** The CPU module is the same in every build: optimized for speed. It needs no glue. */
async function cpu(name, features, out, env) {
  const cargo = env.RUSTC ? '/usr/bin/cargo' : 'cargo';
  const selected = ['--package', 'millrace-cpu', '--lib', '--target', WASM, '--profile', 'cpu'];
  const shared = features.includes('+atomics') ? SHARED.flatMap((arg) => ['-C', `link-arg=${arg}`]) : [];
  if (shared.length > 0) selected.push('--features', 'threads');
  const flags = ['-C', `target-feature=${features}`, ...shared];
  const args = ['rustc', '--quiet', '--locked', ...selected, ...shortPaths(), '--', ...flags];
  // Quiet: each time rustc says that `atomics` is not stable.
  await compile({ cargo, args, env, quiet: true }, 'cpu', 'millrace_cpu', CRATES, join(out, `${name}.wasm`));
}

/** How many modules of a name are kept for other clones. */
const KEPT = 6;

/**
 * Runs Cargo and copies the module to `to`. Where the same has been compiled on this machine before, in any clone, the copy that was kept is taken.
 */
async function compile({ cargo, args, env, quiet = false }, profile, name, sources, to) {
  const version = await ask(env.RUSTC ?? 'rustc', ['-vV'], { env });
  const flags = Object.entries(process.env).filter(([name]) =>
    /^(CARGO_PROFILE_|CARGO_ENCODED_|RUSTFLAGS$)/.test(name),
  );
  const keyNow = () => hashOf([...sources, `=${JSON.stringify([version, args, env, flags.sort()])}`]);
  const key = keyNow();
  const kept = join(cache, 'modules', `${basename(to, '.wasm')}-${profile}`, `${key}.wasm`);
  if (existsSync(kept)) {
    utimesSync(kept, new Date(), new Date());
    copyFileSync(kept, to);
    return;
  }
  await alone(async () => {
    await run(cargo, args, { env, quiet });
    copyFileSync(join(targetDir, WASM, profile, `${name}.wasm`), to);
    // What was edited meanwhile may be in it or not.
    if (keyNow() === key) keep(to, kept);
  }, profile);
}

/** Keeps a module under the profile's lock, and of those in its folder the ones that were used last. */
function keep(module, kept) {
  const folder = dirname(kept);
  mkdirSync(folder, { recursive: true });
  // Whole at once: another clone may be looking.
  copyFileSync(module, `${kept}.part`);
  renameSync(`${kept}.part`, kept);
  const used = (file) => statSync(join(folder, file)).mtimeMs;
  const newest = readdirSync(folder).sort((a, b) => used(b) - used(a));
  for (const file of newest.slice(KEPT)) rmSync(join(folder, file), { force: true });
}

/**
 * Shortens paths of other crates' sources: they would reveal this machine's folders, and take bytes in every panic
 * message.
 */
function shortPaths() {
  const crates = join(process.env.CARGO_HOME || join(homedir(), '.cargo'), 'registry', 'src');
  return ['--config', `target.${WASM}.rustflags=${JSON.stringify([`--remap-path-prefix=${crates}=crates`])}`];
}

/** Cargo, the tool that `bind` will be the path of and, for release, wasm-opt. */
async function wasm(name, selected, profile, out, env, bind) {
  const cargo = env.RUSTC ? '/usr/bin/cargo' : 'cargo';
  // Inlined is only what is small or called once: the download's size matters more than calls do, except where the code says #[inline].
  const smaller = ['--', '-C', 'llvm-args=-inline-threshold=0 -inlinehint-threshold=60'];
  const args = [
    ...['rustc', '--quiet', '--locked', '--lib', '--target', WASM, '--profile', profile, ...selected],
    ...(profile === 'web' ? [...shortPaths(), ...smaller] : []),
  ];
  const module = join(root, '.cache', 'modules', profile, `${name}.wasm`);
  mkdirSync(dirname(module), { recursive: true });
  await compile({ cargo, args, env }, profile, name, name === 'millrace' ? ENGINE : CRATES, module);
  const tool = await bind;
  const hash = hashOf([
    module,
    `=${profile} ${tool} ${OPTIMISED.join(' ')}`,
    join(root, 'scripts', 'lib', 'similar.mjs'),
    join(root, 'Cargo.lock'),
    join(root, 'package-lock.json'),
  ]);
  await once(join(out, `.stamp-${name}`), hash, async () => {
    say(`binding ${(statSync(module).size / 1e6).toFixed(1)} MB of WebAssembly`);
    await run(tool, [module, out], { quiet: true });
    if (profile !== 'web') return;
    const bound = join(out, `${name}_bg.wasm`);
    writeFileSync(bound, nameBySimilarity(readFileSync(bound)));
    await run(
      process.execPath,
      [join(root, 'node_modules', 'binaryen', 'bin', 'wasm-opt'), ...OPTIMISED, bound, '-o', bound],
      { quiet: true },
    );
    say(`optimised for size: ${(statSync(bound).size / 1e6).toFixed(1)} MB`);
  });
}

/** Where the sources are, for readers of the package elsewhere. */
const REPOSITORY = 'https://github.com/millrace/millrace';
/**
 * Entries that replace the main one outside of browsers, by conditions of `exports`: the same code, with node/ for what
 * such a place lacks.
 */
const RUNTIMES = ['deno', 'bun', 'node'];
/** What a page imports, by its name in `exports`. */
const ENTRIES = { '.': 'index', './ai-sdk': 'ai-sdk', './react': 'react' };

/** The TypeScript of npm/ into the package: what a page imports, worker.js, host.js, type definitions, package.json. */
async function javascript(out) {
  const sources = join(root, 'npm');
  const glue = join(out, 'millrace.js');
  const grammarGlue = join(out, 'millrace_grammar.js');
  const hash = hashOf([
    sources,
    glue,
    grammarGlue,
    join(root, 'package.json'),
    join(root, 'package-lock.json'),
    join(root, 'tsconfig.json'),
    join(root, 'README.md'),
    join(root, 'scripts', 'build.mjs'),
  ]);
  await once(join(out, '.stamp-js'), hash, async () => {
    const esbuild = await import('esbuild');
    const options = {
      outdir: out,
      bundle: true,
      format: 'esm',
      target: 'es2022',
      sourcemap: true,
      logLevel: 'warning',
    };
    const glued = [
      elsewhere(/^\.\/millrace\.js$/, { path: glue }),
      elsewhere(/^\.\/millrace_grammar\.js$/, { path: grammarGlue }),
    ];
    // What not every page needs is loaded when it is: an engine in the caller's own Worker, and answers in OpenAI's shapes.
    await esbuild.build({
      ...options,
      entryPoints: [join(sources, 'index.ts')],
      plugins: [
        elsewhere(/^\.\/host\.js$/, { path: './host.js', external: true }),
        elsewhere(/^\.\.\/openai\.ts$/, { path: './openai.js', external: true }),
      ],
    });
    await esbuild.build({
      ...options,
      entryPoints: [join(sources, 'openai.ts')],
      plugins: [elsewhere(/\/(errors|stream)\.ts$/, { path: './index.js', external: true })],
    });
    // One engine and one class of errors for all: what is built on the engine imports it.
    await esbuild.build({
      ...options,
      entryPoints: [join(sources, 'ai-sdk.ts'), join(sources, 'react.ts')],
      external: ['react'],
      plugins: [elsewhere(/^\.\/index\.ts$/, { path: './index.js', external: true })],
    });
    // These scripts need no other one, wherever a bundler puts them: only the .wasm file, which they find by an address
    // that bundlers know.
    await esbuild.build({
      ...options,
      entryPoints: [join(sources, 'worker.ts'), join(sources, 'host.ts')],
      plugins: glued,
    });
    // Node.js, Deno and Bun: all in one thread, and one script. What they lack of a Worker's globals stands in for it within the package alone.
    const node = join(sources, 'node');
    await esbuild.build({
      ...options,
      entryPoints: { node: join(sources, 'index.ts') },
      platform: 'node',
      inject: [join(node, 'scope.ts')],
      define: { globalThis: 'scope' },
      plugins: [
        elsewhere(/^\.\/place\.ts$/, { path: join(node, 'place.ts') }),
        elsewhere(/^\.\/host\.js$/, { path: join(sources, 'host.ts') }),
        ...glued,
      ],
    });
    // A thread of the CPU's there. Its name says that it is a module, whatever package a bundler copies it into.
    await esbuild.build({
      ...options,
      entryPoints: { 'node-helper': join(node, 'helper.ts') },
      outExtension: { '.js': '.mjs' },
      platform: 'node',
    });
    const declarations = await types(out);
    const scripts = [...Object.values(ENTRIES), 'worker', 'host', 'openai', 'node'].flatMap((name) => [
      `${name}.js`,
      `${name}.js.map`,
    ]);
    const { version, description, license, engines, devDependencies } = JSON.parse(
      readFileSync(join(root, 'package.json'), 'utf8'),
    );
    const manifest = {
      name: 'millrace',
      version,
      description,
      keywords: [
        'llm',
        'webgpu',
        'wasm',
        'gguf',
        'safetensors',
        'inference',
        'chat',
        'openai',
        'ai-sdk',
        'react',
        'browser',
        'offline',
      ],
      license,
      author: 'The Millrace authors',
      repository: { type: 'git', url: `git+${REPOSITORY}.git` },
      homepage: `${REPOSITORY}#readme`,
      bugs: `${REPOSITORY}/issues`,
      // What builds a page with it, or runs it.
      engines,
      publishConfig: { access: 'public' },
      type: 'module',
      main: 'index.js',
      types: 'index.d.ts',
      exports: {
        ...Object.fromEntries(
          Object.entries(ENTRIES).map(([path, name]) => [
            path,
            {
              types: `./${name}.d.ts`,
              ...(path === '.'
                ? { browser: './index.js', ...Object.fromEntries(RUNTIMES.map((runtime) => [runtime, './node.js'])) }
                : {}),
              default: `./${name}.js`,
            },
          ]),
        ),
        './worker.js': './worker.js',
        './millrace_bg.wasm': './millrace_bg.wasm',
        './millrace_grammar_bg.wasm': './millrace_grammar_bg.wasm',
        ...Object.fromEntries(CPU.map(([name]) => [`./${name}.wasm`, `./${name}.wasm`])),
        './package.json': './package.json',
      },
      files: [
        ...scripts,
        'node-helper.mjs',
        'node-helper.mjs.map',
        ...declarations,
        ...['millrace', 'millrace_grammar'].map((name) => `${name}_bg.wasm`),
        ...CPU.map(([name]) => `${name}.wasm`),
        'CHANGELOG.md',
        'LICENSE-*',
      ],
      sideEffects: ['./worker.js'],
      peerDependencies: {
        '@ai-sdk/provider': `^${devDependencies['@ai-sdk/provider'].split('.')[0]}.0.0`,
        ai: `^${devDependencies.ai.split('.')[0]}.0.0`,
        react: '^18.0.0 || ^19.0.0',
        webgpu: '>=0.6.0',
      },
      peerDependenciesMeta: {
        '@ai-sdk/provider': { optional: true },
        ai: { optional: true },
        react: { optional: true },
        webgpu: { optional: true },
      },
    };
    writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    for (const name of ['CHANGELOG.md', 'LICENSE-MIT', 'LICENSE-APACHE'])
      copyFileSync(join(root, name), join(out, name));
    writeFileSync(join(out, 'README.md'), elsewhereRead(readFileSync(join(root, 'README.md'), 'utf8')));
  });
}

/** A document with links that resolve wherever it is read: those of the repository lead there. */
function elsewhereRead(text) {
  const at = (kind, path) => `${REPOSITORY}/${kind}/main/${path}`;
  return text
    .replaceAll(/(!\[[^\]]*\]\()(?!https?:|#)([^)]+)\)/g, (_, before, path) => `${before}${at('raw', path)})`)
    .replaceAll(/(?<!!)(\[[^\]]*\]\()(?!https?:|#)([^)]+)\)/g, (_, before, path) => `${before}${at('blob', path)})`);
}

/** An esbuild plugin: imports that match are found there. */
function elsewhere(filter, found) {
  return { name: 'elsewhere', setup: (build) => build.onResolve({ filter }, () => found) };
}

/** Writes the declarations that the entries reach, and returns their names. The compiler also emits those of what stays inside. */
async function types(out) {
  const staging = join(out, '.types');
  rmSync(staging, { recursive: true, force: true });
  await run(process.execPath, [tsc, '-p', join(root, 'npm'), '--outDir', staging], { quiet: true });
  const names = Object.values(ENTRIES).map((name) => `${name}.d.ts`);
  for (const name of names) {
    const text = readFileSync(join(staging, name), 'utf8').replaceAll(".ts';", ".js';");
    for (const [, path] of text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)\.js'/g)) {
      const reached = join(dirname(name), `${path}.d.ts`);
      if (!names.includes(reached)) names.push(reached);
    }
    mkdirSync(dirname(join(out, name)), { recursive: true });
    writeFileSync(join(out, name), text);
  }
  rmSync(staging, { recursive: true, force: true });
  return names;
}

/** The TypeScript compiler as a Node script. */
export const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

/** The pages' scripts: www/src/*.ts into www/js/. */
async function pages() {
  const sources = join(root, 'www', 'src');
  const hash = hashOf([sources, join(root, 'package-lock.json'), join(root, 'scripts', 'build.mjs')]);
  const out = join(root, 'www', 'js');
  await once(join(out, '.stamp'), hash, async () => {
    rmSync(out, { recursive: true, force: true });
    await bundlePages(out, { sourcemap: true });
  });
}

/** Bundles the pages' scripts into `out`. They import the package by its URL: `pkg`, beside `out`. `installable`: with a service worker (scripts/www.mjs). */
export async function bundlePages(out, { pkg = 'pkg', installable = false, sourcemap = false }) {
  const esbuild = await import('esbuild');
  await esbuild.build({
    entryPoints: [
      ...['chat.ts', 'documents.ts', 'kernels.ts', 'kernels-worker.ts', 'bench.ts', 'bench-worker.ts', 'storage.ts'],
      ...['pdf.ts', 'pdf-worker.ts'].map((name) => join('documents', name)),
    ].map((name) => join(root, 'www', 'src', name)),
    outdir: out,
    chunkNames: 'part-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    sourcemap,
    define: { INSTALLABLE: String(installable) },
    // The pages use the package as any page does, by its URL. (tsconfig.json's paths point at the sources, for the type
    // check.)
    alias: {
      millrace: `../${pkg}/index.js`,
      'millrace/wasm': `../${pkg}/millrace.js`,
      'millrace/grammar': `../${pkg}/millrace_grammar.js`,
    },
    external: [`../${pkg}/*`],
    loader: { '.md': 'text' },
    tsconfigRaw: {},
    logLevel: 'warning',
  });
  // What pdf.js looks up where a file names letters of Chinese, Japanese or Korean by a table that it does not bring along.
  cpSync(join(root, 'node_modules', 'pdfjs-dist', 'cmaps'), join(out, 'documents', 'cmaps'), { recursive: true });
}

if (isMain(import.meta.url)) {
  main(async () => {
    const named = Object.keys(BUILDS).find((name) => process.argv.includes(`--${name}`));
    const out = await build(named ?? chosenBuild('release'));
    say(`the package is in ${out}`);
  });
}
