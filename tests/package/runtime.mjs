// Run by Node.js, Deno and Bun (runtimes.spec.ts): does what its argument, a JSON text, says, and prints what came of it as the last line.
import process from 'node:process';
import { Engine, MillraceError, models } from 'millrace';

const { model, load = {}, prompt, conversation, remove, abortAt, regex } = JSON.parse(process.argv[2]);
const outcome = { supported: (await Engine.supported()).supported, globals: Object.keys(globalThis).sort() };
try {
  // Once so many bytes have come.
  const controller = new AbortController();
  const onProgress = ({ loaded }) => abortAt !== undefined && loaded >= abortAt && controller.abort();
  const engine = await Engine.load({ model, lane: 'exact', ...load, signal: controller.signal, onProgress });
  const options = { maxTokens: 13, temperature: 0, ignoreEos: true };
  outcome.tokens = Array.from((await engine.generate({ tokens: prompt }, options)).tokens);
  if (regex) {
    // By the second module, which lies beside the package too.
    const { text } = await engine.generate([{ role: 'user', content: 'Hello' }], { regex, maxTokens: 30 });
    outcome.forced = text;
  }
  if (conversation) {
    await engine.save(conversation);
    const again = await engine.restore(conversation);
    const read = [...prompt, ...outcome.tokens.slice(0, 4)];
    outcome.cached = (await again.generate({ tokens: read }, { ...options, maxTokens: 1 })).cached_tokens;
  }
  outcome.storage = engine.info.storage;
  outcome.pictures = engine.info.model.pictures;
  outcome.adapter = engine.info.adapter;
  engine.dispose();
} catch (error) {
  outcome.error = { code: error.code, message: error.message, ours: error instanceof MillraceError };
}
try {
  outcome.stored = await models.list();
  if (remove) {
    outcome.bad = (await models.verify(remove)).bad;
    await models.remove(remove);
    outcome.left = (await models.list()).length;
  }
} catch (error) {
  outcome.storeError = `${error.code}: ${error.message}`;
}
// What the package has brought for itself must not be seen by anybody else.
outcome.added = Object.keys(globalThis).filter((name) => !outcome.globals.includes(name));
delete outcome.globals;
console.log(`\n${JSON.stringify(outcome)}`);
