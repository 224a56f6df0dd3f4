// `engine.fetch`: OpenAI's HTTP interface without a server, for clients that take a `fetch` of one's own.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import { chat, plain } from './create.ts';
import { embeddings } from './embeddings.ts';
import { lines } from './lines.ts';
import { otherModel } from './params.ts';
import { ALL, answered, endOf, pathOf } from './paths.ts';
import { CompletionStream } from './stream.ts';

type Signal = AbortSignal | null | undefined;

/** Errors that are the caller's, and their status; all others are 500. */
const STATUS: Partial<Record<MillraceError['code'], number>> = {
  BAD_OPTION: 400,
  CONTEXT_FULL: 400,
  TEMPLATE: 400,
  TOKENIZER: 400,
  UNSUPPORTED_SCHEMA: 400,
  INVALID_SCHEMA: 400,
  GRAMMAR_TOO_LARGE: 400,
  NOT_FOUND: 404,
  UNSUPPORTED_MODEL: 404,
};

/**
 * Parameters that an error of a schema can be due to, where the engine does not name one: a request has at most one of
 * them.
 */
const SCHEMAS = ['response_format', 'schema', 'regex', 'choice', 'tools'];

/** An error in OpenAI's shape. */
function bodyOf(status: number, message: string, code: string, param: unknown = null, more: object = {}): object {
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { message, type, param, code, ...more } };
}

function errorOf(
  error: unknown,
  params: object | null,
  say = (message: string): string => message,
): { status: number; body: object } {
  const ours = error instanceof MillraceError ? error : new MillraceError('INTERNAL', String(error), { cause: error });
  const status = STATUS[ours.code] ?? 500;
  const { option, pointer, keyword, reason } = ours.data;
  const code =
    ours.code === 'CONTEXT_FULL'
      ? 'context_length_exceeded'
      : ours.code === 'NOT_FOUND' && option === 'model'
        ? 'model_not_found'
        : ours.code.toLowerCase();
  const ofSchema = /SCHEMA|GRAMMAR/.test(ours.code);
  const given = new Map(Object.entries(params ?? {}));
  const param = option ?? (ofSchema ? SCHEMAS.find((name) => given.get(name)) : null) ?? null;
  const where = ofSchema ? { pointer, keyword, reason } : {};
  return { status, body: bodyOf(status, say(ours.message), code, param, where) };
}

/** Answers a request as OpenAI's server would; an abort ends it as it ends a server's response. @internal */
export async function respondTo(engine: Engine, input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input instanceof Request ? input : new URL(input, 'http://millrace.invalid/'), init);
  // The caller's own signal: a Request's derived signal need not live as long as the answer.
  const signal = init?.signal === undefined && input instanceof Request ? input.signal : init?.signal;
  signal?.throwIfAborted();
  return unlessAborted(answer(engine, request, signal), signal);
}

/** The result of `work`, or a rejection with the signal's reason as soon as it is aborted. */
async function unlessAborted<T>(work: Promise<T>, signal: Signal): Promise<T> {
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal?.reason)));
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

async function answer(engine: Engine, request: Request, signal: Signal): Promise<Response> {
  const { method } = request;
  const path = pathOf(request);
  const about = `${method} ${path}`;
  const loaded = engine.modelName;
  const [end, allowed] = endOf(path, loaded) ?? [];
  if (end === undefined)
    return json(bodyOf(404, `${about} is not there: there are ${ALL}`, 'unknown_url'), signal, { status: 404 });
  if (method !== allowed) {
    const message = `${about}: that path takes ${allowed}; there are ${ALL}`;
    const headers = { Allow: allowed! };
    return json(bodyOf(405, message, 'method_not_supported'), signal, { status: 405, headers });
  }
  let params: object | null = null;
  try {
    const model = { id: loaded, object: 'model', created: 0, owned_by: 'millrace' };
    if (end === '/models') return json({ object: 'list', data: [model] }, signal);
    if (end === '/models/NAME') {
      if (!path.endsWith(`/models/${loaded}`)) throw otherModel(about, path.slice(path.lastIndexOf('/') + 1), loaded);
      return json(model, signal);
    }
    const asked = await request.json().catch(() => {
      throw new MillraceError('BAD_OPTION', `${path}: the body is not JSON`);
    });
    params = asked;
    if (end === '/embeddings') return json(await embeddings(engine, asked, { signal }), signal);
    const said = await (end === '/completions' ? plain : chat)(engine, asked, { signal });
    if (!(said instanceof CompletionStream)) return json(said, signal);
    return await events(said, (error) => errorOf(error, params).body, signal);
  } catch (error) {
    // Another kind of model would answer this path.
    const wrongModel = error instanceof MillraceError && error.code === 'UNSUPPORTED_MODEL';
    const say = (message: string): string => `${about}: ${message}; this one answers ${answered(engine)}`;
    const { status, body } = errorOf(error, params, wrongModel ? say : undefined);
    return json(body, signal, { status });
  }
}

function json(body: object, signal: Signal, { status = 200, headers = {} }: ResponseInit = {}): Response {
  const once = (async function* () {
    yield body;
  })();
  return new Response(lines(once, JSON.stringify, { signal }), {
    status,
    // A repeated request would fail again.
    headers: { 'Content-Type': 'application/json', 'x-should-retry': 'false', ...headers },
  });
}

/** The chunks as events. Before the first of them an error can still set the status. */
async function events(
  stream: CompletionStream<unknown>,
  bodyOf: (error: unknown) => object,
  signal: Signal,
): Promise<Response> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncGenerator<unknown, void>;
  let first: Promise<IteratorResult<unknown, void>> | null = Promise.resolve(await chunks.next());
  const items = {
    next: () => {
      const next = first ?? chunks.next();
      first = null;
      return next;
    },
    return: () => chunks.return(),
  };
  const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
  const failed = (error: unknown): string => event(bodyOf(error));
  return new Response(lines(items, event, { last: 'data: [DONE]\n\n', failed, signal }), {
    headers: { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' },
  });
}
