// What lies beside a model at an address of its own: a tokenizer, an adapter. Models themselves come through the engine's downloads.
import { MillraceError } from './errors.ts';
import { aborted } from './generation.ts';
import type { CustomFetch } from './types.ts';

/** How a file is fetched. */
interface Asking {
  fetch?: CustomFetch | undefined;
  signal?: AbortSignal | undefined;
  token?: string | undefined;
}

/** The answer of an address; `what` and `should` are what a message begins and ends with. Rejects with NOT_FOUND, NETWORK and ABORTED. @internal */
export async function fetched(
  what: string,
  url: string,
  { fetch, signal, token }: Asking,
  should = '',
): Promise<Response> {
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const get: CustomFetch = fetch ?? ((url, init) => globalThis.fetch(url, init));
  let response: Response;
  try {
    response = await get(url, { headers, signal: signal ?? new AbortController().signal });
  } catch (cause) {
    if (signal?.aborted) throw aborted('loading', signal);
    const message = `${what}: ${url} could not be fetched; its server must be reachable and allow this origin`;
    throw new MillraceError('NETWORK', message, { cause });
  }
  if (response.ok) return response;
  const { status } = response;
  throw new MillraceError(
    status === 404 ? 'NOT_FOUND' : 'NETWORK',
    `${what}: ${url} was answered with status ${status}${should}`,
    { data: { status } },
  );
}
