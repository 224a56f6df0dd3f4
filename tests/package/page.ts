// What the consumer's page has as globals. globals.d.ts has their types.
import * as ai from 'ai';
import { Engine, MillraceError, models } from 'millrace';
import { millrace } from 'millrace/ai-sdk';
import { type UseChatOptions, useChat } from 'millrace/react';
import OpenAI from 'openai';
import { createElement, StrictMode } from 'react';
import { createRoot, type Root } from 'react-dom/client';

/** The code and name of what a promise rejects with; null where it resolves. */
async function failure(work: PromiseLike<unknown>) {
  try {
    await work;
    return null;
  } catch (error) {
    const { code, name, message, data } = error as InstanceType<typeof MillraceError>;
    return { code, name, message, ours: error instanceof MillraceError, data: structuredClone(data ?? {}) };
  }
}

/** A component that shows what the hook says, and hands it out as `chat`. */
function Chat(options: UseChatOptions) {
  const chat = useChat(options);
  globalThis.chat = chat;
  return createElement('p', { id: 'state' }, chat.status);
}

/** Shows the component, or the same one with other options. */
function mount(options: UseChatOptions, strict = true): void {
  root ??= createRoot(document.getElementById('root')!);
  root.render(createElement(strict ? StrictMode : 'div', null, createElement(Chat, options)));
}
function unmount(): void {
  root?.unmount();
  root = null;
}
let root: Root | null = null;

/** Waits until something is so, looking each 5 ms; an error names it. */
async function until(so: () => unknown, ms = 60_000): Promise<void> {
  const end = performance.now() + ms;
  while (!so()) {
    if (performance.now() > end)
      throw new Error(
        `not so after ${ms} ms: ${so}; the chat: ${JSON.stringify({ ...globalThis.chat, engine: null, info: null })}`,
      );
    await new Promise((go) => setTimeout(go, 5));
  }
}

export const globals = { ai, Engine, MillraceError, models, millrace, OpenAI, mount, unmount, until, failure };
Object.assign(globalThis, globals, { chat: undefined });
