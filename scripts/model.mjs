// npm run model -- MODEL   what a model is, whether it runs here, and what is missing: of a file, a folder, a URL, or OWNER/REPO of Hugging Face's hub
//   --json              as one JSON object
//   --tokenizer FILE    a tokenizer.json in place of a GGUF file's own rules
import { spawnSync } from 'node:child_process';
import { commandLine } from './lib/cargo.mjs';
import { main } from './lib/env.mjs';

main(async () => {
  const { status } = spawnSync(await commandLine(), ['model', ...process.argv.slice(2)], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
