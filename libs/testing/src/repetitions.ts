/**
 * How often a test repeats what chance may break: a few times in `npm test`, often in
 * `npm run test:long`. The promise is the same; only the search for a counterexample is longer.
 */
export function repetitions(counts: { readonly short: number; readonly long: number }): number {
  return process.env['LEASEHOLD_TEST_LONG'] === '1' ? counts.long : counts.short;
}
