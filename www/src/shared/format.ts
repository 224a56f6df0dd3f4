// Numbers for display.

/** 11.2 MB; decimal units, as downloads are counted. */
export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(count) / 3));
  return `${(count / 1000 ** power).toFixed(power === 0 || count / 1000 ** power >= 100 ? 0 : 1)} ${units[power]}`;
}

/** 1.2 billion, 10.4 million. */
export function parameters(count: number): string {
  return count >= 1e9
    ? `${(count / 1e9).toFixed(1)} billion`
    : count >= 1e6
      ? `${(count / 1e6).toFixed(1)} million`
      : count.toLocaleString('en');
}

/** 0.12 s, 3.4 s. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}

/** Tokens a second, with the significant digits. */
export function rate(perSecond: number): string {
  return `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s`;
}

/** 22 Nov 2026, 12:23. */
export function day(date: number): string {
  return new Date(date).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
}

/** The text with a capital at its beginning, where that is a word and no address or name of a file. */
export function sentence(text: string): string {
  return /^[a-z'’-]+[,;]?(\s|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** Fills a definition list. */
export function define(list: HTMLElement, entries: readonly (readonly [string, string])[]): void {
  list.replaceChildren(
    ...entries.map(([term, value]) => {
      const group = document.createElement('div');
      const dt = document.createElement('dt');
      const dd = document.createElement('dd');
      dt.textContent = term;
      dd.textContent = value;
      group.append(dt, dd);
      return group;
    }),
  );
}
