import { defineConfig } from '@playwright/test';
import { browserFlags, findBrowser } from './scripts/lib/browser.mjs';

const executablePath = (await findBrowser()) ?? undefined;

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
    { name: 'pages', testIgnore: 'kernels.spec.ts' },
    // What is above the device, again.
    { name: 'cpu', testMatch: /(api|grammar|queue|tools)\.spec\.ts/, use: { device: 'cpu' } },
  ],
  reporter: [['list']],
  use: {
    headless: true,
    launchOptions: { args: browserFlags(), ...(executablePath ? { executablePath } : {}) },
    screenshot: 'only-on-failure',
  },
});
