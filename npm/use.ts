// Which stored models engines use, in all tabs of a site: a shared lock of the browser's for each, which ends with the tab at the latest.
import { MillraceError } from './errors.ts';

/** How long a disposed engine may take to release its lock, in milliseconds. */
const PATIENCE_MS = 500;

const lockOf = (url: string): string => `millrace:use:${url}`;

/** Notes that an engine uses the model of an address, until what this returns is called. @internal */
export function use(url: string): () => void {
  let release = (): void => {};
  const used = new Promise<void>((done) => (release = done));
  // Without a lock all works: the model can only be removed meanwhile.
  navigator.locks?.request(lockOf(url), { mode: 'shared' }, () => used).catch(() => {});
  return release;
}

/** Does something with a stored model that no engine may use meanwhile: STORAGE where one does. @internal */
export async function unlessUsed<T>(url: string, work: () => Promise<T>): Promise<T> {
  if (!navigator.locks) return work();
  let granted = false;
  const first = (): Promise<T> => {
    granted = true;
    return work();
  };
  for (;;) {
    try {
      return (await navigator.locks.request(lockOf(url), { signal: AbortSignal.timeout(PATIENCE_MS) }, first)) as T;
    } catch (error) {
      if (granted) throw error;
      const locks = await navigator.locks.query().catch(() => null);
      // A page of no origin has none, and stores nothing.
      if (!locks) return work();
      const { held = [] } = locks;
      // Only a shared lock is an engine's: an exclusive one, of another removal or replacement, is waited for.
      if (!held.some(({ name, mode }) => name === lockOf(url) && mode === 'shared')) continue;
      throw new MillraceError(
        'STORAGE',
        `${url} is in use by another engine or tab; dispose of the engine or close the tab, and try again`,
        { cause: error, data: { in_use: true } },
      );
    }
  }
}
