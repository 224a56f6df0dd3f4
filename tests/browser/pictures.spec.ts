// Pictures in messages, from a page's objects to tokens, against transformers on a small random model
// (tests/data/oracle/lfm2vl-hf).
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Message, MessagePart, MillraceError } from '../../npm/index.ts';
import { before } from './downloads.ts';
import { bytesOf, expect, root, test } from './support.ts';

interface Chats {
  chats: {
    messages: Message[];
    pictures: { width: number; height: number; seed: number }[];
    prompt: number[];
    greedy: number[];
  }[];
}

const FOLDER = 'tests/data/oracle/lfm2vl-hf';
const { chats } = JSON.parse(bytesOf(`${FOLDER}/chats.json`).toString()) as Chats;
const FILES = readdirSync(join(root, FOLDER, 'model'));

test('conversations with pictures are those of transformers, whatever form the pictures come in', async ({ blank }) => {
  const found = await blank.evaluate(
    async ({ chats, names }) => {
      const files = await Promise.all(
        names.map(async (name) => ({ name, data: await (await fetch(`/data/oracle/lfm2vl-hf/model/${name}`)).blob() })),
      );
      const engine = await Engine.load({ model: files, lane: 'exact', device: 'cpu', cache: false });
      const pixels = ({ width, height, seed }: (typeof chats)[number]['pictures'][number]): ImageData => {
        const image = new ImageData(width, height);
        for (let y = 0; y < height; y += 1)
          for (let x = 0; x < width; x += 1)
            for (let c = 0; c < 4; c += 1)
              image.data[(y * width + x) * 4 + c] =
                c === 3 ? 255 : (x * (3 + seed) + y * (5 + c) + ((x * y) >> 3) + seed * 17 + c * 60) % 256;
        return image;
      };
      const canvasOf = (image: ImageData): HTMLCanvasElement => {
        const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
        canvas.getContext('2d')!.putImageData(image, 0, 0);
        return canvas;
      };
      const forms: Record<string, (image: ImageData) => Promise<MessagePart>> = {
        pixels: async (image) => ({ type: 'image', image }),
        canvas: async (image) => ({ type: 'image', image: canvasOf(image) }),
        frame: async (image) => ({ type: 'image', image: new VideoFrame(canvasOf(image), { timestamp: 0 }) }),
        bitmap: async (image) => ({ type: 'image', image: await createImageBitmap(image) }),
        blob: async (image) => ({
          type: 'image',
          image: await new Promise<Blob>((resolve) => canvasOf(image).toBlob((blob) => resolve(blob!), 'image/png')),
        }),
        address: async (image) => {
          const blob = await new Promise<Blob>((resolve) =>
            canvasOf(image).toBlob((made) => resolve(made!), 'image/png'),
          );
          return { type: 'image_url', image_url: URL.createObjectURL(blob) };
        },
        element: async (image) => {
          const shown = new Image();
          shown.src = canvasOf(image).toDataURL('image/png');
          await shown.decode();
          return { type: 'image', image: shown };
        },
        data: async (image) => ({ type: 'image_url', image_url: { url: canvasOf(image).toDataURL('image/png') } }),
      };
      const results = [];
      for (const [i, { messages, pictures }] of chats.entries())
        for (const [form, part] of Object.entries(forms)) {
          if (i > 0 && form !== 'pixels' && form !== 'data') continue;
          const shown = pictures.map(pixels);
          const filled = [];
          for (const message of messages) {
            if (typeof message.content === 'string') {
              filled.push(message);
              continue;
            }
            const parts: MessagePart[] = [];
            for (const one of message.content as unknown as MessagePart[])
              parts.push(one.type === 'text' ? one : await part(shown.shift()!));
            filled.push({ ...message, content: parts });
          }
          const prompt = await engine.tokenize(filled as Message[]);
          const { tokens, prompt_tokens } = await engine.generate(filled as Message[], {
            maxTokens: 12,
            temperature: 0,
            ignoreEos: true,
          });
          results.push({ form, i, prompt, tokens: [...tokens], prompt_tokens });
        }
      const completion = await engine.chat.completions.create({
        messages: [
          {
            role: 'user',
            content: [
              {
                type: 'image_url',
                image_url: { url: canvasOf(pixels(chats[0]!.pictures[0]!)).toDataURL(), detail: 'low' },
              },
              { type: 'text', text: 'What turns the wheel?' },
            ],
          },
        ],
        max_tokens: 3,
        temperature: 0,
      });
      const sizes = await Promise.all(
        chats.flatMap(({ pictures }) => pictures).map(({ width, height }) => engine.imageTokens(width, height)),
      );
      const noSize = await engine.imageTokens(0, 5).then(
        () => 'nothing',
        (error: unknown) => (error as MillraceError).code,
      );
      const wrong = async (image: unknown): Promise<string> =>
        engine.generate([{ role: 'user', content: [{ type: 'image', image } as MessagePart] }], { maxTokens: 1 }).then(
          () => 'nothing',
          (error: unknown) => `${(error as MillraceError).code}: ${(error as MillraceError).message}`,
        );
      const large = canvasOf(pixels({ width: 1024, height: 768, seed: 1 })).toDataURL();
      const counted = (...content: MessagePart[]) => engine.countTokens([{ role: 'user', content }]);
      const counts: Record<string, number> = {
        none: await counted({ type: 'image_url', image_url: { url: large } }),
        small: await counted({ type: 'image', image: pixels({ width: 512, height: 384, seed: 1 }) }),
      };
      // What is smaller is another picture: the probabilities behind it are others.
      const after: Record<string, number> = {};
      for (const detail of ['low', 'high', 'auto']) {
        const part: MessagePart = { type: 'image_url', image_url: { url: large, detail } };
        counts[detail] = await counted(part);
        const asked = { maxTokens: 1, temperature: 0, ignoreEos: true, logprobs: 1 };
        after[detail] = (await engine.generate([{ role: 'user', content: [part] }], asked)).logprobs![0]!.logprob;
      }
      const noDetail = await counted({ type: 'image_url', image_url: { url: large, detail: 'lots' } }).catch(
        (error: unknown) => `${(error as MillraceError).code}: ${(error as MillraceError).message}`,
      );
      const errors = [
        await wrong(new Blob(['no picture'], { type: 'image/jpeg' })),
        await wrong('/data/nothing-here.png'),
        await wrong({ width: 0, height: 5, data: new Uint8Array(0) }),
        await wrong(7),
      ];
      // A picture in a tool's result is read as one in a question: if it were not, the prompt's text would be the same
      // but the answer another.
      const shown = pixels({ width: 64, height: 64, seed: 2 });
      const called = (content: Message['content'] | MessagePart[]): Message[] => [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: null, tool_calls: [{ id: 'a', function: { name: 'look', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: 'a', name: 'look', content: content as string },
      ];
      const parts = (image: ImageData): MessagePart[] => [
        { type: 'text', text: 'Seen:' },
        { type: 'image', image },
      ];
      const greedy = { maxTokens: 1, temperature: 0, ignoreEos: true, logprobs: 1 };
      const seen = async (content: Message['content'] | MessagePart[]) => {
        const { prompt_tokens, logprobs } = await engine.generate(called(content), greedy);
        return [prompt_tokens, logprobs![0]!.logprob] as const;
      };
      const tool = [
        await seen('Seen:'),
        await seen(parts(shown)),
        await seen(parts(pixels({ width: 64, height: 64, seed: 3 }))),
        [await engine.imageTokens(64, 64), 0],
      ];
      // An abort once a part of a picture is encoded: the picture is read whole when it is shown again. The native tests
      // see to where it takes effect; here it may come later, but before the last token.
      const ask = (one: typeof engine, options: Parameters<typeof engine.generate>[1]) =>
        one.generate(
          [{ role: 'user', content: [{ type: 'image', image: pixels({ width: 96, height: 96, seed: 7 }) }] }],
          { ...greedy, ...options },
        );
      const looks: { loaded: number; total: number }[] = [];
      const controller = new AbortController();
      const again = await Engine.load({ model: files, lane: 'exact', device: 'cpu', cache: false });
      const aborted = await ask(again, {
        maxTokens: 400,
        signal: controller.signal,
        onProgress: ({ phase, loaded, total }) => {
          if (phase !== 'pictures') return;
          looks.push({ loaded, total });
          controller.abort();
        },
      }).then(
        () => 'nothing',
        (error: unknown) => (error as Error).name,
      );
      const texts = await Promise.all([again, engine].map(async (one) => (await ask(one, { maxTokens: 8 })).text));
      await again.dispose();
      const left = { looks, aborted, texts };
      const without = await Engine.load({ model: '/models/box.gguf', device: 'cpu', cache: false });
      const text = await without
        .generate([{ role: 'user', content: [{ type: 'image', image: pixels({ width: 9, height: 9, seed: 1 }) }] }])
        .then(
          () => 'nothing',
          (error: unknown) => `${(error as MillraceError).code}: ${(error as MillraceError).message}`,
        );
      const given = await Promise.all(
        ['model.gguf', 'mmproj-model.gguf'].map(async (name) => ({
          name,
          data: await (await fetch(`/data/oracle/lfm2vl-gguf/${name}`)).blob(),
        })),
      );
      const both = await Engine.load({ model: given, lane: 'exact', device: 'cpu', cache: false });
      const gguf = {
        pictures: [both, without].map(({ info }) => info.model.pictures),
        // A file without sizes: at least 64 rows, and the two tokens around them.
        size: await both.imageTokens(64, 64),
        read: (
          await both.generate(
            [{ role: 'user', content: [{ type: 'image', image: pixels({ width: 64, height: 64, seed: 1 }) }] }],
            { maxTokens: 2, ignoreEos: true },
          )
        ).tokens.length,
      };
      await both.dispose();
      await engine.dispose();
      await without.dispose();
      return {
        results,
        sizes,
        noSize,
        counts,
        after,
        noDetail,
        usage: completion.usage!.prompt_tokens,
        errors,
        text,
        gguf,
        tool,
        left,
      };
    },
    { chats, names: FILES },
  );
  for (const { form, i, prompt, tokens, prompt_tokens } of found.results) {
    expect(prompt, `${form}, chat ${i}`).toEqual(chats[i]!.prompt);
    expect(tokens, `${form}, chat ${i}`).toEqual(chats[i]!.greedy);
    expect(prompt_tokens).toBe(chats[i]!.prompt.length);
  }
  expect(found.results.length).toBe(8 + 2 * (chats.length - 1));
  expect(found.gguf).toEqual({ pictures: [true, false], size: 66, read: 2 });
  // The names of tiles are tokens, too.
  // From the token before a picture to the one behind it.
  const [start, end] = [302, 303];
  const sizes = chats.flatMap(({ prompt }) =>
    prompt.flatMap((id, at) => (id === start ? [prompt.indexOf(end, at) - at + 1] : [])),
  );
  expect(found.sizes).toEqual(sizes);
  expect(found.noSize).toBe('BAD_OPTION');
  const { none, small, low, high, auto } = found.counts as Record<string, number>;
  expect([high, auto, low]).toEqual([none, none, small]);
  expect(found.after.auto).toBe(found.after.high);
  expect(found.after.low).not.toBe(found.after.high);
  expect(found.noDetail).toMatch(/^BAD_OPTION: .*the detail "lots"/);
  expect(found.usage).toBe(chats[0]!.prompt.length);
  const [broken, missing, empty, other] = found.errors;
  expect(broken).toMatch(/^BAD_OPTION: .*picture 0: it cannot be decoded/);
  expect(missing).toMatch(/^BAD_OPTION: .*picture 0: .*404/);
  expect(empty).toMatch(/^BAD_OPTION: .*pictures must be pixels/);
  expect(other).toMatch(/^BAD_OPTION: .*must have an image/);
  const [plain, pictured, changed, tokens] = found.tool.map(([count, logprob]) => ({
    count: count!,
    logprob: logprob!,
  }));
  expect(pictured!.count).toBe(plain!.count + tokens!.count);
  expect(changed!.count).toBe(pictured!.count);
  expect(changed!.logprob).not.toBe(pictured!.logprob);
  expect(found.text).toMatch(/^UNSUPPORTED_MODEL: .*does not read pictures/);
  const { looks, aborted, texts } = found.left;
  expect(looks[0]!.loaded).toBeLessThan(looks[0]!.total);
  expect(aborted).toBe('AbortError');
  expect(texts[0]).toBe(texts[1]);
});

test('a picture is decoded once for all turns, whatever it comes as; the oldest make room', async ({ blank, site }) => {
  before(
    site,
    'const decode = self.createImageBitmap; self.createImageBitmap = (...given) => { console.info("decoded"); return decode.apply(self, given); };',
  );
  let count = 0;
  blank.on('console', (message) => void (message.text() === 'decoded' && (count += 1)));
  const counts = await blank.evaluateHandle(async (names) => {
    const model = await Promise.all(
      names.map(async (name) => ({ name, data: await (await fetch(`/data/oracle/lfm2vl-hf/model/${name}`)).blob() })),
    );
    const engine = await Engine.load({ model, lane: 'exact', device: 'cpu', cache: false });
    const encoded = async (width: number, height: number, colour: string): Promise<Blob> => {
      const canvas = Object.assign(document.createElement('canvas'), { width, height });
      const context = canvas.getContext('2d')!;
      context.fillStyle = colour;
      context.fillRect(0, 0, width, height);
      return new Promise<Blob>((done) => canvas.toBlob((blob) => done(blob!), 'image/png'));
    };
    const ask = (...images: (Blob | string)[]) =>
      engine.tokenize([{ role: 'user', content: images.map((image) => ({ type: 'image' as const, image })) }]);
    return { ask, encoded };
  }, FILES);
  const small = await counts.evaluateHandle(({ encoded }) => encoded(40, 32, 'red'));
  const first = await counts.evaluate(async ({ ask }, small) => {
    const url = URL.createObjectURL(small);
    const again = new Blob([await small.arrayBuffer()], { type: 'image/png' });
    return [await ask(small), await ask(small, again), await ask(url)].map(({ length }) => length);
  }, small);
  await expect.poll(() => count).toBe(1);
  expect(first[0]).toBe(first[2]);
  // 3,000 x 3,000 pixels are 36 MB: the cache keeps the latest of two such pictures, and not the small one.
  const large = await counts.evaluateHandle(({ encoded }) =>
    Promise.all(['green', 'blue'].map((c) => encoded(3000, 3000, c))),
  );
  await counts.evaluate(async ({ ask }, [green, blue]) => {
    await ask(green!);
    await ask(blue!);
    await ask(blue!);
  }, large);
  await expect.poll(() => count).toBe(3);
  await counts.evaluate(({ ask }, small) => ask(small), small);
  await expect.poll(() => count).toBe(4);
});
