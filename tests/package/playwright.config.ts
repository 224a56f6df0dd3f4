import { defineConfig } from '@playwright/test';
import base from '../../playwright.config.ts';

export default defineConfig({
  ...base,
  testDir: '.',
  outputDir: '../../test-results/package',
  projects: [{ name: 'package' }],
  timeout: 300_000,
});
