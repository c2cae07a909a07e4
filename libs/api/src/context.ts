import type { Actor, EventView, FairUseLimits, Page } from '@leasehold/keys-core';
import type { KeyService } from '@leasehold/keys-core/keys';
import type { ReservationService, ReservationUse } from '@leasehold/keys-core/reservations';
import type { CallerLife, LeaseOperations, LeaseService } from '@leasehold/keys-core/leases';
import type {
  AuditEntry,
  AuditListInput,
  AuditView,
  PeopleService,
  TokenService,
} from '@leasehold/keys-core/access';
import type { FleetService, NamespaceLimits } from '@leasehold/keys-core/fleet';
import type { EventFilter, EventHead, EventListInput, InTurn } from '@leasehold/keys-core/events';
import type { Access } from './access/access.ts';
import type { BulkService } from '@leasehold/keys-core/bulk';
import type { DatacenterService } from './services/datacenters.ts';
import type { StatsService } from '@leasehold/keys-core/stats';
import type { HoldOffService, WitnessService } from '@leasehold/keys-core/postgres';

/** What operators did outside of leases. */
export interface AuditService {
  list(input: AuditListInput): Promise<Page<AuditView>>;
  write(entry: AuditEntry): Promise<void>;
}

/** What happened, in order. */
export interface EventService {
  /** Where the stream begins and ends now. */
  head(): Promise<EventHead>;
  /** @throws {LeaseError} `events.compacted`, `events.other_epoch`, `request.invalid`. */
  list(input: EventListInput, limits: NamespaceLimits): Promise<Page<EventView>>;
  /**
   * Every event after `afterId` that passes the filter, in order, each once, until the signal aborts;
   * without `afterId`, those that begin once this has answered.
   * @throws {LeaseError} `events.compacted`, `events.other_epoch`, `request.invalid`.
   */
  watch(
    request: {
      readonly afterId?: string | undefined;
      readonly filter: EventFilter;
      readonly inTurn?: InTurn | undefined;
    },
    signal: AbortSignal,
  ): Promise<AsyncIterable<EventView>>;
}

/** What services hold and people look at: the leases face, or the environments face. */
export type LeaseFace = LeaseService & LeaseOperations;

/** What the procedures call; made once per controller. */
export interface ApiServices {
  /** Where keys live, and connects wherever that is. */
  readonly reservations: ReservationService;
  readonly keys: Omit<KeyService, 'connect' | 'connectAgain'>;
  readonly leases: LeaseFace;
  readonly environments: LeaseFace;
  readonly fleet: FleetService;
  readonly tokens: TokenService;
  readonly audit: AuditService;
  readonly events: EventService;
  readonly bulk: BulkService;
  readonly people: PeopleService;
  readonly stats: StatsService;
  readonly witness: WitnessService;
  readonly holdOff: HoldOffService;
  readonly datacenter: string;
  /** The other datacenters, and what is carried out there. */
  readonly datacenters: DatacenterService;
  /** The database's time, ISO-8601. */
  now(): Promise<string>;
  /** Logs a failure of ours that a caller is told of inside an answer. */
  reportFailure(error: unknown, path: string): void;
}

/** The connection of a caller, and what is known of the one behind it. */
export interface CallerConnection extends CallerLife {
  /**
   * Looks closely whether the caller is there, for as long as it waits on this connection.
   * @returns a function that ends it.
   */
  watch(): () => void;
  /**
   * Resolves once the caller has read most of what it was sent, or is gone: a subscription that has
   * much to send waits for it. Absent where the transport itself asks for more.
   */
  whenRead?(): Promise<void>;
}

/**
 * What a caller may use, and uses now: see `kernel/access/fair-use.ts`. Each method throws
 * `request.rate_limited` for what time cures, and `quota.exceeded` for what it does not.
 */
export interface CallerUse extends ReservationUse {
  readonly limits: FairUseLimits;
  /** Counts the items of a call that carries many. Renewals and releases are urgent. */
  countItems(count: number, kind?: 'ordinary' | 'urgent'): Promise<void>;
  /**
   * Runs a read in its turn: few at once, of one caller and in all. Fewer still in the background: the
   * pages of exports and of streams that are behind.
   */
  read<T>(run: () => Promise<T>, kind?: 'asked' | 'background'): Promise<T>;
  /** Counts a stream. @returns a function that counts it as over; calling it again does nothing. */
  openStream(): () => void;
  /** Counts a call that may wait for a lease or a key. @returns as {@link openStream}. */
  startWaiting(): () => void;
  /** Checks that so many leases more may be held; resolves later only near the limit. */
  mayHold(count: number): Promise<void> | undefined;
  /** Notes leases that were granted (positive) or released (negative). */
  noteHeld(change: number): void;
}

/** What one request, or one WebSocket connection, comes with. */
export interface ApiContext {
  /** Undefined without a token or a session in force: every procedure then answers `auth.required`. */
  readonly access: Access | undefined;
  readonly services: ApiServices;
  /** What the caller may use; undefined without access, and for what Leasehold calls itself. */
  readonly use: CallerUse | undefined;
  /** Aborts when the caller's connection is gone. */
  readonly signal: AbortSignal;
  /** Whether the caller behind the connection is there. */
  readonly life: CallerConnection;
  /** The caller's address. */
  readonly source: string | null;
  /** Whether another datacenter sent this on: it is not sent on a second time. */
  readonly isForwarded: boolean;
}

/** Who acts, for the audit. */
export function actorOf(ctx: { readonly access: Access; readonly source: string | null }): Actor {
  return { actor: ctx.access.name, role: ctx.access.role, source: ctx.source };
}
