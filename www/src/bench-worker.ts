/// <reference lib="webworker" />
// Runs the bench away from the page's own thread, as the engine runs for users.
import init, { bench, benchNames } from 'millrace/wasm';
import initCompiler, { compile } from 'millrace/grammar';
import { failureOf, type FromWorker, type ToWorker } from './shared/bench.ts';

declare const self: DedicatedWorkerGlobalScope;

const ready = init();
/** As the package compiles grammars, whose module lies beside this one's. */
async function compileGrammar(description: string, lenient: boolean) {
  await initCompiler();
  const made = compile(description, lenient, true, false);
  return {
    table: made.table(),
    info: made.info(),
    states: made.states_info(),
    numbers: made.numbers(),
    warnings: JSON.parse(made.warnings()),
  };
}

const tell = (message: FromWorker) => self.postMessage(message);

self.addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  try {
    await ready;
    if ('names' in data) tell({ names: benchNames() });
    else {
      const { signal } = new AbortController();
      tell({ report: await bench(data.options, (progress) => tell({ progress }), signal, compileGrammar) });
    }
  } catch (error) {
    tell({ failure: failureOf(error) });
  }
});
