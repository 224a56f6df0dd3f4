// Models named as on Hugging Face, `OWNER/REPO`, as transformers.js and llama.cpp take them: which file of the repository that is.
import { bad } from './check.ts';
import { log } from './configure.ts';
import { MillraceError } from './errors.ts';
import { keyOf } from './kept.ts';
import type { CustomFetch, StoredModel } from './types.ts';

/** What the name of a repository says. */
interface Name {
  readonly repo: string;
  readonly revision: string;
  readonly quantization: string | undefined;
  /** Which file reads pictures for it: its name or address, or `none`. */
  readonly projector: string | undefined;
}

/** How a repository's file is chosen and asked for. */
export interface HubOptions {
  readonly file?: string | undefined;
  readonly hub?: string | undefined;
  readonly token?: string | undefined;
  readonly fetch?: CustomFetch | undefined;
  readonly signal?: AbortSignal | undefined;
}

export const HUB = 'https://huggingface.co';
/**
 * The default quantizations, the first available one: small enough for most machines, and hardly worse than the
 * original.
 */
const PREFERRED = ['Q4_K_M', 'Q4_K_S', 'Q4_0', 'Q5_K_M', 'Q4_1', 'Q5_0', 'Q6_K', 'Q8_0', 'F16', 'BF16'];
/** The default among several projectors: 8 bits see as well as 16, at half the size. */
const PREFERRED_PROJECTORS = ['Q8_0', 'F16', 'BF16'];
/**
 * Projector types (`clip.projector_type`) that this version runs: others are not fetched. The families of
 * src/model/vision, by hand.
 */
const READ = [
  'gemma3',
  'gemma4v',
  'gemma4uv',
  'glm4v',
  'idefics3',
  'lfm2',
  'lightonocr',
  'paddleocr',
  'qwen3vl_merger',
];
/** Bytes of a projector's beginning that name its type. */
const LOOK = 65_536;
/** Separates a model's address from that of its projector. */
export const PROJECTOR = '#mmproj=';
/** Stores what a name was resolved to, so that the same model is loaded the next time, also without a network. */
const KEY = `millrace:hub:${READ.join()}:`;

/** Whether an address or a path is that of a file which reads pictures for a model beside it. */
export const isProjector = (path: string): boolean => /mmproj[^/]*\.gguf(\?|$)/i.test(path);

/** What a repository's name says; null for addresses. */
export function hubName(model: unknown): Name | null {
  if (typeof model !== 'string') return null;
  const [, repo, revision, quantization, projector] =
    /^([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?(?::([\w.-]+))?(?:#mmproj=(.+))?$/.exec(model) ?? [];
  if (repo === undefined || /\.(gguf|json|safetensors|html?)$/i.test(repo)) return null;
  return { repo, revision: revision ?? 'main', quantization, projector };
}

/** The address of the model that a name means; any other model as it is. @internal */
export async function resolveHub<M>(
  where: string,
  model: M,
  options: HubOptions,
  stored: () => Promise<readonly StoredModel[]>,
): Promise<M | string> {
  const name = hubName(model);
  if (name === null) {
    if (options.file !== undefined)
      throw bad(`${where}: file says which file of a repository to take, but model is no repository's name`, {
        option: 'file',
      });
    return model;
  }
  const hub = (options.hub ?? HUB).replace(/\/+$/, '');
  if (!URL.canParse(hub)) throw bad(`${where}: hub is "${hub}", which is no address`, { option: 'hub' });
  const key = `${KEY}${hub}/${model as string}#${options.file ?? ''}`;
  const known = remembered(key);
  if (known !== null && (await stored().catch(() => [])).some((one) => one.complete && one.url === keyOf(known)))
    return known;
  const base = `${hub}/${name.repo}/resolve/${name.revision}/`;
  let paths: string[];
  try {
    paths = await list(name, hub, options);
  } catch (error) {
    // Without a network what is stored of it is all that there is.
    const here = (await stored().catch(() => [])).filter(({ url, complete }) => complete && url.startsWith(base));
    if (here.length === 0 || !(error instanceof MillraceError) || error.code !== 'NETWORK') throw error;
    if (here.some(({ url }) => url === base)) return base;
    // A stored projector is stored with its model.
    return choose(
      name,
      base,
      here.map(({ url }) => decodeURIComponent(url.slice(base.length))),
      options.file,
    );
  }
  const url = choose(name, base, paths, options.file);
  const projector = await projectorOf(name, url, base, paths, options);
  if (projector !== undefined) remember(key, url + projector);
  return url + (projector ?? '');
}

/**
 * What stands behind a model's address for the file which reads pictures for it; nothing where there is none or this version cannot use it, undefined where
 * that could not be seen now.
 */
async function projectorOf(
  { repo, projector }: Name,
  url: string,
  base: string,
  paths: string[],
  options: HubOptions,
): Promise<string | undefined> {
  if (projector === 'none' || !/\.gguf$/i.test(url)) return '';
  const behind = (address: string): string => PROJECTOR + encodeURIComponent(address);
  if (projector !== undefined) {
    if (URL.canParse(projector)) return behind(projector);
    const found = paths.find((path) => path === projector) ?? paths.find((path) => baseName(path) === projector);
    if (found === undefined) throw new MillraceError('NOT_FOUND', `${repo} has no file ${projector}`);
    return behind(addressIn(base, found));
  }
  const folder = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1);
  const rank = (path: string): number => PREFERRED_PROJECTORS.findIndex((type) => isOf(path, type)) >>> 0;
  const there = paths.filter(isProjector).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const best = there.find((path) => addressIn(base, folder(path)) === folder(url)) ?? there[0];
  if (best === undefined) return '';
  const kind = await projectorKind(addressIn(base, best), options);
  if (kind !== undefined && READ.includes(kind)) return behind(addressIn(base, best));
  const why = kind === undefined ? 'could not be looked at' : `is of ${kind || 'no kind'}, which is not read here`;
  log('warn', `${best} of ${repo} ${why}: the model is loaded without it and reads no pictures`);
  return kind === undefined ? undefined : '';
}

/** What a file that reads pictures says it is, from its first bytes: empty where it does not say, undefined where they did not come. */
async function projectorKind(address: string, { token, fetch, signal }: HubOptions): Promise<string | undefined> {
  const headers = {
    Range: `bytes=0-${LOOK - 1}`,
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
  };
  let text = '';
  try {
    const reply = await (fetch ?? globalThis.fetch)(address, {
      headers,
      cache: 'no-store',
      signal: signal ?? AbortSignal.timeout(30_000),
    });
    if (!reply.ok || reply.body === null) return undefined;
    const reader = reply.body.getReader();
    // A server may answer with all of it.
    while (text.length < LOOK) {
      const { done, value } = await reader.read();
      if (done) break;
      for (const byte of value) text += String.fromCharCode(byte);
    }
    await reader.cancel();
  } catch {
    if (signal?.aborted)
      throw new MillraceError('ABORTED', 'loading was aborted by its signal', { cause: signal.reason });
    return undefined;
  }
  const key = /clip\.(?:vision\.)?projector_type/.exec(text);
  if (!key) return '';
  // Behind a key of GGUF: the type of its value (8: a text) in four bytes, the text's length in eight, the text.
  const behind = key.index + key[0].length;
  return text.charCodeAt(behind) === 8 ? text.slice(behind + 12, behind + 12 + text.charCodeAt(behind + 4)) : '';
}

/** The paths of a repository's files. */
async function list({ repo, revision }: Name, hub: string, { token, fetch, signal }: HubOptions): Promise<string[]> {
  const address = `${hub}/api/models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`;
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  let reply: Response;
  try {
    reply = await (fetch ?? globalThis.fetch)(address, {
      headers,
      cache: 'no-store',
      signal: signal ?? AbortSignal.timeout(30_000),
    });
  } catch (error) {
    if (signal?.aborted)
      throw new MillraceError('ABORTED', 'loading was aborted by its signal', { cause: signal.reason });
    const message = `${address}: the list of files of ${repo} could not be fetched: check the connection; what is stored loads by its address (models.list)`;
    throw new MillraceError('NETWORK', message, { cause: error });
  }
  if (reply.status === 401 || reply.status === 403 || reply.status === 404) {
    const message = `${hub} has no public repository ${repo} with a revision ${revision} (status ${reply.status}): check the name, or pass a token where it is private; addresses of this site begin with ./`;
    throw new MillraceError('NOT_FOUND', message);
  }
  if (!reply.ok) throw new MillraceError('NETWORK', `${address}: status ${reply.status}; try again later`);
  try {
    const entries = (await reply.json()) as { type: string; path: string }[];
    return entries.filter(({ type }) => type === 'file').map(({ path }) => path);
  } catch (error) {
    const message = `${address}: the answer is no list of files; is ${hub} a hub with Hugging Face's interface?`;
    throw new MillraceError('NETWORK', message, { cause: error });
  }
}

const addressIn = (base: string, path: string): string => base + path.split('/').map(encodeURIComponent).join('/');

const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** Whether a file's name says that it is of that quantization. */
function isOf(path: string, quantization: string): boolean {
  const parts = quantization.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`(^|[-._])${parts}([-._]|$)`, 'i').test(baseName(path).replace(/\.gguf$/i, ''));
}

/** Which of a repository's files are meant. */
function choose({ repo, quantization }: Name, base: string, paths: string[], file: string | undefined): string {
  const address = (path: string): string => addressIn(base, path);
  // Any part of a split file stands for all; what projects images is no model by itself.
  const models = paths.filter(
    (path) =>
      /\.gguf$/i.test(path) &&
      !/(^|[-._/])(mmproj|imatrix)/i.test(path) &&
      !/-(?!00001)\d{5}-of-\d{5}\.gguf$/.test(path),
  );
  const names = (): string => (models.length > 0 ? models.map(baseName).slice(0, 40).join(', ') : 'none');
  const missing = (what: string): MillraceError =>
    new MillraceError('NOT_FOUND', `${repo} has no ${what}; its .gguf files are: ${names()}`);
  if (file !== undefined) {
    const found = paths.find((path) => path === file) ?? paths.find((path) => baseName(path) === file);
    if (found === undefined) throw missing(`file ${file}`);
    return address(found);
  }
  const shortest = (of: string[]): string | undefined => of.sort((a, b) => a.length - b.length || (a < b ? -1 : 1))[0];
  if (quantization !== undefined) {
    const found = shortest(models.filter((path) => isOf(path, quantization)));
    if (found === undefined) throw missing(`file of ${quantization}`);
    return address(found);
  }
  if (models.length === 1) return address(models[0]!);
  for (const preferred of PREFERRED) {
    const found = shortest(models.filter((path) => isOf(path, preferred)));
    if (found !== undefined) return address(found);
  }
  if (models.length > 0)
    throw bad(`${repo} has several models, and their names do not tell which to take: give file, one of ${names()}`, {
      option: 'file',
    });
  if (paths.includes('manifest.json')) return `${base}manifest.json`;
  if (paths.includes('config.json') && paths.some((path) => /^[^/]+\.safetensors$/.test(path))) return base;
  const kinds = [...new Set(paths.map((path) => /\.(onnx|bin|pt|pth|mlmodel|task)$/.exec(path)?.[1]).filter(Boolean))];
  throw new MillraceError(
    'NOT_FOUND',
    `${repo} has neither .gguf files nor config.json with .safetensors${kinds.length > 0 ? `, only .${kinds.join(', .')}` : ''}: take a repository of the same model with GGUF in its name`,
  );
}

function remembered(key: string): string | null {
  try {
    return globalThis.localStorage?.getItem(key) ?? null;
  } catch {
    return null; // no local storage here
  }
}

function remember(key: string, url: string): void {
  try {
    globalThis.localStorage?.setItem(key, url);
  } catch {
    // It is resolved again the next time.
  }
}
