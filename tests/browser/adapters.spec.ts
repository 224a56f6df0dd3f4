// Adapters in a page: loaded by address and as files, several in one engine, told apart by requests, and refused where they do not fit.
import { bytesOf, expect, test } from './support.ts';

const MODEL = '/data/oracle/hf-single/model/';
interface Expected {
  prompt: number[];
  greedy: number[];
  alone: number[];
}
const expected = (name: string): Expected =>
  JSON.parse(bytesOf(`tests/data/lora/${name}/expected.json`).toString()) as Expected;

test('adapters answer as PEFT does, each where it is asked for', async ({ blank }) => {
  const [all, two] = [expected('llama-all'), expected('llama-two')];
  const heard = await blank.evaluate(
    async ({ model, all, two }) => {
      const engine = await Engine.load({ model, lane: 'exact', cache: false, concurrency: 3 });
      const write = async ({ prompt, greedy }: Expected, adapter?: string | { name: string; scale?: number }) => {
        const options = { ignoreEos: true, temperature: 0, maxTokens: greedy.length };
        return (await engine.generate({ tokens: prompt }, { ...options, ...(adapter ? { adapter } : {}) })).tokens;
      };
      const phases: string[] = [];
      const onProgress = ({ phase }: { phase: string }) => phases.push(phase);
      const loaded = [
        await engine.adapters.load('/data/lora/llama-all/adapter.gguf', { name: 'all', onProgress }),
        await engine.adapters.load('/data/lora/llama-two/peft/'),
      ];
      const blob = async (name: string) => ({
        name,
        data: await (await fetch(`/data/lora/llama-two/peft/${name}`)).blob(),
      });
      const files = await Promise.all(['adapter_config.json', 'adapter_model.safetensors'].map(blob));
      loaded.push(await engine.adapters.load(files, { name: 'from files' }));
      // At the same time, in one engine.
      const texts = await Promise.all([
        write(all, 'all'),
        write(two, { name: 'peft' }),
        write(all),
        write(all, { name: 'all', scale: 0 }),
        write(two, { name: 'from files', scale: 1 }),
      ]);
      const list = engine.adapters.list.map(({ name }) => name);
      const shared = await engine.chat.completions.create({
        messages: [{ role: 'user', content: 'x' }],
        max_completion_tokens: 1,
        adapter: 'all',
      });
      await engine.adapters.unload('peft');
      const errors = [
        await failure(write(two, 'peft')),
        await failure(write(two, { name: 'all', scale: 1000 })),
        await failure(write(two, { name: 'all', sclae: 1 } as never)),
        await failure(engine.adapters.load('/data/lora/llama-two/peft/', { name: 'all' })),
        await failure(engine.adapters.load('/data/lora/nothing/')),
        await failure(engine.adapters.load('/data/lora/phi3/peft/', { name: 'other' })),
        await failure(engine.adapters.load('/data/lora/phi3/peft/', { nmae: 'x' } as never)),
        await failure(engine.adapters.load('/data/lora/phi3/peft/', { signal: AbortSignal.abort() })),
        await failure(engine.adapters.unload('peft')),
      ];
      const after = await write(all, 'all');
      const left = engine.info.adapters.map(({ name }) => name);
      engine.dispose();
      return {
        loaded,
        phases,
        texts,
        list,
        left,
        errors: errors.map((error) => error?.code),
        said: errors[0]?.message,
        shared: shared.choices.length,
        after,
      };
    },
    { model: MODEL, all, two },
  );
  expect(heard.loaded.map(({ name, rank }) => [name, rank])).toEqual([
    ['all', 64],
    ['peft', 4],
    ['from files', 4],
  ]);
  expect(heard.phases).toEqual(['download']);
  expect(heard.texts).toEqual([all.greedy, two.greedy, all.alone, all.alone, two.greedy]);
  expect(heard.after).toEqual(all.greedy);
  expect(heard.list).toEqual(['all', 'peft', 'from files']);
  expect(heard.left).toEqual(['all', 'from files']);
  expect(heard.shared).toBe(1);
  expect(heard.errors).toEqual([
    'BAD_OPTION',
    'BAD_OPTION',
    'BAD_OPTION',
    'BAD_OPTION',
    'NOT_FOUND',
    'BAD_MODEL',
    'BAD_OPTION',
    'ABORTED',
    'BAD_OPTION',
  ]);
  expect(heard.said).toContain('loaded are all, from files');
});
