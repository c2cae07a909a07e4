/** What an acquire and a release cost at least: without our layers, and without the way to the controller. */
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { invariant, serviceLadder } from '@leasehold/keys-core';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { WebSocket } from 'ws';
import { newTimedId } from '../../../libs/keys-core/src/kernel/clock.ts';
import { startChild } from '../rig/child.ts';
import type { Rig } from '../rig/rig.ts';
import { HOLD_TTL_MS, type LockService } from './lock-service.ts';

/** What takes the place of a service in a measurement that only acquires and releases. */
export type Pairs = Pick<LockService, 'name' | 'take'>;

interface Answer {
  readonly id: number;
  readonly leaseId?: string;
  readonly token?: string;
}

/** A bare WebSocket server with two statements on the same PostgreSQL: see `floor-server`. */
export async function openFloor(rig: Rig): Promise<Pairs> {
  const { url } = await rig.database('bench_floor');
  const server = await startChild<string>('floor-server', [url]);
  rig.onClose(() => server.stop());
  const socket = new WebSocket(server.ready, { perMessageDeflate: false });
  await once(socket, 'open');
  rig.onClose(() => {
    socket.terminate();
    return Promise.resolve();
  });
  const waiting = new Map<number, (answer: Answer) => void>();
  let lastId = 0;
  let frame: object[] = [];
  socket.on('message', (data: Buffer) => {
    for (const answer of JSON.parse(data.toString()) as Answer[]) {
      waiting.get(answer.id)?.(answer);
      waiting.delete(answer.id);
    }
  });
  const call = (body: object): Promise<Answer> =>
    new Promise((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      if (frame.push({ id: lastId, ...body }) > 1) return;
      queueMicrotask(() => {
        socket.send(JSON.stringify(frame));
        frame = [];
      });
    });
  return {
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
