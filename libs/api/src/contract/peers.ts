/** What controllers of different datacenters say to each other. */
import { z } from 'zod';
import { namespaceSchema, textSchema } from './common.ts';
import { connectFields, keyConfigSchema } from './keys.ts';
import { moveInputSchema, reservationIdSchema, reservationKeySchema } from './reservations.ts';

/** The roles that a caller can have in another datacenter: nobody is an administrator there. */
export const FORWARDED_ROLES = ['viewer', 'client', 'operator'] as const;

/** As many as a token can be limited to. */
const NAMESPACES_MAX = 64;
const ACTOR_BYTES_MAX = 512;
const PROCEDURE_BYTES_MAX = 64;

/** The caller, as the sender has checked it. */
export const peerCallerSchema = z.strictObject({
  principal: textSchema({ bytesMin: 1, bytesMax: 255 }),
  actor: textSchema({ bytesMin: 1, bytesMax: ACTOR_BYTES_MAX }),
  role: z.enum(FORWARDED_ROLES),
  namespaces: z.array(namespaceSchema).max(NAMESPACES_MAX).nullable(),
  /** The caller's address, as the sender saw it. */
  source: textSchema({ bytesMax: 255 }).nullable(),
});

export const peerConnectInputSchema = z.strictObject({
  input: z.strictObject({
    ...connectFields,
    key: keyConfigSchema,
    homeReservation: reservationIdSchema,
  }),
  caller: peerCallerSchema,
});

export const peerResolveInputSchema = z.strictObject({
  reservationId: reservationIdSchema,
  key: reservationKeySchema,
});

export const peerMoveInputSchema = z.strictObject({
  input: moveInputSchema,
  caller: peerCallerSchema,
});

/** `input` is checked by the procedure itself. A body is bounded by `LIMITS.bodyBytesMax`. */
export const carryOutInputSchema = z.strictObject({
  procedure: textSchema({ bytesMin: 1, bytesMax: PROCEDURE_BYTES_MAX }),
  input: z.unknown(),
  caller: peerCallerSchema,
});
