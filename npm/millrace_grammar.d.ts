// What wasm-bindgen makes of crates/grammar/src/web.rs.
export default function init(options: { module_or_path: URL }): Promise<unknown>;

/** Compiles a description; throws a text, JSON, where it is refused. */
export function compile(description: string, lenient: boolean, whitespace: boolean, requiredFirst: boolean): Compiled;

/** Each array is moved out: a second call gives an empty one. */
export class Compiled {
  private constructor();
  table(): Uint32Array;
  info(): Uint32Array;
  states_info(): Uint32Array;
  /** Classes, states, symbols, the state at the beginning, bytes. */
  numbers(): Uint32Array;
  /** JSON: a list of [pointer, keyword, reason, schema]. */
  warnings(): string;
  free(): void;
}
