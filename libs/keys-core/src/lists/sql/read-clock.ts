import type { Store } from '../../postgres/open-store.ts';

/** The database's clock, for an answer that came with no row. Epoch milliseconds. */
export async function readClock(store: Store): Promise<number> {
  const rows = await store.reads.$queryRaw<{ asOf: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;
  return rows[0]?.asOf ?? 0;
}
