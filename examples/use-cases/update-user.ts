import type { Leasehold } from '@leasehold/client';

export interface Users {
  /**
   * Shows the token to the store, then reads: from then on no earlier holder of the lease can write.
   * @throws if the store has seen a larger token.
   */
  read(
    userId: string,
    how: { readonly fencingToken: string; readonly signal: AbortSignal },
  ): Promise<{ readonly visits: number }>;
  /** @returns false if the store has seen a larger token: somebody else holds the lease now. */
  write(userId: string, user: { visits: number }, fencingToken: string): Promise<boolean>;
}

/** A module of a service: at most one update of a user at a time, in all processes. */
export function createUserModule(leasehold: Leasehold, users: Users) {
  // Declared once, where the module is made.
  const updating = leasehold.defineLease(['module', 'user', 'update'], {
    ttlMs: 10_000,
    description: 'Updates of one user.',
  });

  return {
    async visit(userId: string): Promise<number> {
      await using lease = await updating.acquire(userId, { waitMs: 5_000 });
      // Shows the token, then reads. The signal cancels it when the lease is lost.
      const { visits } = await users.read(userId, lease);
      const next = { visits: visits + 1 };
      lease.assertHeld();
      const isWritten = await users.write(userId, next, lease.fencingToken);
      if (!isWritten) throw new Error('Another update of this user has begun in the meantime.');
      return next.visits;
    },
  };
}
