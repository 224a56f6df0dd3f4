// The tools that this page offers a model: a calculator, the date, a timer, the text of a page that the user allows.
import type { ToolContext, ToolDefinition } from 'millrace';
import { get } from '../shared/dom.ts';

interface PageTool {
  definition: ToolDefinition;
  execute: (args: Record<string, unknown>, context: ToolContext) => unknown;
}

/** Most characters of a page that go to a model, and the most time for a server's answer, in milliseconds. */
const MOST_TEXT = 6000;
const MOST_WAIT = 20_000;

function text(value: unknown, name: string): string {
  if (typeof value === 'string' && value.trim() !== '') return value.trim();
  throw new Error(`${name} is missing`);
}

function define(
  name: string,
  description: string,
  properties: Record<string, { type: string; description?: string }>,
  required: string[],
): ToolDefinition {
  return { type: 'function', function: { name, description, parameters: { type: 'object', properties, required } } };
}

const TOOLS: Record<string, PageTool> = {
  calculator: {
    definition: define(
      'calculate',
      'Calculate an arithmetic expression.',
      { expression: { type: 'string', description: 'Such as 3 * (4 + 5) or sqrt(2).' } },
      ['expression'],
    ),
    execute: async ({ expression }) => {
      const { calculate } = await import('./calculator.ts');
      return { result: calculate(text(expression, 'expression')) };
    },
  },
  date: {
    definition: define(
      'get_date',
      'The date and time of now.',
      { time_zone: { type: 'string', description: 'Such as Europe/Paris; else that of the user.' } },
      [],
    ),
    execute: ({ time_zone: zone }) => {
      const timeZone =
        typeof zone === 'string' && zone !== '' ? zone : Intl.DateTimeFormat().resolvedOptions().timeZone;
      const now = new Date();
      const parts = (options: Intl.DateTimeFormatOptions): string =>
        new Intl.DateTimeFormat('en-CA', { ...options, timeZone }).format(now);
      return {
        date: parts({ dateStyle: 'short' }),
        time: parts({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
        weekday: parts({ weekday: 'long' }),
        time_zone: timeZone,
      };
    },
  },
  timer: {
    definition: define('set_timer', 'Start a timer.', { minutes: { type: 'integer' } }, ['minutes']),
    execute: ({ minutes }) => {
      const given = Number(minutes);
      if (!(given > 0 && given <= 1440)) throw new Error('minutes must be a number above 0, up to 1440');
      setTimeout(() => ring(given), given * 60_000);
      return { status: 'started' };
    },
  },
  pages: {
    definition: define('read_page', 'Read a page of the web.', { url: { type: 'string' } }, ['url']),
    execute: async ({ url }, { signal }) => {
      const address = text(url, 'url');
      if (!/^https?:\/\//.test(address) || !URL.canParse(address)) throw new Error('url must begin with https://');
      if (!(await permitted(address, signal))) throw new Error('the user does not allow this page');
      return read(address, signal);
    },
  },
};

/** The tools that the user has switched on. */
export function chosen(names: readonly string[]): {
  tools: ToolDefinition[];
  execute: Record<string, PageTool['execute']>;
} {
  const on = names.flatMap((name) => TOOLS[name] ?? []);
  return {
    tools: on.map(({ definition }) => definition),
    execute: Object.fromEntries(on.map(({ definition, execute }) => [definition.function.name, execute])),
  };
}

/** Announces the end of a timer on the page, and to screen readers. */
function ring(minutes: number): void {
  const note = get('timer-note');
  note.hidden = false;
  get('timer-text').textContent = `The timer of ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} is over.`;
}

/** Asks the user whether a model may read an address. One question at a time. */
let asking: Promise<unknown> = Promise.resolve();
function permitted(address: string, signal: AbortSignal): Promise<boolean> {
  const dialog = get<HTMLDialogElement>('permit');
  const ask = async (): Promise<boolean> => {
    if (signal.aborted) return false;
    get('permit-url').textContent = address;
    dialog.returnValue = '';
    dialog.showModal();
    const close = (): void => dialog.close();
    signal.addEventListener('abort', close, { once: true });
    await new Promise((done) => dialog.addEventListener('close', done, { once: true }));
    signal.removeEventListener('abort', close);
    return dialog.returnValue === 'allow';
  };
  const answer = asking.then(ask);
  asking = answer.catch(() => {});
  return answer;
}

async function read(address: string, signal: AbortSignal): Promise<object> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(MOST_WAIT)]);
  let response: Response;
  try {
    response = await fetch(address, { signal: within, credentials: 'omit', referrerPolicy: 'no-referrer' });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Error('the page cannot be read: its server does not answer, or does not let other sites read it (CORS)');
  }
  if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
  const kind = response.headers.get('Content-Type') ?? '';
  if (!/^text\/|json|xml/.test(kind)) throw new Error(`this is no page of text, but ${kind || 'something unknown'}`);
  const body = await response.text();
  if (!/html/.test(kind)) return { text: cut(body) };
  const page = new DOMParser().parseFromString(body, 'text/html');
  for (const element of page.querySelectorAll('script, style, noscript, template, nav, header, footer, svg'))
    element.remove();
  const words = (page.body?.textContent ?? '').replace(/[ \t\r\f]+/g, ' ').replace(/ ?\n[\n ]*/g, '\n');
  return { title: page.title, text: cut(words.trim()) };
}

const cut = (words: string): string => (words.length > MOST_TEXT ? `${words.slice(0, MOST_TEXT)}…` : words);
