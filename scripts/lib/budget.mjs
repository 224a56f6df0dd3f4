// What runners may take of the processor: tests/budgets.json says it in units of a small fixed job, which this machine does first, so that it holds on
// quick machines and slow ones. Whole process trees count, browsers with theirs; compilers and all that they start do not.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './env.mjs';

const FILE = join(root, 'tests', 'budgets.json');
/**
 * A runner that takes more than so many times its budget has failed. Budgets are those of the slowest machine at hand: a unit says how quick a core is at
 * arithmetic, and what browsers and drivers compile takes up to 1.6 times as many units where memory is slow.
 */
const MOST = 1.5;
/** Runners that are only warned about: Mesa keeps compiled shaders, so that an edit of many costs once what it does not cost again. */
const WARNED = ['native'];
/** How often processes are looked at, in milliseconds, and their clock, a second. */
const LOOK_MS = 250;
const TICKS = 100;
const COMPILERS = /^(cargo|rustc|rustdoc|cc|ld|lld|rust-lld|wasm-opt|millrace-bind|esbuild)/;

/** Seconds of the processor for the fixed job, a second or so: what a unit is here. */
export function unitSeconds() {
  const began = process.cpuUsage();
  let hash = 0x811c9dc5;
  for (let i = 0; i < 700_000_000; i += 1) {
    hash = Math.imul(hash ^ (i & 255), 0x01000193);
    hash ^= hash >>> 15;
  }
  const { user, system } = process.cpuUsage(began);
  // What nobody uses need not be computed.
  return (user + system) / 1e6 + (hash === 0 ? 1e-9 : 0);
}

/** Processes as /proc shows them: `{ pid, start, name, parent, ticks }`. */
function processes() {
  return readdirSync('/proc').flatMap((pid) => (/^\d+$/.test(pid) ? (processOf(pid) ?? []) : []));
}

function processOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
    // From the 3rd on: state, parent, … user and system time the 14th and 15th, start the 22nd.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { pid: Number(pid), start: fields[19], name, parent: Number(fields[1]), ticks };
  } catch {
    return null;
  }
}

/** Follows processes and all that they start, also what outlives them: a browser leaves its own to the system. Where /proc is, that is on Linux. */
export class Meter {
  /** By process: whose it is, what it has taken so far, whether it compiles. */
  #seen = new Map();
  #timer;

  start() {
    if (process.platform !== 'linux') return;
    this.#timer = setInterval(() => this.look(), LOOK_MS);
    this.#timer.unref();
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** What `run` is to call when it has started a process of this runner's. */
  follow(runner) {
    return (pid) => {
      const found = process.platform === 'linux' ? processOf(pid) : null;
      if (found) this.#seen.set(`${pid}-${found.start}`, { runner, ticks: found.ticks, compiles: false });
    };
  }

  look() {
    if (process.platform !== 'linux') return;
    const all = new Map(processes().map((one) => [one.pid, one]));
    const known = (one) => {
      if (!one) return undefined;
      const key = `${one.pid}-${one.start}`;
      let entry = this.#seen.get(key);
      if (!entry) {
        const parent = known(all.get(one.parent));
        if (!parent) return undefined;
        entry = { runner: parent.runner, ticks: 0, compiles: parent.compiles };
        this.#seen.set(key, entry);
      }
      entry.ticks = Math.max(entry.ticks, one.ticks);
      entry.compiles ||= COMPILERS.test(one.name);
      return entry;
    };
    for (const one of all.values()) known(one);
  }

  /** Seconds of the processor that a runner's processes have taken so far; 0 where the system does not say. */
  seconds(runner) {
    let ticks = 0;
    for (const entry of this.#seen.values()) if (entry.runner === runner && !entry.compiles) ticks += entry.ticks;
    return ticks / TICKS;
  }
}

/** The committed budgets, in units, by runner. */
export function budgets() {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

/** Writes what these runners took as their budgets; the others' stay. */
export function writeBudgets(units) {
  const all = Object.entries({ ...budgets(), ...units }).map(([name, value]) => [name, Math.round(value)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1))), null, 2)}\n`);
}

/**
 * What is to be said of a runner that has taken so many units: null where it kept to its budget, or has none, else `{ text, fails }`. It only fails
 * where the same is done as where budgets are written (`judged`).
 */
export function overBudget(runner, units, budget, judged) {
  if (budget === undefined || units <= budget * MOST) return null;
  const text = `${runner} took ${units.toFixed(0)} units of processor time, its budget is ${budget}`;
  return { text, fails: judged && !WARNED.includes(runner) };
}
