// The declarations of the packed tarball, as strict consumers read them: all of them checked, with either way of finding modules.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { tsc } from '../../scripts/build.mjs';
import { run } from '../../scripts/lib/env.mjs';
import { consumer, installed } from '../../scripts/package.mjs';

const CODE = `
import { type ChatCompletionChunk, type CompiledGrammar, CompletionStream, type Conversation, DownloadControl, Engine, type EngineInfo, type ErrorCode, type GenerateResult, Generation, type LoadPlan, MillraceError, models, type StoredModel } from 'millrace';
import { millrace } from 'millrace/ai-sdk';
import { useChat, type ChatStatus, type UseChat } from 'millrace/react';
import { generateText, streamText } from 'ai';
import type { LanguageModelV4 } from '@ai-sdk/provider';

export async function use(): Promise<void> {
  const download = new DownloadControl();
  using engine: Engine = await Engine.load({ model: new URL('https://example.com/model.gguf'), download, onProgress: ({ phase, loaded, total }) => console.log(phase satisfies string, loaded / total) });
  const generation: Generation = engine.generate([{ role: 'user', content: 'Hello' }], { maxTokens: 8 });
  for await (const delta of generation) console.log(delta.length);
  const result: GenerateResult = await generation;
  console.log(result.timings.decode_tok_s.toFixed(1));
  const stream: CompletionStream<ChatCompletionChunk> = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], stream: true });
  for await (const { choices } of stream) console.log(choices[0]?.delta.content?.length);
  const whole = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }] });
  const schema = { type: 'object', properties: { sky: { enum: ['blue', 'grey'] } } };
  const forced: GenerateResult = await engine.generate('The sky is', { schema, lenient: true });
  const grammar: CompiledGrammar = forced.grammar ?? (await engine.compileSchema(schema, { lenient: true }));
  const parsed = await engine.chat.completions.parse<{ sky: string }>({ messages: [{ role: 'user', content: 'Hello' }], response_format: { type: 'json_schema', json_schema: { name: 'sky', schema } } });
  console.log(parsed.choices[0]?.message.parsed?.sky.length, grammar.warnings.map(({ pointer, keyword, reason }) => pointer + keyword + reason));
  const usage: number = whole.usage!.total_tokens;
  const text: string = (await engine.completions.create({ prompt: 'Once' })).choices[0]!.text;
  const conversation: Conversation = await engine.fork();
  conversation.dispose();
  const plan: LoadPlan = await Engine.plan({ model: '/model.gguf' });
  const stored: StoredModel[] = await models.list();
  const info: EngineInfo = engine.info;
  engine.addEventListener('devicelost', ({ detail }) => console.log(detail.recovering satisfies boolean));
  const model: LanguageModelV4 = millrace(engine);
  const answer = await generateText({ model, prompt: 'Hello' });
  for await (const delta of streamText({ model: millrace(engine), prompt: 'Hello' }).textStream) console.log(delta.length, answer.text, usage, text, plan.fits, stored.length, info.version);
  // @ts-expect-error there is no such option
  await engine.generate('Hello', { maxToken: 8 });
  // @ts-expect-error a number is no model
  await Engine.load({ model: 1 });
  // @ts-expect-error a hook needs a model
  useChat({});
}

export function explain(error: unknown): string {
  if (!(error instanceof MillraceError)) return String(error);
  const code: ErrorCode = error.code;
  return code === 'NO_WEBGPU' ? error.message : code;
}

export function Chat(): string {
  const { status, messages, send, stop, retry, reset, progress, error, info }: UseChat = useChat({ model: '/model.gguf', enabled: false, generate: { temperature: 0 } });
  const now: ChatStatus = status;
  return [now, messages.length, send, stop, retry, reset, progress?.phase, error?.code, info?.model.name].join();
}
`;

for (const [moduleResolution, module] of [
  ['bundler', 'esnext'],
  ['nodenext', 'nodenext'],
]) {
  test(`a consumer's strict type check of the tarball, moduleResolution ${moduleResolution}`, async () => {
    writeFileSync(join(consumer, 'consumer.ts'), CODE);
    const config = {
      compilerOptions: {
        strict: true,
        exactOptionalPropertyTypes: true,
        target: 'es2022',
        lib: ['es2022', 'dom', 'dom.iterable', 'dom.asynciterable', 'esnext.disposable'],
        types: [],
        module,
        moduleResolution,
        noEmit: true,
        skipLibCheck: true,
      },
      files: ['consumer.ts'],
    };
    const name = `tsconfig.${moduleResolution}.json`;
    writeFileSync(join(consumer, name), JSON.stringify(config));
    const { code, output } = await run(process.execPath, [tsc, '-p', join(consumer, name)], {
      capture: true,
      check: false,
    });
    expect(output).toBe('');
    expect(code).toBe(0);
  });
}

test('the declarations check by themselves, without the libraries that are optional, in a plain configuration', async () => {
  writeFileSync(
    join(consumer, 'plain.ts'),
    "import { Engine } from 'millrace';\nexport const load = (): Promise<Engine> => Engine.load({ model: '/model.gguf' });\n",
  );
  const config = {
    compilerOptions: {
      strict: true,
      target: 'es2022',
      lib: ['es2022', 'dom'],
      types: [],
      module: 'esnext',
      moduleResolution: 'bundler',
      noEmit: true,
      skipLibCheck: false,
    },
    files: ['plain.ts'],
  };
  writeFileSync(join(consumer, 'tsconfig.plain.json'), JSON.stringify(config));
  const { output } = await run(process.execPath, [tsc, '-p', join(consumer, 'tsconfig.plain.json')], {
    capture: true,
    check: false,
  });
  expect(output).toBe('');
});

test('the tarball holds what its exports and declarations reach, and nothing that stays inside', () => {
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  const files = (readdirSync(installed, { recursive: true }) as string[])
    .filter((name) => /\.\w+$|LICENSE/.test(name))
    .sort();
  const reached = Object.values(manifest.exports as Record<string, string | Record<string, string>>).flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry),
  );
  for (const path of reached) expect(files).toContain(path.replace('./', ''));
  const declarations = files.filter((name) => name.endsWith('.d.ts'));
  for (const name of declarations) {
    const text = readFileSync(join(installed, name), 'utf8');
    expect(text, name).not.toMatch(/@internal|\.ts'/);
    for (const [, path] of text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)\.js'/g))
      expect(declarations, `${name} names ${path}`).toContain(join(name, '..', `${path}.d.ts`));
  }
  expect(declarations).not.toContain('millrace.d.ts');
  expect(manifest).toMatchObject({
    peerDependenciesMeta: { react: { optional: true }, '@ai-sdk/provider': { optional: true } },
    sideEffects: ['./worker.js'],
  });
  expect(JSON.stringify(manifest)).not.toMatch(/scripts|devDependencies/);
  expect(readFileSync(join(installed, 'react.js'), 'utf8')).toMatch(/^"use client";/);
  for (const name of ['react.js', 'ai-sdk.js']) {
    const imports = [...readFileSync(join(installed, name), 'utf8').matchAll(/^import [^"]* from "([^"]+)"/gm)].map(
      ([, from]) => from,
    );
    expect(imports.sort()).toEqual(name === 'react.js' ? ['./index.js', 'react'] : ['./index.js']);
  }
});

test('the build for browsers, imported elsewhere, says in each call where it is and what to do', async () => {
  writeFileSync(
    join(consumer, 'outside.mjs'),
    `import { Engine, models } from './node_modules/millrace/index.js';
     const said = (work) => work.then(() => null, ({ code, message }) => [code, message]);
     const caught = await said(Engine.load({ model: '/x.gguf' }));
     console.log(JSON.stringify([caught, await said(models.list()), await Engine.supported()]));`,
  );
  const { output, code } = await run(process.execPath, [join(consumer, 'outside.mjs')], {
    capture: true,
    check: false,
  });
  expect(code).toBe(0);
  const [load, list, support] = JSON.parse(output) as [[string, string], [string, string], { supported: boolean }];
  expect(load).toEqual(['NO_WEBGPU', expect.stringContaining('this is Node.js')]);
  expect(list).toEqual(['STORAGE', expect.stringContaining('this is Node.js')]);
  expect(support).toMatchObject({ supported: false, code: 'NO_WEBGPU', adapter: null, storage: { kept: false } });
});
