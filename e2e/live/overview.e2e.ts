import { randomUUID } from 'node:crypto';
import type { Page } from '@playwright/test';
import { holdLease, openRoom, untilLive } from '../fixtures/grants.ts';
import type { Stack } from '../fixtures/stack.ts';
import { expect, test } from '../fixtures/test.ts';

test.describe('the overview', () => {
  test('counts what is held, what expires, who waits and which drones are silent', async ({
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
      expect(known['Held']).toMatch(/^[2-9]|^\d\d/);
      expect(known['Expiring']).not.toBe('0');
      expect(known['Contended']).not.toBe('0');
    }).toPass({ timeout: 30_000 });

    const { fencingToken } = awaited;
    await stack.api('client').leases.release.mutate({ leaseId: awaited.leaseId, fencingToken });
    await waiting;
  });
});

/** Waits in line for a lease of {@link holdLease}, and gives it back. */
async function waitFor(stack: Stack, key: string): Promise<void> {
  const answer = await stack.api('client').leases.acquire.mutate({
    ...{ namespace: ['e2e', 'jobs'], key, ttlMs: 60_000, waitMs: 120_000 },
    ...{ holder: 'patient', localTimeMs: 1_000, idempotencyKey: randomUUID() },
  });
  if (answer.outcome !== 'granted') throw new Error(`${key} is ${answer.outcome}`);
  const { leaseId, fencingToken } = answer.lease;
  await stack.api('client').leases.release.mutate({ leaseId, fencingToken });
}

type Numbers = Record<string, string>;

/** Each tile's number and what is below it, under its label. */
async function numbersOn(page: Page): Promise<Numbers> {
  const numbers: Numbers = {};
  for (const label of ['Held', 'Expiring', 'Contended', 'Silent drones']) {
    const tile = page.locator('main a').filter({ hasText: new RegExp(`^${label}`) });
    const [, number = '', below = ''] = (await tile.innerText()).split('\n').filter(Boolean);
    numbers[label] = number;
    numbers[`${label}, in words`] = below.replaceAll('\u00a0', ' ');
  }
  return numbers;
}

/** The same from the rows, and from the list of drones. */
async function numbersIn({ sql, api }: Pick<Stack, 'sql' | 'api'>): Promise<Numbers> {
  const { rows } = await sql.query<
    Record<'held' | 'expiring' | Face | 'lines' | 'waiters', number>
  >(`
    with l as (
      select face, renewable and end_reason is null as is_held,
        stops_by > clock_timestamp() or (end_reason is null and not renewable) as is_expiring
      from leasehold.lease
      where namespace <> 'leasehold' and (stops_by > clock_timestamp()
        or (end_reason is null and released_at is null and expires_at > clock_timestamp()))
    ),
    h as (
      select
        count(*) filter (where is_held)::int as held,
        count(*) filter (where is_held and face = 'key')::int as key,
        count(*) filter (where is_held and face = 'lease')::int as lease,
        count(*) filter (where is_held and face = 'environment')::int as environment,
        count(*) filter (where is_expiring)::int as expiring
      from l
    ),
    w as (
      select count(distinct (face, namespace, name))::int as lines, count(*)::int as waiters
      from leasehold.lease_waiter where valid_until > clock_timestamp()
    )
    select * from h, w`);
  const [of] = rows;
  if (of === undefined) throw new Error('no counts');
  const drones = await api('viewer').drones.list.query({ limit: 500 });
  const inStatus = (status: string): string =>
    String(drones.items.filter((drone) => drone.status === status).length);
  return {
    Held: String(of.held),
    'Held, in words': `${counted(of.key, 'key')} · ${counted(of.lease, 'lease')} · ${String(of.environment)} env.`,
    Expiring: String(of.expiring),
    Contended: String(of.lines),
    'Contended, in words':
      of.waiters === 1 ? '1 caller waits' : `${String(of.waiters)} callers wait`,
    'Silent drones': inStatus('unreachable'),
    'Silent drones, in words': `${inStatus('ready')} ready · ${inStatus('draining')} draining · ${inStatus('lost')} lost`,
  };
}

type Face = 'key' | 'lease' | 'environment';

function counted(count: number, what: string): string {
  return `${String(count)} ${what}${count === 1 ? '' : 's'}`;
}
