// The download size of the package's files, compressed with brotli.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

/** Files, and the most bytes that they may have together after brotli. */
const BUDGETS = [
  { files: ['millrace_bg.wasm'], most: 1_530_000 },
  // Fetched with the first constrained answer.
  { files: ['millrace_grammar_bg.wasm'], most: 160_000 },
  // One of these is fetched where a model runs on the CPU.
  ...['millrace_cpu_relaxed', 'millrace_cpu', 'millrace_cpu_relaxed_threads', 'millrace_cpu_threads'].map((name) => ({
    files: [`${name}.wasm`],
    most: 600_000,
  })),
  { files: ['index.js', 'worker.js'], most: 60_000 },
];

/** Bytes after brotli, at its best unless told otherwise: quality 11, window 24. */
export function brotli(bytes, quality = 11) {
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;
  return brotliCompressSync(bytes, {
    params: { [BROTLI_PARAM_QUALITY]: quality, [BROTLI_PARAM_LGWIN]: 24, [BROTLI_PARAM_SIZE_HINT]: bytes.length },
  }).length;
}

/** Prints the sizes of the package in `folder`. Returns how many budgets are kept, and how many are not. */
export function checkSize(folder) {
  const sum = { passed: 0, failed: 0 };
  for (const { files, most } of BUDGETS) {
    const size = files.map((name) => brotli(readFileSync(join(folder, name)))).reduce((a, b) => a + b);
    const kept = size <= most;
    sum[kept ? 'passed' : 'failed'] += 1;
    process.stdout.write(
      `${kept ? 'ok  ' : 'FAIL'} ${files.join(' + ')}: ${size.toLocaleString('en')} bytes after brotli; the budget is ${most.toLocaleString('en')}\n`,
    );
  }
  return sum;
}
