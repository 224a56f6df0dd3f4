// The chat page: composer, conversation, keyboard. The engine's side is in model.ts.
import { MillraceError, type Generation, type Message } from 'millrace';
import { explain } from './shared/explain.ts';
import './shared/offline.ts';
import { bytes, define } from './shared/format.ts';
import { isFatal, ModelLoader } from './chat/model.ts';
import * as settings from './chat/settings.ts';
import * as transcript from './chat/transcript.ts';

const get = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const prompt = get<HTMLTextAreaElement>('prompt');
const send = get<HTMLButtonElement>('send');
const stop = get<HTMLButtonElement>('stop');
const clear = get<HTMLButtonElement>('clear');

/** The conversation, without the system prompt. */
let messages: Message[] = [];
/** The answer under way; `generation` is null while it waits for the model. */
let answering: { generation: Generation | null; stopped: boolean } | null = null;
let view: transcript.AnswerView | null = null;

const loader = new ModelLoader(showFacts);
settings.setUp(load);
load();
fitPrompt();

get<HTMLFormElement>('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  ask(prompt.value);
});
prompt.addEventListener('input', fitPrompt);
prompt.addEventListener('keydown', (event) => {
  // While an input method composes, Enter chooses a character.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask(prompt.value);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && answering && !get<HTMLDialogElement>('settings').open) stopAnswer();
});
stop.addEventListener('click', stopAnswer);
clear.addEventListener('click', newChat);
for (const button of document.querySelectorAll<HTMLButtonElement>('#suggestions button')) button.addEventListener('click', () => ask(button.textContent!));
for (const id of ['open-settings', 'problem-settings']) {
  get(id).addEventListener('click', () => {
    loader.describe();
    settings.open(id === 'problem-settings' ? 'modelUrl' : undefined);
  });
}
get('problem-retry').addEventListener('click', () => {
  load();
  prompt.focus();
});

function load(): void {
  stopAnswer();
  void loader.load(settings.modelChoice());
}

function ask(text: string): void {
  const content = text.trim();
  if (content === '' || answering) return;
  prompt.value = '';
  fitPrompt();
  prompt.focus();
  transcript.addQuestion(content);
  messages.push({ role: 'user', content });
  void answer();
}

/** Streams the answer to the last message. Written before the model is there, it waits for it. */
async function answer(): Promise<void> {
  const mine = { generation: null as Generation | null, stopped: false };
  answering = mine;
  const conversation = messages;
  const answerView = transcript.addAnswer(retry);
  view = answerView;
  controls();
  let text = '';
  try {
    const engine = loader.engine ?? (await loader.ready);
    if (!engine) throw new MillraceError('DISPOSED', 'no model is loaded');
    if (mine.stopped) throw new MillraceError('ABORTED', 'stopped before the model was loaded');
    const system = settings.systemPrompt();
    mine.generation = engine.generate([...(system ? [{ role: 'system' as const, content: system }] : []), ...conversation], {
      ...settings.generateOptions(),
      onProgress: ({ phase, loaded, total }) => phase === 'prompt' && answerView.reading(loaded, total),
    });
    for await (const delta of mine.generation) {
      text += delta;
      answerView.append(delta);
    }
    const result = await mine.generation;
    answerView.finish({ result });
  } catch (error) {
    answerView.finish({ error: explain(error) });
    if (loader.engine && isFatal(error)) loader.fail(error);
  } finally {
    if (text !== '') conversation.push({ role: 'assistant', content: text });
    if (answering === mine) answering = null;
    controls();
    showFacts();
  }
}

/** Asks again for the last answer. */
function retry(): void {
  if (answering) return;
  if (messages.at(-1)?.role === 'assistant') messages.pop();
  view?.remove();
  prompt.focus();
  void answer();
}

function stopAnswer(): void {
  if (!answering) return;
  answering.stopped = true;
  answering.generation?.stop();
  prompt.focus();
}

function newChat(): void {
  stopAnswer();
  messages = [];
  answering = null;
  transcript.clear();
  controls();
  prompt.focus();
}

function controls(): void {
  const busy = answering !== null;
  send.hidden = busy;
  stop.hidden = !busy;
  clear.disabled = messages.length === 0;
  document.body.classList.toggle('begun', messages.length > 0);
}

/** The line below the composer. */
function showFacts(): void {
  const info = loader.engine?.info;
  define(get('facts'), info ? [['GPU', info.adapter.name || info.adapter.vendor], ['Memory', bytes(info.memory.total)], ...info.warnings.map((text): [string, string] => ['Warning', text])] : []);
}

/** As many lines as the text has; the style sheet sets the limit. */
function fitPrompt(): void {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}
