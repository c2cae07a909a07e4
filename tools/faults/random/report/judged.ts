/** When what an invariant speaks of happened: so often it was judged. */
import { everRecorded } from '../checks/eras.ts';
import { grantsOf } from '../checks/grants.ts';
import type { History, Invariant } from '../history.ts';

export const INVARIANTS: readonly Invariant[] = [
  'I1',
  'I2',
  'I3',
  'I4',
  'I5',
  'I6',
  'I7',
  'I8',
  'I9',
  'I10',
  'I11',
  'I12',
  'I13',
  'I14',
  'I15',
  'I16',
];

export function judgedTimes(history: History): Record<Invariant, number[]> {
  const { operations, holds, tickets, testimony } = history;
  const events = everRecorded(history);
  const grants = grantsOf(events);
  const waited = new Set(tickets.map(({ ticketId }) => ticketId));
  const grantTimes = grants.map(({ granted }) => granted.atMs);
  const eventTimes = events.map(({ atMs }) => atMs);
  const timesOf = (kind: string): number[] =>
    operations.filter((one) => one.kind === kind).map(({ calledAtMs }) => calledAtMs);
  const seenHolders = new Set<string>();
  const replays = operations.flatMap((one) => {
    if (one.kind !== 'acquire') return [];
    if (seenHolders.has(one.holder)) return [one.calledAtMs];
    seenHolders.add(one.holder);
    return [];
  });
  const writers = new Set(history.writes.map(({ token }) => token));
  return {
    I1: grantTimes,
    I2: grantTimes,
    I3: grants
      .filter(({ granted }) => writers.has(granted.token))
      .map(({ granted }) => granted.atMs),
    I4: holds.filter(({ end }) => end === 'lost').map(({ untilMs }) => untilMs),
    I5: grants
      .filter(({ granted }) => granted.kind === 'taken_over')
      .map((one) => one.granted.atMs),
    I6: timesOf('renew'),
    I7: replays,
    I8: [...timesOf('renew'), ...timesOf('acquire')],
    I9: grants.filter(({ granted }) => waited.has(granted.leaseId)).map((one) => one.granted.atMs),
    I10: grants.filter(({ granted }) => waited.has(granted.leaseId)).map((one) => one.granted.atMs),
    I11: events.filter(({ kind }) => kind === 'expired').map(({ atMs }) => atMs),
    I12: eventTimes,
    I13: eventTimes,
    I14: history.homes.length > 0 ? timesOf('connect') : [],
    I15: timesOf('revoke'),
    I16: testimony.filter(({ kind }) => kind === 'start').map(({ atMs }) => atMs),
  };
}
