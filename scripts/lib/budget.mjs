// Budgets of processor time for runners: tests/budgets.json has them in units of a small fixed job, which this machine
// runs first, so that they hold on quick machines and slow ones. Whole process trees count, browsers' included;
// compilers and their child processes do not.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './env.mjs';

const FILE = join(root, 'tests', 'budgets.json');
/**
 * A runner fails that takes more than this many times its budget. Budgets are those of the slowest available machine: a
 * unit measures a core's arithmetic, and compilation by browsers and drivers takes up to 1.6 times as many units where
 * memory is slow.
 */
const MOST = 1.5;
/** Runners that only get a warning: Mesa caches compiled shaders, so that an edit of many shaders costs more once. */
const WARNED = ['native'];
/** The interval of sampling processes, in milliseconds, and the ticks of their clock a second. */
const LOOK_MS = 250;
const TICKS = 100;
const COMPILERS = /^(cargo|rustc|rustdoc|cc|ld|lld|rust-lld|wasm-opt|millrace-bind|esbuild)/;

/** Processor seconds of the fixed job on this machine, about one: the unit. */
export function unitSeconds() {
  const began = process.cpuUsage();
  let hash = 0x811c9dc5;
  for (let i = 0; i < 700_000_000; i += 1) {
    hash = Math.imul(hash ^ (i & 255), 0x01000193);
    hash ^= hash >>> 15;
  }
  const { user, system } = process.cpuUsage(began);
  // Uses the result, so that the loop is not optimized away.
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

/**
 * Follows processes and their descendants, also those that outlive them, as a browser's do. Only on Linux, which has
 * /proc.
 */
export class Meter {
  /** By process: its runner, its ticks so far, and whether it compiles. */
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

  /** The callback for `run`'s `started`: follows a process of this runner. */
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

  /** Processor seconds of a runner's processes so far; 0 where the system does not tell. */
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

/** Writes the units of these runners as their budgets; other budgets stay. */
export function writeBudgets(units) {
  const all = Object.entries({ ...budgets(), ...units }).map(([name, value]) => [name, Math.round(value)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1))), null, 2)}\n`);
}

/**
 * The verdict on a runner that has taken `units` units: null where it kept to its budget, or has none, else `{ text,
 * fails }`. It only fails where it does the same work as when budgets are written (`judged`).
 */
export function overBudget(runner, units, budget, judged) {
  if (budget === undefined || units <= budget * MOST) return null;
  const text = `${runner} took ${units.toFixed(0)} units of processor time, its budget is ${budget}`;
  return { text, fails: judged && !WARNED.includes(runner) };
}
