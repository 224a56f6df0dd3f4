// In the static build (`npm run build:www`) the pages open without a network: a service worker keeps them. Under `npm start` there is none.
declare const INSTALLABLE: boolean;

if (INSTALLABLE && 'serviceWorker' in navigator) void register(navigator.serviceWorker);

async function register(container: ServiceWorkerContainer): Promise<void> {
  // The page's own content loads first.
  if (document.readyState !== 'complete') await new Promise((done) => addEventListener('load', done, { once: true }));
  try {
    const registration = await container.register('sw.js');
    watch(registration, container);
  } catch (error) {
    console.warn('Millrace will not open without a network:', error);
  }
}

/** Shows a note when a new version has arrived, which waits until no page of the old one is open. */
function watch(registration: ServiceWorkerRegistration, container: ServiceWorkerContainer): void {
  const look = (worker: ServiceWorker | null): void => {
    // Without a controller this is the first version, not a new one.
    if (worker?.state === 'installed' && container.controller) offer(worker, container);
  };
  look(registration.waiting);
  registration.addEventListener('updatefound', () => {
    const worker = registration.installing;
    worker?.addEventListener('statechange', () => look(worker));
  });
}

function offer(worker: ServiceWorker, container: ServiceWorkerContainer): void {
  document.querySelector('.update')?.remove();
  const note = document.createElement('div');
  note.className = 'update';
  const text = document.createElement('p');
  text.setAttribute('role', 'status');
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  button.textContent = 'Reload';
  button.addEventListener('click', () => {
    container.addEventListener('controllerchange', () => location.reload(), { once: true });
    container.addEventListener('message', ({ data }) => {
      if (data === 'others')
        text.textContent = 'Close the other tabs of Millrace first: they need the version that they began with.';
    });
    worker.postMessage('take over');
  });
  note.append(text, button);
  document.body.append(note);
  // Set after the element is in the page, so that screen readers announce it.
  text.textContent = 'A new version is ready.';
}
