/** Puts together what the leases and environments of one client have in common. */
import type { RevocationNotice } from '@leasehold/keys-core/leases';
import type { ControllerApi } from '../transport/controller-client.ts';
import { setImmediate } from 'node:timers/promises';
import { pause, type Machine } from '../machine.ts';
import type { Reachability } from '../transport/reachability.ts';
import type { Background } from './background.ts';
import { Declarations } from './declarations.ts';
import { Holdings } from './holdings.ts';
import { LeaseTaker } from './acquire/lease-taker.ts';
import type { LeaseWire } from './wire/lease-wire.ts';
import { openSession } from './session.ts';
import { createEnvironmentWire, createLeaseWire } from './wire/wires.ts';

/** How long releases that are under way may take when the client closes. */
const CLOSE_MS_MAX = 500;

export interface FacesDeps {
  readonly machine: Machine;
  readonly wires: Readonly<Record<'leases' | 'environments', LeaseWire>>;
  readonly background: Background;
  /** Tells scopes of different controllers apart. */
  readonly url: string;
  readonly answerMs: number;
  /** Called before each acquire. */
  readonly beforeAcquire: () => void;
  /** Whether to try no more, for an acquire that began at that moment. */
  readonly isHopeless?: ((momentMs: number) => boolean) | undefined;
  /** Fulfilled when releases that are under way have had enough time, or when the signal aborts. */
  readonly patience: (signal: AbortSignal) => Promise<unknown>;
}

export interface Faces {
  readonly leases: LeaseTaker;
  readonly environments: LeaseTaker;
  revoked(notice: RevocationNotice): void;
  /** Asks about every lease that is renewed: notices may have been missed. */
  recheck(): void;
  /** Refuses callers, ends waits and every lease for its holder, and gives releases a moment to finish. */
  close(): Promise<void>;
}

export function createFaces(deps: FacesDeps): Faces {
  const { machine, wires, background } = deps;
  const holdings = {
    leases: new Holdings({ machine, wire: wires.leases, background }),
    environments: new Holdings({ machine, wire: wires.environments, background }),
  };
  const all = Object.values(holdings);
  const takerOf = (face: keyof typeof wires): LeaseTaker =>
    new LeaseTaker({ ...deps, wire: wires[face], holdings: holdings[face] });
  return {
    leases: takerOf('leases'),
    environments: takerOf('environments'),
    revoked(notice) {
      for (const one of all) one.revoked(notice);
    },
    recheck() {
      for (const one of all) one.recheck();
    },
    async close() {
      background.close();
      for (const one of all) one.abandonAll();
      // Those who waited give up first, and what they may have been granted is given back.
      await setImmediate();
      const over = new AbortController();
      await background.end(deps.patience(over.signal).catch(() => undefined));
      over.abort();
    },
  };
}

export interface LeaseFacesDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly url: string;
  readonly answerMs: number;
  readonly transport: 'ws' | 'http';
  readonly reachability: Reachability;
  readonly background: Background;
}

/** The faces of a controller, with a session for its notices over a WebSocket. */
export function createLeaseFaces(deps: LeaseFacesDeps) {
  const { api, machine, url, answerMs, transport, reachability, background } = deps;
  const declarations = new Declarations({ api, machine, background });
  const ending = new AbortController();

  let isListening = transport === 'http';
  const listen = (): void => {
    if (isListening) return;
    isListening = true;
    openSession({
      api,
      machine,
      clientId: machine.uuid(),
      onNotice: (notice) => faces.revoked(notice),
      onBegin: () => faces.recheck(),
      signal: ending.signal,
    });
  };

  const faces = createFaces({
    machine,
    wires: {
      leases: createLeaseWire({ api, machine, reachability }),
      environments: createEnvironmentWire({ api, machine, reachability }),
    },
    ...{ background, url, answerMs },
    isHopeless: (momentMs) => reachability.isHopeless(momentMs),
    beforeAcquire() {
      declarations.send();
      listen();
    },
    patience: (signal) => pause(machine, CLOSE_MS_MAX, signal),
  });

  return {
    ...faces,
    declarations,
    async close(): Promise<void> {
      ending.abort();
      await faces.close();
    },
  };
}
