import { z } from 'zod';
import { jsonProblem, LIMITS, utf8Bytes } from '@leasehold/keys-core';
import {
  checked,
  datacenterSchema,
  envNameSchema,
  grantRefSchema,
  idSchema,
  idempotencyKeySchema,
  instantSchema,
  leaseIdSchema,
  localTimeMsSchema,
  nameSchema,
  namespaceSchema,
  pageFields,
  placedFields,
  reasonSchema,
  resourceFilterFields,
  resourcePageFields,
  tagSchema,
  textSchema,
  toldFields,
  uuidSchema,
} from './common.ts';

/** Names a key. An omitted namespace equals the empty one. */
export const keyNameSchema = z.strictObject({
  name: nameSchema,
  namespace: namespaceSchema.default(''),
  ...placedFields,
});

export const keyConfigSchema = z.strictObject({
  name: nameSchema,
  namespace: namespaceSchema.default(''),
  tag: tagSchema.default(''),
});

const argSchema = textSchema({ bytesMax: LIMITS.backendArgBytesMax, isControlAllowed: true });
const envValueSchema = textSchema({
  bytesMax: LIMITS.backendEnvValueBytesMax,
  isControlAllowed: true,
});

/** For how long a backend may live. */
export const lifetimeSchema = z.int().min(1).max(LIMITS.lifetimeLimitSecondsMax);
/** For how long a backend may be without a use. */
export const idleStopSchema = z.int().min(1).max(LIMITS.idleStopSecondsMax);

/** A spawn is sent on one line to the process that carries it out, with control characters escaped. */
const SPAWN_TEXT_BYTES_MAX = 256 * 1_024;

/** Names a program that a drone's own config defines; never a command line. */
export const spawnSchema = z
  .strictObject({
    program: idSchema,
    args: z.array(argSchema).max(LIMITS.backendArgsMax).default([]),
    env: z
      .record(envNameSchema, envValueSchema)
      .refine(
        (env) => Object.keys(env).length <= LIMITS.backendEnvMax,
        `must have at most ${String(LIMITS.backendEnvMax)} entries`,
      )
      .default({}),
    /** By default, and at most, that of the program. */
    lifetimeLimitSeconds: lifetimeSchema.optional(),
    /** After how long without a use it is stopped; by default as the program says. */
    idleStopSeconds: idleStopSchema.optional(),
    datacenter: datacenterSchema.optional(),
  })
  .refine(
    ({ args, env }) => utf8Bytes(JSON.stringify([args, env])) <= SPAWN_TEXT_BYTES_MAX,
    `args and env together must be at most ${String(SPAWN_TEXT_BYTES_MAX)} bytes of JSON`,
  );

/** The user of a gateway token. */
export const userSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.gatewayUserBytesMax });

const claimsSchema = checked(z.record(z.string(), z.unknown()), (value) =>
  jsonProblem(value, {
    bytesMax: LIMITS.gatewayClaimsBytesMax,
    depthMax: LIMITS.metadataDepthMax,
  }),
);

/** Who may reach a key through a gateway, and for how long. */
export const accessSchema = z
  .strictObject({
    /** Passed to the backend as `x-leasehold-user`. */
    user: userSchema,
    /** Passed to the backend as `x-leasehold-claims`. */
    claims: claimsSchema.optional(),
    expiresInSeconds: z
      .int()
      .min(1)
      .max(LIMITS.gatewayTokenSecondsMax)
      .default(LIMITS.gatewayTokenSecondsDefault),
    /** Whether a request may start the backend again when the key has none. */
    mayStart: z.boolean().default(false),
    /** Whether it is for the present grant alone: it ends with it. */
    grantOnly: z.boolean().default(false),
  })
  .refine(({ mayStart, grantOnly }) => !(mayStart && grantOnly), {
    message: 'must not be given with grantOnly: a grant that is over starts nothing',
    path: ['mayStart'],
  });

/** The fields of a connect besides its key. */
export const connectFields = {
  spawn: spawnSchema.optional(),
  waitMs: z.number().int().min(0).max(LIMITS.waitMsMax).default(LIMITS.waitMsConnectDefault),
  waitFor: z.enum(['granted', 'ready']).default('granted'),
  idempotencyKey: idempotencyKeySchema.optional(),
};

export const connectInputSchema = z
  .strictObject({
    key: keyConfigSchema.optional(),
    access: accessSchema.optional(),
    ...connectFields,
  })
  .refine((input) => input.key !== undefined || input.spawn !== undefined, {
    message: 'must be given when there is no key: a random key is of use only to a new backend',
    path: ['spawn'],
  })
  .refine((input) => input.access?.mayStart !== true || input.spawn !== undefined, {
    message: 'must be given with access.mayStart: it is what may be started',
    path: ['spawn'],
  });

const keyFilterFields = {
  namespace: namespaceSchema.optional(),
  /** Whether children of `namespace` are listed too. */
  includeChildren: z.boolean().default(false),
  droneId: idSchema.optional(),
  tag: tagSchema.optional(),
  ...resourceFilterFields,
};

export const keyListInputSchema = z
  .strictObject({ ...keyFilterFields, ...resourcePageFields })
  .prefault({});

export const keyCountInputSchema = z.strictObject(keyFilterFields).prefault({});

export const keyRenewInputSchema = z.strictObject({
  droneId: idSchema,
  /** Part of the contract, but not read: a renewal is answered in the clock of its own `localTimeMs`. */
  clockId: uuidSchema,
  localTimeMs: localTimeMsSchema,
  renewals: z.array(grantRefSchema).max(LIMITS.renewalsPerCallMax),
  ...toldFields,
});

export const keyRevokeInputSchema = z
  .strictObject({
    leaseId: leaseIdSchema,
    mode: z.enum(['graceful', 'force']),
    reason: reasonSchema,
    /** With mode force, frees the key at once: two backends may then run until `stopsBy`. */
    abandon: z.boolean().default(false),
    ...placedFields,
  })
  .refine((input) => input.mode === 'force' || !input.abandon, {
    message: 'is for mode force only',
    path: ['abandon'],
  });

/** Asks for what belongs to one key, page by page. */
export const keyPageInputSchema = keyNameSchema.extend(pageFields);

export const keyResetInputSchema = keyNameSchema.extend({ reason: reasonSchema.optional() });

/** Asks who held a key at a moment of the database's clock. */
export const keyAtInputSchema = keyNameSchema.extend({ at: instantSchema });
