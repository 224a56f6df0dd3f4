// node bench/pictures.mjs --model FOLDER | FILE.gguf [--quantize q8_0] [--sides 256,512,1024] [--runs 10]: how long a picture takes in the browser.
import { parseArgs } from 'node:util';
import { Failure, isMain, main } from '../scripts/lib/env.mjs';
import { localModel, openPage } from '../scripts/lib/headless.mjs';

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    quantize: { type: 'string' },
    sides: { type: 'string', default: '256,512,1024' },
    runs: { type: 'string', default: '10' },
  },
});

/**
 * Runs in the page. Milliseconds from the call of `generate` to its first token, in the page: of pictures that the engine has not seen, and of these with
 * other words before them, so that their rows are known and the prompt is read again. Pixels are made before the clock starts.
 */
export async function measure({ model, quantize, sides, runs }) {
  const { Engine } = await import('/pkg/index.js');
  const engine = await Engine.load({ model, cache: false, tune: false, ...(quantize && { quantize }) });
  const noise = (side, seed) => {
    const image = new ImageData(side, side);
    for (let i = 0, s = seed; i < image.data.length; i += 1) {
      s = (s * 1_103_515_245 + 12_345) & 0x7fffffff;
      image.data[i] = i % 4 === 3 ? 255 : s >> 16;
    }
    return image;
  };
  const ask = async (image, text) => {
    const began = performance.now();
    const content = [
      { type: 'text', text },
      { type: 'image', image },
    ];
    const { prompt_tokens, timings } = await engine.generate([{ role: 'user', content }], {
      maxTokens: 1,
      temperature: 0,
      ignoreEos: true,
    });
    return { ms: performance.now() - began, prompt_tokens, ...timings };
  };
  const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
  const rows = [];
  for (const side of sides) {
    const { prompt_tokens } = await ask(noise(side, 1), 'What?');
    const [fresh, known] = [[], []];
    for (let i = 0; i < runs; i += 1) {
      const image = noise(side, i + 2);
      fresh.push(await ask(image, 'What?'));
      known.push(await ask(image, `Which? ${i}`));
    }
    const of = (list, key) => Number(median(list.map((run) => run[key])).toFixed(1));
    rows.push({
      side,
      prompt_tokens,
      new_ms: of(fresh, 'ms'),
      new_pictures_ms: of(fresh, 'pictures_ms'),
      new_prefill_ms: of(fresh, 'prefill_ms'),
      known_ms: of(known, 'ms'),
      known_prefill_ms: of(known, 'prefill_ms'),
    });
  }
  const { adapter, lane } = engine.info;
  return { adapter: adapter.name, lane, quantize: quantize ?? null, runs, rows };
}

if (isMain(import.meta.url))
  main(async () => {
    if (values.model === undefined)
      throw new Failure('--model: a folder or a .gguf file of a model that reads pictures');
    const local = localModel(values.model);
    const { page, model, close } = await openPage({ local });
    try {
      const sides = values.sides.split(',').map(Number);
      const job = { model: model ?? values.model, quantize: values.quantize, sides, runs: Number(values.runs) };
      console.log(JSON.stringify(await page.evaluate(measure, job), null, 2));
    } finally {
      await close();
    }
  });
