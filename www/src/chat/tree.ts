// A JSON answer as a folding tree, with its grammar. Loaded with the first such answer.
import type { CompiledGrammar } from 'millrace';
import { make } from '../shared/dom.ts';
import { bytes } from '../shared/format.ts';

/** Levels that are open at first, and the most entries of an open one. */
const OPEN_LEVELS = 3;
const OPEN_ENTRIES = 20;

/** The tree and the note below it; null where there is neither. */
export function viewOf(text: string, grammar: CompiledGrammar | undefined): HTMLElement | null {
  const parts: HTMLElement[] = [];
  try {
    const value: unknown = JSON.parse(text);
    const list = isContainer(value) ? entries(value, 1) : make('ul', '', make('li', '', leaf(value)));
    list.classList.add('tree');
    list.setAttribute('aria-label', 'The answer as a tree');
    parts.push(list);
  } catch {
    // The JSON was cut off.
  }
  if (grammar) parts.push(...noteOf(grammar));
  return parts.length > 0 ? make('div', 'forced', ...parts) : null;
}

/** A note on an answer's grammar, and on the parts of its schema that are not enforced. */
export function noteOf({ states, bytes: size, ms, warnings }: CompiledGrammar): HTMLElement[] {
  const count = states === 1 ? '1 state' : `${states.toLocaleString('en')} states`;
  const time = ms > 0 ? `, compiled in ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : '';
  const note = make('p', 'note', `Forced by a grammar of ${count}, ${bytes(size)}${time}`);
  if (warnings.length === 0) return [note];
  const lines = warnings.map((one) => make('li', '', ...placeOf(one)));
  return [note, make('p', 'note', 'Not enforced:'), make('ul', 'note', ...lines)];
}

/** The place of a fault in a schema, its keyword and the reason. */
export function placeOf({
  pointer,
  keyword,
  reason,
}: {
  pointer: string;
  keyword: string;
  reason: string;
}): (string | Node)[] {
  const where = [pointer && make('code', '', pointer), keyword && make('code', '', keyword)].filter(Boolean);
  return [...where.flatMap((part) => [part as Node, ' ']), reason];
}

type Container = Record<string, unknown> | unknown[];

const isContainer = (value: unknown): value is Container => typeof value === 'object' && value !== null;

function entries(of: Container, level: number): HTMLUListElement {
  const list = make('ul');
  for (const [key, value] of Object.entries(of)) {
    const name = make('span', 'key', key);
    if (!isContainer(value)) {
      list.append(make('li', '', name, ' ', leaf(value)));
      continue;
    }
    const count = Object.keys(value).length;
    const unit = Array.isArray(value) ? ['item', 'items'] : ['key', 'keys'];
    const details = make(
      'details',
      '',
      make('summary', '', name, ' ', make('span', 'count', `${count} ${unit[count === 1 ? 0 : 1]}`)),
    );
    // Folded contents are created when opened, so that deeply nested answers are cheap.
    const fill = (): void => {
      if (details.open && details.childElementCount === 1) details.append(entries(value, level + 1));
    };
    details.addEventListener('toggle', fill);
    details.open = level < OPEN_LEVELS && count <= OPEN_ENTRIES;
    fill();
    list.append(make('li', '', details));
  }
  return list;
}

function leaf(value: unknown): HTMLElement {
  const text = typeof value === 'string' ? value : String(value);
  const element = make('span', `value ${value === null ? 'null' : typeof value}`, text);
  // Makes an empty text visible.
  if (value === '') element.textContent = '""';
  return element;
}
