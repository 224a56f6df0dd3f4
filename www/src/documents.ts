// The documents page: files are added, searched and asked. What is done with them is in documents/: read, cut, embed, keep, search, answer.
import { models, type Progress } from 'millrace';
import * as answers from './documents/answer.ts';
import { type Added, Library, type Work } from './documents/library.ts';
import { ACCEPTED } from './documents/read.ts';
import * as reader from './documents/reader.ts';
import { EMBEDDER, GENERATOR, type Part, Role } from './documents/roles.ts';
import { keeps, type Paper } from './documents/store.ts';
import { Unreadable } from './documents/unreadable.ts';
import EXAMPLE from './documents/example.md';
import { confirm } from './shared/dialog.ts';
import { choose, get, make } from './shared/dom.ts';
import { setUpDrop } from './shared/drop.ts';
import { explain, type Explanation } from './shared/explain.ts';
import { lookAtDevice, verdict } from './shared/fit.ts';
import { bytes, day } from './shared/format.ts';
import { nameOf } from './shared/embedders.ts';
import './shared/offline.ts';

const EXAMPLE_NAME = 'Handbook of the Alder Mill.md';
/** The last one is not answered there, and the page says so. */
const EXAMPLE_QUESTIONS = [
  'How much is a family ticket?',
  'How do I stop the wheel in an emergency?',
  'What do I do when the river rises?',
  'Who won the world cup in 1990?',
];
/** Progress is shown so often, in milliseconds: more could not be read. */
const SHOW_EVERY_MS = 100;

const question = get<HTMLInputElement>('question');
const answering = get<HTMLInputElement>('answering');
const files = get<HTMLInputElement>('files');
const list = get('documents');
const template = get<HTMLTemplateElement>('paper');

const embedder = new Role(EMBEDDER);
const generator = new Role(GENERATOR);
const library = new Library(embedder, { changed: showPapers, working: showWork, failed: showFailure });
/** The question under way. */
let asking: AbortController | null = null;
/** Files are added one after the other. */
let adding: Promise<void> = Promise.resolve();
let again: () => void = () => {};
let shownWork = 0;

files.accept = ACCEPTED;
reader.setUp();
get<HTMLFormElement>('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  void ask(question.value.trim());
});
// Loads the model when the question gets the focus, so that the answer need not wait for it.
question.addEventListener('focus', () => library.papers.length > 0 && void embedder.engine().catch(() => {}), {
  once: true,
});
get('ask-stop').addEventListener('click', stopAsking);
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !asking || document.querySelector('dialog:modal')) return;
  // A search field would be emptied.
  event.preventDefault();
  stopAsking();
});
get('choose').addEventListener('click', () => files.click());
files.addEventListener('change', () => {
  add([...(files.files ?? [])]);
  files.value = '';
});
get('example').addEventListener('click', () => add([new File([EXAMPLE], EXAMPLE_NAME, { type: 'text/markdown' })]));
get('embedding-stop').addEventListener('click', () => {
  library.stop();
  announce('Stopped. What is read can be searched.');
});
get('embedding-go').addEventListener('click', () => {
  get('embedding-stop').focus();
  void library.embed();
});
get('problem-retry').addEventListener('click', () => {
  get('problem').hidden = true;
  again();
});
remember(answering);
setUpDrop(add);
void begin();

async function begin(): Promise<void> {
  try {
    await library.open();
    get('unkept').hidden = await keeps();
  } catch (error) {
    showFailure(error);
  }
  showPapers();
  get('waiting').hidden = true;
  get('desk').hidden = false;
  setUpModels();
  // What compiles kernels on a GPU in software would hold up the first frame.
  await painted();
  if (library.papers.length > 0) await library.embed();
}

/** Resolves when the page has been painted once, or at once where it is hidden. */
function painted(): Promise<unknown> {
  if (document.visibilityState === 'hidden') return Promise.resolve();
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

// Documents

function add(chosen: readonly File[]): void {
  get('outcomes').replaceChildren();
  adding = adding.then(async () => {
    const added: string[] = [];
    let refused = 0;
    for (const file of chosen)
      try {
        added.push(told(await library.add(file, new AbortController().signal)));
        // While the next one is read, this one is embedded.
        void library.embed();
      } catch (error) {
        refused += 1;
        showRefused(file, error);
      }
    announce(
      [...added, refused > 0 ? `${refused === 1 ? '1 file was' : `${refused} files were`} not added.` : ''].join(' '),
    );
  });
}

function told({ paper, known }: Added): string {
  if (!known) return `${paper.name} is added.`;
  const text = `${paper.name} is here already: it has the same content.`;
  const element = cardOf(paper.id);
  element?.scrollIntoView({ block: 'nearest' });
  element?.classList.add('met');
  setTimeout(() => element?.classList.remove('met'), 1500);
  outcome(text, 'plain');
  return text;
}

/** A file that was not added: why, and what to do. */
function showRefused(file: File, error: unknown): void {
  const { message, advice } = error instanceof Unreadable ? error : explained(error);
  outcome([`${file.name}:`, message, advice].filter(Boolean).join(' '), 'bad');
}

function outcome(text: string, kind: 'bad' | 'plain'): void {
  const close = make('button', 'small', 'Dismiss');
  close.type = 'button';
  const line = make('li', `outcome ${kind}`, make('span', '', text), close);
  close.addEventListener('click', () => {
    line.remove();
    get('documents-title').focus();
  });
  get('outcomes').append(line);
}

/** The list as it is now. Cards stay, so that the focus does. */
function showPapers(): void {
  const there = new Set(library.papers.map(({ id }) => id));
  for (const card of [...list.children] as HTMLElement[]) if (!there.has(card.dataset.id!)) card.remove();
  library.papers.forEach((paper, i) => {
    const card = cardOf(paper.id) ?? makeCard(paper);
    if (list.children[i] !== card) list.insertBefore(card, list.children[i] ?? null);
    card.querySelector('.facts-line')!.textContent = factsOf(paper);
  });
  const empty = library.papers.length === 0;
  document.body.classList.toggle('empty', empty);
  get<HTMLButtonElement>('ask-submit').disabled = empty;
  get('example').hidden = library.papers.some(({ name }) => name === EXAMPLE_NAME);
  showSuggestions();
}

function cardOf(id: string): HTMLElement | null {
  return ([...list.children] as HTMLElement[]).find((card) => card.dataset.id === id) ?? null;
}

function makeCard(paper: Paper): HTMLElement {
  const card = template.content.firstElementChild!.cloneNode(true) as HTMLElement;
  card.dataset.id = paper.id;
  card.querySelector('.name')!.textContent = paper.name;
  for (const button of card.querySelectorAll('button'))
    button.setAttribute('aria-label', `${button.textContent} ${paper.name}`);
  card.querySelector('.open')!.addEventListener('click', () => reader.open(paper));
  card.querySelector('.remove')!.addEventListener('click', () => void remove(paper));
  return card;
}

const KINDS: Record<Paper['kind'], string> = { text: 'Text', markdown: 'Markdown', html: 'HTML', pdf: 'PDF' };

function factsOf(paper: Paper): string {
  const { kind, pages, passages, bytes: size, added } = paper;
  const done = library.done(paper);
  return [
    KINDS[kind],
    pages > 0 ? counted(pages, 'page') : '',
    done < passages.length
      ? `${done.toLocaleString('en')} of ${counted(passages.length, 'passage')} read`
      : counted(passages.length, 'passage'),
    bytes(size),
    day(added),
  ]
    .filter(Boolean)
    .join(' · ');
}

function counted(count: number, what: string): string {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}

async function remove(paper: Paper): Promise<void> {
  const text = 'To be searched again, the file has to be added again.';
  if (!(await confirm({ title: `Remove ${paper.name}?`, text, yes: 'Remove' }))) return;
  const card = cardOf(paper.id);
  const neighbour = card?.nextElementSibling ?? card?.previousElementSibling;
  reader.forget(paper.id);
  try {
    await library.remove(paper.id);
  } catch (error) {
    return showFailure(error);
  }
  for (const quote of document.querySelectorAll<HTMLElement>('.quote'))
    if (quote.dataset.id === paper.id) quote.remove();
  (neighbour?.querySelector<HTMLElement>('.name') ?? get('documents-title')).focus();
  announce(`${paper.name} is removed.`);
}

// Progress

function showWork(work: Work | null): void {
  if (work) {
    const now = performance.now();
    if (now - shownWork < SHOW_EVERY_MS && work.done < work.of && work.done > 0) return;
    shownWork = now;
    const { doing, name, done, of } = work;
    progress(
      `${doing === 'reading' ? 'Opening' : 'Reading'} ${name}`,
      of === 0
        ? ''
        : doing === 'reading'
          ? `page ${done} of ${of}`
          : `${done.toLocaleString('en')} of ${counted(of, 'passage')}${work.perSecond > 0 ? ` · ${Math.max(1, Math.round(work.perSecond))}/s` : ''}`,
      done,
      of,
    );
    get('embedding-stop').hidden = doing === 'reading';
    showPapers();
    return;
  }
  const { done, of } = library.searchable;
  const held = library.stopped && done < of;
  get('embedding').hidden = !held;
  if (!held) return;
  progress('Stopped', `${done.toLocaleString('en')} of ${counted(of, 'passage')} can be searched`, done, of);
  const focused = document.activeElement === get('embedding-stop');
  get('embedding-stop').hidden = true;
  get('embedding-go').hidden = false;
  if (focused) get('embedding-go').focus();
}

/** `of` is 0 where the amount of work is unknown. */
function progress(text: string, amount: string, done: number, of: number): void {
  get('embedding').hidden = false;
  get('embedding-go').hidden = true;
  get('embedding-text').textContent = text;
  get('embedding-amount').textContent = amount;
  const bar = get<HTMLProgressElement>('embedding-bar');
  if (of > 0) Object.assign(bar, { max: of, value: done });
  else bar.removeAttribute('value');
}

embedder.onProgress = (now) => {
  const { done, of } = library.searchable;
  if (!now) return get('embedding').hidden ? undefined : showWork(null);
  const text = `Loading ${embedder.name}`;
  // Where nothing is to be read, only a question waits for it.
  if (done < of) {
    progress(text, amountOf(now), now.loaded, now.total);
    get('embedding-stop').hidden = true;
  }
  const waiting = document.querySelector('#quotes .searching');
  if (waiting) waiting.textContent = [`${text}…`, amountOf(now)].filter(Boolean).join(' ');
};

function amountOf({ phase, loaded, total, note }: Progress): string {
  return note ?? (phase === 'download' && total > 0 ? `${bytes(loaded)} of ${bytes(total)}` : '');
}

function showFailure(error: unknown): void {
  showProblem(error, () => void library.embed());
}

function showProblem(error: unknown, retry: () => void): void {
  const { title, message, advice } = explained(error);
  again = retry;
  get('problem-title').textContent = title;
  get('problem-message').textContent = message;
  get('problem-advice').textContent = advice;
  get('problem').hidden = false;
}

/** An error in the words of the document search. */
function explained(error: unknown): Explanation {
  if ((error as { name?: string } | null)?.name === 'QuotaExceededError')
    return {
      title: 'The documents cannot be kept',
      message: 'The browser’s storage is full.',
      advice: 'Remove documents here or models on the storage page, or free some disk space.',
    };
  return explain(error, {
    UNSUPPORTED_MODEL: 'Choose another one below, under Models.',
    ABORTED: 'Choose another model below, under Models, or try again.',
    CONTEXT_FULL: 'Ask a shorter question, or choose another model below, under Models.',
  });
}

function announce(text: string): void {
  get('announce').textContent = text;
}

// Questions

function showSuggestions(): void {
  const there = library.papers.some(({ name }) => name === EXAMPLE_NAME);
  const place = get('suggestions');
  place.hidden = !there || !get('result').hidden;
  if (!there || place.childElementCount > 0) return;
  for (const text of EXAMPLE_QUESTIONS) {
    const button = make('button', 'quiet', text);
    button.type = 'button';
    button.addEventListener('click', () => {
      question.value = text;
      question.focus();
      void ask(text);
    });
    place.append(make('li', '', button));
  }
}

function stopAsking(): void {
  asking?.abort();
  question.focus();
}

/** Shows quotes, and then an answer made of them. */
async function ask(text: string): Promise<void> {
  if (text === '' || library.papers.length === 0) return;
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const { signal } = mine;
  get('problem').hidden = true;
  get('result').hidden = false;
  get('result-title').textContent = text;
  for (const name of ['answer', 'nothing', 'quotes-title', 'quotes-note']) get(name).hidden = true;
  get('answer-text').replaceChildren();
  get('quotes').replaceChildren(make('li', 'hint searching', 'Searching…'));
  showSuggestions();
  busy(true);
  let role = embedder;
  try {
    const engine = await embedder.engine();
    if (library.searchable.done === 0) await library.embed();
    const found = await answers.find(engine, library, text);
    signal.throwIfAborted();
    showQuotes(found);
    if (!found.answers || !answering.checked) return;
    role = generator;
    await write(text, found.quotes, signal);
  } catch (error) {
    if (!(error instanceof DOMException)) role.failed(error);
    // Another question has taken its place.
    if (asking !== mine) return;
    if (role === embedder) get('quotes').replaceChildren(...(signal.aborted ? [make('li', 'hint', 'Stopped.')] : []));
    if (signal.aborted) {
      get('answer-state').textContent = 'Stopped.';
      get('answer-state').hidden = false;
    } else {
      get('answer').hidden = true;
      showProblem(error, () => void ask(text));
    }
  } finally {
    if (asking === mine) {
      asking = null;
      busy(false);
    }
  }
}

function busy(on: boolean): void {
  const focused = document.activeElement === get('ask-stop');
  get('ask-submit').hidden = on;
  get('ask-stop').hidden = !on;
  if (focused && !on) question.focus();
}

function showQuotes({ quotes, answers: stands }: answers.Found): void {
  const { done, of } = library.searchable;
  const missing = done < of ? `Searched so far: ${done.toLocaleString('en')} of ${counted(of, 'passage')}.` : '';
  get('nothing').hidden = stands;
  get('nothing').textContent = stands
    ? ''
    : 'The documents do not answer this: no passage is near enough to the question.';
  get('quotes-title').hidden = quotes.length === 0;
  get('quotes-title').textContent = stands ? 'Quotes' : 'The nearest passages all the same';
  get('quotes-note').hidden = missing === '';
  get('quotes-note').textContent = missing;
  get('quotes').replaceChildren(...quotes.map(quoteOf));
  announce(
    stands
      ? `${counted(quotes.length, 'quote')}, the first from ${quotes[0]!.paper.name}.`
      : 'The documents do not answer this.',
  );
}

function quoteOf(quote: answers.Quote, i: number): HTMLElement {
  const { paper, passage, key } = quote;
  const where = reader.whereOf(passage);
  const go = make('button', 'go', make('span', 'number', String(i + 1)), make('span', 'source', paper.name));
  go.type = 'button';
  if (where) go.append(make('span', 'where', where));
  go.setAttribute('aria-label', `Quote ${i + 1}: open ${paper.name}${where ? `, ${where}` : ''}`);
  go.addEventListener('click', () => reader.open(paper, passage, key));
  const text = make('blockquote');
  const { start, end } = passage;
  if (key)
    text.append(
      paper.text.slice(start, key.start),
      make('mark', '', paper.text.slice(key.start, key.end)),
      paper.text.slice(key.end, end),
    );
  else text.append(paper.text.slice(start, end));
  // The text can be selected; a click alone leads to its place, as the button does.
  text.addEventListener('click', () => {
    if (getSelection()?.isCollapsed) {
      go.focus();
      go.click();
    }
  });
  const element = make('li', 'quote card', go, text);
  element.dataset.id = paper.id;
  return element;
}

/** Has the generator write an answer of the quotes. */
async function write(text: string, quotes: readonly answers.Quote[], signal: AbortSignal): Promise<void> {
  const state = get('answer-state');
  const place = get('answer-text');
  get('answer').hidden = false;
  place.replaceChildren();
  get('answer-note').hidden = true;
  state.hidden = false;
  state.textContent = `Loading ${generator.name}…`;
  generator.onProgress = (now) => {
    if (now && !signal.aborted)
      state.textContent = [`Loading ${generator.name}…`, amountOf(now)].filter(Boolean).join(' ');
  };
  const engine = await generator.engine();
  signal.throwIfAborted();
  state.textContent = 'Reading the quotes…';
  const { messages, handed } = await answers.messagesFor(engine, text, quotes);
  const answer = engine.run({
    messages,
    tools: [],
    execute: {},
    maxTokens: answers.MOST_TOKENS,
    temperature: 0,
    signal,
  });
  let said = '';
  for await (const event of answer) {
    if (signal.aborted) break;
    if (event.type === 'reasoning') state.textContent = 'Thinking…';
    else if (event.type === 'content') {
      said += event.text;
      state.hidden = true;
      place.replaceChildren(...cited(said, quotes));
    }
  }
  await answer;
  if (said.trim() === '') state.textContent = 'The model wrote nothing. The quotes are below.';
  const notes = [
    generator.isBox
      ? 'The model in the box is tiny and was made for other things: go by the quotes, or choose a larger one under Models.'
      : '',
    handed < quotes.length && !generator.isBox
      ? `Written from the first ${handed === 1 ? 'quote' : `${handed} quotes`}.`
      : '',
  ].filter(Boolean);
  get('answer-note').hidden = notes.length === 0;
  get('answer-note').textContent = notes.join(' ');
  announce(`Answer: ${said.trim()}`);
}

/** An answer's text, in which [1] leads to the first quote. */
function cited(text: string, quotes: readonly answers.Quote[]): (string | Node)[] {
  return text.split(/(\[\d+\])/).map((part) => {
    const number = Number(/^\[(\d+)\]$/.exec(part)?.[1] ?? 0);
    const quote = quotes[number - 1];
    if (!quote) return part;
    const link = make('button', 'cite', part);
    link.type = 'button';
    link.setAttribute('aria-label', `Open quote ${number}`);
    link.addEventListener('click', () => reader.open(quote.paper, quote.passage, quote.key));
    return link;
  });
}

// Models

function setUpModels(): void {
  for (const [part, role] of [
    [EMBEDDER, embedder],
    [GENERATOR, generator],
  ] as const) {
    const select = get<HTMLSelectElement>(part.key);
    void fill(select, part, role);
    select.addEventListener('change', () => {
      role.choose(select.value);
      get('problem').hidden = true;
      if (role === embedder) void library.changedModel();
      else
        generator.engine().then(
          () => announce(`${generator.name} is loaded.`),
          (error: unknown) => showProblem(error, () => void generator.engine().catch(() => {})),
        );
    });
  }
  get('models').addEventListener(
    'toggle',
    () => void Promise.all([fill(get('embedder'), EMBEDDER, embedder), fill(get('generator'), GENERATOR, generator)]),
    { once: true },
  );
}

/** The models of a list: the one in the box, well-known ones with what this machine makes of them, the one in use. */
async function fill(select: HTMLSelectElement, { box, boxName, known }: Part, role: Role): Promise<void> {
  select.replaceChildren(new Option(boxName, box));
  choose(select, role.url, role.name);
  if (!get<HTMLDetailsElement>('models').open) return;
  const [device, stored] = await Promise.all([lookAtDevice(), models.list().catch(() => [])]);
  const here = new Map(stored.map((model) => [model.url, model]));
  const options = known.map((model) => {
    const kept = here.get(model.url);
    const state = kept?.complete ? 'downloaded' : verdict(model, device, kept?.bytes).text;
    return new Option(`${model.name}, ${model.about} · ${bytes(model.bytes)} · ${state}`, model.url);
  });
  select.replaceChildren(new Option(boxName, box), ...options);
  choose(select, role.url, nameOf(role.url));
}

/** A choice that stays for the next visit. */
function remember(box: HTMLInputElement): void {
  const key = `millrace.documents.${box.id}`;
  try {
    box.checked = localStorage.getItem(key) !== 'false';
  } catch {
    // Without storage it is as the page has it.
  }
  box.addEventListener('change', () => {
    try {
      localStorage.setItem(key, String(box.checked));
    } catch {
      return;
    }
  });
}
