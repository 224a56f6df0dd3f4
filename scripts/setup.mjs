// Installs what is missing and says what it does. Run it again at any time.
//   npm run setup            everything that `npm test` needs
//   node scripts/setup.mjs --build   only what a build needs: Rust's wasm target, wasm-bindgen, the npm packages
import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findBrowser, findDriver, writeWebdriver } from './lib/browser.mjs';
import { ask, Failure, hashOf, isMain, main, once, root, run, say, targetDir, tools } from './lib/env.mjs';

const WASM = 'wasm32-unknown-unknown';
const windows = process.platform === 'win32';

/** What a build needs. Returns the environment for Cargo when it builds for wasm. */
export async function setupBuild() {
  checkNode();
  await npmPackages();
  const env = await wasmTarget();
  await wasmBindgen();
  await ownTarget();
  return env;
}

/** Cargo takes what it built for another clone for its own where the sources here are older: then the crate is compiled again, what it needs is not. */
async function ownTarget() {
  await once(join(targetDir, '.clone'), root, async () => {
    const now = new Date();
    utimesSync(join(root, 'src', 'lib.rs'), now, now);
  });
}

/** What the tests need beyond a build: a browser, its driver, a Vulkan driver. Returns the environment for native tests. */
export async function setupTest() {
  const env = await setupBuild();
  const browser = await setupBrowser();
  const driver = await chromedriver();
  writeWebdriver(browser);
  return { wasm: env, browser, driver, native: await vulkan() };
}

/** A browser to drive: one that is installed, or on Debian its package. Returns its path. */
export async function setupBrowser() {
  const found = await findBrowser();
  if (found) return found;
  if (await isDebian()) await apt('a browser', ['chromium']);
  const now = await findBrowser();
  if (!now)
    throw new Failure(
      'no browser: install Chrome or Chromium, or run `npx playwright install chromium`, or set MILLRACE_BROWSER to one',
    );
  return now;
}

async function chromedriver() {
  const found = await findDriver();
  if (found) return found;
  if (await isDebian()) await apt("the browser's driver", ['chromium-driver']);
  const now = await findDriver();
  if (!now)
    throw new Failure(
      "no chromedriver: install the one of your browser's version (on macOS: brew install chromedriver), or set CHROMEDRIVER to it",
    );
  return now;
}

function checkNode() {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < 20) throw new Failure(`Node ${process.versions.node} is too old: install Node 20 or newer`);
}

/** `npm ci`, unless node_modules already is what package-lock.json says. */
async function npmPackages() {
  const hash = hashOf([join(root, 'package-lock.json'), join(root, 'package.json')]);
  await once(join(root, 'node_modules', '.millrace-lock'), hash, async () => {
    say('installing the npm packages of package-lock.json');
    // No package of ours needs an install script, and none gets to run one.
    await run(windows ? 'npm.cmd' : 'npm', ['ci', '--ignore-scripts'], { quiet: true });
  });
}

/** Rust's standard library for wasm: rustup's, or on Debian one built from Debian's source. Returns the environment that selects it. */
async function wasmTarget() {
  const found = await wasmToolchain();
  if (found) return found;
  if (windows) throw new Failure(`install Rust from https://rustup.rs, then run: rustup target add ${WASM}`);
  say(`adding Rust's ${WASM} target`);
  await run('sh', [join(root, 'scripts', 'wasm-target.sh')]);
  const now = await wasmToolchain();
  if (now) return now;
  throw new Failure(
    `Rust still cannot build for ${WASM}: install Rust from https://rustup.rs, then run: rustup target add ${WASM}`,
  );
}

/** The first toolchain that has the wasm target: the default one, rustup's "wasm", or the system's. */
async function wasmToolchain() {
  const candidates = [{}, { RUSTUP_TOOLCHAIN: 'wasm' }, { RUSTC: '/usr/bin/rustc' }];
  for (const env of candidates) {
    const folder = await ask(env.RUSTC ?? 'rustc', ['--print', 'target-libdir', '--target', WASM], { env });
    if (folder && existsSync(folder) && (await ask(env.RUSTC ? '/usr/bin/cargo' : 'cargo', ['--version'], { env })))
      return env;
  }
  return null;
}

/** wasm-bindgen's command line tools in the version that Cargo.lock pins: the two must be equal. */
async function wasmBindgen() {
  const want = /name = "wasm-bindgen"\nversion = "([^"]+)"/.exec(
    readFileSync(join(root, 'Cargo.lock'), 'utf8').replaceAll('\r', ''),
  )?.[1];
  if (!want) throw new Failure('Cargo.lock names no wasm-bindgen: restore it with git checkout Cargo.lock');
  const have = await ask(join(tools, 'bin', 'wasm-bindgen'), ['--version']);
  if (have === `wasm-bindgen ${want}`) return;
  say(`building wasm-bindgen-cli ${want} into ${tools} (once, 3 to 5 minutes)`);
  await run('cargo', ['install', '--root', tools, '--force', 'wasm-bindgen-cli', '--version', `=${want}`]);
}

/** Linux: the software Vulkan driver that every machine can run, named to the loader. Elsewhere the system's own API is used. */
export async function vulkan() {
  if (process.platform !== 'linux' || process.env.VK_DRIVER_FILES || process.env.VK_ICD_FILENAMES) return {};
  const find = () =>
    ['lvp_icd.json', `lvp_icd.${{ x64: 'x86_64', arm64: 'aarch64' }[process.arch]}.json`]
      .map((name) => `/usr/share/vulkan/icd.d/${name}`)
      .find((path) => existsSync(path));
  if (!find() && (await ask('which', ['apt-get']))) await apt("Mesa's software Vulkan driver", ['mesa-vulkan-drivers']);
  const icd = find();
  if (!icd)
    throw new Failure(
      "no software Vulkan driver: install Mesa's lavapipe (mesa-vulkan-drivers, or vulkan-swrast), or set VK_DRIVER_FILES to a driver of yours",
    );
  // Without a runtime directory Mesa complains on stderr each time that a device is opened.
  return { XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? tmpdir(), VK_DRIVER_FILES: icd, VK_ICD_FILENAMES: icd };
}

async function isDebian() {
  return (
    process.platform === 'linux' &&
    existsSync('/etc/os-release') &&
    /^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8')) &&
    (await ask('which', ['apt-get'])) !== null
  );
}

async function apt(what, packages) {
  say(`installing ${what}: apt-get install ${packages.join(' ')}`);
  const sudo = process.getuid?.() === 0 ? [] : ['sudo'];
  const as = async (...args) => {
    const [command, ...rest] = [...sudo, ...args];
    await run(command, rest, { quiet: true });
  };
  await as('apt-get', 'update', '-qq');
  await as(
    'env',
    'DEBIAN_FRONTEND=noninteractive',
    'apt-get',
    'install',
    '-y',
    '-qq',
    '--no-install-recommends',
    ...packages,
  );
}

if (isMain(import.meta.url)) {
  main(async () => {
    await (process.argv.includes('--build') ? setupBuild() : setupTest());
    say('everything is installed');
  });
}
