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
  general: PrismaClientLike<Tx>,
): ServiceDatabase<Tx> {
  return {
    transaction: (work) =>
      general.$transaction(
        async (tx) => {
          const result = await work({
            tx,
            // The text is a statement of ours, made by the template tag, and its values are parameters.
            // The service's client does not know fragments of another copy of the tag.
            // eslint-disable-next-line no-restricted-syntax -- see above
            query: async (text, values) => tx.$queryRawUnsafe<unknown[]>(text, ...values),
          });
          // Prisma reports a commit as done even if a statement has failed and PostgreSQL rolled back.
          // Then this one fails too.
          // eslint-disable-next-line no-restricted-syntax -- a statement without values
          await tx.$queryRawUnsafe('select 1');
          return result;
        },
        {
          isolationLevel: 'ReadCommitted',
          maxWait: CONNECTION_WAIT_MS,
          timeout: TRANSACTION_TIMEOUT_MS,
        },
      ),
  };
}
