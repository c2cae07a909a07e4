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
});
