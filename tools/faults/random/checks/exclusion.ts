/** Who held what, by the committed events and the promises that an observer read. */
import type { FinalRow, History, Operation, Violation } from '../history.ts';
import { isShareable } from '../world/workers/settings.ts';
import { isInDoubt } from './clock-steps.ts';
import { grantsOf, groupedBy, lastExpiries, successionsOf, type GrantRecord } from './grants.ts';

/** What a time of the database may be wrong by, put into the clock of the machine. */
export const MAPPING_MS = 30;

/** I1: one grant at a time. I2: tokens grow. */
export function checkExclusion({ events }: History): Violation[] {
  return successionsOf(events).flatMap(({ former, next }) => {
    const atMs = next.granted.atMs;
    const text = `${next.granted.resource}: ${next.granted.token} after ${former.granted.token}`;
    const violations: Violation[] = [];
    const isSameDatabase = former.granted.datacenter === next.granted.datacenter;
    const hasEnded = former.ends.some((end) => !isSameDatabase || end.id < next.granted.id);
    if (!hasEnded) {
      violations.push({ invariant: 'I1', atMs, text: `${text}, which had not ended` });
    }
    if (next.token <= former.token) violations.push({ invariant: 'I2', atMs, text });
    return violations;
  });
}

/** I5: nobody is granted what its holder was promised, unless the holder or an operator ended it. */
export function checkEarlySteals(history: History): Violation[] {
  const promisedMs = promisedUntil(history);
  return successionsOf(history.events).flatMap(({ former, next }) => {
    const isByItself = former.ends.some(({ kind }) => kind !== 'expired' && kind !== 'removed');
    const untilMs = promisedMs.get(former.granted.leaseId) ?? -Infinity;
    const earlyMs = untilMs - next.granted.atMs;
    if (isByItself || earlyMs <= MAPPING_MS) return [];
    const text = `${next.granted.resource}: ${next.granted.token} was granted ${earlyMs.toFixed(0)} ms before the end of ${former.granted.token}`;
    return [{ invariant: 'I5', atMs: next.granted.atMs, text }];
  });
}

/** A repeated request may be told of a grant that is over: by a deadline of before it was sent. */
export function isPromise({ answer, calledAtMs }: Operation): boolean {
  return answer.outcome === 'granted' && answer.loseAtMs > calledAtMs;
}

/** Until when each holder was told that it may act, by the id of its grant. */
export function promisedUntil({ operations, holds }: History): Map<string, number> {
  const promisedMs = new Map<string, number>();
  const note = (leaseId: string, untilMs: number): void => {
    promisedMs.set(leaseId, Math.max(untilMs, promisedMs.get(leaseId) ?? -Infinity));
  };
  for (const operation of operations) noteOwn(operation, note);
  for (const { leaseId, untilMs, lateMs, end } of holds) {
    if (end === 'lost') note(leaseId, untilMs - lateMs);
  }
  return promisedMs;
}

function noteOwn(operation: Operation, note: (leaseId: string, untilMs: number) => void): void {
  const { answer } = operation;
  if (answer.outcome === 'granted' && isPromise(operation)) note(answer.leaseId, answer.loseAtMs);
  if (operation.kind === 'renew' && answer.outcome === 'renewed') {
    note(operation.leaseId, answer.loseAtMs);
  }
}

/** I11: no live grant is recorded as expired. I13: one event for each change. */
export function checkEnds({ events, promises, faults }: History): Violation[] {
  const last = lastExpiries(promises);
  return grantsOf(events).flatMap(({ granted, ends }) => {
    const violations: Violation[] = [];
    const name = `${granted.resource} ${granted.token}`;
    const [end, another] = ends;
    if (another !== undefined) {
      const text = `${name} ended twice: ${ends.map(({ kind }) => kind).join(', ')}`;
      violations.push({ invariant: 'I13', atMs: another.atMs, text });
    }
    const earlyMs = (last.get(granted.leaseId) ?? -Infinity) - (end?.atMs ?? Infinity);
    if (end?.kind === 'expired' && earlyMs > MAPPING_MS && !isInDoubt(faults, end.atMs)) {
      const text = `${name} was recorded as expired ${earlyMs.toFixed(0)} ms before its expiry`;
      violations.push({ invariant: 'I11', atMs: end.atMs, text });
    }
    return violations;
  });
}

/** I13: what the rows say at the end is what the last events say, and nothing acknowledged has no event. */
export function checkRecords(history: History): Violation[] {
  const { events, rows, operations, endedAtMs } = history;
  const byResource = groupedBy(grantsOf(events), ({ granted }) => granted.resource);
  const violations = rows.flatMap((row): Violation[] => {
    // The rows of what several hold have names of their own.
    if (isShareable(row.resource)) return [];
    const last = byResource.get(row.resource)?.at(-1);
    if (last !== undefined && isSameAs(row, last)) return [];
    const text = `${row.resource}: the row has ${row.token}, ${row.isEnded ? '' : 'not '}ended; its last event is of ${toldOf(last)}`;
    return [{ invariant: 'I13', atMs: endedAtMs, text }];
  });
  const known = new Map(grantsOf(events).map((grant) => [grant.granted.leaseId, grant]));
  for (const operation of operations) violations.push(...unrecorded(operation, known));
  return violations;
}

/** Force raises the token of the row, and its event has the raised one. */
function isSameAs(row: FinalRow, { granted, ends }: GrantRecord): boolean {
  const token = ends.find(({ kind }) => kind === 'revoked')?.token ?? granted.token;
  const isSame = granted.leaseId === row.leaseId && token === row.token;
  return isSame && ends.length > 0 === row.isEnded;
}

function toldOf(grant: GrantRecord | undefined): string {
  if (grant === undefined) return 'nothing';
  return `${grant.granted.token}, ${grant.ends[0]?.kind ?? 'not ended'}`;
}

/** Whether an answer says that something was done of which there is no event. */
export function unrecorded(
  operation: Operation,
  known: ReadonlyMap<string, GrantRecord>,
): Violation[] {
  const { answer, repliedAtMs: atMs } = operation;
  const lacks = (what: string): Violation[] => [
    { invariant: 'I13', atMs, text: `${operation.resource}: ${what} (${operation.id})` },
  ];
  if (answer.outcome === 'granted' || answer.outcome === 'connected') {
    const token = known.get(answer.leaseId)?.granted.token;
    return token === answer.token ? [] : lacks(`no event of the grant of ${answer.token}`);
  }
  if (
    operation.kind === 'release' &&
    answer.outcome === 'answered' &&
    answer.report === 'released'
  ) {
    const isRecorded = known.get(operation.leaseId)?.ends.some(({ kind }) => kind === 'released');
    return isRecorded === true ? [] : lacks(`no event of the release of ${operation.token}`);
  }
  return [];
}
