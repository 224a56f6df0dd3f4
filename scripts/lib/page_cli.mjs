// What commands that run the engine in a headless browser have in common: arguments, errors, files and progress.
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Failure } from './env.mjs';
import { CodedError } from './headless.mjs';

/** An error of the command line itself. */
export const bad = (message) => new CodedError('BAD_OPTION', message);

/**
 * Runs a command. What fails ends it with one line and status 2, as the native command line does; 1 is for what went
 * wrong around the engine.
 */
export async function command(run) {
  try {
    await run(process.argv.slice(2));
  } catch (error) {
    const coded = error instanceof CodedError;
    const text = coded || error instanceof Failure ? error.message : (error?.stack ?? String(error));
    const code = coded ? error.code : 'INTERNAL';
    process.stderr.write(`error[${code}]: ${coded ? text.replace(/\s*\n\s*/g, ' ') : text}\n`);
    process.exitCode = coded ? 2 : 1;
  }
}

/** The values of `args` by the flags' names, as `parseArgs` has them. */
export function valuesOf(args, options) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw bad(error.message.split('\n')[0]);
  }
}

/** The text of a file. */
export function readText(path) {
  if (!existsSync(path)) throw new CodedError('NOT_FOUND', `no such file, ${path}`);
  return readFileSync(path, 'utf8');
}

/** The model in the box, with what reads pictures for it. */
const BUILTIN = '/models/box.gguf#mmproj=mmproj-box.gguf';

/** The page's `Engine.load` with a model that `openPage` serves, or that is bundled or on the network. */
export function placed(load, served, given) {
  // The profile is thrown away with the browser: there is nothing to keep the model for.
  return { ...load, model: served ?? (given === 'builtin' ? BUILTIN : given), cache: false };
}

let shown = '';
/** Loading's progress, in one line of a terminal. */
export function showProgress({ phase, loaded, total }) {
  if (!process.stderr.isTTY) return;
  const text = `${phase} ${total > 0 ? `${Math.floor((100 * loaded) / total)} %` : ''}`;
  if (text !== shown) process.stderr.write(`\r\x1b[K${loaded < total || total === 0 ? text : ''}`);
  shown = text;
}
