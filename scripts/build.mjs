// Builds the npm package and the pages' scripts.
//   npm run build                    optimised, into pkg/
//   npm run build -- --dev           quick to compile, into .cache/pkg-dev/: what the tests use
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashOf, isMain, main, once, root, run, say, targetDir, tools } from './lib/env.mjs';
import { setupBuild } from './setup.mjs';

/** The two ways to build: Cargo's profile and where the package goes. */
export const BUILDS = {
  release: { profile: 'web', out: join(root, 'pkg') },
  dev: { profile: 'wasm-dev', out: join(root, '.cache', 'pkg-dev') },
};

/** Which build a script should use: MILLRACE_BUILD=dev|release, else what the script prefers. */
export function chosenBuild(preferred) {
  const name = process.env.MILLRACE_BUILD || preferred;
  if (!(name in BUILDS)) throw new Error(`MILLRACE_BUILD is "${name}"; it can be dev or release`);
  return name;
}

/** Builds what has changed. Returns the package's folder. */
export async function build(name = 'release') {
  const env = await setupBuild();
  const { profile, out } = BUILDS[name];
  mkdirSync(out, { recursive: true });
  await wasm(profile, out, env);
  await buildJavaScript(out);
  return out;
}

/** Everything but the WebAssembly: the package's JavaScript into `out`, and the pages' scripts. */
export async function buildJavaScript(out) {
  await javascript(out);
  await pages();
}

/** Cargo, wasm-bindgen and, for release, wasm-opt. */
async function wasm(profile, out, env) {
  const cargo = env.RUSTC ? '/usr/bin/cargo' : 'cargo';
  // Inlined is only what is small or called once: the download's size matters more than calls do, except where the code says #[inline].
  const smaller = profile === 'web' ? ['--', '-C', 'llvm-args=-inline-threshold=15'] : [];
  await run(cargo, ['rustc', '--quiet', '--locked', '--lib', '--target', 'wasm32-unknown-unknown', '--profile', profile, ...smaller], { env });
  const module = join(targetDir, 'wasm32-unknown-unknown', profile, 'millrace.wasm');
  const hash = hashOf([module, `=${profile}`, join(root, 'Cargo.lock'), join(root, 'package-lock.json')]);
  await once(join(out, '.stamp-wasm'), hash, async () => {
    say(`binding ${(statSync(module).size / 1e6).toFixed(1)} MB of WebAssembly`);
    await run(join(tools, 'bin', 'wasm-bindgen'), ['--target', 'web', '--out-dir', out, module], { quiet: true });
    if (profile !== 'web') return;
    const bound = join(out, 'millrace_bg.wasm');
    await run(process.execPath, [join(root, 'node_modules', 'binaryen', 'bin', 'wasm-opt'), '-Os', bound, '-o', bound], { quiet: true });
    say(`optimised for size: ${(statSync(bound).size / 1e6).toFixed(1)} MB`);
  });
}

/** The TypeScript of npm/ into the package: index.js, worker.js, type definitions, package.json. */
async function javascript(out) {
  const sources = join(root, 'npm');
  const hash = hashOf([sources, join(root, 'package.json'), join(root, 'package-lock.json'), join(root, 'tsconfig.json'), join(root, 'README.md'), join(root, 'scripts', 'build.mjs')]);
  await once(join(out, '.stamp-js'), hash, async () => {
    const esbuild = await import('esbuild');
    await esbuild.build({
      entryPoints: [join(sources, 'index.ts'), join(sources, 'worker.ts')],
      outdir: out,
      bundle: true,
      format: 'esm',
      target: 'es2022',
      sourcemap: true,
      // The wasm glue stays a file of its own: it finds the .wasm file beside itself.
      external: ['./millrace.js'],
      logLevel: 'warning',
    });
    await types(out);
    const { version, description, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const manifest = {
      name: 'millrace',
      version,
      description,
      license,
      type: 'module',
      main: 'index.js',
      types: 'index.d.ts',
      exports: { '.': { types: './index.d.ts', default: './index.js' } },
      files: ['*.js', '*.js.map', '*.d.ts', '*.wasm', 'snippets'],
      sideEffects: false,
    };
    writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    for (const name of ['README.md', 'LICENSE-MIT', 'LICENSE-APACHE']) copyFileSync(join(root, name), join(out, name));
  });
}

async function types(out) {
  // Declarations go into a folder of their own first: the compiler also emits those of modules that only the Worker uses.
  const staging = join(out, '.types');
  rmSync(staging, { recursive: true, force: true });
  await run(process.execPath, [tsc, '-p', join(root, 'npm'), '--outDir', staging], { quiet: true });
  for (const name of ['index', 'engine', 'generation', 'types', 'errors']) {
    writeFileSync(join(out, `${name}.d.ts`), readFileSync(join(staging, `${name}.d.ts`), 'utf8').replaceAll(".ts';", ".js';"));
  }
  rmSync(staging, { recursive: true, force: true });
}

/** The TypeScript compiler as a Node script. */
export const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

/** The pages' scripts: www/src/*.ts into www/js/. They import the package by its URL, ./pkg/index.js. */
async function pages() {
  const sources = join(root, 'www', 'src');
  const hash = hashOf([sources, join(root, 'package-lock.json'), join(root, 'scripts', 'build.mjs')]);
  await once(join(root, 'www', 'js', '.stamp'), hash, async () => {
    const esbuild = await import('esbuild');
    await esbuild.build({
      entryPoints: ['chat.ts', 'kernels.ts', 'kernels-worker.ts', 'bench.ts', 'bench-worker.ts'].map((name) => join(sources, name)),
      outdir: join(root, 'www', 'js'),
      bundle: true,
      format: 'esm',
      target: 'es2022',
      minify: true,
      sourcemap: true,
      // The pages use the package as anybody's page does, by its URL. (tsconfig.json's paths point at the sources, for the type check.)
      alias: { millrace: '../pkg/index.js', 'millrace/wasm': '../pkg/millrace.js' },
      external: ['../pkg/*'],
      tsconfigRaw: {},
      logLevel: 'warning',
    });
  });
}

if (isMain(import.meta.url)) {
  main(async () => {
    const out = await build(process.argv.includes('--dev') ? 'dev' : chosenBuild('release'));
    say(`the package is in ${out}`);
  });
}
