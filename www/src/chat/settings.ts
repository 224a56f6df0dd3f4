// The settings: the form, its stored values, and the options of answers and loads.
import type { GenerateOptions, Lane, LoadOptions } from 'millrace';
import { closeOutside } from '../shared/dialog.ts';
import { get } from '../shared/dom.ts';

const KEY = 'millrace.settings';
/** Options of an answer, by their names in GenerateOptions. */
const SAMPLING = [
  'maxTokens',
  'topP',
  'topK',
  'minP',
  'seed',
  'repetitionPenalty',
  'presencePenalty',
  'frequencyPenalty',
] as const;
const REMEMBERED = ['system', 'temperature', 'draft', 'lane', 'kv', 'context', 'speculate', ...SAMPLING];

/** The tools that can be switched on. */
const TOOLS = ['calculator', 'date', 'timer', 'pages'] as const;
export type ToolName = (typeof TOOLS)[number];

const field = <T extends HTMLElement = HTMLInputElement>(id: string): T => get<T>(id);
const dialog = field<HTMLDialogElement>('settings');

/**
 * Fills the form from storage and from the address (`?draft=`, `?lane=`, `?context=`), and stores changes. `onLoad`: the
 * model is to be loaded again.
 */
export function setUp(onLoad: () => void): void {
  const address = new URLSearchParams(location.search);
  const saved = recall();
  for (const id of REMEMBERED) field(id).value = saved[id] ?? '';
  for (const name of TOOLS) field(`tool-${name}`).checked = saved.tools?.split(' ').includes(name) ?? false;
  for (const id of ['draft', 'lane', 'context']) if (address.has(id)) field(id).value = address.get(id)!;
  dialog.addEventListener('input', keep);
  field('load-model').addEventListener('click', () => {
    if (!valid()) return;
    dialog.close();
    onLoad();
  });
  field('reset-settings').addEventListener('click', () => {
    for (const id of REMEMBERED) field(id).value = '';
    for (const name of TOOLS) field(`tool-${name}`).checked = false;
    keep();
  });
  closeOutside(dialog);
}

export function open(): void {
  dialog.showModal();
}

/** Whether every field is valid; if not, the first invalid one shows why. */
function valid(): boolean {
  return dialog.querySelector('form')!.reportValidity();
}

/** The options of loading a model. */
export function loadOptions(): Pick<LoadOptions, 'draft' | 'lane' | 'kv' | 'context'> {
  const lane = field<HTMLSelectElement>('lane').value as Lane | '';
  const kv = field<HTMLSelectElement>('kv').value as LoadOptions['kv'] | '';
  const context = numeric('context');
  const draft = field('draft').value.trim();
  return {
    ...(draft ? { draft } : {}),
    ...(lane ? { lane } : {}),
    ...(kv ? { kv } : {}),
    ...(context === undefined ? {} : { context }),
  };
}

export function setContext(context: number | undefined): void {
  field('context').value = context === undefined ? '' : String(context);
  keep();
}

/** The options of an answer. `temperature`: the default where none is set. */
export function generateOptions(temperature: number): Omit<GenerateOptions, 'tools'> {
  const options: Omit<GenerateOptions, 'tools'> = {
    temperature: numeric('temperature') ?? temperature,
  };
  const speculate = field<HTMLSelectElement>('speculate').value as 'off' | 'auto' | '';
  if (speculate) options.speculate = speculate;
  for (const name of SAMPLING) {
    const value = numeric(name);
    if (value !== undefined) options[name] = value;
  }
  return options;
}

/** Shows the default temperature in the field as long as none is set. */
export function showTemperature(temperature: number): void {
  field('temperature').placeholder = String(temperature);
}

/** The tools that are switched on. */
export function tools(): ToolName[] {
  return TOOLS.filter((name) => field(`tool-${name}`).checked);
}

/** Switches a tool on, as a suggestion that needs it does. */
export function switchOn(name: ToolName): void {
  field(`tool-${name}`).checked = true;
  keep();
}

export function systemPrompt(): string {
  return field<HTMLTextAreaElement>('system').value.trim();
}

function numeric(id: string): number | undefined {
  const value = field(id).valueAsNumber;
  return Number.isNaN(value) ? undefined : value;
}

// A page without storage (private windows, blocked cookies) works, but settings are lost.
function recall(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, string>;
  } catch {
    return {};
  }
}

function keep(): void {
  try {
    const values = Object.fromEntries(REMEMBERED.map((id) => [id, field(id).value]));
    localStorage.setItem(KEY, JSON.stringify({ ...values, tools: tools().join(' ') }));
  } catch {
    return;
  }
}
