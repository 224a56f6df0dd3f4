/**
 * What comes piece by piece: an async iterable of the pieces, and a promise of the whole. Both may be used on the same object.
 */
export class Streamed<Piece, Result> implements AsyncIterable<Piece>, PromiseLike<Result> {
  readonly #pieces: Piece[] = [];
  readonly #result: Promise<Result>;
  readonly #stop: () => void;
  #settled = false;
  /** Resolves the iterators that wait for the next piece. */
  #wake: (() => void)[] = [];

  /** `start` begins the work and settles with the result. @internal */
  constructor(start: (onPiece: (piece: Piece) => void) => { result: Promise<Result>; stop: () => void }) {
    const { result, stop } = start((piece) => {
      this.#pieces.push(piece);
      this.#notify();
    });
    this.#stop = stop;
    this.#result = result;
    const settle = (): void => {
      this.#settled = true;
      this.#notify();
    };
    // A handler on a branch of its own: a failure that is neither iterated nor awaited still is an unhandled rejection,
    // as it should be. It waits a turn: the caller's `await` subscribes later than a request that is wrong from the
    // beginning rejects.
    void result.then(settle, async (error: unknown) => {
      settle();
      await new Promise((turn) => setTimeout(turn));
      if (!this.#observed) throw error;
    });
  }

  /** Whether the result is iterated or awaited, so that a failure is handled. */
  #observed = false;

  /** Ends it and keeps what there is: the result's finish reason is `abort`. */
  stop(): void {
    this.#stop();
  }

  /** The pieces from the first on. Every iterator sees all of them. */
  [Symbol.asyncIterator](): AsyncIterator<Piece, undefined> {
    let position = 0;
    let left = false;
    return {
      next: async () => {
        this.#observed = true;
        for (;;) {
          if (left) return { done: true, value: undefined };
          if (position < this.#pieces.length) return { done: false, value: this.#pieces[position++]! };
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
  then<A = Result, B = never>(
    onfulfilled?: ((result: Result) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#observed = true;
    return this.#result.then(onfulfilled, onrejected);
  }

  /** As a promise's. */
  catch<B = never>(onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<Result | B> {
    return this.then(null, onrejected);
  }

  /** As a promise's. */
  finally(onfinally?: (() => void) | null): Promise<Result> {
    this.#observed = true;
    return this.#result.finally(onfinally);
  }

  #notify(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }
}
