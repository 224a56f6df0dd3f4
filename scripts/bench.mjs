// npm run bench -- OPTIONS: the bench page in a headless browser, as a table or as JSON, also compared with an earlier run. `--help` lists the options.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Failure } from './lib/env.mjs';
import { answerBench, printAnswer } from './lib/answer_bench.mjs';
import { embedBench, printEmbed } from './lib/embed_bench.mjs';
import { ALL, figuresOf, nameOf, regressions, runsOf, tableOf } from './lib/bench_all.mjs';
import { localModel, openPage } from './lib/headless.mjs';
import { flagsOf, help, parsed } from './lib/options.mjs';
import { printStorage, storageBench } from './lib/storage_bench.mjs';
import { printPrefillProfile, printProfile } from './lib/tables.mjs';

/** The flags that the table of options has; `--kernels` is the bench page's word for one. */
const FLAGS = [...flagsOf('bench', ['kernelBench']), ...flagsOf('load', ['kernels'])];

const HELP = `npm run bench -- OPTIONS     a model, or random weights in a known model's shape, through the engine's own decode loop, in a headless browser

  --model builtin | PATH | URL         a .gguf file, a folder with safetensors, or a manifest.json, instead of a shape
  --kernels                            Also compares every variant that a step could run with its twin, and measures it.
  --kernel OPERATION=VARIANT           Forces a kernel's variant; may be given several times.
${help(FLAGS)}
  --quality                            Instead of speed: the lane's logits against the exact lane's, by default of the model in the box.
  --positions N                        With --quality: positions to compare. [default: 2000]
  --storage                            Instead of speed: a model's download into the browser's storage, its loads from there beside plain reads of the
                                       same bytes, its verification; --runs N (3)
  --cold                               With --storage: empties the system's cache of files before each (Linux, as its administrator).
  --answer-end                         Instead of speed: how long the end of an answer takes, from its last token on the page to the result; --runs N (20)
  --embed                              Instead of speed: how many texts a second a model that embeds reads, many at once and one alone; --runs N (5)
  --all                                Instead of one: every shape and lane of bench/all.json, as a table. With --compare FILE, an earlier table of
                                       the same machine, the ratios, and exit status 1 where one is slower; --only TEXT: rows whose name has it
  --json                               The report as one JSON object on the last line.
  --out FILE                           The report into a file.
  --compare FILE                       Ratios to an earlier report.
  --headed                             Show the browser.
`;

const OPTIONS = {
  ...parsed(FLAGS),
  kernel: { type: 'string', multiple: true },
  model: { type: 'string' },
  kernels: { type: 'boolean' },
  quality: { type: 'boolean' },
  positions: { type: 'string' },
  storage: { type: 'boolean' },
  cold: { type: 'boolean' },
  'answer-end': { type: 'boolean' },
  embed: { type: 'boolean' },
  all: { type: 'boolean' },
  only: { type: 'string' },
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
  if (given.only !== undefined && !given.all) throw new BadOption('--only goes with --all');
  if (given.all) return benchAll(given);
  const earlier = given.compare === undefined ? null : readReport(given.compare);
  const query = new URLSearchParams();
  for (const { name, flag } of FLAGS) {
    const value = given[flag];
    if (value !== undefined) query.set(name, value === true ? (flag.startsWith('no-') ? '0' : '1') : value);
  }
  for (const kernel of given.kernel ?? []) query.append('kernel', kernel);
  if (given.kernels) query.set('kernels', '1');
  if (given.positions !== undefined && !given.quality) throw new BadOption('--positions goes with --quality');
  if (given.quality) query.set('quality', given.positions ?? '2000');
  if (given.cold && !given.storage) throw new BadOption('--cold goes with --storage');
  for (const name of ['storage', 'answer-end', 'embed'])
    if (given[name] && given.model === undefined) throw new BadOption(`--${name} needs --model PATH | URL`);
  const source = given.model ?? (given.quality ? 'builtin' : undefined);
  const local = source === undefined ? null : localModel(source);
  const { page, model, close } = await openPage({ local, headed: given.headed });
  try {
    if (given.storage || given['answer-end'] || given.embed) {
      const address = new URL(model ?? (source === 'builtin' ? '/models/box.gguf' : source), page.url()).href;
      const runs = Number(given.runs ?? (given.storage ? 3 : given.embed ? 5 : 20));
      if (!Number.isInteger(runs) || runs < 1 || runs > 100) throw new BadOption(`--runs ${given.runs}: use 1 to 100`);
      if (given.storage)
        finish(await storageBench(page, { model: address, runs, cold: given.cold ?? false }), given, printStorage);
      else if (given.embed)
        finish(await embedBench(page, { model: address, lane: given.lane, runs }), given, printEmbed);
      else finish(await answerBench(page, { model: address, runs }), given, printAnswer);
      return;
    }
    if (source !== undefined) query.set('model', model ?? (source === 'builtin' ? '/models/box.gguf' : source));
    const report = await measured(page, query);
    finish(report, given, 'kl_mean' in report ? printQuality : (report) => print(report, earlier));
  } finally {
    await close();
  }
}

/** What the bench page reports of these parameters. */
async function measured(page, query) {
  await page.goto(new URL(`/bench.html?${query}`, page.url()).href);
  await page.waitForFunction(() => globalThis.millraceBench?.report || globalThis.millraceBench?.failure, null, {
    timeout: 0,
  });
  const { report, failure } = await page.evaluate(() => globalThis.millraceBench);
  if (failure) throw Object.assign(new Error(failure.message), { code: failure.code });
  return report;
}

async function benchAll(given) {
  const earlier = given.compare === undefined ? null : readTable(given.compare);
  const wanted = ALL.filter((row) => nameOf(row).includes(given.only ?? ''));
  if (wanted.length === 0) throw new BadOption(`--only ${given.only}: no row of bench/all.json has that in its name`);
  const { page, close } = await openPage({ headed: given.headed });
  const rows = [];
  try {
    for (const row of wanted) {
      const reports = {};
      try {
        for (const [what, parameters] of Object.entries(runsOf(row)))
          reports[what] = await measured(page, new URLSearchParams(parameters));
        rows.push(figuresOf(row, reports));
      } catch (error) {
        // A model that does not fit into this machine's memory gets the error in its row.
        if (!error.code) throw error;
        rows.push({ name: nameOf(row), error: `${error.code}: ${error.message}` });
      }
      if (!given.json) process.stderr.write(`${rows.at(-1).name}\n`);
    }
  } finally {
    await close();
  }
  finish(rows, given, () => process.stdout.write(`${tableOf(rows, earlier)}\n`));
  if (!earlier) return;
  const slower = regressions(
    rows,
    given.only === undefined ? earlier : earlier.filter(({ name }) => name.includes(given.only)),
  );
  for (const line of slower) process.stdout.write(`slower: ${line}\n`);
  if (slower.length > 0) process.exitCode = 1;
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

function readTable(path) {
  let table;
  try {
    table = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new BadOption(`--compare: ${error.message}`);
  }
  if (!Array.isArray(table) || !table.every((row) => typeof row?.name === 'string'))
    throw new BadOption(`--compare: ${path} is no table of --all`);
  return table;
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
  const [drafted, accepted] = ['drafted', 'accepted'].map((name) =>
    report.runs.reduce((sum, run) => sum + run[name], 0),
  );
  if (drafted > 0) out(`drafts       ${accepted} of ${drafted} right`);
  out(`prefill      ${n(report.prefill_tok_s)} tok/s; first token after ${n(report.ttft_ms)} ms`);
  out(
    `latency      P50 ${n(report.latency_ms[0], 3)}, P95 ${n(report.latency_ms[1], 3)} ms a token; recording ${n(report.record_us)} us a token`,
  );
  out(
    `per token    ${n(report.dispatches_per_token)} dispatches, ${n(report.submits_per_token, 2)} submits, a readback every ${n(report.tokens_per_readback)} tokens, ${n(report.bytes_per_token / 1e6)} MB: ${n(report.percent_of_streaming)} % of the ${n(report.streaming_gb_s, 0)} GB/s that the device streams`,
  );
  out(
    `tuner        ${report.tuned.measured} operations measured in ${n(report.tuned.ms, 0)} ms, ${report.tuned.changed} run another variant now`,
  );
  out(`memory       ${n(report.gpu_bytes / 1e6)} MB at most, ${n(report.weight_bytes / 1e6)} MB of it weights`);
  if (report.profile) printProfile(report.profile);
  if (report.prefill_profile) printPrefillProfile(report.prefill_profile);
  for (const { rows, ms } of report.few_rows ?? [])
    out(`${`pass of ${rows} row${rows === 1 ? '' : 's'}`.padEnd(18)} ${n(ms, 4).padStart(9)} ms`);
  for (const { rows, ms, kernels = [] } of report.step_rows ?? []) {
    out(`${`step of ${rows} row${rows === 1 ? '' : 's'}`.padEnd(18)} ${n(ms, 4).padStart(9)} ms`);
    for (const { step, kernel, variant, calls, us } of kernels)
      out(`  ${step.padEnd(24)} ${`${kernel} ${variant}`.padEnd(44)} ${calls} x ${n(us, 2)} us`);
  }
  for (const { answers, forced, tok_s, times } of report.company ?? [])
    out(`${answers} ${forced ? 'forced ' : ''}answers together ${n(tok_s)} tok/s, ${n(times, 2)} times one alone`);
  for (const t of report.second_turn ?? [])
    out(
      `second turn  first token after ${n(t.ttft_ms)} ms: ${t.tokens} tokens after a first prompt of ${t.after}, ${t.cached} of them not read again`,
    );
  if (report.idle) {
    const [cold, warmed] = [report.idle.cold, report.idle.warmed].map(
      ([speed, first]) => `${n(speed)} tok/s, first token after ${n(first)} ms`,
    );
    out(`after a rest ${cold}; warmed up ${warmed}`);
  }
  for (const { text, tokens, tok_s, auto, always } of report.copies ?? []) {
    const of = ({ times, drafted, accepted }) => `${n(times, 2)} times (${accepted} of ${drafted} right)`;
    out(`copies       ${text}, ${tokens} tokens: ${n(tok_s)} tok/s; auto ${of(auto)}, always ${of(always)}`);
  }
  if (report.draft) {
    const { shape, ms, auto } = report.draft;
    out(`draft        ${shape}: a step without drafts ${n(ms, 4)} ms; auto is ${n(auto, 2)} times as fast`);
    for (const { drafts, ms, times, tokens } of report.draft.steps)
      out(`  ${drafts} drafts    ${n(ms, 4)} ms, ${n(times, 2)} times; ${n(tokens, 2)} tokens a step`);
  }
  if (report.forced) {
    const { forced_tok_s, free_tok_s, ratio, states, bytes, compile_ms } = report.forced;
    out(
      `grammar      ${n(forced_tok_s)} tok/s forced, ${n(free_tok_s)} free: ${n(ratio * 100)} %; ${states} states, ${bytes} bytes, compiled in ${n(compile_ms)} ms`,
    );
  }
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
