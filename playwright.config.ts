import { defineConfig } from '@playwright/test';
import { browserFlags, findBrowser } from './scripts/lib/browser.mjs';

const executablePath = (await findBrowser()) ?? undefined;

/** What is about the GPU, or drives it: compiled shaders, its loss, its limits, what is counted there. */
const GPU =
  'adapters bench configure device_lost embed errors hostile loop own_worker parity sampling slow_poll supported';
/** What runs on both: what a page asks of an engine, whatever computes. */
const BOTH = 'api grammar queue';
const files = (names: string): string[] => names.split(' ').map((name) => `**/${name}.spec.ts`);

export default defineConfig<object, { device: 'auto' | 'gpu' | 'cpu' }>({
  testDir: 'tests/browser',
  outputDir: 'test-results',
  // A software GPU takes seconds to compile a model's kernels, and more on a busy machine.
  timeout: 600_000,
  expect: { timeout: 20_000 },
  // Each has a browser with a software GPU of its own, which compiles shaders, most of the work, on one core.
  workers: 2,
  forbidOnly: true,
  // Projects get a browser of their own. The kernel page leaves hundreds of compiled shaders in the GPU process: nothing else runs in it. It comes
  // first, since it takes the longest and one worker.
  projects: [
    { name: 'kernels', testMatch: 'kernels.spec.ts' },
    { name: 'gpu', testMatch: files(`${GPU} ${BOTH}`) },
    // What is above the device needs no GPU.
    { name: 'cpu', testIgnore: files(`kernels ${GPU}`), use: { device: 'cpu' } },
  ],
  reporter: [['list']],
  use: {
    headless: true,
    // A control that does not come fails its test, and not the time of the whole run.
    actionTimeout: 120_000,
    launchOptions: { args: browserFlags(), ...(executablePath ? { executablePath } : {}) },
    screenshot: 'only-on-failure',
  },
});
