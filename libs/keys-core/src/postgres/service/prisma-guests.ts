import type { PrismaClient } from '../generated/client.ts';
import type { Sql } from '../sql.ts';
import { GUEST_MS_MAX, type GuestDatabase } from './guest-transaction.ts';

/** What other people's code gets for a transaction on our connections. */
export type CallbackSql = Sql<'guests'> & Pick<PrismaClient, '$executeRaw'>;

/** How long to wait for a connection, in milliseconds. */
const CONNECTION_WAIT_MS = 5_000;
/**
 * After how many milliseconds Prisma gives up a transaction: the first statement may wait for its row as
 * long as {@link GUEST_MS_MAX}, the work may take as long, and Prisma must never be the first to act.
 */
const PRISMA_TIMEOUT_MS = 2 * GUEST_MS_MAX + 2_000;

/** Transactions of our own client: other people's code works in Leasehold's schema. */
export function prismaGuests(client: PrismaClient): GuestDatabase<CallbackSql> {
  return {
    transaction: (work) =>
      client.$transaction((tx) => work({ sql: tx, call: async (code) => code(tx) }), {
        isolationLevel: 'ReadCommitted',
        maxWait: CONNECTION_WAIT_MS,
        timeout: PRISMA_TIMEOUT_MS,
      }),
  };
}
