/** Pauses a download and lets it go on, while its caller waits: `Engine.load({ model, download: control })`. */
export class DownloadControl {
  #paused = false;
  readonly #listeners = new Set<(paused: boolean) => void>();

  /** Whether downloads that have this control wait. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Has them wait. What has arrived of a piece is kept; its rest is asked for again. */
  pause(): void {
    this.#set(true);
  }

  /** Lets them go on. */
  resume(): void {
    this.#set(false);
  }

  /** @internal */
  follow(listener: (paused: boolean) => void): () => void {
    this.#listeners.add(listener);
    if (this.#paused) listener(true);
    return () => this.#listeners.delete(listener);
  }

  #set(paused: boolean): void {
    this.#paused = paused;
    for (const listener of this.#listeners) listener(paused);
  }
}
