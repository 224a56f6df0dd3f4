// Reads files: text, Markdown, HTML and PDF become blocks of text. Files are not trusted: HTML, also from Markdown, is
// parsed into a document that runs and fetches nothing, and only its text is used.
import type { Block } from './cut.ts';
import { Unreadable } from './unreadable.ts';

export type Kind = 'text' | 'markdown' | 'html' | 'pdf';

/** A file's content, and its number of pages: 0 where it has none. */
export interface Content {
  kind: Kind;
  blocks: Block[];
  pages: number;
}

/** Types of files that the file dialog shows. Others are read where they are text. */
export const ACCEPTED = '.txt,.text,.md,.markdown,.html,.htm,.xhtml,.pdf,text/*,application/pdf';
/** The largest file: more would not fit into a page's memory, with text and vectors. */
const MOST_BYTES = 200e6;

/** The first bytes of known unsupported files, with advice. */
const OTHERS: readonly [beginning: readonly number[], what: string, advice: string][] = [
  [
    [0x50, 0x4b, 3, 4],
    'a Word, OpenDocument, EPUB or other zipped file',
    'Save it as PDF, HTML or text in the program that it is from.',
  ],
  [[0xd0, 0xcf, 0x11, 0xe0], 'a file of an older Office program', 'Save it as PDF, HTML or text there.'],
  [[0x89, 0x50, 0x4e, 0x47], 'a picture', 'Text in pictures is not recognised here.'],
  [[0xff, 0xd8, 0xff], 'a picture', 'Text in pictures is not recognised here.'],
  [[0x47, 0x49, 0x46, 0x38], 'a picture', 'Text in pictures is not recognised here.'],
];
const KNOWN_ADVICE = 'Text, Markdown, HTML and PDF are read here.';

/** Reads a file. Rejects with `Unreadable`, or with the signal's reason. */
export async function read(
  file: File,
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
  onPage: (page: number, pages: number) => void,
): Promise<Content> {
  if (bytes.length === 0) throw new Unreadable('The file is empty.');
  const content = await contentOf(file, bytes, signal, onPage);
  if (!content.blocks.some(({ text }) => text.trim() !== '')) throw new Unreadable('There is no text in the file.');
  return content;
}

/** The bytes of a file. */
export async function bytesOf(file: File): Promise<Uint8Array<ArrayBuffer>> {
  if (file.size > MOST_BYTES)
    throw new Unreadable(`The file is larger than ${MOST_BYTES / 1e6} MB.`, 'Add the parts of it that matter.');
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Unreadable('The browser could not open the file.', 'It may have been moved or changed, or be a folder.');
  }
}

async function contentOf(
  file: File,
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
  onPage: (page: number, pages: number) => void,
): Promise<Content> {
  // Some programs write before the PDF mark: it is searched in the first kilobyte.
  if (new TextDecoder('latin1').decode(bytes.subarray(0, 1024)).includes('%PDF-')) {
    const { readPdf } = await import('./pdf.ts').catch(() => {
      throw new Unreadable(
        'What reads PDF files could not be loaded.',
        'It is fetched when the first one is added: connect to the network once.',
      );
    });
    return { kind: 'pdf', ...(await readPdf(bytes, signal, onPage)) };
  }
  for (const [beginning, what, advice] of OTHERS)
    if (beginning.every((byte, i) => bytes[i] === byte))
      throw new Unreadable(`This is ${what}.`, `${KNOWN_ADVICE} ${advice}`);
  const extension = /\.(\w+)$/.exec(file.name)?.[1]?.toLowerCase() ?? '';
  if (extension === 'pdf')
    throw new Unreadable('This is no PDF file, though its name says so.', 'It may not have been downloaded whole.');
  const text = decode(bytes);
  if (text === null) throw new Unreadable('This is neither text nor PDF.', KNOWN_ADVICE);
  if (
    ['html', 'htm', 'xhtml'].includes(extension) ||
    /^\s*(<\?xml[^>]*>\s*)?(<!doctype html|<html)\b/i.test(text.slice(0, 500))
  )
    return { kind: 'html', blocks: readHtml(text), pages: 0 };
  if (['md', 'markdown', 'mdown', 'mkd'].includes(extension) || file.type === 'text/markdown')
    return { kind: 'markdown', blocks: await readMarkdown(text), pages: 0 };
  return { kind: 'text', blocks: readText(text), pages: 0 };
}

/**
 * Decodes bytes as text: by byte order mark, as UTF-8, by a page's declared charset, or as Windows-1252. Null where
 * they are no text.
 */
export function decode(bytes: Uint8Array): string | null {
  const [a, b] = bytes;
  const marked = a === 0xff && b === 0xfe ? 'utf-16le' : a === 0xfe && b === 0xff ? 'utf-16be' : null;
  if (marked) return plausible(new TextDecoder(marked).decode(bytes));
  try {
    return plausible(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    // Not UTF-8.
  }
  const named = /<meta[^>]+charset\s*=\s*["']?([\w-]+)/i.exec(
    new TextDecoder('latin1').decode(bytes.subarray(0, 2048)),
  )?.[1];
  for (const name of [named, 'windows-1252'])
    try {
      if (name) return plausible(new TextDecoder(name).decode(bytes));
    } catch {
      // No encoding has that name.
    }
  return null;
}

/** The text, or null where it has too many control characters other than those of layout. */
function plausible(text: string): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is about them.
  const odd = text.slice(0, 100_000).match(/[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]/g)?.length ?? 0;
  return odd > Math.min(text.length, 100_000) / 500 || text.includes('\0') ? null : text;
}

/** Paragraphs of plain text, separated by empty lines. Wrapped lines are joined. */
export function readText(text: string): Block[] {
  return text
    .replace(/\r\n?/g, '\n')
    .replaceAll('\f', '\n\n')
    .split(/\n[ \t]*(?:\n[ \t]*)+/)
    .map((paragraph) => ({ text: paragraph.replace(/[ \t]+$/gm, '') }));
}

/** Blocks of Markdown, by way of HTML. */
export async function readMarkdown(text: string): Promise<Block[]> {
  const { marked } = await import('marked');
  // Front matter of site generators is not part of the text.
  const body = text.replace(/^\ufeff?---\r?\n[\s\S]*?\r?\n---\r?\n/, '');
  return readHtml(marked.parse(body, { async: false, gfm: true }));
}

/** Elements that are not part of a page's text, or are controls. */
const LEFT_OUT =
  'script,style,template,noscript,head,svg,math,iframe,object,embed,canvas,audio,video,select,button,textarea,input,dialog,nav,[hidden],[aria-hidden=true]';
const BLOCKS =
  'address,article,aside,blockquote,body,caption,dd,details,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,h4,h5,h6,header,hr,legend,li,main,ol,p,pre,section,summary,table,tbody,td,tfoot,th,thead,tr,ul';

/** The text of HTML in blocks. Nothing runs or is fetched: the parser's document belongs to no window. */
export function readHtml(html: string): Block[] {
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  for (const element of body.querySelectorAll(LEFT_OUT)) element.remove();
  const blocks: Block[] = [];
  let line = '';
  const end = (rest: Omit<Block, 'text'> = {}): void => {
    const text = line
      .replace(/[^\S\n]+/g, ' ')
      .replace(/ ?\n ?/g, '\n')
      .trim();
    if (text !== '') blocks.push({ text, ...rest });
    line = '';
  };
  // An explicit stack, for deeply nested elements.
  const stack: (Node | (() => void))[] = [body];
  while (stack.length > 0) {
    const node = stack.pop()!;
    if (typeof node === 'function') node();
    else if (node.nodeType === Node.TEXT_NODE) line += node.nodeValue!.replace(/\s+/g, ' ');
    else if (node instanceof Element || node.nodeType === Node.ELEMENT_NODE) {
      const element = node as Element;
      const name = element.localName;
      if (name === 'br') line += '\n';
      else if (name === 'pre') {
        end();
        blocks.push({ text: element.textContent ?? '', code: true });
      } else if (name === 'tr') {
        end();
        blocks.push({
          text: [...element.children]
            .map((cell) => (cell.textContent ?? '').replace(/\s+/g, ' ').trim())
            .filter(Boolean)
            .join(' | '),
        });
      } else if (element.matches(BLOCKS)) {
        const level = /^h([1-6])$/.exec(name)?.[1];
        end();
        if (name === 'li') line = '• ';
        stack.push(() => end(level ? { level: Number(level) } : {}), ...[...element.childNodes].reverse());
      } else stack.push(...[...element.childNodes].reverse());
    }
  }
  end();
  return blocks.filter(({ text }) => text !== '•');
}
