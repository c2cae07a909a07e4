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
 * After how many milliseconds Prisma gives up a transaction: the first statement may wait for its row as
 * long as {@link GUEST_MS_MAX}, the work may take as long, and Prisma must never be the first to act.
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
            // The service's client does not know fragments of another copy of the tag.
            // eslint-disable-next-line no-restricted-syntax -- see above
            query: async (text, values) => tx.$queryRawUnsafe<unknown[]>(text, ...values),
          }),
        { isolationLevel: 'ReadCommitted', maxWait: CONNECTION_WAIT_MS, timeout: TIMEOUT_MS },
      ),
  };
}
