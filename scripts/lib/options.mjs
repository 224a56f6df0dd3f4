// The table of options, options.toml, for scripts: its columns are explained there.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'smol-toml';
import { root } from './env.mjs';

/** Sections, and in each the rows by name. */
export const table = parse(readFileSync(join(root, 'options.toml'), 'utf8'));

/** The largest whole number where the table has no limit: that of 32 bits. */
const MOST = 2 ** 32 - 1;

/** `maxTokens` as `max-tokens` or `max_tokens`. */
export const joined = (name, by) => name.replace(/[A-Z]/g, (letter) => by + letter.toLowerCase());

/** The range of a row's values, as a sentence (as build/options.rs); empty where its type has it. */
export function range({ kind, least, above, most, unit, bytes }) {
  const limit = most < MOST ? most : undefined;
  if (kind === 'texts') return `Up to ${most} of up to ${bytes} bytes each.`;
  if (!['number', 'whole', 'biases'].includes(kind)) return '';
  if (above !== undefined) return limit === undefined ? `Above ${above}.` : `Above ${above}, up to ${limit}.`;
  if (limit !== undefined) return `${least} to ${limit}${unit ? ` ${unit}` : ''}.`;
  return least > 0 ? `At least ${least}.` : '';
}

/** The comment of a row. */
export function about(row) {
  const { doc, default: value, otherwise } = row;
  const fallback =
    value !== undefined
      ? `Default ${typeof value === 'string' ? `\`${value}\`` : value}.`
      : otherwise
        ? `Default: ${otherwise}.`
        : '';
  return [doc, range(row), fallback].filter(Boolean).join(' ');
}

/** The flag of a row, without its dashes; null where it has none. */
function flagOf(name, { kind, flag, only, default: value }) {
  if (flag === false || only !== undefined) return null;
  if (['callback', 'signal', 'control', 'model', 'worker', 'rust'].includes(kind)) return null;
  return flag ?? `${value === true ? 'no-' : ''}${joined(name, '-')}`;
}

const VALUES = { number: 'X', whole: 'N', biases: 'ID=BIAS', variants: 'OPERATION=VARIANT' };

/**
 * The rows of a section that are flags: `{ name, flag, row, value }`, by flag. `but`: flags that the script defines
 * itself.
 */
export function flagsOf(section, but = []) {
  const rows = Object.entries(table[section]).map(([name, row]) => {
    const value = row.kind === 'flag' ? '' : row.kind === 'name' ? row.names.join('|') : (VALUES[row.kind] ?? 'TEXT');
    return { name, row, value, flag: flagOf(name, row) };
  });
  return rows.filter(({ name, flag }) => flag !== null && !but.includes(name));
}

/** The `options` of `parseArgs` for flags. */
export function parsed(flags) {
  const multiple = (kind) => ['texts', 'biases', 'variants'].includes(kind);
  return Object.fromEntries(
    flags.map(({ flag, row }) => [
      flag,
      row.kind === 'flag' ? { type: 'boolean' } : { type: 'string', multiple: multiple(row.kind) },
    ]),
  );
}

/** The text of `--help` for flags, in two columns. */
export function help(flags) {
  return flags
    .map(({ flag, row, value }) => {
      const first = row.help ?? row.doc.split('. ')[0].replaceAll('`', '');
      const fallback =
        typeof row.default === 'boolean' ? '' : String(row.default ?? row.otherwise ?? '').replaceAll('`', '');
      const said = [first.endsWith('.') ? first : `${first}.`, range(row), fallback && `[default: ${fallback}]`];
      return `  ${`--${flag} ${value}`.trim().padEnd(36)} ${said.filter(Boolean).join(' ')}\n`;
    })
    .join('');
}

/**
 * Options by their names in JavaScript, from the values of `parseArgs`. The package checks their ranges. `bad` makes an
 * error of a message.
 */
export function optionsOf(flags, given, bad) {
  const options = {};
  for (const { name, flag, row, value: form } of flags) {
    const text = given[flag];
    if (text === undefined) continue;
    const number = (text) => {
      if (text.trim() === '' || Number.isNaN(Number(text))) throw bad(`--${flag} "${text}" is not a number`);
      return Number(text);
    };
    const pair = (text) => {
      const [key, value, ...rest] = text.split('=');
      if (!key || !value || rest.length > 0) throw bad(`--${flag} "${text}" is not of the form ${form}`);
      return [key, row.kind === 'biases' ? Number(value) : value];
    };
    if (row.kind === 'flag') options[name] = !flag.startsWith('no-');
    else if (row.kind === 'number' || row.kind === 'whole') options[name] = number(text);
    else if (row.kind === 'biases' || row.kind === 'variants') options[name] = Object.fromEntries(text.map(pair));
    else options[name] = text;
  }
  return options;
}
