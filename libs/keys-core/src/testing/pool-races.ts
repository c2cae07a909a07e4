/** Workers that take, renew and release grants of pools at random through several controllers, in real time. */
import { seed } from '@leasehold/testing';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { revoke } from '../grants/sql/revoke.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { Grant, GrantRequest, SlotMode } from '../kernel/lease.ts';
import { createReaper } from '../keys/index.ts';
import { onlyRow } from '../postgres/sql.ts';
import { aRequest, type Kernel, openKernel, releaseOf, renewalOf } from './kernel-fixture.ts';

/** Short enough that grants run out many times within the test, in real time. */
const LADDER: Ladder = { renewAfterMs: 20, softAfterMs: 40, hardAfterMs: 50, ttlMs: 60 };
export const CONTROLLERS = 3;
const WORKERS_PER_CONTROLLER = 5;
const STEPS_PER_WORKER = 30;

/** Draws numbers below a limit. */
type Draw = (limit: number) => number;

function drawsOf(number: number): Draw {
  const generator = xoroshiro128plus(seed() + number);
  return (limit) => (generator.next() >>> 0) % limit;
}

/** What workers ask for, at random. */
type Ask = (draw: Draw) => Pick<GrantRequest, 'name' | 'mode'>;

interface Race {
  readonly kernel: Kernel;
  readonly ask: Ask;
  /** Until which moment of the database's clock each grant was promised at least. */
  readonly promises: Map<string, number>;
}

async function databaseNow({ store }: Kernel): Promise<number> {
  const rows = await store.general.$queryRaw<{ at: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as at`;
  return onlyRow(rows).at;
}

/** Undefined when others changed the rows at each of its tries, as a slow machine makes likely. */
async function unlessContended<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LeaseError && error.code === 'grant.contended') return undefined;
    throw error;
  }
}

/** Takes, renews, releases and forgets grants at random; notes what was promised. */
async function work(race: Race, holder: string, draw: Draw): Promise<void> {
  let own: Grant | undefined;
  for (let step = 0; step < STEPS_PER_WORKER; step += 1) {
    if (own === undefined) {
      const request = aRequest({ ...race.ask(draw), holder, ladder: LADDER });
      const outcome = await unlessContended(race.kernel.leases.grant(request));
      if (outcome?.outcome !== 'granted') continue;
      own = outcome.grant;
      race.promises.set(own.leaseId, own.expiresAt);
    } else if (!(await act(race, own, draw))) own = undefined;
  }
}

/** One act on a grant. @returns whether its worker still holds it as far as it knows. */
async function act({ kernel, promises }: Race, own: Grant, draw: Draw): Promise<boolean> {
  const what = draw(8);
  if (what < 3) {
    const sentAt = await databaseNow(kernel);
    const answer = await unlessContended(kernel.leases.renew('lease', renewalOf(own)));
    if (answer?.outcome === 'renewed') {
      promises.set(own.leaseId, Math.floor(sentAt + LADDER.ttlMs));
    }
    return answer?.outcome !== 'refused';
  }
  if (what < 6) await unlessContended(kernel.leases.release('lease', releaseOf(own)));
  else if (what === 6) {
    const by = { abandon: false, actor: 'op', reason: 'race', namespaces: null };
    await revoke(kernel.store.general, 'lease', [{ ...by, leaseId: own.leaseId, mode: 'force' }]);
  }
  return false;
}

/** A grant as the event log shows it. */
interface Seen {
  readonly leaseId: string;
  readonly name: string;
  readonly mode: SlotMode;
  readonly token: number;
  readonly from: number;
  /** When it was ended, or what it was promised at least. */
  readonly until: number;
}

/**
 * Lets workers race through several controllers, with their reapers, while somebody does something again and
 * again. @returns all grants, in order.
 */
export async function raceFor(
  kernel: Kernel,
  ask: Ask,
  meanwhile?: () => Promise<unknown>,
): Promise<Seen[]> {
  const kernels = [kernel];
  while (kernels.length < CONTROLLERS) {
    kernels.push(await openKernel({ databaseUrl: kernel.databaseUrl }));
  }
  const promises = new Map<string, number>();
  let isOver = false;
  const reaping = kernels.map(async ({ store }) => {
    const reaper = createReaper(store);
    while (!isOver) await reaper.runOnce();
  });
  const disturb = async (): Promise<void> => {
    while (!isOver) await meanwhile?.();
  };
  const disturbing = meanwhile === undefined ? undefined : disturb();
  await Promise.all(
    kernels.flatMap((each, controller) =>
      Array.from({ length: WORKERS_PER_CONTROLLER }, (_, index) => {
        const number = controller * WORKERS_PER_CONTROLLER + index;
        return work({ kernel: each, ask, promises }, `w${String(number)}`, drawsOf(number));
      }),
    ),
  );
  isOver = true;
  await Promise.all([...reaping, disturbing]);
  const rows = await kernel.store.general.$queryRaw<
    (Omit<Seen, 'until'> & { readonly endedAt: number | null })[]
  >`
    select g.lease_id::text as "leaseId", g.name, g.fencing_token::float8 as token,
      coalesce(g.detail ->> 'mode', 'exclusive') as mode,
      extract(epoch from g.at)::float8 * 1000 as from, extract(epoch from e.at)::float8 * 1000 as "endedAt"
    from lease_event g
    left join lease_event e on e.lease_id = g.lease_id and e.kind in ('released', 'failed', 'revoked')
    where g.kind in ('granted', 'taken_over')
    order by g.id`;
  return rows.map(({ endedAt, ...grant }) => ({
    ...grant,
    until: endedAt ?? promises.get(grant.leaseId) ?? grant.from,
  }));
}

/** The other grants that were in force when this one was made. */
export function beside(grant: Seen, all: readonly Seen[]): Seen[] {
  return all.filter((one) => one !== grant && one.from <= grant.from && grant.from < one.until);
}

/** Those whose token is not larger than that of the grant of the same scope before it. */
export function notGrowing(all: readonly Seen[]): Seen[] {
  const largest = new Map<string, number>();
  return all.filter(({ name, token }) => {
    const before = largest.get(name) ?? 0;
    largest.set(name, Math.max(before, token));
    return token <= before;
  });
}
