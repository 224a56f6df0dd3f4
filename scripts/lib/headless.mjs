// A headless browser with a page of a local server, for scripts that run the engine as a user's page would.
import { basename, dirname, join, resolve } from 'node:path';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { chosenBuild, build, BUILDS } from '../build.mjs';
import { serve } from '../serve.mjs';
import { setupBrowser } from '../setup.mjs';
import { browserFlags } from './browser.mjs';
import { root } from './env.mjs';

/** An error with one of the engine's codes. */
export class CodedError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The path of a local model, or null where the model is bundled or on the network. */
export function localModel(model) {
  if (/^https?:\/\//.test(model)) return null;
  if (model === 'builtin') {
    const box = join(root, 'www', 'models', 'box.gguf');
    if (!existsSync(box)) throw new CodedError('NOT_FOUND', `the model in the box is missing, ${box}`);
    return null;
  }
  if (!existsSync(model)) throw new CodedError('NOT_FOUND', `no such file or folder, ${model}`);
  return model;
}

/** Whether a vision tower's file is named after a model's. */
function isNamedAfter(projector, model) {
  const rest = projector.toLowerCase().replace(/^mmproj[-_.]*/, '');
  const stem = model.toLowerCase().replace(/\.gguf$/, '');
  return rest.startsWith(stem) && !/^[a-z0-9]/.test(rest.slice(stem.length));
}

/** The vision tower's file beside a .gguf file, if there is one: of several the one that src/source/spec.rs chooses. */
function projectorBeside(path) {
  const rank = (name) => ['q8_0', '[^b]f16', 'bf16'].findIndex((type) => new RegExp(type, 'i').test(name)) >>> 0;
  const is = (name) => /mmproj.*\.gguf$/i.test(name);
  if (!path.endsWith('.gguf') || is(basename(path))) return null;
  const names = readdirSync(dirname(resolve(path)));
  const models = names.filter((name) => name.endsWith('.gguf') && !is(name) && name !== basename(path));
  const own = names.filter((name) => is(name) && isNamedAfter(name, basename(path)));
  const there =
    own.length > 0 ? own : names.filter((name) => is(name) && !models.some((model) => isNamedAfter(name, model)));
  return there.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))[0] ?? null;
}

/** The blank page's path. */
const BLANK = '/headless';

/**
 * Builds the package (MILLRACE_SKIP_BUILD=1: uses the existing build), serves it and opens a blank page. `local`: a
 * model file or
 * folder of this machine; `mounts`: further folders of the server; `isolated`: as `serve` has it, so that
 * the CPU takes several threads. Resolves to `{ page, model, close }`; `model` is the URL of `local`, or null.
 */
export async function openPage({ local = null, headed = false, mounts = {}, isolated = true } = {}) {
  const name = chosenBuild('release');
  const pkg = process.env.MILLRACE_SKIP_BUILD === '1' ? BUILDS[name].out : await build(name);
  const executablePath = await setupBrowser();
  const folder = local !== null && statSync(local).isDirectory();
  const at = (name) => `/model/${encodeURIComponent(name)}`;
  const projector = local === null || folder ? null : projectorBeside(local);
  const file = local === null || folder ? null : basename(local);
  // A manifest names other files of its folder.
  const only = file === null || file === 'manifest.json' ? null : [file, projector].filter(Boolean).map(at);
  const server = await serve({
    pkg,
    isolated,
    mounts: local === null ? mounts : { ...mounts, '/model/': folder ? resolve(local) : dirname(resolve(local)) },
    before(request, response) {
      const path = new URL(request.url, 'http://localhost').pathname;
      if (path === BLANK) {
        response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Millrace</title>');
        return true;
      }
      // Other files beside the model are not served.
      if (only !== null && path.startsWith('/model/') && !only.includes(path)) {
        response.writeHead(404).end();
        return true;
      }
      return false;
    },
  });
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({
    executablePath,
    headless: !headed,
    args: browserFlags(),
    handleSIGINT: false,
  });
  const page = await browser.newPage();
  await page.goto(server.url + BLANK);
  return {
    page,
    model:
      local === null
        ? null
        : folder
          ? '/model/'
          : at(file) + (projector ? `#mmproj=${encodeURIComponent(projector)}` : ''),
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
