import type { AppRouter } from '@leasehold/api';
import type { TRPCLink } from '@trpc/client';
import { observable } from '@trpc/server/observable';

/** What holders call: these answers say how far the database has come, and these calls say it again. */
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
 * Brings back what controllers have told of their database, so that a controller whose database was
 * restored from a copy learns of it from those who hold something, even when it has forgotten it itself.
 * What is told is opaque, and of no use to anybody else.
 */
export function witnessLink(): TRPCLink<AppRouter> {
  /** The newest that was told, by datacenter; the controller's own is `''`. */
  const witnesses = new Map<string, string>();
  return () =>
    ({ op, next }) => {
      if (!PATHS.has(op.path)) return next(op);
      const input = (op.input ?? {}) as { readonly datacenter?: string };
      const place = input.datacenter ?? '';
      const witness = witnesses.get(place);
      return observable((observer) =>
        next({ ...op, input: witness === undefined ? input : { ...input, witness } }).subscribe({
          next(value) {
            const told = toldIn(value.result);
            if (told !== undefined) witnesses.set(place, told);
            observer.next(value);
          },
          error: (error) => {
            observer.error(error);
          },
          complete: () => {
            observer.complete();
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
