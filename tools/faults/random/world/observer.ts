/**
 * Reads the database all the time, past every fault of the network: promises, tickets, what is free while
 * somebody waits, backends without a grant, and how its clock is to be put into the machine's.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { machineMs } from '../../stage/machine-time.ts';
import { waitUntil } from '@leasehold/testing/stack';
import type { BareSeen, ClockStep, IdleSeen, Promised, TicketSeen } from '../history.ts';
import { DatabaseTime } from './database-time.ts';
import type { WorldDatabase } from './database.ts';

const SAMPLE_MS = 60;
/** A sample that took longer says too little about when something was so. */
const QUICK_MS = 150;
/** A busy machine may have no time for a quick one. */
const LOOK_MS_MAX = 60_000;

interface Sample {
  readonly databaseMs: number;
  readonly lastEventId: number;
  readonly leases: readonly { leaseId: string; expiresMs: number }[] | null;
  readonly tickets:
    readonly { resource: string; id: number; ticketId: string; validUntilMs: number }[] | null;
  readonly idle: readonly string[] | null;
  readonly bare: readonly string[] | null;
}

/** One statement, so that what is compared was true at one moment. */
const SAMPLE = `
  with now as (select extract(epoch from clock_timestamp())::float8 * 1000 as ms)
  select now.ms as "databaseMs",
    (select coalesce(max(id), 0)::int from leasehold.lease_event) as "lastEventId",
    (select json_agg(json_build_object('leaseId', lease_id, 'expiresMs', extract(epoch from expires_at)::float8 * 1000))
      from leasehold.lease where end_reason is null and released_at is null) as leases,
    (select json_agg(json_build_object('resource', face || ' ' || namespace || '/' || name, 'id', id,
        'ticketId', ticket_id, 'validUntilMs', extract(epoch from valid_until)::float8 * 1000) order by id)
      from leasehold.lease_waiter) as tickets,
    (select json_agg(distinct w.face || ' ' || w.namespace || '/' || w.name)
      from leasehold.lease_waiter w
      where extract(epoch from w.valid_until)::float8 * 1000 > now.ms and not exists (
        select from leasehold.lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
          and l.end_reason is null and l.released_at is null
          and extract(epoch from l.expires_at)::float8 * 1000 > now.ms)) as idle,
    (select json_agg(b.id) from leasehold.backend b
      left join leasehold.lease l on l.lease_id = b.lease_id and l.holder = b.drone_id
        and ((l.released_at is null and l.end_reason is null
            and extract(epoch from l.expires_at)::float8 * 1000 > now.ms)
          or extract(epoch from l.stops_by)::float8 * 1000 > now.ms)
      where b.status in ('starting', 'waiting', 'ready') and l.lease_id is null) as bare
  from now`;

export class Observer {
  readonly promises: Promised[] = [];
  readonly tickets: TicketSeen[] = [];
  readonly idle: IdleSeen[] = [];
  readonly bare: BareSeen[] = [];
  readonly #database: WorldDatabase;
  /** One for each database that there has been. */
  readonly #times = [new DatabaseTime()];
  readonly #expiries = new Map<string, number>();
  readonly #idleSince = new Map<string, number>();
  readonly #bareSince = new Map<string, number>();
  readonly #ended: Promise<void>;
  #held: readonly string[] = [];
  #lookCount = 0;
  #isClosed = false;

  constructor(database: WorldDatabase) {
    this.#database = database;
    this.#ended = this.#observe();
  }

  /** The grants that were in force at the last look. */
  get held(): readonly string[] {
    return this.#held;
  }

  get steps(): ClockStep[] {
    return this.#times.flatMap(({ steps }) => steps);
  }

  /** Fulfilled when it has looked once more. */
  async looked(): Promise<void> {
    const count = this.#lookCount;
    await waitUntil(() => this.#lookCount > count, {
      what: 'a look at the database',
      timeoutMs: LOOK_MS_MAX,
    });
  }

  /** When an event of a database was written, by the machine's clock; 0 is the first one. */
  machineTimeOf(place: number, eventId: number, databaseMs: number): number {
    return this.#times[place]?.machineTimeOf(eventId, databaseMs) ?? NaN;
  }

  /** From here on it is another database that is looked at: its events have numbers of their own. */
  beginAnother(): void {
    this.#times.push(new DatabaseTime());
    this.#expiries.clear();
    this.#interrupt();
  }

  get #time(): DatabaseTime {
    return this.#times.at(-1) as DatabaseTime;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#ended;
    this.#noteSpans({ idle: [], bare: [] }, machineMs());
  }

  async #observe(): Promise<void> {
    while (!this.#isClosed) {
      const askedAtMs = machineMs();
      const time = this.#time;
      try {
        const [sample] = await this.#database.query<Sample & Record<string, unknown>>(SAMPLE);
        const answeredAtMs = machineMs();
        const isQuick = answeredAtMs - askedAtMs <= QUICK_MS;
        if (sample !== undefined && isQuick && time === this.#time) {
          time.note({ ...sample, askedAtMs, answeredAtMs });
          this.#note(sample, askedAtMs, answeredAtMs);
          this.#lookCount += 1;
        } else {
          this.#interrupt();
        }
      } catch {
        // The database is what fails: it is asked again.
        this.#interrupt();
      }
      await pause(SAMPLE_MS);
    }
  }

  /** Nobody knows what was free meanwhile. */
  #interrupt(): void {
    this.#idleSince.clear();
    this.#bareSince.clear();
  }

  #note(sample: Sample, atMs: number, seenByMs: number): void {
    this.#held = (sample.leases ?? []).map(({ leaseId }) => leaseId);
    for (const { leaseId, expiresMs } of sample.leases ?? []) {
      if (this.#expiries.get(leaseId) === expiresMs) continue;
      this.#expiries.set(leaseId, expiresMs);
      const expiresAtMs = this.#time.machineTimeNow(expiresMs);
      this.promises.push({ leaseId, seenAtMs: atMs, expiresAtMs });
    }
    for (const { validUntilMs, ...ticket } of sample.tickets ?? []) {
      this.tickets.push({
        ...ticket,
        seenAtMs: atMs,
        seenByMs,
        validUntilMs: this.#time.machineTimeNow(validUntilMs),
      });
    }
    this.#noteSpans(sample, atMs);
  }

  #noteSpans({ idle, bare }: Pick<Sample, 'idle' | 'bare'>, atMs: number): void {
    noteSpans(this.#idleSince, idle ?? [], atMs, (resource, sinceMs) => {
      this.idle.push({ resource, sinceMs, untilMs: atMs });
    });
    noteSpans(this.#bareSince, bare ?? [], atMs, (backendId, sinceMs) => {
      this.bare.push({ backendId, sinceMs, untilMs: atMs });
    });
  }
}

/** Notes what is so now; tells of what was so since the last look at least, and is no more. */
function noteSpans(
  since: Map<string, number>,
  now: readonly string[],
  atMs: number,
  onEnd: (name: string, sinceMs: number) => void,
): void {
  for (const [name, sinceMs] of since) {
    if (now.includes(name)) continue;
    since.delete(name);
    onEnd(name, sinceMs);
  }
  for (const name of now) if (!since.has(name)) since.set(name, atMs);
}
