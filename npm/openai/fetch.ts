// `engine.fetch`: OpenAI's HTTP interface without a server, for clients that take a `fetch` of one's own.
import type { Engine } from '../engine.ts';
import { MillraceError } from '../errors.ts';
import { chat as answerChat, plain } from './create.ts';
import { embeddings } from './embeddings.ts';
import { lines } from './lines.ts';
import { CompletionStream } from './stream.ts';

/** Errors of whoever asks, and their status; all others are 500. */
const STATUS: Partial<Record<MillraceError['code'], number>> = {
  BAD_OPTION: 400,
  CONTEXT_FULL: 400,
  TEMPLATE: 400,
  TOKENIZER: 400,
  UNSUPPORTED_SCHEMA: 400,
  INVALID_SCHEMA: 400,
  GRAMMAR_TOO_LARGE: 400,
  NOT_FOUND: 404,
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
  const status = STATUS[ours.code] ?? 500;
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
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
    const model = { id: engine.modelName, object: 'model', created: 0, owned_by: 'millrace' };
    if (path.endsWith('/models') && request.method === 'GET') return json({ object: 'list', data: [model] });
    if (path.endsWith(`/models/${encodeURIComponent(model.id)}`) && request.method === 'GET') return json(model);
    const chat = path.endsWith('/chat/completions');
    const embeds = path.endsWith('/embeddings');
    if (request.method !== 'POST' || !(chat || embeds || path.endsWith('/completions'))) {
      throw new MillraceError(
        'NOT_FOUND',
        `${request.method} ${path}: there are POST /chat/completions, POST /completions, POST /embeddings, GET /models and GET /models/NAME`,
      );
    }
    const asked = await request.json().catch(() => {
      throw new MillraceError('BAD_OPTION', `${path}: the body is not JSON`);
    });
    params = asked;
    const { signal } = request;
    if (embeds) return json(await embeddings(engine, asked, { signal }));
    const answer = await (chat ? answerChat : plain)(engine, asked, { signal });
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
