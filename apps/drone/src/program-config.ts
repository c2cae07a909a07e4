/** The programs of a drone's config file: commands of this machine, and containers. */
import { envNameSchema } from '@leasehold/api/contract';
import { LIMITS } from '@leasehold/keys-core';
import { z } from 'zod';
import { isForbiddenEnvName } from './agent/backend/backend-env.ts';
import { containerFields, sizeSchema } from './container-config.ts';
import { USER_NUMBER_MAX } from './warden/link/protocol.ts';

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

export const portSchema = z.number().int().min(1).max(65_535);
const durationMsSchema = z
  .number()
  .int()
  .min(1)
  .max(24 * 60 * 60 * 1_000);
/** The chain that starts a program would take a command of the form `NAME=value` for a variable. */
const commandSchema = z
  .string('must be a text: the `command` of a program, unless it has the `image` of a container')
  .min(1)
  .refine((value) => !value.includes('\0') && !value.includes('='), 'must not contain NUL or "="');

const probeFields = {
  timeoutMs: durationMsSchema.default(300_000),
  intervalMs: durationMsSchema.default(100),
};
const readinessSchema = z
  .discriminatedUnion('type', [
    /** Ready as soon as it runs: for programs that take no connections. */
    z.strictObject({ type: z.literal('none'), ...probeFields }),
    z.strictObject({ type: z.literal('tcp'), ...probeFields }),
    z.strictObject({
      type: z.literal('http'),
      path: z.string().startsWith('/').default('/'),
      ...probeFields,
    }),
  ])
  .default({ type: 'tcp', timeoutMs: 300_000, intervalMs: 100 });

export const userNumberSchema = z.number().int().min(1).max(USER_NUMBER_MAX);

/** What every program has. */
const commonFields = {
  args: z.array(z.string()).max(LIMITS.backendArgsMax).default([]),
  env: z.record(envNameSchema, z.string()).default({}),
  port: z.union([z.literal('auto'), portSchema]).default('auto'),
  readiness: readinessSchema,
  stopSignal: z.enum(STOP_SIGNALS).default('SIGTERM'),
  stopGraceMs: durationMsSchema.default(10_000),
  /** How many backends of this program run at once at most. */
  resources: z.strictObject({ instancesMax: z.number().int().min(1) }).optional(),
  allowArgs: z.boolean().default(false),
  allowEnv: z
    .array(
      envNameSchema.refine(
        (name) => !isForbiddenEnvName(name),
        'is set by Leasehold or makes a program load code, and cannot be allowed',
      ),
    )
    .max(LIMITS.backendEnvMax)
    .default([]),
};

const commandProgramSchema = z.strictObject({
  command: commandSchema,
  /** The user it runs as, under a drone that runs as root; by default one of `users`. */
  user: z
    .union([
      userNumberSchema,
      z
        .string()
        .regex(
          /^(?:[a-z_][a-z0-9_-]{0,31}|\d{1,10}(?::\d{1,10})?)$/u,
          'must be a name, a number, or two numbers as `uid:gid`',
        ),
    ])
    .optional(),
  /**
   * Relative to the folder of the config file, which is also the default; where that folder is
   * hidden from programs, the default is the program's folder of data.
   */
  cwd: z.string().min(1).optional(),
  /** What one backend may use, all of its processes together. */
  memoryMax: sizeSchema.default('2g'),
  /** Processes and threads of one backend. */
  pidsMax: z.number().int().min(1).max(4_194_304).default(1_024),
  /** Processors of one backend; a fraction is allowed. By default as many as there are. */
  cpuMax: z.number().min(0.01).max(1_024).optional(),
  /** The length of each file that it writes. */
  fileSizeMax: sizeSchema.default('16g'),
  ...commonFields,
});

const containerProgramSchema = z.strictObject({ ...containerFields, ...commonFields });

export type CommandFields = { readonly kind: 'command' } & z.infer<typeof commandProgramSchema>;
/** A container as the drone runs it. */
export type ContainerConfig = { readonly kind: 'container' } & z.infer<
  typeof containerProgramSchema
>;
export type ReadinessConfig = z.infer<typeof readinessSchema>;

/** A program with an `image` is a container. Its problems are reported as that kind's alone. */
export const programSchema = z
  .unknown()
  .transform((given, context): CommandFields | ContainerConfig => {
    const isContainer = typeof given === 'object' && given !== null && 'image' in given;
    const read = isContainer
      ? containerProgramSchema.transform((program) => ({ kind: 'container' as const, ...program }))
      : commandProgramSchema.transform((program) => ({ kind: 'command' as const, ...program }));
    const parsed = read.safeParse(given);
    if (parsed.success) return parsed.data;
    for (const { message, path } of parsed.error.issues) {
      context.issues.push({ code: 'custom', message, path: [...path], input: given });
    }
    return z.NEVER;
  });
