// The compiler of grammars: a second module of WebAssembly, fetched when an answer is first forced into a form.
import init, { compile } from './millrace_grammar.js';
import { MillraceError } from './errors.ts';

/** A grammar's arrays, or why it is refused: code, pointer, keyword, reason. */
export type Made =
  | {
      table: Uint32Array;
      info: Uint32Array;
      states: Uint32Array;
      numbers: Uint32Array;
      warnings: [pointer: string, keyword: string, reason: string][];
    }
  | { error: [code: string, pointer: string, keyword: string, reason: string] };

let loading: Promise<unknown> | null = null;

/** Compiles a description of a grammar. `beside`: the address of the engine's own module, if one was configured. */
export async function compileGrammar(description: string, lenient: boolean, beside: URL | null): Promise<Made> {
  const url = beside
    ? new URL('millrace_grammar_bg.wasm', beside)
    : new URL('./millrace_grammar_bg.wasm', import.meta.url);
  loading ??= init({ module_or_path: url });
  try {
    await loading;
  } catch (error) {
    loading = null;
    const message = `millrace_grammar_bg.wasm could not be loaded from ${url}: serve it beside millrace_bg.wasm, as application/wasm`;
    throw new MillraceError('INTERNAL', message, { cause: error });
  }
  try {
    // White space stands where JSON allows it; keys come in the schema's order alone.
    const made = compile(description, lenient, true, false);
    const out = {
      table: made.table(),
      info: made.info(),
      states: made.states_info(),
      numbers: made.numbers(),
      warnings: JSON.parse(made.warnings()),
    };
    made.free();
    return out;
  } catch (error) {
    if (typeof error !== 'string') throw error;
    return { error: JSON.parse(error) };
  }
}
