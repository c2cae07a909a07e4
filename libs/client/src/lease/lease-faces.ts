/** Puts together what the leases and environments of one client have in common. */
import { setImmediate } from 'node:timers/promises';
import { backoffMs, LIMITS } from '@leasehold/keys-core';
import type { RevocationNotice } from '@leasehold/keys-core/leases';
import { currentContext, outsideOfWork } from '../context/work-context.ts';
import { type Machine, pause } from '../machine.ts';
import { linkSignals } from '../signals.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import { callErrorOf, LeaseholdCallError } from '../transport/errors.ts';
import type { Reachability } from '../transport/links.ts';
import { createAcquireAll } from './acquire-all.ts';
import { type AcquireIntent, LeaseTaker } from './acquire.ts';
import {
  type Background,
  callWithin,
  pauseBeforeRetry,
  triedForMs,
  untilAnswered,
} from './calls.ts';
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
  const declarations = new Declarations({ api, machine, background, answerMs, reachability });
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
    acquireAll: createAcquireAll(faces.leases, leaseWire, holder, (scopes, intent, ask) =>
      declarations.whenDeclared(declarations.withPermitsOf(scopes), intent, ask),
    ),
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

/** After a refusal it is opened again later: a quota, for example, may have room then. */
const REFUSED_FIRST_MS = 1_000;
const REFUSED_MS_MAX = 30_000;

/** Opens the session, and again whenever it ends, until the signal aborts or its caller is refused. */
function openSession(options: SessionOptions): void {
  const { api, machine, clientId, onNotice, onBegin, signal } = options;
  let failureCount = 0;
  let refusalCount = 0;

  const open = (): void => {
    const subscription = api.leases.session.subscribe(
      { clientId },
      {
        onStarted() {
          failureCount = 0;
          refusalCount = 0;
          onBegin();
        },
        onData: onNotice,
        onError(thrown) {
          const error = callErrorOf(thrown);
          if (!(error instanceof LeaseholdCallError) || error.retryable) openSoon();
          else if (isForGood(error)) end();
          else openLater();
        },
        onComplete: () => openSoon(),
      },
    );
    const end = (): void => {
      signal.removeEventListener('abort', end);
      subscription.unsubscribe();
    };
    const openAfter = (paused: Promise<void>): void => {
      end();
      paused.then(open, () => undefined);
    };
    const openSoon = (): void => {
      failureCount += 1;
      openAfter(pauseBeforeRetry(machine, failureCount, signal));
    };
    const openLater = (): void => {
      refusalCount += 1;
      const bounds = { firstMs: REFUSED_FIRST_MS, maxMs: REFUSED_MS_MAX };
      const random = (): number => machine.random();
      openAfter(pause(machine, backoffMs(refusalCount, { ...bounds, random }), signal));
    };
    signal.addEventListener('abort', end, { once: true });
  };

  outsideOfWork(open);
}

/** Whether nobody will let this client listen: who it is does not change, nor that it is closed. */
function isForGood({ code }: LeaseholdCallError): boolean {
  return code.startsWith('auth.') || code === 'client.closed';
}

// Tells the controller which leases this service takes, so that people see them before one is held.

const CALL_MS = 5_000;
const DECLARED_AT_ONCE_MAX = LIMITS.acquiresPerCallMax;

type Declare = (
  ...call: Parameters<ControllerApi['leases']['declare']['mutate']>
) => Promise<unknown>;

interface DeclarationsDeps {
  readonly api: { readonly leases: { readonly declare: { readonly mutate: Declare } } };
  readonly machine: Machine;
  readonly background: Background;
  /** How long an acquire takes at most beyond its time in line. Milliseconds. */
  readonly answerMs: number;
  readonly reachability: Pick<Reachability, 'explain' | 'isHopeless'>;
}

/** When a number of permits was declared, and what came of it. */
interface Answered {
  readonly answer: Promise<void>;
  readonly sentAtMs: number;
  isKnown: boolean;
}

/** A number of permits is declared again before it is used after this: retention forgets what nobody repeats. */
const REPEAT_MS = 24 * 60 * 60 * 1_000;

/** Delays nothing: declarations are sent in the background, and after a failure at the next chance. */
export class Declarations {
  readonly #deps: DeclarationsDeps;
  readonly #declared = new Map<string, LeaseDefinition>();
  readonly #unsent = new Set<LeaseDefinition>();
  /**
   * Of those with permits, by what is declared and where. They are sent one by one: one that is refused must not fail
   * the others.
   */
  readonly #answered = new Map<string, Answered>();
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

  /** The definitions with permits of these leases, each once. */
  withPermitsOf(scopes: readonly { readonly namespace: readonly string[] }[]): LeaseDefinition[] {
    const found = scopes.map(({ namespace }) => this.#declared.get(namespace.join('.')));
    return [...new Set(found)].filter(
      (definition): definition is LeaseDefinition => definition?.permits !== undefined,
    );
  }

  /**
   * Asks once a controller of the datacenter that is asked knows the numbers of permits. If its database has forgotten
   * them, because it was restored to an earlier time for example, it is told them again, and asked once more.
   * @throws what `ask` throws; otherwise as {@link #untilDeclared}.
   */
  async whenDeclared<T>(
    definitions: readonly LeaseDefinition[],
    intent: AcquireIntent,
    ask: (declared: AcquireIntent) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#deps.machine;
    const beganAtMs = clock.nowMs();
    const declared = await this.#untilDeclared(definitions, intent);
    const askedAtMs = clock.nowMs();
    try {
      return await ask(declared);
    } catch (error) {
      if (definitions.length === 0 || !isNotDeclared(error)) throw error;
    }
    for (const definition of definitions) {
      const id = declarationId(definition, intent.datacenter);
      // One that was sent since then is of another that has met the same.
      if ((this.#answered.get(id)?.sentAtMs ?? Infinity) <= askedAtMs) this.#answered.delete(id);
    }
    const left = afterWaiting(intent, clock.nowMs() - beganAtMs);
    return ask(await this.#untilDeclared(definitions, left));
  }

  /**
   * Waits until a controller of the datacenter that is asked knows the numbers of permits: for as long, and through
   * the same failures, as the acquire itself would.
   * @returns the intent, with what is left of its time in line.
   * @throws what the controller has answered, if that will not pass; the last failure; the reason of the signal.
   */
  async #untilDeclared(
    definitions: readonly LeaseDefinition[],
    intent: AcquireIntent,
  ): Promise<AcquireIntent> {
    const { machine, background, answerMs, reachability } = this.#deps;
    const { waitMs, datacenter } = intent;
    const unknown = definitions.filter(
      (definition) => this.#recent(declarationId(definition, datacenter))?.isKnown !== true,
    );
    if (unknown.length === 0) return intent;
    const beganAtMs = machine.clock.nowMs();
    const tookMs = (): number => machine.clock.nowMs() - beganAtMs;
    using linked = linkSignals([intent.signal, currentContext()?.signal, background.closing]);
    const bounds = {
      untilMs: beganAtMs + waitMs + answerMs,
      tryMs: CALL_MS,
      signal: linked.signal,
      mayPass: (error: unknown) => tookMs() < triedForMs(error, { waitMs, answerMs }),
      isHopeless: (momentMs: number) => reachability.isHopeless(momentMs),
    };
    const answered = unknown.map((definition) =>
      reachability.explain(() =>
        untilAnswered(machine, bounds, () => this.#answerOf(definition, datacenter)),
      ),
    );
    await Promise.all(answered);
    return afterWaiting(intent, tookMs());
  }

  /** What a controller of the datacenter answers, or has answered, to the declaration. */
  #answerOf(definition: LeaseDefinition, datacenter?: string): Promise<void> {
    const id = declarationId(definition, datacenter);
    const known = this.#recent(id);
    if (known !== undefined) return known.answer;
    const answer = this.#declare([definition], datacenter);
    const answered = { answer, sentAtMs: this.#deps.machine.clock.nowMs(), isKnown: false };
    this.#answered.set(id, answered);
    answer.then(
      () => {
        answered.isKnown = true;
      },
      () => {
        if (this.#answered.get(id) === answered) this.#answered.delete(id);
      },
    );
    return answer;
  }

  #recent(id: string): Answered | undefined {
    const answered = this.#answered.get(id);
    const sinceMs = this.#deps.machine.clock.nowMs() - REPEAT_MS;
    return answered !== undefined && answered.sentAtMs > sinceMs ? answered : undefined;
  }

  #send(definition: LeaseDefinition): void {
    if (definition.permits === undefined) this.#unsent.add(definition);
    // A failure is told to those who acquire it.
    else queueMicrotask(() => void this.#answerOf(definition).catch(() => undefined));
  }

  /** Sends the declarations that were not sent yet, if any. */
  send(): void {
    const { closing: signal } = this.#deps.background;
    if (this.#isSending || this.#unsent.size === 0 || signal.aborted) return;
    this.#isSending = true;
    const definitions = [...this.#unsent];
    this.#unsent.clear();
    this.#deps.background.add(
      this.#declareAll(definitions).finally(() => {
        this.#isSending = false;
      }),
    );
  }

  /** One that a controller refuses is left out: it must not keep the others from being known. */
  async #declareAll(definitions: readonly LeaseDefinition[]): Promise<void> {
    for (let from = 0; from < definitions.length; from += DECLARED_AT_ONCE_MAX) {
      const some = definitions.slice(from, from + DECLARED_AT_ONCE_MAX);
      try {
        await this.#declare(some);
      } catch (error) {
        if (!isRefusedForWhatItSays(error)) {
          for (const definition of some) this.#unsent.add(definition);
        } else if (some.length > 1) {
          for (const one of some) await this.#declareAll([one]);
        }
      }
    }
  }

  async #declare(definitions: readonly LeaseDefinition[], datacenter?: string): Promise<void> {
    const { api, machine, background } = this.#deps;
    const declarations = definitions.map(({ namespace, ttlMs, description, permits }) => ({
      namespace: [...namespace],
      ttlMs,
      description,
      ...(permits === undefined ? {} : { permits }),
    }));
    await outsideOfWork(() =>
      callWithin(machine, { ms: CALL_MS, signal: background.closing }, (ending) =>
        api.leases.declare.mutate({ declarations, datacenter }, { signal: ending.signal }),
      ),
    );
  }
}

/** With what is left of its time in line. One that may wait does so to the end: without a wait it would be another request. */
function afterWaiting(intent: AcquireIntent, ms: number): AcquireIntent {
  const { waitMs } = intent;
  return waitMs > 0 ? { ...intent, waitMs: Math.max(1, waitMs - ms) } : intent;
}

function isNotDeclared(error: unknown): boolean {
  return error instanceof LeaseholdCallError && error.code === 'lease.permits_not_declared';
}

/** Not for who sends it, nor for what may pass. */
function isRefusedForWhatItSays(thrown: unknown): boolean {
  const error = callErrorOf(thrown);
  return error instanceof LeaseholdCallError && !error.retryable && !error.code.startsWith('auth.');
}

/** What is declared, and where. */
function declarationId(
  { namespace, ttlMs, description, permits }: LeaseDefinition,
  datacenter: string | undefined,
): string {
  return JSON.stringify([datacenter ?? null, namespace, ttlMs, description, permits]);
}
