/// <reference lib="webworker" />
// Runs the bench away from the page's own thread, as the engine runs for users.
import init, { bench, benchNames } from 'millrace/wasm';
import { failureOf, type FromWorker, type ToWorker } from './shared/bench.ts';

declare const self: DedicatedWorkerGlobalScope;

const ready = init();
const tell = (message: FromWorker) => self.postMessage(message);

self.addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  try {
    await ready;
    if ('names' in data) tell({ names: benchNames() });
    else tell({ report: await bench(data.options, (progress) => tell({ progress }), new AbortController().signal) });
  } catch (error) {
    tell({ failure: failureOf(error) });
  }
});
