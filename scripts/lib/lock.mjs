// A lock that all clones of a machine share, and that ends with its process: Lamport's bakery, with files for the
// numbers. Files of ended processes are ignored, and cannot be mistaken for another process's: a file's name has the
// process's id and start.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The interval of checks while waiting, in milliseconds. */
const LOOK_MS = 100;

/** When a process began, by the system's clock; null where there is none, or it is a zombie. */
function began(pid) {
  if (process.platform === 'linux') {
    try {
      // After the name, which may have spaces: the state is the 3rd field, the start the 22nd.
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return fields[0] === 'Z' ? null : fields[19];
    } catch {
      return null;
    }
  }
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return null;
  }
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).replace(/\W/g, '');
  } catch {
    return '0';
  }
}

const own = `${process.pid}-${began(process.pid)}`;
/** The last request of this process by folder; requests run in sequence. */
const turns = new Map();

/** The other processes at the lock: `[{ kind, number, id }]`. Files of ended processes are removed. */
function others(folder) {
  return readdirSync(folder).flatMap((name) => {
    const [, kind, number, pid, start] = /^(choosing|ticket)-(\d+)-(\d+)-(\w+)$/.exec(name) ?? [];
    const id = `${pid}-${start}`;
    if (kind === undefined || id === own) return [];
    if (began(Number(pid)) === start) return [{ kind, number: Number(number), id }];
    rmSync(join(folder, name), { force: true });
    return [];
  });
}

/**
 * Does `work` while holding the lock of this folder, within this process and across processes. `waits` is called once
 * if it has to wait. Not reentrant: must not be called within `work`.
 */
export async function locked(folder, work, waits = () => {}) {
  const before = turns.get(folder) ?? Promise.resolve();
  const turn = before.then(() => alone(folder, work, waits));
  turns.set(
    folder,
    turn.then(
      () => {},
      () => {},
    ),
  );
  return turn;
}

async function alone(folder, work, waits) {
  mkdirSync(folder, { recursive: true });
  const choosing = join(folder, `choosing-0-${own}`);
  writeFileSync(choosing, '');
  const number = 1 + Math.max(0, ...others(folder).map((other) => other.number));
  const ticket = join(folder, `ticket-${number}-${own}`);
  writeFileSync(ticket, '');
  rmSync(choosing);
  try {
    const goesFirst = ({ kind, ...other }) =>
      kind === 'choosing' || other.number < number || (other.number === number && other.id < own);
    for (let looks = 0; others(folder).some(goesFirst); looks += 1) {
      if (looks === 10) waits();
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
    return await work();
  } finally {
    rmSync(ticket, { force: true });
  }
}
