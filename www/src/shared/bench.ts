// The engine's bench in a Worker, for the bench page and the kernel page.
import type { BenchNames, BenchOptions, BenchProgress, BenchReport, QualityReport } from 'millrace/wasm';

export interface Failure {
  code: string;
  message: string;
}

export type ToWorker = { names: true } | { options: BenchOptions };
export type FromWorker =
  | { names: BenchNames }
  | { progress: BenchProgress }
  | { report: BenchReport | QualityReport }
  | { failure: Failure };

/** Throws where there is no WebGPU. */
export function needsGpu(): void {
  if (!('gpu' in navigator))
    throw failure(
      'NO_WEBGPU',
      'this browser has no WebGPU; use a current Chrome or Edge, Safari 26 or Firefox 141 on Windows, over https or localhost',
    );
}

export function failure(code: string, message: string): Failure {
  return { code, message };
}

/** A thrown value as a failure. */
export function failureOf(error: unknown): Failure {
  const { code, message } = error as Partial<Failure>;
  return failure(code ?? 'INTERNAL', message ?? String(error));
}

/** One measurement at a time; each has a Worker of its own, whose end frees the GPU's memory. */
export class Bench {
  #worker: Worker | null = null;
  #fail: ((reason: Failure) => void) | null = null;

  /** The engine's shapes and weight types. */
  names(): Promise<BenchNames> {
    return this.#ask({ names: true }, (data) => ('names' in data ? data.names : undefined));
  }

  async run(
    options: BenchOptions,
    onProgress: (progress: BenchProgress) => void,
  ): Promise<BenchReport | QualityReport> {
    try {
      const cancelled = new Promise<never>((_, reject) => (this.#fail = reject));
      return await Promise.race([
        cancelled,
        this.#ask({ options }, (data) => {
          if ('progress' in data) onProgress(data.progress);
          return 'report' in data ? data.report : undefined;
        }),
      ]);
    } finally {
      this.#fail = null;
      this.#worker?.terminate();
      this.#worker = null;
    }
  }

  /** Ends the measurement under way, which rejects with ABORTED. */
  cancel(): void {
    this.#fail?.(failure('ABORTED', 'the measurement was cancelled'));
  }

  /** Sends a message and waits for its answer. */
  #ask<T>(message: ToWorker, answer: (data: FromWorker) => T | undefined): Promise<T> {
    const worker = (this.#worker ??= new Worker(new URL('./bench-worker.js', import.meta.url), { type: 'module' }));
    return new Promise((resolve, reject) => {
      worker.addEventListener('error', (event) =>
        reject(failure('INTERNAL', event.message || 'the Worker did not load')),
      );
      worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
        if ('failure' in data) reject(data.failure);
        const answered = answer(data);
        if (answered !== undefined) resolve(answered);
      });
      worker.postMessage(message);
    });
  }
}

/** A GPU's name with its vendor. */
export function gpu({ vendor, name }: { vendor: string; name: string }): string {
  return (name.toLowerCase().includes(vendor.toLowerCase()) ? name : `${vendor} ${name}`).trim() || 'unnamed GPU';
}

const PHASES: Record<BenchProgress['phase'], string> = {
  download: 'Downloading',
  verify: 'Checking what is stored',
  read: 'Reading',
  upload: 'Making the weights',
  compile: 'Compiling kernels',
  tune: 'Choosing the fastest variants',
  'warm-up': 'Warming up',
  run: 'Measuring',
  'second-turn': 'Measuring second turns',
  idle: 'Measuring answers after a rest',
  profile: 'Measuring kernels',
  kernels: 'Checking and measuring variants',
};

/** The current step, e.g. `Measuring: run 2 of 5`. */
export function phase({ phase, loaded, total }: BenchProgress): string {
  if (phase === 'run') return `Measuring: run ${loaded + 1} of ${total}`;
  if (phase === 'warm-up') return `Warming up: run ${loaded + 1}`;
  if (phase === 'kernels') return `${PHASES.kernels}: operation ${loaded + 1} of ${total}`;
  return PHASES[phase];
}
