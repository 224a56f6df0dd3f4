// npm run bench -- --embed: how many texts a second a model embeds.
import { CodedError } from './headless.mjs';

const TEXTS = [
  [1024, 62],
  [256, 126],
  [1, 20],
];

const WORDS = 'time year people way day man life child world school state family student group country problem'.split(
  ' ',
);

/** Texts of a number of frequent words of one token each, the same in every run. */
export function textsOf(count, length) {
  let seed = 1;
  const word = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return WORDS[Math.floor((seed / 2147483648) * WORDS.length)];
  };
  return Array.from({ length: count }, () => Array.from({ length }, word).join(' '));
}

/** Runs in the page. */
async function measure({ model, lane, runs, kinds }) {
  try {
    const { Engine } = await import('/pkg/index.js');
    const engine = await Engine.load({ model, cache: false, ...(lane && { lane }) });
    const rows = [];
    for (const texts of kinds) {
      const times = [];
      let tokens = 0;
      // The first run also compiles, and does not count.
      for (let run = 0; run <= runs; run += 1) {
        const began = performance.now();
        ({ tokens } = await engine.embed(texts));
        if (run > 0) times.push(performance.now() - began);
      }
      rows.push({ texts: texts.length, tokens, times });
    }
    return { value: { adapter: engine.info.adapter.name, lane: engine.info.lane, rows } };
  } catch (error) {
    return { failure: { code: error.code ?? 'INTERNAL', message: error.message } };
  }
}

/** Measures on a blank page of the server. */
export async function embedBench(page, options) {
  const { value, failure } = await page.evaluate(measure, { ...options, kinds: TEXTS.map((kind) => textsOf(...kind)) });
  if (failure) throw new CodedError(failure.code, failure.message);
  for (const row of value.rows) {
    row.median_ms = [...row.times].sort((a, b) => a - b)[Math.floor(row.times.length / 2)];
    row.texts_s = (row.texts / row.median_ms) * 1000;
    row.tok_s = (row.tokens / row.median_ms) * 1000;
  }
  return value;
}

export function printEmbed({ adapter, lane, rows }) {
  process.stdout.write(`embeddings in lane ${lane} on ${adapter}, medians of ${rows[0].times.length}\n`);
  for (const { texts, tokens, median_ms, texts_s, tok_s } of rows)
    process.stdout.write(
      `${texts} texts of ${Math.round(tokens / texts)} tokens: ${median_ms.toFixed(1)} ms, ${texts_s.toFixed(0)} texts/s, ${tok_s.toFixed(0)} tok/s\n`,
    );
}
