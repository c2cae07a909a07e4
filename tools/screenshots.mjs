/**
 * Pictures of the console, from a Leasehold that it starts and fills with a working day's data.
 *
 *   npm run screenshots                       the README's, into docs/pictures
 *   npm run screenshots -- keys drone         only these pages
 *   npm run screenshots -- --all FOLDER       every page, in both colour schemes, at three widths,
 *                                             full and empty: to look at
 */
import path from 'node:path';
import { ensureChromium } from './install/chromium.mjs';
import { generate, install, runInstalled, runNx } from './workspace.mjs';

const args = process.argv.slice(2);
const at = args.indexOf('--all');
const [, folder] = at === -1 ? [] : args.splice(at, 2);
if (at !== -1 && folder === undefined) {
  console.error('npm run screenshots: --all needs a folder');
  process.exit(2);
}

const steps = [
  () => install('install'),
  generate,
  () => runNx(['run-many', '-t', 'build', '--outputStyle=static']),
  async () => {
    const chromium = await ensureChromium();
    if (chromium === undefined) return 1;
    return runInstalled('.bin/playwright', ['test', '-c', 'e2e/screenshots.config.ts'], {
      env: {
        CHROMIUM_PATH: chromium,
        ...(folder === undefined ? {} : { LEASEHOLD_SCREENSHOTS_ALL: path.resolve(folder) }),
        ...(args.length === 0 ? {} : { LEASEHOLD_SCREENSHOTS_ONLY: args.join(',') }),
      },
    });
  },
];
for (const step of steps) {
  const code = await step();
  if (code !== 0) process.exit(code);
}
