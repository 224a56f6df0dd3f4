// The JSON mode: the schema that answers are forced to satisfy, and the engine's check of it. Loaded when it is first
// switched on.
import type { Engine, GenerateOptions, MillraceError } from 'millrace';
import { choices, get, make } from '../shared/dom.ts';
import { sentence } from '../shared/format.ts';
import { noteOf, placeOf } from './tree.ts';

const KEY = 'millrace.json';
/** The pause in typing after which a schema is checked, in milliseconds. */
const CHECK_MS = 300;
const OWN = 'A schema of your own';

const EXAMPLES: Record<string, object> = {
  'Any object': { type: 'object' },
  'A verdict': {
    type: 'object',
    properties: {
      verdict: { enum: ['yes', 'no', 'unclear'] },
      certainty: { type: 'integer', minimum: 0, maximum: 100 },
      reasons: { type: 'array', items: { type: 'string', maxLength: 120 }, maxItems: 3 },
    },
    required: ['verdict', 'certainty', 'reasons'],
    additionalProperties: false,
  },
  'A recipe': {
    type: 'object',
    properties: {
      title: { type: 'string', maxLength: 80 },
      minutes: { type: 'integer', minimum: 1, maximum: 600 },
      ingredients: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            name: { type: 'string', maxLength: 40 },
            amount: { type: 'number', minimum: 0 },
            unit: { enum: ['g', 'ml', 'piece'] },
          },
          required: ['name', 'amount', 'unit'],
          additionalProperties: false,
        },
        minItems: 1,
        maxItems: 12,
      },
      steps: { type: 'array', items: { type: 'string', maxLength: 200 }, minItems: 1, maxItems: 8 },
    },
    required: ['title', 'minutes', 'ingredients', 'steps'],
    additionalProperties: false,
  },
};

const panel = get('json');
const list = make('select');
const field = make('textarea');
const lenient = make('input');
const state = make('div');
const editor = make('details', '', make('summary', '', 'Edit the schema'));
let engineNow: () => Engine | null = () => null;
let timer = 0;
/** Number of checks: only the last one is shown. */
let checks = 0;

/** `engine`: returns the engine, once it is loaded. */
export function setUp(engine: () => Engine | null): void {
  engineNow = engine;
  choices(list, [...Object.keys(EXAMPLES), OWN]);
  field.rows = 6;
  field.spellcheck = false;
  field.setAttribute('aria-label', 'Schema');
  field.setAttribute('aria-describedby', 'json-state');
  lenient.type = 'checkbox';
  state.id = 'json-state';
  state.setAttribute('role', 'status');
  editor.append(field, make('label', 'check', lenient, 'Leave out what cannot be enforced'));
  panel.append(make('div', 'row', make('label', 'inline', 'Answers are', list), state), editor);
  const saved = recall();
  field.value = saved.schema ?? written('A verdict');
  lenient.checked = saved.lenient ?? false;
  name();
  list.addEventListener('change', () => {
    if (list.value === OWN) {
      editor.open = true;
      field.focus();
    } else field.value = written(list.value);
    changed();
  });
  field.addEventListener('input', () => {
    name();
    changed();
  });
  lenient.addEventListener('change', changed);
}

/** Toggles the mode; returns whether it is on. */
export function toggle(): boolean {
  panel.hidden = !panel.hidden;
  if (!panel.hidden) void check();
  return !panel.hidden;
}

/** Whether the mode is off or its schema is JSON; otherwise the schema is checked and focused. */
export function ready(): boolean {
  if (panel.hidden || schemaOf() !== null) return true;
  void check();
  editor.open = true;
  field.focus();
  return false;
}

/** The options of an answer; null while the mode is off. */
export function options(): Pick<GenerateOptions, 'schema' | 'lenient'> | null {
  const schema = panel.hidden ? null : schemaOf();
  return schema && { schema, lenient: lenient.checked };
}

/** Compiles the schema on the engine, and shows the result. */
export async function check(): Promise<void> {
  const mine = ++checks;
  const show = (wrong: boolean, ...said: (string | Node)[]): void => {
    if (mine !== checks) return;
    state.className = wrong ? 'error' : '';
    field.setAttribute('aria-invalid', String(wrong));
    state.replaceChildren(...said);
  };
  if (panel.hidden) return;
  const schema = schemaOf();
  if (!schema) return show(true, problemOf(field.value));
  const engine = engineNow();
  if (!engine) return show(false, 'It is looked at once a model is loaded.');
  try {
    show(false, ...noteOf(await engine.compileSchema(schema, { lenient: lenient.checked })));
  } catch (error) {
    const { data, message } = error as MillraceError;
    const { pointer, keyword, reason } = (data ?? {}) as { pointer?: string; keyword?: string; reason?: string };
    show(true, ...(reason ? placeOf({ pointer: pointer ?? '', keyword: keyword ?? '', reason }) : [sentence(message)]));
  }
}

const written = (example: string): string => JSON.stringify(EXAMPLES[example], null, 2);

function schemaOf(): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(field.value);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function problemOf(text: string): string {
  try {
    JSON.parse(text);
    return 'The schema must be an object.';
  } catch (error) {
    return `The schema is no JSON: ${(error as Error).message}`;
  }
}

/** Selects the example in the list that the field's schema equals, if any. */
function name(): void {
  list.value = Object.keys(EXAMPLES).find((example) => written(example) === field.value) ?? OWN;
}

function changed(): void {
  clearTimeout(timer);
  timer = window.setTimeout(() => void check(), CHECK_MS);
  try {
    localStorage.setItem(KEY, JSON.stringify({ schema: field.value, lenient: lenient.checked }));
  } catch {
    // Without storage the schema is lost with the page.
  }
}

function recall(): { schema?: string; lenient?: boolean } {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '{}') as { schema?: string; lenient?: boolean };
  } catch {
    return {};
  }
}
