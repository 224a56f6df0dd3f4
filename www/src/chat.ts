// The chat page: composer, conversation, keyboard. Loading is in chat/loader.ts and chat/stage.ts.
import {
  type Engine,
  type GenerateResult,
  type Message,
  MillraceError,
  type PicturedMessage,
  type Run,
  type RunEvent,
} from 'millrace';
import * as conversations from './chat/conversations.ts';
import type { Conversation, Figures } from './chat/conversations.ts';
import { firstModel, fromFiles, Loader, type LoadState, type Model } from './chat/loader.ts';
import * as settings from './chat/settings.ts';
import * as sidebar from './chat/sidebar.ts';
import * as stage from './chat/stage.ts';
import { isPicture, type Shown } from './chat/thumbnail.ts';
import * as transcript from './chat/transcript.ts';
import { get } from './shared/dom.ts';
import { setUpDrop } from './shared/drop.ts';
import { explain, isFatal } from './shared/explain.ts';
import { bytes, define, rate, seconds, sentence } from './shared/format.ts';
import { BOX } from './shared/model_name.ts';
import './shared/offline.ts';

const prompt = get<HTMLTextAreaElement>('prompt');
const send = get<HTMLButtonElement>('send');
const stop = get<HTMLButtonElement>('stop');
/** How often the figures of a running answer change, and a conversation is kept meanwhile, in milliseconds. */
const FACTS_MS = 250;
const KEEP_MS = 2000;

let conversation: Conversation = conversations.fresh();
/** The answer under way; `run` is null while it waits for the model. */
interface Answering {
  run: Run | null;
  stopped: boolean;
  /** Whether its question is gone, and the answer with it. */
  dropped: boolean;
}
let answering: Answering | null = null;
/** Settles when the last answer has ended. */
let ended: Promise<void> = Promise.resolve();
/** What is measured of the answer at hand, or of the one before. */
let live: { tokens: number; first: number; last: number; ttft: number; used: number } | null = null;
/** The JSON mode, once it was switched on. */
let json: typeof import('./chat/json.ts') | null = null;
/** Settles once the JSON mode is switched: its script may still be loading. */
let switching: Promise<void> | null = null;
/** Bytes that this site stores; null until the browser has counted them. */
let stored: number | null = null;

/** What attaches pictures to questions, once it is needed. */
let pictures: typeof import('./chat/pictures.ts') | null = null;

/** The engine whose model reads pictures, if it does. */
const readerOf = (state: LoadState): Engine | null =>
  state.phase === 'ready' && state.engine.info.model.pictures ? state.engine : null;

async function attaching(): Promise<typeof import('./chat/pictures.ts')> {
  const it = await import('./chat/pictures.ts');
  if (pictures === null) it.setUp();
  pictures = it;
  it.offer(readerOf(loader.state));
  return it;
}

const loader = new Loader(firstModel(), settings.loadOptions, (state) => {
  stage.show(state);
  settings.showTemperature(defaultTemperature());
  if (state.phase === 'ready') {
    void count();
    void json?.check();
  }
  if (pictures !== null) pictures.offer(readerOf(state));
  else if (readerOf(state) !== null) void attaching().catch(() => {});
  controls();
  showFacts();
});

settings.setUp(() => load(loader.state.model));
stage.setUp(loader, openPicker);
get('open-models').addEventListener('click', openPicker);
setUpDrop((files) => {
  if (files.every(isPicture)) return void attaching().then((it) => it.add(files));
  get<HTMLDialogElement>('models').close();
  load(fromFiles(files));
});
transcript.setUp({ onEdit: askAgain, onRegenerate: regenerate });
sidebar.setUp({
  current: () => conversation,
  onOpen: (id) => void openConversation(id),
  onRemoved: (id) => id === conversation.id && newChat(),
  onRenamed: (id, title) => id === conversation.id && (conversation.title = title),
});
void begin();
fitPrompt();
// What compiles kernels on a GPU in software, or uploads gigabytes, would hold up the first frame.
loader.ready = painted().then(() => loader.load(loader.state.model));

get<HTMLFormElement>('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  ask(prompt.value);
});
prompt.addEventListener('input', fitPrompt);
// Typing announces a question: the first tokens should not wait for a GPU that has lowered its clock.
for (const event of ['focus', 'input']) prompt.addEventListener(event, () => loader.engine?.warm());
prompt.addEventListener('keydown', (event) => {
  // While an input method composes, Enter chooses a character.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask(prompt.value);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && answering && !document.querySelector('dialog[open]')) stopAnswer();
});
stop.addEventListener('click', stopAnswer);
get('new-chat').addEventListener('click', newChat);
for (const button of document.querySelectorAll<HTMLButtonElement>('#suggestions button'))
  button.addEventListener('click', () => {
    const { tool, picture } = button.dataset;
    const askIt = (): void => ask(button.textContent!);
    if (picture) return void attaching().then((it) => it.draw(picture).then(askIt));
    if (tool) settings.switchOn(tool as settings.ToolName);
    askIt();
  });
get('json-mode').addEventListener('click', switchJson);
get('timer-close').addEventListener('click', () => (get('timer-note').hidden = true));
get('open-settings').addEventListener('click', () => {
  stage.describe(loader);
  settings.open();
});
addEventListener('hashchange', () => {
  const id = location.hash.slice(1);
  if (id !== '' && id !== conversation.id) void openConversation(id);
});
addEventListener('pagehide', () => void conversations.keep(conversation));

/** The conversation that the address names, as after a reload. */
async function begin(): Promise<void> {
  const id = location.hash.slice(1);
  if (id !== '') await openConversation(id);
  await sidebar.refresh();
}

/** Resolves when the page has been painted once, or at once where it is hidden. */
function painted(): Promise<unknown> {
  if (document.visibilityState === 'hidden') return Promise.resolve();
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

let picker: Promise<typeof import('./chat/picker.ts')> | null = null;

/** Opens the dialog that chooses a model, which few visits need. */
function openPicker(): void {
  picker ??= import('./chat/picker.ts').then((it) => {
    it.setUp(() => ('url' in loader.state.model ? loader.state.model.url : null), load);
    return it;
  });
  picker.then(
    (it) => it.open(),
    () => void (picker = null),
  );
}

function load(model: Model): void {
  stopAnswer();
  void loader.load(model);
}

/** The small model in the box answers exactly what it was taught: no chance needed. */
function defaultTemperature(): number {
  const { model } = loader.state;
  return 'url' in model && model.url === BOX ? 0 : 0.7;
}

/** `again`: the pictures of a question that is asked differently. */
function ask(text: string, again: readonly Shown[] = []): void {
  if (afterSwitching(() => ask(text, again))) return;
  const content = text.trim();
  if ((content === '' && again.length === 0 && !pictures?.any()) || answering || json?.ready() === false) return;
  // Without a model a question would be lost: what is to be decided first is on the page.
  if (loader.state.phase === 'plan' || loader.state.phase === 'failed') {
    get(loader.state.phase === 'plan' ? 'plan-go' : 'problem-retry').focus();
    transcript.say('No model is loaded yet');
    return;
  }
  prompt.value = '';
  fitPrompt();
  prompt.focus();
  if (conversation.messages.length === 0) {
    conversation.title = conversations.titleOf(content || 'A picture');
    history.replaceState(null, '', `#${conversation.id}`);
  }
  const shown = [...again, ...(pictures?.take() ?? [])];
  transcript.addQuestion(content, conversation.messages.length, shown);
  conversation.messages.push({ role: 'user', content, ...(shown.length > 0 ? { pictures: shown } : {}) });
  ended = answer();
}

/** Streams the answer to the last message. Written before the model is there, it waits for it. */
async function answer(): Promise<void> {
  const mine: Answering = { run: null, stopped: false, dropped: false };
  answering = mine;
  const asked = conversation;
  const form = json?.options();
  const shown = new transcript.AnswerView({ json: Boolean(form) }).start();
  live = null;
  controls();
  keep(asked);
  const said: Saying = { role: 'assistant', content: '', reasoning: '', steps: [], json: Boolean(form) };
  /** The calls of the answer at hand, by their number. */
  let calls: string[] = [];
  const began = performance.now();
  let kept = began;
  try {
    const engine = loader.engine ?? (await loader.ready);
    if (!engine) throw new MillraceError('DISPOSED', 'no model is loaded');
    // An answer is JSON or calls tools.
    const on = form ? [] : settings.tools();
    const tools = on.length > 0 ? (await import('./chat/tools.ts')).chosen(on) : { tools: [], execute: {} };
    if (mine.stopped) throw new MillraceError('ABORTED', 'stopped before the model was loaded');
    const take = (event: RunEvent): void => {
      if (event.type === 'reasoning') {
        said.reasoning += event.text;
        shown.think(event.text);
      } else if (event.type === 'content') {
        said.content += event.text;
        shown.append(event.text);
      } else if (event.type === 'tool_call') {
        calls[event.index] = event.id;
        shown.call(event.id, event.name);
      } else if (event.type === 'arguments') shown.args(calls[event.index]!, event.text);
      else if (event.type === 'tool_result') shown.result(event.id, event.content, event.ms);
      else if (event.type === 'message' && (event.message.tool_calls || event.message.role === 'tool')) {
        // The tools of this page show no pictures.
        said.steps.push(event.message as Message);
        Object.assign(said, { content: '', reasoning: '' });
        calls = [];
      }
    };
    const measured = { tokens: 0, first: 0, last: 0, ttft: 0, used: 0 };
    const run = engine.run({
      messages: messagesOf(asked),
      ...tools,
      ...settings.generateOptions(defaultTemperature()),
      ...form,
      overflow: 'shift',
      onProgress: (progress) => shown.reading(progress),
      onTokens: ({ tokens }) => {
        const now = performance.now();
        if (measured.tokens === 0) Object.assign(measured, { first: now, ttft: now - began });
        measured.tokens += tokens.length;
        if (now - measured.last < FACTS_MS || answering !== mine) return;
        measured.last = now;
        live = measured;
        showFacts();
      },
    });
    mine.run = run;
    for await (const event of run) {
      if (answering === mine) take(event);
      if (performance.now() - kept > KEEP_MS) {
        kept = performance.now();
        void conversations.keep({ ...asked, messages: [...asked.messages, clean(said)] });
      }
    }
    const { results, finish_reason, text } = await run;
    const result = results.at(-1)!;
    const { timings, prompt_tokens } = result;
    const sum = (of: (result: GenerateResult) => number) => results.reduce((all, result) => all + of(result), 0);
    const figures: Figures = {
      model: loader.state.model.name,
      tokens: sum(({ tokens }) => tokens.length),
      prompt_tokens,
      decode_tok_s: timings.decode_tok_s,
      ttft_ms: results[0]!.timings.ttft_ms,
      finish_reason,
      drafted: sum((result) => result.drafted_tokens),
      accepted: sum((result) => result.accepted_tokens),
      ...(result.grammar ? { grammar: result.grammar } : {}),
    };
    if (!mine.dropped) {
      asked.messages.push({ ...clean(said), figures });
      // Stored before it is shown as finished: a reload right after that finds it again.
      await conversations.keep(asked);
      shown.finish({ text }, figures);
    }
    if (answering === mine) live = { ...measured, used: result.context_tokens };
  } catch (error) {
    const fatal = loader.engine !== null && isFatal(error);
    if (!mine.dropped) {
      if (said.content !== '' || said.reasoning !== '' || said.steps.length > 0) asked.messages.push(clean(said));
      const explained = explain(error);
      // What ended the engine is explained below the conversation.
      shown.finish({ error: fatal ? { ...explained, message: '', advice: '' } : explained }, null);
    }
    if (fatal) loader.fail(error);
  } finally {
    if (answering === mine) answering = null;
    asked.updated = Date.now();
    keep(asked);
    controls();
    showFacts();
  }
}

/** What the model is given: the system prompt and all that was said. */
function messagesOf({ messages }: Conversation): (Message | PicturedMessage)[] {
  const system = settings.systemPrompt();
  return [
    ...(system ? [{ role: 'system' as const, content: system }] : []),
    ...messages.flatMap(({ role, content, pictures: shown, reasoning, steps = [] }) => [
      ...steps,
      shown
        ? picturedMessage(content, shown)
        : { role, content, ...(reasoning ? { reasoning_content: reasoning } : {}) },
    ]),
  ];
}

/** A question with pictures. A model without a vision tower gets their names. */
function picturedMessage(content: string, shown: readonly Shown[]): Message | PicturedMessage {
  if (!loader.engine?.info.model.pictures)
    return { role: 'user', content: [...shown.map(({ name }) => `(picture: ${name})`), content].join('\n') };
  return {
    role: 'user',
    content: [
      ...shown.map(({ data }) => ({ type: 'image' as const, image: data })),
      ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
    ],
  };
}

/** An answer while it is written. */
interface Saying {
  role: 'assistant';
  content: string;
  reasoning: string;
  steps: Message[];
  json: boolean;
}

function clean({ role, content, reasoning, steps, json }: Saying): conversations.Said {
  return {
    role,
    content,
    ...(reasoning ? { reasoning } : {}),
    ...(steps.length > 0 ? { steps: [...steps] } : {}),
    ...(json ? { json } : {}),
  };
}

/** Switches the JSON mode on or off. While its script is loading a further press does nothing. */
function switchJson(): void {
  switching ??= loadJson()
    .then(
      (loaded) => get('json-mode').setAttribute('aria-pressed', String(loaded.toggle())),
      () => transcript.say('The JSON mode could not be loaded'),
    )
    .finally(() => (switching = null));
}

async function loadJson(): Promise<NonNullable<typeof json>> {
  if (!json) {
    const loaded = await import('./chat/json.ts');
    loaded.setUp(() => loader.engine);
    json = loaded;
  }
  return json;
}

/** Has `work` wait for the JSON mode where that is being switched: an answer is then forced, or not, as its button says. */
function afterSwitching(work: () => void): boolean {
  void switching?.then(work);
  return switching !== null;
}

function keep(what: Conversation): void {
  void conversations.keep(what).then(sidebar.refresh);
}

/** Generates the last answer again. */
function regenerate(): void {
  if (afterSwitching(regenerate)) return;
  if (answering || json?.ready() === false) return;
  if (conversation.messages.at(-1)?.role === 'assistant') conversation.messages.pop();
  if (conversation.messages.length === 0) return;
  transcript.cut(conversation.messages.length);
  prompt.focus();
  ended = answer();
}

/** The question in this place, asked differently: what followed it is dropped. */
function askAgain(index: number, text: string): void {
  if (answering) answering.dropped = true;
  stopAnswer();
  answering = null;
  const { pictures: shown } = conversation.messages[index] ?? {};
  conversation.messages.length = index;
  transcript.cut(index);
  ask(text, shown);
}

function stopAnswer(): void {
  if (!answering) return;
  answering.stopped = true;
  answering.run?.stop();
  prompt.focus();
}

function newChat(): void {
  leave(conversations.fresh());
  history.replaceState(null, '', location.pathname + location.search);
  sidebar.toggle(false);
  transcript.say('New chat');
  prompt.focus();
}

async function openConversation(id: string): Promise<void> {
  stopAnswer();
  await ended;
  const found = await conversations.read(id);
  if (!found) return;
  leave(found);
  history.replaceState(null, '', `#${id}`);
}

function leave(next: Conversation): void {
  stopAnswer();
  answering = null;
  live = null;
  conversation = next;
  transcript.show(next.messages);
  void sidebar.refresh();
  controls();
  showFacts();
}

function controls(): void {
  const busy = answering !== null;
  send.hidden = busy;
  stop.hidden = !busy;
  document.body.classList.toggle('begun', conversation.messages.length > 0);
}

/** The line below the composer. */
function showFacts(): void {
  const info = loader.engine?.info;
  const facts: [string, string][] = [];
  if (live && live.tokens > 1) {
    const elapsed = (live.last - live.first) / 1000;
    if (answering && elapsed > 0) facts.push(['Speed', rate((live.tokens - 1) / elapsed)]);
    facts.push(['First token', seconds(live.ttft)]);
  }
  if (info) {
    if (live?.used)
      facts.push(['Context', `${live.used.toLocaleString('en')} of ${info.context.toLocaleString('en')}`]);
    facts.push(['Memory', bytes(info.memory.total)]);
    if (stored !== null) facts.push(['Stored', bytes(stored)]);
    facts.push(['Runs on', info.adapter.name || info.adapter.vendor]);
  }
  get('warnings').textContent = info?.warnings.map((warning) => `${sentence(warning)}.`).join(' ') ?? '';
  define(get('facts'), facts);
}

async function count(): Promise<void> {
  const estimate = await navigator.storage?.estimate().catch(() => null);
  stored = estimate?.usage ?? null;
  showFacts();
}

/** As many lines as the text has; the style sheet sets the limit. */
function fitPrompt(): void {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}
