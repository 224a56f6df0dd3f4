// npm start: builds what is missing and serves the demo. MILLRACE_BUILD=release npm start: as users get it.
import { build, chosenBuild } from './build.mjs';
import { Failure, main, say } from './lib/env.mjs';
import { checkPort, serve } from './serve.mjs';

main(async () => {
  const port = Number(process.env.PORT || 8080);
  if (!Number.isInteger(port) || port < 1 || port > 65535)
    throw new Failure(`PORT is "${process.env.PORT}"; it must be a number from 1 to 65535`);
  await checkPort(port);
  say('building what has changed (the first time takes some minutes)');
  const began = Date.now();
  const pkg = await build(chosenBuild('quick'));
  const { url } = await serve({ port, pkg });
  process.stdout.write(
    `\n  Millrace is ready: ${url} (after ${Math.round((Date.now() - began) / 1000)} s)\n\n  Ctrl-C ends it.\n`,
  );
});
