// Parts of the documents page, without a page: passages, lines of PDF files, search.
import { expect, test } from '@playwright/test';
import { type Block, cut, layOut, textOf, weight } from '../../www/src/documents/cut.ts';
import { blocksOf } from '../../www/src/documents/lines.ts';
import { decode, readText } from '../../www/src/documents/read.ts';
import { nearest, shares } from '../../www/src/documents/search.ts';

const passagesOf = (blocks: readonly Block[]) => {
  const laid = layOut(blocks);
  return cut(laid).map((passage) => ({ ...passage, text: laid.text.slice(passage.start, passage.end) }));
};
const WORDS = 'The river rises after rain and falls again in summer. ';

test('short paragraphs share a passage, headings and pages end it', () => {
  const passages = passagesOf([
    { text: 'House', level: 1 },
    { text: 'One.', page: 1 },
    { text: 'Two.', page: 1 },
    { text: 'Roof', level: 2 },
    { text: 'Three.', page: 1 },
    { text: 'Four.', page: 2 },
    { text: 'Yard', level: 1 },
    { text: 'Five.', page: 2 },
  ]);
  expect(passages.map(({ text, path, page }) => [text, path.join('/'), page])).toEqual([
    ['One.\n\nTwo.', 'House', 1],
    ['Three.', 'House/Roof', 1],
    ['Four.', 'House/Roof', 2],
    ['Five.', 'Yard', 2],
  ]);
});

test('what is long is cut between sentences into pieces of about one length, and nothing is lost', () => {
  for (const [text, code] of [
    [WORDS.repeat(60), false],
    ['let river = rain(1);\n'.repeat(150), true],
    ['river '.repeat(500), false],
    ['x'.repeat(5000), false],
    ['川は雨のあとに増水する。'.repeat(100), false],
  ] as const) {
    const passages = passagesOf([{ text, code }]);
    expect(passages.length).toBeGreaterThan(2);
    for (const passage of passages) expect(weight(passage.text)).toBeLessThan(950);
    expect(passages.map((passage) => passage.text.replace(/\s/g, '')).join('')).toBe(text.replace(/\s/g, ''));
    if (text.startsWith(WORDS)) for (const passage of passages) expect(passage.text).toMatch(/^The .*\.$/s);
  }
});

test('a heading without text is a passage, and headings are embedded with what is below them', () => {
  const laid = layOut([
    { text: 'Ports', level: 1 },
    { text: 'Harwich', level: 2 },
    { text: 'Hull', level: 2 },
    { text: 'Open all year.' },
    { text: '   ' },
  ]);
  expect(cut(laid).map((passage) => textOf(passage, laid.text))).toEqual([
    'Ports\nHarwich',
    'Ports, Hull\nOpen all year.',
  ]);
});

test('lines of a page become paragraphs and headings; numbers of pages and repeated lines go', () => {
  const page = (number: number, lines: readonly [string, number, number][]) => [
    { text: 'Harbour gazette', y: 820, size: 8 },
    ...lines.map(([text, y, size]) => ({ text, y, size })),
    { text: String(number), y: 20, size: 8 },
  ];
  const blocks = blocksOf([
    page(1, [
      ['Tides', 780, 18],
      ['The water comes twice a day and goes twice a day in this har-', 750, 10],
      ['bour, as anywhere.', 738, 10],
      ['Ships wait for it outside.', 700, 10],
    ]),
    page(2, [['Nothing else is known of it here, as far as anybody says.', 780, 10]]),
    page(3, [['The end of the gazette is a long line of plain letters.', 780, 10]]),
  ]);
  expect(blocks).toEqual([
    { text: 'Tides', page: 1, level: 1 },
    { text: 'The water comes twice a day and goes twice a day in this harbour, as anywhere.', page: 1 },
    { text: 'Ships wait for it outside.', page: 1 },
    { text: 'Nothing else is known of it here, as far as anybody says.', page: 2 },
    { text: 'The end of the gazette is a long line of plain letters.', page: 3 },
  ]);
});

test('text in several encodings is read, other bytes are not', () => {
  expect(decode(Buffer.from('Mühle'))).toBe('Mühle');
  expect(decode(Buffer.from('Mühle', 'latin1'))).toBe('Mühle');
  expect(decode(Buffer.from('\ufeffMühle', 'utf16le'))).toBe('Mühle');
  const page = Buffer.concat([Buffer.from('<meta charset="iso-8859-2">'), Buffer.from([0xb3])]);
  expect(decode(page)).toBe('<meta charset="iso-8859-2">ł');
  expect(decode(Buffer.from([0, 1, 2, 3, 0, 0, 9]))).toBe(null);
  expect(decode(Buffer.from(Array.from({ length: 900 }, (_, i) => (i * 89) % 256)))).toBe(null);
  expect(readText('a\r\nb\r\n \r\nc').map(({ text }) => text)).toEqual(['a\nb', 'c']);
});

test('the nearest of 5,000 are those that sorting all would give', () => {
  let seed = 1;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647 - 0.5;
  const vectors = (count: number) => Float32Array.from({ length: count * 30 }, random);
  const shelves = [
    { document: 'a', vectors: vectors(2000) },
    { document: 'b', vectors: vectors(3000), extra: Float32Array.from({ length: 3000 }, random) },
  ];
  const question = vectors(1);
  const all = shelves.flatMap(({ document, vectors, extra }) =>
    Array.from({ length: vectors.length / 30 }, (_, passage) => {
      const own = vectors.subarray(passage * 30, passage * 30 + 30);
      const score = own.reduce((sum, x, i) => sum + x * question[i]!, 0) + (extra?.[passage] ?? 0);
      return { document, passage, score };
    }),
  );
  all.sort((a, b) => b.score - a.score);
  const found = nearest(question, shelves, 7);
  expect(found.map(({ document, passage }) => [document, passage])).toEqual(
    all.slice(0, 7).map(({ document, passage }) => [document, passage]),
  );
  for (const [i, { score }] of found.entries()) expect(score).toBeCloseTo(all[i]!.score, 4);
  expect(nearest(question, [{ document: 'c', vectors: vectors(2) }], 7)).toHaveLength(2);
  expect(() => nearest(question, [{ document: 'd', vectors: new Float32Array(40) }], 7)).toThrow('d');
});

test('words of a question are found with other endings, not within other words, and below headings', () => {
  const laid = layOut([
    { text: 'The rest is bran.' },
    { text: 'Feeding', level: 1 },
    { text: 'Branches of old trees.' },
    { text: 'Greasing', level: 1 },
    { text: 'Every Tuesday.' },
    { text: 'More', level: 1 },
    { text: 'İstanbul has dogs.' },
  ]);
  const passages = cut(laid);
  const having = (question: string) => {
    const [values] = shares(question, [{ text: laid.text, passages }]);
    return [...values!].flatMap((value, i) => (value > 0 ? [i] : []));
  };
  expect(having('What happens with the bran?')).toEqual([0]);
  expect(having('how is it greased')).toEqual([2]);
  expect(having('Is there a dog?')).toEqual([3]);
  expect(having('What is it?')).toEqual([]);
  const [values] = shares('dog bran', [{ text: laid.text, passages }]);
  for (const [i, value] of [0.5, 0, 0, 0.5].entries()) expect(values![i]).toBeCloseTo(value, 5);
});
