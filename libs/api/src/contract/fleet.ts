/** Drones and backends: what drones send, and what people look at and do. */
import { z } from 'zod';
import {
  BACKEND_SORTS,
  BACKEND_STATUSES,
  DRONE_SORTS,
  DRONE_STATUSES,
  LIMITS,
  TERMINATION_REASONS,
} from '@leasehold/keys-core';
import {
  anyDatacenterSchema,
  datacenterSchema,
  envNameSchema,
  idSchema,
  localTimeMsSchema,
  nameSchema,
  namespaceSchema,
  pageFields,
  placedFields,
  reasonSchema,
  searchTextSchema,
  textSchema,
  toldFields,
  uuidSchema,
} from './common.ts';
import { idleStopSchema, lifetimeSchema } from './keys.ts';

/** The name of a container image. */
const imageSchema = textSchema({ bytesMin: 1, bytesMax: 512 });

/** What a drone reports about a program that it offers; the command line stays in its own config. */
const offeredProgramSchema = z.strictObject({
  name: idSchema,
  allowArgs: z.boolean().default(false),
  /** Names of environment variables that a request may set. */
  allowEnv: z.array(envNameSchema).max(LIMITS.backendEnvMax).default([]),
  /** The image of a program that is a container; left out for a command of the machine. */
  image: imageSchema.optional(),
  /** The most that a request gets. */
  lifetimeLimitSeconds: lifetimeSchema.optional(),
  /** For requests that name none. */
  idleStopSeconds: idleStopSchema.optional(),
});

/** What keeps the programs of a drone from the drone itself, as its machine provides it. */
const droneIsolationSchema = z.strictObject({
  user: z.enum(['own', 'shared']),
  pidNamespace: z.boolean(),
  privateProc: z.boolean(),
  hiddenHome: z.boolean(),
  noNewPrivs: z.boolean(),
  detail: textSchema({ bytesMax: 1_024 }),
});

export const sessionInputSchema = z.strictObject({
  droneId: idSchema,
  clockId: uuidSchema,
  datacenter: datacenterSchema,
  programs: z
    .array(offeredProgramSchema)
    .max(LIMITS.programsPerDroneMax)
    .refine(
      (programs) => new Set(programs.map(({ name }) => name)).size === programs.length,
      'must name each program once',
    ),
  version: textSchema({ bytesMin: 1, bytesMax: 64 }),
  /** The most backends that the drone runs at once. */
  capacity: z.number().int().min(0).max(LIMITS.capacityMax),
  /** The folder on the drone's machine with its backends' output, for people who look for it. */
  logFolder: textSchema({ bytesMin: 1, bytesMax: 1_024 }).optional(),
  /** Left out by a drone that does not know yet: its warden does not answer. */
  isolation: droneIsolationSchema.optional(),
  ...toldFields,
});

const fromSession = {
  droneId: idSchema,
  clockId: uuidSchema,
  session: z.number().int().positive(),
};

const bytesSchema = z.number().int().nonnegative();
/** More than any machine has. */
const PROCESSORS_MAX = 65_536;
/** A drone with more backends reports those that use the most memory. */
const USAGES_MAX = 500;

export const heartbeatInputSchema = z.strictObject({
  ...fromSession,
  localTimeMs: localTimeMsSchema,
  /** What its backends use, when it has looked again; every ten seconds or so. */
  usage: z
    .array(
      z.strictObject({
        backendId: idSchema,
        memoryBytes: bytesSchema,
        /** Processors in use; left out until it has looked twice. */
        cpus: z.number().nonnegative().max(PROCESSORS_MAX).optional(),
      }),
    )
    .max(USAGES_MAX)
    .optional(),
  load: z.strictObject({
    backends: z.number().int().nonnegative(),
    /** How much of its machine is in use, by all that runs there. */
    machine: z
      .strictObject({
        cpuShare: z.number().nonnegative().max(1),
        processors: z.number().int().positive().max(PROCESSORS_MAX),
        memoryUsedBytes: bytesSchema,
        memoryBytes: bytesSchema,
        diskUsedBytes: bytesSchema,
        diskBytes: bytesSchema,
      })
      .optional(),
    /** How long the previous heartbeat took until it was answered; left out if it was not. */
    roundTripMs: z.number().nonnegative().optional(),
    /** Of each program that should have warm processes; left out by a drone without such programs. */
    warm: z
      .array(
        z.strictObject({
          program: idSchema,
          /** Warm processes that a connect may claim. */
          count: z.number().int().nonnegative().max(LIMITS.capacityMax),
          /** As its configuration has it. */
          wanted: z.number().int().positive().max(LIMITS.capacityMax),
          /** What was wrong with the last that failed; null once the present ones have been well for a while. */
          problem: textSchema({ bytesMax: 1_024, isControlAllowed: true }).nullable(),
        }),
      )
      .max(LIMITS.programsPerDroneMax)
      .optional(),
    /** Its container engine, if it has programs that are containers. */
    engine: z
      .strictObject({
        /** Why it cannot be used; null when it answers. */
        problem: textSchema({ bytesMax: 1_024, isControlAllowed: true }).nullable(),
      })
      .optional(),
  }),
  ...toldFields,
});

/** A drone stops, and takes nothing more until its next session. */
export const goodbyeInputSchema = z.strictObject(fromSession);

export const ackInputSchema = z.strictObject({
  ...fromSession,
  actionId: z.string().regex(/^\d{1,18}$/u, 'must be the id of an action'),
});

export const reportInputSchema = z.strictObject({
  ...fromSession,
  backendId: idSchema,
  status: z.enum(BACKEND_STATUSES),
  reason: z.enum(TERMINATION_REASONS).optional(),
  /** `host:port`, once the backend listens. */
  address: textSchema({ bytesMin: 1, bytesMax: 255 }).optional(),
  /** As the operating system reports it: a signed 32-bit number. */
  exitCode: z.int32().optional(),
  detail: textSchema({ bytesMax: 1_024, isControlAllowed: true }).optional(),
  /** The image that a container is made of; once it is reported, it stays. */
  image: imageSchema.optional(),
  /** The spawn was never acted on and never will be. Accepted only while the backend is scheduled. */
  refused: z.boolean().optional(),
  /** Some process of it was there when its key had run out. */
  hasOutlivedKey: z.boolean().optional(),
  /** The last lines that it wrote, of a backend that ended without being asked to. */
  output: textSchema({ bytesMax: 8_192, isControlAllowed: true }).optional(),
});

/** What a drone answers to a question about a backend's output. */
export const answerInputSchema = z.strictObject({
  ...fromSession,
  questionId: uuidSchema,
  page: z.strictObject({
    backendId: idSchema,
    lines: z
      .array(
        z.strictObject({
          at: z.iso.datetime(),
          stream: z.enum(['stdout', 'stderr']),
          text: textSchema({ bytesMax: 32_768, isControlAllowed: true }),
        }),
      )
      .max(1_000),
    from: z.number().int().nonnegative(),
    position: z.number().int().nonnegative(),
    hasMore: z.boolean(),
    isThere: z.boolean(),
    hasEnded: z.boolean(),
  }),
});

export const droneIdInputSchema = z.strictObject({ droneId: idSchema, ...placedFields });

const droneFilterFields = {
  status: z.enum(DRONE_STATUSES).optional(),
  program: idSchema.optional(),
  /** A part of the drone's id, in any case. */
  search: searchTextSchema.optional(),
  datacenter: anyDatacenterSchema,
};

export const droneListInputSchema = z
  .strictObject({
    ...droneFilterFields,
    ...pageFields,
    /** By default the id. What they use begins with the most. */
    sort: z.enum(DRONE_SORTS).optional(),
    direction: z.enum(['asc', 'desc']).optional(),
  })
  .prefault({});

export const droneCountInputSchema = z.strictObject(droneFilterFields).prefault({});

export const droneActInputSchema = z.strictObject({
  droneId: idSchema,
  reason: reasonSchema.optional(),
  ...placedFields,
});

/** Without a datacenter: nobody is an administrator in another one. */
export const droneRemoveInputSchema = droneActInputSchema.omit({ datacenter: true });

export const droneDrainInputSchema = droneActInputSchema.extend({
  /** Also asks its backends to stop, each with the grace of its program. */
  stop: z.boolean().optional(),
});

export const backendIdInputSchema = z.strictObject({ backendId: idSchema });

export const backendGetInputSchema = backendIdInputSchema.extend(placedFields);

const logFields = {
  backendId: idSchema,
  /** Where to begin, in bytes from the beginning of the output: `position` of an earlier page. */
  from: z.number().int().nonnegative().optional(),
  /** The last lines only; 0 for what comes from now on. */
  tail: z.number().int().nonnegative().max(100_000).optional(),
  /** Only what is not older than this, by the drone's own clock. */
  sinceMs: z.number().int().positive().max(31_536_000_000).optional(),
  ...placedFields,
};

export const backendLogsInputSchema = z.strictObject(logFields);

export const backendFollowLogsInputSchema = z.strictObject({
  ...logFields,
  /** Set by a client that reconnects: the position after the last page that it has. */
  lastEventId: z
    .string()
    .regex(/^\d{1,15}$/u, 'must be the id of a page')
    .optional(),
});

const backendFilterFields = {
  droneId: idSchema.optional(),
  status: z.enum(BACKEND_STATUSES).optional(),
  /** Only backends that have not terminated. */
  live: z.boolean().optional(),
  program: idSchema.optional(),
  /** With a `name` that of the key; else its children are included. */
  namespace: namespaceSchema.optional(),
  name: nameSchema.optional(),
  datacenter: anyDatacenterSchema,
};

export const backendListInputSchema = z
  .strictObject({
    ...backendFilterFields,
    ...pageFields,
    /**
     * By default when they were started, newest first. By what they use: only running ones whose drones report it, and
     * those that use the most first.
     */
    sort: z.enum(BACKEND_SORTS).optional(),
    direction: z.enum(['asc', 'desc']).optional(),
  })
  .prefault({});

export const backendCountInputSchema = z.strictObject(backendFilterFields).prefault({});

export const backendTerminateInputSchema = z.strictObject({
  backendId: idSchema,
  mode: z.enum(['soft', 'hard']),
  reason: reasonSchema.optional(),
  ...placedFields,
});
