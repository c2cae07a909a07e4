import { createHash } from 'node:crypto';
import { addGrant, noteFact, revokedBy, type Subject } from './grants.ts';
import { msOf, table, words } from './table.ts';
import type { World } from './world.ts';

/** Of a drone, the name is the drone's. `namespaces`: all, unless some are named. */
const TOKENS = table(
  ['name', 'role', 'age', 'used', 'namespaces', 'expires', 'revoked'],
  `
  room-gateway      | client   | 41d | 2s  | boards
  document-api      | client   | 40d | 9s  | documents.sync
  billing-worker    | client   | 40d | 4s  | billing
  payout-service    | client   | 38d | 3s  | billing.payouts
  search-indexer    | client   | 33d | 6s  | search
  ci-deploy         | client   | 33d | 5m  | shop payments search | 57d
  grafana           | viewer   | 31d | 11s |
  oncall-scripts    | operator | 12d | 27h |                      | 18d
  drone-fra-2       | drone    | 40d | 1s  |
  drone-fra-3       | drone    | 40d | 1s  |
  drone-ams-1       | drone    | 22d | 2s  |
  load-test-2026-10 | client   | 47d | 26d |                      |     | 20d`,
);

/** Puts the company's API tokens into the world. Nobody has their secrets. */
export function addTokens(world: World): void {
  for (const { name, role, age, used, namespaces, expires, revoked } of TOKENS) {
    world.add('api_token', {
      id: world.chance.uuid(),
      name,
      secret_hash: createHash('sha256').update(world.chance.code(32)).digest('hex'),
      role,
      namespaces: words(namespaces),
      drone_id: role === 'drone' ? name : null,
      created_by: 'ada.okafor@example.com',
      created_at: world.ago(msOf(age)),
      expires_at: expires === '' ? null : world.ago(-msOf(expires)),
      revoked_at: revoked === '' ? null : world.ago(msOf(revoked)),
      last_used_at: world.ago(msOf(used)),
    });
  }
}

const PEOPLE: Readonly<Record<string, { actor: string; role: string; source: string }>> = {
  omar: { actor: 'omar.haddad@example.com', role: 'operator', source: '10.8.0.23' },
  ada: { actor: 'ada.okafor@example.com', role: 'admin', source: '10.8.0.7' },
  script: { actor: 'oncall-scripts', role: 'operator', source: '10.20.0.40' },
};

/**
 * `on` is a resource, or the face, namespace and name of a grant. `held`: for how long the grant that it
 * ended had been held; its history shows both.
 */
const ACTS = table(
  ['ago', 'by', 'action', 'on', 'mode', 'role', 'held', 'reason'],
  `
  6s   | omar   | keys.revoke         | key boards.us fraud-rules             | force    | | | Does not answer, customer waits. OPS-2240
  3m   | omar   | keys.blockRenewal   | key boards.guest guest-lobby          |          | | | Runs an old image
  9m   | omar   | drones.drain        | drone:drone-ams-1                     |          | | | Kernel update, OPS-2231
  22m  | script | leases.revoke       | lease search.reindex shard-11         | graceful | | | Indexer of an old release still held the shard
  48m  | ada    | environments.revoke | environment shop demo                 | graceful | | | Pipeline hung, runner was replaced
  3h   | ada    | drones.markLost     | drone:drone-lon-1                     |          | | | Host does not come back, ticket with the data centre
  5h   | omar   | backends.terminate  | backend:bk-7hq2mfn4r8tz3c             |          | | | Uses 40 GB of memory
  7h   | omar   | keys.allowRenewal   | key documents.sync pricing-2027       |          | | | False alarm
  7.1h | omar   | keys.blockRenewal   | key documents.sync pricing-2027       |          | | | Looks stuck
  13h  | omar   | leases.revoke       | lease billing.payouts settlement-uk   | force    | | 26m | Two settlement files for one value date, FIN-881
  20h  | ada    | tokens.revoke       | token:load-test-2026-10               |          | | | Load test is over
  27h  | omar   | drones.undrain      | drone:drone-fra-3                     |          | | | Memory replaced
  31h  | omar   | drones.drain        | drone:drone-fra-3                     |          | | | ECC errors, OPS-2202
  50h  | ada    | people.setRole      | person:omar.haddad@example.com        |          | operator | | On call from this week
  12d  | ada    | tokens.create       | token:oncall-scripts                  |          | operator | |`,
);

const HELD_BY = {
  holder: 'payout-service@pay-k3x1d:41',
  principal: 'token:payout-service',
  actor: 'payout-service',
};

/** Puts what operators did into the world. */
export function addAudit(world: World): void {
  for (const { ago, by: name, action, on, mode, role, held, reason } of ACTS) {
    const subject = subjectOf(on);
    const leaseId = subject === undefined ? '' : world.chance.uuid();
    const by = PEOPLE[name];
    const detail = {
      ...(mode === '' ? {} : { mode }),
      ...(role === '' ? {} : { role }),
      ...subject,
    };
    world.add('audit', {
      at: world.ago(msOf(ago)),
      ...by,
      action,
      resource: subject === undefined ? on : `lease:${leaseId}`,
      reason: reason === '' ? null : reason,
      detail: Object.keys(detail).length === 0 ? null : detail,
    });
    if (subject === undefined || held === '') continue;
    const grant = addGrant(world, subject, HELD_BY, msOf(ago) + msOf(held), { leaseId });
    const how = { mode, abandon: false };
    noteFact(world, grant, revokedBy(by?.actor ?? '', msOf(ago), reason, how));
  }
}

function subjectOf(on: string): Subject | undefined {
  const [face, namespace, name] = words(on);
  if (namespace === undefined || name === undefined) return undefined;
  return { face: face as Subject['face'], namespace, name };
}
