// A server with faults on demand, on two origins. Without faults it behaves well: ranges, lengths, ETag, CORS. Faults
// are given by path; every request is logged with the bytes that were asked for and really sent.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** Bytes that can be read at any place, so that long ones need not be held in memory. */
export interface Content {
  /** Bytes. */
  length: number;
  etag: string;
  /** Bytes from `from` on, up to and without `to`. */
  read(from: number, to: number): Buffer;
}

/** Content of given bytes. */
export function content(bytes: Buffer | string): Content {
  const buffer = Buffer.from(bytes as Buffer);
  const etag = `"${createHash('sha256').update(buffer).digest('hex').slice(0, 16)}"`;
  return { length: buffer.length, etag, read: (from, to) => buffer.subarray(from, to) };
}

/** Bytes of a page of generated content; each begins with its number, so that none can stand for another. */
const PAGE = 4096;

/** `length` bytes that follow from `seed`, made when they are read. */
export function generated(seed: number, length: number): Content {
  const pattern = Buffer.alloc(16 * PAGE);
  let state = (seed * 2654435761 + 1) >>> 0;
  for (let at = 0; at < pattern.length; at += 4) {
    // xorshift32 (Marsaglia 2003).
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    pattern.writeUInt32LE(state >>> 0, at);
  }
  const read = (from: number, to: number): Buffer => {
    const first = Math.floor(from / PAGE);
    const pages = Math.ceil(to / PAGE) - first;
    const bytes = Buffer.allocUnsafe(Math.max(pages, 0) * PAGE);
    for (let page = 0; page < pages; page++) {
      const at = ((first + page) % 16) * PAGE;
      pattern.copy(bytes, page * PAGE, at, at + PAGE);
      bytes.writeDoubleLE(first + page, page * PAGE);
    }
    return bytes.subarray(from - first * PAGE, to - first * PAGE);
  };
  return { length, etag: `"seed-${seed}-${length}"`, read };
}

/** SHA-256 of all of it, in hexadecimal digits. */
export function sha256({ length, read }: Content): string {
  const hash = createHash('sha256');
  for (let at = 0; at < length; at += 1 << 20) hash.update(read(at, Math.min(at + (1 << 20), length)));
  return hash.digest('hex');
}

/** A request as a script of faults sees it. */
export interface Asked {
  /** The number of earlier requests of this path, on both origins. */
  n: number;
  /** Bytes asked for: from `from` to `to`, that one included; `to` is null in `bytes=5-`, and both are null without a range. */
  from: number | null;
  to: number | null;
  headers: IncomingHttpHeaders;
}

/** The faults of an answer, which can be combined unless they contradict each other; none where all are absent. */
export interface Fault {
  /** Milliseconds before the answer begins. */
  delay?: number;
  /** Answers with this status and `body` in place of the file, if it is not 200 or 206; with `redirect`, the kind of redirection (302). */
  status?: number;
  body?: string;
  /** Headers to add; null removes one. */
  headers?: Record<string, string | null>;
  /** Sends to another address. */
  redirect?: string;
  /** Answers 401 unless the request carries this Authorization header. */
  authorization?: string;
  /** The answer without any CORS header, or with these headers hidden from the page. */
  cors?: false;
  hide?: readonly string[];
  /** Serves this in place of the file. */
  content?: Content;
  /** Another validator, or none, for the same bytes. Without an ETag, Last-Modified is left, unless it is null, too. */
  etag?: string | null;
  lastModified?: string | null;
  /** Answers 200 with the whole file, whatever was asked for. */
  ranges?: false;
  /** The bytes [from, to] to answer with in place of those asked for. Content-Range tells the truth, unless `contentRange` says otherwise. */
  shift?: (from: number, to: number) => [from: number, to: number];
  contentRange?: string;
  /** The value of Content-Length, or null for none: the body is sent in chunks. */
  contentLength?: number | null;
  /** Bytes sent beyond the end of what was promised. */
  extra?: number;
  /** Offset in the file of a byte that arrives with a flipped bit. */
  corrupt?: number;
  /** Compresses the body. */
  gzip?: boolean;
  /** Ends the connection in good order after this many bytes of the body; where no length was promised, the body looks whole. */
  truncate?: number;
  /** Resets the connection after this many bytes of the body, or before anything is answered. */
  reset?: number | 'unanswered';
  /** Sends nothing more after this many bytes of the body, or at all, and leaves the connection open. */
  stall?: number | 'unanswered';
  /** Bytes a second, of this answer alone. */
  rate?: number;
}

/** The faults of a path: one for each request in order and none after the last, or a function's result. */
export type Script = readonly (Fault | null)[] | ((asked: Asked) => Fault | null | undefined);

/** A request and its outcome. */
export interface Logged extends Asked {
  /** Which of the two origins was asked. */
  origin: 'main' | 'other';
  path: string;
  query: string;
  /** 0: not answered. */
  status: number;
  /** Bytes of the body that have left this process. */
  sent: number;
  /** `cut`: by a fault; `gone`: by the client. */
  state: 'open' | 'whole' | 'cut' | 'gone';
  /** When it came, in milliseconds. */
  at: number;
}

/** Bytes handed to a connection at once. */
const STEP = 16 << 10;
/** The time between a connection's last byte and the fault that ends it, in milliseconds, so that the bytes arrive. */
const LINGER = 40;
const EXPOSED = ['Accept-Ranges', 'Content-Encoding', 'Content-Range', 'ETag', 'Retry-After'];
const LAST_MODIFIED = 'Wed, 01 Jul 2026 10:00:00 GMT';

/** Milliseconds. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
}
const CLOCK: Clock = { now: () => performance.now(), sleep };

export class Faulty {
  /** The first origin, and another one with the same files, faults and log. */
  readonly url: string;
  readonly other: string;
  readonly log: Logged[] = [];
  /** Bytes a second of all answers together. */
  readonly throttle: Throttle;
  readonly #clock: Clock;
  readonly #files = new Map<string, Content>();
  readonly #folders = new Map<string, string>();
  readonly #faults = new Map<string, Script>();
  readonly #servers: Server[];

  private constructor(servers: Server[], clock: Clock) {
    this.#clock = clock;
    this.throttle = new Throttle(clock);
    const [url, other] = servers.map((server) => `http://localhost:${(server.address() as AddressInfo).port}`);
    this.#servers = servers;
    this.url = url!;
    this.other = other!;
    for (const [index, server] of servers.entries()) {
      server.on('request', (request, response) => void this.#answer(index === 0 ? 'main' : 'other', request, response));
    }
  }

  /** `clock`: times slow answers. */
  static async start(clock: Clock = CLOCK): Promise<Faulty> {
    return new Faulty(await Promise.all([listen(), listen()]), clock);
  }

  /** Serves a file. */
  put(path: string, file: Content): void {
    this.#files.set(path, file);
  }

  /** Serves the files of a folder under a path that ends with a slash. */
  mount(prefix: string, folder: string): void {
    this.#folders.set(prefix, folder);
  }

  /** Gives a path its faults. */
  break(path: string, script: Script): void {
    this.#faults.set(path, script);
  }

  /** Ends all faults and clears the log; open connections continue with their faults. */
  heal(): void {
    this.#faults.clear();
    this.throttle.rate = Infinity;
    this.log.length = 0;
  }

  /** The requests of a path. */
  of(path: string): Logged[] {
    return this.log.filter((one) => one.path === path);
  }

  /** Bytes of bodies that have been sent. */
  get sent(): number {
    return this.log.reduce((sum, one) => sum + one.sent, 0);
  }

  async close(): Promise<void> {
    const close = (server: Server): Promise<void> =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      });
    await Promise.all(this.#servers.map(close));
  }

  /** The file at a path. */
  file(path: string): Content | undefined {
    const file = this.#files.get(path);
    if (file) return file;
    const prefix = [...this.#folders.keys()].find((prefix) => path.startsWith(prefix) && !path.includes('..'));
    const name = prefix && join(this.#folders.get(prefix)!, path.slice(prefix.length));
    return name && existsSync(name) && !name.endsWith('/') ? content(readFileSync(name)) : undefined;
  }

  async #answer(origin: Logged['origin'], request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname: path, search: query } = new URL(request.url ?? '/', this.url);
    if (request.method === 'OPTIONS') {
      const headers = {
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Allow-Methods': 'GET, HEAD',
        'Access-Control-Allow-Headers': 'Authorization, Range',
      };
      response.writeHead(204, headers).end();
      return;
    }
    const { headers } = request;
    const asked: Asked = { n: this.of(path).length, ...rangeOf(headers.range), headers };
    const entry: Logged = { ...asked, origin, path, query, status: 0, sent: 0, state: 'open', at: performance.now() };
    this.log.push(entry);
    response.on('close', () => {
      if (entry.state === 'open') entry.state = 'gone';
    });
    const script = this.#faults.get(path);
    const fault = (typeof script === 'function' ? script(asked) : script?.[asked.n]) ?? {};
    if (fault.delay) await sleep(fault.delay);
    if (fault.reset === 'unanswered') return cut(entry, response, true);
    if (fault.stall === 'unanswered') return;
    const { status, body, ...more } = this.#plan(path, asked, fault);
    entry.status = status;
    response.writeHead(status, withCors({ ...more.headers, ...fault.headers }, fault));
    response.flushHeaders();
    if (request.method === 'HEAD') response.end();
    else await this.#send(entry, response, body, fault);
  }

  /** Status, headers and body of an answer. */
  #plan(
    path: string,
    { from, to, headers: given }: Asked,
    fault: Fault,
  ): { status: number; headers: OutgoingHttpHeaders; body: Buffer | Content } {
    const plain = (status: number, text: string, headers: OutgoingHttpHeaders = {}) => {
      const body = Buffer.from(text);
      return {
        status,
        headers: { 'Content-Type': 'text/html; charset=utf-8', 'Content-Length': body.length, ...headers },
        body,
      };
    };
    if (fault.authorization && given.authorization !== fault.authorization)
      return plain(401, 'no token', { 'WWW-Authenticate': 'Bearer' });
    if (fault.redirect) return plain(fault.status ?? 302, '', { Location: fault.redirect });
    if (fault.status && fault.status !== 206)
      return plain(fault.status, fault.body ?? `<!doctype html><title>${fault.status}</title>`);
    const file = fault.content ?? this.file(path);
    if (!file) return plain(404, 'not here');

    const etag = fault.etag === undefined ? file.etag : fault.etag;
    const modified = fault.lastModified === undefined ? LAST_MODIFIED : fault.lastModified;
    const headers: OutgoingHttpHeaders = {
      'Content-Type': 'application/octet-stream',
      ...(fault.ranges === false ? {} : { 'Accept-Ranges': 'bytes' }),
      ...(etag === null ? {} : { ETag: etag }),
      ...(modified === null ? {} : { 'Last-Modified': modified }),
    };
    let [first, last, status] = [0, file.length - 1, 200];
    if (from !== null && fault.ranges !== false) {
      if (from >= file.length) return plain(416, '', { 'Content-Range': `bytes */${file.length}` });
      [first, last] = [from, Math.min(to ?? Infinity, file.length - 1)];
      if (fault.shift) [first, last] = fault.shift(first, last);
      status = 206;
      headers['Content-Range'] = fault.contentRange ?? `bytes ${first}-${last}/${file.length}`;
    }
    let body: Buffer | Content = part(file, first, last + 1, fault);
    if (fault.gzip) {
      body = gzipSync(body.read(0, body.length));
      headers['Content-Encoding'] = 'gzip';
    }
    const length = fault.contentLength === undefined ? body.length : fault.contentLength;
    if (length !== null) headers['Content-Length'] = length;
    // Bytes after a body of another length than promised must not be taken for the next answer.
    if (length !== body.length) headers.Connection = 'close';
    return { status, headers, body };
  }

  async #send(entry: Logged, response: ServerResponse, body: Buffer | Content, fault: Fault): Promise<void> {
    const own = new Throttle(this.#clock, fault.rate);
    const faults = [fault.truncate, fault.reset, fault.stall].filter((at) => typeof at === 'number');
    const end = Math.min(...faults, body.length);
    // Slow answers are sent in small steps.
    const step = Math.max(1, Math.min(STEP, Math.floor((fault.rate ?? Infinity) / 100)));
    while (entry.sent < end && !response.destroyed) {
      const to = Math.min(entry.sent + step, end);
      await Promise.all([own.take(to - entry.sent), this.throttle.take(to - entry.sent)]);
      if (response.destroyed) return;
      const bytes = Buffer.isBuffer(body) ? body.subarray(entry.sent, to) : body.read(entry.sent, to);
      await new Promise<void>((done) => {
        response.once('close', done);
        response.write(bytes, () => {
          response.off('close', done);
          done();
        });
      });
      entry.sent = to;
    }
    if (response.destroyed) return;
    if (fault.stall === end) return;
    if (fault.reset === end) return cut(entry, response, true);
    const promised = response.getHeader('Content-Length');
    if (promised !== undefined && Number(promised) > end) return cut(entry, response, false);
    entry.state = fault.truncate === end ? 'cut' : 'whole';
    response.end();
  }
}

/** At most `rate` bytes a second go through. */
class Throttle {
  #free = 0;

  constructor(
    private readonly clock: Clock,
    public rate = Infinity,
  ) {}

  /** Waits until `bytes` more may be sent. */
  async take(bytes: number): Promise<void> {
    const now = this.clock.now();
    this.#free = Math.max(this.#free, now) + (bytes / this.rate) * 1000;
    // Timers wake up late: waits of up to 2 ms are skipped.
    if (this.#free - now > 2) await this.clock.sleep(this.#free - now);
  }
}

/** Ends the connection of an answer, once its bytes have had time to arrive. */
async function cut(entry: Logged, response: ServerResponse, reset: boolean): Promise<void> {
  await sleep(LINGER);
  if (entry.state === 'open') entry.state = 'cut';
  if (reset) response.socket?.resetAndDestroy();
  else response.socket?.destroySoon();
}

/** A part of a file, with the faults that are in its bytes. */
function part(file: Content, first: number, end: number, { corrupt, extra = 0 }: Fault): Content {
  const read = (from: number, to: number): Buffer => {
    const [lo, hi] = [Math.min(first + from, end), Math.min(first + to, end)];
    const bytes = Buffer.concat([file.read(lo, hi), Buffer.alloc(to - from - (hi - lo), 0xee)]);
    if (corrupt !== undefined && corrupt >= lo && corrupt < hi) bytes[corrupt - lo]! ^= 1;
    return bytes;
  };
  return { length: end - first + extra, etag: file.etag, read };
}

function rangeOf(header: string | undefined): { from: number | null; to: number | null } {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(header ?? '') ?? [];
  return from === undefined ? { from: null, to: null } : { from: Number(from), to: to ? Number(to) : null };
}

function withCors(
  headers: Record<string, OutgoingHttpHeaders[string] | null>,
  { cors, hide = [] }: Fault,
): OutgoingHttpHeaders {
  const hidden = hide.map((name) => name.toLowerCase());
  const exposed = EXPOSED.filter((name) => !hidden.includes(name.toLowerCase())).join(', ');
  const allowed =
    cors === false ? {} : { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': exposed };
  return Object.fromEntries(
    Object.entries({ ...headers, ...allowed }).filter(([, value]) => value !== null),
  ) as OutgoingHttpHeaders;
}

async function listen(): Promise<Server> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, 'localhost', done));
  return server;
}

function sleep(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
