/// <reference lib="webworker" />
// Runs the kernels against their twins away from the page's own thread: the twins are plain loops on the CPU.
import init, { kernelCheck } from 'millrace/wasm';
import { failureOf } from './shared/bench.ts';

declare const self: DedicatedWorkerGlobalScope;

self.addEventListener('message', async ({ data }: MessageEvent<{ filter: string; quick: boolean }>) => {
  try {
    await init();
    const report = await kernelCheck(data.filter, data.quick, (row) => self.postMessage({ row }));
    self.postMessage({ report });
  } catch (error) {
    self.postMessage({ failure: failureOf(error) });
  }
});
