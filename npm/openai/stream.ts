import { lines } from './lines.ts';

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
