// LoRA adapters of a loaded model: read here, wherever they are, and handed to its host as files.
import { bad, check, type Row } from './check.ts';
import { MillraceError } from './errors.ts';
import { aborted } from './generation.ts';
import { fetched } from './fetched.ts';
import { HUB, hubName } from './hub.ts';
import type { WasmModelFile } from './millrace.js';
import { absolute, checkName, filesOf } from './options.ts';
import { localFiles } from './place.ts';
import type { AdapterOptions, AdapterSource, LoadedAdapter, ModelFile } from './types.ts';

const WHERE = 'engine.adapters.load';
/** What PEFT saves. */
const FOLDER = ['adapter_config.json', 'adapter_model.safetensors'];
const HOLDS = `an adapter is a folder with ${FOLDER.join(' and ')}, or one .gguf file`;
const OPTIONS: Record<keyof AdapterOptions, Row> = {
  name: { kind: 'text' },
  signal: { kind: 'signal' },
  onProgress: { kind: 'callback' },
  token: { kind: 'text' },
  fetch: { kind: 'callback' },
};

/** What an engine does for its adapters. @internal */
export interface AdapterHost {
  list: () => readonly LoadedAdapter[];
  /** Without files the adapter goes. */
  set: (name: string, files?: { files: WasmModelFile[] }, signal?: AbortSignal) => Promise<void>;
}

/** The LoRA adapters of an engine: several at a time, each under a name that {@link GenerateOptions.adapter} gives. */
export class Adapters {
  readonly #host: AdapterHost;

  /** @internal */
  constructor(host: AdapterHost) {
    this.#host = host;
  }

  /** The loaded adapters, in the order of loading. */
  get list(): readonly LoadedAdapter[] {
    return this.#host.list();
  }

  /**
   * Loads an adapter beside those that are there: a folder as PEFT saves it (adapter_config.json, adapter_model.safetensors), by its address, as
   * `'OWNER/REPO'` on Hugging Face or as files; or a GGUF file of type adapter. The model is not loaded again. Waits its turn as generations do.
   *
   * ```js
   * await engine.adapters.load('https://example.com/pirate/', { name: 'pirate' });
   * const { text } = await engine.generate('Hello', { adapter: { name: 'pirate', scale: 0.8 } });
   * ```
   *
   * Rejects with BAD_OPTION for wrong options and a name that is taken, with NOT_FOUND and NETWORK where files do not come, with BAD_MODEL for an
   * adapter of another model, with UNSUPPORTED_MODEL for one that does what is not supported (DoRA, modules saved whole, biases, embeddings), with
   * OUT_OF_MEMORY, and with ABORTED.
   */
  async load(source: AdapterSource, options: AdapterOptions = {}): Promise<LoadedAdapter> {
    check(WHERE, options, OPTIONS);
    const { signal } = options;
    if (signal?.aborted) throw aborted('loading', signal);
    const name = options.name ?? nameOf(source);
    const files = await filesFrom(source, options);
    await this.#host.set(name, files, signal);
    return this.list.find((one) => one.name === name)!;
  }

  /** Forgets an adapter and frees its memory. Rejects with BAD_OPTION where none has that name. */
  async unload(name: string): Promise<void> {
    checkName('engine.adapters.unload', name);
    return this.#host.set(name);
  }
}

/** The name of an address's last part, or of the only file, without its ending. */
function nameOf(source: AdapterSource): string {
  const files = source instanceof URL || typeof source === 'string' ? [] : [source].flat();
  const told = files.length > 0 ? (files as ModelFile[]).map(({ name }) => name) : [String(source)];
  const paths = told.map((path) => path.replace(/[?#].*$/, '').replace(/\/?(adapter_(config|model)\.\w+)?$/, ''));
  const path = paths.find((one) => one !== '') ?? '';
  const name = (path.split('/').pop() ?? '').replace(/\.gguf$/i, '').replace(/@.*$/, '');
  if (name === '') throw bad(`${WHERE}: name is missing: say what the adapter is to be called`, { option: 'name' });
  return name;
}

async function filesFrom(source: AdapterSource, options: AdapterOptions): Promise<{ files: WasmModelFile[] }> {
  if (typeof source !== 'string' && !(source instanceof URL)) return filesOf(WHERE, source);
  const hub = hubName(source);
  const address = hub ? `${HUB}/${hub.repo}/resolve/${hub.revision}/` : absolute(WHERE, 'the adapter', source);
  const local = await localFiles(address);
  if (typeof local !== 'string') return local;
  const url = new URL(local);
  const file = url.pathname.split('/').pop() ?? '';
  const single = /\.[A-Za-z]+$/.test(file) && !FOLDER.includes(file);
  if (!FOLDER.includes(file) && !single && file !== '') url.pathname += '/';
  const names = single ? [file] : FOLDER;
  const files = names.map(async (name) => {
    const one = single ? url : new URL(name + url.search, url);
    const answer = await fetched(WHERE, one.href, options, `: ${HOLDS}`);
    const data = await answer.blob().catch((cause) => {
      if (options.signal?.aborted) throw aborted('loading', options.signal);
      throw new MillraceError('NETWORK', `${WHERE}: ${one.href} broke off: try again`, { cause });
    });
    options.onProgress?.({ phase: 'download', loaded: data.size, total: data.size, cached: false });
    return { name, data };
  });
  return { files: await Promise.all(files) };
}
