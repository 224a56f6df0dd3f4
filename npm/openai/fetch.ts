// `engine.fetch`: OpenAI's HTTP interface without a server, for clients that take a `fetch` of one's own.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import { ChatCompletions, Completions, modelName } from './create.ts';
import { CompletionStream, lines } from './stream.ts';

/** Errors of whoever asks, and their status; all others are 500. */
const STATUS: Partial<Record<MillraceError['code'], [number, string]>> = {
  BAD_OPTION: [400, 'invalid_request_error'],
  CONTEXT_FULL: [400, 'invalid_request_error'],
  TEMPLATE: [400, 'invalid_request_error'],
  TOKENIZER: [400, 'invalid_request_error'],
  UNSUPPORTED_SCHEMA: [400, 'invalid_request_error'],
  INVALID_SCHEMA: [400, 'invalid_request_error'],
  GRAMMAR_TOO_LARGE: [400, 'invalid_request_error'],
  NOT_FOUND: [404, 'invalid_request_error'],
};

/** What a schema can come from, where the engine's error does not name the parameter: no request has two of them. */
const SCHEMAS = ['response_format', 'schema', 'regex', 'choice', 'tools'];

function errorOf(
  error: unknown,
  params: object | null,
): {
  status: number;
  body: { error: { message: string; type: string; param: unknown; code: string } };
} {
  const ours = error instanceof MillraceError ? error : new MillraceError('INTERNAL', String(error), { cause: error });
  const [status, type] = STATUS[ours.code] ?? [500, 'server_error'];
  const code =
    ours.code === 'CONTEXT_FULL'
      ? 'context_length_exceeded'
      : ours.code === 'NOT_FOUND'
        ? 'model_not_found'
        : ours.code.toLowerCase();
  const { option, pointer, keyword, reason } = ours.data;
  const ofSchema = /SCHEMA|GRAMMAR/.test(ours.code);
  const given = new Map(Object.entries(params ?? {}));
  const param = option ?? (ofSchema ? SCHEMAS.find((name) => given.get(name)) : null) ?? null;
  const where = ofSchema ? { pointer, keyword, reason } : {};
  return { status, body: { error: { message: ours.message, type, param, code, ...where } } };
}

function json(body: unknown, status = 200): Response {
  // What fails here fails again at once.
  return Response.json(body, { status, headers: { 'x-should-retry': 'false' } });
}

/** Answers a request as OpenAI's server would. The origin does not matter: the path's end tells what is asked for. @internal */
export async function respondTo(engine: Engine, input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input instanceof Request ? input : new URL(input, 'http://millrace.invalid/'), init);
  const path = new URL(request.url).pathname;
  let params: object | null = null;
  try {
    const model = { id: modelName(engine), object: 'model', created: 0, owned_by: 'millrace' };
    if (path.endsWith('/models') && request.method === 'GET') return json({ object: 'list', data: [model] });
    if (path.endsWith(`/models/${encodeURIComponent(model.id)}`) && request.method === 'GET') return json(model);
    const chat = path.endsWith('/chat/completions');
    if (request.method !== 'POST' || !(chat || path.endsWith('/completions'))) {
      throw new MillraceError(
        'NOT_FOUND',
        `${request.method} ${path}: there are POST /chat/completions, POST /completions, GET /models and GET /models/NAME`,
      );
    }
    const asked = await request.json().catch(() => {
      throw new MillraceError('BAD_OPTION', `${path}: the body is not JSON`);
    });
    params = asked;
    const { signal } = request;
    const answer = await (chat
      ? new ChatCompletions(engine).create(asked, { signal })
      : new Completions(engine).create(asked, { signal }));
    if (!(answer instanceof CompletionStream)) return json(answer);
    const chunks = answer[Symbol.asyncIterator]() as AsyncGenerator<unknown, void>;
    // Until the first piece an error can still be a status.
    const first = await chunks.next();
    const all = (async function* () {
      try {
        if (first.done) return;
        yield first.value;
        yield* chunks;
      } finally {
        await chunks.return();
      }
    })();
    const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
    const body = lines(all, event, 'data: [DONE]\n\n', (error) => event(errorOf(error, params).body));
    return new Response(body, {
      headers: { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' },
    });
  } catch (error) {
    if (error instanceof MillraceError && error.code === 'ABORTED') throw request.signal.reason ?? error;
    const { status, body } = errorOf(error, params);
    return json(body, status);
  }
}
