// A table of all watched shapes and lanes (bench/all.json), and its comparison with an earlier table.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './env.mjs';

/**
 * The measured rows, as parameters of the bench page; `context`, where given, is the length of the prompt before
 * decoding.
 */
export const ALL = JSON.parse(readFileSync(join(root, 'bench', 'all.json'), 'utf8'));

/** The share by which two runs on one machine differ by chance. */
const NOISE = 0.03;

/**
 * Both runs of a row: decoding after `context` tokens, and reading a prompt of 512 tokens, or of `context` where that
 * is given.
 */
export function runsOf({ context = 1024, ...row }) {
  const long = context > 1024;
  const decode = { ...row, prompt: context, gen: 128, runs: long ? 3 : 5 };
  return long ? { decode } : { decode, prompt: { ...row, prompt: 512, gen: 16, runs: 3 } };
}

/** A row's name: its shape and type, and its differences from the default. */
export function nameOf({ shape, quant, lane, kv, subgroups, context }) {
  const how = [lane, kv && `kv ${kv}`, subgroups === '0' && 'no subgroups', context && `at ${context}`].filter(Boolean);
  return [shape, quant, how.length > 0 ? `(${how.join(', ')})` : ''].join(' ').trim();
}

/** The figures of a row that are stored. */
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

/** The table, in Markdown. A failed row has its error. With an earlier table each figure has its ratio to that. */
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

/** The rows that have become slower by more than `NOISE`, failed, or are missing. */
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
