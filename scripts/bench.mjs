// npm run bench -- OPTIONS: the bench page in a headless browser, as a table or as JSON, also compared with an earlier run. `--help` lists the options.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Failure } from './lib/env.mjs';
import { localModel, openPage } from './lib/headless.mjs';
import { printStorage, storageBench } from './lib/storage_bench.mjs';
import { printPrefillProfile, printProfile } from './lib/tables.mjs';

const HELP = `npm run bench -- OPTIONS     a model, or random weights in a known model's shape, through the engine's own decode loop, in a headless browser

  --model builtin | PATH | URL     a .gguf file, a folder with safetensors, or a manifest.json, instead of a shape
  --shape NAME     qwen3-0.6b, gemma-3-270m, gemma-3-1b, llama-3.2-1b (default), qwen2.5-0.5b, qwen2.5-1.5b, llama-3.2-3b, phi-3.5-mini, mistral-7b, llama-3.1-8b
  --quant NAME     q4_0 (default), q4_k_m, q8_0, f16
  --prompt N (512)   --gen N (128)   --runs N (5)   --lane exact|f16|fast   --kv f32|f16|q8   --context N   --chunk N   --adapter NAME   --kernel OPERATION=VARIANT
  --profile        also GPU time, bytes and busy threads of each kernel
  --kernels        also every variant that a step could run: compared with its twin, then measured
  --second-turn    also the time to the first token of a second turn, after a first one of 100 tokens and one of 4,000
  --no-tune        plan with what is known instead of measuring variants first
  --quality        instead of speed: the lane's logits against the exact lane's, over --positions N (2000), by default of the model in the box
  --storage        instead of speed: a model's download into the browser's storage, its loads from there beside plain reads of the same bytes, its
                   verification; --runs N (3), and --cold empties the system's cache of files before each (Linux, as its administrator)
  --json           the report as one JSON object on the last line     --out FILE   the report into a file
  --compare FILE   ratios to an earlier report                        --headed     show the browser
`;

const PAGE_OPTIONS = ['shape', 'quant', 'prompt', 'gen', 'runs', 'lane', 'kv', 'context', 'chunk', 'adapter'];
const OPTIONS = {
  ...Object.fromEntries(PAGE_OPTIONS.map((name) => [name, { type: 'string' }])),
  kernel: { type: 'string', multiple: true },
  model: { type: 'string' },
  profile: { type: 'boolean' },
  kernels: { type: 'boolean' },
  'no-tune': { type: 'boolean' },
  'second-turn': { type: 'boolean' },
  quality: { type: 'boolean' },
  positions: { type: 'string' },
  storage: { type: 'boolean' },
  cold: { type: 'boolean' },
  json: { type: 'boolean' },
  out: { type: 'string' },
  compare: { type: 'string' },
  headed: { type: 'boolean' },
  help: { type: 'boolean' },
};

/** Figures that are compared, and whether more is better. */
const FIGURES = [
  ['decode_tok_s', 'decode, tok/s', true],
  ['prefill_tok_s', 'prefill, tok/s', true],
  ['ttft_ms', 'first token, ms', false],
  ['record_us', 'recording, us a token', false],
  ['bytes_per_token', 'bytes a token', false],
  ['gpu_bytes', 'GPU bytes at most', false],
];

class BadOption extends Error {}

try {
  await bench(process.argv.slice(2));
} catch (error) {
  const coded = error instanceof BadOption || error.code;
  const code = error instanceof BadOption ? 'BAD_OPTION' : (error.code ?? 'INTERNAL');
  process.stderr.write(
    `error[${code}]: ${coded || error instanceof Failure ? error.message : (error?.stack ?? String(error))}\n`,
  );
  process.exitCode = coded ? 2 : 1;
}

async function bench(args) {
  const given = parse(args);
  if (given.help) {
    process.stdout.write(HELP);
    return;
  }
  const earlier = given.compare === undefined ? null : readReport(given.compare);
  const query = new URLSearchParams();
  for (const name of PAGE_OPTIONS) if (given[name] !== undefined) query.set(name, given[name]);
  for (const kernel of given.kernel ?? []) query.append('kernel', kernel);
  if (given.profile) query.set('profile', '1');
  if (given.kernels) query.set('kernels', '1');
  if (given['second-turn']) query.set('secondTurn', '1');
  if (given['no-tune']) query.set('tune', '0');
  if (given.positions !== undefined && !given.quality) throw new BadOption('--positions goes with --quality');
  if (given.quality) query.set('quality', given.positions ?? '2000');
  if (given.cold && !given.storage) throw new BadOption('--cold goes with --storage');
  if (given.storage && given.model === undefined) throw new BadOption('--storage needs --model PATH | URL');
  const source = given.model ?? (given.quality ? 'builtin' : undefined);
  const local = source === undefined ? null : localModel(source);
  const { page, model, close } = await openPage({ local, headed: given.headed });
  try {
    if (given.storage) {
      const address = new URL(model ?? (source === 'builtin' ? '/models/box.gguf' : source), page.url()).href;
      const runs = Number(given.runs ?? 3);
      if (!Number.isInteger(runs) || runs < 1 || runs > 100) throw new BadOption(`--runs ${given.runs}: use 1 to 100`);
      finish(await storageBench(page, { model: address, runs, cold: given.cold ?? false }), given, printStorage);
      return;
    }
    if (source !== undefined) query.set('model', model ?? (source === 'builtin' ? '/models/box.gguf' : source));
    await page.goto(new URL(`/bench.html?${query}`, page.url()).href);
    await page.waitForFunction(() => globalThis.millraceBench?.report || globalThis.millraceBench?.failure, null, {
      timeout: 0,
    });
    const { report, failure } = await page.evaluate(() => globalThis.millraceBench);
    if (failure) throw Object.assign(new Error(failure.message), { code: failure.code });
    finish(report, given, 'kl_mean' in report ? printQuality : (report) => print(report, earlier));
  } finally {
    await close();
  }
}

function finish(report, given, print) {
  print(report);
  if (given.out !== undefined) writeFileSync(given.out, `${JSON.stringify(report, null, 2)}\n`);
  if (given.json) process.stdout.write(`${JSON.stringify(report)}\n`);
}

function parse(args) {
  try {
    return parseArgs({ args, options: OPTIONS, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw new BadOption(error.message.split('\n')[0]);
  }
}

function readReport(path) {
  let report;
  try {
    report = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new BadOption(`--compare: ${error.message}`);
  }
  if (typeof report?.decode_tok_s !== 'number') throw new BadOption(`--compare: ${path} is no report of this bench`);
  return report;
}

function printQuality(report) {
  const out = (line) => process.stdout.write(`${line}\n`);
  out(
    `${report.model} ${report.lane} (kv ${report.kv}) against exact on ${report.adapter.vendor} ${report.adapter.name}`,
  );
  out(`positions    ${report.positions} of ${report.texts} texts`);
  out(
    `KL           mean ${report.kl_mean.toExponential(2)}, 99 % below ${report.kl_p99.toExponential(2)}, largest ${report.kl_max.toExponential(2)} nats`,
  );
  out(`top-1        ${(100 * report.top1).toFixed(2)} % the same`);
}

function print(report, earlier) {
  const out = (line) => process.stdout.write(`${line}\n`);
  const n = (value, digits = 1) => value.toFixed(digits);
  out(`${report.shape} ${report.quant} ${report.lane} on ${report.adapter.vendor} ${report.adapter.name}`);
  out(
    `decode       ${n(report.decode_tok_s)} tok/s after ${report.prompt} tokens of prompt, ${report.gen} tokens, median of ${report.runs.length}`,
  );
  out(`prefill      ${n(report.prefill_tok_s)} tok/s; first token after ${n(report.ttft_ms)} ms`);
  out(
    `latency      P50 ${n(report.latency_ms[0], 3)}, P95 ${n(report.latency_ms[1], 3)} ms a token; recording ${n(report.record_us)} us a token`,
  );
  out(
    `per token    ${n(report.dispatches_per_token)} dispatches, ${n(report.submits_per_token, 2)} submits, a readback every ${n(report.tokens_per_readback)} tokens, ${n(report.bytes_per_token / 1e6)} MB: ${n(report.percent_of_streaming)} % of the ${n(report.streaming_gb_s, 0)} GB/s that this GPU streams`,
  );
  out(
    `tuner        ${report.tuned.measured} operations measured in ${n(report.tuned.ms, 0)} ms, ${report.tuned.changed} run another variant now`,
  );
  out(`GPU memory   ${n(report.gpu_bytes / 1e6)} MB at most, ${n(report.weight_bytes / 1e6)} MB of it weights`);
  if (report.profile) printProfile(report.profile);
  if (report.prefill_profile) printPrefillProfile(report.prefill_profile);
  for (const { rows, ms } of report.few_rows ?? [])
    out(`${`pass of ${rows} row${rows === 1 ? '' : 's'}`.padEnd(18)} ${n(ms, 4).padStart(9)} ms`);
  for (const t of report.second_turn ?? [])
    out(
      `second turn  first token after ${n(t.ttft_ms)} ms: ${t.tokens} tokens after a first prompt of ${t.after}, ${t.cached} of them not read again`,
    );
  if (report.kernels) {
    out(`\n${'operation'.padEnd(40)} ${'variant'.padEnd(22)}          us        MB     GB/s  % peak  result`);
    for (const r of report.kernels) {
      const cells = [
        n(r.us, 2).padStart(9),
        n(r.bytes / 1e6, 2).padStart(9),
        n(r.gb_s, 0).padStart(8),
        n(r.percent_of_streaming).padStart(7),
      ];
      out(
        `${r.operation.padEnd(40)} ${r.variant.padEnd(22)} ${r.chosen ? '*' : ' '} ${cells.join(' ')}  ${r.wrong ?? "as its twin's"}`,
      );
    }
    const wrong = report.kernels.filter((r) => r.wrong).map((r) => `${r.kernel}=${r.variant}`);
    if (wrong.length > 0)
      throw Object.assign(new Error(`${wrong.join(', ')} computed wrongly on this GPU`), { code: 'GPU' });
  }
  if (earlier) {
    const same = ['shape', 'quant', 'lane', 'prompt', 'gen'].filter((name) => earlier[name] !== report[name]);
    out(
      `\ncompared with ${earlier.shape} ${earlier.quant} ${earlier.lane} on ${earlier.adapter?.name}${same.length > 0 ? ` (differs in ${same.join(', ')})` : ''}`,
    );
    for (const [name, label, more] of FIGURES) {
      const ratio = report[name] / earlier[name];
      const verdict = Math.abs(ratio - 1) < 0.03 ? 'the same' : ratio > 1 === more ? 'better' : 'worse';
      out(
        `${label.padEnd(24)} ${n(earlier[name]).padStart(14)} -> ${n(report[name]).padStart(14)}   x ${n(ratio, 3)}  ${verdict}`,
      );
    }
  }
}
