// npm test -- safari: the built package in Safari, by safaridriver: it is told of the GPU, loads a model and gives the
// reference's tokens, and the chat page answers. Safari must allow it once: `sudo safaridriver --enable`. With
// MILLRACE_WEBDRIVER=chromedriver the test runs in Chromium.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, BUILDS } from './build.mjs';
import { browserFlags, findBrowser } from './lib/browser.mjs';
import { isMain, main, root, say } from './lib/env.mjs';
import { webdriver } from './lib/webdriver.mjs';
import { serve } from './serve.mjs';

const FIXTURES = ['gguf-q8_0', 'gguf-mixed', 'qwen3-gguf', 'gemma2-gguf', 'lfm2-gguf'];

/** Runs in the page. */
const GENERATE = `
  const [model, prompt, count, done] = arguments;
  (async () => {
    const { Engine } = await import('/pkg/index.js');
    const engine = await Engine.load({ model, lane: 'exact', cache: false });
    const { tokens } = await engine.generate({ tokens: prompt }, { maxTokens: count, temperature: 0, ignoreEos: true });
    const { name, software, poll_ms } = engine.info.adapter;
    engine.dispose();
    return { tokens: Array.from(tokens), name, software, poll_ms };
  })().then(done, (error) => done({ error: String(error) }));
`;
const CHAT = `
  const done = arguments[0];
  const until = async (what, look) => {
    for (const began = Date.now(); Date.now() - began < 300000; await new Promise((wait) => setTimeout(wait, 100)))
      if (look()) return;
    throw new Error('the page is not ' + what);
  };
  (async () => {
    await until('ready', () => document.querySelector('#state')?.dataset.state === 'ready');
    const prompt = document.querySelector('#prompt');
    prompt.value = 'What is 17 plus 25?';
    prompt.dispatchEvent(new Event('input', { bubbles: true }));
    prompt.form.requestSubmit();
    const answer = () => document.querySelector('#messages .assistant:last-child .text')?.textContent ?? '';
    await until('answering 42', () => answer().includes('42'));
    return answer();
  })().then(done, (error) => done({ error: String(error) }));
`;

/** Returns how many checks passed and failed. */
export async function safari() {
  const driver = process.env.MILLRACE_WEBDRIVER ?? 'safaridriver';
  const chromium = driver.includes('chromedriver');
  const options = { binary: await findBrowser(), args: ['--headless=new', ...browserFlags()] };
  const session = await webdriver(driver, chromium ? { 'goog:chromeOptions': options } : { browserName: 'safari' });
  const server = await serve({
    pkg: BUILDS.release.out,
    mounts: { '/data/': join(root, 'tests', 'data') },
    before(request, response) {
      if (request.url !== '/blank') return false;
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Test</title>');
      return true;
    },
  });
  const sum = { passed: 0, failed: 0 };
  const check = (name, right, got) => {
    sum[right ? 'passed' : 'failed'] += 1;
    say(`${session.browser}, ${name}: ${right ? 'ok' : 'FAILED'} ${JSON.stringify(got)}`);
  };
  try {
    for (const name of FIXTURES) {
      const folder = `/data/oracle/${name}`;
      const path = join(root, 'tests', 'data', 'oracle', name, 'expected.json');
      const { model, tokens, from, greedy } = JSON.parse(readFileSync(path, 'utf8'));
      await session.open(`${server.url}/blank`);
      const args = [`${folder}/${model}`, tokens.slice(0, from + 1), greedy.length];
      const got = await session.run(GENERATE, args);
      check(name, JSON.stringify(got.tokens) === JSON.stringify(greedy), got);
    }
    await session.open(`${server.url}/`);
    const answer = await session.run(CHAT);
    check('chat', typeof answer === 'string', answer);
  } finally {
    await session.close();
    await server.close();
  }
  return sum;
}

if (isMain(import.meta.url)) {
  main(async () => {
    await build('release');
    const { failed } = await safari();
    process.exitCode = failed > 0 ? 1 : 0;
  });
}
