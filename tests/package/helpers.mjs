// Run by Node.js, Deno and Bun (runtimes.spec.ts): computes on the CPU, with one thread and with several, and prints what came of it as the last line.
import { existsSync, readdirSync } from 'node:fs';
import process from 'node:process';
import { Engine } from 'millrace';

const { model, prompt } = JSON.parse(process.argv[2]);

/** Has the machine so many processors. */
const processors = (count) => {
  globalThis.navigator ??= {};
  Object.defineProperty(globalThis.navigator, 'hardwareConcurrency', { value: count, configurable: true });
};
const load = () => Engine.load({ model, device: 'cpu', lane: 'exact', tune: false, chunk: 2 });
/** An answer of the engine's. `on` is called with the number of each piece. */
async function answer(engine, on = () => {}) {
  const options = { maxTokens: 40, temperature: 0, ignoreEos: true, reuse: false };
  const generation = engine.generate({ tokens: prompt }, options);
  let pieces = 0;
  for await (const _ of generation) on(++pieces);
  const { tokens, recoveries } = await generation;
  return { name: engine.info.adapter.name, tokens: Array.from(tokens), recoveries };
}

const TASKS = '/proc/self/task';
const threads = () => readdirSync(TASKS);

processors(1);
const one = await load();
const alone = await answer(one);
one.dispose();

processors(3);
const engines = await Promise.all([load(), load()]);
const together = await Promise.all(engines.map((engine) => answer(engine)));
let ended = null;
if (existsSync(TASKS)) {
  const before = threads();
  for (const engine of engines) engine.dispose();
  // The runtime may have begun others meanwhile.
  const gone = () => before.filter((thread) => !threads().includes(thread)).length >= 4;
  const until = Date.now() + 10_000;
  while (!gone() && Date.now() < until) await new Promise((done) => setTimeout(done, 20));
  ended = gone();
}

// The runtime tells of every Worker: one of the next engine's is ended amid an answer, from when on the clock is quick.
const workers = [];
process.on('worker', (worker) => workers.push(worker));
const next = await load();
const lost = await answer(next, (pieces) => {
  if (pieces !== 5) return;
  const now = performance.now.bind(performance);
  const start = now();
  performance.now = () => start + 20 * (now() - start);
  void workers[0].terminate();
});
next.dispose();

// This one is left as it is.
const last = await answer(await load());
console.log(`\n${JSON.stringify({ alone, together, lost, last, ended })}`);
