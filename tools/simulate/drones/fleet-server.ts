/**
 * A controller and its database, as drones know them: sessions, heartbeats, the outbox, reports and
 * renewals, with the rules of `keys/sql` and `fleet/sql` on the oracle of the statements.
 */
import type {
  RenewInput,
  RenewResult,
  ReportInput,
} from '../../../apps/drone/src/agent/controller-link.ts';
import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import { statusRank, type BackendStatus } from '../../../libs/keys-core/src/kernel/backends.ts';
import type {
  DroneMessage,
  SpawnAction,
  TerminateAction,
} from '../../../libs/keys-core/src/kernel/drones.ts';
import { deadlinesFrom, KEY_LADDERS } from '../../../libs/keys-core/src/kernel/ladder.ts';
import type { Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import type { LeaseDatabase } from '../database/lease-database.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';

const LADDER = KEY_LADDERS.fast;
const HEARTBEAT_MS = 1_000;
/** Three heartbeats: a drone that has missed them is given nothing. */
const HEARTBEAT_FRESH_MS = 3_000;
const RESEND_MS = 1_000;
const WAKE_MS = 2;
/** The database's clock is never stepped here, so that every expiry is believed. */
const BELIEVED = { until: Infinity, watchedSince: 0, settledUntil: Infinity };

interface Drone {
  readonly clockId: string;
  readonly session: number;
  readonly tell: (message: DroneMessage) => void;
  heartbeat: { readonly localTimeMs: number; readonly at: number } | undefined;
}

interface Backend {
  readonly key: Resource;
  readonly droneId: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  status: BackendStatus;
}

type Payload = Omit<SpawnAction, 'session'> | Omit<TerminateAction, 'session'>;

interface Action {
  readonly droneId: string;
  readonly payload: Payload;
  isDone: boolean;
}

export interface SessionRef {
  readonly droneId: string;
  readonly clockId: string;
  readonly session: number;
}

export class FleetServer {
  readonly database: LeaseDatabase;
  readonly #world: World;
  readonly #random: Random;
  readonly #drones = new Map<string, Drone>();
  readonly #backends = new Map<string, Backend>();
  readonly #actions: Action[] = [];
  #count = 0;

  constructor(world: World, database: LeaseDatabase) {
    this.#world = world;
    this.database = database;
    this.#random = world.random.fork('fleet');
    this.#resend();
  }

  open(droneId: string, clockId: string, tell: (message: DroneMessage) => void): void {
    const former = this.#drones.get(droneId);
    const session = (former?.session ?? 0) + 1;
    // A reading of another clock says nothing about this one.
    const heartbeat = former?.clockId === clockId ? former.heartbeat : undefined;
    this.#drones.set(droneId, { clockId, session, tell, heartbeat });
    tell({ kind: 'session', session, heartbeatMs: HEARTBEAT_MS });
    this.#send(droneId);
  }

  heartbeat(ref: SessionRef, localTimeMs: number): void {
    this.#newest(ref).heartbeat = { localTimeMs, at: this.database.machine.wallMs() };
  }

  acknowledge(ref: SessionRef, actionId: string): void {
    this.#newest(ref);
    const action = this.#actions.find(({ payload }) => payload.actionId === actionId);
    if (action !== undefined) action.isDone = true;
  }

  renew({ droneId, localTimeMs, renewals }: RenewInput): RenewResult[] {
    return renewals.map(({ leaseId, fencingToken }) => {
      const ref = { leaseId, fencingToken, principal: droneId };
      const answer = this.database.renew('key', ref);
      if (answer.outcome === 'refused') return answer;
      const { ladder, remainingMs } = answer;
      return {
        leaseId,
        outcome: 'renewed',
        deadlines: deadlinesFrom(ladder, localTimeMs, remainingMs),
      };
    });
  }

  /** As `keys/sql/key-backend.ts`. */
  report(said: ReportInput): 'recorded' | 'ignored' | 'kill' {
    this.#newest(said);
    const backend = this.#backends.get(said.backendId);
    if (backend?.droneId !== said.droneId) throw new LeaseError('backend.not_found');
    if (backend.status === 'terminated' && said.status !== 'terminated') return 'kill';
    if (said.refused === true && backend.status !== 'scheduled') return 'ignored';
    this.#withdraw(said.backendId);
    if (said.status === 'terminated') this.#free(backend);
    if (statusRank(said.status) <= statusRank(backend.status)) return 'ignored';
    backend.status = said.status;
    return 'recorded';
  }

  /** Grants a key that is free and has a drone start a backend for it. */
  connect(key: Resource): void {
    if (this.database.isHeld(key)) return;
    const drones = [...this.#drones].filter(([, { heartbeat }]) => this.#isFresh(heartbeat));
    if (drones.length === 0) return;
    const [droneId, drone] = this.#random.pick(drones);
    const leaseId = this.#random.uuid();
    const common = { tag: '', comment: null, metadata: null, actor: 'caller', ladder: LADDER };
    const asked = { ...key, ...common, leaseId, holder: droneId, principal: droneId };
    const granting = this.database.grant(asked, BELIEVED);
    if (!('granted' in granting) || drone.heartbeat === undefined) return;
    for (const [id, { leaseId: ofId }] of this.#backends) {
      if (ofId === granting.previousId) this.#lost(id);
    }
    const { fencingToken } = granting.granted;
    const backendId = `bk-${String((this.#count += 1))}`;
    this.#backends.set(backendId, { key, droneId, leaseId, fencingToken, status: 'scheduled' });
    const { localTimeMs, at } = drone.heartbeat;
    const localMs = localTimeMs + (this.database.machine.wallMs() - at);
    this.#act(droneId, {
      kind: 'spawn',
      actionId: `act-${backendId}`,
      clockId: drone.clockId,
      backendId,
      program: 'room',
      args: [],
      env: {},
      key: { name: key.name, namespace: '', tag: '' },
      leaseId,
      fencingToken,
      ladder: LADDER,
      lifetimeLimitSeconds: null,
      deadlines: deadlinesFrom(LADDER, localMs, LADDER.ttlMs),
    });
  }

  /** An operator ends a key: its backend is told to stop, and nobody renews it. */
  revoke(key: Resource, mode: 'graceful' | 'force'): void {
    const leaseId = this.database.newestId(key);
    const found = [...this.#backends].find(([, backend]) => backend.leaseId === leaseId);
    if (leaseId === undefined || found === undefined) return;
    this.database.revoke(leaseId, mode);
    const [backendId, { droneId }] = found;
    const clockId = this.#drones.get(droneId)?.clockId ?? '';
    const actionId = `act-${String((this.#count += 1))}`;
    const stop = mode === 'force' ? 'hard' : 'soft';
    this.#act(droneId, {
      kind: 'terminate',
      actionId,
      clockId,
      backendId,
      mode: stop,
      reason: 'revoked',
    });
  }

  #newest({ droneId, clockId, session }: SessionRef): Drone {
    const drone = this.#drones.get(droneId);
    if (drone?.session === session && drone.clockId === clockId) return drone;
    throw new LeaseError('session.superseded');
  }

  #isFresh(heartbeat: Drone['heartbeat']): boolean {
    if (heartbeat === undefined) return false;
    return this.database.machine.wallMs() - heartbeat.at < HEARTBEAT_FRESH_MS;
  }

  #free({ key, leaseId, fencingToken, droneId }: Backend): void {
    const ref = { leaseId, fencingToken, principal: droneId };
    if (this.database.release('key', ref) === 'revoked') this.database.stopped(leaseId);
    // A caller that waits for the key is woken.
    this.#world.in(WAKE_MS, undefined, () => this.connect(key));
  }

  #lost(backendId: string): void {
    const backend = this.#backends.get(backendId);
    if (backend !== undefined) backend.status = 'terminated';
    this.#withdraw(backendId);
  }

  /** A spawn that was received, or is not wanted any more. */
  #withdraw(backendId: string): void {
    for (const action of this.#actions) {
      const { payload } = action;
      if (payload.kind === 'spawn' && payload.backendId === backendId) action.isDone = true;
    }
  }

  #act(droneId: string, payload: Payload): void {
    this.#world.trace(() => `${droneId} is to ${payload.kind} ${payload.backendId}`);
    this.#actions.push({ droneId, payload, isDone: false });
    this.#send(droneId);
  }

  #send(droneId: string): void {
    const drone = this.#drones.get(droneId);
    if (drone === undefined) return;
    for (const { droneId: whose, payload, isDone } of this.#actions) {
      if (isDone || whose !== droneId) continue;
      drone.tell({ ...payload, session: drone.session });
    }
  }

  #resend(): void {
    for (const droneId of this.#drones.keys()) this.#send(droneId);
    this.#world.in(RESEND_MS, undefined, () => this.#resend());
  }
}
