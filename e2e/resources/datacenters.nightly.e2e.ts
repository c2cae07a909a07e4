import { expect, type Page } from '@playwright/test';
import { checkSchemes } from '../fixtures/axe.ts';
import { HOME, test, type World } from '../fixtures/datacenters.ts';
import { actWithReason, tableOf, untilLive } from '../fixtures/grants.ts';

const NAMESPACE = 'e2e.rooms';

/** Asks a datacenter for a key as a service there does, and waits until its backend answers. */
async function connect({ datacenters }: World, datacenter: string, name: string) {
  return datacenters
    .dc(datacenter)
    .api('client')
    .keys.connect.mutate({
      key: { namespace: NAMESPACE, name },
      spawn: { program: 'room' },
      waitFor: 'ready',
      waitMs: 30_000,
    });
}

async function openReservation(page: Page, name: string): Promise<void> {
  const params = new URLSearchParams({ key: JSON.stringify([NAMESPACE, name]) });
  await page.goto(`/reservations/detail?${params.toString()}`);
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await untilLive(page);
}

const chainOf = (page: Page) =>
  page.getByRole('list', { name: 'Reservations of this key, oldest first' });

test.describe('several datacenters', () => {
  test('lists show the keys of all of them, and an action on a key is carried out where it lives', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, HOME, 'near');
    await connect(world, 'dc2', 'far');
    await page.goto('/keys');
    await untilLive(page);
    const { row } = tableOf(page, 'keys');
    await expect(row('near')).toContainText(HOME);
    await expect(row('far')).toContainText('dc2');

    await row('far').getByRole('link', { name: 'far' }).click();
    await expect(page).toHaveURL(/datacenter=dc2/);
    await page.getByRole('button', { name: 'Revoke', exact: true }).click();
    await actWithReason(page, { reason: 'Acted on from afar', label: /^Revoke$/ });
    await expect(page.getByRole('region', { name: 'Revocations that you made' })).toContainText(
      'Stopped: its backend is gone.',
    );

    await page.goto('/keys');
    await page.getByRole('button', { name: 'Datacenter', exact: true }).click();
    await page.getByRole('menuitemradio', { name: 'dc2', exact: true }).click();
    await expect(page).toHaveURL(/datacenter=dc2/);
    await expect(row('near')).toHaveCount(0);
    await expect(row('far')).toBeVisible();
    await page.reload();
    await expect(row('far')).toBeVisible();
    await page.goBack();
    await expect(row('near')).toBeVisible();
  });

  test('bulk actions are of this datacenter alone, and say so beside rows of others', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, HOME, 'stopped-here');
    await connect(world, 'dc2', 'left-there');
    await page.goto(`/keys?q=namespace:${NAMESPACE}`);
    await untilLive(page);
    await page.getByRole('button', { name: `Stop all in ${HOME}` }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText(`Those of ${HOME} alone`);
    const chosen = dialog.getByRole('region', { name: 'What was selected' });
    await expect(chosen).toContainText('stopped-here');
    await expect(chosen).not.toContainText('left-there');
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    await page.goto(`/keys?q=namespace:${NAMESPACE}&datacenter=dc2`);
    await expect(tableOf(page, 'keys').row('left-there')).toBeVisible();
    await expect(page.getByRole('button', { name: 'Stop all', exact: true })).toHaveAttribute(
      'aria-disabled',
      'true',
    );
  });

  test('a freeze is made where the list is of, and is listed with its datacenter', async ({
    operatorPage: page,
  }) => {
    await page.goto('/environments?datacenter=dc2');
    await untilLive(page);
    await page.getByRole('button', { name: 'Freeze…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Freeze environments in dc2' });
    await dialog.getByLabel('Environment').fill('e2e.shop/prod');
    await dialog.getByLabel(/^Reason/).fill('Nobody is at work');
    await dialog.getByRole('button', { name: 'Freeze', exact: true }).click();

    const panel = page.getByRole('region', { name: 'Freezes', exact: true });
    await expect(panel).toContainText('e2e.shop/prod in dc2');
    await page.goto('/environments');
    await expect(panel).toContainText('e2e.shop/prod in dc2');
    await page.goto(`/environments?datacenter=${HOME}`);
    await untilLive(page);
    await expect(panel).toHaveCount(0);
  });

  test('a number of the overview is of its own datacenter, and so are the rows that it links to', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, HOME, 'counted');
    await connect(world, 'dc2', 'elsewhere');
    await page.goto('/');
    await untilLive(page);

    await page
      .getByRole('region', { name: 'Now' })
      .getByRole('link', { name: /keys?, held$/ })
      .click();
    await untilLive(page);

    const { row } = tableOf(page, 'keys');
    await expect(row('counted')).toContainText(HOME);
    await expect(row('elsewhere')).toHaveCount(0);
  });

  test('a key that was reserved for another datacenter lives there, wherever the first connect is made', async ({
    operatorPage: page,
    world,
  }) => {
    await page.goto('/reservations');
    await untilLive(page);
    await page.getByRole('button', { name: 'Reserve', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Reserve a key' });
    await dialog.getByLabel('Namespace').fill(NAMESPACE);
    await dialog.getByLabel(/^Name( \*)?$/).fill('reserved');
    await dialog.getByRole('combobox', { name: /^Datacenter/ }).click();
    await page.getByRole('option', { name: 'dc2' }).click();
    await dialog.getByRole('button', { name: 'Reserve', exact: true }).click();

    await page.getByRole('heading', { level: 1, name: 'reserved' }).waitFor();
    await expect(chainOf(page)).toContainText('dc2');
    await connect(world, 'dc3', 'reserved');
    await expect(chainOf(page)).toContainText('Active');
    await expect(page.getByRole('region', { name: 'Holder' })).toContainText('drone-dc2');
  });

  test('a held key is moved: revoked, stopped, left, active there; its chain shows the reason', async ({
    operatorPage: page,
    world,
  }) => {
    const before = await connect(world, HOME, 'travels');
    await openReservation(page, 'travels');
    await page.getByRole('button', { name: 'Move', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Move ${NAMESPACE}/travels` });
    await expect(dialog).toContainText('A held key does not move');
    const found: string[] = [];
    await checkSchemes(page, 'a move', found);
    await dialog.getByRole('combobox', { name: /^To datacenter/ }).click();
    await page.getByRole('option', { name: 'dc3' }).click();
    await actWithReason(page, { reason: 'Closer to its players', label: 'Revoke, then move' });

    const banner = page.getByRole('region', { name: 'Moves that you made' });
    await banner.waitFor();
    // The banner is there with the request: the revoke comes after it.
    await expect(dialog).toBeHidden();
    // The controllers carry out the move, and need no open page for it.
    await page.goto('about:blank');
    await expect
      .poll(async () => {
        const key = [NAMESPACE, 'travels'];
        const detail = await world.datacenters
          .dc(HOME)
          .api('operator')
          .reservations.get.query({ key });
        return detail?.links.map(({ datacenter, state }) => `${datacenter} ${state}`);
      })
      .toEqual([`${HOME} moved`, 'dc3 active']);
    await openReservation(page, 'travels');
    await expect(banner).toContainText('Its home is dc3 now.');
    const links = chainOf(page).getByRole('listitem');
    await expect(links).toHaveCount(2);
    await expect(links.first()).toContainText('Moved on');
    await expect(links.first()).toContainText('Closer to its players');
    await expect(links.last()).toContainText('dc3');
    await expect(links.last()).toContainText('Active');

    const after = await connect(world, HOME, 'travels');
    expect(BigInt(after.fencingToken)).toBeGreaterThan(BigInt(before.fencingToken));
    await expect(page.getByRole('region', { name: 'Holder' })).toContainText('drone-dc3');
    await checkSchemes(page, 'a chain of two datacenters', found);
    expect(found).toEqual([]);
  });

  test('a move whose revoke fails stays requested, which its dialog shows, and is followed', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, HOME, 'half-way');
    await openReservation(page, 'half-way');
    await page.getByRole('button', { name: 'Move', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Move ${NAMESPACE}/half-way` });
    await dialog.getByRole('combobox', { name: /^To datacenter/ }).click();
    await page.getByRole('option', { name: 'dc3' }).click();
    await page.route('**/trpc/keys.revoke**', (route) => route.abort());
    await actWithReason(page, { reason: 'Closer to its players', label: 'Revoke, then move' });
    await expect(dialog.getByRole('alert')).toContainText('The move is requested and waits.');
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    const banner = page.getByRole('region', { name: 'Moves that you made' });
    await expect(banner).toContainText('It is held, and moves when it is free.');
    await page.getByRole('button', { name: 'Cancel the move' }).click();
    await expect(banner).toContainText('The move was cancelled.');
  });

  test('a move that waits is shown on the page of its key, and is cancelled there', async ({
    operatorPage: page,
    world,
  }) => {
    const { leaseId } = await connect(world, HOME, 'waits');
    const { reservations } = world.datacenters.dc(HOME).api('operator');
    const key = [NAMESPACE, 'waits'];
    const home = await reservations.resolve.query({ key });
    if (home.outcome !== 'found') throw new Error('a key that is held has no home');
    const { reservationId } = home;
    const move = { key, reservationId, toDatacenter: 'dc2', reason: 'nearer', waitsFor: leaseId };
    await reservations.requestMove.mutate(move);

    await openReservation(page, 'waits');
    await expect(page.getByText(/asked for it to be moved to dc2\. It moves when/)).toBeVisible();
    const found: string[] = [];
    await checkSchemes(page, 'a move that waits', found);
    await page.getByRole('button', { name: 'Cancel the move' }).click();

    await expect(page.getByText(/The move was cancelled\./)).toBeVisible();
    await expect(chainOf(page).getByRole('listitem')).toHaveCount(1);
    expect(found).toEqual([]);
  });

  test('a datacenter that is cut off is reported, the rest goes on, and it comes back', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, 'dc2', 'cut-off');
    await connect(world, HOME, 'goes-on');
    await page.goto('/keys');
    const { row } = tableOf(page, 'keys');
    await expect(row('cut-off')).toBeVisible();
    const found: string[] = [];
    world.datacenters.cut('dc2');
    try {
      await expect(page.getByText(/dc2 cannot be reached/)).toBeVisible();
      await expect(row('goes-on')).toBeVisible();
      await expect(
        page.getByRole('navigation', { name: 'Pages' }).getByText('unreachable'),
      ).toBeVisible();
      await checkSchemes(page, 'keys without dc2', found);
      await openReservation(page, 'cut-off');
      await expect(chainOf(page)).toContainText('Unreachable');
      await expect(page.getByRole('button', { name: 'Move', exact: true })).toBeDisabled();
      await checkSchemes(page, 'a reservation out of reach', found);
    } finally {
      world.datacenters.heal('dc2');
    }

    await expect(chainOf(page)).toContainText('Active');
    await page.goto('/keys');
    await expect(row('cut-off')).toBeVisible();
    await expect(page.getByText(/dc2 cannot be reached/)).toHaveCount(0);
    expect(found).toEqual([]);
  });
});

test.describe('a datacenter that was given up', () => {
  test('is shown as given up, and its key gets a home with the next connect', async ({
    operatorPage: page,
    world,
  }) => {
    await connect(world, 'dc3', 'left behind');
    const admin = world.datacenters.dc(HOME).api('admin');
    world.datacenters.cut('dc3');
    const lost = { datacenter: 'dc3', reason: 'The hall has burnt down', abandon: true };
    await expect(async () => {
      await admin.datacenters.giveUp.mutate(lost);
    }).toPass();

    await openReservation(page, 'left behind');
    await expect(chainOf(page)).toContainText('Given up');
    await expect(page.getByText(/dc3 was given up\. The next connect/)).toBeVisible();
    const nav = page.getByRole('navigation', { name: 'Pages' });
    await expect(nav.getByText('given up')).toBeVisible();
    await expect(page.getByRole('button', { name: 'Move', exact: true })).toBeDisabled();
    const found: string[] = [];
    await checkSchemes(page, 'a datacenter that was given up', found);
    expect(found).toEqual([]);

    // The other datacenters learn of it a moment later: until then they ask the one that is gone.
    await expect(async () => {
      await connect(world, 'dc2', 'left behind');
    }).toPass();
    const links = chainOf(page).getByRole('listitem');
    await expect(links).toHaveCount(2);
    await expect(links.first()).toContainText('Moved on');
    await expect(links.first()).toContainText('The hall has burnt down');
    await expect(links.last()).toContainText('Active');
  });
});
