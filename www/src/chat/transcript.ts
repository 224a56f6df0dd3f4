// The list of messages. Text that streams in is put on the screen once a frame, and the list stays at its end unless the reader has scrolled up.
import type { GenerateResult } from 'millrace';
import { rate, seconds } from '../shared/format.ts';
import type { Explanation } from '../shared/explain.ts';

const list = document.querySelector<HTMLOListElement>('#messages')!;
const scroller = document.querySelector<HTMLElement>('#conversation')!;
const announce = document.querySelector<HTMLElement>('#announce')!;

/** The answer that is being written. */
export interface AnswerView {
  /** How far the question, and what came before it, is read. */
  reading(tokens: number, total: number): void;
  append(text: string): void;
  /** Ends it: figures below it, or what went wrong. */
  finish(outcome: { result: GenerateResult } | { error: Explanation }): void;
  remove(): void;
}

export function addQuestion(text: string): () => void {
  const item = addItem('user', 'You');
  item.querySelector('.text')!.textContent = text;
  follow();
  return () => item.remove();
}

export function addAnswer(onRetry: () => void): AnswerView {
  const item = addItem('assistant', 'Millrace');
  item.classList.add('writing');
  const text = document.createTextNode('');
  item.querySelector('.text')!.append(text);
  let waiting = '';
  let frame = 0;
  const paint = (): void => {
    frame = 0;
    const following = atEnd();
    text.appendData(waiting);
    waiting = '';
    if (following) follow();
  };
  follow();
  const state = document.createElement('span');
  state.className = 'reading';
  return {
    reading(tokens, total) {
      state.textContent = tokens < total ? `Reading ${tokens} of ${total} tokens` : '';
      if (tokens < total) item.append(state);
      else state.remove();
    },
    append(delta) {
      waiting += delta;
      item.classList.add('begun');
      frame ||= requestAnimationFrame(paint);
    },
    finish(outcome) {
      cancelAnimationFrame(frame);
      const following = atEnd();
      paint();
      state.remove();
      item.classList.remove('writing');
      if ('error' in outcome) item.append(errorNote(outcome.error));
      item.append(foot('result' in outcome ? figures(outcome.result) : '', () => text.data, onRetry));
      // Screen readers hear the answer once, when it is whole: token by token they would stammer.
      announce.textContent = 'result' in outcome ? `Millrace: ${text.data}` : '';
      if (following) follow();
    },
    remove() {
      cancelAnimationFrame(frame);
      item.remove();
    },
  };
}

export function clear(): void {
  list.replaceChildren();
  announce.textContent = 'New chat';
}

/** Only the last answer can be asked for again. */
function foot(text: string, copy: () => string, onRetry: () => void): HTMLElement {
  for (const old of list.querySelectorAll('.retry')) old.remove();
  const element = document.createElement('div');
  element.className = 'foot';
  const note = document.createElement('span');
  note.className = 'figures';
  note.textContent = text;
  const copyButton = button('Copy', 'copy', () => {
    void navigator.clipboard?.writeText(copy()).then(() => {
      copyButton.textContent = 'Copied';
      setTimeout(() => (copyButton.textContent = 'Copy'), 1500);
    });
  });
  element.append(note, copyButton, button('Retry', 'retry', onRetry));
  return element;
}

function figures({ timings, tokens, finish_reason }: GenerateResult): string {
  const parts = [`${tokens.length} tokens`];
  if (timings.decode_tok_s > 0) parts.push(rate(timings.decode_tok_s));
  if (timings.ttft_ms > 0) parts.push(`first after ${seconds(timings.ttft_ms)}`);
  if (finish_reason === 'abort') parts.push('stopped');
  if (finish_reason === 'length') parts.push('cut at the limit of tokens');
  return parts.join(' · ');
}

function errorNote({ title, message, advice }: Explanation): HTMLElement {
  const note = document.createElement('div');
  note.className = 'error';
  note.setAttribute('role', 'alert');
  const strong = document.createElement('strong');
  strong.textContent = title;
  note.append(strong, ` ${message}. ${advice}`.replace('..', '.'));
  return note;
}

function addItem(role: string, name: string): HTMLLIElement {
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
  return item;
}

function button(text: string, className: string, onClick: () => void): HTMLButtonElement {
  const element = document.createElement('button');
  element.type = 'button';
  element.className = `small ${className}`;
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
