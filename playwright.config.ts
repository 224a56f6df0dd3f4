import { defineConfig } from '@playwright/test';
import { browserFlags, findBrowser, findShell } from './scripts/lib/browser.mjs';

/** How a browser is launched: the one that is found here, or Playwright's own. */
const launched = (path: string | null) => ({ args: browserFlags(), ...(path ? { executablePath: path } : {}) });
const browser = await findBrowser();

/** What is about devices: compiled shaders, their loss, their limits, what is counted there, and what takes their place. */
const DEVICES = 'adapters bench cpu device_lost embed errors loop own_worker parity sampling slow_poll supported';
/** What runs on both: what a page asks of an engine, whatever computes. */
const BOTH = 'api grammar';
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
    { name: 'kernels', testMatch: 'kernels.spec.ts', use: { launchOptions: launched(browser) } },
    { name: 'gpu', testMatch: files(`${DEVICES} ${BOTH}`), use: { launchOptions: launched(browser) } },
    // What is above the device needs no GPU, and runs in the headless shell.
    { name: 'cpu', testIgnore: files(`kernels ${DEVICES}`), use: { device: 'cpu' } },
  ],
  reporter: [['list']],
  use: {
    headless: true,
    // A control that does not come fails its test, and not the time of the whole run.
    actionTimeout: 120_000,
    // The long tests leave nothing out, a browser's window neither.
    launchOptions: launched((process.env.MILLRACE_LONG ? null : findShell()) ?? browser),
    screenshot: 'only-on-failure',
  },
});
