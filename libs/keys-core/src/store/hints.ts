/**
 * Hints between controllers: "look there, something changed". A hint carries no fact and may be
 * lost; whoever waits for one also looks by itself now and then. They travel by LISTEN and NOTIFY.
 *
 * NOTIFY takes a lock of the whole database at commit, so no transition sends one: one sender per
 * controller collects topics and sends them together, one statement at a time. LISTEN needs a
 * session of its own, so a transaction-level pooler in between costs the speed of hints, and
 * nothing else.
 */
import { connectionOf, type DatabaseConnection } from '@leasehold/service-kit/database-url';
import pg from 'pg';
import type { Clock } from '../kernel/clock.ts';
import type { Sql } from './rows.ts';

/** Each schema has its own: installations that share a database do not wake each other. */
const CHANNEL_STEM = 'leasehold_hint_';
const RECONNECT_MS = 1_000;
/** PostgreSQL takes less than 8,000 bytes in one notification. */
const PAYLOAD_BYTES_MAX = 7_900;

export interface Hints {
  /** Tells every controller, this one at once. Never throws, never waits. */
  notify(topic: string): void;
  /** Calls `fn` whenever somebody says so. @returns a function that ends it. */
  on(topic: string, fn: () => void): () => void;
  /**
   * Waits for a hint, or until `atMs` of the clock, or until the signal aborts; says nothing about
   * which it was. To miss nothing, call it before looking and await it after.
   */
  next(topic: string, atMs: number, signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface HintsOptions {
  readonly databaseUrl: string;
  readonly sql: Sql;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

export function openHints(options: HintsOptions): Hints {
  return new DatabaseHints(options);
}

class DatabaseHints implements Hints {
  readonly #options: HintsOptions;
  readonly #connection: Pick<DatabaseConnection, 'connectionString' | 'options'>;
  readonly #channel: string;
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #listening: Promise<void>;
  #pending = new Set<string>();
  #isSending = false;
  #isClosed = false;
  #client: pg.Client | undefined;
  #cancelReconnect: (() => void) | undefined;

  constructor(options: HintsOptions) {
    this.#options = options;
    const { schema, ...connection } = connectionOf(options.databaseUrl);
    this.#connection = connection;
    this.#channel = `${CHANNEL_STEM}${schema}`;
    this.#listening = this.#listen();
  }

  notify(topic: string): void {
    this.#deliver(topic);
    this.#pending.add(topic);
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
    return new Promise((resolve) => {
      const finish = (): void => {
        off();
        cancelTimer();
        signal?.removeEventListener('abort', finish);
        resolve();
      };
      const off = this.on(topic, finish);
      const cancelTimer = this.#options.clock.at(atMs, finish);
      if (signal?.aborted === true) finish();
      else signal?.addEventListener('abort', finish);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelReconnect?.();
    await this.#listening;
    await this.#client?.end().catch(this.#options.onError);
  }

  #deliver(topic: string): void {
    for (const fn of [...(this.#listeners.get(topic) ?? [])]) fn();
  }

  async #listen(): Promise<void> {
    if (this.#isClosed) return;
    const client = new pg.Client({ ...this.#connection, keepAlive: true });
    this.#client = client;
    let isOver = false;
    const onEnd = (): void => {
      if (isOver) return;
      isOver = true;
      void client.end().catch(this.#options.onError);
      this.#reconnectLater();
    };
    client.on('error', onEnd);
    client.on('end', onEnd);
    client.on('notification', (message) => {
      for (const topic of topicsOf(message.payload ?? '')) this.#deliver(topic);
    });
    try {
      await client.connect();
      await client.query(`listen ${this.#channel}`);
      // What was said while nobody listened is unknown: everyone looks once.
      for (const topic of [...this.#listeners.keys()]) this.#deliver(topic);
    } catch (error) {
      this.#options.onError(error);
      onEnd();
    }
  }

  #reconnectLater(): void {
    if (this.#isClosed) return;
    const { clock } = this.#options;
    this.#cancelReconnect = clock.at(clock.nowMs() + RECONNECT_MS, () => void this.#listen());
  }

  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#pending.size > 0 && !this.#isClosed) {
      const topics = [...this.#pending];
      this.#pending = new Set();
      for (const payload of payloadsOf(topics)) {
        try {
          await this.#options.sql.$queryRaw`select pg_notify(${this.#channel}, ${payload})::text`;
        } catch (error) {
          this.#options.onError(error);
        }
      }
    }
    this.#isSending = false;
  }
}

/** Groups topics into payloads that PostgreSQL takes. */
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

function topicsOf(payload: string): string[] {
  try {
    const topics: unknown = JSON.parse(payload);
    return Array.isArray(topics) ? topics.filter((topic) => typeof topic === 'string') : [];
  } catch {
    // Anyone who may connect may notify; what is not ours is not for us.
    return [];
  }
}
