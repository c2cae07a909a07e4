import { readFile } from 'node:fs/promises';
import type { Locator, Page } from '@playwright/test';
import {
  actWithReason,
  connectRoom,
  isAnswering,
  openRoom,
  tableOf,
  untilLive,
  type Room,
} from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

/** The banner that follows a revoke. */
function banner(page: Page): Locator {
  return page.getByRole('region', { name: 'Revocations that you made' });
}

async function openPage(page: Page, room: Room): Promise<void> {
  await page.goto(room.path);
  await page.getByRole('heading', { level: 1, name: room.name }).waitFor();
  await untilLive(page);
}

/** The file that the menu of exports makes the browser load. */
async function exported(page: Page, format: 'CSV' | 'JSON'): Promise<string> {
  await page.getByRole('button', { name: 'Export', exact: true }).click();
  const loading = page.waitForEvent('download');
  await page.getByRole('menuitem', { name: format }).click();
  return readFile(await (await loading).path(), 'utf8');
}

// Dialogs and the ladder also work while they move, as most people see them.
test.use({ contextOptions: { reducedMotion: 'no-preference' } });

test.describe('keys', () => {
  test('a key is found by search, and its page shows the ladder moving', async ({
    pageAs,
    seeded,
  }) => {
    const { name } = seeded.keys.busy;
    const page = await pageAs('viewer');
    await page.goto('/keys');
    await untilLive(page);
    await page.getByLabel('Search keys').fill(name);
    await expect(page).toHaveURL(new RegExp(`q=${name}`));
    await tableOf(page, 'keys').table.getByRole('link', { name }).click();
    await page.getByRole('heading', { level: 1, name }).waitFor();

    const ladder = page.getByRole('table', { name: /^Deadlines/ });
    await expect(ladder.getByRole('row')).not.toHaveCount(0);
    const before = await ladder.innerText();
    await expect.poll(() => ladder.innerText()).not.toBe(before);
  });

  test('a blocked renewal: the grant is watched to its end, and its backend stops', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'blocked');
    const page = await pageAs('operator');
    await openPage(page, room);

    await page.getByRole('button', { name: 'Block renewal', exact: true }).click();
    await actWithReason(page, { reason: 'Runs an old image', label: 'Block renewal' });

    const deadlines = page.getByRole('region', { name: 'Deadlines' });
    await expect(deadlines).toContainText('Free: nobody holds this key.');
    await expect.poll(() => isAnswering(room)).toBe(false);
  });

  test('a graceful revoke is followed until its backend is gone', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'graceful');
    const page = await pageAs('operator');
    await openPage(page, room);

    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Revoke ${room.namespace}/${room.name}` });
    await expect(dialog.getByRole('button', { name: 'Revoke', exact: true })).toBeDisabled();
    await expect(dialog).toContainText('drone-fra-1');
    await actWithReason(page, { reason: 'Moves to another machine', label: /^Revoke$/ });

    await expect(banner(page)).toContainText('Stopped: its backend is gone.');
    expect(await isAnswering(room)).toBe(false);
  });

  test('a forced revoke asks for the name, and the next grant has a larger token', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'forced');
    const page = await pageAs('operator');
    await openPage(page, room);

    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Force: end it now').click();
    await dialog.getByLabel(/^Reason/).fill('Does not answer');
    const act = dialog.getByRole('button', { name: 'Revoke by force' });
    await expect(act).toBeDisabled();
    const typed = dialog.getByLabel(/^To confirm, type/);
    await typed.fill(room.name);
    await expect(act).toBeDisabled();
    await expect(typed).toHaveAccessibleDescription(/The namespace is missing/);
    await typed.fill(`${room.namespace}/${room.name}`);
    await act.click();
    await expect(banner(page)).toContainText('Stopped: its backend is gone.');

    const next = await connectRoom(stack, room.name);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(room.fencingToken));
    await expect(page.getByText(next.fencingToken).first()).toBeVisible();
  });

  test('an abandoned key is free while its drone does not answer, after a warning', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'abandoned');
    const page = await pageAs('operator');
    await openPage(page, room);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Force: end it now').click();
    await dialog.getByLabel(/^Abandon the backend/).check();
    await expect(dialog).toContainText('Two backends may run for this key at once.');
    await dialog.getByLabel(/^Reason/).fill('The machine is gone');
    await dialog.getByLabel(/^To confirm, type/).fill(`${room.namespace}/${room.name}`);

    // From here on nobody reports the end of the backend, which its warden brings at its deadline.
    stack.drone().agent.signal('SIGSTOP');
    try {
      await dialog.getByRole('button', { name: 'Revoke by force' }).click();
      await expect(dialog).toBeHidden();
      const { name, namespace } = room;
      const key = await stack.api('viewer').keys.get.query({ name, namespace });
      expect(key).toMatchObject({ phase: 'free' });
    } finally {
      stack.drone().agent.signal('SIGCONT');
    }
    await expect.poll(() => isAnswering(room)).toBe(false);
  });

  test('a search is exported, and nothing beside it', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'exported');
    await openRoom(stack, 'left-out');
    const page = await pageAs('viewer');
    await page.goto(`/keys?q=namespace:e2e.rooms ${room.name}`);
    await untilLive(page);

    const csv = await exported(page, 'CSV');
    const json = JSON.parse(await exported(page, 'JSON')) as { name: string }[];

    expect(csv.trim().split(/\r?\n/)).toHaveLength(2);
    expect(csv).toContain(`,${room.fencingToken}`);
    expect(json).toMatchObject([{ name: room.name, fencingToken: room.fencingToken }]);
  });

  test('an action is in the audit, with its reason', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'audited');
    const page = await pageAs('operator');
    await openPage(page, room);
    const reason = `Customer waits, ${room.name}`;
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await actWithReason(page, { reason, label: /^Revoke$/ });
    await expect(page.getByRole('dialog')).toBeHidden();

    await page.goto('/audit');
    const entry = page.getByRole('row').filter({ hasText: reason });
    await expect(entry).toContainText('Revoked');
    await expect(entry).toContainText(stack.people.operator.email);
    await expect(entry).toContainText(room.name);
  });

  test('a viewer sees the buttons disabled with the reason, and the API refuses too', async ({
    pageAs,
    stack,
  }) => {
    const room = await openRoom(stack, 'only-viewed');
    const page = await pageAs('viewer');
    await openPage(page, room);

    for (const name of ['Block renewal', 'Revoke']) {
      const button = page.getByRole('button', { name, exact: true });
      await expect(button).toBeDisabled();
      await expect(button).toHaveAccessibleDescription(/operator/);
    }
    await page.getByRole('button', { name: 'Revoke', exact: true }).hover();
    await expect(page.getByRole('tooltip')).toContainText(/operator/);

    const answer = await page.evaluate(async (leaseId) => {
      const session = await fetch('/trpc/session.get');
      const { result } = (await session.json()) as { result: { data: { csrfToken: string } } };
      const refused = await fetch('/trpc/keys.revoke', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-leasehold-csrf': result.data.csrfToken,
        },
        body: JSON.stringify({ leaseId, mode: 'graceful', reason: 'not mine to do' }),
      });
      return { status: refused.status, body: await refused.text() };
    }, room.leaseId);
    expect(answer.status).toBe(403);
    expect(answer.body).toContain('auth.forbidden');
    expect(await isAnswering(room)).toBe(true);
  });
});
