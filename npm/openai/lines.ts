/** Options of a stream of bytes. */
interface Ends {
  /** Text after the last item. */
  last?: string;
  /** The text of a failure, which then ends the stream; without it the stream fails. */
  failed?: (error: unknown) => string;
  /** Aborting it fails the stream with its reason, and unread data is dropped: as with a response body of `fetch`. */
  signal?: AbortSignal | null | undefined;
}

/** The methods by which a generator is read. */
type Items<T> = Pick<AsyncGenerator<T, void>, 'next' | 'return'>;

/** The items as bytes, each by `text`; cancelling the stream ends them. @internal */
export function lines<T>(items: Items<T>, text: (item: T) => string, ends: Ends = {}): ReadableStream<Uint8Array> {
  return new ReadableStream(new Lines(items, text, ends));
}

class Lines<T> {
  readonly #items: Items<T>;
  readonly #text: (item: T) => string;
  readonly #ends: Ends;
  readonly #encoder = new TextEncoder();
  #stream: ReadableStreamDefaultController<Uint8Array> | null = null;
  #unfollow = (): void => {};

  constructor(items: Items<T>, text: (item: T) => string, ends: Ends) {
    this.#items = items;
    this.#text = text;
    this.#ends = ends;
  }

  start(stream: ReadableStreamDefaultController<Uint8Array>): void {
    this.#stream = stream;
    const { signal } = this.#ends;
    if (signal?.aborted) this.fail(signal.reason);
    else if (signal) this.#unfollow = follow(signal, new WeakRef(this));
  }

  async pull(): Promise<void> {
    const { last = '', failed } = this.#ends;
    try {
      const { done, value } = await this.#items.next();
      if (!done) return this.#write(this.#text(value));
      this.#write(last);
    } catch (error) {
      if (!failed) throw error;
      this.#write(failed(error));
    }
    this.#stream?.close();
    this.#end();
  }

  cancel(): void {
    this.#end();
  }

  fail(reason: unknown): void {
    this.#stream?.error(reason);
    this.#end();
  }

  #write(text: string): void {
    if (text !== '') this.#stream?.enqueue(this.#encoder.encode(text));
  }

  /** Ends the stream, without a wait for the items. */
  #end(): void {
    this.#stream = null;
    this.#unfollow();
    this.#items.return().catch(() => {});
  }
}

/** Fails a stream when the signal is aborted. A long-lived signal does not keep an abandoned stream alive. */
function follow(signal: AbortSignal, stream: WeakRef<{ fail(reason: unknown): void }>): () => void {
  const fail = (): void => stream.deref()?.fail(signal.reason);
  signal.addEventListener('abort', fail, { once: true });
  return () => signal.removeEventListener('abort', fail);
}
