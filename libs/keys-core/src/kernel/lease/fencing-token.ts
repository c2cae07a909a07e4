/**
 * A fencing token: a whole number that grows with every grant of a resource and stays the same
 * when the grant is renewed. It travels as a decimal string, because JSON numbers are exact only up to 2^53.
 */
export function isFencingToken(text: string): boolean {
  return /^(0|[1-9]\d{0,18})$/u.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n;
}

/** Negative, zero or positive as `a` is smaller than, equal to or greater than `b`. */
export function compareFencingTokens(a: string, b: string): number {
  const difference = BigInt(a) - BigInt(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
