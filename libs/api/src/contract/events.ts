import { z } from 'zod';
import { EVENT_KINDS, FACES } from '@leasehold/keys-core';
import {
  anyDatacenterSchema,
  cursorSchema,
  instantSchema,
  leaseIdSchema,
  limitSchema,
  nameSchema,
  namespaceSchema,
  textSchema,
} from './common.ts';

const eventIdSchema = textSchema({ bytesMin: 1, bytesMax: 64 });

export const eventWatchInputSchema = z
  .strictObject({
    /** The id of an event to continue after. `oldest` or `0`: from the oldest event that is kept. */
    afterId: eventIdSchema.optional(),
    /** What a client sends by itself when it reconnects; it is newer than `afterId`. */
    lastEventId: eventIdSchema.optional(),
    face: z.enum(FACES).optional(),
    /** This one and its children. */
    namespace: namespaceSchema.optional(),
    name: nameSchema.optional(),
    kinds: z.array(z.enum(EVENT_KINDS)).max(EVENT_KINDS.length).optional(),
  })
  .prefault({});

export const eventListInputSchema = z
  .strictObject({
    face: z.enum(FACES).optional(),
    /** This one and its children. */
    namespace: namespaceSchema.optional(),
    name: nameSchema.optional(),
    kinds: z.array(z.enum(EVENT_KINDS)).max(EVENT_KINDS.length).optional(),
    leaseId: leaseIdSchema.optional(),
    /** Only what came after the event with this id. */
    afterId: eventIdSchema.optional(),
    /** Inclusive. */
    from: instantSchema.optional(),
    /** Exclusive. */
    to: instantSchema.optional(),
    /** By default newest first. */
    direction: z.enum(['asc', 'desc']).optional(),
    datacenter: anyDatacenterSchema,
    cursor: cursorSchema.optional(),
    limit: limitSchema,
  })
  .refine((input) => input.datacenter !== 'all' || input.afterId === undefined, {
    message: 'is of the events of one datacenter, and not of all',
    path: ['afterId'],
  })
  .prefault({});
