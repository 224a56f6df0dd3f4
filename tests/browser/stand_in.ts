// A stand-in for the package's engine, for tests of the pages alone: it gives fixed answers at once, where a software
// GPU takes long. The rest of the package is real.
import type { LoadPlan } from '../../npm/index.ts';
import type { Page } from './support.ts';

/** How the stand-in behaves; a page may change `globalThis.standIn` at any time. */
export interface StandIn {
  /** The answer to a question that contains the key; '' is for all others. */
  answers: Record<string, string>;
  /** The answer to a question that contains this text ends only when it is stopped. */
  endless?: string;
  /** Milliseconds between two pieces of an answer. */
  pause: number;
  /** Characters of a piece. */
  piece: number;
  /** The code that loading, planning or generating rejects with. */
  loading?: string;
  planning?: string;
  generating?: string;
  /** The note of planning's progress: what it waits for. */
  note?: string;
  /** Steps that loading takes, `pause` apart. */
  steps: number;
  /** How often a paused load has checked whether it may resume. */
  looked: number;
  /** How often the page has called `warm`. */
  warmed: number;
  /** Whether an answer begins within a thought. */
  thinks: boolean;
  plan: LoadPlan | null;
  /** The draft model of each load; null where there was none. */
  drafts: (string | null)[];
}

declare global {
  var standIn: StandIn;
}

const BEHAVES: StandIn = {
  answers: { '': 'An answer.' },
  pause: 5,
  piece: 8,
  steps: 3,
  looked: 0,
  warmed: 0,
  thinks: false,
  plan: null,
  drafts: [],
};

const MODULE = `
import { MillraceError, DownloadControl, models, Generation, Engine as Real } from './index.js?real';
export { MillraceError, DownloadControl, models };
const wait = (ms, signal) => new Promise((done, fail) => {
  if (signal?.aborted) return fail(new MillraceError('ABORTED', 'aborted by its signal'));
  signal?.addEventListener('abort', () => fail(new MillraceError('ABORTED', 'aborted by its signal')), { once: true });
  setTimeout(done, ms);
});
const refuse = (code) => { if (code) throw new MillraceError(code, 'what exactly went wrong, where'); };
export class Engine extends EventTarget {
  #disposed = false;
  static async plan({ signal, onProgress }) { if (standIn.note) onProgress({ phase: 'download', loaded: 0, total: 0, note: standIn.note }); await wait(standIn.pause, signal); refuse(standIn.planning); return standIn.plan ?? { fits: true, download: { missing: 0 } }; }
  static async load({ signal, onProgress, download, draft }) {
    standIn.drafts.push(draft ?? null);
    const total = 5e8;
    for (let step = 0; step < standIn.steps; step += 1) {
      onProgress({ phase: 'download', loaded: (total * step) / standIn.steps, total, file: 'model.gguf', cached: false });
      await wait(standIn.pause, signal);
      while (download?.paused) { standIn.looked += 1; await wait(20, signal); }
      refuse(standIn.loading);
    }
    return new Engine();
  }
  dispose() { this.#disposed = true; }
  warm() { standIn.warmed += 1; }
  info = {
    version: '0', lane: 'fast', lanes: ['exact', 'fast'], context: 4096, warnings: [], load_ms: 1,
    model: { name: 'Stand-in', architecture: 'llama', parameters: 1.2e9, context: 131072, types: { Q4_K: 100, Q6_K: 20 }, thinks: standIn.thinks, template_options: [], chat: true },
    adapter: { vendor: 'test', name: 'Test GPU', features: [], subgroup: [32, 32], software: false },
    memory: { weights: 8e8, kv: 1e8, kv_full: 2e8, activations: 5e7, total: 9.5e8, peak: 9.5e8, wasm: 3e7 }, storage: { kind: 'opfs', cached: true },
  };
  async compileSchema(schema, { lenient }) {
    const what = { pointer: '/properties/a', keyword: 'uniqueItems', reason: 'an automaton cannot compare items' };
    const odd = JSON.stringify(schema).includes('"uniqueItems"');
    if (odd && !lenient) throw new MillraceError('UNSUPPORTED_SCHEMA', what.reason, { data: what });
    return { states: 1243, bytes: 51200, ms: 12.3, warnings: odd ? [what] : [] };
  }
  run(options) { return Real.prototype.run.call(this, options); }
  generate(messages, options) {
    const question = messages.at(-1).content;
    const text = Object.entries(standIn.answers).find(([key]) => key !== '' && question.includes(key))?.[1] ?? standIn.answers[''];
    return new Generation((onDelta) => {
      const halt = new AbortController();
      const result = (async () => {
        await wait(standIn.pause);
        refuse(standIn.generating);
        if (this.#disposed) throw new MillraceError('DISPOSED', 'the engine was disposed of');
        options.onProgress?.({ phase: 'prompt', loaded: 10, total: 10, cached: false });
        const grammar = options.schema && (await this.compileSchema(options.schema, options));
        let said = '';
        let tokens = 0;
        // What stands before the end of a thought is one.
        const thought = text.includes('</think>') ? text.slice(0, text.indexOf('</think>')).replace('<think>', '') : '';
        const content = thought === '' ? text : text.slice(text.indexOf('</think>') + 8).trimStart();
        const all = thought + content;
        // CALL name {"a":1}, a line for each: calls of tools.
        const calls = [];
        const lines = content.split('\\n');
        if (options.tools && lines.every((line) => line.startsWith('CALL '))) {
          for (const [index, line] of lines.entries()) {
            const [, name, args] = /^CALL (\\w+) (.*)$/.exec(line);
            const id = 'call' + index;
            calls.push({ id, type: 'function', function: { name, arguments: args } });
            options.onTokens?.({ text: '', tokens: [1], parts: [{ type: 'tool_call', index, id, name }, { type: 'arguments', index, text: args }, { type: 'tool_call_end', index }] });
          }
        }
        for (let at = 0; calls.length === 0 && at < all.length && !halt.signal.aborted && tokens < (options.maxTokens ?? 1e9); ) {
          const end = Math.min(at + standIn.piece, at < thought.length ? thought.length : all.length);
          const piece = all.slice(at, end);
          options.onTokens?.({ text: piece, tokens: [at], parts: [{ type: at < thought.length ? 'reasoning' : 'content', text: piece }] });
          at = end;
          onDelta(piece);
          said += piece;
          tokens += 1;
          await wait(standIn.pause);
          if (this.#disposed) throw new MillraceError('DISPOSED', 'the engine was disposed of');
        }
        while (standIn.endless && question.includes(standIn.endless) && !halt.signal.aborted) {
          await wait(20);
          if (this.#disposed) throw new MillraceError('DISPOSED', 'the engine was disposed of');
        }
        return { text: said, message: { role: 'assistant', content: calls.length ? null : said.slice(thought.length), ...(calls.length ? { tool_calls: calls } : {}) }, ...(grammar ? { grammar } : {}), tokens: Array(tokens).fill(0), prompt_tokens: 10, cached_tokens: 0, context_tokens: 10 + tokens, drafted_tokens: 0, accepted_tokens: 0, finish_reason: halt.signal.aborted ? 'abort' : 'stop', seed: 1, timings: { decode_tok_s: 123, ttft_ms: 20 } };
      })();
      return { result, stop: () => halt.abort() };
    });
  }
}
`;

/** Makes the pages that this page opens use the stand-in. */
export async function withStandIn(page: Page, behaves: Partial<StandIn> = {}): Promise<void> {
  await page.addInitScript((standIn) => void (globalThis.standIn = standIn), { ...BEHAVES, ...behaves });
  await page.route(/\/pkg\/index\.js$/, (route) => route.fulfill({ contentType: 'text/javascript', body: MODULE }));
}
