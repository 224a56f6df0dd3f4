// The implementation of `embeddings.create`.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import type { EmbedOptions } from '../types.ts';
import { otherModel } from './params.ts';
import type { EmbeddingParams, EmbeddingResponse, RequestOptions } from './types.ts';

const WHERE = 'embeddings.create';
const KNOWN = ['input', 'model', 'dimensions', 'encoding_format', 'prompt', 'user'];

/** The error of a wrong parameter, with its name in `data` for `engine.fetch`. */
const wrong = (option: string, what: string): MillraceError =>
  new MillraceError('BAD_OPTION', `${WHERE}: ${option} ${what}`, { data: { option } });

/** Embeds texts, in OpenAI's shapes. Parameters that are null count as absent. */
export async function embeddings(
  engine: Engine,
  params: EmbeddingParams,
  { signal }: RequestOptions = {},
): Promise<EmbeddingResponse> {
  const loaded = engine.modelName;
  if (typeof params !== 'object' || params === null)
    throw new MillraceError('BAD_OPTION', `${WHERE}: the parameters must be an object`);
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined);
  const unknown = given.find(([name]) => !KNOWN.includes(name))?.[0];
  if (unknown !== undefined)
    throw wrong(unknown, `is not a parameter that can be honoured here (known: ${KNOWN.join(', ')})`);
  const { input, model, encoding_format: format = 'float', user: _, ...options } = Object.fromEntries(given);
  if (model !== undefined && model !== loaded) throw otherModel(WHERE, model, loaded);
  if (format !== 'float' && format !== 'base64') throw wrong('encoding_format', 'must be float or base64');
  const isText = (text: unknown): boolean => typeof text === 'string' && text !== '';
  if (!isText(input) && !(Array.isArray(input) && input.length > 0 && input.every(isText)))
    throw wrong('input', 'must be a text or a list of texts that are not empty; tokens are not taken');
  const { vectors, tokens } = await engine.embed(input as string | string[], {
    ...(options as EmbedOptions),
    ...(signal ? { signal } : {}),
  });
  const data = vectors.map((vector, index) => ({
    object: 'embedding' as const,
    index,
    embedding: format === 'float' ? Array.from(vector) : base64(vector),
  }));
  return { object: 'list', data, model: loaded, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

/** Machines with WebAssembly are little-endian. */
function base64(vector: Float32Array): string {
  return btoa(Array.from(new Uint8Array(vector.buffer), (byte) => String.fromCharCode(byte)).join(''));
}
