// npm run bench -- --storage: how fast a model is downloaded to the browser's storage, verified, and loaded from there,
// compared with a plain read of its bytes.
import { writeFileSync } from 'node:fs';
import { CodedError } from './headless.mjs';

/** Drops the system's file cache, so that the disk is measured. */
function dropCaches() {
  try {
    writeFileSync('/proc/sys/vm/drop_caches', '3');
  } catch (error) {
    throw new CodedError(
      'BAD_OPTION',
      `--cold empties the system's cache of files, which needs Linux and its administrator: ${error.message}`,
    );
  }
}

/** Runs a function in the page; its errors keep their codes. */
async function inPage(page, work, argument) {
  const { value, failure } = await page.evaluate(`(${work})(${JSON.stringify(argument)}).then(
    (value) => ({ value }),
    (error) => ({ failure: { code: error.code ?? 'INTERNAL', message: error.message } }),
  )`);
  if (failure) throw new CodedError(failure.code, failure.message);
  return value;
}

/** Measures on a blank page of the server. `cold`: from the disk instead of the system's memory. */
export async function storageBench(page, { model, runs, cold }) {
  const measured = async (work, argument) => {
    if (cold) dropCaches();
    return inPage(page, work, argument);
  };
  const download = await inPage(page, fetchModel, model);
  // The first load compiles the kernels for the browser's own cache.
  const first = await inPage(page, load, model);
  const pairs = [];
  for (let run = 0; run < runs; run += 1) {
    const plain = await measured(plainRead);
    const { ms, ...rest } = await measured(load, model);
    pairs.push({ plain_ms: plain.ms, load_ms: ms, ...rest });
  }
  const verify = await measured(verifyModel, model);
  return {
    model: download.url,
    bytes: download.bytes,
    cold,
    download_ms: download.ms,
    first_load_ms: first.ms,
    verify_ms: verify,
    runs: pairs,
  };
}

export function printStorage(report) {
  const out = (line) => process.stdout.write(`${line}\n`);
  const speed = (ms) => `${(ms / 1e3).toFixed(2)} s, ${(report.bytes / ms / 1e6).toFixed(2)} GB/s`;
  out(
    `${report.model}: ${(report.bytes / 1e9).toFixed(2)} GB in the browser's storage, ${report.cold ? 'read from the disk' : "in the system's memory already"}`,
  );
  out(`download     ${speed(report.download_ms)}, hashed and written`);
  out(`first load   ${speed(report.first_load_ms)}`);
  for (const { plain_ms, load_ms, load_times } of report.runs) {
    const parts = Object.entries(load_times).map(([name, ms]) => `${name} ${(ms / 1e3).toFixed(2)}`);
    out(
      `load         ${speed(load_ms)}: ${((100 * plain_ms) / load_ms).toFixed(0)} % of a plain read's ${speed(plain_ms)} (${parts.join(', ')} s)`,
    );
  }
  out(`verify       ${speed(report.verify_ms)}`);
}

// Functions that run in the page.

async function fetchModel(model) {
  const { models } = await import('/pkg/index.js');
  const began = performance.now();
  const { url, bytes } = await models.download(model);
  return { url, bytes, ms: performance.now() - began };
}

async function verifyModel(model) {
  const { models } = await import('/pkg/index.js');
  const began = performance.now();
  const { bad } = await models.verify(model);
  if (bad.length > 0) throw new Error(`${bad.length} pieces are damaged`);
  return performance.now() - began;
}

async function load(model) {
  const { Engine } = await import('/pkg/index.js');
  const began = performance.now();
  const engine = await Engine.load({ model, tune: false });
  const ms = performance.now() - began;
  const { load_times, memory, storage } = engine.info;
  engine.dispose();
  if (!storage.cached) throw new Error(`the model was not loaded from the storage: ${storage.reason}`);
  return { ms, load_times, wasm_bytes: memory.wasm };
}

/** Reads all shards through access handles, 4 MiB at a time, in a Worker of its own. */
async function plainRead() {
  const script = async () => {
    const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('millrace');
    const into = new Uint8Array(4 << 20);
    const shards = [];
    for await (const folder of models.values()) {
      for await (const file of folder.values()) if (/^\d+\.\d+$/.test(file.name)) shards.push(file);
    }
    const place = ({ name }) => name.split('.').map(Number);
    shards.sort((a, b) => place(a)[0] - place(b)[0] || place(a)[1] - place(b)[1]);
    const began = performance.now();
    for (const shard of shards) {
      const handle = await shard.createSyncAccessHandle({ mode: 'read-only' });
      const length = handle.getSize();
      for (let at = 0; at < length; at += into.length) handle.read(into, { at });
      handle.close();
    }
    postMessage({ ms: performance.now() - began });
  };
  const worker = new Worker(URL.createObjectURL(new Blob([`(${script})()`], { type: 'text/javascript' })));
  const { data } = await new Promise((resolve, reject) => {
    worker.onmessage = resolve;
    worker.onerror = (event) => reject(new Error(event.message));
  });
  worker.terminate();
  return data;
}
