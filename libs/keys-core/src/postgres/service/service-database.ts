/** The database of a service that shares it with Leasehold, by the service's own means. */

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
