import { routes } from '~/lib/routes.ts';

const DRONE = 'drone:';

/** Everything that a person or a token did, sign-ins too: an address of the audit. */
export function doneBy(actor: string): string {
  return routes.audit({ q: `actor:"${actor}"`, show: 'all' });
}

/** Leasehold itself is `leasehold`, and drones are `drone:id`: they are not in the audit. */
export function isPerson(actor: string): boolean {
  return actor !== '' && actor !== 'leasehold' && !actor.includes(':') && !actor.includes('"');
}

/** The id of the drone that acted, which events name `drone:drone-1`; undefined for all others. Pure. */
export function droneOf(actor: string): string | undefined {
  return actor.startsWith(DRONE) ? actor.slice(DRONE.length) : undefined;
}
