// The package as developers get it: packed, unpacked into copies of examples/ and into a consumer's folder, and built by each bundler.
//   node scripts/package.mjs        prepares what tests/package needs (`npm test -- package` does so too)
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, BUILDS, chosenBuild } from './build.mjs';
import { cache, hashOf, isMain, main, once, root, run, say } from './lib/env.mjs';

const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
const work = join(root, '.cache', 'package');

/** A consumer's project: the package in its node_modules, everything else from the repository's own. */
export const consumer = join(work, 'consumer');
/** The package as it was installed there. */
export const installed = join(consumer, 'node_modules', 'millrace');

/** Consumers that are programs: nothing is built, and no page is served. */
export const PROGRAMS = ['node', 'deno', 'bun'];

/** The examples, and the folder of each that a static server serves. `null`: nothing is built, the package lies beside the page. */
export const EXAMPLES = {
  vite: 'dist',
  webpack: 'dist',
  esbuild: 'dist',
  nextjs: 'out',
  plain: null,
  extension: null,
  ...Object.fromEntries(PROGRAMS.map((name) => [name, '.'])),
};

/** Where an example's copy is, with its node_modules: outside the clone, so that a second clone in its place installs nothing. */
function copyOf(name) {
  const manifest = join(root, 'examples', name, 'package.json');
  return join(
    cache,
    'examples',
    `${name}-${hashOf([manifest, join(root, 'scripts', 'package.mjs'), `=${root}`]).slice(0, 12)}`,
  );
}

/** In a copy, the folder of the clone that it was made for. */
const OF_CLONE = '.stamp-clone';

/** Removes the copies that were made for clones which are gone: each has a node_modules of its own. */
function evict() {
  const folder = mkdir(join(cache, 'examples'));
  for (const name of readdirSync(folder)) {
    const clone = join(folder, name, OF_CLONE);
    if (existsSync(clone) && !existsSync(readFileSync(clone, 'utf8'))) {
      rmSync(join(folder, name), { recursive: true, force: true });
    }
  }
}

/** The folder of a prepared example that a static server serves, or that a program runs in. */
export function served(name) {
  return join(copyOf(name), EXAMPLES[name] ?? '.');
}

/** Packs the package, and brings the consumer's folder and, unless it is told not to, all examples up to date. */
export async function prepare(examples = true) {
  const name = chosenBuild('release');
  const pkg = process.env.MILLRACE_SKIP_BUILD === '1' ? BUILDS[name].out : await build(name);
  mkdirSync(work, { recursive: true });
  const { output } = await run(npm, ['pack', '--silent', '--pack-destination', work], { cwd: pkg, capture: true });
  const tarball = join(work, output.trim().split('\n').at(-1));
  writeFileSync(join(mkdir(consumer), 'package.json'), '{ "private": true, "type": "module" }\n');
  await unpack(tarball, installed);
  if (examples) evict();
  if (examples) await Promise.all(Object.keys(EXAMPLES).map((example) => prepareExample(example, tarball)));
}

async function prepareExample(name, tarball) {
  const source = join(root, 'examples', name);
  const copy = copyOf(name);
  writeFileSync(join(mkdir(copy), OF_CLONE), root);
  const bundled = EXAMPLES[name] !== null;
  if (bundled) {
    const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
    const { millrace: _, ...dependencies } = manifest.dependencies;
    await once(join(copy, '.stamp-modules'), hashOf([join(source, 'package.json')]), async () => {
      say(`installing what examples/${name} needs`);
      writeFileSync(join(mkdir(copy), 'package.json'), JSON.stringify({ ...manifest, dependencies }));
      await run(npm, ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--silent'], {
        cwd: copy,
        quiet: true,
      });
    });
  }
  await once(join(copy, '.stamp-built'), hashOf([source, tarball]), async () => {
    for (const old of existsSync(copy) ? readdirSync(copy) : [])
      if (old !== 'node_modules' && !old.startsWith('.stamp')) rmSync(join(copy, old), { recursive: true });
    cpSync(source, mkdir(copy), { recursive: true });
    await unpack(tarball, join(copy, bundled ? 'node_modules/millrace' : 'millrace'));
    // An extension has its files in itself; elsewhere the server has the model.
    if (name === 'extension') cpSync(join(root, 'www', 'models', 'box.gguf'), join(copy, 'models', 'box.gguf'));
    if (!bundled || PROGRAMS.includes(name)) return;
    say(`building examples/${name}`);
    await run(npm, ['run', 'build', '--silent'], { cwd: copy, env: { NEXT_TELEMETRY_DISABLED: '1' }, quiet: true });
  });
}

/** Puts the tarball's files where `npm install` would. */
async function unpack(tarball, folder) {
  rmSync(folder, { recursive: true, force: true });
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', mkdir(folder)], { quiet: true });
}

function mkdir(folder) {
  mkdirSync(folder, { recursive: true });
  return folder;
}

if (isMain(import.meta.url)) main(() => prepare());
