// What an engine answers in OpenAI's shapes: loaded when somebody asks for them.
export { chat, parsedChat, plain } from './openai/create.ts';
export { embeddings } from './openai/embeddings.ts';
export { respondTo } from './openai/fetch.ts';
