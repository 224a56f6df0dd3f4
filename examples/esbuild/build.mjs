import { copyFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

mkdirSync('dist', { recursive: true });
await build({ entryPoints: ['src/chat.js'], outdir: 'dist', bundle: true, format: 'esm', minify: true });
copyFileSync('src/index.html', 'dist/index.html');
// esbuild leaves `new URL('./worker.js', import.meta.url)` as it is: these files have to lie beside the bundle. The last one is fetched by pages alone that
// force answers into a form.
for (const name of ['worker.js', 'millrace_bg.wasm', 'millrace_grammar_bg.wasm'])
  copyFileSync(fileURLToPath(import.meta.resolve(`millrace/${name}`)), `dist/${name}`);
