import type { Outputs } from '~/lib/api/api.ts';

/** An event of a resource as it comes over the wire; the same for every face. */
export type EventItem = Outputs['keys']['history']['items'][number];
