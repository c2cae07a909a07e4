/** Addresses of exactly the events that a number of the overview counts. Pure. */
import { routes } from '~/lib/routes.ts';

/** The events of these kinds, of the last minutes. */
export function eventsHref(kinds: readonly string[], minutes: number): string {
  return routes.events({ kinds: kinds.join(','), range: `${String(minutes)}m` });
}
