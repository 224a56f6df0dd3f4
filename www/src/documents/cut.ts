// A document as one text of blocks, and the passages that it is cut into: as long as an embedding model reads well, within one heading and one page.

/** A piece of a document as a reader of files finds it: a heading, a paragraph, an item of a list, a row of a table, a block of code. */
export interface Block {
  text: string;
  /** Of a heading: 1 to 6. */
  level?: number;
  /** The page that it stands on, from 1; absent where a document has no pages. */
  page?: number;
  /** Whether its spaces and line breaks are meant. */
  code?: boolean;
}

/** A block in the document's text: from `start` up to `end`. */
export interface Place extends Omit<Block, 'text'> {
  start: number;
  end: number;
}

/** What is embedded and quoted: a piece of the document's text. */
export interface Passage {
  start: number;
  end: number;
  /** The headings that it stands below, the outermost first. */
  path: string[];
  page?: number;
}

export interface Laid {
  text: string;
  places: Place[];
}

/**
 * How long a passage is, in letters of an alphabet: about 160 tokens, which leaves room for its headings among the 256 that small models read. Paragraphs
 * share a passage while they are short; a longer one is cut between sentences.
 */
const LONGEST = 700;
const SHARED = 420;
/** What is put before a passage tells where it is from, and is no text. */
const PATH_LETTERS = 120;

/** The blocks as one text, with an empty line between two. Empty ones are left out. */
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
  /** A heading that nothing has followed yet. */
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
  /** A heading without a text below it is all that its part says. */
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

/** Letters of an alphabet that a text is as long as: signs that stand for syllables and words have a token each. */
export function weight(text: string): number {
  return text.length + 2 * (text.match(/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu)?.length ?? 0);
}

/** Cuts what is too long into pieces of about the same length: between sentences, or lines of code, or else between words. */
function pieces(text: string, start: number, end: number, code = false): [number, number][] {
  const whole = weight(text.slice(start, end));
  const goal = whole / Math.ceil(whole / LONGEST);
  const found: [number, number][] = [];
  let from = start;
  let to = start;
  for (const unit of units(text.slice(start, end), code)) {
    const next = to + unit.length;
    const now = weight(text.slice(from, to));
    // Where it is nearer to the goal without the next one than with it, the piece ends here.
    if (to > from && weight(text.slice(from, next)) - goal > goal - now) {
      found.push([from, to]);
      from = to;
    }
    to = next;
  }
  if (to > from) found.push([from, to]);
  return found.map(([from, to]) => trimmed(text, from, to)).filter(([from, to]) => to > from);
}

/** What should stay whole, one after the other: together they are the text. */
function* units(text: string, code: boolean): Generator<string> {
  const parts = code ? text.match(/[^\n]*\n|[^\n]+$/g)! : sentences(text);
  for (const part of parts) {
    if (weight(part) <= LONGEST) yield part;
    // No sentence ends for a long time: a table, or a text without marks.
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
