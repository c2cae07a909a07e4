import { z } from 'zod';
import { LIMITS, nameProblem } from '@leasehold/keys-core';
import {
  holderSchema,
  idempotencyKeySchema,
  instantSchema,
  localTimeMsSchema,
  nameSchema,
  pageFields,
  placedFields,
  segmentsOrProblem,
  textSchema,
  toldFields,
  resourcePageFields,
} from './common.ts';
import { anyNamespaceSchema, commentSchema, leaseFilterFields, metadataSchema } from './leases.ts';

/** An environment as it is stored. */
export interface EnvironmentName {
  readonly namespace: string;
  readonly name: string;
}

/** `'prod'`, or `['team', 'app', 'prod']`: the last element is the name. */
export const environmentSchema = z
  .union([
    z.string(),
    z
      .array(z.string())
      .min(1)
      .max(LIMITS.namespaceSegmentsMax + 1),
  ])
  .transform((environment, ctx): EnvironmentName => {
    const segments = typeof environment === 'string' ? [environment] : environment;
    const name = segments.at(-1) ?? '';
    const namespace = segmentsOrProblem(segments.slice(0, -1));
    const problem = nameProblem(name);
    if (problem === undefined && typeof namespace === 'string') return { namespace, name };
    ctx.addIssue({
      code: 'custom',
      message: typeof namespace === 'string' ? (problem ?? '') : namespace.problem,
    });
    return z.NEVER;
  });

/** What an environment is leased for; a label of metrics, and the first thing that a refused caller reads. */
const actionSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.tagBytesMax });

export const tryAcquireInputSchema = z.strictObject({
  environment: environmentSchema,
  action: actionSchema,
  holder: holderSchema,
  comment: commentSchema.optional(),
  metadata: metadataSchema.optional(),
  /** By default `LEASEHOLD_ENVIRONMENT_LEASE_MS` of the controller. */
  durationMs: z.number().int().optional(),
  localTimeMs: localTimeMsSchema,
  idempotencyKey: idempotencyKeySchema.optional(),
  ...toldFields,
  ...placedFields,
});

const addressFields = {
  environment: environmentSchema.optional(),
  name: nameSchema.optional(),
  namespace: anyNamespaceSchema.optional(),
  ...placedFields,
};

interface Address {
  readonly environment?: EnvironmentName | undefined;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
}

function addressOf<Fields extends Address>(
  { environment, name, namespace, ...rest }: Fields,
  ctx: z.RefinementCtx,
): Omit<Fields, keyof Address> & EnvironmentName {
  const isTwofold = environment !== undefined && (name !== undefined || namespace !== undefined);
  const found =
    environment ?? (name === undefined ? undefined : { name, namespace: namespace ?? '' });
  if (found === undefined || isTwofold) {
    ctx.addIssue({ code: 'custom', path: ['environment'], message: 'must be given, once' });
  }
  return { ...rest, name: found?.name ?? '', namespace: found?.namespace ?? '' };
}

/** Names an environment: `{ environment }`, or `{ namespace, name }` as in its view. */
export const environmentNameSchema = z.strictObject(addressFields).transform(addressOf);

/** Asks who held an environment at a moment of the database's clock. */
export const environmentAtInputSchema = z
  .strictObject({ ...addressFields, at: instantSchema })
  .transform(addressOf);

const environmentFilterFields = { ...leaseFilterFields, action: actionSchema.optional() };

/** Free environments are listed too: a list shows all that exist. */
export const environmentListInputSchema = z
  .strictObject({ ...environmentFilterFields, ...resourcePageFields })
  .prefault({});

export const environmentCountInputSchema = z.strictObject(environmentFilterFields).prefault({});

/** Asks for what belongs to one environment, page by page. */
export const environmentPageInputSchema = z
  .strictObject({ ...addressFields, ...pageFields })
  .transform(addressOf);
