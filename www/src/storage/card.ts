// The card of a stored model: its state, its actions, and their progress.
import {
  DownloadControl,
  MillraceError,
  models,
  type DownloadOptions,
  type DownloadEvent,
  type Progress,
  type StoredModel,
  type Verified,
} from 'millrace';
import { download } from '../shared/dom.ts';
import { explain } from '../shared/explain.ts';
import { bytes, day, define } from '../shared/format.ts';
import { modelName } from '../shared/model_name.ts';

/** The result of an action, for display. */
export interface Outcome {
  kind: 'good' | 'bad' | 'plain';
  text: string;
}

/** The page's functions that a card uses. */
export interface Page {
  /** Announces a text to screen readers. */
  announce(text: string): void;
  /** Asks for confirmation. */
  confirm(question: { title: string; text: string; yes: string }): Promise<boolean>;
  /** Lists the stored models again, and updates all cards. */
  refresh(): Promise<void>;
}

/** Texts of events without a note of their own. */
const HAPPENED: Partial<Record<DownloadEvent, string>> = { started: 'Started', resumed: 'Went on from ' };
/** Most lines of the event log. */
const MOST_EVENTS = 100;

type WorkOptions = Required<Pick<DownloadOptions, 'signal' | 'onProgress' | 'download'>>;
/** A long-running action; without an outcome nothing is shown. */
type Work = (options: WorkOptions) => Promise<Outcome | undefined>;

const template = document.querySelector<HTMLTemplateElement>('#card')!;
/** The interval between updates of the progress, in milliseconds. */
const SHOW_EVERY_MS = 100;

export class ModelCard {
  readonly element = template.content.firstElementChild!.cloneNode(true) as HTMLLIElement;
  readonly #page: Page;
  readonly #name: string;
  #model: StoredModel;
  #busy = false;
  /** Pieces that the last verification has removed. */
  #bad = 0;

  constructor(model: StoredModel, page: Page) {
    this.#model = model;
    this.#page = page;
    this.#name = modelName(model.url);
    this.#get('.name').textContent = this.#name;
    this.#get('.address').textContent = model.url;
    this.#get('.scroll').setAttribute('aria-label', `Files of ${model.url}`);
    this.#get<HTMLAnchorElement>('.chat').href = `./?model=${encodeURIComponent(model.url)}`;
    // Labels are unique by the model's name.
    for (const action of this.element.querySelectorAll('a, button'))
      action.setAttribute('aria-label', `${action.textContent} ${this.#name}`);
    this.#get('.fetch').addEventListener('click', () => void this.download());
    this.#get('.verify').addEventListener('click', () => void this.#verify());
    this.#get('.export').addEventListener('click', () => void this.#export());
    this.#get('.remove').addEventListener('click', () => void this.#remove());
    this.update(model);
  }

  get model(): StoredModel {
    return this.#model;
  }

  get name(): string {
    return this.#name;
  }

  get busy(): boolean {
    return this.#busy;
  }

  /** Shows the model's current state. */
  update(model: StoredModel): void {
    this.#model = model;
    const { bytes: here, total, complete, files, created, lastUsed } = model;
    if (complete) this.#bad = 0;
    const badge = this.#get('.badge');
    badge.textContent = complete ? 'Complete' : total ? `${Math.floor((100 * here) / total)} % here` : 'In part';
    badge.classList.toggle('good', complete);
    // A running action shows its own progress.
    badge.hidden = this.#busy && !complete;
    const share = this.#get<HTMLProgressElement>('.share');
    share.hidden = complete || this.#busy;
    if (total) Object.assign(share, { max: total, value: here });
    else share.removeAttribute('value');
    define(this.#get('.facts'), [
      [
        'Size',
        complete
          ? bytes(here)
          : [...(this.#busy ? [] : [bytes(here)]), total === null ? 'an unknown size' : bytes(total)].join(' of '),
      ],
      ['Arrived', day(created)],
      ['Last used', lastUsed === null ? 'never' : day(lastUsed)],
    ]);
    this.#label('.fetch', this.#bad > 1 ? 'Fetch them again' : this.#bad === 1 ? 'Fetch it again' : 'Fetch the rest');
    for (const name of ['.chat', '.export']) this.#get(name).hidden = !complete;
    this.#get('.fetch').hidden = complete;
    this.#get('.files').hidden = files.length === 0;
    this.#get('.files summary').textContent = files.length === 1 ? '1 file' : `${files.length} files`;
    this.#get('tbody').replaceChildren(
      ...files.map((file) => {
        const row = document.createElement('tr');
        for (const text of [file.name, bytes(file.bytes), file.total === null ? 'not known' : bytes(file.total)])
          row.insertCell().textContent = text;
        return row;
      }),
    );
  }

  /** Downloads what is missing. */
  download(): Promise<Outcome | undefined> {
    const work: Work = async (options) => {
      await models.download(this.#model.url, options);
      return { kind: 'good', text: 'All of it is here now.' };
    };
    return this.#run('Downloading', work, { pausable: true, cancelled: 'Cancelled. What has arrived stays here.' });
  }

  /** Replaces the model by files. */
  import(files: readonly File[]): Promise<Outcome | undefined> {
    const work: Work = async ({ signal, onProgress }) => {
      await models.import(this.#model.url, files, { signal, onProgress });
      return { kind: 'good', text: 'The files are here now.' };
    };
    return this.#run('Copying', work, { cancelled: 'Cancelled.' });
  }

  /** Removes the model without confirmation. */
  async removeNow(): Promise<Outcome | undefined> {
    const work: Work = async () => {
      await models.remove(this.#model.url);
    };
    const outcome = await this.#run('Removing', work, { cancellable: false });
    if (!outcome) this.#page.announce(`${this.#name} is removed.`);
    return outcome;
  }

  focus(): void {
    this.#get('.name').focus();
  }

  async #verify(): Promise<void> {
    await this.#run('Verifying', async ({ signal, onProgress }) => {
      const verified = await models.verify(this.#model.url, { signal, onProgress });
      this.#bad = verified.bad.length;
      return verdict(verified);
    });
  }

  async #export(): Promise<void> {
    await this.#run(
      'Exporting',
      async () => {
        const files = await models.export(this.#model.url);
        await save(files);
        return {
          kind: 'good',
          text: `${files.length === 1 ? 'The file is' : `${files.length} files are`} among the browser’s downloads.`,
        };
      },
      { cancellable: false },
    );
  }

  async #remove(): Promise<void> {
    const text = `${bytes(this.#model.bytes)} become free. To be used again, it has to be downloaded or imported again.`;
    if (await this.#page.confirm({ title: `Remove ${this.#name}?`, text, yes: 'Remove' })) await this.removeNow();
  }

  /** Runs a long action: one at a time. */
  async #run(
    doing: string,
    work: Work,
    { pausable = false, cancellable = true, cancelled = 'Cancelled.' } = {},
  ): Promise<Outcome | undefined> {
    if (this.#busy) return;
    const before = document.activeElement as HTMLElement | null;
    const controller = new AbortController();
    const download = new DownloadControl();
    const pause = this.#get('.pause');
    const cancel = this.#get<HTMLButtonElement>('.cancel');
    const onProgress = this.#progress(doing, download);
    pause.hidden = !pausable;
    cancel.hidden = !cancellable;
    this.#label('.pause', 'Pause');
    // Assigned, not added, to replace the last action's handlers.
    pause.onclick = () => {
      if (download.paused) download.resume();
      else download.pause();
      this.#label('.pause', download.paused ? 'Resume' : 'Pause');
      const amount = this.#get('.amount');
      if (download.paused)
        amount.textContent = ['Paused', amount.textContent!.split(' · ')[0]].filter(Boolean).join(' · ');
      this.#page.announce(`${this.#name}: ${download.paused ? 'paused' : 'going on'}`);
    };
    cancel.onclick = () => controller.abort();
    this.#show(null);
    this.#working(true);
    // The pressed button is hidden now.
    if (this.element.contains(before)) (pausable ? pause : cancellable ? cancel : this.#get('.name')).focus();
    this.#page.announce(`${doing} ${this.#name}`);
    let outcome: Outcome | undefined;
    try {
      outcome = await work({ signal: controller.signal, onProgress, download });
    } catch (error) {
      outcome = failure(error, cancelled);
    }
    const focused = this.element.contains(document.activeElement);
    await this.#page.refresh();
    this.#working(false);
    if (outcome) {
      this.#show(outcome);
      this.#page.announce(`${this.#name}: ${outcome.text}`);
    }
    const next =
      this.#bad > 0 || !before?.checkVisibility()
        ? this.element.querySelector<HTMLElement>('.choices > :not([hidden])')
        : before;
    if (focused && this.element.isConnected) next?.focus();
    return outcome;
  }

  #working(busy: boolean): void {
    this.#busy = busy;
    this.#get('.work').hidden = !busy;
    this.#get('.choices').hidden = busy;
    this.update(this.#model);
  }

  #progress(doing: string, control: DownloadControl): (progress: Progress) => void {
    const bar = this.#get<HTMLProgressElement>('.work progress');
    const label = (text: string): void => {
      this.#get('.doing').textContent = text;
      bar.setAttribute('aria-label', `${text} ${this.#name}`);
    };
    label(doing);
    bar.removeAttribute('value');
    this.#get('.amount').textContent = '';
    let phase = '';
    let began = 0;
    let first = 0;
    let shown = 0;
    const log = this.#get('.events ol');
    log.replaceChildren();
    this.#get('.events').hidden = true;
    return ({ phase: now, loaded, total, event, note }) => {
      if (event) this.#happened(HAPPENED[event] ?? note ?? event, event === 'resumed' ? bytes(loaded) : '');
      if (now !== phase) [phase, began, first, shown] = [now, performance.now(), loaded, 0];
      if (control.paused || (performance.now() - shown < SHOW_EVERY_MS && loaded < total)) return;
      shown = performance.now();
      // Pieces journaled before a crash are hashed before the download resumes.
      label(now === 'verify' ? 'Verifying' : doing);
      const seconds = (shown - began) / 1000;
      const speed = seconds > 0.3 && loaded > first ? `${bytes((loaded - first) / seconds)}/s` : '';
      const amount = total > 0 ? `${bytes(loaded)} of ${bytes(total)}` : bytes(loaded);
      this.#get('.amount').textContent = [amount, note ?? speed].filter(Boolean).join(' · ');
      if (total > 0) Object.assign(bar, { max: total, value: loaded });
    };
  }

  /** Adds a line to the event log of the last download. */
  #happened(text: string, more: string): void {
    const line = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = new Date().toLocaleTimeString();
    line.append(time, ` ${text}${more}`);
    const log = this.#get('.events ol');
    // Events of another tab's download repeat twice a second.
    if (log.lastElementChild?.textContent?.endsWith(text)) return;
    log.append(line);
    while (log.childElementCount > MOST_EVENTS) log.firstElementChild!.remove();
    this.#get('.events').hidden = false;
  }

  #show(outcome: Outcome | null): void {
    showOutcome(this.#get('.outcome'), outcome);
  }

  #label(selector: string, text: string): void {
    const button = this.#get(selector);
    button.textContent = text;
    button.setAttribute('aria-label', `${text} ${this.#name}`);
  }

  #get<T extends HTMLElement>(selector: string): T {
    return this.element.querySelector<T>(selector)!;
  }
}

/** Shows an outcome in an element, or clears it. */
export function showOutcome(element: HTMLElement, outcome: Outcome | null): void {
  element.hidden = outcome === null;
  element.className = `outcome ${outcome?.kind ?? ''}`;
  element.textContent = outcome?.text ?? '';
}

/** Advice for this page, which does not have the chat's settings. */
const ADVICE = { BAD_OPTION: 'Correct it and try again.', OUT_OF_MEMORY: 'Close other tabs and try again.' };

/** An error in one line. */
export function failure(error: unknown, cancelled = 'Cancelled.'): Outcome {
  if (error instanceof MillraceError && error.code === 'ABORTED') return { kind: 'plain', text: cancelled };
  if (error instanceof MillraceError && error.data.in_use) {
    return {
      kind: 'bad',
      text: 'It is in use: a chat, here or in another tab, has this model loaded. Close it, then try again.',
    };
  }
  const { title, advice } = explain(error, ADVICE);
  const message = error instanceof Error ? error.message : String(error);
  return { kind: 'bad', text: `${title}: ${message.replace(/\.*$/, '.')} ${advice}`.trim() };
}

function verdict({ bytes: count, bad }: Verified): Outcome {
  if (bad.length === 0) return { kind: 'good', text: `Good: all ${bytes(count)} are as they arrived.` };
  const pieces = new Map<string, number[]>();
  for (const { file, shard } of bad) pieces.set(file, [...(pieces.get(file) ?? []), shard + 1]);
  const where = [...pieces]
    .map(([file, numbers]) => `${numbers.length === 1 ? 'piece' : 'pieces'} ${numbers.join(', ')} of ${file}`)
    .join('; ');
  return { kind: 'bad', text: `Damaged: ${where}. What was damaged has been removed; the rest is good.` };
}

/** Saves files by the browser's downloads, one by one: several at once are dropped. */
async function save(files: File[]): Promise<void> {
  for (const [index, file] of files.entries()) {
    if (index > 0) await new Promise((done) => setTimeout(done, 300));
    download(file.name, file);
  }
}
