/// <reference lib="webworker" />
// Runs the bench away from the page's own thread, as the engine runs for users.
import init, { bench, type BenchOptions } from 'millrace/wasm';

declare const self: DedicatedWorkerGlobalScope;

self.addEventListener('message', async ({ data }: MessageEvent<BenchOptions>) => {
  try {
    await init();
    const report = await bench(data, (progress) => self.postMessage({ progress }), new AbortController().signal);
    self.postMessage({ report });
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    self.postMessage({ failure: { code: code ?? 'INTERNAL', message: message ?? String(error) } });
  }
});
