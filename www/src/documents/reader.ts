// The pane that shows a document at the place of a quote. On a wide screen it is beside the page, on a narrow one over
// it.
import { get, make } from '../shared/dom.ts';
import type { Passage, Place } from './cut.ts';
import type { Paper } from './store.ts';

/** Blocks that are shown before and after a place; more on request, as a whole book would block the page. */
const AROUND = 150;

const dialog = get<HTMLDialogElement>('reader');
const title = get('reader-title');
const body = get('reader-text');
const beside = matchMedia('(width >= 68rem)');

let shown: Paper | null = null;
let range: [number, number] = [0, 0];
let marks: readonly { start: number; end: number; key: boolean }[] = [];
/** The element that opened the pane, which gets the focus back. */
let opener: HTMLElement | null = null;

export function setUp(): void {
  get('reader-close').addEventListener('click', close);
  dialog.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.preventDefault();
      close();
    }
  });
  dialog.addEventListener('cancel', (event) => {
    event.preventDefault();
    close();
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog && !beside.matches) close();
  });
  // The pane switches between pane and dialog as the screen is turned.
  beside.addEventListener('change', () => {
    if (!dialog.open) return;
    dialog.close();
    show();
  });
}

/** Opens a document at a passage, with `key` highlighted in it; or at its beginning. */
export function open(
  paper: Paper,
  passage: Passage | null = null,
  key: { start: number; end: number } | null = null,
): void {
  opener = document.activeElement as HTMLElement | null;
  shown = paper;
  marks = passage ? pieces(passage, key) : [];
  title.textContent = paper.name;
  get('reader-place').textContent = passage ? whereOf(passage) : paper.pages > 0 ? `${paper.pages} pages` : '';
  const at = passage ? paper.places.findIndex(({ end }) => end > passage.start) : 0;
  range = [Math.max(0, at - AROUND), Math.min(paper.places.length, at + AROUND)];
  fill();
  show();
  const mark = body.querySelector<HTMLElement>('mark.key') ?? body.querySelector<HTMLElement>('mark');
  body.scrollTop = 0;
  // Only the pane is scrolled, not the page beside it.
  if (mark) {
    const [inner, outer] = [mark.getBoundingClientRect(), body.getBoundingClientRect()];
    body.scrollTop = inner.top - outer.top - Math.max(0, outer.height - inner.height) / 2;
  }
  title.focus({ preventScroll: true });
  if (beside.matches) opener?.scrollIntoView({ block: 'nearest' });
}

/** Closes the pane where it shows a document that was removed. */
export function forget(id: string): void {
  if (shown?.id === id) close();
}

/** The place of a passage: `page 3 · Visitors › Tickets`. */
export function whereOf({ page, path }: Passage): string {
  return [page === undefined ? '' : `page ${page}`, path.join(' › ')].filter(Boolean).join(' · ');
}

function show(): void {
  if (!dialog.open) {
    if (beside.matches) dialog.show();
    else dialog.showModal();
  }
  document.body.classList.toggle('reading', true);
}

function close(): void {
  dialog.close();
  document.body.classList.toggle('reading', false);
  shown = null;
  body.replaceChildren();
  if (opener?.isConnected) opener.focus();
  opener = null;
}

/** A passage split into the parts before, in and after its key. */
function pieces({ start, end }: Passage, key: { start: number; end: number } | null): typeof marks {
  if (!key) return [{ start, end, key: false }];
  return [
    { start, end: key.start, key: false },
    { ...key, key: true },
    { start: key.end, end, key: false },
  ].filter((piece) => piece.end > piece.start);
}

function fill(): void {
  const { places, text } = shown!;
  const [from, to] = range;
  const nodes: Node[] = [];
  if (from > 0) nodes.push(more('Show what comes before', () => (range = [Math.max(0, from - 2 * AROUND), to])));
  let page: number | undefined;
  // The pane's own heading has level 2, and levels below it are not skipped.
  let level = 2;
  for (const place of places.slice(from, to)) {
    if (place.page !== page) {
      page = place.page;
      nodes.push(make('p', 'page', `Page ${page}`));
    }
    if (place.level) level = Math.min(place.level + 2, level + 1, 6);
    nodes.push(block(place, text, level));
  }
  if (to < places.length)
    nodes.push(more('Show what comes after', () => (range = [from, Math.min(places.length, to + 2 * AROUND)])));
  body.replaceChildren(...nodes);
}

function block(place: Place, text: string, level: number): HTMLElement {
  const element = place.level ? make(`h${level}` as 'h3') : place.code ? make('pre') : make('p');
  let at = place.start;
  for (const mark of marks) {
    const [start, end] = [Math.max(mark.start, place.start), Math.min(mark.end, place.end)];
    if (end <= start) continue;
    element.append(text.slice(at, start), make('mark', mark.key ? 'key' : '', text.slice(start, end)));
    at = end;
  }
  element.append(text.slice(at, place.end));
  return element;
}

function more(label: string, extend: () => void): HTMLElement {
  const button = make('button', 'quiet more', label);
  button.type = 'button';
  button.addEventListener('click', () => {
    // Visible text keeps its position.
    const [height, top] = [body.scrollHeight, body.scrollTop];
    const before = range[0];
    extend();
    fill();
    if (range[0] < before) body.scrollTop = top + body.scrollHeight - height;
    body.focus({ preventScroll: true });
  });
  return button;
}
