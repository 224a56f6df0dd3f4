import { copyFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

mkdirSync('dist', { recursive: true });
await build({ entryPoints: ['src/chat.js'], outdir: 'dist', bundle: true, format: 'esm', minify: true });
copyFileSync('src/index.html', 'dist/index.html');
// esbuild leaves `new URL('./worker.js', import.meta.url)` as it is: these files have to lie beside the bundle. Grammars are fetched by pages alone that
// force answers into a form, the CPU's (which of the two, the browser decides) where there is no GPU.
const modules = ['millrace_bg', 'millrace_grammar_bg', 'millrace_cpu', 'millrace_cpu_relaxed'];
for (const name of ['worker.js', ...modules.map((name) => `${name}.wasm`)])
  copyFileSync(fileURLToPath(import.meta.resolve(`millrace/${name}`)), `dist/${name}`);
