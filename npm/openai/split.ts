// An answer's text, taken apart as it arrives: what the model thought, what it says, and which tools it calls.
import type { ChatToolCall } from './types.ts';

/** A piece of one of the three. */
export type Part = { reasoning: string } | { content: string } | { call: ChatToolCall };

const THINK = ['<think>', '</think>'] as const;
/** Hermes, Qwen and those that learned from them. */
const CALL = ['<tool_call>', '</tool_call>'] as const;
/** What stands before calls that are bare JSON: Mistral, Llama 3, Granite and Phi-4. */
const BEFORE_JSON = ['[TOOL_CALLS]', '<|python_tag|>', '<|tool_call|>'];

type State = 'begin' | 'thinking' | 'answer' | 'content' | 'call' | 'json';

/** How much of `text` stands before what may be the beginning of `tag` and the white space before that. */
function decided(text: string, tag: string): number {
  let n = Math.min(text.length, tag.length - 1);
  while (n > 0 && !text.endsWith(tag.slice(0, n))) n -= 1;
  return text.slice(0, text.length - n).trimEnd().length;
}

/** Whether a text could become one that begins with `tag`. */
const mayBegin = (text: string, tag: string): boolean => tag.startsWith(text) || text.startsWith(tag);

/**
 * Takes text as it comes. `tools`: the names of the tools that the model was given; without any, nothing is a call. `thinking`: the prompt has begun
 * the thought already.
 */
export class Splitter {
  readonly #tools: ReadonlySet<string>;
  #state: State = 'begin';
  /** What has come and is not decided yet. */
  #held = '';
  /** Whether white space is dropped until something else comes: after a thought or a call it says nothing. */
  #trim = false;

  constructor(tools: readonly string[], thinking = false) {
    this.#tools = new Set(tools);
    if (thinking) this.#state = 'thinking';
  }

  push(text: string): Part[] {
    this.#held += text;
    const parts: Part[] = [];
    while (this.#step(parts));
    return parts;
  }

  /** What was held back, at the end of the answer. */
  end(): Part[] {
    const parts: Part[] = [];
    const held = this.#trim ? this.#held.trimStart() : this.#held;
    this.#held = '';
    if (this.#state === 'thinking') {
      if (held !== '') parts.push({ reasoning: held });
    } else if (this.#state === 'json' || this.#state === 'answer') {
      const calls = this.#bare(held);
      if (calls) parts.push(...calls);
      else this.#say(parts, held);
    } else if (this.#state === 'call') {
      // Cut off, by the model or by the number of tokens: a whole call may stand there all the same.
      const call = parse(held);
      if (call) parts.push({ call });
      else this.#say(parts, CALL[0] + held);
    } else {
      this.#say(parts, held);
    }
    return parts;
  }

  /** Decides about the beginning of what is held; false where more has to come first. */
  #step(parts: Part[]): boolean {
    if (this.#trim) {
      this.#held = this.#held.trimStart();
      if (this.#held === '') return false;
      this.#trim = false;
    }
    switch (this.#state) {
      case 'begin': {
        const text = this.#held.trimStart();
        if (text.startsWith(THINK[0])) {
          this.#trim = true;
          return this.#to('thinking', text.slice(THINK[0].length));
        }
        if (mayBegin(text, THINK[0])) return false;
        return this.#to('answer', this.#held);
      }
      case 'thinking': {
        const end = this.#held.indexOf(THINK[1]);
        if (end >= 0) {
          const thought = this.#held.slice(0, end).trimEnd();
          if (thought !== '') parts.push({ reasoning: thought });
          this.#trim = true;
          return this.#to('answer', this.#held.slice(end + THINK[1].length));
        }
        const ready = decided(this.#held, THINK[1]);
        if (ready > 0) parts.push({ reasoning: this.#held.slice(0, ready) });
        this.#held = this.#held.slice(ready);
        return false;
      }
      case 'answer': {
        if (this.#tools.size === 0) return this.#to('content', this.#held);
        const text = this.#held.trimStart();
        if (text === '') return false;
        if (/^[[{]/.test(text) || BEFORE_JSON.some((tag) => text.startsWith(tag))) return this.#to('json', text);
        if (BEFORE_JSON.some((tag) => mayBegin(text, tag))) return false;
        return this.#to('content', text);
      }
      case 'content': {
        const at = this.#tools.size > 0 ? this.#held.indexOf(CALL[0]) : -1;
        if (at >= 0) {
          this.#say(parts, this.#held.slice(0, at).trimEnd());
          return this.#to('call', this.#held.slice(at + CALL[0].length));
        }
        const ready = this.#tools.size > 0 ? decided(this.#held, CALL[0]) : this.#held.length;
        this.#say(parts, this.#held.slice(0, ready));
        this.#held = this.#held.slice(ready);
        return false;
      }
      case 'call': {
        const end = this.#held.indexOf(CALL[1]);
        if (end < 0) return false;
        const call = parse(this.#held.slice(0, end));
        if (call) parts.push({ call });
        else this.#say(parts, CALL[0] + this.#held.slice(0, end) + CALL[1]);
        this.#trim = call !== null;
        return this.#to('content', this.#held.slice(end + CALL[1].length));
      }
      case 'json':
        return false;
    }
  }

  #to(state: State, held: string): true {
    this.#state = state;
    this.#held = held;
    return true;
  }

  #say(parts: Part[], content: string): void {
    if (content !== '') parts.push({ content });
  }

  /** Calls without tags: JSON of one or several, by names that the model was given. */
  #bare(text: string): { call: ChatToolCall }[] | null {
    if (this.#tools.size === 0) return null;
    let json = text.trim();
    for (const tag of BEFORE_JSON) if (json.startsWith(tag)) json = json.slice(tag.length).trim();
    json = json.replace(/<\|\/tool_call\|>$/, '').trim();
    const list =
      whole(json) ??
      json
        .split(/;|\n/)
        .filter((line) => line.trim() !== '')
        .map((line) => whole(line)?.[0]);
    const calls = list.map(callOf);
    return calls.length > 0 && calls.every((call) => call !== null && this.#tools.has(call.function.name))
      ? calls.map((call) => ({ call: call! }))
      : null;
  }
}

/** The values of a JSON list, or of one value; null for what is not JSON. */
function whole(json: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(json);
    return Array.isArray(value) ? value : [value];
  } catch {
    return null;
  }
}

function parse(json: string): ChatToolCall | null {
  return callOf(whole(json.trim())?.[0]);
}

/** `{name, arguments}` as most write it, `{name, parameters}` as Llama 3 does; Mistral gives an id. */
function callOf(value: unknown): ChatToolCall | null {
  if (typeof value !== 'object' || value === null) return null;
  const { name, arguments: given, parameters = {}, id } = value as Record<string, unknown>;
  if (typeof name !== 'string' || name === '') return null;
  const args = given ?? parameters;
  if (typeof args !== 'string' && (typeof args !== 'object' || args === null)) return null;
  return {
    id: typeof id === 'string' && id !== '' ? id : `call_${randomId()}`,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  };
}

/** 24 characters that nobody has had before. */
export function randomId(): string {
  return Array.from(
    crypto.getRandomValues(new Uint8Array(24)),
    (byte) => '0123456789abcdefghijklmnopqrstuvwxyz'[byte % 36],
  ).join('');
}
