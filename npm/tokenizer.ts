// A tokenizer.json that is given beside a model: read here, kept by its address for when there is no network.
import { MillraceError } from './errors.ts';
import { absolute } from './options.ts';
import type { LoadOptions } from './types.ts';

const CACHE = 'millrace-tokenizers';

/** Its bytes, where one is given. @internal */
export async function tokenizerOf(
  where: string,
  { tokenizer, cache, signal, fetch }: Pick<LoadOptions, 'tokenizer' | 'cache' | 'signal' | 'fetch'>,
): Promise<{ tokenizer?: Uint8Array<ArrayBuffer> }> {
  if (tokenizer === undefined) return {};
  if (tokenizer instanceof Blob) return { tokenizer: new Uint8Array(await tokenizer.arrayBuffer()) };
  const url = absolute(where, 'tokenizer', tokenizer);
  // Private windows have none.
  const kept = cache === false ? null : await globalThis.caches?.open(CACHE).catch(() => null);
  let response: Response;
  try {
    response = await (fetch ?? globalThis.fetch)(url, { headers: {}, signal: signal ?? new AbortController().signal });
    if (!response.ok)
      throw new MillraceError(
        response.status === 404 ? 'NOT_FOUND' : 'NETWORK',
        `${where}: tokenizer: ${url} was answered with status ${response.status}`,
        { data: { status: response.status } },
      );
    await kept?.put(url, response.clone()).catch(() => {});
  } catch (cause) {
    if (signal?.aborted) throw new MillraceError('ABORTED', 'loading was aborted', { cause: signal.reason });
    const earlier = cause instanceof MillraceError ? undefined : await kept?.match(url);
    if (!earlier) {
      if (cause instanceof MillraceError) throw cause;
      const message = `${where}: tokenizer: ${url} could not be fetched; its server must be reachable and allow this origin`;
      throw new MillraceError('NETWORK', message, { cause });
    }
    response = earlier;
  }
  return { tokenizer: new Uint8Array(await response.arrayBuffer()) };
}
