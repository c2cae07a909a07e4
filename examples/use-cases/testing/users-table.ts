import type pg from 'pg';
import { Fenced, FencedAccount } from '../fencing/fenced-account.ts';
import type { Users } from '../update-user.ts';

/** Users in a database of the service's own, fenced. */
export function usersTable(pool: pg.Pool): Users {
  return {
    async read(userId, { fencingToken }) {
      return { visits: Number(await new FencedAccount(pool, userId, fencingToken).open()) };
    },
    async write(userId, { visits }, fencingToken) {
      try {
        await new FencedAccount(pool, userId, fencingToken).write(BigInt(visits));
        return true;
      } catch (error) {
        if (error instanceof Fenced) return false;
        throw error;
      }
    },
  };
}
