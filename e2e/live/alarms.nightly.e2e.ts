import { randomUUID } from 'node:crypto';
import {
  copyDatabase,
  replaceClock,
  SHIFTED_CLOCK,
  type ReplacedClock,
} from '@leasehold/testing/stack';
import { checkSchemes } from '../fixtures/axe.ts';
import { actWithReason, holdLease, untilLive } from '../fixtures/grants.ts';
import { startStack, type Stack } from '../fixtures/stack.ts';
import { expect, test as base } from '../fixtures/test.ts';

/** A Leasehold of its own: others must not meet a clock that steps, or a database that is put back. */
const test = base.extend<object, { readonly clock: { current?: ReplacedClock } }>({
  clock: [
    async ({}, use) => {
      const clock: { current?: ReplacedClock } = {};
      await use(clock);
      await clock.current?.close();
    },
    { scope: 'worker' },
  ],
  stack: [
    async ({ clock }, use, info) => {
      const stack = await startStack({
        name: `e2e_alarms_${String(info.parallelIndex)}`,
        async prepare(databaseUrl) {
          clock.current = await replaceClock(databaseUrl, SHIFTED_CLOCK);
        },
      });
      await use(stack);
      await stack.close();
    },
    { scope: 'worker', timeout: 120_000 },
  ],
});

/** Asks for a lease until the controller answers, and tells how. */
async function acquireAnew(stack: Pick<Stack, 'api'>): Promise<string> {
  try {
    await holdLease(stack, { key: randomUUID(), holder: 'newcomer' });
    return 'granted';
  } catch (error) {
    return String(error);
  }
}

test('a step of the database’s clock is an alarm: how far, which way, when, and until when it matters', async ({
  pageAs,
  stack,
  clock,
}) => {
  await holdLease(stack, { key: 'held over the step', holder: 'batch-worker' });
  const page = await pageAs('viewer');
  await page.goto('/');
  await untilLive(page);

  await clock.current?.set(7_200_000);

  const alarm = page.getByRole('alert').filter({ hasText: 'clock stepped' });
  await expect(alarm).toContainText(/The database’s clock stepped forward by (2 h|1 h 59 min)/);
  await expect(alarm).toContainText(/at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC\./);
  await expect(alarm).toContainText(
    /are not granted again until 20.* UTC at worst, even if they have expired\. (9 min|10 min)/,
  );
  await expect(page.getByText('Needs attention')).toBeVisible();
  const found: string[] = [];
  await checkSchemes(page, 'a clock that stepped', found);
  expect(found).toEqual([]);

  await clock.current?.set(0);
  await expect(alarm).toContainText(/The database’s clock stepped back by (2 h|1 h 59 min)/);
});

test('a hold-off of a database that was put back is an alarm, which an operator ends with a reason and by typing', async ({
  pageAs,
  stack,
}) => {
  await holdLease(stack, { key: 'before the copy', holder: 'batch-worker' });
  const [page, viewer] = [await pageAs('operator'), await pageAs('viewer')];
  const copy = await copyDatabase(stack.databaseUrl);
  await expect.poll(() => acquireAnew(stack)).toBe('granted');
  await copy.untilPassed();
  await copy.putBack();

  await page.goto('/');
  const alarm = page.getByRole('alert').filter({ hasText: 'New grants are held off' });
  await expect(alarm).toContainText(
    /held off since 20.* UTC, until 20.* UTC: (9 min \d+ s|10 min) more\. .*a controller had seen a later state\./,
  );
  expect(await acquireAnew(stack)).toContain('restored');
  await viewer.goto('/');
  await expect(viewer.getByRole('button', { name: 'End the hold-off' })).toHaveAttribute(
    'aria-disabled',
    'true',
  );
  const found: string[] = [];
  await checkSchemes(page, 'a hold-off', found);

  await alarm.getByRole('button', { name: 'End the hold-off' }).click();
  const dialog = page.getByRole('dialog', { name: 'End the hold-off' });
  await expect(dialog).toContainText(/may still act on them until 20.* UTC/);
  await checkSchemes(page, 'the end of a hold-off', found);
  expect(found).toEqual([]);
  await dialog.getByLabel(/^Reason/).fill('all services were restarted');
  const act = dialog.getByRole('button', { name: 'End the hold-off' });
  await expect(act).toBeDisabled();
  await actWithReason(page, {
    reason: 'all services were restarted',
    typed: stack.datacenter,
    label: 'End the hold-off',
  });

  await expect(alarm).toHaveCount(0);
  expect(await acquireAnew(stack)).toBe('granted');
  const { items } = await stack.api('operator').audit.list.query({ action: 'holdOff.end' });
  expect(items).toMatchObject([
    { actor: stack.people.operator.email, reason: 'all services were restarted' },
  ]);
});
