/** The audit, people and API tokens. */
import { z } from 'zod';
import {
  FAIR_USE_LIMITS,
  FAIR_USE_MAX,
  LIMITS,
  ORDERED_ROLES,
  RESERVED_NAMESPACE,
  TOKEN_ROLES,
  isOrderedRole,
  isSystemName,
  isWithinNamespace,
  parseAddressRange,
  type TokenRole,
} from '@leasehold/keys-core';
import {
  idSchema,
  instantSchema,
  namespaceSchema,
  pageFields,
  reasonSchema,
  textSchema,
  uuidSchema,
  windowMinutesSchema,
} from './common.ts';

const filterSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.reasonBytesMax });

const auditFields = {
  actor: filterSchema.optional(),
  action: filterSchema.optional(),
  resource: filterSchema.optional(),
  /** Part of the resource, the reason or the actor, whatever its case. */
  text: filterSchema.optional(),
  /** Whether to list only signing in and out, or everything else. */
  signIns: z.boolean().optional(),
  /** Only what was done in the last so many minutes of the database's clock. */
  windowMinutes: windowMinutesSchema.optional(),
  /** Inclusive. */
  from: instantSchema.optional(),
  /** Exclusive. */
  to: instantSchema.optional(),
};

export const auditCountInputSchema = z.strictObject(auditFields).prefault({});

export const auditListInputSchema = z.strictObject({ ...auditFields, ...pageFields }).prefault({});

const EMAIL_BYTES_MAX = 254;
const PERSON_NAME_BYTES_MAX = 255;

/** Compared without regard to case. */
export const emailSchema = z
  .email('must be an e-mail address')
  .max(EMAIL_BYTES_MAX)
  .transform((email) => email.toLowerCase());

const personRoleSchema = z.enum(ORDERED_ROLES);

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

const NAMESPACES_PER_TOKEN_MAX = 64;
const PROGRAMS_PER_TOKEN_MAX = 64;
const ADDRESSES_PER_TOKEN_MAX = 64;
const TOKEN_NAME_BYTES_MAX = 255;

/** A gateway starts what the tokens of people name. */
const STARTS_NOTHING: readonly TokenRole[] = ['viewer', 'gateway'];

/** A namespace that somebody is limited to. */
export const limitNamespaceSchema = namespaceSchema
  .refine(
    (namespace) => namespace !== '',
    'must not be the root: leave `namespaces` out for no limit',
  )
  .refine(
    (namespace) => !isWithinNamespace(namespace, RESERVED_NAMESPACE),
    `must not be "${RESERVED_NAMESPACE}": that namespace is Leasehold's own`,
  );

/** A network, with an optional port or range of ports: where a drone's backends may be. */
const addressRangeSchema = z.string().refine((text) => {
  const range = parseAddressRange(text);
  if (range === undefined) return false;
  const cidr = `${range.network}/${String(range.prefixLength)}`;
  return (range.family === 'ipv4' ? z.cidrv4() : z.cidrv6()).safeParse(cidr).success;
}, 'must be a network such as 10.1.0.0/16, 10.1.0.0/16:21000-29999 or [fd00::/8]:21000');

/** Limits of fair use in place of those of the role. */
const limitsSchema = z
  .strictObject(
    Object.fromEntries(
      FAIR_USE_LIMITS.map((name) => {
        const max = FAIR_USE_MAX[name];
        const problem = `must be a whole number from 0 to ${String(max)}`;
        return [name, z.int(problem).min(0, problem).max(max, problem).optional()];
      }),
    ),
  )
  .optional();

export const tokenCreateInputSchema = z
  .strictObject({
    /** The audit names people by their e-mail address: nothing else may look like one. */
    name: textSchema({ bytesMin: 1, bytesMax: TOKEN_NAME_BYTES_MAX })
      .refine((name) => !name.includes('@'), 'must not contain "@": in the audit that is a person')
      .refine(
        (name) => !isSystemName(name),
        'must not be "leasehold" or contain ":": in the audit that is Leasehold itself or a drone',
      ),
    role: z.enum(TOKEN_ROLES),
    /** Limits the token to these namespaces and their children; no limit when left out. */
    namespaces: z.array(limitNamespaceSchema).min(1).max(NAMESPACES_PER_TOKEN_MAX).optional(),
    droneId: idSchema.optional(),
    expiresAt: instantSchema.optional(),
    /** The programs that a drone may offer, or that a client may start; any when left out. */
    programs: z.array(idSchema).min(1).max(PROGRAMS_PER_TOKEN_MAX).optional(),
    /** How many backends a drone may run at once; any number when left out. */
    capacity: z.int().min(0).max(LIMITS.capacityMax).optional(),
    /** Where a drone's backends may be; anywhere when left out. */
    addresses: z.array(addressRangeSchema).min(1).max(ADDRESSES_PER_TOKEN_MAX).optional(),
    limits: limitsSchema,
  })
  .refine((input) => (input.role === 'drone') === (input.droneId !== undefined), {
    message: 'must be given for the role drone, and for no other',
    path: ['droneId'],
  })
  .refine((input) => isOrderedRole(input.role) || input.namespaces === undefined, {
    message: 'must not be given for the roles drone and gateway',
    path: ['namespaces'],
  })
  .refine(({ role, programs }) => !STARTS_NOTHING.includes(role) || programs === undefined, {
    message: 'must not be given for the roles viewer and gateway: they choose no program',
    path: ['programs'],
  })
  .refine((input) => input.role === 'drone' || input.capacity === undefined, {
    message: 'must be given for no role but drone',
    path: ['capacity'],
  })
  .refine((input) => input.role === 'drone' || input.addresses === undefined, {
    message: 'must be given for no role but drone',
    path: ['addresses'],
  });

export const tokenGetInputSchema = z.strictObject({ tokenId: uuidSchema });

export const tokenRevokeInputSchema = z.strictObject({
  tokenId: uuidSchema,
  reason: reasonSchema.optional(),
});
