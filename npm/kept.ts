// What this page believes to be stored. A browser that needs space removes all that a site has stored, without a word; but for its local storage.
const KEY = 'millrace:kept';

/** Addresses that were stored and not removed since. */
function read(): string[] {
  try {
    const list: unknown = JSON.parse(globalThis.localStorage?.getItem(KEY) ?? '[]');
    return Array.isArray(list) ? list.filter((url) => typeof url === 'string') : [];
  } catch {
    return []; // no local storage here, or something else has written there
  }
}

function write(urls: string[]): void {
  try {
    globalThis.localStorage?.setItem(KEY, JSON.stringify(urls.slice(-200)));
  } catch {
    // Nothing can be noted here.
  }
}

/** What a model is stored under: its address without the projector's, which is stored with it. @internal */
export const keyOf = (url: string): string => url.split('#', 1)[0]!;

/** Notes that a model is stored. @internal */
export function noteKept(url: string): void {
  const urls = read();
  if (!urls.includes(url)) write([...urls, url]);
}

/** Notes that it was removed. @internal */
export function forgetKept(url: string): void {
  write(read().filter((one) => one !== url));
}

/** Whether a model was stored and not removed. @internal */
export function wasKept(url: string): boolean {
  return read().includes(url);
}

/** Asks the browser not to remove what is stored. It decides by itself, or asks the user; either way all works. @internal */
export async function askToPersist(): Promise<void> {
  try {
    if (!(await navigator.storage?.persisted?.())) await navigator.storage?.persist?.();
  } catch {
    // Not here.
  }
}
