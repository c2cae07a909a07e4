/**
 * Work in the same database, made exact by the fencing token: from the check
 * at the beginning to the commit no other grant of the resource commits, and no revoke or release of
 * this one.
 *
 * The first statement locks the grant's row `for key share` and checks it, the last one before the
 * commit checks again, `for share`, that it has not been ended. A renewal passes beside the work; a
 * takeover waits for it; a revoke that came first rolls it back, a later one waits for the commit. The
 * server ends the work when the lease would have expired, or after 10 s, whichever is sooner, also if
 * the holder is paused in it: the resource may be held past its expiry by at most that bound.
 */
import { invalidField, LeaseError } from '../kernel/errors.ts';
import { type GrantRef, isFencingToken } from '../kernel/lease.ts';
import {
  GUEST_MS_MAX,
  type GuestStore,
  type GuestTransaction,
  guestTransaction,
  withinBound,
} from '../postgres/guest-transaction.ts';
import type { Sql } from '../postgres/sql.ts';
import { type HeldGrant, isNotEnded, lockHeld } from './sql/guard.ts';

export interface FencedOptions {
  /** How long the work may take, in milliseconds: by default and at most 10,000. */
  readonly boundMs?: number | undefined;
}

/**
 * Runs `work` in a transaction that commits only if this grant, or each of several, is in force at its beginning and has
 * not ended at its commit. For grants of any face. `tx` is the transaction: effects of `work` elsewhere are
 * not fenced. `work` is not repeated, and the call does not end before the promise of `work` does.
 *
 * @throws {LeaseError} `lease.not_held` if the grant is not in force, or has ended in the meantime;
 * `request.deadline` if the work took longer than its bound; `lease.in_hook`; `request.invalid`;
 * `request.outcome_unknown` if the connection broke in the commit. Except for the last, nothing was
 * changed. Errors of `work` are passed on unchanged.
 */
export async function fencedTransaction<Tx, Result>(
  store: GuestStore<Tx>,
  grant: GrantRef | readonly GrantRef[],
  work: (tx: Tx) => Promise<Result>,
  options: FencedOptions = {},
): Promise<Result> {
  const grants = isList(grant) ? grant : [grant];
  if (grants.length === 0) throw invalidField('grant', 'must have at least 1 element');
  // Callers without a compiler pass what an acquire that was refused has left undefined.
  const isWrong = (ref: unknown): boolean => typeof ref !== 'object' || ref === null;
  if (grants.some(isWrong)) {
    throw invalidField(
      'grant',
      'must be a grant, with its `leaseId` and `fencingToken`, or a list of them',
    );
  }
  if (typeof work !== 'function') throw invalidField('work', 'must be a function');
  return inFence(store, grants, {
    boundMs: options.boundMs,
    work: (guest) => guest.call(work),
    async close({ sql }) {
      for (const ref of inOneOrder(grants)) {
        if (!(await isNotEnded(sql, ref))) throw notHeld(ref);
      }
    },
  });
}

function isList(grant: GrantRef | readonly GrantRef[]): grant is readonly GrantRef[] {
  return Array.isArray(grant);
}

/** Work under grants, and the last check of whether it may commit. `held`: the earliest expiry and the shortest bound. */
export interface FencedWork<Tx, Result> {
  readonly boundMs?: number | undefined;
  work(guest: GuestTransaction<Tx>, held: HeldGrant): Promise<Result>;
  /** Throws when the transaction must not commit. */
  close(guest: GuestTransaction<Tx>, held: HeldGrant): Promise<void>;
}

/** {@link fencedTransaction} for work that ends or prolongs the grants themselves. */
export async function inFence<Tx, Result>(
  store: GuestStore<Tx>,
  refs: readonly GrantRef[],
  fenced: FencedWork<Tx, Result>,
): Promise<Result> {
  const unknown = refs.find((ref) => !isGrantRef(ref));
  if (unknown !== undefined) throw notHeld(unknown);
  assertBound(fenced.boundMs);
  const boundMsMax = Math.min(Math.max(1, fenced.boundMs ?? GUEST_MS_MAX), GUEST_MS_MAX);
  return guestTransaction(store, async (guest) => {
    const held = await lockAll(guest.sql, refs, Math.ceil(boundMsMax));
    return withinBound(store, held.boundMs, async () => {
      const result = await fenced.work(guest, held);
      await fenced.close(guest, held);
      return result;
    });
  });
}

/** Locks each grant in its turn. The server keeps the bound that was set last: none is longer than the ones before. */
async function lockAll(
  sql: Sql<'guests'>,
  refs: readonly GrantRef[],
  boundMsMax: number,
): Promise<HeldGrant> {
  let least: HeldGrant = { expiresAt: Infinity, boundMs: boundMsMax };
  for (const ref of inOneOrder(refs)) {
    const held = await lockHeld(sql, ref, least.boundMs);
    if (held === undefined) throw notHeld(ref);
    least = {
      expiresAt: Math.min(least.expiresAt, held.expiresAt),
      boundMs: Math.min(least.boundMs, held.boundMs),
    };
  }
  return least;
}

/** The order in which all work locks the same grants, so that no two pieces of work wait for each other. */
function inOneOrder(refs: readonly GrantRef[]): GrantRef[] {
  const idOf = ({ leaseId }: GrantRef): string => leaseId.toLowerCase();
  return [...refs].sort((one, other) => (idOf(one) < idOf(other) ? -1 : 1));
}

function assertBound(boundMs: number | undefined): void {
  if (boundMs === undefined || (typeof boundMs === 'number' && boundMs > 0)) return;
  throw invalidField('boundMs', 'must be a number of milliseconds above 0');
}

/** The grant is not in force. The holder is not told why, because it must stop whatever the cause is. */
export function notHeld(ref: GrantRef): LeaseError {
  return new LeaseError('lease.not_held', undefined, {
    details: { leaseId: ref.leaseId, fencingToken: ref.fencingToken },
  });
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** Whether a string is a UUID, as ids of leases are. */
export function isLeaseId(text: string): boolean {
  return UUID.test(text);
}

function isGrantRef(ref: GrantRef): boolean {
  return isLeaseId(ref.leaseId) && isFencingToken(ref.fencingToken);
}
