// The storage page: the models that this browser keeps, and what can be done with them. No GPU is needed.
import { MillraceError, models, type StorageUsage, type StoredModel } from 'millrace';
import { ModelCard, showOutcome, type Outcome, type Page } from './storage/card.ts';
import { confirm } from './shared/dialog.ts';
import { get } from './shared/dom.ts';
import { explain } from './shared/explain.ts';
import { bytes, define, sentence } from './shared/format.ts';
import './shared/offline.ts';

const list = get('models');
const address = get<HTMLInputElement>('address');
const files = get<HTMLInputElement>('files');
/** By address. */
const cards = new Map<string, ModelCard>();
/** What begins now and is not stored yet. */
const beginning = new Set<ModelCard>();

const page: Page = { announce, confirm, refresh };

get('problem-retry').addEventListener('click', () => void refresh());
get('persist').addEventListener('click', () => void persist());
get('remove-all').addEventListener('click', () => void removeAll());
files.addEventListener('change', showChoice);
get<HTMLFormElement>('add').addEventListener('submit', (event) => {
  event.preventDefault();
  void add();
});
// Another tab may have changed what is stored.
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && void refresh());
void refresh();

/** Reads what is stored and shows it. */
async function refresh(): Promise<void> {
  try {
    const [stored, usage] = await Promise.all([models.list(), models.usage()]);
    showModels(stored);
    showSpace(stored, usage);
    get('problem').hidden = true;
    get('stored').hidden = false;
  } catch (error) {
    showProblem(error);
  }
  get('waiting').hidden = true;
}

/** What arrived last comes first. */
function showModels(stored: StoredModel[]): void {
  stored.sort((a, b) => b.created - a.created);
  const there = new Set(stored.map(({ url }) => url));
  for (const [url, card] of cards) if (!there.has(url) && !beginning.has(card)) drop(card);
  for (const model of stored) {
    const card = cards.get(model.url);
    if (card) card.update(model);
    else addCard(model);
  }
  get('empty').hidden = cards.size > 0;
  get('remove-all').hidden = cards.size < 2;
}

function addCard(model: StoredModel): ModelCard {
  const card = new ModelCard(model, page);
  const next = [...cards.values()]
    .filter((one) => one.model.created < model.created)
    .sort((a, b) => b.model.created - a.model.created)[0];
  cards.set(model.url, card);
  list.insertBefore(card.element, next?.element ?? null);
  return card;
}

/** Takes a card away. If it had the focus, its neighbour gets it. */
function drop(card: ModelCard): void {
  const focused = card.element.contains(document.activeElement);
  const neighbour = card.element.nextElementSibling ?? card.element.previousElementSibling;
  cards.delete(card.model.url);
  card.element.remove();
  if (!focused) return;
  const next = [...cards.values()].find(({ element }) => element === neighbour);
  if (next) next.focus();
  else get('models-title').focus();
}

function showSpace(stored: StoredModel[], { used, available, persistent }: StorageUsage): void {
  define(get('space'), [
    ['Models', String(stored.length)],
    ['Used', bytes(used)],
    ['Free', available === null ? 'not known' : bytes(available)],
    ['Kept', persistent ? 'until you remove them' : 'while there is room'],
  ]);
  get('persistence').hidden = persistent;
  get('persistence-text').textContent =
    'When the disk fills up, the browser may remove all that this site has stored; the models would then have to be downloaded again.';
}

function showProblem(error: unknown): void {
  const closed = error instanceof MillraceError && error.code === 'STORAGE';
  const { title, message, advice } = closed
    ? {
        title: 'This browser keeps no models here',
        message: sentence(error.message),
        advice:
          'So it is in private windows, and where a site may not store data. Models run all the same, but are downloaded anew each time.',
      }
    : explain(error);
  get('problem-title').textContent = title;
  get('problem-message').textContent = message;
  get('problem-advice').textContent = advice;
  get('problem').hidden = false;
  get('stored').hidden = true;
}

async function persist(): Promise<void> {
  const granted = await navigator.storage.persist().catch(() => false);
  if (granted) {
    await refresh();
    return announce('The browser keeps the models until you remove them.');
  }
  const text =
    'The browser did not agree. It decides by itself: a site that is installed, bookmarked or often used has better chances.';
  get('persistence-text').textContent = text;
  announce(text);
}

async function removeAll(): Promise<void> {
  const all = [...cards.values()].filter(({ busy }) => !busy);
  const freed = all.reduce((sum, { model }) => sum + model.bytes, 0);
  const text = `${bytes(freed)} become free. To be used again, they have to be downloaded or imported again.`;
  if (!(await confirm({ title: `Remove all ${all.length} models?`, text, yes: 'Remove all' }))) return;
  const outcomes = [];
  for (const card of all) outcomes.push(await card.removeNow());
  const kept = outcomes.filter(Boolean).length;
  announce(kept === 0 ? 'All models are removed.' : `${all.length - kept} models are removed, ${kept} could not be.`);
  if (kept === 0) get('models-title').focus();
}

/** Downloads, or imports where files were chosen. */
async function add(): Promise<void> {
  const given = [...(files.files ?? [])];
  showOutcome(get('add-outcome'), null);
  let url: string;
  try {
    url = new URL(address.value.trim(), location.href).href;
  } catch {
    return addFailed({ kind: 'bad', text: 'This is not an address.' });
  }
  const known = cards.get(url);
  if (known?.busy) return known.focus();
  if (known && given.length > 0) {
    const text = 'The files take the place of what is stored under this address.';
    if (!(await confirm({ title: `Replace ${known.name}?`, text, yes: 'Replace' }))) return;
  }
  // What is written meanwhile is for the next one.
  get<HTMLFormElement>('add').reset();
  showChoice();
  const card =
    known ?? addCard({ url, bytes: 0, total: null, complete: false, files: [], created: Date.now(), lastUsed: null });
  beginning.add(card);
  get('empty').hidden = true;
  card.element.scrollIntoView({ block: 'nearest' });
  const outcome = await (given.length > 0 ? card.import(given) : card.download());
  beginning.delete(card);
  await refresh();
  // A model that is not stored has no card to say it.
  if (card.element.isConnected || !outcome || outcome.kind === 'good') return;
  address.value ||= url;
  addFailed(outcome);
}

/** What the button does. */
function showChoice(): void {
  get('add-submit').textContent = files.files?.length ? 'Import' : 'Download';
}

function addFailed(outcome: Outcome): void {
  showOutcome(get('add-outcome'), outcome);
  announce(outcome.text);
  address.focus();
}

function announce(text: string): void {
  get('announce').textContent = text;
}
