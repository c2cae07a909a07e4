import { addGrant, addLeaseRow, ladderOf, noteFact, revokedBy, type Subject } from './grants.ts';
import { grouped, msOf, table } from './table.ts';
import { HOUR_MS, MINUTE_MS, type World } from './world.ts';

/** The uses of each environment, the latest first; one with `since` is under way. */
const USES = table(
  ['namespace', 'name', 'since', 'action', 'by', 'comment'],
  `
  shop     | production | 6.5m | deploy      | ci-deploy@runner-14   | 6.2.1 to all regions, change CHG-4471
  shop     | production |      | deploy      | ci-deploy@runner-09   | 6.2.0, change CHG-4466
  shop     | production |      | restore     | mei.tanaka@laptop     | Restore drill, OPS-2190
  shop     | production |      | deploy      | ci-deploy@runner-11   | 6.1.9 hotfix of checkout totals
  shop     | staging    | 74m  | load-test   | jonas.weber@laptop    | Black Friday rehearsal, until noon
  shop     | staging    |      | deploy      | ci-deploy@runner-02   | 6.2.1-rc3
  shop     | staging    |      | deploy      | ci-deploy@runner-02   | 6.2.1-rc2
  shop     | demo       |      | deploy      | ci-deploy@runner-05   | Sales demo, contoso
  payments | production | 21m  | rotate-keys | priya.raman@bastion-2 | Yearly rotation of bank certificates
  payments | production |      | deploy      | ci-deploy@runner-21   | ledger 3.18.0
  payments | production |      | deploy      | ci-deploy@runner-20   | ledger 3.17.4
  payments | staging    |      | deploy      | ci-deploy@runner-21   | ledger 3.18.0-rc1
  search   | production |      | reindex     | search-indexer@idx-1  | Mapping v19
  search   | staging    | 12m  | reindex     | search-indexer@idx-4  | Mapping v20, first try
  search   | staging    |      | deploy      | ci-deploy@runner-07   | search 2.9.0
  perf     | lab-1      |      | benchmark   | nightly@bench-1       | Nightly
  perf     | lab-2      | 133m | benchmark   | nightly@bench-2       | PostgreSQL 18.1 against 17.6`,
);
type Use = (typeof USES)[number];

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
  const environments = grouped(USES, ({ namespace, name }) => `${namespace} ${name}`);
  for (const uses of environments.values()) {
    const present = uses.find(({ since }) => since !== '');
    let endAgoMs = present === undefined ? 3 * HOUR_MS : msOf(present.since);
    for (const [index, use] of uses.filter((one) => one !== present).entries()) {
      endAgoMs += world.chance.int(20, 300) * MINUTE_MS;
      const beganAgoMs = endAgoMs + world.chance.int(4, 40) * MINUTE_MS;
      const hasRow = present === undefined && index === 0;
      addUse(world, use, { beganAgoMs, endAgoMs, hasRow });
      endAgoMs = beganAgoMs;
    }
    if (present === undefined) continue;
    const beganAgoMs = msOf(present.since);
    renewed.push(addUse(world, present, { beganAgoMs, endAgoMs: null, hasRow: true }));
  }
  return {
    production: { face: 'environment', namespace: 'shop', name: 'production' },
    count: environments.size,
    renewedLeaseIds: renewed,
  };
}

function addUse(
  world: World,
  { namespace, name, action, by: holder, comment }: Use,
  of: { beganAgoMs: number; endAgoMs: number | null; hasRow: boolean },
): string {
  const { beganAgoMs, endAgoMs } = of;
  const subject: Subject = { face: 'environment', namespace, name };
  const by = { holder, principal: `token:${ACTOR}`, actor: ACTOR };
  const grant = addGrant(world, subject, by, beganAgoMs, { detail: { action, comment } });
  if (endAgoMs !== null) {
    const ending = world.chance.happens(0.15)
      ? revokedBy('ada.okafor@example.com', endAgoMs, 'Pipeline hung, runner was replaced')
      : { kind: 'released', agoMs: endAgoMs, actor: ACTOR };
    noteFact(world, grant, ending);
  }
  if (!of.hasRow) return grant.leaseId;
  const renewedAgoMs = endAgoMs ?? world.chance.int(0, TTL_MS / 3);
  const metadata = { pipeline: world.chance.int(41_000, 42_000) };
  addLeaseRow(world, grant, {
    ladder: ladderOf(TTL_MS),
    renewedAgoMs,
    more: {
      tag: action,
      comment,
      metadata,
      released_at: endAgoMs === null ? null : world.ago(endAgoMs),
      end_reason: endAgoMs === null ? null : 'released',
    },
  });
  return grant.leaseId;
}
