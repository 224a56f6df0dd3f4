// Helpers for a page's elements, shared by several pages.

/** The element of that id; the page has it. */
export const get = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;

/** A new element with that text or those children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  ...children: (string | Node)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** A row of a table: its first cell is its heading. Numbers stand to the right. */
export function row(cells: readonly (string | Node)[], numbers: readonly number[] = []): HTMLTableRowElement {
  const line = make('tr');
  cells.forEach((content, i) => {
    const cell = make(i === 0 ? 'th' : 'td', numbers.includes(i) ? 'number' : '', content);
    if (cell instanceof HTMLTableCellElement && i === 0) cell.scope = 'row';
    line.append(cell);
  });
  return line;
}

/** A bar of `percent` of its place's width, with a darker one inside. The text beside it has its meaning. */
export function bar(percent: number, inner = 0): HTMLElement {
  const part = (className: string, width: number) => {
    const span = make('span', className);
    span.style.width = `${Math.max(0, Math.min(100, width)).toFixed(2)}%`;
    return span;
  };
  const outer = make('span', 'track', part('fill', percent), part('fill inner', inner));
  outer.setAttribute('aria-hidden', 'true');
  return outer;
}

/** Copies text to the clipboard, and confirms it on the button. */
export async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const name = (button.dataset.name ??= button.textContent ?? '');
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'The browser refused';
  }
  setTimeout(() => (button.textContent = name), 2000);
}

/** Saves a file by the browser's download. */
export function download(name: string, data: Blob): void {
  const link = make('a');
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A table in Markdown. */
export function markdown(rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
  const [head = [], ...rest] = rows;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...rest.map(line)].join('\n');
}

/** Fills a list of choices. */
export function choices(
  list: HTMLSelectElement | HTMLOptGroupElement,
  names: readonly string[],
  value = (name: string) => name,
): void {
  list.append(...names.map((name) => new Option(name, value(name))));
}

/**
 * Chooses a value, and adds it where the list lacks it: a value from the address is shown even where it does not exist.
 */
export function choose(list: HTMLSelectElement, value: string, name = value): void {
  if (![...list.options].some((option) => option.value === value)) list.add(new Option(name, value));
  list.value = value;
}
