/** The two faces on the wire: see {@link LeaseWire}. */
import type { ReleaseOutcome } from '@leasehold/keys-core';
import type { AcquireAnswer } from '@leasehold/keys-core/leases';
import { LeaseholdCallError } from '../../transport/call-errors.ts';
import type { ControllerApi } from '../../transport/controller-client.ts';
import type { Machine } from '../../machine.ts';
import type { Reachability } from '../../transport/reachability.ts';
import { createBatches } from './batches.ts';
import type { AcquireRequest, LeaseWire, ReleaseRequest } from './lease-wire.ts';

export interface WireDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly reachability: Reachability;
}

/**
 * Leases: acquires that do not wait are sent together, as are releases. One that waits is sent alone.
 * Calls for another datacenter are sent separately, so that an unreachable one holds up no other.
 */
export function createLeaseWire(deps: WireDeps): LeaseWire {
  const { api, machine } = deps;
  const acquiresOf = byDatacenter(() =>
    createBatches<AcquireRequest, AcquireAnswer>(machine, async (items, { signal }) => {
      const localTimeMs = machine.clock.nowMs();
      const { results } = await api.leases.acquireMany.mutate(
        { localTimeMs, items: items.map(itemOf) },
        { signal },
      );
      return results;
    }),
  );
  const releasesOf = byDatacenter((datacenter) =>
    createBatches<Omit<ReleaseRequest, 'datacenter'>, { outcome: ReleaseOutcome }>(
      machine,
      async (items, { signal }) => {
        const { results } = await api.leases.releaseMany.mutate({ items, datacenter }, { signal });
        return results;
      },
    ),
  );
  return {
    ...sharedCalls(api.leases, deps),
    acquire(request, waitMs, ending) {
      if (waitMs <= 0) return acquiresOf(request.datacenter).submit(request, ending);
      const localTimeMs = machine.clock.nowMs();
      const wholeMs = Math.ceil(waitMs);
      return api.leases.acquire.mutate(
        { ...itemOf(request), localTimeMs, waitMs: wholeMs, confirms: request.confirms },
        { signal: ending.signal },
      );
    },
    async release({ datacenter, ...request }, ending) {
      return (await releasesOf(datacenter).submit(request, ending)).outcome;
    },
  };
}

/** Environments: nobody waits for them, and few are taken at a time. */
export function createEnvironmentWire(deps: WireDeps): LeaseWire {
  const { api, machine } = deps;
  return {
    ...sharedCalls(api.environments, deps),
    acquire({ namespace, key, ttlMs, action = '', confirms: _, ...rest }, _waitMs, { signal }) {
      const localTimeMs = machine.clock.nowMs();
      return api.environments.tryAcquire.mutate(
        { ...rest, action, localTimeMs, environment: [...namespace, key], durationMs: ttlMs },
        { signal },
      );
    },
    release: async (request, { signal }) =>
      (await api.environments.release.mutate(request, { signal })).outcome,
  };
}

/** The calls that both faces make in the same way. */
function sharedCalls(
  face: ControllerApi['leases' | 'environments'],
  { machine, reachability }: WireDeps,
): Pick<LeaseWire, 'giveUp' | 'heartbeat' | 'unreachableSince'> {
  return {
    unreachableSince: (momentMs) => reachability.unreachableSince(momentMs),
    async giveUp({ idempotencyKey, datacenter }, { signal }) {
      await face.cancel.mutate({ idempotencyKey, datacenter }, { signal });
    },
    async heartbeat(renewals, { signal }, datacenter) {
      const localTimeMs = machine.clock.nowMs();
      const { results } = await face.heartbeat.mutate(
        { localTimeMs, renewals: [...renewals], datacenter },
        { signal },
      );
      // A renewal that is not well-formed gets no answer here.
      return results.filter((result) => result.outcome !== 'failed');
    },
  };
}

/** Makes one object for each datacenter that is named; a service names a handful. */
function byDatacenter<Batches>(
  make: (datacenter: string | undefined) => Batches,
): (datacenter: string | undefined) => Batches {
  const made = new Map<string | undefined, Batches>();
  return (datacenter) => {
    const batches = made.get(datacenter) ?? make(datacenter);
    made.set(datacenter, batches);
    return batches;
  };
}

function itemOf({ namespace, ttlMs, action: _action, confirms: _, ...rest }: AcquireRequest) {
  if (ttlMs === undefined) throw new LeaseholdCallError('lease.ttl_out_of_range');
  return { ...rest, ttlMs, namespace: [...namespace] };
}
