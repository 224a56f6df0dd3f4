// Times of runners and test files, by which `npm test -- --minutes N` plans.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cache, root } from './env.mjs';

/**
 * Wall seconds and numbers of tests on two quick cores where nothing has been downloaded or compiled yet: the estimates
 * for a machine that has not run them yet.
 */
const COMMITTED = join(root, 'tests', 'times.json');
/** Wall seconds and numbers of tests of this machine's last runs. */
const MEASURED = join(cache, 'times.json');

/** Processor seconds of all ended child processes and their descendants; 0 where the system does not tell. */
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

/** Times by name of a runner or test file: `{ seconds, tests }`. */
export class Times {
  #committed = read(COMMITTED);
  #measured;
  #file;
  /**
   * How much slower this machine is than the committed figures, by its processor and by the test files that it has run
   * so far.
   */
  #slower;

  /**
   * `unit`: processor seconds of the small fixed job of scripts/lib/budget.mjs, about one where the committed figures
   * were measured. `file`: the file with this machine's times.
   */
  constructor(unit = 1, file = MEASURED) {
    this.#slower = Math.max(1, unit);
    this.#file = file;
    this.#measured = read(file);
  }

  /** Records the time of a runner or file. */
  note(name, seconds, tests) {
    const { seconds: usual } = this.#committed[name] ?? {};
    // Runners compile and download, which does not measure the speed of tests; nor do very short tests.
    if (usual > 20 && name.includes('/')) this.#slower = Math.max(this.#slower, seconds / usual);
    this.#measured[name] = { seconds: Math.round(seconds * 10) / 10, tests };
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, `${JSON.stringify(this.#measured, null, 1)}\n`);
  }

  /**
   * The expected seconds: as measured on this machine, or as committed, scaled by how slow this machine has been so
   * far.
   */
  seconds(name) {
    return this.#measured[name]?.seconds ?? (this.#committed[name]?.seconds ?? 0) * this.#slower;
  }

  /** Whether this machine has run the runner or file before. */
  knows(name) {
    return name in this.#measured;
  }

  /** The number of its tests. */
  tests(name) {
    return this.#measured[name]?.tests ?? this.#committed[name]?.tests ?? 0;
  }
}
