// npm run oracle -- OPTIONS: a random small model, run by Hugging Face transformers and by the engine, and compared.
// The work is scripts/oracle's; this installs what the engine needs and names the Vulkan driver that the tests use.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { childEnv, main, root } from './lib/env.mjs';
import { setupTest } from './setup.mjs';

main(async () => {
  const args = process.argv.slice(2);
  const engineless = ['--fixtures', '--help', '-h'].some((name) => args.includes(name));
  const { native = {} } = engineless ? {} : await setupTest();
  const { status } = spawnSync('bash', [join(root, 'scripts', 'oracle', 'run.sh'), ...args], {
    env: childEnv(native),
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
});
