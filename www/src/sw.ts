/// <reference lib="webworker" />
// The service worker of the static build: keeps the pages, so that they open without a network. Models are none of its business: the engine keeps them.
import { cleanupOutdatedCaches, precacheAndRoute } from 'workbox-precaching';

declare const self: ServiceWorkerGlobalScope;
/** Every file but the models. What has a hash in its path needs no revision. */
declare const FILES: { url: string; revision: string | null }[];
/** The folder of what few visits need, a hash in its path: what reads PDF files. It is kept once it was fetched. */
declare const LATER: string;

// `?model=…` and the like are for the page's script: whatever follows the question mark, it is the same file. What an older version has left goes when this one
// takes over.
cleanupOutdatedCaches();
precacheAndRoute(FILES, { ignoreURLParametersMatching: [/./] });

const LATER_CACHES = 'millrace-later-';
const later = new URL(LATER, self.location.href).href;
self.addEventListener('fetch', (event) => {
  if (event.request.url.startsWith(later)) event.respondWith(fetchLater(event.request));
});

async function fetchLater(request: Request): Promise<Response> {
  const cache = await caches.open(LATER_CACHES + LATER);
  const kept = await cache.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  // A disk that is full must not keep a file from being read.
  if (response.ok) await cache.put(request, response.clone()).catch(() => {});
  return response;
}

async function forgetOlder(): Promise<void> {
  for (const name of await caches.keys())
    if (name.startsWith(LATER_CACHES) && name !== LATER_CACHES + LATER) await caches.delete(name);
}

// A new version waits until no page of the old one is open (no `skipWaiting`): a page may still load parts of its own version, which only the old
// worker has. Only where one page is open, which then reloads at once, does it take over when asked to.
self.addEventListener('message', (event) => {
  if (event.data === 'take over') event.waitUntil(takeOver(event.source));
});

async function takeOver(asking: ExtendableMessageEvent['source']): Promise<void> {
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (windows.filter(({ url }) => url.startsWith(self.registration.scope)).length > 1) asking?.postMessage('others');
  else await self.skipWaiting();
}

// The page that was opened first has what it may load later from here, too.
self.addEventListener('activate', (event) => event.waitUntil(Promise.all([forgetOlder(), self.clients.claim()])));
