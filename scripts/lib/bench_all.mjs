// One table of every shape and lane that we watch (bench/all.json), and what has become of each since an earlier one.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './env.mjs';

/** What is measured, as parameters of the bench page; `context`, where given, is the length of the prompt that decoding comes after. */
export const ALL = JSON.parse(readFileSync(join(root, 'bench', 'all.json'), 'utf8'));

/** A share by which two runs on one machine differ without a reason. */
const NOISE = 0.03;

/** Both runs of a row: decoding after 1,024 tokens, or as many as it says, and reading a prompt of 512, or of these. */
export function runsOf({ context = 1024, ...row }) {
  const long = context > 1024;
  const decode = { ...row, prompt: context, gen: 128, runs: long ? 3 : 5 };
  return long ? { decode } : { decode, prompt: { ...row, prompt: 512, gen: 16, runs: 3 } };
}

/** A row's name: what of it is not as usual. */
export function nameOf({ shape, quant, lane, kv, subgroups, context }) {
  const how = [lane, kv && `kv ${kv}`, subgroups === '0' && 'no subgroups', context && `at ${context}`].filter(Boolean);
  return [shape, quant, how.length > 0 ? `(${how.join(', ')})` : ''].join(' ').trim();
}

/** What is kept of a row. */
export function figuresOf(row, { decode, prompt }) {
  const { vendor, name } = decode.adapter;
  return {
    name: nameOf(row),
    lane: decode.lane,
    adapter: `${vendor} ${name}`,
    decode_tok_s: decode.decode_tok_s,
    prefill_tok_s: (prompt ?? decode).prefill_tok_s,
    ttft_ms: (prompt ?? decode).ttft_ms,
    dispatches_per_token: decode.dispatches_per_token,
    percent_of_streaming: decode.percent_of_streaming,
    gpu_bytes: decode.gpu_bytes,
  };
}

/** The table, in Markdown. Of a row that failed the error is said. With an earlier table each figure's ratio to it. */
export function tableOf(rows, earlier) {
  const ratio = (row, figure) => {
    const before = earlier?.find(({ name }) => name === row.name)?.[figure];
    return before === undefined ? '' : ` (${(row[figure] / before).toFixed(3)})`;
  };
  const whole = (value) => Math.round(value).toLocaleString('en');
  const lines = rows.map((row) =>
    row.error
      ? `| ${row.name} | ${row.error} | | | | |`
      : `| ${row.name} | ${whole(row.decode_tok_s)}${ratio(row, 'decode_tok_s')} | ${whole(row.prefill_tok_s)}${ratio(row, 'prefill_tok_s')} | ${row.dispatches_per_token.toFixed(0)} | ${row.percent_of_streaming.toFixed(0)} % | ${(row.gpu_bytes / 1e9).toFixed(2)} GB |`,
  );
  return [
    '| shape, weights | decode, tok/s | prompt, tok/s | dispatches | of streaming | GPU memory |',
    '|---|---|---|---|---|---|',
    ...lines,
  ].join('\n');
}

/** The rows that have become slower by more than two runs differ anyway, failed, or are not there any more. */
export function regressions(rows, earlier) {
  return earlier.flatMap((before) => {
    const now = rows.find(({ name }) => name === before.name);
    if (!now) return [`${before.name}: was not measured`];
    if (now.error) return before.error ? [] : [`${before.name}: ${now.error}`];
    return ['decode_tok_s', 'prefill_tok_s'].flatMap((figure) =>
      now[figure] < before[figure] * (1 - NOISE)
        ? [`${before.name}: ${figure} ${now[figure].toFixed(0)}, was ${before[figure].toFixed(0)}`]
        : [],
    );
  });
}
