// OpenAI's shapes, as far as they can be honoured here. https://platform.openai.com/docs/api-reference
import type { SharedParams } from '../options.generated.ts';
import type { CompiledGrammar, GenerateResult, Progress } from '../types.ts';

/** A piece of a message's content: text, or a picture where the model reads pictures. */
export type ContentPart =
  | { type: 'text'; text: string }
  /** An address: `data:`, `blob:` or `https:`. `detail` is taken and changes nothing. */
  | { type: 'image_url'; image_url: { url: string; detail?: 'auto' | 'low' | 'high' } };

/** A message of a chat. */
export interface ChatMessage {
  /** `developer` is what newer models call `system`. */
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  /** Text, or parts that are read one behind the other; null beside `tool_calls`. */
  content?: string | readonly ContentPart[] | null;
  /** Name of the speaker, for templates that know one. */
  name?: string;
  /** Functions that the assistant called in this message. */
  tool_calls?: readonly ChatToolCall[];
  /** Which call a message of role `tool` answers. */
  tool_call_id?: string;
  /** What the assistant thought: goes to chat templates that know it. */
  reasoning_content?: string | null;
  /** As in answers; anything but null is BAD_OPTION. */
  refusal?: null;
}

/** A call of a function that the model asks for. */
export interface ChatToolCall {
  /** Names the call, for the message that answers it. */
  id: string;
  /** Only functions. */
  type: 'function';
  /** `arguments` is JSON, as the model wrote it. */
  function: { name: string; arguments: string };
}

/** A function that the model may ask for. */
export interface ChatTool {
  /** Only functions. */
  type: 'function';
  /** Its name, what it does, and its parameters as a JSON schema. `strict`: whether what the model writes is forced to satisfy it. */
  function: { name: string; description?: string; parameters?: Record<string, unknown>; strict?: boolean | null };
}

/** Names a function that is to be called. */
export interface ChatToolName {
  /** Only functions. */
  type: 'function';
  /** One of the tools. */
  function: { name: string };
}

/** Some of the tools. */
export interface ChatAllowedTools {
  /** `required`: one of them has to be called. */
  mode: 'auto' | 'required';
  /** Which. The model is told of no others. */
  tools: readonly ChatToolName[];
}

/**
 * What an answer is: any text, a JSON object, or JSON that satisfies a JSON Schema. Always enforced, with `strict` or without it. `name` and
 * `description` are OpenAI's and say nothing to the model, which does not see the schema either: say in the messages what is wanted.
 */
export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | {
      type: 'json_schema';
      json_schema: {
        name?: string;
        description?: string;
        schema?: Record<string, unknown>;
        strict?: boolean | null;
      };
    };

/** What chats and plain completions have in common. */
interface CommonParams extends SharedParams {
  /** The loaded model's name, as `engine.modelName` says it. Default: that. */
  model?: string;
  /** Ends the answer after as many tokens. */
  max_tokens?: number | null;
  /** 0 is greedy. Default 1. */
  temperature?: number | null;
  /** Answers to the same prompt, one after the other. Default 1. */
  n?: number | null;
  /** Texts that end the answer. */
  stop?: string | readonly string[] | null;
  /** The same seed gives the same text; answer i of `n` has seed + i. Default: a random one. */
  seed?: number | null;
  /** Whether the answer comes in pieces, as a {@link CompletionStream}. Default false. */
  stream?: boolean | null;
  /** `include_usage`: whether a last piece says what the answer cost. Goes with `stream: true`. `include_obfuscation` changes nothing. */
  stream_options?: { include_usage?: boolean; include_obfuscation?: boolean } | null;
  /** For whoever keeps logs: changes nothing. */
  user?: string;
}

/** Parameters of {@link ChatCompletions.create}. */
export interface ChatCompletionParams extends CommonParams {
  /** The conversation, at least one message. It goes through the model's own chat template. */
  messages: readonly ChatMessage[];
  /** The same as `max_tokens`. */
  max_completion_tokens?: number | null;
  /** What the answer has to be. Default: any text. */
  response_format?: ResponseFormat | null;
  /** Functions that the model may ask for, where its template knows tools. */
  tools?: readonly ChatTool[] | null;
  /** `auto`, the default with tools; `none`; `required`, at least one call; a function that is called; or some of the tools. */
  tool_choice?:
    | 'auto'
    | 'none'
    | 'required'
    | ChatToolName
    | { type: 'allowed_tools'; allowed_tools: ChatAllowedTools }
    | null;
  /** Whether one answer may call several functions. Default true. */
  parallel_tool_calls?: boolean | null;
  /** Returns the log probability of each token. */
  logprobs?: boolean | null;
  /** With `logprobs`: also those of so many of the likeliest tokens in its place, 0 to 20. */
  top_logprobs?: number | null;
  /** `none`: no thoughts, where the chat template knows `enable_thinking`. `medium`, the default: what the model does by itself. */
  reasoning_effort?: 'none' | 'medium' | null;
  /** Further variables for the chat template, such as `enable_thinking`. Not among OpenAI's. */
  chat_template_kwargs?: Record<string, unknown> | null;
}

/** Parameters of {@link Completions.create}. */
export interface CompletionParams extends CommonParams {
  /** A text, or tokens; or several of either, each of which is completed `n` times. */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** Only false. */
  echo?: false | null;
  /** Not to be had. */
  suffix?: '' | null;
  /** Only 1, or as many as `n`. */
  best_of?: number | null;
  /** Returns the log probability of each token, and of so many of the likeliest in its place, 0 to 20. */
  logprobs?: number | null;
}

/** What an answer cost. */
export interface CompletionUsage {
  /** Tokens of the prompts; one that is answered `n` times counts once. */
  prompt_tokens: number;
  /** Tokens of all answers. */
  completion_tokens: number;
  /** Both together. */
  total_tokens: number;
  /** Tokens of the prompt that did not have to be read again. */
  prompt_tokens_details: { cached_tokens: number };
  /** Tokens that were guessed from where the text stood before: right ones, which are in the answers, and wrong ones. */
  completion_tokens_details: { accepted_prediction_tokens: number; rejected_prediction_tokens: number };
  /** Of the last answer, in milliseconds and tokens a second. Not among OpenAI's. */
  timings: GenerateResult['timings'];
  /** What the answers were forced to be, where they were. Not among OpenAI's. */
  grammar?: CompiledGrammar;
}

/**
 * Why an answer ended: by itself or a stop text, at its limit or that of the context, or with a call of a tool. Where `tool_choice` names the function
 * it is `stop`, as with OpenAI.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

interface Head<T extends string> {
  /** Another one for each call; the same in all pieces of a stream. */
  id: string;
  /** What kind of object it is. */
  object: T;
  /** Seconds since 1970. */
  created: number;
  /** The loaded model's name, as `engine.modelName` says it. */
  model: string;
  /** Version and lane: where they are the same on the same GPU, so is the text of a seed. */
  system_fingerprint: string;
}

/** What the model answers. */
export interface AssistantMessage {
  /** Always `assistant`. */
  role: 'assistant';
  /** What it says; null where it only calls tools. */
  content: string | null;
  /** Always null. */
  refusal: null;
  /** What the model thought before it answered, where it thinks. Not among OpenAI's. */
  reasoning_content?: string;
  /** Functions that it asks for. */
  tool_calls?: ChatToolCall[];
}

/** A token and its log probability. */
export interface TokenLogprob {
  /** Its text. */
  token: string;
  /** The token in bytes: one need not be whole characters. */
  bytes: number[];
  /** Natural logarithm of its probability. */
  logprob: number;
}

/** Log probabilities of a chat's answer, of all its tokens: of thoughts and calls too. A stream has them with the piece that they complete. */
export interface ChatLogprobs {
  /** In the answer's order. */
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  /** There are none. */
  refusal: null;
}

/** Log probabilities of a plain completion. */
export interface CompletionLogprobs {
  /** The texts of the tokens. */
  tokens: string[];
  /** Their log probabilities. */
  token_logprobs: number[];
  /** By text; of tokens with the same text the likeliest. */
  top_logprobs: Record<string, number>[];
  /** Where each token begins in the text, in UTF-16 code units. */
  text_offset: number[];
}

/** A chat's whole answer. */
export interface ChatCompletion extends Head<'chat.completion'> {
  /** The answers, as many as `n`. */
  choices: { index: number; message: AssistantMessage; logprobs: ChatLogprobs | null; finish_reason: FinishReason }[];
  /** What they cost together. */
  usage: CompletionUsage;
}

/** A chat's whole answer, read. */
export interface ParsedChatCompletion<T> extends Omit<ChatCompletion, 'choices'> {
  /** The answers, as many as `n`. */
  choices: (Omit<ChatCompletion['choices'][number], 'message'> & { message: ParsedMessage<T> })[];
}

/** What the model answers, read. */
export interface ParsedMessage<T> extends Omit<AssistantMessage, 'tool_calls'> {
  /** What the answer's JSON says; null where there is none, and where it was cut off (`finish_reason` is `length`). */
  parsed: T | null;
  /** Functions that it asks for. `parsed_arguments`: of those that are `strict`, else null, and where they were cut off. */
  tool_calls?: (ChatToolCall & { function: { parsed_arguments: unknown } })[];
}

/** What is new in a piece of a streamed answer. */
export interface ChatDelta {
  /** In the first piece of an answer. */
  role?: 'assistant';
  /** In the first piece of an answer: always null. */
  refusal?: null;
  /** The next piece of what it says. */
  content?: string;
  /** The next piece of what it thinks. Not among OpenAI's. */
  reasoning_content?: string;
  /** Functions that it asks for, by their number in the answer: id and name come first, then the arguments as they grow. */
  tool_calls?: {
    index: number;
    id?: string;
    type?: 'function';
    function: { name?: string; arguments?: string };
  }[];
}

/** A piece of a chat's answer. */
export interface ChatCompletionChunk extends Head<'chat.completion.chunk'> {
  /** What is new in one of the answers; in the last piece with `include_usage`, none. */
  choices: { index: number; delta: ChatDelta; logprobs: ChatLogprobs | null; finish_reason: FinishReason | null }[];
  /** With `include_usage`: null, and in the last piece what all answers cost. */
  usage?: CompletionUsage | null;
}

/** A plain completion, whole or a piece of one. */
export interface Completion extends Head<'text_completion'> {
  /** The answers, as many as prompts times `n`; in a stream what is new in one of them. */
  choices: {
    index: number;
    text: string;
    logprobs: CompletionLogprobs | null;
    finish_reason: 'stop' | 'length' | null;
  }[];
  /** What they cost together; in a stream only with `include_usage`, in the last piece. */
  usage?: CompletionUsage | null;
}

/** What a call can have beside its parameters. */
export interface RequestOptions {
  /** Aborts the call: promise and iteration reject with code ABORTED. */
  signal?: AbortSignal | null;
  /** As that of {@link GenerateOptions}, for each answer. Not among OpenAI's. */
  onProgress?: (progress: Progress) => void;
}

/** Parameters of `embeddings.create`. */
export interface EmbeddingParams {
  /** Texts. Tokens are not taken. */
  input: string | readonly string[];
  /** The loaded one's name, or nothing. */
  model?: string | null;
  /** How many numbers of each are kept. */
  dimensions?: number | null;
  /** `base64`: as bytes of f32, little-endian. */
  encoding_format?: 'float' | 'base64' | null;
  /** Not OpenAI's: as {@link EmbedOptions.prompt}. */
  prompt?: string | null;
  /** Changes nothing. */
  user?: string | null;
}

/** Embeddings in OpenAI's shape. */
export interface EmbeddingResponse {
  /** Always `list`. */
  object: 'list';
  /** Of each text, in their order. */
  data: { object: 'embedding'; index: number; embedding: number[] | string }[];
  /** The engine's name of the model. */
  model: string;
  /** Tokens of all texts. */
  usage: { prompt_tokens: number; total_tokens: number };
}
