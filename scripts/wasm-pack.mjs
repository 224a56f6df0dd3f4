// The low-level package, as `wasm-pack build --target web` makes it: `WasmEngine` and nothing of npm/. The long tests build it so and ask it a question.
//   node scripts/wasm-pack.mjs        prints what it answers
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browserFlags } from './lib/browser.mjs';
import { alone } from './lib/cargo.mjs';
import { Failure, isMain, main, root, run, say } from './lib/env.mjs';
import { serve } from './serve.mjs';
import { cargoTool, setupTest, setupWasmTests } from './setup.mjs';

const out = join(root, '.cache', 'wasm-pack');

/** Builds the package and has it answer in a page. Returns the answer. */
export async function askLowLevel({ wasm, browser: executablePath }) {
  const tool = await cargoTool('wasm-pack', '0.15.1');
  // It takes wasm-bindgen and wasm-opt from the PATH.
  await setupWasmTests(executablePath);
  await alone(
    () => run(tool, ['build', '--target', 'web', '--mode', 'no-install', '--out-dir', out], { env: wasm }),
    'release',
  );
  const { types } = JSON.parse(readFileSync(join(out, 'package.json'), 'utf8'));
  if (types !== 'millrace.d.ts') throw new Failure(`wasm-pack's package names ${types} as its types`);
  const server = await serve({
    pkg: out,
    before(request, response) {
      if (request.url !== '/low-level') return false;
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>WasmEngine</title>');
      return true;
    },
  });
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({ executablePath, args: browserFlags() });
  try {
    const page = await browser.newPage();
    await page.goto(`${server.url}/low-level`);
    return await page.evaluate(async () => {
      const { default: init, WasmControl, WasmEngine } = await import('/pkg/millrace.js');
      await init();
      const { signal } = new AbortController();
      const model = `${location.origin}/models/box.gguf`;
      const engine = await WasmEngine.load({ model, cache: false }, () => {}, signal, new WasmControl());
      const messages = [{ role: 'user', content: 'What is 17 + 25?' }];
      let streamed = '';
      const { text } = await engine.generate(
        { messages, maxTokens: 16, temperature: 0 },
        (delta) => (streamed += delta.text),
        () => {},
        signal,
      );
      engine.dispose();
      if (streamed !== text) throw new Error(`streamed "${streamed}", returned "${text}"`);
      return text;
    });
  } finally {
    await browser.close();
    await server.close();
  }
}

if (isMain(import.meta.url)) {
  main(async () => {
    const context = await setupTest();
    const text = await askLowLevel(context);
    say('the low-level package has answered');
    process.stdout.write(`${text}\n`);
  });
}
