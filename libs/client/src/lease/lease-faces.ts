/** Puts together what the leases and environments of one client have in common. */
import type { ControllerApi } from '../transport/controller-client.ts';
import { pause, type Machine } from '../machine.ts';
import type { Reachability } from '../transport/reachability.ts';
import { Background } from './background.ts';
import { Declarations } from './declarations.ts';
import { Holdings } from './holdings.ts';
import { LeaseTaker } from './acquire/lease-taker.ts';
import type { LeaseWire } from './wire/lease-wire.ts';
import { openSession } from './session.ts';
import { createEnvironmentWire, createLeaseWire } from './wire/wires.ts';

/** How long releases that are under way may take when the client closes. */
const CLOSE_MS_MAX = 1_000;

export interface LeaseFacesDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly url: string;
  readonly answerMs: number;
  readonly transport: 'ws' | 'http';
  readonly reachability: Reachability;
}

export function createLeaseFaces(deps: LeaseFacesDeps) {
  const { api, machine, url, answerMs, transport, reachability } = deps;
  const background = new Background();
  const declarations = new Declarations({ api, machine, background });
  const ending = new AbortController();
  const allHoldings: Holdings[] = [];

  let isListening = transport === 'http';
  const listen = (): void => {
    if (isListening) return;
    isListening = true;
    openSession({
      api,
      machine,
      clientId: machine.uuid(),
      onNotice: (notice) => {
        for (const holdings of allHoldings) holdings.revoked(notice);
      },
      onBegin: () => {
        for (const holdings of allHoldings) holdings.recheck();
      },
      signal: ending.signal,
    });
  };

  const takerOf = (wire: LeaseWire): LeaseTaker => {
    const holdings = new Holdings({ machine, wire, background });
    allHoldings.push(holdings);
    const beforeAcquire = (): void => {
      declarations.send();
      listen();
    };
    return new LeaseTaker({ machine, wire, background, holdings, answerMs, url, beforeAcquire });
  };

  return {
    leases: takerOf(createLeaseWire({ api, machine, reachability })),
    environments: takerOf(createEnvironmentWire({ api, machine, reachability })),
    declarations,
    /** Ends every lease for its holder, and gives calls in progress a moment to finish. */
    async close(): Promise<void> {
      for (const holdings of allHoldings) holdings.abandonAll();
      ending.abort();
      const patience = new AbortController();
      await Promise.race([
        background.idle(),
        pause(machine, CLOSE_MS_MAX, patience.signal).catch(() => undefined),
      ]);
      patience.abort();
      background.end(new Error('The client was closed.'));
    },
  };
}
