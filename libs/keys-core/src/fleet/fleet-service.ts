import { type Actor, type AuditAction, SYSTEM_ACTOR } from '../kernel/access.ts';
import type { DroneAct, FleetService } from './fleet-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { terminateAllOf, type KeyService } from '../keys/index.ts';
import { acknowledgeAction } from './sql/outbox.ts';
import { countBackends, getBackend, listBackends, readBackendStates } from './sql/backends.ts';
import {
  countListedDrones,
  getDrone,
  heldLeaseIds,
  listDrones,
  setDraining,
  setLost,
} from './sql/drones.ts';
import { recordGoodbye, recordHeartbeat } from './sql/drone-sessions.ts';
import { removeDrone } from './sql/remove-drone.ts';
import { readOfferedPrograms } from './sql/offered-programs.ts';
import type { BackendView } from './fleet-views.ts';
import { writeAudit, type AuditEntry } from '../access/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { watchBackend } from './backend-watch.ts';
import { answerQuestion, askForLog } from './sql/drone-questions.ts';
import { droneSession } from './drone-session.ts';
import type { OutboxFeed } from './outbox-feed.ts';

/** How many statements that block a renewal are sent at once. */
const BLOCKS_IN_FLIGHT_MAX = 20;

export interface FleetServiceDeps {
  readonly store: Store;
  readonly keys: KeyService;
  readonly feed: OutboxFeed;
  readonly heartbeatMs: number;
}

/** Drones and backends over the store. */
export function createFleetService(deps: FleetServiceDeps): FleetService {
  const { store, heartbeatMs } = deps;
  return {
    session(request, signal) {
      if (request.datacenter !== store.datacenter) {
        throw new LeaseError(
          'request.invalid',
          `datacenter: this controller is of "${store.datacenter}", the drone of "${request.datacenter}"`,
          { details: { field: 'datacenter' } },
        );
      }
      return droneSession(deps, request, signal);
    },
    async heartbeat(heartbeat) {
      await recordHeartbeat(store.vital, heartbeat);
      return { heartbeatMs };
    },
    goodbye: (ref) => recordGoodbye(store.vital, ref),
    acknowledge: async (ack) => {
      const answer = await acknowledgeAction(store.vital, ack);
      // The next action of the same backend may follow now.
      if (answer.acknowledged) deps.feed.look(ack.droneId);
      return answer;
    },
    offeredPrograms: () =>
      readOfferedPrograms(store.general, { datacenter: store.datacenter, heartbeatMs }),
    listDrones: (input) => listDrones(store.reads, input, heartbeatMs),
    countDrones: (input) => countListedDrones(store.reads, input, heartbeatMs),
    getDrone: (droneId) => getDrone(store.reads, droneId, heartbeatMs),
    async drain(act, actor) {
      const { changed, stoppingIds } = await changeDraining(store, true, act, actor);
      if (stoppingIds.length > 0) store.hints.notify(`drone:${act.droneId}`);
      const backends = await liveBackends(store, act.droneId);
      return { changed, backends, stoppingCount: stoppingIds.length };
    },
    async undrain(act, actor) {
      const { changed } = await changeDraining(store, false, act, actor);
      return { changed };
    },
    markLost: (act, actor) => markLost(deps, act, actor),
    remove: (act, actor) =>
      store.general.$transaction(async (tx) => {
        const removed = await removeDrone(tx, act.droneId, heartbeatMs);
        await writeAudit(tx, auditOf('drones.remove', act, actor));
        return removed;
      }),
    listBackends: (input, limits) => listBackends(store.reads, input, limits),
    countBackends: (input, limits) => countBackends(store.reads, input, limits),
    async getBackend(backendId, limits) {
      const backend = await getBackend(store.reads, backendId, limits);
      return { ...backend, states: await readBackendStates(store.reads, backendId, '0') };
    },
    watchBackend: (backendId, limits, signal) => watchBackend(store, backendId, { limits, signal }),
    async readLog(request, limits, signal) {
      const { droneId } = await getBackend(store.reads, request.backendId, limits);
      return askForLog(store, droneId, request, signal);
    },
    answer: (answer) => answerQuestion(store, answer),
  };
}

/** All of them, however many pages that takes: an operator waits until none is left. */
async function liveBackends(store: Store, droneId: string): Promise<BackendView[]> {
  const backends: BackendView[] = [];
  let cursor: string | undefined;
  do {
    const page = await listBackends(
      store.general,
      { droneId, live: true, limit: LIMITS.pageSizeMax, cursor },
      null,
    );
    backends.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return backends;
}

function auditOf(action: AuditAction, act: DroneAct, actor: Actor): AuditEntry {
  return { ...actor, action, resource: `drone:${act.droneId}`, reason: act.reason };
}

async function changeDraining(
  store: Store,
  draining: boolean,
  act: DroneAct & { readonly stop?: boolean | undefined },
  actor: Actor,
) {
  return store.general.$transaction(async (tx) => {
    const change = await setDraining(tx, act.droneId, draining);
    const stoppingIds = act.stop === true ? await terminateAllOf(tx, act.droneId) : [];
    await writeAudit(tx, {
      ...auditOf(draining ? 'drones.drain' : 'drones.undrain', act, actor),
      ...(act.stop === true && { detail: { stoppingCount: stoppingIds.length } }),
    });
    return { ...change, stoppingIds };
  });
}

/** Every key of the drone runs out, because its renewal is blocked; none is given away before. */
async function markLost({ store, keys }: FleetServiceDeps, act: DroneAct, actor: Actor) {
  await store.general.$transaction(async (tx) => {
    await setLost(tx, act.droneId);
    await writeAudit(tx, auditOf('drones.markLost', act, actor));
  });
  const caller: Caller = {
    principal: SYSTEM_ACTOR,
    actor: actor.actor,
    role: actor.role,
    namespaces: null,
  };
  const reason = act.reason ?? `drone ${act.droneId} was marked lost`;
  const leaseIds = await heldLeaseIds(store.general, act.droneId);
  let renewalsBlockedCount = 0;
  for (let from = 0; from < leaseIds.length; from += BLOCKS_IN_FLIGHT_MAX) {
    const group = leaseIds.slice(from, from + BLOCKS_IN_FLIGHT_MAX);
    const changes = await Promise.all(
      group.map((leaseId) => keys.blockRenewal({ leaseId, reason }, caller)),
    );
    renewalsBlockedCount += changes.filter(({ changed }) => changed).length;
  }
  return { renewalsBlockedCount };
}
