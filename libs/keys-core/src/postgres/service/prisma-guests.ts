import { CONNECTION_WAIT_MS, TRANSACTION_TIMEOUT_MS } from './service-database.ts';
import type { PrismaClient } from '../generated/client.ts';
import type { Sql } from '../sql.ts';
import { type GuestDatabase } from './guest-transaction.ts';

/** What other people's code gets for a transaction on our connections. */
export type CallbackSql = Sql<'guests'> & Pick<PrismaClient, '$executeRaw'>;

/** Transactions of our own client: other people's code works in Leasehold's schema. */
export function prismaGuests(client: PrismaClient): GuestDatabase<CallbackSql> {
  return {
    transaction: (work) =>
      client.$transaction((tx) => work({ sql: tx, call: async (code) => code(tx) }), {
        isolationLevel: 'ReadCommitted',
        maxWait: CONNECTION_WAIT_MS,
        timeout: TRANSACTION_TIMEOUT_MS,
      }),
  };
}
