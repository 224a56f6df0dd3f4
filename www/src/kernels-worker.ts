/// <reference lib="webworker" />
// Runs the kernels against their twins away from the page's own thread: the twins are plain loops on the CPU.
import init, { kernelCheck } from 'millrace/wasm';

declare const self: DedicatedWorkerGlobalScope;

self.addEventListener('message', async ({ data }: MessageEvent<{ filter: string; quick: boolean }>) => {
  try {
    await init();
    const report = await kernelCheck(data.filter, data.quick, (row) => self.postMessage({ row }));
    self.postMessage({ report });
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    self.postMessage({ failure: `${code ?? 'INTERNAL'}: ${message ?? String(error)}` });
  }
});
