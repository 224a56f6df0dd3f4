// The reference of the package's interface, docs/API.md, made of the types in npm/ by TypeDoc.
//   npm run docs               writes it
//   npm run docs -- --check    says whether it is up to date, and whether every public member has its comment
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cache, Failure, hashOf, main, once, root, run, say } from './lib/env.mjs';

const target = join(root, 'docs', 'API.md');
/** What can be imported, and from which file. */
const ENTRIES = [
  ['millrace', 'index'],
  ['millrace/ai-sdk', 'ai-sdk'],
  ['millrace/react', 'react'],
].filter(([, file]) => ['ts', 'tsx'].some((suffix) => existsSync(join(root, 'npm', `${file}.${suffix}`))));

/** TypeDoc does not run on the TypeScript that checks the repository: it has another, and lives outside of the clone with it. */
async function install() {
  const home = join(cache, 'docs');
  mkdirSync(home, { recursive: true });
  // Clones with the same sources share the folder.
  const sources = ['package.json', 'package-lock.json'].map((name) => join(root, 'scripts', 'docs', name));
  await once(join(home, '.stamp'), hashOf(sources.map((source) => `=${readFileSync(source, 'utf8')}`)), async () => {
    say('installing TypeDoc');
    for (const source of sources) copyFileSync(source, join(home, source.split(/[\\/]/).at(-1)));
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home, quiet: true });
  });
  return join(home, 'node_modules');
}

async function generate() {
  const modules = await install();
  const out = mkdtempSync(join(tmpdir(), 'millrace-docs-'));
  try {
    const options = join(out, 'typedoc.json');
    writeFileSync(
      options,
      JSON.stringify({
        entryPoints: ENTRIES.map(([, file]) =>
          join(root, 'npm', existsSync(join(root, 'npm', `${file}.tsx`)) ? `${file}.tsx` : `${file}.ts`),
        ),
        alwaysCreateEntryPointModule: true,
        tsconfig: join(root, 'npm', 'tsconfig.json'),
        plugin: [join(modules, 'typedoc-plugin-markdown', 'dist', 'index.js')],
        out: join(out, 'md'),
        readme: 'none',
        outputFileStrategy: 'modules',
        hidePageHeader: true,
        hidePageTitle: true,
        hideBreadcrumbs: true,
        disableSources: true,
        excludeInternal: true,
        excludePrivate: true,
        excludeExternals: true,
        // Groups and names in the order of the sources, which is the order in which one reads them.
        sort: ['source-order'],
        ...Object.fromEntries(
          [
            'parameters',
            'interfaceProperties',
            'classProperties',
            'typeAliasProperties',
            'typeDeclaration',
            'propertyMembers',
          ].map((name) => [`${name}Format`, 'table']),
        ),
        useCodeBlocks: true,
        useHTMLAnchors: true,
        validation: { notExported: false, invalidLink: true, notDocumented: true },
        requiredToBeDocumented: [
          'Class',
          'Interface',
          'TypeAlias',
          'Function',
          'Variable',
          'Method',
          'Property',
          'Accessor',
        ],
        treatWarningsAsErrors: false,
        logLevel: 'Warn',
      }),
    );
    const { code, output } = await run(
      process.execPath,
      [join(modules, 'typedoc', 'bin', 'typedoc'), '--options', options],
      { capture: true, check: false },
    );
    if (code !== 0) throw new Failure(`TypeDoc failed:\n${output}`);
    const warnings = [...output.matchAll(/\[warning\]\S* (.*)/g)].map(([, line]) => line);
    // The fields of an object that has no name of its own are said where it stands.
    const problems = warnings.filter((line) => !/^Found \d+ errors/.test(line) && !line.includes('.__type'));
    const text = await wrapped(lists(merged(join(out, 'md'))), modules);
    const anchors = new Set([...text.matchAll(/<a id="([^"]+)"/g)].map(([, anchor]) => anchor));
    for (const [, anchor] of text.matchAll(/\]\(#([^)]+)\)/g))
      if (!anchors.has(anchor)) problems.push(`a link leads to #${anchor}, which is nowhere`);
    return { text, problems };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

const HEAD = `<!-- Made by \`npm run docs\` of the comments in npm/: change those. -->
# API

The names and types of the package, made of its sources. [README.md](../README.md) has examples, [ERRORS.md](ERRORS.md) the codes that \`error.code\` can
have, [STORAGE.md](STORAGE.md) what becomes of downloads. Sizes are bytes and times milliseconds, where nothing else is said.
`;

/** Tables as lists, which can be wrapped: what a row is about, and the rest of its cells. */
function lists(text) {
  const cells = (row) =>
    row
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|'));
  return text.replace(/^\|.*\|\n\| -[-| ]*\|\n((?:\|.*\|\n?)+)/gm, (_, rows) => {
    const items = rows.trim().split('\n').map(cells);
    return items
      .map(
        ([name, ...rest]) =>
          `- ${[name, rest.filter((cell) => cell && cell !== '-').join('. ')].filter(Boolean).join(': ')}\n`,
      )
      .join('');
  });
}

/** In lines that can be reviewed. */
async function wrapped(text, modules) {
  const { format } = await import(pathToFileURL(join(modules, 'prettier', 'index.mjs')).href);
  return format(text, { parser: 'markdown', proseWrap: 'always', printWidth: 120, embeddedLanguageFormatting: 'off' });
}

/** All modules in one file. Anchors are those of the first module, and of others with the module's name in front. */
function merged(folder) {
  const alone = ENTRIES.length === 1;
  const parts = ENTRIES.map(([name, file], index) => {
    const text = readFileSync(join(folder, alone ? 'index.md' : `${file}.md`), 'utf8');
    const prefix = index === 0 ? '' : `${file}-`;
    const linked = text
      .replaceAll('<a id="', `<a id="${prefix}`)
      .replaceAll('](#', `](#${prefix}`)
      .replace(/\]\(([\w-]+)\.md(?:#([\w-]+))?\)/g, (whole, module, anchor) => {
        const place = ENTRIES.findIndex(([, other]) => other === module);
        return place < 0 || !anchor ? whole : `](#${place === 0 ? '' : `${module}-`}${anchor})`;
      });
    return `# \`${name}\`\n\n${linked.trim()}\n`;
  });
  return [HEAD, ...parts].join('\n').replace(/\n{3,}/g, '\n\n');
}

main(async () => {
  const { text, problems } = await generate();
  if (problems.length > 0)
    throw new Failure(`public members need a comment, and links somewhere to lead:\n  ${problems.join('\n  ')}`);
  if (!process.argv.includes('--check')) {
    writeFileSync(target, text);
    return say(`docs/API.md: ${text.split('\n').length} lines`);
  }
  if (!existsSync(target) || readFileSync(target, 'utf8') !== text)
    throw new Failure('docs/API.md is not what the comments in npm/ say: run `npm run docs` and commit it');
  say('docs/API.md is up to date');
});
