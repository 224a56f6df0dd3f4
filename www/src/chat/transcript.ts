// The list of messages. Streamed text is painted at most once a frame, and the list stays scrolled to its end unless
// the user has scrolled up.
import type { Progress } from 'millrace';
import { copy } from '../shared/dom.ts';
import { rate, seconds } from '../shared/format.ts';
import type { Explanation } from '../shared/explain.ts';
import type { Figures, Said } from './conversations.ts';
import type { MarkdownView } from './markdown.ts';
import { PHASES } from './stage.ts';
import { type Shown, thumbnail } from './thumbnail.ts';

const list = document.querySelector<HTMLOListElement>('#messages')!;
const scroller = document.querySelector<HTMLElement>('#conversation')!;
const announce = document.querySelector<HTMLElement>('#announce')!;

/** How an answer ended: whole, or with an error. */
export type Outcome = { text: string } | { error: Explanation };

/** The user's actions on a message. */
export interface Actions {
  /** The user has edited the question at `index` of the conversation. */
  onEdit(index: number, text: string): void;
  /** The user wants the last answer generated again. */
  onRegenerate(): void;
}

let actions: Actions;

export function setUp(does: Actions): void {
  actions = does;
}

/** Shows a conversation from its beginning. */
export function show(messages: readonly Said[]): void {
  list.replaceChildren();
  messages.forEach((said, index) => {
    if (said.role === 'user') addQuestion(said.content, index, said.pictures);
    else new AnswerView(said).restore(said);
  });
  follow();
}

/** Removes the message at `index` and those after it. */
export function cut(index: number): void {
  for (const item of [...list.children].slice(index)) item.remove();
}

export function addQuestion(content: string, index: number, pictures: readonly Shown[] = []): void {
  const { item, text } = addItem('user', 'You');
  text.textContent = content;
  if (pictures.length > 0) {
    const shown = document.createElement('div');
    shown.className = 'pictures';
    shown.append(...pictures.map(thumbnail));
    text.before(shown);
    // Images have a height only once they are loaded.
    for (const image of shown.querySelectorAll('img')) image.addEventListener('load', follow, { once: true });
  }
  const edit = button('Edit', 'small edit', () => startEdit(item, text, content, index));
  const foot = document.createElement('div');
  foot.className = 'foot';
  foot.append(
    copyButton(() => content),
    edit,
  );
  item.append(foot);
  follow();
}

/** Turns the question into a field; Escape cancels. */
function startEdit(item: HTMLElement, text: HTMLElement, content: string, index: number): void {
  if (item.querySelector('form')) return;
  const form = document.createElement('form');
  form.className = 'editor';
  const field = document.createElement('textarea');
  field.value = content;
  field.rows = Math.min(8, content.split('\n').length + 1);
  field.setAttribute('aria-label', 'Edit the message');
  const done = document.createElement('div');
  done.className = 'actions';
  const save = button('Send', 'primary', () => form.requestSubmit());
  const end = (): void => {
    form.remove();
    item.classList.remove('editing');
    item.querySelector<HTMLButtonElement>('.edit')?.focus();
  };
  const cancel = button('Cancel', 'quiet', end);
  done.append(cancel, save);
  form.append(field, done);
  const submit = (): void => {
    if (field.value.trim() === '') return;
    end();
    actions.onEdit(index, field.value.trim());
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      end();
    } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  item.classList.add('editing');
  text.after(form);
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}

/** The view of an answer, while it is generated or from storage. */
export class AnswerView {
  readonly #item: HTMLElement;
  readonly #reading = document.createElement('span');
  /** The text before the last calls of tools. */
  #before = '';
  /** Calls by their ids. */
  readonly #calls = new Map<string, CallView>();
  // The text that is being written; after calls it continues below them.
  #text: HTMLElement;
  #thought: HTMLDetailsElement | null = null;
  #content = '';
  #reasoning = '';
  /** Whether calls have come since the last text. */
  #called = false;
  #began = performance.now();
  #frame = 0;
  #next = 0;
  #markdown: MarkdownView | null = null;
  /** Whether the answer is JSON: shown as text while it is written, and then as a tree. */
  readonly #json: boolean;

  constructor({ json = false }: { json?: boolean } = {}) {
    this.#json = json;
    const { item, text } = addItem('assistant', 'Millrace');
    this.#item = item;
    this.#text = text;
    this.#reading.className = 'reading';
  }

  /** Begins a new answer. */
  start(): this {
    this.#item.classList.add('writing');
    follow();
    return this;
  }

  /** Shows a stored answer. */
  restore(said: Said): void {
    for (const message of said.steps ?? []) {
      if (message.role === 'tool') this.result(message.tool_call_id ?? '', message.content ?? '', null);
      else this.#restore(message.content ?? '', message.reasoning_content);
      for (const { id = '', function: made } of message.tool_calls ?? []) {
        this.call(id, made.name);
        this.args(id, typeof made.arguments === 'string' ? made.arguments : JSON.stringify(made.arguments));
      }
    }
    this.#restore(said.content, said.reasoning);
    this.#paint(true);
    this.#foot(said.figures ? figuresText(said.figures) : '');
    this.#tree(said.figures);
  }

  #restore(content: string, reasoning: string | undefined): void {
    if (reasoning) this.think(reasoning, null);
    if (content !== '') this.append(content);
  }

  /** Shows that the model calls a tool. */
  call(id: string, name: string): void {
    if (this.#content === '') this.#thoughtEnds();
    this.#called = true;
    this.#paint(true);
    const view = new CallView(name);
    this.#calls.set(id, view);
    this.#item.append(view.element);
    this.#item.classList.add('begun');
  }

  /** Appends to a call's arguments. */
  args(id: string, text: string): void {
    this.#calls.get(id)?.args(text);
    if (atEnd()) follow();
  }

  /** Shows a call's result. */
  result(id: string, content: string, ms: number | null): void {
    this.#calls.get(id)?.result(content, ms);
    if (atEnd()) follow();
  }

  /** Continues below calls, if some have come. */
  #goOn(): void {
    if (!this.#called) return;
    this.#called = false;
    this.#before += this.#content;
    this.#text = document.createElement('div');
    this.#text.className = 'text';
    this.#text.dir = 'auto';
    this.#item.append(this.#text);
    this.#thought = null;
    this.#content = '';
    this.#reasoning = '';
    this.#markdown = null;
    this.#began = performance.now();
  }

  /** Shows how much of the prompt's pictures is encoded, then of its tokens read. */
  reading({ phase, loaded, total }: Progress): void {
    const reads = loaded < total && (phase === 'pictures' || phase === 'prompt');
    const text = reads ? `${PHASES[phase]}: ${Math.floor((100 * loaded) / total)} %` : '';
    this.#reading.textContent = text;
    if (text) this.#item.append(this.#reading);
    else this.#reading.remove();
  }

  /** Appends to the answer. */
  append(delta: string): void {
    this.#goOn();
    if (this.#content === '') this.#thoughtEnds();
    this.#content += delta;
    this.#item.classList.add('begun');
    this.#soon();
  }

  /**
   * Appends to the thought before the answer. `since`: when the thought began; null where that is not known any more.
   */
  think(delta: string, since: number | null = this.#began): void {
    this.#goOn();
    if (!this.#thought) {
      this.#thought = document.createElement('details');
      this.#thought.className = 'thought';
      const summary = document.createElement('summary');
      summary.textContent = since === null ? 'Thought' : 'Thinking…';
      const body = document.createElement('div');
      this.#thought.append(summary, body);
      this.#text.before(this.#thought);
      this.#item.classList.add('begun');
    }
    this.#reasoning += delta;
    this.#soon();
  }

  #thoughtEnds(): void {
    if (this.#thought)
      this.#thought.querySelector('summary')!.textContent = `Thought for ${seconds(performance.now() - this.#began)}`;
  }

  finish(outcome: Outcome, figures: Figures | null): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#next);
    // Another conversation may be on the screen by now.
    if (!this.#item.isConnected) return;
    this.#reading.remove();
    const following = atEnd();
    if (this.#content === '') this.#thoughtEnds();
    this.#item.classList.remove('writing');
    this.#paint(true);
    if ('error' in outcome) this.#item.append(errorNote(outcome.error));
    this.#foot(figures ? figuresText(figures) : '');
    this.#tree(figures);
    for (const call of this.#calls.values()) call.end();
    // Screen readers announce the answer once, when it is whole, not token by token.
    announce.textContent = 'text' in outcome ? `Millrace: ${this.#whole()}` : '';
    if (following) follow();
  }

  /** The whole text of the answer. */
  #whole(): string {
    return [this.#before, this.#content].filter((text) => text !== '').join('\n\n');
  }

  /** Shows complete JSON as a folding tree, with its grammar. */
  #tree(figures: Figures | null | undefined): void {
    if (!this.#json) return;
    const [text, content] = [this.#text, this.#content];
    void loadTree().then((tree) => {
      const view = tree?.viewOf(content, figures?.grammar);
      if (!view) return;
      const following = atEnd();
      text.after(view);
      if (following) follow();
    });
  }

  /** Adds the line below the answer; only the last answer has a button to generate it again. */
  #foot(text: string): void {
    for (const old of list.querySelectorAll('.regenerate')) old.remove();
    const foot = document.createElement('div');
    foot.className = 'foot';
    const note = document.createElement('span');
    note.className = 'figures';
    note.textContent = text;
    foot.append(
      note,
      copyButton(() => this.#whole()),
      button('Regenerate', 'small regenerate', () => actions.onRegenerate()),
    );
    this.#item.append(foot);
  }

  #soon(): void {
    if (this.#frame || this.#next) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const following = atEnd();
      const began = performance.now();
      this.#paint(false);
      if (following) follow();
      // Layout of a long answer takes long: it may use at most a quarter of the page's time.
      const pause = 3 * (performance.now() - began);
      if (pause > 16) {
        this.#next = window.setTimeout(() => {
          this.#next = 0;
          this.#soon();
        }, pause);
      }
    });
  }

  #paint(whole: boolean): void {
    if (this.#thought) this.#thought.lastElementChild!.textContent = this.#reasoning.trim();
    if (this.#json) {
      this.#text.classList.add('json');
      this.#text.textContent = this.#content;
      return;
    }
    if (this.#markdown) {
      this.#markdown.show(this.#content, whole);
      return;
    }
    // Until the Markdown code is loaded, and where it cannot be, the text is shown as it is.
    this.#text.textContent = this.#content;
    if (this.#content === '') return;
    const [text, content] = [this.#text, this.#content];
    void loadMarkdown().then((view) => {
      if (!view) return;
      const following = atEnd();
      if (this.#text !== text) new view(text).show(content, true);
      else if (!this.#markdown) {
        this.#markdown = new view(text);
        this.#markdown.show(this.#content, !this.#item.classList.contains('writing'));
      }
      if (following) follow();
    });
  }
}

/** The view of a tool call, folded: arguments and result. */
class CallView {
  readonly element = document.createElement('details');
  readonly #summary = document.createElement('summary');
  readonly #state = document.createElement('span');
  readonly #body = document.createElement('div');
  readonly #args = document.createElement('pre');
  #written = '';
  #done = false;

  constructor(name: string) {
    this.element.className = 'call';
    const title = document.createElement('code');
    title.textContent = name;
    this.#state.className = 'state';
    this.#state.textContent = 'runs…';
    this.#summary.append(title, ' ', this.#state);
    this.#args.setAttribute('aria-label', 'Arguments');
    this.#body.append(this.#args);
    this.element.append(this.#summary, this.#body);
  }

  args(text: string): void {
    this.#written += text;
    this.#args.textContent = pretty(this.#written);
  }

  result(content: string, ms: number | null): void {
    const failed = content.startsWith('error: ');
    this.#done = true;
    this.element.classList.toggle('failed', failed);
    const brief = content.length > 60 ? `${content.slice(0, 59)}…` : content;
    this.#state.textContent = `${failed ? '' : '→ '}${brief}${ms !== null && ms >= 100 ? ` · ${seconds(ms)}` : ''}`;
    const result = document.createElement('pre');
    result.setAttribute('aria-label', 'Result');
    result.textContent = pretty(content);
    this.#body.append(result);
  }

  /** Ends the call without a result. */
  end(): void {
    if (!this.#done) this.#state.textContent = 'was not executed';
  }
}

/** JSON with a line for each value, anything else as it is. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

let loading: Promise<typeof MarkdownView | null> | null = null;

function loadMarkdown(): Promise<typeof MarkdownView | null> {
  loading ??= import('./markdown.ts').then(
    ({ MarkdownView }) => MarkdownView,
    () => null,
  );
  return loading;
}

let growing: Promise<typeof import('./tree.ts') | null> | null = null;

function loadTree(): NonNullable<typeof growing> {
  growing ??= import('./tree.ts').catch(() => null);
  return growing;
}

export function say(text: string): void {
  announce.textContent = text;
}

function figuresText({ tokens, decode_tok_s, ttft_ms, drafted, accepted, finish_reason }: Figures): string {
  const parts = [tokens === 1 ? '1 token' : `${tokens} tokens`];
  if (decode_tok_s > 0) parts.push(rate(decode_tok_s));
  if (ttft_ms > 0) parts.push(`first after ${seconds(ttft_ms)}`);
  if (drafted) parts.push(`${accepted} of ${drafted} drafts right`);
  if (finish_reason === 'abort') parts.push('stopped');
  if (finish_reason === 'rounds') parts.push('the limit of rounds is reached');
  if (finish_reason === 'length') parts.push('cut at the limit of tokens');
  return parts.join(' · ');
}

function errorNote({ title, message, advice }: Explanation): HTMLElement {
  const note = document.createElement('div');
  note.className = 'error';
  note.setAttribute('role', 'alert');
  const strong = document.createElement('strong');
  strong.textContent = title;
  note.append(strong, ` ${[message, advice].filter(Boolean).join('. ')}`.replace('..', '.'));
  return note;
}

function addItem(role: string, name: string): { item: HTMLLIElement; text: HTMLElement } {
  const item = document.createElement('li');
  item.className = role;
  const who = document.createElement('span');
  who.className = 'who';
  who.textContent = name;
  const text = document.createElement('div');
  text.className = 'text';
  text.dir = 'auto';
  item.append(who, text);
  list.append(item);
  return { item, text };
}

function copyButton(text: () => string): HTMLButtonElement {
  const element = button('Copy', 'small copy', () => void copy(text(), element));
  return element;
}

function button(text: string, className: string, onClick: () => void): HTMLButtonElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.className = className;
  element.textContent = text;
  element.addEventListener('click', onClick);
  return element;
}

function atEnd(): boolean {
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 48;
}

function follow(): void {
  scroller.scrollTop = scroller.scrollHeight;
}
