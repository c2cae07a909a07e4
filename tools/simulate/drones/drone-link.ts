import {
  SessionSuperseded,
  type ControllerLink,
  type SessionInput,
  type SessionListener,
} from '../../../apps/drone/src/agent/controller-link.ts';
import { LeaseError } from '../../../libs/keys-core/src/kernel/errors.ts';
import { asError, type Network } from '../engine/network.ts';
import type { Process } from '../engine/process.ts';
import type { FleetServer } from './fleet-server.ts';

/** A session that brings nothing for so long is opened again, by the transport. */
const REOPEN_MS = 2_500;
const CALL_MS = 2_000;

export interface DroneLinkOptions {
  readonly network: Network;
  readonly process: Process;
  readonly controller: Process;
  readonly server: FleetServer;
}

/** An agent's connection to the controller, over the network. */
export function droneLink({
  network,
  process,
  controller,
  server,
}: DroneLinkOptions): ControllerLink {
  async function call<T>(carryOut: () => T, timeoutMs: number): Promise<T> {
    const late = new Promise<never>((_resolve, reject) => {
      process.after(timeoutMs, () => reject(new Error('no answer')));
    });
    const answer = network.call(
      ...([process, controller] as const),
      () => Promise.resolve().then(carryOut),
      () => new Error('nobody listens'),
    );
    try {
      return await Promise.race([answer, late]);
    } catch (error) {
      const isSuperseded = error instanceof LeaseError && error.code === 'session.superseded';
      throw isSuperseded ? new SessionSuperseded() : asError(error);
    }
  }

  function follow({ droneId, clockId }: SessionInput, listener: SessionListener): () => void {
    const state = { isOver: false, connection: 0, heardAtMs: 0 };
    const open = (): void => {
      if (state.isOver) return;
      const connection = (state.connection += 1);
      let sentCount = 0;
      let seenCount = 0;
      network.send(process, controller, () => {
        server.open(droneId, clockId, (message) => {
          const count = (sentCount += 1);
          network.send(controller, process, () => {
            // One connection keeps its order, and a new one ends the one before.
            if (state.isOver || connection !== state.connection || count <= seenCount) return;
            seenCount = count;
            state.heardAtMs = process.machine.nowMs();
            listener.message(message);
          });
        });
      });
      process.after(REOPEN_MS, () => watch(connection));
    };
    const watch = (connection: number): void => {
      if (state.isOver || connection !== state.connection) return;
      const isSilent = process.machine.nowMs() - state.heardAtMs > REOPEN_MS;
      if (isSilent && !network.isCalm) open();
      else process.after(REOPEN_MS, () => watch(connection));
    };
    open();
    return () => {
      state.isOver = true;
    };
  }

  return {
    follow,
    heartbeat: ({ localTimeMs, ...ref }, timeoutMs) =>
      call(() => {
        server.heartbeat(ref, localTimeMs);
        return { isDraining: false };
      }, timeoutMs),
    acknowledge: ({ actionId, ...ref }) => call(() => server.acknowledge(ref, actionId), CALL_MS),
    answer: () => Promise.resolve(),
    goodbye: () => Promise.resolve(),
    report: (input, timeoutMs) => call(() => server.report(input), timeoutMs),
    renew: (input, timeoutMs) => call(() => server.renew(input), timeoutMs),
    close: () => Promise.resolve(),
  };
}
