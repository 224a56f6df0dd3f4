// PDF files have positioned lines only: recovers paragraphs and headings.
import type { Block } from './cut.ts';

/** A line of a page. Sizes are in points; `y` grows upwards. */
export interface Line {
  text: string;
  y: number;
  /** The size of the line's letters. */
  size: number;
}

/** Letters larger than a document's common size by this factor are a heading's. */
const HEADING = 1.15;
const LONGEST_HEADING = 140;
/** A line that is this many sizes below the one before begins a paragraph. */
const GAP = 1.7;
/** Lines at the top or bottom of at least this many pages are headers or footers. */
const REPEATED = 3;

/** The blocks of the pages' lines. */
export function blocksOf(pages: readonly (readonly Line[])[]): Block[] {
  const kept = withoutMargins(pages);
  const common = commonSize(kept.flat());
  const sizes = [
    ...new Set(
      kept
        .flat()
        .filter(isHeading)
        .map(({ size }) => rounded(size)),
    ),
  ].sort((a, b) => b - a);
  function isHeading({ text, size }: Line): boolean {
    return size > common * HEADING && text.length <= LONGEST_HEADING && /\p{L}/u.test(text);
  }
  const blocks: Block[] = [];
  kept.forEach((lines, i) => {
    let open: Block | null = null;
    let before: Line | null = null;
    for (const line of lines) {
      const level = isHeading(line) ? Math.min(6, sizes.indexOf(rounded(line.size)) + 1) : undefined;
      const gap = before ? before.y - line.y : 0;
      // The next column begins above the end of the one before.
      const goesOn =
        open !== null &&
        open.level === level &&
        gap > -line.size &&
        gap <= GAP * Math.max(line.size, before?.size ?? 0);
      if (goesOn) open!.text = joined(open!.text, line.text);
      else blocks.push((open = { text: line.text, page: i + 1, ...(level ? { level } : {}) }));
      before = line;
    }
  });
  return blocks;
}

/** A paragraph joined with its next line. Hyphenated words are joined. */
function joined(text: string, line: string): string {
  if (/\p{L}-$/u.test(text) && /^\p{Ll}/u.test(line)) return text.slice(0, -1) + line;
  // Chinese and Japanese have no spaces.
  return /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]$/u.test(text) ? text + line : `${text} ${line}`;
}

/**
 * Pages without page numbers, and without lines that repeat at the top or bottom of several pages, apart from numbers.
 */
function withoutMargins(pages: readonly (readonly Line[])[]): Line[][] {
  const bare = ({ text }: Line): string => text.replace(/\d+/g, '#').trim();
  const counts = new Map<string, number>();
  for (const lines of pages)
    for (const line of new Set([lines[0], lines.at(-1)]))
      if (line) counts.set(bare(line), (counts.get(bare(line)) ?? 0) + 1);
  return pages.map((lines) =>
    lines.filter((line, i) => {
      const outer = i === 0 || i === lines.length - 1;
      return !(outer && lines.length > 1 && (bare(line) === '#' || counts.get(bare(line))! >= REPEATED));
    }),
  );
}

/** The most common size of letters. */
function commonSize(lines: readonly Line[]): number {
  const letters = new Map<number, number>();
  for (const { text, size } of lines) letters.set(rounded(size), (letters.get(rounded(size)) ?? 0) + text.length);
  return [...letters].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

function rounded(size: number): number {
  return Math.round(size * 2) / 2;
}
