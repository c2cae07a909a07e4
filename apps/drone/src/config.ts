/**
 * The configuration of a drone: its config file (which programs it offers, and how they are run) and the
 * environment (where the controllers are). Nothing else in this app reads either. All problems are
 * listed at once, before anything is started.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { datacenterSchema, envNameSchema, idSchema } from '@leasehold/api/contract';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { parseEnvironment, type Environment, type ParsedEnvironment } from '@leasehold/service-kit';
import { controllerUrlArray, controllerUrls, logLevel } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { isForbiddenEnvName } from './agent/backend/backend-env.ts';
import { systemUsers, usersOf, type UserSources } from './program-users.ts';
import { USER_NUMBER_MAX, type UserIds } from './warden/link/protocol.ts';
import { isInside } from './warden/view.ts';

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

/**
 * How far programs must be kept from the drone. `namespaces`: PID and mount namespaces, a private /proc
 * and no new privileges. `own-user`: users of their own besides.
 */
export const ISOLATION_LEVELS = ['none', 'namespaces', 'own-user'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

const portSchema = z.number().int().min(1).max(65_535);
const durationMsSchema = z
  .number()
  .int()
  .min(1)
  .max(24 * 60 * 60 * 1_000);
/** The chain that starts a program would take a command of the form `NAME=value` for a variable. */
const commandSchema = z
  .string()
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

const userNumberSchema = z.number().int().min(1).max(USER_NUMBER_MAX);

const programSchema = z.strictObject({
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
  args: z.array(z.string()).max(LIMITS.backendArgsMax).default([]),
  env: z.record(envNameSchema, z.string()).default({}),
  /**
   * Relative to the folder of the config file, which is also the default; where that folder is
   * hidden from programs, the default is the program's folder of data.
   */
  cwd: z.string().min(1).optional(),
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
});

const rangeOf = (numberSchema: z.ZodNumber) =>
  z
    .strictObject({ from: numberSchema, to: numberSchema })
    .refine(({ from, to }) => from <= to, 'from must not be greater than to');

/** The configuration file of a drone. */
export const fileSchema = z.strictObject({
  droneId: idSchema,
  controllerUrls: controllerUrlArray.optional(),
  stateDir: z.string().min(1).optional(),
  capacity: z.number().int().min(0).max(100_000).default(100),
  /** Where backends listen and are reached. */
  host: z.string().min(1).max(200).default('127.0.0.1'),
  ports: rangeOf(portSchema).default({ from: 21_000, to: 29_999 }),
  /** The users of programs that name none. */
  users: rangeOf(userNumberSchema).optional(),
  /** What the machine must provide, or the drone does not start. */
  isolation: z
    .strictObject({ require: z.enum(ISOLATION_LEVELS).default('none') })
    .default({ require: 'none' }),
  programs: z
    .record(idSchema, programSchema)
    .refine(
      (programs) => Object.keys(programs).length <= LIMITS.programsPerDroneMax,
      `must be at most ${String(LIMITS.programsPerDroneMax)}`,
    ),
});

/** The variables that a drone reads, besides those of tracing. */
export const environmentSchema = z.object({
  LEASEHOLD_URL: controllerUrls.optional(),
  LEASEHOLD_TOKEN: z
    .string({
      error:
        'is required: the token of this drone (`leasehold tokens create --role drone --drone ID`)',
    })
    .regex(/^lh_[A-Za-z0-9_-]{16,}$/u, 'must be a token that begins with lh_'),
  LEASEHOLD_DATACENTER: datacenterSchema.default('local'),
  LEASEHOLD_HOME: z.string().min(1).default('.leasehold'),
  LEASEHOLD_LOG_LEVEL: logLevel,
});

/** A program as the drone runs it. */
export interface ProgramConfig extends Omit<z.infer<typeof programSchema>, 'cwd' | 'user'> {
  /** Null: none is configured, and the folder of the config file is hidden from programs. */
  readonly cwd: string | null;
  /** The user it runs as, under a drone that may change users. */
  readonly user: UserIds;
  /** Whether the configuration names that user: then it runs as no other. */
  readonly isUserNamed: boolean;
}
export type ReadinessConfig = z.infer<typeof readinessSchema>;

type DroneFile = Readonly<z.infer<typeof fileSchema>>;
export type DroneConfig = Readonly<ReturnType<typeof loadDroneConfig>>;

/** The environment of this process: the one place that reads it. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads the config file and the environment.
 * @throws {LeaseError} `config.invalid`, with every problem in `details.problems`.
 */
export function loadDroneConfig(
  file: string,
  environment: Environment,
  system: UserSources = systemUsers(),
) {
  const given = parseEnvironment(environmentSchema, environment);
  const read = readConfigFile(file);
  if (given.outcome === 'invalid' || read.outcome === 'invalid') {
    throw invalid([given, read].flatMap((one) => (one.outcome === 'valid' ? [] : one.problems)));
  }
  const env = given.values;
  const parsed = read.values;
  const controllerUrls = parsed.controllerUrls ?? env.LEASEHOLD_URL;
  if (controllerUrls === undefined) {
    throw invalid(['LEASEHOLD_URL: is required, or `controllerUrls` in the config file']);
  }
  const home = path.resolve(env.LEASEHOLD_HOME);
  const stateDir = path.resolve(parsed.stateDir ?? path.join(home, 'drones', parsed.droneId));
  const users = usersOf(parsed, system);
  if (users.problems.length > 0) {
    throw invalid(users.problems.map((problem) => `${file}: ${problem}`));
  }
  const folder = path.resolve(path.dirname(file));
  const isHidden = [home, stateDir].some((own) => folder === own || isInside(folder, own));
  const programs = Object.entries(parsed.programs).map(
    ([name, { cwd, user, ...program }]): [string, ProgramConfig] => [
      name,
      {
        ...program,
        cwd: cwd === undefined && isHidden ? null : path.resolve(folder, cwd ?? '.'),
        user: users.of(name),
        isUserNamed: user !== undefined,
      },
    ],
  );
  return {
    ...parsed,
    datacenter: env.LEASEHOLD_DATACENTER,
    /** One is kept as long as it answers, and the next is tried when it does not. */
    controllerUrls,
    token: env.LEASEHOLD_TOKEN,
    stateDir,
    /** `LEASEHOLD_HOME`: hidden from programs, if it is there. */
    home,
    /** The file that this was read from. */
    file: path.resolve(file),
    programs: Object.fromEntries(programs),
    logLevel: env.LEASEHOLD_LOG_LEVEL,
  };
}

function invalid(problems: readonly string[]): LeaseError {
  const list = problems.map((problem) => `  ${problem}`).join('\n');
  return new LeaseError('config.invalid', `The drone's configuration is not valid:\n${list}`, {
    details: { problems },
  });
}

function readConfigFile(file: string): ParsedEnvironment<DroneFile> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const why = error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'cannot be read';
    return { outcome: 'invalid', problems: [`${file}: ${why}`] };
  }
  const parsed = fileSchema.safeParse(content);
  if (parsed.success) return { outcome: 'valid', values: parsed.data };
  const problems = parsed.error.issues.map((issue) => {
    const place = issue.path.map(String).join('.');
    return `${file}: ${place === '' ? '(whole file)' : place}: ${issue.message}`;
  });
  return { outcome: 'invalid', problems };
}
