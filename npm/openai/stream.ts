/**
 * A streamed answer: an async iterable of chunks, as OpenAI's client has it. Leaving the loop stops the generation; so does
 * `controller.abort()`.
 */
export class CompletionStream<T> implements AsyncIterable<T> {
  /** Aborting it ends the stream, which then is over without an error. */
  readonly controller: AbortController;
  readonly #chunks: AsyncGenerator<T, void>;

  /** @internal */
  constructor(chunks: AsyncGenerator<T, void>, controller: AbortController) {
    this.#chunks = chunks;
    this.controller = controller;
  }

  /** The chunks, once: leaving the loop ends them. */
  [Symbol.asyncIterator](): AsyncIterator<T, void> {
    return this.#chunks;
  }

  /** The chunks as lines of JSON, which OpenAI's client reads with `Stream.fromReadableStream`. */
  toReadableStream(): ReadableStream<Uint8Array> {
    return lines(this.#chunks, (chunk) => `${JSON.stringify(chunk)}\n`);
  }
}

/** The items as bytes, each by `text`; cancelling it ends them. `last`, and what to write of a failure, for those who need them. @internal */
export function lines<T>(
  items: AsyncGenerator<T, void>,
  text: (item: T) => string,
  last = '',
  failed?: (error: unknown) => string,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await items.next();
        if (!done) return controller.enqueue(encoder.encode(text(value)));
        if (last !== '') controller.enqueue(encoder.encode(last));
      } catch (error) {
        if (!failed) throw error;
        controller.enqueue(encoder.encode(failed(error)));
      }
      controller.close();
    },
    async cancel() {
      await items.return();
    },
  });
}
