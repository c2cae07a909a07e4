/**
 * Hints between controllers: "check this, something changed". A hint carries no fact and may be
 * lost; a waiter also checks by itself from time to time. They travel by LISTEN and NOTIFY.
 *
 * NOTIFY takes a lock on the whole database at commit, so no transition sends one: one sender per
 * controller collects topics and sends them together, one statement at a time.
 */
import pg from 'pg';
import { connectionOf } from '@leasehold/service-kit/database-url';
import { type Clock, untilCalled } from '../kernel/clock.ts';
import type { Sql } from './sql.ts';

/** After how long without traffic a connection asks whether its server is still there. */
export const KEEP_ALIVE_MS = 5_000;
/**
 * How much longer than the server may take an answer is waited for. A host that has lost its power answers nothing, and
 * TCP goes on sending to it for a quarter of an hour.
 */
export const SILENT_MS = 3_000;

/** PostgreSQL accepts less than 8,000 bytes in one notification. */
const PAYLOAD_BYTES_MAX = 7_900;

/** Each schema has its channel: installations that share a database do not wake each other. */
function hintChannelOf(schema: string): string {
  return `leasehold_hint_${schema}`;
}

export interface Hints {
  /** Notifies every controller, this one at once. Never throws, never waits. */
  notify(...topics: readonly string[]): void;
  /** Calls `fn` for each hint. @returns a function that ends it. */
  on(topic: string, fn: () => void): () => void;
  /**
   * Waits for a hint, or until `atMs` of the clock, or until the signal aborts; does not report
   * which it was. To miss nothing, call it before checking and await it after.
   */
  next(topic: string, atMs: number, signal?: AbortSignal): Promise<void>;
  /** Sends nothing more. */
  close(): void;
}

/** Local hints, which also take those of other controllers. */
interface HeardHints extends Hints {
  /** Calls the local listeners of the topic. */
  deliver(topic: string): void;
  /** Calls all local listeners: hints that were sent while the connection was lost are unknown. */
  deliverAll(): void;
}

export interface HintsOptions {
  readonly schema: string;
  readonly sql: Sql<'general'>;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

export function openHints(options: HintsOptions): HeardHints {
  return new DatabaseHints(options);
}

class DatabaseHints implements HeardHints {
  readonly #options: HintsOptions;
  readonly #listeners = new Map<string, Set<() => void>>();
  #pending = new Set<string>();
  #isSending = false;
  #isClosed = false;

  constructor(options: HintsOptions) {
    this.#options = options;
  }

  notify(...topics: readonly string[]): void {
    for (const topic of topics) {
      this.deliver(topic);
      this.#pending.add(topic);
    }
    void this.#send();
  }

  on(topic: string, fn: () => void): () => void {
    const fns = this.#listeners.get(topic) ?? new Set();
    fns.add(fn);
    this.#listeners.set(topic, fns);
    return () => {
      fns.delete(fn);
      if (fns.size === 0 && this.#listeners.get(topic) === fns) this.#listeners.delete(topic);
    };
  }

  next(topic: string, atMs: number, signal?: AbortSignal): Promise<void> {
    return untilCalled((finish) => {
      const off = this.on(topic, finish);
      const cancelTimer = this.#options.clock.at(atMs, finish);
      return () => {
        off();
        cancelTimer();
      };
    }, signal);
  }

  close(): void {
    this.#isClosed = true;
  }

  deliver(topic: string): void {
    for (const fn of [...(this.#listeners.get(topic) ?? [])]) fn();
  }

  deliverAll(): void {
    for (const topic of [...this.#listeners.keys()]) this.deliver(topic);
  }

  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    const channel = hintChannelOf(this.#options.schema);
    while (this.#pending.size > 0 && !this.#isClosed) {
      const topics = [...this.#pending];
      this.#pending = new Set();
      for (const payload of payloadsOf(topics)) {
        try {
          await this.#options.sql.$queryRaw`select pg_notify(${channel}, ${payload})::text`;
        } catch (error) {
          this.#options.onError(error);
        }
      }
    }
    this.#isSending = false;
  }
}

/** Groups topics into payloads that PostgreSQL accepts. */
function payloadsOf(topics: readonly string[]): string[] {
  const payloads: string[] = [];
  let group: string[] = [];
  for (const topic of topics) {
    if (
      group.length > 0 &&
      Buffer.byteLength(JSON.stringify([...group, topic])) > PAYLOAD_BYTES_MAX
    ) {
      payloads.push(JSON.stringify(group));
      group = [];
    }
    group.push(topic);
  }
  if (group.length > 0) payloads.push(JSON.stringify(group));
  return payloads;
}

// Receives the hints of other controllers. LISTEN needs a session of its own, so behind a pooler in
// transaction mode there is no listener: that costs the speed of hints, and nothing else.

const RECONNECT_MS = 1_000;
/** How often it is seen whether the connection still is one: nothing may be sent on it for hours. */
const PROBE_MS = 10_000;

interface HintListenerOptions {
  readonly databaseUrl: string;
  readonly hints: HeardHints;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/** Listens, and connects again when the connection is lost, until it is closed. */
export class HintListener {
  readonly #options: HintListenerOptions;
  readonly #listening: Promise<void>;
  #isClosed = false;
  #client: pg.Client | undefined;
  /** Cancels what is to be done next: to connect again, or to see whether the connection still is one. */
  #cancelNext: (() => void) | undefined;

  constructor(options: HintListenerOptions) {
    this.#options = options;
    this.#listening = this.#listen();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelNext?.();
    await this.#listening;
    await this.#client?.end().catch(this.#options.onError);
  }

  async #listen(): Promise<void> {
    if (this.#isClosed) return;
    const { databaseUrl, hints, onError } = this.#options;
    const { schema, ...connection } = connectionOf(databaseUrl);
    const client = new pg.Client({
      ...connection,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      connectionTimeoutMillis: SILENT_MS,
      query_timeout: SILENT_MS,
    });
    this.#client = client;
    let isOver = false;
    const onEnd = (): void => {
      if (isOver) return;
      isOver = true;
      void client.end().catch(onError);
      this.#later(RECONNECT_MS, () => void this.#listen());
    };
    client.on('error', onEnd);
    client.on('end', onEnd);
    client.on('notification', (message) => {
      for (const topic of topicsOf(message.payload ?? '')) hints.deliver(topic);
    });
    const onFailure = (error: unknown): void => {
      if (!isOver) onError(error);
      onEnd();
    };
    // To listen again changes nothing, and is answered.
    const probe = (): void => {
      client.query(`listen ${hintChannelOf(schema)}`).then(probeLater, onFailure);
    };
    const probeLater = (): void => {
      if (!isOver) this.#later(PROBE_MS, probe);
    };
    try {
      await client.connect();
      await client.query(`listen ${hintChannelOf(schema)}`);
      hints.deliverAll();
      probeLater();
    } catch (error) {
      onFailure(error);
    }
  }

  #later(ms: number, step: () => void): void {
    if (this.#isClosed) return;
    const { clock } = this.#options;
    this.#cancelNext?.();
    this.#cancelNext = clock.at(clock.nowMs() + ms, step);
  }
}

function topicsOf(payload: string): string[] {
  try {
    const topics: unknown = JSON.parse(payload);
    return Array.isArray(topics) ? topics.filter((topic) => typeof topic === 'string') : [];
  } catch {
    // Any client that may connect may notify: what is not ours is ignored.
    return [];
  }
}
