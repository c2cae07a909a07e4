/** What holds although the database was replaced by an older backup of itself. */
import { LOCAL, type CommittedEvent, type History, type Violation } from '../history.ts';
import { erasOf } from './eras.ts';
import { MAPPING_MS, promisedUntil, unrecorded } from './exclusion.ts';
import { grantsOf, groupedBy, type GrantRecord } from './grants.ts';

/** A database, the ones before it, and the grants that only it has made. */
interface Succession {
  readonly former: readonly GrantRecord[];
  readonly made: readonly GrantRecord[];
}

function successionsOf({ lost, events }: History): Succession[] {
  const databases = [...lost.map((one) => one.events), events].map(localGrants);
  return databases.slice(1).map((grants, index) => {
    const former = databases.slice(0, index + 1).flat();
    const known = new Set(former.map(({ granted }) => granted.leaseId));
    return { former, made: grants.filter(({ granted }) => !known.has(granted.leaseId)) };
  });
}

function localGrants(events: readonly CommittedEvent[]): GrantRecord[] {
  return grantsOf(events.filter(({ datacenter }) => datacenter === LOCAL));
}

/** I2: after a restore every token is larger than all that were granted before, those that were lost too. */
export function checkTokensAcross(history: History): Violation[] {
  return successionsOf(history).flatMap(({ former, made }) => {
    const byResource = groupedBy(former, ({ granted }) => granted.resource);
    return made.flatMap(({ granted, token }): Violation[] => {
      const larger = byResource.get(granted.resource)?.find((one) => one.token >= token);
      if (larger === undefined) return [];
      const text = `${granted.resource}: ${granted.token} after a restore, and ${larger.granted.token} before it`;
      return [{ invariant: 'I2', atMs: granted.atMs, text }];
    });
  });
}

/**
 * I1, I5: nothing is granted after a restore before everything is over that a holder was promised before it,
 * whether the restored database knows of it or not; unless that holder or an operator ended it.
 */
export function checkHoldOff(history: History): Violation[] {
  const promised = promisedUntil(history);
  return successionsOf(history).flatMap(({ former, made }) => {
    const byResource = groupedBy(former, ({ granted }) => granted.resource);
    return made.flatMap(({ granted }): Violation[] =>
      (byResource.get(granted.resource) ?? []).flatMap((one): Violation[] => {
        const isByItself = one.ends.some(({ kind }) => kind !== 'expired' && kind !== 'removed');
        const earlyMs = (promised.get(one.granted.leaseId) ?? -Infinity) - granted.atMs;
        if (isByItself || earlyMs <= MAPPING_MS) return [];
        const text = `${granted.resource}: after a restore ${granted.token} was granted ${earlyMs.toFixed(0)} ms before the end of ${one.granted.token}`;
        return [{ invariant: 'I1', atMs: granted.atMs, text }];
      }),
    );
  });
}

/** I13, I3: what was acknowledged before the backup was begun is there after it was put back. */
export function checkKept(history: History): Violation[] {
  const eras = erasOf(history);
  return history.lost.flatMap(({ backupFromMs }, place) => {
    const before = eras[place];
    const after = eras[place + 1];
    if (before === undefined || after === undefined) return [];
    const known = new Map(grantsOf(after.events).map((grant) => [grant.granted.leaseId, grant]));
    const sink = new Set(after.sink);
    const gone = before.writes.filter(
      ({ outcome, entry, knownAtMs }) =>
        outcome === 'accepted' && knownAtMs < backupFromMs && !sink.has(entry),
    );
    return [
      ...before.operations
        .filter(({ repliedAtMs }) => repliedAtMs < backupFromMs)
        .flatMap((operation) => unrecorded(operation, known)),
      ...gone.map(({ entry, knownAtMs }): Violation => {
        const text = `${entry} was acknowledged before a backup and is not in it`;
        return { invariant: 'I3', atMs: knownAtMs, text };
      }),
    ];
  });
}
