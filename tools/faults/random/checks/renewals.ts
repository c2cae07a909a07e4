/** What renewals and replays may change. */
import type { Acquire, History, Promised, Violation } from '../history.ts';
import { isStepped } from './clock-steps.ts';
import { isPromise, MAPPING_MS } from './exclusion.ts';
import { grantsOf, groupedBy } from './grants.ts';

/** I6: an expiry never becomes earlier. Force moves it, which ends the grant. */
export function checkPromises({ promises, events, steps }: History): Violation[] {
  const forced = new Set(
    events.filter(({ kind }) => kind === 'revoked').map(({ leaseId }) => leaseId),
  );
  return [...groupedBy(promises, ({ leaseId }) => leaseId)].flatMap(([leaseId, seen]) =>
    seen.slice(1).flatMap((promised, index) => {
      const former = seen[index] as Promised;
      const shorterMs = former.expiresAtMs - promised.expiresAtMs;
      if (shorterMs <= MAPPING_MS || forced.has(leaseId)) return [];
      if (isStepped(steps, former.seenAtMs, promised.seenAtMs)) return [];
      const text = `${leaseId} was shortened by ${shorterMs.toFixed(0)} ms`;
      return [{ invariant: 'I6' as const, atMs: promised.seenAtMs, text }];
    }),
  );
}

/** I6: a renewal succeeds only for a grant that had not ended before it was asked for, with its token. */
export function checkRenewals({ operations, events }: History): Violation[] {
  const grants = new Map(grantsOf(events).map((grant) => [grant.granted.leaseId, grant]));
  return operations.flatMap((operation): Violation[] => {
    if (operation.kind !== 'renew' || operation.answer.outcome !== 'renewed') return [];
    const grant = grants.get(operation.leaseId);
    const atMs = operation.repliedAtMs;
    const name = `${operation.resource} ${operation.token}`;
    if (grant?.granted.token !== operation.token) {
      return [
        { invariant: 'I6', atMs, text: `${name} was renewed with a token that it never had` },
      ];
    }
    const ended = grant.ends.find((end) => end.atMs < operation.calledAtMs - MAPPING_MS);
    if (ended === undefined) return [];
    return [{ invariant: 'I6', atMs, text: `${name} was renewed after it was ${ended.kind}` }];
  });
}

/**
 * I8: whatever order replies come in, none names a deadline that the database never promised. A promise
 * is judged only if the observer has read it.
 */
export function checkDeadlines({ operations, promises, steps, beganAtMs }: History): Violation[] {
  const byLease = groupedBy(promises, ({ leaseId }) => leaseId);
  return operations.flatMap((operation): Violation[] => {
    const told = deadlineOf(operation);
    const seen = byLease.get(told?.leaseId ?? '');
    if (told === undefined || seen === undefined) return [];
    const isRead = seen.some(({ seenAtMs }) => seenAtMs >= operation.repliedAtMs);
    const latestMs = Math.max(beganAtMs, ...seen.map(({ expiresAtMs }) => expiresAtMs));
    const lateMs = told.loseAtMs - latestMs;
    if (!isRead || lateMs <= MAPPING_MS) return [];
    if (isStepped(steps, operation.calledAtMs, told.loseAtMs)) return [];
    const text = `${operation.resource}: a reply names a deadline ${lateMs.toFixed(0)} ms after every expiry`;
    return [{ invariant: 'I8', atMs: operation.repliedAtMs, text }];
  });
}

function deadlineOf(operation: History['operations'][number]) {
  const { answer } = operation;
  if (answer.outcome === 'granted') return isPromise(operation) ? answer : undefined;
  if (operation.kind !== 'renew' || answer.outcome !== 'renewed') return undefined;
  return { leaseId: operation.leaseId, loseAtMs: answer.loseAtMs };
}

/** I7: one request, one grant, one answer, however often it arrives. */
export function checkReplays({ operations, events }: History): Violation[] {
  const violations: Violation[] = [];
  const requests = operations.filter((one): one is Acquire => one.kind === 'acquire');
  const holders = new Set(requests.map(({ holder }) => holder));
  const grants = grantsOf(events).filter(({ granted }) => holders.has(granted.holder));
  for (const [holder, made] of groupedBy(grants, ({ granted }) => granted.holder)) {
    const [, second] = made;
    if (second === undefined) continue;
    const text = `${second.granted.resource}: the request of ${holder} was granted ${String(made.length)} times`;
    violations.push({ invariant: 'I7', atMs: second.granted.atMs, text });
  }
  for (const [holder, same] of groupedBy(requests, (request) => request.holder)) {
    const tokens = new Set(
      same.flatMap(({ answer }) => (answer.outcome === 'granted' ? [answer.token] : [])),
    );
    if (tokens.size <= 1) continue;
    const atMs = same.at(-1)?.repliedAtMs ?? 0;
    const text = `the request of ${holder} was answered with ${[...tokens].join(' and ')}`;
    violations.push({ invariant: 'I7', atMs, text });
  }
  return violations;
}
