/** Addresses of the lists that a number of one face counts. Pure. */
import type { Face } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';

/** One, and many of them. */
export const FACE_NAMES: Readonly<Record<Face, readonly [one: string, many: string]>> = {
  key: ['key', 'keys'],
  lease: ['lease', 'leases'],
  environment: ['environment', 'environments'],
};

/** The list of a face with this search. Leasehold's own leases are counted nowhere. */
export function listOf(face: Face, q: string): string {
  if (face === 'key') return routes.keys({ q });
  return face === 'lease' ? routes.leases({ q: `${q} own:no` }) : routes.environments({ q });
}
