/** The gateway: tokens of people who reach a key from a browser, and what a gateway asks its controller. */
import { z } from 'zod';
import { LIMITS, utf8Bytes } from '@leasehold/keys-core';
import {
  idSchema,
  leaseIdSchema,
  nameSchema,
  namespaceSchema,
  reasonSchema,
  tagSchema,
  textSchema,
} from './common.ts';
import { spawnSchema } from './keys.ts';

const userSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.gatewayUserBytesMax });

/** Who may reach a key through a gateway, and for how long. */
export const accessSchema = z.strictObject({
  /** Passed to the backend as `x-leasehold-user`. */
  user: userSchema,
  /** Passed to the backend as `x-leasehold-claims`. */
  claims: z
    .record(z.string(), z.json())
    .refine(
      (claims) => utf8Bytes(JSON.stringify(claims)) <= LIMITS.gatewayClaimsBytesMax,
      `must be at most ${String(LIMITS.gatewayClaimsBytesMax)} bytes of JSON`,
    )
    .optional(),
  expiresInSeconds: z
    .int()
    .min(1)
    .max(LIMITS.gatewayTokenSecondsMax)
    .default(LIMITS.gatewayTokenSecondsDefault),
  /** Whether a request may start the backend again when the key has none. */
  mayStart: z.boolean().default(false),
  /** Whether it is for the present grant alone: it ends with it. */
  grantOnly: z.boolean().default(false),
});

const keySchema = z.strictObject({
  name: nameSchema,
  namespace: namespaceSchema.default(''),
  tag: tagSchema.default(''),
});

export const gatewaySignInputSchema = z
  .strictObject({
    key: keySchema,
    access: accessSchema,
    /** What a request may start, with `mayStart`. */
    spawn: spawnSchema.optional(),
  })
  .refine(({ access, spawn }) => access.mayStart === (spawn !== undefined), {
    message: 'must be given with access.mayStart, and only then',
    path: ['spawn'],
  });

export const gatewayRevokeInputSchema = z
  .strictObject({
    /** Includes its children; the root for all. */
    namespace: namespaceSchema.default(''),
    name: nameSchema.optional(),
    user: userSchema.optional(),
    leaseId: leaseIdSchema.optional(),
    reason: reasonSchema,
  })
  .refine(
    ({ name, user, leaseId }) => name !== undefined || user !== undefined || leaseId !== undefined,
    { message: 'must be given unless user or leaseId is', path: ['name'] },
  );

export const gatewayRouteInputSchema = z.strictObject({
  gatewayId: idSchema,
  key: keySchema,
  /** Only this grant. */
  leaseId: leaseIdSchema.optional(),
  /** What may be started, as a token names it. */
  start: textSchema({ bytesMin: 1, bytesMax: 64 }).optional(),
  /** How long to wait for the backend to be ready. */
  waitMs: z.int().min(0).max(LIMITS.waitMsMax).default(LIMITS.waitMsConnectDefault),
});

const countSchema = z.int().nonnegative();

export const gatewaySyncInputSchema = z.strictObject({
  gatewayId: idSchema,
  version: textSchema({ bytesMin: 1, bytesMax: 64 }),
  /** The revision of the revocations that the gateway has; left out by one that has none. */
  revision: textSchema({ bytesMin: 1, bytesMax: 64 }).optional(),
  uses: z
    .array(
      z.strictObject({
        leaseId: leaseIdSchema,
        connections: countSchema,
        users: countSchema,
        requests: countSchema,
        usedAgoMs: z.number().nonnegative(),
      }),
    )
    .max(LIMITS.gatewayUsesPerCallMax),
});
