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

interface Environment {
  readonly namespace: string;
  readonly name: string;
  /** Null when it is free. */
  readonly now: (Use & { readonly sinceMs: number }) | null;
  readonly before: readonly Use[];
}

const deploy = (by: string, comment: string): Use => ({ action: 'deploy', by, comment });

const ENVIRONMENTS: readonly Environment[] = [
  {
    namespace: 'shop',
    name: 'production',
    now: {
      ...deploy('ci-deploy@runner-14', '6.2.1 to all regions, change CHG-4471'),
      sinceMs: 6.5 * MINUTE_MS,
    },
    before: [
      deploy('ci-deploy@runner-09', '6.2.0, change CHG-4466'),
      { action: 'restore', by: 'mei.tanaka@laptop', comment: 'Restore drill, OPS-2190' },
      deploy('ci-deploy@runner-11', '6.1.9 hotfix of checkout totals'),
    ],
  },
  {
    namespace: 'shop',
    name: 'staging',
    now: {
      action: 'load-test',
      by: 'jonas.weber@laptop',
      comment: 'Black Friday rehearsal, until noon',
      sinceMs: 74 * MINUTE_MS,
    },
    before: [
      deploy('ci-deploy@runner-02', '6.2.1-rc3'),
      deploy('ci-deploy@runner-02', '6.2.1-rc2'),
    ],
  },
  {
    namespace: 'shop',
    name: 'demo',
    now: null,
    before: [deploy('ci-deploy@runner-05', 'Sales demo, contoso')],
  },
  {
    namespace: 'payments',
    name: 'production',
    now: {
      action: 'rotate-keys',
      by: 'priya.raman@bastion-2',
      comment: 'Yearly rotation of bank certificates',
      sinceMs: 21 * MINUTE_MS,
    },
    before: [
      deploy('ci-deploy@runner-21', 'ledger 3.18.0'),
      deploy('ci-deploy@runner-20', 'ledger 3.17.4'),
    ],
  },
  {
    namespace: 'payments',
    name: 'staging',
    now: null,
    before: [deploy('ci-deploy@runner-21', 'ledger 3.18.0-rc1')],
  },
  {
    namespace: 'search',
    name: 'production',
    now: null,
    before: [{ action: 'reindex', by: 'search-indexer@idx-1', comment: 'Mapping v19' }],
  },
  {
    namespace: 'search',
    name: 'staging',
    now: {
      action: 'reindex',
      by: 'search-indexer@idx-4',
      comment: 'Mapping v20, first try',
      sinceMs: 12 * MINUTE_MS,
    },
    before: [deploy('ci-deploy@runner-07', 'search 2.9.0')],
  },
  {
    namespace: 'perf',
    name: 'lab-1',
    now: null,
    before: [{ action: 'benchmark', by: 'nightly@bench-1', comment: 'Nightly' }],
  },
  {
    namespace: 'perf',
    name: 'lab-2',
    now: {
      action: 'benchmark',
      by: 'nightly@bench-2',
      comment: 'PostgreSQL 18.1 against 17.6',
      sinceMs: 133 * MINUTE_MS,
    },
    before: [],
  },
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
  for (const environment of ENVIRONMENTS) {
    const subject: Subject = {
      face: 'environment',
      namespace: environment.namespace,
      name: environment.name,
    };
    let endAgoMs = environment.now?.sinceMs ?? 3 * HOUR_MS;
    for (const [index, use] of environment.before.entries()) {
      endAgoMs += world.chance.int(20, 300) * MINUTE_MS;
      const beganAgoMs = endAgoMs + world.chance.int(4, 40) * MINUTE_MS;
      const isLatest = environment.now === null && index === 0;
      addUse(world, subject, { use, beganAgoMs, endAgoMs, isRow: isLatest });
      endAgoMs = beganAgoMs;
    }
    if (environment.now !== null) {
      const beganAgoMs = environment.now.sinceMs;
      renewed.push(
        addUse(world, subject, { use: environment.now, beganAgoMs, endAgoMs: null, isRow: true }),
      );
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
