'use client';

import { createContext, use } from 'react';

/** When stale data came, in the database's epoch milliseconds; null when that is not known. */
interface StaleSince {
  readonly databaseMs: number | null;
}

/** Set around what shows a read, for as long as the read is stale. */
export const StaleContext = createContext<StaleSince | null>(null);

/** When the stale data that is shown around here came; null where the data is fresh. */
export function useStaleSince(): StaleSince | null {
  return use(StaleContext);
}
