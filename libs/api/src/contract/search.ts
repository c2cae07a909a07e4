import { z } from 'zod';
import { FOUND_KINDS, LIMITS } from '@leasehold/keys-core';
import { anyDatacenterSchema, textSchema } from './common.ts';

/** As many as anybody reads. */
const FOUND_MAX = 100;
const FOUND_DEFAULT = 20;

export const findInputSchema = z.strictObject({
  /**
   * A part of a name as it is printed, with its namespace, or of an id or an e-mail address; or a line of a log, in which
   * ids of grants, tickets and backends, fencing tokens, addresses and holders are found.
   */
  text: textSchema({ bytesMin: 1, bytesMax: LIMITS.findTextBytesMax }),
  /** What is searched for; everything when left out. */
  kinds: z.array(z.enum(FOUND_KINDS)).min(1).max(FOUND_KINDS.length).optional(),
  limit: z.number().int().min(1).max(FOUND_MAX).default(FOUND_DEFAULT),
  /** By default this controller's datacenter; with `all`, every one that can be reached. */
  datacenter: anyDatacenterSchema,
});
