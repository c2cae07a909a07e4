/**
 * The configuration of a drone: its config file (which programs it offers, and how they are run) and the
 * environment (where the controllers are). Nothing else in this app reads either. All problems are
 * listed at once, before anything is started.
 */
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { datacenterSchema, idSchema } from '@leasehold/api/contract';
import { LeaseError, LIMITS } from '@leasehold/keys-core';
import { parseEnvironment, type Environment, type ParsedEnvironment } from '@leasehold/service-kit';
import { controllerUrlArray, controllerUrls, logLevel } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import {
  portSchema,
  programSchema,
  userNumberSchema,
  type CommandFields,
  type ContainerConfig,
  type ReadinessConfig,
} from './program-config.ts';
import { systemUsers, usersOf, type UserSources } from './program-users.ts';
import type { UserIds } from './warden/link/protocol.ts';
import { isInside } from './warden/view.ts';

/**
 * How far programs must be kept from the drone. `namespaces`: PID and mount namespaces, a private /proc
 * and no new privileges. `own-user`: users of their own besides.
 */
export const ISOLATION_LEVELS = ['none', 'namespaces', 'own-user'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

const rangeOf = (numberSchema: z.ZodNumber) =>
  z
    .strictObject({ from: numberSchema, to: numberSchema })
    .refine(({ from, to }) => from <= to, 'from must not be greater than to');

const fileSchema = z.strictObject({
  droneId: z.string('is required, here or as LEASEHOLD_DRONE_ID').pipe(idSchema),
  controllerUrls: controllerUrlArray.optional(),
  stateDir: z.string().min(1).optional(),
  capacity: z.number().int().min(0).max(100_000).default(100),
  /** Where backends listen and are reached. */
  host: z.string().min(1).max(200).default('127.0.0.1'),
  ports: rangeOf(portSchema).default({ from: 21_000, to: 29_999 }),
  /** The users of programs that name none. */
  users: rangeOf(userNumberSchema).optional(),
  /** The container engine, for programs that are containers. */
  engine: z
    .strictObject({
      socket: z
        .string()
        .regex(/^\/[^\0]*$/u, 'must be the absolute path of a socket')
        .default('/var/run/docker.sock'),
    })
    .prefault({}),
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

const environmentSchema = z.object({
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

/** What differs between machines that share a config file; the file itself comes first. */
const machineSchema = z.object({
  /** May be the name of a machine: an id has no dots. */
  LEASEHOLD_DRONE_ID: z
    .string()
    .transform((name) => name.replaceAll('.', '-'))
    .pipe(idSchema)
    .optional(),
  LEASEHOLD_DRONE_HOST: z.string().max(200, 'must have at most 200 characters').optional(),
});

/** The variables that a drone reads. */
export const DRONE_VARIABLES = Object.keys({ ...environmentSchema.shape, ...machineSchema.shape });

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
  const machine = parseEnvironment(machineSchema, environment);
  const read = readConfigFile(file, machine.outcome === 'valid' ? ofMachine(machine.values) : {});
  if (given.outcome === 'invalid' || machine.outcome === 'invalid' || read.outcome === 'invalid') {
    throw invalid(
      [given, machine, read].flatMap((one) => (one.outcome === 'valid' ? [] : one.problems)),
    );
  }
  const env = given.values;
  const parsed = read.values;
  const controllerUrls = parsed.controllerUrls ?? env.LEASEHOLD_URL;
  if (controllerUrls === undefined) {
    throw invalid(['LEASEHOLD_URL: is required, or `controllerUrls` in the config file']);
  }
  const home = path.resolve(env.LEASEHOLD_HOME);
  const stateDir = path.resolve(parsed.stateDir ?? path.join(home, 'drones', parsed.droneId));
  const commands = Object.entries(parsed.programs).flatMap(([name, program]) =>
    program.kind === 'command' ? [[name, program] as const] : [],
  );
  const users = usersOf({ ...parsed, programs: Object.fromEntries(commands) }, system);
  const problems = [...users.problems, ...networkProblems(parsed)];
  if (problems.length > 0) throw invalid(problems.map((problem) => `${file}: ${problem}`));
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
          user: users.of(name),
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

/** A published port is bound to an address, and a name has none of its own. */
function networkProblems({ host, programs }: DroneFile): string[] {
  if (net.isIP(host) !== 0) return [];
  return Object.entries(programs).flatMap(([name, program]) =>
    program.kind === 'container' && program.network === 'bridge'
      ? [`host: must be an IP address, because programs.${name} publishes its port on it`]
      : [],
  );
}

function invalid(problems: readonly string[]): LeaseError {
  const list = problems.map((problem) => `  ${problem}`).join('\n');
  return new LeaseError('config.invalid', `The drone's configuration is not valid:\n${list}`, {
    details: { problems },
  });
}

const fieldsSchema = z.record(z.string(), z.unknown());

/** As the config file has it. */
function ofMachine(machine: z.infer<typeof machineSchema>): object {
  const { LEASEHOLD_DRONE_ID: droneId, LEASEHOLD_DRONE_HOST: host } = machine;
  return { ...(droneId === undefined ? {} : { droneId }), ...(host === undefined ? {} : { host }) };
}

function readConfigFile(file: string, machine: object): ParsedEnvironment<DroneFile> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const why = error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'cannot be read';
    return { outcome: 'invalid', problems: [`${file}: ${why}`] };
  }
  const fields = fieldsSchema.safeParse(content);
  const parsed = fileSchema.safeParse(fields.success ? { ...machine, ...fields.data } : content);
  if (parsed.success) return { outcome: 'valid', values: parsed.data };
  const problems = parsed.error.issues.map((issue) => {
    const place = issue.path.map(String).join('.');
    return `${file}: ${place === '' ? '(whole file)' : place}: ${issue.message}`;
  });
  return { outcome: 'invalid', problems };
}
