import { randomUUID } from 'node:crypto';
import type { Locator, Page } from '@playwright/test';
import { tableOf, untilLive } from '../fixtures/grants.ts';
import { DRONE_ID, type Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

const HOUR_MS = 3_600_000;

/** What happened so long ago, in one ten seconds. */
async function addStep({ sql }: Pick<Stack, 'sql'>, agoMs: number): Promise<void> {
  await sql.query(
    `insert into leasehold.stats_bucket as t (bucket_at, face, grants, waits, handovers)
    select date_bin('10 seconds', clock_timestamp() - $1 * interval '1 millisecond', timestamptz 'epoch'),
      'lease', 40, array_fill(0::bigint, array[12]) || 3::bigint, array_fill(0::bigint, array[12]) || 3::bigint
    on conflict (bucket_at, face) do update set grants = t.grants + excluded.grants,
      waits = excluded.waits, handovers = excluded.handovers`,
    [agoMs],
  );
}

function panelOf(page: Page, title: string): Locator {
  return page.getByRole('region', { name: title, exact: true });
}

/** How many pixels of the left half of a chart have the colour of this variable of the theme. */
function inkOf(panel: Locator, variable: string): Promise<number> {
  return panel.locator('canvas').evaluate((canvas: HTMLCanvasElement, name) => {
    const probe = document.createElement('span');
    probe.style.color = getComputedStyle(canvas).getPropertyValue(name);
    document.body.append(probe);
    const [red, green, blue] = (getComputedStyle(probe).color.match(/\d+/gu) ?? []).map(Number);
    probe.remove();
    const { data } = canvas
      .getContext('2d')
      ?.getImageData(0, 0, canvas.width / 2, canvas.height) ?? { data: [] };
    let inked = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) inked += 1;
    }
    return inked;
  }, variable);
}

test('a step without neighbours is drawn as a point, in the colours of the theme', async ({
  pageAs,
  stack,
}) => {
  await addStep(stack, 18 * HOUR_MS);
  const page = await pageAs('viewer');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto('/?window=1440');
  await untilLive(page);
  const waited = panelOf(page, 'Time waited');

  // Of the two points, which may be in one place, the one that is drawn last.
  await expect.poll(() => inkOf(waited, '--tone-warn')).toBeGreaterThan(8);

  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(() => inkOf(waited, '--tone-warn')).toBeGreaterThan(8);
});

test('all charts have one cursor, which the pointer and the arrow keys move; the numbers are beside the lines', async ({
  pageAs,
  stack,
}) => {
  for (const minutes of [50, 40, 30, 20]) await addStep(stack, minutes * 60_000);
  const page = await pageAs('viewer');
  await page.goto('/');
  await untilLive(page);
  const grants = panelOf(page, 'Grants and denials');
  const waited = panelOf(page, 'Time waited');
  const slider = grants.getByRole('slider');
  const atStep = /\d\d:\d\d:\d\d UTC, 30 s/;

  const box = await grants.locator('.u-over').boundingBox();
  if (box === null) throw new Error('the chart is not drawn');
  const height = (): Promise<number> => page.evaluate(() => document.body.scrollHeight);
  const heightBefore = await height();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
  await expect(grants).toContainText(atStep);
  // Both in one turn of the page: the lines move on under the pointer.
  await expect
    .poll(async () => {
      const [one, other] = await grants
        .or(waited)
        .evaluateAll((both) => both.map(({ textContent }) => textContent));
      const time = atStep.exec(one ?? '')?.[0];
      return time !== undefined && other?.includes(time) === true;
    })
    .toBe(true);
  await expect(waited.locator('.u-cursor-x')).toBeVisible();
  expect(await height()).toBe(heightBefore);

  await page.mouse.move(0, 0);
  await expect(waited).not.toContainText(atStep);

  await slider.focus();
  await page.keyboard.press('Home');
  const first = await slider.getAttribute('aria-valuetext');
  expect(first).toMatch(/^\d\d:\d\d:\d\d: Grants \d+, Denials \d+$/);
  await page.keyboard.press('ArrowRight');
  await expect(slider).not.toHaveAttribute('aria-valuetext', first ?? '');
  await expect(waited).toContainText(atStep);
  await page.keyboard.press('Escape');
  await expect(waited).not.toContainText(atStep);
});

test('beside each number of the time shown is that of the time before, which is as long', async ({
  pageAs,
  stack,
}) => {
  for (const minutes of [20, 80, 90]) await addStep(stack, minutes * 60_000);
  const page = await pageAs('viewer');
  await page.goto('/?window=60');
  await untilLive(page);

  const numbers = panelOf(page, 'Grants and denials').getByRole('list', { name: /numbers$/u });
  await expect(numbers).toContainText(/Grants [\d,]+\s*before [1-9][\d,]*/u);
});

test('what people did is marked above the lines, with a link to the entry of the audit; a viewer sees none', async ({
  pageAs,
  stack,
}) => {
  // At a time that no act of another test has, nor one of the seeded day.
  await addStep(stack, 2 * 3_600_000);
  const reason = `marked ${randomUUID()}`;
  await stack.api('operator').drones.undrain.mutate({ droneId: DRONE_ID, reason });
  await stack.sql.query(
    `update leasehold.audit set at = at - interval '2 hours' where reason = $1`,
    [reason],
  );
  const page = await pageAs('operator');
  await page.goto('/?window=360');
  await untilLive(page);

  const mark = panelOf(page, 'Grants and denials')
    .getByRole('list', { name: 'Operator actions' })
    .getByRole('link', { name: `ended the drain of ${DRONE_ID}` });
  await mark.focus();
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('tooltip')).toContainText(reason);
  await mark.click();
  await expect(page).toHaveURL(/\/audit\?/);
  const { table, row } = tableOf(page, 'audit');
  await expect(row(reason)).toContainText('Undrained drone');
  // Under the heads there is only this one.
  await expect(table.getByRole('row')).toHaveCount(2);

  const viewer = await pageAs('viewer');
  await viewer.goto('/');
  await untilLive(viewer);
  await expect(panelOf(viewer, 'Grants and denials')).toBeVisible();
  await expect(viewer.getByRole('list', { name: 'Operator actions' })).toHaveCount(0);
});
