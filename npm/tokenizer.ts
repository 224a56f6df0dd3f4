// A tokenizer.json that is given beside a model: read here, kept by its address for when there is no network.
import type { MillraceError } from './errors.ts';
import { fetched } from './fetched.ts';
import { absolute } from './options.ts';
import type { LoadOptions } from './types.ts';

const CACHE = 'millrace-tokenizers';

/** The bytes of a tokenizer, where one is given. @internal */
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
    response = await fetched(`${where}: tokenizer`, url, { fetch, signal });
    await kept?.put(url, response.clone()).catch(() => {});
  } catch (error) {
    const { code, data } = error as MillraceError;
    const unreachable = code === 'NETWORK' && data.status === undefined;
    const earlier = unreachable ? await kept?.match(url) : undefined;
    if (!earlier) throw error;
    response = earlier;
  }
  return { tokenizer: new Uint8Array(await response.arrayBuffer()) };
}
