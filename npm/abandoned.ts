// Locks of Workers whose page is gone. The browser frees the locks of a Worker that ends; but a Worker whose thread is
// blocked for ever, as by a write into storage that was cleared meanwhile, never ends, even when it has been terminated
// or its page is gone. So each Worker holds a lock that names it, and its page another for as long as it listens: where
// the first is held and the second is not, the Worker's locks are taken away.

const WORKER = 'millrace:worker:';
const PAGE = 'millrace:page:';
/** Held while locks are taken away, so that no other tab acquires one of them meanwhile. */
const TAKING = 'millrace:taking';
/** For how long a Worker must have been seen without its page, in milliseconds: one that can end does so sooner. */
const PATIENCE_MS = 4000;

/** When this page first saw Workers without their pages, by name. */
const seen = new Map<string, number>();

/**
 * Holds the page's lock for a Worker until what this returns is called; `tell` is called with the name of the lock that the Worker is to hold, once
 * the page has its own. @internal
 */
export function listen(tell: (lock: string) => void): () => void {
  const id = crypto.randomUUID?.();
  let stop = (): void => {};
  const listening = new Promise<void>((done) => (stop = done));
  // Without locks nothing is stored either.
  navigator.locks
    ?.request(PAGE + id, () => {
      tell(WORKER + id);
      return listening;
    })
    .catch(() => {});
  return stop;
}

/** Takes the locks of abandoned Workers of all tabs away, once they have been seen for a while. @internal */
export async function freeAbandoned(): Promise<void> {
  await navigator.locks?.request(TAKING, { ifAvailable: true }, async (mine) => {
    if (!mine) return;
    const { held = [], pending = [] } = await navigator.locks.query();
    const names = new Set(held.map(({ name }) => name));
    const abandoned = held.filter(
      ({ name }) => name?.startsWith(WORKER) && !names.has(PAGE + name.slice(WORKER.length)),
    );
    for (const name of seen.keys()) if (!abandoned.some((lock) => lock.name === name)) seen.delete(name);
    for (const { name, clientId } of abandoned) {
      if (!seen.has(name!)) seen.set(name!, performance.now());
      if (performance.now() - seen.get(name!)! < PATIENCE_MS) continue;
      // What it waits for it is given once that is free, and keeps: it is taken away the next time, and its name last.
      const waits = pending.some((lock) => lock.clientId === clientId);
      for (const lock of held)
        if (lock.clientId === clientId && (lock.name !== name || !waits))
          await navigator.locks.request(lock.name!, { steal: true }, () => {});
    }
  });
}
