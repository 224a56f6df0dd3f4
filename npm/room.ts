// How much GPU memory the models of this page may take together, and what they take.
import { configured, log } from './configure.ts';
import { MillraceError } from './errors.ts';
import { phoneMemory } from './phone.ts';
import type { LoadOptions, LoadPlan } from './types.ts';

/** What a model takes with a full context and its adapters, in bytes: one that is loaded, or is about to be. @internal */
export interface Share {
  bytes: number;
}

const shares = new Set<Share>();

/** Bytes of all models that this page has loaded or is loading. */
const taken = (): number => [...shares].reduce((sum, { bytes }) => sum + bytes, 0);

/** Bytes that all of them may take; null where there is no telling. */
const allowed = (memory: number | undefined): number | null => memory ?? configured.memory ?? phoneMemory();

/** What a plan has to keep to. @internal */
export function roomOf(
  memory: number | undefined,
  beside: readonly LoadPlan[] = [],
): { memory?: number; beside: number } {
  const limit = allowed(memory);
  const planned = beside.map((plan, i) => {
    const bytes = plan.memory?.total;
    if (Number.isSafeInteger(bytes)) return bytes;
    throw new MillraceError('BAD_OPTION', `Engine.plan: beside: number ${i} is not what Engine.plan resolves to`);
  });
  const all = planned.reduce((sum, bytes) => sum + bytes, taken());
  return limit === null ? { beside: all } : { memory: limit, beside: all };
}

/** Ends the share of a model that is gone. @internal */
export function leave(share: Share): void {
  shares.delete(share);
}

/** Searches for room, one after the other: the second counts what the first one takes. */
let before: Promise<unknown> = Promise.resolve();

/** A model's share, and what makes it fit: a shorter context, if none was asked for. */
interface Place {
  share: Share;
  fitted: Pick<LoadOptions, 'context' | 'kv'>;
}

/**
 * Finds room for a model before it is loaded; without a memory limit every model fits. Rejects with OUT_OF_MEMORY where
 * nothing makes it fit: on a phone the system would end the page without an error.
 *
 * @internal
 */
export function enter(options: LoadOptions, planned: (options: LoadOptions) => Promise<LoadPlan>): Promise<Place> {
  if (allowed(options.memory) === null) return Promise.resolve(place(0));
  const found = before.then(() => find(options, planned));
  before = found.catch(() => {});
  return found;
}

function place(bytes: number, fitted: Place['fitted'] = {}): Place {
  const share = { bytes };
  shares.add(share);
  return { share, fitted };
}

async function find(options: LoadOptions, planned: (options: LoadOptions) => Promise<LoadPlan>): Promise<Place> {
  const { onProgress: _, ...asked } = options;
  if (asked.model instanceof Response) {
    if (asked.memory === undefined) return place(0);
    throw new MillraceError(
      'BAD_OPTION',
      'Engine.load: memory: a Response can be read only once, so its size cannot be checked first: give its URL',
    );
  }
  const { fits, problems, alternatives, memory } = await planned(asked);
  if (fits) return place(memory.total);
  const best = alternatives.find(({ kv }) => kv === (asked.kv ?? kv));
  const advice = best ? `context ${best.context} with kv ${best.kv} would fit` : 'load a smaller model';
  const others = memory.beside > 0 ? ', or dispose of an engine' : '';
  const where = (asked.memory ?? configured.memory) ? 'the models of this page' : 'a page on this phone';
  const message = `${where} may not take more: ${problems.join('; ')}; ${advice}${others}`;
  if (!best || asked.context !== undefined) throw new MillraceError('OUT_OF_MEMORY', message);
  log('warn', message);
  return place(best.total, { context: best.context, kv: best.kv });
}
