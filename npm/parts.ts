// The parts of an answer: with an id for each call, and put together to a message.
import type { RawPart } from './protocol.ts';
import type { AnswerPart, Message } from './types.ts';

const SIGNS = '0123456789abcdefghijklmnopqrstuvwxyz';

/** A random string of `length` letters and digits. */
export function randomId(length: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => SIGNS[byte % SIGNS.length]).join('');
}

/** Calls get an id where the model has given none: nine letters and digits, as Mistral's templates want them. */
export function withIds(parts: readonly RawPart[]): AnswerPart[] {
  return parts.map((part) => (part.type === 'tool_call' ? { ...part, id: part.id ?? randomId(9) } : part));
}

/** A message of the assistant that grows by parts. */
export class Assembled {
  readonly message: Message = { role: 'assistant', content: '' };

  push(parts: readonly AnswerPart[]): void {
    const { message } = this;
    for (const part of parts) {
      if (part.type === 'content') message.content += part.text;
      else if (part.type === 'reasoning') message.reasoning_content = (message.reasoning_content ?? '') + part.text;
      else if (part.type === 'tool_call')
        (message.tool_calls ??= []).push({
          id: part.id,
          type: 'function',
          function: { name: part.name, arguments: '' },
        });
      else if (part.type === 'arguments') message.tool_calls![part.index]!.function.arguments += part.text;
    }
  }

  /** Beside calls there may be nothing to say. */
  whole(): Message {
    const { content, ...rest } = this.message;
    return { ...rest, content: content === '' && rest.tool_calls ? null : content };
  }
}
