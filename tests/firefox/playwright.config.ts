import { defineConfig } from '@playwright/test';

// Playwright runs the tests, puppeteer the browser (scripts/lib/firefox.mjs).
export default defineConfig({
  testDir: '.',
  outputDir: '../../test-results/firefox',
  timeout: 300_000,
  expect: { timeout: 20_000 },
  // A software GPU has all cores to itself.
  workers: 1,
  forbidOnly: true,
  reporter: [['list']],
});
