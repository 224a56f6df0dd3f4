// The two command lines: the behaviour that scripts rely on, and that both agree.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { threadsFor } from '../../npm/cpu.ts';
import { chosenBuild } from '../../scripts/build.mjs';
import { ALL, nameOf, regressions, tableOf } from '../../scripts/lib/bench_all.mjs';
import { commandLine } from '../../scripts/lib/cargo.mjs';
import { childEnv } from '../../scripts/lib/env.mjs';
import { vulkan } from '../../scripts/setup.mjs';
import { content, Faulty } from './faulty.ts';
import { expect, root, test } from './support.ts';

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

async function run(
  command: string,
  args: string[],
  env: Record<string, string | undefined> = {},
  input = '',
): Promise<Outcome> {
  const child = spawn(command, args, { cwd: root, env: childEnv(env) as NodeJS.ProcessEnv });
  child.stdin.on('error', () => {}).end(input);
  const outcome = { code: -1, stdout: '', stderr: '' };
  child.stdout.on('data', (text) => (outcome.stdout += text));
  child.stderr.on('data', (text) => (outcome.stderr += text));
  await new Promise<void>((done, fail) => {
    child.on('error', fail);
    child.on('close', (code) => {
      outcome.code = code ?? -1;
      done();
    });
  });
  return outcome;
}

/** In the browser, with the package as the tests have built it. */
const generate = (...args: string[]): Promise<Outcome> =>
  run(process.execPath, ['scripts/generate.mjs', ...args], {
    MILLRACE_BUILD: chosenBuild('dev'),
    MILLRACE_SKIP_BUILD: '1',
  });

// Compiles the command line unless native tests have, which can take longer than a test may.
test.beforeAll(async () => {
  test.setTimeout(3_600_000);
  await commandLine();
});

/** On this machine's own driver, with the command line as the native tests have built it. */
const native = async (...args: string[]): Promise<Outcome> => {
  return run(await commandLine(), ['generate', ...args], await vulkan());
};

const lastLine = ({ stdout }: Outcome) =>
  JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown> & { tokens: number[]; text: string };

test('both show pictures to a model that reads them, from a folder and from a file with its mmproj beside it', async () => {
  test.setTimeout(600_000);
  const rest = ['--max-tokens', '6', '--temperature', '0', '--lane', 'exact', '--ignore-eos', '--json'];
  const icon = 'www/icons/icon-192.png';
  for (const model of ['lfm2vl-hf/model', 'lfm2vl-gguf/model.gguf']) {
    const args = ['--model', `tests/data/oracle/${model}`, '--chat', 'What is this?', ...rest];
    const [without, shown, twice] = await Promise.all([
      generate(...args),
      generate(...args, '--image', icon),
      generate(...args, '--image', icon, '--image', icon),
    ]);
    const told = await native(...args, '--image', icon);
    for (const outcome of [without, shown, twice, told]) expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    const count = (outcome: Outcome): number => Number(lastLine(outcome).prompt_tokens);
    expect(count(shown)).toBeGreaterThan(count(without) + 30);
    expect(count(twice) - count(shown)).toBe(count(shown) - count(without));
    expect(count(told)).toBe(count(shown));
    expect(lastLine(shown).tokens).toEqual(lastLine(told).tokens);
  }
  const wrong = [
    await generate('--prompt', 'a', '--image', icon),
    await generate('--chat', 'a', '--image', 'no-such.png'),
    await generate('--chat', 'a', '--image', icon, '--model', 'tests/data/oracle/qwen3-gguf/model.gguf'),
  ];
  expect(wrong.map(({ code }) => code)).toEqual([2, 2, 2]);
  expect(wrong.map(({ stderr }) => stderr)).toEqual([
    expect.stringMatching(/^error\[BAD_OPTION\]: --image goes with --chat/),
    expect.stringMatching(/^error\[NOT_FOUND\]: no such file, no-such\.png/),
    expect.stringMatching(/^error\[UNSUPPORTED_MODEL\]: /),
  ]);
});

test('both read a picture with the model in the box', async () => {
  const picture = 'tests/data/box/pictures/words-000.png';
  const args = ['--chat', 'What does it say?', '--image', picture, '--device', 'cpu', '--json'];
  for (const outcome of [await generate(...args), await native(...args)]) {
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    expect(lastLine(outcome).text).toBe('It says "917115".');
  }
});

test('in the browser the CPU takes several threads', async () => {
  const outcome = await generate('--chat', 'Hello', '--max-tokens', '4', '--device', 'cpu', '--json');
  expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
  const threads = threadsFor(availableParallelism());
  const named = `CPU (relaxed SIMD, ${threads} thread${threads === 1 ? '' : 's'})`;
  expect(lastLine(outcome)).toMatchObject({ adapter: { name: named } });
});

test('both print the text as it arrives and the contract’s object on the last line, with the same tokens', async () => {
  test.setTimeout(600_000);
  const args = ['--chat', 'What is 17 + 25?', '--max-tokens', '16', '--temperature', '0', '--lane', 'exact', '--json'];
  const outcomes = [await generate(...args), await native(...args)];
  for (const outcome of outcomes) {
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    const result = lastLine(outcome);
    expect(result.text).toContain('42');
    expect(outcome.stdout.startsWith(result.text)).toBe(true);
    expect(Object.keys(result)).toEqual(
      expect.arrayContaining([
        'text',
        'tokens',
        'prompt_tokens',
        'finish_reason',
        'timings',
        'counters',
        'adapter',
        'plan',
      ]),
    );
    expect(Object.keys(result.timings as object)).toEqual(
      expect.arrayContaining(['load_ms', 'prefill_ms', 'ttft_ms', 'decode_ms', 'prefill_tok_s', 'decode_tok_s']),
    );
    expect(Object.keys(result.counters as object)).toEqual(
      expect.arrayContaining(['submits', 'dispatches', 'readbacks', 'readback_bytes', 'prefill_submits', 'gpu_bytes']),
    );
    expect(Object.keys(result.adapter as object)).toEqual(
      expect.arrayContaining(['vendor', 'name', 'features', 'subgroup']),
    );
  }
  expect(lastLine(outcomes[0]!).tokens).toEqual(lastLine(outcomes[1]!).tokens);
});

test('a file of this machine, a conversation from a file, and logits into a file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'));
  const messages = join(folder, 'messages.json');
  const logits = join(folder, 'logits.json');
  writeFileSync(messages, JSON.stringify([{ role: 'user', content: 'Hello' }]));
  const asked = ['--messages', messages, '--max-tokens', '2', '--temperature', '0', '--ignore-eos', '--json'];
  const outcome = await generate('--model', 'tests/data/oracle/gguf-q8_0/model.gguf', ...asked, '--logits', logits);
  expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
  expect(lastLine(outcome).tokens).toHaveLength(2);
  const written = JSON.parse(readFileSync(logits, 'utf8')) as { logits: number[] };
  expect(written.logits).toHaveLength(301);
  expect(written.logits.indexOf(Math.max(...written.logits))).toBe(lastLine(outcome).tokens[0]);
  // The same model in shards, which the manifest names.
  const shards = await generate('--model', 'tests/data/shards/manifest.json', ...asked);
  expect(shards, shards.stderr).toMatchObject({ code: 0 });
  expect(lastLine(shards).tokens).toEqual(lastLine(outcome).tokens);
});

test('both embed and judge texts alike, from lines, from JSON and from the command line', async () => {
  test.setTimeout(600_000);
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'));
  const { texts } = JSON.parse(readFileSync(join(root, 'tests/data/embed/qwen3-hf/expected.json'), 'utf8')) as {
    texts: string[];
  };
  const [lines, jsonl] = [join(folder, 'lines.txt'), join(folder, 'texts.jsonl')];
  writeFileSync(lines, 'one line\r\n\nthe third\n');
  writeFileSync(
    jsonl,
    [...texts.slice(0, 2).map((text) => ({ text })), 'a string'].map((text) => `${JSON.stringify(text)}\n\n`).join(''),
  );
  const browser = (script: string[], ...args: string[]): Promise<Outcome> =>
    run(process.execPath, ['scripts/embed.mjs', ...script, ...args], {
      MILLRACE_BUILD: chosenBuild('dev'),
      MILLRACE_SKIP_BUILD: '1',
    });
  const native = async (...args: string[]): Promise<Outcome> => run(await commandLine(), args, await vulkan());
  const all = ['--text', 'a text', '--lines', lines, '--texts', jsonl, '--lane', 'exact', '--json'];

  const embed = ['--model', 'tests/data/embed/qwen3-hf/model', ...all, '--dimensions', '24'];
  const embedded = [await browser([], ...embed), await native('embed', ...embed)];
  const vectors = embedded.map(({ code, stdout, stderr }) => {
    expect(code, stderr).toBe(0);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as number[]);
  });
  expect(vectors[0]).toHaveLength(7);
  for (const [i, vector] of vectors[0]!.entries()) {
    expect(vector).toHaveLength(24);
    for (const [k, x] of vector.entries()) expect(Math.abs(x - vectors[1]![i]![k]!)).toBeLessThan(1e-4);
  }

  const judge = ['--model', 'tests/data/embed/bert-rerank-hf/model', '--query', 'a question', ...all, '--top-n', '3'];
  const judged = [await browser(['rerank'], ...judge), await native('rerank', ...judge)];
  const rankings = judged.map(({ code, stdout, stderr }) => {
    expect(code, stderr).toBe(0);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { index: number; score: number });
  });
  expect(rankings[0]).toHaveLength(3);
  expect(rankings[0]!.map(({ index }) => index)).toEqual(rankings[1]!.map(({ index }) => index));

  writeFileSync(jsonl, '{"txt": 1}\n');
  const of = ['--model', 'tests/data/embed/qwen3-hf/model'];
  for (const [args, line] of [
    [[...of, '--texts', jsonl], /^error\[BAD_OPTION\]: .*texts\.jsonl: line 1 is no text as JSON/],
    [of, /^error\[BAD_OPTION\]: nothing to read: give --text, --lines or --texts/],
    [[...of, '--lines', 'nothing.txt'], /^error\[NOT_FOUND\]: .*nothing\.txt/],
    [['--model', 'builtin', '--text', 'x'], /^error\[UNSUPPORTED_MODEL\]: /],
  ] as [string[], RegExp][]) {
    for (const outcome of [await browser([], ...args), await native('embed', ...args)]) {
      expect(outcome.stderr.trim().split('\n').at(-1)).toMatch(line);
      expect(outcome.code).toBe(2);
    }
  }
  // The model in the box, which `generate` takes, does neither.
  for (const [script, what] of [
    [[], 'embeds'],
    [['rerank'], 'judges'],
  ] as [string[], string][])
    expect(await browser(script, '--text', 'x')).toMatchObject({
      code: 2,
      stderr: `error[BAD_OPTION]: give --model: a model that ${what}\n`,
    });
});

test('a profile of the decode step follows the answer', async () => {
  test.setTimeout(300_000);
  const args = [
    '--model',
    'tests/data/oracle/gguf-q8_0/model.gguf',
    '--prompt',
    'the',
    '--max-tokens',
    '2',
    '--ignore-eos',
    '--profile',
    '--json',
  ];
  for (const command of [generate, native]) {
    const outcome = await command(...args);
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    const { profile } = lastLine(outcome) as unknown as { profile: { step: string; calls: number; us: number }[] };
    expect(profile.find((row) => row.step === 'attention')).toMatchObject({ calls: 2 });
    expect(Math.min(...profile.map((row) => row.us))).toBeGreaterThan(0);
    expect(outcome.stdout).toMatch(/^attention\s+attention\s+f16-/m);
  }
});

const wrong: [title: string, args: string[], line: RegExp][] = [
  ['an unknown option', ['--prompt', 'x', '--frobnicate'], /^error\[BAD_OPTION\]: .*frobnicate/],
  ['no prompt', [], /^error\[BAD_OPTION\]: nothing to continue/],
  ['two prompts', ['--prompt', 'x', '--chat', 'y'], /^error\[BAD_OPTION\]: /],
  ['no number', ['--prompt', 'x', '--max-tokens', 'many'], /^error\[BAD_OPTION\]: .*many/],
  ['a file that is not there', ['--prompt', 'x', '--model', 'nothing.gguf'], /^error\[NOT_FOUND\]: .*nothing\.gguf/],
  ['messages that are none', ['--messages', 'package.json'], /^error\[BAD_OPTION\]: .*package\.json/],
  [
    'a file that is no model',
    ['--prompt', 'x', '--model', 'package.json'],
    /^error\[(BAD_MODEL|UNSUPPORTED_MODEL|BAD_OPTION)\]: .*package\.json/,
  ],
  [
    'a lane that is not there',
    ['--prompt', 'x', '--lane', 'quick', '--model', 'tests/data/oracle/gguf-q8_0/model.gguf'],
    /^error\[BAD_OPTION\]: .*(lane|quick)/,
  ],
  [
    'an overflow that is not there',
    ['--prompt', 'x', '--overflow', 'wrap', '--model', 'tests/data/oracle/gguf-q8_0/model.gguf'],
    /^error\[BAD_OPTION\]: .*overflow/,
  ],
  [
    'a kernel that is not there',
    ['--prompt', 'x', '--kernel', 'attention=none', '--model', 'tests/data/oracle/gguf-q8_0/model.gguf'],
    /^error\[UNKNOWN_KERNEL\]: /,
  ],
];
for (const [title, args, line] of wrong) {
  test(`both end with status 2 and one line for ${title}`, async () => {
    for (const command of [generate, native]) {
      const { code, stderr } = await command(...args);
      expect(stderr.trim()).toMatch(line);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(code).toBe(2);
    }
  });
}

test('the bench measures loads from the storage beside plain reads of the same bytes', async () => {
  const bench = (...args: string[]): Promise<Outcome> =>
    run(process.execPath, ['scripts/bench.mjs', '--storage', '--json', ...args], {
      MILLRACE_BUILD: chosenBuild('dev'),
      MILLRACE_SKIP_BUILD: '1',
    });
  const file = 'tests/data/oracle/gguf-q8_0/model.gguf';
  const outcome = await bench('--model', file, '--runs', '1');
  expect(outcome.stderr).toBe('');
  const report = lastLine(outcome) as unknown as {
    bytes: number;
    runs: { plain_ms: number; load_ms: number; load_times: object }[];
    verify_ms: number;
  };
  expect(report.bytes).toBe(readFileSync(join(root, file)).length);
  expect(report.runs).toHaveLength(1);
  for (const ms of [report.verify_ms, report.runs[0]!.plain_ms, report.runs[0]!.load_ms]) expect(ms).toBeGreaterThan(0);
  expect(report.runs[0]!.load_times).toMatchObject({
    read: expect.any(Number),
    encode: expect.any(Number),
    write: expect.any(Number),
  });
  expect(await bench('--model', 'README.md')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error\[BAD_MODEL\]: .*README\.md/),
  });
});

test('a table of the bench is compared with an earlier one: what is slower, failed or missing is named', async () => {
  const row = {
    lane: 'fast',
    adapter: 'a',
    ttft_ms: 1,
    dispatches_per_token: 99.4,
    percent_of_streaming: 31,
    gpu_bytes: 1e9,
  };
  const before = ['one', 'two', 'three', 'four'].map((name) => ({
    ...row,
    name,
    decode_tok_s: 1000,
    prefill_tok_s: 20_000,
  }));
  const now = [
    { ...before[0]!, decode_tok_s: 985 },
    { ...before[1]!, prefill_tok_s: 19_000 },
    { name: 'three', error: 'OUT_OF_MEMORY: 20 GB' },
  ];
  expect(regressions(now, before)).toEqual([
    'two: prefill_tok_s 19000, was 20000',
    'three: OUT_OF_MEMORY: 20 GB',
    'four: was not measured',
  ]);
  expect(regressions(before, before)).toEqual([]);
  const table = tableOf(now, before).split('\n');
  expect(table[2]).toBe('| one | 985 (0.985) | 20,000 (1.000) | 99 | 31 % | 1.00 GB |');
  expect(table[4]).toBe('| three | OUT_OF_MEMORY: 20 GB | | | | |');
  expect(new Set(ALL.map(nameOf)).size).toBe(ALL.length);
  const bench = (...args: string[]): Promise<Outcome> => run(process.execPath, ['scripts/bench.mjs', ...args]);
  expect(await bench('--all', '--only', 'no such shape')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error\[BAD_OPTION\]: --only no such shape/),
  });
  expect(await bench('--all', '--compare', 'package.json')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error\[BAD_OPTION\]: --compare: package\.json is no table/),
  });
});

/** A command that needs no device. `input`: its standard input. */
const asked = async (args: string[], input = ''): Promise<Outcome> =>
  run(await commandLine(), args, { VK_DRIVER_FILES: '/dev/null' }, input);

/** A file with this text, in a folder of the test's own. */
function file(name: string, text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'millrace-')), name);
  writeFileSync(path, text);
  return path;
}

const WEATHER = JSON.stringify([
  {
    type: 'function',
    function: { name: 'weather', parameters: { type: 'object', properties: { days: { type: 'integer' } } } },
  },
]);

test('render prints the prompt of messages, as text and as ids, of a model and of a template alone', async () => {
  const messages = file('messages.json', JSON.stringify([{ role: 'user', content: 'Hi <|im_end|>' }]));
  const ofBox = await asked(['render', '--model', 'builtin', '--messages', messages]);
  expect(ofBox, ofBox.stderr).toMatchObject({ code: 0, stderr: '' });
  expect(ofBox.stdout).toMatch(/<\|im_start\|>user\nHi <\|im_end\|><\|im_end\|>\n<\|im_start\|>assistant\n$/);
  const ids = JSON.parse((await asked(['render', '--model', 'builtin', '--messages', messages, '--tokens'])).stdout);
  // A special token spelled in the message does not end its turn.
  const plain = file('plain.json', JSON.stringify([{ role: 'user', content: 'Hi' }]));
  const other = JSON.parse((await asked(['render', '--model', 'builtin', '--messages', plain, '--tokens'])).stdout);
  const end = (list: number[]) => list.filter((id) => id === other.at(-3)).length;
  expect(ids.length).toBeGreaterThan(other.length);
  expect(end(ids)).toBe(end(other));

  const template = file(
    'template.jinja',
    '{{ bos_token }}{% if tools %}{{ tools[0].function.name }}: {% endif %}{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}',
  );
  const tools = file('tools.json', WEATHER);
  const alone = ['render', '--template', template, '--messages', plain];
  expect(await asked(alone)).toMatchObject({ code: 0, stdout: 'Hi>' });
  expect(await asked([...alone, '--no-generation-prompt', '--tools', tools])).toMatchObject({ stdout: 'weather: Hi' });
  expect(await asked([...alone, '--template-options', '{"bos_token": "<s>"}'])).toMatchObject({ stdout: '<s>Hi>' });
  for (const [args, stderr] of [
    [['--messages', plain], /^error\[BAD_OPTION\]: whose template\? /],
    [['--messages', 'nowhere.json', '--template', template], /^error\[NOT_FOUND\]: nowhere\.json/],
    [['--messages', template, '--template', template], /^error\[BAD_OPTION\]: .*template\.jinja: key must be a string/],
    [[...alone.slice(1), '--template-options', 'x'], /^error\[BAD_OPTION\]: .*object of JSON/],
    [['--messages', plain, '--template', file('broken.jinja', '{% if %}')], /^error\[TEMPLATE\]: .*line 1/],
  ] as const)
    expect(await asked(['render', ...args])).toMatchObject({ code: 2, stderr: expect.stringMatching(stderr) });
});

test('parse tells an answer apart, by a template, a format’s name or a model', async () => {
  const tools = file('tools.json', WEATHER);
  const hermes = file('hermes.jinja', '{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>');
  const answer =
    '<think>Rain?</think>Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"days": 3}}\n</tool_call>';
  const parsed = async (args: string[], input: string) => {
    const outcome = await asked(['parse', ...args], input);
    expect(outcome, outcome.stderr).toMatchObject({ code: 0, stderr: '' });
    return JSON.parse(outcome.stdout);
  };
  const calls = [{ name: 'weather', arguments: { days: 3 } }];
  const whole = { content: 'Let me see.', reasoning: 'Rain?', calls, format: 'hermes' };
  expect(await parsed(['--template', hermes, '--tools', tools], answer)).toEqual(whole);
  // Without tools every name counts.
  expect(await parsed(['--template', hermes], answer)).toEqual(whole);
  expect(await parsed(['--format', 'hermes'], answer)).toEqual(whole);
  const xml = '<tool_call><function=weather><parameter=days>3</parameter></function></tool_call>';
  expect(await parsed(['--format', 'qwen3-coder', '--tools', tools], xml)).toMatchObject({
    content: '',
    calls,
    format: 'qwen3-coder',
  });
  expect(await parsed(['--format', 'json'], answer)).toMatchObject({ content: expect.stringContaining('<tool_call>') });
  // A model: its special tokens by their names, and as ids.
  const call = '<tool_call>\n{"name": "weather", "arguments": {"days": 3}}\n</tool_call>';
  const ofBox = await parsed(['--model', 'builtin', '--tools', tools], `${call}<|im_end|>`);
  expect(ofBox).toMatchObject({ content: '', calls });
  const messages = file(
    'call.json',
    JSON.stringify([
      { role: 'user', content: 'x' },
      { role: 'user', content: call },
    ]),
  );
  const bare = file('bare.jinja', '{{ messages[0].content if messages|length == 1 else messages[1].content }}');
  const ids = await asked(['render', '--model', 'builtin', '--template', bare, '--messages', messages, '--tokens']);
  expect(await parsed(['--model', 'builtin', '--tools', tools, '--tokens'], ids.stdout)).toMatchObject({ calls });
  expect(await parsed(['--format', 'mistral'], '')).toEqual({
    content: '',
    reasoning: '',
    calls: [],
    format: 'mistral',
  });
  for (const [args, input, stderr] of [
    [[], '', /^error\[BAD_OPTION\]: whose template\? /],
    [['--format', 'banana'], '', /^error\[BAD_OPTION\]: no format of calls is called 'banana'; there are hermes, /],
    [['--model', 'builtin', '--tokens'], '1 two', /^error\[BAD_OPTION\]: 'two' is no id of a token/],
    [['--model', 'builtin', '--tokens'], '99999', /^error\[TOKENIZER\]: token 99999/],
    [['--format', 'json', '--tools', file('x.json', '{}')], '', /^error\[BAD_OPTION\]: .*should be a list of tools/],
  ] as const)
    expect(await asked(['parse', ...args], input)).toMatchObject({ code: 2, stderr: expect.stringMatching(stderr) });
});

test('schema says how large a grammar is, and which texts it accepts byte for byte', async () => {
  const schema = file(
    'schema.json',
    JSON.stringify({
      type: 'object',
      properties: { a: { type: 'integer' } },
      required: ['a'],
      additionalProperties: false,
    }),
  );
  const instances = file('instances.jsonl', '{"a": 1}\n{"a": "1"}\n{"a":1}\n{"a": 1} \n\n{"a": 1');
  const outcome = await asked(['schema', schema, '--instances', instances]);
  expect(outcome, outcome.stderr).toMatchObject({ code: 0, stderr: '' });
  const [size, ...judged] = outcome.stdout.trimEnd().split('\n');
  expect(size).toMatch(/^[1-9]\d* states, [1-9]\d* bytes, \d+\.\d ms$/);
  expect(judged).toEqual(['accepted', 'refused', 'accepted', 'refused', 'refused', 'refused']);
  const json = JSON.parse((await asked(['schema', schema, '--json'])).stdout);
  expect(json).toEqual({ states: expect.any(Number), bytes: expect.any(Number), ms: expect.any(Number), warnings: [] });
  const list = { type: 'array', items: { type: 'string' }, uniqueItems: true };
  const endless = file('endless.json', JSON.stringify({ properties: { b: list } }));
  expect(await asked(['schema', endless])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error\[UNSUPPORTED_SCHEMA\]: .*uniqueItems.*\/properties\/b/),
  });
  expect(await asked(['schema', endless, '--lenient'])).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^warning: uniqueItems at \/properties\/b: /),
  });
  expect(await asked(['schema', 'nowhere.json'])).toMatchObject({ code: 2 });
});

test('model tells what a model is and whether it runs', async () => {
  const box = await asked(['model', 'builtin']);
  expect(box, box.stderr).toMatchObject({ code: 0, stderr: '' });
  expect(box.stdout).toMatch(/^files +GGUF, .*\narchitecture +llama, .*\ntokenizer +4096 tokens.*\n/);
  expect(box.stdout).toMatch(/\ntemplate +takes questions, .*\ncalls +hermes\npictures +7 layers of 256, .*\nruns\n$/);
  const json = JSON.parse((await asked(['model', 'builtin', '--json'])).stdout);
  expect(json).toMatchObject({
    runs: true,
    parts: expect.arrayContaining([expect.objectContaining({ part: 'calls' })]),
  });
  const broken = await asked(['model', file('broken.gguf', 'GGUF')]);
  expect(broken).toMatchObject({ code: 2, stderr: expect.stringMatching(/^error\[[A-Z_]+\]: files: /) });
  expect(broken.stdout).toMatch(/^files +NOT .*\n +in src\/format\ndoes not run\n$/);
  expect(await asked(['model', 'nowhere.gguf'])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error\[NOT_FOUND\]/),
  });
});

test('npm run model finds the file that a repository of a hub means', async () => {
  const box = readFileSync(join(root, 'www', 'models', 'box.gguf'));
  const entries = ['box-Q8_0.gguf', 'box-F16.gguf'].map((path) => ({ type: 'file', path, size: box.length }));
  const hub = await Faulty.start();
  const model = (...args: string[]): Promise<Outcome> =>
    run(process.execPath, ['scripts/model.mjs', ...args], { HF_ENDPOINT: hub.url });
  try {
    hub.put('/api/models/owner/box-GGUF/tree/main', content(JSON.stringify(entries)));
    hub.put('/owner/box-GGUF/resolve/main/box-Q8_0.gguf', content(box));
    for (const name of ['owner/box-GGUF', 'owner/box-GGUF:q8_0']) {
      const found = await model(name, '--json');
      expect(found, found.stderr).toMatchObject({ code: 0 });
      expect(JSON.parse(found.stdout)).toMatchObject({ runs: true });
    }
    for (const [name, said] of [
      ['owner/box-GGUF:Q2_K', /^error\[NOT_FOUND\]: .*no file of Q2_K.*box-Q8_0\.gguf/],
      ['owner/nothing', /^error\[NOT_FOUND\]: .*no public repository owner\/nothing/],
    ] as const)
      expect(await model(name)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(said) });
  } finally {
    await hub.close();
  }
});

test('the native command line shows pictures: files, and those of messages', async () => {
  test.setTimeout(300_000);
  const model = ['--model', 'tests/data/oracle/lfm2vl-hf/model', '--lane', 'exact', '--device', 'cpu'];
  const short = ['--max-tokens', '2', '--temperature', '0', '--json'];
  const file = 'www/icons/icon-192.png';
  const shown = await native(...model, ...short, '--chat', 'What?', '--image', file);
  expect(shown, shown.stderr).toMatchObject({ code: 0 });
  const without = await native(...model, ...short, '--chat', 'What?');
  const tokens = (outcome: Outcome): number => Number(lastLine(outcome).prompt_tokens);
  // 192 x 192 is more than this model reads at once: four tiles of 4 rows each and 16 of the whole, and the names around them.
  expect(tokens(shown) - tokens(without)).toBe(4 * (1 + 4) + 1 + 16 + 2);
  const folder = mkdtempSync(join(tmpdir(), 'millrace-'));
  const messages = join(folder, 'messages.json');
  const url = `data:image/png;base64,${readFileSync(join(root, file)).toString('base64')}`;
  const content = [
    { type: 'image_url', image_url: { url } },
    { type: 'text', text: 'What?' },
  ];
  writeFileSync(messages, JSON.stringify([{ role: 'user', content }]));
  const same = await native(...model, ...short, '--messages', messages);
  expect(same, same.stderr).toMatchObject({ code: 0 });
  expect(lastLine(same).tokens).toEqual(lastLine(shown).tokens);
  for (const [args, why] of [
    [['--chat', 'What?', '--image', 'nothing.png'], /NOT_FOUND.*nothing\.png/],
    [['--chat', 'What?', '--image', 'package.json'], /BAD_OPTION.*package\.json is no picture/],
    [['--prompt', 'What?', '--image', file], /BAD_OPTION.*--image goes with --chat/],
  ] as const) {
    const wrong = await native(...model, ...args);
    expect(wrong.code, wrong.stderr).toBe(2);
    expect(wrong.stderr).toMatch(why);
  }
});
