// The form of the bench page, the page's address, and the options of both. Everything goes through the address, which
// is the contract.
import { models } from 'millrace';
import type { BenchNames, BenchOptions } from 'millrace/wasm';
import { BENCH, LOAD } from '../../../npm/options.generated.ts';
import { failure } from '../shared/bench.ts';
import { choices, choose, get } from '../shared/dom.ts';
import { bytes } from '../shared/format.ts';
import { BOX_TEXT, modelName } from '../shared/model_name.ts';

/** Parameters of an address: rows of options.toml. */
const { lane, kv, context, chunk, adapter, quantize, subgroups } = LOAD;
const ROWS = Object.entries({ ...BENCH, lane, kv, context, chunk, adapter, quantize, subgroups });
/** Parameters with other names. */
const NAMES: Record<string, string> = { kernelBench: 'kernels' };
const namesOf = (...kinds: string[]): string[] =>
  ROWS.filter(([, row]) => kinds.includes(row.kind)).map(([name]) => name);
const NUMBERS = namesOf('whole');
const TEXTS = ['model', ...namesOf('text', 'name')];
/** Switches by their parameter: the option, and the value that differs from the default. */
const SWITCHES: Record<string, [option: string, value: string]> = Object.fromEntries(
  ROWS.filter(([, row]) => row.kind === 'flag').map(([name, row]) => [
    NAMES[name] ?? name,
    [name, row.default === true ? '0' : '1'],
  ]),
);
const KNOWN: readonly string[] = [...NUMBERS, ...TEXTS, ...Object.keys(SWITCHES), 'report', 'kernel'];

const input = get<HTMLInputElement>;
const list = get<HTMLSelectElement>;
const what = list('what');
/** The bench's default values. */
const DEFAULTS: Record<string, string> = Object.fromEntries(
  ROWS.flatMap(([name, row]) => (row.default === undefined ? [] : [[name, String(row.default)]])),
);

/** The options of an address. */
export function options(address: URLSearchParams): BenchOptions {
  for (const name of address.keys())
    if (!KNOWN.includes(name)) throw failure('BAD_OPTION', `${name} is not a parameter; known are ${KNOWN.join(', ')}`);
  const read: Record<string, unknown> & { model?: string } = {};
  for (const name of TEXTS) if (address.has(name)) read[name] = address.get(name)!;
  for (const name of NUMBERS) {
    const text = address.get(name);
    if (text === null) continue;
    if (!/^\d{1,9}$/.test(text)) throw failure('BAD_OPTION', `${name} is "${text}"; it must be a whole number`);
    read[name] = Number(text);
  }
  for (const [name, [option, value]] of Object.entries(SWITCHES))
    if (address.get(name) === value) read[option] = value === '1';
  if (read.model !== undefined) {
    if (!URL.canParse(read.model, location.href))
      throw failure('BAD_OPTION', `model: "${read.model}" is not an address`);
    read.model = new URL(read.model, location.href).href;
  }
  const kernels = address.getAll('kernel').map((text) => text.split('=', 2) as [string, string]);
  for (const [operation, variant] of kernels)
    if (!operation || !variant) throw failure('BAD_OPTION', `kernel is "${operation}"; write kernel=OPERATION=VARIANT`);
  if (kernels.length > 0) read.kernels = Object.fromEntries(kernels);
  return read as BenchOptions;
}

/** Shows an address in the form. */
export function show(address: URLSearchParams): void {
  const model = address.get('model');
  if (model !== null) {
    const value = `model=${model}`;
    if ([...what.options].some((option) => option.value === value)) what.value = value;
    else {
      what.value = 'url';
      input('url').value = model;
    }
  } else {
    const shape = address.get('shape') ?? DEFAULTS.shape!;
    choose(what, `shape=${shape}`, shape);
  }
  for (const name of ['quant', 'lane', 'kv', 'speculate'])
    choose(list(name), address.get(name) ?? DEFAULTS[name] ?? '');
  for (const name of [...NUMBERS, 'adapter', 'draft']) input(name).value = address.get(name) ?? DEFAULTS[name] ?? '';
  for (const [name, [, value]] of Object.entries(SWITCHES))
    input(name).checked = (address.get(name) === value) === (value === '1');
  input('kernel').value = address.getAll('kernel').join(' ');
  get<HTMLDetailsElement>('more').open = [
    'context',
    'chunk',
    'kv',
    'adapter',
    'draft',
    'kernel',
    'quality',
    'kernels',
    'secondTurn',
    'rows',
    'copies',
    'sampled',
    'speculate',
    'idle',
    'grammar',
    'tune',
    'subgroups',
  ].some((name) => address.has(name));
  arrange();
}

/** The address of the form; parameters without a field stay. */
export function address(): URLSearchParams {
  const query = new URLSearchParams();
  const [kind, ...rest] = what.value.split('=');
  if (kind === 'shape') {
    query.set('shape', rest.join('='));
    query.set('quant', list('quant').value);
  } else query.set('model', kind === 'url' ? input('url').value.trim() : rest.join('='));
  for (const name of ['prompt', 'gen', 'runs']) query.set(name, input(name).value);
  query.set('lane', list('lane').value);
  for (const name of ['context', 'chunk', 'kv', 'adapter', 'draft', 'quality'])
    if (input(name).value) query.set(name, input(name).value.trim());
  if (list('speculate').value !== DEFAULTS.speculate) query.set('speculate', list('speculate').value);
  for (const kernel of input('kernel')
    .value.split(/[\s,]+/)
    .filter(Boolean))
    query.append('kernel', kernel);
  for (const [name, [, value]] of Object.entries(SWITCHES))
    if (input(name).checked === (value === '1')) query.set(name, value);
  const report = new URLSearchParams(location.search).get('report');
  if (report !== null) query.set('report', report);
  return query;
}

/** Shows the fields of the current choice. */
export function arrange(): void {
  const url = what.value === 'url';
  get('url-field').hidden = !url;
  input('url').required = url;
  get('quant-field').hidden = !what.value.startsWith('shape=');
}

/** Fills the lists with the engine's names and the stored models. The current choice stays. */
export async function fill(names: Promise<BenchNames>): Promise<void> {
  const [known, stored] = await Promise.allSettled([names, models.list()]);
  if (known.status === 'fulfilled') {
    complete(get<HTMLOptGroupElement>('shapes'), known.value.shapes, (name) => `shape=${name}`);
    complete(list('quant'), known.value.quants);
  }
  if (stored.status === 'fulfilled') {
    const kept = stored.value.filter((model) => model.complete && new URL(BOX_TEXT, location.href).href !== model.url);
    const options = kept.map(
      (model) => new Option(`${modelName(model.url)}, kept here, ${bytes(model.bytes)}`, `model=${model.url}`),
    );
    list('what')
      .querySelector('[value=url]')!
      .before(...options);
    // An address that is a stored model's.
    const chosen = options.find((option) => option.value === `model=${input('url').value}`);
    if (what.value === 'url' && chosen) what.value = chosen.value;
    arrange();
  }
}

/** Adds names to a list that may have one of them already, chosen. */
function complete(
  place: HTMLSelectElement | HTMLOptGroupElement,
  names: readonly string[],
  value = (name: string) => name,
): void {
  const select = place.closest('select')!;
  const chosen = select.value;
  for (const option of [...select.options]) if (names.some((name) => value(name) === option.value)) option.remove();
  choices(place, names, value);
  if (chosen) select.value = chosen;
}
