/**
 * What a run leaves behind: plain values, so that a checker needs nothing of the run. All times are
 * CLOCK_MONOTONIC in milliseconds, which is the same in all processes of a machine.
 */
import type { TestimonyLine } from '../stage/testimony.ts';

/** The datacenter of most of a run; those of others are only for keys that several share. */
export const LOCAL = 'local';

/** A row of `lease_event`. */
export interface CommittedEvent {
  /** Its place in the order of one database. */
  readonly id: number;
  readonly atMs: number;
  readonly datacenter: string;
  /** The face, the namespace and the name. */
  readonly resource: string;
  readonly leaseId: string;
  readonly token: string;
  readonly kind: string;
  /** Of a grant: the holder, which names one request. */
  readonly holder: string;
  readonly reason: string;
}

/** A request and its reply; a reply that never came is at Infinity. */
interface Called {
  readonly id: string;
  readonly process: string;
  readonly resource: string;
  readonly calledAtMs: number;
  readonly repliedAtMs: number;
}

/** An error code, or that nobody knows what became of the request. */
export type Failure =
  { readonly outcome: 'failed'; readonly code: string } | { readonly outcome: 'unknown' };

export interface Acquire extends Called {
  readonly kind: 'acquire';
  /** Different for each request; a replay has that of its request. */
  readonly holder: string;
  readonly waitMs: number;
  readonly answer:
    | {
        readonly outcome: 'granted';
        readonly leaseId: string;
        readonly token: string;
        readonly loseAtMs: number;
      }
    | { readonly outcome: 'held'; readonly by: string }
    | Failure;
}

export interface Renew extends Called {
  readonly kind: 'renew';
  readonly leaseId: string;
  readonly token: string;
  readonly answer:
    | { readonly outcome: 'renewed'; readonly loseAtMs: number }
    | { readonly outcome: 'refused'; readonly reason: string }
    | Failure;
}

export interface Release extends Called {
  readonly kind: 'release';
  readonly leaseId: string;
  readonly token: string;
  readonly answer: { readonly outcome: 'answered'; readonly report: string } | Failure;
}

export interface Cancel extends Called {
  readonly kind: 'cancel';
  readonly holder: string;
  readonly answer: { readonly outcome: 'answered'; readonly report: string } | Failure;
}

export interface Revoke extends Called {
  readonly kind: 'revoke';
  readonly leaseId: string;
  readonly answer: { readonly outcome: 'answered'; readonly report: string } | Failure;
}

export interface Connect extends Called {
  readonly kind: 'connect';
  readonly answer:
    | {
        readonly outcome: 'connected';
        readonly backendId: string;
        readonly leaseId: string;
        readonly token: string;
        readonly datacenter: string;
      }
    | Failure;
}

export type Operation = Acquire | Renew | Release | Cancel | Revoke | Connect;

/** A lease that the client library handed out, until it ended for its holder. */
export interface Hold {
  readonly process: string;
  readonly resource: string;
  readonly leaseId: string;
  readonly token: string;
  /** Of a lease that several may hold. */
  readonly mode?: 'permit' | 'shared' | undefined;
  readonly fromMs: number;
  /** Infinity for a hold that died with its process. */
  readonly untilMs: number;
  readonly end: 'released' | 'lost' | 'died';
  /** Of a loss: after the last moment at which the lease had allowed work, by the holder's clock. */
  readonly lateMs: number;
  /** Of a loss: for how long the process had had no turn before. */
  readonly stallMs: number;
}

/** A guarded write of a whole list, as its writer knows it. */
export interface SinkWrite {
  readonly entry: string;
  readonly token: string;
  readonly outcome: 'accepted' | 'refused' | 'unknown';
  readonly begunAtMs: number;
  /** When its writer knew the outcome. */
  readonly knownAtMs: number;
}

/** What an observer read of a grant: a new promise each time that its expiry had changed. */
export interface Promised {
  readonly leaseId: string;
  readonly seenAtMs: number;
  readonly expiresAtMs: number;
}

/** What an observer read of a ticket. */
export interface TicketSeen {
  readonly resource: string;
  /** Its place in the queue. */
  readonly id: number;
  readonly ticketId: string;
  /** It was read between these two. */
  readonly seenAtMs: number;
  readonly seenByMs: number;
  readonly validUntilMs: number;
}

/** A resource that nobody held while a valid ticket waited for it, as an observer read it. */
export interface IdleSeen {
  readonly resource: string;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** A backend that was called alive and had no unexpired grant. */
export interface BareSeen {
  readonly backendId: string;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** What one reader of the event stream received, over all its connections. */
export interface StreamRead {
  readonly reader: string;
  readonly ids: readonly number[];
  /** The first event that it had to receive, and the last one. */
  readonly fromId: number;
  readonly throughId: number;
}

/** A row of `lease` at the end. */
export interface FinalRow {
  readonly resource: string;
  readonly leaseId: string;
  readonly token: string;
  readonly isEnded: boolean;
}

/** A key's active reservations at the end: in each datacenter that believes to be its home. */
export interface HomeSeen {
  readonly key: string;
  readonly datacenter: string;
}

/** What a fault disturbs, while it lasts and until everything works again. */
export type Reach = 'leases' | 'keys' | 'stream' | 'datacenters';

/** The name of times in which the machine had no time for a run. */
export const BUSY = 'busy';

/** For how long a process of the run wanted the processor meanwhile, and others had it: the one that waited most. */
export interface Starved {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly waitedMs: number;
}

/** A fault that happened. */
export interface FaultSeen {
  readonly id: string;
  readonly name: string;
  readonly target: string;
  readonly fromMs: number;
  readonly untilMs: number;
  /** When everything that it reaches had worked again; Infinity if it never did. */
  readonly recoveredAtMs: number;
  readonly reaches: readonly Reach[];
  /** For how long it may take to recover; judged unless another fault was in the way. */
  readonly recoveryMsMax: number;
}

/** A service that ended although nobody had killed it or asked it to end. */
export interface Crash {
  readonly process: string;
  readonly atMs: number;
  readonly exit: string;
}

/** A step of the database clock, between a reading of before it and one of after it. */
export interface ClockStep {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** When an environment was frozen at least. */
export interface Freeze {
  readonly resource: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * A database that was killed and replaced by an older backup of itself, as it was read afterwards. What
 * it had recorded after the backup is lost.
 */
export interface LostDatabase {
  readonly events: readonly CommittedEvent[];
  readonly sink: readonly string[];
  readonly streams: readonly StreamRead[];
  /** What was acknowledged before this is in the backup. */
  readonly backupFromMs: number;
  /** It was killed between these two. */
  readonly endsFromMs: number;
  readonly endedAtMs: number;
}

/** `events`, `sink`, `streams` and `rows` are of the database as it is at the end. */
export interface History {
  readonly beganAtMs: number;
  readonly endedAtMs: number;
  /** The databases before that one, the first one first. */
  readonly lost: readonly LostDatabase[];
  readonly events: readonly CommittedEvent[];
  readonly operations: readonly Operation[];
  readonly holds: readonly Hold[];
  readonly sink: readonly string[];
  readonly writes: readonly SinkWrite[];
  readonly promises: readonly Promised[];
  readonly tickets: readonly TicketSeen[];
  readonly idle: readonly IdleSeen[];
  readonly bare: readonly BareSeen[];
  readonly streams: readonly StreamRead[];
  readonly rows: readonly FinalRow[];
  readonly homes: readonly HomeSeen[];
  readonly testimony: readonly TestimonyLine[];
  readonly faults: readonly FaultSeen[];
  readonly steps: readonly ClockStep[];
  readonly crashes: readonly Crash[];
  readonly freezes: readonly Freeze[];
  readonly starved: readonly Starved[];
}

export type Invariant = `I${1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16}`;

/** What holds of leases that several hold, of several at once, and of environments: see `checks/sharing.ts`. */
type SharingRule = 'permits' | 'shared' | 'together' | 'superseded' | 'frozen';

/** A promise that a history contradicts. `linear`: no order of the requests explains the replies. */
export interface Violation {
  readonly invariant: Invariant | SharingRule | 'linear' | 'recovery' | 'crash';
  readonly atMs: number;
  readonly text: string;
}
