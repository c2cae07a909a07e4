import type { IncomingMessage } from 'node:http';
import { parseAndValidateFlightRouterState } from 'next/dist/server/app-render/parse-and-validate-flight-router-state.js';

const HEADER = 'next-router-state-tree';

/**
 * Whether the router state that a page sends can be read. Next would answer an unreadable one with a
 * 500, and log our error for a request that was wrong: so it is checked before Next renders anything.
 */
export function isRouterStateSound({ headers }: IncomingMessage): boolean {
  try {
    parseAndValidateFlightRouterState(headers[HEADER]);
    return true;
  } catch {
    return false;
  }
}
