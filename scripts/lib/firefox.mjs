// Firefox, driven by puppeteer over WebDriver BiDi: Playwright only drives its own build of Firefox.
import { existsSync } from 'node:fs';
import { ask, childEnv } from './env.mjs';

const INSTALLED = {
  linux: ['/usr/bin/firefox-esr', '/usr/bin/firefox', '/usr/lib/firefox/firefox', '/opt/firefox/firefox'],
  darwin: ['/Applications/Firefox.app/Contents/MacOS/firefox'],
  win32: ['PROGRAMFILES', 'PROGRAMFILES(X86)'].map((name) => `${process.env[name]}\\Mozilla Firefox\\firefox.exe`),
};

/** Preferences that enable WebGPU on Linux; the last allows software adapters. */
const PREFERENCES = {
  'dom.webgpu.enabled': true,
  'dom.webgpu.workers.enabled': true,
  'gfx.webgpu.ignore-blocklist': true,
};

/** Path of a Firefox: MILLRACE_FIREFOX, or an installed one; null where there is none. */
export async function findFirefox() {
  if (process.env.MILLRACE_FIREFOX) return process.env.MILLRACE_FIREFOX;
  // Ubuntu's /usr/bin/firefox may be a stub that installs the snap, which prints no version.
  for (const path of INSTALLED[process.platform] ?? [])
    if (existsSync(path) && (process.platform === 'win32' || (await ask(path, ['--version'])))) return path;
  return null;
}

/** Starts a headless Firefox. `env`: the environment for a software GPU, from set-up. */
export async function launchFirefox(executablePath, env = {}) {
  const { default: puppeteer } = await import('puppeteer-core');
  return puppeteer.launch({
    browser: 'firefox',
    executablePath,
    headless: true,
    env: childEnv(env),
    extraPrefsFirefox: PREFERENCES,
    defaultViewport: { width: 1280, height: 800 },
    // A page that loads a model on a software GPU is busy for a long time.
    protocolTimeout: 600_000,
  });
}
