// How much memory a page may take on a phone: its system ends the page that takes more, and no interface says where that is.

/** WebKit's own limit is 1.5 GB for all that a page has (WebKit PR 49472); the script, WebAssembly and what is on its way to the GPU take the rest. */
const IOS = 1.1e9;
/** Share of the machine's memory: its GPU shares it with everything else that runs. */
const ANDROID = 1 / 3;

/** Bytes of the GPU's memory that a model may take here; null where that is no phone and no tablet. Known by their names: there is no other sign. */
export function phoneMemory(): number | null {
  const {
    userAgent = '',
    maxTouchPoints = 0,
    deviceMemory = 4,
  } = (globalThis.navigator ?? {}) as Partial<Navigator> & {
    deviceMemory?: number;
  };
  // An iPad says that it is a Mac, but is touched.
  if (/iPhone|iPad|iPod/.test(userAgent) || (/Macintosh/.test(userAgent) && maxTouchPoints > 1)) return IOS;
  return /Android/.test(userAgent) ? Math.floor(deviceMemory * 2 ** 30 * ANDROID) : null;
}
