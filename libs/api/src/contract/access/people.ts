import { z } from 'zod';
import { ORDERED_ROLES } from '@leasehold/keys-core';
import { cursorSchema, limitSchema, reasonSchema, textSchema, uuidSchema } from '../common.ts';

const EMAIL_BYTES_MAX = 254;
const PERSON_NAME_BYTES_MAX = 255;

/** Compared without regard to case. */
export const emailSchema = z
  .email('must be an e-mail address')
  .max(EMAIL_BYTES_MAX)
  .transform((email) => email.toLowerCase());

export const personRoleSchema = z.enum(ORDERED_ROLES);

export const peopleListInputSchema = z
  .strictObject({ cursor: cursorSchema.optional(), limit: limitSchema })
  .prefault({});

export const personInviteInputSchema = z.strictObject({
  email: emailSchema,
  name: textSchema({ bytesMin: 1, bytesMax: PERSON_NAME_BYTES_MAX }).optional(),
  role: personRoleSchema,
});

export const personActInputSchema = z.strictObject({
  personId: uuidSchema,
  reason: reasonSchema.optional(),
});

export const personSetRoleInputSchema = personActInputSchema.extend({ role: personRoleSchema });
