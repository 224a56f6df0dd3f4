// npm/options.generated.ts, made of the table in options.toml: types with their comments, and the rows that the checks go by.
//   npm run options               writes it
//   npm run options -- --check    says whether it is up to date
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure, main, root, say } from './lib/env.mjs';
import { about, joined, table } from './lib/options.mjs';

const target = join(root, 'npm', 'options.generated.ts');

/** The interfaces: section, name, what it extends, what it is, the name of its rows. */
const INTERFACES = [
  ['fetching', 'FetchingOptions', '', 'How a model is fetched and kept.', 'FETCHING'],
  ['load', 'LoadOptions', 'FetchingOptions', 'Options of {@link Engine.load}.', 'LOAD'],
  [
    'plan',
    'PlanOptions',
    'LoadOptions',
    'Options of {@link Engine.plan}: those of a load, and what is to share the memory.',
    'PLAN',
  ],
  ['generate', 'GenerateOptions', '', 'Options of {@link Engine.generate}.', 'GENERATE'],
  ['embed', 'EmbedOptions', '', 'Options of {@link Engine.embed}.', 'EMBED'],
  ['rerank', 'RerankOptions', '', 'Options of {@link Engine.rerank}.', 'RERANK'],
  ['bench', 'BenchRows', '', 'What a bench measures, beside how it loads. @internal', 'BENCH'],
];

const TYPES = {
  number: 'number',
  whole: 'number',
  flag: 'boolean',
  text: 'string',
  texts: 'string | readonly string[]',
  biases: 'Readonly<Record<number, number>>',
  variants: 'Record<string, string>',
  object: 'Record<string, unknown>',
  objects: 'readonly object[]',
};
const typeOf = ({ kind, ts, names }) => ts ?? TYPES[kind] ?? names.map((name) => `'${name}'`).join(' | ');

/** A comment in lines of at most 120 characters. */
function comment(text) {
  if (text.length <= 110) return `  /** ${text} */`;
  const lines = [''];
  for (const word of text.split(' ')) {
    if (`${lines.at(-1)} ${word}`.length > 114) lines.push(word);
    else lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  return ['  /**', ...lines.map((line) => `   * ${line}`), '   */'].join('\n');
}

const rowsOf = (section) =>
  Object.entries(table[section]).filter(([, { kind, only }]) => kind !== 'rust' && only !== 'rust');

function interfaceOf([section, name, parent, what]) {
  const fields = rowsOf(section).map(
    ([option, row]) => `${comment(about(row))}\n  ${option}${option === 'model' ? '' : '?'}: ${typeOf(row)};`,
  );
  return `/** ${what} */\nexport interface ${name}${parent ? ` extends ${parent}` : ''} {\n${fields.join('\n')}\n}\n`;
}

/** What the checks go by, and of what the bench page's form shows the default. */
function data([section, name, parent, , constant]) {
  const rows = rowsOf(section).map(([option, row]) => {
    const { kind, least, above, most, bytes, names, needs } = row;
    const shown = ['load', 'bench'].includes(section) ? row.default : undefined;
    return `  ${option}: ${JSON.stringify({ kind, least, above, most, bytes, names, needs, default: shown })},`;
  });
  const type = parent ? `Omit<${name}, keyof ${parent}>` : name;
  return `/** @internal */\nexport const ${constant}: Rows<${type}> = {\n${rows.join('\n')}\n};\n`;
}

/** What OpenAI's shapes call by another name only. */
function openai() {
  const rows = rowsOf('generate').filter(([, { openai }]) => openai !== undefined);
  const fields = rows.map(([option, row]) => {
    const said = `${about(row)}${row.openai === 'extra' ? " Not among OpenAI's." : ''}`;
    return `${comment(said)}\n  ${joined(option, '_')}?: ${typeOf(row)} | null;`;
  });
  const names = rows.map(([option]) => `  ${joined(option, '_')}: '${option}',`);
  return `/** What OpenAI's shapes call by another name only. */
export interface SharedParams {
${fields.join('\n')}
}

/** @internal */
export const OPENAI = {
${names.join('\n')}
} as const satisfies Record<keyof SharedParams, keyof GenerateOptions>;
`;
}

function generated() {
  const text = [
    `// Made of options.toml by \`npm run options\`: change that.
import type { Rows } from './check.ts';
import type { DownloadControl } from './control.ts';
import type { AdapterChoice, CustomFetch, Device, Lane, LoadPlan, ModelSource, Progress, TokenPiece } from './types.ts';
`,
    ...INTERFACES.map(interfaceOf),
    openai(),
    ...INTERFACES.map(data),
  ].join('\n');
  const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');
  return execFileSync(process.execPath, [biome, 'format', `--stdin-file-path=${target}`], {
    input: text,
    encoding: 'utf8',
  });
}

main(async () => {
  const text = generated();
  if (!process.argv.includes('--check')) {
    writeFileSync(target, text);
    return say(`npm/options.generated.ts: ${text.split('\n').length} lines`);
  }
  if (readFileSync(target, 'utf8') !== text)
    throw new Failure('npm/options.generated.ts is not what options.toml says: run `npm run options` and commit it');
  say('npm/options.generated.ts is up to date');
});
