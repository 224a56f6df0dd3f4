// Models named as on Hugging Face, `OWNER/REPO`, for commands that take addresses: found by the package's own npm/hub.ts.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError } from './headless.mjs';
import { root } from './env.mjs';

/** The package's hub.ts, as Node.js can import it. */
async function hub() {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: [join(root, 'npm', 'hub.ts')],
    bundle: true,
    format: 'esm',
    write: false,
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

/**
 * The address of the model that a repository's name means (`OWNER/REPO`, `OWNER/REPO@REVISION:Q8_0`); of a path that is
 * there, and of anything else, itself. HF_ENDPOINT is another hub with the same interface.
 */
export async function addressOf(model) {
  if (existsSync(model)) return model;
  const { hubName, resolveHub } = await hub();
  if (hubName(model) === null) return model;
  try {
    return await resolveHub('model', model, { hub: process.env.HF_ENDPOINT || undefined }, async () => []);
  } catch (error) {
    throw typeof error?.code === 'string' ? new CodedError(error.code, error.message) : error;
  }
}
