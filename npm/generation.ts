import { MillraceError } from './errors.ts';
import type { GenerateResult } from './types.ts';

/**
 * An answer while it is being written: an async iterable of pieces of text, and a promise of the whole result.
 *
 * ```js
 * for await (const delta of engine.generate(messages)) show(delta); // as it arrives
 * const { text } = await engine.generate(messages);                 // all of it
 * ```
 *
 * Both may be used on the same object. Leaving the loop (`break`, an exception) stops the generation; so does `stop()`: the
 * promise then resolves with what there is and `finish_reason: 'abort'`. An aborted `signal` instead rejects both with code
 * ABORTED, and `error.data.result` holds what there was.
 *
 * Because it is a promise too, returning it from an `async` function waits for the end: the caller gets the result, not the
 * stream. Return it from a function that is not `async`, or inside an object: `return { stream: engine.generate(messages) }`.
 */
export class Generation implements AsyncIterable<string>, PromiseLike<GenerateResult> {
  /** `Generation`. */
  readonly [Symbol.toStringTag] = 'Generation';
  readonly #deltas: string[] = [];
  readonly #result: Promise<GenerateResult>;
  readonly #stop: () => void;
  #settled = false;
  /** Resolves the iterators that wait for the next piece. */
  #wake: (() => void)[] = [];

  /** Made by {@link Engine.generate}: `start` begins the work and settles with the result. @internal */
  constructor(start: (onDelta: (text: string) => void) => { result: Promise<GenerateResult>; stop: () => void }) {
    const { result, stop } = start((text) => {
      this.#deltas.push(text);
      this.#notify();
    });
    this.#stop = stop;
    this.#result = result;
    const settle = (): void => {
      this.#settled = true;
      this.#notify();
    };
    // A handler on a branch of its own: if nobody iterates or awaits, a failure still is an unhandled rejection, as it should be. Not before
    // whoever has just been given this had a turn: `await` subscribes later than a request that is wrong from the beginning rejects.
    void result.then(settle, async (error: unknown) => {
      settle();
      await new Promise((turn) => setTimeout(turn));
      if (!this.#observed) throw error;
    });
  }

  /** Whether anybody will hear of a failure. */
  #observed = false;

  /** Ends the generation and keeps what there is: the result's finish reason is `abort`. */
  stop(): void {
    this.#stop();
  }

  /** The pieces of text from the first on. Every iterator sees all of them. */
  [Symbol.asyncIterator](): AsyncIterator<string, undefined> {
    let position = 0;
    let left = false;
    return {
      next: async () => {
        this.#observed = true;
        for (;;) {
          if (left) return { done: true, value: undefined };
          const delta = this.#deltas[position];
          if (delta !== undefined) {
            position += 1;
            return { done: false, value: delta };
          }
          if (this.#settled) {
            left = true;
            await this.#result;
            return { done: true, value: undefined };
          }
          await new Promise<void>((wake) => this.#wake.push(wake));
        }
      },
      return: async () => {
        this.#observed = true;
        left = true;
        this.#stop();
        this.#notify();
        return { done: true, value: undefined };
      },
    };
  }

  /** As a promise's: of the whole result. */
  // biome-ignore lint/suspicious/noThenProperty: being awaitable is the point
  then<A = GenerateResult, B = never>(
    onfulfilled?: ((result: GenerateResult) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#observed = true;
    return this.#result.then(onfulfilled, onrejected);
  }

  /** As a promise's. */
  catch<B = never>(onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<GenerateResult | B> {
    return this.then(null, onrejected);
  }

  /** As a promise's. */
  finally(onfinally?: (() => void) | null): Promise<GenerateResult> {
    this.#observed = true;
    return this.#result.finally(onfinally);
  }

  #notify(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }
}

/** What an aborted operation rejects with. @internal */
export function aborted(what: string, signal: AbortSignal | undefined, result?: GenerateResult): MillraceError {
  return new MillraceError('ABORTED', `${what} was aborted by its signal`, {
    cause: signal?.reason,
    data: result ? { result } : {},
  });
}
