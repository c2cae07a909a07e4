import type pg from 'pg';
import { createChance, type Chance } from './chance.ts';

/** A row by its columns; the database gives the others their defaults. */
export type Row = Readonly<Record<string, unknown>>;

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** How long the standard ladder of keys is. */
export const KEY_LADDER = {
  renew_after_ms: 30_000,
  soft_after_ms: 40_000,
  hard_after_ms: 50_000,
  ttl_ms: 60_000,
} as const;

/** The rows to write, collected before anything is written. */
export interface World {
  readonly chance: Chance;
  /** The database's clock when the seed began, as epoch milliseconds. */
  readonly nowMs: number;
  readonly leases: Row[];
  readonly events: Row[];
  readonly waiters: Row[];
  readonly drones: Row[];
  readonly backends: Row[];
  readonly states: Row[];
  readonly audit: Row[];
  /** An instant that long before now, or after it when negative. */
  ago(ms: number): string;
}

/** An empty world as of the database's clock. */
export async function beginWorld(sql: pg.Pool, seed: number): Promise<World> {
  const { rows } = await sql.query<{ now: Date }>('select clock_timestamp() as now');
  const nowMs = rows[0]?.now.getTime() ?? 0;
  return {
    chance: createChance(seed),
    nowMs,
    leases: [],
    events: [],
    waiters: [],
    drones: [],
    backends: [],
    states: [],
    audit: [],
    ago: (ms) => new Date(nowMs - ms).toISOString(),
  };
}

/** Writes a world, each table in one statement. Numbered rows are numbered in order of time. */
export async function writeWorld(sql: pg.Pool, world: World): Promise<void> {
  await insertRows(sql, 'drone', world.drones);
  await insertRows(sql, 'lease', world.leases);
  await insertRows(sql, 'lease_event', inOrder(world.events, 'at'));
  await insertRows(sql, 'lease_waiter', inOrder(world.waiters, 'created_at'));
  await insertRows(sql, 'backend', world.backends);
  await insertRows(sql, 'backend_state', inOrder(world.states, 'at'));
  await insertRows(sql, 'audit', inOrder(world.audit, 'at'));
}

function inOrder(rows: readonly Row[], column: string): Row[] {
  return [...rows].sort((a, b) => (String(a[column]) < String(b[column]) ? -1 : 1));
}

/** Inserts rows that all have the columns of the first one. */
export async function insertRows(sql: pg.Pool, table: string, rows: readonly Row[]): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const columns = Object.keys(first)
    .map((column) => `"${column}"`)
    .join(', ');
  await sql.query(
    `insert into "${table}" (${columns})
     select ${columns} from jsonb_populate_recordset(null::"${table}", $1::jsonb)`,
    [JSON.stringify(rows)],
  );
}
