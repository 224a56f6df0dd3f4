// Orders a WebAssembly module's functions for better compression by brotli: functions of one name and size are
// adjacent.

/** An unsigned LEB128 number at `at`, and its end. */
function number(bytes, at) {
  let [value, factor] = [0, 1];
  for (;;) {
    const byte = bytes[at++];
    value += (byte & 127) * factor;
    if (byte < 128) return [value, at];
    factor *= 128;
  }
}

/** A number as LEB128. */
function leb(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.from([...bytes, value]);
}

const block = (bytes) => Buffer.concat([leb(bytes.length), bytes]);

/** Sections of a module, or of a custom section with that structure: `{ id, begin, end }` of their contents. */
function* sections(bytes, at, end) {
  while (at < end) {
    const id = bytes[at];
    const [length, begin] = number(bytes, at + 1);
    at = begin + length;
    yield { id, begin, end: at };
  }
}

const NAME = Buffer.from('\x04name');
const FUNCTIONS = 1;

/** Lengths of the functions' bodies, in their order. */
function lengths(bytes, { begin }) {
  let [count, at] = number(bytes, begin);
  return Array.from({ length: count }, () => {
    const [length, body] = number(bytes, at);
    at = body + length;
    return length;
  });
}

/**
 * The module with names of functions by which wasm-opt's --reorder-functions-by-name sorts them: instances of one
 * generic function for several types differ in little, and in the hash at the end of their names, which is dropped.
 */
export function nameBySimilarity(bytes) {
  const all = [...sections(bytes, 8, bytes.length)];
  const code = all.find(({ id }) => id === 10);
  const names = all.find(({ id, begin }) => id === 0 && bytes.subarray(begin, begin + NAME.length).equals(NAME));
  if (!code || !names) throw new Error('the module has no names of functions');
  const sizes = lengths(bytes, code);
  const imported = WebAssembly.Module.imports(new WebAssembly.Module(bytes)).filter(({ kind }) => kind === 'function');
  const table = [...sections(bytes, names.begin + NAME.length, names.end)].find(({ id }) => id === FUNCTIONS);
  let [count, at] = number(bytes, table.begin);
  const renamed = [leb(count)];
  for (; count > 0; count -= 1) {
    const [index, long] = number(bytes, at);
    const [length, text] = number(bytes, long);
    at = text + length;
    let name = bytes.toString('utf8', text, at).replace(/::h[0-9a-f]{16}$/, '');
    // Without types: <millrace::model::Rope as core::clone::Clone>::clone is sorted with other types' ::clone.
    for (let before = ''; before !== name; ) [before, name] = [name, name.replace(/<[^<>]*>/g, '')];
    const size = String(sizes[index - imported.length] ?? 0).padStart(7, '0');
    renamed.push(leb(index), block(Buffer.from(`${name}#${size}#${String(index).padStart(6, '0')}`)));
  }
  const section = Buffer.concat([NAME, Buffer.from([FUNCTIONS]), block(Buffer.concat(renamed))]);
  const start = all[all.indexOf(names) - 1].end;
  return Buffer.concat([bytes.subarray(0, start), Buffer.from([0]), block(section), bytes.subarray(names.end)]);
}
