import type { Outputs } from '~/lib/api/api.ts';

/** A key, a lease or an environment as it comes over the wire. */
export type DetailItem =
  | (NonNullable<Outputs['keys']['get']> & { readonly metadata?: undefined })
  | NonNullable<Outputs['leases']['get']>;
