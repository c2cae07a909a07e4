/** The one statement of acquireOrRenew, alone or with its hooks in the same transaction. */
import { LeaseError } from '../../kernel/errors/index.ts';
import type { GrantOutcome, GrantRequest } from '../../kernel/lease/outcomes.ts';
import {
  type AcquiredOrRenewed,
  acquireOrRenew,
  assertNoHoldOff,
  boundTransaction,
  closeBefore,
  ensureLeaseRow,
  guardNow,
  lookAtRefusals,
  prepareGrants,
  readClock,
  refusedOutcome,
} from '../../grants/index.ts';
import {
  guestTransaction,
  retryContention,
  withinBound,
  type CoordinatorStore,
  type GuestTransaction,
} from '../../postgres/service/guest-transaction.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import type { Sql } from '../../postgres/sql.ts';
import { pause } from '../../postgres/statements/timed.ts';
import type { Refused } from '../acquire/line.ts';
import {
  boundOf,
  callGrantHook,
  LOCK_MS,
  type Asked,
  type GrantHook,
} from './coordinator-transactions.ts';

/** How often acquireOrRenew tries while its row is locked, and the pause between the tries. */
const LOCKED_TRIES_MAX = 4;
const LOCKED_PAUSE_MS = 25;

export interface AcquireOrRenewHooks<Tx> {
  readonly willInsert: GrantHook<Tx> | undefined;
  readonly willHeartbeat: GrantHook<Tx> | undefined;
}

/** Grants or renews the lease, or returns the refusal with the present holder. */
export async function acquireOrRenewOnce<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRequest,
  hooks: AcquireOrRenewHooks<Tx>,
): Promise<Asked<AcquiredOrRenewed> | Refused> {
  await prepareGrants(store, [request]);
  let held: Refused | undefined;
  for (let tries = 0; tries < LOCKED_TRIES_MAX; tries += 1) {
    const found = await askOrRenew(store, { request, hooks, isFirst: tries === 0 });
    if (found !== undefined) {
      observeFound(store, found.outcome);
      return found;
    }
    await assertNoHoldOff(store, store.general);
    const [refusal] = await lookAtRefusals(store, store.general, [request]);
    const refused = refusedOutcome(store, refusal);
    if (isRefused(refused) && !isOwnLocked(refused, request)) {
      store.observer.grant('lease', 'denied', refused.outcome === 'held' ? 'active' : 'free');
      return refused;
    }
    const row = refusal?.row;
    held = row === undefined ? undefined : { outcome: 'held', by: row, waiterCount: 0, doubtMs: 0 };
    await pause(store, LOCKED_PAUSE_MS);
  }
  // Another holder let it run out, and keeps the row locked. One's own must not be reported as lost.
  if (held !== undefined && !isOwnLocked(held, request)) return held;
  throw new LeaseError('grant.contended');
}

function isRefused(outcome: GrantOutcome | undefined): outcome is Refused {
  return outcome?.outcome === 'held' || outcome?.outcome === 'queued';
}

/** Whether the grant in the way is the caller's own, and only a lock kept it from being renewed. */
function isOwnLocked(refused: Refused, request: GrantRequest): boolean {
  if (refused.outcome !== 'held') return false;
  const { by } = refused;
  return by.holder === request.holder && by.principal === request.principal && by.renewable;
}

/** Alone, or in one transaction with hooks. */
type Pool = 'general' | 'guests';

interface AskOrRenew<Tx> {
  readonly request: GrantRequest;
  readonly hooks: AcquireOrRenewHooks<Tx>;
  readonly isFirst: boolean;
}

async function askOrRenew<Tx>(
  store: CoordinatorStore<Tx>,
  { request, hooks, isFirst }: AskOrRenew<Tx>,
): Promise<Asked<AcquiredOrRenewed> | undefined> {
  const ask = async (sql: Sql<Pool>): Promise<Asked<AcquiredOrRenewed> | undefined> => {
    const localTimeMs = store.clock.nowMs();
    const outcome = await acquireOrRenew(sql, request, guardNow(store));
    if (outcome === undefined) return undefined;
    store.clockWatch.observe(outcome.asOf, localTimeMs, store.clock.nowMs());
    return { outcome, localTimeMs };
  };
  const askHere = async (tx: Sql<Pool>): ReturnType<typeof ask> => {
    await readClock(store, tx);
    return ask(tx);
  };
  if (hooks.willInsert === undefined && hooks.willHeartbeat === undefined) {
    // A first try that waited for a connection may have relied on too old a reading of the clock.
    const found = isFirst ? await ask(store.general) : await store.general.$transaction(askHere);
    if (found !== undefined) {
      const { fencingToken, run, position } = found.outcome;
      store.witness.saw({ fencingToken, place: { run, position } });
    }
    return found;
  }
  const boundMs = boundOf(request.ladder);
  await ensureLeaseRow(store.transitions, request);
  return retryContention(store, () =>
    guestTransaction(store, async (guest) => {
      await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
      return withinBound(store, boundMs, async () => {
        const found = await askHere(guest.sql);
        if (found !== undefined) await callFoundHook(guest, hooks, found);
        return found;
      });
    }),
  );
}

async function callFoundHook<Tx>(
  guest: GuestTransaction<Tx>,
  hooks: AcquireOrRenewHooks<Tx>,
  { outcome: found, localTimeMs }: Asked<AcquiredOrRenewed>,
): Promise<void> {
  const hook = found.outcome === 'granted' ? hooks.willInsert : hooks.willHeartbeat;
  if (hook === undefined) return;
  const grant = { ...found, ladder: found, remainingMs: found.expiresAt - found.asOf };
  await callGrantHook(guest, hook, { grant, localTimeMs });
  // The old expiry passed while the hook ran, and somebody may have read this: it is granted again.
  if (found.expiredAt !== null && !(await closeBefore(guest.sql, found.expiredAt))) {
    throw new LeaseError('grant.contended');
  }
}

function observeFound(store: KernelStore, found: AcquiredOrRenewed): void {
  if (found.outcome === 'renewed') {
    store.observer.renewal('lease', 'renewed', 1);
    return;
  }
  const isTakenOver = ['expired', 'lapsed', 'unconfirmed'].includes(found.previousEnd ?? '');
  store.observer.grant('lease', 'granted', isTakenOver ? 'expired' : 'free');
}
