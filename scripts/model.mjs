// npm run model -- MODEL   what a model is, whether it runs here, and what is missing: of a file, a folder, a URL, or OWNER/REPO of Hugging Face's hub,
//                     with @REVISION and :Q8_0 behind it where they matter; of another hub at HF_ENDPOINT
//   --json              as one JSON object
//   --tokenizer FILE    a tokenizer.json in place of a GGUF file's own rules
import { spawnSync } from 'node:child_process';
import { commandLine } from './lib/cargo.mjs';
import { addressOf } from './lib/hub.mjs';
import { command } from './lib/page_cli.mjs';

await command(async (args) => {
  const given = [];
  for (const [i, value] of args.entries())
    given.push(value.startsWith('-') || args[i - 1] === '--tokenizer' ? value : await addressOf(value));
  const { status } = spawnSync(await commandLine(), ['model', ...given], { stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
