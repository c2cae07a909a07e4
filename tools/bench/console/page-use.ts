import type { Browser, Page } from '@playwright/test';
import { usedUs } from '../rig/processor-time.ts';
import type { ConsoleStack } from './console-stack.ts';

/** A page that is measured while it is open. */
export interface MeasuredPage {
  readonly name: string;
  readonly path: string;
}

/** What an open page uses, and what it makes the servers use. */
export interface PageUse {
  /** Percent of a core: the renderer, and the browser around it. */
  readonly rendererPercent: number;
  readonly browserPercent: number;
  readonly consolePercent: number;
  readonly controllerPercent: number;
  readonly bytesPerSecond: number;
  /** The longest task of the page's thread; 0 for none of 50 ms or more. */
  readonly longestTaskMs: number;
}

const LIVE_MS_MAX = 30_000;

/** Opens the page, lets it settle, and measures it for a while. */
export async function measurePageUse(
  { browser, page, stack }: { browser: Browser; page: Page; stack: ConsoleStack },
  { path }: MeasuredPage,
  { settleMs, measureMs }: { readonly settleMs: number; readonly measureMs: number },
): Promise<PageUse> {
  await page.goto(`${stack.url}${path}`);
  await untilLive(page);
  await page.waitForTimeout(settleMs);
  const session = await browser.newBrowserCDPSession();
  await page.evaluate(() => {
    const seen = globalThis as unknown as { longestTaskMs: number };
    seen.longestTaskMs = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) {
        seen.longestTaskMs = Math.max(seen.longestTaskMs, duration);
      }
      // Node's types, which these files are checked with, do not know what only browsers observe.
    }).observe({ type: 'longtask' as 'measure' });
  });
  const read = async () => {
    const { processInfo } = await session.send('SystemInfo.getProcessInfo');
    const sumS = (isCounted: (type: string) => boolean): number =>
      processInfo.reduce((sum, { type, cpuTime }) => sum + (isCounted(type) ? cpuTime : 0), 0);
    return {
      atMs: performance.now(),
      rendererMs: sumS((type) => type === 'renderer') * 1_000,
      browserMs: sumS((type) => type !== 'renderer') * 1_000,
      consoleMs: usedUs(stack.consolePid) / 1_000,
      controllerMs: usedUs(stack.controllerPid) / 1_000,
      bytes: stack.proxy.receivedBytes(),
    };
  };
  const before = await read();
  await page.waitForTimeout(measureMs);
  const after = await read();
  const longestTaskMs = await page.evaluate(
    () => (globalThis as unknown as { longestTaskMs: number }).longestTaskMs,
  );
  await session.detach();
  const percent = (field: 'rendererMs' | 'browserMs' | 'consoleMs' | 'controllerMs'): number =>
    ((after[field] - before[field]) / (after.atMs - before.atMs)) * 100;
  return {
    rendererPercent: percent('rendererMs'),
    browserPercent: percent('browserMs'),
    consolePercent: percent('consoleMs'),
    controllerPercent: percent('controllerMs'),
    bytesPerSecond: ((after.bytes - before.bytes) / (after.atMs - before.atMs)) * 1_000,
    longestTaskMs,
  };
}

/** Waits until the page has its data and follows what happens. */
export async function untilLive(page: Page): Promise<void> {
  const live = page.getByRole('status').filter({ hasText: /^Live/u });
  await live.waitFor({ timeout: LIVE_MS_MAX });
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
}

/** Signs in as a person does. */
export async function signIn(page: Page, { url, person }: ConsoleStack): Promise<void> {
  await page.goto(`${url}/sign-in`);
  await page.getByLabel('E-mail').fill(person.email);
  await page.getByLabel(/^Password/u).fill(person.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}
