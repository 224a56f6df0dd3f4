// OpenAI's shapes, as far as they can be honoured here. https://platform.openai.com/docs/api-reference
import type { GenerateResult, Progress } from '../types.ts';

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
  /** Only what changes nothing is accepted: 0, 0, 1, {}. */
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  repetition_penalty?: number | null;
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
  /** Only false. */
  logprobs?: boolean | null;
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
  logprobs?: null;
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

/** A chat's whole answer. */
export interface ChatCompletion extends Head<'chat.completion'> {
  choices: { index: number; message: AssistantMessage; logprobs: null; finish_reason: FinishReason }[];
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
  choices: { index: number; delta: ChatDelta; logprobs: null; finish_reason: FinishReason | null }[];
  usage?: CompletionUsage | null;
}

/** A plain completion, whole or a piece of one. */
export interface Completion extends Head<'text_completion'> {
  choices: { index: number; text: string; logprobs: null; finish_reason: 'stop' | 'length' | null }[];
  usage?: CompletionUsage | null;
}

/** What a call can have beside its parameters. */
export interface RequestOptions {
  /** Aborts the call: promise and iteration reject with code ABORTED. */
  signal?: AbortSignal | null;
  /** As that of {@link GenerateOptions}, for each answer. Not among OpenAI's. */
  onProgress?: (progress: Progress) => void;
}
