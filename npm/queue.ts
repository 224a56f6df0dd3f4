// Whose turn it is: an engine does one thing at a time, first come, first served over all its conversations.
import { aborted } from './generation.ts';

/** One that has its turn, or waits for it. */
interface Waiting {
  begun: boolean;
  begin: () => void;
  reject: (reason: unknown) => void;
  onPlace: ((ahead: number) => void) | undefined;
}

/** @internal */
export class Queue {
  /** The first has its turn. */
  #line: Waiting[] = [];
  /** More than none while places are being told: until all have heard, nobody begins. */
  #telling = 0;
  /** What all fail with from now on; null while the queue is open. */
  #closed: Error | null = null;

  /**
   * Does `work` when all that came before has ended, well or badly. `onPlace` is told how many are ahead: at once where there are any, and
   * whenever that changes, 0 as the turn comes. Aborting `signal` before the turn comes rejects with ABORTED and without `work` having run.
   */
  run<T>(
    work: () => Promise<T>,
    { signal, onPlace }: { signal?: AbortSignal; onPlace?: (ahead: number) => void } = {},
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
      const one: Waiting = { begun: false, begin, reject, onPlace };
      this.#line.push(one);
      signal?.addEventListener('abort', leave, { once: true });
      const ahead = this.#line.length - 1;
      if (ahead > 0) tell(one, ahead);
      this.#begin();
    });
  }

  /** Rejects all that wait, and all that come later. What has its turn ends by itself. */
  close(reason: Error): void {
    this.#closed ??= reason;
    const waiting = this.#line.filter(({ begun }) => !begun);
    this.#line = this.#line.filter(({ begun }) => begun);
    for (const { reject } of waiting) reject(reason);
  }

  #begin(): void {
    const [first] = this.#line;
    if (!first || first.begun || this.#telling > 0) return;
    first.begun = true;
    first.begin();
  }

  #remove(one: Waiting): void {
    const place = this.#line.indexOf(one);
    if (place < 0) return;
    this.#line.splice(place, 1);
    this.#telling += 1;
    // Whoever is told may leave or have others leave; those behind them then have been told already.
    for (const [index, other] of this.#line.slice(place).entries())
      if (this.#line[place + index] === other) tell(other, place + index);
    this.#telling -= 1;
    this.#begin();
  }
}

/** A callback that throws is its owner's fault: it is reported as such, and nobody else misses anything. */
function tell(one: Waiting, ahead: number): void {
  try {
    one.onPlace?.(ahead);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
