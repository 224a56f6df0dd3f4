// The settings: what the form shows, what is remembered, what the address overrides.
import type { GenerateOptions, Lane, ModelSource } from 'millrace';

export const BOX = './models/box.gguf';
const KEY = 'millrace.settings';
const NUMBERS = ['temperature', 'maxTokens', 'topP', 'topK', 'minP', 'seed', 'context'] as const;
type NumberName = (typeof NUMBERS)[number];

const field = <T extends HTMLElement = HTMLInputElement>(id: string): T => document.getElementById(id) as T;
const dialog = field<HTMLDialogElement>('settings');
const remembered = ['system', 'lane', 'modelUrl', ...NUMBERS];

/** What to load. */
export interface ModelChoice {
  model: ModelSource;
  name: string;
  lane?: Lane;
  context?: number;
}

/** Fills the form from memory and from the address (`?model=`, `?lane=`, `?context=`), and keeps it. */
export function setUp(onLoad: () => void): void {
  const address = new URLSearchParams(location.search);
  const saved = recall();
  for (const id of remembered) field(id).value = saved[id] ?? '';
  if (address.has('model')) field('modelUrl').value = address.get('model')!;
  if (address.has('lane')) field<HTMLSelectElement>('lane').value = address.get('lane')!;
  if (address.has('context')) field('context').value = address.get('context')!;
  showDefaults();
  dialog.addEventListener('input', () => {
    keep();
    showDefaults();
  });
  field('load-model').addEventListener('click', () => {
    if (!dialog.querySelector('form')!.reportValidity()) return;
    dialog.close();
    onLoad();
  });
  // A click beside the dialog closes it.
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  field('modelUrl').addEventListener('input', () => {
    field('modelFiles').value = '';
  });
}

export function open(focus?: string): void {
  dialog.showModal();
  if (focus) field(focus).focus();
}

export function modelChoice(): ModelChoice {
  const files = field('modelFiles').files;
  const url = field('modelUrl').value.trim();
  const lane = field<HTMLSelectElement>('lane').value as Lane | '';
  return {
    ...(files?.length ? { model: [...files], name: files[0]!.name } : { model: url || BOX, name: nameOf(url || BOX) }),
    ...(lane ? { lane } : {}),
    ...(numeric('context') === undefined ? {} : { context: numeric('context')! }),
  };
}

export function generateOptions(): GenerateOptions {
  const options: GenerateOptions = { temperature: numeric('temperature') ?? defaultTemperature(), maxTokens: numeric('maxTokens') ?? 256 };
  for (const name of ['topP', 'topK', 'minP', 'seed'] as const) {
    const value = numeric(name);
    if (value !== undefined) options[name] = value;
  }
  return options;
}

export function systemPrompt(): string {
  return field<HTMLTextAreaElement>('system').value.trim();
}

/** The small model in the box answers exactly what it was taught: no chance needed. */
function defaultTemperature(): number {
  return modelChoice().model === BOX ? 0 : 0.7;
}

function showDefaults(): void {
  field('temperature').placeholder = String(defaultTemperature());
}

function numeric(id: NumberName): number | undefined {
  const value = field(id).valueAsNumber;
  return Number.isNaN(value) ? undefined : value;
}

function nameOf(url: string): string {
  const parts = url.split(/[?#]/)[0]!.split('/').filter(Boolean);
  return decodeURIComponent(parts.at(-1) ?? url);
}

// A page without storage (private windows, blocked cookies) still works: it only forgets.
function recall(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, string>;
  } catch {
    return {};
  }
}

function keep(): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(remembered.map((id) => [id, field(id).value]))));
  } catch {
    return;
  }
}
