// npm run dev: serves the pages, watches the sources, builds what has changed and reloads the pages.
//   PORT=…                       another port than 8080
//   npm run dev -- --time        how long it takes from an edit in Rust to the reloaded page, in a headless browser; its edits are undone
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build, BUILDS, chosenBuild } from './build.mjs';
import { browserFlags } from './lib/browser.mjs';
import { main, root, say } from './lib/env.mjs';
import { checkPort, chosenPort, serve } from './serve.mjs';
import { setupBrowser, setupBuild } from './setup.mjs';

/** What the pages are made of. */
const WATCHED = [
  'src',
  'crates',
  'shaders',
  'build',
  'build.rs',
  'Cargo.toml',
  'Cargo.lock',
  'options.toml',
  'npm',
  'www',
];
/** What is made of it, in the same folders. */
const MADE = join(root, 'www', 'js');

/** The script of every page: it reloads the page when the server announces another version than the first one. */
const RELOAD = `let first;
new EventSource('/dev/events').onmessage = ({ data }) => {
  first ??= data;
  if (data !== first) location.reload();
};
`;

/** Serves the pages with that script. Returns the server, and `reload`, which tells all open pages. */
async function serveReloading(port, pkg) {
  let version = Date.now();
  const listeners = new Set();
  const server = await serve({
    port,
    pkg,
    isolated: true,
    before(request, response) {
      const { pathname } = new URL(request.url, 'http://localhost');
      if (pathname === '/dev/events') {
        response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
        response.write(`data: ${version}\n\n`);
        listeners.add(response);
        response.on('close', () => listeners.delete(response));
        return true;
      }
      if (pathname === '/dev/reload.js') {
        response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(RELOAD);
        return true;
      }
      const page = /^\/(\w+\.html)?$/.exec(pathname);
      if (!page) return false;
      let html;
      try {
        html = readFileSync(join(root, 'www', page[1] ?? 'index.html'), 'utf8');
      } catch {
        return false;
      }
      response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-cache' });
      response.end(html.replace('</head>', '<script type="module" src="/dev/reload.js"></script></head>'));
      return true;
    },
  });
  return {
    ...server,
    reload() {
      version += 1;
      for (const response of listeners) response.write(`data: ${version}\n\n`);
    },
  };
}

/** Calls `changed` with the paths that have changed since it was last called, never twice at a time. */
async function watchSources(changed) {
  const { watch } = await import('chokidar');
  const paths = new Set();
  let busy = false;
  const pump = async () => {
    if (busy) return;
    busy = true;
    while (paths.size > 0) {
      // An editor that saves several files at once has them built at once.
      await new Promise((done) => setTimeout(done, 30));
      const now = [...paths];
      paths.clear();
      await changed(now);
    }
    busy = false;
  };
  const watcher = watch(WATCHED, {
    cwd: root,
    ignoreInitial: true,
    ignored: (path) => resolve(root, path) === MADE,
  });
  watcher.on('all', (_, path) => {
    paths.add(path);
    void pump();
  });
  await new Promise((done) => watcher.once('ready', done));
}

/** From nothing to a page that reloads itself. Resolves once that is watched. */
async function develop(port) {
  const name = chosenBuild('quick');
  const ready = setupBuild();
  await build(name, ready);
  const server = await serveReloading(port, BUILDS[name].out);
  await watchSources(async (paths) => {
    const began = Date.now();
    say(`changed: ${paths.join(', ')}`);
    try {
      await build(name, ready);
    } catch (error) {
      say(`${error.message}; the pages stay as they are`);
      return;
    }
    server.reload();
    say(`built in ${((Date.now() - began) / 1000).toFixed(1)} s`);
  });
  return server;
}

/** Where `--time` edits: a leaf, the middle, and what much depends on. */
const EDITED = ['src/web/bindings.rs', 'src/decode/steps.rs', 'src/plan/mod.rs'];

/** The file with one statement more, in the body of its first function. */
function edited(text, number) {
  const body = /^ *(?:pub(?:\([a-z]+\))? )?(?:async )?fn [^;{]*\{\n/m.exec(text);
  if (!body) throw new Error('the file has no function');
  const at = body.index + body[0].length;
  return `${text.slice(0, at)}    std::hint::black_box(${number}u32);\n${text.slice(at)}`;
}

/** Edits files of Rust one after the other, and undoes that, while a page is open. Prints the seconds from each edit until the page has the new WebAssembly. */
async function time() {
  const { url } = await develop(0);
  const executablePath = await setupBrowser();
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({ executablePath, args: browserFlags() });
  const page = await browser.newPage();
  const arrived = () => page.waitForResponse(/millrace_bg\.wasm$/, { timeout: 600_000 });
  const first = arrived();
  await page.goto(url);
  await first;
  const undo = new Map(EDITED.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
  process.on('exit', () => {
    for (const [path, text] of undo) writeFileSync(join(root, path), text);
  });
  process.on('SIGINT', () => process.exit(130));
  let worst = 0;
  for (const [path, text] of undo) {
    for (const [what, content] of Object.entries({ edited: edited(text, Date.now() % 1_000_000), undone: text })) {
      const reloaded = arrived();
      const began = Date.now();
      writeFileSync(join(root, path), content);
      await (await reloaded).finished();
      const seconds = (Date.now() - began) / 1000;
      worst = Math.max(worst, seconds);
      process.stdout.write(`${seconds.toFixed(1).padStart(6)} s  ${path} ${what}\n`);
    }
  }
  await browser.close();
  process.stdout.write(`from an edit in Rust to the reloaded page: ${worst.toFixed(1)} s at most\n`);
  process.exit(0);
}

main(async () => {
  if (process.argv.includes('--time')) return time();
  const port = chosenPort();
  await checkPort(port);
  const { url } = await develop(port);
  process.stdout.write(`\n  Millrace is ready: ${url}. What you change is built, and the page loads itself again.\n\n`);
});
