/** The database of a service that shares it with Leasehold, by the service's own means. */
import { GUEST_MS_MAX } from './guest-transaction.ts';

/** A transaction of the service's own client. */
export interface ServiceTransaction<Tx> {
  /** As the service's own code knows it. */
  readonly tx: Tx;
  /** Runs one statement in it. Parameters are `$1`, `$2`, …. @returns its rows. */
  query(text: string, values: readonly unknown[]): Promise<unknown[]>;
}

/** Made by `prismaDatabase` or `pgDatabase`. */
export interface ServiceDatabase<Tx> {
  /**
   * Runs `work` in one READ COMMITTED transaction, and rolls it back when `work` throws. After it has
   * ended, nothing can be sent with it any more.
   */
  transaction<Result>(
    work: (transaction: ServiceTransaction<Tx>) => Promise<Result>,
  ): Promise<Result>;
}

/** How long to wait for one of the service's connections, in milliseconds. */
export const CONNECTION_WAIT_MS = 5_000;

/**
 * After how many milliseconds Prisma gives up a transaction: the first statement may wait for its row as
 * long as {@link GUEST_MS_MAX}, the work may take as long, and Prisma must never be the first to act.
 */
export const TRANSACTION_TIMEOUT_MS = 2 * GUEST_MS_MAX + 2_000;
