import type { IncomingMessage } from 'node:http';
import { parseAndValidateFlightRouterState } from 'next/dist/server/app-render/parse-and-validate-flight-router-state.js';

const HEADER = 'next-router-state-tree';

/**
 * Whether what a page's router says of itself can be read. Next makes a 500 of one that cannot, and
 * logs an error of ours for a request that was wrong: so it is asked before it renders anything.
 */
export function isRouterStateSound({ headers }: IncomingMessage): boolean {
  try {
    parseAndValidateFlightRouterState(headers[HEADER]);
    return true;
  } catch {
    return false;
  }
}
