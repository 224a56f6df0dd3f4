// The picker's verdict on a model before anything of it is fetched.
import { expect, test } from '@playwright/test';
import { type Device, verdict } from '../../www/src/shared/fit.ts';
import { KNOWN, nameOf } from '../../www/src/shared/known.ts';

const GPU: Device = { gpu: 'a GPU', software: false, memory: { bytes: 8 * 2 ** 30, more: true }, storage: null };
const SMALL = { bytes: 0.8e9, beside: 0.2e9 };
const LARGE = { bytes: 4.9e9, beside: 0.6e9 };

const cases: [what: string, model: typeof SMALL, device: Device, stored: number, level: string, text: string][] = [
  ['a small one', SMALL, GPU, 0, 'good', 'fits'],
  ['a large one: what a GPU has is not known', LARGE, GPU, 0, 'slow', 'needs 5.5 GB on the GPU'],
  [
    'a large one on a phone',
    LARGE,
    { ...GPU, memory: { bytes: 4 * 2 ** 30, more: false } },
    0,
    'bad',
    'too large for 4 GB of memory',
  ],
  ['a small one on a phone', SMALL, { ...GPU, memory: { bytes: 4 * 2 ** 30, more: false } }, 0, 'good', 'fits'],
  ['no room to store it', SMALL, { ...GPU, storage: 0.3e9 }, 0, 'bad', 'needs 0.5 GB more storage'],
  ['room for what is missing of it', SMALL, { ...GPU, storage: 0.3e9 }, 0.6e9, 'good', 'fits'],
  ['no GPU', SMALL, { ...GPU, gpu: null }, 0, 'slow', 'slow without a GPU'],
  ['a GPU in software', SMALL, { ...GPU, software: true }, 0, 'slow', 'slow without a GPU'],
];

for (const [what, model, device, stored, level, text] of cases) {
  test(`${what}: ${text}`, () => expect(verdict(model, device, stored)).toEqual({ level, text }));
}

test('the list has files by https, this year’s first, then the smallest, each under a name of its own', () => {
  expect(new Set(KNOWN.map(({ name }) => name)).size).toBe(KNOWN.length);
  expect(KNOWN.slice(0, 4).map(({ name }) => name)).toEqual([
    'LFM 2.5 VL 450M',
    'Qwen 3.5 0.8B',
    'LFM 2.5 1.2B',
    'Gemma 4 E2B',
  ]);
  const sizes = KNOWN.slice(4).map(({ bytes }) => bytes);
  expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
  for (const { url, name } of KNOWN) {
    expect(url).toMatch(
      /^https:\/\/huggingface\.co\/[\w.-]+\/[\w.-]+\/resolve\/main\/[\w.-]+\.gguf(#mmproj=mmproj-[\w.-]+\.gguf)?$/,
    );
    expect(nameOf(url)).toBe(name);
    // By the address under which it is stored.
    expect(nameOf(url.split('#')[0]!)).toBe(name);
  }
});
