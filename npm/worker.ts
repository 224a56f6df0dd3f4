/// <reference lib="webworker" />
// The script of the package's Workers: one in which an engine lives, or one that reads stored files for it.
import { host } from './host.ts';
import { READS, serveReads } from './reads.ts';

declare const self: DedicatedWorkerGlobalScope;

if (self.name === READS) serveReads(self);
else host(self, () => new Worker(self.location.href, { type: isModule() ? 'module' : 'classic', name: READS }));

/** Whether this script was started as a module. Some bundlers make a classic script of it. */
function isModule(): boolean {
  try {
    self.importScripts();
    return false;
  } catch {
    return true;
  }
}
