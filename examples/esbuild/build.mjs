import { copyFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

mkdirSync('dist', { recursive: true });
await build({ entryPoints: ['src/chat.js'], outdir: 'dist', bundle: true, format: 'esm', minify: true });
copyFileSync('src/index.html', 'dist/index.html');
// esbuild leaves `new URL('./worker.js', import.meta.url)` as it is: these files have to lie beside the bundle. Grammars are fetched by pages alone that
// force answers into a form, one of the CPU's (by what the browser knows, and whether the page may share memory among threads) where there is no GPU.
const cpu = ['millrace_cpu', 'millrace_cpu_relaxed'];
const modules = ['millrace_bg', 'millrace_grammar_bg', ...cpu, ...cpu.map((name) => `${name}_threads`)];
for (const name of ['worker.js', ...modules.map((name) => `${name}.wasm`)])
  copyFileSync(fileURLToPath(import.meta.resolve(`millrace/${name}`)), `dist/${name}`);
