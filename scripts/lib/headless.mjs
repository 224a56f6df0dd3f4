// A headless browser with a page from our own server, for scripts that run the engine as a user's page would.
import { basename, dirname, join, resolve } from 'node:path';
import { existsSync, statSync } from 'node:fs';
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

/** The path of a model on this machine, or null where the model is in the box or on the network. */
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

/** The blank page's path. */
const BLANK = '/headless';

/**
 * Builds the package (MILLRACE_SKIP_BUILD=1: takes the one that is there), serves it and opens a blank page. `local`: a model file or
 * folder of this machine; `mounts`: further folders of the server. Resolves to `{ page, model, close }`; `model` is the URL of `local`, or null.
 */
export async function openPage({ local = null, headed = false, mounts = {} } = {}) {
  const name = chosenBuild('release');
  const pkg = process.env.MILLRACE_SKIP_BUILD === '1' ? BUILDS[name].out : await build(name);
  const executablePath = await setupBrowser();
  const folder = local !== null && statSync(local).isDirectory();
  const only = local === null || folder ? null : `/model/${encodeURIComponent(basename(local))}`;
  const server = await serve({
    pkg,
    mounts: local === null ? mounts : { ...mounts, '/model/': folder ? resolve(local) : dirname(resolve(local)) },
    before(request, response) {
      const path = new URL(request.url, 'http://localhost').pathname;
      if (path === BLANK) {
        response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Millrace</title>');
        return true;
      }
      // A file's neighbours are nobody's business.
      if (only !== null && path.startsWith('/model/') && path !== only) {
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
    model: local === null ? null : folder ? '/model/' : only,
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
