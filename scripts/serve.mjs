// Serves the pages, the package and, where a script asks for it, files of this machine. Byte ranges, types and validators come from `send`.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Failure, root } from './lib/env.mjs';

/** Headers of every response that isolate a page from others: browsers let only such pages share memory among threads. */
export const ISOLATED = [
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Embedder-Policy', 'credentialless'],
];

/**
 * Starts a server on localhost. Options: `port` (0: any free one), `pkg` (the package's folder, served at /pkg/), `mounts` (further
 * `{ '/prefix/': folder }`, the longest counts; `/` takes the place of the pages), `before(request, response)` (returns true where it has answered; tests use it to count and to break things), `isolated` (pages may
 * share memory among threads, as the CPU's module does where it computes: docs/DEPLOY.md).
 * Resolves to `{ url, close }`; a port that is taken is a `Failure` that says what to do.
 * @param {{ port?: number, pkg?: string, mounts?: Record<string, string>, before?: (request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => boolean | undefined, isolated?: boolean }} options
 */
export async function serve({ port = 0, pkg, mounts = {}, before, isolated = false } = {}) {
  const { default: send } = await import('send');
  const folders = Object.entries({ '/pkg/': pkg, '/': join(root, 'www'), ...mounts })
    .filter(([, folder]) => folder)
    .sort(([a], [b]) => b.length - a.length);
  const server = createServer((request, response) => {
    if (isolated) for (const [name, value] of ISOLATED) response.setHeader(name, value);
    if (before?.(request, response)) return;
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { Allow: 'GET, HEAD' }).end();
      return;
    }
    const path = new URL(request.url, 'http://localhost').pathname;
    if (path === '/shaders') return shaders(request, response);
    const [prefix, folder] = folders.find(([prefix]) => path.startsWith(prefix));
    // no-cache: a rebuilt package must never meet an old page; validators make it cheap.
    send(request, `/${path.slice(prefix.length)}`, { root: folder, dotfiles: 'deny', cacheControl: false })
      .on('headers', (res) => res.setHeader('Cache-Control', 'no-cache'))
      .on('error', (error) => {
        response.statusCode = error.status ?? 500;
        response.setHeader('Content-Type', 'text/plain; charset=utf-8');
        response.end(`${response.statusCode} ${path}\n`);
      })
      .pipe(response);
  });
  await new Promise((done, fail) => {
    server.once('error', (error) => fail(explained(error, port)));
    server.listen(port, 'localhost', done);
  });
  return {
    url: `http://localhost:${server.address().port}`,
    close: () =>
      new Promise((done) => {
        server.close(done);
        server.closeAllConnections();
      }),
  };
}

/** The port that PORT names, or 8080. */
export function chosenPort() {
  const port = Number(process.env.PORT || 8080);
  if (!Number.isInteger(port) || port < 1 || port > 65535)
    throw new Failure(`PORT is "${process.env.PORT}"; it must be a number from 1 to 65535`);
  return port;
}

/** The templates of shaders/ as they are now, `[name, text]` each, for the kernel page. */
function shaders(request, response) {
  const folder = join(root, 'shaders');
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.wgsl'));
  const seen = names.map((name) => `${name} ${statSync(join(folder, name)).mtimeMs}`).join();
  const tag = `"${createHash('sha256').update(seen).digest('hex').slice(0, 16)}"`;
  const headers = { ETag: tag, 'Cache-Control': 'no-cache', 'Content-Type': 'application/json' };
  if (request.headers['if-none-match'] === tag) return response.writeHead(304, headers).end();
  const templates = names.map((name) => [name.replaceAll('\\', '/'), readFileSync(join(folder, name), 'utf8')]);
  response.writeHead(200, headers).end(JSON.stringify(templates));
}

/** Fails where a port is taken: better before the minutes of a build than after them. */
export async function checkPort(port) {
  const probe = createServer();
  await new Promise((done, fail) => {
    probe.once('error', (error) => fail(explained(error, port)));
    probe.listen(port, 'localhost', done);
  });
  await new Promise((done) => probe.close(done));
}

function explained(error, port) {
  if (error.code === 'EADDRINUSE')
    return new Failure(`port ${port} is taken: stop what uses it, or choose another one with PORT=8081 npm start`);
  if (error.code === 'EACCES')
    return new Failure(`port ${port} needs more rights than you have: choose one above 1023 with PORT=8081 npm start`);
  return error;
}
