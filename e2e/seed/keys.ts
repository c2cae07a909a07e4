import { addBackend, type SeededDrone } from './fleet.ts';
import { addGrant, addLeaseRow, noteFact, queueUp, revokedBy } from './grants.ts';
import type { By, Fact, Grant, Subject } from './grants.ts';
import { KINDS, NUMBERED, type Kind } from './key-kinds.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, type World } from './world.ts';

const NUMBERED_COUNT = 170;
const CLIENTS = ['room-gateway', 'web-shop', 'document-api', 'ci-runner'];
const OPERATOR = 'omar.haddad@example.com';
const BUSY: Subject = { face: 'key', namespace: 'boards.eu', name: 'q4-roadmap' };
/** How long the standard ladder of keys is. */
const KEY_LADDER = {
  renew_after_ms: 30_000,
  soft_after_ms: 40_000,
  hard_after_ms: 50_000,
  ttl_ms: 60_000,
};

/** What tests and pictures want to find again. */
export interface SeededKeys {
  /** Held, with grants before it, waiters and a backend. */
  readonly busy: Subject;
  readonly count: number;
  /** Grants that a drone would renew, and those that nobody may. */
  readonly renewedLeaseIds: readonly string[];
  readonly blockedLeaseIds: readonly string[];
}

/** Puts about 250 keys in every phase into the world, with the backends and the history they have. */
export function addKeys(
  world: World,
  drones: readonly SeededDrone[],
  datacenter: string,
): SeededKeys {
  const { chance } = world;
  const made: { becomes: Becomes; leaseId: string }[] = [];
  const guests = Array.from(
    { length: NUMBERED_COUNT },
    () => `guest-${chance.code(4)}-${String(chance.int(1_000, 9_999))}`,
  );
  for (const kind of [...KINDS, { ...NUMBERED, names: guests }]) {
    for (const name of kind.names) {
      const able = drones.filter(({ programs }) => programs.includes(kind.program));
      const well = able.filter(({ state }) => state === 'ready');
      const drone = chance.pick(well.length > 0 && chance.happens(0.85) ? well : able);
      made.push(addKey(world, { kind, name, drone, datacenter }));
    }
  }
  const principal = 'token:room-gateway';
  queueUp(world, BUSY, { waiter: 'room-gateway@gw-7d9c:1', principal, agoMs: 5_200 });
  queueUp(world, BUSY, { waiter: 'room-gateway@gw-41fa:1', principal, agoMs: 2_900 });
  const idsOf = (fate: Becomes): string[] =>
    made.filter(({ becomes }) => becomes === fate).map(({ leaseId }) => leaseId);
  return {
    busy: BUSY,
    count: made.length,
    renewedLeaseIds: idsOf('held'),
    blockedLeaseIds: idsOf('blocked'),
  };
}

type Becomes = 'held' | 'starting' | 'blocked' | 'revoked' | 'expired' | 'free';

interface NewKey {
  readonly kind: Kind;
  readonly name: string;
  readonly drone: SeededDrone;
  readonly datacenter: string;
}

function addKey(world: World, of: NewKey): { becomes: Becomes; leaseId: string } {
  const { chance } = world;
  const subject: Subject = { face: 'key', namespace: of.kind.namespace, name: of.name };
  const isFirst = of.name === BUSY.name;
  const becomes = isFirst ? 'held' : fateOn(world, of.drone);
  const grantedAgoMs = isFirst
    ? 47 * MINUTE_MS
    : chance.int(1, becomes === 'starting' ? 3 : 9_000) * SECOND_MS + 70 * SECOND_MS;
  addPast(world, of.drone, { subject, grantedAgoMs, count: isFirst ? 5 : chance.int(0, 3) });
  const agoMs = becomes === 'starting' ? 2 * SECOND_MS : grantedAgoMs;
  const grant = addGrant(world, subject, byOf(world, of.drone), agoMs);
  addPresent(world, of, { grant, becomes });
  return { becomes, leaseId: grant.leaseId };
}

function byOf(world: World, { droneId }: SeededDrone): By {
  return { holder: droneId, principal: droneId, actor: world.chance.pick(CLIENTS) };
}

/** A silent machine's keys have run out, or are about to; a lost one has none. */
function fateOn(world: World, drone: SeededDrone): Becomes {
  const { chance } = world;
  if (drone.state === 'silent') return 'expired';
  if (drone.state === 'lost') return chance.pick(['free', 'expired']);
  if (drone.state === 'draining') return chance.pick(['held', 'blocked', 'free']);
  const roll = chance.int(1, 100);
  if (roll <= 74) return 'held';
  if (roll <= 76) return 'starting';
  if (roll <= 78) return 'blocked';
  if (roll <= 80) return 'revoked';
  return roll <= 83 ? 'expired' : 'free';
}

function addPresent(
  world: World,
  { kind, drone, datacenter, name }: NewKey,
  { grant, becomes }: { grant: Grant; becomes: Becomes },
): void {
  const { chance } = world;
  const tag = chance.pick(kind.tags);
  const isOver = becomes === 'expired' || becomes === 'free';
  const endedAgoMs = isOver ? chance.int(20, 60) * SECOND_MS : 0;
  const renewedAgoMs = Math.min(renewedAgo(world, becomes, endedAgoMs), grant.grantedAgoMs);
  addLeaseRow(world, grant, {
    ladder: KEY_LADDER,
    renewedAgoMs,
    more: {
      tag,
      renewable: becomes !== 'blocked' && becomes !== 'revoked',
      released_at: becomes === 'free' ? world.ago(endedAgoMs) : null,
      end_reason:
        { expired: 'expired', free: 'released', revoked: 'revoked' }[becomes as string] ?? null,
      stops_by: becomes === 'revoked' ? world.ago(renewedAgoMs - KEY_LADDER.ttl_ms) : null,
    },
  });
  const fact = factOf(becomes, drone, endedAgoMs);
  if (fact !== undefined) noteFact(world, grant, fact);
  addBackend(world, {
    drone,
    datacenter,
    program: kind.program,
    grant,
    startedAgoMs: grant.grantedAgoMs,
    key: { namespace: kind.namespace, name, tag },
    status: STATUS_OF[becomes],
    end: endOf(world, becomes, endedAgoMs),
  });
}

/** The event that brought a key into its state. */
function factOf(becomes: Becomes, drone: SeededDrone, agoMs: number): Fact | undefined {
  if (becomes === 'free') return { kind: 'released', agoMs, actor: `drone:${drone.droneId}` };
  if (becomes === 'expired') return { kind: 'expired', agoMs, actor: 'leasehold' };
  if (becomes === 'blocked') {
    const isDraining = drone.state === 'draining';
    const reason = isDraining ? 'Kernel update of drone-ams-1, OPS-2231' : 'Runs an old image';
    return { kind: 'renewal_blocked', agoMs: 9 * SECOND_MS, actor: OPERATOR, reason };
  }
  if (becomes !== 'revoked') return undefined;
  const reason = 'Does not answer, customer waits. OPS-2240';
  return revokedBy(OPERATOR, 6 * SECOND_MS, reason, { mode: 'force', abandon: false });
}

function renewedAgo(world: World, becomes: Becomes, endedAgoMs: number): number {
  if (becomes === 'expired') return endedAgoMs + KEY_LADDER.ttl_ms;
  if (becomes === 'free') return endedAgoMs + 12 * SECOND_MS;
  if (becomes === 'starting') return 2 * SECOND_MS;
  const [from, to] = becomes === 'held' ? [0, 29_000] : [31_000, 44_000];
  return world.chance.int(from, to);
}

const STATUS_OF: Readonly<Record<Becomes, string>> = {
  held: 'ready',
  starting: 'starting',
  blocked: 'ready',
  revoked: 'terminating',
  expired: 'terminated',
  free: 'terminated',
};

function endOf(
  world: World,
  becomes: Becomes,
  agoMs: number,
): Parameters<typeof addBackend>[1]['end'] {
  if (becomes === 'expired') return { reason: 'key_expired', exitCode: null, agoMs };
  if (becomes === 'revoked') return { reason: 'revoked', exitCode: null, agoMs: 3 * SECOND_MS };
  if (becomes !== 'free') return undefined;
  return { reason: world.chance.pick(['exited', 'external']), exitCode: 0, agoMs };
}

/** Grants that came before, with a little time between each. */
function addPast(
  world: World,
  drone: SeededDrone,
  of: { readonly subject: Subject; readonly grantedAgoMs: number; readonly count: number },
): void {
  const { chance } = world;
  let endAgoMs = of.grantedAgoMs;
  for (let index = 0; index < of.count && endAgoMs < 3 * DAY_MS; index += 1) {
    endAgoMs += chance.int(2, 40) * SECOND_MS;
    const beganAgoMs = endAgoMs + chance.int(6, 180) * MINUTE_MS + chance.int(0, 1) * HOUR_MS;
    const grant = addGrant(world, of.subject, byOf(world, drone), beganAgoMs);
    noteFact(world, grant, pastEnding(world, drone, endAgoMs));
    endAgoMs = beganAgoMs;
  }
}

function pastEnding(world: World, { droneId }: SeededDrone, agoMs: number): Fact {
  const roll = world.chance.int(1, 10);
  if (roll <= 7) return { kind: 'released', agoMs, actor: `drone:${droneId}` };
  if (roll <= 9) return { kind: 'expired', agoMs, actor: 'leasehold' };
  const reason = 'Moved to a machine with more memory';
  return revokedBy('ada.okafor@example.com', agoMs, reason, { mode: 'graceful', abandon: false });
}
