// Tables of measurements, for terminals.

/** Time, bytes and busy threads of each kernel of a decode step. */
export function printProfile(rows) {
  const n = (value, digits, width) => value.toFixed(digits).padStart(width);
  const out = (line) => process.stdout.write(`${line}\n`);
  out(
    `\n${'step'.padEnd(18)} ${'kernel'.padEnd(14)} ${'variant'.padEnd(18)} calls        us  ms/token      %        MB     GB/s  % peak  active`,
  );
  for (const r of rows) {
    const cells = [
      String(r.calls).padStart(5),
      n(r.us, 2, 9),
      n(r.ms, 4, 9),
      n(r.percent, 1, 6),
      n(r.bytes / 1e6, 2, 9),
      n(r.gb_s, 0, 8),
      n(r.percent_of_streaming, 1, 7),
      n(r.active, 2, 7),
    ];
    out(`${r.step.padEnd(18)} ${r.kernel.padEnd(14)} ${r.variant.padEnd(18)} ${cells.join(' ')}`);
  }
}

/** Time and arithmetic of each kernel of a prefill pass. */
export function printPrefillProfile(rows) {
  const n = (value, digits, width) => value.toFixed(digits).padStart(width);
  const out = (line) => process.stdout.write(`${line}\n`);
  out(
    `\n${'prefill step'.padEnd(18)} ${'kernel'.padEnd(18)} ${'variant'.padEnd(18)} calls        us   ms/pass      %      TOPS`,
  );
  for (const r of rows) {
    const cells = [String(r.calls).padStart(5), n(r.us, 2, 9), n(r.ms, 4, 9), n(r.percent, 1, 6), n(r.tops, 2, 9)];
    out(`${r.step.padEnd(18)} ${r.kernel.padEnd(18)} ${r.variant.padEnd(18)} ${cells.join(' ')}`);
  }
}
