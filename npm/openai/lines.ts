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
