import { MillraceError } from './errors.ts';
import { Streamed } from './streamed.ts';
import type { GenerateResult } from './types.ts';

/**
 * An answer while it is being written: an async iterable of pieces of text, and a promise of the whole result.
 *
 * ```js
 * for await (const delta of engine.generate(messages)) show(delta); // as it arrives
 * const { text } = await engine.generate(messages);                 // all of it
 * ```
 *
 * Both may be used on the same object. Leaving the loop (`break`, an exception) stops the generation; so does `stop()`: the
 * promise then resolves with what there is and `finish_reason: 'abort'`. An aborted `signal` instead rejects both with code
 * ABORTED, and `error.data.result` holds what there was.
 *
 * Because it is a promise too, returning it from an `async` function waits for the end: the caller gets the result, not the
 * stream. Return it from a function that is not `async`, or inside an object: `return { stream: engine.generate(messages) }`.
 */
export class Generation extends Streamed<string, GenerateResult> {
  /** `Generation`. */
  readonly [Symbol.toStringTag] = 'Generation';
}

/** What an aborted operation rejects with. @internal */
export function aborted(what: string, signal: AbortSignal | undefined, result?: object): MillraceError {
  return new MillraceError('ABORTED', `${what} was aborted by its signal`, {
    cause: signal?.reason,
    data: result ? { result } : {},
  });
}
