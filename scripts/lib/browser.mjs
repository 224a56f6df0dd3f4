// The browser that the tests and `npm run generate` drive, and its flags.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, childEnv, root } from './env.mjs';

const INSTALLED = {
  linux: [
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome',
    '/usr/bin/google-chrome-stable',
    '/opt/google/chrome/chrome',
  ],
  darwin: ['Google Chrome', 'Chromium', 'Google Chrome Canary'].flatMap((name) => [
    `/Applications/${name}.app/Contents/MacOS/${name}`,
    `${process.env.HOME}/Applications/${name}.app/Contents/MacOS/${name}`,
  ]),
  win32: ['PROGRAMFILES', 'PROGRAMFILES(X86)', 'LOCALAPPDATA'].map((name) =>
    join(process.env[name] ?? '', 'Google/Chrome/Application/chrome.exe'),
  ),
};

/** Path of a Chromium or Chrome: MILLRACE_BROWSER, an installed one, or the one that Playwright has downloaded; null where there is none. */
export async function findBrowser() {
  if (process.env.MILLRACE_BROWSER) return process.env.MILLRACE_BROWSER;
  const installed = (INSTALLED[process.platform] ?? []).find((path) => existsSync(path) && !isSnapStub(path));
  if (installed) return installed;
  const { chromium } = await import('@playwright/test');
  return existsSync(chromium.executablePath()) ? chromium.executablePath() : null;
}

/**
 * Path of the headless shell that belongs to Debian's Chromium; null where there is none, and where MILLRACE_BROWSER says which browser it has to be.
 * It is the same engine without what surrounds a window: a page costs it a quarter of the processor time.
 */
export function findShell() {
  const path = '/usr/lib/chromium/chromium-headless-shell';
  return !process.env.MILLRACE_BROWSER && existsSync(path) ? path : null;
}

/** Whether a path is Ubuntu's /usr/bin/chromium-browser, a stub that installs the snap. */
function isSnapStub(path) {
  return (
    process.platform === 'linux' && path.endsWith('-browser') && readFileSync(path).subarray(0, 4096).includes('snap')
  );
}

/** Path of a chromedriver; null where there is none. */
export async function findDriver() {
  const given =
    process.env.CHROMEDRIVER ?? (process.env.CHROMEWEBDRIVER && join(process.env.CHROMEWEBDRIVER, 'chromedriver'));
  if (given && existsSync(given)) return given;
  if (existsSync('/usr/bin/chromedriver')) return '/usr/bin/chromedriver';
  return (
    (await ask(process.platform === 'win32' ? 'where' : 'which', ['chromedriver'], { env: childEnv() }))?.split(
      '\n',
    )[0] ?? null
  );
}

/** Whether Linux has a GPU device: without one Chromium needs flags to use its software adapter. */
export function hasGpu() {
  if (process.platform !== 'linux') return true;
  const dri = existsSync('/dev/dri') ? readdirSync('/dev/dri') : [];
  return dri.some((name) => name.startsWith('renderD')) || existsSync('/dev/nvidia0') || existsSync('/dev/dxg');
}

/**
 * SwiftShader, with workgroup memory cleared by a loop in the shader. With the Vulkan extension for that SwiftShader
 * compiles a store for every word, which takes four fifths of a model's loading time.
 */
const SOFTWARE = [
  '--use-webgpu-adapter=swiftshader',
  '--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension',
];

/** Chromium's command line flags. MILLRACE_BROWSER_FLAGS, separated by spaces, replaces them. */
export function browserFlags() {
  if (process.env.MILLRACE_BROWSER_FLAGS !== undefined)
    return process.env.MILLRACE_BROWSER_FLAGS.split(/\s+/).filter(Boolean);
  const flags = [
    '--enable-unsafe-webgpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ];
  if (process.platform === 'linux') {
    // Containers and root have no sandbox; the only pages that run are this repository's own.
    flags.unshift('--no-sandbox');
    flags.push(...(hasGpu() ? ['--enable-features=Vulkan'] : SOFTWARE));
  }
  return flags;
}

/** Writes the configuration of wasm-bindgen-test-runner, browser and flags, to the crate's root. */
export function writeWebdriver(binary) {
  const path = join(root, 'webdriver.json');
  const text = `${JSON.stringify({ 'goog:chromeOptions': { binary, args: ['--headless=new', ...browserFlags()] } }, null, 2)}\n`;
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}
