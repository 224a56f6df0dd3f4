// What the registry and people who find the package there are told: package.json, the changelog, and links that lead somewhere.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installed } from '../../scripts/package.mjs';
import { expect, root, test } from './support.ts';

const read = (name: string): string => readFileSync(join(installed, name), 'utf8');

test('package.json says who made it, where it is from, where to complain, and what it needs', () => {
  const manifest = JSON.parse(read('package.json')) as Record<string, unknown>;
  expect(manifest).toMatchObject({
    author: expect.stringMatching(/./),
    license: expect.stringMatching(/MIT/),
    repository: { type: 'git', url: expect.stringMatching(/^git\+https:\/\/github\.com\/.+\.git$/) },
    homepage: expect.stringMatching(/^https:/),
    bugs: expect.stringMatching(/\/issues$/),
    engines: { node: expect.stringMatching(/^>=\d+/) },
    publishConfig: { access: 'public' },
    peerDependencies: { ai: '^7.0.0' },
  });
});

test('the changelog has the version', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  expect(read('CHANGELOG.md')).toContain(`## ${version}`);
});

test('links of the README are whole addresses, of files that there are', () => {
  const { homepage } = JSON.parse(read('package.json')) as { homepage: string };
  const repository = homepage.replace(/#.*/, '');
  const links = [...read('README.md').matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!);
  expect(links.length).toBeGreaterThan(10);
  for (const link of links) {
    if (link.startsWith('#')) continue;
    expect(link).toMatch(/^https?:/);
    const [, path] = new RegExp(`^${repository}/(?:blob|raw)/main/(.+?)(?:#.*)?$`).exec(link) ?? [];
    if (path !== undefined) expect(existsSync(join(root, path)), path).toBe(true);
  }
});
