import type { Page } from '@playwright/test';
import { holdLease, untilLive } from '../fixtures/grants.ts';
import { openPage } from '../fixtures/open-page.ts';
import { expect, test } from '../fixtures/test.ts';
import { PAGES } from '../pages.ts';

/** The narrowest phone, and a window of 1,280 px at 200 %. */
const WINDOWS = [
  { width: 320, height: 640 },
  { width: 640, height: 450 },
];

/** As long as names may be, without a place to break, in two directions, with characters of two units. */
const LONG_NAME = `${'x'.repeat(90)}${'🔑'.repeat(12)}${'ש'.repeat(50)}`;

test.describe('in a narrow window', () => {
  for (const viewport of WINDOWS) {
    test(`nothing is hidden on any page, ${String(viewport.width)} px`, async ({
      pageAs,
      seeded,
      stack,
    }) => {
      test.setTimeout(300_000);
      const long = await holdLease(stack, {
        key: `${LONG_NAME}${String(viewport.width)}`,
        holder: `h${LONG_NAME}`,
        comment: LONG_NAME,
      });
      const page = await pageAs('admin', { viewport });
      const found: string[] = [];
      for (const shown of PAGES) {
        await openPage(page, shown, seeded);
        found.push(...(await hiddenOn(page)).map((what) => `${shown.name}: ${what}`));
      }
      for (const path of ['/leases?q=namespace:e2e.jobs', long.path]) {
        await page.goto(path);
        await untilLive(page);
        found.push(...(await hiddenOn(page)).map((what) => `${path}: ${what}`));
      }

      expect(found).toEqual([]);
    });
  }
});

/**
 * What a person cannot reach in this window: a page that is wider than it, and what can be pressed but is beyond its
 * edge, or cut off by what it is in. What scrolls sideways by itself, as tables do, shows all of it.
 */
async function hiddenOn(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const wide = document.documentElement.scrollWidth;
    const isShown = (element: HTMLElement): boolean => {
      const { width: across, height } = element.getBoundingClientRect();
      const isPainted = element.checkVisibility({
        opacityProperty: true,
        visibilityProperty: true,
      });
      return across > 1 && height > 1 && isPainted && !element.className.includes('skip-link');
    };
    /** Between which places what is in an element can be seen; undefined where a person can scroll to it. */
    const seenWithin = (element: HTMLElement): { left: number; right: number } | undefined => {
      let left = 0;
      let right = width;
      let around = element.parentElement;
      for (; around !== null; around = around.parentElement) {
        const { overflowX } = getComputedStyle(around);
        if (overflowX === 'visible') continue;
        const isScroller = overflowX === 'auto' || overflowX === 'scroll';
        if (isScroller && around.scrollWidth > around.clientWidth) return undefined;
        const edge = around.getBoundingClientRect();
        left = Math.max(left, edge.left);
        right = Math.min(right, edge.right);
      }
      return { left, right };
    };
    const problemOf = (element: HTMLElement): string | undefined => {
      const seen = seenWithin(element);
      if (seen === undefined) return undefined;
      const box = element.getBoundingClientRect();
      // A long link may end in dots; its beginning is there.
      const end = element.tagName === 'A' ? box.left + 24 : box.right;
      if (box.left >= seen.left - 1 && end <= seen.right + 1) return undefined;
      const name = element.getAttribute('aria-label') ?? element.textContent;
      return `${element.tagName.toLowerCase()} "${name.slice(0, 40)}" from ${String(Math.round(box.left))} to ${String(Math.round(box.right))}`;
    };
    const elements = document.querySelectorAll<HTMLElement>(
      'button, a[href], input, textarea, [role="tab"], h1',
    );
    return [
      ...(wide > width ? [`the page is ${String(wide)} px wide`] : []),
      ...[...elements].filter(isShown).flatMap((element) => problemOf(element) ?? []),
    ];
  });
}
