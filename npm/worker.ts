/// <reference lib="webworker" />
// The script of the package's Workers: one in which an engine lives, or one that reads stored files for it, or computes
// beside it on the CPU.
import { HELPS, serveCpu } from './helps.ts';
import { host } from './host.ts';
import { READS, serveReads } from './reads.ts';

declare const self: DedicatedWorkerGlobalScope;

if (self.name === READS) serveReads(self);
else if (self.name === HELPS)
  serveCpu(
    (listener) => {
      self.onmessage = ({ data }) => listener(data);
    },
    (message) => self.postMessage(message),
  );
else host(self, (name) => new Worker(self.location.href, { type: typeOfThis(), name }));

/** Bundlers may have made a classic script of this one: only there is this no error. */
function typeOfThis(): WorkerType {
  try {
    importScripts();
    return 'classic';
  } catch {
    return 'module';
  }
}
