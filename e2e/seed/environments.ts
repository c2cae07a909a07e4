import { grantColumns, grantOf, noteEnding, noteGrant } from './grants.ts';
import type { Subject } from './grants.ts';
import { ladderOf } from './leases.ts';
import { HOUR_MS, MINUTE_MS, type World } from './world.ts';

/** One use of an environment. */
interface Use {
  readonly action: string;
  readonly by: string;
  readonly comment: string;
}

const deploy = (by: string, comment: string): Use => ({ action: 'deploy', by, comment });

const use = (action: string, by: string, comment: string): Use => ({ action, by, comment });

/** Namespace, name, for how long it has been in use, and its uses, the latest first. */
const ENVIRONMENTS: readonly (readonly [string, string, number | null, readonly Use[]])[] = [
  [
    ...(['shop', 'production', 6.5 * MINUTE_MS] as const),
    [
      deploy('ci-deploy@runner-14', '6.2.1 to all regions, change CHG-4471'),
      deploy('ci-deploy@runner-09', '6.2.0, change CHG-4466'),
      use('restore', 'mei.tanaka@laptop', 'Restore drill, OPS-2190'),
      deploy('ci-deploy@runner-11', '6.1.9 hotfix of checkout totals'),
    ],
  ],
  [
    ...(['shop', 'staging', 74 * MINUTE_MS] as const),
    [
      use('load-test', 'jonas.weber@laptop', 'Black Friday rehearsal, until noon'),
      deploy('ci-deploy@runner-02', '6.2.1-rc3'),
      deploy('ci-deploy@runner-02', '6.2.1-rc2'),
    ],
  ],
  ['shop', 'demo', null, [deploy('ci-deploy@runner-05', 'Sales demo, contoso')]],
  [
    ...(['payments', 'production', 21 * MINUTE_MS] as const),
    [
      use('rotate-keys', 'priya.raman@bastion-2', 'Yearly rotation of bank certificates'),
      deploy('ci-deploy@runner-21', 'ledger 3.18.0'),
      deploy('ci-deploy@runner-20', 'ledger 3.17.4'),
    ],
  ],
  ['payments', 'staging', null, [deploy('ci-deploy@runner-21', 'ledger 3.18.0-rc1')]],
  ['search', 'production', null, [use('reindex', 'search-indexer@idx-1', 'Mapping v19')]],
  [
    ...(['search', 'staging', 12 * MINUTE_MS] as const),
    [
      use('reindex', 'search-indexer@idx-4', 'Mapping v20, first try'),
      deploy('ci-deploy@runner-07', 'search 2.9.0'),
    ],
  ],
  ['perf', 'lab-1', null, [use('benchmark', 'nightly@bench-1', 'Nightly')]],
  [
    ...(['perf', 'lab-2', 133 * MINUTE_MS] as const),
    [use('benchmark', 'nightly@bench-2', 'PostgreSQL 18.1 against 17.6')],
  ],
];

const TTL_MS = 60_000;
const ACTOR = 'ci-deploy';

/** What tests and pictures want to find again. */
export interface SeededEnvironments {
  readonly production: Subject;
  readonly count: number;
  readonly renewedLeaseIds: readonly string[];
}

/** Puts environments into the world: some in use, some free, all with a history. */
export function addEnvironments(world: World): SeededEnvironments {
  const renewed: string[] = [];
  for (const [namespace, name, sinceMs, uses] of ENVIRONMENTS) {
    const subject: Subject = { face: 'environment', namespace, name };
    const [now, before] = sinceMs === null ? [undefined, uses] : [uses[0], uses.slice(1)];
    let endAgoMs = sinceMs ?? 3 * HOUR_MS;
    for (const [index, past] of before.entries()) {
      endAgoMs += world.chance.int(20, 300) * MINUTE_MS;
      const beganAgoMs = endAgoMs + world.chance.int(4, 40) * MINUTE_MS;
      const isRow = now === undefined && index === 0;
      addUse(world, subject, { use: past, beganAgoMs, endAgoMs, isRow });
      endAgoMs = beganAgoMs;
    }
    if (now !== undefined && sinceMs !== null) {
      const present = { use: now, beganAgoMs: sinceMs, endAgoMs: null, isRow: true };
      renewed.push(addUse(world, subject, present));
    }
  }
  return {
    production: { face: 'environment', namespace: 'shop', name: 'production' },
    count: ENVIRONMENTS.length,
    renewedLeaseIds: renewed,
  };
}

function addUse(
  world: World,
  subject: Subject,
  of: { use: Use; beganAgoMs: number; endAgoMs: number | null; isRow: boolean },
): string {
  const by = { holder: of.use.by, principal: `token:${ACTOR}`, actor: ACTOR };
  const grant = grantOf(world, by, of.beganAgoMs);
  const { action, comment } = of.use;
  noteGrant(world, subject, grant, { action, comment });
  if (of.endAgoMs !== null) {
    const isRevoked = world.chance.happens(0.15);
    noteEnding(world, subject, grant, {
      kind: isRevoked ? 'revoked' : 'released',
      agoMs: of.endAgoMs,
      actor: isRevoked ? 'ada.okafor@example.com' : ACTOR,
      reason: isRevoked ? 'Pipeline hung, runner was replaced' : undefined,
    });
  }
  if (of.isRow) {
    const renewedAgoMs = of.endAgoMs ?? world.chance.int(0, TTL_MS / 3);
    world.leases.push({
      ...grantColumns(world, subject, grant),
      tag: of.use.action,
      comment: of.use.comment,
      metadata: { pipeline: world.chance.int(41_000, 42_000) },
      ...ladderOf(TTL_MS),
      renewed_at: world.ago(renewedAgoMs),
      expires_at: world.ago(renewedAgoMs - TTL_MS),
      renewable: true,
      released_at: of.endAgoMs === null ? null : world.ago(of.endAgoMs),
      end_reason: of.endAgoMs === null ? null : 'released',
      stops_by: null,
    });
  }
  return grant.leaseId;
}
