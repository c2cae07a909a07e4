/** Reserved keys in addresses and in words. Pure. */
import {
  keyNameOf,
  printableText,
  reservationKeyProblem,
  resourceText,
} from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';

/** The key that an address names, or why it does not name one. */
export function keyOfAddress(
  text: string,
): { readonly key: readonly string[] } | { readonly problem: string } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { problem: 'The address names no key: it must be a list of strings in JSON.' };
  }
  if (!Array.isArray(parsed) || !parsed.every((part) => typeof part === 'string')) {
    return { problem: 'The address names no key: it must be a list of strings in JSON.' };
  }
  const problem = reservationKeyProblem(parsed);
  return problem === undefined ? { key: parsed } : { problem: `The key ${problem}.` };
}

/** `rooms/room-1` for a key of Leasehold's; any other list as JSON. What cannot be seen in it is escaped. */
export function keyLabel(key: readonly string[]): string {
  return printableText(keyText(key));
}

/** The same as it is, for what shows it with its own marks. */
export function keyText(key: readonly string[]): string {
  const named = keyNameOf(key);
  return named === undefined ? JSON.stringify(key) : resourceText(named);
}

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
