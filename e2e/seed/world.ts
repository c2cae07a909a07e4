import type pg from 'pg';
import { createChance, type Chance } from './chance.ts';

/** A row by its columns; those that it does not name are null. */
export type Row = Readonly<Record<string, unknown>>;

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** In the order in which they are written. The database numbers rows of some: those are written by the time in this column. */
const TABLES = {
  drone: null,
  lease: null,
  lease_event: 'at',
  lease_waiter: 'created_at',
  backend: null,
  backend_state: 'at',
  audit: 'at',
  lease_declaration: null,
  api_token: null,
  reservation: null,
  reservation_home: null,
  reservation_pointer: null,
} as const;

type Table = keyof typeof TABLES;

/** The rows to write, collected before anything is written. */
export class World {
  readonly chance: Chance;
  /** The database's clock when the seed began, as epoch milliseconds. */
  readonly nowMs: number;
  readonly #rows = new Map<Table, Row[]>();

  private constructor(nowMs: number, seed: number) {
    this.nowMs = nowMs;
    this.chance = createChance(seed);
  }

  /** An empty world as of the database's clock. */
  static async begin(sql: pg.Pool, seed: number): Promise<World> {
    const { rows } = await sql.query<{ now: Date }>('select clock_timestamp() as now');
    return new World(rows[0]?.now.getTime() ?? 0, seed);
  }

  /** An instant that long before now, or after it when negative. */
  ago(ms: number): string {
    return new Date(this.nowMs - ms).toISOString();
  }

  add(name: Table, row: Row): void {
    const rows = this.#rows.get(name);
    if (rows === undefined) this.#rows.set(name, [row]);
    else rows.push(row);
  }

  rowsOf(name: Table): readonly Row[] {
    return this.#rows.get(name) ?? [];
  }

  /** Writes everything, each table in one statement. */
  async write(sql: pg.Pool): Promise<void> {
    for (const [name, column] of Object.entries(TABLES) as [Table, string | null][]) {
      const rows = this.rowsOf(name);
      await insertRows(sql, name, column === null ? rows : inOrder(rows, column));
    }
  }
}

function inOrder(rows: readonly Row[], column: string): Row[] {
  return [...rows].sort((a, b) => (String(a[column]) < String(b[column]) ? -1 : 1));
}

export async function insertRows(sql: pg.Pool, name: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))]
    .map((column) => `"${column}"`)
    .join(', ');
  await sql.query(
    `insert into "${name}" (${columns})
     select ${columns} from jsonb_populate_recordset(null::"${name}", $1::jsonb)`,
    [JSON.stringify(rows)],
  );
}
