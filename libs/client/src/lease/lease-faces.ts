/** Puts together what the leases and environments of one client have in common. */
import { setImmediate } from 'node:timers/promises';
import type { RevocationNotice } from '@leasehold/keys-core/leases';
import { outsideOfWork } from '../context/work-context.ts';
import { type Machine, pause } from '../machine.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import { callErrorOf, LeaseholdCallError } from '../transport/errors.ts';
import type { Reachability } from '../transport/links.ts';
import { createAcquireAll } from './acquire-all.ts';
import { LeaseTaker } from './acquire.ts';
import { type Background, callWithin, pauseBeforeRetry } from './calls.ts';
import { Holdings } from './holdings.ts';
import type { LeaseDefinition } from './lease-definition.ts';
import { createEnvironmentWire, createLeaseWire, type LeaseWire } from './lease-wire.ts';

/** How long releases that are under way may take when the client closes. */
const CLOSE_MS_MAX = 500;

interface FacesDeps {
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

interface LeaseFacesDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly url: string;
  readonly answerMs: number;
  readonly transport: 'ws' | 'http';
  readonly reachability: Reachability;
  readonly background: Background;
  /** The holder of leases that name no other. */
  readonly holder: string;
}

/** The faces of a controller, with a session for its notices over a WebSocket. */
export function createLeaseFaces(deps: LeaseFacesDeps) {
  const { api, machine, url, answerMs, transport, reachability, background, holder } = deps;
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

  const leaseWire = createLeaseWire({ api, machine, reachability });
  const faces = createFaces({
    machine,
    wires: {
      leases: leaseWire,
      environments: createEnvironmentWire({ api, machine, reachability }),
    },
    background,
    url,
    answerMs,
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
    acquireAll: createAcquireAll(faces.leases, leaseWire, holder),
    async close(): Promise<void> {
      ending.abort();
      await faces.close();
    },
  };
}

// How this process learns of revocations: one subscription for all of its leases.

interface SessionOptions {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly clientId: string;
  readonly onNotice: (notice: RevocationNotice) => void;
  /** The session has begun, perhaps again: notices before that may be lost. */
  readonly onBegin: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Opens the session, and again whenever it ends, until the signal aborts or it is refused permanently. */
function openSession(options: SessionOptions): void {
  const { api, machine, clientId, onNotice, onBegin, signal } = options;
  let failureCount = 0;

  const open = (): void => {
    const subscription = api.leases.session.subscribe(
      { clientId },
      {
        onStarted() {
          failureCount = 0;
          onBegin();
        },
        onData: onNotice,
        onError(thrown) {
          const error = callErrorOf(thrown);
          if (error instanceof LeaseholdCallError && !error.retryable) end();
          else openAgain();
        },
        onComplete: () => openAgain(),
      },
    );
    const end = (): void => {
      signal.removeEventListener('abort', end);
      subscription.unsubscribe();
    };
    const openAgain = (): void => {
      end();
      failureCount += 1;
      pauseBeforeRetry(machine, failureCount, signal).then(open, () => undefined);
    };
    signal.addEventListener('abort', end, { once: true });
  };

  outsideOfWork(open);
}

// Tells the controller which leases this service takes, so that people see them before one is held.

const CALL_MS = 5_000;

type Declare = (
  ...call: Parameters<ControllerApi['leases']['declare']['mutate']>
) => Promise<unknown>;

interface DeclarationsDeps {
  readonly api: { readonly leases: { readonly declare: { readonly mutate: Declare } } };
  readonly machine: Machine;
  readonly background: Background;
}

/** When a number of permits was declared, and what came of it. */
interface Answered {
  readonly answer: Promise<void>;
  readonly sentAtMs: number;
}

/** A number of permits is declared again before it is used after this: retention forgets what nobody repeats. */
const REPEAT_MS = 24 * 60 * 60 * 1_000;

/** Delays nothing: declarations are sent in the background, and after a failure at the next chance. */
export class Declarations {
  readonly #deps: DeclarationsDeps;
  readonly #declared = new Map<string, LeaseDefinition>();
  readonly #unsent = new Set<LeaseDefinition>();
  /** Of those with permits, which are sent one by one: one that is refused must not fail the others. */
  readonly #answered = new Map<LeaseDefinition, Answered>();
  #isSending = false;

  constructor(deps: DeclarationsDeps) {
    this.#deps = deps;
  }

  add(definition: LeaseDefinition): void {
    this.#declared.set(definition.namespace.join('.'), definition);
    this.#send(definition);
    // Declarations that are made while a module loads are sent together.
    queueMicrotask(() => this.send());
  }

  /** Sends all again: the connection is new, and perhaps the controller and its database. */
  sendAll(): void {
    this.#answered.clear();
    for (const definition of this.#declared.values()) this.#send(definition);
    this.send();
  }

  /** Fulfilled once a controller knows its number of permits. @throws what the controller has answered. */
  whenDeclared(definition: LeaseDefinition): Promise<void> {
    const nowMs = this.#deps.machine.clock.nowMs();
    const known = this.#answered.get(definition);
    if (known !== undefined && nowMs - known.sentAtMs < REPEAT_MS) return known.answer;
    const answer = this.#declare([definition]);
    const answered = { answer, sentAtMs: nowMs };
    this.#answered.set(definition, answered);
    answer.catch(() => {
      if (this.#answered.get(definition) === answered) this.#answered.delete(definition);
    });
    return answer;
  }

  #send(definition: LeaseDefinition): void {
    if (definition.permits === undefined) this.#unsent.add(definition);
    // A failure is told to those who acquire it.
    else queueMicrotask(() => void this.whenDeclared(definition).catch(() => undefined));
  }

  /** Sends the declarations that were not sent yet, if any. */
  send(): void {
    const { closing: signal } = this.#deps.background;
    if (this.#isSending || this.#unsent.size === 0 || signal.aborted) return;
    this.#isSending = true;
    const definitions = [...this.#unsent];
    this.#unsent.clear();
    this.#deps.background.add(
      this.#declare(definitions)
        .catch(() => {
          for (const definition of definitions) this.#unsent.add(definition);
        })
        .finally(() => {
          this.#isSending = false;
        }),
    );
  }

  async #declare(definitions: readonly LeaseDefinition[]): Promise<void> {
    const { api, machine, background } = this.#deps;
    const declarations = definitions.map(({ namespace, ttlMs, description, permits }) => ({
      namespace: [...namespace],
      ttlMs,
      description,
      ...(permits === undefined ? {} : { permits }),
    }));
    await outsideOfWork(() =>
      callWithin(machine, { ms: CALL_MS, signal: background.closing }, (ending) =>
        api.leases.declare.mutate({ declarations }, { signal: ending.signal }),
      ),
    );
  }
}
