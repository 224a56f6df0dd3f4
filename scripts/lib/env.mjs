// Paths, running of commands, and messages of the scripts. Plain Node: this file works before `npm ci` has run.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's root. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

/** Tools and Cargo's output stay outside the clone, so that a second clone builds neither again. */
export const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'millrace');

/** Pinned command line tools, as `cargo install --root` lays them out. */
export const tools = join(cache, 'tools');

/** Cargo's target folder, unless the user has chosen one. */
export const targetDir = resolve(root, process.env.CARGO_TARGET_DIR || join(cache, 'target'));

/** A failure whose message is all the user needs: printed without a stack. */
export class Failure extends Error {}

/** One line about what is happening, on stderr: stdout belongs to results. */
export function say(text) {
  process.stderr.write(`millrace: ${text}\n`);
}

/** The environment of every child process: Cargo's target folder and the directories where its tools may be. */
export function childEnv(extra = {}) {
  const path = [
    join(tools, 'bin'),
    join(root, 'node_modules', '.bin'),
    process.env.PATH,
    join(homedir(), '.cargo', 'bin'),
  ];
  return {
    ...process.env,
    PATH: path.join(process.platform === 'win32' ? ';' : ':'),
    CARGO_TARGET_DIR: targetDir,
    ...extra,
  };
}

/**
 * Runs a command. Options: `env` (added), `cwd`, `capture` (return the output instead of showing it), `tee` (show it and return it),
 * `quiet` (show it only if the command fails), `stdout` (is called with that output, which is not shown), `started` (is
 * called with the
 * process's id). Resolves to `{ code, output }`; throws `Failure` on a non-zero code unless `check` is false.
 */
export async function run(
  command,
  args,
  { env, cwd = root, capture = false, tee = false, quiet = false, stdout, started, check = true } = {},
) {
  const keep = capture || tee || quiet;
  // A tool's output goes to stderr too, so that a script's own stdout stays clean.
  const child = spawn(command, args, {
    cwd,
    env: childEnv(env),
    stdio: ['inherit', keep || stdout ? 'pipe' : 2, keep ? 'pipe' : 2],
  });
  if (child.pid !== undefined) started?.(child.pid);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text) => {
      if (stdout && stream === child.stdout) return stdout(text);
      output += text;
      if (tee) process.stderr.write(text);
    });
  }
  const code = await new Promise((done) => {
    child.on('error', (error) => {
      output += `${error.message}\n`;
      done(127);
    });
    child.on('close', (status, signal) => done(status ?? (signal ? 130 : 1)));
  });
  if (code !== 0 && quiet) process.stderr.write(output);
  if (code !== 0 && check)
    throw new Failure(
      `\`${[command, ...args].join(' ')}\` failed with status ${code}${capture ? `: ${output.trim()}` : ''}`,
    );
  return { code, output };
}

/** Standard output and error of a command that may not exist; null where it fails. */
export async function ask(command, args, options = {}) {
  const { code, output } = await run(command, args, { ...options, capture: true, check: false });
  return code === 0 ? output.trim() : null;
}

/** All files below a folder (or the file itself), sorted. */
export function filesUnder(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => filesUnder(join(path, entry.name)));
}

/** One hash over the names and contents of files and over plain strings (prefixed with `=`). */
export function hashOf(inputs) {
  const hash = createHash('sha256');
  for (const input of inputs) {
    if (input.startsWith('=')) hash.update(`${input}\0`);
    else for (const file of filesUnder(input)) hash.update(`${relative(root, file)}\0`).update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Runs `work` unless the stamp has the inputs' hash. Returns whether it ran. */
export async function once(stamp, hash, work) {
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return false;
  await work();
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, hash);
  return true;
}

/** Runs a script's main function; a `Failure` is one sentence and exit status 1. */
export function main(body) {
  body().catch((error) => {
    process.stderr.write(error instanceof Failure ? `millrace: ${error.message}\n` : `${error?.stack ?? error}\n`);
    process.exit(1);
  });
}

/** Whether a module is the script that Node was started with. */
export function isMain(url) {
  return process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(url);
}
