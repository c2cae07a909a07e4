import { randomUUID } from 'node:crypto';
import { DRONE_ID } from '../fixtures/stack.ts';
import { actWithReason, openRoom, tableOf, untilLive } from '../fixtures/grants.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('drones and backends', () => {
  test('a drone is drained with a reason, gets nothing new, and is undrained', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('operator');
    await page.goto(`/drones/detail?id=${DRONE_ID}`);
    await untilLive(page);
    const bar = await page.locator('[data-load]').boundingBox();
    expect(bar?.width).toBeGreaterThan(30);
    await page.getByRole('button', { name: 'Drain', exact: true }).click();
    await actWithReason(page, { reason: 'Kernel update', label: 'Drain' });
    await expect(page.getByText('Draining', { exact: true }).first()).toBeVisible();

    const refused = await openRoom(stack, 'nowhere').catch((error: unknown) => String(error));
    expect(refused).toMatch(/drone/i);

    await page.getByRole('button', { name: 'Undrain', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undrain' }).click();
    // Backends of the drone are "Ready" too: what ends is "Draining".
    await expect(page.getByText('Draining', { exact: true })).toHaveCount(0);
    await openRoom(stack, 'somewhere');
  });

  test('a drone is marked as lost once its id was typed, and gets nothing from then on', async ({
    pageAs,
    stack,
  }) => {
    const droneId = `drone-gone-${randomUUID().slice(0, 6)}`;
    await stack.sql.query(
      `insert into leasehold.drone
       select r.* from leasehold.drone d, jsonb_populate_record(d, jsonb_build_object('id', $1::text)) r
       where d.id = $2`,
      [droneId, DRONE_ID],
    );
    const page = await pageAs('operator');
    await page.goto(`/drones/detail?id=${droneId}`);
    await untilLive(page);
    await page.getByRole('button', { name: 'Mark lost', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Mark lost: ${droneId}` });
    await dialog.getByLabel(/^Reason/).fill('Burnt down');
    const act = dialog.getByRole('button', { name: 'Mark lost' });
    await expect(act).toBeDisabled();
    await dialog.getByLabel(/^To confirm, type/).fill(droneId);
    await act.click();

    await expect(page.getByText('Lost', { exact: true }).first()).toBeVisible();
    const drone = await stack.api('viewer').drones.get.query({ droneId });
    expect(drone.status).toBe('lost');
    const { items } = await stack
      .api('operator')
      .audit.list.query({ resource: `drone:${droneId}` });
    expect(items).toMatchObject([{ action: 'drones.markLost', reason: 'Burnt down' }]);
  });

  test('a backend shows the states that it has been in', async ({ pageAs, stack }) => {
    const room = await openRoom(stack, 'backend');
    const page = await pageAs('viewer');
    await page.goto(`/backends?drone=${DRONE_ID}`);
    await untilLive(page);
    await expect(tableOf(page, 'backends').row(room.backendId).first()).toBeVisible();

    await page.goto(`/backends/detail?id=${room.backendId}`);
    await page.getByRole('heading', { level: 1, name: room.backendId }).waitFor();
    for (const state of ['Scheduled', 'Ready']) {
      await expect(page.getByText(state, { exact: true }).first()).toBeVisible();
    }
  });

  test('a program crashes at start: from the overview, or from its key, to the reason and its last lines', async ({
    pageAs,
    stack,
  }) => {
    const key = { namespace: 'e2e.crashes', name: `job-${randomUUID().slice(0, 6)}` };
    const refused = stack
      .api('client')
      .keys.connect.mutate({ key, spawn: { program: 'crasher' }, waitFor: 'ready' });
    await expect(refused).rejects.toThrow(/crashed with exit code 17/);
    const page = await pageAs('viewer');
    // From the overview it is one click to why, and to what the program wrote last.
    await page.goto('/');
    const failing = tableOf(page, 'Keys whose last backend failed');
    await failing.row(key.name).getByRole('link', { name: 'Crashed (17)' }).click();
    await expect(page.getByRole('region', { name: 'Why it ended' })).toContainText(
      /It crashed with exit code 17.*fatal: no such setting: COLOUR/su,
    );

    await page.goto(`/keys/detail?${new URLSearchParams(key).toString()}`);
    const last = page.getByRole('region', { name: 'Last backend' });
    await expect(last).toContainText('Crashed (17)');
    await expect(last).toContainText(/It crashed with exit code 17.*before it was ready/);

    await last.getByRole('link', { name: 'Its last lines' }).click();
    const why = page.getByRole('region', { name: 'Why it ended' });
    await expect(why).toContainText('fatal: no such setting: COLOUR');
    const log = page.getByRole('log');
    await expect(log.getByText('stderr fatal: no such setting: COLOUR')).toBeVisible();
    await expect(page.getByRole('region', { name: 'Log', exact: true })).toContainText(
      '2 lines, ended',
    );

    await page.goto('/backends');
    await untilLive(page);
    await expect(tableOf(page, 'backends').row(key.name).first()).toContainText('Crashed (17)');
  });

  test('a key whose program crashed is red in every list, with the code, and never looks calm', async ({
    pageAs,
    stack,
  }) => {
    const key = { namespace: 'e2e.crashes', name: `job-${randomUUID().slice(0, 6)}` };
    const refused = stack
      .api('client')
      .keys.connect.mutate({ key, spawn: { program: 'crasher' }, waitFor: 'ready' });
    await expect(refused).rejects.toThrow(/crashed with exit code 17/);
    const page = await pageAs('viewer');
    const lists = [
      ['/keys?q=namespace:e2e.crashes', 'keys'],
      [`/drones/detail?id=${DRONE_ID}&tab=keys`, 'keys of this drone'],
      [`/drones/detail?id=${DRONE_ID}&show=all`, 'backends of this drone'],
    ] as const;
    for (const [path, label] of lists) {
      await page.goto(path);
      const states = tableOf(page, label).row(key.name).getByText('Crashed (17)');
      const state = states.filter({ visible: true });
      await expect(state, label).toBeVisible();
      await expect(state, label).toHaveAttribute('data-tone', 'bad');
    }
    const detail = `/keys/detail?${new URLSearchParams(key).toString()}`;
    await page.goto(detail);
    await expect(
      page.getByText(/Free: its backend failed, it crashed with exit code 17/),
    ).toBeVisible();
    for (const tab of ['grants', 'events']) {
      await page.goto(`${detail}&tab=${tab}`);
      const why = page.getByText(/it crashed with exit code 17, \d\.\d s after its start/);
      await expect(why.first(), tab).toBeVisible();
    }
  });

  test('a log is followed, searched and paused; what cannot be seen in it is shown', async ({
    pageAs,
    stack,
  }) => {
    const key = { namespace: 'e2e.logs', name: `talk-${randomUUID().slice(0, 6)}` };
    await stack
      .api('client')
      .keys.connect.mutate({ key, spawn: { program: 'talker' }, waitFor: 'ready' });
    const page = await pageAs('viewer');
    await page.goto(`/keys/detail?${new URLSearchParams({ ...key, tab: 'log' }).toString()}`);
    const log = page.getByRole('log');
    await expect(log).toContainText('begins as \\u{202e}txt.exe');
    await expect(log).toContainText('stderr warning: no cache');
    const lines = log.locator('[data-line]');
    const before = await lines.count();
    await expect.poll(() => lines.count()).toBeGreaterThan(before);

    const panel = page.getByRole('region', { name: 'Log', exact: true });
    await panel.getByRole('button', { name: 'Pause the log' }).click();
    await expect(panel).toContainText('paused');
    await panel.getByLabel('Search this log').fill('WARNING');
    await expect(panel.getByRole('status')).toHaveText('1 line');
    await expect(log.locator('mark')).toHaveText('warning');
    const paused = await lines.count();
    await panel.getByRole('button', { name: 'Resume the log' }).click();
    await expect.poll(() => lines.count()).toBeGreaterThan(paused);
    await panel.getByLabel('Times').uncheck();
    await expect(log.locator('time')).toHaveCount(0);
  });
});
