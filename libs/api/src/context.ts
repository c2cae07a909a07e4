import type {
  Actor,
  Count,
  ErrorCode,
  EventChanges,
  EventView,
  FairUseLimits,
  Page,
  Role,
} from '@leasehold/keys-core';
import type {
  AuditEntry,
  AuditFilter,
  AuditListInput,
  AuditView,
  PeopleService,
  TokenService,
} from '@leasehold/keys-core/access';
import type { BulkService } from '@leasehold/keys-core/bulk';
import type {
  EventCountInput,
  EventHead,
  EventListInput,
  EventStream,
  InTurn,
  Observing,
} from '@leasehold/keys-core/events';
import type { FleetService, NamespaceLimits } from '@leasehold/keys-core/fleet';
import type { GatewayService } from '@leasehold/keys-core/gateway';
import type { GatewayAddresses } from '@leasehold/keys-core/gateway-addresses';
import type { KeyService } from '@leasehold/keys-core/keys';
import type {
  CallerLife,
  FreezeService,
  LeaseOperations,
  LeaseService,
  LeasesTogether,
} from '@leasehold/keys-core/leases';
import type { HoldOffService, WitnessService } from '@leasehold/keys-core/postgres';
import type {
  GivenUpView,
  GiveUpService,
  ReservationService,
  ReservationUse,
} from '@leasehold/keys-core/reservations';
import type { SearchService } from '@leasehold/keys-core/search';
import type {
  Refusal,
  RefusalListInput,
  RefusalView,
  StatsService,
} from '@leasehold/keys-core/stats';
import type { TraceCarrier } from '@leasehold/service-kit/tracing';
import type { Access } from './access.ts';
import type { Turns } from './bounded-input.ts';

/** What operators did outside of leases. */
interface AuditService {
  list(input: AuditListInput): Promise<Page<AuditView>>;
  /** How many entries all pages of the list have. */
  count(input: AuditFilter): Promise<Count>;
  write(entry: AuditEntry): Promise<void>;
}

/** A variable of the controller's configuration. */
export interface Setting {
  readonly name: string;
  /** What is in effect; null for a secret, and where nothing is. */
  readonly value: string | null;
  readonly isSecret: boolean;
  /** Whether it is set, and not left to its default. */
  readonly isSet: boolean;
}

/** What is known of the webhook. */
export interface WebhookView {
  /** Without its path, which may be a secret. */
  readonly origin: string;
  readonly format: 'json' | 'slack';
  /** The actions of the audit that it is told of. */
  readonly actions: readonly string[];
  /** The alarms that it was told of and that have not ended. */
  readonly alarms: readonly string[];
  /** How often the next message has failed. */
  readonly tries: number;
  readonly lastError: string | null;
  /** When the last message arrived. */
  readonly sentAt: string | null;
}

/** The address that is told of alarms and of chosen entries of the audit. */
export interface WebhookService {
  /** Null if none is configured. */
  get(): Promise<WebhookView | null>;
  /** Sends a message now. @throws {LeaseError} `webhook.not_configured`, `webhook.failed`. */
  test(): Promise<void>;
}

/** Connects and acquires that were refused. */
interface RefusalService {
  note(refusal: Refusal): void;
  /** Those that were refused last first. @throws {LeaseError} `request.invalid` for a cursor of no list. */
  list(input: RefusalListInput, limits: NamespaceLimits): Promise<Page<RefusalView>>;
}

/** What happened, in order. */
export interface EventService {
  /**
   * Where the stream begins and ends now; for a caller that is limited to namespaces, its newest and its oldest
   * event there, or `oldest`, which comes before all events.
   */
  head(limits: NamespaceLimits): Promise<EventHead>;
  /** @throws {LeaseError} `events.compacted`, `events.other_epoch`, `request.invalid`. */
  list(input: EventListInput, limits: NamespaceLimits): Promise<Page<EventView>>;
  /** How many events all pages of the list have. */
  count(input: EventCountInput, limits: NamespaceLimits): Promise<Count>;
  /**
   * Every event after `afterId` that passes the filter, in order, each once, until the signal aborts;
   * without `afterId`, those that come after this has answered.
   * @throws {LeaseError} `events.compacted`, `events.other_epoch`, `request.invalid`.
   */
  watch(
    from: Parameters<EventStream['open']>[0],
    signal: AbortSignal,
  ): Promise<AsyncIterable<EventView>>;
  /**
   * What changes from now on, at most once a second, until the signal aborts.
   * @throws {LeaseError} as {@link watch}.
   */
  changes(
    from: Pick<Parameters<EventStream['open']>[0], 'filter' | 'inTurn'>,
    signal: AbortSignal,
  ): Promise<AsyncIterable<EventChanges>>;
  /** Who holds a resource now, and again whenever that has changed, until the signal aborts. */
  readonly observe: Observing['observe'];
}

/** What services hold and people look at: the leases face, or the environments face. */
export type LeaseFace = LeaseService & LeaseOperations;

/** What the procedures call; made once per controller. */
export interface ApiServices {
  /** Which datacenter a key lives in, and connects to keys in any of them. */
  readonly reservations: ReservationService;
  readonly keys: Omit<KeyService, 'connect' | 'connectAgain' | 'refuse'>;
  readonly leases: LeaseFace & LeasesTogether;
  readonly environments: LeaseFace;
  /** Times in which nobody may acquire an environment. */
  readonly freezes: FreezeService;
  readonly fleet: FleetService;
  readonly gateway: GatewayService & { readonly addresses: GatewayAddresses };
  readonly tokens: TokenService;
  readonly audit: AuditService;
  readonly events: EventService;
  readonly bulk: BulkService;
  readonly people: PeopleService;
  readonly search: SearchService;
  readonly stats: StatsService;
  readonly refusals: RefusalService;
  readonly webhook: WebhookService;
  /** The configuration of this controller. */
  readonly settings: readonly Setting[];
  readonly witness: WitnessService;
  readonly holdOff: HoldOffService;
  readonly giveUp: GiveUpService;
  /** Who reads the output of which backend, for the audit; null unless that is configured. */
  readonly readings: Readings | null;
  /** @throws {LeaseError} `controller.overloaded`: more grants are asked for than the database can make. */
  assertNotPressed(role: Role): void;
  readonly datacenter: string;
  /** The other datacenters, and calls that are carried out there. */
  readonly datacenters: DatacenterService;
  /** The database's time, ISO-8601. */
  now(): Promise<string>;
  /** Logs an internal failure that is reported to a caller inside an answer. */
  reportFailure(error: unknown, call: FailedCall): void;
}

/** What is logged of a call that failed. */
export interface FailedCall {
  readonly path: string | undefined;
  /** In the header `x-request-id` of its answer, or of the answer that opened its WebSocket. */
  readonly requestId: string | undefined;
}

/** The connection of a caller, and what is known about the caller behind it. */
export interface CallerConnection extends CallerLife {
  /**
   * Checks often whether the caller is still there, while it waits on this connection.
   * @returns a function that ends it.
   */
  watch(): () => void;
  /**
   * Resolves once the caller has read most of what it was sent, or is gone: a subscription that has
   * much to send waits for it. Absent where the transport itself requests more.
   */
  whenRead?(): Promise<void>;
}

/**
 * The limits of a caller and its present use: see `kernel/fair-use.ts`. Each method throws
 * `request.rate_limited` if waiting helps, and `quota.exceeded` if it does not.
 */
export interface CallerUse extends ReservationUse {
  readonly limits: FairUseLimits;
  /** Counts the items of a call that carries many. Renewals and releases are urgent. */
  countItems(count: number, kind?: 'ordinary' | 'urgent'): void;
  /**
   * Runs a read in its turn: few run at once, per caller and in total, and fewer still in the
   * background: the pages of exports and of streams that are behind. Those that are carried out elsewhere, in another
   * datacenter, take turns of their own.
   */
  read<T>(run: () => Promise<T>, kind?: 'asked' | 'background' | 'elsewhere'): Promise<T>;
  /** Counts a stream. @returns a function that counts it as over; calling it again does nothing. */
  openStream(): () => void;
  /** Counts a call that may wait for a lease or a key, or for so many of them. @returns as {@link openStream}. */
  startWaiting(count?: number): () => void;
  /** Checks that so many more leases may be held; resolves later only near the limit. */
  mayHold(count: number): Promise<void> | undefined;
  /**
   * Counts bytes of events that a call is about to write. @returns a function that takes the count back.
   * @throws {LeaseError} `request.rate_limited` beyond the limit.
   */
  startWriting(bytes: number): () => void;
  /** Counts bytes of events of a call that is never refused for them. */
  noteWritten(bytes: number): void;
  /** Records how many leases were granted (positive) or released (negative). */
  noteHeld(change: number): void;
  /** This use, with the leases of another principal: of a caller of another datacenter, with its role. */
  heldBy(principal: string, role: Role): CallerUse;
}

/** The readings under way of the output of backends: the position at which a caller begins says nothing. */
export interface Readings {
  /** Whether the audit does not have this reading yet. */
  isNew(principal: string, backendId: string): boolean;
  /** It has it now, and the reading goes on. */
  note(principal: string, backendId: string): void;
}

/** What one request, or one WebSocket connection, comes with. */
export interface ApiContext {
  /** Undefined without a valid token or session: every procedure then answers `auth.required`. */
  readonly access: Access | undefined;
  readonly services: ApiServices;
  /** What the caller may use; undefined without access, and for calls by Leasehold itself. */
  readonly use: CallerUse | undefined;
  /** Aborts when the caller's connection is gone. */
  readonly signal: AbortSignal;
  /** Whether the caller behind the connection is there. */
  readonly life: CallerConnection;
  /** The caller's address. */
  readonly source: string | null;
  /** What the request belongs to, from its headers; undefined if it names nothing, or came over WebSocket. */
  readonly trace?: TraceCarrier | undefined;
  /** In every line that is logged about the request. Calls over one WebSocket share one. */
  readonly requestId?: string | undefined;
  /** Spreads the calls of a batch over turns of the event loop; absent where they come one by one. */
  readonly turn?: Turns | undefined;
  /** Whether another datacenter forwarded this: it is not forwarded a second time. */
  readonly isForwarded: boolean;
}

/** Who acts, for the audit. */
export function actorOf(ctx: { readonly access: Access; readonly source: string | null }): Actor {
  return { actor: ctx.access.name, role: ctx.access.role, source: ctx.source };
}

/** A datacenter as this one sees it. Instants are ISO-8601 UTC strings. */
export interface DatacenterView {
  readonly name: string;
  readonly isLocal: boolean;
  readonly isReachable: boolean;
  /** Since when it cannot be reached; null while it can. */
  readonly since: string | null;
  /** Why it cannot be reached; null while it can, or has not been tried yet. */
  readonly code: ErrorCode | null;
  /** Of the newest answer to a ping; null before the first one, and for this datacenter. */
  readonly roundTripMs: number | null;
}

/** Where the homes of keys are written down, and whether it can be asked. */
export interface ReservationStoreView {
  readonly kind: 'postgres' | 'etcd';
  readonly isReachable: boolean;
  /** Since when it cannot be reached; null while it can. */
  readonly since: string | null;
}

/** A datacenter that is missing from a list. */
export interface UnreachableDatacenter {
  readonly datacenter: string;
  /** Since when it cannot be reached; null if it can, but did not answer this request. */
  readonly since: string | null;
  readonly code: ErrorCode;
}

/** A procedure that is carried out in another datacenter, for a caller of this one. */
export interface ForwardedCall {
  /** As on the wire: `keys.get`. */
  readonly procedure: string;
  /** As the caller sent it, without its datacenter. */
  readonly input: unknown;
  /** For how long the procedure itself may wait, in milliseconds. */
  readonly waitMs?: number | undefined;
  /** Whether it is one of several datacenters that the caller waits for: a slow one is left out. */
  readonly isOneOfSeveral?: boolean | undefined;
  readonly access: Access;
  /** The caller's address. */
  readonly source: string | null;
  /** Ends the call when the caller is gone. */
  readonly signal: AbortSignal;
}

/** This datacenter and the others. */
export interface DatacenterService {
  /** The others, in the order of their names. */
  readonly peers: readonly string[];
  list(): {
    readonly items: DatacenterView[];
    readonly store: ReservationStoreView;
    /** Those that were declared lost, whether or not this controller knows them. */
    readonly givenUp: GivenUpView[];
  };
  /** Why a datacenter is known to be unreachable; undefined when it is worth asking. */
  away(datacenter: string): UnreachableDatacenter | undefined;
  /**
   * Carries out a procedure in another datacenter, and returns its answer from there.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_unreachable`,
   * `request.outcome_unknown` when it may have been carried out, `peer.refused`, and whatever the
   * procedure itself throws.
   */
  call(datacenter: string, call: ForwardedCall): Promise<unknown>;
}

/**
 * An answer with the database's time before it was read, which lists of leases have already: a page
 * can then show how old it is.
 */
export async function asOf<Answer extends object>(
  services: Pick<ApiServices, 'now'>,
  read: () => Promise<Answer>,
): Promise<Answer & { readonly asOf: string }> {
  const now = await services.now();
  return { ...(await read()), asOf: now };
}

/** A stream that is behind waits for its turn with every page. */
export function inTurnOf(use: CallerUse | undefined): InTurn | undefined {
  return use === undefined ? undefined : (read) => use.read(read, 'background');
}
