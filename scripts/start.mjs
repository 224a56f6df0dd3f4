// npm start: builds what is missing and serves the demo. MILLRACE_BUILD=release npm start: as users get it.
import { build, chosenBuild } from './build.mjs';
import { main, say } from './lib/env.mjs';
import { checkPort, chosenPort, serve } from './serve.mjs';

main(async () => {
  const port = chosenPort();
  await checkPort(port);
  say('building what has changed (the first time takes some minutes)');
  const began = Date.now();
  const pkg = await build(chosenBuild('quick'));
  const { url } = await serve({ port, pkg, isolated: true });
  process.stdout.write(
    `\n  Millrace is ready: ${url} (after ${Math.round((Date.now() - began) / 1000)} s)\n\n  Ctrl-C ends it.\n`,
  );
});
