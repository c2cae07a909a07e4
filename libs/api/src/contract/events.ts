import { EVENT_KINDS, FACES, FOUND_KINDS, LIMITS } from '@leasehold/keys-core';
import { z } from 'zod';
import {
  anyDatacenterSchema,
  instantSchema,
  leaseIdSchema,
  nameSchema,
  namespaceSchema,
  pageFields,
  textSchema,
  windowMinutesSchema,
} from './common.ts';

const eventIdSchema = textSchema({ bytesMin: 1, bytesMax: 64 });

const filterFields = {
  face: z.enum(FACES).optional(),
  /** This one and its children. */
  namespace: namespaceSchema.optional(),
  name: nameSchema.optional(),
  /** By default all but `renewal_refused` and `crash_loop`, which have to be named. */
  kinds: z.array(z.enum(EVENT_KINDS)).max(EVENT_KINDS.length).optional(),
};

export const eventWatchInputSchema = z
  .strictObject({
    /** The id of an event to continue after. `oldest` or `0`: from the oldest event that is kept. */
    afterId: eventIdSchema.optional(),
    /** What a client sends by itself when it reconnects; it is newer than `afterId`. */
    lastEventId: eventIdSchema.optional(),
    ...filterFields,
  })
  .prefault({});

/** Names a key, a lease or an environment. */
export const observeInputSchema = z.strictObject({
  face: z.enum(FACES).default('lease'),
  namespace: namespaceSchema.default(''),
  name: nameSchema,
});

export const refusalListInputSchema = z
  .strictObject({
    face: z.enum(FACES).optional(),
    /** This one and its children; this one alone where a name is given. */
    namespace: namespaceSchema.optional(),
    name: nameSchema.optional(),
    /** The code of an error, or `held`. */
    code: textSchema({ bytesMin: 1, bytesMax: 64 }).optional(),
    /** Inclusive. */
    from: instantSchema.optional(),
    /** Exclusive. */
    to: instantSchema.optional(),
    /** Only those of the last so many minutes of the database's clock. */
    windowMinutes: windowMinutesSchema.optional(),
    datacenter: anyDatacenterSchema,
    ...pageFields,
  })
  .prefault({});

const listFields = {
  ...filterFields,
  leaseId: leaseIdSchema.optional(),
  /** Inclusive. */
  from: instantSchema.optional(),
  /** Exclusive. */
  to: instantSchema.optional(),
  /** Only what happened in the last so many minutes of the database's clock. */
  windowMinutes: windowMinutesSchema.optional(),
  datacenter: anyDatacenterSchema,
};

export const eventCountInputSchema = z.strictObject(listFields).prefault({});

export const eventListInputSchema = z
  .strictObject({
    ...listFields,
    /** Only what came after the event with this id. */
    afterId: eventIdSchema.optional(),
    /** By default newest first. */
    direction: z.enum(['asc', 'desc']).optional(),
    ...pageFields,
  })
  .refine((input) => input.datacenter !== 'all' || input.afterId === undefined, {
    message: 'is of the events of one datacenter, and not of all',
    path: ['afterId'],
  })
  .prefault({});

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
