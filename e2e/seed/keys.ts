import { addBackend, type SeededDrone } from './fleet.ts';
import { grantColumns, grantOf, noteEnding, noteEvent, noteGrant, queueUp } from './grants.ts';
import type { Grant, Subject } from './grants.ts';
import { KINDS, NUMBERED, type Kind } from './key-kinds.ts';
import { DAY_MS, HOUR_MS, KEY_LADDER, MINUTE_MS, SECOND_MS, type World } from './world.ts';

const NUMBERED_COUNT = 170;
const CLIENTS = ['room-gateway', 'web-shop', 'document-api', 'ci-runner'];

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
  const renewed: string[] = [];
  const blocked: string[] = [];
  const guests = Array.from(
    { length: NUMBERED_COUNT },
    () => `guest-${chance.code(4)}-${String(chance.int(1_000, 9_999))}`,
  );
  const kinds = [...KINDS, { ...NUMBERED, names: guests }];
  let count = 0;
  for (const kind of kinds) {
    for (const name of kind.names) {
      const able = drones.filter(({ programs }) => programs.includes(kind.program));
      const well = able.filter(({ state }) => state === 'ready');
      const drone = chance.pick(well.length > 0 && chance.happens(0.85) ? well : able);
      const made = addKey(world, { kind, name, drone, datacenter });
      if (made.becomes === 'held') renewed.push(made.leaseId);
      if (made.becomes === 'blocked') blocked.push(made.leaseId);
      count += 1;
    }
  }
  const busy: Subject = { face: 'key', namespace: 'boards.eu', name: 'q4-roadmap' };
  queueUp(world, busy, [
    { waiter: 'room-gateway@gw-7d9c:1', principal: 'token:room-gateway', agoMs: 5_200 },
    { waiter: 'room-gateway@gw-41fa:1', principal: 'token:room-gateway', agoMs: 2_900 },
  ]);
  return { busy, count, renewedLeaseIds: renewed, blockedLeaseIds: blocked };
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
  const isFirst = of.name === 'q4-roadmap';
  const becomes = isFirst ? 'held' : fateOn(world, of.drone);
  const grantedAgoMs = isFirst
    ? 47 * MINUTE_MS
    : chance.int(1, becomes === 'starting' ? 3 : 9_000) * SECOND_MS + 70 * SECOND_MS;
  addPast(world, { ...of, subject, grantedAgoMs, count: isFirst ? 5 : chance.int(0, 3) });
  const by = { holder: of.drone.droneId, principal: of.drone.droneId, actor: chance.pick(CLIENTS) };
  const grant = grantOf(world, by, becomes === 'starting' ? 2 * SECOND_MS : grantedAgoMs);
  noteGrant(world, subject, grant);
  addPresent(world, { ...of, subject, grant, becomes });
  return { becomes, leaseId: grant.leaseId };
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

interface Present extends NewKey {
  readonly subject: Subject;
  readonly grant: Grant;
  readonly becomes: Becomes;
}

function addPresent(world: World, of: Present): void {
  const { chance } = world;
  const { subject, grant, becomes } = of;
  const tag = chance.pick(of.kind.tags);
  const isOver = becomes === 'expired' || becomes === 'free';
  const endedAgoMs = isOver ? chance.int(20, 60) * SECOND_MS : 0;
  const renewedAgoMs = renewedAgo(world, becomes, { endedAgoMs, grantedAgoMs: grant.grantedAgoMs });
  world.leases.push({
    ...grantColumns(world, subject, grant),
    tag,
    comment: null,
    metadata: null,
    ...KEY_LADDER,
    renewed_at: world.ago(renewedAgoMs),
    expires_at: world.ago(renewedAgoMs - KEY_LADDER.ttl_ms),
    renewable: becomes !== 'blocked' && becomes !== 'revoked',
    released_at: becomes === 'free' ? world.ago(endedAgoMs) : null,
    end_reason:
      { expired: 'expired', free: 'released', revoked: 'revoked' }[becomes as string] ?? null,
    stops_by: becomes === 'revoked' ? world.ago(renewedAgoMs - KEY_LADDER.ttl_ms) : null,
  });
  noteFate(world, of, endedAgoMs);
  addPresentBackend(world, of, { tag, endedAgoMs });
}

/** Records the event that brought the key into its state. */
function noteFate(
  world: World,
  { subject, grant, becomes, drone }: Present,
  endedAgoMs: number,
): void {
  const operator = 'omar.haddad@example.com';
  if (becomes === 'blocked') {
    noteEvent(world, subject, grant, {
      kind: 'renewal_blocked',
      agoMs: 9 * SECOND_MS,
      actor: operator,
      reason:
        drone.state === 'draining' ? 'Kernel update of drone-ams-1, OPS-2231' : 'Runs an old image',
    });
  }
  if (becomes === 'revoked') {
    noteEnding(world, subject, grant, {
      kind: 'revoked',
      agoMs: 6 * SECOND_MS,
      actor: operator,
      reason: 'Does not answer, customer waits. OPS-2240',
      detail: { mode: 'force', abandon: false },
    });
  }
  if (becomes === 'free' || becomes === 'expired') {
    const kind = becomes === 'free' ? 'released' : 'expired';
    const actor = becomes === 'free' ? `drone:${drone.droneId}` : 'leasehold';
    noteEnding(world, subject, grant, { kind, agoMs: endedAgoMs, actor });
  }
}

function renewedAgo(
  world: World,
  becomes: Becomes,
  { endedAgoMs, grantedAgoMs }: { endedAgoMs: number; grantedAgoMs: number },
): number {
  if (becomes === 'expired') return Math.min(grantedAgoMs, endedAgoMs + KEY_LADDER.ttl_ms);
  if (becomes === 'free') return Math.min(grantedAgoMs, endedAgoMs + 12 * SECOND_MS);
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

function addPresentBackend(
  world: World,
  of: Present,
  { tag, endedAgoMs }: { tag: string; endedAgoMs: number },
): void {
  const status = STATUS_OF[of.becomes];
  const end =
    status === 'terminated'
      ? {
          reason:
            of.becomes === 'expired' ? 'key_expired' : world.chance.pick(['exited', 'external']),
          exitCode: of.becomes === 'expired' ? null : 0,
          agoMs: endedAgoMs,
        }
      : of.becomes === 'revoked'
        ? { reason: 'revoked', exitCode: null, agoMs: 3 * SECOND_MS }
        : undefined;
  addBackend(world, {
    drone: of.drone,
    datacenter: of.datacenter,
    program: of.kind.program,
    key: { namespace: of.subject.namespace, name: of.subject.name, tag },
    grant: of.grant,
    startedAgoMs: of.grant.grantedAgoMs,
    status,
    end,
  });
}

/** Grants that came before, with a little time between each. */
function addPast(
  world: World,
  of: NewKey & {
    readonly subject: Subject;
    readonly grantedAgoMs: number;
    readonly count: number;
  },
): void {
  const { chance } = world;
  let endAgoMs = of.grantedAgoMs;
  for (let index = 0; index < of.count && endAgoMs < 3 * DAY_MS; index += 1) {
    endAgoMs += chance.int(2, 40) * SECOND_MS;
    const beganAgoMs = endAgoMs + chance.int(6, 180) * MINUTE_MS + chance.int(0, 1) * HOUR_MS;
    const { droneId } = of.drone;
    const grant = grantOf(
      world,
      { holder: droneId, principal: droneId, actor: chance.pick(CLIENTS) },
      beganAgoMs,
    );
    noteGrant(world, of.subject, grant);
    noteEnding(world, of.subject, grant, pastEnding(world, droneId, endAgoMs));
    endAgoMs = beganAgoMs;
  }
}

function pastEnding(
  world: World,
  droneId: string,
  agoMs: number,
): Parameters<typeof noteEnding>[3] {
  const roll = world.chance.int(1, 10);
  if (roll <= 7) return { kind: 'released', agoMs, actor: `drone:${droneId}` };
  if (roll <= 9) return { kind: 'expired', agoMs, actor: 'leasehold' };
  return {
    kind: 'revoked',
    agoMs,
    actor: 'ada.okafor@example.com',
    reason: 'Moved to a machine with more memory',
    detail: { mode: 'graceful', abandon: false },
  };
}
