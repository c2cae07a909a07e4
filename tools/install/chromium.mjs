/**
 * A Chromium for the tests that need a browser. The one without windows is best: it takes a third less
 * of the processor, and is installed on a Debian as root. Otherwise any that the machine has, or
 * else Playwright's own.
 */
import { spawnSync } from 'node:child_process';
import { root, runInstalled } from '../workspace.mjs';
import { findProgram, installPackages, isExecutable } from './debian.mjs';

export const HEADLESS = 'chromium-headless-shell';
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
/** A browser that hangs when asked for its version is not used. */
const VERSION_TIMEOUT_MS = 20_000;

const HELP = `No Chromium was found, and none could be installed. Install one, such as Debian's package
"chromium", or say where it is with CHROMIUM_PATH.`;

/**
 * The path of a Chromium that runs; installs one where none exists.
 * @returns undefined when that fails; it has then printed what to do about it.
 */
export async function ensureChromium() {
  const named = process.env.CHROMIUM_PATH;
  if (named) {
    if (isBrowser(named)) return named;
    console.error(`CHROMIUM_PATH is ${named}, which does not run as a browser.`);
    return undefined;
  }
  const ways = [
    () => findBrowser([HEADLESS]),
    () => installBrowser(HEADLESS),
    () => findBrowser(NAMES),
    findDownloaded,
    () => installBrowser('chromium'),
    download,
  ];
  for (const find of ways) {
    const found = await find();
    if (found !== undefined) return found;
  }
  console.error(HELP);
  return undefined;
}

async function findBrowser(names) {
  for (const name of names) {
    const file = await findProgram(name);
    if (file !== undefined && isBrowser(file)) return file;
  }
  return undefined;
}

async function installBrowser(name) {
  await installPackages([name]);
  return findBrowser([name]);
}

async function findDownloaded() {
  const { chromium } = await import('@playwright/test');
  const file = chromium.executablePath();
  return (await isExecutable(file)) && isBrowser(file) ? file : undefined;
}

async function download() {
  console.log('Downloading Chromium, for the tests in a browser (playwright install) …');
  await runInstalled('.bin/playwright', ['install', 'chromium']);
  return findDownloaded();
}

function isBrowser(file) {
  const { status } = spawnSync(file, ['--version'], {
    cwd: root,
    stdio: 'ignore',
    timeout: VERSION_TIMEOUT_MS,
  });
  return status === 0;
}
