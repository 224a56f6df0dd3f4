// How long runners and test files took: what `npm test -- --minutes N` plans by.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cache, root } from './env.mjs';

/**
 * Wall seconds and numbers of tests on two quick cores where nothing has been downloaded or compiled yet: what a machine that has not run them yet is
 * taken to need.
 */
const COMMITTED = join(root, 'tests', 'times.json');
/** The same of this machine's last runs. */
const MEASURED = join(cache, 'times.json');

/** Processor seconds of all children that have ended, and of theirs; 0 where the system does not say. */
export function childSeconds() {
  try {
    // After the name, which may have spaces: user and system time of children are the 14th and 15th fields, in hundredths of a second.
    const fields = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return 0;
  }
}

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return {};
  }
}

/** What is known of each name, a runner's or a test file's: `{ seconds, tests }`. */
export class Times {
  #committed = read(COMMITTED);
  #measured;
  #file;
  /** How much slower this machine is than the committed figures: its processor, and the test files that it has run so far. */
  #slower;

  /**
   * `unit`: processor seconds of the small fixed job of scripts/lib/budget.mjs, about one where the committed figures were measured. `file`: what keeps
   * this machine's times.
   */
  constructor(unit = 1, file = MEASURED) {
    this.#slower = Math.max(1, unit);
    this.#file = file;
    this.#measured = read(file);
  }

  /** Notes what a runner or file took. */
  note(name, seconds, tests) {
    const { seconds: usual } = this.#committed[name] ?? {};
    // Runners compile and download, which says nothing about how quick tests are; neither does what is over in a moment.
    if (usual > 20 && name.includes('/')) this.#slower = Math.max(this.#slower, seconds / usual);
    this.#measured[name] = { seconds: Math.round(seconds * 10) / 10, tests };
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, `${JSON.stringify(this.#measured, null, 1)}\n`);
  }

  /** Seconds that it is expected to take: as this machine has measured it, or as committed, on a machine as slow as this one has been so far. */
  seconds(name) {
    return this.#measured[name]?.seconds ?? (this.#committed[name]?.seconds ?? 0) * this.#slower;
  }

  /** Whether this machine has run it before. */
  knows(name) {
    return name in this.#measured;
  }

  /** How many tests it has. */
  tests(name) {
    return this.#measured[name]?.tests ?? this.#committed[name]?.tests ?? 0;
  }
}
