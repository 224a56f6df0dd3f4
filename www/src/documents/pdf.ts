// Reads PDF files by pdf.js, in its Worker. Loaded when the first one is added.
import { getDocument, GlobalWorkerOptions, type PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs';
import type { TextItem } from 'pdfjs-dist/types/src/display/api.js';
import type { Block } from './cut.ts';
import { blocksOf, type Line } from './lines.ts';
import { Unreadable } from './unreadable.ts';

// scripts/build.mjs puts the Worker beside this script, and the tables of Chinese, Japanese and Korean letters.
const here = (path: string): string => new URL(path, import.meta.url).href;
GlobalWorkerOptions.workerSrc = here('./pdf-worker.js');

/** Reads a PDF file. Rejects with `Unreadable`, or with the signal's reason. */
export async function readPdf(
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
  onPage: (page: number, pages: number) => void,
): Promise<{ blocks: Block[]; pages: number }> {
  // A copy: the buffer is transferred to the Worker.
  const task = getDocument({
    data: bytes.slice(),
    cMapUrl: here('./cmaps/'),
    cMapPacked: true,
    // Only text is needed: no fonts, no pictures.
    disableFontFace: true,
    useSystemFonts: false,
    useWasm: false,
    verbosity: 0,
  });
  try {
    const pdf = await task.promise.catch((error: unknown) => {
      throw explained(error);
    });
    const pages: Line[][] = [];
    for (let page = 1; page <= pdf.numPages; page += 1) {
      signal.throwIfAborted();
      pages.push(await linesOf(pdf, page));
      onPage(page, pdf.numPages);
    }
    if (pages.every((lines) => lines.length === 0))
      throw new Unreadable(
        'There is no text in this PDF file: its pages are pictures.',
        'Have a program recognise the text (OCR), and add what it saves.',
      );
    return { blocks: blocksOf(pages), pages: pdf.numPages };
  } finally {
    await task.destroy();
  }
}

async function linesOf(pdf: PDFDocumentProxy, number: number): Promise<Line[]> {
  const lines: Line[] = [];
  let items: TextItem[];
  try {
    const page = await pdf.getPage(number);
    items = (await page.getTextContent()).items.filter((item) => 'str' in item);
    page.cleanup();
  } catch (error) {
    throw explained(error, `page ${number} of `);
  }
  let line: Line | null = null;
  const end = (): void => {
    const text = line?.text.replace(/\s+/g, ' ').trim();
    if (text) lines.push({ ...line!, text });
    line = null;
  };
  for (const { str, transform, hasEOL } of items) {
    const [, , c = 0, d = 0, , y = 0] = transform as number[];
    const size = Math.hypot(c, d);
    if (line && str.trim() !== '' && Math.abs(y - line.y) > Math.max(size, line.size) / 2) end();
    // The first or a larger item determines the line's position; spaces have no size.
    if (!line) line = { text: '', y, size };
    if (str.trim() !== '' && (line.text.trim() === '' || size > line.size)) Object.assign(line, { y, size });
    line.text += str;
    if (hasEOL) end();
  }
  end();
  return lines;
}

function explained(error: unknown, where = ''): unknown {
  const { name, message } = error as Error;
  if (name === 'PasswordException')
    return new Unreadable(
      'The PDF file is encrypted: it opens with a password only.',
      'Save it without the password, and add that file.',
    );
  if (name === 'AbortException') return error;
  return new Unreadable(
    `${where}the PDF file could not be read: ${message.replace(/\.*$/, '.')}`.replace(/^./, (letter) =>
      letter.toUpperCase(),
    ),
    'It may be damaged, or not have been downloaded whole.',
  );
}
