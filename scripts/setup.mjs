// Installs what is missing and says what it does. Run it again at any time.
//   npm run setup            everything that `npm test` needs
//   node scripts/setup.mjs --build   only what a build needs: Rust's wasm target, the tool that binds, the npm packages
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findBrowser, findDriver, findShell, writeWebdriver } from './lib/browser.mjs';
import { findFirefox } from './lib/firefox.mjs';
import { locked as lockedFolder } from './lib/lock.mjs';
import { ask, cache, Failure, filesUnder, hashOf, isMain, main, once, root, run, say, tools } from './lib/env.mjs';

export const WASM = 'wasm32-unknown-unknown';
const windows = process.platform === 'win32';

/** What a build needs. Returns the environment for Cargo when it builds for wasm, and what will be the path of the tool that binds. */
export async function setupBuild() {
  checkNode();
  const packages = npmPackages();
  packages.catch(() => {});
  await rust();
  // None of these keeps two cores busy all the time.
  const bind = bindTool();
  // The caller that awaits it gets the failure; until then it must not be an unhandled rejection.
  bind.catch(() => {});
  const [env] = await Promise.all([wasmTarget(), packages]);
  return { env, bind };
}

/** What the tests need beyond a build: a browser, its driver, a Vulkan driver. Returns the environment for native tests. */
export async function setupTest() {
  const { env, bind } = await setupBuild();
  await bind;
  const browser = await setupBrowser();
  await setupShell(browser);
  return { wasm: env, browser, native: await vulkan() };
}

/** What tests of the crate's own need to run in a browser: its driver, and wasm-bindgen's test runner. Returns the driver's path. */
export async function setupWasmTests(browser) {
  const driver = await chromedriver();
  await wasmBindgen();
  writeWebdriver(browser);
  return driver;
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

/**
 * Chromium's headless shell, in which most tests run: on Debian its package, with the browser's own, of which it has to have the version. Without one
 * all tests run in the browser.
 */
async function setupShell(browser) {
  if (findShell() || process.env.MILLRACE_BROWSER) return;
  const packages = ['chromium', 'chromium-headless-shell'];
  if (browser === '/usr/bin/chromium' && (await isDebian()))
    await apt("the browser's headless shell", packages).catch(({ message }) => say(message));
  if (!findShell()) say("Chromium has no headless shell here: tests take longer in the browser's own window");
}

/** A Firefox to drive: one that is installed, or on Debian its package. Returns its path. */
export async function setupFirefox() {
  const found = await findFirefox();
  if (found) return found;
  if (await isDebian()) await apt('Firefox', ['firefox-esr']);
  const now = await findFirefox();
  if (!now)
    throw new Failure(
      'no Firefox: install it from https://www.mozilla.org/firefox (on macOS: brew install --cask firefox), or set MILLRACE_FIREFOX to one',
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
  const folder = join(root, 'node_modules');
  // By content alone: a link to another clone's packages is as good where they are the same.
  const hash = hashOf(
    ['package-lock.json', 'package.json'].map((name) => `=${readFileSync(join(root, name), 'utf8')}`),
  );
  await once(join(folder, '.millrace-lock'), hash, async () => {
    if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink())
      throw new Failure(
        `${folder} is a link to other packages than package-lock.json has, and npm would empty what it leads to: remove it`,
      );
    say('installing the npm packages of package-lock.json');
    // No package of ours needs an install script, and none gets to run one.
    await run(windows ? 'npm.cmd' : 'npm', ['ci', '--ignore-scripts'], { quiet: true });
  });
}

/** A Cargo, on Debian its own where there is none: what follows needs one to begin with. */
async function rust() {
  if (await ask('cargo', ['--version'])) return;
  if (await isDebian()) await run('sh', [join(root, 'scripts', 'wasm-target.sh'), '--packages']);
  if (!(await ask('cargo', ['--version']))) throw new Failure(`no Cargo: install Rust from https://rustup.rs`);
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

/** The version of a package in a Cargo.lock; of wasm-bindgen's parts all must be equal. */
function locked(lock, name) {
  const text = readFileSync(lock, 'utf8').replaceAll('\r', '');
  const version = new RegExp(`name = "${name}"\nversion = "([^"]+)"`).exec(text)?.[1];
  if (!version) throw new Failure(`${lock} names no ${name}: restore it with git checkout ${lock}`);
  return version;
}

/** Builds scripts/bind, which does for a build what wasm-bindgen's command line would. Returns its path. */
async function bindTool() {
  const source = join(root, 'scripts', 'bind');
  const [want, has] = [
    locked(join(root, 'Cargo.lock'), 'wasm-bindgen'),
    locked(join(source, 'Cargo.lock'), 'wasm-bindgen-cli-support'),
  ];
  if (want !== has)
    throw new Failure(
      `Cargo.lock has wasm-bindgen ${want}, scripts/bind ${has}: name ${want} in scripts/bind/Cargo.toml and run cargo update there`,
    );
  // By content alone: clones share the tool.
  const inputs = ['Cargo.toml', 'Cargo.lock', 'src'].flatMap((name) => filesUnder(join(source, name)));
  const hash = hashOf(inputs.map((path) => `=${readFileSync(path, 'utf8')}`)).slice(0, 10);
  const folder = join(tools, `bind-${hash}`);
  const path = join(folder, 'bin', windows ? 'millrace-bind.exe' : 'millrace-bind');
  if (existsSync(path)) return path;
  return installing(async () => {
    if (existsSync(path)) return path;
    say('building what binds WebAssembly to JavaScript (once, 1 minute)');
    await run('cargo', ['install', '--quiet', '--locked', '--debug', '--root', folder, '--path', source], {
      env: { CARGO_TARGET_DIR: join(cache, 'target-bind') },
    });
    return path;
  });
}

/** wasm-bindgen's command line tools, of which the tests' wasm runner needs the test runner, in the version that Cargo.lock pins. */
async function wasmBindgen() {
  const version = locked(join(root, 'Cargo.lock'), 'wasm-bindgen');
  await cargoTool('wasm-bindgen-cli', version, { binary: 'wasm-bindgen', optimised: true, locked: false });
}

/** A command line tool in one version, built by Cargo where it is missing. Returns its path. `optimised`: one that works for longer than it compiles. */
export async function cargoTool(name, version, { binary = name, optimised = false, locked = true } = {}) {
  const path = join(tools, 'bin', windows ? `${binary}.exe` : binary);
  const isThere = async () => (await ask(path, ['--version']))?.split(' ')[1] === version;
  if (await isThere()) return path;
  return installing(async () => {
    if (await isThere()) return path;
    say(`building ${name} ${version} into ${tools} (once, some minutes)`);
    const how = [...(optimised ? [] : ['--debug']), ...(locked ? ['--locked'] : [])];
    await run('cargo', ['install', '--quiet', '--root', tools, '--force', ...how, name, '--version', `=${version}`]);
    return path;
  });
}

/** Installs for all clones, which share the tools: one at a time. */
function installing(work) {
  return lockedFolder(join(tools, '.installing'), work, () => say('waiting for another clone that installs a tool'));
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
  return {
    XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? tmpdir(),
    VK_DRIVER_FILES: icd,
    VK_ICD_FILENAMES: icd,
    // Shaders run where they are submitted: as many tests as cores run beside one another, and need no further threads.
    LP_NUM_THREADS: process.env.LP_NUM_THREADS ?? '0',
  };
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
    if (process.argv.includes('--build')) await (await setupBuild()).bind;
    else await setupTest();
    say('everything is installed');
  });
}
