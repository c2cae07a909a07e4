import { waitUntil } from '@leasehold/testing/stack';

/**
 * Waits until `look` is true. `withinMs` is a time that the test promises, which the gate does not look at.
 * @throws {Error} naming `what` when that does not come.
 */
export async function until(
  what: string,
  look: () => boolean | Promise<boolean>,
  withinMs?: number,
): Promise<void> {
  await waitUntil(look, { what, withinMs });
}
