// OpenAI's shapes, as far as they can be honoured here. https://platform.openai.com/docs/api-reference
import type { GenerateResult } from '../types.ts';

/** A piece of a message's content. Only text can be read. */
export interface ContentPart {
  type: 'text';
  text: string;
}

/** A message of a chat. */
export interface ChatMessage {
  /** `developer` is what newer models call `system`. */
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  content?: string | readonly ContentPart[] | null;
  name?: string;
  tool_calls?: readonly ChatToolCall[];
  tool_call_id?: string;
  /** What the assistant thought: goes to chat templates that know it. */
  reasoning_content?: string | null;
  refusal?: null;
}

/** A call of a function that the model asks for. */
export interface ChatToolCall {
  id: string;
  type: 'function';
  /** `arguments` is JSON, as the model wrote it. */
  function: { name: string; arguments: string };
}

/** A function that the model may ask for. */
export interface ChatTool {
  type: 'function';
  function: { name: string; description?: string; parameters?: Record<string, unknown>; strict?: boolean | null };
}

/** What chats and plain completions have in common. */
interface CommonParams {
  /** The loaded model's name, as `engine.modelName` says it. Default: that. */
  model?: string;
  /** Ends the answer after as many tokens. */
  max_tokens?: number | null;
  /** 0 is greedy. Default 1. */
  temperature?: number | null;
  /** Only the likeliest tokens that together reach this probability. Default 1. */
  top_p?: number | null;
  /** Only the k likeliest tokens; 0 is all. Not among OpenAI's. */
  top_k?: number | null;
  /** Only tokens at least this likely relative to the likeliest. Not among OpenAI's. */
  min_p?: number | null;
  /** Answers to the same prompt, one after the other. Default 1. */
  n?: number | null;
  /** Texts that end the answer. */
  stop?: string | readonly string[] | null;
  /** The same seed gives the same text; answer i of `n` has seed + i. Default: a random one. */
  seed?: number | null;
  /** Taken from the logit of each token that is in the answer, -2 to 2. Default 0. */
  presence_penalty?: number | null;
  /** Taken from the logit of a token for each time that it is in the answer, -2 to 2. Default 0. */
  frequency_penalty?: number | null;
  /** Divides the logits of tokens of the prompt and of the answer, above 0. Default 1. Not among OpenAI's. */
  repetition_penalty?: number | null;
  /** Added to the logits of tokens, by id, -100 to 100. */
  logit_bias?: Record<string, number> | null;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  /** For whoever keeps logs: changes nothing. */
  user?: string;
}

/** Parameters of {@link ChatCompletions.create}. */
export interface ChatCompletionParams extends CommonParams {
  messages: readonly ChatMessage[];
  /** The same as `max_tokens`. */
  max_completion_tokens?: number | null;
  /** Only `text`. */
  response_format?: { type: string } | null;
  tools?: readonly ChatTool[] | null;
  /** `auto`, the default with tools, or `none`. */
  tool_choice?: string | object | null;
  /** Only true. */
  parallel_tool_calls?: boolean | null;
  /** Returns the log probability of each token. */
  logprobs?: boolean | null;
  /** With `logprobs`: also those of so many of the likeliest tokens in its place, 0 to 20. */
  top_logprobs?: number | null;
  /** Further variables for the chat template, such as `enable_thinking`. Not among OpenAI's. */
  chat_template_kwargs?: Record<string, unknown> | null;
}

/** Parameters of {@link Completions.create}. */
export interface CompletionParams extends CommonParams {
  /** A text, or tokens; or several of either, each of which is completed `n` times. */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  echo?: false | null;
  suffix?: null;
  best_of?: number | null;
  /** Returns the log probability of each token, and of so many of the likeliest in its place, 0 to 20. */
  logprobs?: number | null;
}

/** What an answer cost. */
export interface CompletionUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** Tokens of the prompt that did not have to be read again. */
  prompt_tokens_details: { cached_tokens: number };
  /** Of the last answer, in milliseconds and tokens a second. Not among OpenAI's. */
  timings: GenerateResult['timings'];
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

interface Head<T extends string> {
  id: string;
  object: T;
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Version and lane: where they are the same on the same GPU, so is the text of a seed. */
  system_fingerprint: string;
}

export interface AssistantMessage {
  role: 'assistant';
  content: string | null;
  refusal: null;
  /** What the model thought before it answered, where it thinks. Not among OpenAI's. */
  reasoning_content?: string;
  tool_calls?: ChatToolCall[];
}

/** A token and its log probability. */
export interface TokenLogprob {
  token: string;
  /** The token in bytes: one need not be whole characters. */
  bytes: number[];
  logprob: number;
}

/** Log probabilities of a chat's answer, of all its tokens: of thoughts and calls too. A stream has them with the piece that they complete. */
export interface ChatLogprobs {
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  refusal: null;
}

/** Log probabilities of a plain completion. */
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: number[];
  /** By text; of tokens with the same text the likeliest. */
  top_logprobs: Record<string, number>[];
  /** Where each token begins in the text, in UTF-16 code units. */
  text_offset: number[];
}

/** A chat's whole answer. */
export interface ChatCompletion extends Head<'chat.completion'> {
  choices: { index: number; message: AssistantMessage; logprobs: ChatLogprobs | null; finish_reason: FinishReason }[];
  usage: CompletionUsage;
}

/** What is new in a piece of a streamed answer. */
export interface ChatDelta {
  role?: 'assistant';
  content?: string;
  reasoning_content?: string;
  tool_calls?: (ChatToolCall & { index: number })[];
}

/** A piece of a chat's answer. */
export interface ChatCompletionChunk extends Head<'chat.completion.chunk'> {
  choices: { index: number; delta: ChatDelta; logprobs: ChatLogprobs | null; finish_reason: FinishReason | null }[];
  usage?: CompletionUsage | null;
}

/** A plain completion, whole or a piece of one. */
export interface Completion extends Head<'text_completion'> {
  choices: { index: number; text: string; logprobs: CompletionLogprobs | null; finish_reason: 'stop' | 'length' | null }[];
  usage?: CompletionUsage | null;
}

/** What a call can have beside its parameters. */
export interface RequestOptions {
  /** Aborts the call: promise and iteration reject with code ABORTED. */
  signal?: AbortSignal | null;
}
