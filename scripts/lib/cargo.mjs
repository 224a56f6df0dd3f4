// Cargo's target folder, which clones share: who builds there and takes what was built does both while nobody else does. Tests run from copies.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { locked } from './lock.mjs';
import { root, run, say, targetDir } from './env.mjs';

/** Does `work`, which builds with this profile of Cargo's and takes away what it has built, while nobody else does so. */
export function alone(work, profile = 'dev') {
  return locked(
    join(targetDir, '.building', profile),
    () => {
      ownTarget(profile);
      return work();
    },
    () => say('waiting for another build to end'),
  );
}

/**
 * Cargo takes what it built for another clone for its own where the sources here are older: what is the repository's is compiled again then, what it
 * needs is not.
 */
function ownTarget(profile) {
  const stamp = join(targetDir, `.clone-${profile}`);
  // A checkout of before there was a lock has built since, with whatever profile.
  if (existsSync(join(targetDir, '.clone')))
    for (const name of readdirSync(targetDir))
      if (name.startsWith('.clone')) rmSync(join(targetDir, name), { force: true });
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === root) return;
  const now = new Date();
  const crates = readdirSync(join(root, 'crates')).map((name) => join('crates', name));
  // What a build script makes of other files depends on it.
  for (const path of ['.', ...crates].flatMap((crate) => [join(crate, 'src', 'lib.rs'), join(crate, 'build.rs')]))
    if (existsSync(join(root, path))) utimesSync(join(root, path), now, now);
  writeFileSync(stamp, root);
}

/** A copy of a file that nobody else writes. */
function copied(path, folder) {
  const copy = join(folder, basename(path));
  const { mtimeMs, size } = statSync(path);
  const written = new Date(Math.floor(mtimeMs));
  const old = existsSync(copy) ? statSync(copy) : null;
  if (old?.size === size && old.mtime.getTime() === written.getTime()) return copy;
  // An executable that runs cannot be written, but replaced.
  rmSync(copy, { force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(path, copy);
  utimesSync(copy, written, written);
  return copy;
}

/**
 * Builds what `cargo test` with these arguments would run, and copies it. Resolves to `{ code, tests, programs }`: the test executables,
 * `{ name, path, cwd }` in their order, and the programs by name. Must be called within `alone`.
 */
export async function buildTests(cargo, args, { env, into } = {}) {
  const folder = join(root, '.cache', into ?? 'native');
  let messages = '';
  const { code } = await run(cargo, ['test', '--no-run', '--message-format=json-render-diagnostics', ...args], {
    env,
    check: false,
    stdout: (text) => (messages += text),
  });
  const built = messages
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
    .filter(({ reason, executable }) => reason === 'compiler-artifact' && executable);
  const kept = new Set();
  const copyOf = (path) => {
    kept.add(basename(path));
    return copied(path, folder);
  };
  const tests = built
    .filter(({ profile }) => profile.test)
    .map(({ target, manifest_path, executable }) => ({
      // The package's own folder first, its library before its other tests.
      order: `${dirname(manifest_path)} ${target.kind.includes('test') ? 2 : target.kind.includes('bin') ? 1 : 0} ${target.name}`,
      name: `${basename(dirname(manifest_path)) === basename(root) ? '' : `${basename(dirname(manifest_path))}: `}${target.name}`,
      path: copyOf(executable),
      cwd: dirname(manifest_path),
    }))
    .sort((a, b) => (a.order < b.order ? -1 : 1));
  const programs = Object.fromEntries(
    built.filter(({ profile }) => !profile.test).map(({ target, executable }) => [target.name, copyOf(executable)]),
  );
  for (const name of existsSync(folder) ? readdirSync(folder) : [])
    if (tests.length > 1 && !kept.has(name)) rmSync(join(folder, name), { force: true });
  return { code, tests, programs };
}

/** What native tests and the command line are built with. */
export const NATIVE = ['--locked', '--workspace', '--features', 'cli,toy'];

/** Options of Cargo that have a value behind them. */
const VALUED =
  /^(--(test|bin|example|bench|package|exclude|features|profile|target|jobs|config|color|target-dir|manifest-path)|-[pFjZ])$/;

/** What stands behind `npm test -- native --`: what Cargo selects by, names of tests, and what goes to the tests. */
export function nativeArguments(more) {
  const end = more.indexOf('--');
  const [own, tests] = end < 0 ? [more, []] : [more.slice(0, end), more.slice(end + 1)];
  const [selected, names] = [[], []];
  for (let i = 0; i < own.length; i += 1) {
    if (!own[i].startsWith('-')) names.push(own[i]);
    else selected.push(own[i], ...(VALUED.test(own[i]) ? own.slice(++i, i + 1) : []));
  }
  return { selected, names, tests };
}

/** The command line as the native tests have built it: the path of this clone's copy. */
export async function commandLine() {
  const { code, programs } = await alone(() => buildTests('cargo', [...NATIVE, '--quiet', '--test', 'native']));
  if (code !== 0 || !programs.millrace) throw new Error('the command line could not be built');
  return programs.millrace;
}
