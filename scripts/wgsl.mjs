// npm run wgsl -- KERNEL VARIANT   prints the text of a variant as the templates in shaders/ give it now, e.g. `matvec q4_0-q8-sg32`
//   --lines      with the template's file and line behind each line
//   --emulated   with emulated subgroups, as tests run it where subgroups are too small
// Without a variant, or with one that does not exist, it lists what there is.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { alone } from './lib/cargo.mjs';
import { main, root, run, targetDir } from './lib/env.mjs';

main(async () => {
  const target = join(targetDir, 'wgsl');
  const manifest = join(root, 'scripts', 'wgsl', 'Cargo.toml');
  const name = process.platform === 'win32' ? 'millrace-wgsl.exe' : 'millrace-wgsl';
  const program = join(root, '.cache', 'wgsl', name);
  mkdirSync(dirname(program), { recursive: true });
  await alone(async () => {
    await run('cargo', ['build', '--quiet', '--locked', '--manifest-path', manifest], {
      env: { CARGO_TARGET_DIR: target },
    });
    rmSync(program, { force: true });
    copyFileSync(join(target, 'debug', name), program);
  }, 'wgsl');
  const { status } = spawnSync(program, process.argv.slice(2), { stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
