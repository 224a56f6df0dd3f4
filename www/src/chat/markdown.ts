// Renders a model's output as Markdown. It is not trusted: HTML is shown as text, images are not fetched, and the
// result goes through a sanitizer. Loaded with the first answer.
import DOMPurify from 'dompurify';
import { copy } from '../shared/dom.ts';
import { Marked, type Token, type TokensList } from 'marked';

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** The page's own headings have levels 1 and 2. */
const PAGE_LEVELS = 2;

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML in answers is mostly meant to be shown.
    html: ({ text, block }) => (block ? `<p>${escapeHtml(text.trim())}</p>` : escapeHtml(text)),
    image: ({ text, href }) => `<span class="image">${escapeHtml(`[image: ${text || href}]`)}</span>`,
    // Headings of an answer have lower levels than the page's own.
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + PAGE_LEVELS);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    'p',
    'br',
    'strong',
    'em',
    'del',
    'code',
    'pre',
    'ul',
    'ol',
    'li',
    'blockquote',
    'h3',
    'h4',
    'h5',
    'h6',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
    'a',
    'hr',
    'span',
  ],
  ALLOWED_ATTR: ['href', 'title', 'class', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

/** Shows a growing text. Complete blocks are not rendered again, so that they can be selected and copied meanwhile. */
export class MarkdownView {
  readonly #element: HTMLElement;
  /** The rendered blocks: the source of each, and its nodes. */
  #blocks: { raw: string; nodes: ChildNode[] }[] = [];

  constructor(element: HTMLElement) {
    this.#element = element;
    element.classList.add('markdown');
    element.replaceChildren();
  }

  /** Renders the text so far. `whole`: the text is complete. */
  show(text: string, whole: boolean): void {
    const tokens: TokensList = marked.lexer(text);
    const blocks = tokens.filter((token) => token.type !== 'space' && token.type !== 'def');
    levelHeadings(blocks);
    let same = 0;
    while (same < blocks.length && this.#blocks[same]?.raw === blocks[same]!.raw) same += 1;
    for (const { nodes } of this.#blocks.splice(same)) for (const node of nodes) node.remove();
    for (const block of blocks.slice(same)) {
      const fragment = render(block);
      const nodes = [...fragment.childNodes];
      this.#element.append(fragment);
      this.#blocks.push({ raw: block.raw, nodes });
    }
    const done = whole ? blocks.length : blocks.length - 1;
    for (const { nodes } of this.#blocks.slice(0, done))
      for (const node of nodes) if (node instanceof HTMLElement) for (const code of codesOf(node)) void highlight(code);
  }
}

/**
 * Corrects levels of headings, which models begin anywhere and skip: each is at most one below the heading before it.
 */
function levelHeadings(blocks: readonly Token[]): void {
  let level = 0;
  for (const block of blocks) if (block.type === 'heading') level = block.depth = Math.min(block.depth, level + 1);
}

function render(block: Token): DocumentFragment {
  const fragment = DOMPurify.sanitize(marked.parser([block]), ALLOWED);
  for (const link of fragment.querySelectorAll('a')) {
    // The sanitizer has removed a link's address of a forbidden scheme: its text stays.
    if (!link.href) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.target = '_blank';
    link.rel = 'noopener noreferrer nofollow';
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'scroll';
    table.replaceWith(box);
    box.append(table);
  }
  for (const pre of fragment.querySelectorAll('pre')) frame(pre);
  return fragment;
}

/** A code block with its language and a button that copies it. */
function frame(pre: HTMLElement): void {
  const language = languageOf(pre.querySelector('code'));
  const box = document.createElement('div');
  box.className = 'code';
  const top = document.createElement('div');
  top.className = 'top';
  const name = document.createElement('span');
  name.textContent = language;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'small';
  button.textContent = 'Copy code';
  button.addEventListener('click', () => void copy(pre.textContent, button));
  top.append(name, button);
  // Scrollable, so it must be reachable by keyboard.
  pre.tabIndex = 0;
  pre.setAttribute('role', 'region');
  pre.setAttribute('aria-label', language ? `Code, ${language}` : 'Code');
  pre.replaceWith(box);
  box.append(top, pre);
}

function codesOf(node: HTMLElement): Iterable<HTMLElement> {
  return node.querySelectorAll<HTMLElement>('pre > code:not(.hljs)');
}

function languageOf(code: Element | null): string {
  return /(?:^|\s)language-([\w+#.-]{1,20})/.exec(code?.className ?? '')?.[1] ?? '';
}

/** Colours a complete code block. Unknown languages stay plain. */
async function highlight(code: HTMLElement): Promise<void> {
  code.classList.add('hljs');
  const language = languageOf(code);
  if (language === '') return;
  const { hljs } = await import('./highlight.ts');
  if (!hljs.getLanguage(language)) return;
  const { value } = hljs.highlight(code.textContent, { language, ignoreIllegals: true });
  code.replaceChildren(
    DOMPurify.sanitize(value, { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], RETURN_DOM_FRAGMENT: true }),
  );
}
