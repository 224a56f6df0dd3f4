// Frames that have no origin of their own: `sandbox` without `allow-same-origin`.
import { join } from 'node:path';
import { BUILDS, chosenBuild } from '../../scripts/build.mjs';
import { root } from '../../scripts/lib/env.mjs';
import { serve } from '../../scripts/serve.mjs';
import { expect, test, TINY } from './support.ts';

/** A page that loads the model, generates tokens and posts the result to its parent. */
const pageOf = (url: string): string => `<!doctype html><title>Frame</title><script type="module">
  import { Engine, models } from '${url}/pkg/index.js';
  const work = async () => {
    const engine = await Engine.load({ model: '${url}${TINY}', lane: 'exact', device: 'cpu' });
    const { tokens } = await engine.generate({ tokens: [57] }, { maxTokens: 3, ignoreEos: true });
    const { storage } = engine.info;
    engine.dispose();
    const { reason } = (await Engine.supported()).storage;
    const removed = await models.remove('${url}${TINY}').catch(({ code }) => code);
    return { tokens: tokens.length, kind: storage.kind, reason, removed };
  };
  const said = await work().catch(({ code, message }) => ({ code, message }));
  parent.postMessage({ origin: self.origin, ...said }, '*');
</script>`;

/** Serves the package and the models to pages of every origin, all but one file, and the page at /frame. */
async function open(kept = '') {
  const server = await serve({
    pkg: BUILDS[chosenBuild('dev') as keyof typeof BUILDS].out,
    mounts: { '/data/': join(root, 'tests', 'data') },
    before(request, response) {
      if (request.url !== kept) response.setHeader('Access-Control-Allow-Origin', '*');
      const html = { '/': '<!doctype html><title>Around</title>', '/frame': pageOf(server.url) }[request.url ?? ''];
      if (html) response.writeHead(200, { 'Content-Type': 'text/html' }).end(html);
      return html !== undefined;
    },
  });
  return server;
}

const WORKS = { tokens: 3, kind: 'memory', reason: expect.stringContaining('sandbox'), removed: 'STORAGE' };
const refused = (file: string) => ({
  code: 'NO_WEBGPU',
  message: expect.stringMatching(new RegExp(`${file}.*sandbox.*allow-same-origin`)),
});

for (const by of ['src', 'srcdoc'] as const) {
  for (const [kept, outcome, expected] of [
    ['', 'the engine works, and keeps nothing', WORKS],
    ['/pkg/worker.js', 'a Worker that it may not read is an error that names it', refused('worker.js')],
    ['/pkg/millrace_bg.wasm', 'so is the WebAssembly', refused('millrace_bg.wasm')],
  ] as const) {
    test(`a frame with sandbox, by ${by}: ${outcome}`, async ({ page }) => {
      const server = await open(kept);
      await page.goto(server.url);
      const said = await page.evaluate(
        ([by, value]) =>
          new Promise((done) => {
            addEventListener('message', ({ data }) => done(data), { once: true });
            const frame = document.createElement('iframe');
            frame.setAttribute('sandbox', 'allow-scripts');
            frame.setAttribute(by, value);
            document.body.append(frame);
          }),
        [by, by === 'src' ? `${server.url}/frame` : pageOf(server.url)] as const,
      );
      expect(said).toEqual({ origin: 'null', ...expected });
      await server.close();
    });
  }
}
