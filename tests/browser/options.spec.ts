// Every row of options.toml is tested on both sides, the package's check and the engine's own, at its bounds, outside,
// and with other kinds of values: both refuse the same values, with the same message.
import { wrongOf, type Row } from '../../npm/check.ts';
import { BENCH, FETCHING, GENERATE, LOAD, PLAN } from '../../npm/options.generated.ts';
import { bytesOf, expect, openBlank, TINY, test } from './support.ts';

/** Kinds that only the page checks, or that are checked by their content. */
const PAGE = ['callback', 'signal', 'control', 'worker', 'model', 'file'];

const ANY = [
  null,
  true,
  0,
  1,
  -1,
  0.5,
  Number.NaN,
  Infinity,
  -Infinity,
  '',
  'x',
  '1',
  [],
  [1],
  ['x'],
  [{}],
  {},
  { x: 'y' },
];

/** Values of interest: around the bounds, and of every kind. */
function values(row: Row): unknown[] {
  const { kind, least, above, most, bytes, names = [] } = row;
  const edges = [least, above, most].filter((edge) => edge !== undefined);
  switch (kind) {
    case 'number': {
      // Also numbers that round to a bound, and to 0, as f32.
      const near = edges.flatMap((edge) => [1, -1].map((sign) => edge + sign * 2 ** -20 * Math.max(1, Math.abs(edge))));
      return [
        ...edges,
        ...near,
        ...edges.flatMap((edge) => [edge + 1e-12, edge - 1e-12]),
        1e-60,
        1e-40,
        1e39,
        3e38,
        -0,
        ...ANY,
      ];
    }
    case 'whole':
      return [...edges.flatMap((edge) => [edge - 1, edge, edge + 1, edge + 0.5]), 2 ** 53, 2 ** 32, -0, ...ANY];
    case 'texts': {
      const texts = (n: number): string[] => Array.from({ length: n }, (_, i) => `t${i}`);
      const long = (n: number): string => 'é'.repeat(n / 2);
      return [
        texts(most!),
        texts(most! + 1),
        long(bytes!),
        long(bytes! + 2),
        ['x', long(bytes!)],
        ['x', ''],
        [null],
        ...ANY,
      ];
    }
    case 'name':
      return [...names, ...names.map((name) => name.toUpperCase()), names, ...ANY];
    case 'biases':
      return [
        ...edges.flatMap((edge) => [{ 0: edge }, { 1: edge * 1.001 }, { 2: edge * 0.999 }]),
        ...['4294967295', '4294967296', '-1', '+1', '1.5', '1e3', ' 1', '', '007', 'x'].map((id) => ({ [id]: 1 })),
        ...['1', null, true, Number.NaN, [], {}].map((bias) => ({ 1: bias })),
        ...ANY,
      ];
    case 'scaled':
      return [
        ...edges.flatMap((edge) => [edge, edge * 1.001, edge * 0.999].map((scale) => ({ name: 'x', scale }))),
        ...[{ name: 'x' }, { name: '' }, { scale: 1 }, { name: 'x', scale: '1' }, { name: 'x', scale: Number.NaN }],
        ...[{ name: 'x', scale: null }, { name: 7 }, { name: 'x', more: 1 }],
        ...ANY,
      ];
    case 'variants':
      return [{ a: '' }, { a: 1 }, { a: null }, { a: 'x', b: 'y' }, ...ANY];
    default:
      return [false, ['x', {}], [[]], [null], ...ANY];
  }
}

/** A message without its rendering of the given value, which differs by language; null where the value is valid. */
const plain = (message: string | null): string | null => message?.replace(/, not .*$/s, ', not …') ?? null;

test('both sides of the table refuse the same, in the same words', async ({ page, site }) => {
  test.setTimeout(300_000);
  await openBlank(page, site);
  const model = [...bytesOf(`tests${TINY}`)];
  await page.evaluate(
    async ([url, model]) => {
      // The engine's own side, in this thread, without the package.
      const wasm = await import(`${url}/pkg/millrace.js`);
      await wasm.default();
      const ended = AbortSignal.abort();
      const missing = `${url}/nothing.gguf`;
      const files = { files: [{ name: 'model.gguf', data: new Blob([new Uint8Array(model)]) }] };
      const ignore = (): void => {};
      const engine = await wasm.WasmEngine.load(
        { model: files, cache: false },
        ignore,
        new AbortController().signal,
        new wasm.WasmControl(),
      );
      const asks: Record<string, (options: object) => Promise<unknown>> = {
        download: (o) => wasm.downloadModel({ model: missing, ...o }, ignore, ended, new wasm.WasmControl()),
        load: (o) =>
          wasm.WasmEngine.load({ model: missing, cache: false, ...o }, ignore, ended, new wasm.WasmControl()),
        plan: (o) => wasm.planModel({ model: missing, ...o }, ignore, ended),
        generate: (o) => engine.generate({ tokens: [1], maxTokens: 1, logits: true, ...o }, ignore, ignore, ended),
        bench: (o) => wasm.bench({ shape: 'no such shape', ...o }, ignore, ended),
      };
      /** The error of an option's check; later errors do not matter. */
      const asked = async (what: string, name: string, value: unknown): Promise<string | null> => {
        try {
          await asks[what]!({ [name]: value });
          return null;
        } catch (error) {
          const [, message] = new RegExp(`^${what}: ${name} (must .*)$`, 's').exec((error as Error).message) ?? [];
          return message ?? null;
        }
      };
      Object.assign(globalThis, { asked });
    },
    [site.url, model] as const,
  );
  const tables: [what: string, rows: Record<string, Row>][] = [
    ['download', FETCHING],
    ['load', { ...FETCHING, ...LOAD }],
    ['plan', PLAN],
    ['generate', GENERATE],
    ['bench', BENCH],
  ];
  let asked = 0;
  for (const [what, rows] of tables) {
    for (const [name, row] of Object.entries(rows)) {
      // These options of a load, a plan and a download are the package's own.
      if (PAGE.includes(row.kind) || (what !== 'bench' && ['tune', 'file', 'hub', 'beside'].includes(name))) continue;
      const list = values(row);
      const engine = await page.evaluate(
        async ([what, name, list]) => {
          const { asked } = globalThis as unknown as { asked: (...a: unknown[]) => Promise<string | null> };
          const answers: (string | null)[] = [];
          for (const value of list) answers.push(await asked(what, name, value));
          return answers;
        },
        [what, name, list] as const,
      );
      const both = list.map((value, i) => ({ value, engine: plain(engine[i]!) }));
      const mine = list.map((value) => ({ value, engine: plain(wrongOf(row, value)) }));
      expect(both, `${what}: ${name}`).toEqual(mine);
      // Every row must accept and refuse some of the values.
      expect(new Set(mine.map(({ engine }) => engine === null)).size, `${what}: ${name}`).toBe(2);
      asked += list.length;
    }
  }
  expect(asked).toBeGreaterThan(1000);
});
