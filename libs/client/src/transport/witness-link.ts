import type { AppRouter } from '@leasehold/api';
import type { TRPCLink } from '@trpc/client';
import { tap } from '@trpc/server/observable';

/** Calls of holders: their answers report how far the database has come, and later calls repeat it. */
const PATHS: ReadonlySet<string> = new Set([
  'drones.session',
  'drones.heartbeat',
  'keys.renew',
  'leases.acquire',
  'leases.acquireMany',
  'leases.heartbeat',
  'environments.tryAcquire',
  'environments.heartbeat',
]);

/**
 * Sends back what controllers have reported about their database, so that a controller whose
 * database was restored from a copy learns of it from holders, even when it has forgotten it
 * itself. The report is opaque, and of no use to others.
 */
export function witnessLink(): TRPCLink<AppRouter> {
  /** The newest report, by datacenter; the controller's own is `''`. */
  const witnesses = new Map<string, string>();
  return () =>
    ({ op, next }) => {
      if (!PATHS.has(op.path)) return next(op);
      const input = (op.input ?? {}) as { readonly datacenter?: string };
      const place = input.datacenter ?? '';
      const witness = witnesses.get(place);
      return next({ ...op, input: witness === undefined ? input : { ...input, witness } }).pipe(
        tap({
          next({ result }) {
            const told = toldIn(result);
            if (told !== undefined) witnesses.set(place, told);
          },
        }),
      );
    };
}

function toldIn(result: object): string | undefined {
  const data = 'data' in result ? result.data : undefined;
  const isObject = typeof data === 'object' && data !== null && 'witness' in data;
  return isObject && typeof data.witness === 'string' ? data.witness : undefined;
}
