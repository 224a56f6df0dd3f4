// The engine in the browser against references: small random models against Hugging Face transformers, the bundled
// model against PyTorch.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Message } from '../../npm/index.ts';
import { BOX, bytesOf, expect, LONG, openBlank, root, test } from './support.ts';

interface Expected {
  model: string;
  from: number;
  /** The prompt and the reference's greedy continuation, without its last token. */
  tokens: number[];
  /** A row of V logits for each position from `from` on. */
  logits: number[][];
  greedy: number[];
}

/** Largest |difference| allowed, relative to the row's largest |logit|. */
const TOLERANCE = 3e-5;

// The native tests run all fixtures. Here, where a GPU in software takes a second for a pipeline, run those that
// together have every kind of step; the others with the long tests.
const QUICK = [
  'gemma2-gguf',
  'gguf-mixed',
  'gpt2-gguf',
  'granitehybrid-gguf',
  'granitemoe-gguf',
  'lfm2-gguf',
  'qwen3-gguf',
  'qwen35moe-gguf',
  'smollm3-gguf',
];
const oracle = join(root, 'tests', 'data', 'oracle');
// Prompts with pictures have tests of their own, natively.
const readsText = (name: string): boolean =>
  !('pictures' in JSON.parse(readFileSync(join(oracle, name, 'expected.json'), 'utf8')));
const fixtures = LONG ? readdirSync(oracle).filter(readsText) : QUICK;

for (const name of fixtures) {
  test(`${name}: the logits of prefill and decode are the reference's`, async ({ blank }) => {
    const expected = JSON.parse(bytesOf(`tests/data/oracle/${name}/expected.json`).toString()) as Expected;
    const path = `/data/oracle/${name}/${expected.model}`;
    const { rows, next } = await blank.evaluate(
      async ({ model, tokens, from }) => {
        const engine = await Engine.load({ model, lane: 'exact', cache: false });
        const result = await engine.generate(
          { tokens },
          { maxTokens: 1, temperature: 0, ignoreEos: true, logits: true, logitsFrom: from },
        );
        engine.dispose();
        return { rows: result.all_logits!.map((row) => Array.from(row)), next: result.tokens[0]! };
      },
      {
        model: expected.model.endsWith('.gguf') ? path : `${path.replace(/\/$/, '')}/`,
        tokens: expected.tokens,
        from: expected.from,
      },
    );
    expect(rows).toHaveLength(expected.logits.length);
    for (const [i, row] of expected.logits.entries()) {
      const largest = Math.max(...row.map(Math.abs));
      const worst = Math.max(...row.map((logit, token) => Math.abs(logit - rows[i]![token]!)));
      expect(worst / largest, `position ${expected.from + i}`).toBeLessThanOrEqual(TOLERANCE);
      // The two best are so close that either may win.
      const [best, second] = [...row].sort((a, b) => b - a) as [number, number];
      if (best - second < TOLERANCE * largest) continue;
      expect(rows[i]!.indexOf(Math.max(...rows[i]!)), `position ${expected.from + i}`).toBe(expected.greedy[i]);
    }
    expect(next).toBe(expected.greedy.at(-1));
  });
}

interface Question {
  messages: Message[];
  tools: object[];
  /** PyTorch's greedy answer with the weights of the shipped file. */
  reference_text: string;
}

test(`the model in the box gives the reference's answers to ${LONG ? 'all' : '3'} held-out questions`, async ({
  page,
  site,
}) => {
  // SwiftShader makes about one token a second of this model.
  test.setTimeout(LONG ? 6 * 3_600_000 : 900_000);
  const lines = bytesOf('tests/data/box/heldout.jsonl').toString().trim().split('\n');
  const step = LONG ? 1 : Math.ceil(lines.length / 3);
  const questions = lines.filter((_, i) => i % step === 0).map((line) => JSON.parse(line) as Question);
  await openBlank(page, site);
  const answers = await page.evaluate(
    async ({ model, questions }) => {
      const engine = await Engine.load({ model, lane: 'exact' });
      const answers = [];
      for (const { messages, tools } of questions)
        answers.push(
          (await engine.generate(messages, { temperature: 0, maxTokens: 64, ...(tools.length > 0 ? { tools } : {}) }))
            .text,
        );
      engine.dispose();
      return answers;
    },
    { model: BOX, questions },
  );
  expect(answers).toEqual(questions.map((question) => question.reference_text));
});
