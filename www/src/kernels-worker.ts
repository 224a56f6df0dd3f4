/// <reference lib="webworker" />
// Runs the kernels against their twins away from the page's own thread: the twins are plain loops on the CPU.
import init, * as wasm from 'millrace/wasm';
import { failure, failureOf } from './shared/bench.ts';

declare const self: DedicatedWorkerGlobalScope;

/** What to compare; with `templates`, [name, text] each, of these shaders what has changed since the last time. */
export interface Asked {
  filter: string;
  /** All of each variant; one of each; one of as many variants as have every value of each axis between them. */
  cases: 'all' | 'quick' | 'cover';
  templates?: [string, string][];
}

let compared = false;

self.addEventListener('message', async ({ data }: MessageEvent<Asked>) => {
  try {
    await init();
    let { filter } = data;
    if (data.templates) {
      if (!wasm.kernelTemplates)
        throw failure('BAD_OPTION', 'this build cannot replace its shaders: start it with npm run dev');
      const changed = await wasm.kernelTemplates(data.templates, filter);
      if (compared && changed.length === 0) return self.postMessage({ report: {} });
      if (compared) filter = changed.join(' ');
    }
    const report = await wasm.kernelCheck(filter, data.cases, (row) => self.postMessage({ row }));
    compared = true;
    self.postMessage({ report });
  } catch (error) {
    self.postMessage({ failure: failureOf(error) });
  }
});
