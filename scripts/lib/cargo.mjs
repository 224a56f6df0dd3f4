// Cargo's target folder, which clones share: building and copying the results are done under a lock. Tests run from
// copies.
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

/** Does `work`, which builds with this profile of Cargo's and copies the results, under the profile's lock. */
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
 * Cargo takes another clone's build for this one's where the sources here are older: so after a change of clone the
 * repository's own crates are compiled again, their dependencies are not.
 */
function ownTarget(profile) {
  const stamp = join(targetDir, `.clone-${profile}`);
  // A checkout of before the lock has built since, with any profile.
  if (existsSync(join(targetDir, '.clone')))
    for (const name of readdirSync(targetDir))
      if (name.startsWith('.clone')) rmSync(join(targetDir, name), { force: true });
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === root) return;
  const now = new Date();
  const crates = readdirSync(join(root, 'crates')).map((name) => join('crates', name));
  // Build scripts' outputs depend on their build.rs.
  for (const path of ['.', ...crates].flatMap((crate) => [join(crate, 'src', 'lib.rs'), join(crate, 'build.rs')]))
    if (existsSync(join(root, path))) utimesSync(join(root, path), now, now);
  writeFileSync(stamp, root);
}

/** A private copy of a file. */
function copied(path, folder) {
  const copy = join(folder, basename(path));
  const { mtimeMs, size } = statSync(path);
  const written = new Date(Math.floor(mtimeMs));
  const old = existsSync(copy) ? statSync(copy) : null;
  if (old?.size === size && old.mtime.getTime() === written.getTime()) return copy;
  // A running executable cannot be written, only replaced.
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

/** Cargo's arguments for native tests and the command line. */
export const NATIVE = ['--locked', '--workspace', '--features', 'cli,toy'];

/** Options of Cargo that have a value behind them. */
const VALUED =
  /^(--(test|bin|example|bench|package|exclude|features|profile|target|jobs|config|color|target-dir|manifest-path)|-[pFjZ])$/;

/**
 * Splits the arguments behind `npm test -- native --`: Cargo's selection, names of tests, and arguments of the tests.
 */
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

/** Builds the command line, as the native tests do. Resolves to the path of this clone's copy. */
export async function commandLine() {
  const { code, programs } = await alone(() => buildTests('cargo', [...NATIVE, '--quiet', '--test', 'native']));
  if (code !== 0 || !programs.millrace) throw new Error('the command line could not be built');
  return programs.millrace;
}
