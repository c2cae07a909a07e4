/**
 * Hints between controllers: "look there, something changed". A hint carries no fact and may be
 * lost; whoever waits for one also looks by itself now and then. They travel by LISTEN and NOTIFY.
 *
 * NOTIFY takes a lock of the whole database at commit, so no transition sends one: one sender per
 * controller collects topics and sends them together, one statement at a time. LISTEN needs a
 * session of its own, so a transaction-level pooler in between costs the speed of hints, and
 * nothing else.
 */
import pg from 'pg';
import type { Clock } from '../kernel/clock.ts';
import type { Sql } from './rows.ts';

const CHANNEL = 'leasehold_hint';
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
  const listeners = new Map<string, Set<() => void>>();
  let pending = new Set<string>();
  let isSending = false;
  let isClosed = false;
  let client: pg.Client | undefined;
  let cancelReconnect: (() => void) | undefined;

  function deliver(topic: string): void {
    for (const fn of [...(listeners.get(topic) ?? [])]) fn();
  }

  async function listen(): Promise<void> {
    if (isClosed) return;
    const next = new pg.Client({ connectionString: options.databaseUrl, keepAlive: true });
    client = next;
    let isOver = false;
    const onEnd = (): void => {
      if (isOver) return;
      isOver = true;
      void next.end().catch(options.onError);
      if (isClosed) return;
      cancelReconnect = options.clock.at(options.clock.nowMs() + RECONNECT_MS, () => void listen());
    };
    next.on('error', onEnd);
    next.on('end', onEnd);
    next.on('notification', (message) => {
      for (const topic of topicsOf(message.payload ?? '')) deliver(topic);
    });
    try {
      await next.connect();
      await next.query(`listen ${CHANNEL}`);
      // What was said while nobody listened is unknown: everyone looks once.
      for (const topic of [...listeners.keys()]) deliver(topic);
    } catch (error) {
      options.onError(error);
      onEnd();
    }
  }

  async function send(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (pending.size > 0 && !isClosed) {
      const topics = [...pending];
      pending = new Set();
      for (const payload of payloadsOf(topics)) {
        try {
          await options.sql.$queryRaw`select pg_notify(${CHANNEL}, ${payload})::text`;
        } catch (error) {
          options.onError(error);
        }
      }
    }
    isSending = false;
  }

  const listening = listen();

  function on(topic: string, fn: () => void): () => void {
    const fns = listeners.get(topic) ?? new Set();
    fns.add(fn);
    listeners.set(topic, fns);
    return () => {
      fns.delete(fn);
      if (fns.size === 0) listeners.delete(topic);
    };
  }

  return {
    notify(topic) {
      deliver(topic);
      pending.add(topic);
      void send();
    },
    on,
    next: (topic, atMs, signal) =>
      new Promise((resolve) => {
        const finish = (): void => {
          off();
          cancelTimer();
          signal?.removeEventListener('abort', finish);
          resolve();
        };
        const off = on(topic, finish);
        const cancelTimer = options.clock.at(atMs, finish);
        if (signal?.aborted === true) finish();
        else signal?.addEventListener('abort', finish);
      }),
    async close() {
      isClosed = true;
      cancelReconnect?.();
      await listening;
      await client?.end().catch(options.onError);
    },
  };
}

/** Groups topics into payloads that PostgreSQL takes. */
function payloadsOf(topics: readonly string[]): string[] {
  const payloads: string[] = [];
  let group: string[] = [];
  for (const topic of topics) {
    if (group.length > 0 && Buffer.byteLength(JSON.stringify([...group, topic])) > PAYLOAD_BYTES_MAX) {
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
