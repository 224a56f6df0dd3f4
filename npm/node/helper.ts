// The script of a thread that helps to compute on the CPU, in Node.js, Deno and Bun: node-helper.mjs beside node.js.
import { parentPort } from 'node:worker_threads';
import { serveCpu } from '../helps.ts';

serveCpu(
  (listener) => parentPort!.on('message', listener),
  (message) => parentPort!.postMessage(message),
);
