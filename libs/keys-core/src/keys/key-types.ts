import type { ActEntry } from '../access/index.ts';
import type { Actor } from '../kernel/access.ts';
import type {
  Caller,
  Count,
  DatedPage,
  EventView,
  FilterOf,
  GrantListInput,
  GrantView,
  HolderAt,
  Page,
  PageInput,
  RenewalAct,
  RenewalChange,
  Revoked,
  WaiterView,
} from '../kernel/face-types.ts';
import type { BackendStatus, TerminationReason } from '../kernel/backends.ts';
import type { WantedProgram } from '../kernel/drones.ts';
import type { Deadlines } from '../kernel/ladder.ts';
import type { GrantRef, RefusalReason } from '../kernel/lease.ts';
import type { Named } from '../kernel/resource.ts';

export interface ConnectInput {
  readonly key?:
    { readonly name: string; readonly namespace: string; readonly tag: string } | undefined;
  readonly spawn?: SpawnRequest | undefined;
  readonly waitMs: number;
  readonly waitFor: 'granted' | 'ready';
  readonly idempotencyKey?: string | undefined;
  /** The reservation that the key lives under, here; see `reservations/homes.ts`. */
  readonly homeReservation?: string | undefined;
}

/**
 * Where this datacenter is the only one: gives a key its home, here, when a backend is about to be started for it.
 * @returns the reservation, which is active.
 */
export type ReserveHere = (key: NamedConnect['key']) => Promise<string>;

/** A connect whose key has a name. */
export type NamedConnect = ConnectInput & { readonly key: NonNullable<ConnectInput['key']> };

export interface SpawnRequest extends WantedProgram {
  /** By default, and at most, that of the program. */
  readonly lifetimeLimitSeconds?: number | undefined;
  /** After how long without a use the backend is stopped. By default that of the program; without one never. */
  readonly idleStopSeconds?: number | undefined;
  /** Where a key that has no home yet is to live. */
  readonly datacenter?: string | undefined;
}

export interface ConnectResult {
  readonly key: { readonly name: string; readonly namespace: string; readonly tag: string };
  readonly backendId: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly spawned: boolean;
  readonly status: BackendStatus;
  readonly address: string | null;
  readonly droneId: string;
  readonly datacenter: string;
}

/** A key as operators see it. */
export interface KeyView extends GrantView {
  readonly tag: string;
  readonly droneId: string | null;
  readonly backendId: string | null;
  readonly backendStatus: BackendStatus | null;
  /** How its backend ended; null while it runs, and without one. */
  readonly backendEnd: KeyBackendEnd | null;
  /** The reservation that it was granted under; null for a grant that is older than reservations. */
  readonly reservationId: string | null;
  /** Its last backends, if they have failed and none has been ready for a minute since. */
  readonly failing: KeyFailuresView | null;
}

export interface KeyBackendEnd {
  readonly reason: TerminationReason | null;
  /** As a shell reports it: 128 + n for signal n. */
  readonly exitCode: number | null;
  /** Whether its program failed: it crashed, could not be run, or was not ready in time. */
  readonly hasFailed: boolean;
}

export interface KeyListInput extends GrantListInput {
  readonly droneId?: string | undefined;
  readonly tag?: string | undefined;
}

export type KeyPage = DatedPage<KeyView>;

/** Backends of a key that have failed one after another. Instants are ISO-8601 UTC strings. */
export interface KeyFailuresView {
  readonly failures: number;
  readonly since: string;
  readonly failedAt: string;
  /** The last one that failed. */
  readonly backendId: string;
  /** Why that one ended, and its exit code, as a shell reports it. */
  readonly reason: TerminationReason | null;
  readonly exitCode: number | null;
  /** No backend is started before this. */
  readonly startAt: string;
}

export type KeyRenewResult =
  | { readonly leaseId: string; readonly outcome: 'renewed'; readonly deadlines: Deadlines }
  | { readonly leaseId: string; readonly outcome: 'refused'; readonly reason: RefusalReason };

export interface BackendReport {
  readonly droneId: string;
  readonly clockId: string;
  readonly session: number;
  readonly backendId: string;
  readonly status: BackendStatus;
  readonly reason?: TerminationReason | undefined;
  readonly address?: string | undefined;
  readonly exitCode?: number | undefined;
  readonly detail?: string | undefined;
  /** The image that a container is made of; once it is reported, it stays. */
  readonly image?: string | undefined;
  /** Some process of it was there when its key had run out: only its drone knows when it was gone. */
  readonly hasOutlivedKey?: boolean | undefined;
  /** The last lines that it wrote, of a backend that ended without being asked to. */
  readonly output?: string | undefined;
  /** The spawn was not acted on and never will be: accepted only while the backend is scheduled. */
  readonly refused?: boolean | undefined;
}

/** The keys face. Every method may throw `store.unavailable` and `request.outcome_unknown`. */
export interface KeyService {
  /**
   * Returns the running backend of a key, or starts one.
   * @throws {LeaseError} `key.unheld`, `key.tag_mismatch`, `key.terminating`,
   * `key.holder_unreachable`, `spawn.no_drone`, `spawn.not_allowed`, `grant.hold_off`,
   * `grant.contended`, `backend.crash_loop`, `request.idempotency_reused`; with `waitFor: 'ready'` also `backend.failed`, `backend.not_ready`.
   */
  connect(
    input: NamedConnect,
    caller: Caller,
    signal: AbortSignal,
    reserve?: ReserveHere,
  ): Promise<ConnectResult>;
  /**
   * The answer of a connect that was carried out here before, found by its idempotency key;
   * undefined when that key was not used here.
   * @throws {LeaseError} the refusal that it got; `request.idempotency_reused`.
   */
  connectAgain(
    input: NamedConnect,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ConnectResult | undefined>;
  /**
   * Records why a connect is refused before it was carried out here, under its idempotency key, and throws it: what
   * was refused once is never granted. @returns the answer that the request got before, if any.
   */
  refuse(input: NamedConnect, caller: Caller, error: unknown): Promise<ConnectResult>;
  /**
   * Renews keys of one drone, with an answer for each in order. A key whose row stays locked is
   * left out, so that the others need not wait for it; the drone retries it.
   */
  renew(input: {
    readonly droneId: string;
    readonly localTimeMs: number;
    readonly renewals: readonly GrantRef[];
  }): Promise<KeyRenewResult[]>;
  /** @param entry what the audit says of it, in the same transaction; without it, it is part of a greater act */
  blockRenewal(input: RenewalAct, caller: Caller, entry?: ActEntry): Promise<RenewalChange>;
  allowRenewal(input: RenewalAct, caller: Caller, entry?: ActEntry): Promise<RenewalChange>;
  revoke(
    input: { leaseId: string; mode: 'graceful' | 'force'; reason: string; abandon: boolean },
    caller: Caller,
    entry?: ActEntry,
  ): Promise<Revoked>;
  get(input: Named, caller: Caller): Promise<KeyView | null>;
  list(input: KeyListInput, caller: Caller): Promise<KeyPage>;
  count(input: FilterOf<KeyListInput>, caller: Caller): Promise<Count>;
  waiters(input: Named & PageInput, caller: Caller): Promise<Page<WaiterView>>;
  history(input: Named & PageInput, caller: Caller): Promise<Page<EventView>>;
  /** Who held it at a moment. @throws {LeaseError} `request.invalid` for a moment that has not come. */
  at(input: Named & { readonly at: string }, caller: Caller): Promise<HolderAt>;
  /** What the newest backends of a key have come to; null if the last one has not failed. */
  failures(input: Named, caller: Caller): Promise<KeyFailuresView | null>;
  /** Lets a key be started at once whose backends have failed. `changed`: false if none have; nothing is audited then. */
  resetFailures(
    input: Named & { readonly reason?: string | undefined },
    caller: Caller,
    actor: Actor,
  ): Promise<{ changed: boolean }>;
  /**
   * Records a drone's report on a backend; `terminated` releases the backend's own grant in the
   * same transaction.
   * @throws {LeaseError} `session.superseded`, `backend.not_found`.
   */
  report(report: BackendReport): Promise<'recorded' | 'ignored' | 'kill'>;
  /** Asks a backend's drone to stop it; `gone`: it had ended before. @throws {LeaseError} `backend.not_found`. */
  terminate(
    input: { backendId: string; mode: 'soft' | 'hard'; reason?: string | undefined },
    caller: Caller,
    actor: Actor,
  ): Promise<{ outcome: 'terminating' | 'gone' }>;
}
