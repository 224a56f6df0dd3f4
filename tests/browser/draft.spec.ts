// Draft models in a page: loaded by address and as files, their drafts counted, planned for, kept, and refused where they do not fit.
import { content } from './faulty.ts';
import { test as downloads } from './downloads.ts';
import { bytesOf, expect, test } from './support.ts';

const MODEL = '/data/oracle/gguf-f32/model.gguf';
const DRAFT = '/data/oracle/gguf-q8_0/model.gguf';

test('a draft model changes no text, and tells what it drafted', async ({ blank }) => {
  const heard = await blank.evaluate(
    async ({ model, draft }) => {
      const tokens = Array.from({ length: 24 }, (_, i) => 3 + ((7 * i * i + 13 * i + 31) % 290));
      const asked = { ignoreEos: true, temperature: 0, maxTokens: 40 };
      const told: boolean[] = [];
      const onProgress = (progress: { draft?: boolean }) => told.push(progress.draft === true);
      const engine = await Engine.load({ model, draft, lane: 'exact', cache: false, onProgress });
      const alone = await engine.generate({ tokens }, { ...asked, speculate: 'off' });
      const drafted = await engine.generate({ tokens }, { ...asked, speculate: 'always' });
      const first = { tokens: alone.tokens, drafted: alone.drafted_tokens, info: engine.info };
      engine.dispose();
      const bytes = await (await fetch(draft)).blob();
      const files = await Engine.load({
        model,
        draft: { name: 'draft.gguf', data: bytes },
        lane: 'exact',
        cache: false,
      });
      const again = await files.generate({ tokens }, { ...asked, speculate: 'always' });
      files.dispose();
      const errors = [
        await failure(Engine.load({ model, draft: '/models/box.gguf', cache: false })),
        await failure(Engine.load({ model, draft: '/data/oracle/nothing.gguf', cache: false })),
        await failure(Engine.load({ model, draft: [], cache: false } as never)),
        await failure(Engine.load({ model, draft: new Response('x'), cache: false })),
      ];
      return { first, drafted, again: again.tokens, errors, told };
    },
    { model: MODEL, draft: DRAFT },
  );
  const { first, drafted, again, errors, told } = heard;
  expect(drafted.tokens).toEqual(first.tokens);
  expect(again).toEqual(first.tokens);
  expect(first.drafted).toBe(0);
  expect(drafted.drafted_tokens).toBeGreaterThan(20);
  expect(drafted.accepted_tokens).toBeGreaterThan(10);
  expect(first.info.draft).toMatchObject({ architecture: 'llama', vocab: 301 });
  expect(first.info.warnings.join()).toContain('draft model');
  // The draft model comes after the model.
  expect(told).toContain(true);
  expect(told.lastIndexOf(false)).toBeLessThan(told.indexOf(true));
  expect(errors.map((error) => error?.code)).toEqual(['BAD_OPTION', 'NOT_FOUND', 'BAD_OPTION', 'BAD_OPTION']);
  for (const error of errors.filter((_, i) => i !== 1)) expect(error?.message).toContain('draft');
});

downloads('both models are kept, planned for, and in use', async ({ tab, faulty }) => {
  faulty.put('/drafted.gguf', content(bytesOf(`tests${MODEL}`)));
  faulty.put('/draft.gguf', content(bytesOf(`tests${DRAFT}`)));
  faulty.put('/foreign.gguf', content(bytesOf('www/models/box.gguf')));
  const named = { model: `${faulty.url}/drafted.gguf`, draft: `${faulty.url}/draft.gguf` };
  const heard = await tab.evaluate(
    async ({ model, draft, other }) => {
      const alone = await Engine.plan({ model });
      const both = await Engine.plan({ model, draft });
      const limit = { memory: alone.memory.total + 1000 };
      const tight = await Engine.plan({ model, draft, ...limit });
      const refused = await failure(Engine.load({ model, draft, context: 512, ...limit }));
      // Of another vocabulary: its header alone is fetched.
      const wrong = await failure(Engine.load({ model, draft: other }));
      const kept = (await models.list()).map(({ url }) => url);
      const engine = await Engine.load({ model, draft });
      const used = await failure(models.remove(draft));
      const list = (await models.list()).filter(({ complete }) => complete).map(({ url }) => url);
      engine.dispose();
      await models.remove(draft);
      return { alone, both, tight, refused, wrong, kept, used, list };
    },
    { ...named, other: `${faulty.url}/foreign.gguf` },
  );
  const { alone, both, tight, refused, wrong, kept, used, list } = heard;
  expect(alone.memory.draft).toBe(0);
  expect(both.memory.draft).toBeGreaterThan(100_000);
  expect(both.memory.total).toBe(alone.memory.total + both.memory.draft);
  expect(both.draft).toMatchObject({ memory: { total: both.memory.draft }, model: { architecture: 'llama' } });
  expect([both.fits, tight.fits]).toEqual([true, false]);
  expect(tight.problems.join()).toContain('draft: it needs');
  expect(refused?.code).toBe('OUT_OF_MEMORY');
  expect([wrong?.code, wrong?.message]).toEqual(['BAD_OPTION', expect.stringContaining('vocabulary')]);
  expect(kept).not.toContain(`${faulty.url}/foreign.gguf`);
  expect([...list].sort()).toEqual([named.draft, named.model]);
  expect(used?.code).toBe('STORAGE');
});
