// A document as one text of blocks, cut into passages of a good length for embedding models, each within one heading
// and one page.

/** A block of a document: a heading, a paragraph, an item of a list, a row of a table, a block of code. */
export interface Block {
  text: string;
  /** The level of a heading, 1 to 6. */
  level?: number;
  /** The block's page, from 1; absent where a document has no pages. */
  page?: number;
  /** Whether its spaces and line breaks are significant. */
  code?: boolean;
}

/** A block in the document's text: from `start` up to `end`. */
export interface Place extends Omit<Block, 'text'> {
  start: number;
  end: number;
}

/** A passage of the document's text, which is embedded and quoted. */
export interface Passage {
  start: number;
  end: number;
  /** The headings above the passage, the outermost first. */
  path: string[];
  page?: number;
}

export interface Laid {
  text: string;
  places: Place[];
}

/**
 * The length of a passage, in letters of an alphabet: about 160 tokens, which leaves room for its headings among the
 * 256 that small models read. Short paragraphs share a passage; longer ones are cut between sentences.
 */
const LONGEST = 700;
const SHARED = 420;
/** Most letters of the headings that are put before a passage. */
const PATH_LETTERS = 120;

/** The blocks as one text, separated by empty lines. Empty blocks are left out. */
export function layOut(blocks: readonly Block[]): Laid {
  let text = '';
  const places: Place[] = [];
  for (const { text: raw, ...rest } of blocks) {
    const own = rest.code ? raw.replace(/^\n+|\s+$/g, '') : raw.trim();
    if (own === '') continue;
    if (text !== '') text += '\n\n';
    places.push({ ...rest, start: text.length, end: text.length + own.length });
    text += own;
  }
  return { text, places };
}

/** Cuts a document into passages, in their order. */
export function cut({ text, places }: Laid): Passage[] {
  const passages: Passage[] = [];
  const path: { level: number; name: string }[] = [];
  let open: Passage | null = null;
  /** A heading without a text below it so far. */
  let bare: Place | null = null;
  const names = (): string[] => path.map(({ name }) => name);
  const close = (): void => {
    if (open) passages.push(open);
    open = null;
  };
  const add = (start: number, end: number, page: number | undefined): void => {
    if (open && (open.page !== page || weight(text.slice(open.start, end)) > SHARED)) close();
    if (open) open.end = end;
    else open = { start, end, path: names(), ...(page === undefined ? {} : { page }) };
  };
  /** Makes a passage of a heading without a text below it. */
  const leave = (level: number): void => {
    if (!bare || bare.level! < level) return;
    const { start, end, page } = bare;
    passages.push({
      start,
      end,
      path: names().slice(0, -1),
      ...(page === undefined ? {} : { page }),
    });
  };
  for (const place of places) {
    const { start, end, level, page, code } = place;
    if (level !== undefined) {
      close();
      leave(level);
      while (path.length > 0 && path.at(-1)!.level >= level) path.pop();
      path.push({ level, name: text.slice(start, end).replace(/\s+/g, ' ') });
      bare = place;
      continue;
    }
    bare = null;
    if (weight(text.slice(start, end)) <= LONGEST) add(start, end, page);
    else {
      close();
      for (const [from, to] of pieces(text, start, end, code)) {
        add(from, to, page);
        close();
      }
    }
  }
  close();
  leave(0);
  return passages;
}

/** The passage as it is embedded: below its headings, which say what it is about. */
export function textOf({ start, end, path }: Passage, text: string): string {
  const names = path.join(', ');
  const about = names.length > PATH_LETTERS ? path.at(-1)!.slice(0, PATH_LETTERS) : names;
  return about === '' ? text.slice(start, end) : `${about}\n${text.slice(start, end)}`;
}

/** The length of a text in letters of an alphabet: signs for syllables and words count more, as each is a token. */
export function weight(text: string): number {
  return text.length + 2 * (text.match(/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu)?.length ?? 0);
}

/** Cuts a long text into pieces of about equal length: between sentences, or lines of code, or else between words. */
function pieces(text: string, start: number, end: number, code = false): [number, number][] {
  const whole = weight(text.slice(start, end));
  const goal = whole / Math.ceil(whole / LONGEST);
  const found: [number, number][] = [];
  let from = start;
  let to = start;
  for (const unit of units(text.slice(start, end), code)) {
    const next = to + unit.length;
    const now = weight(text.slice(from, to));
    // The piece ends where the next unit would take it farther from the goal.
    if (to > from && weight(text.slice(from, next)) - goal > goal - now) {
      found.push([from, to]);
      from = to;
    }
    to = next;
  }
  if (to > from) found.push([from, to]);
  return found.map(([from, to]) => trimmed(text, from, to)).filter(([from, to]) => to > from);
}

/** The units of a text that should stay whole: concatenated they are the text. */
function* units(text: string, code: boolean): Generator<string> {
  const parts = code ? text.match(/[^\n]*\n|[^\n]+$/g)! : sentences(text);
  for (const part of parts) {
    if (weight(part) <= LONGEST) yield part;
    // A very long sentence: a table, or a text without punctuation.
    else for (const words of part.match(/\S{0,200}\s*/g)!) if (words !== '') yield words;
  }
}

export function sentences(text: string): string[] {
  return [...new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text)].map(({ segment }) => segment);
}

function trimmed(text: string, from: number, to: number): [number, number] {
  const own = text.slice(from, to);
  return [from + own.length - own.trimStart().length, to - (own.length - own.trimEnd().length)];
}
