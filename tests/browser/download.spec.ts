// Downloads from a server that misbehaves: after each case the model is whole, or the error says what to do and the next attempt ends well.
import type { ErrorCode } from '../../npm/index.ts';
import type { DownloadOptions } from '../../npm/index.ts';
import {
  answer,
  before,
  download,
  expect,
  expectWhole,
  exported,
  FILE,
  FOLDER,
  hurry,
  MANIFEST,
  MODEL,
  PIECES,
  piecesAsked,
  SHARD,
  SPLIT,
  storedFiles,
  test,
  type Downloaded,
  type Plain,
} from './downloads.ts';
import {
  content,
  generated,
  sha256,
  type Asked,
  type Content,
  type Fault,
  type Logged,
  type Script,
} from './faulty.ts';
import { LONG } from './support.ts';

interface Case {
  name: string;
  /** The server's file at the path, where it is not the tiny model. */
  file?: Content;
  /** Faults of the file's path, and of others. */
  faults?: Script;
  others?: Record<string, Script>;
  options?: Plain<DownloadOptions>;
  /** How many times faster the engine's clock runs, to shorten error cases. */
  hurry?: number;
  /** The error that the download ends with; without one it ends well. */
  error?: { code: ErrorCode; message: RegExp };
  /** The expected content, where it is not `file`. */
  becomes?: Content;
  /** Further expectations on the log of the file's path and on the page's result. */
  also?: (log: Logged[], result: Downloaded) => void;
}

/** Every request, or the first `times` of those that `which` chooses. */
const always =
  (fault: Fault): Script =>
  () =>
    fault;
const some = (times: number, which: (asked: Asked) => boolean, fault: Fault): Script => {
  let left = 0;
  return (asked) => {
    if (asked.n === 0) left = times;
    return which(asked) && left-- > 0 ? fault : null;
  };
};
/** The first request of each range. */
const each = (fault: Fault): Script => {
  const seen = new Set<number | null>();
  return ({ n, from }) => {
    if (n === 0) seen.clear();
    if (seen.has(from)) return null;
    seen.add(from);
    return fault;
  };
};
const first = (fault: Fault): Script => some(1, ({ n }) => n === 0, fault);
/** Requests from beyond the file's first piece on. */
const later = ({ from }: Asked): boolean => (from ?? 0) >= SHARD;
const noRanges = (fault: Fault = {}): Fault => ({ ranges: false, ...fault });
const OTHER = generated(9, MODEL.length);
/** Milliseconds between requests. */
const gaps = (log: Logged[]): number[] => log.slice(1).map(({ at }, i) => at - log[i]!.at);
/** One attempt, and none after it. */
const once = (log: Logged[]) => expect(log).toHaveLength(1);

const GOOD: Case[] = [
  {
    name: 'ranges: one piece a request, each once, in order',
    also(log) {
      expect(log[0]).toMatchObject({ from: 0, to: SHARD - 1, status: 206 });
      const rest = log.slice(1).map(({ from, to }) => [from!, to!] as const);
      // At most three other requests are in flight, so all but three of the pieces before this one have arrived. A slow
      // request may arrive any time later.
      for (const [i, [from]] of rest.entries()) expect(from / SHARD - 1 - i).toBeLessThan(4);
      expect(rest.sort(([a], [b]) => a - b)).toEqual(
        Array.from({ length: PIECES - 1 }, (_, i) => [(i + 1) * SHARD, Math.min((i + 2) * SHARD, MODEL.length) - 1]),
      );
    },
  },
  { name: 'one connection', options: { connections: 1 } },
  { name: 'sixteen connections', options: { connections: 16 } },
  {
    name: 'a file of one piece is one request',
    options: { shardBytes: 1 << 20 },
    also: (log) => {
      once(log);
      expect(log[0]!.state).toBe('whole');
    },
  },
  { name: 'pieces that fit exactly', file: generated(2, 4 * SHARD) },
  { name: 'one byte in the last piece', file: generated(3, 2 * SHARD + 1) },
  { name: 'one byte', file: generated(4, 1) },
  { name: 'no ranges: one request', faults: always(noRanges()), also: once },
  { name: 'no ranges, no length', faults: always(noRanges({ contentLength: null })), also: once },
  { name: 'ranges without Content-Length', faults: always({ contentLength: null }) },
  { name: 'a weak ETag', faults: always({ etag: 'W/"1"' }) },
  { name: 'no ETag', faults: always({ etag: null }) },
  { name: 'no validator at all', faults: always({ etag: null, lastModified: null }) },
  { name: 'an ETag on the first answer only', faults: ({ n }) => (n === 0 ? null : { etag: null }) },
  { name: 'ETag hidden by CORS', faults: always({ hide: ['ETag'] }) },
  { name: 'Content-Range hidden by CORS', faults: always({ hide: ['Content-Range'] }) },
  {
    name: 'everything hidden by CORS',
    faults: always({ hide: ['Content-Range', 'ETag', 'Accept-Ranges', 'Content-Encoding', 'Retry-After'] }),
  },
  {
    name: 'a redirect',
    faults: always({ redirect: '/elsewhere.gguf' }),
    others: { '/elsewhere.gguf': always({ content: MODEL }) },
  },
  {
    name: 'permanent redirects in a chain',
    faults: always({ redirect: '/a', status: 301 }),
    others: { '/a': always({ redirect: '/b', status: 308 }), '/b': always({ content: MODEL }) },
  },
  {
    name: 'addresses that are good for one use: each request asks the model’s own address again',
    faults: ({ n }) => ({ redirect: `/signed-${n}` }),
    others: Object.fromEntries(
      Array.from({ length: 40 }, (_, n) => [
        `/signed-${n}`,
        ((asked) => (asked.n === 0 ? { content: MODEL } : { status: 403 })) as Script,
      ]),
    ),
  },
];

const MENDED: Case[] = [
  ...[408, 425, 429, 500, 502, 503, 504].map(
    (status): Case => ({ name: `status ${status} to the first request`, faults: first({ status }), hurry: 5 }),
  ),
  { name: 'status 500 to a later piece', faults: some(3, later, { status: 500 }), hurry: 5 },
  { name: 'status 503 without ranges', faults: ({ n }) => (n < 2 ? { status: 503 } : noRanges()), hurry: 5 },
  {
    name: 'waits before it tries again, longer each time',
    faults: ({ n }) => (n < 2 ? { status: 503 } : null),
    options: { shardBytes: 1 << 20 },
    hurry: 5,
    also(log, { notes }) {
      expect(log).toHaveLength(3);
      const [one, two] = gaps(log) as [number, number];
      expect(one).toBeGreaterThan(490 / 5);
      expect(two).toBeGreaterThan(990 / 5);
      // The intended waits: a busy machine may wait longer.
      const waits = notes.join('\n').match(/trying again in \d+\.\d s/g);
      expect(waits).toEqual([expect.stringMatching(/ 0\.[56] s$/), expect.stringMatching(/ 1\.[012] s$/)]);
    },
  },
  {
    name: '429 with Retry-After in seconds',
    faults: first({ status: 429, headers: { 'Retry-After': '2' } }),
    hurry: 5,
    also(log, { notes }) {
      expect(gaps(log)[0]).toBeGreaterThan(1950 / 5);
      expect(notes.join()).toMatch(/wait/i);
    },
  },
  {
    name: '503 with Retry-After as a date',
    faults: ({ n }) =>
      n === 0 ? { status: 503, headers: { 'Retry-After': new Date(Date.now() + 3000).toUTCString() } } : null,
    hurry: 5,
    also: (log) => expect(gaps(log)[0]).toBeGreaterThan(1500 / 5),
  },
  {
    name: '429 to the first request of each piece, Retry-After: 0',
    faults: each({ status: 429, headers: { 'Retry-After': '0' } }),
    hurry: 5,
  },
  {
    name: 'Retry-After that makes no sense',
    faults: first({ status: 503, headers: { 'Retry-After': 'soon' } }),
    hurry: 5,
  },
  {
    name: 'Retry-After hidden by CORS',
    faults: first({ status: 429, headers: { 'Retry-After': '50' }, hide: ['Retry-After'] }),
    hurry: 5,
  },
  {
    name: 'Retry-After of a year is cut',
    faults: first({ status: 429, headers: { 'Retry-After': '31536000' } }),
    hurry: 60,
  },
  { name: 'reset before the first answer', faults: ({ n }) => (n < 2 ? { reset: 'unanswered' } : null), hurry: 5 },
  { name: 'reset in the midst of the first body', faults: first({ reset: 20_000 }), hurry: 5 },
  {
    name: 'reset in the midst of a piece: it goes on where it stopped',
    faults: some(1, ({ from }) => from === 2 * SHARD, { reset: 30_000 }),
    hurry: 5,
    also(log) {
      const again = log.find(({ from, to }) => to === 3 * SHARD - 1 && from !== 2 * SHARD);
      expect(again).toBeDefined();
      expect(again!.from! - 2 * SHARD).toBeGreaterThan(0);
      expect(again!.from! - 2 * SHARD).toBeLessThanOrEqual(30_000);
    },
  },
  { name: 'every connection is reset after 40,000 bytes', faults: always({ reset: 40_000 }), hurry: 20 },
  {
    name: 'reset without ranges',
    faults: ({ n }) => noRanges(n < 2 ? { reset: 300_000 } : {}),
    hurry: 5,
    also: (log) => expect(log).toHaveLength(3),
  },
  {
    name: 'reset without ranges and length',
    faults: ({ n }) => noRanges({ contentLength: null, ...(n === 0 ? { reset: 300_000 } : {}) }),
    hurry: 5,
  },
  { name: 'a truncated body', faults: some(2, later, { truncate: 1000 }), hurry: 5 },
  {
    name: 'a truncated body that looks whole',
    faults: some(2, later, { truncate: 1000, contentLength: null }),
    hurry: 5,
  },
  { name: 'the first body truncated as if whole', faults: first({ truncate: 70_000, contentLength: null }), hurry: 5 },
  { name: 'every body is truncated', faults: always({ truncate: 40_000 }), hurry: 20 },
  {
    name: 'truncated without ranges',
    faults: ({ n }) => noRanges(n === 0 ? { truncate: 100_000 } : {}),
    hurry: 5,
    also: (log) => expect(log).toHaveLength(2),
  },
  { name: 'a Content-Length that is too short', faults: some(2, later, { contentLength: 5000 }), hurry: 5 },
  { name: 'a Content-Length that is too long', faults: some(2, later, { contentLength: SHARD + 99 }), hurry: 5 },
  {
    name: 'no ranges, and a Content-Length that is too long once',
    faults: ({ n }) => noRanges(n === 0 ? { contentLength: MODEL.length + 5 } : {}),
    hurry: 5,
  },
  {
    name: 'bodies longer than their ranges',
    faults: (asked) => (later(asked) ? { extra: 7, contentLength: null } : null),
  },
  {
    name: 'other ranges than asked for',
    faults: (asked) => (later(asked) ? { shift: (from, to) => [from - 100, to - 100] } : null),
  },
  {
    name: 'other ranges from the first answer on',
    faults: ({ from }) => (from === null ? null : { shift: (_, to) => [Math.min(10, to), to] }),
  },
  {
    name: 'shorter ranges than asked for',
    faults: (asked) => (later(asked) ? { shift: (from, to) => [from, to - from > 1000 ? to - 1000 : to] } : null),
  },
  {
    name: 'a Content-Range that lies',
    faults: (asked) => (later(asked) ? { contentRange: `bytes 0-9/${MODEL.length}` } : null),
  },
  {
    name: 'a Content-Range without a total',
    faults: ({ from, to }) => ({ contentRange: `bytes ${from}-${to ?? MODEL.length - 1}/*` }),
  },
  { name: 'ranges that end after the first answers', faults: ({ n }) => (n < 3 ? null : noRanges()) },
  {
    name: 'status 416 to a later piece',
    faults: (asked) => (later(asked) && asked.from !== null ? { status: 416 } : null),
  },
  // A request for a range says Accept-Encoding: identity, and Chromium does not show the page an answer that is compressed all the same: it looks as if
  // the server could not be reached. Only a request without a range tells.
  { name: 'compressed ranges', faults: ({ from }) => ({ gzip: from !== null }), hurry: 20 },
  {
    name: 'compressed ranges that CORS hides',
    faults: ({ from }) => ({ gzip: from !== null, hide: ['Content-Encoding'] }),
    hurry: 20,
  },
  { name: 'compressed without ranges', faults: always(noRanges({ gzip: true })), hurry: 20 },
  {
    name: 'compressed without ranges, hidden by CORS',
    faults: always(noRanges({ gzip: true, hide: ['Content-Encoding'] })),
    hurry: 20,
  },
  {
    name: 'compressed without ranges and length',
    faults: always(noRanges({ gzip: true, contentLength: null })),
    hurry: 20,
  },
  { name: 'HTML in place of a piece, once', faults: some(1, later, { status: 200, body: '<p>busy</p>' }), hurry: 5 },
  { name: 'a server that stalls in the midst of a piece', faults: some(1, later, { stall: 10_000 }), hurry: 15 },
  { name: 'a server that stalls before it answers', faults: first({ stall: 'unanswered' }), hurry: 15 },
  {
    name: 'a server that stalls without ranges',
    faults: ({ n }) => noRanges(n === 0 ? { stall: 100_000 } : {}),
    hurry: 15,
  },
  { name: 'a slow drip', faults: always({ rate: 100_000 }), also: (_, { back }) => expect(back).toBe(false) },
  {
    name: 'a slow drip without ranges',
    faults: always(noRanges({ rate: 400_000 })),
    also: (log, { back }) => {
      once(log);
      expect(back).toBe(false);
    },
  },
  {
    name: 'another version from the fourth request on',
    faults: ({ n }) => (n < 3 ? null : { content: OTHER }),
    becomes: OTHER,
  },
  {
    name: 'another version, known by Last-Modified alone',
    faults: ({ n }) =>
      n < 3 ? { etag: null } : { etag: null, content: OTHER, lastModified: 'Thu, 02 Jul 2026 10:00:00 GMT' },
    becomes: OTHER,
  },
  {
    name: 'another version, known by its length alone',
    faults: ({ n }) => ({ etag: null, lastModified: null, ...(n < 3 ? {} : { content: generated(10, 300_000) }) }),
    becomes: generated(10, 300_000),
  },
  {
    name: 'another version while one without ranges is read again',
    faults: ({ n }) => noRanges(n === 0 ? { reset: 100_000 } : { content: OTHER }),
    hurry: 5,
    becomes: OTHER,
  },
];

const RETRY = /again|later/i;
const ENDED: Case[] = [
  {
    name: 'status 500 for ever',
    faults: always({ status: 500 }),
    hurry: 20,
    error: { code: 'NETWORK', message: /500.*(again|later)/is },
    also: (log) => expect(log).toHaveLength(5),
  },
  {
    name: 'status 429 for ever',
    faults: always({ status: 429, headers: { 'Retry-After': '0' } }),
    hurry: 20,
    error: { code: 'NETWORK', message: /429.*(again|later|slow)/is },
  },
  {
    name: 'status 503 for ever, for one piece',
    faults: ({ from, to }) =>
      from !== null && to !== null && from <= 3 * SHARD && to >= 3 * SHARD ? { status: 503 } : null,
    hurry: 20,
    error: { code: 'NETWORK', message: /503/ },
  },
  {
    name: 'reset for ever',
    faults: always({ reset: 'unanswered' }),
    hurry: 20,
    error: { code: 'NETWORK', message: RETRY },
  },
  {
    name: 'reset for ever, without ranges',
    faults: always(noRanges({ reset: 100_000 })),
    hurry: 20,
    error: { code: 'NETWORK', message: RETRY },
  },
  {
    name: 'truncated for ever, without ranges',
    faults: always(noRanges({ truncate: 100_000 })),
    hurry: 20,
    error: { code: 'NETWORK', message: RETRY },
  },
  {
    name: 'no server and no CORS look the same',
    faults: always({ cors: false }),
    hurry: 20,
    error: { code: 'NETWORK', message: /CORS/ },
  },
  {
    name: 'a loop of redirects',
    faults: always({ redirect: './model.gguf' }),
    hurry: 20,
    error: { code: 'NETWORK', message: /./ },
  },
  {
    name: 'an ETag that always changes',
    faults: ({ n }) => ({ etag: `"${n}"` }),
    hurry: 5,
    error: { code: 'NETWORK', message: /chang|version/i },
  },
  {
    name: 'two servers behind one name that do not agree',
    faults: ({ n }) => ({ etag: `"${n % 2}"` }),
    hurry: 5,
    error: { code: 'NETWORK', message: /chang|version/i },
  },
  {
    name: 'status 401',
    faults: always({ authorization: 'Bearer other' }),
    error: { code: 'NETWORK', message: /401.*token|token.*401/is },
    also: once,
  },
  {
    name: 'status 403',
    faults: always({ status: 403 }),
    error: { code: 'NETWORK', message: /(?=.*403)(?=.*token)(?=.*licen[cs]e)/is },
    also: once,
  },
  {
    name: 'status 403 to a later piece',
    faults: (asked) => (later(asked) ? { status: 403 } : null),
    error: { code: 'NETWORK', message: /403/ },
  },
  {
    name: 'status 404',
    faults: always({ status: 404 }),
    error: { code: 'NOT_FOUND', message: /404.*address/is },
    also: once,
  },
  { name: 'status 410', faults: always({ status: 410 }), error: { code: 'NOT_FOUND', message: /410/ }, also: once },
  {
    name: 'status 404 to a later piece',
    faults: (asked) => (later(asked) ? { status: 404 } : null),
    error: { code: 'NOT_FOUND', message: /404/ },
  },
  {
    name: 'a status that nobody knows',
    faults: always({ status: 418 }),
    error: { code: 'NETWORK', message: /418/ },
    also: once,
  },
];

let index = 0;
for (const [group, cases] of Object.entries({
  'a server as it may be': GOOD,
  'what mends itself': MENDED,
  'what ends with an error': ENDED,
})) {
  test.describe(group, () => {
    for (const {
      name,
      file = MODEL,
      faults,
      others = {},
      options,
      hurry: times = 1,
      error,
      becomes = file,
      also,
    } of cases) {
      const path = `/case-${++index}/model.gguf`;
      test(name, async ({ shared, faulty }) => {
        faulty.put(path, file);
        if (faults) faulty.break(path, faults);
        for (const [path, script] of Object.entries(others)) faulty.break(path, script);
        const page = await shared(times);
        const url = `${faulty.url}${path}`;
        const result = await download(page, url, options);
        const log = faulty.of(path);
        if (error) {
          expect(result.error).toMatchObject({
            code: error.code,
            ours: true,
            message: expect.stringMatching(error.message),
          });
          expect(result.error!.message).toContain(url);
          also?.(log, result);
          // Once the server is healed, the pieces kept of the failed attempt do no harm.
          faulty.heal();
          expect(await download(page, url, options)).toMatchObject({ error: null });
        } else {
          expect(result).toMatchObject({
            error: null,
            stored: { url, bytes: becomes.length, total: becomes.length, complete: true },
          });
          also?.(log, result);
        }
        await expectWhole(page, url, becomes);
        await page.evaluate((url) => models.remove(url), url);
      });
    }
  });
}

test('a piece that fails for ever: the next attempt asks only for what is missing', async ({ tab, site, faulty }) => {
  hurry(site, 20);
  const url = `${faulty.url}${FILE}`;
  faulty.break(FILE, ({ from, to }) => (from !== null && to !== null && from >= 3 * SHARD ? { status: 503 } : null));
  expect((await download(tab, url, { connections: 1 })).error).toMatchObject({ code: 'NETWORK' });
  faulty.heal();
  expect(await download(tab, url)).toMatchObject({ error: null });
  expect(piecesAsked(faulty.of(FILE))).toEqual(Array.from({ length: PIECES - 3 }, (_, i) => i + 3));
  await expectWhole(tab, url);
});

test('an empty file ends one way or the other', async ({ tab, faulty }) => {
  faulty.put('/empty', content(''));
  const { error, stored } = await download(tab, `${faulty.url}/empty`);
  if (error) expect(error).toMatchObject({ ours: true, message: expect.stringMatching(/empty|416|0 bytes/i) });
  else expect(stored).toMatchObject({ complete: true, bytes: 0 });
});

test('nobody listens', async ({ tab, site }) => {
  hurry(site, 20);
  // No service is known to use port 47, and browsers do not refuse it.
  expect((await download(tab, 'http://localhost:47/model.gguf')).error).toMatchObject({
    code: 'NETWORK',
    message: expect.stringMatching(/reach|connect/i),
  });
});

test.describe('shards know their hashes', () => {
  const BAD = '/shards/shard-00003-of-00010.bin';
  const damaged: [string, Fault][] = [
    ['a flipped bit', { corrupt: 1000 }],
    ['no ranges and a flipped bit', { corrupt: 1000, ranges: false }],
    ['a shorter file', { content: content(Buffer.alloc(59_000)) }],
    ['a longer file', { content: content(Buffer.alloc(61_000)) }],
    ['an empty file', { content: content('') }],
    ['HTML', { status: 200, body: '<!doctype html><title>busy</title>' }],
    [
      'a flipped bit that caches may keep',
      { corrupt: 1000, headers: { 'Cache-Control': 'public, max-age=31536000, immutable' } },
    ],
  ];
  for (const [name, fault] of damaged) {
    test(`${name}: fetched once more, alone`, async ({ tab, site, faulty }) => {
      hurry(site, 5);
      faulty.break(BAD, [fault]);
      expect(await download(tab, `${faulty.url}${MANIFEST}`)).toMatchObject({
        error: null,
        stored: { complete: true },
      });
      const asked = faulty.log.map(({ path }) => path);
      expect(asked.filter((path) => path === BAD)).toHaveLength(2);
      expect(asked.filter((path) => path !== BAD)).toHaveLength(new Set(asked).size - 1);
      for (const file of await exported(tab, `${faulty.url}${MANIFEST}`))
        expect(file.sha256).toBe(sha256(faulty.file(`/shards/${file.name}`)!));
    });
  }

  test('damaged twice: the error names it, and the next attempt fetches it alone', async ({ tab, faulty }) => {
    const url = `${faulty.url}${MANIFEST}`;
    faulty.break(BAD, () => ({ corrupt: 1000 }));
    const { error } = await download(tab, url);
    expect(error).toMatchObject({ code: 'BAD_MODEL', message: expect.stringContaining('shard-00003-of-00010.bin') });
    expect(faulty.of(BAD)).toHaveLength(2);
    expect((await tab.evaluate(() => models.list()))[0]).toMatchObject({ complete: false });
    faulty.heal();
    expect(await download(tab, url)).toMatchObject({ error: null, stored: { complete: true } });
    expect(faulty.of(BAD)).toHaveLength(1);
  });

  test('a shard that is not there is named', async ({ tab, faulty }) => {
    faulty.break(BAD, () => ({ status: 404 }));
    expect((await download(tab, `${faulty.url}${MANIFEST}`)).error).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('shard-00003-of-00010.bin'),
    });
  });

  test('a manifest that is a web page', async ({ tab, faulty }) => {
    faulty.break(MANIFEST, () => ({ status: 200, body: '<!doctype html><title>Sign in</title>' }));
    expect((await download(tab, `${faulty.url}${MANIFEST}`)).error).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('manifest.json'),
    });
    faulty.heal();
    expect(await download(tab, `${faulty.url}${MANIFEST}`)).toMatchObject({ error: null });
  });
});

test.describe('the model answers as ever', () => {
  const SHARD_4 = '/shards/shard-00004-of-00010.bin';
  const cases: { name: string; model?: string; faults: Record<string, Script> }[] = [
    {
      name: 'resets, truncated bodies and errors by turns',
      faults: { [FILE]: ({ n }) => [null, null, { reset: 10_000 }, { truncate: 20_000 }, { status: 503 }][n % 5] },
    },
    { name: 'no ranges and a reset', faults: { [FILE]: ({ n }) => noRanges(n === 0 ? { reset: 200_000 } : {}) } },
    {
      name: 'other ranges than asked for',
      faults: { [FILE]: (asked) => (later(asked) ? { shift: (from, to) => [from - 8, to - 8] } : null) },
    },
    { name: 'compressed ranges', faults: { [FILE]: ({ from }) => ({ gzip: from !== null }) } },
    {
      name: 'a redirect to another origin',
      faults: { [FILE]: ({ n }) => (n % 2 === 0 ? null : { delay: 20 }) },
      model: '/moved.gguf',
    },
    {
      name: 'everything hidden by CORS',
      faults: { [FILE]: always({ hide: ['Content-Range', 'ETag', 'Content-Encoding'] }) },
    },
    {
      name: 'the file becomes another one, by its ETag, while it is read',
      faults: { [FILE]: ({ n }) => (n < 4 ? { etag: '"old"' } : null) },
    },
    {
      name: 'shards, one of them damaged',
      model: MANIFEST,
      faults: { [SHARD_4]: [{ corrupt: 99 }], '/shards/tokenizer.json': [{ corrupt: 200 }] },
    },
    {
      name: 'shards without ranges, one of them reset',
      model: MANIFEST,
      faults: { [SHARD_4]: ({ n }) => noRanges(n === 0 ? { reset: 5000 } : {}) },
    },
    {
      name: 'a folder of safetensors with faults in each file',
      model: FOLDER,
      faults: {
        [`${FOLDER}config.json`]: [{ status: 500 }],
        [`${FOLDER}tokenizer.json`]: [{ reset: 'unanswered' }],
        [`${FOLDER}model.safetensors.index.json`]: [{ truncate: 100 }],
        [`${FOLDER}model-00001-of-00002.safetensors`]: ({ n }) => (n % 2 === 0 ? { reset: 50_000 } : null),
        [`${FOLDER}model-00002-of-00002.safetensors`]: ({ n }) => noRanges(n === 0 ? { truncate: 50_000 } : {}),
      },
    },
    {
      name: 'a split GGUF file with faults in each part',
      model: SPLIT,
      faults: {
        '/split/model-00001-of-00003.gguf': [null, { reset: 1000 }],
        [SPLIT]: [{ status: 429, headers: { 'Retry-After': '0' } }],
        '/split/model-00003-of-00003.gguf': [{ truncate: 9999 }],
      },
    },
  ];
  // A GPU in software takes ten seconds for each: the others run with the long tests.
  const quick = ['resets', 'shards, one', 'a folder'];
  for (const { name, model = FILE, faults } of cases.filter(
    ({ name }) => LONG || quick.some((begin) => name.startsWith(begin)),
  )) {
    test(name, async ({ tab, site, faulty, greedy }) => {
      hurry(site, 10);
      faulty.break('/moved.gguf', () => ({ redirect: `${faulty.other}${FILE}` }));
      for (const [path, script] of Object.entries(faults)) faulty.break(path, script);
      const url = `${faulty.url}${model}`;
      const { error, tokens, cached, kind } = await answer(tab, { model: url, shardBytes: SHARD });
      expect(error).toBeNull();
      expect({ cached, kind }).toEqual({ cached: false, kind: 'opfs' });
      if (model === FOLDER || model === SPLIT) {
        // Other models: their answers are compared with those of the same files from an undisturbed server.
        const local =
          model === FOLDER ? '/data/oracle/hf-sharded/model/' : '/data/oracle/gguf-split/model-00001-of-00003.gguf';
        expect(tokens).toEqual((await answer(tab, { model: local })).tokens);
      } else {
        expect(tokens).toEqual(greedy);
      }
    });
  }

  test('a web page in place of the model is said to be one, and is not kept', async ({ tab, faulty, greedy }) => {
    const model = `${faulty.url}${FILE}`;
    faulty.break(FILE, () => ({ status: 200, body: '<!doctype html><title>Sign in</title>' }));
    expect((await download(tab, model)).error).toMatchObject({
      code: 'BAD_MODEL',
      message: expect.stringContaining('web page'),
    });
    expect(await tab.evaluate(() => models.list())).toEqual([]);
    expect((await answer(tab, { model, shardBytes: SHARD })).error).toMatchObject({
      code: 'BAD_MODEL',
      message: expect.stringContaining(FILE),
    });
    faulty.heal();
    expect(await answer(tab, { model, shardBytes: SHARD })).toMatchObject({ error: null, tokens: greedy });
  });

  test('one part of a split file is refused: the error names it, before anything of the others is fetched', async ({
    tab,
    faulty,
  }) => {
    const part = '/split/model-00003-of-00003.gguf';
    faulty.break(part, () => ({ status: 403 }));
    expect((await download(tab, `${faulty.url}${SPLIT}`)).error).toMatchObject({
      code: 'NETWORK',
      message: expect.stringContaining('model-00003-of-00003.gguf'),
    });
    expect(piecesAsked(faulty.of('/split/model-00001-of-00003.gguf'))).toEqual([]);
    faulty.heal();
    expect(await download(tab, `${faulty.url}${SPLIT}`)).toMatchObject({ error: null, stored: { complete: true } });
  });

  test('a file that the index names is not there', async ({ tab, faulty }) => {
    const path = `${FOLDER}model-00002-of-00002.safetensors`;
    faulty.break(path, () => ({ status: 404 }));
    expect((await download(tab, `${faulty.url}${FOLDER}`)).error).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('model-00002-of-00002.safetensors'),
    });
  });

  test('no private storage: memory, and the reason', async ({ tab, site, faulty, greedy }) => {
    before(
      site,
      "StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('closed', 'SecurityError'))",
    );
    faulty.break(FILE, ({ n }) => (n === 1 ? { reset: 20_000 } : null));
    const result = await answer(tab, { model: `${faulty.url}${FILE}`, shardBytes: SHARD });
    expect(result).toMatchObject({
      error: null,
      tokens: greedy,
      kind: 'memory',
      cached: false,
      reason: expect.stringContaining('SecurityError'),
    });
  });

  test('cache: false keeps nothing', async ({ tab, faulty, greedy }) => {
    expect(await answer(tab, { model: `${faulty.url}${FILE}`, shardBytes: SHARD, cache: false })).toMatchObject({
      error: null,
      tokens: greedy,
      cached: false,
    });
    expect((await storedFiles(tab)).pieces).toEqual([]);
    expect(await tab.evaluate(() => models.list())).toEqual([]);
  });
});

test('not enough room is found before a byte is written', async ({ tab, site, faulty }) => {
  before(site, 'StorageManager.prototype.estimate = () => Promise.resolve({ quota: 100_000, usage: 0 })');
  for (const path of [FILE, MANIFEST]) {
    expect((await download(tab, `${faulty.url}${path}`)).error).toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(/room|needs|available/i),
    });
  }
  expect(faulty.of(FILE)).toHaveLength(1);
  const { pieces } = await storedFiles(tab);
  // Only the bytes that were read to learn the model's length may be stored.
  expect(pieces.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(20_000);
});
