// The models that this browser keeps, without a GPU: one Worker for all calls, which ends after an idle time.
import { serve } from './bridge.ts';
import { logProgress } from './configure.ts';
import { MillraceError } from './errors.ts';
import { aborted } from './generation.ts';
import { resolveHub } from './hub.ts';
import { askToPersist, forgetKept, keyOf, noteKept } from './kept.ts';
import { Link } from './link.ts';
import { checkDownload, checkModelUrl, checkModels, filesOf } from './options.ts';
import { unlessUsed } from './use.ts';
import { fileOf, wrongPlace } from './place.ts';
import type { ModelsCall } from './protocol.ts';
import type {
  DownloadOptions,
  ModelFile,
  ModelsOptions,
  Progress,
  StorageUsage,
  StoredModel,
  Verified,
} from './types.ts';

/** How long the Worker outlives the last call, in milliseconds. */
const IDLE_MS = 5000;

let link: Link | null = null;
let calls = 0;
let ending: ReturnType<typeof setTimeout> | undefined;

/** Has the Worker of stored models do something; `here`, this thread. @internal */
export async function call<T>(
  request: ModelsCall,
  { signal, onProgress, fetch, download }: Partial<DownloadOptions> = {},
  here = false,
): Promise<T> {
  if (signal?.aborted) throw aborted(request.name, signal);
  const place = wrongPlace();
  if (place) throw new MillraceError('STORAGE', place);
  // One in this thread is for this call alone.
  const used = here ? new Link(true) : (link ??= new Link());
  if (!here) {
    clearTimeout(ending);
    calls += 1;
  }
  const { id, answer } = used.request<'answer'>(
    { type: 'models', call: request, ownFetch: fetch !== undefined },
    (message) => {
      if (message.type === 'progress') logProgress(message.progress);
      if (message.type === 'progress' && !signal?.aborted) onProgress?.(message.progress as Progress);
      if (message.type === 'fetch' && fetch) void serve(fetch, message.url, message.headers, message.port);
    },
  );
  const onAbort = (): void => used.abort(id);
  signal?.addEventListener('abort', onAbort, { once: true });
  const unfollow = download?.follow((paused) => used.pause(id, paused));
  try {
    return (await answer).value as T;
  } catch (error) {
    if (signal?.aborted) throw aborted(request.name, signal);
    // A Worker that has crashed is of no more use.
    if (error instanceof MillraceError && ['INTERNAL', 'WORKER_LOST'].includes(error.code)) end(used);
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    unfollow?.();
    if (here) end(used);
    else if (--calls === 0) {
      ending = setTimeout(() => end(used), IDLE_MS);
      // Where a program ends when nothing is left to do, this is nothing.
      (ending as { unref?(): void }).unref?.();
    }
  }
}

/** The address under which a model is kept. */
async function addressOf(where: string, model: string | URL): Promise<string> {
  return keyOf(await resolveHub(where, checkModelUrl(where, model), {}, models.list));
}

function end(used: Link): void {
  used.close(new MillraceError('DISPOSED', 'the Worker that looks after stored models has ended'));
  if (link === used) link = null;
}

/**
 * The models that this browser keeps, under the addresses that they came from. Nothing here needs a GPU.
 *
 * All calls reject with STORAGE where the browser keeps nothing, as in private windows.
 */
export const models = {
  /** All of them, those that have arrived in part as well. */
  list(): Promise<StoredModel[]> {
    return call({ name: 'list' });
  },

  /** How full the storage is. */
  usage(): Promise<StorageUsage> {
    return call({ name: 'usage' });
  },

  /** Fetches a model, or what is missing of it, so that a later `Engine.load` needs no network. Rejects as `Engine.load` does. */
  async download(model: string | URL | readonly (string | URL)[], options: DownloadOptions = {}): Promise<StoredModel> {
    const named = checkDownload(model, options);
    const checked = { ...named, model: await resolveHub('models.download', named.model, options, models.list) };
    void askToPersist();
    const stored = await call<StoredModel>({ name: 'download', options: checked }, options);
    noteKept(keyOf(checked.model));
    return stored;
  },

  /**
   * Compares what is stored of a model with its hashes. Pieces that are not what they were are removed: the next load or download fetches them
   * alone. Rejects with NOT_FOUND where nothing is stored.
   */
  async verify(model: string | URL, options: ModelsOptions = {}): Promise<Verified> {
    checkModels('models.verify', options);
    return call({ name: 'verify', url: await addressOf('models.verify', model) }, options);
  },

  /** Removes a model, if it is there. Rejects with STORAGE while an engine uses it. */
  async remove(model: string | URL): Promise<void> {
    const url = await addressOf('models.remove', model);
    await unlessUsed(url, () => call({ name: 'remove', url }));
    forgetKept(url);
  },

  /** The files of a whole model. They lie on the disk until they are read. Rejects with NOT_FOUND where it is not whole. */
  async export(model: string | URL): Promise<File[]> {
    const files = await call<{ name: string; parts: Blob[] }[]>({
      name: 'export',
      url: await addressOf('models.export', model),
    });
    return Promise.all(files.map(({ name, parts }) => fileOf(parts, name)));
  },

  /**
   * Keeps files as the model of an address, in place of what is there. With a manifest.json among them its hashes are compared: else BAD_MODEL.
   * Rejects with STORAGE while an engine uses what is there.
   */
  async import(
    model: string | URL,
    files: ModelFile | readonly ModelFile[] | FileList,
    options: ModelsOptions = {},
  ): Promise<StoredModel> {
    checkModels('models.import', options);
    const url = await addressOf('models.import', model);
    void askToPersist();
    const request: ModelsCall = { name: 'import', url, files: filesOf('models.import', files) };
    const stored = await unlessUsed(url, () => call<StoredModel>(request, options));
    noteKept(url);
    return stored;
  },
};
