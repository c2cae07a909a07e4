import { randomUUID } from 'node:crypto';
import type { Page } from '@playwright/test';
import { holdLease, openRoom, untilLive } from '../fixtures/grants.ts';
import type { Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('the overview', () => {
  test('counts what is held, what expires, who waits and which drones are unreachable; each number is a link to as many rows', async ({
    pageAs,
    stack,
  }) => {
    const stem = `counted-${randomUUID().slice(0, 6)}`;
    await openRoom(stack, stem);
    const blocked = await holdLease(stack, { key: `${stem}-a`, holder: 'batch-worker' });
    const awaited = await holdLease(stack, { key: `${stem}-b`, holder: 'batch-worker' });
    const { leaseId } = blocked;
    await stack.api('operator').leases.blockRenewal.mutate({ leaseId, reason: 'counted' });
    const waiting = waitFor(stack, awaited.name);
    const page = await pageAs('viewer');
    await page.goto('/');
    await untilLive(page);

    // Others come and go meanwhile: the page is compared with the database of the same moment.
    await expect(async () => {
      const seen = await numbersOn(page);
      const known = await numbersIn(stack);
      expect(seen).toMatchObject(known);
      expect(known['leases, held']).not.toBe(0);
      expect(known['leases, expiring']).not.toBe(0);
      expect(known['leases, waited for']).not.toBe(0);
    }).toPass({ timeout: 30_000 });

    const list = await pageAs('viewer');
    for (const link of LISTED) {
      await expect(async () => {
        const figure = page.getByRole('region', { name: 'Now' }).getByRole('link', { name: link });
        const [number] = numberAndUnit(await figure.getAttribute('aria-label'));
        await list.goto((await figure.getAttribute('href')) ?? '');
        await untilLive(list);
        const rowCount = await rowsOn(list);
        if (number <= DRAWN_ROWS) expect([link, rowCount]).toEqual([link, number]);
        else expect(rowCount).toBeGreaterThanOrEqual(DRAWN_ROWS);
      }).toPass({ timeout: 30_000 });
    }

    const { fencingToken } = awaited;
    await stack.api('client').leases.release.mutate({ leaseId: awaited.leaseId, fencingToken });
    await waiting;
  });

  test('describes the present: refusals of yesterday need no attention, those of the last minutes do, since when', async ({
    pageAs,
    stack,
  }) => {
    const page = await pageAs('viewer');
    await addRenewals(stack, { agoMs: 20 * HOUR_MS, forMs: 10_000, renewals: 5_000, refused: 5 });
    await addRenewals(stack, { agoMs: 600_000, forMs: 600_000, renewals: 100, refused: 0 });
    await page.goto('/?window=1440');
    await untilLive(page);
    const refused = page.getByRole('group', { name: 'Refused renewals' });
    const verdict = page.getByRole('status').filter({ hasText: /^(Healthy|Needs attention)/ });
    await expect(refused.getByRole('link')).not.toHaveText('0');
    await expect(verdict).not.toContainText('refused');

    await addRenewals(stack, { agoMs: 240_000, forMs: 240_000, renewals: 0, refused: 60 });
    const concern = verdict
      .getByRole('listitem')
      .filter({ hasText: 'renewals refused in the last 5 minutes' });
    await expect(concern).toContainText(/refused in the last 5 minutes for [34] min/);
    await expect(concern.getByRole('link')).toHaveAttribute('href', /kinds=renewal_refused/);

    await stack.sql.query(
      'update leasehold.stats_bucket set refused_renewals = 0 where refused_renewals > 0',
    );
    await expect(verdict).not.toContainText('refused');
  });

  test('tells what people did in sentences with links, without sign-ins, and a viewer nothing', async ({
    pageAs,
    stack,
  }) => {
    const { leaseId, name } = await holdLease(stack, {
      key: `told-${randomUUID().slice(0, 6)}`,
      holder: 'batch-worker',
    });
    await stack.api('operator').leases.revoke.mutate({ leaseId, mode: 'force', reason: 'told' });
    const page = await pageAs('operator');
    await page.goto('/');
    const activity = page.getByRole('region', { name: 'Recent activity' });

    const act = activity.getByRole('listitem').filter({ hasText: name });
    await expect(act).toContainText(`revoked the lease e2e.jobs/${name} by force`);
    await expect(act).toContainText('“told”');
    await expect(activity).not.toContainText('signed in');
    await act.getByRole('link', { name }).click();
    await page.getByRole('heading', { level: 1, name }).waitFor();

    const viewer = await pageAs('viewer');
    await viewer.goto('/');
    await expect(viewer.getByRole('region', { name: 'Recent activity' })).toContainText(
      'needs the role operator',
    );
  });
});

/** Waits in line for a lease of {@link holdLease}, and gives it back. */
async function waitFor(stack: Stack, key: string): Promise<void> {
  const answer = await stack.api('client').leases.acquire.mutate({
    namespace: ['e2e', 'jobs'],
    key,
    ttlMs: 60_000,
    waitMs: 120_000,
    holder: 'patient',
    localTimeMs: 1_000,
    idempotencyKey: randomUUID(),
  });
  if (answer.outcome !== 'granted') throw new Error(`${key} is ${answer.outcome}`);
  const { leaseId, fencingToken } = answer.lease;
  await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
}

type Numbers = Record<string, number>;

/** So many rows of a list are drawn, whatever the height of the page. */
const DRAWN_ROWS = 15;
const HOUR_MS = 3_600_000;

/** The numbers whose rows are compared: those of lists that nothing else changes all the time. */
const LISTED = [
  /keys?, held/,
  /leases?, held/,
  /environments?, held/,
  /keys?, expiring/,
  /leases?, expiring/,
  /environments?, expiring/,
  /keys?, waited for/,
  /leases?, waited for/,
  /environments?, waited for/,
  /keys?, not recorded/,
  /leases?, not recorded/,
  /ready$/,
  /draining$/,
  /unreachable$/,
  /lost$/,
  /failing callbacks?$/,
];

/** `1 key, held` */
function numberAndUnit(text: string | null): [number, string] {
  const [number = '', ...unit] = (text ?? '').split(' ');
  return [Number(number.replaceAll(',', '')), unit.join(' ')];
}

/** Each number of the overview, under what it counts, in the plural. */
async function numbersOn(page: Page): Promise<Numbers> {
  const links = page.getByRole('region', { name: 'Now' }).getByRole('link');
  const names = await links.evaluateAll((all) =>
    all.map((link) => link.getAttribute('aria-label') ?? link.textContent),
  );
  return Object.fromEntries(
    names.map((name) => {
      const [number, unit] = numberAndUnit(name);
      return [unit.replace(/^(key|lease|environment),/u, '$1s,'), number];
    }),
  );
}

/** The rows of the table that a list shows. */
async function rowsOn(page: Page): Promise<number> {
  return page
    .locator('main tbody tr')
    .filter({ has: page.getByRole('link') })
    .count();
}

/** Writes so many renewals and refusals into each ten seconds of a time. */
async function addRenewals(
  { sql }: Pick<Stack, 'sql'>,
  of: {
    readonly agoMs: number;
    readonly forMs: number;
    readonly renewals: number;
    readonly refused: number;
  },
): Promise<void> {
  await sql.query(
    `insert into leasehold.stats_bucket as t (bucket_at, face, renewals, refused_renewals)
    select date_bin('10 seconds', clock_timestamp() - ms * interval '1 millisecond', timestamptz 'epoch'),
      'lease', $3, $4
    from generate_series($1::int - $2::int + 10000, $1::int, 10000) ms
    on conflict (bucket_at, face) do update set
      renewals = t.renewals + excluded.renewals,
      refused_renewals = t.refused_renewals + excluded.refused_renewals`,
    [of.agoMs, of.forMs, of.renewals, of.refused],
  );
}

/** The same numbers from the rows, and from the list of drones. */
async function numbersIn(stack: Pick<Stack, 'sql' | 'api'>): Promise<Numbers> {
  const { rows } = await stack.sql.query<{
    face: string;
    held: number;
    expiring: number;
    lines: number;
  }>(`
    with l as (
      select face, renewable and end_reason is null as is_held,
        stops_by > clock_timestamp() or (end_reason is null and not renewable) as is_expiring
      from leasehold.lease
      where namespace <> 'leasehold' and (stops_by > clock_timestamp()
        or (end_reason is null and released_at is null and expires_at > clock_timestamp()))
    )
    select f.face,
      (select count(*)::int from l where l.face = f.face and l.is_held) as held,
      (select count(*)::int from l where l.face = f.face and l.is_expiring) as expiring,
      (
        select count(distinct (w.namespace, w.name))::int from leasehold.lease_waiter w
        where w.face = f.face and w.valid_until > clock_timestamp()
      ) as lines
    from (values ('key'), ('lease'), ('environment')) f (face)`);
  const ofFaces = rows.flatMap(({ face, held, expiring, lines }) => [
    [`${face}s, held`, held],
    [`${face}s, expiring`, expiring],
    [`${face}s, waited for`, lines],
  ]);
  const { items } = await stack.api('viewer').drones.list.query({ limit: 500 });
  const ofDrones = ['ready', 'draining', 'unreachable', 'lost'].map((status) => [
    status,
    items.filter((drone) => drone.status === status).length,
  ]);
  return Object.fromEntries([...ofFaces, ...ofDrones]) as Numbers;
}
