// The list of conversations: beside the page where there is room, a drawer where there is not.
import * as conversations from './conversations.ts';
import type { Conversation } from './conversations.ts';
import { confirm } from '../shared/dialog.ts';
import { get, make } from '../shared/dom.ts';

const sidebar = get('sidebar');
const opener = get<HTMLButtonElement>('open-sidebar');
const shade = get('shade');
const list = get<HTMLUListElement>('conversations');
const menu = get('menu');

export interface Actions {
  current(): Conversation;
  /** The user opens another conversation. */
  onOpen(id: string): void;
  /** The conversation was removed. */
  onRemoved(id: string): void;
  /** The conversation was renamed. */
  onRenamed(id: string, title: string): void;
}

/** A conversation in the list. */
interface Line {
  element: HTMLLIElement;
  open: HTMLButtonElement;
  /** The conversation as last read. */
  conversation: Conversation;
  show(conversation: Conversation, current: boolean): void;
}

let actions: Actions;
/** The list's lines, by the conversation's id. */
let lines = new Map<string, Line>();
/** The line that the menu belongs to. */
let subject: Line | null = null;

export function setUp(does: Actions): void {
  actions = does;
  opener.addEventListener('click', () => toggle(!sidebar.classList.contains('open')));
  shade.addEventListener('click', () => toggle(false));
  sidebar.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !sidebar.classList.contains('open')) return;
    event.stopPropagation();
    toggle(false);
  });
  get('export-all').addEventListener('click', () => void exportAll());
  get('delete-all').addEventListener('click', () => void deleteAll());
  menu.addEventListener('click', ({ target }) => {
    const does = (target as HTMLElement).closest('button')?.dataset.does;
    if (!does || !subject) return;
    menu.hidePopover();
    void act(does, subject);
  });
  // The browser does not focus a popover's contents.
  menu.addEventListener('toggle', (event) => {
    if ((event as ToggleEvent).newState === 'open') menu.querySelector('button')!.focus();
  });
  menu.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = [...menu.querySelectorAll('button')];
    buttons[
      (buttons.indexOf(document.activeElement as HTMLButtonElement) + step + buttons.length) % buttons.length
    ]!.focus();
  });
  // Another tab may have changed conversations meanwhile.
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') void refresh();
  });
}

/** Opens or closes the drawer; where the list always is beside the page, this does nothing. */
export function toggle(open: boolean): void {
  sidebar.classList.toggle('open', open);
  shade.hidden = !open;
  opener.setAttribute('aria-expanded', String(open));
  if (open) (list.querySelector<HTMLElement>('button') ?? sidebar.querySelector<HTMLElement>('a'))?.focus();
  else if (sidebar.contains(document.activeElement)) opener.focus();
}

export async function refresh(): Promise<void> {
  const all = await conversations.list();
  const { id } = actions.current();
  lines = new Map(all.map((conversation) => [conversation.id, lines.get(conversation.id) ?? newLine(conversation)]));
  for (const conversation of all) lines.get(conversation.id)!.show(conversation, conversation.id === id);
  const elements = [...lines.values()].map(({ element }) => element);
  // Elements that stay in place keep the focus, and a click that has begun.
  for (const child of [...list.children]) if (!elements.includes(child as HTMLLIElement)) child.remove();
  elements.forEach((element, i) => {
    if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
  });
  get('no-conversations').hidden = all.length > 0;
  for (const name of ['export-all', 'delete-all']) get<HTMLButtonElement>(name).disabled = all.length === 0;
}

function newLine(conversation: Conversation): Line {
  const open = make('button', 'open');
  const more = make('button', 'more', '⋯');
  const line: Line = {
    element: make('li', '', open, more),
    open,
    conversation,
    show(conversation, current) {
      const { title, updated } = conversation;
      line.conversation = conversation;
      open.textContent = title;
      open.title = `${title}\n${new Date(updated).toLocaleString()}`;
      if (current) open.setAttribute('aria-current', 'true');
      else open.removeAttribute('aria-current');
      more.setAttribute('aria-label', `More for ${title}`);
    },
  };
  open.type = more.type = 'button';
  more.setAttribute('aria-haspopup', 'true');
  open.addEventListener('click', () => {
    toggle(false);
    actions.onOpen(line.conversation.id);
  });
  more.addEventListener('click', () => {
    subject = line;
    const { left, bottom } = more.getBoundingClientRect();
    menu.showPopover();
    menu.style.left = `${Math.max(8, Math.min(left, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${Math.min(bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  });
  return line;
}

async function act(does: string, line: Line): Promise<void> {
  const conversation = latest(line);
  const { id, title } = conversation;
  if (does === 'markdown') conversations.save(title, 'md', 'text/markdown', conversations.toMarkdown(conversation));
  else if (does === 'json')
    conversations.save(title, 'json', 'application/json', JSON.stringify(conversation, null, 2));
  else if (does === 'rename') rename(line);
  else if (await confirm({ title: `Delete “${title}”?`, text: 'It is kept nowhere else.', yes: 'Delete' })) {
    const place = [...lines.keys()].indexOf(id);
    await conversations.remove(id);
    actions.onRemoved(id);
    await refresh();
    focusPlace(place);
  }
}

/**
 * Moves the focus after a line was removed: to the next line, else the last, else the button for a new conversation.
 */
function focusPlace(place: number): void {
  const focused = document.activeElement;
  if (focused && focused !== document.body && !focused.matches(':disabled')) return;
  const all = [...lines.values()];
  (all[place] ?? all.at(-1))?.open.focus();
  if (all.length === 0) get('new-chat').focus();
}

/** The current conversation may be newer than its stored copy. */
function latest({ conversation }: Line): Conversation {
  const current = actions.current();
  return conversation.id === current.id ? current : conversation;
}

/** Turns the title into a field in its place. */
function rename(line: Line): void {
  const { open, conversation } = line;
  // The field is open already, or the conversation was deleted in another tab.
  if (!open.isConnected) return;
  const field = make('input');
  field.value = conversation.title;
  field.maxLength = 120;
  field.setAttribute('aria-label', 'Title');
  open.replaceWith(field);
  field.select();
  let ended = false;
  const end = async (keep: boolean): Promise<void> => {
    if (ended) return;
    ended = true;
    const focused = document.activeElement === field;
    field.replaceWith(open);
    if (focused) open.focus();
    const title = field.value.trim();
    if (!keep || title === '' || !lines.has(conversation.id)) return;
    const renamed = { ...latest(line), title };
    line.show(renamed, open.hasAttribute('aria-current'));
    actions.onRenamed(conversation.id, title);
    await conversations.keep(renamed);
    await refresh();
  };
  field.addEventListener('blur', () => void end(true));
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') void end(true);
    if (event.key === 'Escape') {
      event.stopPropagation();
      void end(false);
    }
  });
}

async function exportAll(): Promise<void> {
  conversations.save(
    'millrace-conversations',
    'json',
    'application/json',
    JSON.stringify(await conversations.list(), null, 2),
  );
}

async function deleteAll(): Promise<void> {
  const all = await conversations.list();
  const title = `Delete ${all.length === 1 ? 'the conversation' : `all ${all.length} conversations`}?`;
  if (!(await confirm({ title, text: 'What is kept here is kept nowhere else.', yes: 'Delete' }))) return;
  await conversations.removeAll();
  for (const { id } of all) actions.onRemoved(id);
  await refresh();
  focusPlace(0);
}
