// Run by Node.js (runtimes.spec.ts): two threads load, save, restore and remove one model at random; prints what was done and what went wrong.
import process from 'node:process';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { Engine, MillraceError, models } from 'millrace';

/** Errors that say that the other thread was quicker. */
const EXPECTED = ['IN_USE', 'NOT_FOUND'];

if (isMainThread) {
  const asked = JSON.parse(process.argv[2]);
  const done = {};
  const wrong = [];
  const threads = [1, 2].map(
    (number) =>
      new Promise((ended, fail) => {
        const worker = new Worker(new URL(import.meta.url), { workerData: { ...asked, seed: asked.seed + number } });
        worker.on('message', (told) => {
          for (const [what, n] of Object.entries(told.done)) done[what] = (done[what] ?? 0) + n;
          wrong.push(...told.wrong);
        });
        worker.on('error', fail).on('exit', ended);
      }),
  );
  await Promise.all(threads);
  // What is there now is whole, and can be removed.
  const there = (await models.list()).length > 0;
  const bad = there ? (await models.verify(asked.model)).bad : [];
  if (there) await models.remove(asked.model);
  if ((await models.list()).length > 0) wrong.push('something is left');
  console.log(`\n${JSON.stringify({ done, wrong, bad })}`);
} else {
  const { model, prompt, greedy, seconds } = workerData;
  let { seed } = workerData;
  const random = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  const done = { loaded: 0, saved: 0, restored: 0, removed: 0, refused: 0 };
  const wrong = [];
  const options = { maxTokens: greedy.length, temperature: 0, ignoreEos: true };
  const attempt = async (what, work) => {
    try {
      await work();
      done[what] += 1;
    } catch (error) {
      if (error instanceof MillraceError && EXPECTED.includes(error.code)) done.refused += 1;
      else wrong.push(`${what}: ${error.code}: ${error.message}`);
    }
  };
  const until = Date.now() + seconds * 1000;
  while (Date.now() < until) {
    if (random(3) === 0) {
      await attempt('removed', () => models.remove(model));
      continue;
    }
    let engine;
    await attempt('loaded', async () => {
      engine = await Engine.load({ model, device: 'cpu', lane: 'exact' });
      const { tokens } = await engine.generate({ tokens: prompt }, options);
      if (`${Array.from(tokens)}` !== `${greedy}`) wrong.push(`an answer: ${Array.from(tokens)}`);
    });
    if (!engine) continue;
    if (random(2) === 0) await attempt('saved', () => engine.save('talk'));
    else
      await attempt('restored', async () => {
        await engine.save('talk');
        await (await engine.restore('talk')).dispose();
      });
    engine.dispose();
  }
  parentPort.postMessage({ done, wrong });
}
