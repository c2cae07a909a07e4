/** The outcome of a request for a grant, from the rows that were read, and what is counted of it. */
import type { LeaseRow } from '../../kernel/lease/lease.ts';
import type { Grant, GrantOutcome, GrantRequest } from '../../kernel/lease/outcomes.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import type { Sql } from '../../postgres/sql.ts';
import { readRefusals, type Refusal } from '../sql/parts/refusals.ts';

/** Reads why requests were refused, and observes the database's clock. */
export async function lookAtRefusals(
  store: KernelStore,
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<Refusal[]> {
  const sentAtMs = store.clock.nowMs();
  const found = await readRefusals(sql, requests);
  watchClock(
    store,
    found.map((refusal) => refusal.row),
    sentAtMs,
  );
  return found;
}

/**
 * Why a request was refused, or undefined when only a lock, a change or the delay of its statement
 * stood in its way.
 */
export function refusedOutcome(
  { clockWatch }: Pick<KernelStore, 'clockWatch'>,
  refusal: Refusal | undefined,
): GrantOutcome | undefined {
  if (refusal === undefined) return undefined;
  const { row, head, waiterCount, isRecorded } = refusal;
  if (isRecorded) return { outcome: 'recorded' };
  if (row !== undefined) {
    const doubtMs = clockWatch.doubtMs(row);
    if (doubtMs > 0 || !isTakable(row)) return { outcome: 'held', by: row, waiterCount, doubtMs };
  }
  if (head !== undefined) return { outcome: 'queued', head, waiterCount };
  return undefined;
}

/** Whether a locked row may be locked by its last holder, which still works after its grant expired. */
export function isOverstayed(row: LeaseRow): boolean {
  return row.endReason === null || row.endReason === 'expired';
}

/** Whether a row, as it was read, could be granted: then the grant met a lock or a change. */
function isTakable(row: LeaseRow): boolean {
  const isOver = row.endReason !== null || row.asOf >= row.expiresAt;
  return isOver && (row.stopsBy === null || row.asOf >= row.stopsBy);
}

export function grantedOutcome(
  store: KernelStore,
  request: GrantRequest,
  own: Grant,
): GrantOutcome {
  const status = own.previous?.end === 'expired' ? 'expired' : 'free';
  store.observer.grant(own.face, 'granted', status, actionOf(request));
  return { outcome: 'granted', grant: own };
}

/**
 * Counts a handover: a grant to a caller that was already waiting when the previous grant ended. A
 * caller that joined the line later found the resource free.
 */
export function observeHandover(
  store: Pick<KernelStore, 'observer'>,
  { face, freeMs }: Grant,
  waitedMs: number,
): void {
  if (freeMs === null || freeMs > waitedMs) return;
  store.observer.handedOver(face, Math.max(0, freeMs));
}

/** Counts a refusal. Another try from a place in line is no new refusal. */
export function observed(
  store: KernelStore,
  request: GrantRequest,
  outcome: GrantOutcome,
): GrantOutcome {
  if (request.isQueued === true) return outcome;
  if (outcome.outcome === 'queued') {
    store.observer.grant(request.face, 'denied', 'free', actionOf(request));
  }
  if (outcome.outcome === 'held') {
    const { by } = outcome;
    const status = by.asOf < by.expiresAt ? 'active' : 'expired';
    store.observer.grant(by.face, 'denied', status, actionOf(request));
  }
  return outcome;
}

/** The action that an environment is requested for. */
function actionOf(request: GrantRequest): string | undefined {
  return request.face === 'environment' ? request.tag : undefined;
}

/** Every answer shows the database's clock, refusals too. */
export function watchClock(
  store: KernelStore,
  rows: Iterable<{ readonly asOf: number } | undefined>,
  sentAtMs: number,
): void {
  for (const row of rows) {
    if (row === undefined) continue;
    store.clockWatch.observe(row.asOf, sentAtMs, store.clock.nowMs());
    return;
  }
}
