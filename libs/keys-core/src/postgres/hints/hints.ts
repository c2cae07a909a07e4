/**
 * Hints between controllers: "check this, something changed". A hint carries no fact and may be
 * lost; a waiter also checks by itself from time to time. They travel by LISTEN and NOTIFY.
 *
 * NOTIFY takes a lock on the whole database at commit, so no transition sends one: one sender per
 * controller collects topics and sends them together, one statement at a time. The listener
 * is in `hint-listener.ts`.
 */
import { type Clock, untilCalled } from '../../kernel/clock.ts';
import type { Sql } from '../sql.ts';

/** PostgreSQL accepts less than 8,000 bytes in one notification. */
const PAYLOAD_BYTES_MAX = 7_900;

/** Each schema has its channel: installations that share a database do not wake each other. */
export function hintChannelOf(schema: string): string {
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
export interface HeardHints extends Hints {
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
