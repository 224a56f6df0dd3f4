// node scripts/icons.mjs: makes www/icons/*.png of www/icon.svg, on a ground of their own. Only needed when the icon changes.
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browserFlags } from './lib/browser.mjs';
import { main, root, say } from './lib/env.mjs';
import { setupBrowser } from './setup.mjs';

/** Edge in pixels, share of it that the sign takes, and radius of the corners in percent. Systems cut their own corners: those icons fill the square. */
const ICONS = [
  { name: 'icon-192', size: 192, sign: 0.72, radius: 22 },
  { name: 'icon-512', size: 512, sign: 0.72, radius: 22 },
  { name: 'maskable-512', size: 512, sign: 0.56, radius: 0 },
  { name: 'apple-touch-icon', size: 180, sign: 0.7, radius: 0 },
];

main(async () => {
  const { chromium } = await import('@playwright/test');
  const browser = await chromium.launch({ executablePath: await setupBrowser(), args: browserFlags() });
  const out = join(root, 'www', 'icons');
  mkdirSync(out, { recursive: true });
  try {
    const svg = `data:image/svg+xml;base64,${readFileSync(join(root, 'www', 'icon.svg')).toString('base64')}`;
    for (const { name, size, sign, radius } of ICONS) {
      // Dark, so that the sign has its light colours.
      const page = await browser.newPage({ viewport: { width: size, height: size }, colorScheme: 'dark' });
      await page.setContent(
        `<body style="margin:0;height:100vh;display:grid;place-items:center;border-radius:${radius}%;background:linear-gradient(#173338,#0d1a1d)"><img src="${svg}" style="width:${100 * sign}%">`,
      );
      await page.locator('img').evaluate((image) => image.decode());
      await page.screenshot({ path: join(out, `${name}.png`), omitBackground: true });
      await page.close();
    }
  } finally {
    await browser.close();
  }
  say(`wrote ${ICONS.length} icons into ${out}`);
});
