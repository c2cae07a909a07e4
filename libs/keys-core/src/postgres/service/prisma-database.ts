import { GUEST_MS_MAX } from './guest-transaction.ts';
import { CONNECTION_WAIT_MS, type ServiceDatabase } from './service-database.ts';

/** What is used of a transaction of Prisma's client. */
export interface PrismaTransaction {
  $queryRawUnsafe<Rows = unknown>(text: string, ...values: unknown[]): PromiseLike<Rows>;
}

/** What is used of a client that Prisma has generated for the service. */
export interface PrismaClientLike<Tx extends PrismaTransaction> {
  $transaction<Result>(
    work: (tx: Tx) => Promise<Result>,
    options?: {
      readonly isolationLevel?: 'ReadCommitted';
      readonly maxWait?: number;
      readonly timeout?: number;
    },
  ): Promise<Result>;
}

/**
 * When Prisma gives a transaction up, in milliseconds: the first statement may wait for its row as
 * long as {@link GUEST_MS_MAX}, the work has as much, and this must never be the one to act first.
 */
const TIMEOUT_MS = 2 * GUEST_MS_MAX + 2_000;

/** The database of a service that has a Prisma client of its own, for PostgreSQL. */
export function prismaDatabase<Tx extends PrismaTransaction>(
  prisma: PrismaClientLike<Tx>,
): ServiceDatabase<Tx> {
  return {
    transaction: (work) =>
      prisma.$transaction(
        (tx) =>
          work({
            tx,
            // The text is a statement of ours, made by the template tag, and its values are parameters.
            // Fragments of another copy of the tag are not known to the service's client.
            // eslint-disable-next-line no-restricted-syntax -- see above
            query: async (text, values) => tx.$queryRawUnsafe<unknown[]>(text, ...values),
          }),
        { isolationLevel: 'ReadCommitted', maxWait: CONNECTION_WAIT_MS, timeout: TIMEOUT_MS },
      ),
  };
}
