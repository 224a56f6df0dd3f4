// npm run bench -- --answer-end: the time from an answer's last token on the page to its result.
import { CodedError } from './headless.mjs';

/** Runs in the page. */
async function measure({ model, runs }) {
  try {
    const { Engine } = await import('/pkg/index.js');
    const engine = await Engine.load({ model, cache: false, tune: false });
    const times = [];
    for (let run = 0; run <= runs; run += 1) {
      let last = 0;
      const onTokens = () => {
        last = performance.now();
      };
      await engine.generate({ tokens: [1, 2, 3] }, { maxTokens: 8, temperature: 0, ignoreEos: true, onTokens });
      // The first one also makes what the others find.
      if (run > 0) times.push(performance.now() - last);
    }
    return { value: { adapter: engine.info.adapter.name, rows: engine.info.plan.length, times } };
  } catch (error) {
    return { failure: { code: error.code ?? 'INTERNAL', message: error.message } };
  }
}

/** Measures on a blank page of the server. */
export async function answerBench(page, options) {
  const { value, failure } = await page.evaluate(measure, options);
  if (failure) throw new CodedError(failure.code, failure.message);
  const sorted = [...value.times].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { ...value, median_ms: at(0.5), p95_ms: at(0.95) };
}

export function printAnswer({ adapter, rows, times, median_ms, p95_ms }) {
  process.stdout.write(
    `end of an answer: median ${median_ms.toFixed(2)} ms, P95 ${p95_ms.toFixed(2)} ms of ${times.length}, with a plan of ${rows} rows on ${adapter}\n`,
  );
}
