/** What an acquire and a release cost at least: without our layers, and without the way to the controller. */
import { randomUUID } from 'node:crypto';
import { invariant, serviceLadder } from '@leasehold/keys-core';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { newTimedId } from '../../../libs/keys-core/src/kernel/clock.ts';
import { startChild } from '../rig/child.ts';
import { openTurns } from '../rig/frames.ts';
import type { Rig } from '../rig/rig.ts';
import { HOLD_TTL_MS, type LockService } from './lock-service.ts';

/** What takes the place of a service in a measurement that only acquires and releases. */
export type Pairs = Pick<LockService, 'name' | 'take'>;

interface Answer {
  readonly leaseId?: string;
  readonly token?: string;
}

/** A bare WebSocket server with three statements on the same PostgreSQL: see `floor-server`. */
export async function openFloor(
  rig: Rig,
  databaseName: string,
): Promise<Pairs & { look(name: string): Promise<Answer> }> {
  const { url } = await rig.database(databaseName);
  const server = await startChild<string>('floor-server', [url]);
  rig.onClose(() => server.stop());
  const call = await openTurns<Answer>(rig, server.ready);
  return {
    look: (name) => call({ name, isLook: true }),
    name: 'the floor',
    async take(name) {
      const { leaseId, token } = await call({ name });
      invariant(token !== undefined, 'nobody else holds it');
      return { release: () => call({ name, leaseId }) };
    },
  };
}

/** Our kernel in the process of its caller: no client, no controller. Each grant has an idempotency key. */
export async function openKernelAlone(rig: Rig): Promise<Pairs> {
  const { leases } = await rig.database('bench_kernel');
  const machine = { clock: createBootClock(), ids: systemIds() };
  const ladder = serviceLadder(HOLD_TTL_MS);
  return {
    name: 'our kernel alone',
    async take(name) {
      const granted = await leases.grant({
        face: 'lease',
        namespace: 'bench',
        name,
        leaseId: newTimedId(machine),
        holder: 'bench',
        principal: 'bench',
        tag: '',
        comment: null,
        metadata: null,
        ladder,
        actor: 'bench',
        idempotencyKey: randomUUID(),
        fingerprint: name,
      });
      invariant(granted.outcome === 'granted', 'nobody else holds it');
      const { leaseId, fencingToken } = granted.grant;
      return {
        release: () =>
          leases.release('lease', {
            leaseId,
            fencingToken,
            principal: 'bench',
            actor: 'bench',
            result: 'ok',
            detail: null,
          }),
      };
    },
  };
}
