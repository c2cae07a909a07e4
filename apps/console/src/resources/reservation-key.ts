/** Reserved keys in addresses and in words. Pure. */
import {
  keyNameOf,
  printableText,
  reservationKeyProblem,
  resourceText,
} from '@leasehold/keys-core';

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
