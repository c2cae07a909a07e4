import { z } from 'zod';
import {
  DATACENTER_NAME,
  ID,
  LIMITS,
  PHASES,
  LeaseError,
  isFencingToken,
  joinNamespace,
  nameProblem,
  namespaceProblem,
  textProblem,
} from '@leasehold/keys-core';

/** A schema that accepts only what `problemOf` finds nothing wrong with. */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  problemOf: (value: z.output<Schema>) => string | undefined,
): Schema {
  return schema.check((ctx) => {
    const message = problemOf(ctx.value);
    if (message !== undefined) ctx.issues.push({ code: 'custom', message, input: ctx.value });
  });
}

/** A JSON Schema counts characters: of those a text has at most as many as it has bytes. */
export function textSchema(bounds: Parameters<typeof textProblem>[1]): z.ZodString {
  const { bytesMin = 0, bytesMax, isControlAllowed = false } = bounds;
  return checked(z.string(), (value) => textProblem(value, bounds)).meta({
    description: isControlAllowed
      ? `At most ${String(bytesMax)} bytes of UTF-8, with line breaks if need be, but without NUL.`
      : `One line of at most ${String(bytesMax)} bytes of UTF-8, without control characters.`,
    ...(bytesMin > 0 ? { minLength: 1 } : {}),
    maxLength: bytesMax,
  });
}

export const nameSchema = checked(z.string(), nameProblem).meta({
  description: `1 to ${String(LIMITS.nameBytesMax)} bytes of UTF-8, without control characters.`,
  minLength: 1,
  maxLength: LIMITS.nameBytesMax,
});
/** A part of a name as it is printed, such as `boards.eu/q4`. */
export const searchTextSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.searchTextBytesMax });

export const namespaceSchema = checked(z.string(), namespaceProblem).meta({
  description: 'Segments with "." between them; the empty namespace is the root.',
});

/** What the items of a list look like that the list's own schema does not check: for descriptions. */
export const itemSchemas = new WeakMap<object, z.ZodType>();

/** A namespace as segments, which are joined. A segment may not contain the separator. */
export const segmentsSchema = z
  .array(z.string())
  .max(LIMITS.namespaceSegmentsMax)
  .transform((segments, ctx): string => {
    const joined = segmentsOrProblem(segments);
    if (typeof joined === 'string') return joined;
    ctx.addIssue({ code: 'custom', message: joined.problem });
    return z.NEVER;
  });

/** The joined namespace, or why the segments form no namespace. */
export function segmentsOrProblem(segments: readonly string[]): string | { problem: string } {
  try {
    return joinNamespace(segments);
  } catch (error) {
    if (error instanceof LeaseError) return { problem: error.message };
    throw error;
  }
}

export const tagSchema = textSchema({ bytesMax: LIMITS.tagBytesMax });
export const holderSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
export const reasonSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.reasonBytesMax });
export const idempotencyKeySchema = textSchema({
  bytesMin: 1,
  bytesMax: LIMITS.idempotencyKeyBytesMax,
});
/** In lower case, as the database answers them and as rows and maps are looked up. */
export const uuidSchema = z.uuid().toLowerCase();
export const leaseIdSchema = uuidSchema;
const fencingTokenSchema = z
  .string()
  .refine(isFencingToken, 'must be a decimal whole number from 0 to 9223372036854775807');
/** Ids of drones, backends and programs: they appear in logs, labels and command lines. */
export const idSchema = z
  .string()
  .regex(ID, 'must be 1 to 64 of a-z, 0-9 and "-", not at the ends');
export const datacenterSchema = z
  .string()
  .regex(DATACENTER_NAME, 'must be 1 to 32 of a-z, 0-9 and "-"');
/** Which datacenter to list: by default this controller's, or all that can be reached. */
export const anyDatacenterSchema = z.union([z.literal('all'), datacenterSchema]).optional();
/** A reading of a holder's own clock. */
export const localTimeMsSchema = z.number().nonnegative();
/** Digits of the fraction of a second: as many as RFC 3339 writers send. The database keeps milliseconds. */
const FRACTION_DIGITS_MAX = 9;

/** An instant on the wire: ISO-8601 in UTC. Parts finer than milliseconds are cut off. */
export const instantSchema = z.iso
  .datetime({ error: 'must be an ISO-8601 instant in UTC, such as 2030-01-31T12:00:00Z' })
  // The database has no year 0.
  .refine((text) => !text.startsWith('0000'), 'must be an instant after the year 0')
  .refine(
    (text) => text.length <= 'YYYY-MM-DDThh:mm:ss.Z'.length + FRACTION_DIGITS_MAX,
    `must have at most ${String(FRACTION_DIGITS_MAX)} digits after the seconds`,
  )
  // The database would round, at the end of the last year into one that is out of its range.
  .overwrite((text) => text.replace(/(\.\d{3})\d+/u, '$1'));
const WINDOW_MINUTES_MAX = 366 * 24 * 60;

/** The time up to now that a list is about. */
export const windowMinutesSchema = z.int().min(1).max(WINDOW_MINUTES_MAX);

/** Where the next page of a list begins, as the list answered it. */
export const cursorSchema = textSchema({ bytesMin: 1, bytesMax: 8_192 });
/** The name of an environment variable. */
export const envNameSchema = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_]{0,254}$/u,
    'must be letters, digits and "_", not beginning with a digit',
  );

/** A year. */
const ENDED_WITHIN_MS_MAX = 366 * 24 * 60 * 60 * 1_000;

/** Which part of a list is asked for. */
export const pageFields = {
  cursor: cursorSchema.optional(),
  limit: z.number().int().min(1).max(LIMITS.pageSizeMax).default(LIMITS.pageSizeDefault),
};

/** For a list without filters. */
export const pageInputSchema = z.strictObject(pageFields).prefault({});

const searchFields = { search: searchTextSchema.optional() };

/** For a list that can only be searched. */
export const searchInputSchema = z.strictObject({ ...searchFields, ...pageFields }).prefault({});

/** For the number of rows of such a list. */
export const searchCountInputSchema = z.strictObject(searchFields).prefault({});

/**
 * What an earlier answer reported about the database, sent back. Opaque, and ignored if it does not
 * come from this database.
 */
export const toldFields = { witness: textSchema({ bytesMax: LIMITS.witnessBytesMax }).optional() };

/** Where the request is to be carried out; by default in this controller's datacenter. */
export const placedFields = { datacenter: datacenterSchema.optional() };

export const grantRefSchema = z.strictObject({
  leaseId: leaseIdSchema,
  fencingToken: fencingTokenSchema,
});

/** Names a grant whose renewals are blocked or allowed. */
export const renewableInputSchema = z.strictObject({
  leaseId: leaseIdSchema,
  reason: reasonSchema.optional(),
  ...placedFields,
});

/** Filters that the lists of keys, leases and environments have in common. */
export const resourceFilterFields = {
  name: nameSchema.optional(),
  /** Only those whose name begins with this. */
  prefix: nameSchema.optional(),
  /** Only those whose name as it is printed, with its namespace, contains this, whatever its case. */
  contains: searchTextSchema.optional(),
  phase: z.enum(PHASES).optional(),
  /** Leaves out what nobody has held for longer than this. 0 keeps what is held now. */
  endedWithinMs: z.number().int().min(0).max(ENDED_WITHIN_MS_MAX).optional(),
  /** Only what somebody waits for, or what has expired and is not recorded yet. */
  is: z.enum(['waited', 'overdue']).optional(),
  /** Leaves out Leasehold's own leases. */
  withoutOwn: z.boolean().optional(),
  holder: holderSchema.optional(),
  /** Only the one whose newest grant this is. */
  leaseId: leaseIdSchema.optional(),
  datacenter: anyDatacenterSchema,
};

/** How those lists are ordered and cut into pages. */
export const resourcePageFields = {
  sort: z.enum(['name', 'grantedAt', 'expiresAt']).optional(),
  direction: z.enum(['asc', 'desc']).optional(),
  ...pageFields,
};

/** A wait of several calls goes on by its key. */
export function assertResumable(
  input: {
    readonly waitMs: number;
    readonly callMs?: number | undefined;
    readonly idempotencyKey?: string | undefined;
  },
  ctx: z.RefinementCtx,
): void {
  const { waitMs, callMs = LIMITS.waitMsMax, idempotencyKey } = input;
  if (waitMs <= callMs || idempotencyKey !== undefined) return;
  const message = 'must be given if waitMs is longer than one call takes';
  ctx.addIssue({ code: 'custom', path: ['idempotencyKey'], message });
}
