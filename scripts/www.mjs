// npm run build:www: the pages as files that any static host can serve, under any path, into dist/ (docs/DEPLOY.md). MILLRACE_BUILD=dev: with the quick build.
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, bundlePages, chosenBuild } from './build.mjs';
import { Failure, filesUnder, hashOf, isMain, main, root, say } from './lib/env.mjs';
import { brotli } from './lib/size.mjs';
import { ISOLATED } from './serve.mjs';

const www = join(root, 'www');
/** What the pages use of the package: of the scripts, what `index.js` starts, and the bindings that the bench and kernel pages import. */
const PACKAGE = [
  'index.js',
  'worker.js',
  'millrace.js',
  'millrace_bg.wasm',
  'millrace_grammar.js',
  'millrace_grammar_bg.wasm',
  'millrace_cpu.wasm',
  'millrace_cpu_relaxed.wasm',
  'millrace_cpu_threads.wasm',
  'millrace_cpu_relaxed_threads.wasm',
];
/** Kept as they are. */
const PLAIN = ['icon.svg', 'icons', 'manifest.webmanifest', 'models'];

/** Writes the site into `out`, from the package's folder `pkg`. */
export async function site(pkg, out) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  // The package, scripts and sheets lie in folders that are named by what is in them: a page never meets those of another version, however long
  // they are cached, and what has not changed is not fetched again.
  const pkgName = await named(out, 'pkg', (folder) =>
    minify(
      PACKAGE.map((name) => join(pkg, name)),
      folder,
    ),
  );
  const appName = await named(out, 'app', async (folder) => {
    await bundlePages(folder, { pkg: pkgName, installable: true });
    await minify(inWww('.css'), folder);
  });
  for (const name of PLAIN) cpSync(join(www, name), join(out, name), { recursive: true });
  const pages = Object.fromEntries(
    inWww('.html').map((path) => {
      const name = relative(www, path);
      const html = readFileSync(path, 'utf8')
        .replace(/(?<=(?:href|src)=")(?:js\/(?=[^"]+\.js")|(?=[^"/]+\.css"))/g, `${appName}/`)
        .replace(/(?<=(?:href|src)=")pkg\//g, `${pkgName}/`);
      writeFileSync(join(out, name), html);
      return [name, html];
    }),
  );
  await serviceWorker(out, [pkgName, appName]);
  writeFileSync(join(out, '_headers'), headers(pages, [pkgName, appName]));
}

/** A folder that `fill` fills, renamed to `prefix-HASH`. Returns its name. */
async function named(out, prefix, fill) {
  const folder = join(out, prefix);
  mkdirSync(folder);
  await fill(folder);
  const name = `${prefix}-${hashOf(filesUnder(folder).flatMap((path) => [`=${relative(folder, path)} ${hashOfContent(path)}`])).slice(0, 10)}`;
  renameSync(folder, join(out, name));
  return name;
}

function inWww(extension) {
  return readdirSync(www)
    .filter((name) => name.endsWith(extension))
    .map((name) => join(www, name));
}

/** Hashes a file by its content alone, wherever it lies. */
function hashOfContent(path) {
  return hashOf([`=${readFileSync(path, 'latin1')}`]);
}

/** Copies files into a folder; scripts and sheets without what only people read. */
async function minify(paths, folder) {
  const esbuild = await import('esbuild');
  for (const path of paths) {
    const target = join(folder, path.split(/[\\/]/).at(-1));
    const [, loader] = /\.(js|css)$/.exec(path) ?? [];
    if (!loader) cpSync(path, target);
    else
      writeFileSync(
        target,
        (
          await esbuild.transform(readFileSync(path, 'utf8'), {
            loader,
            minify: true,
            ...(loader === 'js' ? { format: 'esm', target: 'es2022' } : {}),
          })
        ).code,
      );
  }
}

/** sw.js, with the list of what it keeps: all but the models, and what reads PDF files, which few visits need: that it keeps once it was fetched. */
async function serviceWorker(out, hashed) {
  const later = `${hashed.find((name) => name.startsWith('app-'))}/documents/`;
  const paths = filesUnder(out)
    .map((path) => relative(out, path).replaceAll('\\', '/'))
    .filter((path) => !path.startsWith('models/') && !path.startsWith(later));
  const files = paths.map((url) => ({
    url,
    revision: hashed.includes(url.split('/')[0]) ? null : hashOfContent(join(out, url)).slice(0, 16),
  }));
  const esbuild = await import('esbuild');
  await esbuild.build({
    entryPoints: [join(www, 'src', 'sw.ts')],
    outfile: join(out, 'sw.js'),
    bundle: true,
    format: 'iife',
    target: 'es2022',
    minify: true,
    define: { FILES: JSON.stringify(files), LATER: JSON.stringify(later), 'process.env.NODE_ENV': '"production"' },
    tsconfigRaw: {},
    logLevel: 'warning',
  });
}

/** Headers as Netlify and Cloudflare read them. The policy allows what any page allows: each page has its own in a <meta>, and Workers have only this one. */
function headers(pages, hashed) {
  const policy = new Map();
  for (const html of Object.values(pages)) {
    const [, text] = /http-equiv="Content-Security-Policy"\s+content="([^"]+)"/.exec(html) ?? [];
    if (!text) throw new Failure('a page has no content security policy');
    for (const directive of text.split(';')) {
      const [name, ...sources] = directive.trim().split(/\s+/);
      policy.set(name, new Set([...(policy.get(name) ?? []), ...sources]));
    }
  }
  policy.set('frame-ancestors', ["'none'"]);
  const lines = [
    '/*',
    `  Content-Security-Policy: ${[...policy].map(([name, sources]) => [name, ...sources].join(' ')).join('; ')}`,
    '  X-Content-Type-Options: nosniff',
    '  Referrer-Policy: no-referrer',
    ...ISOLATED.map(([name, value]) => `  ${name}: ${value}`),
    ...hashed.flatMap((name) => [`/${name}/*`, '  Cache-Control: public, max-age=31536000, immutable']),
    // Everything else is asked about each time; what has not changed is answered with 304.
    ...[
      '/',
      ...Object.keys(pages).map((name) => `/${name}`),
      '/sw.js',
      '/manifest.webmanifest',
      '/icon.svg',
      '/icons/*',
      '/models/*',
    ].flatMap((path) => [path, '  Cache-Control: no-cache']),
  ];
  return `${lines.join('\n')}\n`;
}

/** Prints what was written. Models do not get smaller: they are sent as they are. */
function print(out, quality) {
  const number = (value) => value.toLocaleString('en').padStart(12);
  const sum = [0, 0];
  process.stdout.write(`\n${'bytes'.padStart(12)}${'brotli'.padStart(12)}\n`);
  for (const path of filesUnder(out)) {
    const bytes = readFileSync(path);
    const name = relative(out, path);
    const model = name.startsWith('models');
    const small = model ? bytes.length : brotli(bytes, quality);
    if (!model) {
      sum[0] += bytes.length;
      sum[1] += small;
    }
    process.stdout.write(`${number(bytes.length)}${model ? ''.padStart(12) : number(small)}  ${name}\n`);
  }
  process.stdout.write(`${number(sum[0])}${number(sum[1])}  in all, without the models\n`);
}

if (isMain(import.meta.url)) {
  main(async () => {
    const name = chosenBuild('release');
    const out = join(root, 'dist');
    await site(await build(name), out);
    // The quick build is never served to users: its sizes need not be exact.
    print(out, name === 'release' ? 11 : 4);
    say(`the site is in ${out}: serve it as it is, under any path (docs/DEPLOY.md)`);
  });
}
