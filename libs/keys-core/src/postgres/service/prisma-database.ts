import {
  CONNECTION_WAIT_MS,
  type ServiceDatabase,
  TRANSACTION_TIMEOUT_MS,
} from './service-database.ts';

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
        {
          isolationLevel: 'ReadCommitted',
          maxWait: CONNECTION_WAIT_MS,
          timeout: TRANSACTION_TIMEOUT_MS,
        },
      ),
  };
}
