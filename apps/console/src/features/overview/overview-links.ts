import type { Face } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';

/** The time spans that the overview can show. */
export const WINDOWS = [
  { minutes: 15, label: '15 min', words: '15 minutes' },
  { minutes: 60, label: '1 h', words: 'hour' },
  { minutes: 360, label: '6 h', words: '6 hours' },
  { minutes: 1_440, label: '24 h', words: '24 hours' },
] as const;

export const DEFAULT_WINDOW_MINUTES = 60;

/** `in the last hour`, to be read after a number. */
export function windowText(minutes: number): string {
  const known = WINDOWS.find((window) => window.minutes === minutes);
  return `in the last ${known?.words ?? `${String(minutes)} minutes`}`;
}

// Addresses of exactly the events that a number of the overview counts.

/** The events of these kinds, of the last minutes. */
export function eventsHref(kinds: readonly string[], minutes: number): string {
  return routes.events({ kinds: kinds.join(','), range: `${String(minutes)}m` });
}

// Addresses of the lists that a number of one face counts.

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
