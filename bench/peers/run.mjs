// node bench/peers/run.mjs OPTIONS: another engine in the browser and with the flags of `npm run bench`, so that a ratio can be repeated.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { textsOf } from '../../scripts/lib/embed_bench.mjs';
import { Failure, main, root } from '../../scripts/lib/env.mjs';
import { localModel, openPage } from '../../scripts/lib/headless.mjs';

const HELP = `node bench/peers/run.mjs OPTIONS     first: npm install --prefix bench/peers --no-package-lock --ignore-scripts

  --peer wllama --model PATH.gguf|URL                       WebGPU where it can
  --peer transformers --model FOLDER|URL --dtype q4         a folder as on Hugging Face, with onnx/model_q4.onnx; WebGPU
  --peer millrace --model PATH|URL|builtin                  the same prompt and clock with this engine
  --device gpu|cpu (gpu)  what computes; cpu by --peer wllama or millrace
  --threads 1|all (1)     the CPU's: as many as this machine has processors, in a page that may share memory
  --prompt N (1024)   words of the prompt     --gen N (128)     --runs N (5)     --headed
  --picture SIDE   in place of a text: milliseconds until the first token about a picture of SIDE x SIDE pixels, a JPEG; the model's mmproj file lies
                   beside it; --peer wllama or millrace
  --embed TEXTS    in place of a text: so many texts of 62 words a second; --peer transformers (a folder with onnx/model.onnx is --dtype fp32),
                   which reads --batch N (64) texts at a time, or millrace
`;

const OPTIONS = {
  peer: { type: 'string', default: '' },
  model: { type: 'string', default: 'builtin' },
  dtype: { type: 'string', default: 'q4' },
  device: { type: 'string', default: 'gpu' },
  threads: { type: 'string', default: '1' },
  prompt: { type: 'string', default: '1024' },
  gen: { type: 'string', default: '128' },
  runs: { type: 'string', default: '5' },
  picture: { type: 'string' },
  embed: { type: 'string' },
  batch: { type: 'string', default: '64' },
  headed: { type: 'boolean' },
  help: { type: 'boolean' },
};

main(async () => {
  const given = said(() => parseArgs({ options: OPTIONS }).values);
  if (given.help) return void process.stdout.write(HELP);
  if (!['wllama', 'transformers', 'millrace'].includes(given.peer))
    throw new Failure(`--peer is "${given.peer}"; use wllama, transformers or millrace`);
  if (!['gpu', ...(given.peer === 'transformers' ? [] : ['cpu'])].includes(given.device))
    throw new Failure(`--device is "${given.device}"; use gpu, or cpu with --peer wllama or millrace`);
  if (!['1', 'all'].includes(given.threads)) throw new Failure(`--threads is "${given.threads}"; use 1 or all`);
  if (given.picture !== undefined && given.peer === 'transformers')
    throw new Failure('--picture: use it with --peer wllama or millrace');
  if (given.embed !== undefined && given.peer === 'wllama')
    throw new Failure('--embed: use it with --peer transformers or millrace');
  if (given.embed !== undefined && given.picture !== undefined)
    throw new Failure('--embed and --picture measure different things: give one of them');
  const optional = ['picture', 'embed'].filter((name) => given[name] !== undefined);
  for (const name of ['prompt', 'gen', 'runs', 'batch', ...optional])
    if (!/^[1-9]\d{0,5}$/.test(given[name]))
      throw new Failure(`--${name} is "${given[name]}"; it must be a whole number from 1`);
  const modules = join(root, 'bench', 'peers', 'node_modules');
  if (given.peer !== 'millrace' && !existsSync(modules))
    throw new Failure(
      'the peers are not installed: npm install --prefix bench/peers --no-package-lock --ignore-scripts',
    );
  const local = said(() => localModel(given.model));
  const isolated = given.threads === 'all';
  const mounts = { '/peers/': modules };
  const { page, model, close } = await openPage({ local, headed: given.headed, mounts, isolated });
  try {
    const job = {
      peer: given.peer,
      model: model ?? (given.model === 'builtin' ? '/models/box.gguf' : given.model),
      dtype: given.dtype,
      device: given.device,
      threads: given.threads,
      // A word is a token in most vocabularies.
      prompt: Array.from(
        { length: Number(given.prompt) },
        (_, i) => ['the', 'time', 'of', 'year', 'when', 'rain'][i % 6],
      ).join(' '),
      gen: Number(given.gen),
      runs: Number(given.runs),
      picture: given.picture === undefined ? null : Number(given.picture),
      ...(given.embed !== undefined && { texts: textsOf(Number(given.embed), 62), batch: Number(given.batch) }),
    };
    const runs = await page.evaluate(runInPage, job);
    if (job.texts) {
      const times = runs.map((run) => run.ms).sort((a, b) => a - b);
      const texts_s = (1000 * job.texts.length) / times[times.length >> 1];
      const { peer, model, dtype, device, batch } = job;
      process.stdout.write(
        `${JSON.stringify({ peer, model, dtype, device, batch, texts: job.texts.length, texts_s, runs })}\n`,
      );
      return;
    }
    if (job.picture !== null) {
      const times = runs.map((run) => run.ms).sort((a, b) => a - b);
      const { prompt: _, gen: __, ...rest } = job;
      process.stdout.write(`${JSON.stringify({ ...rest, picture_ms: times[times.length >> 1], runs })}\n`);
      return;
    }
    for (const run of runs) run.decode_tok_s = (1000 * (run.tokens - 1)) / run.decode_ms;
    const speeds = runs.map((run) => run.decode_tok_s).sort((a, b) => a - b);
    process.stdout.write(
      `${JSON.stringify({ ...job, prompt: Number(given.prompt), decode_tok_s: speeds[speeds.length >> 1], runs })}\n`,
    );
  } finally {
    await close();
  }
});

/** What `work` gives; its complaints without their stack. */
function said(work) {
  try {
    return work();
  } catch (error) {
    throw new Failure(error.message);
  }
}

/**
 * In the page: per run, tokens and the time from the first to the last of them; or, with pictures, the prompt's tokens and the time to the first one of the
 * answer; or, with texts, the time to embed them all. One run before them does not count.
 */
async function runInPage({ peer, model, dtype, device, threads, prompt, gen, runs, picture, texts, batch }) {
  const at = new URL(model, location.href);
  const projector = new URLSearchParams(at.hash.slice(1)).get('mmproj');
  const engines = {
    async millrace() {
      const { Engine } = await import('/pkg/index.js');
      const engine = await Engine.load({ model: at.href, device, cache: false });
      if (texts) return async () => (await engine.embed(texts)).vectors.length;
      if (picture)
        return async (image) => {
          const content = [
            { type: 'text', text: 'What?' },
            { type: 'image', image },
          ];
          const options = { maxTokens: 1, temperature: 0, ignoreEos: true };
          return (await engine.generate([{ role: 'user', content }], options)).prompt_tokens;
        };
      return async (arrived) => {
        const generation = engine.generate(prompt, { maxTokens: gen, temperature: 0, ignoreEos: true });
        for await (const _ of generation) arrived();
        return (await generation).tokens.length;
      };
    },
    async wllama() {
      const { Wllama } = await import('/peers/@wllama/wllama/esm/index.js');
      const engine = new Wllama({ default: '/peers/@wllama/wllama/esm/wasm/wllama.wasm' });
      const choice =
        device === 'cpu'
          ? { n_gpu_layers: 0, n_threads: threads === '1' ? 1 : navigator.hardwareConcurrency }
          : { n_gpu_layers: 999 };
      const files = [at, ...(projector ? [new URL(projector, at)] : [])];
      const blobs = await Promise.all(files.map(async (file) => (await fetch(file)).blob()));
      await engine.loadModel(blobs, { n_ctx: 4096, ...choice });
      if (picture)
        return async (image) => {
          const content = [
            { type: 'text', text: 'What?' },
            { type: 'image', data: await image.arrayBuffer() },
          ];
          const asked = { messages: [{ role: 'user', content }], max_tokens: 1, temperature: 0, cache_prompt: false };
          return (await engine.createChatCompletion(asked)).usage.prompt_tokens;
        };
      return async (arrived) => {
        let tokens = 0;
        await engine.createCompletion({
          prompt,
          max_tokens: gen,
          temp: 0,
          ignore_eos: true,
          stream: true,
          // The last piece only says why it ended.
          onData({ choices }) {
            if (choices[0]?.finish_reason) return;
            tokens += 1;
            arrived();
          },
        });
        return tokens;
      };
    },
    async transformers() {
      const { env, pipeline, TextStreamer } = await import('/peers/@huggingface/transformers/dist/transformers.js');
      env.backends.onnx.wasm.wasmPaths = new URL('/peers/onnxruntime-web/dist/', location.href).href;
      const hosted = at.origin !== location.origin;
      // A folder of this machine is served under /model/.
      if (!hosted) Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: '/' });
      const folder = hosted ? model : 'model';
      if (texts) {
        const pipe = await pipeline('feature-extraction', folder, { device: 'webgpu', dtype });
        return async () => {
          let vectors = 0;
          for (let at = 0; at < texts.length; at += batch) {
            const found = await pipe(texts.slice(at, at + batch), { pooling: 'mean', normalize: true });
            vectors += found.dims[0];
          }
          return vectors;
        };
      }
      const pipe = await pipeline('text-generation', folder, { device: 'webgpu', dtype });
      return async (arrived) => {
        let tokens = 0;
        const streamer = new TextStreamer(pipe.tokenizer, {
          skip_prompt: true,
          token_callback_function() {
            tokens += 1;
            arrived();
          },
        });
        await pipe(prompt, { max_new_tokens: gen, min_new_tokens: gen, do_sample: false, streamer });
        return tokens;
      };
    },
  };
  const run = await engines[peer]();
  const all = [];
  if (texts) {
    for (let i = 0; i <= runs; i += 1) {
      const began = performance.now();
      const vectors = await run();
      if (vectors !== texts.length) throw new Error(`${vectors} vectors of ${texts.length} texts`);
      all.push({ ms: performance.now() - began });
    }
    return all.slice(1);
  }
  if (picture) {
    for (let i = 0; i <= runs; i += 1) {
      const image = await drawn(picture, i);
      const began = performance.now();
      const tokens = await run(image);
      all.push({ tokens, ms: performance.now() - began });
    }
    return all.slice(1);
  }
  for (let i = 0; i <= runs; i += 1) {
    let first = 0;
    let last = 0;
    const tokens = await run(() => {
      last = performance.now();
      first ||= last;
    });
    all.push({ tokens, decode_ms: last - first });
  }
  return all.slice(1);

  /** A picture that no other run has. */
  function drawn(side, seed) {
    const canvas = new OffscreenCanvas(side, side);
    const context = canvas.getContext('2d');
    const colours = context.createLinearGradient(0, 0, side, side);
    colours.addColorStop(0, `hsl(${(seed * 47) % 360} 80% 60%)`);
    colours.addColorStop(1, `hsl(${(seed * 91 + 120) % 360} 70% 30%)`);
    context.fillStyle = colours;
    context.fillRect(0, 0, side, side);
    context.fillStyle = 'white';
    context.font = `${side >> 3}px sans-serif`;
    context.fillText(`picture ${seed}`, side >> 4, side >> 1);
    return canvas.convertToBlob({ type: 'image/jpeg', quality: 0.9 });
  }
}
