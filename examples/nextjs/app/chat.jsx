'use client';

import { useChat } from 'millrace/react';

// Any address of a .gguf file that this page may fetch.
const MODEL = '/models/box.gguf';
const GENERATE = { temperature: 0 };

export default function Chat() {
  const { status, progress, info, messages, error, send, stop, retry } = useChat({ model: MODEL, generate: GENERATE });
  const submit = (event) => {
    event.preventDefault();
    send(new FormData(event.currentTarget).get('prompt'));
  };
  return (
    <>
      <p id="status" role="status">
        {status === 'ready'
          ? `Ready: ${info.model.name} on ${info.adapter.name}`
          : (progress?.note ?? progress?.phase ?? status)}
      </p>
      {progress && <progress id="progress" max={progress.total || 1} value={progress.loaded} />}
      <form onSubmit={submit}>
        <input id="prompt" name="prompt" aria-label="Message" defaultValue="What is 17 + 25?" required />
        <button id="send" type="submit" disabled={status !== 'ready'}>
          Send
        </button>
        <button id="stop" type="button" onClick={stop} disabled={status !== 'generating'}>
          Stop
        </button>
      </form>
      {messages.map(({ role, content }, index) => (
        <p
          key={index}
          id={role === 'assistant' && index === messages.length - 1 ? 'answer' : undefined}
          aria-live="polite"
        >
          {content}
        </p>
      ))}
      <p id="error" role="alert">
        {error && `${error.message} (${error.code})`}
      </p>
      {error && (
        <button id="retry" type="button" onClick={retry}>
          Try again
        </button>
      )}
    </>
  );
}
