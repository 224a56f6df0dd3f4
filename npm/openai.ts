// What an engine answers in OpenAI's shapes: loaded with the first call.
export { chat, parsedChat, plain } from './openai/create.ts';
export { embeddings } from './openai/embeddings.ts';
export { respondTo } from './openai/fetch.ts';
