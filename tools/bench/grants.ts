import { randomUUID } from 'node:crypto';
import { invariant, KEY_LADDERS, type GrantRequest } from '@leasehold/keys-core';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { newTimedId } from '../../libs/keys-core/src/kernel/clock.ts';
import { guardNow } from '../../libs/keys-core/src/grants/sql/guard.ts';
import { grant } from '../../libs/keys-core/src/grants/sql/grant.ts';
import type { Figure } from './rig/figures.ts';
import { atLeast, perSecond, times } from './rig/quantities.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { compare, rateOf } from './rig/rounds.ts';
import { PRINCIPAL } from './rig/seed.ts';

const CALLER_COUNT = 64;
const REQUIRED_RATIO = 5;
const MACHINE = { clock: createBootClock(), ids: systemIds() };

/** A request for a key, with a fresh name unless one is given. */
export function aGrantRequest(name: string = randomUUID()): GrantRequest {
  return {
    face: 'key',
    namespace: '',
    name,
    leaseId: newTimedId(MACHINE),
    holder: PRINCIPAL,
    principal: PRINCIPAL,
    tag: '',
    comment: null,
    metadata: null,
    ladder: KEY_LADDERS.standard,
    actor: PRINCIPAL,
  };
}

/** Grants that share statements against the same statement sent for each grant alone. */
export async function measureGrants(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_grants');
  const roundMs = rig.isQuick ? 200 : 1_500;
  const round = (work: () => Promise<void>) => async () => {
    await database.pool.query('truncate lease, lease_event');
    return rateOf(CALLER_COUNT, roundMs, work);
  };
  const { ours, theirs, ratio } = await compare(
    { name: 'coalesced', round: round(() => grantCoalesced(database)) },
    { name: 'one by one', round: round(() => grantAlone(database)) },
    rig.isQuick ? 2 : 9,
  );
  return [
    {
      what: `grants of ${String(CALLER_COUNT)} callers, against a statement for each`,
      ours: perSecond(ours),
      theirs: perSecond(theirs),
      result: times(ratio),
      required: atLeast(REQUIRED_RATIO),
    },
  ];
}

async function grantCoalesced({ leases }: BenchDatabase): Promise<void> {
  const { outcome } = await leases.grant(aGrantRequest());
  invariant(outcome === 'granted', 'nobody holds a new name');
}

async function grantAlone({ store }: BenchDatabase): Promise<void> {
  await store.witness.ready();
  const { grants } = await grant(store.transitions, [aGrantRequest()], {
    guard: guardNow(store),
    onLocked: 'skip',
  });
  invariant(grants.size === 1, 'nobody holds a new name');
}
