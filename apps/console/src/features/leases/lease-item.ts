import type { Outputs } from '~/lib/api/api.ts';

/** A lease or an environment as it comes over the wire. */
export type LeaseItem = Outputs['leases']['list']['items'][number];
