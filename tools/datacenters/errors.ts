import { leaseholdErrorOf, type LeaseholdError } from '@leasehold/client';

/** What a call was refused with, and how long that took. @throws when it was not refused. */
export async function refusalOf(
  call: Promise<unknown>,
): Promise<LeaseholdError & { readonly tookMs: number }> {
  const startedAtMs = performance.now();
  try {
    await call;
  } catch (error) {
    const refusal = leaseholdErrorOf(error);
    if (refusal === undefined) throw error;
    return { ...refusal, tookMs: performance.now() - startedAtMs };
  }
  throw new Error('the call was not refused');
}
