// npm run wgsl -- KERNEL VARIANT   prints the text of a variant as the templates in shaders/ give it now, e.g. `matvec q4_0-q8-sg32`
//   --lines      with the template's file and line behind each line
//   --emulated   with emulated subgroups, as tests run it where subgroups are too small
// Without a variant, or with one that does not exist, it lists what there is.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { main, root, run, targetDir } from './lib/env.mjs';

main(async () => {
  const target = join(targetDir, 'wgsl');
  const manifest = join(root, 'scripts', 'wgsl', 'Cargo.toml');
  await run('cargo', ['build', '--quiet', '--locked', '--manifest-path', manifest], {
    env: { CARGO_TARGET_DIR: target },
  });
  const { status } = spawnSync(join(target, 'debug', 'millrace-wgsl'), process.argv.slice(2), { stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
