// OpenAI's shapes, as far as they can be honoured here. https://platform.openai.com/docs/api-reference
import type { SharedParams } from '../options.generated.ts';
import type { CompiledGrammar, GenerateResult, Progress } from '../types.ts';

/** A piece of a message's content: text, or a picture where the model reads pictures. */
export type ContentPart =
  | { type: 'text'; text: string }
  /** An address: `data:`, `blob:` or `https:`. `low`: the picture is made smaller where a side is longer than 512 pixels. */
  | { type: 'image_url'; image_url: { url: string; detail?: 'auto' | 'low' | 'high' } };

/** A message of a chat. */
export interface ChatMessage {
  /** `developer` is the newer name of `system`. */
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  /** Text, or parts that are read in sequence; null beside `tool_calls`. */
  content?: string | readonly ContentPart[] | null;
  /** Name of the speaker, for templates that use it. */
  name?: string;
  /** Functions that the assistant called in this message. */
  tool_calls?: readonly ChatToolCall[];
  /** Which call a message of role `tool` answers. */
  tool_call_id?: string;
  /** The assistant's thoughts, for chat templates that use them. */
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
  /**
   * The function's name, description, and parameters as a JSON schema. `strict`: whether arguments are forced to
   * satisfy it.
   */
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
  /** The allowed tools. Others are not described to the model. */
  tools: readonly ChatToolName[];
}

/**
 * The format of an answer: any text, a JSON object, or JSON that satisfies a JSON Schema. Always enforced, with
 * `strict` or without it. The model sees neither `name` and `description` nor the schema: describe the wanted answer in
 * the messages.
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

/** Parameters of both chats and plain completions. */
interface CommonParams extends SharedParams {
  /** The loaded model's name, `engine.modelName`, which is the default. */
  model?: string;
  /** Most tokens of an answer. */
  max_tokens?: number | null;
  /** 0 is greedy. Default 1. */
  temperature?: number | null;
  /** Number of answers to each prompt, generated in sequence. Default 1. */
  n?: number | null;
  /** Texts that end the answer. */
  stop?: string | readonly string[] | null;
  /** The same seed gives the same text; answer i of `n` has seed + i. Default: a random one. */
  seed?: number | null;
  /** Whether the answer comes in pieces, as a {@link CompletionStream}. Default false. */
  stream?: boolean | null;
  /**
   * `include_usage`: whether the last piece has the usage. Goes with `stream: true`. `include_obfuscation` has no
   * effect.
   */
  stream_options?: { include_usage?: boolean; include_obfuscation?: boolean } | null;
  /** For logs; has no effect. */
  user?: string;
}

/** Parameters of {@link ChatCompletions.create}. */
export interface ChatCompletionParams extends CommonParams {
  /** The conversation, at least one message. It goes through the model's own chat template. */
  messages: readonly ChatMessage[];
  /** Most tokens of an answer, as `max_tokens`. */
  max_completion_tokens?: number | null;
  /** The format of the answer. Default: any text. */
  response_format?: ResponseFormat | null;
  /** Functions that the model may call, where its template supports tools. */
  tools?: readonly ChatTool[] | null;
  /**
   * `auto`, the default with tools; `none`; `required`, at least one call; a function to call; or some of the tools.
   */
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
  /** With `logprobs`: how many of the likeliest tokens at each position are returned too, 0 to 20. */
  top_logprobs?: number | null;
  /**
   * `none`: no thoughts, where the chat template reads `enable_thinking`. `low`, `medium` and `high`: how much the model
   * thinks, where the chat template reads `reasoning_effort` (gpt-oss); elsewhere `medium` is the model's own behaviour
   * and the others are errors.
   */
  reasoning_effort?: 'none' | 'low' | 'medium' | 'high' | null;
  /** Further variables for the chat template, such as `enable_thinking`. Not among OpenAI's. */
  chat_template_kwargs?: Record<string, unknown> | null;
}

/** Parameters of {@link Completions.create}. */
export interface CompletionParams extends CommonParams {
  /** A text, or tokens; or several of either, each of which is completed `n` times. */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** Only false is supported. */
  echo?: false | null;
  /** Not supported. */
  suffix?: '' | null;
  /** Only 1 or the value of `n` is supported. */
  best_of?: number | null;
  /** Returns the log probability of each token, and of this many of the likeliest tokens at its position, 0 to 20. */
  logprobs?: number | null;
}

/** The tokens that a request has used. */
export interface CompletionUsage {
  /** Tokens of the prompts; a prompt that is answered `n` times counts once. */
  prompt_tokens: number;
  /** Tokens of all answers. */
  completion_tokens: number;
  /** Tokens of prompts and answers. */
  total_tokens: number;
  /** Tokens of the prompt that did not have to be read again. */
  prompt_tokens_details: { cached_tokens: number };
  /** Drafted tokens: accepted ones, which are in the answers, and rejected ones. */
  completion_tokens_details: { accepted_prediction_tokens: number; rejected_prediction_tokens: number };
  /** Times of the last answer, in milliseconds, and its speeds, in tokens a second. Not among OpenAI's. */
  timings: GenerateResult['timings'];
  /** The grammar of the answers, where they were constrained. Not among OpenAI's. */
  grammar?: CompiledGrammar;
}

/**
 * Why an answer ended: by the model or a stop text, at its limit or that of the context, or with a call of a tool.
 * Where `tool_choice` names the function it is `stop`, as with OpenAI.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

interface Head<T extends string> {
  /** The answer's id, the same in all pieces of a stream. */
  id: string;
  /** The kind of object. */
  object: T;
  /** Seconds since 1970. */
  created: number;
  /** The loaded model's name, as `engine.modelName`. */
  model: string;
  /** Version and lane: a seed gives the same text with the same fingerprint on the same GPU. */
  system_fingerprint: string;
}

/** The model's answer. */
export interface AssistantMessage {
  /** Always `assistant`. */
  role: 'assistant';
  /** The text of the answer; null where it only calls tools. */
  content: string | null;
  /** Always null. */
  refusal: null;
  /** The model's thoughts before the answer, where it thinks. Not among OpenAI's. */
  reasoning_content?: string;
  /** The model's calls of tools. */
  tool_calls?: ChatToolCall[];
}

/** A token and its log probability. */
export interface TokenLogprob {
  /** The token's text. */
  token: string;
  /** The token's bytes, which need not be whole characters. */
  bytes: number[];
  /** Natural logarithm of its probability. */
  logprob: number;
}

/**
 * Log probabilities of all tokens of a chat's answer, thoughts and calls included. A stream has them with the piece
 * that they complete.
 */
export interface ChatLogprobs {
  /** The tokens in the answer's order. */
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  /** Always null. */
  refusal: null;
}

/** Log probabilities of a plain completion. */
export interface CompletionLogprobs {
  /** The texts of the tokens. */
  tokens: string[];
  /** Their log probabilities. */
  token_logprobs: number[];
  /** Log probabilities of the likeliest tokens, by text; of tokens with equal text the likeliest. */
  top_logprobs: Record<string, number>[];
  /** Where each token begins in the text, in UTF-16 code units. */
  text_offset: number[];
}

/** A chat's whole answer. */
export interface ChatCompletion extends Head<'chat.completion'> {
  /** The answers, as many as `n`. */
  choices: { index: number; message: AssistantMessage; logprobs: ChatLogprobs | null; finish_reason: FinishReason }[];
  /** The usage of all answers. */
  usage: CompletionUsage;
}

/** A chat's whole answer, with parsed messages. */
export interface ParsedChatCompletion<T> extends Omit<ChatCompletion, 'choices'> {
  /** The answers, as many as `n`. */
  choices: (Omit<ChatCompletion['choices'][number], 'message'> & { message: ParsedMessage<T> })[];
}

/** The model's answer, parsed. */
export interface ParsedMessage<T> extends Omit<AssistantMessage, 'tool_calls'> {
  /**
   * The value of the answer's JSON; null where there is none, and where it was cut off (`finish_reason` is `length`).
   */
  parsed: T | null;
  /**
   * The model's calls of tools. `parsed_arguments`: the parsed arguments of `strict` tools; null for others, and where
   * they were cut off.
   */
  tool_calls?: (ChatToolCall & { function: { parsed_arguments: unknown } })[];
}

/** The new part of an answer in a piece of a stream. */
export interface ChatDelta {
  /** Set in the first piece of an answer. */
  role?: 'assistant';
  /** Null, in the first piece of an answer. */
  refusal?: null;
  /** The next piece of the text. */
  content?: string;
  /** The next piece of the thoughts. Not among OpenAI's. */
  reasoning_content?: string;
  /** Calls of tools, by their number in the answer: id and name come first, then the arguments as they grow. */
  tool_calls?: {
    index: number;
    id?: string;
    type?: 'function';
    function: { name?: string; arguments?: string };
  }[];
}

/** A piece of a chat's answer. */
export interface ChatCompletionChunk extends Head<'chat.completion.chunk'> {
  /** The new part of one of the answers; empty in the last piece with `include_usage`. */
  choices: { index: number; delta: ChatDelta; logprobs: ChatLogprobs | null; finish_reason: FinishReason | null }[];
  /** With `include_usage`: the usage of all answers in the last piece, null in the others. */
  usage?: CompletionUsage | null;
}

/** A plain completion, whole or a piece of one. */
export interface Completion extends Head<'text_completion'> {
  /** The answers, `n` for each prompt; in a stream the new part of one of them. */
  choices: {
    index: number;
    text: string;
    logprobs: CompletionLogprobs | null;
    finish_reason: 'stop' | 'length' | null;
  }[];
  /** The usage of all answers; in a stream only with `include_usage`, in the last piece. */
  usage?: CompletionUsage | null;
}

/** Options of a call beside its parameters. */
export interface RequestOptions {
  /** Aborts the call: promise and iteration reject with code ABORTED. */
  signal?: AbortSignal | null;
  /** Reports progress, as `onProgress` of {@link GenerateOptions}, for each answer. Not among OpenAI's. */
  onProgress?: (progress: Progress) => void;
}

/** Parameters of `embeddings.create`. */
export interface EmbeddingParams {
  /** The texts to embed. Tokens are not accepted. */
  input: string | readonly string[];
  /** The loaded model's name, which is the default. */
  model?: string | null;
  /** How many dimensions of each vector are returned. */
  dimensions?: number | null;
  /** `base64`: vectors as little-endian bytes of f32. */
  encoding_format?: 'float' | 'base64' | null;
  /** The prompt put before each text, as {@link EmbedOptions.prompt}. Not among OpenAI's. */
  prompt?: string | null;
  /** Has no effect. */
  user?: string | null;
}

/** Embeddings in OpenAI's shape. */
export interface EmbeddingResponse {
  /** Always `list`. */
  object: 'list';
  /** The embedding of each text, in the order of the texts. */
  data: { object: 'embedding'; index: number; embedding: number[] | string }[];
  /** The engine's name of the model. */
  model: string;
  /** Tokens of all texts. */
  usage: { prompt_tokens: number; total_tokens: number };
}
