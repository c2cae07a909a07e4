/**
 * The configuration of a drone: its config file (which programs it offers, and how they are run) and the
 * environment (where the controllers are). Nothing else in this app reads either. All problems are
 * listed at once, before anything is started.
 */
import path from 'node:path';
import { datacenterSchema } from '@leasehold/api/contract';
import {
  droneMachineSchema,
  droneStateDir,
  readDroneFile,
  systemUsers,
  type CommandFields,
  type ContainerConfig,
  type ReadinessConfig,
  type UserIds,
  type UserSources,
} from '@leasehold/api/drone-file';
import { LeaseError } from '@leasehold/keys-core';
import { parseEnvironment, type Environment } from '@leasehold/service-kit';
import { controllerUrls, logLevel } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { isInside } from './warden/program-files.ts';

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

/** The variables that a drone reads. */
export const DRONE_VARIABLES = Object.keys({
  ...environmentSchema.shape,
  ...droneMachineSchema.shape,
});

/** A program of this machine, as the drone runs it. */
export interface CommandConfig extends Omit<CommandFields, 'cwd' | 'user'> {
  /** Null: none is configured, and the folder of the config file is hidden from programs. */
  readonly cwd: string | null;
  /** The user it runs as, under a drone that may change users. */
  readonly user: UserIds;
  /** Whether the configuration names that user: then it runs as no other. */
  readonly isUserNamed: boolean;
}
export type ProgramConfig = CommandConfig | ContainerConfig;
export type { ContainerConfig, ReadinessConfig };

/** What the agent needs of a logger, whose level the configuration has; pino's shape. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

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
  const read = readDroneFile({ file, environment, system });
  if (given.outcome === 'invalid' || read.outcome === 'invalid') {
    throw invalid([given, read].flatMap((one) => (one.outcome === 'valid' ? [] : one.problems)));
  }
  const env = given.values;
  const { userOf, ...parsed } = read.values;
  const controllerUrls = parsed.controllerUrls ?? env.LEASEHOLD_URL;
  if (controllerUrls === undefined) {
    throw invalid(['LEASEHOLD_URL: is required, or `controllerUrls` in the config file']);
  }
  const home = path.resolve(env.LEASEHOLD_HOME);
  const stateDir = droneStateDir(parsed, home);
  const folder = path.resolve(path.dirname(file));
  const isHidden = [home, stateDir].some((own) => folder === own || isInside(folder, own));
  const programs = Object.entries(parsed.programs).map(
    ([name, program]): [string, ProgramConfig] => {
      if (program.kind === 'container') return [name, program];
      const { cwd, user, ...rest } = program;
      return [
        name,
        {
          ...rest,
          cwd: cwd === undefined && isHidden ? null : path.resolve(folder, cwd ?? '.'),
          user: userOf(name),
          isUserNamed: user !== undefined,
        },
      ];
    },
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
