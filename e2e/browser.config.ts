import { existsSync } from 'node:fs';
import path from 'node:path';
import type { PlaywrightTestConfig } from '@playwright/test';

/** The folder of the repository. */
export const ROOT = path.join(import.meta.dirname, '..');

/** Where distributions put Chromium, as in `tools/install/chromium.mjs`; CHROMIUM_PATH comes first. */
const PLACES = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** A Chromium of this machine; undefined means the one that Playwright has downloaded. */
const executablePath = [process.env['CHROMIUM_PATH'] ?? '', ...PLACES].find(
  (place) => place !== '' && existsSync(place),
);

/** How the browser is started and what it pretends to be, for tests and for pictures. */
export const browser: NonNullable<PlaywrightTestConfig['use']> = {
  browserName: 'chromium',
  viewport: { width: 1440, height: 900 },
  locale: 'en-GB',
  timezoneId: 'UTC',
  // What moves is drawn again for each frame, by the processor. A file that wants motion asks for it.
  contextOptions: { reducedMotion: 'reduce' },
  launchOptions: {
    ...(executablePath === undefined ? {} : { executablePath }),
    args: [
      '--disable-background-networking',
      // A graphics card that the processor emulates takes half of what the pages need.
      '--disable-gpu',
      // Chromium's sandbox does not work for root.
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
    ],
  },
};
