/** The gateway: tokens of people who reach a key from a browser, and what a gateway asks its controller. */
import { z } from 'zod';
import { LIMITS } from '@leasehold/keys-core';
import {
  idSchema,
  datacenterSchema,
  leaseIdSchema,
  nameSchema,
  namespaceSchema,
  reasonSchema,
  textSchema,
} from './common.ts';
import { accessSchema, keyConfigSchema, spawnSchema, userSchema } from './keys.ts';

export const gatewaySignInputSchema = z
  .strictObject({
    key: keyConfigSchema,
    access: accessSchema,
    /** What a request may start, with `mayStart`. */
    spawn: spawnSchema.optional(),
    /** The grant that the key must have, with `grantOnly`. */
    leaseId: leaseIdSchema.optional(),
  })
  .refine(({ access, spawn }) => access.mayStart === (spawn !== undefined), {
    message: 'must be given with access.mayStart, and only then',
    path: ['spawn'],
  })
  .refine(({ access, leaseId }) => access.grantOnly || leaseId === undefined, {
    message: 'must be given with access.grantOnly only',
    path: ['leaseId'],
  });

/** A token for the gateway of another datacenter, in place of one that is in force here. */
export const gatewayHandOverInputSchema = z.strictObject({
  token: textSchema({ bytesMin: 1, bytesMax: LIMITS.gatewayTokenBytesMax }),
  /** Where its key lives. */
  datacenter: datacenterSchema,
});

export const gatewayRevokeInputSchema = z
  .strictObject({
    /** That of the key; without a `name` with its children, and the root for all. */
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
  key: keyConfigSchema,
  /** Only this grant. */
  leaseId: leaseIdSchema.optional(),
  /** What may be started, as a token names it. */
  start: textSchema({ bytesMin: 1, bytesMax: 64 }).optional(),
  /** How long to wait for the backend to be ready. */
  waitMs: z.int().min(0).max(LIMITS.waitMsMax).default(LIMITS.waitMsConnectDefault),
});

/** New tokens are signed with a new key. */
export const gatewayRotateInputSchema = z.strictObject({
  /** Whether all tokens that were signed before are over at once. */
  now: z.boolean().default(false),
  reason: reasonSchema,
});

/** More than a gateway can have: a sum of many is still a number of the database. */
const COUNT_MAX = 1_000_000_000;
const countSchema = z.int().min(0).max(COUNT_MAX);
/** What was used longer ago was used that long ago. */
const USED_AGO_MS_MAX = 24 * 60 * 60 * 1_000;

export const gatewaySyncInputSchema = z.strictObject({
  gatewayId: idSchema,
  version: textSchema({ bytesMin: 1, bytesMax: 64 }),
  /** The revision of the revocations that the gateway has; left out by one that has none. */
  revision: textSchema({ bytesMin: 1, bytesMax: 64 }).optional(),
  /** Of all its routes: what does not fit into one call is sent in several. */
  connections: countSchema,
  routes: countSchema,
  uses: z
    .array(
      z.strictObject({
        leaseId: leaseIdSchema,
        connections: countSchema,
        users: countSchema,
        requests: countSchema,
        usedAgoMs: z.number().min(0).max(USED_AGO_MS_MAX),
      }),
    )
    .max(LIMITS.gatewayUsesPerCallMax),
});
