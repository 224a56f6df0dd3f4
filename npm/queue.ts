// The order of requests, first come, first served over all of an engine's conversations: several answers at one time,
// anything else alone.
import { aborted } from './generation.ts';

/** A running or waiting request. */
interface Waiting {
  begun: boolean;
  begin: () => void;
  reject: (reason: unknown) => void;
  onPlace: ((ahead: number) => void) | undefined;
  /** The conversation of an answer, which has one answer at a time; 0 is none. */
  beside: number | undefined;
  /** The place that `onPlace` was last called with. */
  told: number;
}

/** @internal */
export class Queue {
  /** Running requests, then waiting ones in order. */
  #line: Waiting[] = [];
  /** The limit of concurrent answers. */
  readonly #limit: () => number;
  /** Above 0 while `onPlace` callbacks run: no request begins before all of them have returned. */
  #telling = 0;
  /** The error of all later requests; null while the queue is open. */
  #closed: Error | null = null;

  constructor(limit: () => number = () => 1) {
    this.#limit = limit;
  }

  /**
   * Does `work` when all that came before has ended, well or badly; with `beside`, when there are fewer answers than there may be, nothing else, and none
   * in the same conversation. `onPlace` is told how many are ahead: at once where there are any, and
   * whenever that changes, 0 as the turn comes. Aborting `signal` before the turn comes rejects with ABORTED and without `work` having run.
   */
  run<T>(
    work: () => Promise<T>,
    {
      signal,
      onPlace,
      beside,
    }: { signal?: AbortSignal | undefined; onPlace?: (ahead: number) => void; beside?: number } = {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) return reject(this.#closed);
      if (signal?.aborted) return reject(aborted('waiting', signal));
      const leave = (): void => {
        reject(aborted('waiting', signal));
        this.#remove(one);
      };
      const begin = (): void => {
        signal?.removeEventListener('abort', leave);
        // What throws at once ends its turn as what rejects does.
        void (async () => work())()
          .then(resolve, reject)
          .finally(() => this.#remove(one));
      };
      const one: Waiting = { begun: false, begin, reject, onPlace, beside, told: 0 };
      this.#line.push(one);
      signal?.addEventListener('abort', leave, { once: true });
      this.#tell(one, this.#line.length - 1);
      this.#begin();
    });
  }

  /** Rejects all waiting and all later requests. Running ones end by themselves. */
  close(reason: Error): void {
    this.#closed ??= reason;
    const waiting = this.#line.filter(({ begun }) => !begun);
    this.#line = this.#line.filter(({ begun }) => begun);
    for (const { reject } of waiting) reject(reason);
  }

  #begin(): void {
    while (this.#telling === 0) {
      const place = this.#line.findIndex(({ begun }) => !begun);
      const next = this.#line[place];
      if (!next || this.#ahead(place) > 0) return;
      next.begun = true;
      next.begin();
    }
  }

  /** How many have to end before the one at that place begins. */
  #ahead(place: number): number {
    const { beside } = this.#line[place]!;
    if (beside === undefined) return place;
    const before = this.#line.slice(0, place);
    const waits = before.some((one) => one.beside === undefined || (beside !== 0 && one.beside === beside));
    return Math.max(place + 1 - this.#limit(), waits ? 1 : 0);
  }

  /** Tells one of its place where that is another than it knows. */
  #tell(one: Waiting, place: number): void {
    const ahead = this.#ahead(place);
    if (one.begun || ahead === one.told) return;
    one.told = ahead;
    tell(one, ahead);
  }

  #remove(one: Waiting): void {
    const place = this.#line.indexOf(one);
    if (place < 0) return;
    this.#line.splice(place, 1);
    this.#telling += 1;
    // A callback may remove requests from the queue; the ones behind have been told their new place by then.
    for (const [index, other] of this.#line.slice(place).entries())
      if (this.#line[place + index] === other) this.#tell(other, place + index);
    this.#telling -= 1;
    this.#begin();
  }
}

/** An error thrown by a callback is reported as uncaught; the other callbacks still run. */
function tell(one: Waiting, ahead: number): void {
  try {
    one.onPlace?.(ahead);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
