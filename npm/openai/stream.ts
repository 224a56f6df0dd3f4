import { lines } from './lines.ts';

/** Ends the answer of a stream that is garbage collected, as an unreferenced connection is closed. */
const collected = new FinalizationRegistry<AbortController>((controller) => controller.abort());

/**
 * A streamed answer: an async iterable of chunks, as OpenAI's client has it. Leaving the loop stops the generation; so does
 * `controller.abort()`, and letting go of the stream.
 */
export class CompletionStream<T> implements AsyncIterable<T> {
  /** Aborting it ends the stream without an error. */
  readonly controller: AbortController;
  readonly #chunks: AsyncGenerator<T, void>;

  /** @internal */
  constructor(chunks: AsyncGenerator<T, void>, controller: AbortController) {
    this.#chunks = chunks;
    this.controller = controller;
    endsAtOnce(chunks, controller);
    collected.register(chunks, controller);
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

/** Lets `return` end a generator while its next chunk is awaited: by itself it would end only with that chunk. */
function endsAtOnce<T>(chunks: AsyncGenerator<T, void>, controller: AbortController): void {
  const { next, return: end } = chunks;
  let awaited = 0;
  chunks.next = async () => {
    awaited += 1;
    try {
      return await next.call(chunks);
    } finally {
      awaited -= 1;
    }
  };
  chunks.return = () => {
    if (awaited > 0) controller.abort();
    return end.call(chunks);
  };
}
