// An engine without a model, for tests of code that uses engines.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Engine } from '../../npm/engine.ts';
import { MillraceError } from '../../npm/errors.ts';
import { aborted, Generation } from '../../npm/generation.ts';
import { ChatCompletions } from '../../npm/openai/calls.ts';
import { Assembled } from '../../npm/parts.ts';
import { run, type RunOptions } from '../../npm/run.ts';
import type {
  AnswerPart,
  CompiledGrammar,
  GenerateOptions,
  GenerateResult,
  Input,
  TokenLogprobs,
} from '../../npm/types.ts';

/** A token of an answer: its text, or the parts that it completes, which may be none. */
type Said = string | AnswerPart[];

/** A thought, and a call in two tokens. */
export const thought = (text: string): AnswerPart[] => [{ type: 'reasoning', text }];
export const callOf = (name: string, ...text: string[]): AnswerPart[][] => [
  [{ type: 'tool_call', index: 0, id: 'c1', name }],
  ...text.map((text): AnswerPart[] => [{ type: 'arguments', index: 0, text }]),
  [{ type: 'tool_call_end', index: 0 }],
];

/** Resolves when the signal is aborted. */
const abortOf = (signal: AbortSignal | undefined): Promise<null> =>
  new Promise((done) => {
    if (signal?.aborted) done(null);
    signal?.addEventListener('abort', () => done(null), { once: true });
  });

/** The grammar of constrained answers. */
export const GRAMMAR = { states: 12, bytes: 3456, ms: 7 };

setFlagsFromString('--expose-gc');
/** Collects garbage. */
export const collect = runInNewContext('gc') as () => void;

/** An answer without an end: a piece for each call of `more()`. */
export class Endless {
  #asked = 0;
  #wake = (): void => {};

  constructor(first = 0) {
    this.#asked = first;
  }

  more(): void {
    this.#asked += 1;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void> {
    for (let said = 0; ; said += 1) {
      while (said >= this.#asked) await new Promise<void>((wake) => (this.#wake = wake));
      yield `${said} `;
    }
  }
}

/**
 * An engine with given answers, piece by piece, that records its requests. `onPiece` is called after each piece.
 * `stopped` counts the abandoned generations, `running` the running ones.
 */
export function fake(
  says: (Said[] | Endless | MillraceError)[],
  { thinks = false, templateOptions = [] as string[], onPiece = (): void => {} } = {},
) {
  const asked: { input: Input; options: GenerateOptions }[] = [];
  let stopped = 0;
  let running = 0;
  const engine = {
    info: {
      version: '0',
      lane: 'fast',
      model: { name: 'Test 1B', architecture: 'llama', thinks, template_options: templateOptions },
    },
    // `uniqueItems` is the tests' keyword that cannot be enforced.
    async compileSchema(schema: Record<string, unknown>, { lenient = false } = {}): Promise<CompiledGrammar> {
      const what = { pointer: '', keyword: 'uniqueItems', reason: 'an automaton cannot compare items' };
      if ('uniqueItems' in schema && !lenient)
        throw new MillraceError('UNSUPPORTED_SCHEMA', `${what.keyword}: ${what.reason}`, { data: what });
      return { ...GRAMMAR, warnings: 'uniqueItems' in schema ? [what] : [] };
    },
    generate(input: Input, options: GenerateOptions) {
      const answer = says[asked.length] ?? ['.'];
      asked.push({ input, options });
      return new Generation((onDelta) => {
        const halt = new AbortController();
        const result = (async (): Promise<GenerateResult> => {
          if (answer instanceof MillraceError) throw answer;
          const { schema, lenient = false } = options;
          const grammar = schema && (await engine.compileSchema(schema, { lenient }));
          let text = '';
          const said = new Assembled();
          const logprobs: TokenLogprobs[] = [];
          const over = Promise.race([halt.signal, options.signal].map(abortOf));
          const pieces = answer instanceof Endless ? answer[Symbol.asyncIterator]() : answer.values();
          for (let id = 0; ; id += 1) {
            const next = await Promise.race([pieces.next(), over]);
            if (next?.done) break;
            await new Promise((go) => setTimeout(go));
            if (options.signal?.aborted) throw aborted('generation', options.signal, { text, message: said.whole() });
            if (!next || halt.signal.aborted) break;
            const one = next.value;
            const parts: AnswerPart[] = typeof one === 'string' ? [{ type: 'content', text: one }] : one;
            const piece = parts.map((part) => ('text' in part ? part.text : '')).join('');
            text += piece;
            said.push(parts);
            // Each piece is a token.
            const token = { id, text: piece, bytes: [...Buffer.from(piece)], logprob: -id };
            logprobs.push({
              ...token,
              top: Array.from({ length: options.logprobs ?? 0 }, (_, n) => ({ ...token, text: `${n}`, logprob: -n })),
            });
            options.onTokens?.({
              text: piece,
              tokens: [id],
              parts,
              ...(options.logprobs === undefined ? {} : { logprobs: logprobs.slice(-1) }),
            });
            onDelta(piece);
            onPiece();
          }
          const count = logprobs.length;
          const finish = halt.signal.aborted ? 'abort' : options.maxTokens === count ? 'length' : 'stop';
          return {
            text,
            ...(Array.isArray(input) ? { message: said.whole() } : {}),
            tokens: Array.from({ length: count }, (_, i) => i),
            ...(options.logprobs === undefined ? {} : { logprobs }),
            ...(grammar ? { grammar } : {}),
            prompt_tokens: 10,
            cached_tokens: 4,
            context_tokens: 10 + count,
            drafted_tokens: 0,
            accepted_tokens: 0,
            finish_reason: finish,
            timings: { decode_tok_s: 5 },
          } as unknown as GenerateResult;
        })();
        running += 1;
        return {
          result: result.finally(() => (running -= 1)),
          stop: () => {
            stopped += 1;
            halt.abort();
          },
        };
      });
    },
  };
  Object.assign(engine, {
    run: (options: RunOptions) => run((input, rest) => engine.generate(input, rest), options),
    modelName: engine.info.model.name,
    chat: { completions: new ChatCompletions(engine as unknown as Engine) },
  });
  return { engine: engine as unknown as Engine, asked, stopped: () => stopped, running: () => running };
}
