/** Reserved keys in addresses and in words. Pure. */
import { keyNameOf, reservationKeyProblem } from '@leasehold/keys-core';
import { fullName } from '~/lib/format.ts';

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

/** `rooms/room-1` for a key of Leasehold's; any other list as JSON. */
export function keyLabel(key: readonly string[]): string {
  const named = keyNameOf(key);
  return named === undefined ? JSON.stringify(key) : fullName(named);
}
